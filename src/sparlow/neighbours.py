"""Search of nearest neighbours among all samples, among those of the same class, and among those of other classes.

The search takes inner products of blocks of samples. They give a lower and an upper bound of each squared distance
‖xᵢ − xⱼ‖² = ‖xᵢ‖² + ‖xⱼ‖² − 2⟨xᵢ, xⱼ⟩ that hold whatever the rounding errors of the product. Where the bounds leave
open who is nearer, the distance is computed from the difference of the samples in double precision. So the neighbours
depend on the samples only, not on the blocks, the number of threads or the library that forms the products.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from . import _kernels
from .checks import Array, refuse_unsound, warn
from .constants import CELL, EXACT, EXACT_CLASSES, PROBED
from .parallel import Threads, frozen

Progress = Callable[[float], object]

_BLOCK = 1024  # samples of a block
_ROWS = 4096  # samples whose candidates are judged at once


def neighbours(
    X: Any, k: int, queries: Any = None, n_jobs: int | None = None, progress: Progress | None = None
) -> tuple[Array, Array]:
    """Return distances and indices of the k nearest rows of X to each query, or to each row of X but itself.

    Exact for queries, and up to 60 000 rows; above that by nearest-neighbour descent if pynndescent is installed, which
    found 94 % of ten neighbours among 15 000 rows (``benchmarks/graphs.py``). Of rows at the same distance the
    first is the nearest.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, m)
        Samples.
    k : int
        Number of neighbours.
    queries : array or sparse matrix of shape (q, m), optional
        Samples whose neighbours are searched.
    n_jobs : int, optional
        Number of threads. The result does not depend on it.
    progress : callable, optional
        Called with the share of the work that is done, from 0 to 1.

    Returns
    -------
    distances, indices : arrays of shape (n, k), or (q, k)
        Nearest first.

    """
    n = X.shape[0]
    most = n - 1 if queries is None else n
    if not 1 <= k <= most:
        raise ValueError(f"k must be from 1 to {most}, the number of samples to choose from; got {k}.")
    if queries is None and n > EXACT and _descent() is not None:
        return _descended(X, k)
    columns = Points.of(X)
    rows = columns if queries is None else columns.matching(queries)
    lists = _search(rows, columns, k, 0, _all_pairs(rows, columns), n_jobs, progress)[0]
    found = [lists.nearest(part, measure=True) for part in _parts(rows.n)]
    _, hits, squares = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
    return np.sqrt(squares).reshape(-1, k) / columns.scale, hits.reshape(-1, k)


def class_neighbours(
    X: Any, labels: Array, k_within: int, k_between: int, n_jobs: int | None = None, progress: Progress | None = None
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Return pairs of each sample and its nearest samples, of its class and of other classes.

    Samples with label −1 are in no pair. A sample with fewer others to choose from is paired with all of them. Of
    samples at the same distance the first is the nearest.

    Exact up to 100 000 labelled samples. Above that each class is cut into cells of at most 512 samples along its
    principal directions, and a cell is compared with the nearest cells of its class and of other classes, 20 000
    samples of each, so that time grows linearly with the number of samples. All neighbours of the same class are found
    if the class has no more than 20 000 samples. Of those of other classes, comparing with a fifth of the samples (as
    of 100 000) found 92 % on MNIST and 67 % on made-up features without clear directions; a tenth found 79 % and 48 %.
    These shares were measured on 15 000 samples, with limits to scale (``benchmarks/graphs.py``).

    Parameters
    ----------
    X : array or sparse matrix of shape (n, m)
        Samples.
    labels : integer array of shape (n,)
        Classes from 0 on, −1 for none.
    k_within, k_between : int
        Number of neighbours of the same class and of other classes.
    n_jobs : int, optional
        Number of threads. The result does not depend on it.
    progress : callable, optional
        Called with the share of the work that is done, from 0 to 1.

    Returns
    -------
    within, between : pairs of arrays (samples, neighbours)
        Indices of both ends of each pair, of type int32.

    """
    order = np.flatnonzero(labels >= 0)
    order = order[np.argsort(labels[order], kind="stable")].astype(np.int32)
    if not len(order):
        nothing = np.zeros(0, np.int32), np.zeros(0, np.int32)
        return nothing, nothing
    samples = Points.of(X, order, labels)
    pairs = _all_pairs(samples, samples)
    if samples.n > EXACT_CLASSES:
        samples, pairs = _cells(samples)
    within, between = _search(samples, samples, k_within, k_between, pairs, n_jobs, progress)
    return within.edges(), between.edges()


# ── samples, prepared for products ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Points:
    """Samples in the order of their classes, centred and scaled to at most 1, with bounds of rounding errors."""

    X: Any  # as given
    order: Array  # positions -> rows of X
    labels: Array  # of the positions, sorted
    scale: float  # a power of two
    mean: Any
    rows: Any  # what products are formed of
    terms: Array  # float32: terms_i + terms_j − 2⟨x_i, x_j⟩ is a lower bound of the squared distance
    errors: Array  # float32: adding errors_i + errors_j makes it an upper bound

    @classmethod
    def of(cls, X: Any, order: Array | None = None, labels: Array | None = None) -> Points:
        """Prepare the rows of X named in ``order``, by default all of them as of one class."""
        X = _checked(X)
        order = np.arange(X.shape[0], dtype=np.int32) if order is None else order
        classes = np.zeros(len(order), np.int64) if labels is None else np.asarray(labels, np.int64)[order]
        if sp.issparse(X):
            return cls._prepared(X, order, classes, _power(float(abs(X).max()) if X.nnz else 0.0), None)
        mean, most = np.zeros(X.shape[1]), 0.0
        for part in _parts(len(order)):
            mean += X[order[part]].sum(axis=0, dtype=np.float64) / len(order)
        for part in _parts(len(order)):
            most = max(most, float(np.abs(X[order[part]] - mean).max(initial=0.0)))
        return cls._prepared(X, order, classes, _power(most), mean)

    def matching(self, queries: Any) -> Points:
        """Prepare queries in the same way."""
        X = _checked(queries)
        if sp.issparse(X) != sp.issparse(self.X):
            X = sp.csr_array(X) if sp.issparse(self.X) else X.toarray()
        order = np.arange(X.shape[0], dtype=np.int32)
        return self._prepared(X, order, np.zeros(len(order), np.int64), self.scale, self.mean)

    @classmethod
    def _prepared(cls, X: Any, order: Array, labels: Array, scale: float, mean: Any) -> Points:
        """Return samples scaled and ordered by class, for the search of neighbours."""
        n, m = len(order), X.shape[1]
        if mean is None:
            rows = X[order] * scale
            precision, squares = np.finfo(np.float64).eps, np.asarray(rows.multiply(rows).sum(axis=1), float).ravel()
        else:
            # products in single precision give tight bounds
            rows, squares = np.empty((n, m), np.float32 if m <= 2048 else np.float64), np.empty(n)
            precision = np.finfo(rows.dtype).eps
            for part in _parts(n):
                centred = scale * (X[order[part]] - mean)
                rows[part], squares[part] = centred, np.einsum("ij,ij->i", centred, centred)
        # |fl⟨x, y⟩ − ⟨x, y⟩| ≤ m eps ‖x‖‖y‖ in whatever order it is added up, and 2‖x‖‖y‖ ≤ ‖x‖² + ‖y‖²; the rest
        # is for rounding the samples, their squares and the bound, and for products too small for single precision
        error = (m * precision + 16 * np.finfo(np.float32).eps) * squares + (m + 16) * np.finfo(np.float32).tiny
        return cls(
            X, order, labels, scale, mean, rows, (squares - error).astype("f4"), (2.001 * error).astype(np.float32)
        )

    @property
    def n(self) -> int:
        """The number of samples."""
        return len(self.order)

    def products(self, own: Any, other: Points, others: Any) -> Array:
        """Return inner products of some of these with some of the other samples, in single precision."""
        block = self.rows[own] @ other.rows[others].T
        return np.asarray(block.toarray() if sp.issparse(block) else block, np.float32)

    def squares(self, own: Array, other: Points, others: Array) -> Array:
        """Return squared distances of pairs, from their differences."""
        out = np.empty(len(own))
        first, second = self.order[own], other.order[others]
        if sp.issparse(self.X):
            for low in range(0, len(own), 1 << 14):
                part = slice(low, low + (1 << 14))
                difference = (self.X[first[part]] - other.X[second[part]]) * self.scale
                out[part] = np.asarray(difference.multiply(difference).sum(axis=1)).ravel()
        else:
            _kernels.squared_distances(*frozen(self.X, other.X, first, second), self.scale, out)
        return out


def _checked(X: Any) -> Any:
    """Return samples as a CSR or C-contiguous array of single or double precision."""
    refuse_unsound(X, "X")
    if sp.issparse(X):
        return sp.csr_array(X).astype(np.float64)
    X = np.asarray(X)
    return np.ascontiguousarray(X, X.dtype if X.dtype in (np.float32, np.float64) else np.float64)


def _power(largest: float) -> float:
    """Return the power of two that brings a number to between ½ and 1: multiplying by it makes no rounding error."""
    return float(np.ldexp(1.0, int(np.clip(-np.frexp(largest)[1], -1000, 1000)))) if largest > 0 else 1.0


def _parts(n: int) -> Iterator[slice]:
    """Cut the samples whose neighbours are searched into parts."""
    return (slice(low, min(low + _ROWS, n)) for low in range(0, n, _ROWS))


# ── the search ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Pairs:
    """Blocks of rows and of columns, and which of them are compared."""

    rows: list[slice]
    columns: list[slice]
    chosen: list[tuple[int, int]]  # where rows and columns are the same samples, each pair once


def _blocks(n: int) -> list[slice]:
    """Cut samples into blocks between which distances are computed."""
    return [slice(low, min(low + _BLOCK, n)) for low in range(0, n, _BLOCK)]


def _all_pairs(rows: Points, columns: Points) -> _Pairs:
    """Return all pairs of blocks, each once."""
    first, second = _blocks(rows.n), _blocks(columns.n)
    chosen = itertools.product(range(len(first)), range(len(second)))
    return _Pairs(first, second, [(i, j) for i, j in chosen if rows is not columns or i <= j])


@dataclass(frozen=True)
class _Lists:
    """Candidates for the k nearest of each row: more than k, so that those left out are farther for nearly all rows."""

    rows: Points
    columns: Points
    pairs: _Pairs
    same: bool  # whether neighbours are of the same class
    k: int
    size: int  # candidates that are kept
    values: Array  # (n, more than size), lower bounds of squared distances
    indices: Array
    counts: Array
    limits: Array  # lower bounds of what was left out are no smaller

    @classmethod
    def empty(cls, rows: Points, columns: Points, pairs: _Pairs, same: bool, k: int) -> _Lists:
        """Return lists without candidates."""
        k = min(k, columns.n)
        size = min(k + 8 + k // 8, columns.n)
        room = (rows.n, size + max(16, size // 2) if k else 0)
        limits = np.full(rows.n, np.inf if k else -np.inf, np.float32)
        values, indices, counts = np.empty(room, np.float32), np.empty(room, np.int32), np.zeros(rows.n, np.int32)
        return cls(rows, columns, pairs, same, k, size, values, indices, counts, limits)

    @property
    def arrays(self) -> tuple[Array, Array, Array, Array, int]:
        """What the kernel fills."""
        return self.values, self.indices, self.counts, self.limits, self.size

    def edges(self) -> tuple[Array, Array]:
        """Return rows and columns of the pairs of all rows."""
        starts, ends, _ = zip(*(self.nearest(part) for part in _parts(self.rows.n)), strict=True)
        return np.concatenate(starts), np.concatenate(ends)

    def nearest(self, part: slice, measure: bool = False) -> tuple[Array, Array, Array]:
        """Return rows and columns of the pairs of some rows, and squared distances where ``measure`` asks for them."""
        rows, columns = self.rows, self.columns
        counts = self.counts[part]
        verdicts, bounds = np.zeros((len(counts), self.values.shape[1]), np.int8), np.empty(len(counts), np.float32)
        lists = frozen(self.values[part], self.indices[part], counts)
        _kernels.judge(*lists, self.k, *frozen(rows.errors[part], columns.errors), verdicts, bounds)
        missed = np.flatnonzero(bounds >= self.limits[part])  # what was left out may be as near
        verdicts[missed] = 0
        if measure:
            verdicts[verdicts == 1] = 2
        sure, open_ = np.nonzero(verdicts == 1), np.nonzero(verdicts == 2)
        some = [np.stack([open_[0], self.indices[part][open_]])]
        for low in range(0, len(missed), 64):
            some.append(self._within(part.start, missed[low : low + 64], bounds[missed[low : low + 64]]))
        own, other = np.concatenate(some, axis=1)
        squares = rows.squares(own + part.start, columns, other)
        wanted = self.k - np.bincount(sure[0], minlength=len(counts))
        order = np.lexsort((columns.order[other], squares, own))
        own, other, squares = own[order], other[order], squares[order]
        keep = np.arange(len(own)) - np.searchsorted(own, own) < wanted[own]
        starts = np.concatenate([sure[0], own[keep]]) + part.start
        ends = np.concatenate([self.indices[part][sure], other[keep]])
        return rows.order[starts], columns.order[ends], squares[keep]

    def _within(self, first: int, places: Array, bounds: Array) -> Array:
        """Return all pairs of some rows whose squared distance may be within the bounds."""
        rows, columns, found = self.rows, self.columns, []
        own = first + places
        allowed = np.zeros((len(own), columns.n), bool)
        blocks = np.searchsorted([block.stop for block in self.pairs.rows], own, side="right")
        for i, j in self.pairs.chosen:
            allowed[blocks == i, self.pairs.columns[j]] = True
            if rows is columns:
                allowed[blocks == j, self.pairs.columns[i]] = True
        if rows is columns:
            allowed[np.arange(len(own)), own] = False
        for block in _blocks(columns.n):
            lower = rows.terms[own, None] + columns.terms[block] - 2 * rows.products(own, columns, block)
            near = (lower <= bounds[:, None]) & allowed[:, block]
            near &= (rows.labels[own, None] == columns.labels[block]) == self.same
            hits = np.nonzero(near)
            found.append(np.stack([places[hits[0]], hits[1] + block.start]))
        return np.concatenate(found, axis=1)


def _search(
    rows: Points,
    columns: Points,
    k_within: int,
    k_between: int,
    pairs: _Pairs,
    n_jobs: int | None,
    progress: Progress | None,
) -> tuple[_Lists, _Lists]:
    """Collect candidates of the same and of other classes from products of blocks."""
    both = rows is columns
    same, other = (_Lists.empty(rows, columns, pairs, kind, k) for kind, k in ((True, k_within), (False, k_between)))
    arrays = frozen(rows.terms, columns.terms, rows.labels, columns.labels)
    locks = [threading.Lock() for _ in pairs.rows]

    def compare(pair: tuple[int, int]) -> None:
        i, j = pair
        first, second = pairs.rows[i], pairs.columns[j]
        products = rows.products(first, columns, second)
        # lists of both blocks change: locks are taken in order, so that no two threads wait for each other
        with locks[i], locks[j] if both and j > i else threading.Lock():
            _kernels.keep_nearest(
                *frozen(products), first.start, second.start, both, *arrays, same.arrays, other.arrays
            )

    with Threads(n_jobs) as threads:
        for done, _ in enumerate(threads.map(compare, pairs.chosen), 1):
            if progress is not None:
                progress(done / len(pairs.chosen))
    return same, other


# ── approximate search ──────────────────────────────────────────────────────────────────────────────────────────────


def _cells(samples: Points) -> tuple[Points, _Pairs]:
    """Cut the classes into cells, and pair each with the nearest of its class and of other classes."""
    starts = np.searchsorted(samples.labels, np.arange(samples.labels[-1] + 2))
    with Threads(1):
        cells = [c for a, b in itertools.pairwise(starts) if b > a for c in _halved(samples.rows, np.arange(a, b))]
        centres = np.array([np.asarray(samples.rows[cell].mean(axis=0), float).ravel() for cell in cells])
        squares = np.sum(centres**2, axis=1)
        distances = squares[:, None] + squares - 2 * centres @ centres.T
    np.fill_diagonal(distances, -np.inf)  # a cell is its own nearest
    sizes = np.array([len(cell) for cell in cells])
    labels = samples.labels[[cell[0] for cell in cells]]
    chosen = set()
    for i, row in enumerate(distances):
        order = np.argsort(row, kind="stable")
        for kind in (labels[order] == labels[i], labels[order] != labels[i]):
            near = order[kind]
            enough = np.searchsorted(np.cumsum(sizes[near]), PROBED) + 1
            chosen |= {(min(i, j), max(i, j)) for j in near[:enough].tolist()}
    ends = np.concatenate([[0], np.cumsum(sizes)])
    blocks = [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]
    order = np.concatenate(cells)
    moved = Points(
        samples.X,
        samples.order[order],
        samples.labels[order],
        samples.scale,
        samples.mean,
        samples.rows[order],
        samples.terms[order],
        samples.errors[order],
    )
    return moved, _Pairs(blocks, blocks, sorted(chosen))


def _halved(X: Any, rows: Array) -> list[Array]:
    """Cut samples into cells of equal sizes, again and again at the median along their principal direction."""
    if len(rows) <= CELL:
        return [rows]
    some = X[rows[:: max(1, len(rows) // 1024)]]
    mean = np.asarray(some.mean(axis=0)).ravel()
    direction = np.random.default_rng(0).standard_normal(X.shape[1]).astype(some.dtype)
    for _ in range(10):
        along = some @ direction - mean @ direction
        direction = some.T @ along - mean * along.sum()
        direction /= max(float(np.linalg.norm(direction)), np.finfo(np.float32).tiny)
    order = rows[np.argsort(X[rows] @ direction, kind="stable")]
    half = len(order) // 2
    return _halved(X, order[:half]) + _halved(X, order[half:])


def _descent() -> Any:
    """Import pynndescent, or warn that the search is exact and slow."""
    try:
        import pynndescent
    except ImportError:
        warn(
            f"More than {EXACT} samples and no pynndescent: neighbours are searched exactly, which takes time n². "
            "Install it with: pip install 'sparlow[graphs]'",
        )
        return None
    return pynndescent


def _descended(X: Any, k: int) -> tuple[Array, Array]:
    """Find the k nearest rows to each row but itself by nearest-neighbour descent."""
    # one thread: with more, what it finds depends on their number
    index = _descent().NNDescent(_checked(X), n_neighbors=max(k + 1, 15), random_state=0, n_jobs=1)
    indices, distances = index.neighbor_graph
    own = indices == np.arange(len(indices))[:, None]
    own[~own.any(axis=1), -1] = True  # a row that does not list itself drops its farthest neighbour
    keep = ~own & (np.cumsum(~own, axis=1) <= k)
    return distances[keep].reshape(-1, k), indices[keep].reshape(-1, k)
