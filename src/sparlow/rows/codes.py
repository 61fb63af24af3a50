"""Samples in a store, and their codes at a dictionary: the features Φ = [αφ, γx] that a fit asks everything of.

All that touches a sample is a map over rows or a sum over them, made chunk by chunk. Samples in memory are one chunk.
Other chunks are cut by a rule that knows nothing of threads or machines, each is computed by itself, and sums are
added pairwise by the index of the chunk. So a result has the same bits for any number of threads and machines.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils import gen_batches

from ..checks import Array
from ..coding import Coder
from ..graphs import Structure, symmetric
from ..labels import Labels
from ..priors import Prior
from ..views import Bound
from .chunks import Chunk, Context, Scaling, Task, code_chunk
from .features import Features, Rows
from .stores import Memory, Store, nothing, working_memory

_BATCH = 1024  # rows whose products are added up in the precision of the samples
_NARROWEST = 16  # directions that neighbours are searched in at least
_FLAT = 0.5  # norm of a patch whose contrast is that which is added to the norm


def _as_they_are(X: Any) -> Any:
    """Return samples that are scaled already."""
    return X


@dataclass(frozen=True)
class Samples:
    """Rows with what they are scaled and coded by: prior, views, threads.

    Parameters
    ----------
    store : array, csr_array or Store of shape (n, m)
        An array has samples scaled as they are to be coded, a store has them raw.
    prior : Prior
    views : Bound, optional
        Views of each sample; by default the sample itself.
    weights : (float, float), default=(1, 0)
        Weights α and γ of codes and sample in the features [αφ(x), γx]; a part of weight zero is left out.
    n_jobs : int, optional
        Threads of what is computed here.
    scaling : callable, optional
        Raw rows of a store -> rows scaled as they are to be coded.
    drawn : array of int, optional
        Sorted rows of a store that the first dictionary is learned from; all by default.

    """

    store: Any
    prior: Prior
    views: Bound = field(default_factory=Bound)
    weights: tuple[float, float] = (1.0, 0.0)
    n_jobs: int | None = None
    scaling: Scaling = _as_they_are
    drawn: Array | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.store, Store):
            object.__setattr__(self, "store", Memory(self.store))

    def __len__(self) -> int:
        return int(self.store.shape[0])

    @property
    def X(self) -> Any:  # noqa: N802
        """The samples where they are in memory, None elsewhere."""
        return self.store.in_memory

    @property
    def shape(self) -> tuple[int, int]:
        """Samples and features, (n, m)."""
        return int(self.store.shape[0]), int(self.store.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of the samples."""
        return np.dtype(self.store.dtype)

    @property
    def context(self) -> Context:
        """What chunks are coded by, without a dictionary."""
        return Context(self.store.session.name, self.scaling, self.prior, self.views, working_memory())

    @property
    def sums(self) -> Counts:
        """Sums over the samples, computed once."""
        return Counts(*self._once("", lambda: self.store.total(Task(self.context, _sums_of_rows), nothing)))

    def product(self, asked: Sum) -> Array:
        """Return XᵀdX (m, m) for weights, or XᵀF (m, c) for factors; no dictionary changes it: computed once."""
        return np.asarray(
            self._once(asked.name, lambda: self.store.total(Task(self.context, _sum_of_samples), asked.of))
        )

    def _once(self, name: str, compute: Callable[[], Any]) -> Any:
        """Return a sum over the samples, computed when it is asked for first."""
        sums = self.store.session.sums
        if name not in sums:
            sums[name] = compute()
        return sums[name]

    def close(self) -> None:
        """Let go what is kept of codes, wherever that is."""
        self.store.forget()

    def coded(self, D: Array, near: Codes | None = None, keep: bool = True) -> Codes:
        """Code all samples at the dictionary D (r, q), started from their codes at a dictionary nearby.

        Codes of views are kept for the derivative and as a start for other codes, unless ``keep`` is False.
        """
        if self.X is not None:
            return code(self, Coder(D, self.prior, n_jobs=self.n_jobs), near, keep)
        return Codes(self, D, _InStore(self, D, near, keep))

    def take(self, rows: Any) -> Samples:
        """Return some of the samples, in memory."""
        rows = np.asarray(rows)
        if self.X is not None:
            X = self.X[rows]
        else:
            order = np.argsort(rows, kind="stable")
            X = Task(self.context, _whole)(0, lambda: self.store.take(rows[order]), None)[np.argsort(order)]
        return Samples(X, self.prior, self.views, self.weights, self.n_jobs)

    def width(self, n_atoms: int) -> int:
        """Return the number of features that r atoms give."""
        codes, samples = self.weights
        return (self.views.width(n_atoms) if codes else 0) + (self.shape[1] if samples else 0)

    def drawn_from(self, labels: Labels) -> tuple[Samples, Labels]:
        """Return the samples that the first dictionary is learned from, in memory, and their labels."""
        if self.X is not None:
            return self, labels
        rows = np.arange(len(self)) if self.drawn is None else self.drawn
        return self.take(rows), labels.take(rows)

    def for_neighbours(self) -> Any:
        """Return what neighbours are searched in: the samples in memory, or a projection of them that fits.

        That is on their leading principal directions, those of the drawn samples, in single precision: as many as fit
        into the working memory, 16 at least.
        """
        if self.X is not None:
            return self.X
        n, m = self.shape
        basis, dtype, width = None, self.dtype, m
        if n * m * self.dtype.itemsize > working_memory():
            X = self.drawn_from(Labels())[0].X
            width = int(np.clip(working_memory() // (4 * n), min(m, _NARROWEST), m))
            centred = np.asarray(X.todense() if sp.issparse(X) else X, float)
            centred = centred - centred.mean(axis=0)
            basis = np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :width].astype(np.float32)
            dtype = np.dtype(np.float32)
        return self.store.into(np.empty((n, width), dtype), Task(self.context, _dense, basis))

    def vectors(self, count: int, rng: np.random.RandomState) -> Any:
        """Return what atoms are learned from: the samples, or ``count`` of their views drawn at random."""
        if self.views.like_samples:
            return self.X
        each = max(1, min(self.views.n_views, -(-count // len(self))))
        some = rng.permutation(len(self))[: -(-count // each)]
        drawn = []
        for part in self.views.parts(len(some), self.shape[1]):
            cut = self.views.cut(self.X[np.sort(some[part])])
            n = part.stop - part.start
            chosen = np.argsort(rng.random_sample((n, self.views.n_views)), axis=1)[:, :each]
            drawn.append(cut[(np.arange(n)[:, None] * self.views.n_views + chosen).ravel()])
        vectors, norms = np.vstack(drawn), np.linalg.norm(np.vstack(drawn), axis=1)
        flat = _FLAT if self.views.epsilon else 0.0  # a patch of less contrast than is added to its norm is no atom
        return vectors[norms > flat] if np.sum(norms > flat) > count // 10 else vectors[norms > 0]


def _present(samples: Samples) -> tuple[bool, bool]:
    """Return whether codes and samples have a part in the features."""
    alpha, gamma = samples.weights
    return bool(alpha), bool(gamma)


def code(samples: Samples, coder: Coder, near: Codes | None = None, keep: bool = True) -> Codes:
    """Code samples in memory with a coder."""
    start = None if near is None else near.chunk
    chunk = code_chunk(samples.X, coder, samples.views, start, keep, samples.n_jobs)
    return Codes(samples, coder.dictionary, _InMemory(chunk))


# ── codes in memory or in a store ───────────────────────────────────────────────────────────────────────────────────


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
        """Return sums over the rows of one chunk."""
        return cls(rows.total, rows.squares, rows.nnz, rows.used.astype(int))


class _InMemory:
    """Codes of samples in memory, which are one chunk."""

    def __init__(self, chunk: Chunk) -> None:
        self.chunk, self.sums, self.wanted = chunk, dict[str, Any](), dict[str, Sum]()

    @functools.cached_property
    def counts(self) -> Counts:
        return Counts(*_counts(self.chunk))

    def total(self, function: Any, shared: Any, asked: tuple[bool, bool], local: Any, with_rows: bool = False) -> Any:
        """Return a function of the chunk."""
        return function(self.chunk.asked(asked), shared, local(slice(0, self.chunk.shape[0])))

    def into(self, out: Array, function: Any, shared: Any, asked: tuple[bool, bool], with_rows: bool = False) -> Array:
        """Return a function of the rows."""
        return np.asarray(function(self.chunk.asked(asked), shared, None), out.dtype)


class _InStore:
    """Codes of samples in a store, which stay where they were computed. They are of use as long as this object lives.

    Sums that were asked of the codes nearby, which coding starts from, are computed in the same pass as the codes.
    """

    chunk = None

    def __init__(self, samples: Samples, D: Array, near: Codes | None, keep: bool) -> None:
        self.store, self.session, self.asked = samples.store, samples.store.session, _present(samples)
        self.token = self.session.token()
        self.session.alive.add(self.token)
        weakref.finalize(self, self.session.alive.discard, self.token).atexit = False
        self.context = dataclasses.replace(samples.context, dictionary=D, token=self.token, keep=keep)
        self.sums, self.wanted = dict[str, Any](), dict[str, Sum]()
        self.counts = self.code_near(None if near is None else near.place)

    def code_near(self, near: Any) -> Counts:
        """Code all samples; return what is known of the codes then."""
        wanted = [] if near is None else list(near.wanted.values())
        bases, token = [one.basis for one in wanted], "" if near is None else near.token
        task = self._task(_counted_and_summed, bases, self.asked, near=token)
        counts, found = self.store.total(task, lambda rows: [one.of(rows) for one in wanted])
        self.sums.update(zip([one.name for one in wanted], found, strict=True))
        return Counts(*counts)

    def _task(
        self, function: Any, shared: Any, asked: tuple[bool, bool], with_rows: bool = False, near: str = ""
    ) -> Task:
        return Task(self.context, function, shared, asked, with_rows, near, frozenset(self.session.alive))

    def total(self, function: Any, shared: Any, asked: tuple[bool, bool], local: Any, with_rows: bool = False) -> Any:
        """Return the sum of a function of the chunks."""
        return self.store.total(self._task(function, shared, asked, with_rows), local)

    def into(self, out: Array, function: Any, shared: Any, asked: tuple[bool, bool], with_rows: bool = False) -> Array:
        """Write a function of the rows of each chunk."""
        return self.store.into(out, self._task(function, shared, asked, with_rows))


class Codes(Features):
    """Samples coded at a dictionary: features [αφ, γx].

    Chunks have codes and samples with weight one. The weights come at the end, so that other weights need no copy.

    Parameters
    ----------
    samples : Samples
    dictionary : array of shape (r, q)
    place : _InMemory or _InStore
        Where the codes are.

    """

    def __init__(self, samples: Samples, dictionary: Array, place: _InMemory | _InStore) -> None:
        self.samples, self.dictionary, self.place, self.n_jobs = samples, dictionary, place, samples.n_jobs

    @classmethod
    def known(cls, samples: Samples, coder: Coder, codes: sp.csr_array) -> Codes:
        """Return samples in memory with codes that are known already."""
        return cls(samples, coder.dictionary, _InMemory(Chunk(samples.X, coder, samples.views, codes, codes)))

    def weighted(self, weights: tuple[float, float]) -> Codes:
        """Return the same codes with other weights of codes and samples."""
        return Codes(dataclasses.replace(self.samples, weights=weights), self.dictionary, self.place)

    @property
    def chunk(self) -> Chunk | None:
        """The only chunk, of samples in memory."""
        return self.place.chunk

    @property
    def features(self) -> Any:
        """The codes, or pooled codes, of samples in memory (n, width)."""
        assert self.chunk is not None
        return self.chunk.features

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.samples), self.samples.width(len(self.dictionary))

    @property
    def _asked(self) -> tuple[bool, bool]:
        """Which of codes and samples are among the features."""
        return _present(self.samples)

    @functools.cached_property
    def _scales(self) -> Array:
        """The weight of each feature, (w,)."""
        width, m, gamma = self.shape[1], self.samples.shape[1], self.samples.weights[1]
        return np.repeat(self.samples.weights, [width - m, m] if gamma else [width, 0])

    def _scaled(self, M: Array) -> Array:
        """Return the rows of a matrix (w, l) multiplied by the weights of the features."""
        return M if set(self.samples.weights) <= {0.0, 1.0} else self._scales[:, None] * M

    def _joined(self, of: Callable[[Counts], Any]) -> list[tuple[float, Any]]:
        """Return what is counted of codes and of samples, each with its weight; those of weight zero are left out."""
        counts = (self.place.counts, self.samples.sums if self._asked[1] else None)
        return [(w, of(part)) for w, part in zip(self.samples.weights, counts, strict=True) if w and part is not None]

    @functools.cached_property
    def mean(self) -> Array:
        return np.concatenate([w * total / len(self.samples) for w, total in self._joined(lambda counts: counts.total)])

    @property
    def squares(self) -> float:
        return float(sum(w**2 * squares for w, squares in self._joined(lambda counts: counts.squares)))

    @property
    def used(self) -> Array:
        return np.concatenate([used > 0 for _, used in self._joined(lambda counts: counts.used)])

    @property
    def nnz(self) -> int:
        """The number of nonzero codes, those of the samples not counted."""
        return int(self.place.counts.nnz)

    @property
    def empty(self) -> float:
        """The share of samples whose codes are all zero."""
        return float(self.place.counts.empty) / len(self.samples)

    @property
    def nonzeros(self) -> float:
        """The mean number of nonzero codes of a view."""
        return float(self.place.counts.n_codes / max(self.place.counts.n_views, 1))

    @property
    def largest(self) -> float:
        """The largest product of an atom with a sample or a view of it."""
        out = np.empty((len(self.samples), 1))
        return float(self.place.into(out, _largest, None, self._asked, with_rows=True).max())

    def __matmul__(self, U: Array) -> Array:
        out = np.empty((len(self.samples), U.shape[1]))
        return self.place.into(out, _embedded, self._scaled(U), self._asked)

    def by_rows(self, function: Callable[[Rows], Array], width: int, dtype: Any = float) -> Array:
        shared = [w for w in self.samples.weights if w], function, width, dtype
        return self.place.into(np.empty((len(self.samples), width), dtype), _applied, shared, self._asked)

    def rmatmul(self, E: Any) -> Array:
        """Return ΦᵀE (w, l); it is at hand where it is part of a form that was asked for."""
        asked = self._sum_over(E)
        if asked.name in self.place.sums:
            return self._sum(asked)
        return self._scaled(self.place.total(_transposed, None, self._asked, lambda rows: E[rows]))

    def gram_product(self, Q: Array, shift: Any = 0.0) -> Array:
        return self._scaled(self.place.total(_gram_product, (self._scaled(Q), shift), self._asked, nothing))

    def _sum_over(self, over: Any, basis: Array | None = None) -> Sum:
        """Return the name of a sum, that of ΦV where there is a basis."""
        return Sum.of_numbers(over, None if basis is None else self._scaled(basis), self._asked[1])

    def _sum(self, asked: Sum) -> Array:
        """Return ΦᵀdΦ (w, w) for weights d (n,), or ΦᵀF (w, c) for factors F (n, c); with a basis V those of ΦV."""
        found = self.place.sums.get(asked.name)
        if found is None and (self._asked[0] or asked.basis is not None):
            (found,) = self.place.total(_sums_of_chunk, [asked.basis], self._asked, lambda rows: [asked.of(rows)])
        if self.chunk is None:
            self.place.wanted[asked.name], self.place.sums[asked.name] = asked, found
        return asked.joined(found, *self.samples.weights, self.samples.product)

    def form(self, S: Structure, basis: Array | None = None) -> Array:
        """Return ΦᵀSΦ (w, w), or VᵀΦᵀSΦV (k, k) for a basis V (w, k).

        Without a graph it is a sum over chunks. A graph joins samples of different chunks: columns of ΦV are gathered,
        as many as an eighth of the working memory holds, S is applied to them here, and the products are summed.
        """
        if S.graph is None:
            width = self.shape[1] if basis is None else basis.shape[1]
            weighted = np.any(S.diagonal)
            out = self._sum(self._sum_over(S.diagonal, basis)).copy() if weighted else np.zeros((width, width))
            if S.core is not None:
                lowered = self._sum(self._sum_over(S.factors, basis))
                out += symmetric(lowered @ S.core @ lowered.T)
            return out
        if self.chunk is not None and basis is None:
            return self._scaled(self._scaled(self.chunk.asked(self._asked).form(S)).T)
        V = np.eye(self.shape[1]) if basis is None else basis
        out = np.empty((V.shape[1],) * 2)
        for columns in gen_batches(V.shape[1], max(8, working_memory() // (64 * len(self.samples)))):
            product = self.rmatmul(S @ (self @ V[:, columns]))
            out[:, columns] = product if basis is None else basis.T @ product
        return symmetric(out)

    def projected(self, basis: Array) -> Features:
        return self.in_memory().projected(basis) if self.chunk is not None else _Projected(self, basis)

    def take(self, rows: Array) -> Rows:
        if self.chunk is not None:
            return self._in_memory(self.chunk.asked(self._asked).take(rows))
        return self.samples.take(rows).coded(self.dictionary).in_memory()

    def in_memory(self) -> Rows:
        if self.chunk is None:
            return self.take(np.arange(len(self.samples)))
        return self._in_memory(self.chunk.asked(self._asked))

    def _in_memory(self, rows: Rows) -> Rows:
        """Return rows with the weights of codes and samples."""
        return rows.scaled(*(w for w in self.samples.weights if w))

    def pullback(self, left: Array, right: Array, scale: Any) -> Array:
        """Return ∂f/∂D (r, q) for ∂f/∂Φ = left @ right + scale · Φ, left (n, l), right (l, w), scale one or (n,)."""
        alpha = self.samples.weights[0]
        if not alpha:  # no code has a part in the features
            return np.zeros(self.dictionary.shape)
        right = alpha * right[:, : self.samples.views.width(len(self.dictionary))]
        scale = alpha**2 * np.asarray(scale)

        def local(rows: slice) -> tuple[Array, Any]:
            return left[rows], scale[rows] if scale.ndim else float(scale)

        return np.asarray(self.place.total(_pulled_back, right, (True, False), local, with_rows=True))


class _Projected(Codes):
    """Codes in a store projected on a basis, ΦV, which are not gathered."""

    def __init__(self, codes: Codes, basis: Array) -> None:
        super().__init__(codes.samples, codes.dictionary, codes.place)
        self.basis = basis

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.samples), self.basis.shape[1]

    def form(self, S: Structure, basis: Array | None = None) -> Array:
        return Codes(self.samples, self.dictionary, self.place).form(S, self.basis)


# ── sums that criteria ask for ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Sum:
    """A sum over the samples: ΦᵀdΦ for weights d (n,), or ΦᵀF for factors F (n, c), named by these numbers.

    A chunk adds up what has codes in it, with weights one. What has only samples in it no dictionary changes. With a
    basis V it is the sum of ΦV.
    """

    name: str
    over: Any
    basis: Array | None
    with_samples: bool

    @classmethod
    def of_numbers(cls, over: Any, basis: Array | None, with_samples: bool) -> Sum:
        """Return the sum of these numbers, where samples are among the features or not."""
        found = hashlib.blake2b(f"{over.shape} {with_samples}".encode(), digest_size=16)
        arrays = [over.data, over.indices, over.indptr] if sp.issparse(over) else [over]
        for array in arrays if basis is None else [*arrays, basis]:
            found.update(np.ascontiguousarray(array).view(np.uint8).data)
        return cls(found.hexdigest(), over, basis, with_samples)

    def of(self, rows: slice) -> Any:
        """Return the weights or factors of a chunk."""
        return self.over[rows]

    def joined(self, codes: Any, alpha: float, gamma: float, product: Callable[[Sum], Array]) -> Array:
        """Return the sum over Φ = [αφ, γx], given that with codes in it and the one over samples alone."""
        if self.basis is not None:
            return np.asarray(codes)
        if self.over.ndim == 2:
            return np.vstack(([alpha * codes] if alpha else []) + ([gamma * product(self)] if gamma else []))
        if not alpha:
            return gamma**2 * product(self)
        square, cross = codes
        if not gamma:
            return np.asarray(alpha**2 * square)
        cross = alpha * gamma * cross
        return np.block([[alpha**2 * square, cross], [cross.T, gamma**2 * product(self)]])


def _sums_of_chunk(chunk: Chunk, bases: list[Array | None], local: list[Any]) -> tuple[Any, ...]:
    """Return for each that is asked the sum over a chunk: φᵀdφ and φᵀdX, or φᵀF; with a basis that over ΦV."""
    found: list[Any] = []
    codes, with_samples = Rows(chunk.features, n_jobs=chunk.n_jobs), len(chunk.blocks) == 2
    projected: dict[int, Rows] = {}
    for basis, over in zip(bases, local, strict=True):
        if basis is not None:
            rows = projected.setdefault(id(basis), Rows(chunk @ basis))
            found.append(rows.form(Structure(over)) if over.ndim == 1 else rows.rmatmul(over))
        elif over.ndim == 2:
            found.append(codes.rmatmul(over))
        else:
            cross = _cross(chunk.features, chunk.X, over) if with_samples else 0.0
            found.append((codes.form(Structure(over)), cross))
    return tuple(found)


def _sum_of_samples(X: Any, shared: Any, over: Any) -> Array:
    """Return XᵀdX, or XᵀF, of the samples of a chunk."""
    return Rows(X).form(Structure(over)) if over.ndim == 1 else Rows(X).rmatmul(over)


def _cross(codes: Any, X: Any, weights: Array) -> Array:
    """Return φᵀdX; products have the precision of the samples, sums of many are double."""
    out = np.zeros((codes.shape[1], X.shape[1]))
    for rows in gen_batches(X.shape[0], _BATCH):
        some, each = codes[rows], weights[rows].astype(codes.dtype)
        if sp.issparse(some):
            data = some.data * np.repeat(each, np.diff(some.indptr))
            some = sp.csr_array((data, some.indices, some.indptr), shape=some.shape)
        else:
            some = some * each[:, None]
        part = some.T @ X[rows]
        out += part.toarray() if sp.issparse(part) else part
    return out


# ── functions of one chunk ──────────────────────────────────────────────────────────────────────────────────────────


def _whole(X: Any, shared: Any, local: Any) -> Any:
    return X


def _dense(X: Any, basis: Array | None, local: Any) -> Array:
    """Return samples as a plain array, projected where there is a basis."""
    rows = X if basis is None else X @ basis
    return rows.toarray() if sp.issparse(rows) else np.asarray(rows)


def _sums_of_rows(X: Any, shared: Any, local: Any) -> tuple[Any, ...]:
    return tuple(Counts.of(Rows(X)))


def _counts(chunk: Chunk) -> tuple[Any, ...]:
    """Return what is known of the codes of a chunk."""
    features = chunk.features
    each = np.diff(features.indptr) if sp.issparse(features) else np.count_nonzero(features, axis=1)
    views = float(features.shape[0] * chunk.views.n_views)
    known = (np.nan, 0.0) if chunk.n_codes is None else (float(chunk.n_codes), views)
    return (*Counts.of(Rows(features))[:4], int(np.sum(each == 0)), *known)


def _counted_and_summed(chunk: Chunk, bases: Any, local: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    return _counts(chunk), _sums_of_chunk(chunk, bases, local)


def _embedded(chunk: Chunk, U: Array, local: Any) -> Array:
    return chunk @ U


def _applied(chunk: Chunk, shared: tuple[Any, ...], local: Any) -> Array:
    weights, *asked = shared
    return chunk.scaled(*weights).by_rows(*asked)


def _transposed(chunk: Chunk, shared: Any, E: Any) -> Array:
    return chunk.rmatmul(E)


def _gram_product(chunk: Chunk, shared: tuple[Array, Any], local: Any) -> Array:
    return chunk.gram_product(*shared)


def _largest(chunk: Chunk, shared: Any, local: Any) -> Array:
    return chunk.largest


def _pulled_back(chunk: Chunk, right: Array, local: tuple[Array, Any]) -> Array:
    return chunk.pullback(local[0], right, local[1])
