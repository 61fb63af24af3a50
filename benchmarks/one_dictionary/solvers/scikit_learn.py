"""Coordinate descent of scikit-learn, sample by sample; an elastic net is a lasso on augmented rows."""

import warnings

import numpy as np
from benchopt import BaseSolver
from sklearn.decomposition import sparse_encode
from sklearn.exceptions import ConvergenceWarning


class Solver(BaseSolver):
    """``sparse_encode`` with ``lasso_cd``."""

    name = "scikit-learn"
    sampling_strategy = "run_once"

    def set_objective(self, X, D, l1, l2):
        """Append √(2λ₂) I to the atoms and zeros to the samples."""
        r = len(D)
        self.X = np.hstack([X, np.zeros((len(X), r), X.dtype)])
        self.D, self.l1 = np.hstack([D, np.sqrt(2 * l2) * np.eye(r)]).astype(X.dtype), l1

    def run(self, _):
        """Code all samples."""
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            self.codes = sparse_encode(self.X, self.D, algorithm="lasso_cd", alpha=self.l1)

    def get_result(self):
        """Return the codes."""
        return {"codes": self.codes}
