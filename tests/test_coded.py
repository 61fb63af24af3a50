"""Products with coded samples, and the features of views as they are stored."""

import numpy as np
import pytest
import scipy.sparse as sp

from sparlow.coded import Rows, Samples, _Stack
from sparlow.priors import ElasticNet
from sparlow.quadratic import Order, better_order, fit_quadratic
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


@pytest.mark.parametrize("first", [0.05, 0.9])  # the first part decides: sparse, or dense
def test_a_stack_holds_the_parts_whatever_their_density(first):
    rng = np.random.RandomState(1)
    shares = (first, 0.0, 0.6, 0.9, 0.2)  # more than the first part made room for
    parts = [rng.standard_normal((20, 30)) * (rng.random_sample((20, 30)) < share) for share in shares]
    stack = _Stack(100)
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
    assert kept.codes is not None
    assert let_go.codes is None
    assert abs(kept.features - let_go.features).max() == 0
    gradient = np.random.RandomState(3).standard_normal((60, 2)), np.ones((2, kept.shape[1])), 0.0
    np.testing.assert_allclose(let_go.pullback(*gradient), kept.pullback(*gradient), rtol=1e-12)


def test_the_basis_of_the_chosen_order_is_the_one_that_is_found_without_it():
    X, y = _images(90)
    F = Rows(np.abs(X[:, :20]))
    better = better_order(F, y, 0)
    assert isinstance(better, Order)
    assert better.basis is not None
    with_it, alone = fit_quadratic(F, y, 2, 0, better.basis), fit_quadratic(F, y, 2, 0)
    np.testing.assert_array_equal(with_it.forms, alone.forms)
    np.testing.assert_allclose(with_it(F), alone(F))
