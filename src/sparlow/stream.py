"""Learning from a stream: batches of samples come one after the other and are not kept.

A stream keeps weighted sums over all samples seen (:class:`~sparlow.stochastic.Moments`), which give the projection,
and moves the dictionary by the steps of :class:`~sparlow.stochastic.Learner`, which are shorter from 20 000 samples on,
as 1/(samples seen). For pca the dictionary stays: no step is known to help there. A reservoir of samples is kept for
predictions.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .checks import Array
from .coding import Coder
from .constants import CODED, DRAWN, MANY, RESERVOIR, USUAL
from .criteria import LDA, PCA, Criterion
from .embedding import Numerator, ratio_trace, weights_beside
from .parallel import Threads
from .priors import Prior
from .rows import Codes, Samples, code, working_memory
from .stochastic import Batch, Learner, Moments, State, batch_size, of_targets
from .tracequotient import best_projection, canonical


def check_streams(criterion: Criterion) -> None:
    """Refuse a criterion that compares single samples."""
    if not (of_targets(criterion) or isinstance(criterion, PCA)):
        raise ValueError(
            "partial_fit is for lda, mvr and pca, whose quotient is one of sums over samples. "
            f"{type(criterion).__name__} compares each sample with its neighbours, which a stream does not keep: use "
            "fit."
        )


class _Kept(NamedTuple):
    """A sample of the reservoir, its targets, its code, and how many samples had been seen when it was coded."""

    sample: Array
    target: Array
    indices: Array
    data: Array
    coded_at: int


def _row(codes: Any, i: int) -> tuple[Array, Array]:
    """Return indices and entries of one code, which the reservoir keeps."""
    entries = slice(codes.indptr[i], codes.indptr[i + 1])
    return codes.indices[entries].copy(), codes.data[entries].copy()


@dataclass
class Stream:
    """What is kept of a stream, and the model so far.

    Parameters
    ----------
    criterion : Criterion
    prior : Prior
    dictionary : array of shape (r, m)
        The first atoms.
    n_components, n_targets : int
    classes : bool
        Whether targets are indicators of classes.
    beside : bool
        Whether samples stand beside their codes in the features of the embedding.
    shrinkage : float
    seed : int
        Of the reservoir.
    n_jobs : int, optional

    """

    criterion: Criterion
    prior: Prior
    dictionary: Array
    n_components: int
    n_targets: int
    classes: bool
    beside: bool
    shrinkage: float
    seed: int
    n_jobs: int | None = None
    n_coded: int = 0  # samples coded, those of the reservoir coded again included
    kept: list[_Kept] = field(default_factory=list)  # the reservoir
    n_offered: int = 0
    n_kept: int | None = None  # how many are kept at most

    def __post_init__(self) -> None:
        self.learner = Learner(self.shrinkage)
        r = len(self.dictionary)
        self.state: State = self.learner.init(self.dictionary, Moments.zero(r, self.n_targets, self.classes))
        width = r + (self.dictionary.shape[1] if self.beside else 0)
        self.moments = Moments.zero(width, self.n_targets, self.classes)  # with the samples beside their codes
        self._rng = np.random.RandomState(self.seed)
        if self.n_kept is None:
            size = working_memory() // (4 * 4 * self.dictionary.shape[1])
            self.n_kept = int(np.clip(size, MANY, RESERVOIR))

    def copy(self) -> Stream:
        """Return a copy that can be updated while this one stays; arrays are shared, as none is changed in place."""
        other = copy.copy(self)
        other.kept, other._rng = list(self.kept), copy.deepcopy(self._rng)
        return other

    @property
    def has_begun(self) -> bool:
        """Whether enough was seen for a first model: samples of two classes, where there are classes."""
        return self.moments.seen > 0 and not (self.classes and np.sum(self.moments.targets > 0) < 2)

    def update(self, X: Array, T: Array, known: Array) -> None:
        """Take in samples: their sums, and steps of the dictionary, one for each mini-batch.

        ``T`` (n, c) are targets or indicators, ``known`` says which samples have them; the others count for nothing.
        """
        X, T = X[known], T[known]
        with Threads(1):
            size = batch_size(len(self.dictionary))
            for first in range(0, len(X), size):
                self._step(X[first : first + size], T[first : first + size])

    def _step(self, X: Array, T: Array) -> None:
        """Take in one mini-batch."""
        coded = self._coded(X)
        batch = Batch(T, np.ones(len(X)))
        self.moments = self.moments.added(coded, batch)
        self.n_coded += len(X)
        self._offer(X, coded.features, T)
        if isinstance(self.criterion, PCA) or not self.has_begun:
            return
        alone = coded.weighted((1.0, 0.0))
        self.state = self.learner.step(self.state, alone, batch, min(1.0, DRAWN / self.moments.seen))
        self.dictionary = self.state.dictionary

    def _coded(self, X: Array) -> Codes:
        """Code one batch of a stream."""
        weights = (1.0, 1.0 if self.beside else 0.0)
        return code(Samples(X, self.prior, weights=weights), Coder(self.dictionary, self.prior, n_jobs=self.n_jobs))

    def _offer(self, X: Array, codes: Any, T: Array) -> None:
        """Keep each sample seen so far with the same probability (reservoir sampling)."""
        assert self.n_kept is not None
        places = np.arange(self.n_offered, self.n_offered + len(X))
        slots = np.floor(self._rng.random_sample(len(X)) * (places + 1)).astype(int)
        slots[places < self.n_kept] = places[places < self.n_kept]
        for i in np.flatnonzero(slots < self.n_kept).tolist():
            one = _Kept(X[i].copy(), T[i], *_row(codes, i), self.moments.seen)
            if slots[i] < len(self.kept):
                self.kept[slots[i]] = one
            else:
                self.kept.append(one)
        self.n_offered += len(X)

    # ── the model so far ───────────────────────────────────────────────────────────────────────────────────────────

    def reservoir(self) -> tuple[Codes, Array]:
        """Return the samples kept, coded, and their targets.

        Those whose codes are oldest are coded again at the present dictionary, as many as keep the samples coded so
        far, again or for the first time, below 1.9 times those seen.
        """
        seen = self.moments.seen
        room = max(0, int(CODED * seen) - self.n_coded)
        stale = np.argsort([one.coded_at for one in self.kept], kind="stable")[:room].tolist()
        if stale:
            self.n_coded += len(stale)
            codes = self._coded(np.stack([self.kept[i].sample for i in stale])).features
            for place, i in enumerate(stale):
                indices, data = _row(codes, place)
                self.kept[i] = self.kept[i]._replace(indices=indices, data=data, coded_at=seen)
        X, T = np.stack([one.sample for one in self.kept]), np.stack([one.target for one in self.kept])
        indptr = np.concatenate([[0], np.cumsum([len(one.indices) for one in self.kept])])
        indices, data = (np.concatenate([getattr(one, name) for one in self.kept]) for name in ("indices", "data"))
        codes = sp.csr_array((data, indices, indptr), shape=(len(X), len(self.dictionary)))
        codes.has_canonical_format = True
        samples = Samples(X, self.prior, weights=(1.0, 1.0 if self.beside else 0.0))
        return Codes.known(samples, Coder(self.dictionary, self.prior, n_jobs=self.n_jobs), codes), T

    def embedding(self) -> tuple[Array, tuple[float, float], float, Array]:
        """Return W (w, l), the weights of codes and samples, the ridge, and the mean of the weighted features."""
        r, moments = len(self.dictionary), self.moments
        if not self.beside:
            A, B, ridge = self._quotient(moments)
            U = best_projection(A, B, self.n_components)[0]
            return canonical(U.T @ (A @ U), U), (1.0, 0.0), ridge, moments.mean
        n, mean, total = moments.seen, moments.mean, moments.scatter()
        second = np.diag(total)
        variances = [max(float(block.sum()) / n, np.finfo(float).tiny) for block in (second[:r], second[r:])]
        if isinstance(self.criterion, PCA):
            weights = weights_beside(*variances)
            scale = np.repeat(weights, (r, len(mean) - r))
            A = total * scale[:, None] * scale
            ridge = self.shrinkage * float(np.trace(A)) * len(A) / r
            U = best_projection(A, (np.trace(A) + ridge) * np.eye(len(A)), self.n_components)[0]
            return canonical(U.T @ (A @ U), U), weights, ridge, mean * scale
        a, b = USUAL[0] * variances[0], USUAL[1] * variances[1]
        weights = (1.0, float(np.sqrt(a / b)))
        scale = np.repeat(weights, (r, len(mean) - r))
        T = moments.deviations()
        B = (total - T.T @ T if self.classes else total) * scale[:, None] * scale
        B[np.diag_indices_from(B)] += a
        return ratio_trace(Numerator(T * scale, np.eye(len(T)), None), B, self.n_components), weights, a, mean * scale

    def _quotient(self, moments: Moments) -> tuple[Array, Array, float]:
        """Return A and B of the trace quotient, and the ridge that was added to B."""
        total = moments.scatter()
        if isinstance(self.criterion, PCA):
            A, B = total, np.trace(total) * np.eye(len(total))
        else:
            T = moments.deviations()
            A = T.T @ T
            B = total - A if isinstance(self.criterion, LDA) else total
        ridge = self.shrinkage * float(np.trace(B)) / len(B)
        B = B + ridge * np.eye(len(B))
        return A, B, ridge
