"""Regressions by either estimator: targets, indicators, classes."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score

from sparlow import SparLow, TraceQuotient
from sparlow.criteria import CRITERIA
from sparlow.priors import ElasticNet
from sparlow.solvers import Solver
from tests.digits import SEMI, X_NEW, Y_NEW, X, Y, linear_data, plain, small


@pytest.mark.parametrize("name", ["mvr", "smvr"])
def test_regression_of_real_targets(name):
    samples, targets = linear_data()
    if name == "smvr":
        rows = np.arange(300) % 3 == 0
        given = np.where(rows[:, None], np.nan, targets)
        given[::6, 0] = 1e6  # one number missing is enough: the row is unlabelled
    else:
        given = targets
    model = TraceQuotient(CRITERIA[name](shrinkage=1e-4)).fit(samples[:200], given[:200])
    reference = LinearRegression().fit(samples[:200], targets[:200])
    assert r2_score(targets[200:], reference.predict(samples[200:])) == pytest.approx(1)
    assert r2_score(targets[200:], model.predict(samples[200:])) > 0.95
    assert model.score(samples[200:], targets[200:]) > 0.95
    one = TraceQuotient(CRITERIA[name](shrinkage=1e-4)).fit(samples[:200], given[:200, 1])
    assert one.predict(samples[200:]).shape == (100,)
    assert one.score(samples[200:], targets[200:, 1]) > 0.95


@pytest.mark.parametrize("build", [small, plain], ids=["whitened", "orthonormal"])
@pytest.mark.parametrize("name", ["mvr", "smvr"])
def test_joint_regression_of_real_targets(name, build):
    samples, targets = linear_data()
    D = np.eye(10)
    model = build(CRITERIA[name](shrinkage=1e-3), dictionary=D, prior=ElasticNet(0.01, 0.01), normalize=False)
    given = targets.copy()
    if name == "smvr":
        given[::4] = np.nan
    model.fit(samples[:200], given[:200])
    assert model.predict(samples[200:]).shape == (100, 2)
    assert model.score(samples[200:], targets[200:]) > 0.9


@pytest.mark.slow
def test_regression_of_indicators_and_classes():
    indicators = np.stack([Y % 2 == 0, Y > 4, Y == 3], axis=1).astype(int)
    expected = np.stack([Y_NEW % 2 == 0, Y_NEW > 4, Y_NEW == 3], axis=1)
    for model in (small("mvr"), TraceQuotient("mvr"), small("smvr"), TraceQuotient("smvr")):
        predicted = clone(model).fit(X, indicators).predict(X_NEW)
        assert predicted.shape == (200, 3)
        assert np.mean((predicted > 0.5) == expected) > 0.8
        classes = clone(model).fit(X, Y)
        assert np.mean(classes.predict(X_NEW) == Y_NEW) > 0.65
        words = clone(model).fit(X, np.array(list("abcdefghij"))[Y])
        assert set(words.predict(X_NEW)) <= set("abcdefghij")
    half = TraceQuotient("smvr").fit(X, SEMI)
    assert np.mean(half.predict(X_NEW) == Y_NEW) > 0.65
    assert -1 not in half.predict(X_NEW)


def test_whole_numbers_are_targets_too():
    """Counts in two columns are no classes."""
    counts = np.stack([Y, (X > 8).sum(axis=1)], axis=1)
    predicted = TraceQuotient("mvr").fit(X, counts).predict(X)
    assert predicted.shape == (150, 2)
    assert r2_score(counts[:, 1], predicted[:, 1]) > 0.5


def test_another_fit_leaves_nothing_of_the_last_one():
    for model in (small("mvr"), TraceQuotient("mvr")):
        assert hasattr(model.fit(X, Y), "classes_")
        model.set_params(criterion="pca").fit(X)
        assert not hasattr(model, "classes_")
        assert not hasattr(model, "regression_")


def test_targets_have_no_probabilities():
    samples, targets = linear_data()
    for model in (small("mvr"), TraceQuotient("mvr")):
        assert hasattr(model, "predict_proba")  # classes may come
        model.fit(samples, targets)
        assert not hasattr(model, "predict_proba")
        assert hasattr(model, "predict")
    with pytest.raises(NotFittedError):
        TraceQuotient("smvr").predict(X)


def test_regression_of_one_target_at_the_defaults_has_more_than_two_values():
    samples, targets = linear_data()
    model = SparLow("mvr", n_atoms=40, max_iter=2, random_state=0).fit(samples, targets[:, 0])
    assert len(np.unique(np.round(model.predict(samples), 6))) > 20
    assert model.score(samples, targets[:, 0]) > 0.5


def test_joint_learning_does_not_harm_a_regression_at_the_defaults():
    samples, targets = load_diabetes(return_X_y=True)
    learned, sequential, free = (
        SparLow("mvr", random_state=0, **options).fit(samples[:300], targets[:300]).score(samples[300:], targets[300:])
        for options in ({}, {"max_iter": 0}, {"early_stopping": False, "solver": Solver(mu_proximity=0.0)})
    )
    assert learned > sequential - 0.02
    assert learned >= free


def test_whole_numbers_as_floats_are_targets_where_there_are_too_many_for_classes():
    samples, targets = linear_data()
    ages = np.round(40 + 10 * targets[:, 0])
    model = SparLow("mvr", n_atoms=40, max_iter=0, random_state=0).fit(samples, ages)
    assert not hasattr(model, "classes_")
    assert model.n_components_ == 1
    assert hasattr(small("mvr").fit(X, Y.astype(float)), "classes_")


def test_class_numbers_with_gaps_are_classes():
    gaps = np.where(np.arange(len(Y)) % 2, Y, np.nan)
    marked = np.where(np.arange(len(Y)) % 2, Y, -1).astype(float)
    ours, theirs = (small("smvr").fit(X, y) for y in (gaps, marked))
    np.testing.assert_array_equal(ours.classes_, np.unique(Y))
    np.testing.assert_array_equal(ours.embedding_, theirs.embedding_)
    assert ours.score(X, gaps) == ours.score(X[~np.isnan(gaps)], gaps[~np.isnan(gaps)])
    with pytest.raises(ValueError, match="all samples in y are unlabelled"):
        ours.score(X, np.full(len(X), np.nan))


@pytest.mark.parametrize("values", ["quarters", "ages", "signs"])
def test_other_numbers_with_gaps_are_targets(values):
    gaps = {
        "quarters": np.where(np.arange(len(Y)) % 2, Y / 4, np.nan),
        "ages": np.where(np.arange(len(Y)) < 15, 20 + np.arange(len(Y)), np.nan),  # each of them once
        "signs": np.where(np.arange(len(Y)) % 2, np.sign(Y - 4.5), np.nan),  # −1 among them is a value
    }[values]
    model = small("smvr").fit(X, gaps)
    assert not hasattr(model, "classes_")
    assert model.n_components_ == 1
