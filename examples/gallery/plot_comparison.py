"""
Compared with PCA and LDA
=========================

Reduce scikit-learn's digits to few numbers in three ways, and draw test images at their places.
"""

# %%
# All three learn from one half of the images. The accuracy is that of the nearest training image in the plane.
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
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
methods = {
    "PCA": PCA(2),
    "LDA": LinearDiscriminantAnalysis(n_components=2, solver="eigen", shrinkage="auto"),
    "SparLow": SparLow("lda", n_components=2, n_atoms=32, views=Patches(), embedding="whitened", random_state=0),
}
# UMAP, which learns without labels here, joins in where it is installed
try:
    from umap import UMAP
except ImportError:
    pass
else:
    methods["UMAP"] = UMAP(random_state=0, n_jobs=1)

# %%
# A small picture at each place says more than a dot. Colours are those of the classes.
COLOURS = np.array(plt.get_cmap("tab10").colors)


def draw(ax, Z, images, labels, side=420):
    """Draw images of 8 × 8 pixels at their places in the plane, in the colours of their classes."""
    sheet = np.ones((side, side, 3))
    low, high = Z.min(axis=0), Z.max(axis=0)
    places = ((Z - low) / (high - low) * (side - 8)).astype(int)
    for (left, top), image, label in zip(places, images, labels, strict=True):
        ink = image.reshape(8, 8, 1) / 16
        part = sheet[top : top + 8, left : left + 8]
        part[:] = (1 - ink) * part + ink * COLOURS[label]
    ax.imshow(sheet, interpolation="nearest")
    ax.set(xticks=[], yticks=[])


fig, axes = plt.subplots(1, len(methods), figsize=(4.4 * len(methods), 4.6), layout="constrained")
for ax, (name, method) in zip(axes, methods.items(), strict=True):
    near, new = method.fit(X_train, y_train).transform(X_train), method.transform(X_test)
    share = share_right(nearest_neighbour(near, y_train, new), y_test)
    draw(ax, new[:400], X_test[:400], y_test[:400], side=260)
    ax.set_title(f"{name}: {100 * share:.0f} % right", fontsize=14)
# %%
# Two numbers are too few for ten digits. SparLow's nine are enough: drawn by t-SNE, which knows no labels, they fall
# into ten groups of test images. The pixels, drawn in the same way, do so less clearly.
nine = SparLow("lda", n_atoms=32, views=Patches(), embedding="quadratic", random_state=0, n_jobs=-1)
Z = nine.fit(X_train, y_train).transform(X_test)
fig, axes = plt.subplots(1, 2, figsize=(12, 6.2), layout="constrained")
for ax, (name, rows) in zip(axes, {"64 pixels": X_test, "SparLow: 9 numbers": Z}.items(), strict=True):
    draw(ax, TSNE(random_state=0, init="pca", max_iter=500).fit_transform(rows), X_test, y_test)
    ax.set_title(name, fontsize=16)
# sphinx_gallery_thumbnail_number = 2
plt.show()
