"""
Predict the angle of a bar
==========================

``mvr`` takes targets that are numbers: here the angle of a bar, and how diabetes
proceeds within a year.
"""

# %%
# Bars of any angle, moved a little, under noise. The targets are cos 2θ and sin 2θ, so
# that 0° and 180° are the same.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparlow import SparLow, plots

rng = np.random.default_rng(0)
angles = rng.uniform(0, np.pi, 900)
v, u = np.mgrid[-1:1:12j, -1:1:12j][:, None] - rng.normal(0, 0.15, size=(2, 900, 1, 1))
across = u * np.sin(angles)[:, None, None] + v * np.cos(angles)[:, None, None]
bars = (np.exp(-((across / 0.2) ** 2)) + rng.normal(0, 0.2, across.shape)).reshape(
    900, 144
)
T = np.column_stack([np.cos(2 * angles), np.sin(2 * angles)])
plots.images(bars[:20], (12, 12), columns=10).set_title("bars of any angle")

# %%
# A bar that turns is not a linear change of its pixels. Codes follow it more closely
# than a regression on pixels.
X_train, X_test, T_train, T_test = train_test_split(
    bars, T, test_size=0.5, random_state=0
)
fig, axes = plt.subplots(1, 2, figsize=(8.5, 4), sharey=True, layout="constrained")
bent = {
    "ridge regression": RidgeCV(np.logspace(-2, 4, 13)),
    "SparLow": SparLow("mvr", max_iter=0, random_state=0),
}
for ax, (name, model) in zip(axes, bent.items(), strict=True):
    predicted = model.fit(X_train, T_train).predict(X_test)
    found, truth = (
        np.degrees(np.arctan2(*values[:, ::-1].T)) / 2 % 180
        for values in (predicted, T_test)
    )
    ax.scatter(found, truth, s=8)
    ax.set(
        title=f"{name}: R² = {model.score(X_test, T_test):.2f}",
        xlabel="predicted angle, degrees",
    )
axes[0].set_ylabel("true angle, degrees")

# %%
# The measurements of scikit-learn's diabetes data depend on their target almost
# linearly. There is nothing to gain from codes, and SparLow is as good as ridge
# regression. The size of a measurement counts, so ``normalize=False``.
X_train, X_test, y_train, y_test = train_test_split(
    *load_diabetes(return_X_y=True), test_size=0.4, random_state=0
)
sparlow = SparLow("mvr", n_atoms=40, normalize=False, max_iter=0, random_state=0)
straight = {
    name: make_pipeline(StandardScaler(), model)
    for name, model in (("ridge", RidgeCV()), ("SparLow", sparlow))
}
for name, model in straight.items():
    print(f"{name}: R² = {model.fit(X_train, y_train).score(X_test, y_test):.2f}")
# sphinx_gallery_thumbnail_number = 2
plt.show()
