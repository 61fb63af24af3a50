"""What is chosen where the user leaves a choice open."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.extmath import row_norms

from .priors import ElasticNet, Prior


def default_prior(X: Any) -> Prior:
    """ElasticNet(l1 = 0.1·s, l2 = 1e-3), s the median norm of nonzero samples: codes then scale with X."""
    norms = row_norms(X)
    norms = norms[norms > 0]
    return ElasticNet(0.1 * float(np.median(norms)) if len(norms) else 0.1, 1e-3)


def default_n_atoms(n_samples: int, n_features: int) -> int:
    """Twice as many atoms as features, but one per eight samples at most, and one at least."""
    return max(1, min(2 * n_features, n_samples // 8))
