"""Samples in parts: the same fit where rows do not fit into memory together, or lie on other machines.

All that touches a sample is a map over rows or a sum over them. :class:`Parts` does what ``Samples`` of ``coded.py``
does, and :class:`CodedParts` what ``Coded`` does, part by part. Parts are cut by a rule that knows
nothing of threads or machines, each is computed by itself, and sums are added pairwise by the index of the part. So a
result has the same bits for any number of threads and machines.

A :class:`Store` says where rows are and who computes: :class:`Local` reads parts of an array, a file or another row
store on threads of this process. ``sparlow.distributed`` has a store for Dask.

Codes stay where they were computed. They are kept there while the optimiser has use for them, in bounded memory, and
are computed again, to the same bits, where they were lost.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import mmap
import threading
import uuid
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.utils import gen_batches

from .coded import Coded, Rows, Samples, code
from .coding import Coder
from .graphs import Structure
from .labels import Labels
from .parallel import Threads
from .priors import Prior
from .views import Bound

Array = NDArray[Any]
Scaling = Callable[[Any], Any]

DRAWN = 20_000  # samples that defaults and the first dictionary are learned from
_OF_EACH = 20  # samples of each class among these, where there are so many
_SHARE = 32  # parts are that share of the working memory, in double precision
_FEWEST, _MOST = 16, 1 << 16  # rows of a part
_NARROWEST = 16  # directions that neighbours are searched in at least


def working_memory() -> int:
    """Return the bytes that temporary arrays may take: ``working_memory`` of scikit-learn's configuration, 1 GiB."""
    return int(get_config()["working_memory"] * 2**20)


def rows_per_part(n_features: int) -> int:
    """Return the rows of a part: the largest power of two whose rows in double precision take 1/32 of the memory."""
    rows = working_memory() / (_SHARE * 8 * max(1, n_features))
    return int(np.clip(2 ** math.floor(math.log2(max(rows, 1))), _FEWEST, _MOST))


def is_dask(X: Any) -> bool:
    """Return whether X is a collection of Dask, which is not imported to find out."""
    return type(X).__module__.partition(".")[0] == "dask" and hasattr(X, "dask")


def _is_store(X: Any) -> bool:
    """Return whether X is an array in a file that is read by slices, as of zarr and h5py."""
    return hasattr(X, "chunks") and hasattr(X, "dtype") and hasattr(X, "__getitem__") and not hasattr(X, "iloc")


def streams(X: Any, times: int = 1) -> bool:
    """Return whether samples are read in parts: Dask's always, others from a size on.

    That is a quarter of the working memory for arrays in files (memory maps, zarr, HDF5), and all of it for arrays in
    memory; where ``times`` as much as the samples is needed at once, so much less.
    """
    if is_dask(X):
        return True
    in_file = isinstance(X, np.memmap) or _is_store(X)
    if not (in_file or isinstance(X, np.ndarray) or sp.issparse(X)) or len(X.shape) != 2 or X.dtype.kind not in "buif":
        return False
    size = X.nnz * 12 if sp.issparse(X) else X.shape[0] * X.shape[1] * X.dtype.itemsize
    return bool(times * size >= (working_memory() // 4 if in_file else working_memory()))


def cut(n: int, n_features: int) -> Array:
    """Return the bounds of the parts of n rows."""
    return np.append(np.arange(0, n, rows_per_part(n_features)), n)


# ── what is done for a part ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class At:
    """What parts are coded by, sent to whoever computes: dictionary, prior, views, weights, scaling.

    ``token`` names the codes at this dictionary, ``near`` those to start from, ``alive`` all that are still of use.
    Without a dictionary the rows are only scaled.
    """

    session: str
    scaling: Scaling
    prior: Prior
    views: Bound
    weights: tuple[float, float]
    memory: int
    dictionary: Array | None = None
    token: str = ""
    near: str = ""
    alive: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Work:
    """A function of one part: ``function(coded, shared, own)``, or of X where there is no dictionary.

    ``shared`` is the same for all parts, ``own`` is what a part needs of its own. Without ``with_rows`` samples are not
    read where codes are at hand and stand alone in the representation.
    """

    at: At
    function: Callable[[Any, Any, Any], Any]
    shared: Any = None
    with_rows: bool = False

    def __call__(self, index: int, rows: Callable[[], Any], own: Any) -> Any:
        """Return the function of part ``index``, whose samples ``rows()`` gives as they are stored."""
        at = self.at
        with Threads(1):
            if at.dictionary is None:
                return self.function(self._scaled(rows()), self.shared, own)
            cache = _cache_of(at.session, at.memory)
            coder = cache.coder(at)
            held = cache.codes(index, at)
            if held is not None and not self.with_rows and not at.weights[1]:
                return self.function(Coded(self._samples(None), coder, *held), self.shared, own)
            samples = self._samples(self._scaled(rows()))
            if held is not None:
                return self.function(Coded(samples, coder, *held), self.shared, own)
            near = cache.near(index, at)
            start = None if near is None else Coded(samples, coder, *near)
            coded = code(samples, coder, start)
            cache.keep(index, at, coded)
            return self.function(coded, self.shared, own)

    def _samples(self, X: Any) -> Samples:
        return Samples(X, self.at.prior, self.at.views, self.at.weights, 1)

    def _scaled(self, rows: Any) -> Any:
        """Return samples checked and scaled, in fresh arrays: results must not depend on where they lay in memory."""
        if sp.issparse(rows):
            rows = sp.csr_array(rows, copy=True)
            rows.sum_duplicates()
        entries = rows.data if sp.issparse(rows) else rows
        dtype = entries.dtype if entries.dtype in (np.float32, np.float64) else np.float64
        rows = rows.astype(dtype) if sp.issparse(rows) else np.array(rows, dtype, order="C")
        if not np.isfinite(np.sum(rows.data if sp.issparse(rows) else rows)) and not np.all(np.isfinite(entries)):
            raise ValueError("Input X contains NaN or infinity.")
        return self.at.scaling(rows)


class _Cache:
    """Codes of parts in the process that computed them, for one fit, within bounded memory."""

    def __init__(self, memory: int) -> None:
        self.memory, self.size = memory, 0
        self._coders: dict[str, Coder] = {}
        self._codes: dict[int, dict[str, tuple[Any, Any]]] = {}
        self._lock = threading.Lock()

    def coder(self, at: At) -> Coder:
        """Return the coder of the dictionary, made once."""
        for token in [token for token in self._coders if token not in at.alive]:
            self._coders.pop(token, None)
        found = self._coders.get(at.token)
        if found is None:
            assert at.dictionary is not None
            found = self._coders[at.token] = Coder(np.array(at.dictionary), at.prior, n_jobs=1)
        return found

    def codes(self, index: int, at: At) -> tuple[Any, Any] | None:
        """Return features and codes of a part, None where they are not kept."""
        return self._codes.get(index, {}).get(at.token)

    def near(self, index: int, at: At) -> tuple[Any, Any] | None:
        """Return features and codes to start from, None where they are not kept."""
        return self._codes.get(index, {}).get(at.near)

    def keep(self, index: int, at: At, coded: Coded) -> None:
        """Keep codes of a part if there is room, after those of no more use were let go."""
        held = self._codes.setdefault(index, {})
        with self._lock:
            for token in [token for token in held if token not in at.alive]:
                self.size -= _bytes(*held.pop(token))
            size = _bytes(coded.features, coded.codes)
            if self.size + size <= self.memory and at.token in at.alive:
                held[at.token] = coded.features, coded.codes
                self.size += size


def _bytes(features: Any, codes: Any) -> int:
    blocks = [features] if codes is features or codes is None else [features, codes]
    arrays = [block.data if sp.issparse(block) else block for block in blocks]
    indices = [a for block in blocks if sp.issparse(block) for a in (block.indices, block.indptr)]
    return sum(int(array.nbytes) for array in (*arrays, *indices))


_caches: dict[str, _Cache] = {}
_caches_lock = threading.Lock()
_SESSIONS = 2  # fits whose codes a process keeps at once


def _cache_of(session: str, memory: int) -> _Cache:
    with _caches_lock:
        found = _caches.pop(session, None) or _Cache(memory)
        _caches[session] = found  # the last is the one used last
        while len(_caches) > _SESSIONS:
            del _caches[next(iter(_caches))]
        return found


def forget(session: str) -> None:
    """Let go what this process keeps for a fit."""
    _caches.pop(session, None)


# ── where rows are, and who computes ────────────────────────────────────────────────────────────────────────────────


def nothing(rows: slice) -> None:
    """Return what a part needs of its own where that is nothing."""


def add(left: Any, right: Any) -> Any:
    """Add two partial results, arrays or tuples of them."""
    if isinstance(left, tuple):
        return tuple(add(a, b) for a, b in zip(left, right, strict=True))
    return left + right


def pairwise_sum(parts: Iterable[Any]) -> Any:
    """Add results in their order, neighbours first, then sums of two, of four, …; few are held at a time."""
    held: list[tuple[int, Any]] = []  # how many parts a sum has, and the sum
    for part in parts:
        count = 1
        while held and held[-1][0] == count:
            _, before = held.pop()
            part, count = add(before, part), 2 * count
        held.append((count, part))
    total = held.pop()[1]
    while held:
        total = add(held.pop()[1], total)
    return total


class Store(ABC):
    """Rows in parts.

    Parameters
    ----------
    shape : (int, int)
    dtype : dtype
        Of the samples once they are read, float32 or float64.
    bounds : array of shape (parts + 1,)
        Where parts begin and end.

    """

    def __init__(self, shape: tuple[int, int], dtype: Any, bounds: Array) -> None:
        self.shape = shape
        self.dtype = np.dtype(dtype if dtype in (np.float32, np.float64) else np.float64)
        self.bounds = np.unique(bounds)  # a part without rows is no part

    @property
    def slices(self) -> list[slice]:
        """The rows of each part."""
        return [slice(a, b) for a, b in itertools.pairwise(self.bounds.tolist())]

    @abstractmethod
    def each(self, work: Work, own: Callable[[slice], Any]) -> Iterator[Any]:
        """Return the work of each part in order; ``own(rows)`` gives what a part needs of its own."""

    @abstractmethod
    def take(self, rows: Array) -> Any:
        """Return some rows as they are stored; ``rows`` are sorted."""

    def total(self, work: Work, own: Callable[[slice], Any]) -> Any:
        """Return the pairwise sum of the work of all parts."""
        return pairwise_sum(self.each(work, own))

    def forget(self, session: str) -> None:
        """Let go what is kept for a fit."""
        forget(session)


class Local(Store):
    """Rows of an array, a memory map or another row store, computed on by threads of this process.

    Parameters
    ----------
    rows : array, csr_array, memory map, or anything with ``shape``, ``dtype`` and slices
    n_jobs : int, optional
    bounds : array, optional
        By default as of :func:`cut`.

    """

    def __init__(self, rows: Any, n_jobs: int | None = None, bounds: Array | None = None) -> None:
        super().__init__(tuple(rows.shape), rows.dtype, cut(*rows.shape) if bounds is None else bounds)
        self.rows, self.n_jobs = sp.csr_array(rows) if sp.issparse(rows) else rows, n_jobs

    def each(self, work: Work, own: Callable[[slice], Any]) -> Iterator[Any]:
        def compute(part: tuple[int, slice]) -> Any:
            index, rows = part
            return work(index, lambda: self.read(rows), own(rows))

        with Threads(self.n_jobs) as threads:
            yield from threads.map(compute, enumerate(self.slices))

    def read(self, rows: Any) -> Any:
        """Return some rows; of a memory map as a copy, after which its pages no longer count as this process's."""
        found = self.rows[rows]
        mapped = getattr(self.rows, "_mmap", None)
        if mapped is None or not hasattr(mmap, "MADV_DONTNEED"):
            return found
        found = np.array(found)
        if self.rows.mode == "r":
            mapped.madvise(mmap.MADV_DONTNEED)
        return found

    def take(self, rows: Array) -> Any:
        if isinstance(self.rows, np.ndarray) or sp.issparse(self.rows):
            return self.read(rows)
        found = [(part, rows[(rows >= part.start) & (rows < part.stop)] - part.start) for part in self.slices]
        return np.concatenate([np.asarray(self.rows[part])[some] for part, some in found if len(some)])


def spread_over(n: int, count: int) -> Array:
    """Return about ``count`` of n rows, evenly spaced."""
    return np.unique(np.linspace(0, n - 1, min(n, count)).astype(int))


def drawn_rows(n: int, n_features: int, labels: Labels, seed: int) -> Array:
    """Draw the rows that defaults and the first dictionary come from, sorted: 20 000, and 20 of each class at least.

    Fewer where these would take more than an eighth of the working memory, but 2000 at least.
    """
    most = max(DRAWN // 10, min(DRAWN, working_memory() // (8 * 8 * n_features)))
    rng = np.random.RandomState(seed)
    chosen = np.zeros(n, bool)
    chosen[rng.choice(n, min(n, most), replace=False)] = True
    if labels.y is not None:
        for c in range(int(labels.y.max()) + 1):
            members = np.flatnonzero(labels.y == c)
            lacking = min(len(members), _OF_EACH) - int(chosen[members].sum())
            if lacking > 0:
                chosen[rng.permutation(members[~chosen[members]])[:lacking]] = True
    return np.flatnonzero(chosen)


# ── samples and codes ───────────────────────────────────────────────────────────────────────────────────────────────


class _Session:
    """One fit: its name, and which codes are still of use; ends with the last object that knows it."""

    def __init__(self) -> None:
        self.name = uuid.uuid4().hex
        self.alive: set[str] = set()
        self._count = itertools.count()
        weakref.finalize(self, forget, self.name).atexit = False

    def token(self) -> str:
        """Return a new name for codes."""
        return f"{self.name}-{next(self._count)}"


@dataclass(frozen=True)
class Parts:
    """Samples in a store, with what they are scaled and coded by; see :class:`~sparlow.coded.Samples`.

    Parameters
    ----------
    store : Store
    scaling : callable
        Raw rows -> rows scaled as they are to be coded.
    prior : Prior
    views : Bound, optional
    weights : (float, float), default=(1, 0)
    n_jobs : int, optional
        Threads of what is computed on the driver.
    drawn : array of int, optional
        Sorted rows that the first dictionary is learned from; all by default.

    """

    store: Store
    scaling: Scaling
    prior: Prior
    views: Bound = field(default_factory=Bound)
    weights: tuple[float, float] = (1.0, 0.0)
    n_jobs: int | None = None
    drawn: Array | None = None
    session: _Session | None = None

    def __post_init__(self) -> None:
        if self.session is None:
            object.__setattr__(self, "session", _Session())

    def __len__(self) -> int:
        return self.store.shape[0]

    @property
    def shape(self) -> tuple[int, int]:
        """Samples and features, (n, m)."""
        return self.store.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of the samples."""
        return self.store.dtype

    @property
    def mean(self) -> Array:
        """The mean of the samples, (m,)."""
        return self._sums[0] / len(self)

    @property
    def _sums(self) -> tuple[Array, float, Array]:
        """The sum of the samples, that of their squares, and in how many parts each feature is used; computed once."""
        assert self.session is not None
        found = self.session.__dict__.get("sums")
        if found is None:
            found = self.store.total(Work(self._at(), _sums_of_rows), nothing)
            self.session.__dict__["sums"] = found
        return found

    def close(self) -> None:
        """Let go what is kept of codes, wherever that is."""
        assert self.session is not None
        self.store.forget(self.session.name)

    def _at(self) -> At:
        assert self.session is not None
        return At(self.session.name, self.scaling, self.prior, self.views, self.weights, working_memory())

    def coded(self, D: Array, near: Any = None) -> CodedParts:
        """Code all samples at the dictionary D (r, q), started from their codes at a dictionary nearby."""
        return CodedParts(self, D, near.token if isinstance(near, CodedParts) else "")

    def take(self, rows: Any) -> Samples:
        """Return some of the samples, in memory."""
        rows = np.asarray(rows)
        work = Work(self._at(), _whole)
        order = np.argsort(rows, kind="stable")
        X = work(0, lambda: self.store.take(rows[order]), None)
        return Samples(X[np.argsort(order)], self.prior, self.views, self.weights, self.n_jobs)

    def width(self, n_atoms: int) -> int:
        """Return the number of features that r atoms give."""
        codes, beside = self.weights
        return (self.views.width(n_atoms) if codes else 0) + (self.shape[1] if beside else 0)

    def drawn_from(self, labels: Labels) -> tuple[Samples, Labels]:
        """Return the drawn samples, in memory, and their labels."""
        rows = np.arange(len(self)) if self.drawn is None else self.drawn
        return self.take(rows), labels.take(rows)

    def for_neighbours(self) -> Array:
        """Return what neighbours are searched in: the samples in memory, or a projection of them that fits.

        That is on their leading principal directions, those of the drawn samples, in single precision: as many as fit
        into the working memory, 16 at least.
        """
        n, m = self.shape
        at = self._at()
        if n * m * self.dtype.itemsize <= working_memory():
            basis, dtype, width = None, self.dtype, m
        else:
            some, _ = self.drawn_from(Labels())
            width = int(np.clip(working_memory() // (4 * n), min(m, _NARROWEST), m))
            centred = np.asarray(some.X.todense() if sp.issparse(some.X) else some.X, float)
            centred = centred - centred.mean(axis=0)
            basis = np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :width].astype(np.float32)
            dtype = np.dtype(np.float32)
        out = np.empty((n, width), dtype)
        found = self.store.each(Work(at, _dense, basis), nothing)
        for rows, part in zip(self.store.slices, found, strict=True):
            out[rows] = part
        return out


def _whole(X: Any, shared: Any, own: Any) -> Any:
    return X


def _dense(X: Any, basis: Array | None, own: Any) -> Array:
    part = X if basis is None else X @ basis
    return part.toarray() if sp.issparse(part) else np.asarray(part)


def _sums_of_rows(X: Any, shared: Any, own: Any) -> tuple[Array, float, Array]:
    rows = Rows(X)
    return rows.mean * rows.shape[0], rows.squares, rows.used.astype(int)


def _count(coded: Coded, shared: Any, own: Any) -> tuple[Any, ...]:
    """Return what is known of the codes of a part once they are computed, to be added up."""
    features = coded.features
    rows = Rows(features)
    counts = np.diff(features.indptr) if sp.issparse(features) else np.count_nonzero(features, axis=1)
    kept = coded.codes
    nonzeros = (np.nan, 0.0) if kept is None else (float(kept.nnz), float(kept.shape[0]))
    empty = int(np.sum(counts == 0))
    return rows.mean * rows.shape[0], rows.squares, rows.nnz, rows.used.astype(int), empty, *nonzeros


class CodedParts(Rows):
    """Samples in parts, coded at a dictionary; see :class:`~sparlow.coded.Coded`.

    Parameters
    ----------
    samples : Parts
    dictionary : array of shape (r, q)
    near : str
        The name of the codes to start from.

    """

    def __init__(self, samples: Parts, dictionary: Array, near: str = "", like: CodedParts | None = None) -> None:
        self.samples, self.dictionary, self.n_jobs = samples, dictionary, samples.n_jobs
        session = samples.session
        assert session is not None
        # ``like`` are the same codes with other weights
        self._owner: _Alive = _Alive(session) if like is None else like._owner
        self._counted: tuple[Any, ...] = (
            like._counted if like else samples.store.total(self._work(_count, near=near), nothing)
        )

    @property
    def token(self) -> str:
        """The name of the codes."""
        return self._owner.token

    def weighted(self, weights: tuple[float, float]) -> CodedParts:
        """Return the same codes with other weights of codes and samples."""
        samples = dataclasses.replace(self.samples, weights=weights)
        return CodedParts(samples, self.dictionary, like=self)

    def _work(
        self, function: Callable[[Any, Any, Any], Any], shared: Any = None, with_rows: bool = False, near: str = ""
    ) -> Work:
        session = self.samples.session
        assert session is not None
        at = dataclasses.replace(
            self.samples._at(),
            dictionary=self.dictionary,
            token=self.token,
            near=near,
            alive=frozenset(session.alive),
        )
        return Work(at, function, shared, with_rows)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.samples), self.samples.width(len(self.dictionary))

    @property
    def mean(self) -> Array:
        alpha, gamma = self.samples.weights
        blocks = [alpha * self._counted[0] / len(self.samples)] if alpha else []
        return np.concatenate(blocks + ([gamma * self.samples.mean] if gamma else []))

    @property
    def squares(self) -> float:
        alpha, gamma = self.samples.weights
        return float(alpha**2 * self._counted[1] + (gamma**2 * self.samples._sums[1] if gamma else 0.0))

    @property
    def nnz(self) -> int:
        """The number of nonzero codes, those of the samples beside them not counted."""
        return int(self._counted[2])

    @property
    def used(self) -> Array:
        alpha, gamma = self.samples.weights
        blocks = [self._counted[3] > 0] if alpha else []
        return np.concatenate(blocks + ([self.samples._sums[2] > 0] if gamma else []))

    @property
    def empty(self) -> float:
        """The share of samples whose features are all zero."""
        return float(self._counted[4]) / len(self.samples)

    @property
    def nonzeros(self) -> float:
        """The mean number of nonzero codes of a view; NaN where these were too many to be kept."""
        return float(self._counted[5] / max(self._counted[6], 1))

    @property
    def largest(self) -> float:
        """The largest product of an atom with a sample or a view of it."""
        return max(self.samples.store.each(self._work(_largest, with_rows=True), nothing))

    def __matmul__(self, U: Array) -> Array:
        out = np.empty((len(self.samples), U.shape[1]))
        found = self.samples.store.each(self._work(_embedded, U), nothing)
        for rows, part in zip(self.samples.store.slices, found, strict=True):
            out[rows] = part
        return out

    def rmatmul(self, E: Any) -> Array:
        return np.asarray(self.samples.store.total(self._work(_transposed), lambda rows: E[rows]))

    def form(self, S: Structure, basis: Array | None = None) -> Array:
        """Return ΦᵀSΦ (w, w), or VᵀΦᵀSΦV (k, k) for a basis V (w, k).

        Without a graph it is a sum over parts. A graph joins samples of different parts: columns of ΦV are gathered,
        as many as an eighth of the working memory holds, S is applied to them here, and the products are summed.
        """
        if S.graph is None:
            diagonal = bool(np.any(S.diagonal))
            factors = np.empty((len(S.diagonal), 0)) if S.factors is None else S.factors
            work = self._work(_form_of_part, basis)
            out, lowered = self.samples.store.total(
                work, lambda rows: (S.diagonal[rows] if diagonal else None, factors[rows])
            )
            out = out if diagonal else np.zeros((len(lowered),) * 2)  # no zeros travel
            return out if S.core is None else np.asarray(out + _symmetric(lowered @ S.core @ lowered.T))
        V = np.eye(self.shape[1]) if basis is None else basis
        out = np.empty((V.shape[1],) * 2)
        size = max(8, working_memory() // (64 * len(self.samples)))
        for columns in gen_batches(V.shape[1], size):
            product = self.rmatmul(S @ (self @ V[:, columns]))
            out[:, columns] = product if basis is None else basis.T @ product
        return _symmetric(out)

    def projected(self, basis: Array) -> Rows:
        return _Projected(self, basis)

    def scatter_product(self, Q: Array, centred: bool = True) -> Array:
        product = np.asarray(self.samples.store.total(self._work(_gram_product, Q), nothing))
        if not centred:
            return product
        return product - len(self.samples) * np.outer(self.mean, self.mean @ Q)

    def scatter_within(self, Q: Array, centred: bool = True) -> Array:
        n = len(self.samples)
        squares = self.form(Structure(np.ones(n)), Q)
        centre = (self.mean @ Q)[:, None]
        return squares - n * (centre @ centre.T) if centred else squares

    def take(self, rows: Array) -> Rows:
        samples = self.samples.take(rows)
        return samples.coded(self.dictionary)

    def pullback(self, left: Array, right: Array, scale: float) -> Array:
        """Return ∂f/∂D (r, q) for ∂f/∂Φ = left @ right + scale · Φ, left (n, l), right (l, w)."""
        if not self.samples.weights[0]:
            return np.zeros(self.dictionary.shape)
        work = self._work(_pulled_back, (right, scale), with_rows=True)
        return np.asarray(self.samples.store.total(work, lambda rows: left[rows]))


class _Alive:
    """Codes are of use as long as this object lives."""

    def __init__(self, session: _Session) -> None:
        self.token = session.token()
        session.alive.add(self.token)
        weakref.finalize(self, session.alive.discard, self.token).atexit = False


class _Projected(Rows):
    """Coded samples projected on a basis, ΦV, which are not gathered."""

    def __init__(self, coded: CodedParts, basis: Array) -> None:
        self.coded, self.basis, self.n_jobs = coded, basis, coded.n_jobs

    @property
    def shape(self) -> tuple[int, int]:
        return self.coded.shape[0], self.basis.shape[1]

    def form(self, S: Structure) -> Array:
        return self.coded.form(S, self.basis)


def _symmetric(matrix: Array) -> Array:
    return (matrix + matrix.T) / 2


def _embedded(coded: Coded, U: Array, own: Any) -> Array:
    return coded @ U


def _transposed(coded: Coded, shared: Any, E: Any) -> Array:
    return coded.rmatmul(E)


def _gram_product(coded: Coded, Q: Array, own: Any) -> Array:
    return coded.rmatmul(coded @ Q)


def _largest(coded: Coded, shared: Any, own: Any) -> float:
    return coded.largest


def _form_of_part(coded: Coded, basis: Array | None, own: tuple[Array | None, Any]) -> tuple[Any, Array]:
    diagonal, factors = own
    rows: Rows = coded if basis is None else Rows(coded @ basis)
    return 0.0 if diagonal is None else rows.form(Structure(diagonal)), rows.rmatmul(factors)


def _pulled_back(coded: Coded, shared: tuple[Array, float], left: Array) -> Array:
    return coded.pullback(left, *shared)
