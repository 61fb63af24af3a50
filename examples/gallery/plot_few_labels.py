"""
Few labels
==========

Three labelled images of each digit, and many images without a label. ``sda`` learns from both.
"""

# %%
# Labels of −1 mean unlabelled. ``lda`` can learn from the labelled images only.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from sparlow import SparLow

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
counts = [3, 6, 12, 24]
shares = {"lda, labelled images alone": [], "sda, all images": []}
for count in counts:
    labels = np.full(len(y_train), -1)
    for digit in range(10):
        known = np.flatnonzero(y_train == digit)[:count]
        labels[known] = digit
    known = labels >= 0
    options = {"max_iter": 0, "random_state": 0, "n_jobs": -1}
    lda = SparLow("lda", **options).fit(X_train[known], labels[known])
    sda = SparLow("sda", n_atoms=100, **options).fit(X_train, labels)
    for share, model in zip(shares.values(), (lda, sda), strict=True):
        share.append(100 * model.score(X_test, y_test))

# %%
# Images without labels add about a point, as long as labels are few.
fig, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
for name, share in shares.items():
    ax.plot(counts, share, "o-", label=name)
ax.set(xlabel="labelled images of each digit", ylabel="test images classified correctly, %", xscale="log")
ax.set_xticks(counts, [str(count) for count in counts])
ax.minorticks_off()
ax.grid(alpha=0.3)
ax.legend(frameon=False)

# %%
# ``transduction_`` holds a label for every training image: the given one, or one that was spread over neighbours.
print(f"{100 * np.mean(sda.transduction_ == y_train):.1f} % of the training images have the right label now")
plt.show()
