"""The pullback against central differences through the solver, and its forms against one another."""

import numpy as np
import pytest
import scipy.sparse as sp

from sparlow import derivative, encode, pullback
from sparlow.derivative import solve_woodbury
from sparlow.priors import ElasticNet, KLDivergence
from tests import cases

small = pytest.mark.interpreted


def differences_through_solver(X, D, prior, W, pairs, step):
    """∂f/∂D_ja of f(D) = ⟨W, encode(X, D)⟩ on the given entries; atoms are renormalised, so is the comparison."""
    out = []
    for j, a in pairs:
        values = []
        for sign in (1, -1):
            moved = D.copy()
            moved[j, a] += sign * step
            values.append(np.sum(W * encode(X, cases.unit(moved), prior, tol=1e-13).toarray()))
        out.append((values[0] - values[1]) / (2 * step))
    return np.array(out)


def tangent(gradient, D):
    """The chain rule through d/‖d‖: the part orthogonal to the atom."""
    return gradient - np.sum(gradient * D, axis=1, keepdims=True) * D


@small
@pytest.mark.parametrize("name", [name for name in cases.PRIORS if name != "lasso"])
def test_equal_to_differences_through_the_solver(name):
    X, D = cases.gaussian(5, 6, 9, seed=3)
    prior = cases.priors(9)[name]
    rng = np.random.default_rng(0)
    W = rng.standard_normal((5, 9))
    gradient = tangent(pullback(X, D, prior, encode(X, D, prior, tol=1e-13), W), D)
    pairs = [(j, a) for j in range(9) for a in (0, 3)]
    expected = differences_through_solver(X, D, prior, W, pairs, step=1e-6)
    got = np.array([gradient[pair] for pair in pairs])
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6 * np.abs(gradient).max())


def test_lasso_equals_differences_too():
    X, D = cases.gaussian(5, 20, 9, seed=3)
    W = np.random.default_rng(0).standard_normal((5, 9))
    prior = ElasticNet(0.1, 0.0)
    gradient = tangent(pullback(X, D, prior, encode(X, D, prior), W), D)
    pairs = [(j, a) for j in range(9) for a in (0, 3, 7)]
    expected = differences_through_solver(X, D, prior, W, pairs, step=1e-6)
    np.testing.assert_allclose([gradient[p] for p in pairs], expected, rtol=1e-6, atol=1e-6 * np.abs(gradient).max())


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_a_third_entry_is_added_to_the_product(layout):
    X, D = cases.gaussian(20, 6, 9)
    rng = np.random.default_rng(0)
    left, right, more = (rng.standard_normal(shape) for shape in ((20, 2), (2, 9), (20, 9)))
    prior = ElasticNet(0.1, 0.01)
    codes = encode(X, D, prior)
    whole = pullback(X, D, prior, codes, left @ right + more)
    np.testing.assert_allclose(pullback(X, D, prior, codes, (left, right, layout(more))), whole, atol=1e-12)
    multiple = pullback(X, D, prior, codes, left @ right + 3 * codes.toarray())
    np.testing.assert_allclose(pullback(X, D, prior, codes, (left, right, 3.0)), multiple, atol=1e-12)
    with pytest.raises(ValueError, match="shape"):
        pullback(X, D, prior, codes, (left, right, layout(more[:5])))


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("small", [0, 1 << 20], ids=["by atoms", "by rows"])
@pytest.mark.parametrize("long", [0.0, 0.4], ids=["dense", "sparse"])
@pytest.mark.parametrize("prior", [ElasticNet(0.05, 0.01), KLDivergence(0.05, mean=0.01)], ids=str)
def test_equal_to_dense_algebra(prior, long, small, layout, monkeypatch):
    """Every way to the products gives the same; long supports (KL: k > m) are solved by Woodbury."""
    monkeypatch.setattr(derivative, "_SMALL", small)
    monkeypatch.setattr(derivative, "_LONG", long)
    X, D = cases.gaussian(30, 12, 40)
    W = np.random.default_rng(0).standard_normal((30, 40))
    codes = encode(X, D, prior)
    expected = np.zeros_like(D)
    for x, phi, w in zip(X, codes.toarray(), W, strict=True):
        on = np.flatnonzero(phi)
        curvature = 2 * prior.l2 * np.ones(len(on)) if isinstance(prior, ElasticNet) else prior.strength / phi[on]
        beta = np.linalg.solve(D[on] @ D[on].T + np.diag(curvature), w[on])
        expected[on] += np.outer(beta, x - phi @ D) - np.outer(phi[on], beta @ D[on])
    np.testing.assert_allclose(pullback(layout(X), D, prior, codes, W), expected, rtol=1e-8, atol=1e-10)


@small
def test_forms_of_the_gradient_agree():
    X, D = cases.gaussian(9, 8, 15)
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((9, 3)), rng.standard_normal((3, 15))
    prior = ElasticNet(0.05, 0.01)
    codes = encode(X, D, prior)
    expected = pullback(X, D, prior, codes, left @ right)
    for form in ((left, right), sp.csr_array(left @ right), sp.csc_matrix(left @ right)):
        np.testing.assert_allclose(pullback(X, D, prior, codes, form), expected, atol=1e-12)
    np.testing.assert_allclose(pullback(sp.csr_array(X), D, prior, codes, (left, right)), expected, atol=1e-12)


@pytest.mark.slow
def test_same_bits_for_any_number_of_threads_and_float32():
    X, D = cases.gaussian(900, 20, 150)
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((900, 4)), rng.standard_normal((4, 150))
    for prior in (ElasticNet(0.05, 0.01), KLDivergence(0.05, mean=0.01)):
        codes = encode(X, D, prior)
        one = pullback(X, D, prior, codes, factors, n_jobs=1)
        np.testing.assert_array_equal(one, pullback(X, D, prior, codes, factors, n_jobs=3))
    single = pullback(X.astype(np.float32), D, prior, codes, factors)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, one, atol=1e-3 * np.abs(one).max())


@small
def test_dead_atoms_get_zero_and_empty_codes_give_zero():
    X, D = cases.gaussian(4, 6, 8)
    prior = ElasticNet(0.5)
    codes = encode(X, D, prior)
    dead = np.setdiff1d(np.arange(8), codes.indices)
    assert len(dead)
    gradient = pullback(X, D, prior, codes, np.ones((4, 8)))
    assert np.all(gradient[dead] == 0)
    assert np.any(gradient != 0)
    assert np.all(pullback(X, D, ElasticNet(5.0), encode(X, D, ElasticNet(5.0)), np.ones((4, 8))) == 0)


@small
def test_singular_systems_stay_finite():
    X, D = cases.gaussian(5, 4, 3)
    twice = np.vstack([D, D])
    prior = ElasticNet(0.05, 0.0)
    single = encode(X, D, prior).toarray()
    halves = sp.csr_array(np.hstack([single / 2, single / 2]))
    assert np.all(np.isfinite(pullback(X, twice, prior, halves, np.ones((5, 6)))))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_many_dependent_atoms_in_use_stay_finite(dtype):
    """Supports of 60 atoms in 8 dimensions without curvature: all but 8 depend on others."""
    X, D = cases.gaussian(30, 8, 30, seed=1)
    twice = np.vstack([D, D])
    W = np.random.default_rng(0).standard_normal((30, 60))
    codes = encode(X.astype(dtype), twice, ElasticNet(1e-3, 0.1))
    gradient = pullback(X.astype(dtype), twice, ElasticNet(1e-3, 0.0), codes, W)
    assert np.diff(codes.indptr).max() > 30
    assert np.all(np.isfinite(gradient))
    assert np.abs(gradient).max() < 1e6


def test_woodbury_equals_the_direct_solution():
    rng = np.random.default_rng(0)
    D, h, w = rng.standard_normal((30, 7)), rng.uniform(1e-3, 1e3, 30), rng.standard_normal(30)
    np.testing.assert_allclose(solve_woodbury(D, h, w), np.linalg.solve(D @ D.T + np.diag(h), w), rtol=1e-9)


@small
@pytest.mark.parametrize(
    ("codes", "gradient", "message"),
    [
        (sp.csr_array((4, 7)), np.ones((4, 8)), "codes must have shape"),
        (sp.csr_array((4, 8)), np.ones((4, 7)), "gradient must have shape"),
        (sp.csr_array((4, 8)), (np.ones((4, 2)), np.ones((3, 8))), "factors of gradient"),
        (sp.csr_array((4, 8)), np.full((4, 8), np.nan), "NaN"),
    ],
)
def test_bad_input_is_named(codes, gradient, message):
    X, D = cases.gaussian(4, 6, 8)
    with pytest.raises(ValueError, match=message):
        pullback(X, D, ElasticNet(0.5), codes, gradient)
