"""The joint cost of dictionary and projection: the one place where coding, criterion and regularizers meet.

    J(D, U) = f(D, U) − |f₀| (μ₁ g_c(D) + μ₂ g_d(D)),  to be maximised

f is the trace quotient of the codes Φ(D), f₀ its value at the start, g_c and g_d the mean coherence of the atoms and
their mean squared distance from the first dictionary. So μ₁ and μ₂ mean the same for any criterion and any size.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .criteria import Quotient, Value
from .manifolds import Grassmann, Manifold, Point, Product, Spheres
from .messages import warn
from .optimize import Result, Step, maximise
from .parallel import Threads
from .priors import ElasticNet, Prior
from .regularizers import coherence, coherence_gradient, proximity, proximity_gradient
from .tracequotient import best_projection, check_scatter
from .views import Codes, Pooling

Array = NDArray[Any]

_PROJECTION = (
    1e-6  # how well U is solved for, relative to f: the iteration is quadratic, so the last turn gives far more
)
_SAMPLES_ALONE = Pooling()
_FIRST_MOVE = 0.03  # root mean square distance of the atoms in the first step tried


@dataclass(frozen=True)
class Evaluation:
    """J at one point, and what was computed on the way: nothing of it is computed again."""

    point: Point
    value: float  # J
    dictionary: Array
    projection: Array
    coded: Codes
    quotient: Value
    coherence: float
    proximity: float

    @property
    def codes(self) -> sp.csr_array:
        """Of the samples: where they have views, the means."""
        return self.coded.mean


@dataclass
class JointProblem(ABC):
    """What the two ways of handling U have in common.

    Parameters
    ----------
    X : array of shape (n, m)
    prior : Prior
    quotient : Quotient
        The criterion bound to the samples.
    anchor : array of shape (r, m)
        The first dictionary, D* of g_d.
    mu_coherence, mu_proximity : float
        μ₁ and μ₂.
    n_jobs : int, optional
    pooling : Pooling, optional
        Views whose codes are averaged.

    """

    X: Any
    prior: Prior
    quotient: Quotient
    anchor: Array
    n_components: int
    mu_coherence: float = 0.0
    mu_proximity: float = 0.0
    n_jobs: int | None = None
    pooling: Pooling = _SAMPLES_ALONE
    scale: float = 0.0  # |f₀|, set by start()
    n_codings: int = 0

    def __post_init__(self) -> None:
        self.plain = self.quotient  # before any balancing

    @abstractmethod
    def manifold(self) -> Manifold:
        """Where its points live."""

    @abstractmethod
    def _unpack(self, point: Point) -> tuple[Array, Array | None]:
        """D and U of a point; U is None where it is eliminated."""

    @abstractmethod
    def _pack(self, D: Array, U: Array) -> Point:
        """The point of D and U."""

    def start(self, D: Array, shrinkage: float = 0.0) -> Evaluation:
        """The evaluation at D with its best projection; fixes the ridge of B and the scale of the regularizers.

        The ridge is ``shrinkage`` · tr(B)/r, on B's own scale at the first codes: those of the samples as they are,
        where there are views, as means scatter less and need as much.
        """
        with Threads(1):
            coded = self.code(D)
            codes = coded.mean
            _check_codes(codes, D, self.X, self.prior)
            A, B = self.quotient.matrices(codes, self.n_jobs)
            check_scatter(B, codes, "codes")
            single = B if self.pooling.count == 1 else self.quotient.matrices(coded.views[0], self.n_jobs)[1]
            ridge = self.quotient.ridge + shrinkage * float(np.trace(single)) / len(B)
            B[np.diag_indices_from(B)] += ridge - self.quotient.ridge
            self.quotient = self.plain = dataclasses.replace(self.quotient, ridge=ridge)
            U = _project(A, B, ridge, self.n_components, None, 1e-10)
            value = self.quotient.value(codes, U)
            self.scale = abs(value.quotient)
            return self._evaluation(D, coded, U, value)

    def evaluate(self, point: Point, near: Evaluation | None = None) -> Evaluation:
        """J at a point: one sparse coding of all samples, started from the codes of ``near``."""
        D, U = self._unpack(point)
        with Threads(1):
            coded = self.code(D, None if near is None else near.coded)
            if U is None:
                U = self._best(coded.mean, None if near is None else near.projection)
            return self._evaluation(D, coded, U)

    def refresh(self, now: Evaluation) -> Evaluation:
        """Renew and balance the criterion for the present embedding; costs no coding, and J does not fall."""
        if not self.quotient.changes:
            return now
        with Threads(1):
            renew, ridge = self.quotient.renew, self.quotient.ridge
            if renew is not None:
                self.quotient = self.plain  # the last one is let go before the next is made: they are large
                self.quotient = dataclasses.replace(renew(now.quotient.embedding), ridge=ridge)
            self.quotient = self.quotient.balanced(now.quotient)
            U = now.projection if self._unpack(now.point)[1] is not None else self._best(now.codes, now.projection)
            return self._evaluation(now.dictionary, now.coded, U)

    def plain_quotient(self, now: Evaluation) -> float:
        """F as the criterion is written, without the weights that balance its pairs."""
        if self.quotient is self.plain:
            return now.quotient.quotient
        return self.plain.value(now.codes, now.projection).quotient

    def dictionary_gradient(self, now: Evaluation) -> Array:
        """∂J/∂D at fixed U; where U is the best one it is the gradient of the maximum over U (envelope theorem)."""
        with Threads(1):
            parts = self.quotient.codes_gradient(now.codes, now.projection, now.quotient)
            slope = self.pooling.pullback(self.X, now.dictionary, self.prior, now.coded, parts, self.n_jobs)
            slope = slope.astype(float, copy=False)
            if self.mu_coherence:
                slope -= self.scale * self.mu_coherence * coherence_gradient(now.dictionary)
            if self.mu_proximity:
                slope -= self.scale * self.mu_proximity * proximity_gradient(now.dictionary, self.anchor)
            return slope

    @abstractmethod
    def gradient(self, now: Evaluation) -> Point:
        """The Euclidean gradient of J."""

    def code(self, D: Array, start: Codes | None = None) -> Codes:
        """Codes of all samples, counted in ``n_codings``."""
        self.n_codings += 1
        return self.pooling.encode(self.X, D, self.prior, start, self.n_jobs)

    def _best(self, codes: sp.csr_array, start: Array | None) -> Array:
        A, B = self.quotient.matrices(codes, self.n_jobs)
        return _project(A, B, self.quotient.ridge, self.n_components, start, _PROJECTION)

    def _evaluation(self, D: Array, coded: Codes, U: Array, value: Value | None = None) -> Evaluation:
        value = self.quotient.value(coded.mean, U) if value is None else value
        g_c, g_d = coherence(D), proximity(D, self.anchor)
        J = value.quotient - self.scale * (self.mu_coherence * g_c + self.mu_proximity * g_d)
        return Evaluation(self._pack(D, U), J, D, U, coded, value, g_c, g_d)


def _check_codes(codes: sp.csr_array, D: Array, X: Any, prior: Prior) -> None:
    """Say which prior would do where codes are all zero, or most of them."""
    empty = float(np.mean(np.diff(codes.indptr) == 0))
    if empty <= 0.5:
        return
    largest = max(float(abs(X[i : i + 512] @ D.T).max()) for i in range(0, X.shape[0], 512))
    example = f"for instance ElasticNet({largest / 10:.1g}), or prior=None."
    what, weaker = (f"l1={prior.l1:.3g}", "") if isinstance(prior, ElasticNet) else (str(prior), "a weaker one, or ")
    if not codes.nnz:
        hint = f"Choose {weaker}l1 below {largest:.3g}, {example}"
        raise ValueError(f"All codes are zero: {what} is too large for these samples. {hint}")
    said = f"{empty:.0%} of the samples have a code of zeros, so all of these get the same embedding"
    warn(f"{said}: {what} is large for them. Choose a weaker one, {example}")


def _project(A: Array, B: Array, ridge: float, count: int, start: Array | None, tol: float) -> Array:
    """The best U among atoms in use: the others add nothing to either trace but the ridge, and could win over
    components that add less than the quotient.
    """
    used = np.diag(A) + np.diag(B) > ridge
    if used.all() or used.sum() < count:
        return best_projection(A, B, count, start, tol)[0]
    warm = None if start is None else np.linalg.qr(start[used])[0]
    U = np.zeros((len(A), count))
    U[used] = best_projection(A[np.ix_(used, used)], B[np.ix_(used, used)], count, warm, tol)[0]
    return U


class Eliminated(JointProblem):
    """J(D) = max over U of J(D, U): the point is D alone, its gradient that at the best U."""

    def manifold(self) -> Manifold:
        return Spheres(*self.anchor.shape)

    def _unpack(self, point: Point) -> tuple[Array, Array | None]:
        return point, None

    def _pack(self, D: Array, U: Array) -> Point:
        return D

    def gradient(self, now: Evaluation) -> Point:
        return self.dictionary_gradient(now)


class Together(JointProblem):
    """J(D, U) on the product of spheres and Grassmann manifold, as in the paper."""

    def manifold(self) -> Manifold:
        return Product((Spheres(*self.anchor.shape), Grassmann(len(self.anchor), self.n_components)))

    def _unpack(self, point: Point) -> tuple[Array, Array | None]:
        return point

    def _pack(self, D: Array, U: Array) -> Point:
        return D, U

    def gradient(self, now: Evaluation) -> Point:
        with Threads(1):
            slope = self.quotient.projection_gradient(now.codes, now.projection, now.quotient)
        return self.dictionary_gradient(now), slope


SOLVERS: dict[str, type[JointProblem]] = {"eliminate": Eliminated, "joint": Together}


def learn(
    problem: JointProblem,
    start: Evaluation,
    *,
    max_iter: int,
    refresh_every: int = 2,
    tol: float = 1e-5,
    callback: Callable[[Step], bool | None] | None = None,
) -> Result:
    """Conjugate gradients in rounds of ``refresh_every`` steps, the criterion renewed and balanced before each."""
    changes = problem.quotient.changes
    total = Result(start, "max_iter reached", next_length=_FIRST_MOVE * float(np.sqrt(len(problem.anchor))))
    del start  # evaluations are large: none is held for longer than it is needed
    slow = 0
    while total.n_iter < max_iter:
        try:
            total.evaluation = problem.refresh(total.evaluation)
        except KeyboardInterrupt:
            total.reason = "interrupted"
            break
        left, before = max_iter - total.n_iter, total.evaluation.value
        part = maximise(
            problem,
            problem.manifold(),
            total.handed_over(),
            max_iter=min(refresh_every, left) if changes else left,
            first_length=total.next_length,
            tol=tol,
            callback=callback,
        )
        total.evaluation, total.next_length = part.evaluation, part.next_length
        total.steps += part.steps
        total.n_evaluations += part.n_evaluations
        slow = slow + 1 if part.evaluation.value - before <= tol * part.n_iter * abs(before) else 0
        if part.reason != "max_iter reached" or slow == 2:
            total.reason = "value converged" if slow == 2 else part.reason
            break
    return total
