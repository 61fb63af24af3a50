"""What is chosen from the data where the user leaves a choice open.

The strength of the prior, the number of atoms and the scaling follow from the samples alone. What depends on labels,
the weights of codes and samples and the number of steps, is chosen on held-out samples: see ``estimators/choosing.py``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.extmath import row_norms

from .checks import warn
from .constants import (
    ATOMS_PER_CLASS,
    FEWEST_ATOMS,
    L1,
    L2,
    LOCAL_L1,
    LOCAL_L2,
    MILD,
    MOST_ATOMS,
    ONE_COLUMN,
    SAMPLES_PER_ATOM,
    UNLIKE_COLUMNS,
)
from .priors import ElasticNet
from .views import Bound


def spread(X: Any) -> float:
    """Return v = 1 − ‖x̄‖² of samples scaled to unit norm: 0.55 for USPS, 0.2 for aligned faces, 0 if all are equal."""
    norms = row_norms(X).astype(np.float64)
    rows = norms > 0
    if not rows.any():
        return 0.0
    mean = np.asarray(X.T @ np.where(rows, 1 / np.where(rows, norms, 1), 0)).ravel() / rows.sum()
    return float(np.clip(1 - mean @ mean, 0, 1))


def warn_of_common_mean(X: Any) -> None:
    """Warn where samples are nearly all of them their mean: there atoms have little to tell apart by."""
    v = spread(X)
    # the closest faces have more than twice 0.02
    if 8 * np.finfo(float).eps < v < 0.02:  # equal samples are an error later on
        warn(
            f"The samples are nearly equal: all but a share of {v:.1g} of their squared norm is that of their mean, "
            "and what is learned from the rest is not steady. Subtract the mean of each column first, and where "
            "columns are of different units divide by their deviations: make_pipeline(StandardScaler(), SparLow(...))."
        )


def unlike_columns(X: Any) -> bool:
    """Return whether few columns hold nearly all of the variance, as where they have different units.

    The number of columns in use is (Σσ²)²/Σσ⁴, σ² their variances. Columns are unlike if that is less than a fifth of
    the columns that vary at all, or less than one and a half. Images, descriptors and series are far above; raw tables
    are far below. Sparse samples are never scaled by columns.
    """
    if sp.issparse(X):
        return False
    largest = max(float(X.max()), -float(X.min()))
    if not 1e-100 < largest < 1e100:  # where squares would overflow or vanish
        X = X / (largest or 1.0)
    variances = np.var(X, axis=0, dtype=float)
    variances = variances[variances > 0]
    if len(variances) < 2:
        return False
    shares = variances / variances.max()
    return bool(shares.sum() ** 2 / np.sum(shares**2) < max(UNLIKE_COLUMNS * len(shares), ONE_COLUMN))


def default_prior(X: Any, mild: bool = False, views: Bound | None = None) -> ElasticNet:
    """Return ElasticNet(0.15 · s · √v, 0.2), s the median norm of the samples and v their :func:`spread`.

    √v is the distance of samples of unit norm from their mean, the part that atoms have to tell apart; l1 is a fixed
    share of it. The l2 keeps codes steady where atoms are alike. With ``mild``, l1 is an eighth of that: codes that
    keep more of the sample, for criteria that have nothing else to go by. Patches, which have about unit norm and no
    mean, have ElasticNet(0.1, 0.1).
    """
    if views is not None and views.epsilon:
        return ElasticNet(LOCAL_L1, LOCAL_L2)
    norms = row_norms(X)
    norms = norms[norms > 0]
    scale = float(np.median(norms)) if len(norms) else 1.0
    l1 = L1 * scale * max(spread(X), 1e-8) ** 0.5 * (MILD if mild else 1.0)
    mantissa, exponent = math.frexp(l1)  # the last digits depend on where the samples lie in memory
    return ElasticNet(math.ldexp(round(mantissa * 2**32), exponent - 32), L2)


def default_n_atoms(n_samples: int, n_distinct: int, n_classes: int | None = None) -> int:
    """Return one atom per two samples, at least 100 and ten per class, at most 1000 and the distinct samples."""
    wanted = max(n_samples // SAMPLES_PER_ATOM, FEWEST_ATOMS, ATOMS_PER_CLASS * (n_classes or 0))
    return max(1, min(wanted, MOST_ATOMS, n_distinct))
