"""Why joint learning overfits, and what the defaults do about it: train and held-out curves on scikit-learn's digits.

Half of the images is held out. Each setting changes one of the defaults of LDA-SparLow with the paper's embedding;
plain means without balancing pairs of classes, tiny a shrinkage of 0.0001. Prints the means over the seeds and saves
the curves.
"""

import argparse
import pathlib

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial.distance import pdist
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from sparlow import SparLow, plots
from sparlow.criteria import LDA
from sparlow.priors import ElasticNet
from sparlow.solvers import EarlyStopping, Solver

TINY = 1e-4
SETTINGS = {
    "defaults": {},
    "plain quotient": {"criterion": LDA(balance=0)},
    "plain quotient, tiny shrinkage": {"criterion": LDA(balance=0, shrinkage=TINY)},
    "tiny shrinkage": {"criterion": LDA(shrinkage=TINY)},
    "small l2": {"prior": ElasticNet(0.03, 0.01)},
    "plain, tiny, atoms kept near": {
        "criterion": LDA(balance=0, shrinkage=TINY),
        "solver": Solver(tol=0, mu_proximity=1000.0),
    },
    "plain, tiny, atoms kept apart": {
        "criterion": LDA(balance=0, shrinkage=TINY),
        "solver": Solver(tol=0, mu_coherence=1.0),
    },
}
PAPER = {"criterion": "lda", "embedding": "orthonormal", "solver": Solver(tol=0), "n_jobs": -1}
DRAWN = ("defaults", "plain quotient", "plain quotient, tiny shrinkage")


def mean_history(X, y, setting, seeds, max_iter):
    """The history averaged over seeds, the quotient relative to its start."""
    options = {**PAPER, "early_stopping": EarlyStopping(0.5, patience=max_iter)}
    runs = [SparLow(max_iter=max_iter, random_state=seed, **options | setting).fit(X, y).history_ for seed in seeds]
    length = min(len(run["cost"]) for run in runs)
    mean = {name: np.mean([run[name][:length] for run in runs], axis=0) for name in ("step_number", "held_out")}
    return mean | {"quotient": np.mean([run["quotient"][:length] / run["quotient"][0] for run in runs], axis=0)}


def distances(model, X, y):
    """Squared distances of the closest and of the farthest two class means, over the scatter within classes."""
    Z, classes = model.transform(X), np.unique(y)
    means = np.array([Z[y == label].mean(axis=0) for label in classes])
    within = np.mean(
        [np.sum((Z[y == label] - mean) ** 2, axis=1).mean() for label, mean in zip(classes, means, strict=True)]
    )
    apart = pdist(means, "sqeuclidean") / within
    return apart.min(), apart.max()


def print_distances(X, y, seeds, max_iter):
    print(
        f"\n{'distances of class means':30s}      training        held out\n{'':30s} closest farthest closest farthest"
    )
    for name, setting in {"start": {"max_iter": 0}, **{name: SETTINGS[name] for name in DRAWN}}.items():
        options = {**PAPER, "max_iter": max_iter, "early_stopping": False}
        rows = []
        for seed in seeds:
            X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=seed, stratify=y)
            model = SparLow(random_state=seed, **options | setting).fit(X_train, y_train)
            rows.append(distances(model, X_train, y_train) + distances(model, X_test, y_test))
        print(f"{name:30s} {' '.join(f'{number:8.1f}' for number in np.mean(rows, axis=0))}", flush=True)


def main(output, n_samples=None, seeds=range(3), max_iter=40, settings=tuple(SETTINGS)):
    X, y = (array[:n_samples] for array in load_digits(return_X_y=True))
    early = min(10, max_iter)
    print(f"{'':30s}    f / first f      held-out 1NN, %")
    print(f"{'after steps':30s} {early:6d} {max_iter:9d} {0:6d} {early:6d} {max_iter:6d}", flush=True)
    histories, axes = {}, None
    for name in settings:
        row = histories[name] = mean_history(X, y, SETTINGS[name], seeds, max_iter)
        f, held = row["quotient"], 100 * row["held_out"]
        print(f"{name:30s} {f[early]:6.1f} {f[-1]:9.1f} {held[0]:6.1f} {held[early]:6.1f} {held[-1]:6.1f}", flush=True)
        if name in DRAWN:
            axes = plots.curves(row, label=name, ax=axes)
    axes[0].set(ylabel="quotient / first, training samples", yscale="log")
    axes[1].set(ylabel="accuracy (1NN), held-out samples")
    axes[1].get_legend().remove()
    output.parent.mkdir(parents=True, exist_ok=True)
    axes[0].figure.savefig(output, dpi=100, bbox_inches="tight")
    plt.close("all")
    print(f"\npicture: {output}")
    print_distances(X, y, seeds, max_iter)
    return histories


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("docs/images/generalisation.png"))
    main(parser.parse_args().output)
