"""Where atoms come from: samples to begin with, and samples again for atoms that turn out to be of no use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils.extmath import row_norms

from ..checks import FLOATS, Array, check_array, check_count
from ..constants import ALIKE

Callback = Callable[[int, Array, float], Any]
"""``callback(iteration, dictionary, cost)`` after each iteration; it stops the learner by returning True."""


def samples(X: ArrayLike | sp.sparray | sp.spmatrix, n_atoms: int, *, random_state: Any = None) -> Array:
    """Draw random samples of distinct direction, scaled to unit norm.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, m)
        Samples; zero rows are never chosen.
    n_atoms : int
        How many atoms.
    random_state : int or RandomState, optional
        Which samples.

    Returns
    -------
    dictionary : array of shape (n_atoms, m)

    Examples
    --------
    >>> import numpy as np
    >>> from sparlow.dictionaries import samples
    >>> samples(np.array([[3.0, 4.0], [0.0, 0.0], [6.0, 8.0]]), 1, random_state=0)
    array([[0.6, 0.8]])

    """
    X = check_samples(X)
    return first_atoms(X, n_atoms, None, check_random_state(random_state))


def check_samples(X: Any) -> Any:
    """Return X as float64 or float32, C-ordered or CSR, small enough that sums of squares do not overflow."""
    X = check_array(X, accept_sparse="csr", dtype=FLOATS, order="C", input_name="X")
    if sp.issparse(X):
        X = sp.csr_array(X)
    limit = _square_limit(X)
    if _largest(X) > limit:
        raise ValueError(f"X has entries above {limit:.0g} in {X.dtype}: divide it by its scale.")
    return X


def _square_limit(X: Any) -> float:
    """Return the entry up to which, and down to its inverse, sums of squares neither over- nor underflow."""
    return 1e15 if X.dtype == np.float32 else 1e140


def _largest(X: Any) -> float:
    """Return the largest magnitude in samples."""
    entries = X.data if sp.issparse(X) else X
    return float(max(entries.max(), -entries.min())) if entries.size else 0.0


def within_range(X: Any) -> Any:
    """Return X divided by a power of two, which is exact, where squares of its entries would over- or underflow."""
    largest = _largest(X)
    if largest == 0 or 1 / _square_limit(X) <= largest <= _square_limit(X):
        return X
    exponent = -int(np.frexp(largest)[1])
    if not sp.issparse(X):
        return np.ldexp(X, exponent)
    scaled = sp.csr_array(X, copy=True)
    scaled.data = np.ldexp(scaled.data, exponent)
    return scaled


def unit_samples(X: Any) -> Any:
    """Scale samples to unit norm; zeros stay zero, and samples that have it already are not copied."""
    X = within_range(X)
    norms = row_norms(X)
    if np.all((np.abs(norms - 1) <= 8 * np.finfo(X.dtype).eps) | (norms == 0)):
        return X
    inverse = np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0).astype(X.dtype)
    return sp.csr_array(X.multiply(inverse[:, None])) if sp.issparse(X) else X * inverse[:, None]


def unit_atoms(given: Any, n_features: int, name: str) -> Array:
    """Return atoms from the user, checked and scaled to unit norm."""
    D: Array = check_array(given, dtype=np.float64, input_name=name)
    if D.shape[1] != n_features:
        raise ValueError(f"{name} has atoms of {D.shape[1]} features, but X has {n_features}.")
    norms = np.linalg.norm(D, axis=1, keepdims=True)
    if not norms.min() > 0:
        raise ValueError(f"{name} has atoms of norm zero.")
    return np.asarray(D / norms)


def dense_rows(X: Any, rows: Array | slice) -> Array:
    """Return some rows as a plain array."""
    part = X[rows]
    return part.toarray() if sp.issparse(part) else np.ascontiguousarray(part)


def unit_rows(X: Array) -> Array:
    """Divide rows by their norm, which must not be zero."""
    return X / np.linalg.norm(X, axis=1, keepdims=True).astype(X.dtype)


def distinct_rows(X: Any) -> Array:
    """Return the rows that are not zero and differ in direction, by their products with three fixed random vectors."""
    norms = row_norms(X).astype(np.float64)
    rows = np.flatnonzero(norms > 0)
    probes = np.random.RandomState(0).standard_normal((X.shape[1], 3)) / np.sqrt(X.shape[1])
    shadows = np.asarray(X @ probes)[rows] / norms[rows, None]
    _, first = np.unique(np.round(shadows, 5 if X.dtype == np.float32 else 9), axis=0, return_index=True)
    return rows[np.sort(first)]


def first_atoms(X: Any, n_atoms: int, start: ArrayLike | None, rng: np.random.RandomState) -> Array:
    """Return the atoms to start from: those given, or random samples of distinct direction."""
    n_atoms = check_count(n_atoms, "n_atoms")
    rows = distinct_rows(X)
    if n_atoms > len(rows):
        raise ValueError(
            f"n_atoms={n_atoms} atoms cannot be learned from {len(rows)} samples of distinct direction "
            f"(X has {X.shape[0]} rows; zeros and multiples of others do not count): ask for at most {len(rows)} "
            "atoms, or give more samples."
        )
    if start is None:
        return unit_rows(dense_rows(X, rng.choice(rows, n_atoms, replace=False)))
    D = check_array(start, dtype=X.dtype, order="C", copy=True, input_name="start")
    if D.shape != (n_atoms, X.shape[1]):
        raise ValueError(f"start must have shape {(n_atoms, X.shape[1])} (atoms × features), got {D.shape}.")
    if not np.all(np.any(D, axis=1)):
        raise ValueError("start has atoms of zero norm.")
    return unit_rows(D)


def renew(D: Array, X: Any, use: Array, fewest: float, worst: Array, *, positive: bool = False) -> Array:
    """Replace atoms of little use and near-duplicates in D by the samples explained worst, and return which.

    ``use`` is a number per atom, of which ``fewest`` is too few; of two atoms that are alike the one used less goes.
    ``worst`` lists samples, those explained worst first; they must differ from the atoms kept and from one another.
    Where too few do, the other atoms stay as they are. Opposite atoms are alike unless codes are ``positive``.
    """
    sign_aside = np.asarray if positive else np.abs
    bad = use <= fewest
    alike = np.triu(sign_aside(D @ D.T) > ALIKE, 1)
    for i, j in np.argwhere(alike):
        if not bad[i] and not bad[j]:
            bad[j if use[j] <= use[i] else i] = True
    places = np.flatnonzero(bad)
    if not len(places):
        return places
    candidates = dense_rows(X, worst[: 4 * len(places) + 16])
    candidates = unit_rows(candidates[np.any(candidates, axis=1)])
    apart = np.all(sign_aside(candidates @ D[~bad].T) <= ALIKE, axis=1)
    candidates = candidates[apart]
    likeness = sign_aside(candidates @ candidates.T)
    chosen: list[int] = []
    for c in range(len(candidates)):
        if len(chosen) < len(places) and not np.any(likeness[c, chosen] > ALIKE):
            chosen.append(c)
    places = places[np.argsort(use[places], kind="stable")[: len(chosen)]]
    D[places] = candidates[chosen]
    return places
