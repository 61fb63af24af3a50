"""Draw the pictures of README.md and of pages: ``python docs/images/draw.py [NAME …]``."""

import json
import pathlib
import runpy
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from sparlow import SparLow, plots
from sparlow.views import Patches

HERE = pathlib.Path(__file__).resolve().parent
GALLERY = HERE.parents[1] / "examples" / "gallery"


def digits():
    """Draw nine numbers of LDA and of SparLow, at start and end, by t-SNE: the second figure of the example."""
    runpy.run_path(str(GALLERY / "plot_02_comparison.py"))
    figure = plt.figure(2)
    for ax, name in zip(figure.axes, ("lda", "start", "end"), strict=True):
        figure.canvas.draw()
        around = ax.get_tightbbox().transformed(figure.dpi_scale_trans.inverted()).padded(0.05)
        figure.savefig(HERE / f"digits_{name}.png", dpi=90, bbox_inches=around)


def few_labels():
    """Draw the figure of the example of few labels."""
    runpy.run_path(str(GALLERY / "plot_06_few_labels.py"))
    plt.gcf().savefig(HERE / "few_labels.png", dpi=90)


def network_vectors():
    """Draw what one label per class gives, from the rows of benchmarks/few_labels.py."""
    path = HERE.parents[1] / "benchmarks" / "results" / "few_labels.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    names = {"scenes15": "15-Scenes", "caltech101": "Caltech-101", "cifar10": "CIFAR-10", "caltech256": "Caltech-256"}
    shown = {
        "SparLow sda": ("SDA-SparLow", "tab:orange"),
        "sda": ("SDA without codes", "0.25"),
        "ridge": ("ridge classifier", "0.45"),
        "label spreading": ("label spreading", "0.65"),
        "1NN": ("nearest neighbour", "0.8"),
    }
    figure, ax = plt.subplots(figsize=(9, 3.2), layout="constrained")
    for k, (method, (label, colour)) in enumerate(shown.items()):
        for i, name in enumerate(names):
            found = [r["accuracy"] for r in rows if (r["set"], r["labels"], r["method"]) == (name, 1, method)]
            if found:
                place, mean = i + 0.16 * (k - 2), float(np.mean(found))
                ax.bar(place, mean, 0.15, color=colour, label=label if i == 0 else None)
                ax.annotate(f"{mean:.0f}", (place, mean), ha="center", va="bottom", fontsize=9)
    ax.set_xticks(range(len(names)), names.values(), fontsize=11)
    ax.set(ylabel="right, %", ylim=(0, 92))
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=9, ncols=3, loc="upper right")
    figure.savefig(HERE / "network_vectors.png", dpi=110)


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
    drawn = {draw.__name__: draw for draw in (digits, few_labels, network_vectors, patches, first_fit)}
    for name in sys.argv[1:] or drawn:
        drawn[name]()
