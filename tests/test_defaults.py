"""What is chosen from the data where the user leaves it open."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from sparlow import SparLow
from sparlow.criteria import CRITERIA
from sparlow.defaults import default_n_atoms, default_prior, default_proximity, kinship, likeness, spread
from sparlow.dictionaries import learn_dictionary
from sparlow.solvers import Solver
from tests.digits import plain

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
    assert likeness(np.vstack([DIGITS[:1], DIGITS[:1]])) == pytest.approx(1)
    assert likeness(np.zeros((4, 2))) == 1  # nothing to compare


def test_default_prior_follows_its_rule():
    v = spread(DIGITS)
    assert likeness(DIGITS) > 0.75
    assert default_prior(DIGITS).l1 == pytest.approx(min(v**3, 0.22))
    assert default_prior(3 * DIGITS).l1 == pytest.approx(3 * min(v**3, 0.22))
    assert default_prior(DIGITS).l2 == 0.2
    X = features()
    assert default_prior(X).l1 == pytest.approx(min(spread(X) ** 3, 0.22) * kinship(X) ** 1.5)
    assert default_prior(X).l2 == 0.2 / kinship(X)
    X = features(m=40)
    assert 0.2 < default_prior(X).l2 < 1
    assert default_prior(X).l2 == pytest.approx(0.2 / (likeness(X) / 0.75) ** 1.5)


def test_samples_that_share_nothing_still_get_sparse_codes():
    assert (kinship(np.eye(50)), default_prior(np.eye(50)).l2) == (0.2, 1.0)
    assert default_prior(np.eye(50)).l1 == pytest.approx(0.22 * 0.2**1.5)


def test_dictionaries_of_features_stay_near_their_start():
    X, y = features(), np.arange(400) % 4
    assert (kinship(DIGITS), default_proximity(kinship(DIGITS))) == (1, 0)
    assert default_proximity(kinship(X)) == pytest.approx(100 * (1 - max((likeness(X) / 0.75) ** 1.5, 0.2)))
    usual, named, free = (
        plain("lda", n_atoms=60, max_iter=3, solver=Solver(mu_proximity=mu)).fit(X, y)
        for mu in (None, default_proximity(kinship(X)), 0.0)
    )
    np.testing.assert_array_equal(usual.dictionary_, named.dictionary_)
    assert usual.history_["proximity"][-1] < free.history_["proximity"][-1]


def test_the_number_of_atoms_follows_its_rule():
    assert [default_n_atoms(n, n) for n in (50, 400, 4000, 40_000)] == [50, 100, 500, 1000]
    assert default_n_atoms(4000, 300) == 300  # no more than distinct samples
    assert default_n_atoms(4000, 4000, 68) == 680  # ten for each class
    assert default_n_atoms(1500, 1500, k=0.25) == 1500  # features: one for each sample
    assert default_n_atoms(1500, 1500, k=0.5) == int(1500 / (8 * 0.5**1.5))
    assert default_n_atoms(10**6, 10**6, k=0.25) == default_n_atoms(10**6, 10**6, k=0.5) == 2000
    # labels for all but a few: as many atoms as these, for classes to have their own; too few labels do not count
    assert default_n_atoms(1500, 1500, k=0.25, n_labelled=1400) == 1400
    assert default_n_atoms(1500, 1500, k=0.25, n_labelled=150) == 1500
    X = features(m=40)
    model = SparLow("lda", max_iter=0, random_state=0).fit(X, np.arange(400) % 4)
    assert model.n_atoms_ == default_n_atoms(400, 400, 4, kinship(X)) > 100


def test_faithful_prior_keeps_more_of_the_sample():
    plain, faithful = default_prior(DIGITS), default_prior(DIGITS, faithful=True)
    assert faithful.l1 == pytest.approx(plain.l1 / 8)
    assert faithful.l2 == pytest.approx(max(spread(DIGITS) ** 2, 0.05))
    alike = normalize(1 + 1e-3 * features())
    assert default_prior(alike, faithful=True).l2 == 0.05


@pytest.mark.parametrize("criterion", list(CRITERIA))
def test_criteria_without_labels_take_the_faithful_prior(criterion):
    model = SparLow(criterion, max_iter=0, random_state=0).fit(DIGITS[:200], TARGET[:200])
    expected = default_prior(DIGITS[:200], faithful=criterion in ("pca", "lle", "lap"))
    assert (model.prior_.l1, model.prior_.l2) == pytest.approx((expected.l1, expected.l2), rel=1e-9)


def test_features_without_likeness_still_have_codes():
    X = features()
    model = SparLow("lda", max_iter=0, random_state=0).fit(X, np.arange(len(X)) % 4)
    assert model.history_["nonzeros"][0] > 10


@pytest.mark.parametrize(("labelled", "class_wise"), [(200, True), (40, True), (39, False), (0, False)])
def test_classes_get_atoms_of_their_own_where_labels_are_as_many_as_atoms(monkeypatch, labelled, class_wise):
    seen = []

    def learner(method, X, n_atoms, y=None, **options):
        seen.append(None if y is None else np.sum(y >= 0))
        return learn_dictionary(method, X, n_atoms, y, **options)

    monkeypatch.setattr("sparlow.estimators.learning.learn_dictionary", learner)
    y = np.where(np.arange(200) < labelled, TARGET[:200], -1)
    criterion = "sda" if labelled else "pca"
    plain(criterion, n_atoms=40, max_iter=0).fit(DIGITS[:200], y)
    assert seen == [labelled if class_wise else None]


def test_repeated_labelled_samples_are_not_enough_for_atoms_of_each_class():
    X = np.vstack([DIGITS[:25], DIGITS[:25], DIGITS[100:300]])
    y = np.r_[TARGET[:25], TARGET[:25], np.full(200, -1)]
    assert SparLow("sda", n_atoms=40, max_iter=0, random_state=0).fit(X, y).n_atoms_ == 40


@pytest.mark.parametrize("criterion", list(CRITERIA))
def test_default_shrinkage_and_proximity_are_those_of_the_criterion(criterion):
    options = {"n_components": 2, "max_iter": 0}
    model = plain(criterion, **options).fit(DIGITS[:200], TARGET[:200])
    assert model.shrinkage_ == (10 if criterion in ("lap", "lle") else 0.1)
    assert model.mu_proximity_ == CRITERIA[criterion].proximity
    named = plain(CRITERIA[criterion](shrinkage=0.5), solver=Solver(mu_proximity=3.0), **options)
    named.fit(DIGITS[:200], TARGET[:200])
    assert (named.shrinkage_, named.mu_proximity_) == (0.5, 3.0)
    if criterion != "pca":  # which has a trace in its denominator
        assert model.ridge_ / named.ridge_ == pytest.approx(model.shrinkage_ / 0.5)
