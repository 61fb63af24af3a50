"""What is chosen from the data where the user leaves a choice open."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.extmath import row_norms

from .priors import ElasticNet

_MOST_ATOMS = 1000
_FEWEST_ATOMS = 100
_L1, _L2, _LEAST_L2 = 0.22, 0.2, 0.05


def spread(X: Any) -> float:
    """1 − ‖x̄‖² of samples scaled to unit norm: 0.6 for USPS and MNIST, 0.2 for aligned faces, 0 if all are equal."""
    norms = row_norms(X).astype(np.float64)
    rows = norms > 0
    if not rows.any():
        return 0.0
    mean = np.asarray(X.T @ np.where(rows, 1 / np.where(rows, norms, 1), 0)).ravel() / rows.sum()
    return float(np.clip(1 - mean @ mean, 0, 1))


def default_prior(X: Any, faithful: bool = False) -> ElasticNet:
    """ElasticNet(l1 = s · min(v³, 0.22), l2 = 0.2), v the spread and s the median norm of the samples.

    Samples that are nearly equal (faces) differ in what the first few atoms leave over: they need a small l1 and many
    codes. Samples that differ much (digits) are told apart by few. The l2 keeps codes steady where atoms are alike.
    With ``faithful`` l1 is an eighth of that and l2 = max(v², 0.05): codes that keep more of the sample.
    """
    norms = row_norms(X)
    norms = norms[norms > 0]
    scale = float(np.median(norms)) if len(norms) else 1.0
    v = spread(X)
    l1 = scale * min(max(v**3, 1e-4), _L1)
    return ElasticNet(l1 / 8, max(v**2, _LEAST_L2)) if faithful else ElasticNet(l1, _L2)


def default_n_atoms(n_samples: int, n_distinct: int, n_classes: int | None = None) -> int:
    """One atom per eight samples, at least 100 and ten per class, at most 1000 and as many as distinct samples."""
    wanted = max(n_samples // 8, _FEWEST_ATOMS, 10 * (n_classes or 0))
    return max(1, min(wanted, _MOST_ATOMS, n_distinct))
