"""Features of samples, Φ (n, w): what criteria, embeddings and problems ask of them, and matrices that answer.

:class:`Features` is the contract. :class:`Rows` has matrices side by side, dense or sparse; ``codes.py`` has the codes
of samples, wherever these are.
"""

from __future__ import annotations

import functools
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import gen_batches

from ..checks import Array
from ..graphs import Structure, symmetric

_BATCH = 1024  # rows that are converted to double precision at once
_NUMBERS = 1 << 22  # numbers that are copied or looked at at once


class Features(ABC):
    """What is asked of features Φ (n, w); sums over the samples are in double precision."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Samples and features, (n, w)."""

    @property
    @abstractmethod
    def mean(self) -> Array:
        """The mean of the rows, (w,)."""

    @property
    @abstractmethod
    def squares(self) -> float:
        """The squared Frobenius norm, the sum of all squared entries."""

    @property
    @abstractmethod
    def used(self) -> Array:
        """Which features are not zero in all samples, (w,)."""

    @abstractmethod
    def __matmul__(self, U: Array) -> Array:
        """Return ΦU (n, l)."""

    @abstractmethod
    def rmatmul(self, E: Any) -> Array:
        """Return ΦᵀE (w, l) for a dense or sparse E (n, l)."""

    @abstractmethod
    def form(self, S: Structure) -> Array:
        """Return ΦᵀSΦ (w, w)."""

    @abstractmethod
    def gram_product(self, Q: Array, shift: Any = 0.0) -> Array:
        """Return Φᵀ(ΦQ − 1 shift) (w, k) for Q (w, k) and a shift (k,)."""

    @abstractmethod
    def by_rows(self, function: Callable[[Rows], Array], width: int, dtype: Any = float) -> Array:
        """Return a function of the rows, (n, width), computed for some of them at a time."""

    @abstractmethod
    def take(self, rows: Array) -> Rows:
        """Return some of the rows in memory."""

    @abstractmethod
    def in_memory(self) -> Rows:
        """Return all rows in memory."""

    @abstractmethod
    def projected(self, basis: Array) -> Features:
        """Return ΦV for a basis V (w, k), of which forms can be asked."""

    def weighted_mean(self, weights: Array | None) -> Array:
        """Return the mean of the rows with weights (n,), None where all count the same."""
        return self.mean if weights is None else self.rmatmul((weights / weights.sum())[:, None]).ravel()

    def weighted_variance(self, weights: Array) -> float:
        """Return Σ wᵢ‖φᵢ − φ̄‖², φ̄ the mean with these weights (n,)."""
        mean, norms = self.weighted_mean(weights), self.by_rows(_squared_norms, 1)[:, 0]
        return float(weights @ norms - weights.sum() * (mean @ mean))

    def scatter_product(self, Q: Array, centred: bool = True) -> Array:
        """Return ΦᵀΠΦQ (w, k) for Q (w, k), with Π = I − 11ᵀ/n, or Π = I where rows are not centred."""
        return self.gram_product(Q, self.mean @ Q if centred else 0.0)

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
        inner = symmetric(Q.T @ self.scatter_product(Q, centred))
        return np.asarray(Q @ np.linalg.eigh(inner)[1][:, ::-1][:, :count])


class Rows(Features):
    """Features given as matrices side by side, Φ = [Φ₁, Φ₂, …] (n, w), each dense or sparse.

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
        return int(self.blocks[0].shape[0]), sum(int(block.shape[1]) for block in self.blocks)

    @property
    def slices(self) -> list[slice]:
        """The columns of each block."""
        ends = np.cumsum([0, *(block.shape[1] for block in self.blocks)])
        return [slice(a, b) for a, b in itertools.pairwise(ends.tolist())]

    @functools.cached_property
    def mean(self) -> Array:
        return self.total / self.shape[0]

    @property
    def total(self) -> Array:
        """The sum of the rows, (w,)."""
        return np.concatenate([_column_sums(block) for block in self.blocks])

    @functools.cached_property
    def squares(self) -> float:
        return sum(float(np.sum(np.square(some, dtype=float))) for block in self.blocks for some in _entries_in(block))

    @property
    def nnz(self) -> int:
        """The number of nonzero entries."""
        return sum(int(np.count_nonzero(some)) for block in self.blocks for some in _entries_in(block))

    @functools.cached_property
    def used(self) -> Array:
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
        out = np.zeros((self.shape[1], E.shape[1]))
        for block, columns in zip(self.blocks, self.slices, strict=True):
            filled = not sp.issparse(E) and _filled(block, E.shape[1])
            for rows in _batches(block, filled):
                part = _copied(block, rows, filled).T @ E[rows]
                out[columns] += part.toarray() if sp.issparse(part) else part
        return out

    def form(self, S: Structure) -> Array:
        if len(self.blocks) == 1:
            return _form(S, self.blocks[0], self.n_jobs)
        out = np.empty((self.shape[1],) * 2)
        for i, (block, columns) in enumerate(zip(self.blocks, self.slices, strict=True)):
            out[columns, columns] = _form(S, block, self.n_jobs)
            for other, others in zip(self.blocks[:i], self.slices[:i], strict=True):
                for some in gen_batches(block.shape[1], 512):  # bounds the dense product of S
                    dense = block[:, some].toarray() if sp.issparse(block) else block[:, some]
                    cross = np.asarray(other.T @ (S @ np.asarray(dense, float)), float)
                    out[others, columns.start + some.start : columns.start + some.stop] = cross
            out[columns, : columns.start] = out[: columns.start, columns].T
        return out

    def gram_product(self, Q: Array, shift: Any = 0.0) -> Array:
        return self.rmatmul(self @ Q - shift)

    def by_rows(self, function: Callable[[Rows], Array], width: int, dtype: Any = float) -> Array:
        out = np.empty((self.shape[0], width), dtype)
        for rows in gen_batches(self.shape[0], _BATCH):
            out[rows] = function(Rows(*(block[rows] for block in self.blocks)))
        return out

    def take(self, rows: Array) -> Rows:
        return Rows(*(block[rows] for block in self.blocks), n_jobs=self.n_jobs)

    def in_memory(self) -> Rows:
        return self

    def projected(self, basis: Array) -> Rows:
        """Return ΦV for a basis V (w, k), rounded like the features."""
        return Rows(self @ basis.astype(self.blocks[0].dtype, copy=False), n_jobs=self.n_jobs)

    def scaled(self, *weights: float) -> Rows:
        """Return the blocks multiplied by their weights; none is copied for a weight of one."""
        pairs = zip(self.blocks, weights, strict=True)
        blocks = (block if weight == 1 else block * block.dtype.type(weight) for block, weight in pairs)
        return Rows(*blocks, n_jobs=self.n_jobs)


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
    return symmetric(out)


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
    size = _NUMBERS if sp.issparse(block) else max(1, _NUMBERS // block.shape[1])
    return (entries[some] for some in gen_batches(len(entries), size))


def _used(block: Any) -> Array:
    """Return which features of a block are not zero in all samples."""
    if not sp.issparse(block):
        return np.any(block, axis=0)
    out = np.zeros(block.shape[1], bool)
    for some in gen_batches(block.nnz, _NUMBERS):
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
    # dense products with many columns are faster
    return bool(sp.issparse(block) and count >= 16 and block.nnz > 0.05 * block.shape[0] * block.shape[1])


def _copied(block: Any, rows: slice, filled: bool, dtype: Any = np.float64) -> Any:
    """Return rows of a block, in double precision if nothing else is asked for; dense where zeros are to be filled."""
    some = block if rows == slice(0, block.shape[0]) else block[rows]  # a slice of a sparse matrix is a copy
    return (some.toarray() if filled else some).astype(dtype, copy=False)
