"""
What each component looks for
=============================

A component of the embedding is a direction of change of the image. ``components_``
holds these directions as images.
"""

# %%
# Two criteria, the same digits. Red adds to the mean image, blue takes away.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from sparlow import SparLow, plots

X, y = load_digits(return_X_y=True)
options = {
    "n_components": 6,
    "n_atoms": 100,
    "max_iter": 0,
    "random_state": 0,
    "n_jobs": -1,
}
models = {
    name: SparLow(name, embedding="orthonormal", **options).fit(X[:900], y[:900])
    for name in ("pca", "lda")
}
fig, axes = plt.subplots(2, 1, figsize=(8, 3.2), layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    plots.images(model.components_, (8, 8), columns=6, signed=True, ax=ax)
    ax.set_title(name, fontsize=10)

# %%
# ``inverse_transform`` walks along a component: from the mean image, the first factor
# of pca in seven amounts.
model = models["pca"]
amounts = np.zeros((7, 6))
amounts[:, 0] = np.linspace(-2, 2, 7) * model.embedding_[:, 0].std()
walk = model.inverse_transform(amounts)
ax = plt.subplots(figsize=(8, 1.6), layout="constrained")[1]
plots.images(walk, (8, 8), columns=7, ax=ax).set_title(
    "from one end of the first component to the other", fontsize=10
)
plt.show()
