"""The joint cost: its gradient through the solver, its value, and what conjugate gradients make of it."""

import dataclasses
import weakref

import numpy as np
import pytest

from sparlow import problem as joint
from sparlow.coding import encode
from sparlow.priors import ElasticNet
from sparlow.problem import METHODS, Eliminated, Together, begin, learn
from sparlow.rows import Rows, Samples
from sparlow.solvers import Solver
from sparlow.views import Bound, Patches, Shifts
from tests import cases
from tests.digits import X, Y, plain

N, M, R, COMPONENTS = 36, 9, 14, 3
VIEWS = {
    "none": None,
    "moved": Shifts(1, (3, 3)),
    "patches": Patches(size=2, stride=1, cells=2, padding="none", shape=(3, 3)),
}


def problem(criterion, prior="elastic net", method="joint", views="none", seed=0, shrinkage=0.1, **options):
    """An objective, its first evaluation, and the dictionary of that, which is not the anchor."""
    X, y, D = cases.labelled(N, M, R, seed)
    y = cases.hide_labels(y) if criterion.supervision == "semi" else y
    bound = Bound() if views == "none" else VIEWS[views].bind(X)
    if bound.n_inputs(M) != M:
        D = cases.unit(D[:, : bound.n_inputs(M)])
    samples = Samples(X, cases.priors(R)[prior], bound)
    options = {"mu_coherence": 0.3, "mu_proximity": 0.2, "anchor": cases.unit(D + 0.1), **options}
    return *begin(method, samples, criterion.bind(X, y), D, COMPONENTS, shrinkage=shrinkage, **options), D


def central_difference(task, point, direction, step):
    manifold = task.manifold
    ends = [task.evaluate(manifold.retract(point, manifold.combine(s, direction, 0, direction))) for s in (step, -step)]
    patterns = [(end.coded.chunk.codes.indices.tolist(), (end.coded.chunk.codes.data > 0).tolist()) for end in ends]
    return (ends[0].value - ends[1].value) / (2 * step), patterns[0] == patterns[1]


@pytest.mark.parametrize(
    "views", [pytest.param(views, marks=pytest.mark.slow if views != "none" else ()) for views in VIEWS]
)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("prior", cases.PRIORS)
@pytest.mark.parametrize("name", cases.CRITERIA)
def test_gradient_of_the_joint_cost_meets_central_differences(name, prior, method, views, monkeypatch):
    """Through quotient, solver, views, pooling, regularizers and manifold, along a random tangent and the gradient."""
    monkeypatch.setattr(joint, "PROJECTION_TOL", 1e-13)
    task, first, _ = problem(cases.CRITERIA[name], prior, method, views)
    task, first = task.refreshed(first)
    manifold = task.manifold
    rng = np.random.default_rng(1)
    point = first.point
    if method == "joint":  # away from the best U, where the gradient with respect to it does not vanish
        noise = manifold.project(point, manifold.random_point(rng))
        point = manifold.retract(point, manifold.combine(0.1, noise, 0, noise))
    now = task.evaluate(point)
    gradient = manifold.gradient(point, task.gradient(now))
    checked = 0
    for direction in (manifold.project(point, manifold.random_point(rng)), gradient):
        step = 1e-8 if views == "patches" else 1e-6  # the root bends sharply where little is pooled
        expected, smooth = central_difference(task, point, direction, step / manifold.norm(point, direction))
        if smooth:
            actual = manifold.inner(point, gradient, direction)
            size = manifold.norm(point, gradient) * manifold.norm(point, direction)
            tol = 5e-6 if views == "patches" else 1e-6
            assert abs(actual - expected) <= tol * size, (actual, expected)
            checked += 1
    assert checked


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", cases.CRITERIA)
def test_cost_never_falls_and_no_evaluation_is_repeated(name, method, monkeypatch):
    codings = []
    coded = Samples.coded
    monkeypatch.setattr(Samples, "coded", lambda *given: codings.append(1) or coded(*given))
    task, start, _ = problem(cases.CRITERIA[name], method=method)
    values = [start.value]
    _, state = learn(task, start, max_iter=6, callback=lambda _, state: values.append(state.evaluation.value))
    assert len(values) > 2
    assert np.all(np.diff(values) >= 0)
    assert values[-1] > values[0]
    assert len(codings) == 1 + state.n_evaluations
    np.testing.assert_allclose(np.linalg.norm(state.evaluation.dictionary, axis=1), 1)
    U = state.evaluation.projection
    np.testing.assert_allclose(U.T @ U, np.eye(COMPONENTS), atol=1e-10)


def test_directions_survive_a_refresh_of_the_weights():
    task, start, _ = problem(cases.CRITERIA["lda"], method="eliminate")
    restarts = []
    learn(task, start, max_iter=6, refresh_every=1, tol=0, callback=lambda _, state: restarts.append(state.restarted))
    assert restarts[0]
    assert not all(restarts[1:])


@pytest.mark.parametrize("views", VIEWS)
@pytest.mark.parametrize("name", cases.CRITERIA)
def test_value_is_the_quotient_of_dense_traces(name, views):
    task, first, _ = problem(cases.CRITERIA[name], views=views, mu_coherence=0, mu_proximity=0)
    A, B = task.quotient.matrices(first.coded)
    U = first.projection
    assert first.value == pytest.approx(np.trace(U.T @ A @ U) / np.trace(U.T @ B @ U), rel=1e-12)
    matrix = first.coded.features
    dense = Rows(matrix.toarray() if hasattr(matrix, "toarray") else matrix)
    np.testing.assert_allclose(task.quotient.matrices(dense)[0], A, atol=1e-12)
    np.testing.assert_allclose(task.quotient.matrices(dense)[1], B, atol=1e-12)


def test_eliminated_cost_is_the_maximum_over_projections():
    criterion = cases.CRITERIA["lda"]
    one, best, D = problem(criterion, method="eliminate")
    two, _, _ = problem(criterion, method="joint")
    assert isinstance(one, Eliminated)
    assert isinstance(two, Together)
    rng = np.random.default_rng(0)
    for _ in range(20):
        assert two.evaluate((D, two.manifold.random_point(rng)[1])).value <= best.value


@pytest.mark.parametrize("views", VIEWS)
def test_warm_started_evaluation_agrees_with_a_cold_one(views):
    task, first, D = problem(cases.CRITERIA["lda"], views=views)
    moved = cases.unit(D + 0.01)
    warm, cold = task.evaluate((moved, first.projection), first), task.evaluate((moved, first.projection))
    assert warm.value == pytest.approx(cold.value, rel=1e-8)
    cut = task.samples.views.cut(task.samples.X)
    expected = encode(cut, moved, task.samples.prior).toarray()
    np.testing.assert_allclose(warm.coded.chunk.codes.toarray(), expected, atol=1e-8)


@pytest.mark.parametrize("views", ["moved", "patches"])
@pytest.mark.parametrize("name", ["lda", "pca"])
def test_codes_of_views_that_were_not_kept_are_computed_again(name, views):
    task, first, _ = problem(cases.CRITERIA[name], views=views)
    again = dataclasses.replace(first, coded=first.coded.samples.coded(first.dictionary, keep=False))
    assert again.coded.chunk.codes is None
    np.testing.assert_allclose(task.dictionary_gradient(again), task.dictionary_gradient(first), rtol=1e-7, atol=1e-12)


def test_regularizers_are_on_the_scale_of_the_quotient():
    """A criterion multiplied by a constant multiplies J by it: the balance of quotient and regularizers stays."""
    X, y, D = cases.labelled(N, M, R)
    samples, plain = Samples(X, cases.priors(R)["elastic net"]), cases.CRITERIA["lda"].bind(X, y)
    larger = dataclasses.replace(plain, above=plain.above * 7.0)
    moved = cases.unit(D + 0.05)
    values = []
    for quotient in (plain, larger):
        weights = {"shrinkage": 0.1, "mu_coherence": 0.3, "mu_proximity": 0.2}
        task, first = begin("joint", samples, quotient, D, COMPONENTS, **weights)
        values.append([first.value, task.evaluate((moved, first.projection)).value])
    np.testing.assert_allclose(values[1], 7 * np.array(values[0]))


def test_atoms_that_no_sample_uses_have_no_part_in_the_projection():
    """Such an atom adds nothing but the ridge, and would win over components below the quotient."""
    X, y, D = cases.labelled(N, M, R)
    D, X = np.vstack([np.abs(D), -np.abs(D)]), cases.unit(np.abs(X))
    samples = Samples(X, ElasticNet(0.05, 0.01, positive=True))
    quotient = cases.CRITERIA["lda"].bind(X, y)
    task, first = begin("eliminate", samples, quotient, cases.unit(D), COMPONENTS, shrinkage=0.01)
    assert not first.coded.used.all()
    assert not first.projection[~first.coded.used].any()
    assert np.all(np.linalg.norm(first.quotient.embedding, axis=0) > 0)
    again = task.evaluate(cases.unit(D + 0.001), first)
    assert not again.projection[~again.coded.used].any()


@pytest.mark.parametrize("criterion", ["lda", "pca"])
def test_evaluations_are_let_go_when_they_are_no_longer_needed(monkeypatch, criterion):
    """One is as large as the codes: whatever the number of steps, the present one and a trial live, hardly more."""
    made, most = [], []
    evaluation = joint.Objective.evaluation

    def noted(*args):
        now = evaluation(*args)
        made.append(weakref.ref(now))
        most.append(sum(one() is not None for one in made))
        return now

    monkeypatch.setattr(joint.Objective, "evaluation", noted)
    model = plain(criterion, max_iter=6, solver=Solver(tol=0, mu_proximity=0)).fit(X, Y)
    assert model.n_iter_ == 6
    assert max(most) <= 3
