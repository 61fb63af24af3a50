"""Conjugate gradients on any manifold, for any problem, and the manifolds.

The optimiser has no hidden state. :meth:`ConjugateGradients.init` makes a :class:`State`, and each
:meth:`~ConjugateGradients.step` returns a new one. A problem may change between two steps: :meth:`State.moved` puts the
evaluation of the new problem in the place of the old one, and the search directions are kept.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

Point = Any  # an array, or a tuple of points for a product


class Manifold(ABC):
    """The contract; vectors are tangent at ``point`` unless said otherwise."""

    @abstractmethod
    def inner(self, point: Point, a: Point, b: Point) -> float:
        """Return ⟨a, b⟩ at ``point``."""

    @abstractmethod
    def project(self, point: Point, vector: Point) -> Point:
        """Return the tangent part of an ambient vector."""

    @abstractmethod
    def gradient(self, point: Point, euclidean: Point) -> Point:
        """Return the Riemannian gradient: the tangent vector g with ⟨g, ξ⟩ = euclidean · ξ for every tangent ξ."""

    @abstractmethod
    def retract(self, point: Point, step: Point) -> Point:
        """Return the point reached from ``point`` along ``step``, exact to first order."""

    @abstractmethod
    def transport(self, point: Point, step: Point, reached: Point, vector: Point) -> Point:
        """Carry ``vector`` along ``step`` to the tangent space at ``reached`` = retract(point, step)."""

    @abstractmethod
    def combine(self, a: float, x: Point, b: float, y: Point) -> Point:
        """Return a·x + b·y of two tangent vectors at the same point."""

    @abstractmethod
    def random_point(self, rng: np.random.Generator) -> Point:
        """Draw a point at random."""

    def norm(self, point: Point, vector: Point) -> float:
        """Return √⟨v, v⟩."""
        return math.sqrt(max(0.0, self.inner(point, vector, vector)))


class _Single(Manifold):
    """What manifolds of one array have in common."""

    def combine(self, a: float, x: Point, b: float, y: Point) -> Point:
        return a * x + b * y


@dataclass(frozen=True)
class Spheres(_Single):
    """Unit-norm rows d of an (r, m) array: a product of r spheres."""

    n_rows: int
    n_columns: int

    def inner(self, point: Point, a: Point, b: Point) -> float:
        return float(np.vdot(a, b))

    def project(self, point: Point, vector: Point) -> Point:
        """Return ξ − d(d·ξ)."""
        return vector - point * np.einsum("ij,ij->i", point, vector)[:, None]

    def gradient(self, point: Point, euclidean: Point) -> Point:
        return self.project(point, euclidean)

    def retract(self, point: Point, step: Point) -> Point:
        """Return (d + ξ)/‖d + ξ‖."""
        y = point + step
        return y / np.linalg.norm(y, axis=1, keepdims=True)

    def transport(self, point: Point, step: Point, reached: Point, vector: Point) -> Point:
        """Return (I − yyᵀ/‖y‖²)ξ/‖y‖ with y = d + step, the derivative of the retraction (errata 5)."""
        return self.project(reached, vector) / np.linalg.norm(point + step, axis=1, keepdims=True)

    def random_point(self, rng: np.random.Generator) -> Point:
        return self.retract(0.0, rng.standard_normal((self.n_rows, self.n_columns)))


@dataclass(frozen=True)
class Grassmann(_Single):
    """Subspaces of dimension l in r dimensions, as orthonormal U (r, l); tangent vectors H with UᵀH = 0.

    The metric is that of the projectors UUᵀ: ‖HUᵀ + UHᵀ‖² = 2‖H‖², so the gradient is half the projected one.
    """

    dimension: int
    subspace: int

    def inner(self, point: Point, a: Point, b: Point) -> float:
        return 2 * float(np.vdot(a, b))

    def project(self, point: Point, vector: Point) -> Point:
        """Return H = V − U(UᵀV)."""
        return vector - point @ (point.T @ vector)

    def gradient(self, point: Point, euclidean: Point) -> Point:
        return self.project(point, euclidean) / 2

    def retract(self, point: Point, step: Point) -> Point:
        """Return the orthogonal factor of U + H, triangular factor with positive diagonal."""
        Q, R = np.linalg.qr(point + step)
        return Q * np.where(np.diag(R) < 0, -1.0, 1.0).astype(Q.dtype)

    def transport(self, point: Point, step: Point, reached: Point, vector: Point) -> Point:
        """Return the projection on the tangent space at the point reached."""
        return self.project(reached, vector)

    def random_point(self, rng: np.random.Generator) -> Point:
        return self.retract(0.0, rng.standard_normal((self.dimension, self.subspace)))


@dataclass(frozen=True)
class Product(Manifold):
    """Pairs (or tuples) of points, one on each manifold; the metric is the sum."""

    parts: tuple[Manifold, ...]

    def _each(self, name: str, *points: Point) -> tuple[Any, ...]:
        """Return what the manifolds give for their parts of points or vectors."""
        return tuple(getattr(part, name)(*these) for part, *these in zip(self.parts, *points, strict=True))

    def inner(self, point: Point, a: Point, b: Point) -> float:
        return sum(self._each("inner", point, a, b))

    def project(self, point: Point, vector: Point) -> Point:
        return self._each("project", point, vector)

    def gradient(self, point: Point, euclidean: Point) -> Point:
        return self._each("gradient", point, euclidean)

    def retract(self, point: Point, step: Point) -> Point:
        return self._each("retract", point, step)

    def transport(self, point: Point, step: Point, reached: Point, vector: Point) -> Point:
        return self._each("transport", point, step, reached, vector)

    def combine(self, a: float, x: Point, b: float, y: Point) -> Point:
        return tuple(part.combine(a, u, b, v) for part, u, v in zip(self.parts, x, y, strict=True))

    def random_point(self, rng: np.random.Generator) -> Point:
        return tuple(part.random_point(rng) for part in self.parts)


class Evaluation(Protocol):
    """What a problem returns for a point: at least the point and the value; whatever else it wants to keep."""

    point: Point
    value: float


class Problem(Protocol):
    """What is maximised, and where."""

    @property
    def manifold(self) -> Manifold:
        """The manifold of its points."""

    def evaluate(self, point: Point, near: Any = None) -> Any:
        """Return an Evaluation at ``point``; ``near`` is one at a point close by, to start from."""

    def gradient(self, evaluation: Any) -> Point:
        """Return the Euclidean gradient at an evaluation."""


@dataclass(frozen=True)
class State:
    """Where the optimiser is, and what it remembers. Values never fall from one state to the next.

    Parameters
    ----------
    evaluation : Evaluation
        The problem evaluated at the present point.
    next_length : float
        The length of the first trial of the next line search, in the manifold's metric.
    memory : LastStep, optional
        The last gradient and direction, carried to the present point.
    n_steps, n_evaluations : int
        Accepted steps, and evaluations made for them.
    n_slow : int
        How many of the last steps in a row have raised the value by less than ``tol``.
    length, gradient_norm : float
        Of the last step: the multiple of the direction that was taken, and the norm of the gradient it started from.
    restarted : bool
        Whether the direction of the last step was the gradient itself.
    reason : str
        Why there are no further steps; empty while there are.

    """

    evaluation: Any
    next_length: float
    memory: LastStep | None = None
    n_steps: int = 0
    n_evaluations: int = 0
    n_slow: int = 0
    length: float = np.nan
    gradient_norm: float = np.nan
    restarted: bool = False
    reason: str = ""

    def moved(self, evaluation: Any) -> State:
        """Return the state for a problem that has changed, given its evaluation at the present point."""
        return dataclasses.replace(self, evaluation=evaluation)


def conjugate_beta(manifold: Manifold, point: Point, new: Point, carried: Point, old_slope: float) -> float:
    """Return β = ⟨G⁺, G⁺ − T(G)⟩ / ⟨H, G⟩ (the paper's Eq. 62), or zero where that is negative."""
    change = manifold.combine(1.0, new, -1.0, carried)
    return max(0.0, manifold.inner(point, new, change) / old_slope) if old_slope > 0 else 0.0


@dataclass(frozen=True)
class LastStep:
    """The last gradient and direction, carried to the point they led to, and their inner product before."""

    gradient: Point
    search: Point
    slope: float

    @classmethod
    def carried(
        cls, manifold: Manifold, point: Point, reached: Point, length: float, G: Point, direction: Point
    ) -> LastStep:
        """Transport gradient and direction along the step that was taken."""
        step = manifold.combine(length, direction, 0.0, direction)
        G_carried, H_carried = (manifold.transport(point, step, reached, vector) for vector in (G, direction))
        return cls(G_carried, H_carried, manifold.inner(point, direction, G))

    def direction(self, manifold: Manifold, point: Point, G: Point, norm: float) -> Point | None:
        """Return G + βH, or None where that is the gradient itself or hardly ascends: a restart."""
        beta = conjugate_beta(manifold, point, G, self.gradient, self.slope)
        if beta == 0:
            return None
        H = manifold.combine(1.0, G, beta, self.search)
        ascends = manifold.inner(point, H, G) > 1e-3 * norm * manifold.norm(point, H)
        return H if ascends else None


@dataclass(frozen=True)
class ConjugateGradients:
    """Conjugate gradients with a backtracking line search (Armijo's condition).

    Parameters
    ----------
    tol : float
        Stop when the value rises by less than this, relative to its size, in each of two steps.
    grad_tol : float
        Stop when the gradient's norm is below this part of 1 + |value|.
    max_evaluations : int
        Trials of one line search.

    """

    tol: float = 1e-6
    grad_tol: float = 1e-8
    max_evaluations: int = 12

    def init(self, start: Any, first_length: float = 0.1) -> State:
        """Return the first state, at an evaluation that is not paid for again."""
        return State(start, first_length)

    def step(self, problem: Problem, state: State) -> State:
        """Return the state after one accepted step, or the same one with the reason why there is none."""
        now, manifold = state.evaluation, problem.manifold
        G = manifold.gradient(now.point, problem.gradient(now))
        norm = manifold.norm(now.point, G)
        if norm <= self.grad_tol * (1 + abs(now.value)):
            return dataclasses.replace(state, reason="gradient vanished")
        direction = None if state.memory is None else state.memory.direction(manifold, now.point, G, norm)
        restarted = direction is None
        search = LineSearch(problem, now, G, state.next_length, self.max_evaluations)
        found = search.along(G if direction is None else direction)
        if found is None and not restarted:
            restarted, found = True, search.along(G)
        if found is None:
            trials = state.n_evaluations + search.n_evaluations
            return dataclasses.replace(state, n_evaluations=trials, reason="no step raises the value")
        reached, length, taken = found
        slow = state.n_slow + 1 if reached.value - now.value <= self.tol * abs(reached.value) else 0
        return State(
            reached,
            search.next_length,
            LastStep.carried(manifold, now.point, reached.point, length, G, taken),
            state.n_steps + 1,
            state.n_evaluations + search.n_evaluations,
            slow,
            length,
            norm,
            restarted,
            "value converged" if slow == 2 else "",
        )


class LineSearch:
    """The search for a step from one evaluation; each trial is evaluated once, and the accepted one is kept."""

    def __init__(self, problem: Problem, now: Any, G: Point, next_length: float, max_evaluations: int) -> None:
        self.problem, self.now, self.G = problem, now, G
        self.next_length, self.max_evaluations = next_length, max_evaluations
        self.n_evaluations = 0

    def along(self, direction: Point) -> tuple[Any, float, Point] | None:
        """Return the evaluation reached, the multiple of the direction, and the direction; None if no trial is good.

        The next search begins with twice the length if the first trial was good, with the accepted one otherwise.
        """
        now, manifold = self.now, self.problem.manifold
        slope = manifold.inner(now.point, direction, self.G)
        norm = manifold.norm(now.point, direction)
        length = self.next_length / norm
        for trial in range(1, self.max_evaluations + 1):
            step = manifold.combine(length, direction, 0.0, direction)
            reached = self.problem.evaluate(manifold.retract(now.point, step), now)
            self.n_evaluations += 1
            gain = reached.value - now.value
            if gain >= 1e-4 * length * slope:
                self.next_length = length * norm * (2 if trial == 1 else 1)
                return reached, length, direction
            del reached
            if np.isfinite(gain):  # the maximum of the parabola through value, slope and this trial
                best = 0.5 * slope * length**2 / (slope * length - gain)
                length = min(max(best, 0.1 * length), 0.5 * length)
            else:
                length *= 0.1
        return None
