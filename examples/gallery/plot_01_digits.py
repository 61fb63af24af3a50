"""
Nine numbers per digit
======================

Learn nine numbers per image from half of scikit-learn's digits, and show the others in
the first two of them.
"""

# %%
# Codes of small patches suit images. ``Patches()`` cuts, codes and pools them.
import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from sparlow import SparLow, plots
from sparlow.views import Patches

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, test_size=0.5, random_state=0, stratify=y
)
model = SparLow("lda", n_atoms=32, views=Patches(), random_state=0, n_jobs=-1).fit(
    X_train, y_train
)
Z = model.transform(X_test)
print(f"{Z.shape[1]} numbers per image")
print(f"{100 * model.score(X_test, y_test):.1f} % classified correctly")

# %%
# Each component separates other digits. Two of them do not show all ten classes, but
# nine do.
fig, axes = plt.subplots(1, 2, figsize=(8, 3.9), layout="constrained")
plots.embedding(Z[:, :2], y_test, legend=False, ax=axes[0])
axes[0].set(title="test images", xlabel="component 1", ylabel="component 2")
plots.embedding(Z[:, 2:4], y_test, ax=axes[1])
axes[1].set(title="the same images", xlabel="component 3", ylabel="component 4")

# %%
# These are the images that the model gets wrong, if any.
wrong = model.predict(X_test) != y_test
fig, axes = plt.subplots(
    1, max(wrong.sum(), 2), figsize=(1.4 * max(wrong.sum(), 2), 1.9), squeeze=False
)
for ax, image, truth, said in zip(
    axes[0], X_test[wrong], y_test[wrong], model.predict(X_test)[wrong], strict=False
):
    ax.imshow(image.reshape(8, 8), cmap="gray_r")
    ax.set_title(f"{truth}, taken for {said}", fontsize=9)
for ax in axes[0]:
    ax.set_axis_off()
plt.show()
