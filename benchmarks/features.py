"""What features of pictures are worth, and who decides best on them, on training pictures held out.

Scenes: of 100 training pictures of each class of 15-Scenes 70 are learned from and 30 judged by. Objects: of 30 of each
of forty classes of Caltech-101 half are. Eight draws of each; test pictures take no part. Words and mixtures are
learned from pictures of another set, principal components and classifiers from the first part alone.

    SPARLOW_DATA=<folder> python -m benchmarks.features              # kinds of features
    SPARLOW_DATA=<folder> python -m benchmarks.features --decisions  # LDA and SparLow on the recipe
    python -m benchmarks.features --table

A row is added to ``benchmarks/results/features.json`` for each kind and set, and for each draw with ``--decisions``.
Those that are there are not measured again.
"""

import json
import pathlib
import sys
import time

import numpy as np
import scipy.sparse as sp
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from evidence import datasets
from evidence.splits import TEACHERS, components_of, pictures
from sparlow import SparLow, __version__
from sparlow.images import fisher_features, pyramid_features

OUTPUT = pathlib.Path(__file__).parent / "results" / "features.json"
DRAWS, SHARE, SHRINKAGE = 8, 2 / 3, 0.15
SETS = {"scenes": ("scenes15", 100, 0.3, None), "objects": ("caltech101", 30, 0.5, 40)}


def fisher(patch=None, **pyramid):
    """The recipe, or another size of patches or way to scale."""
    steps = fisher_features(0, patch=patch, random_state=0)
    return steps.set_params(**{f"pyramid__{name}": value for name, value in pyramid.items()})


OLDER = (16, 32, 48)
KINDS = {
    "pyramids of LLC codes": lambda: pyramid_features(0, random_state=0),
    "Fisher vectors, cells of equal norm": lambda: fisher(OLDER, norm="power"),
    "also Gaussians of equal norm": lambda: fisher(OLDER, level_weights=None),
    "also half of the norm for sixteenths": lambda: fisher(OLDER),
    "also patches of 64 instead of 48: the recipe": fisher,
}
RECIPE = next(reversed(KINDS))


def products(kind, name):
    """Products of the features of all pictures, their labels, and CPU seconds for one picture."""
    source, count, _, classes = SETS[name]
    data, other = datasets.load(source), datasets.load(TEACHERS[source])
    rows = data.split(count, 0)[0]
    if classes is not None:
        some = np.random.RandomState(5).permutation(np.unique(data.labels))[:classes]
        rows = rows[np.isin(data.labels[rows], some)]
    steps = KINDS[kind]().fit(pictures(other, *other.split(4, 0))[0])
    began = time.process_time()
    vectors = steps.transform(pictures(data, rows, rows[:0])[0])
    seconds = (time.process_time() - began) / len(rows)
    K = (vectors @ vectors.T).toarray() if sp.issparse(vectors) else vectors @ vectors.T
    return K, data.labels[rows], seconds


def draws(y, name):
    """Rows to learn from and rows to judge by, several times."""
    for seed in range(DRAWS):
        yield train_test_split(np.arange(len(y)), test_size=SETS[name][2], stratify=y, random_state=seed)


def mean_of_classes(predicted, y):
    """Mean accuracy of the classes, in %."""
    return round(100 * float(np.mean([np.mean(predicted[y == c] == c) for c in np.unique(y)])), 2)


def embedded(X, y, X_new, shrinkage):
    """LDA: embeddings in which the scatter within classes is white."""
    X, X_new = np.asarray(X, float), np.asarray(X_new, float)
    classes = np.unique(y)
    means = np.array([X[y == c].mean(axis=0) for c in classes])
    spread = X - means[np.searchsorted(classes, y)]
    within = spread.T @ spread / len(X)
    within = (1 - shrinkage) * within + shrinkage * np.trace(within) / len(within) * np.eye(len(within))
    L = np.linalg.cholesky(within)
    A, B, M = (np.linalg.solve(L, (rows - X.mean(axis=0)).T).T for rows in (X, X_new, means))
    axes = np.linalg.svd(M, full_matrices=False)[2][: len(classes) - 1].T
    return A @ axes, B @ axes


def judged(A, y, B, y_new):
    """Accuracy by the nearest mean of a class, and by the nearest neighbour by angle."""
    classes = np.unique(y)
    M = np.array([A[y == c].mean(axis=0) for c in classes])
    own = classes[np.argmax(B @ M.T - 0.5 * np.sum(M * M, axis=1), axis=1)]
    near = y[np.argmax(normalize(B) @ normalize(A).T, axis=1)]
    return {"mean": mean_of_classes(own, y_new), "1NN": mean_of_classes(near, y_new)}


def of_kind(kind, name):
    """One row: LDA on one kind of features, all draws."""
    K, y, seconds = products(kind, name)
    found = []
    for known, held in draws(y, name):
        X, X_new = components_of(K, known, held, int(SHARE * len(known)))
        found.append(judged(*_beside(y, known, held, embedded(X, y[known], X_new, SHRINKAGE))))
    what = {"features": kind, "set": name, "accuracy": {by: [one[by] for one in found] for by in found[0]}}
    yield {**what, "milliseconds": round(1000 * seconds, 2), "sparlow": __version__}


def _beside(y, known, held, embeddings):
    A, B = embeddings
    return A, y[known], B, y[held]


def of_decisions(name):
    """A row for each draw: LDA with four shrinkages and SparLow on the recipe."""
    K, y, _ = products(RECIPE, name)
    for draw, (known, held) in enumerate(draws(y, name)):
        X, X_new = components_of(K, known, held, int(SHARE * len(known)))
        accuracy = {}
        for shrinkage in (0.05, 0.15, 0.3, 0.6):
            ways = judged(*_beside(y, known, held, embedded(X, y[known], X_new, shrinkage)))
            accuracy |= {f"LDA {shrinkage:g}, {by}": value for by, value in ways.items()}
        model = SparLow("lda", random_state=0).fit(X, y[known])
        ways = judged(*_beside(y, known, held, (model.embedding_, model.transform(X_new))))
        accuracy |= {f"SparLow, {by}": value for by, value in ways.items()}
        accuracy["SparLow, predict"] = mean_of_classes(model.predict(X_new), y[held])
        about = {"ridges": str(model.ridges_), "n_iter": model.n_iter_}
        yield {"decisions": name, "draw": draw, "accuracy": accuracy, **about, "sparlow": __version__}


def table(rows):
    """Print means over the draws, and differences from the first of Fisher vectors with their standard errors."""
    kinds = [row for row in rows if "features" in row]
    print("| features | set | LDA | gain | 1NN | ms a picture |\n|" + " --- |" * 6)
    for row in kinds:
        first = next(one for one in kinds if one["set"] == row["set"] and one["features"].startswith("Fisher"))
        own, gain = (np.array(one["accuracy"]["mean"]) for one in (row, first))
        said = f"{np.mean(own - gain):+.1f} ± {np.std(own - gain, ddof=1) / np.sqrt(len(own)):.1f}"
        near = np.mean(row["accuracy"]["1NN"])
        print(f"| {row['features']} | {row['set']} | {own.mean():.1f} | {said} | {near:.1f} | {row['milliseconds']} |")
    print("\n| decision | set | accuracy | less LDA 0.15 |\n|" + " --- |" * 4)
    for name in SETS:
        own = [row for row in rows if row.get("decisions") == name]
        for by in own[0]["accuracy"] if own else ():
            values, usual = (np.array([row["accuracy"][way] for row in own]) for way in (by, "LDA 0.15, mean"))
            gap = values - usual
            said = f"{gap.mean():+.1f} ± {gap.std(ddof=1) / np.sqrt(len(gap)):.1f}"
            print(f"| {by} | {name} | {values.mean():.1f} | {said} |")
        print(f"ridges on {name}: {', '.join(row['ridges'] for row in own)}\n")


def main(words):
    """Measure what is missing, then tell it."""
    rows = json.loads(OUTPUT.read_text()) if OUTPUT.exists() else []
    if "--decisions" in words:
        work = [of_decisions(n) for n in SETS if not any(row.get("decisions") == n for row in rows)]
    else:
        there = {(row.get("features"), row.get("set")) for row in rows}
        work = [of_kind(kind, name) for kind in KINDS for name in SETS if (kind, name) not in there]
    for found in [] if "--table" in words else work:
        rows += found
        OUTPUT.write_text(json.dumps(rows, indent=1) + "\n")
    table(rows)


if __name__ == "__main__":
    main(sys.argv[1:])
