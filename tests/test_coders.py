"""Coders that are bound to a dictionary: the manners they share, and what thresholds and pursuits compute."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import sparlow
from sparlow import Coder, encode
from sparlow.coders import SoftThreshold
from sparlow.dictionaries import OMP
from sparlow.priors import ElasticNet
from tests import cases

X, D = cases.gaussian(40, 10, 25)
BUILD = {
    "exact": lambda D, **options: Coder(D, ElasticNet(0.1, 0.1), **options),
    "pursuit": lambda D, **options: OMP(D, 4, **options),
    "threshold": lambda D, **options: SoftThreshold(D, 0.3, **options),
}


@pytest.mark.interpreted
@pytest.mark.parametrize("name", BUILD)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_all_coders_have_the_same_manners(name, dtype):
    coder = BUILD[name](D)
    codes = coder.encode(X.astype(dtype))
    assert isinstance(codes, sp.csr_array)
    assert codes.shape == (40, 25)
    assert codes.dtype == dtype
    assert codes.has_sorted_indices
    close = {"rtol": 0, "atol": 1e-12 if dtype == np.float64 else 1e-4}
    for other in (BUILD[name](D, n_jobs=2), pickle.loads(pickle.dumps(coder))):
        np.testing.assert_array_equal(other.encode(X.astype(dtype)).toarray(), codes.toarray())
    np.testing.assert_allclose(coder.encode(sp.csr_array(X.astype(dtype))).toarray(), codes.toarray(), **close)
    np.testing.assert_allclose(coder.encode(X[:1].astype(dtype)).toarray(), codes[:1].toarray(), **close)
    assert "25 atoms of 10 features" in repr(coder)


@pytest.mark.parametrize("name", BUILD)
def test_all_coders_refuse_what_does_not_fit(name):
    with pytest.raises(ValueError, match="unit norm"):
        BUILD[name](2 * D)
    with pytest.raises(ValueError, match="X has 9 features, but the atoms of the dictionary have 10"):
        BUILD[name](D).encode(X[:, :9])
    with pytest.raises(ValueError, match="NaN"):
        BUILD[name](D).encode(np.full((2, 10), np.nan))


@pytest.mark.parametrize("positive", [False, True])
def test_thresholds_are_the_codes_of_orthonormal_atoms(positive):
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((10, 10)))[0]
    found = SoftThreshold(Q, 0.4, positive=positive).encode(X)
    np.testing.assert_allclose(found.toarray(), encode(X, Q, ElasticNet(0.4, 0.0, positive)).toarray(), atol=1e-9)
    with pytest.raises(ValueError, match="level must be"):
        SoftThreshold(Q, -1.0)


def test_pursuit_is_in_reach():
    np.testing.assert_array_equal(sparlow.omp(X, D, 3).toarray(), OMP(D, 3).encode(X).toarray())
    assert OMP(D, 3, positive=True).encode(X).data.min() > 0
