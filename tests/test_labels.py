"""Labels: what marks a sample as unlabelled, for every type that labels come in."""

import numpy as np
import pandas as pd
import pytest

from sparlow import SparLow, TraceQuotient
from sparlow.criteria import criterion_named
from sparlow.labels import Labels, check_labels, is_labelled, labels_of_batch
from tests.digits import X, Y, small

HIDDEN = np.arange(len(Y)) % 3 == 0
WORDS = np.array([f"digit {c}" for c in Y], object)


def hidden(values, mark, dtype=None):
    out = np.array(values, dtype or object)
    out[HIDDEN] = mark
    return out


MARKED = {
    "-1 among integers": hidden(Y, -1, int),
    "-1 among small integers": hidden(Y, -1, np.int8),
    "-1 among floats": hidden(Y, -1, float),
    "NaN among floats": hidden(Y, np.nan, float),
    "-1 among objects": hidden(Y, -1),
    "None among objects": hidden(Y, None),
    "NaN among objects": hidden(Y, float("nan")),
    "-1 among words": hidden(WORDS, -1),
    "None among words": hidden(WORDS, None),
    "NaN among words": hidden(WORDS, float("nan")),
    "a list with None": hidden(WORDS, None).tolist(),
}


@pytest.mark.parametrize("criterion", ["sda", "slap", "smvr"])
@pytest.mark.parametrize("kind", MARKED)
def test_every_mark_of_an_unlabelled_sample_is_understood(kind, criterion):
    labels = check_labels(criterion_named(criterion), X, MARKED[kind], "SparLow")
    np.testing.assert_array_equal(labels.y, np.where(HIDDEN, -1, Y))
    assert len(labels.classes) == 10
    np.testing.assert_array_equal(labels.known, ~HIDDEN)


@pytest.mark.parametrize("kind", ["-1 among integers", "NaN among floats", "None among words"])
def test_the_mark_does_not_change_the_model(kind):
    expected = TraceQuotient("sda", 4).fit(X, np.where(HIDDEN, -1, Y))
    found = TraceQuotient("sda", 4).fit(X, MARKED[kind])
    np.testing.assert_array_equal(found.projection_, expected.projection_)
    truth = np.asarray(MARKED[kind], object)
    assert found.score(X, truth) == expected.score(X, np.where(HIDDEN, -1, Y))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
@pytest.mark.parametrize("build", [small, TraceQuotient], ids=["SparLow", "TraceQuotient"])
def test_minus_one_in_an_unsigned_type_is_refused(build, dtype):
    wrapped = np.where(HIDDEN, -1, Y).astype(dtype)
    with pytest.raises(ValueError, match=rf"label {np.iinfo(dtype).max}, which is what -1 becomes in uint"):
        build("sda").fit(X, wrapped)
    assert len(build("sda", 4).fit(X, Y.astype(dtype)).classes_) == 10


def test_255_is_a_class_where_its_neighbours_are_classes_too():
    """Grey values as labels: 255 beside 254 was not −1."""
    assert is_labelled(np.array([0, 254, 255], np.uint8)).all()
    assert is_labelled(np.array([255, 255], np.uint8)).all()
    with pytest.raises(ValueError, match="signed type"):
        is_labelled(np.array([0, 1, 255], np.uint8))


def test_types_that_cannot_hold_a_mark_have_none():
    for values in (np.array([True, False]), np.array(["a", "-1"]), np.array([0, 3])):
        assert is_labelled(values).all()
    assert is_labelled(np.array([-1, 0])).tolist() == [False, True]


@pytest.mark.parametrize("fraction", [0.1, 0.3, 0.5])
def test_samples_of_each_class_are_held_out_and_unlabelled_ones_are_not(fraction):
    y = np.where(HIDDEN, -1, Y)
    held = Labels(y, np.arange(10)).held_out(len(y), fraction, np.random.RandomState(0))
    assert np.all(np.diff(held) > 0)
    assert np.all(y[held] >= 0)
    assert set(y[held]) == set(range(10))
    assert len(held) == max(round(fraction * np.sum(y >= 0)), 10)


def test_continuous_labels_name_the_criterion_for_targets():
    real = X[:, :3].sum(axis=1) + 0.5
    for model in (SparLow("lda"), TraceQuotient("mfa")):
        with pytest.raises(ValueError, match=r"continuous.*For real-valued targets use mvr"):
            model.fit(X, real)


def test_nearly_all_can_be_held_out_of_many_classes():
    y = np.repeat(np.arange(10), 3)
    held = Labels(y, np.arange(10)).held_out(30, 0.9, np.random.RandomState(0))  # would leave three for ten classes
    assert len(held) == 20
    assert set(y[np.setdiff1d(np.arange(30), held)]) == set(range(10))


@pytest.mark.parametrize("dtype", ["string", "Int64", "boolean", "category"])
def test_missing_labels_of_pandas_are_no_labels(dtype):
    values = {"string": WORDS, "category": WORDS, "boolean": Y > 4}.get(dtype, Y)
    y = pd.Series(values).astype(dtype).mask(HIDDEN)
    expected = np.where(HIDDEN, -1, np.unique(values, return_inverse=True)[1])
    assert np.array_equal(check_labels(criterion_named("sda"), X, y, "SparLow").y, expected)
    assert np.array_equal(labels_of_batch(criterion_named("lda"), X, y, None, "SparLow").y, expected)
    with pytest.raises(
        ValueError, match=rf"y contains NaN, None or an empty text \({HIDDEN.sum()} of {len(Y)}, first: row 0\)"
    ):
        check_labels(criterion_named("lda"), X, y, "SparLow")
    model = small("sda", max_iter=0).fit(X, y)
    assert model.score(X, y) == model.score(X[~HIDDEN], y[~HIDDEN]) > 0.9


@pytest.mark.parametrize("criterion", ["lda", "mfa", "sda", "slap"])
def test_infinite_labels_are_refused(criterion):
    y = Y.astype(float)
    y[3] = np.inf
    with pytest.raises(ValueError, match=r"Input y contains infinity, first in row 3\."):
        check_labels(criterion_named(criterion), X, y, "SparLow")


@pytest.mark.parametrize(("criterion", "name"), [("lda", "use mvr"), ("sda", "use smvr")])
def test_floats_of_many_values_are_taken_for_classes_with_a_warning(criterion, name):
    rng = np.random.default_rng(0)
    ages = np.repeat(rng.permutation(30), 2).astype(float)
    with pytest.warns(UserWarning, match=f"takes the 30 values of y, which are floats, as classes.*{name}"):
        small(criterion, max_iter=0).fit(rng.random((60, 40)), ages)
    assert len(check_labels(criterion_named("lda"), np.zeros((60, 2)), ages.astype(int), "SparLow").classes) == 30


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["Graz"] * len(Y), "words in the column 'odd' .first 'Graz'.: encode it"),
        (pd.date_range("2020-01-01", periods=len(Y)), "dates in the column 'odd' .first 2020-01-01"),
        (pd.Categorical(["a", "b", "c"] * (len(Y) // 3)), "words in the column 'odd'"),
    ],
)
def test_columns_of_words_and_dates_are_named(column, message):
    frame = pd.DataFrame(X).assign(odd=column).rename(columns=str)
    with pytest.raises(ValueError, match=message):
        small().fit(frame, Y)


def test_numbers_that_stand_as_objects_are_numbers():
    frame = pd.DataFrame(X).rename(columns=str)
    model = small(max_iter=0).fit(frame.astype({"3": object}), Y)
    np.testing.assert_array_equal(model.transform(frame), small(max_iter=0).fit(frame, Y).transform(frame))
