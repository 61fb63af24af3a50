"""Samples, coded at a dictionary: the representation Φ (n, w) that criteria and problems speak to.

:class:`Samples` binds rows, prior and views once. Coded at a dictionary they are a :class:`Coded`, which offers what is
needed of Φ, and the way from ∂f/∂Φ back to ∂f/∂D. :class:`Rows` is the same for samples as they are.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import gen_batches

from .coding import Coder
from .graphs import Structure
from .labels import Labels
from .priors import Prior
from .views import Bound

Array = NDArray[Any]

_WHOLE = Bound()
_KEPT = 1 << 27  # codes of views that are kept, about 1.5 GB; above that they are computed again for the derivative
_DENSE = 0.5  # share of nonzero features from which on they are stored as a dense array
_GROWTH = 1.1  # room for features of samples to come, beside those like the samples so far
_FLAT = 0.5  # norm of a patch whose contrast is that which is added to the norm
_BATCH = 1024  # rows that are converted to double precision at once
_NUMBERS = 1 << 24  # numbers of dense rows that are copied at once
_ENTRIES = 1 << 22  # stored entries that are looked at at once
_FILLED = 0.05  # share of nonzero features from which on dense products with …
_MANY = 16  # … so many columns are faster than sparse ones
_COLUMNS = 512  # columns that a structure is applied to at once


class Rows:
    """A representation given as matrices side by side, Φ = [Φ₁, Φ₂, …] (n, w), each dense or sparse.

    Parameters
    ----------
    *blocks : arrays or csr_arrays of shape (n, wᵢ)
    n_jobs : int, optional
        Threads of :meth:`form`.

    """

    def __init__(self, *blocks: Any, n_jobs: int | None = None) -> None:
        self.blocks = blocks
        self.n_jobs = n_jobs

    @property
    def shape(self) -> tuple[int, int]:
        """Samples and features, (n, w)."""
        return int(self.blocks[0].shape[0]), sum(int(block.shape[1]) for block in self.blocks)

    @property
    def slices(self) -> list[slice]:
        """The columns of each block."""
        ends = np.cumsum([0, *(block.shape[1] for block in self.blocks)])
        return [slice(a, b) for a, b in itertools.pairwise(ends.tolist())]

    @functools.cached_property
    def mean(self) -> Array:
        """The mean of the rows, (w,)."""
        return np.concatenate([_column_sums(block) for block in self.blocks]) / self.shape[0]

    def weighted_mean(self, weights: Array | None) -> Array:
        """Return the mean of the rows with weights (n,), None where all count the same."""
        return self.mean if weights is None else self.rmatmul((weights / weights.sum())[:, None]).ravel()

    def weighted_variance(self, weights: Array) -> float:
        """Return Σ wᵢ‖φᵢ − φ̄‖², φ̄ the mean with these weights (n,)."""
        mean, norms = self.weighted_mean(weights), self.by_rows(_squared_norms, 1)[:, 0]
        return float(weights @ norms - weights.sum() * (mean @ mean))

    @functools.cached_property
    def squares(self) -> float:
        """The squared Frobenius norm, the sum of all squared entries."""
        return sum(float(np.sum(np.square(some, dtype=float))) for block in self.blocks for some in _entries_in(block))

    @property
    def nnz(self) -> int:
        """The number of nonzero entries."""
        return sum(int(np.count_nonzero(some)) for block in self.blocks for some in _entries_in(block))

    @functools.cached_property
    def used(self) -> Array:
        """Which features are not zero in all samples, (w,)."""
        return np.concatenate([_used(block) for block in self.blocks])

    def __matmul__(self, U: Array) -> Array:
        """Return ΦU (n, l) in double precision; where both are single, they are multiplied as they are."""
        out = np.zeros((self.shape[0], U.shape[1]))
        for block, columns in zip(self.blocks, self.slices, strict=True):
            filled = _filled(block, U.shape[1])
            for rows in _batches(block, filled):
                out[rows] += _copied(block, rows, filled, np.result_type(block, U)) @ U[columns]
        return out

    def rmatmul(self, E: Any) -> Array:
        """Return ΦᵀE (w, l) in double precision, for a dense or sparse E (n, l)."""
        out = np.zeros((self.shape[1], E.shape[1]))
        for block, columns in zip(self.blocks, self.slices, strict=True):
            filled = not sp.issparse(E) and _filled(block, E.shape[1])
            for rows in _batches(block, filled):
                part = _copied(block, rows, filled).T @ E[rows]
                out[columns] += part.toarray() if sp.issparse(part) else part
        return out

    def leading_directions(self, count: int, centred: bool, fewest: int = 1) -> Array:
        """Return an orthonormal basis (w, k) of at most ``count`` leading directions of the rows, centred or as given.

        There are n − 1 directions along which n samples differ; others join these where ``fewest`` is more. A
        randomised range finder with two power iterations finds them: its cost is linear in samples and features.
        """
        n, width = self.shape
        count = max(min(count, n - 1 if centred else n), fewest)
        Q = np.random.RandomState(0).standard_normal((width, count + 10))
        for _ in range(3):
            Q = np.linalg.qr(self.scatter_product(Q, centred))[0]
        return np.asarray(Q @ np.linalg.eigh(self.scatter_within(Q, centred))[1][:, ::-1][:, :count])

    def form(self, S: Structure) -> Array:
        """Return ΦᵀSΦ (w, w) in double precision."""
        if len(self.blocks) == 1:
            return _form(S, self.blocks[0], self.n_jobs)
        out = np.empty((self.shape[1],) * 2)
        for i, (block, columns) in enumerate(zip(self.blocks, self.slices, strict=True)):
            out[columns, columns] = _form(S, block, self.n_jobs)
            for other, others in zip(self.blocks[:i], self.slices[:i], strict=True):
                for some in gen_batches(block.shape[1], _COLUMNS):  # bounds the dense product of S
                    dense = block[:, some].toarray() if sp.issparse(block) else block[:, some]
                    cross = np.asarray(other.T @ (S @ np.asarray(dense, float)), float)
                    out[others, columns.start + some.start : columns.start + some.stop] = cross
            out[columns, : columns.start] = out[: columns.start, columns].T
        return out

    def by_rows(self, function: Callable[[Rows], Array], width: int, dtype: Any = float) -> Array:
        """Return a function of the rows, (n, width), computed for some of them at a time."""
        out = np.empty((self.shape[0], width), dtype)
        for rows in gen_batches(self.shape[0], _BATCH):
            out[rows] = function(Rows(*(block[rows] for block in self.blocks)))
        return out

    def take(self, rows: Array) -> Rows:
        """Return some of the rows."""
        return Rows(*(block[rows] for block in self.blocks), n_jobs=self.n_jobs)

    def in_memory(self) -> Rows:
        """Return these rows in memory, where they are already unless they are in parts."""
        return self

    def projected(self, basis: Array) -> Rows:
        """Return ΦV for a basis V (w, k), rounded like the features."""
        return Rows(self @ basis.astype(self.blocks[0].dtype, copy=False), n_jobs=self.n_jobs)

    def scatter_product(self, Q: Array, centred: bool = True) -> Array:
        """Return ΦᵀΠΦQ (w, k) for Q (w, k), with Π = I − 11ᵀ/n, or Π = I where rows are not centred."""
        Y = self @ Q
        if not centred:
            return self.rmatmul(Y)
        Y -= Y.mean(axis=0)
        return self.rmatmul(Y) - np.outer(self.mean, Y.sum(axis=0))

    def scatter_within(self, Q: Array, centred: bool = True) -> Array:
        """Return QᵀΦᵀΠΦQ (k, k)."""
        Y = self @ Q
        if centred:
            Y -= Y.mean(axis=0)
        return np.asarray(Y.T @ Y)


def _form(S: Structure, block: Any, n_jobs: int | None) -> Array:
    """Return ZᵀSZ of one block; a dense one of single precision is multiplied as it is, and sums are double."""
    if sp.issparse(block) or block.dtype == np.float64 or S.graph is not None:
        return S.form(block, n_jobs)
    out = np.zeros((block.shape[1],) * 2)
    for rows in gen_batches(block.shape[0], _BATCH):
        root = np.sqrt(np.abs(S.diagonal[rows])).astype(block.dtype)
        for sign in (1.0, -1.0):
            some = np.sign(S.diagonal[rows]) == sign
            if some.any():
                Z = block[rows][some] * root[some, None]
                out += sign * (Z.T @ Z)
    if S.factors is not None:
        part = Rows(block).rmatmul(S.factors)  # (w, c)
        out += part @ S.core @ part.T
    return (out + out.T) / 2


def _squared_norms(rows: Rows) -> Array:
    """Return the squared norms of some rows, (n, 1)."""
    doubles = (block.astype(float, copy=False) for block in rows.blocks)
    return np.asarray(sum(np.asarray((block * block).sum(axis=1)).ravel() for block in doubles))[:, None]


def _column_sums(block: Any) -> Array:
    """Return the sums over the rows of a block, in double precision."""
    sums = (np.asarray(_copied(block, rows, False).sum(axis=0)).ravel() for rows in _batches(block, False))
    return sum(sums, np.zeros(block.shape[1]))


def _entries_in(block: Any) -> Iterator[Array]:
    """Return the stored entries of a block of features, some at a time."""
    entries = block.data if sp.issparse(block) else block
    size = _ENTRIES if sp.issparse(block) else max(1, _ENTRIES // block.shape[1])
    return (entries[some] for some in gen_batches(len(entries), size))


def _used(block: Any) -> Array:
    """Return which features of a block are not zero in all samples."""
    if not sp.issparse(block):
        return np.any(block, axis=0)
    out = np.zeros(block.shape[1], bool)
    for some in gen_batches(block.nnz, _ENTRIES):
        out[block.indices[some]] = True
    return out


def _batches(block: Any, filled: bool) -> Any:
    """Cut the rows of a block so that a copy of them stays small; all at once where none is made."""
    n, width = block.shape
    if block.dtype == np.float64 and not filled:
        return [slice(0, n)]
    return gen_batches(n, min(_BATCH, max(1, _NUMBERS // width)) if filled or not sp.issparse(block) else _BATCH)


def _filled(block: Any, count: int) -> bool:
    """Return whether products of a sparse block with so many columns are faster if its zeros are filled in."""
    return bool(sp.issparse(block) and count >= _MANY and block.nnz > _FILLED * block.shape[0] * block.shape[1])


def _copied(block: Any, rows: slice, filled: bool, dtype: Any = np.float64) -> Any:
    """Return rows of a block, in double precision if nothing else is asked for; dense where zeros are to be filled."""
    some = block if rows == slice(0, block.shape[0]) else block[rows]  # a slice of a sparse matrix is a copy
    return (some.toarray() if filled else some).astype(dtype, copy=False)


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
    weights : (float, float), default=(1, 0)
        Weights α and γ of codes and sample in the representation [αφ(x), γx]; a part of weight zero is left out.
    n_jobs : int, optional

    """

    X: Any
    prior: Prior
    views: Bound = _WHOLE
    weights: tuple[float, float] = (1.0, 0.0)
    n_jobs: int | None = None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def shape(self) -> tuple[int, int]:
        """Samples and features, (n, m)."""
        return int(self.X.shape[0]), int(self.X.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of the samples."""
        return np.dtype(self.X.dtype)

    @property
    def mean(self) -> Array:
        """The mean of the samples, (m,)."""
        return np.asarray(self.X.mean(axis=0)).ravel()

    def drawn_from(self, labels: Labels) -> tuple[Samples, Labels]:
        """Return the samples that the first dictionary is learned from, and their labels: all of them."""
        return self, labels

    def for_neighbours(self) -> Any:
        """Return what neighbours are searched in: the samples."""
        return self.X

    def coded(self, D: Array, near: Coded | None = None, keep: bool = True) -> Coded:
        """Code all samples at the dictionary D (r, q), started from their codes at a dictionary nearby.

        Codes of views are kept for the derivative and as a start for other codes, unless ``keep`` is False.
        """
        return code(self, Coder(D, self.prior, n_jobs=self.n_jobs), near, keep)

    def take(self, rows: Any) -> Samples:
        """Return some of the samples."""
        return dataclasses.replace(self, X=self.X[rows])

    def width(self, n_atoms: int) -> int:
        """Return the number of features that r atoms give."""
        codes, beside = self.weights
        return (self.views.width(n_atoms) if codes else 0) + (int(self.X.shape[1]) if beside else 0)

    def vectors(self, count: int, rng: np.random.RandomState) -> Any:
        """Return what atoms are learned from: the samples, or ``count`` of their views drawn at random."""
        if self.views.like_samples:
            return self.X
        each = max(1, min(self.views.n_views, -(-count // len(self))))
        some = rng.permutation(len(self))[: -(-count // each)]
        drawn = []
        for part in self.views.parts(len(some), self.X.shape[1]):
            cut = self.views.cut(self.X[np.sort(some[part])])
            n = part.stop - part.start
            chosen = np.argsort(rng.random_sample((n, self.views.n_views)), axis=1)[:, :each]
            drawn.append(cut[(np.arange(n)[:, None] * self.views.n_views + chosen).ravel()])
        vectors, norms = np.vstack(drawn), np.linalg.norm(np.vstack(drawn), axis=1)
        flat = _FLAT if self.views.epsilon else 0.0  # a patch of less contrast than is added to its norm is no atom
        return vectors[norms > flat] if np.sum(norms > flat) > count // 10 else vectors[norms > 0]


class Coded(Rows):
    """Samples coded at a dictionary.

    Parameters
    ----------
    samples : Samples
    coder : Coder
        The dictionary they are coded at.
    features : array or csr_array of shape (n, width)
        Their codes, or the pooled codes of their views.
    codes : csr_array of shape (n · views, r), optional
        Codes of all views; None where they are not kept.
    n_codes : int, optional
        How many codes of views are not zero, where that is known.

    """

    def __init__(
        self, samples: Samples, coder: Coder, features: Any, codes: sp.csr_array | None, n_codes: int | None = None
    ) -> None:
        (alpha, gamma), X = samples.weights, samples.X
        blocks = ([features if alpha == 1 else features * features.dtype.type(alpha)] if alpha else []) + (
            [X if gamma == 1 else X * X.dtype.type(gamma)] if gamma else []
        )
        super().__init__(*blocks, n_jobs=samples.n_jobs)
        self.samples, self.coder, self.features, self.codes = samples, coder, features, codes
        self.n_codes = n_codes if codes is None else int(codes.nnz)

    @property
    def dictionary(self) -> Array:
        """The dictionary that the samples are coded at."""
        return self.coder.dictionary

    @property
    def empty(self) -> float:
        """The share of samples whose features are all zero."""
        features = self.features
        counts = np.diff(features.indptr) if sp.issparse(features) else np.count_nonzero(features, axis=1)
        return float(np.mean(counts == 0))

    @property
    def nonzeros(self) -> float:
        """The mean number of nonzero codes of a view."""
        return float("nan") if self.n_codes is None else self.n_codes / (len(self.samples) * self.samples.views.n_views)

    @property
    def largest(self) -> float:
        """The largest product of an atom with a sample or a view of it."""
        views, X, D = self.samples.views, self.samples.X, self.coder.dictionary
        return max(float(abs(views.cut(X[part]) @ D.T).max()) for part in views.parts(X.shape[0], X.shape[1]))

    def weighted(self, weights: tuple[float, float]) -> Coded:
        """Return the same codes with other weights of codes and samples."""
        samples = dataclasses.replace(self.samples, weights=weights)
        return Coded(samples, self.coder, self.features, self.codes, self.n_codes)

    def pullback(self, left: Array, right: Array, scale: float | Array) -> Array:
        """Return ∂f/∂D (r, q) for ∂f/∂Φ = left @ right + scale · Φ, left (n, l), right (l, w), scale one or (n,)."""
        samples, views, features = self.samples, self.samples.views, self.features
        alpha, _ = samples.weights
        if not alpha:  # no code has a part in the representation
            return np.zeros(self.coder.dictionary.shape)
        right = alpha * right[:, : features.shape[1]]
        scale = alpha * alpha * scale
        even = np.ndim(scale) == 0
        if views.whole:
            third = scale if even else sp.csr_array(features * np.asarray(scale)[:, None])
            return np.asarray(self.coder.pullback(samples.X, features, (left, right, third)), float)
        dtype = features.dtype
        right = right.astype(dtype, copy=False)
        slope = np.zeros(self.coder.dictionary.shape)
        for part in views.parts(len(samples), samples.X.shape[1]):
            cut, codes = views.cut(samples.X[part]), self._codes_of(part)
            codes = self.coder.codes(cut) if codes is None else codes
            gradient = left[part].astype(dtype, copy=False) @ right
            if np.any(scale):
                own = features[part]
                factor = np.asarray(scale if even else np.asarray(scale)[part, None], dtype)
                gradient += factor * (own.toarray() if sp.issparse(own) else own)
            entries = views.pull(codes, np.ascontiguousarray(gradient))
            slope += self.coder.slope(cut, codes, functools.partial(_entries, codes, entries))
        return slope

    def _codes_of(self, part: slice) -> sp.csr_array | None:
        """Return the codes of the views of some samples, if they were kept."""
        if self.codes is None:
            return None
        V = self.samples.views.n_views
        return _some_rows(self.codes, slice(part.start * V, part.stop * V))


def code(samples: Samples, coder: Coder, near: Coded | None = None, keep: bool = True) -> Coded:
    """Code samples with a coder; without ``keep`` the codes of views are let go, which suits samples to be embedded."""
    views, X = samples.views, samples.X
    if views.whole:
        codes = coder.codes(X, None if near is None else near.features)
        return Coded(samples, coder, codes, codes)
    stack = _Stack(len(samples))
    kept: list[sp.csr_array] | None = [] if keep else None
    total = 0
    for part in views.parts(len(samples), X.shape[1]):
        codes = coder.codes(views.cut(X[part]), None if near is None else near._codes_of(part))
        stack.add(views.pool(codes)[0])
        total += codes.nnz
        if kept is not None and total <= _KEPT:
            kept.append(codes)
        else:
            kept = None
    return Coded(samples, coder, stack.matrix(), sp.csr_array(sp.vstack(kept)) if kept else None, total)


class _Stack:
    """Rows of features that come in parts, in arrays that grow in place: no second copy of all rows is ever held.

    The first part decides whether the matrix is dense or sparse.
    """

    def __init__(self, n: int) -> None:
        self.n, self.filled, self.indptr = n, 0, [np.zeros(1, np.int64)]
        self.dense: Array | None = None
        self.data = self.indices = np.empty(0)

    def add(self, features: Array) -> None:
        """Add the features of the next samples."""
        if not self.filled and np.count_nonzero(features) > _DENSE * features.size:
            self.dense = np.empty((self.n, features.shape[1]), features.dtype)
        first, self.filled = self.filled, self.filled + len(features)
        if self.dense is not None:
            self.dense[first : self.filled] = features
            return
        part = sp.csr_array(features)
        start = int(self.indptr[-1][-1])
        self.indptr.append(part.indptr[1:].astype(np.int64) + start)
        if not first:
            self.data, self.indices, self.width = np.empty(0, part.dtype), np.empty(0, np.int32), features.shape[1]
        if start + part.nnz > len(self.data):
            self._resize(int(_GROWTH * (start + part.nnz) * self.n / self.filled))
        self.data[start : start + part.nnz], self.indices[start : start + part.nnz] = part.data, part.indices

    def _resize(self, size: int) -> None:
        """Give the arrays of a sparse matrix another size; memory is taken when it is written to."""
        self.data.resize(size, refcheck=False)
        self.indices.resize(size, refcheck=False)

    def matrix(self) -> Any:
        """Return the features of all samples."""
        if self.dense is not None:
            return self.dense
        indptr = np.concatenate(self.indptr)
        self._resize(int(indptr[-1]))
        small = indptr[-1] <= np.iinfo(np.int32).max
        out = sp.csr_array(
            (self.data, self.indices, indptr.astype(np.int32 if small else np.int64)), shape=(self.n, self.width)
        )
        out.has_canonical_format = True
        return out


def _entries(codes: sp.csr_array, entries: Array, rows: slice) -> Array:
    """Return the entries of some rows of codes."""
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
