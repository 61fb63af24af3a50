"""
Atoms of photographs: edges, spots, stripes
===========================================

Learn a dictionary of small patches from two photographs. The atoms are edges, spots and
stripes.
"""

# %%
# The photographs come with scikit-learn. A patch is 10 × 10 pixels, without its mean.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_images
from sklearn.feature_extraction.image import extract_patches_2d

from sparlow import DictionaryLearner, plots
from sparlow.priors import ElasticNet

photographs = [picture.mean(axis=2) / 255 for picture in load_sample_images().images]
patches = np.vstack(
    [
        extract_patches_2d(picture, (10, 10), max_patches=4000, random_state=0).reshape(
            4000, 100
        )
        for picture in photographs
    ]
)
patches -= patches.mean(axis=1, keepdims=True)
norms = np.linalg.norm(patches, axis=1, keepdims=True)
patches = (patches / norms)[norms.ravel() > 0.5]  # flat patches say nothing

# %%
# The online learner sees each patch a few times.
learner = DictionaryLearner(
    120, "online", ElasticNet(0.15), max_iter=5, random_state=0, n_jobs=-1
).fit(patches)
order = np.argsort(
    -np.asarray(abs(learner.transform(patches)).sum(axis=0)).ravel()
)  # most used first
ax = plots.images(learner.dictionary_[order], (10, 10), columns=15)
ax.set_title("120 atoms: edges, spots and stripes", fontsize=14)

# %%
# Few atoms explain a patch: here are a patch, its reconstruction, and the atoms that it
# is made of.
codes = learner.transform(patches)
print(f"{codes.nnz / len(patches):.1f} of 120 atoms per patch")
residuals = np.linalg.norm(patches - codes @ learner.dictionary_, axis=1)
residuals[np.diff(codes.indptr) != 5] = (
    np.inf
)  # of the patches of five atoms, the one that they explain best
row = int(np.argmin(residuals))
plots.explanation(patches[row], learner.dictionary_, codes[[row]], (10, 10))
plt.show()
