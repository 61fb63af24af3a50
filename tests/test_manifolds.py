"""Laws of manifolds, and conjugate gradients on them."""

import numpy as np
import pytest
from scipy.linalg import subspace_angles

from sparlow import optimize
from sparlow.optimize import ConjugateGradients, Grassmann, Product, Spheres
from tests import cases

pytestmark = pytest.mark.interpreted


def parts(x):
    return x if isinstance(x, tuple) else (x,)


def close(a, b, atol):
    for x, y in zip(parts(a), parts(b), strict=True):
        np.testing.assert_allclose(x, y, atol=atol)


@pytest.fixture(params=cases.MANIFOLDS)
def manifold(request):
    return cases.MANIFOLDS[request.param]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def tangent(manifold, point, rng):
    return manifold.project(point, manifold.random_point(rng))


def on_manifold(manifold, point):
    for part, x in zip(getattr(manifold, "parts", (manifold,)), parts(point), strict=True):
        if isinstance(part, Spheres):
            np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1, atol=1e-14)
        else:
            np.testing.assert_allclose(x.T @ x, np.eye(x.shape[1]), atol=1e-14)


def test_projection_is_idempotent_symmetric_and_tangent(manifold, rng):
    p = manifold.random_point(rng)
    a, b = manifold.random_point(rng), manifold.random_point(rng)
    pa, pb = manifold.project(p, a), manifold.project(p, b)
    close(manifold.project(p, pa), pa, 1e-13)
    assert manifold.inner(p, pa, b) == pytest.approx(manifold.inner(p, a, pb))
    for part, x, v in zip(getattr(manifold, "parts", (manifold,)), parts(p), parts(pa), strict=True):
        normal = np.sum(x * v, axis=1) if isinstance(part, Spheres) else x.T @ v
        np.testing.assert_allclose(normal, 0, atol=1e-13)


def test_retraction_stays_on_the_manifold_and_is_exact_to_first_order(manifold, rng):
    p = manifold.random_point(rng)
    v = tangent(manifold, p, rng)
    on_manifold(manifold, p)
    close(manifold.retract(p, manifold.combine(0, v, 0, v)), p, 1e-14)
    errors = []
    for t in (1e-2, 1e-3):
        reached = manifold.retract(p, manifold.combine(t, v, 0, v))
        on_manifold(manifold, reached)
        ends = zip(parts(reached), parts(p), parts(v), strict=True)
        errors.append(max(np.abs(r - x - t * d).max() for r, x, d in ends))
    assert errors[1] < 2e-2 * errors[0]


def test_transport_is_linear_tangent_and_the_identity_for_no_step(manifold, rng):
    p = manifold.random_point(rng)
    step, a, b = (tangent(manifold, p, rng) for _ in range(3))
    q = manifold.retract(p, step)
    ta, tb = (manifold.transport(p, step, q, v) for v in (a, b))
    close(manifold.project(q, ta), ta, 1e-13)
    both = manifold.transport(p, step, q, manifold.combine(2.0, a, -3.0, b))
    close(both, manifold.combine(2.0, ta, -3.0, tb), 1e-13)
    none = manifold.combine(0, step, 0, step)
    close(manifold.transport(p, none, p, a), a, 1e-13)


def test_transport_of_spheres_is_the_derivative_of_the_retraction(rng):
    manifold = cases.MANIFOLDS["spheres"]
    p = manifold.random_point(rng)
    step, v = tangent(manifold, p, rng), tangent(manifold, p, rng)
    q = manifold.retract(p, step)
    difference = (manifold.retract(p, step + 1e-6 * v) - manifold.retract(p, step - 1e-6 * v)) / 2e-6
    np.testing.assert_allclose(manifold.transport(p, step, q, v), difference, atol=1e-8)


def test_gradient_represents_the_differential_in_the_metric(manifold, rng):
    """⟨grad, v⟩ is the derivative along v, whatever the metric: also the doubled one of subspaces."""
    p = manifold.random_point(rng)
    E, v = manifold.random_point(rng), tangent(manifold, p, rng)
    plain = sum(float(np.vdot(x, y)) for x, y in zip(parts(E), parts(v), strict=True))
    assert manifold.inner(p, manifold.gradient(p, E), v) == pytest.approx(plain)


def test_grassmann_metric_is_that_of_projectors(rng):
    manifold = Grassmann(7, 3)
    U = manifold.random_point(rng)
    H = tangent(manifold, U, rng)
    assert manifold.inner(U, H, H) == pytest.approx(np.sum((H @ U.T + U @ H.T) ** 2))


class LargestEigenvalues:
    """tr(UᵀMU) on the Grassmann manifold: its maximum is the sum of the largest eigenvalues."""

    def __init__(self, M, subspace):
        self.M, self.count, self.manifold = M, 0, Grassmann(len(M), subspace)

    def evaluate(self, point, near=None):
        self.count += 1
        return cases.Evaluated(point, float(np.sum(point * (self.M @ point))))

    def gradient(self, evaluation):
        return 2 * self.M @ evaluation.point


def climbed(problem, start, steps, **options):
    """All states of an optimisation."""
    optimiser = ConjugateGradients(**options)
    states = [optimiser.init(start)]
    while len(states) <= steps and not states[-1].reason:
        states.append(optimiser.step(problem, states[-1]))
    return states


def test_trials_of_a_direction_that_was_given_up_count(rng, monkeypatch):
    problem, along = LargestEigenvalues(np.diag(np.arange(6.0)), 2), optimize.LineSearch.along

    def fails_along(search, direction):
        found = along(search, direction)
        return found if direction is search.G else None  # evaluated, and given up

    monkeypatch.setattr(optimize.LineSearch, "along", fails_along)
    start = problem.evaluate(problem.manifold.random_point(rng))
    states = climbed(problem, start, 4, tol=0)
    assert all(state.restarted for state in states[1:])
    assert problem.count == 1 + states[-1].n_evaluations
    assert states[2].n_evaluations - states[1].n_evaluations > 1


def test_conjugate_gradients_find_the_leading_subspace(rng):
    values = np.r_[np.arange(3) + 5.0, np.linspace(0, 3, 17)]
    Q = np.linalg.qr(rng.standard_normal((20, 20)))[0]
    problem = LargestEigenvalues(Q * values @ Q.T, 3)
    start = problem.evaluate(problem.manifold.random_point(rng))
    states = climbed(problem, start, 300, tol=1e-14)
    last = states[-1]
    assert last.evaluation.value == pytest.approx(values[:3].sum(), rel=1e-8)
    assert subspace_angles(last.evaluation.point, Q[:, :3]).max() < 1e-4
    assert problem.count == 1 + last.n_evaluations
    accepted = [state.evaluation.value for state in states if state.n_steps == 0 or state.length == state.length]
    assert np.all(np.diff(accepted[: last.n_steps + 1]) > 0)
    assert last.reason in ("value converged", "gradient vanished", "no step raises the value")
    assert states[1].restarted
    assert not states[2].restarted


def test_a_step_changes_nothing_of_the_state_before(rng):
    """States are values: a step can be made again, and gives the same bits."""
    problem = LargestEigenvalues(np.diag(np.arange(9.0)), 2)
    start = problem.evaluate(problem.manifold.random_point(rng))
    optimiser = ConjugateGradients()
    first = optimiser.step(problem, optimiser.init(start))
    one, two = optimiser.step(problem, first), optimiser.step(problem, first)
    np.testing.assert_array_equal(one.evaluation.point, two.evaluation.point)
    assert (one.n_steps, first.n_steps) == (2, 1)


def test_directions_are_kept_where_the_problem_changes(rng):
    problem, larger = (LargestEigenvalues(factor * np.diag(np.arange(9.0)), 2) for factor in (1.0, 1.01))
    start = problem.evaluate(problem.manifold.random_point(rng))
    optimiser = ConjugateGradients()
    state = optimiser.step(problem, optimiser.init(start))
    while optimiser.step(problem, state).restarted:
        state = optimiser.step(problem, state)
    moved = state.moved(larger.evaluate(state.evaluation.point))
    assert moved.memory is state.memory
    assert not optimiser.step(larger, moved).restarted


def test_a_product_needs_one_point_for_each_part(rng):
    product = Product((Spheres(2, 3), Grassmann(4, 2)))
    with pytest.raises(ValueError, match="zip"):
        product.project(product.random_point(rng), (np.zeros((2, 3)),))
