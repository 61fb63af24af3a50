"""The defaults that the committed rows were measured with: prior, number of atoms, weight of the proximity."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.preprocessing import normalize
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from sparlow.defaults import spread
from sparlow.priors import ElasticNet

_MOST_ATOMS, _MOST_ATOMS_OF_FEATURES = 1000, 2000
_FEWEST_ATOMS = 100
_SAMPLES_PER_ATOM = 8
_L1, _L2, _LEAST_L2 = 0.22, 0.2, 0.05
_ALIKE = 0.75
_LEAST_KINSHIP = 0.2  # less, and codes would be dense
_PROXIMITY = 100.0
_ENOUGH = 500  # labelled samples, to tell from them alone what samples have in common


def likeness(X: Any, known: Any = None) -> float:
    """Return how well single samples explain others, the median of the largest |cosine| with another sample.

    0.9 for digits, 0.98 for faces, 0.3 for principal components of image features. 500 samples, evenly
    spaced, are compared with 2000; of those that the mask ``known`` marks, if these are 500 or more.
    """
    marked = np.ones(X.shape[0], bool) if known is None or np.sum(known) < _ENOUGH else known
    rows = np.flatnonzero((row_norms(X) > 0) & marked)
    if len(rows) < 2:
        return 1.0
    some, many = (rows[np.unique(np.linspace(0, len(rows) - 1, count).astype(int))] for count in (_ENOUGH, 2000))
    cosines = np.abs(safe_sparse_dot(normalize(X[some]), normalize(X[many]).T, dense_output=True))
    cosines[some[:, None] == many] = 0
    return float(np.median(cosines.max(axis=1)))


def kinship(X: Any, known: Any = None) -> float:
    """Return k = (c/0.75)^1.5 between 0.2 and 1, c the :func:`likeness`: 1 for images, less for image features."""
    return float(np.clip((likeness(X, known) / _ALIKE) ** 1.5, _LEAST_KINSHIP, 1))


def default_prior(X: Any, faithful: bool, k: float, views: bool = False) -> ElasticNet:
    """Return ElasticNet(l1 = s · k^1.5 · min(v³, 0.22), l2 = 0.2/k), s the median norm, v the spread, k the kinship.

    With ``faithful`` l1 is an eighth of that, a quarter with ``views``, and l2 = max(v², 0.05).
    """
    norms = row_norms(X)
    norms = norms[norms > 0]
    scale = float(np.median(norms)) if len(norms) else 1.0
    v = spread(X)
    l1 = scale * min(max(v**3, 1e-4), _L1) * k**1.5
    if faithful:
        return ElasticNet(l1 / (4 if views else 8), max(v**2, _LEAST_L2))
    return ElasticNet(l1, _L2 / k)


def default_proximity(k: float) -> float:
    """Return μ₂ = 100 (1 − k), k the :func:`kinship`."""
    return _PROXIMITY * (1 - k)


def default_n_atoms(
    n_samples: int, n_distinct: int, n_classes: int | None = None, k: float = 1.0, n_labelled: int | None = None
) -> int:
    """Return one atom per 8k^1.5 samples: at least 100 and ten per class, at most 1000/k, 2000 and the distinct ones.

    k is the :func:`kinship`. Images share their atoms; features that have little in common need nearly one for each.
    Where only some samples are labelled and these would do for images, there are no more atoms than they, so that each
    class can have atoms of its own.
    """

    def wanted(k: float) -> int:
        number = max(int(n_samples / (_SAMPLES_PER_ATOM * k**1.5)), _FEWEST_ATOMS, 10 * (n_classes or 0))
        return min(number, int(min(_MOST_ATOMS / k, _MOST_ATOMS_OF_FEATURES)), n_distinct)

    n_atoms = wanted(k)
    if n_labelled is not None and n_labelled >= wanted(1.0):
        n_atoms = min(n_atoms, n_labelled)
    return max(1, n_atoms)
