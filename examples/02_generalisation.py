"""Learn together by the ascent of all samples and by small stochastic steps: accuracy on new digits, pass by pass.

Both start from the same dictionary, see the codes alone and have nine numbers per image. Prints the means over splits
of scikit-learn's digits and saves the curves.
"""

import argparse
import pathlib

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from sparlow import SparLow
from sparlow.estimators import OnStep

SOLVERS = {"eliminate": "ascent of all samples", "stochastic": "small stochastic steps"}


def curve(solver, X, y, X_new, y_new, passes, seed):
    """Return the accuracy in per cent on new images at the start and after each pass."""

    def accuracy(model):
        nearest = KNeighborsClassifier(1).fit(model.transform(X), y)
        return 100 * nearest.score(model.transform(X_new), y_new)

    found = []
    follow = OnStep(lambda row, model: found.append(accuracy(model)))
    model = SparLow(
        "lda", solver=solver, embedding="orthonormal", early_stopping=False, max_iter=passes, random_state=seed
    )
    start = SparLow("lda", embedding="orthonormal", max_iter=0, random_state=seed).fit(X, y)
    model.set_callbacks(follow).fit(X, y)
    return [accuracy(start), *found, *found[-1:] * (passes - len(found))]


def main(path, n_samples=300, passes=30, seeds=(0, 1, 2)):
    """Return the mean curve of each solver, and draw both."""
    X, y = load_digits(return_X_y=True)
    curves = {solver: [] for solver in SOLVERS}
    for seed in seeds:
        parts = train_test_split(X, y, train_size=n_samples, stratify=y, random_state=seed)
        X_train, X_new, y_train, y_new = parts
        for solver, found in curves.items():
            found.append(curve(solver, X_train, y_train, X_new, y_new, passes, seed))
    means = {solver: np.mean(found, axis=0) for solver, found in curves.items()}
    figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
    for (solver, mean), colour in zip(means.items(), ("tab:red", "tab:blue"), strict=True):
        ax.plot(mean, color=colour, label=SOLVERS[solver])
        print(f"{SOLVERS[solver]:24} start {mean[0]:.1f} %, after {passes} passes {mean[-1]:.1f} %")
    ax.set(xlabel="passes over the training images", ylabel="new images right, %")
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return means


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("generalisation.png"))
    main(parser.parse_args().output)
