"""Does joint learning help? Accuracy of 1NN and RBF-SVM on embeddings, beside what people would use instead.

    SPARLOW_DATA=<folder> python benchmarks/accuracy.py [--sets usps orl …] [--seeds 0 1 2] [--methods …]

Every row keeps set, method, seed, parameters, accuracies, seconds and versions, and is written as soon as it is known:
starting again goes on where the last run ended. Test samples are used for the two accuracies and nothing else. What is
tuned (PCA's and NCA's dimension, LDA's shrinkage, the SVM's C and gamma, the rows "tuned") is tuned on the training
samples, by cross-validation or on a held-out quarter of them.
"""

import argparse
import json
import pathlib
import platform
import time
import warnings

import numpy as np
import scipy
import sklearn
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, normalize
from sklearn.svm import SVC

from sparlow import SparLow, __version__, datasets
from sparlow.defaults import default_prior

RESULTS = pathlib.Path(__file__).parent / "results" / "accuracy.json"
SETS = ("orl-5", "usps", "mnist-10000", "pie-30", "pie-120")
TUNING = 3000  # samples that the SVM's C and gamma, and the rivals' dimensions, are chosen on

warnings.filterwarnings("ignore")


def split(name, seed):
    """Unit-norm training and test samples of a setting such as pie-30 (30 of each class to learn from)."""
    kind, _, count = name.partition("-")
    data = datasets.load(kind)
    if kind == "usps":
        train, test = data.standard_split()
    elif kind == "mnist":
        train, test = data.standard_split()
        train = np.random.RandomState(seed).permutation(train)[: int(count)]
    else:
        train, test = data.split(int(count), seed)
    X = normalize(data.images)
    return X[train], data.labels[train], X[test], data.labels[test]


def part(X, y, seed):
    """At most TUNING samples, classes in proportion."""
    if len(y) <= TUNING:
        return X, y
    X, _, y, _ = train_test_split(X, y, train_size=TUNING, stratify=y, random_state=seed)
    return X, y


def folds(y):
    return StratifiedKFold(
        min(3, np.bincount(np.unique(y, return_inverse=True)[1]).min()), shuffle=True, random_state=0
    )


def searched(estimator, grid, X, y, seed):
    """The estimator with the parameters of ``grid`` that serve 1NN best on training folds."""
    X, y = part(X, y, seed)
    pipe = make_pipeline(estimator, KNeighborsClassifier(1))
    name = pipe.steps[0][0]
    search = GridSearchCV(pipe, {f"{name}__{key}": values for key, values in grid.items()}, cv=folds(y), n_jobs=2)
    best = search.fit(X, y).best_params_
    return estimator.set_params(**{key.split("__")[1]: value for key, value in best.items()})


def raw(X, y, seed):
    return FunctionTransformer()


def pca(X, y, seed):
    return searched(PCA(random_state=0), {"n_components": [30, 50, 100, 150]}, X, y, seed)


def lda(X, y, seed):
    return searched(
        LinearDiscriminantAnalysis(solver="eigen"), {"shrinkage": ["auto", 0.01, 0.03, 0.1, 0.3]}, X, y, seed
    )


class Nca(NeighborhoodComponentsAnalysis):
    """NCA on 50 principal components of at most TUNING samples: its cost is quadratic in n.

    Its softmax has no temperature, so scale matters: ten times unit norm serves it best of 1, 10 and 30.
    """

    def fit(self, X, y):  # noqa: D102
        self.pca_ = PCA(50, random_state=0).fit(X)
        return super().fit(*part(10 * self.pca_.transform(X), y, 0))

    def transform(self, X):  # noqa: D102
        return super().transform(10 * self.pca_.transform(X))


def nca(X, y, seed):
    few = min(50, len(np.unique(y)) - 1)
    return searched(Nca(few, max_iter=50, random_state=seed), {"init": ["lda", "pca"]}, X, y, seed)


def model(criterion, **options):
    return lambda X, y, seed: SparLow(criterion, random_state=seed, n_jobs=2, **options)


def tuned(criterion):
    """Sparsity and shrinkage chosen on a held-out quarter of the training samples, number of steps too."""

    def build(X, y, seed):
        prior = default_prior(X)
        best = (-1.0,)
        for factor in (0.5, 1.0, 2.0):
            for shrinkage in (0.1, 0.3, 1.0):
                options = {"prior": type(prior)(factor * prior.l1, prior.l2), "shrinkage": shrinkage}
                trial = SparLow(
                    criterion, random_state=seed, n_jobs=2, max_iter=12, validation_fraction=0.25,
                    n_iter_no_change=4, **options,
                ).fit(X, y)  # fmt: skip
                scores = trial.history_["held_out"]
                if scores.max() > best[0]:
                    best = (scores.max(), max(1, int(np.argmax(scores))), options)
        return SparLow(criterion, random_state=seed, n_jobs=2, max_iter=best[1], **best[2])

    return build


METHODS = {
    "raw": raw,
    "PCA": pca,
    "LDA": lda,
    "NCA": nca,
    "SparLDA": model("lda", max_iter=0),
    "LDA-SparLow": model("lda"),
    "SparMFA": model("mfa", max_iter=0),
    "MFA-SparLow": model("mfa"),
    "LDA-SparLow tuned": tuned("lda"),
    "MFA-SparLow tuned": tuned("mfa"),
    "SparPCA": model("pca", max_iter=0),
    "PCA-SparLow": model("pca"),
    "SparLap": model("lap", max_iter=0),
    "Lap-SparLow": model("lap"),
    "SparLLE": model("lle", max_iter=0),
    "LLE-SparLow": model("lle"),
}


def svm(Z, y, seed):
    """RBF-SVM with C and gamma by cross-validation on training samples."""
    scale = 1 / max(float(np.var(Z, axis=0).sum()), 1e-12)
    grid = {"C": [1, 10, 100], "gamma": [scale * g for g in (0.25, 1, 4)]}
    search = GridSearchCV(SVC(cache_size=500), grid, cv=folds(part(Z, y, seed)[1]), n_jobs=2).fit(*part(Z, y, seed))
    return SVC(cache_size=500, **search.best_params_).fit(Z, y)


def accuracies(estimator, X, y, X_test, y_test, seed):
    Z = estimator.embedding_ if isinstance(estimator, SparLow) else estimator.transform(X)
    Z_test = estimator.transform(X_test)
    unit, unit_test = (V / np.maximum(np.linalg.norm(V, axis=1, keepdims=True), 1e-12)
                       for V in (Z - Z.mean(axis=0), Z_test - Z.mean(axis=0)))  # fmt: skip
    return {
        "1nn": KNeighborsClassifier(1).fit(Z, y).score(Z_test, y_test),
        "1nn_angle": KNeighborsClassifier(1).fit(unit, y).score(unit_test, y_test),
        "svm": svm(Z, y, seed).score(Z_test, y_test),
        "dimension": int(Z.shape[1]),
    }


def parameters(estimator):
    found = {key: repr(value) for key, value in estimator.get_params().items() if value is not None}
    if isinstance(estimator, SparLow):
        history = estimator.history_
        found |= {"prior_": repr(estimator.prior_), "n_atoms_": estimator.n_atoms_, "n_iter_": estimator.n_iter_,
                  "stop_reason_": estimator.stop_reason_, "nonzeros": [history["nonzeros"][0], history["nonzeros"][-1]],
                  "quotient": [history["quotient"][0], history["quotient"][-1]]}  # fmt: skip
    return found


def measure(name, method, seed):
    X, y, X_test, y_test = split(name, seed)
    began = time.perf_counter()
    estimator = METHODS[method](X, y, seed)
    chosen = time.perf_counter()
    estimator.fit(X, y)
    fitted = time.perf_counter()
    return {
        "set": name, "method": method, "seed": seed, **accuracies(estimator, X, y, X_test, y_test, seed),
        "tuning_seconds": round(chosen - began, 2), "fit_seconds": round(fitted - chosen, 2),
        "n_train": len(y), "n_test": len(y_test), "parameters": parameters(estimator),
        "versions": {"sparlow": __version__, "numpy": np.__version__, "scipy": scipy.__version__,
                     "scikit-learn": sklearn.__version__, "python": platform.python_version()},
    }  # fmt: skip


def table(rows):
    print(f"\n{'set':12} {'method':20} {'1NN':>13} {'1NN by angle':>13} {'SVM':>13} {'dim':>4} {'fit s':>7}  seeds")
    for name in SETS:
        for method in METHODS:
            found = [row for row in rows if (row["set"], row["method"]) == (name, method)]
            if found:
                cells = [np.array([100 * row[key] for row in found]) for key in ("1nn", "1nn_angle", "svm")]
                text = " ".join(f"{cell.mean():6.2f} ± {cell.std():4.2f}" for cell in cells)
                seconds = np.mean([row["fit_seconds"] for row in found])
                print(f"{name:12} {method:20} {text} {found[0]['dimension']:4d} {seconds:7.1f}  {len(found)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--output", type=pathlib.Path, default=RESULTS)
    options = parser.parse_args()
    rows = json.loads(options.output.read_text()) if options.output.exists() else []
    done = {(row["set"], row["method"], row["seed"]) for row in rows}
    for seed in options.seeds:
        for name in options.sets:
            for method in options.methods:
                # methods without chance need one row where the split has none either
                fixed = name == "usps" and method in ("raw", "PCA", "LDA") and seed != options.seeds[0]
                if (name, method, seed) in done or fixed:
                    continue
                row = measure(name, method, seed)
                rows.append(row)
                options.output.write_text("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]\n")
                shown = " ".join(f"{key} {100 * row[key]:.2f}" for key in ("1nn", "1nn_angle", "svm"))
                seconds = f"{row['tuning_seconds']} + {row['fit_seconds']} s"
                print(f"{name} {method} seed {seed}: {shown}, {seconds}", flush=True)
    table(rows)


if __name__ == "__main__":
    main()
