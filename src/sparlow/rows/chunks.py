"""What is done for one chunk of samples, coded at a dictionary; the codes that a process keeps meanwhile."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils import gen_batches

from ..checks import Array
from ..coding import Coder
from ..derivative import factored_entries, gradient_entries
from ..graphs import Structure
from ..parallel import Threads
from ..priors import Prior
from ..views import Bound
from .features import Rows


class Counts(NamedTuple):
    """What is known of features once they are computed, to be added up."""

    total: Array  # (w,)
    squares: float
    nnz: int
    used: Array  # (w,) in how many chunks each feature is not zero
    empty: int = 0  # samples without a feature
    n_codes: float = 0.0
    n_views: float = 0.0

    @classmethod
    def of(cls, rows: Rows) -> Counts:
        """Return what is known of the rows of one chunk."""
        return cls(rows.total, rows.squares, rows.nnz, rows.used.astype(int))


class Chunk(Rows):
    """Samples coded at a dictionary, in memory: features [φ, x] of weight one, of which either may be left out.

    Parameters
    ----------
    X : array or csr_array of shape (n, m), or None
        The samples; None where only their codes are at hand.
    coder : Coder
        The dictionary they are coded at.
    views : Bound
    features : array or csr_array of shape (n, width)
        Their codes, or the pooled codes of their views.
    codes : csr_array of shape (n · views, r), optional
        Codes of all views; None where they are not kept.
    n_codes : int, optional
        How many codes of views are not zero, where that is known.
    n_jobs : int, optional
    asked : (bool, bool)
        Which of codes and samples are among the features.

    """

    def __init__(
        self,
        X: Any,
        coder: Coder,
        views: Bound,
        features: Any,
        codes: sp.csr_array | None,
        n_codes: int | None = None,
        n_jobs: int | None = None,
        asked: tuple[bool, bool] = (True, False),
    ) -> None:
        blocks = [block for block, is_asked in zip((features, X), asked, strict=True) if is_asked]
        super().__init__(*blocks, n_jobs=n_jobs)
        self.X, self.coder, self.views, self.features, self.codes = X, coder, views, features, codes
        self.n_codes = n_codes if codes is None else int(codes.nnz)

    def asked(self, asked: tuple[bool, bool]) -> Chunk:
        """Return the same chunk with other features."""
        arrays = self.features, self.codes, self.n_codes
        return Chunk(self.X, self.coder, self.views, *arrays, n_jobs=self.n_jobs, asked=asked)

    def counts(self) -> Counts:
        """Return what is known of the codes."""
        features = self.features
        each = np.diff(features.indptr) if sp.issparse(features) else np.count_nonzero(features, axis=1)
        views = float(features.shape[0] * self.views.n_views)
        known = (np.nan, 0.0) if self.n_codes is None else (float(self.n_codes), views)
        return Counts(*Counts.of(Rows(features))[:4], int(np.sum(each == 0)), *known)

    def sums(self, over: list[Any]) -> tuple[Any, ...]:
        """Return φᵀdφ and φᵀdX for weights d (n,), and φᵀF for factors F (n, c), of all that are given."""
        codes, with_samples = Rows(self.features, n_jobs=self.n_jobs), len(self.blocks) == 2

        def one(over: Any) -> Any:
            if over.ndim == 2:
                return codes.rmatmul(over)
            return codes.form(Structure(over)), _cross(self.features, self.X, over) if with_samples else 0.0

        return tuple(map(one, over))

    def counts_and_sums(self, over: list[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return both as plain tuples, to be added up."""
        return tuple(self.counts()), self.sums(over)

    def projected_sums(self, basis: Array, weights: Array, factors: Any) -> tuple[Array, Any]:
        """Return VᵀΦᵀdΦV and VᵀΦᵀF for a basis V (w, k)."""
        rows = Rows(self @ basis)
        return rows.form(Structure(weights)), 0.0 if factors is None else rows.rmatmul(factors)

    def weighted_rows(self, weights: list[float], **options: Any) -> Array:
        """Return a function of the rows, whose blocks have weights."""
        return self.scaled(*weights).by_rows(**options)

    def largest(self) -> Array:
        """Return the largest product of an atom with each sample or a view of it, (n, 1)."""
        out, V = np.empty((self.shape[0], 1)), self.views.n_views
        for some in self.views.parts(*self.X.shape):
            products = abs(self.views.cut(self.X[some]) @ self.coder.dictionary.T)
            out[some, 0] = products.max(axis=1).reshape(-1, V).max(axis=1)
        return out

    def pullback(self, right: Array, left: Array, scale: Any) -> Array:
        """Return ∂f/∂D (r, q) for ∂f/∂φ = left @ right + scale · φ, left (n, l), right (l, w), scale one or (n,).

        A sparse scale (n, w) is the second term itself.
        """
        views, features, even = self.views, self.features, np.ndim(scale) == 0
        if views.whole and sp.issparse(scale):
            each = gradient_entries(scale, features)
            return np.asarray(self.coder.slope(self.X, features, factored_entries(left, right, each, features)), float)
        if views.whole:
            counts = None if even else np.repeat(scale, np.diff(features.indptr)).astype(features.dtype) * features.data
            each = scale if counts is None else functools.partial(_entries, features, counts)
            return np.asarray(self.coder.slope(self.X, features, factored_entries(left, right, each, features)), float)
        dtype = features.dtype
        right = right.astype(dtype, copy=False)
        slope = np.zeros(self.coder.dictionary.shape)
        for some in views.parts(*self.X.shape):
            cut, codes = views.cut(self.X[some]), self.codes_of(some)
            codes = self.coder.codes(cut) if codes is None else codes
            gradient = left[some].astype(dtype, copy=False) @ right
            if sp.issparse(scale):
                gradient += scale[some].toarray().astype(dtype, copy=False)
            elif np.any(scale):
                shares = features[some]
                factor = np.asarray(scale if even else np.asarray(scale)[some, None], dtype)
                gradient += factor * (shares.toarray() if sp.issparse(shares) else shares)
            entries = views.pull(codes, np.ascontiguousarray(gradient))
            slope += self.coder.slope(cut, codes, functools.partial(_entries, codes, entries))
        return slope

    def codes_of(self, some: slice) -> sp.csr_array | None:
        """Return the codes of the views of some samples, if they were kept."""
        if self.codes is None:
            return None
        V = self.views.n_views
        return _some_rows(self.codes, slice(some.start * V, some.stop * V))


def _cross(codes: Any, X: Any, weights: Array) -> Array:
    """Return φᵀdX; products have the precision of the samples, sums of many are double."""
    out = np.zeros((codes.shape[1], X.shape[1]))
    for rows in gen_batches(X.shape[0], 1024):  # products are added up in the precision of the samples
        some, each = codes[rows], weights[rows].astype(codes.dtype)
        if sp.issparse(some):
            data = some.data * np.repeat(each, np.diff(some.indptr))
            some = sp.csr_array((data, some.indices, some.indptr), shape=some.shape)
        else:
            some = some * each[:, None]
        part = some.T @ X[rows]
        out += part.toarray() if sp.issparse(part) else part
    return out


def code_chunk(
    X: Any, coder: Coder, views: Bound, near: Chunk | None = None, keep: bool = True, n_jobs: int | None = None
) -> Chunk:
    """Code samples, started from codes nearby; without ``keep`` the codes of views are let go."""
    if views.whole:
        codes = coder.codes(X, None if near is None else near.features)
        return Chunk(X, coder, views, codes, codes, n_jobs=n_jobs)
    stack = Stack(X.shape[0])
    kept: list[sp.csr_array] | None = [] if keep else None
    total = 0
    for some in views.parts(*X.shape):
        codes = coder.codes(views.cut(X[some]), None if near is None else near.codes_of(some))
        stack.add(views.pool(codes)[0])
        total += codes.nnz
        # codes beyond 1.5 GB are computed again for the derivative
        kept = None if kept is None or total > 1 << 27 else [*kept, codes]
    return Chunk(X, coder, views, stack.matrix(), sp.csr_array(sp.vstack(kept)) if kept else None, total, n_jobs)


class Stack:
    """Rows of features that come one batch after the other, in arrays that grow in place: none is ever held twice.

    The first batch decides whether the matrix is dense or sparse.
    """

    def __init__(self, n: int) -> None:
        self.n, self.filled, self.indptr = n, 0, [np.zeros(1, np.int64)]
        self.dense: Array | None = None
        self.data = self.indices = np.empty(0)

    def add(self, features: Array) -> None:
        """Add the features of the next samples."""
        if not self.filled and np.count_nonzero(features) > 0.5 * features.size:
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
            self._resize(int(1.1 * (start + part.nnz) * self.n / self.filled))  # room for features of samples to come
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
        return _sorted_rows(self.data, self.indices, indptr, self.width)


def _sorted_rows(data: Array, indices: Array, indptr: Array, width: int) -> sp.csr_array:
    """Return rows as the kernels want them, with small indices where these are enough."""
    small = indptr[-1] <= np.iinfo(np.int32).max
    parts = data, indices, indptr.astype(np.int32 if small else np.int64)
    out = sp.csr_array(parts, shape=(len(indptr) - 1, width))
    out.has_canonical_format = True
    return out


def _entries(codes: sp.csr_array, entries: Array, rows: slice) -> Array:
    """Return the entries of some rows of codes."""
    return entries[codes.indptr[rows.start] : codes.indptr[rows.stop]].copy()


def _some_rows(codes: sp.csr_array, rows: slice) -> sp.csr_array:
    """Return a block of rows as views of the arrays, which the kernels know to be sorted."""
    indptr = codes.indptr[rows.start : rows.stop + 1]
    entries = slice(indptr[0], indptr[-1])
    return _sorted_rows(codes.data[entries], codes.indices[entries], indptr - indptr[0], codes.shape[1])


Scaling = Callable[[Any], Any]


@dataclass(frozen=True)
class Context:
    """What chunks are coded by, sent once to whoever computes: scaling, prior, views, dictionary.

    ``token`` names the codes at this dictionary. Without a dictionary the rows are only scaled. ``keep`` says whether
    codes of views are kept beside their features.
    """

    session: str
    scaling: Scaling
    prior: Prior
    views: Bound
    memory: int
    dictionary: Array | None = None
    token: str = ""
    keep: bool = True


@dataclass(frozen=True)
class Task:
    """A function of one chunk: ``function(chunk, shared, local)``, or of X where there is no dictionary.

    ``shared`` is the same for all chunks, ``local`` is what a chunk needs of its own. Without ``with_rows`` samples are
    not read where codes are at hand. ``near`` names the codes to start from, ``alive`` all that are still of use.
    """

    context: Context
    function: Callable[[Any, Any, Any], Any]
    shared: Any = None
    asked: tuple[bool, bool] = (True, False)
    with_rows: bool = False
    near: str = ""
    alive: frozenset[str] = frozenset()

    def __call__(self, index: int, rows: Callable[[], Any], local: Any) -> Any:
        """Return the function of chunk ``index``, whose samples ``rows()`` gives as they are stored."""
        with Threads(1):
            if self.context.dictionary is None:
                return self.function(self._scaled(rows()), self.shared, local)
            return self.function(self._coded(index, rows).asked(self.asked), self.shared, local)

    def _coded(self, index: int, rows: Callable[[], Any]) -> Chunk:
        """Return the chunk with its codes, those that are kept or new ones."""
        context = self.context
        cache = _cache_of(context.session, context.memory)
        coder, kept = cache.coder(context, self.alive), cache.codes(index, context.token)
        if kept is not None:
            X = self._scaled(rows()) if self.with_rows or self.asked[1] else None
            return Chunk(X, coder, context.views, *kept, n_jobs=1)
        X, start = self._scaled(rows()), cache.codes(index, self.near)
        near = None if start is None else Chunk(X, coder, context.views, *start)
        coded = code_chunk(X, coder, context.views, near, context.keep, 1)
        cache.keep(index, context.token, self.alive, coded)
        return coded

    def _scaled(self, rows: Any) -> Any:
        """Return samples checked and scaled, in fresh arrays: results must not depend on where they lay in memory."""
        dtype = rows.dtype if rows.dtype in (np.float32, np.float64) else np.float64
        if sp.issparse(rows):
            rows = sp.csr_array(rows, copy=True)
            rows.sum_duplicates()
            rows = rows.astype(dtype)
        elif rows.dtype != dtype or not (rows.flags.owndata and rows.flags.c_contiguous):
            rows = np.array(rows, dtype, order="C")
        entries = rows.data if sp.issparse(rows) else rows
        if not np.isfinite(np.sum(entries)) and not np.all(np.isfinite(entries)):
            raise ValueError("Input X contains NaN or infinity.")
        return self.context.scaling(rows)


class Cache:
    """Codes of chunks in the process that computed them, for one fit, within bounded memory."""

    def __init__(self, memory: int) -> None:
        self.memory, self.size = memory, 0
        self.kept: dict[int, dict[str, tuple[Any, Any]]] = {}  # features and codes by chunk and name
        self._coders: dict[str, Coder] = {}
        self._lock = threading.Lock()

    def coder(self, context: Context, alive: frozenset[str]) -> Coder:
        """Return the coder of the dictionary, made once."""
        for token in [token for token in self._coders if token not in alive]:
            self._coders.pop(token, None)
        found = self._coders.get(context.token)
        if found is None:
            assert context.dictionary is not None
            found = self._coders[context.token] = Coder(np.array(context.dictionary), context.prior, n_jobs=1)
        return found

    def codes(self, index: int, token: str) -> tuple[Any, Any] | None:
        """Return features and codes of a chunk by their name, None where they are not kept."""
        return self.kept.get(index, {}).get(token)

    def keep(self, index: int, token: str, alive: frozenset[str], coded: Chunk) -> None:
        """Keep codes of a chunk if there is room, after those of no more use were let go."""
        kept = self.kept.setdefault(index, {})
        with self._lock:
            for old in [old for old in kept if old not in alive]:
                self.size -= bytes_of(*kept.pop(old))
            size = bytes_of(coded.features, coded.codes)
            if self.size + size <= self.memory and token in alive:
                kept[token] = coded.features, coded.codes
                self.size += size


def bytes_of(features: Any, codes: Any) -> int:
    """Return the memory that the codes of a chunk take."""
    blocks = [features] if codes is features or codes is None else [features, codes]
    arrays = [(block.data, block.indices, block.indptr) if sp.issparse(block) else (block,) for block in blocks]
    return sum(int(array.nbytes) for group in arrays for array in group)


caches: dict[str, Cache] = {}
_lock = threading.Lock()


def _cache_of(session: str, memory: int) -> Cache:
    """Return what this process keeps of the codes for a fit."""
    with _lock:
        found = caches.pop(session, None) or Cache(memory)
        caches[session] = found  # the last is the one used last
        while len(caches) > 2:
            del caches[next(iter(caches))]
        return found


def forget(session: str) -> None:
    """Let go what this process keeps for a fit."""
    caches.pop(session, None)
