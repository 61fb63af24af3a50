"""The codes of samples at a dictionary: the features Φ = [αφ, γx] that a fit asks everything of.

Each answer is a sum or a map over chunks. Samples in memory are one chunk. Codes in a store stay where they were
computed; sums that criteria ask for are kept, and are made in the same pass as the next codes.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import gen_batches

from ..checks import Array
from ..coding import Coder
from ..graphs import Structure, symmetric
from .chunks import Chunk, Counts, Task, code_chunk
from .features import Features, Rows
from .stores import nothing, working_memory

if TYPE_CHECKING:
    from .samples import Samples


def _present(samples: Samples) -> tuple[bool, bool]:
    """Return whether codes and samples have a part in the features."""
    alpha, gamma = samples.weights
    return bool(alpha), bool(gamma)


def code(samples: Samples, coder: Coder, near: Codes | None = None, keep: bool = True) -> Codes:
    """Code samples in memory with a coder."""
    start = None if near is None else near.chunk
    chunk = code_chunk(samples.X, coder, samples.views, start, keep, samples.n_jobs)
    return Codes(samples, coder.dictionary, InMemory(chunk))


# ── codes in memory or in a store ───────────────────────────────────────────────────────────────────────────────────


class InMemory:
    """Codes of samples in memory, which are one chunk."""

    def __init__(self, chunk: Chunk) -> None:
        self.chunk, self.sums, self.wanted = chunk, dict[str, Any](), dict[str, Sum]()

    @functools.cached_property
    def counts(self) -> Counts:
        return self.chunk.counts()

    def total(self, asked: tuple[bool, bool], name: str, local: Any = nothing, **shared: Any) -> Any:
        """Return what a method of the chunk gives."""
        return ask(self.chunk.asked(asked), (name, shared), local(slice(0, self.chunk.shape[0])))

    def into(self, out: Array, asked: tuple[bool, bool], name: str, **shared: Any) -> Array:
        """Return a function of the rows."""
        return np.asarray(ask(self.chunk.asked(asked), (name, shared), None), out.dtype)


class InStore:
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
        wanted, token = ([], "") if near is None else (list(near.wanted.values()), near.token)
        task = self._task(self.asked, "counts_and_sums", {}, token)
        counts, found = self.store.total(task, lambda rows: {"over": [one.over[rows] for one in wanted]})
        self.sums.update(zip([one.name for one in wanted], found, strict=True))
        return Counts(*counts)

    def _task(self, asked: tuple[bool, bool], name: str, shared: dict[str, Any], near: str = "") -> Task:
        """Return a method of chunks as a task; some of them need the samples also where codes are at hand."""
        with_rows = name in ("pullback", "largest")
        return Task(self.context, ask, (name, shared), asked, with_rows, near, frozenset(self.session.alive))

    def total(self, asked: tuple[bool, bool], name: str, local: Any = nothing, **shared: Any) -> Any:
        """Return the sum of what a method of the chunks gives."""
        return self.store.total(self._task(asked, name, shared), local)

    def into(self, out: Array, asked: tuple[bool, bool], name: str, **shared: Any) -> Array:
        """Write a function of the rows of each chunk."""
        return self.store.into(out, self._task(asked, name, shared))


def ask(chunk: Chunk, shared: tuple[str, dict[str, Any]], local: dict[str, Any] | None) -> Any:
    """Return what a method of a chunk gives."""
    name, options = shared
    return getattr(chunk, name)(**options, **(local or {}))


class Codes(Features):
    """Samples coded at a dictionary: features [αφ, γx].

    Chunks have codes and samples with weight one. The weights come at the end, so that other weights need no copy.

    Parameters
    ----------
    samples : Samples
    dictionary : array of shape (r, q)
    place : InMemory or InStore
        Where the codes are.

    """

    def __init__(self, samples: Samples, dictionary: Array, place: InMemory | InStore) -> None:
        self.samples, self.dictionary, self.place, self.n_jobs = samples, dictionary, place, samples.n_jobs

    @classmethod
    def known(cls, samples: Samples, coder: Coder, codes: sp.csr_array) -> Codes:
        """Return samples in memory with codes that are known already."""
        return cls(samples, coder.dictionary, InMemory(Chunk(samples.X, coder, samples.views, codes, codes)))

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
        width, m, gamma = self.samples.width(len(self.dictionary)), self.samples.shape[1], self.samples.weights[1]
        return np.repeat(self.samples.weights, [width - m, m] if gamma else [width, 0])

    def _scaled(self, M: Array) -> Array:
        """Return the rows of a matrix (w, l) multiplied by the weights of the features."""
        return M if set(self.samples.weights) <= {0.0, 1.0} else self._scales[:, None] * M

    def _counted(self, name: str) -> list[tuple[float, Any]]:
        """Return what is counted of codes and of samples, each with its weight, those of weight zero left out."""
        alpha, gamma = self.samples.weights
        codes = [(alpha, getattr(self.place.counts, name))] if alpha else []
        return codes + ([(gamma, getattr(self.samples.sums, name))] if gamma else [])

    @functools.cached_property
    def mean(self) -> Array:
        return np.concatenate([w * total / len(self.samples) for w, total in self._counted("total")])

    @property
    def squares(self) -> float:
        return float(sum(w**2 * squares for w, squares in self._counted("squares")))

    @property
    def used(self) -> Array:
        return np.concatenate([used > 0 for _, used in self._counted("used")])

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
        return float(self.place.into(np.empty((len(self.samples), 1)), self._asked, "largest").max())

    def __matmul__(self, U: Array) -> Array:
        out = np.empty((len(self.samples), U.shape[1]))
        return self.place.into(out, self._asked, "__matmul__", U=self._scaled(U))

    def by_rows(self, function: Callable[[Rows], Array], width: int, dtype: Any = float) -> Array:
        out, weights = np.empty((len(self.samples), width), dtype), [w for w in self.samples.weights if w]
        options = {"weights": weights, "function": function, "width": width, "dtype": dtype}
        return self.place.into(out, self._asked, "weighted_rows", **options)

    def rmatmul(self, E: Any) -> Array:
        """Return ΦᵀE (w, l); it is at hand where it is part of a form that was asked for."""
        asked = Sum.of(E, self._asked[1]) if self.place.sums else None
        if asked is not None and asked.name in self.place.sums:
            return self._sum(asked)
        return self._scaled(self.place.total(self._asked, "rmatmul", lambda rows: {"E": E[rows]}))

    def gram_product(self, Q: Array, shift: Any = 0.0) -> Array:
        return self._scaled(self.place.total(self._asked, "gram_product", Q=self._scaled(Q), shift=shift))

    def _sum(self, asked: Sum) -> Array:
        """Return ΦᵀdΦ (w, w) for weights d (n,), or ΦᵀF (w, c) for factors F (n, c)."""
        found = self.place.sums.get(asked.name)
        if found is None and self._asked[0]:
            (found,) = self.place.total(self._asked, "sums", lambda rows: {"over": [asked.over[rows]]})
        if self.chunk is None:
            self.place.wanted[asked.name], self.place.sums[asked.name] = asked, found
        return asked.joined(found, *self.samples.weights, self.samples.product)

    def form(self, S: Structure) -> Array:
        """Return ΦᵀSΦ (w, w).

        Without a graph it is a sum over chunks. A graph joins samples of different chunks.
        """
        if S.graph is None:
            weighted, width = np.any(S.diagonal), self.shape[1]
            out = self._sum(Sum.of(S.diagonal, self._asked[1])) if weighted else np.zeros((width, width))
            if S.core is not None:
                lowered = self._sum(Sum.of(S.factors, self._asked[1]))
                out += symmetric(lowered @ S.core @ lowered.T)
            return out
        if self.chunk is not None:
            return self._scaled(self._scaled(self.chunk.asked(self._asked).form(S)).T)
        return self._gathered_form(S, np.eye(self.shape[1]))

    def projected_form(self, S: Structure, basis: Array) -> Array:
        """Return VᵀΦᵀSΦV (k, k) for a basis V (w, k)."""
        if S.graph is not None:
            return symmetric(basis.T @ self._gathered_form(S, basis))

        def local(rows: slice) -> dict[str, Any]:
            return {"weights": S.diagonal[rows], "factors": None if S.factors is None else S.factors[rows]}

        square, lowered = self.place.total(self._asked, "projected_sums", local, basis=self._scaled(basis))
        return np.asarray(square if S.core is None else square + symmetric(lowered @ S.core @ lowered.T))

    def _gathered_form(self, S: Structure, V: Array) -> Array:
        """Return ΦᵀSΦV (w, k); of ΦV as many columns are gathered as an eighth of the working memory holds."""
        size = max(8, working_memory() // (64 * len(self.samples)))
        columns = gen_batches(V.shape[1], size)
        return np.hstack([self.rmatmul(S @ (self @ V[:, some])) for some in columns])

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
        """Return ∂f/∂D (r, q) for ∂f/∂Φ = left @ right + scale · Φ, left (n, l), right (l, w), scale one or (n,).

        A sparse scale (n, w) is the second term itself.
        """
        alpha = self.samples.weights[0]
        if not alpha:  # no code has a part in the features
            return np.zeros(self.dictionary.shape)
        right = alpha * right[:, : self.samples.views.width(len(self.dictionary))]
        scale = alpha * scale if sp.issparse(scale) else alpha**2 * np.asarray(scale)

        def local(rows: slice) -> dict[str, Any]:
            return {"left": left[rows], "scale": scale[rows] if scale.ndim else float(scale)}

        return np.asarray(self.place.total((True, False), "pullback", local, right=right))


class _Projected(Codes):
    """Codes in a store projected on a basis, ΦV, which are not gathered."""

    def __init__(self, codes: Codes, basis: Array) -> None:
        super().__init__(codes.samples, codes.dictionary, codes.place)
        self.basis = basis

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.samples), self.basis.shape[1]

    def form(self, S: Structure) -> Array:
        return self.projected_form(S, self.basis)


# ── sums that criteria ask for ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Sum:
    """A sum over the samples: ΦᵀdΦ for weights d (n,), or ΦᵀF for factors F (n, c), named by these numbers.

    A chunk adds up what has codes in it, with weights one. What has only samples in it no dictionary changes.
    """

    name: str
    over: Any

    @classmethod
    def of(cls, over: Any, with_samples: bool) -> Sum:
        """Return the sum of these numbers, where samples are among the features or not."""
        found = hashlib.blake2b(f"{over.shape} {with_samples}".encode(), digest_size=16)
        for array in [over.data, over.indices, over.indptr] if sp.issparse(over) else [over]:
            found.update(np.ascontiguousarray(array).view(np.uint8).data)
        return cls(found.hexdigest(), over)

    def joined(self, codes: Any, alpha: float, gamma: float, product: Callable[[Sum], Array]) -> Array:
        """Return the sum over Φ = [αφ, γx], given that with codes in it and the one over samples alone."""
        if self.over.ndim == 2:
            return np.vstack(([alpha * codes] if alpha else []) + ([gamma * product(self)] if gamma else []))
        if not alpha:
            return gamma**2 * product(self)
        square, cross = codes
        if not gamma:
            return np.asarray(alpha**2 * square)
        cross = alpha * gamma * cross
        return np.block([[alpha**2 * square, cross], [cross.T, gamma**2 * product(self)]])
