"""Draw the pictures of README.md and of pages from the models that they show: ``python docs/images/draw.py``."""

import pathlib
import runpy

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from sparlow import SparLow, plots
from sparlow.views import Patches

HERE = pathlib.Path(__file__).resolve().parent
GALLERY = HERE.parents[1] / "examples" / "gallery"


def digits():
    """Draw nine numbers of LDA and of SparLow by t-SNE: the second figure of the example."""
    runpy.run_path(str(GALLERY / "plot_02_comparison.py"))
    figure = plt.figure(2)
    for ax, name in zip(figure.axes, ("lda", "sparlow"), strict=True):
        figure.canvas.draw()
        around = ax.get_tightbbox().transformed(figure.dpi_scale_trans.inverted()).padded(0.05)
        figure.savefig(HERE / f"digits_{name}.png", dpi=90, bbox_inches=around)


def few_labels():
    """Draw the figure of the example of few labels."""
    runpy.run_path(str(GALLERY / "plot_06_few_labels.py"))
    plt.gcf().savefig(HERE / "few_labels.png", dpi=90)


def patches():
    """Draw the atoms of the first model of docs/local_codes.md, and what it sees in the first test image."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, _ = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
    model = SparLow("lda", n_atoms=32, views=Patches(), random_state=0, n_jobs=-1).fit(X[:300], y[:300])
    plots.local_atoms(model).figure.savefig(HERE / "local_atoms.png", dpi=90, bbox_inches="tight")
    axes = plots.local_explanation(model, X_test[0])
    axes[0].figure.savefig(HERE / "local_explanation.png", dpi=90, bbox_inches="tight")


def first_fit():
    """Draw the first test image of docs/first_fit.md."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, _ = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
    model = SparLow("lda", random_state=0, n_jobs=-1).fit(X, y)
    axes = plots.explanation(X_test[0], model.dictionary_, model.encode(X_test[:1]), (8, 8))
    axes[0].figure.savefig(HERE / "first_fit.png", dpi=90, bbox_inches="tight")


if __name__ == "__main__":
    digits()
    few_labels()
    patches()
    first_fit()
