"""The coder: one dictionary, bound once, for many small batches and many threads."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp

from sparlow import Coder, coding, encode, pullback
from sparlow.priors import ElasticNet
from tests import cases
from tests.digits import UNIT, X_NEW, X, Y, small

N, M, R = 40, 12, 20


@pytest.fixture
def grams(monkeypatch):
    """A list that grows by one with every Gram matrix that is computed."""
    true, made = coding.Atoms.of, []
    monkeypatch.setattr(coding.Atoms, "of", lambda D, n_jobs: made.append(D.shape) or true(D, n_jobs))
    return made


def test_a_coder_of_other_atoms_gives_what_the_functions_give():
    samples, D = cases.gaussian(N, M, R)
    other = np.roll(D, 1, axis=1)
    coder = Coder(D, ElasticNet(0.1))
    before = coder.encode(samples)
    moved = coder.at(other)
    codes = encode(samples, other, ElasticNet(0.1))
    np.testing.assert_array_equal(moved.codes(samples).toarray(), codes.toarray())
    np.testing.assert_array_equal(moved.costs(samples, codes), coding.objective(samples, other, ElasticNet(0.1), codes))
    np.testing.assert_array_equal(coder.encode(samples).toarray(), before.toarray())


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("prior", cases.PRIORS)
def test_a_coder_gives_what_the_functions_give(prior, dtype, sparse):
    samples, D = cases.gaussian(N, M, R)
    samples, g = samples.astype(dtype), cases.priors(R)[prior]
    if sparse:
        samples = sp.csr_array(samples)
    tol = 1e-4 if dtype == np.float32 else None
    coder = Coder(D, g, tol=tol)
    codes, expected = coder.encode(samples), encode(samples, D, g, tol=tol)
    assert codes.dtype == dtype
    np.testing.assert_array_equal(codes.toarray(), expected.toarray())
    slope = np.random.default_rng(1).standard_normal((N, R)).astype(dtype)
    np.testing.assert_array_equal(coder.pullback(samples, codes, slope), pullback(samples, D, g, codes, slope))
    again = coder.encode(samples, start=codes).toarray()
    np.testing.assert_allclose(again, expected.toarray(), atol=1e-3 if dtype == np.float32 else 1e-6)


def test_the_gram_matrix_is_computed_once_for_each_precision(grams):
    samples, D = cases.gaussian(N, M, R)
    coder = Coder(D, ElasticNet(0.1))
    assert not grams  # not before it is wanted
    for row in samples:
        coder.pullback(row[None], coder.encode(row[None]), np.ones((1, R)))
    assert len(grams) == 1
    for _ in range(3):
        coder.encode(samples.astype(np.float32))
    assert len(grams) == 2


def test_a_fitted_model_holds_a_coder(fitted, grams):
    model = pickle.loads(pickle.dumps(fitted))
    for row in X_NEW[:5]:
        model.transform(row[None])
        model.encode(row[None])
    assert len(grams) <= 1
    np.testing.assert_allclose(model.coder_.encode(UNIT).toarray(), model.encode(X).toarray(), atol=1e-12)


def test_the_coder_of_a_model_follows_another_fit():
    model = small("pca", 4).fit(X)
    model.transform(X_NEW)
    model.set_params(n_atoms=20, max_iter=0).fit(X[:100], Y[:100])
    assert model.encode(X_NEW).shape == (200, 20)
    assert model.coder_.dictionary is model.dictionary_


def test_one_row_has_the_code_that_it_has_in_a_batch():
    samples, D = cases.gaussian(N, M, R)
    coder = Coder(D, ElasticNet(0.1))
    rows = sp.vstack([coder.encode(row[None]) for row in samples])
    np.testing.assert_allclose(rows.toarray(), coder.encode(samples).toarray(), atol=1e-8)


def test_a_pickled_coder_is_small_and_codes_alike():
    samples, D = cases.gaussian(N, M, 400)
    coder = Coder(D, ElasticNet(0.1))
    codes = coder.encode(samples)
    packed = pickle.dumps(coder)
    assert len(packed) < 1.1 * D.nbytes + 10_000  # the Gram matrix is computed again
    again = pickle.loads(packed)
    assert again.prior == coder.prior
    np.testing.assert_array_equal(again.encode(samples).toarray(), codes.toarray())


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_threads_may_share_a_coder(n_jobs):
    """Also for the first batch, when nothing is bound yet."""
    samples, D = cases.gaussian(200, M, 60)
    parts = [slice(i, i + 20) for i in range(0, 200, 20)] * 3
    alone = Coder(D, ElasticNet(0.1))
    expected = [alone.encode(samples[part]).toarray() for part in parts]
    shared = Coder(D, ElasticNet(0.1), n_jobs=n_jobs)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda part: shared.encode(samples[part]).toarray(), parts))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_dictionary_and_prior_are_checked_when_they_are_bound():
    _, D = cases.gaussian(1, M, R)
    with pytest.raises(ValueError, match="unit norm"):
        Coder(2 * D, ElasticNet(0.1))
    with pytest.raises(ValueError, match="prior must be an object"):
        Coder(D, 0.1)
    with pytest.raises(ValueError, match="tol must be a positive number"):
        Coder(D, ElasticNet(0.1), tol=0)
    coder = Coder(D, ElasticNet(0.1))
    assert "20 atoms of 12 features" in repr(coder)
    with pytest.raises(ValueError, match="X has 3 features, but the atoms of the dictionary have 12"):
        coder.encode(np.ones((2, 3)))
    with pytest.raises(ValueError, match="NaN"):
        coder.encode(np.full((1, M), np.nan))
