"""
Ten digits: LDA, and SparLow before and after learning together
===============================================================

Two numbers are too few for ten digits. Nine are enough, and better ones once dictionary
and projection have learned together.
"""

# %%
# All learn from one half of the images. The accuracy is that of the nearest training
# image in the plane. PCA and UMAP see no labels.
import pathlib

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.manifold import TSNE
from sklearn.model_selection import train_test_split

from sparlow import SparLow
from sparlow.evaluation import nearest_neighbour, share_right
from sparlow.views import Patches

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, test_size=0.5, random_state=0, stratify=y
)
methods = {
    "PCA": PCA(2),
    "LDA": LinearDiscriminantAnalysis(n_components=2, solver="eigen", shrinkage="auto"),
    "SparLow": SparLow(
        "lda",
        n_components=2,
        n_atoms=32,
        views=Patches(),
        embedding="whitened",
        random_state=0,
    ),
}
planes = {}
for name, method in methods.items():
    planes[name] = [
        method.fit(X_train, y_train).transform(X_train),
        method.transform(X_test),
    ]

# %%
# UMAP takes longer to compile than all of this to run, so its plane was computed
# before, by umap-learn 0.5.12: ``UMAP(random_state=0).fit(X_train)``.
folder = (
    pathlib.Path(__file__).parent if "__file__" in globals() else pathlib.Path()
)  # the site is built in the folder
stored = np.loadtxt(folder / "umap_of_digits.csv", delimiter=",")
planes["UMAP"] = [stored[: len(X_train)], stored[len(X_train) :]]

# %%
# A small picture at each place says more than a dot. Colours are those of the classes.
COLOURS = np.array(plt.get_cmap("tab10").colors)


def draw(ax, Z, images, labels, side=420):
    """Draw images of 8 × 8 pixels at their places, in the colours of their classes."""
    sheet = np.ones((side, side, 3))
    low, high = Z.min(axis=0), Z.max(axis=0)
    places = ((Z - low) / (high - low) * (side - 8)).astype(int)
    for (left, top), image, label in zip(places, images, labels, strict=True):
        ink = image.reshape(8, 8, 1) / 16
        part = sheet[top : top + 8, left : left + 8]
        part[:] = (1 - ink) * part + ink * COLOURS[label]
    ax.imshow(sheet, interpolation="nearest")
    ax.set(xticks=[], yticks=[])


fig, axes = plt.subplots(2, 2, figsize=(9, 9.8), layout="constrained")
for ax, (name, (near, new)) in zip(axes.flat, planes.items(), strict=True):
    share = share_right(nearest_neighbour(near, y_train, new), y_test)
    draw(ax, new[:400], X_test[:400], y_test[:400], side=260)
    ax.set_title(f"{name}: {100 * share:.0f} % right", fontsize=14)

# %%
# UMAP is made for drawing and places the digits best. The other three are projections,
# and two numbers of a projection are too few for ten digits. Nine are enough: all that
# LDA gives for ten classes. Here are nine numbers of LDA, of codes that LDA projects,
# and of codes and projection that were learned together, all from the labelled half.
# t-SNE, which knows no labels, draws them in the plane.
codes = {
    "embedding": "orthonormal",
    "solver": "stochastic",
    "early_stopping": False,
    "random_state": 0,
}
nine = {
    "LDA": LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto"),
    "SparLow, start": SparLow("lda", max_iter=0, **codes),
    "SparLow, end": SparLow("lda", max_iter=30, **codes),
}
fig, axes = plt.subplots(1, 3, figsize=(15, 5.8), layout="constrained")
for ax, (name, method) in zip(axes, nine.items(), strict=True):
    near, new = (
        method.fit(X_train, y_train).transform(X_train),
        method.transform(X_test),
    )
    share = share_right(nearest_neighbour(near, y_train, new), y_test)
    draw(ax, TSNE(random_state=0, init="pca").fit_transform(new), X_test, y_test)
    ax.set_title(f"{name}: {100 * share:.1f} %", fontsize=22)
    print(f"{name}, {100 * share:.1f} % of the nearest images have the right class")
# sphinx_gallery_thumbnail_number = 2
plt.show()
