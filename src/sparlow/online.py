"""Learning from a stream: batches of samples come one after the other and are not kept.

The quotient is a ratio of two expectations, so the quotient of one batch is biased. A stream keeps weighted sums over
all samples seen instead: N, Σφ, Σφφᵀ, and for each class or target t the sum Σtφ. They give A, B and the best U. In the
gradient with respect to the dictionary they are constants, and the sum over all samples is that over the batch:

    ∂f/∂φᵢ = 2 (S_A Y − f S_B Y)ᵢ Uᵀ / (N b),   Y = ΦU,  b = tr(UᵀBU)

where a row of S_A Y and S_B Y needs nothing but the class means, or the mean, of that sample. The dictionary then moves
along the gradient. One batch of all samples makes one step of steepest ascent, a short one: the first dictionary was
learned from these samples, and their gradient is too hopeful. Later batches are new to it and move it farther, by a
length that is proportional to their size and falls as 1/(samples seen) from 20 000 samples on.

As the dictionary moves, sums over earlier samples become stale: the i-th of N samples counts (max(i, n₁)/N)^ρ, n₁ being
the size of the first batch.
"""

from __future__ import annotations

import copy
import dataclasses
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .coded import Coded, Rows, Samples, code
from .coding import Coder
from .criteria import LDA, MVR, PCA, Criterion
from .criteria.balance import pair_weights
from .embedding import USUAL, Numerator, ratio_trace, weights_beside
from .graphs import Structure
from .labels import Labels
from .manifolds import Spheres
from .parallel import Threads
from .parts import DRAWN, working_memory
from .priors import Prior
from .regularizers import coherence_gradient, proximity_gradient
from .tracequotient import best_projection, canonical

Array = NDArray[Any]

_RESERVOIR = 60_000  # samples that are kept for predictions, where a quarter of the working memory holds them
_FEWEST = 2000  # the fewest that are kept
_CODED = 1.9  # times that a sample is coded at most, on average
_FORGETTING = 2.0  # ρ
_FIRST_MOVE = 0.03  # root mean square distance that atoms move with the first batch
_LATER_MOVE = 0.24  # the same with later batches, 20 000 samples together
_PROJECTION = 1e-6  # how well U is solved for


def kind_of(criterion: Criterion, classes: bool) -> str:
    """Return how a criterion is computed from sums over samples; refuse one that compares single samples."""
    if isinstance(criterion, LDA):
        return "classes"
    if isinstance(criterion, MVR):
        return "classes and total" if classes else "targets"
    if isinstance(criterion, PCA):
        return "variance"
    raise ValueError(
        f"partial_fit is for lda, mvr and pca, whose quotient is one of sums over samples. {type(criterion).__name__} "
        "compares each sample with its neighbours, which a stream does not keep: use fit."
    )


@dataclass
class Moments:
    """Weighted sums over the samples seen.

    Parameters
    ----------
    second : array of shape (w, w)
        Σ ω φφᵀ.
    total : array of shape (w,)
        Σ ω φ.
    by_target : array of shape (c, w)
        Σ ω t φᵀ, t (c,) the indicators of the class, or the targets.
    targets : array of shape (c,)
        Σ ω t: for classes their counts.
    weight : float
        Σ ω.
    seen, first : int
        Samples seen, and those of the first batch.

    """

    second: Array
    total: Array
    by_target: Array
    targets: Array
    weight: float = 0.0
    seen: int = 0
    first: int = 0

    @classmethod
    def zero(cls, width: int, n_targets: int) -> Moments:
        """Nothing seen so far."""
        return cls(np.zeros((width, width)), np.zeros(width), np.zeros((n_targets, width)), np.zeros(n_targets))

    def add(self, rows: Rows, T: Array) -> None:
        """Take in the features and targets T (n, c) of a batch."""
        n = rows.shape[0]
        if not n:
            return
        self.first = self.first or n
        places = np.arange(self.seen + 1, self.seen + n + 1)
        after = self.seen + n
        w = (np.maximum(places, self.first) / after) ** _FORGETTING
        kept = (max(self.seen, self.first) / after) ** _FORGETTING if self.seen else 0.0
        weighted = np.column_stack([w, T * w[:, None]])
        sums = rows.rmatmul(weighted)  # (w, 1 + c)
        self.second = kept * self.second + rows.form(Structure(w))
        self.total = kept * self.total + sums[:, 0]
        self.by_target = kept * self.by_target + sums[:, 1:].T
        self.targets = kept * self.targets + weighted[:, 1:].sum(axis=0)
        self.weight = kept * self.weight + float(w.sum())
        self.seen = after

    @property
    def mean(self) -> Array:
        """The mean of the features."""
        return self.total / self.weight

    @property
    def class_means(self) -> Array:
        """The means of the classes (c, w); zero for a class not seen yet."""
        return self.by_target / np.maximum(self.targets, np.finfo(float).tiny)[:, None]

    def of(self, columns: slice) -> Moments:
        """Return the sums of some of the features."""
        second = self.second[columns, columns]
        return Moments(
            second, self.total[columns], self.by_target[:, columns], self.targets, self.weight, self.seen, self.first
        )


@dataclass(frozen=True)
class Scatters:
    """A and B of a criterion from sums, and what the rows of S_A Y and S_B Y need."""

    moments: Moments
    kind: str
    weights: Array | None = None  # of pairs of classes

    @property
    def core(self) -> Array:
        """K (c, c), so that A = MᵀKM/N for the class means M."""
        counts = self.moments.targets
        pairs = np.outer(counts, counts) / self.moments.weight
        if self.weights is not None:
            pairs = pairs * self.weights
        np.fill_diagonal(pairs, 0)
        return np.diag(pairs.sum(axis=1)) - pairs

    @property
    def factors(self) -> tuple[Array, Array]:
        """T (c, w) and K (c, c) such that A = TᵀKT."""
        moments = self.moments
        if self.kind == "targets":
            deviations = moments.by_target - np.outer(moments.targets, moments.mean)
            return deviations, np.eye(len(deviations)) / moments.weight
        return moments.class_means, self.core / moments.weight

    def rest(self) -> Array:
        """Return the scatter within classes, or that of all samples."""
        moments = self.moments
        if self.kind.startswith("classes"):
            M = moments.class_means
            return moments.second / moments.weight - (M.T * (moments.targets / moments.weight)) @ M
        return moments.second / moments.weight - np.outer(moments.mean, moments.mean)

    def matrices(self) -> tuple[Array, Array]:
        """Return A and B (w, w), without a ridge."""
        rest = self.rest()
        if self.kind == "variance":
            return rest, np.trace(rest) * np.eye(len(rest))
        T, K = self.factors
        A = T.T @ K @ T
        return A, A + rest if self.kind == "classes and total" else rest

    def rows(self, Y: Array, T: Array, U: Array) -> tuple[Array, Array | None]:
        """Return the rows of S_A Y and S_B Y of a batch, given Y = ΦU and the targets T of its samples."""
        moments = self.moments
        if self.kind == "variance":
            return Y - moments.mean @ U, None
        if self.kind == "targets":
            deviations = T - moments.targets / moments.weight
            return deviations @ (self.factors[0] @ U), Y - moments.mean @ U
        means = moments.class_means @ U
        above = T @ (self.core @ means / np.maximum(moments.targets, np.finfo(float).tiny)[:, None])
        within = Y - T @ means
        return above, above + within if self.kind == "classes and total" else within


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
    kind : str
        As of :func:`kind_of`.
    prior : Prior
    dictionary : array of shape (r, m)
        The atoms so far.
    n_components, n_targets : int
    beside : bool
        Whether samples stand beside their codes in the features of the embedding.
    shrinkage, mu_coherence, mu_proximity : float
    seed : int
        Of the reservoir.
    n_jobs : int, optional

    """

    criterion: Criterion
    kind: str
    prior: Prior
    dictionary: Array
    n_components: int
    n_targets: int
    beside: bool
    shrinkage: float
    mu_coherence: float
    mu_proximity: float
    seed: int
    n_jobs: int | None = None
    scale: float | None = None  # |f₀|
    moments: Moments | None = None
    n_coded: int = 0  # samples coded, those of the reservoir coded again included
    kept: list[_Kept] = field(default_factory=list)  # the reservoir
    n_offered: int = 0
    n_kept: int | None = None  # how many are kept at most
    projection: Array | None = None

    def __post_init__(self) -> None:
        self.anchor = self.dictionary
        self._rng = np.random.RandomState(self.seed)
        if self.n_kept is None:
            size = working_memory() // (4 * 4 * self.dictionary.shape[1])
            self.n_kept = int(np.clip(size, _FEWEST, _RESERVOIR))

    def copy(self) -> Stream:
        """Return a copy that can be updated while this one stays; arrays are shared, as none is changed in place."""
        other = copy.copy(self)
        other.moments = None if self.moments is None else dataclasses.replace(self.moments)
        other.kept, other._rng = list(self.kept), copy.deepcopy(self._rng)
        return other

    @property
    def has_begun(self) -> bool:
        """Whether enough was seen for a first model: samples of two classes, where there are classes."""
        if self.moments is None:
            return False
        return not self.kind.startswith("classes") or int(np.sum(self.moments.targets > 0)) > 1

    def update(self, X: Array, T: Array, known: Array) -> None:
        """Take in one batch: its sums, and one step of the dictionary.

        ``T`` (n, c) are targets or indicators, ``known`` says which samples have them; the others count for nothing.
        """
        X, T = X[known], T[known]
        if not len(X):
            return
        with Threads(1):
            coded = self._coded(X)
            r = len(self.dictionary)
            if self.moments is None:
                self.moments = Moments.zero(coded.shape[1], self.n_targets)
            self.moments.add(coded, T)
            self.n_coded += len(X)
            self._offer(X, coded.features, T)
            own = self.moments.of(slice(0, r))
            if self.kind.startswith("classes") and np.sum(own.targets > 0) < 2:
                return
            gradient = self.gradient(coded.weighted((1.0, 0.0)), T, own)
            first = len(X) == self.moments.seen
            self._move(gradient, _FIRST_MOVE if first else _LATER_MOVE * len(X) / max(self.moments.seen, DRAWN))

    def _coded(self, X: Array) -> Coded:
        """Code one batch of a stream."""
        weights = (1.0, 1.0 if self.beside else 0.0)
        return code(Samples(X, self.prior, weights=weights), Coder(self.dictionary, self.prior, n_jobs=self.n_jobs))

    def gradient(self, coded: Coded, T: Array, moments: Moments) -> Array:
        """Return ∂J/∂D (r, m) at the best U for the sums, estimated from a batch."""
        plain = Scatters(moments, self.kind)
        A, B, ridge = self._with_ridge(plain)
        U = best_projection(A, B, min(self.n_components, len(A)), self._start(A), _PROJECTION)[0]
        if self.scale is None:
            self.scale = abs(float(np.vdot(U, A @ U)) / float(np.vdot(U, B @ U)))
        scatters = self._balanced(plain, U, A, B)
        if scatters is not plain:
            A, B = scatters.matrices()
            B[np.diag_indices_from(B)] += ridge
            U = best_projection(A, B, self.n_components, U, _PROJECTION)[0]
        self.projection = U
        b = float(np.vdot(U, B @ U))
        f = float(np.vdot(U, A @ U)) / b
        above, below = scatters.rows(coded @ U, T, U)
        each = 2 / (b * len(T))  # of the mean over all samples the batch has so many
        left, right, scale = each * (above if below is None else above - f * below), U.T, 0.0
        if below is None:
            scale = -f * U.shape[1] * each
            left, right = np.hstack([left, np.full((len(T), 1), -scale)]), np.vstack([right, moments.mean])
        slope = coded.pullback(left, right, scale)
        if self.mu_coherence:
            slope -= self.scale * self.mu_coherence * coherence_gradient(self.dictionary)
        if self.mu_proximity:
            slope -= self.scale * self.mu_proximity * proximity_gradient(self.dictionary, self.anchor)
        return slope

    def _start(self, A: Array) -> Array | None:
        """Return the last projection, where it has the size of the present one."""
        return None if self.projection is None or len(self.projection) != len(A) else self.projection

    def _with_ridge(self, scatters: Scatters) -> tuple[Array, Array, float]:
        """Return A and B of the running sums, and the ridge that was added."""
        A, B = scatters.matrices()
        ridge = self.shrinkage * float(np.trace(B)) / len(B)
        B[np.diag_indices_from(B)] += ridge
        return A, B, ridge

    def _balanced(self, plain: Scatters, U: Array, A: Array, B: Array) -> Scatters:
        """Return the scatters with pairs of classes balanced for the present embedding, scaled to have its value."""
        power = getattr(self.criterion, "balance", 0.0)
        if not power or not self.kind.startswith("classes"):
            return plain
        seen = plain.moments.targets > 0
        means = plain.moments.class_means @ U
        squares = ((means[:, None] - means[None]) ** 2).sum(axis=-1)
        weights = np.zeros_like(squares)
        weights[np.ix_(seen, seen)] = pair_weights(squares[np.ix_(seen, seen)], power)
        balanced = Scatters(plain.moments, plain.kind, weights)
        T, K = balanced.factors
        top = float(np.vdot(T @ U, K @ (T @ U)))
        rest = B - A if self.kind == "classes and total" else B
        bottom, F = float(np.vdot(U, rest @ U)), float(np.vdot(U, A @ U)) / float(np.vdot(U, B @ U))
        wanted = (F if self.kind == "classes" else F / max(1 - F, np.finfo(float).eps)) * bottom
        return Scatters(plain.moments, plain.kind, weights * (wanted / top)) if top > 0 else plain

    def _move(self, slope: Array, distance: float) -> None:
        """Move the dictionary along the gradient of one batch, atoms by a root mean square distance at most."""
        D = self.dictionary
        manifold = Spheres(*D.shape)
        G = manifold.gradient(D, slope)
        norm = manifold.norm(D, G)
        if not norm > 0:
            return
        length = distance * float(np.sqrt(len(D)))
        curvature = 2 * (self.scale or 0.0) * self.mu_proximity / len(D)  # of the distance from the first dictionary
        length = min(length, norm / curvature) if curvature else length
        self.dictionary = manifold.retract(D, (length / norm) * G)

    def _offer(self, X: Array, codes: Any, T: Array) -> None:
        """Keep each sample seen so far with the same probability (reservoir sampling)."""
        assert self.moments is not None
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

    def reservoir(self) -> tuple[Coded, Array]:
        """Return the samples kept, coded, and their targets.

        Those whose codes are oldest are coded again at the present dictionary, as many as keep the samples coded so
        far, again or for the first time, below 1.9 times those seen.
        """
        assert self.moments is not None
        seen = self.moments.seen
        room = max(0, int(_CODED * seen) - self.n_coded)
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
        return Coded(samples, Coder(self.dictionary, self.prior, n_jobs=self.n_jobs), codes, codes), T

    def embedding(self) -> tuple[Array, tuple[float, float], float, Array]:
        """Return W (w, l), the weights of codes and samples, the ridge, and the mean of the weighted features."""
        assert self.moments is not None
        r = len(self.dictionary)
        if not self.beside:
            own = self.moments.of(slice(0, r))
            A, B, ridge = self._with_ridge(Scatters(own, self.kind))
            U = best_projection(A, B, self.n_components, self._start(A))[0]
            return canonical(U.T @ (A @ U), U), (1.0, 0.0), ridge, own.mean
        n, mean = self.moments.seen, self.moments.mean
        second = np.diag(self.moments.second) / self.moments.weight - mean**2
        variances = [max(float(block.sum()) / n, np.finfo(float).tiny) for block in (second[:r], second[r:])]
        if self.kind == "variance":
            weights = weights_beside(*variances)
            scale = np.repeat(weights, (r, len(mean) - r))
            A = Scatters(self.moments, self.kind).rest() * scale[:, None] * scale
            ridge = self.shrinkage * float(np.trace(A)) * len(A) / r
            U = best_projection(A, (np.trace(A) + ridge) * np.eye(len(A)), self.n_components)[0]
            return canonical(U.T @ (A @ U), U), weights, ridge, mean * scale
        a, b = USUAL[0] * variances[0], USUAL[1] * variances[1]
        weights = (1.0, float(np.sqrt(a / b)))
        scale = np.repeat(weights, (r, len(mean) - r))
        scatters = Scatters(self.moments, self.kind)
        T, K = scatters.factors
        B = scatters.rest() * scale[:, None] * scale
        B[np.diag_indices_from(B)] += a
        return ratio_trace(Numerator(T * scale, K, None), B, self.n_components), weights, a, mean * scale


def indicators(labels: Labels, n_targets: int) -> tuple[Array, Array]:
    """Return targets (n, c), one column for each class where there are classes, and which samples have them."""
    if labels.targets is not None:
        known = np.all(np.isfinite(labels.targets), axis=1)
        return np.where(known[:, None], labels.targets, 0.0), known
    assert labels.y is not None
    known = labels.y >= 0
    T = np.zeros((len(labels.y), n_targets))
    T[np.flatnonzero(known), labels.y[known]] = 1
    return T, known
