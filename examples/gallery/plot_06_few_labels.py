"""
Learn from two labels per digit
===============================

Two labelled images of each digit, and many images without a label. ``sda`` learns from
both.
"""

# %%
# Labels of −1 mean unlabelled. ``lda`` can learn from the labelled images only. Which
# images are labelled is drawn twice, and accuracies are means.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from sparlow import SparLow
from sparlow.views import Patches

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, test_size=0.5, random_state=0, stratify=y
)
counts = [2, 4, 8, 16]
shares = {"lda, labelled images alone": [], "sda, all images": []}
options = {"views": Patches(), "n_atoms": 32, "random_state": 0, "n_jobs": -1}
for count in counts:
    right = []
    for draw in range(2):
        rng = np.random.default_rng(draw)
        labels = np.full(len(y_train), -1)
        for digit in range(10):
            known = rng.choice(np.flatnonzero(y_train == digit), count, replace=False)
            labels[known] = digit
        known = labels >= 0
        lda = SparLow("lda", **options).fit(X_train[known], labels[known])
        sda = SparLow("sda", **options).fit(X_train, labels)
        right.append([100 * model.score(X_test, y_test) for model in (lda, sda)])
    for share, mean in zip(shares.values(), np.mean(right, axis=0), strict=True):
        share.append(mean)

# %%
# Images without labels help most where labels are few.
fig, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
for name, share in shares.items():
    ax.plot(counts, share, "o-", label=name)
ax.set(xlabel="labelled images of each digit", xscale="log")
ax.set_ylabel("test images classified correctly, %")
ax.set_title("Images without labels help most where labels are few")
ax.set_xticks(counts, [str(count) for count in counts])
ax.minorticks_off()
ax.grid(alpha=0.3)
ax.legend(frameon=False)

# %%
# ``transduction_`` holds a label for every training image: the given one, or one that
# was spread over neighbours.
share = np.mean(sda.transduction_ == y_train)
print(f"{100 * share:.1f} % of the training images have the right label now")
plt.show()
