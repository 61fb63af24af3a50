"""Patches of scikit-learn's digits."""

import numpy as np
from benchopt import BaseDataset
from sklearn.datasets import load_digits


class Dataset(BaseDataset):
    """Patches of 5 × 5 pixels without their mean, of unit norm; atoms are some of them."""

    name = "digits"
    parameters = {"n, r": [(10_000, 64), (10_000, 128)], "dtype": ["float64", "float32"]}  # noqa: RUF012

    def get_data(self):
        """Cut patches, and draw samples and atoms among them."""
        pictures = load_digits().images
        patches = np.lib.stride_tricks.sliding_window_view(pictures, (5, 5), axis=(1, 2)).reshape(-1, 25)
        patches = patches - patches.mean(axis=1, keepdims=True)
        patches = np.random.default_rng(0).permutation(patches[np.linalg.norm(patches, axis=1) > 1])
        patches = (patches / np.linalg.norm(patches, axis=1, keepdims=True)).astype(self.dtype)
        return {"X": patches[self.r : self.r + self.n], "D": patches[: self.r]}
