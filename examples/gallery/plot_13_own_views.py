"""
Your own views: mirror images
=============================

Views are versions of a sample whose codes are pooled. This family adds the mirror
image, so that left and right are treated alike.
"""

# %%
# A view is a linear map of the sample. ``maps`` returns one matrix for each view.
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from sparlow import SparLow, plots
from sparlow.views import Views


@dataclass(frozen=True)
class Mirrored(Views):
    """The image and its mirror image; their codes are averaged."""

    side: int

    def maps(self, n_features):
        """Return the identity, and the permutation of pixels that mirrors."""
        mirror = np.arange(n_features).reshape(self.side, self.side)[:, ::-1].ravel()
        eye = sp.eye_array(n_features, format="csr")
        return eye, eye[:, mirror]


# %%
# The training images are as usual. Every second test image is mirrored.
X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, test_size=0.5, random_state=0, stratify=y
)
mirrored = X_test.reshape(-1, 8, 8)[:, :, ::-1].reshape(-1, 64)
ax = plots.images(np.vstack([X_test[:10], mirrored[:10]]), (8, 8), columns=10)
ax.set_title("test images, and the same mirrored")

# %%
# Without the views, mirrored images are a surprise. With them, both kinds have the same
# codes. The price is that mirrored images of different digits, such as 2 and 5, look
# more alike.
options = {"n_atoms": 150, "max_iter": 0, "random_state": 0, "n_jobs": -1}
models = {
    "no views": SparLow("lda", **options),
    "Mirrored(8)": SparLow("lda", views=Mirrored(8), **options),
}
shares = np.array(
    [[100 * model.score(test, y_test) for test in (X_test, mirrored)]
     for model in (model.fit(X_train, y_train) for model in models.values())]
)  # fmt: skip
fig, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
for k, name in enumerate(("test images", "mirrored test images")):
    bars = ax.bar(np.arange(2) + 0.4 * k, shares[:, k], 0.38, label=name)
    ax.bar_label(bars, fmt="%.0f")
ax.set_xticks([0.2, 1.2], list(models))
ax.set(ylabel="classified correctly, %", ylim=(0, 130))
ax.set_title("Mirrored images need the views")
ax.legend(frameon=False, ncols=2, loc="upper left")
# sphinx_gallery_thumbnail_number = 2
plt.show()
