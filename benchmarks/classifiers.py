"""The family of dictionary classifiers in one table: accuracy, seconds of training and of prediction.

    SPARLOW_DATA=<folder> python benchmarks/classifiers.py [--sets digits orl …] [--methods …] [--seeds 0 1 2]
    python benchmarks/classifiers.py --speed          # beside dictlearn and dictol, for the methods that they share
    python benchmarks/classifiers.py --tddl "as it is" … --sets usps mnist [--together] [--test-seeds 0 1 2]
    python benchmarks/classifiers.py --table          # print what is known as a table

Parameters are chosen on three training folds; of training parts above 1000 samples a part of that size is divided.
Seconds are CPU seconds of one fit with the chosen parameters and of the prediction of the test part.
A row is a line of JSON, written as soon as it is known: starting again goes on where the last run ended.
"""

import argparse
import contextlib
import io
import json
import os
import pathlib
import sys
import time
import types
import warnings

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.svm import SVC

import sparlow
from sparlow import SparLow
from sparlow.classifiers import BMDDL, DKSVD, FDDL, LCKSVD, SRC, TDDL, LapRLS
from sparlow.images import Scattering
from sparlow.views import Patches, Shifts

ROWS = pathlib.Path(__file__).parent / "results" / "classifiers.jsonl"
FOLDS, MOST = 3, 1000
SHRINKAGES = [0.003, 0.01, 0.03, 0.1, 0.3, 0.6]  # after PCA without loss, which makes small sets cheap

warnings.filterwarnings("ignore")


# ── sets: images, labels, shape, training samples of each class (None: the official split), atoms of each class ─────


def part(file):
    return np.load(pathlib.Path(os.environ.get("SPARLOW_DATA", ".")) / file)


def official(file):
    held = part(file)
    X = np.vstack([held["X_train"], held["X_test"]]) / float(held.get("scale", 255))
    return X, np.concatenate([held["y_train"], held["y_test"]]), len(held["y_train"])


def of_faces(file):
    held = part(file)
    return held["X"] / 255.0, held["y"], None


SETS = {  # name: how to load it, shape, training samples per class, atoms per class
    "digits": (lambda: (*load_digits(return_X_y=True), None), (8, 8), 90, 20),
    "usps": (lambda: official("usps.npz"), (16, 16), None, 50),
    "orl": (lambda: of_faces("orl_32x32.npz"), (32, 32), 5, 5),
    "pie-30": (lambda: of_faces("pie_32x32.npz"), (32, 32), 30, 15),
    "ar": (lambda: of_faces("ar10p_60x40.npz"), (60, 40), 7, 7),
}


def drawn(name, seed):
    """Training and test part, in single precision."""
    load, shape, count, atoms = SETS[name]
    X, y, n_train = load()
    X = X.astype(np.float32)
    if n_train is not None:
        return X[:n_train], y[:n_train], X[n_train:], y[n_train:], shape, atoms * len(np.unique(y))
    rng = np.random.default_rng(seed)
    train = np.concatenate([rng.permutation(np.flatnonzero(y == c))[:count] for c in np.unique(y)])
    test = np.setdiff1d(np.arange(len(y)), train)
    return X[train], y[train], X[test], y[test], shape, atoms * len(np.unique(y))


# ── methods: (atoms, shape, seed, jobs) -> estimator and grid ───────────────────────────────────────────────────────


def common(seed, jobs):
    return {"random_state": seed, "n_jobs": jobs}


def of(kind, grid, **options):
    """A classifier with as many atoms as the set asks for, and its grid."""
    return lambda atoms, shape, seed, jobs: (kind(atoms, **options, **common(seed, jobs)), grid)


METHODS = {
    "raw + SVM": lambda atoms, shape, seed, jobs: (
        make_pipeline(Normalizer(), SVC()),
        {"svc__C": [1, 10, 100], "svc__gamma": [0.5, 2.0, 8.0]},
    ),
    "shrinkage LDA": lambda atoms, shape, seed, jobs: (
        make_pipeline(Normalizer(), PCA(random_state=seed), LinearDiscriminantAnalysis(solver="eigen")),
        {"lineardiscriminantanalysis__shrinkage": SHRINKAGES},
    ),
    "SRC": lambda atoms, shape, seed, jobs: (SRC(**common(seed, jobs)), {"l1": [0.003, 0.01, 0.05, 0.1]}),
    "D-KSVD": of(DKSVD, {"n_nonzero": [8, 16, 30], "gamma": [0.1, 1.0]}),
    "LC-KSVD": of(LCKSVD, {"n_nonzero": [8, 20, 40], "alpha": [0.001, 0.1, 1.0]}),
    "FDDL": of(FDDL, {"lambda1": [0.001, 0.005, 0.02], "scheme": ["global", "local"]}),
    "TDDL": of(TDDL, {"lambda1": [0.05, 0.1, 0.15], "nu": [1e-6, 1e-4]}, rho=3.0),
    "TDDL, moved copies": lambda atoms, shape, seed, jobs: (
        TDDL(atoms, nu=1e-6, views=Shifts(1, shape), average=True, max_iter=40, **common(seed, jobs)),
        [{"lambda1": [0.05, 0.1], "solver": [name], "rho": [rho]} for name, rho in (("sgd", 3.0), ("adam", 0.01))],
    ),
    "BMDDL": of(BMDDL, {"alpha": [0.01, 0.05], "beta": [1e-4, 1e-3], "ridge": [0.1, 1.0]}),
    "LapRLS": lambda atoms, shape, seed, jobs: (
        make_pipeline(Normalizer(), LapRLS(n_jobs=jobs)),
        {"laprls__width": [1.0, 3.0], "laprls__gamma_A": [1e-4, 1e-2], "laprls__gamma_I": [0.0, 0.1]},
    ),
    "scattering + LDA": lambda atoms, shape, seed, jobs: (
        make_pipeline(
            Scattering(shape=shape, n_jobs=jobs), PCA(random_state=seed), LinearDiscriminantAnalysis(solver="eigen")
        ),
        {"lineardiscriminantanalysis__shrinkage": SHRINKAGES},
    ),
    "SparLow": lambda atoms, shape, seed, jobs: (SparLow("lda", **common(seed, jobs)), {}),
    "local SparLow": lambda atoms, shape, seed, jobs: (
        SparLow("lda", views=Patches(shape=shape), **common(seed, jobs)),
        {},
    ),
}


def tuned(estimator, grid, X, y, seed):
    """The estimator with the parameters that serve best on training folds."""
    if not grid:
        return clone(estimator), {}
    if len(X) > MOST:
        X, _, y, _ = train_test_split(X, y, train_size=MOST, stratify=y, random_state=seed)
    folds = StratifiedKFold(min(FOLDS, np.bincount(np.unique(y, return_inverse=True)[1]).min()))
    search = GridSearchCV(estimator, grid, cv=folds, refit=False, error_score=0.0).fit(X, y)
    return clone(estimator).set_params(**search.best_params_), search.best_params_


def fewer(estimator, X, y):
    """Folds have fewer samples: no more atoms than they allow."""
    n_atoms = estimator.get_params().get("n_atoms")
    room = int(min(len(X), MOST) * (FOLDS - 1) / FOLDS) - len(np.unique(y))
    return estimator.set_params(n_atoms=room) if n_atoms and n_atoms > room else estimator


def measured(name, method, seed, jobs):
    X, y, X_test, y_test, shape, atoms = drawn(name, seed)
    estimator, grid = METHODS[method](min(atoms, len(X)), shape, seed, jobs)
    began = time.process_time()
    model, chosen = tuned(fewer(clone(estimator), X, y), grid, X, y, seed)
    if "n_atoms" in model.get_params():
        model.set_params(n_atoms=estimator.get_params()["n_atoms"])
    tuning = time.process_time() - began
    began = time.process_time()
    model.fit(X, y)
    trained = time.process_time()
    predicted = model.predict(X_test)
    ended = time.process_time()
    return {
        "set": name,
        "method": method,
        "seed": seed,
        "accuracy": round(100 * float(np.mean(predicted == y_test)), 2),
        "train_seconds": round(trained - began, 3),
        "predict_seconds": round(ended - trained, 4),
        "tuning_seconds": round(tuning, 1),
        "parameters": {key: plain(value) for key, value in chosen.items()},
        "n_train": len(X),
        "n_test": len(X_test),
        "n_atoms": plain(model.get_params().get("n_atoms")),
        "jobs": jobs,
        "version": sparlow.__version__,
    }


def plain(value):
    return value.item() if isinstance(value, np.generic) else value


# ── speed beside other packages ─────────────────────────────────────────────────────────────────────────────────────


class OfDictol:
    """A classifier of dictol, which wants samples as columns, sorted by labels from 1 on."""

    def __init__(self, model, **fitting):
        self.model, self.fitting = model, fitting

    def fit(self, X, y):
        """Sort the samples and fit."""
        order = np.argsort(y, kind="stable")
        self.classes, labels = np.unique(y[order], return_inverse=True)
        with contextlib.redirect_stdout(io.StringIO()):
            self.model.fit(X[order].T, list(labels + 1), **self.fitting)
        return self

    def predict(self, X):
        """Return labels as they were given."""
        return self.classes[np.asarray(self.model.predict(X.T)) - 1]


def shared_methods(atoms, classes):
    """Pairs of theirs and ours, with the same parameters."""
    from dictlearn.classification import DDLClassifier, LCDLClassifier

    sys.modules.setdefault("pkg_resources", types.ModuleType("pkg_resources"))  # which setuptools no longer has
    from dictol import utils
    from dictol.LRSDL import LRSDL
    from dictol.SRC import SRC as OtherSRC  # noqa: N811

    utils.vec = lambda A: A.flatten("F")  # numpy 2 knows orders by name only
    each, trained = atoms // classes, {"init_method": "trained", "random_state": 0}
    return {
        "SRC, dictol": (OfDictol(OtherSRC(lamb=0.01)), SRC(l1=0.01)),
        "FDDL, dictol": (
            OfDictol(LRSDL(lambd=0.005, lambd2=0.01, k=each, k0=0), iterations=5),
            FDDL(atoms, lambda1=0.005, lambda2=0.01, max_iter=5, scheme="local", random_state=0),
        ),
        "D-KSVD, dictlearn": (
            DDLClassifier(atoms, n_nonzero_coefs=10, **trained),
            DKSVD(atoms, n_nonzero=10, random_state=0),
        ),
        "LC-KSVD, dictlearn": (
            LCDLClassifier(each, n_nonzero_coefs=10, alpha=0.1, beta=0.1, **trained),
            LCKSVD(atoms, n_nonzero=10, random_state=0),
        ),
    }


def speed(name, repeats, most=2000, tests=500):
    """CPU seconds of theirs and ours in turns, medians over repeats with other seeds; mean accuracies."""
    X, y, X_test, y_test, _, atoms = drawn(name, 0)
    if len(X) > most:
        X, _, y, _ = train_test_split(X, y, train_size=most, stratify=y, random_state=0)
    X, X_test, y_test = (part.astype(float) for part in (X, X_test[:tests], y_test[:tests]))
    X, X_test = Normalizer().transform(X), Normalizer().transform(X_test)
    for pair, models in shared_methods(atoms, len(np.unique(y))).items():
        seconds, right = np.empty((repeats, 2, 2)), np.empty((repeats, 2))
        models[1].fit(X, y).predict(X_test)  # compile first
        for repeat in range(repeats):
            for who, model in enumerate(models):
                np.random.seed(repeat)  # noqa: NPY002 - dictol draws from it
                if hasattr(model, "random_state"):
                    model.set_params(random_state=repeat)
                began = time.process_time()
                model.fit(X, y)
                trained = time.process_time()
                predicted = model.predict(X_test)
                seconds[repeat, who] = trained - began, time.process_time() - trained
                right[repeat, who] = 100 * float(np.mean(predicted == y_test))
        totals = seconds.sum(axis=2)
        row = {"speed": pair, "set": name, "n_train": len(X), "n_test": len(X_test), "n_atoms": atoms}
        row |= {"repeats": repeats, "times_faster": round(float(np.median(totals[:, 0] / totals[:, 1])), 1)}
        for who, name_of in enumerate(("theirs", "ours")):
            train, predict = np.median(seconds[:, who], axis=0)
            row |= {f"{name_of}_train": round(float(train), 3), f"{name_of}_predict": round(float(predict), 3)}
            row |= {f"{name_of}_accuracy": round(float(right[:, who].mean()), 2)}
        write(row)
        print(row, flush=True)


# ── TDDL with moved copies, as the paper has it on digits ───────────────────────────────────────────────────────────


HELD_OUT = {"usps": (5291, 2000), "mnist": (20000, 10000)}  # training images that are learned from, and held out
TDDL_BASE = {"n_atoms": 500, "lambda1": 0.1, "nu": 1e-6, "max_iter": 50, "solver": "adam"}
TDDL_CHANGES = {
    "as it is": {},
    "no moved copies": {"copies": False},
    "descent of the paper": {"solver": "sgd", "rho": 5.0},
    "one-vs-all": {"loss": "logistic"},
    "1000 atoms": {"n_atoms": 1000},
    "200 atoms": {"n_atoms": 200},
    "lambda1 0.15": {"lambda1": 0.15},
    "nu 1e-5": {"nu": 1e-5},
    "100 passes": {"max_iter": 100},
    "12 passes": {"max_iter": 12},
    "40 passes": {"max_iter": 40},
    "2000 atoms": {"n_atoms": 2000},
    "lambda1 0.05": {"lambda1": 0.05},
    "lambda2 0.01": {"lambda2": 0.01},
    "lambda2 0.1": {"lambda2": 0.1},
    "nu 1e-7": {"nu": 1e-7},
    "batches of 100": {"batch_size": 100},
    "batches of 400": {"batch_size": 400},
    "moved by two": {"pixels": 2},
    "rho 0.0003": {"rho": 0.0003},
    "rho 0.001": {"rho": 0.001},
    "rho 0.003": {"rho": 0.003},
    "rho 0.03": {"rho": 0.03},
    "50 000 images": {"n_train": 50000},
}


def of_tddl(options, seed):
    options = {**TDDL_BASE, **options}
    options.pop("n_train", None)
    copies, pixels = options.pop("copies", True), options.pop("pixels", 1)
    return TDDL(**options, views=Shifts(pixels) if copies else None, average=copies, random_state=seed)


def wrong(model, X, y):
    """Errors in per cent, with and without the mean over moved copies, and the mean of −log p of the former."""
    found = []
    for average in (model.average, False):
        probabilities = model.set_params(average=average).predict_proba(X)
        found.append(100 * float(np.mean(model.classes_[np.argmax(probabilities, axis=1)] != y)))
        if not len(found) - 1:
            own = probabilities[np.arange(len(y)), np.searchsorted(model.classes_, y)]
            loss = -float(np.mean(np.log(np.maximum(own, 1e-12))))
    return {"error": round(found[0], 2), "error_without_mean": round(found[1], 2), "log_loss": round(loss, 4)}


def tddl(name, changes, together, seeds):
    """Rows of held-out training images for each change or all at once; for seeds, rows of the test part for all."""
    X, y, n_train = SETS[name][0]() if name in SETS else official(f"{name}.npz")
    X, X_test, y, y_test = X[:n_train].astype(np.float32), X[n_train:].astype(np.float32), y[:n_train], y[n_train:]
    if seeds is not None:
        jobs = [("test", changes, seed) for seed in seeds]
    else:
        jobs = [(", ".join(parts), parts, 0) for parts in ([changes] if together else [[change] for change in changes])]
        n_train, n_test = HELD_OUT[name]
        X, X_test, y, y_test = train_test_split(X, y, test_size=n_test, stratify=y, random_state=0)
    for label, parts, seed in jobs:
        key = {"tddl": label, "set": name, "changes": parts, "seed": seed}
        if any(all(row.get(part) == value for part, value in key.items()) for row in rows()):
            continue
        options = {part: value for change in parts for part, value in TDDL_CHANGES[change].items()}
        n = options.get("n_train", n_train)
        began = time.process_time()
        model = of_tddl(options, seed).fit(X[:n], y[:n])
        trained = time.process_time() - began
        row = {**key, "options": {**TDDL_BASE, **options}, "n_train": n, "train_seconds": round(trained, 1)}
        row |= {"cost": round(float(model.costs_[-1]), 5), "costs": model.costs_.round(4).tolist()}
        row |= wrong(model, X_test, y_test)
        write(row)
        print(json.dumps(row), flush=True)


# ── rows ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def write(row):
    ROWS.parent.mkdir(exist_ok=True)
    with ROWS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def rows():
    return [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()] if ROWS.exists() else []


def table():
    """Print means over seeds: accuracy, seconds of training and of prediction; then speed, then TDDL on digits."""
    known = [row for row in rows() if "method" in row]
    sets = [name for name in SETS if any(row["set"] == name for row in known)]
    print("| | " + " | ".join(sets) + " |\n|---" + "|---" * len(sets) + "|")
    for method in METHODS:
        cells = []
        for name in sets:
            mine = [row for row in known if (row["set"], row["method"]) == (name, method)]
            if not mine:
                cells.append("–")
                continue
            accuracy, train, predict = (
                np.mean([row[key] for row in mine]) for key in ("accuracy", "train_seconds", "predict_seconds")
            )
            cells.append(f"{accuracy:.1f} · {train:.2g} s · {predict:.2g} s")
        if set(cells) != {"–"}:
            print(f"| {method} | " + " | ".join(cells) + " |")
    print("\n| | theirs: train, predict, accuracy | ours | × |\n|---|---|---|---|")
    for row in rows():
        if "speed" in row:
            sides = [
                f"{row[f'{who}_train']:.2g} s, {row[f'{who}_predict']:.2g} s, {row[f'{who}_accuracy']:.1f}"
                for who in ("theirs", "ours")
            ]
            print(f"| {row['speed']}; {row['set']} | {sides[0]} | {sides[1]} | {row['times_faster']:.1f} |")
    for name in HELD_OUT:
        for test in (False, True):
            print(f"\n{name}, {'test part' if test else 'held-out training images'}\n\n{tddl_table(name, test)}")


def tddl_table(name, test):
    """Return the rows of TDDL on held-out training images or on the test part, shorter runs first."""
    titles = ["images", "atoms", "passes", "ρ", "else", "errors, %", "without mean", "log loss", "cost", "CPU s"]
    lines = [titles, ["---"] * len(titles)]
    mine = [row for row in rows() if row.get("set") == name and "tddl" in row and (row["tddl"] == "test") == test]
    for row in sorted(mine, key=lambda row: (row["n_train"], row["options"]["max_iter"])):
        options = row["options"]
        other = [
            change for change in row["changes"] if set(TDDL_CHANGES[change]) - {"n_atoms", "max_iter", "rho", "n_train"}
        ]
        other += [f"seed {row['seed']}"] * test
        numbers = [row["n_train"], options["n_atoms"], options["max_iter"], options.get("rho", 0.01), ", ".join(other)]
        found = [f"{row['error']:.2f}", f"{row['error_without_mean']:.2f}", f"{row['log_loss']:.4f}"]
        lines.append([*map(str, numbers), *found, f"{row['cost']:.3f}", f"{row['train_seconds']:.0f}"])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines).replace("|  |", "| |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=[*SETS, "mnist"], default=list(SETS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tddl", nargs="+", choices=TDDL_CHANGES, help="TDDL on one set with these changes")
    parser.add_argument("--together", action="store_true", help="with --tddl: all changes at once")
    parser.add_argument("--test-seeds", nargs="+", type=int, help="with --tddl: all changes at once, on the test part")
    parser.add_argument("--table", action="store_true")
    words = parser.parse_args()
    if words.table:
        table()
        return
    if words.tddl:
        for name in words.sets:
            tddl(name, words.tddl, words.together, words.test_seeds)
        return
    if words.speed:
        for name in words.sets:
            speed(name, words.repeats)
        return
    done = {(row["set"], row["method"], row["seed"]) for row in rows() if "method" in row}
    for name in words.sets:
        for seed in words.seeds[:1] if SETS[name][2] is None else words.seeds:
            for method in words.methods:
                if (name, method, seed) in done:
                    continue
                row = measured(name, method, seed, words.jobs)
                write(row)
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
