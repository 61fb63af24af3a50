"""Products with coded samples, and the features of views as they are stored."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from sparlow import SparLow, quadratic
from sparlow.criteria import Quotient
from sparlow.graphs import centring
from sparlow.priors import ElasticNet
from sparlow.rows import Rows, Samples
from sparlow.rows.chunks import Stack
from sparlow.views import Patches


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("share", [0.01, 0.3])  # below and above the share from which on zeros are filled in
@pytest.mark.parametrize("count", [3, 40])
def test_products_are_those_of_dense_algebra(dtype, share, count):
    rng = np.random.RandomState(0)
    F = sp.random_array((2100, 50), density=share, dtype=dtype, format="csr", rng=np.random.default_rng(0))
    U, E = rng.standard_normal((50, count)), rng.standard_normal((2100, count))
    dense = F.toarray().astype(float)
    np.testing.assert_allclose(Rows(F) @ U, dense @ U, atol=1e-12)
    np.testing.assert_allclose(Rows(F).rmatmul(E), dense.T @ E, atol=1e-12)
    by_rows = Rows(F).by_rows(lambda rows: rows @ U, count)
    np.testing.assert_allclose(by_rows, dense @ U, atol=1e-12)
    (projected,) = Rows(F).projected(U).blocks
    assert projected.dtype == np.float64
    np.testing.assert_allclose(projected, dense @ U, atol=1e-12 if dtype == np.float64 else 1e-5)
    as_they_are = (projected == projected.astype(np.float32)).all()
    assert as_they_are == (dtype == np.float32)


@pytest.mark.parametrize("first", [0.05, 0.9])  # the first part decides: sparse, or dense
def test_a_stack_holds_the_parts_whatever_their_density(first):
    rng = np.random.RandomState(1)
    shares = (first, 0.0, 0.6, 0.9, 0.2)  # more than the first part made room for
    parts = [rng.standard_normal((20, 30)) * (rng.random_sample((20, 30)) < share) for share in shares]
    stack = Stack(100)
    for part in parts:
        stack.add(part)
    matrix = stack.matrix()
    assert sp.issparse(matrix) == (first < 0.5)
    dense = matrix.toarray() if sp.issparse(matrix) else matrix
    np.testing.assert_array_equal(dense, np.vstack(parts))
    if sp.issparse(matrix):
        assert matrix.has_sorted_indices
        assert len(matrix.data) == matrix.nnz == np.count_nonzero(np.vstack(parts))


def _images(n):
    rng = np.random.RandomState(2)
    y = np.arange(n) % 3
    stripes = np.sin(np.arange(12) * (0.4 + 0.3 * y[:, None]))
    X = stripes[:, None, :] * rng.uniform(0.5, 1, (n, 12, 1)) + 0.2 * rng.standard_normal((n, 12, 12))
    return X.reshape(n, -1), y


def test_codes_of_views_are_kept_only_where_they_are_asked_for():
    X, _ = _images(60)
    atoms = np.random.RandomState(0).standard_normal((16, 9))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    samples = Samples(X, ElasticNet(0.1, 0.1), Patches(size=3).bind(X))
    kept, let_go = samples.coded(atoms), samples.coded(atoms, keep=False)
    assert kept.chunk.codes is not None
    assert let_go.chunk.codes is None
    assert abs(kept.features - let_go.features).max() == 0
    gradient = np.random.RandomState(3).standard_normal((60, 2)), np.ones((2, kept.shape[1])), 0.0
    np.testing.assert_allclose(let_go.pullback(*gradient), kept.pullback(*gradient), rtol=1e-12)


def test_the_basis_of_the_chosen_order_is_the_one_that_is_found_without_it(monkeypatch):
    monkeypatch.setattr(quadratic, "FORM_DIRECTIONS", 8)
    monkeypatch.setattr(quadratic, "TRIED", 60)
    X, y = _images(90)
    F = Rows(np.abs(X[:, :20]))
    better = quadratic.better_order(F, y, 0)
    assert better.basis.shape == (20, 8)
    with_it, alone = quadratic.fit_quadratic(F, y, 2, 0, better.basis), quadratic.fit_quadratic(F, y, 2, 0)
    np.testing.assert_array_equal(with_it.basis, alone.basis)
    np.testing.assert_allclose(with_it(F), alone(F))


def test_a_quadratic_embedding_in_two_parts_is_near_that_of_all_samples(monkeypatch):
    X, y = _images(600)
    F = Rows(np.abs(X[:, :20]))
    whole = quadratic.fit_quadratic(F, y, 2, 0)(F)
    monkeypatch.setattr(quadratic, "KERNEL", 500)
    monkeypatch.setattr(quadratic, "KERNEL_PART", 300)
    parts = quadratic.fit_quadratic(F, y, 2, 0)(F)
    assert not np.array_equal(whole, parts)
    explained = parts @ np.linalg.lstsq(parts, whole)[0]  # components may turn and change signs
    assert np.sum((whole - explained) ** 2) < 0.2 * np.sum(whole**2)


def test_local_fits_without_steps_know_how_many_codes_are_not_zero():
    X, y = _images(60)
    model = SparLow("lda", n_atoms=12, views=Patches(size=3), random_state=0).fit(X, y)
    atoms, prior = model.dictionary_, model.prior_
    kept = Samples(normalize(X), prior, Patches(size=3).bind(normalize(X))).coded(atoms)
    np.testing.assert_allclose(model.history_["nonzeros"], [kept.chunk.codes.nnz / kept.chunk.codes.shape[0]])


@pytest.mark.parametrize("weighted", [False, True])
def test_wide_sparse_samples_need_no_square_matrix(weighted):
    X = sp.random_array((40, 50_000), density=0.001, format="csr", rng=np.random.default_rng(0))
    weights = np.linspace(1, 2, 40) if weighted else None
    model = SparLow("pca", 3, n_atoms=8, max_iter=0, random_state=0).fit(X, sample_weight=weights)
    assert model.embedding_.shape == (40, 3)


def test_weighted_variance_is_that_of_dense_algebra():
    X, _ = _images(50)
    weights = np.random.RandomState(0).uniform(0.5, 2, 50)
    centred = X - weights @ X / weights.sum()
    for rows in (Rows(X), Rows(sp.csr_array(X)), Rows(X[:, :30], sp.csr_array(X[:, 30:]))):
        np.testing.assert_allclose(rows.weighted_variance(weights), weights @ np.sum(centred**2, axis=1))


def test_components_that_a_model_chose_can_be_asked_for():
    X, _ = _images(60)
    chosen = SparLow("pca", n_atoms=10, max_iter=0, random_state=0).fit(X)
    assert chosen.n_components_ > 10
    assert np.isnan(chosen.ridges_).all()
    again = SparLow("pca", chosen.n_components_, n_atoms=10, max_iter=0, random_state=0).fit(X)
    np.testing.assert_array_equal(again.embedding_, chosen.embedding_)


@pytest.mark.parametrize("weights", [np.ones(30), np.full(30, 3.0), np.linspace(0.5, 2, 30)])
def test_the_trace_form_counts_weights_in_value_and_gradient(weights):
    rng = np.random.RandomState(4)
    F, move, U = (
        rng.standard_normal((30, 6)),
        rng.standard_normal((30, 6)),
        np.linalg.qr(rng.standard_normal((6, 2)))[0],
    )
    quotient = Quotient(centring(30, weights), None)
    A, B = quotient.matrices(Rows(F))
    value = quotient.value(Rows(F), U)
    np.testing.assert_allclose(value.quotient, np.trace(U.T @ A @ U) / np.trace(U.T @ B @ U))
    left, right, scale = quotient.features_gradient(Rows(F), U, value)
    gradient = left @ right + np.reshape(scale, (-1, 1)) * F
    above, below = (quotient.value(Rows(F + step * move), U).quotient for step in (1e-6, -1e-6))
    np.testing.assert_allclose(np.vdot(gradient, move), (above - below) / 2e-6, rtol=1e-6)
