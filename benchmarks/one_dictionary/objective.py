"""Sparse codes of many samples under an elastic net, one dictionary for all."""

import numpy as np
import scipy.sparse as sp
from benchopt import BaseObjective


class Objective(BaseObjective):
    """½‖X − ΦD‖² + λ₁ Σ|φ| + λ₂ Σφ², a mean over the samples, and how far from optimal the worst sample is."""

    name = "One dictionary, many samples"
    parameters = {"l1": [0.2, 0.1, 0.05], "l2": [1e-3]}  # noqa: RUF012
    min_benchopt_version = "1.5"

    def set_data(self, X, D):
        """Take samples (n, m) and atoms (r, m), rows of unit norm."""
        self.X, self.D = X, D

    def get_objective(self):
        """Return what solvers are given."""
        return {"X": self.X, "D": self.D, "l1": self.l1, "l2": self.l2}

    def evaluate_result(self, codes):
        """Return objective, violation and nonzeros, in double precision."""
        codes, X, D = sp.csr_array(codes).astype(float), self.X.astype(float), self.D.astype(float)
        residual, dense = X - codes @ D, codes.toarray()
        cost = self.l1 * abs(codes.data).sum() + self.l2 * (codes.data**2).sum()
        slope = residual @ D.T - 2 * self.l2 * dense
        away = np.where(dense != 0, abs(slope - self.l1 * np.sign(dense)), np.maximum(abs(slope) - self.l1, 0))
        gap = (away.max(axis=1) / np.linalg.norm(X, axis=1)).max()
        value = (0.5 * (residual**2).sum() + cost) / len(X)
        return {"value": float(value), "optimality_gap": float(gap), "nonzeros": codes.count_nonzero() / len(X)}

    def get_one_result(self):
        """Return a result: codes of zeros."""
        return {"codes": sp.csr_array((len(self.X), len(self.D)))}
