"""Few labels on vectors of a pretrained network: SparLow and its rivals, a row for each set, number, draw and method.

    SPARLOW_DATA=<folder> python -m benchmarks.few_labels lite0.onnx [--sets caltech101 …] [--labels 1 2 5 10 15 30]
    python -m benchmarks.few_labels --table caltech101

``python -m evidence.networks lite0.onnx`` writes the network. For each draw some samples of each class have a label.
The samples to be told are others: up to 30 of each class, 100 where there are fewer than 20 classes. They are there
while sda, slap, smvr and label spreading learn, without their labels. Settings are chosen on a third of the labelled
samples, or are the usual ones where a class has a single label. SparLow has at most 200 atoms and makes no joint steps.
A method in small letters is the classical one, without codes. Seconds are CPU seconds of choosing, learning and
telling, on one thread.
"""

import argparse
import json
import pathlib
import time
import warnings

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.preprocessing import normalize
from sklearn.semi_supervised import LabelSpreading
from sklearn.svm import SVC

from evidence.networks import SETS, vectors
from sparlow import SparLow, TraceQuotient

RESULTS = pathlib.Path(__file__).parent / "results" / "few_labels.jsonl"
LABELS, DRAWS = (1, 2, 5, 10, 15, 30), (0, 1, 2)
SEMI = ("sda", "slap", "smvr")
FEWEST = {"mfa": 2, "slap": 2, "lda": 2, "LDA": 2}  # labels that a class must have
GRIDS = {
    "logistic regression": (lambda C: LogisticRegression(C=C, max_iter=200), (1.0, 10.0, 100.0)),
    "ridge": (lambda alpha: RidgeClassifier(alpha), (1.0, 0.1, 10.0)),
    "SVM": (lambda C: SVC(C=C, kernel="linear"), (1.0, 10.0, 100.0)),
}
PLAIN = {
    "LDA": lambda: LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
    "nearest mean": NearestCentroid,
    "1NN": lambda: KNeighborsClassifier(1),
}
METHODS = (
    *("SparLow sda", "logistic regression", "label spreading", "1NN", "nearest mean", "SparLow lda", "ridge", "SVM"),
    *("LDA", "sda", "lda", "SparLow smvr", "smvr", "SparLow slap", "slap", "SparLow mfa", "mfa"),
)


def drawn(y, count, seed):
    """Return the rows that have a label, and those to be told."""
    most, rng = (30 if len(np.unique(y)) >= 20 else 100), np.random.default_rng(seed)
    orders = [rng.permutation(np.flatnonzero(y == c)) for c in np.unique(y)]
    parts = [order[:count] for order in orders], [order[count : count + most] for order in orders]
    return tuple(np.sort(np.concatenate(part)) for part in parts)


def chosen(make, settings, X, y):
    """Return an estimator with the setting that is best on a third of the samples; the middle one for one label."""
    if np.bincount(y).min() < 2:
        return make(sorted(settings)[1])
    held = max(len(y) // 3, len(np.unique(y)))
    train, test = next(StratifiedShuffleSplit(1, test_size=held, random_state=0).split(X, y))

    def score(value):
        model = make(value).fit(X[train], y[train])
        if hasattr(model, "predict_proba"):
            return -log_loss(y[test], model.predict_proba(X[test]), labels=model.classes_)
        return model.score(X[test], y[test])

    return make(max(settings, key=score))


def told(method, X, y, labelled, asked):
    """Return what a method says of the samples asked: labels, and probabilities where it has these."""
    name = method.split()[-1]
    if method in GRIDS or method in PLAIN:
        Z = normalize(X)
        model = chosen(*GRIDS[method], Z[labelled], y[labelled]) if method in GRIDS else PLAIN[method]()
        model.fit(Z[labelled], y[labelled])
        sure = method in ("logistic regression", "LDA")
        return model.predict(Z[asked]), model.predict_proba(Z[asked]) if sure else None
    rows = np.union1d(labelled, asked)
    hidden = np.where(np.isin(rows, labelled), y[rows], -1)
    if method == "label spreading":
        model = LabelSpreading("knn", n_neighbors=10, max_iter=200).fit(normalize(X)[rows], hidden)
        found = model.label_distributions_[np.isin(rows, asked)]
        return found.argmax(axis=1), found
    codes = method.startswith("SparLow")
    rows, hidden = (rows, hidden) if name in SEMI else (labelled, y[labelled])
    atoms = min(200, len(rows))
    model = SparLow(name, n_atoms=atoms, max_iter=0, random_state=0) if codes else TraceQuotient(name)
    model.fit(X[rows], hidden)
    found = model.predict_proba(X[asked])
    return found.argmax(axis=1), found


def row(method, X, y, labelled, asked):
    """Return the figures of one method on one draw."""
    began = time.process_time()
    labels, shares = told(method, X, y, labelled, asked)
    seconds = time.process_time() - began
    loss = None
    if shares is not None:
        shares = np.maximum(shares, 1e-15)
        loss = log_loss(y[asked], shares / shares.sum(axis=1, keepdims=True), labels=np.unique(y))
    return {"accuracy": 100 * float(np.mean(labels == y[asked])), "log_loss": loss, "seconds": seconds}


def known_rows():
    """Return the rows that were computed before."""
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def paired(rows):
    """Return the rows of draws that SparLow has been tried on."""
    rows = list(rows)
    tried = {(row["set"], row["labels"], row["draw"]) for row in rows if row["method"] == METHODS[0]}
    return [row for row in rows if (row["set"], row["labels"], row["draw"]) in tried]


def table(name):
    """Print accuracy and log loss of a set, means over the draws."""
    rows = paired(found for found in known_rows() if found["set"] == name)
    counts = [count for count in LABELS if any(found["labels"] == count for found in rows)]
    print("| labels per class |", " | ".join(map(str, counts)), "|\n|---|" + "---|" * len(counts))
    for method in METHODS:
        cells = []
        for count in counts:
            own = [found for found in rows if (found["labels"], found["method"]) == (count, method)]
            losses = [found["log_loss"] for found in own if found["log_loss"] is not None]
            loss = f" ({np.mean(losses):.2f})" if losses else ""
            cells.append(f"{np.mean([found['accuracy'] for found in own]):.1f}{loss}" if own else "–")
        if set(cells) != {"–"}:
            print(f"| {method} |", " | ".join(cells), "|")


def main():
    """Compute the rows that are missing, the first draw of all numbers first."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network", nargs="?", type=pathlib.Path)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--labels", nargs="+", type=int, default=LABELS)
    parser.add_argument("--draws", nargs="+", type=int, default=DRAWS)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--table", choices=SETS)
    arguments = parser.parse_args()
    if arguments.table:
        return table(arguments.table)
    warnings.filterwarnings("ignore")
    before = {tuple(found[key] for key in ("set", "labels", "draw", "method")) for found in known_rows()}
    for name in arguments.sets:
        X, y = vectors(name, arguments.network)
        y = np.unique(y, return_inverse=True)[1]
        for draw in arguments.draws:
            for count in arguments.labels:
                labelled, asked = drawn(y, count, draw)
                if len(np.unique(y[asked])) < len(np.unique(y)) or np.bincount(y[labelled]).min() < count:
                    continue  # a class has no sample left
                for method in arguments.methods:
                    if (name, count, draw, method) in before or count < FEWEST.get(method.split()[-1], 1):
                        continue
                    found = row(method, X, y, labelled, asked)
                    found = {key: value if value is None else round(value, 4) for key, value in found.items()}
                    line = json.dumps({"set": name, "labels": count, "draw": draw, "method": method, **found})
                    print(line, flush=True)
                    with RESULTS.open("a") as file:
                        file.write(line + "\n")


if __name__ == "__main__":
    main()
