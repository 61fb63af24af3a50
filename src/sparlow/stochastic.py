"""Learning together by small steps: each mini-batch moves the dictionary against a projection of running sums.

Maximising tr((Wᵀ(A + B)W)⁻¹WᵀAW) has the W of the ratio trace, and is bounded. With Wᵀ(A + B)W = I and WᵀAW = Λ its
gradient at fixed W is

    ∂/∂Φ = 2 (S_A Y − (S_A + S_B) Y Λ) Wᵀ,   Y = ΦW,

which for lda and mvr is that of ridge regression, ½‖(φ − φ̄)W + t̄ − t‖² for W = (Cov φ + ρI)⁻¹ Cov(φ, t): targets t are
as given, or the indicators of classes divided by the root of their share.

W is solved from sums over earlier batches. So a step does not follow the noise of the samples that W has fitted, which
is what the ascent of all samples at once does. Sums over earlier batches grow stale as the dictionary moves: the i-th
of N samples counts (i/N)². The dictionary moves by Adam (Kingma, Ba 2015) with one scale for each atom, tangent to the
spheres, by a length that falls to zero.

One :class:`Learner` serves epochs over an array, chunks of a file or a cluster, and a stream: these are sources of
batches.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from .checks import Array
from .constants import BATCH, FORGETTING, MOVE, WARM
from .criteria import LDA, MVR, Criterion, Quotient
from .dictionaries.atoms import unit_rows
from .embedding import Numerator, ratio_trace
from .graphs import Structure
from .labels import Labels
from .rows import Codes, Features


class Adam(NamedTuple):
    """Averages of gradients and of their squares: the direction that a gradient method moves in."""

    mean: Array
    square: Array
    steps: int = 0

    @classmethod
    def begin(cls, shape: tuple[int, ...], by_rows: bool, dtype: Any = float) -> Adam:
        """Return the averages before the first gradient; with ``by_rows`` a row shares one scale."""
        return cls(np.zeros(shape, dtype), np.zeros((shape[0], 1) if by_rows else shape, dtype))

    def after(self, slope: Array) -> Adam:
        """Return the averages with one more gradient."""
        energy = slope**2 if self.square.shape == slope.shape else np.mean(slope**2, axis=1, keepdims=True)
        mean, square = self.mean + 0.1 * (slope - self.mean), self.square + 0.01 * (energy - self.square)
        return Adam(mean.astype(slope.dtype, copy=False), square.astype(slope.dtype, copy=False), self.steps + 1)

    @property
    def direction(self) -> Array:
        """The mean gradient over the root of the mean square, both without the bias of the first steps."""
        unbiased = (1 - 0.99**self.steps) ** 0.5 / (1 - 0.9**self.steps)
        scale = self.mean.dtype.type(unbiased) / (np.sqrt(self.square) + self.mean.dtype.type(1e-12))
        return np.asarray(scale * self.mean)


# ── sums over batches, and what they say of the next one ────────────────────────────────────────────────────────────


class Batch(NamedTuple):
    """What is known of the samples of a batch beside their codes."""

    targets: Array  # (n, c) targets or indicators of classes; for pairs without columns
    weights: Array  # (n,) how often each counts
    rows: Array | None = None  # their places among all samples, where structures need these

    @property
    def size(self) -> float:
        """The sum of the weights."""
        return float(self.weights.sum())


class Pull(NamedTuple):
    """How a batch wants its features to change: ∂loss/∂Φ = left @ right, and how well it was met."""

    left: Array  # (n, l)
    right: Array  # (l, w)
    explained: float


@dataclass(frozen=True)
class Sums(ABC):
    """Weighted sums over the batches so far, and the projection solved from them."""

    _kept: ClassVar[tuple[str, ...]]  # what a checkpoint keeps

    @abstractmethod
    def added(self, rows: Features, batch: Batch) -> Sums:
        """Return the sums with one more batch."""

    @abstractmethod
    def solved(self, shrinkage: float) -> Any:
        """Return the projection W, with all that :meth:`pull` needs."""

    @abstractmethod
    def pull(self, solution: Any, rows: Features, batch: Batch) -> Pull:
        """Return ∂loss/∂Φ of a batch at a solution that does not know it."""

    def arrays(self) -> dict[str, Array]:
        """Return the sums as named arrays, for a checkpoint."""
        return {f"sums_{name}": np.asarray(getattr(self, name), float) for name in self._kept}

    def restored(self, arrays: dict[str, Array]) -> Any:
        """Return the sums that a checkpoint has kept."""
        sums: dict[str, Any] = {name: arrays[f"sums_{name}"] for name in self._kept}
        counts = {"seen": int(sums["seen"]), "first": int(sums["first"]), "weight": float(sums["weight"])}
        return dataclasses.replace(self, **(sums | counts))


@dataclass(frozen=True)
class Moments(Sums):
    """Sums of features and targets, for criteria of class means and of regression.

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
    classes : bool
        Whether the targets are indicators of classes.
    n_components : int, optional
        The rank l of the regression, by default that of the targets: of its predictions the l directions of the largest
        variance are kept, which span what l columns of the ratio trace do.
    weight : float
        Σ ω.
    seen, first : int
        Samples seen, and those of the first batch, which count the same.

    """

    _kept = ("second", "total", "by_target", "targets", "weight", "seen", "first")

    second: Array
    total: Array
    by_target: Array
    targets: Array
    classes: bool = True
    n_components: int | None = None
    weight: float = 0.0
    seen: int = 0
    first: int = 0

    @classmethod
    def zero(cls, width: int, n_targets: int, classes: bool = True, n_components: int | None = None) -> Moments:
        """Nothing seen so far."""
        sums = np.zeros((width, width)), np.zeros(width), np.zeros((n_targets, width)), np.zeros(n_targets)
        return cls(*sums, classes, n_components)

    def added(self, rows: Features, batch: Batch) -> Moments:
        n = rows.shape[0]
        if not n:
            return self
        first, after = self.first or n, self.seen + n
        w = (np.maximum(np.arange(self.seen + 1, after + 1), first) / after) ** FORGETTING * batch.weights
        kept = (max(self.seen, first) / after) ** FORGETTING if self.seen else 0.0
        weighted = np.column_stack([w, batch.targets * w[:, None]])
        sums = rows.rmatmul(weighted)  # (w, 1 + c)
        return Moments(
            kept * self.second + rows.form(Structure(w)),
            kept * self.total + sums[:, 0],
            kept * self.by_target + sums[:, 1:].T,
            kept * self.targets + weighted[:, 1:].sum(axis=0),
            self.classes,
            self.n_components,
            kept * self.weight + float(w.sum()),
            after,
            first,
        )

    @property
    def mean(self) -> Array:
        """The mean of the features."""
        return self.total / self.weight

    @property
    def shares(self) -> Array:
        """The mean of the targets: for classes their shares."""
        return self.targets / self.weight

    @property
    def scale(self) -> Array:
        """What targets are multiplied by: for classes 1/√share, so that large ones do not dominate."""
        return 1 / np.sqrt(np.maximum(self.shares, 1 / self.seen)) if self.classes else np.ones(len(self.targets))

    def scatter(self) -> Array:
        """Return the scatter of the features (w, w)."""
        return self.second / self.weight - np.outer(self.mean, self.mean)

    def deviations(self) -> Array:
        """Return C = Cov(t, φ) (c, w): CᵀC is the scatter between classes."""
        plain = self.by_target / self.weight - np.outer(self.shares, self.mean)
        return plain * self.scale[:, None]

    def of(self, columns: slice) -> Moments:
        """Return the sums of some of the features."""
        return dataclasses.replace(
            self,
            second=self.second[columns, columns],
            total=self.total[columns],
            by_target=self.by_target[:, columns],
        )

    def solved(self, shrinkage: float) -> tuple[Array, Array, Array]:
        """Return W (w, c) of the ridge regression, its intercept (c,), and the scale of the targets."""
        B = self.scatter()
        B[np.diag_indices_from(B)] += max(shrinkage * float(np.trace(B)) / len(B), np.finfo(float).tiny)
        factor = scipy.linalg.cho_factor(B, lower=True, overwrite_a=True, check_finite=False)
        C = self.deviations()
        W = scipy.linalg.cho_solve(factor, C.T, check_finite=False)
        if self.n_components is not None and self.n_components < len(C) - self.classes:
            leading = np.linalg.eigh(C @ W)[1][:, -self.n_components :]
            W = (W @ leading) @ leading.T
        return W, self.shares * self.scale - self.mean @ W, self.scale

    def pull(self, solution: Any, rows: Features, batch: Batch) -> Pull:
        W, intercept, scale = solution
        T = batch.targets * scale
        error = (rows @ W) + intercept - T
        apart = T - (intercept + self.mean @ W)
        weights = batch.weights[:, None]
        explained = 1 - float(np.sum(weights * error**2)) / max(float(np.sum(weights * apart**2)), 1e-300)
        return Pull(weights * error / batch.size, W.T, explained)


class _Part(NamedTuple):
    """A structure over all samples, divided so that it can be restricted to some of them."""

    loose: Array  # (n,) the diagonal without the degrees of the graph
    graph: sp.csr_array | None
    edges: float  # the sum of all |entries| of the graph
    factors: Any
    core: Array | None

    @classmethod
    def of(cls, S: Structure) -> _Part:
        """Divide a structure."""
        graph = None if S.graph is None else sp.csr_array(S.graph)
        degrees = 0.0 if graph is None else np.asarray(graph.sum(axis=1)).ravel()
        return cls(S.diagonal + degrees, graph, 0.0 if graph is None else float(abs(graph).sum()), S.factors, S.core)

    def restricted(self, batch: Batch) -> Structure:
        """Return an estimate of the structure from the rows of a batch, factors left out.

        A row counts as often as its weight says; edges within the batch stand for all edges.
        """
        assert batch.rows is not None
        diagonal = self.loose[batch.rows] * batch.weights
        if self.graph is None:
            return Structure(diagonal)
        inner = sp.csr_array(self.graph[batch.rows][:, batch.rows])
        inner = inner * (self.edges / max(float(abs(inner).sum()), 1e-300))
        return Structure(diagonal - np.asarray(inner.sum(axis=1)).ravel(), inner)

    def crossed(self, rows: Features, batch: Batch) -> Any:
        """Return FᵀΦ (c, w) of a batch, 0 where there are no factors."""
        if self.factors is None:
            return 0.0
        F = self.factors[batch.rows]
        return rows.rmatmul((F.toarray() if sp.issparse(F) else F) * batch.weights[:, None]).T

    def joined(self, form: Array, crossed: Array) -> Array:
        """Return ΦᵀSΦ (w, w) from that of the graph and from FᵀΦ."""
        out = form if self.core is None else form + crossed.T @ self.core @ crossed
        return np.asarray((out + out.T) / 2)

    def applied(self, Y: Array, crossed: Array, W: Array, batch: Batch) -> Array:
        """Return the rows of SY (n, l) of a batch, with FᵀY = ``crossed`` W (c, l) from the sums."""
        out = np.asarray(self.restricted(batch) @ Y)
        if self.factors is not None:
            out += batch.weights[:, None] * (self.factors[batch.rows] @ (self.core @ (crossed @ W)))
        return out


@dataclass(frozen=True)
class Pairs(Sums):
    """Sums for criteria that compare samples with their neighbours, from the structures S_A and S_B over all samples.

    Parameters
    ----------
    parts : pair of divided structures
        S_A, and S_B or, where this is a total that has S_A in it, the other part of it.
    above, rest : arrays of shape (w, w)
        ΦᵀSΦ of these, without the factors F of S.
    crossed, crossed_rest : arrays of shape (c, w)
        FᵀΦ.
    n_components : int
    weight : float
        The sum of the weights of the batches, relative to all samples.
    seen, first : int

    """

    _kept = ("above", "rest", "crossed", "crossed_rest", "weight", "seen", "first")

    parts: tuple[_Part, _Part]
    n_components: int
    above: Any = 0.0
    rest: Any = 0.0
    crossed: Any = 0.0
    crossed_rest: Any = 0.0
    weight: float = 0.0
    seen: int = 0
    first: int = 0

    @classmethod
    def zero(cls, quotient: Quotient, n_components: int) -> Pairs:
        """Nothing seen so far of a criterion bound to all samples."""
        below = quotient.below if quotient.rest is None else quotient.rest
        assert below is not None
        return cls((_Part.of(quotient.above), _Part.of(below)), n_components)

    def added(self, rows: Features, batch: Batch) -> Pairs:
        n = rows.shape[0]
        first, after = self.first or n, self.seen + n
        kept = (max(self.seen, first) / after) ** FORGETTING if self.seen else 0.0
        above, rest = (rows.form(part.restricted(batch)) for part in self.parts)
        crossed, crossed_rest = (part.crossed(rows, batch) for part in self.parts)
        return dataclasses.replace(
            self,
            above=kept * self.above + above,
            rest=kept * self.rest + rest,
            crossed=kept * self.crossed + crossed,
            crossed_rest=kept * self.crossed_rest + crossed_rest,
            weight=kept * self.weight + 1.0,
            seen=after,
            first=first,
        )

    def solved(self, shrinkage: float) -> tuple[Array, Array]:
        """Return W (w, l) with Wᵀ(A + B)W = I, and Λ (l,)."""
        A = self.parts[0].joined(self.above / self.weight, self.crossed / self.weight)
        B = A + self.parts[1].joined(self.rest / self.weight, self.crossed_rest / self.weight)
        B[np.diag_indices_from(B)] += max(shrinkage * float(np.trace(B)) / len(B), np.finfo(float).tiny)
        W = ratio_trace(Numerator(None, None, A), B, min(self.n_components, len(A)))
        return W, np.einsum("ij,ij->j", W, A @ W)

    def pull(self, solution: Any, rows: Features, batch: Batch) -> Pull:
        W, values = solution
        Y = rows @ W
        means = self.crossed / self.weight, self.crossed_rest / self.weight
        above, rest = (part.applied(Y, mean, W, batch) for part, mean in zip(self.parts, means, strict=True))
        left = (above + rest) * values - above
        bottom = float(np.vdot(Y, above + rest))
        explained = float(np.vdot(Y, above)) / bottom if bottom > 0 else float("nan")
        return Pull(left / max(len(Y), 1), W.T, explained)


# ── the learner ─────────────────────────────────────────────────────────────────────────────────────────────────────


class State(NamedTuple):
    """A dictionary on its way, and what the next step needs."""

    dictionary: Array
    sums: Sums
    adam: Adam
    solution: Any = None
    solved_at: int = 0
    explained: float = float("nan")  # of the last batch, by a W that did not know it
    moved: float = 0.0  # root mean square distance of the last step

    def arrays(self) -> dict[str, Array]:
        """Return all that a step depends on as named arrays, for a checkpoint."""
        solution = () if self.solution is None else self.solution
        held = {"dictionary": self.dictionary, "adam_mean": self.adam.mean, "adam_square": self.adam.square}
        held["counts"] = np.array([self.adam.steps, self.solved_at, self.explained, self.moved])
        return held | self.sums.arrays() | {f"solution_{i}": part for i, part in enumerate(solution)}

    def restored(self, arrays: dict[str, Array]) -> State:
        """Return the state that a checkpoint has kept of a fit that began like this one."""
        count, solved_at, explained, moved = arrays["counts"].tolist()
        adam = Adam(arrays["adam_mean"], arrays["adam_square"], int(count))
        solution = tuple(arrays[name] for name in sorted(arrays) if name.startswith("solution_")) or None
        sums = self.sums.restored(arrays)
        return State(arrays["dictionary"], sums, adam, solution, int(solved_at), explained, moved)


@dataclass(frozen=True)
class Learner:
    """A loop over mini-batches in two functions: ``init`` and ``step``.

    Parameters
    ----------
    shrinkage : float
        Of the running sums, a multiple of the mean of their diagonal.
    move : float, default=0.02
        The distance that atoms move in the first steps.

    """

    shrinkage: float
    move: float = MOVE

    def init(self, dictionary: Array, sums: Sums) -> State:
        """Return the state before the first batch."""
        return State(dictionary, sums, Adam.begin(dictionary.shape, by_rows=True, dtype=dictionary.dtype))

    def step(self, state: State, coded: Codes, batch: Batch, rate: float) -> State:
        """Take in one batch, coded at the present dictionary, and move it by ``rate`` times the first distance.

        Larger batches tell more of the gradient: the distance grows with the root of their size.
        """
        sums, width = state.sums, coded.shape[1]
        seen = sums.seen  # type: ignore[attr-defined]
        if seen >= WARM * width and batch.size > 0:
            if state.solution is None or seen - state.solved_at >= width:
                state = state._replace(solution=sums.solved(self.shrinkage), solved_at=seen)
            pull = sums.pull(state.solution, coded, batch)
            state = self._moved(
                state, coded.pullback(pull.left, pull.right, 0.0), rate * (len(batch.weights) / BATCH) ** 0.5
            )
            state = state._replace(explained=pull.explained)
        return state._replace(sums=sums.added(coded, batch))

    def _moved(self, state: State, slope: Array, rate: float) -> State:
        """Return the state with atoms moved against a gradient, which is projected on the tangents of the spheres."""
        D = state.dictionary
        adam = state.adam.after(slope - D * np.sum(slope * D, axis=1, keepdims=True))
        after = unit_rows(D - float(rate * self.move / np.sqrt(D.shape[1])) * adam.direction)
        moved = float(np.sqrt(np.mean(np.sum((after - D) ** 2, axis=1))))
        return state._replace(dictionary=after, adam=adam, moved=moved)


def batch_size(n_atoms: int) -> int:
    """Return the number of samples of a step."""
    return max(BATCH, n_atoms // 2)


def of_targets(criterion: Criterion) -> bool:
    """Return whether a criterion is one of class means or of regression, whose sums are :class:`Moments`."""
    return type(criterion) in (LDA, MVR)


def has_steps(criterion: Criterion, quotient: Quotient) -> bool:
    """Return whether small steps are known for a criterion: for all but the trace form of PCA."""
    return of_targets(criterion) or quotient.below is not None


def targets_of(labels: Labels, n_targets: int) -> tuple[Array, Array]:
    """Return targets (n, c), one column for each class where there are classes, and which samples have them."""
    if labels.targets is not None:
        known = np.all(np.isfinite(labels.targets), axis=1)
        return np.where(known[:, None], labels.targets, 0.0), known
    assert labels.y is not None
    known = labels.y >= 0
    T = np.zeros((len(labels.y), n_targets))
    T[np.flatnonzero(known), labels.y[known]] = 1
    return T, known
