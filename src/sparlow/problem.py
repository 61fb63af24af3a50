"""The joint objective of dictionary and projection: the one place where coding, criterion and regularizers meet.

    J(D, U) = f(D, U) − |f₀| (μ₁ g_c(D) + μ₂ g_d(D)),  to be maximised

f is the trace quotient of the representation Φ(D), f₀ its value at the start, g_c and g_d the mean coherence of the
atoms and their mean squared distance from the first dictionary. So μ₁ and μ₂ mean the same for any criterion and any
size.

An objective is a frozen value. :func:`begin` makes it, with the evaluation at the first dictionary. Criteria that
change with the embedding are renewed by :meth:`Objective.refreshed`, which returns a new objective.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .checks import Array, warn
from .constants import FIRST_MOVE, PROJECTION_TOL, WIDE_DIRECTIONS, WIDE_FEATURES
from .criteria import Quotient, Value
from .optimize import ConjugateGradients, Grassmann, Manifold, Point, Product, Spheres, State
from .parallel import Threads
from .priors import ElasticNet
from .rows import Codes, Features, Samples
from .tracequotient import best_projection, check_scatter


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


@dataclass(frozen=True)
class Objective(ABC):
    """What the two ways of handling U have in common.

    Parameters
    ----------
    samples : Samples
        Rows, prior and views.
    quotient : Quotient
        The criterion bound to the samples, with its ridge; balanced or renewed by :meth:`refreshed`.
    plain : Quotient
        The same as it was at the start.
    anchor : array of shape (r, q)
        The first dictionary, D* of g_d.
    n_components : int
    scale : float
        |f₀|.
    mu_coherence, mu_proximity : float
        μ₁ and μ₂.
    basis : array of shape (w, k), optional
        An orthonormal basis of the directions that U may have, where there are too many features to solve for all.

    """

    samples: Samples
    quotient: Quotient
    plain: Quotient
    anchor: Array
    n_components: int
    scale: float
    mu_coherence: float = 0.0
    mu_proximity: float = 0.0
    basis: Array | None = None

    @property
    @abstractmethod
    def manifold(self) -> Manifold:
        """The manifold of its points."""

    @abstractmethod
    def _unpack(self, point: Point) -> tuple[Array, Array | None]:
        """Return D and U of a point; U is None where it is eliminated."""

    @abstractmethod
    def _pack(self, D: Array, U: Array) -> Point:
        """Return the point of D and U."""

    @abstractmethod
    def gradient(self, now: Evaluation) -> Point:
        """Return the Euclidean gradient of J."""

    def evaluate(self, point: Point, near: Evaluation | None = None) -> Evaluation:
        """Return J at a point: one sparse coding of all samples, started from the codes of ``near``."""
        D, U = self._unpack(point)
        with Threads(1):
            coded = self.samples.coded(D, None if near is None else near.coded)
            if U is None:
                U = self._best(coded, None if near is None else near.projection)
            return self.evaluation(D, coded, U)

    def evaluation(self, D: Array, coded: Codes, U: Array, value: Value | None = None) -> Evaluation:
        """Return the evaluation of samples already coded."""
        value = self.quotient.value(coded, U) if value is None else value
        g_c, g_d = coherence(D), proximity(D, self.anchor)
        J = value.quotient - self.scale * (self.mu_coherence * g_c + self.mu_proximity * g_d)
        return Evaluation(self._pack(D, U), J, D, U, coded, value, g_c, g_d)

    def refreshed(self, now: Evaluation) -> tuple[Objective, Evaluation]:
        """Return the objective with its criterion renewed and balanced for the present embedding, and J there.

        It costs no coding, and J does not fall.
        """
        if not self.quotient.changes:
            return self, now
        with Threads(1):
            fresh = dataclasses.replace(self, quotient=self.refreshed_quotient(now.quotient))
            U = now.projection
            if self._unpack(now.point)[1] is None:
                U = fresh._best(now.coded, U)
            return fresh, fresh.evaluation(now.dictionary, now.coded, U)

    def refreshed_quotient(self, before: Value) -> Quotient:
        """Return the criterion renewed and balanced for an embedding."""
        quotient = self.quotient
        if quotient.renew is not None:
            quotient = dataclasses.replace(quotient.renew(before.embedding), ridge=quotient.ridge)
        return quotient.balanced(before)

    def at(self, D: Array, U: Array) -> Evaluation:
        """Return J at a dictionary and a projection, which is not solved for: one sparse coding of all samples."""
        with Threads(1):
            return self.evaluation(D, self.samples.coded(D), U)

    def _best(self, coded: Codes, start: Array | None) -> Array:
        """Return the best U for samples already coded."""
        A, B = self.quotient.matrices(_reduced(coded, self.basis))
        if self.basis is None:
            return _project(A, B, coded.used, self.n_components, start, PROJECTION_TOL)
        inner = None if start is None else np.linalg.qr(self.basis.T @ start)[0]
        return self.basis @ best_projection(A, B, self.n_components, inner, PROJECTION_TOL)[0]

    def plain_quotient(self, now: Evaluation) -> float:
        """Return F as the criterion is written, without the weights that balance its pairs."""
        if self.quotient is self.plain:
            return now.quotient.quotient
        return self.plain.value(now.coded, now.projection, now.quotient.embedding).quotient

    def dictionary_gradient(self, now: Evaluation) -> Array:
        """Return ∂J/∂D at fixed U; at the best U it is the gradient of the maximum over U (envelope theorem)."""
        with Threads(1):
            slope = now.coded.pullback(*self.quotient.features_gradient(now.coded, now.projection, now.quotient))
            if self.mu_coherence:
                slope -= self.scale * self.mu_coherence * coherence_gradient(now.dictionary)
            if self.mu_proximity:
                slope -= self.scale * self.mu_proximity * proximity_gradient(now.dictionary, self.anchor)
            return slope


@dataclass(frozen=True)
class Refresh:
    """Where the criterion was renewed and balanced last: what it then was follows from this.

    Parameters
    ----------
    dictionary, projection : array
        D and U before.
    quotient, top : float
        F and its numerator before.

    """

    dictionary: Array
    projection: Array
    quotient: float
    top: float

    @classmethod
    def of(cls, now: Evaluation) -> Refresh:
        """Return the refresh at an evaluation."""
        return cls(now.dictionary, now.projection, now.quotient.quotient, now.quotient.top)

    def applied(self, objective: Objective) -> Objective:
        """Return the objective as it was after this refresh: one sparse coding of all samples."""
        with Threads(1):
            Y = objective.samples.coded(self.dictionary) @ self.projection
            before = Value(self.top, self.top / self.quotient, Y)
            return dataclasses.replace(objective, quotient=objective.refreshed_quotient(before))


class Eliminated(Objective):
    """J(D) = max over U of J(D, U): the point is D alone, its gradient that at the best U."""

    @property
    def manifold(self) -> Manifold:
        return Spheres(*self.anchor.shape)

    def _unpack(self, point: Point) -> tuple[Array, Array | None]:
        return point, None

    def _pack(self, D: Array, U: Array) -> Point:
        return D

    def gradient(self, now: Evaluation) -> Point:
        return self.dictionary_gradient(now)


class Together(Objective):
    """J(D, U) on the product of spheres and Grassmann manifold."""

    @property
    def manifold(self) -> Manifold:
        width = self.samples.width(len(self.anchor))
        return Product((Spheres(*self.anchor.shape), Grassmann(width, self.n_components)))

    def _unpack(self, point: Point) -> tuple[Array, Array | None]:
        return point

    def _pack(self, D: Array, U: Array) -> Point:
        return D, U

    def gradient(self, now: Evaluation) -> Point:
        with Threads(1):
            slope = self.quotient.projection_gradient(now.coded, now.projection, now.quotient)
        return self.dictionary_gradient(now), slope


METHODS: dict[str, type[Objective]] = {"eliminate": Eliminated, "joint": Together}


def begin(
    method: str,
    samples: Samples,
    quotient: Quotient,
    D: Array,
    n_components: int,
    *,
    shrinkage: float = 0.0,
    ridge: float | None = None,
    mu_coherence: float = 0.0,
    mu_proximity: float = 0.0,
    sums: bool = False,
    anchor: Array | None = None,
    start: tuple[Codes, Array | None] | None = None,
) -> tuple[Objective, Evaluation]:
    """Return the objective and its evaluation at the first dictionary D, with the best projection.

    The ridge of B is given, or ``shrinkage`` · tr(B)/r on the scale of B at the first codes, r the number of codes. The
    regularizers are scaled by the first quotient; with ``sums`` they are the paper's sums over pairs and atoms, not
    scaled. ``start`` are the samples coded at D, if that has been done, and
    where no step is to be made any projection, which is then not solved for.
    """
    with Threads(1):
        coded, U = start or (samples.coded(D), None)
        if samples.weights[0]:
            check_codes(coded)
        basis = None
        if U is None:
            if coded.shape[1] > WIDE_FEATURES:
                basis = coded.leading_directions(WIDE_DIRECTIONS, True, n_components)
            A, B = quotient.matrices(_reduced(coded, basis))
            check_scatter(B, coded.squares, "codes")
            if ridge is None:
                codes = samples.views.width(len(D))  # samples beside them do not change it
                ridge = quotient.ridge + shrinkage * float(np.trace(B)) / min(codes, len(B))
            B[np.diag_indices_from(B)] += ridge - quotient.ridge
            used = coded.used if basis is None else np.ones(len(B), bool)
            U = _expanded(_project(A, B, used, n_components, None, 1e-10), basis)
        quotient = dataclasses.replace(quotient, ridge=ridge or 0.0)
        value = quotient.value(coded, U)
        scale, anchor = abs(value.quotient), D if anchor is None else anchor
        if sums:
            scale, mu_coherence, mu_proximity = 1.0, mu_coherence * len(D) * (len(D) - 1) / 2, mu_proximity * len(D)
        objective = METHODS[method](
            samples, quotient, quotient, anchor, n_components, scale, mu_coherence, mu_proximity, basis
        )
        return objective, objective.evaluation(D, coded, U, value)


def _reduced(coded: Features, basis: Array | None) -> Features:
    """Return coded samples in the directions that U may have."""
    return coded if basis is None else coded.projected(basis)


def _expanded(U: Array, basis: Array | None) -> Array:
    """Return U for all features, from the directions it may have."""
    return U if basis is None else basis @ U


def _project(A: Array, B: Array, used: Array, count: int, start: Array | None, tol: float) -> Array:
    """Return the best U among features in use.

    The others add nothing to either trace but the ridge, and could win over components that add less than the quotient.
    """
    if used.all() or used.sum() < count:
        return best_projection(A, B, count, start, tol)[0]
    warm = None if start is None else np.linalg.qr(start[used])[0]
    U = np.zeros((len(A), count))
    U[used] = best_projection(A[np.ix_(used, used)], B[np.ix_(used, used)], count, warm, tol)[0]
    return U


def check_codes(coded: Codes) -> None:
    """Say which prior would do where codes are all zero, or most of them."""
    empty, prior = coded.empty, coded.samples.prior
    if empty <= 0.5:
        return
    largest = coded.largest
    example = f"for instance ElasticNet({largest / 10:.1g}), or prior=None."
    what, weaker = (f"l1={prior.l1:.3g}", "") if isinstance(prior, ElasticNet) else (str(prior), "a weaker one, or ")
    if not coded.nnz:
        hint = f"Choose {weaker}l1 below {largest:.3g}, {example}"
        raise ValueError(f"All codes are zero: {what} is too large for these samples. {hint}")
    said = f"{empty:.0%} of the samples have a code of zeros, so all of these get the same embedding"
    warn(f"{said}: {what} is large for them. Choose a weaker one, {example}")


def learn(
    objective: Objective,
    start: Evaluation | State,
    *,
    max_iter: int,
    refresh_every: int = 2,
    tol: float = 1e-5,
    callback: Callable[[Objective, State], str | None] | None = None,
    refresh: Refresh | None = None,
    keep: Callable[[State, Refresh | None], None] | None = None,
) -> tuple[Objective, State]:
    """Learn by conjugate gradients; the criterion is renewed and balanced before every ``refresh_every``-th step.

    Search directions survive that. ``callback(objective, state)`` is called after each step; a text that it returns
    ends learning and becomes the reason. An interrupt (Ctrl-C) ends it with the last accepted step.

    ``keep(state, refresh)`` is called after each step with the last refresh: from a state and a refresh that were kept
    learning goes on as if it had not ended.
    """
    optimiser = ConjugateGradients(tol=tol)
    first_length = FIRST_MOVE * float(np.sqrt(len(objective.anchor)))
    state = start if isinstance(start, State) else optimiser.init(start, first_length)
    del start  # evaluations are large: none is held for longer than it is needed
    try:
        while not state.reason and state.n_steps < max_iter:
            if state.n_steps % refresh_every == 0 and objective.quotient.changes:
                refresh = Refresh.of(state.evaluation)
                objective, evaluation = objective.refreshed(state.evaluation)
                state = state.moved(evaluation)
                del evaluation
            state = optimiser.step(objective, state)
            if callback is not None and not state.reason.startswith(("gradient", "no step")):
                state = dataclasses.replace(state, reason=callback(objective, state) or state.reason)
            if keep is not None:
                keep(state, refresh)
    except KeyboardInterrupt:
        return objective, dataclasses.replace(state, reason="interrupted")
    return objective, state if state.reason else dataclasses.replace(state, reason="max_iter reached")


_EQUAL = 1e-6  # 1 − cos² at which two atoms count as equal: keeps the logarithm of duplicates finite


def coherence(D: Array) -> float:
    """Return g_c = −½ times the mean of log(1 − (dᵢ·dⱼ)²) over pairs of atoms (the paper's sum over their number)."""
    _, gaps, pairs = _angles(D)
    return -0.25 * float(np.sum(np.log(gaps)) - len(D) * np.log1p(_EQUAL)) / pairs


def coherence_gradient(D: Array) -> Array:
    """Return ∇g_c = W D, Wᵢⱼ = Gᵢⱼ/(1 − Gᵢⱼ²) off the diagonal, divided by the number of pairs (errata 4)."""
    G, gaps, pairs = _angles(D)
    return (G / gaps / pairs) @ D


def _angles(D: Array) -> tuple[Array, Array, float]:
    """Return the cosines G with zero diagonal, 1 − G² kept off zero, and the number of pairs."""
    G = np.asarray(D @ D.T, float)
    np.fill_diagonal(G, 0)
    return G, np.maximum(1 - G**2, 0) + _EQUAL, max(1.0, len(D) * (len(D) - 1) / 2)


def proximity(D: Array, anchor: Array) -> float:
    """Return g_d = ½ times the mean over atoms of ‖d − d*‖², d* the atom of the first dictionary."""
    difference = D - anchor
    return 0.5 * float(np.vdot(difference, difference)) / len(D)


def proximity_gradient(D: Array, anchor: Array) -> Array:
    """Return ∇g_d = (D − D*)/r."""
    return (D - anchor) / len(D)
