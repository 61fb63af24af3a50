"""Samples in a store, and the same coded at a dictionary, as ``coded.py`` has them in memory."""

from __future__ import annotations

import dataclasses
import itertools
import uuid
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import gen_batches

from ..coded import Coded, Rows, Samples
from ..graphs import Structure
from ..labels import Labels
from ..priors import Prior
from ..views import Bound
from .stores import Store, nothing, working_memory
from .sums import Asked, sums_beside, sums_of_part
from .work import At, Scaling, Work, forget

Array = NDArray[Any]

_NARROWEST = 16  # directions that neighbours are searched in at least


class _Session:
    """One fit: its name, and which codes are still of use; ends with the last object that knows it."""

    def __init__(self) -> None:
        self.name = uuid.uuid4().hex
        self.alive: set[str] = set()
        self.sums: tuple[Array, float, Array] | None = None
        self.beside: dict[str, Array] = {}  # sums over the samples that stand beside their codes, by what was asked
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
        if self.session.sums is None:
            self.session.sums = self.store.total(Work(self._at(), _sums_of_rows), nothing)
        return self.session.sums

    def beside(self, asked: Asked) -> Array:
        """Return XᵀdX (m, m) for weights, or XᵀF (m, c) for factors; no dictionary changes it: computed once."""
        assert self.session is not None
        found = self.session.beside.get(asked.name)
        if found is None:
            found = self.store.total(Work(self._at(), sums_beside), asked.rows)
            self.session.beside[asked.name] = found
        return found

    def close(self) -> None:
        """Let go what is kept of codes, wherever that is."""
        assert self.session is not None
        self.store.forget(self.session.name)

    def _at(self) -> At:
        """Return what parts are coded by, without a dictionary."""
        assert self.session is not None
        return At(self.session.name, self.scaling, self.prior, self.views, working_memory())

    def coded(self, D: Array, near: Any = None, keep: bool = True) -> CodedParts:
        """Code all samples at the dictionary D (r, q), started from their codes at a dictionary nearby.

        Codes of views are kept as far as the memory for them goes, unless ``keep`` is False.
        """
        return CodedParts(self, D, near if isinstance(near, CodedParts) else None, keep=keep)

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
        return self.store.into(np.empty((n, width), dtype), Work(at, _dense, basis))


def _whole(X: Any, shared: Any, own: Any) -> Any:
    """Return a part as it is."""
    return X


def _dense(X: Any, basis: Array | None, own: Any) -> Array:
    """Return a part as a plain array, projected where there is a basis."""
    part = X if basis is None else X @ basis
    return part.toarray() if sp.issparse(part) else np.asarray(part)


def _sums_of_rows(X: Any, shared: Any, own: Any) -> tuple[Array, float, Array]:
    """Return sums over the rows of one part."""
    rows = Rows(X)
    return rows.mean * rows.shape[0], rows.squares, rows.used.astype(int)


def _count(coded: Coded) -> tuple[Any, ...]:
    """Return what is known of the codes of a part once they are computed, to be added up."""
    features = coded.features
    rows = Rows(features)
    counts = np.diff(features.indptr) if sp.issparse(features) else np.count_nonzero(features, axis=1)
    views = float(features.shape[0] * coded.samples.views.n_views)  # X is not at hand where a lost task is repeated
    nonzeros = (np.nan, 0.0) if coded.n_codes is None else (float(coded.n_codes), views)
    empty = int(np.sum(counts == 0))
    return rows.mean * rows.shape[0], rows.squares, rows.nnz, rows.used.astype(int), empty, *nonzeros


def _counted_and_summed(coded: Coded, bases: Any, own: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return counts and sums over the codes of one part."""
    return _count(coded), sums_of_part(coded, bases, own)


class CodedParts(Rows):
    """Samples in parts, coded at a dictionary; see :class:`~sparlow.coded.Coded`.

    Sums ΦᵀdΦ and ΦᵀF over the samples are kept here. Those that were asked of the codes nearby, which coding starts
    from, are computed in the same pass as the codes.

    Parameters
    ----------
    samples : Parts
    dictionary : array of shape (r, q)
    near : CodedParts, optional
        The codes to start from.
    like : CodedParts, optional
        The same codes, with other weights.
    keep : bool, default=True
        Keep the codes of views beside their features.

    """

    def __init__(
        self,
        samples: Parts,
        dictionary: Array,
        near: CodedParts | None = None,
        like: CodedParts | None = None,
        keep: bool = True,
    ) -> None:
        self.samples, self.dictionary, self.n_jobs = samples, dictionary, samples.n_jobs
        session = samples.session
        assert session is not None
        self._asked: dict[str, Asked] = {} if like is None else like._asked
        self._kept: dict[str, Any] = {} if like is None else like._kept
        self._owner: _Alive = _Alive(session) if like is None else like._owner
        self._at: At = (
            dataclasses.replace(samples._at(), dictionary=dictionary, token=self.token, keep=keep)
            if like is None
            else like._at
        )
        self._counted: tuple[Any, ...] = self._coded_near(near) if like is None else like._counted

    def _coded_near(self, near: CodedParts | None) -> tuple[Any, ...]:
        """Code all samples; return what is known of the codes then."""
        wanted = [] if near is None else list(near._asked.values())
        bases = [asked.basis for asked in wanted]
        work = self._work(_counted_and_summed, bases, near="" if near is None else near.token)
        counted, found = self.samples.store.total(work, lambda rows: [asked.rows(rows) for asked in wanted])
        self._kept.update(zip([asked.name for asked in wanted], found, strict=True))
        return tuple(counted)

    @property
    def token(self) -> str:
        """The name of the codes."""
        return self._owner.token

    def weighted(self, weights: tuple[float, float]) -> CodedParts:
        """Return the same codes with other weights of codes and samples."""
        samples = dataclasses.replace(self.samples, weights=weights)
        return CodedParts(samples, self.dictionary, like=self)

    def _work(
        self,
        function: Callable[[Any, Any, Any], Any],
        shared: Any = None,
        with_rows: bool | None = None,
        near: str = "",
    ) -> Work:
        """Return work on the codes and, where they stand beside these, on the samples, all with weights 1."""
        session = self.samples.session
        assert session is not None
        alpha, gamma = (float(weight != 0) for weight in self.samples.weights)
        with_rows = bool(gamma) if with_rows is None else with_rows
        return Work(self._at, function, shared, (alpha, gamma), with_rows, near, frozenset(session.alive))

    def _scales(self) -> Array:
        """Return the weight of each feature, (w,)."""
        width = self.samples.width(len(self.dictionary))
        alpha, gamma = self.samples.weights
        own = width - self.samples.shape[1] if gamma else width
        return np.repeat([alpha, gamma], [own, width - own])

    def _sum(self, over: Any, basis: Array | None = None, remember: bool = True) -> Array:
        """Return ΦᵀdΦ (w, w) for weights d (n,), or ΦᵀF (w, c) for factors F (n, c); with a basis V those of ΦV."""
        asked = self._named(over, basis)
        found = self._kept.get(asked.name)
        if found is None and (self.samples.weights[0] or basis is not None):
            work = self._work(sums_of_part, [asked.basis])
            (found,) = self.samples.store.total(work, lambda rows: [asked.rows(rows)])
        if remember:
            self._asked[asked.name], self._kept[asked.name] = asked, found
        return asked.joined(found, *self.samples.weights, self.samples.beside)

    def _named(self, over: Any, basis: Array | None = None) -> Asked:
        V = None if basis is None else self._scales()[:, None] * basis
        return Asked.of(over, V, bool(self.samples.weights[1]))

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.samples), self.samples.width(len(self.dictionary))

    @property
    def mean(self) -> Array:
        """The mean of the rows of all parts, (w,)."""
        alpha, gamma = self.samples.weights
        blocks = [alpha * self._counted[0] / len(self.samples)] if alpha else []
        return np.concatenate(blocks + ([gamma * self.samples.mean] if gamma else []))

    @property
    def squares(self) -> float:
        """The sum of all squared entries, over all parts."""
        alpha, gamma = self.samples.weights
        return float(alpha**2 * self._counted[1] + (gamma**2 * self.samples._sums[1] if gamma else 0.0))

    @property
    def nnz(self) -> int:
        """The number of nonzero codes, those of the samples beside them not counted."""
        return int(self._counted[2])

    @property
    def used(self) -> Array:
        """Which features are not zero in all parts, (w,)."""
        alpha, gamma = self.samples.weights
        blocks = [self._counted[3] > 0] if alpha else []
        return np.concatenate(blocks + ([self.samples._sums[2] > 0] if gamma else []))

    @property
    def empty(self) -> float:
        """The share of samples whose features are all zero."""
        return float(self._counted[4]) / len(self.samples)

    @property
    def nonzeros(self) -> float:
        """The mean number of nonzero codes of a view."""
        return float(self._counted[5] / max(self._counted[6], 1))

    @property
    def largest(self) -> float:
        """The largest product of an atom with a sample or a view of it."""
        return max(self.samples.store.each(self._work(_largest, with_rows=True), nothing))

    def __matmul__(self, U: Array) -> Array:
        work = self._work(_embedded, self._scales()[:, None] * U)
        return self.samples.store.into(np.empty((len(self.samples), U.shape[1])), work)

    def by_rows(self, function: Callable[[Rows], Array], width: int, dtype: Any = float) -> Array:
        """Return a function of the rows, (n, width), computed part by part."""
        work = self._work(_applied, (self.samples.weights, function, width, dtype))
        return self.samples.store.into(np.empty((len(self.samples), width), dtype), work)

    def rmatmul(self, E: Any) -> Array:
        """Return ΦᵀE (w, l), summed over the parts."""
        if self._named(E).name in self._kept:
            return self._sum(E)
        found = self.samples.store.total(self._work(_transposed), lambda rows: E[rows])
        return np.asarray(self._scales()[:, None] * found)

    def form(self, S: Structure, basis: Array | None = None, remember: bool = True) -> Array:
        """Return ΦᵀSΦ (w, w), or VᵀΦᵀSΦV (k, k) for a basis V (w, k), summed over the parts.

        Without a graph it is a sum over parts. A graph joins samples of different parts: columns of ΦV are gathered,
        as many as an eighth of the working memory holds, S is applied to them here, and the products are summed.
        """
        if S.graph is None:
            width = self.shape[1] if basis is None else basis.shape[1]
            weighted = np.any(S.diagonal)
            out = self._sum(S.diagonal, basis, remember).copy() if weighted else np.zeros((width, width))
            if S.core is not None:
                lowered = self._sum(S.factors, basis, remember)
                out += _symmetric(lowered @ S.core @ lowered.T)
            return out
        V = np.eye(self.shape[1]) if basis is None else basis
        out = np.empty((V.shape[1],) * 2)
        size = max(8, working_memory() // (64 * len(self.samples)))
        for columns in gen_batches(V.shape[1], size):
            product = self.rmatmul(S @ (self @ V[:, columns]))
            out[:, columns] = product if basis is None else basis.T @ product
        return _symmetric(out)

    def projected(self, basis: Array) -> Rows:
        """Return ΦV for a basis V, which stays in parts."""
        return _Projected(self, basis)

    def scatter_product(self, Q: Array, centred: bool = True) -> Array:
        """Return ΦᵀΠΦQ (w, k), summed over the parts."""
        scales = self._scales()[:, None]
        product = scales * self.samples.store.total(self._work(_gram_product, scales * Q), nothing)
        if not centred:
            return product
        return product - len(self.samples) * np.outer(self.mean, self.mean @ Q)

    def scatter_within(self, Q: Array, centred: bool = True) -> Array:
        """Return QᵀΦᵀΠΦQ (k, k), summed over the parts."""
        n = len(self.samples)
        squares = self.form(Structure(np.ones(n)), Q, remember=False)
        centre = (self.mean @ Q)[:, None]
        return squares - n * (centre @ centre.T) if centred else squares

    def take(self, rows: Array) -> Rows:
        samples = self.samples.take(rows)
        return samples.coded(self.dictionary)

    def in_memory(self) -> Rows:
        return self.take(np.arange(len(self.samples)))

    def pullback(self, left: Array, right: Array, scale: float | Array) -> Array:
        """Return ∂f/∂D (r, q) for ∂f/∂Φ = left @ right + scale · Φ, left (n, l), right (l, w), scale one or (n,)."""
        alpha = self.samples.weights[0]
        if not alpha:
            return np.zeros(self.dictionary.shape)
        right = alpha * right[:, : self.samples.views.width(len(self.dictionary))]
        scale = np.asarray(alpha**2 * scale)
        work = self._work(_pulled_back, right, with_rows=True)

        def own(rows: slice) -> tuple[Array, Array]:
            return left[rows], scale[rows] if scale.ndim else scale

        return np.asarray(self.samples.store.total(work, own))


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
    """Return the symmetric part of a sum over parts."""
    return (matrix + matrix.T) / 2


def _embedded(coded: Coded, U: Array, own: Any) -> Array:
    """Return ΦU of one part."""
    return coded @ U


def _applied(coded: Coded, shared: tuple[Any, ...], own: Any) -> Array:
    """Return a function of the rows of one part, with the weights of codes and samples."""
    weights, *asked = shared
    return coded.weighted(weights).by_rows(*asked)


def _transposed(coded: Coded, shared: Any, E: Any) -> Array:
    """Return ΦᵀE of one part."""
    return coded.rmatmul(E)


def _gram_product(coded: Coded, Q: Array, own: Any) -> Array:
    """Return ΦᵀΦQ of one part."""
    return coded.rmatmul(coded @ Q)


def _largest(coded: Coded, shared: Any, own: Any) -> float:
    """Return the largest product of an atom with a sample of one part."""
    return coded.largest


def _pulled_back(coded: Coded, right: Array, own: tuple[Array, Array]) -> Array:
    """Return the part of ∂f/∂D that one part gives."""
    left, scale = own
    return coded.pullback(left, right, scale)
