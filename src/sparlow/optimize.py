"""Conjugate gradients on any manifold, for any problem; neither is known here beyond its contract."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from .manifolds import Manifold, Point


class Evaluation(Protocol):
    """What a problem returns for a point: at least the point and the value; whatever else it wants to keep."""

    point: Point
    value: float


class Problem(Protocol):
    """What is maximised."""

    def evaluate(self, point: Point, near: Any = None) -> Any:
        """An Evaluation at ``point``; ``near`` is one at a point close by, to start from."""

    def gradient(self, evaluation: Any) -> Point:
        """The Euclidean gradient at an evaluation."""


@dataclass(frozen=True)
class Step:
    """One accepted step. The callback sees its evaluation too, which is not kept: it is as large as the codes."""

    evaluation: Any
    value: float
    step: float  # length of the step: the multiple of the direction that was taken
    gradient_norm: float  # at the point it started from
    n_evaluations: int  # of the line searches
    restarted: bool  # whether the direction was the gradient itself
    seconds: float  # since the start of the optimisation


@dataclass
class Result:
    """Where the optimisation ended, and why."""

    evaluation: Any
    reason: str
    steps: list[Step] = field(default_factory=list)
    n_evaluations: int = 0
    next_length: float = 0.0  # a good first length for going on from here

    @property
    def n_iter(self) -> int:
        """Accepted steps."""
        return len(self.steps)

    def handed_over(self) -> Any:
        """The evaluation, which this result then no longer holds."""
        evaluation, self.evaluation = self.evaluation, None
        return evaluation


def conjugate_beta(manifold: Manifold, point: Point, new: Point, carried: Point, old_slope: float) -> float:
    """β = ⟨G⁺, G⁺ − T(G)⟩ / ⟨H, G⟩ (the paper's Eq. 62), not below zero."""
    change = manifold.combine(1.0, new, -1.0, carried)
    return max(0.0, manifold.inner(point, new, change) / old_slope) if old_slope > 0 else 0.0


def maximise(
    problem: Problem,
    manifold: Manifold,
    start: Any,
    *,
    max_iter: int = 100,
    first_length: float = 0.1,
    tol: float = 1e-6,
    grad_tol: float = 1e-8,
    max_evaluations: int = 12,
    callback: Callable[[Step], bool | None] | None = None,
) -> Result:
    """Maximise a problem by conjugate gradients with a backtracking line search.

    Parameters
    ----------
    problem, manifold
        See :class:`Problem` and :class:`~sparlow.manifolds.Manifold`.
    start : Evaluation
        The problem evaluated where to start: it is not paid for again.
    max_iter : int
        Largest number of accepted steps.
    first_length : float
        Length, in the manifold's metric, of the first step tried.
    tol : float
        Stop when the value rises by less than this, relative to its size, in each of two steps.
    grad_tol : float
        Stop when the gradient's norm is below this part of 1 + |value|.
    max_evaluations : int
        Trials of one line search.
    callback : callable, optional
        Called with each accepted :class:`Step`; a true answer stops.

    Returns
    -------
    Result
        The value never falls over its steps. An interrupt (Ctrl-C) ends it with the last accepted step.

    """
    began = time.perf_counter()
    result = Result(start, "max_iter reached", next_length=first_length)
    del start  # let go as soon as a better one is there
    try:
        _climb(problem, manifold, result, max_iter, tol, grad_tol, max_evaluations, callback, began)
    except KeyboardInterrupt:
        result.reason = "interrupted"
    return result


def _climb(
    problem: Problem,
    manifold: Manifold,
    result: Result,
    max_iter: int,
    tol: float,
    grad_tol: float,
    max_evaluations: int,
    callback: Callable[[Step], bool | None] | None,
    began: float,
) -> None:
    memory: _Memory | None = None
    slow = 0
    while result.n_iter < max_iter:
        now, before = result.evaluation, result.n_evaluations
        G = manifold.gradient(now.point, problem.gradient(now))
        norm = manifold.norm(now.point, G)
        if norm <= grad_tol * (1 + abs(now.value)):
            result.reason = "gradient vanished"
            return
        direction = None if memory is None else memory.direction(manifold, now.point, G, norm)
        restarted = direction is None
        direction = G if direction is None else direction
        found = _line_search(problem, manifold, result, direction, G, max_evaluations)
        if found is None and not restarted:
            restarted, direction = True, G
            found = _line_search(problem, manifold, result, direction, G, max_evaluations)
        if found is None:
            result.reason = "no step raises the value"
            return
        reached, length = found
        trials = result.n_evaluations - before  # those of a direction that was given up count too
        memory = _Memory.carried(manifold, now.point, reached.point, length, G, direction)
        slow = slow + 1 if reached.value - now.value <= tol * abs(reached.value) else 0
        result.evaluation = reached
        step = Step(None, reached.value, length, norm, trials, restarted, time.perf_counter() - began)
        result.steps.append(step)
        if callback is not None and callback(replace(step, evaluation=reached)):
            result.reason = "stopped by callback"
            return
        if slow == 2:
            result.reason = "value converged"
            return


@dataclass(frozen=True)
class _Memory:
    """The last gradient and direction, carried to the point they led to, and their inner product before."""

    gradient: Point
    search: Point
    slope: float

    @classmethod
    def carried(
        cls, manifold: Manifold, point: Point, reached: Point, length: float, G: Point, direction: Point
    ) -> _Memory:
        step = manifold.combine(length, direction, 0.0, direction)
        G_carried, H_carried = (manifold.transport(point, step, reached, vector) for vector in (G, direction))
        return cls(G_carried, H_carried, manifold.inner(point, direction, G))

    def direction(self, manifold: Manifold, point: Point, G: Point, norm: float) -> Point | None:
        """G + βH, or None where that is the gradient itself or hardly ascends: a restart."""
        beta = conjugate_beta(manifold, point, G, self.gradient, self.slope)
        if beta == 0:
            return None
        H = manifold.combine(1.0, G, beta, self.search)
        ascends = manifold.inner(point, H, G) > 1e-3 * norm * manifold.norm(point, H)
        return H if ascends else None


def _line_search(
    problem: Problem, manifold: Manifold, result: Result, direction: Point, G: Point, max_evaluations: int
) -> tuple[Any, float] | None:
    """A step that satisfies Armijo's condition; each trial is evaluated once and the accepted one is kept.

    The next search begins with twice the length if the first trial was good, with the accepted one otherwise.
    """
    now = result.evaluation
    slope = manifold.inner(now.point, direction, G)
    norm = manifold.norm(now.point, direction)
    length = result.next_length / norm
    for trial in range(1, max_evaluations + 1):
        step = manifold.combine(length, direction, 0.0, direction)
        reached = problem.evaluate(manifold.retract(now.point, step), now)
        result.n_evaluations += 1
        gain = reached.value - now.value
        if gain >= 1e-4 * length * slope:
            result.next_length = length * norm * (2 if trial == 1 else 1)
            return reached, length
        if not np.isfinite(gain):
            length *= 0.1
            continue
        del reached
        # the maximum of the parabola through value, slope and this trial
        best = 0.5 * slope * length**2 / (slope * length - gain)
        length = min(max(best, 0.1 * length), 0.5 * length)
    return None
