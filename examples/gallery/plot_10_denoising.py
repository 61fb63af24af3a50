"""
Remove noise with sparse codes
==============================

The coder is useful by itself. Patches of a noisy photograph are rebuilt from few atoms,
and the noise stays behind.
"""

# %%
# The photograph comes with scikit-learn. Noise of a tenth of the range is added to a
# part of it.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image
from sklearn.feature_extraction.image import (
    extract_patches_2d,
    reconstruct_from_patches_2d,
)

from sparlow import DictionaryLearner, encode
from sparlow.priors import ElasticNet

clean = load_sample_image("china.jpg").mean(axis=2)[60:260, 120:360] / 255
rng = np.random.default_rng(0)
noisy = clean + rng.normal(0, 0.1, clean.shape)

# %%
# All overlapping patches of 7 × 7 pixels, each without its mean. The dictionary is
# learned from the noisy patches.
patches = extract_patches_2d(noisy, (7, 7)).reshape(-1, 49)
means = patches.mean(axis=1, keepdims=True)
sample = (patches - means)[rng.choice(len(patches), 6000, replace=False)]
prior = ElasticNet(l1=0.18, l2=0.0)
D = (
    DictionaryLearner(120, "online", prior, max_iter=3, random_state=0, n_jobs=-1)
    .fit(sample)
    .dictionary_
)

# %%
# Each patch is coded exactly, with few atoms. Overlapping patches are averaged.
codes = encode(patches - means, D, prior, n_jobs=-1)
print(f"{codes.shape[0]} patches, {codes.nnz / codes.shape[0]:.1f} atoms per patch")
rebuilt = reconstruct_from_patches_2d(
    (codes @ D + means).reshape(-1, 7, 7), clean.shape
)


def psnr(image):
    """Return the peak signal-to-noise ratio in dB."""
    return -10 * np.log10(np.mean((image - clean) ** 2))


fig, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
for ax, (name, image) in zip(
    axes, {"photograph": clean, "noisy": noisy, "rebuilt": rebuilt}.items(), strict=True
):
    ax.imshow(image, cmap="gray", vmin=0, vmax=1)
    ax.set_title(name if image is clean else f"{name}, {psnr(image):.1f} dB")
    ax.set_axis_off()
plt.show()
