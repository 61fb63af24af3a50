"""
Read several labels from one picture
====================================

Each picture holds several bars, and each bar is a label. ``mvr`` learns an embedding
from which all labels are read.
"""

# %%
# There are four bars across and four down. A picture has each of them with probability
# 0.3, under noise.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import f1_score

from sparlow import SparLow, plots

rng = np.random.default_rng(0)
BARS = np.zeros((8, 8, 8))
for k in range(4):
    BARS[k, 2 * k : 2 * k + 2, :] = BARS[4 + k, :, 2 * k : 2 * k + 2] = 1
labels = (rng.random((1200, 8)) < 0.3).astype(int)
labels[labels.sum(axis=1) == 0, 0] = 1
X = np.minimum(labels @ BARS.reshape(8, 64), 1.5) + rng.normal(0, 0.5, size=(1200, 64))
X_train, X_test, T_train, T_test = X[:600], X[600:], labels[:600], labels[600:]
ax = plots.images(X_train[:20], (8, 8), columns=10)
ax.set_title("each picture holds several bars", fontsize=14)

# %%
# Labels are the columns of a matrix of zeros and ones. The prediction of a label is a
# number; above a half it is taken as a yes.
model = SparLow("mvr", n_atoms=100, max_iter=0, random_state=0, n_jobs=-1).fit(
    X_train, T_train
)
values = model.predict(X_test)
score = f1_score(T_test, values > 0.5, average="macro")
print(f"F1 score of the eight labels: {score:.3f}")

# %%
# The histograms show the predicted values of one bar in pictures with it and without
# it.
fig, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
for ax, bar in zip(axes, (1, 6), strict=True):
    for present, name in ((0, "not there"), (1, "there")):
        ax.hist(values[T_test[:, bar] == present, bar], bins=25, alpha=0.7, label=name)
    ax.axvline(0.5, color="k", lw=1)
    ax.set(xlabel="predicted value", title=f"bar {bar}", yticks=[])
    ax.legend(frameon=False)
# sphinx_gallery_thumbnail_number = 1
plt.show()
