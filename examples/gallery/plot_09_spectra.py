"""
Tell substances apart by their spectra
======================================

Each spectrum has a few peaks, a background that drifts, and noise.
"""

# %%
# Each of four substances has five peaks. Samples differ in strength and background, and
# lines are broadened at random.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import train_test_split

from sparlow import SparLow, plots

rng = np.random.default_rng(1)
axis = np.linspace(0, 1, 200)
peaks = rng.uniform(0.05, 0.95, size=(4, 5))


def spectrum(kind):
    """Return a noisy spectrum of one substance."""
    heights = rng.uniform(0.2, 1.0, size=5)
    lines = np.exp(
        -0.5
        * (
            (axis[:, None] - peaks[kind] - rng.normal(0, 0.004, 5))
            / rng.uniform(0.006, 0.012, 5)
        )
        ** 2
    )
    background = rng.uniform(0.5, 3) * np.exp(-axis * rng.uniform(0.5, 4))
    return lines @ heights + background + rng.normal(0, 0.15, 200)


kinds = np.arange(480) % 4
X = np.array([spectrum(kind) for kind in kinds])
X_train, X_test, y_train, y_test = train_test_split(
    X, kinds, test_size=0.75, random_state=0, stratify=kinds
)
fig, ax = plt.subplots(figsize=(8, 3.4), layout="constrained")
for kind in range(4):
    ax.plot(
        axis, X_train[y_train == kind][0] + 2.5 * kind, lw=1, label=f"substance {kind}"
    )
ax.set(xlabel="wavelength", yticks=[], title="one spectrum of each substance")
ax.legend(frameon=False, ncols=4, loc="upper right")
ax.set_ylim(top=12.5)

# %%
# There are 120 spectra of 200 numbers to learn from. Three numbers remain.
model = SparLow("lda", max_iter=0, random_state=0, n_jobs=-1).fit(X_train, y_train)
lda = LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto").fit(X_train, y_train)
for name, fitted in (("SparLow", model), ("LDA with shrinkage", lda)):
    print(f"{name}: {100 * fitted.score(X_test, y_test):.1f} %")
ax = plots.embedding(
    model.transform(X_test)[:, :2],
    y_test,
    names=[f"substance {kind}" for kind in range(4)],
)
ax.set_title("new spectra by two of three numbers")
# sphinx_gallery_thumbnail_number = 2
plt.show()
