"""Groups: what is held out are whole groups, and scikit-learn's metadata routing brings them through pipelines."""

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from sparlow.labels import Labels, class_folds, with_groups
from sparlow.quadratic import better_order
from sparlow.rows import Rows
from tests.digits import X, Y, small

GROUPS = np.arange(len(Y)) // 10  # digits in the order of their writers


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.parametrize("kind", ["classes", "targets", "few labels"])
def test_held_out_parts_are_whole_groups_and_leave_two_of_each_class(kind):
    rng = np.random.default_rng(0)
    y, groups = rng.integers(0, 3, 120), np.array([f"g{g}" for g in rng.integers(0, 12, 120)])
    known = np.ones(120, bool)
    if kind == "few labels":
        known = rng.random(120) < 0.5
        y[~known] = -1
    labels = Labels(targets=rng.normal(size=(120, 2))) if kind == "targets" else Labels(y, np.arange(3))
    labels = with_groups(labels, groups)
    for seed in range(10):
        held = labels.held_out(120, 0.3, np.random.RandomState(seed))
        rest = np.setdiff1d(np.flatnonzero(known), held)
        assert known[held].all()
        assert 0.2 < len(held) / known.sum() < 0.5
        assert not set(groups[held]) & set(groups[rest])
        if kind != "targets":
            assert np.bincount(y[rest], minlength=3).min() >= 2


def test_folds_of_classes_are_of_whole_groups_or_there_are_none():
    y, groups = np.arange(60) % 3, np.arange(60) // 6
    for train, held in class_folds(y, 3, groups):
        assert not set(groups[train]) & set(groups[held])
    assert class_folds(y, 3, y) == []  # a group for each class


def test_what_is_chosen_depends_on_groups(monkeypatch):
    seen = []
    held_out = Labels.held_out

    def watched(self, *rest):
        rows = held_out(self, *rest)
        seen.append((self.groups, rows))
        return rows

    monkeypatch.setattr(Labels, "held_out", watched)
    small(max_iter=0).fit(X, Y, groups=GROUPS)
    assert seen
    for groups, rows in seen:
        assert not set(groups[rows]) & set(np.delete(groups, rows))


def test_second_order_is_chosen_on_whole_groups():
    """Every sample twice: where copies are on both sides of a fold, neighbours are always right, though it is noise."""
    rng = np.random.default_rng(0)
    features = np.repeat(rng.random((60, 20)), 2, axis=0)
    y, groups = np.repeat(rng.integers(0, 2, 60), 2), np.repeat(np.arange(60), 2)
    blind, warned = (better_order(Rows(features), y, 0, given).votes for given in (None, groups))
    assert blind.weight < warned.weight  # the means of classes count more where neighbours tell nothing


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.zeros(len(Y)), "All samples are of one group"),
        (GROUPS[:-1], "groups has 149 entries"),
        (np.ma.masked_equal(GROUPS, 3), "masked"),
    ],
)
def test_groups_that_say_nothing(groups, message):
    with pytest.raises(ValueError, match=message):
        small(max_iter=0).fit(X, Y, groups=groups)


def test_groups_that_are_classes_leave_choices_as_usual():
    model = small(max_iter=0).fit(X, Y, groups=Y)
    assert model.ridges_ == (0.5, 0.3)
    assert not np.isfinite(model.spectrum_["held_out"]).any()


def test_a_pipeline_brings_groups_weights_and_validation_samples(routing):
    weights = 1.0 + (Y < 5)
    options = {"groups": GROUPS, "sample_weight": weights, "X_val": X[:30], "y_val": Y[:30]}
    model = small(max_iter=0).set_fit_request(sample_weight=True, X_val=True, y_val=True)
    ours = Pipeline([("scaler", StandardScaler()), ("model", model)], transform_input=["X_val"])
    ours.named_steps["scaler"].set_fit_request(sample_weight=False)
    ours.fit(X, Y, **options)
    scaler = StandardScaler().fit(X)
    theirs = small(max_iter=0).fit(scaler.transform(X), Y, **(options | {"X_val": scaler.transform(X[:30])}))
    np.testing.assert_array_equal(ours.transform(X), theirs.transform(scaler.transform(X)))
    plain = small(max_iter=0).fit(scaler.transform(X), Y)
    assert np.abs(plain.transform(scaler.transform(X)) - ours.transform(X)).max() > 1e-3


def test_searches_bring_groups_to_their_folds_and_to_the_model(routing):
    search = GridSearchCV(small(max_iter=0), {"n_atoms": [10, 30]}, cv=GroupKFold(3), error_score="raise")
    search.fit(X, Y, groups=GROUPS)
    best = small(max_iter=0, n_atoms=search.best_params_["n_atoms"]).fit(X, Y, groups=GROUPS)
    np.testing.assert_array_equal(search.best_estimator_.embedding_, best.embedding_)
    scaler = StandardScaler().set_fit_request(sample_weight=False)
    model = small(max_iter=0).set_fit_request(sample_weight=False).set_score_request(sample_weight=True)
    pipeline = make_pipeline(scaler, model)
    scores = cross_validate(pipeline, X, Y, cv=GroupKFold(3), params={"groups": GROUPS}, error_score="raise")
    assert len(scores["test_score"]) == 3
    weighted = cross_validate(pipeline, X, Y, cv=GroupKFold(3), params={"groups": GROUPS, "sample_weight": Y + 1.0})
    assert not np.array_equal(weighted["test_score"], scores["test_score"])


def test_without_routing_a_pipeline_takes_groups_by_the_name_of_its_step():
    ours = make_pipeline(StandardScaler(), small(max_iter=0)).fit(X, Y, sparlow__groups=GROUPS)
    theirs = small(max_iter=0).fit(StandardScaler().fit_transform(X), Y, groups=GROUPS)
    np.testing.assert_array_equal(ours[-1].embedding_, theirs.embedding_)


def test_validation_samples_of_ones_own_make_the_choices():
    """The ridges are those that are best on the samples given, and all of X is learned from."""
    model = small(max_iter=0).fit(X[:100], Y[:100], X_val=X[100:], y_val=Y[100:])
    assert len(model.embedding_) == 100
    held = model.spectrum_["held_out"]
    assert held[np.isfinite(held)][-1] == pytest.approx(model.score(X[100:], Y[100:]), abs=0.1)
    swapped = small(max_iter=0).fit(X[:100], Y[:100], X_val=X[100:], y_val=np.roll(Y[100:], 1))
    assert np.nanmax(swapped.spectrum_["held_out"]) < 0.5


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"X_val": X}, "come together"),
        ({"y_val": Y}, "come together"),
        ({"X_val": X[:, :5], "y_val": Y}, "features"),
        ({"X_val": X, "y_val": np.full(len(Y), 77)}, "77"),
        ({"X_val": X, "y_val": Y[:-1]}, "inconsistent"),
    ],
)
def test_validation_samples_that_do_not_fit(given, message):
    with pytest.raises(ValueError, match=message):
        small(max_iter=0).fit(X, Y, **given)
