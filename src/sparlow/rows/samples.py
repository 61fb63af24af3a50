"""Samples in a store, with what they are scaled and coded by.

All that touches a sample is a map over rows or a sum over them, made chunk by chunk. Samples in memory are one chunk.
Other chunks are cut by a rule that knows nothing of threads or machines, each is computed by itself, and sums are added
pairwise by the index of the chunk. So a result has the same bits for any number of threads and machines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..checks import Array
from ..coding import Coder
from ..constants import FLAT_PATCH
from ..graphs import Structure
from ..labels import Labels
from ..priors import Prior
from ..views import Bound
from .chunks import Context, Counts, Scaling, Task
from .codes import Codes, InStore, Sum, code
from .features import Rows
from .stores import Memory, Store, nothing, working_memory


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
            self._once(
                asked.name, lambda: self.store.total(Task(self.context, _sum_of_samples), lambda rows: asked.over[rows])
            )
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
        return Codes(self, D, InStore(self, D, near, keep))

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
            width = int(np.clip(working_memory() // (4 * n), min(m, 16), m))
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
        flat = FLAT_PATCH if self.views.epsilon else 0.0
        return vectors[norms > flat] if np.sum(norms > flat) > count // 10 else vectors[norms > 0]


def _whole(X: Any, shared: Any, local: Any) -> Any:
    return X


def _dense(X: Any, basis: Array | None, local: Any) -> Array:
    """Return samples as a plain array, projected where there is a basis."""
    rows = X if basis is None else X @ basis
    return rows.toarray() if sp.issparse(rows) else np.asarray(rows)


def _sums_of_rows(X: Any, shared: Any, local: Any) -> tuple[Any, ...]:
    return tuple(Counts.of(Rows(X)))


def _sum_of_samples(X: Any, shared: Any, over: Any) -> Array:
    """Return XᵀdX, or XᵀF."""
    return Rows(X).form(Structure(over)) if over.ndim == 1 else Rows(X).rmatmul(over)
