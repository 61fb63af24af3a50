"""What is chosen from the data where the user leaves it open."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from benchmarks.zoo_sets import drawn
from sparlow import SparLow
from sparlow.criteria import CRITERIA
from sparlow.defaults import default_n_atoms, default_prior, spread, unlike_columns
from sparlow.dictionaries import learn_dictionary
from sparlow.estimators.fitting import choose_scaling, standardised
from sparlow.labels import Labels
from sparlow.solvers import Solver
from tests.digits import plain

DIGITS = normalize(load_digits().data[:600])
TARGET = load_digits().target[:600]


def features(n=400, m=300):
    """Centred samples of many dimensions, none much like another."""
    return normalize(np.random.default_rng(0).standard_normal((n, m)))


def test_spread_is_what_the_mean_leaves():
    mean = DIGITS.mean(axis=0)
    assert spread(DIGITS) == pytest.approx(1 - mean @ mean)
    assert spread(7 * sp.csr_array(DIGITS)) == pytest.approx(1 - mean @ mean)
    assert spread(np.ones((5, 3))) == pytest.approx(0, abs=1e-12)
    assert spread(np.zeros((5, 3))) == 0


def test_default_prior_follows_its_rule():
    v = spread(DIGITS)
    assert (default_prior(DIGITS).l1, default_prior(DIGITS).l2) == (pytest.approx(0.15 * np.sqrt(v)), 0.2)
    assert default_prior(3 * DIGITS).l1 == pytest.approx(3 * default_prior(DIGITS).l1)
    mild = default_prior(DIGITS, mild=True)
    assert (mild.l1, mild.l2) == (pytest.approx(default_prior(DIGITS).l1 / 8), 0.2)
    assert default_prior(np.zeros((4, 3))).l1 > 0


def test_the_number_of_atoms_follows_its_rule():
    """One for two samples, from 100 and ten per class to 1000."""
    assert [default_n_atoms(n, n) for n in (50, 150, 400, 4000)] == [50, 100, 200, 1000]
    assert default_n_atoms(4000, 300) == 300  # no more than distinct samples
    assert default_n_atoms(400, 400, 30) == 300  # ten for each class
    assert SparLow("lda", max_iter=0, random_state=0).fit(DIGITS[:300], TARGET[:300]).n_atoms_ == 150


def test_columns_of_unlike_units_are_standardised():
    """Few columns hold nearly all of the variance, as in a table of metres and grams."""
    rng = np.random.default_rng(0)
    table = DIGITS[:200, 10:30] + 0.01 * rng.standard_normal((200, 20))
    units = 10.0 ** rng.uniform(-3, 3, 20)
    assert not unlike_columns(table)
    assert not unlike_columns(DIGITS)
    assert unlike_columns(table * units + 5)
    assert not unlike_columns(sp.csr_array(table * units))  # sparse samples would not stay sparse
    assert not unlike_columns(np.ones((5, 3)))
    few = rng.standard_normal((200, 4))  # a table of few columns, one of which is in another unit
    assert not unlike_columns(few)
    assert unlike_columns(few * [1, 1, 1, 10])
    one, other = (plain("lda").fit(samples, TARGET[:200]) for samples in (table * units, 3 * table * units + 5))
    np.testing.assert_allclose(one.embedding_, other.embedding_, atol=1e-6)
    np.testing.assert_allclose(one.column_means_, (table * units).mean(axis=0))
    np.testing.assert_allclose(one.transform(table * units), one.embedding_, atol=1e-8)
    assert plain("lda").fit(table, TARGET[:200]).column_means_ is None
    assert plain("lda", normalize=True).fit(table * units, TARGET[:200]).column_means_ is None


def test_columns_that_come_standardised_keep_the_norms_of_rows():
    """Three classes on one line through the mean, as a user hands them over; pixels are no such columns."""
    rng = np.random.default_rng(0)
    y = np.arange(400) % 3
    samples = np.array([-4.0, 1.0, 3.0])[y, None] * (1 + 0.3 * rng.standard_normal((400, 150)))
    samples = (samples - samples.mean(axis=0)) / samples.std(axis=0)
    assert not unlike_columns(samples)
    for one in (samples, samples.astype(np.float32), np.hstack([samples, np.zeros((400, 2))]), samples[:200] + 0.05):
        assert choose_scaling(one, Labels(None)).means is not None
    others = (
        samples + 1,
        samples * np.linspace(1, 3, 150),
        np.abs(samples),
        samples / np.linalg.norm(samples, axis=1, keepdims=True),
        DIGITS,
        sp.csr_array(samples),
        np.ones((4, 3)),
    )
    assert all(choose_scaling(one, Labels(None)).means is None for one in others)
    scaled, unit = (SparLow("lda", max_iter=0, random_state=0, normalize=way) for way in ("auto", True))
    assert scaled.fit(samples[:300], y[:300]).score(samples[300:], y[300:]) > 0.95
    assert unit.fit(samples[:300], y[:300]).score(samples[300:], y[300:]) < 0.8


def test_tables_whose_rows_differ_in_norm_by_class_are_standardised():
    """Classes of one direction and two norms: what unit norm removes is all that tells them apart."""
    rng = np.random.default_rng(0)
    y = np.arange(240) % 2
    table = (1 + 3 * y[:, None]) * (1 + 0.2 * rng.standard_normal((240, 9)))
    assert not unlike_columns(table)
    scaled, unit = (SparLow("lda", max_iter=0, random_state=0, normalize=way) for way in ("auto", True))
    assert scaled.fit(table[:120], y[:120]).column_means_ is not None
    assert scaled.score(table[120:], y[120:]) > 0.95 > unit.fit(table[:120], y[:120]).score(table[120:], y[120:])
    alike = SparLow("lda", max_iter=0, random_state=0).fit(DIGITS[:300], TARGET[:300])
    assert alike.column_means_ is None  # unit norm tells the classes as well
    for labels in (None, np.zeros(240, int), np.full(240, -1)):  # nothing to judge by
        assert choose_scaling(table, Labels(labels)).means is None


def test_norms_that_tell_overlapping_classes_apart_are_kept():
    """LDA's decision is surer than one neighbour where classes overlap; norms that tell nothing are left out."""
    y = np.arange(90) % 2

    def standardises(seed, gap, turn):
        rng = np.random.default_rng(seed)
        directions = 1 + 0.1 * rng.standard_normal((90, 6)) + turn * y[:, None] * [1, 0, 0, -1, 0, 0]
        norms = 1 + gap * y[:, None] + 0.25 * rng.standard_normal((90, 1))
        return choose_scaling(norms * directions, Labels(y)).means is not None

    assert all(standardises(seed, 0.3, 0.0) for seed in range(8))
    assert not any(standardises(seed, 0.0, 0.3) for seed in range(8))
    digits = drawn("digits", 0)  # better by more than its standard error, but by less than a point
    assert choose_scaling(digits.X, Labels(digits.y)).means is None


def test_rows_of_standardised_columns_keep_their_norms_apart():
    """Three classes on one line through the mean, two of them on the same side: unit norm makes these one."""
    rng = np.random.default_rng(0)
    y = np.arange(240) % 3
    table = (np.array([-4.0, 1.0, 3.0])[y, None] * np.ones(3) + 0.3 * rng.standard_normal((240, 3))) * [1, 30, 900] + 7
    model = SparLow("lda", max_iter=0, random_state=0).fit(table[:120], y[:120])
    assert model.column_means_ is not None
    assert model.score(table[120:], y[120:]) > 0.95
    scaling = standardised(table)
    ray = np.mean(table, axis=0) + np.array([0, 0.1, 1, 10, 1e5, 1e200])[:, None] * np.std(table, axis=0)
    norms = np.linalg.norm(scaling(ray), axis=1)
    np.testing.assert_allclose(norms, [0, *(a / np.hypot(1, a) for a in (0.1, 1, 10, 1e5)), 1])
    np.testing.assert_array_equal(scaling(ray[2:3]), scaling(ray)[2:3])  # whatever the other rows are
    assert scaling(table.astype(np.float32)).dtype == np.float32
    for kind in (sp.csr_array, sp.csr_matrix):
        np.testing.assert_allclose(model.transform(kind(table[:5])), model.transform(table[:5]))


def test_few_labels_do_not_choose_the_scaling():
    """Of 30 labelled digits among 300 chance alone would standardise the pixels, which costs 15 points."""
    X, y = load_digits(return_X_y=True)
    X, y = X[:300], y[:300]
    for seed in range(10):
        rng = np.random.default_rng(seed)
        shown = np.full(300, -1)
        for label in range(10):
            some = rng.permutation(np.flatnonzero(y == label))[:3]
            shown[some] = label
        assert choose_scaling(X, Labels(shown, np.arange(10))).means is None


def test_constant_columns_are_not_divided_by_their_rounding():
    rng = np.random.default_rng(0)
    for dtype in (np.float64, np.float32):
        table = (rng.standard_normal((90, 3)) * [1, 30, 900]).astype(dtype)
        scaling = standardised(np.column_stack([table, np.full(90, 0.1, dtype)]))
        assert scaling.scales[3] == 1
        assert (scaling.scales[:3] != 1).all()


@pytest.mark.parametrize("criterion", list(CRITERIA))
@pytest.mark.slow
def test_criteria_without_labels_take_the_mild_prior(criterion):
    model = SparLow(criterion, max_iter=0, random_state=0).fit(DIGITS[:200], TARGET[:200])
    expected = default_prior(DIGITS[:200], mild=criterion in ("pca", "lle", "lap"))
    assert (model.prior_.l1, model.prior_.l2) == pytest.approx((expected.l1, expected.l2), rel=1e-9)


def test_features_without_likeness_still_have_codes():
    X = features()
    model = SparLow("lda", max_iter=0, random_state=0).fit(X, np.arange(len(X)) % 4)
    assert model.history_["nonzeros"][0] > 3


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


def test_a_table_of_one_column_is_fitted_without_a_warning():
    rng = np.random.default_rng(0)
    y = np.arange(150) % 3
    X = 10 + 2.0 * y[:, None] + rng.normal(0, 0.5, (150, 1))
    assert SparLow(random_state=0).fit(X[:100], y[:100]).score(X[100:], y[100:]) > 0.9
