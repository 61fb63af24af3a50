"""The defaults of the committed rows, which stay as they were when the rows were measured."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from evidence.defaults import default_n_atoms, default_prior, default_proximity, kinship, likeness
from evidence.models import Joint
from sparlow.defaults import spread

DIGITS = normalize(load_digits().data[:600])
TARGET = load_digits().target[:600]


def features(n=400, m=300):
    """Centred samples of many dimensions, none much like another."""
    return normalize(np.random.default_rng(0).standard_normal((n, m)))


def test_likeness_is_the_median_of_the_largest_cosine():
    cosines = np.abs(DIGITS[:300] @ DIGITS[:300].T)
    np.fill_diagonal(cosines, 0)
    expected = np.median(cosines.max(axis=1))
    assert likeness(DIGITS[:300]) == pytest.approx(expected, rel=1e-12)
    assert likeness(7 * sp.csr_array(DIGITS[:300])) == pytest.approx(expected, rel=1e-12)
    many = normalize(load_digits().data[:900])
    first = np.arange(900)
    assert likeness(many, first < 550) == likeness(many[:550]) != likeness(many)
    assert likeness(many, first < 100) == likeness(many)  # too few to tell
    assert likeness(np.eye(3)) == 0
    assert likeness(np.zeros((4, 2))) == 1  # nothing to compare


def test_prior_and_proximity_follow_their_rules():
    v = spread(DIGITS)
    assert kinship(DIGITS) == 1
    assert default_proximity(1) == 0
    plain = default_prior(DIGITS, False, 1.0)
    assert (plain.l1, plain.l2) == (pytest.approx(min(v**3, 0.22)), 0.2)
    faithful, pooled = default_prior(DIGITS, True, 1.0), default_prior(DIGITS, True, 1.0, views=True)
    assert (faithful.l1, pooled.l1) == (pytest.approx(plain.l1 / 8), pytest.approx(plain.l1 / 4))
    assert faithful.l2 == pooled.l2 == pytest.approx(max(v**2, 0.05))
    X = features()
    k = kinship(X)
    assert default_prior(X, False, k).l1 == pytest.approx(min(spread(X) ** 3, 0.22) * k**1.5)
    assert default_prior(X, False, k).l2 == 0.2 / k
    assert default_proximity(k) == pytest.approx(100 * (1 - max((likeness(X) / 0.75) ** 1.5, 0.2)))


def test_the_number_of_atoms_follows_its_rule():
    assert [default_n_atoms(n, n) for n in (50, 400, 4000, 40_000)] == [50, 100, 500, 1000]
    assert default_n_atoms(4000, 300) == 300  # no more than distinct samples
    assert default_n_atoms(4000, 4000, 68) == 680  # ten for each class
    assert default_n_atoms(1500, 1500, k=0.25) == 1500  # features: one for each sample
    assert default_n_atoms(10**6, 10**6, k=0.25) == default_n_atoms(10**6, 10**6, k=0.5) == 2000
    assert default_n_atoms(1500, 1500, k=0.25, n_labelled=1400) == 1400
    assert default_n_atoms(1500, 1500, k=0.25, n_labelled=150) == 1500


@pytest.mark.parametrize("criterion", ["pca", "lda", "sda"])
def test_rows_take_these_defaults(criterion):
    y = np.where(np.arange(600) % 3, TARGET, -1) if criterion == "sda" else TARGET
    model = Joint(criterion, max_iter=0).translated(3 * DIGITS, y)
    assert model.prior == default_prior(DIGITS, criterion == "pca", 1.0)
    assert (model.n_atoms, model.normalize) == (100, True)
    assert model.solver.mu_proximity == model.criterion.proximity
    own = Joint(criterion, dictionary=DIGITS[:30], mu_proximity=2.0).translated(DIGITS, y)
    assert (own.n_atoms, own.solver.mu_proximity) == (None, 2.0)
