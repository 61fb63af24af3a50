"""The trace ratio against closed forms, random subspaces, and an optimiser that knows nothing of eigenvalues."""

import warnings

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import subspace_angles

from sparlow import trace_ratio, tracequotient

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import pymanopt


def symmetric(r, rng):
    M = rng.standard_normal((r, r))
    return M + M.T


def positive(r, rng):
    M = rng.standard_normal((r, r + 3))
    return M @ M.T / r


def pair(r, seed=0):
    rng = np.random.default_rng(seed)
    return symmetric(r, rng), positive(r, rng)


def large(r, seed=0):
    """A few large eigenvalues above many small ones, as scatters of codes have them: kind to Lanczos."""
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((r, 60)) * np.linspace(2, 0.1, 60)
    return factors @ factors.T, np.eye(r) + positive(r, rng)


def orthonormal(r, count, rng):
    return np.linalg.qr(rng.standard_normal((r, count)))[0]


def quotient(A, B, U):
    return np.trace(U.T @ A @ U) / np.trace(U.T @ B @ U)


# ── closed forms ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", range(3))
def test_one_component_is_the_largest_generalised_eigenvalue(seed):
    A, B = pair(9, seed)
    U, value, _ = trace_ratio(A, B, 1)
    values, vectors = scipy.linalg.eigh(A, B)
    assert value == pytest.approx(values[-1], rel=1e-10)
    assert subspace_angles(U, vectors[:, -1:]).max() < 1e-6


@pytest.mark.parametrize("count", [1, 3, 8])
def test_without_denominator_it_is_the_leading_subspace(count):
    A, _ = pair(8)
    U, value, _ = trace_ratio(A, np.eye(8), count)
    values, vectors = np.linalg.eigh(A)
    assert value == pytest.approx(values[::-1][:count].sum() / count, rel=1e-10)
    np.testing.assert_allclose(np.diag(U.T @ A @ U), values[::-1][:count], rtol=1e-8)
    if count < 8:
        assert subspace_angles(U, vectors[:, 8 - count :]).max() < 1e-6


def test_all_components_give_the_ratio_of_traces():
    A, B = pair(7)
    U, value, _ = trace_ratio(A, B, 7)
    assert value == pytest.approx(np.trace(A) / np.trace(B), rel=1e-12)
    np.testing.assert_allclose(U @ U.T, np.eye(7), atol=1e-12)


def test_commuting_matrices_are_a_choice_of_coordinates():
    """With diagonal matrices the best subspace is spanned by axes: all choices can be tried."""
    from itertools import combinations

    rng = np.random.default_rng(0)
    a, b = rng.standard_normal(8), rng.uniform(0.1, 2, 8)
    for count in (2, 3, 5):
        best = max(a[list(axes)].sum() / b[list(axes)].sum() for axes in combinations(range(8), count))
        assert trace_ratio(np.diag(a), np.diag(b), count).value == pytest.approx(best, rel=1e-10)


# ── optimality ──────────────────────────────────────────────────────────────────────────────────────────────────────


@given(seed=st.integers(0, 10_000), r=st.integers(2, 9), data=st.data())
def test_no_subspace_is_better(seed, r, data):
    count = data.draw(st.integers(1, r))
    A, B = pair(r, seed)
    U, value, _ = trace_ratio(A, B, count)
    np.testing.assert_allclose(U.T @ U, np.eye(count), atol=1e-10)
    assert value == pytest.approx(quotient(A, B, U), rel=1e-10)
    rng = np.random.default_rng(seed + 1)
    slack = 1e-9 * (1 + abs(value))
    for size in (3.0, 0.3, 0.03):
        near = np.linalg.qr(U + size * rng.standard_normal(U.shape))[0]
        assert quotient(A, B, near) <= value + slack
    assert np.linalg.eigvalsh(A - value * B)[r - count :].sum() == pytest.approx(0, abs=1e-6 * (1 + abs(value)))


@pytest.mark.parametrize(("r", "count"), [(6, 2), (12, 4), (15, 3)])
def test_optimum_is_that_of_an_optimiser_on_the_grassmann_manifold(r, count):
    A, B = pair(r, r)
    manifold = pymanopt.manifolds.Grassmann(r, count)

    @pymanopt.function.numpy(manifold)
    def cost(U):
        return -quotient(A, B, U)

    @pymanopt.function.numpy(manifold)
    def slope(U):
        return -2 * (A @ U - quotient(A, B, U) * B @ U) / np.trace(U.T @ B @ U)

    problem = pymanopt.Problem(manifold, cost, euclidean_gradient=slope)
    optimiser = pymanopt.optimizers.ConjugateGradient(verbosity=0, max_iterations=2000, min_gradient_norm=1e-9)
    rng = np.random.default_rng(0)
    ends = [optimiser.run(problem, initial_point=orthonormal(r, count, rng)) for _ in range(3)]
    best = min(ends, key=lambda end: end.cost)
    U, value, _ = trace_ratio(A, B, count)
    assert value == pytest.approx(-best.cost, rel=1e-8)
    assert subspace_angles(U, best.point).max() < 1e-3


def test_it_differs_from_the_ratio_trace():
    """Generalised eigenvectors, orthonormalised, are no solution for more than one component."""
    A, B = pair(8)
    vectors = np.linalg.qr(scipy.linalg.eigh(A, B)[1][:, -3:])[0]
    assert trace_ratio(A, B, 3).value > quotient(A, B, vectors) + 1e-3


def test_the_iteration_rises_and_converges_fast():
    A, B = pair(30)
    values = [trace_ratio(A, B, 5, max_iter=turns).value for turns in range(1, 12)]
    assert np.all(np.diff(values) >= -1e-12)
    assert trace_ratio(A, B, 5).n_iter <= 10
    assert values[-1] == pytest.approx(trace_ratio(A, B, 5).value, rel=1e-12)


# ── eigensolvers ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def lanczos(monkeypatch):
    """Lanczos from a size on that is quick to test, with as many restarts as it wants; a list of its calls."""
    calls = []
    known = tracequotient.eigsh
    monkeypatch.setattr(tracequotient, "eigsh", lambda *words, **options: calls.append(1) or known(*words, **options))
    monkeypatch.setattr(tracequotient, "_PARTIAL", 400)
    monkeypatch.setattr(tracequotient, "_DENSE", 5.0)
    return calls


SEEDED = pytest.mark.skipif(not tracequotient.SEEDED, reason="Lanczos of this SciPy takes no seed and is not used")


@SEEDED
@pytest.mark.parametrize("count", [1, 9, 40])
def test_partial_and_full_eigensolvers_agree(count, lanczos, monkeypatch):
    r = 420
    A, B = large(r)
    U, value, turns = trace_ratio(A, B, count)
    assert len(lanczos) == turns
    monkeypatch.setattr(tracequotient, "_PARTIAL", r + 1)
    V, full, _ = trace_ratio(A, B, count)
    assert len(lanczos) == turns
    assert value == pytest.approx(full, rel=1e-9)
    assert subspace_angles(U, V).max() < 1e-5
    np.testing.assert_allclose(U, V, atol=1e-5)


@pytest.mark.parametrize("r", [60, 420])
def test_clusters_of_equal_eigenvalues(r, lanczos):
    """Between-class scatters have few eigenvalues that are not zero: the rest of U is any part of a null space."""
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((r, 3))
    A, B = factors @ factors.T, np.eye(r)
    U, value, _ = trace_ratio(A, B, 8)
    assert value == pytest.approx(np.trace(A) / 8, rel=1e-9)
    np.testing.assert_allclose(U.T @ U, np.eye(8), atol=1e-9)
    assert subspace_angles(U, factors).max() < 1e-6


@pytest.mark.parametrize("r", [7, 420])
def test_all_eigenvalues_equal(r, lanczos):
    for A in (np.eye(r), np.zeros((r, r))):
        U, value, _ = trace_ratio(A, 2 * np.eye(r), 3)
        assert value == pytest.approx(A[0, 0] / 2)
        np.testing.assert_allclose(U.T @ U, np.eye(3), atol=1e-10)
        assert np.array_equal(U, trace_ratio(A, 2 * np.eye(r), 3).projection)


@pytest.mark.parametrize("r", [7, 420])
def test_a_repeated_largest_eigenvalue_is_found_as_often_as_it_occurs(r, lanczos):
    rng = np.random.default_rng(1)
    Q = orthonormal(r, r, rng)
    values = np.r_[np.full(5, 3.0), np.linspace(0, 1, r - 5)]
    U, value, _ = trace_ratio(Q * values @ Q.T, np.eye(r), 5)
    assert value == pytest.approx(3, rel=1e-9)
    assert subspace_angles(U, Q[:, :5]).max() < 1e-6


def test_the_full_solver_stands_in_where_the_partial_ones_give_up(lanczos, monkeypatch):
    A, B = large(420)
    expected = trace_ratio(A, B, 4)

    def gives_up(*_, **__):
        raise scipy.linalg.LinAlgError

    def no_convergence(*_, **__):
        raise scipy.sparse.linalg.ArpackNoConvergence("", np.zeros(0), np.zeros((0, 0)))

    monkeypatch.setattr(tracequotient, "eigsh", no_convergence)
    monkeypatch.setattr(tracequotient.scipy.linalg, "eigh", gives_up)
    U, value, _ = trace_ratio(A, B, 4)
    assert value == pytest.approx(expected.value, rel=1e-9)
    np.testing.assert_allclose(U, expected.projection, atol=1e-5)


@pytest.mark.parametrize("wrong", [lambda V: V[:, [-1, *range(1, V.shape[1])]], lambda V: V[:, 1:]])
def test_a_partial_solver_that_gives_a_vector_twice_or_too_few_is_not_believed(wrong, monkeypatch):
    """LAPACK's does so, without a word, for some clusters of equal eigenvalues."""
    A, B = large(60)
    expected = trace_ratio(A, B, 4)
    true = scipy.linalg.eigh

    def partial(*arguments, **options):
        values, vectors = true(*arguments, **options)
        return values, wrong(vectors)

    monkeypatch.setattr(tracequotient.scipy.linalg, "eigh", partial)
    assert trace_ratio(A, B, 4).value == pytest.approx(expected.value, rel=1e-9)


# ── canonical form and start ────────────────────────────────────────────────────────────────────────────────────────


@given(seed=st.integers(0, 10_000))
def test_canonical_form_depends_on_the_span_only(seed):
    rng = np.random.default_rng(seed)
    A, U = symmetric(8, rng), orthonormal(8, 3, rng)
    first = tracequotient.canonical(U.T @ A @ U, U)
    other = U @ orthonormal(3, 3, rng)
    turned = tracequotient.canonical(other.T @ A @ other, other)
    np.testing.assert_allclose(turned, first, atol=1e-6)
    assert subspace_angles(first, U).max() < 1e-6
    core = first.T @ A @ first
    np.testing.assert_allclose(core, np.diag(np.diag(core)), atol=1e-10)
    assert np.all(np.diff(np.diag(core)) <= 1e-12)
    assert np.all(first[np.argmax(np.abs(first), axis=0), np.arange(3)] > 0)


def test_the_result_is_canonical_and_the_same_on_every_run():
    A, B = pair(10)
    U = trace_ratio(A, B, 4).projection
    np.testing.assert_allclose(tracequotient.canonical(U.T @ A @ U, U), U, atol=1e-12)
    assert np.array_equal(U, trace_ratio(A, B, 4).projection)


@pytest.mark.parametrize("r", [12, 420])
def test_a_start_changes_the_way_not_the_end(r, lanczos):
    A, B = large(r)
    cold = trace_ratio(A, B, 3)
    for start in (orthonormal(r, 3, np.random.default_rng(0)), cold.projection):
        warm = trace_ratio(A, B, 3, start=start)
        assert warm.value == pytest.approx(cold.value, rel=1e-9)
        np.testing.assert_allclose(warm.projection, cold.projection, atol=1e-4)
        assert warm.value >= quotient(A, B, start) * (1 - 1e-12)
    assert warm.n_iter <= 2 < cold.n_iter


@pytest.mark.parametrize("count", [1, 3, 9])
def test_the_iteration_of_low_rank_matrices_takes_few_turns(count):
    """It starts from the ratio trace, ends when its speed says so, and what is then missing is below the tolerance."""
    rng = np.random.default_rng(count)
    T = rng.standard_normal((count, 60))
    A, B = T.T @ T, pair(60)[1] + 0.1 * np.eye(60)
    U = np.linalg.qr(scipy.linalg.eigh(A, B)[1][:, -count:])[0]
    assert tracequotient.first_shift(A, B, count) == pytest.approx(quotient(A, B, U))
    far = tracequotient.best_projection(A, B, count, np.linalg.qr(rng.standard_normal((60, count)))[0], tol=0)
    for tol in (1e-3, 1e-6, 1e-10):
        _, value, turns = tracequotient.best_projection(A, B, count, tol=tol)
        assert turns < far[2]
        assert abs(value - far[1]) <= tol * far[1]


def test_the_next_gain_is_that_of_quadratic_convergence():
    errors = [1e-1]
    for _ in range(3):
        errors.append(0.5 * errors[-1] ** 2)
    gains = -np.diff(errors)
    assert tracequotient.next_gain(gains[1], gains[0]) == pytest.approx(gains[2], rel=0.2)
    for gain, before in ((1.0, np.inf), (1.0, 0.5), (0.0, 1.0), (np.inf, np.inf)):
        assert tracequotient.next_gain(gain, before) == np.inf


def test_arguments_are_left_as_they_are():
    A, B = pair(6)
    copies = A.copy(), B.copy()
    start = orthonormal(6, 2, np.random.default_rng(0))
    first = start.copy()
    trace_ratio(A, B, 2, start=start)
    for kept, given_ in zip((*copies, first), (A, B, start), strict=True):
        np.testing.assert_array_equal(kept, given_)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_scale_of_the_matrices_does_not_matter(scale):
    A, B = pair(8)
    first = trace_ratio(A, B, 3)
    np.testing.assert_allclose(trace_ratio(scale * A, scale * B, 3).projection, first.projection, atol=1e-6)
    assert trace_ratio(scale * A, B, 3).value == pytest.approx(scale * first.value)


# ── errors ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("A", "B", "count", "message"),
    [
        (np.eye(3), np.eye(4), 1, r"same size, got \(3, 3\) and \(4, 4\)"),
        (np.ones((3, 2)), np.eye(3), 1, "must be square"),
        (np.triu(np.ones((3, 3))), np.eye(3), 1, "A must be symmetric"),
        (np.eye(3), np.triu(np.ones((3, 3))), 1, "B must be symmetric"),
        (np.eye(3), np.eye(3), 4, "n_components must be a whole number from 1 to 3, the size of A, got 4"),
        (np.eye(3), np.eye(3), 0, "n_components must be a whole number from 1 to 3"),
        (np.eye(3), np.zeros((3, 3)), 1, r"tr\(B\) must be positive"),
        (np.diag([1.0, 1.0, 3.0]), np.diag([1.0, 1.0, 0.0]), 1, "unbounded.*shrinkage.*more components"),
        (np.diag([1.0, np.nan]), np.eye(2), 1, "A contains NaN"),
    ],
)
def test_errors_say_what_is_wrong(A, B, count, message):
    with pytest.raises(ValueError, match=message):
        trace_ratio(A, B, count)


def test_a_start_of_the_wrong_shape():
    with pytest.raises(ValueError, match=r"start must have shape \(3, 2\), got \(3, 1\)"):
        trace_ratio(np.eye(3), np.eye(3), 2, start=np.eye(3)[:, :1])


def test_scatters_summed_in_single_precision_are_symmetric_enough():
    rng = np.random.default_rng(0)
    left = rng.standard_normal((200, 6)).astype(np.float32)
    A = left.T @ left + np.triu(np.full((6, 6), 1e-4, dtype=np.float32))
    assert not np.array_equal(A, A.T)
    assert trace_ratio(A, np.eye(6), 2).value == pytest.approx(np.linalg.eigvalsh(A)[-2:].mean(), rel=1e-4)
    with pytest.raises(ValueError, match="A must be symmetric"):
        trace_ratio(A.astype(np.float64), np.eye(6), 2)


def test_a_singular_denominator_is_fine_where_enough_components_are_asked_for():
    A, B = np.diag([1.0, 1.0, 3.0]), np.diag([1.0, 2.0, 0.0])
    assert trace_ratio(A, B, 2).value == pytest.approx(4)


@SEEDED
def test_where_lanczos_does_not_converge_a_dense_solver_answers(lanczos, monkeypatch):
    A, B = pair(500)
    expected = trace_ratio(A, B, 20)
    lanczos.clear()
    calls = []
    dense = scipy.linalg.eigh
    monkeypatch.setattr(scipy.linalg, "eigh", lambda *words, **options: calls.append(1) or dense(*words, **options))
    monkeypatch.setattr(tracequotient, "_DENSE", 0.2)  # one restart
    found = trace_ratio(A, B, 20)
    assert len(calls) == len(lanczos) == found.n_iter
    assert found.value == pytest.approx(expected.value, rel=1e-9)
    assert np.max(subspace_angles(found.projection, expected.projection)) < 1e-4
