"""Samples of few atoms and noise."""

import numpy as np
from benchopt import BaseDataset


class Dataset(BaseDataset):
    """n samples of m numbers, each the sum of some of r atoms with noise of a tenth of its norm."""

    name = "simulated"
    parameters = {"n, m, r": [(10_000, 64, 256), (2_000, 256, 1000)], "dtype": ["float64", "float32"]}  # noqa: RUF012

    def get_data(self):
        """Draw atoms, codes and noise."""
        rng = np.random.default_rng(0)
        D = rng.standard_normal((self.r, self.m))
        D /= np.linalg.norm(D, axis=1, keepdims=True)
        codes = rng.standard_normal((self.n, self.r)) * (rng.random((self.n, self.r)) < 8 / self.r)
        X = codes @ D + 0.1 * rng.standard_normal((self.n, self.m)) / np.sqrt(self.m)
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        return {"X": X.astype(self.dtype), "D": D.astype(self.dtype)}
