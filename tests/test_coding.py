"""Laws of encode: optimality over priors, dictionaries and scales; equal to independent solvers; kind to inputs."""

import os
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import spams
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ElasticNet as SklearnElasticNet

from sparlow import encode, objective, optimality_gap
from sparlow._kernels.algebra import extend_factor, shrink_factor
from sparlow._kernels.quadratic import LONG
from sparlow.priors import ElasticNet, KLDivergence
from tests import cases

small = pytest.mark.interpreted


def dense_gap(X, D, prior, codes):
    """The optimality conditions, written out with dense arrays for the elastic net."""
    phi = codes.toarray()
    z = (X - phi @ D) @ D.T
    on = np.abs(z - prior.l1 * np.sign(phi) - 2 * prior.l2 * phi)
    off = np.maximum(z if prior.positive else np.abs(z), 0) - prior.l1
    return np.max(np.where(phi != 0, on, np.maximum(off, 0)), axis=1) / np.linalg.norm(X, axis=1)


def assert_same_bits(codes, others):
    np.testing.assert_array_equal(codes.indptr, others.indptr)
    np.testing.assert_array_equal(codes.indices, others.indices)
    np.testing.assert_array_equal(codes.data, others.data)


@small
@pytest.mark.parametrize("name", cases.PRIORS)
def test_codes_are_optimal_for_every_prior(name):
    X, D = cases.gaussian(8, 10, 24)
    prior = cases.priors(24)[name]
    codes = encode(X, D, prior)
    assert optimality_gap(X, D, prior, codes).max() <= 1e-8
    assert codes.has_sorted_indices
    assert np.all(codes.data != 0)
    if prior.positive:
        assert np.all(codes.data > 0)


@pytest.mark.parametrize("l1", [0.5, 0.1, 0.02, 0.005])
@pytest.mark.parametrize("r", [50, 300, 1500])
def test_codes_of_digits_are_optimal_by_dense_algebra(l1, r):
    rng = np.random.default_rng(0)
    data = cases.unit(load_digits().data)
    D = cases.unit(data[rng.choice(len(data), r, replace=False)] + 0.02 * rng.standard_normal((r, 64)))
    for prior in (ElasticNet(l1, 1e-3), ElasticNet(l1, 0.0), ElasticNet(l1, 1e-3, positive=True)):
        codes = encode(data[:60], D, prior, n_jobs=2)
        assert dense_gap(data[:60], D, prior, codes).max() <= 1e-8


@pytest.mark.parametrize("positive", [False, True])
def test_equal_to_scikit_learn(positive):
    X, D = cases.gaussian(5, 30, 60)
    prior = ElasticNet(0.05, 0.02, positive=positive)
    # scikit-learn: 1/(2m)‖x − Dᵀw‖² + α·ratio‖w‖₁ + ½α(1 − ratio)‖w‖²
    m, total = 30, (0.05 + 2 * 0.02) / 30
    model = SklearnElasticNet(
        alpha=total, l1_ratio=0.05 / m / total, fit_intercept=False, tol=1e-14, max_iter=100_000, positive=positive
    )
    expected = np.array([model.fit(D.T, x).coef_ for x in X])
    np.testing.assert_allclose(encode(X, D, prior).toarray(), expected, atol=1e-6)


@pytest.mark.parametrize("l1", [0.3, 0.05, 0.01])
def test_equal_to_spams(l1):
    X, D = cases.gaussian(50, 100, 80)  # supports stay below m, where SPAMS ends its path
    expected = spams.lasso(np.asfortranarray(X.T), D=np.asfortranarray(D.T), lambda1=l1, lambda2=2 * 0.01, mode=2)
    np.testing.assert_allclose(encode(X, D, ElasticNet(l1, 0.01)).toarray(), expected.T.toarray(), atol=1e-6)


@small
def test_closed_form_for_orthonormal_atoms():
    X = np.array([[3.0, -0.5, 0.2], [-1.0, 2.0, 0.0]])
    expected = np.sign(X) * np.maximum(np.abs(X) - 0.4, 0) / (1 + 2 * 0.1)
    np.testing.assert_allclose(encode(X, np.eye(3), ElasticNet(0.4, 0.1)).toarray(), expected, atol=1e-15)


def test_kl_with_signed_dictionary_solves_the_stationarity_equation():
    X, D = cases.gaussian(20, 12, 15)
    both = np.vstack([D, -D])
    prior = KLDivergence(0.02, mean=1e-3)
    phi = encode(X, both, prior).toarray()
    np.testing.assert_allclose((X - phi @ both) @ both.T, 0.02 * np.log(phi / 1e-3), atol=1e-8)


@small
def test_all_codes_vanish_for_a_large_weight_and_for_zero_samples():
    X, D = cases.gaussian(4, 6, 9)
    largest = np.abs(X @ D.T).max()
    assert encode(X, D, ElasticNet(1.0001 * largest)).nnz == 0
    assert encode(X, D, ElasticNet(0.9 * largest)).nnz >= 1
    X[1] = 0
    assert np.diff(encode(X, D, ElasticNet(0.01)).indptr)[1] == 0


@pytest.mark.parametrize("l2", [1e-3, 0.0])
@pytest.mark.parametrize("kind", cases.degenerate_dictionaries(12, np.random.default_rng(0)))
def test_degenerate_dictionaries(kind, l2):
    rng = np.random.default_rng(1)
    D = cases.degenerate_dictionaries(12, np.random.default_rng(0))[kind]
    X = cases.unit(rng.standard_normal((40, 12)))
    X[:10] = D[rng.integers(0, len(D), 10)]
    for l1 in (0.3, 0.01):
        assert dense_gap(X, D, ElasticNet(l1, l2), encode(X, D, ElasticNet(l1, l2))).max() <= 1e-8


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 6),
    m=st.integers(1, 12),
    r=st.integers(1, 40),
    l1=st.floats(1e-3, 2.0),
    l2=st.sampled_from([0.0, 1e-6, 1e-2, 1.0]),
    scale=st.sampled_from([1e-12, 1e-3, 1.0, 1e6, 1e40, 1e100]),
    coherence=st.sampled_from([0.0, 1.0, 100.0]),
    seed=st.integers(0, 10_000),
)
def test_optimal_over_shapes_scales_and_coherence(n, m, r, l1, l2, scale, coherence, seed):
    rng = np.random.default_rng(seed)
    D = cases.unit(rng.standard_normal((r, m)) + coherence * rng.standard_normal(m))
    X = scale * cases.unit(rng.standard_normal((n, m)))
    prior = ElasticNet(l1 * scale, l2)
    assert dense_gap(X, D, prior, encode(X, D, prior)).max() <= 1e-8


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(
    name=st.sampled_from(cases.PRIORS),
    dtype=st.sampled_from([np.float32, np.float64]),
    shape=st.sampled_from([(1, 1), (8, 3), (8, 60), (30, 60)]),
    coherence=st.sampled_from([0.0, 100.0]),
    twice=st.booleans(),
    warm=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_optimal_or_warned_for_all_priors_precisions_and_starts(name, dtype, shape, coherence, twice, warm, seed):
    rng = np.random.default_rng(seed)
    m, r = shape
    D = cases.unit(rng.standard_normal((r, m)) + coherence * rng.standard_normal(m))
    if twice:
        D = np.vstack([D, D])
    X = cases.unit(rng.standard_normal((4, m))).astype(dtype)
    prior = cases.priors(len(D))[name]
    start = sp.csr_array(rng.standard_normal((4, len(D))) * (rng.random((4, len(D))) < 0.3)) if warm else None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        codes = encode(X, D, prior, start=start)
    gap = optimality_gap(X.astype(float), cases.unit(D.astype(dtype).astype(float)), prior, codes).max()
    if dtype == np.float64:
        assert not caught
        assert gap <= 1e-8
    else:  # atoms that are nearly equal, in single precision: the largest gap is told
        told = [float(re.search(r"largest gap ([\d.e+-]+)", str(one.message))[1]) for one in caught]
        assert gap <= max([1e-4, *(2 * one for one in told)])


@small
@pytest.mark.parametrize(
    ("X", "D", "prior"),
    [
        (np.eye(4)[:1], np.eye(4), ElasticNet(0.0, 0.1)),
        (np.array([[1.0, 0, 0], [0, 0, 0]]), np.eye(3), ElasticNet(0.0, 0.1)),
        (np.array([[0.6, 0.8]]), np.array([[0.6, 0.8]] * 5), ElasticNet(1e-7, 0.0)),
        (cases.gaussian(3, 10, 40)[0], cases.gaussian(3, 10, 40)[1], KLDivergence(0.05, mean=1.0, threshold=0.5)),
    ],
)
def test_atoms_on_the_edge_of_the_interval(X, D, prior):
    assert optimality_gap(X, D, prior, encode(X, D, prior)).max() <= 1e-8


def test_lasso_with_tiny_weight_and_coherent_duplicates():
    rng = np.random.default_rng(0)
    D = cases.unit(rng.standard_normal((60, 8)) + 100 * rng.standard_normal(8))
    D[30:] = D[:30]
    X = cases.unit(rng.standard_normal((50, 8)))
    prior = ElasticNet(1e-4, 0.0)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        codes = encode(X, D, prior)
    assert np.all(np.isfinite(codes.data))
    assert np.median(dense_gap(X, D, prior, codes)) <= 1e-8


@small
def test_negative_codes_are_not_optimal_for_a_positive_prior():
    X, D = cases.gaussian(6, 10, 20)
    signed, prior = encode(X, D, ElasticNet(0.1, 0.01)), ElasticNet(0.1, 0.01, positive=True)
    negative = (signed.toarray() < 0).any(axis=1)
    assert negative.any()
    assert np.all(np.isinf(optimality_gap(X, D, prior, signed)) == negative)
    assert np.all(np.isinf(objective(X, D, prior, signed)) == negative)


@small
@pytest.mark.parametrize("name", cases.PRIORS)
def test_warm_start_reaches_the_same_codes(name):
    X, D = cases.gaussian(6, 10, 20)
    prior = cases.priors(20)[name]
    moved = cases.unit(D + 0.01 * np.random.default_rng(1).standard_normal(D.shape))
    warm = encode(X, moved, prior, start=encode(X, D, prior))
    np.testing.assert_allclose(warm.toarray(), encode(X, moved, prior).toarray(), atol=1e-6)


@small
def test_any_start_is_good_enough():
    X, D = cases.gaussian(6, 10, 20)
    rng = np.random.default_rng(2)
    for prior in (ElasticNet(0.1, 0.01), ElasticNet(0.1, 0.01, positive=True), KLDivergence(0.05)):
        start = rng.standard_normal((6, 20))
        np.testing.assert_allclose(encode(X, D, prior, start=start).toarray(), encode(X, D, prior).toarray(), atol=1e-6)


def test_same_bits_for_any_number_of_threads():
    X, D = cases.gaussian(1500, 30, 200)
    one = encode(X, D, ElasticNet(0.05), n_jobs=1)
    for n_jobs in (None, 2, 5, -1):
        assert_same_bits(encode(X, D, ElasticNet(0.05), n_jobs=n_jobs), one)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(cases.PRIORS),
    dtype=st.sampled_from([np.float32, np.float64]),
    shape=st.sampled_from([(1, 1), (8, 3), (8, 60), (30, 60), (12, 300)]),
    first=st.integers(1, 39),
    seed=st.integers(0, 10_000),
)
def test_codes_depend_on_nothing_but_sample_dictionary_and_prior(name, dtype, shape, first, seed):
    rng = np.random.default_rng(seed)
    m, r = shape
    D = cases.unit(rng.standard_normal((r, m))).astype(dtype)
    X = cases.unit(rng.standard_normal((40, m))).astype(dtype)
    prior = cases.priors(r)[name]
    cold = encode(X, D, prior)
    moved = cases.unit(D + 0.05 * rng.standard_normal(D.shape))
    assert_same_bits(encode(X, D, prior, start=encode(X, moved, prior)), cold)
    anywhere = sp.csr_array(rng.standard_normal((40, r)) * (rng.random((40, r)) < 0.3))
    assert_same_bits(encode(X, D, prior, start=anywhere), cold)
    assert_same_bits(encode(X[first:], D, prior), cold[first:])
    assert_same_bits(encode(X[first : first + 1], D, prior), cold[[first]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("l1", "l2"), [(0.1, 0.1), (0.02, 1e-3), (0.05, 0.0)])
def test_codes_of_patches_keep_their_bits_whatever_the_start(l1, l2, dtype):
    """Short supports and long ones, which other methods find."""
    rng = np.random.default_rng(0)
    X = cases.unit(load_digits().data)[:700].astype(dtype)
    D = cases.unit(X[rng.choice(len(X), 400, replace=False)] + 0.02 * rng.standard_normal((400, 64))).astype(dtype)
    prior = ElasticNet(l1, l2)
    cold = encode(X, D, prior)
    moved = cases.unit(D + 0.01 * rng.standard_normal(D.shape))
    assert_same_bits(encode(X, D, prior, start=encode(X, moved, prior)), cold)
    assert_same_bits(encode(X[300:], D, prior), cold[300:])


@small
@pytest.mark.parametrize(("r", "short"), [(60, 21), (LONG + 2, 32)])
def test_long_supports_keep_their_bits_whatever_the_start(r, short):
    """From some length on another method finds them, and one code turns out to have a short support after all."""
    rng = np.random.default_rng(0)
    D = cases.unit(np.eye(r) + 0.02 * rng.standard_normal((r, r)))
    X = cases.unit(np.stack([np.ones(r) @ D, np.r_[np.ones(20), np.zeros(r - 20)] @ D]))
    prior = ElasticNet(1e-2, 0.1)
    cold = encode(X, D, prior)
    assert np.diff(cold.indptr).tolist() == [r, short]
    assert_same_bits(encode(X, D, prior, start=np.ones((2, r))), cold)
    assert optimality_gap(X, D, prior, cold).max() < 1e-15


@small
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_codes_on_the_edge_keep_their_bits_whatever_the_start(dtype):
    """Samples whose correlations are exactly on the edge of ∂g(0), and atoms that occur twice."""
    X = np.array([[0.5, 0.25, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25], [1.0, -0.25, 0.5, 0.0]], dtype)
    D = np.vstack([np.eye(4), np.eye(4)[:2]]).astype(dtype)
    rng = np.random.default_rng(0)
    for prior in (ElasticNet(0.25, 0.5), ElasticNet(0.25, 0.0), ElasticNet(0.125, 0.0)):
        cold = encode(X, D, prior)
        for _ in range(20):
            start = sp.csr_array(rng.standard_normal((3, 6)) * (rng.random((3, 6)) < 0.5))
            assert_same_bits(encode(X, D, prior, start=start), cold)


def test_what_single_precision_cannot_hold_is_warned_of():
    """Codes of the KL prior are so stiff here that rounding them to float32 violates optimality."""
    X, D = cases.gaussian(4, 10, 20)
    with pytest.warns(ConvergenceWarning, match="did not reach"):
        encode((1e-4 * X).astype(np.float32), D, KLDivergence(1.0))


@pytest.mark.slow
def test_the_gap_in_the_warning_is_the_true_one():
    """With more atoms than features and hardly any prior, the search ends before it has seen all atoms."""
    X = load_digits().data
    D = X[:200] / np.linalg.norm(X[:200], axis=1, keepdims=True)
    prior = ElasticNet(1e-7, 0.0)
    with pytest.warns(ConvergenceWarning, match=r"largest gap \d") as told:
        codes = encode(X[200:230], D, prior)
    gaps = optimality_gap(X[200:230], D, prior, codes)
    assert f"{np.sum(gaps > 1e-9)} of 30 samples" in str(told[0].message)
    assert f"largest gap {gaps.max():.1g})" in str(told[0].message)


def test_same_codes_for_any_layout(tmp_path):
    X, D = cases.gaussian(50, 16, 40)
    X[np.abs(X) < 0.2] = 0
    prior = ElasticNet(0.05)
    expected = encode(X, D, prior).toarray()
    np.save(tmp_path / "X.npy", X)
    frozen = X.copy()
    frozen.flags.writeable = False
    before = X.copy()
    for other in (
        np.asfortranarray(X),
        frozen,
        np.load(tmp_path / "X.npy", mmap_mode="r"),
        sp.csr_matrix(X),
        sp.csc_array(X),
        np.repeat(X, 2, axis=0)[::2],
        X.tolist(),
    ):
        np.testing.assert_allclose(encode(other, np.asfortranarray(D), prior).toarray(), expected, atol=1e-9)
    np.testing.assert_array_equal(X, before)


def test_float32_stays_float32_and_close():
    X, D = cases.gaussian(200, 30, 80)
    codes = encode(X.astype(np.float32), D, ElasticNet(0.05, 0.01))
    assert codes.dtype == np.float32
    np.testing.assert_allclose(codes.toarray(), encode(X, D, ElasticNet(0.05, 0.01)).toarray(), atol=2e-4)
    single = X.astype(np.float32), D.astype(np.float32)
    assert optimality_gap(*single, ElasticNet(0.05, 0.01), codes).max() <= 2e-5


@small
def test_integers_become_float64():
    X = np.array([[3, 0], [0, 1]])
    codes = encode(X, np.eye(2, dtype=int), ElasticNet(0.5, 0.0))
    assert codes.dtype == np.float64
    np.testing.assert_allclose(codes.toarray(), [[2.5, 0], [0, 0.5]])


def _beyond():
    """A matrix whose index lies: column 9 of 3."""
    lie = sp.csr_array(np.eye(2, 3))
    lie.indices[0] = 9
    return lie


@small
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(X=np.full((2, 3), np.nan)), "NaN"),
        (dict(X=np.full((2, 3), np.inf)), "infinity"),
        (dict(X=np.empty((0, 3))), "0 sample"),
        (dict(X=np.ones(3)), "Expected 2D array"),
        (dict(X=np.ones((2, 4))), "4 features"),
        (dict(dictionary=np.zeros((2, 3))), "unit norm"),
        (dict(dictionary=2 * np.eye(3)), "unit norm"),
        (dict(dictionary=np.full((2, 3), np.nan)), "NaN"),
        (dict(dictionary=np.empty((0, 3))), "0 sample"),
        (dict(prior=0.1), "ElasticNet"),
        (dict(tol=0.0), "tol"),
        (dict(tol=-1.0), "tol"),
        (dict(tol="a"), "tol"),
        (dict(tol=np.inf), "tol"),
        (dict(X=np.full((2, 3), 1e200)), "entries above"),
        (dict(X=np.full((2, 3), 1e25, np.float32)), "entries above"),
        (dict(start=_beyond()), "ind"),
        (dict(start=sp.csr_array((2, 5))), "start must have shape"),
        (dict(start=np.full((2, 3), np.nan)), "start contains NaN"),
        (dict(prior=cases.OwnPrior((0.1,))), "1 weights for 3 atoms"),
    ],
)
def test_bad_input_is_named(change, message):
    good = dict(X=np.ones((2, 3)), dictionary=np.eye(3), prior=ElasticNet(0.1))
    with pytest.raises(ValueError, match=message):
        encode(**{**good, **change})


def test_unreached_tolerance_is_counted_and_explained():
    X, D = cases.gaussian(30, 20, 60)
    with pytest.warns(ConvergenceWarning, match=r"\d+ of 30 samples .* Raise tol or convert X to float64"):
        encode(X.astype(np.float32), D, ElasticNet(0.05), tol=1e-12)


def test_objective_by_its_definition():
    X, D = cases.gaussian(7, 10, 20)
    prior = ElasticNet(0.1, 0.02)
    phi = encode(X, D, prior)
    dense = phi.toarray()
    expected = (
        0.5 * np.sum((X - dense @ D) ** 2, axis=1) + 0.1 * np.abs(dense).sum(axis=1) + 0.02 * (dense**2).sum(axis=1)
    )
    np.testing.assert_allclose(objective(X, D, prior, phi), expected, rtol=1e-12)
    worse = phi.copy()
    worse.data *= 1.01
    assert np.all(objective(X, D, prior, worse) > expected)


@small
def test_gap_sees_a_wrong_code():
    X, D = cases.gaussian(3, 6, 10)
    prior = ElasticNet(0.1)
    codes = encode(X, D, prior)
    wrong = codes.copy()
    wrong.data[0] += 1e-3
    assert optimality_gap(X, D, prior, codes).max() < 1e-9
    assert optimality_gap(X, D, prior, wrong).max() > 1e-4
    assert optimality_gap(X, D, prior, sp.csr_array((3, 10))).min() > 1e-2


def test_no_warning_where_all_is_well():
    X, D = cases.gaussian(100, 20, 60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for dtype in (np.float32, np.float64):
            encode(X.astype(dtype), D, ElasticNet(0.02))


def test_a_warm_start_larger_than_the_last_working_set_reloads_what_they_share():
    """The second sample's start begins with the first one's atoms and is too large for the arrays made for it."""
    rng = np.random.default_rng(0)
    D = cases.unit(np.eye(300) + 0.01 * rng.standard_normal((300, 300)))
    X = cases.unit(np.stack([np.r_[np.ones(150), np.zeros(150)] @ D, np.ones(300) @ D]))
    prior = ElasticNet(1e-2, 0.1)
    start = encode(X, D, prior)
    assert LONG < np.diff(start.indptr)[0] < 256 < np.diff(start.indptr)[1]
    codes = encode(X, D, prior, start=start)
    assert np.max(optimality_gap(X, D, prior, codes)) < 1e-12


@njit
def _factor_without(K, curv, stays):
    """The factor of K + diag(curv), shrunk; with how many rows are left, and which."""
    n = len(K)
    L, kept, kept_curv = np.zeros((n, n)), np.zeros(n, np.int64), np.zeros(n)
    extend_factor(K, np.arange(n), curv, n, L, kept, kept_curv, 0, 1e-13, 1e-10)
    left = shrink_factor(L, kept, kept_curv, n, stays, np.empty(n), np.empty(n))
    return L[:left, :left], kept[:left], kept_curv[:left]


@pytest.mark.parametrize(("gone", "rotated"), [([0], True), ([99], True), ([3, 40, 41, 98], True), (range(90), False)])
def test_rows_leave_a_factor_by_rotations_where_that_is_cheap(gone, rotated):
    rng = np.random.default_rng(0)
    A, curv = rng.standard_normal((100, 120)), rng.random(100)
    stays = np.ones(100, np.int64)
    stays[list(gone)] = 0
    L, kept, kept_curv = _factor_without(A @ A.T, curv, stays)
    assert len(kept) == (stays.sum() if rotated else min(gone))
    np.testing.assert_array_equal(kept, np.flatnonzero(stays)[: len(kept)])
    np.testing.assert_array_equal(kept_curv, curv[kept])
    L = np.tril(L, -1) + np.diag(1 / np.diag(L))  # the diagonal holds inverse pivots
    np.testing.assert_allclose(L @ L.T, A[kept] @ A[kept].T + np.diag(curv[kept]), atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_supports_of_nearly_all_dimensions(dtype):
    """Hundreds of codes enter, and hundreds leave again."""
    X, D = (A.astype(dtype) for A in cases.gaussian(6, 200, 500))
    prior = ElasticNet(1e-4, 1e-4)
    codes = encode(X, D, prior)
    assert codes.nnz > 6 * 180
    assert optimality_gap(X.astype(float), D.astype(float), prior, codes.astype(float)).max() <= (
        1e-8 if dtype == np.float64 else 2e-5
    )


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize(("m", "r", "rank"), [(30, 80, 30), (100, 250, 100), (60, 120, 30)])
def test_lasso_whose_working_sets_are_linearly_dependent(m, r, rank, positive):
    """Without l2 more atoms than dimensions enter at a time, and all but as many must leave again."""
    for seed, l1 in enumerate((1e-2, 1e-3, 1e-4)):
        rng = np.random.default_rng(seed)
        basis = rng.standard_normal((rank, m))
        X, D = (cases.unit(rng.standard_normal((n, rank)) @ basis) for n in (40, r))
        prior = ElasticNet(l1, 0.0, positive=positive)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            codes = encode(X, D, prior)
        assert dense_gap(X, D, prior, codes).max() <= 1e-9
        assert np.diff(codes.indptr).max() <= rank


_BITS = """
import hashlib
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize
from sparlow import encode
from sparlow.priors import ElasticNet
X = normalize(load_digits().data)
codes = encode(X, X[:100], ElasticNet(0.1, 0.2), n_jobs=1)
print(hashlib.sha256(codes.data.tobytes()).hexdigest())
"""


@pytest.mark.slow
def test_the_process_that_compiles_gives_the_bits_of_later_ones(tmp_path):
    """Kernels in memory and kernels from the cache must hold the same code: their parts are inlined, not linked."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", _BITS]
    first, second = (
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout for _ in range(2)
    )
    assert first == second


@pytest.mark.parametrize("prior", [ElasticNet(0.0, 1e-9), ElasticNet(1e-7, 0.0)], ids=str)
def test_codes_that_overflow_in_single_precision_end_with_an_error(prior):
    X = load_digits().data.astype(np.float32)
    D = X[:200] / np.linalg.norm(X[:200], axis=1, keepdims=True)
    with pytest.raises(ValueError, match="overflowed"):
        encode(X[:20], D, prior)
