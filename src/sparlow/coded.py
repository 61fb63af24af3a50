"""Samples, coded at a dictionary: the representation Φ (n, w) that criteria and problems speak to.

:class:`Samples` binds rows, prior and views once. Coding them at a dictionary gives a :class:`Coded`. It offers what
is needed of Φ, and the way from ∂f/∂Φ back to ∂f/∂D; nobody else reaches into codes. :class:`Rows` is the same for
samples as they are, for the classical methods.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import gen_batches

from .coding import Coder
from .graphs import Structure
from .priors import Prior
from .views import Bound

Array = NDArray[Any]

_WHOLE = Bound()
_KEPT = 1 << 27  # codes of views that are kept, about 1.5 GB; above that they are computed again for the derivative
_DENSE = 0.5  # share of nonzero features from which on they are stored as a dense array
_BATCH = 1024  # rows that are converted to double precision at once


class Rows:
    """A representation given as a matrix Φ (n, w), dense or sparse.

    Parameters
    ----------
    matrix : array or csr_array of shape (n, w)
    n_jobs : int, optional
        Threads of :meth:`form`.

    """

    def __init__(self, matrix: Any, n_jobs: int | None = None) -> None:
        self.matrix = matrix
        self.n_jobs = n_jobs

    @property
    def shape(self) -> tuple[int, int]:
        """Samples and features, (n, w)."""
        return self.matrix.shape

    @functools.cached_property
    def mean(self) -> Array:
        """The mean of the rows, (w,)."""
        return np.asarray(self.matrix.mean(axis=0, dtype=float), float).ravel()

    @functools.cached_property
    def squares(self) -> float:
        """The squared Frobenius norm, the sum of all squared entries."""
        entries = self.matrix.data if sp.issparse(self.matrix) else self.matrix
        return float(np.sum(np.square(entries, dtype=float)))

    @property
    def nnz(self) -> int:
        """The number of nonzero entries."""
        return int(self.matrix.nnz if sp.issparse(self.matrix) else np.count_nonzero(self.matrix))

    @functools.cached_property
    def used(self) -> Array:
        """Which features are not zero in all samples, (w,)."""
        if sp.issparse(self.matrix):
            return np.bincount(self.matrix.indices, minlength=self.shape[1]) > 0
        return np.any(self.matrix, axis=0)

    def __matmul__(self, U: Array) -> Array:
        """Return ΦU (n, l) in double precision."""
        if self.matrix.dtype == np.float64:
            return np.asarray(self.matrix @ U, float)
        out = np.empty((self.shape[0], U.shape[1]))
        for rows in gen_batches(self.shape[0], _BATCH):  # bounds the copy in double precision
            out[rows] = self.matrix[rows].astype(float) @ U
        return out

    def rmatmul(self, E: Array) -> Array:
        """Return ΦᵀE (w, l) in double precision."""
        if self.matrix.dtype == np.float64:
            return np.asarray(self.matrix.T @ E, float)
        out = np.zeros((self.shape[1], E.shape[1]))
        for rows in gen_batches(self.shape[0], _BATCH):
            out += self.matrix[rows].astype(float).T @ E[rows]
        return out

    def form(self, S: Structure) -> Array:
        """Return ΦᵀSΦ (w, w) in double precision."""
        return S.form(self.matrix, self.n_jobs)


@dataclass(frozen=True)
class Samples:
    """Rows with what they are coded by: prior, views, threads.

    Parameters
    ----------
    X : array or csr_array of shape (n, m)
        Samples, scaled as they are to be coded.
    prior : Prior
    views : Bound, optional
        Views of each sample; by default the sample itself.
    n_jobs : int, optional

    """

    X: Any
    prior: Prior
    views: Bound = _WHOLE
    n_jobs: int | None = None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def coded(self, D: Array, near: Coded | None = None) -> Coded:
        """Code all samples at the dictionary D (r, q), started from their codes at a dictionary nearby."""
        return code(self, Coder(D, self.prior, n_jobs=self.n_jobs), near)

    def take(self, rows: Any) -> Samples:
        """Return some of the samples."""
        return Samples(self.X[rows], self.prior, self.views, self.n_jobs)

    def vectors(self, count: int, rng: np.random.RandomState) -> Any:
        """Return what atoms are learned from: the samples, or ``count`` of their views drawn at random."""
        if self.views.whole:
            return self.X
        each = max(1, min(self.views.n_views, -(-count // len(self))))
        some = rng.permutation(len(self))[: -(-count // each)]
        drawn = []
        for part in self.views.parts(len(some), self.X.shape[1]):
            cut = self.views.cut(self.X[np.sort(some[part])])
            n = part.stop - part.start
            chosen = np.argsort(rng.random_sample((n, self.views.n_views)), axis=1)[:, :each]
            drawn.append(cut[(np.arange(n)[:, None] * self.views.n_views + chosen).ravel()])
        vectors = np.vstack(drawn)
        return vectors[np.linalg.norm(vectors, axis=1) > 0]


class Coded(Rows):
    """Samples coded at a dictionary.

    Parameters
    ----------
    samples : Samples
    coder : Coder
        The dictionary they are coded at.
    matrix : array or csr_array of shape (n, w)
        Their features: the codes, or pooled codes of views.
    codes : csr_array of shape (n · views, r), optional
        Codes of all views; None where they were too many to be kept.

    """

    def __init__(self, samples: Samples, coder: Coder, matrix: Any, codes: sp.csr_array | None) -> None:
        super().__init__(matrix, samples.n_jobs)
        self.samples, self.coder, self.codes = samples, coder, codes

    def pullback(self, left: Array, right: Array, scale: float) -> Array:
        """Return ∂f/∂D (r, q) for ∂f/∂Φ = left @ right + scale · Φ, left (n, l), right (l, w)."""
        samples, views, dtype = self.samples, self.samples.views, self.matrix.dtype
        if views.whole:
            return np.asarray(self.coder.pullback(samples.X, self.matrix, (left, right, scale)), float)
        right = right.astype(dtype, copy=False)
        slope = np.zeros(self.coder.dictionary.shape)
        for part in views.parts(len(samples), samples.X.shape[1]):
            cut, codes = views.cut(samples.X[part]), self._codes_of(part)
            codes = self.coder.codes(cut) if codes is None else codes
            gradient = left[part].astype(dtype, copy=False) @ right
            if scale:
                features = self.matrix[part]
                gradient += dtype.type(scale) * (features.toarray() if sp.issparse(features) else features)
            entries = views.pull(codes, np.ascontiguousarray(gradient))
            slope += self.coder.slope(cut, codes, functools.partial(_entries, codes, entries))
        return slope

    def _codes_of(self, part: slice) -> sp.csr_array | None:
        """Return the codes of the views of some samples, if they were kept."""
        if self.codes is None:
            return None
        V = self.samples.views.n_views
        return _some_rows(self.codes, slice(part.start * V, part.stop * V))

    def without_codes(self) -> Coded:
        """Return the features alone, which take less memory where there are views."""
        return self if self.samples.views.whole else Coded(self.samples, self.coder, self.matrix, None)


def code(samples: Samples, coder: Coder, near: Coded | None = None, keep: bool = True) -> Coded:
    """Code samples with a coder; without ``keep`` the codes of views are let go, which suits samples to be embedded."""
    views, X = samples.views, samples.X
    if views.whole:
        codes = coder.codes(X, None if near is None else near.matrix)
        return Coded(samples, coder, codes, codes)
    stacked: list[Any] = []
    kept: list[sp.csr_array] | None = [] if keep else None
    total, dense = 0, False
    for part in views.parts(len(samples), X.shape[1]):
        codes = coder.codes(views.cut(X[part]), None if near is None else near._codes_of(part))
        features, _ = views.pool(codes)
        if not stacked:
            dense = bool(np.count_nonzero(features) > _DENSE * features.size)
        stacked.append(features if dense else sp.csr_array(features))
        total += codes.nnz
        if kept is not None and total <= _KEPT:
            kept.append(codes)
        else:
            kept = None
    matrix = np.vstack(stacked) if dense else sp.csr_array(sp.vstack(stacked))
    return Coded(samples, coder, matrix, sp.csr_array(sp.vstack(kept)) if kept else None)


def _entries(codes: sp.csr_array, entries: Array, rows: slice) -> Array:
    return entries[codes.indptr[rows.start] : codes.indptr[rows.stop]].copy()


def _some_rows(codes: sp.csr_array, rows: slice) -> sp.csr_array:
    """Return a block of rows as views of the arrays, which the kernels know to be sorted."""
    indptr = codes.indptr[rows.start : rows.stop + 1]
    entries = slice(indptr[0], indptr[-1])
    out = sp.csr_array(
        (codes.data[entries], codes.indices[entries], indptr - indptr[0]),
        shape=(rows.stop - rows.start, codes.shape[1]),
    )
    out.has_canonical_format = True
    return out
