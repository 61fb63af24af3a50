"""The joint cost: its gradient through the solver, its value, and what conjugate gradients make of it."""

import weakref

import numpy as np
import pytest

from sparlow import ElasticNet
from sparlow import problem as joint
from sparlow.coding import encode
from sparlow.problem import SOLVERS, Eliminated, Together, learn
from sparlow.views import Pooling, Shifts
from tests import cases
from tests.digits import X, Y, small

N, M, R, COMPONENTS = 36, 9, 14, 3


def problem(criterion, prior="elastic net", solver="joint", seed=0, **options):
    X, y, D = cases.labelled(N, M, R, seed)
    y = cases.hide_labels(y) if criterion.supervision == "semi" else y
    options = {"mu_coherence": 0.3, "mu_proximity": 0.2, **options}
    anchor = cases.unit(D + 0.1)
    return SOLVERS[solver](X, cases.priors(R)[prior], criterion.bind(X, y), anchor, COMPONENTS, **options), D


def central_difference(task, point, direction, manifold, step):
    ends = [task.evaluate(manifold.retract(point, manifold.combine(s, direction, 0, direction))) for s in (step, -step)]
    supports = [[codes.indices.tolist() for codes in end.coded.views] for end in ends]
    return (ends[0].value - ends[1].value) / (2 * step), supports[0] == supports[1]


@pytest.mark.parametrize("views", [None, "moved"])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("prior", cases.PRIORS)
@pytest.mark.parametrize("name", cases.CRITERIA)
def test_gradient_of_the_joint_cost_meets_central_differences(name, prior, solver, views, monkeypatch):
    """Through quotient, solver, views, regularizers and manifold, along a random tangent and along the gradient."""
    monkeypatch.setattr(joint, "_PROJECTION", 1e-13)
    pooling = Pooling() if views is None else Pooling(Shifts(1, (3, 3)).maps(M)[:2], unit=True)
    task, D = problem(cases.CRITERIA[name], prior, solver, pooling=pooling)
    manifold = task.manifold()
    first = task.start(D, shrinkage=0.1)
    first = task.refresh(first)
    rng = np.random.default_rng(1)
    point = first.point
    if solver == "joint":  # away from the best U, where the gradient with respect to it does not vanish
        noise = manifold.project(point, manifold.random_point(rng))
        point = manifold.retract(point, manifold.combine(0.1, noise, 0, noise))
    now = task.evaluate(point)
    gradient = manifold.gradient(point, task.gradient(now))
    checked = 0
    for direction in (manifold.project(point, manifold.random_point(rng)), gradient):
        expected, smooth = central_difference(task, point, direction, manifold, 1e-6 / manifold.norm(point, direction))
        if smooth:
            actual = manifold.inner(point, gradient, direction)
            size = manifold.norm(point, gradient) * manifold.norm(point, direction)
            assert abs(actual - expected) <= 1e-6 * size, (actual, expected)
            checked += 1
    assert checked


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", cases.CRITERIA)
def test_cost_never_falls_and_no_evaluation_is_repeated(name, solver):
    task, D = problem(cases.CRITERIA[name], solver=solver)
    start = task.start(D, shrinkage=0.1)
    result = learn(task, start, max_iter=6)
    values = [start.value, *(step.value for step in result.steps)]
    assert len(values) > 2
    assert np.all(np.diff(values) >= 0)
    assert values[-1] > values[0]
    assert task.n_codings == 1 + result.n_evaluations == 1 + sum(step.n_evaluations for step in result.steps)
    np.testing.assert_allclose(np.linalg.norm(result.evaluation.dictionary, axis=1), 1)
    U = result.evaluation.projection
    np.testing.assert_allclose(U.T @ U, np.eye(COMPONENTS), atol=1e-10)


@pytest.mark.parametrize("name", cases.CRITERIA)
def test_value_is_the_quotient_of_dense_traces(name):
    task, D = problem(cases.CRITERIA[name], mu_coherence=0, mu_proximity=0)
    first = task.start(D, shrinkage=0.1)
    A, B = task.quotient.matrices(first.codes)
    U = first.projection
    assert first.value == pytest.approx(np.trace(U.T @ A @ U) / np.trace(U.T @ B @ U), rel=1e-12)
    dense = first.codes.toarray()
    np.testing.assert_allclose(task.quotient.matrices(dense)[0], A, atol=1e-12)
    np.testing.assert_allclose(task.quotient.matrices(dense)[1], B, atol=1e-12)


def test_eliminated_cost_is_the_maximum_over_projections():
    criterion = cases.CRITERIA["lda"]
    one, D = problem(criterion, solver="eliminate")
    two, _ = problem(criterion, solver="joint")
    assert isinstance(one, Eliminated)
    assert isinstance(two, Together)
    best = one.start(D, 0.1)
    two.start(D, 0.1)
    rng = np.random.default_rng(0)
    manifold = two.manifold()
    for _ in range(20):
        assert two.evaluate((D, manifold.random_point(rng)[1])).value <= best.value


def test_warm_started_evaluation_agrees_with_a_cold_one():
    task, D = problem(cases.CRITERIA["lda"])
    first = task.start(D, 0.1)
    moved = cases.unit(D + 0.01)
    warm, cold = task.evaluate((moved, first.projection), first), task.evaluate((moved, first.projection))
    assert warm.value == pytest.approx(cold.value, rel=1e-8)
    np.testing.assert_allclose(warm.codes.toarray(), encode(task.X, moved, task.prior).toarray(), atol=1e-8)


def test_regularizers_are_on_the_scale_of_the_quotient():
    """A criterion multiplied by a constant multiplies J by it: the balance of quotient and regularizers stays."""
    task, D = problem(cases.CRITERIA["lda"])
    scaled, _ = problem(cases.CRITERIA["lda"])
    import dataclasses

    scaled.quotient = dataclasses.replace(scaled.quotient, above=scaled.quotient.above * 7.0)
    moved = cases.unit(D + 0.05)
    a, b = task.start(D, 0.1), scaled.start(D, 0.1)
    assert b.value == pytest.approx(7 * a.value)
    a, b = task.evaluate((moved, a.projection)), scaled.evaluate((moved, b.projection))
    assert b.value == pytest.approx(7 * a.value)


def test_atoms_that_no_sample_uses_have_no_part_in_the_projection():
    """Such an atom adds nothing but the ridge, and would win over components below the quotient."""
    X, y, D = cases.labelled(N, M, R)
    D, X = np.vstack([np.abs(D), -np.abs(D)]), cases.unit(np.abs(X))
    prior = ElasticNet(0.05, 0.01, positive=True)
    task = SOLVERS["eliminate"](X, prior, cases.CRITERIA["lda"].bind(X, y), cases.unit(D), COMPONENTS)
    first = task.start(cases.unit(D), shrinkage=0.01)
    unused = np.diff(first.codes.tocsc().indptr) == 0
    assert unused.any()
    assert not first.projection[unused].any()
    assert np.all(np.linalg.norm(first.quotient.embedding, axis=0) > 0)
    again = task.evaluate(cases.unit(D + 0.001), first)
    assert not again.projection[np.diff(again.codes.tocsc().indptr) == 0].any()


@pytest.mark.parametrize("criterion", ["lda", "pca"])
def test_evaluations_are_let_go_when_they_are_no_longer_needed(monkeypatch, criterion):
    """One is as large as the codes: whatever the number of steps, the present one and a trial live, hardly more."""
    made, most = [], []
    evaluation = joint.JointProblem._evaluation

    def noted(*args):
        now = evaluation(*args)
        made.append(weakref.ref(now))
        most.append(sum(one() is not None for one in made))
        return now

    monkeypatch.setattr(joint.JointProblem, "_evaluation", noted)
    model = small(criterion, max_iter=6, tol=0, mu_proximity=0, callback=lambda row: None).fit(X, Y)
    assert model.n_iter_ == 6
    assert max(most) <= 3
