"""Classes and their probabilities: sound, useful, and what score means."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, r2_score
from sklearn.model_selection import cross_val_predict, train_test_split
from sklearn.neighbors import KNeighborsClassifier

from sparlow import SparLow, TraceQuotient
from sparlow.views import Patches
from tests import cases
from tests.digits import X_NEW, Y_NEW, X, Y, labels_for, linear_data, plain, small


@pytest.mark.slow
@pytest.mark.parametrize("build", [small, plain, TraceQuotient], ids=["whitened", "orthonormal", "classical"])
@pytest.mark.parametrize("name", cases.CRITERIA)
def test_probabilities_are_sound_and_predict_is_the_most_probable(name, build):
    words = np.array(list("klmnopqrst"))
    y = labels_for(name)
    given = np.where(y < 0, None, words[y].astype(object)) if y.min() < 0 else words[y]
    model = build(name, 4).fit(X, given)
    P = model.predict_proba(X_NEW)
    assert P.shape == (200, 10)
    assert P.min() > 0
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert model.classes_.tolist() == words.tolist()
    np.testing.assert_array_equal(model.predict(X_NEW), model.classes_[P.argmax(axis=1)])
    assert model.score(X_NEW, words[Y_NEW]) == np.mean(model.predict(X_NEW) == words[Y_NEW])
    one = np.vstack([model.predict_proba(row[None]) for row in X_NEW[:5]])
    np.testing.assert_allclose(one, P[:5], atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_probabilities_of_single_precision(dtype):
    model = small().fit(X.astype(dtype), Y)
    np.testing.assert_allclose(model.predict_proba(X_NEW.astype(dtype)).sum(axis=1), 1)


def smoothed_nearest(train, y, test, truth):
    """The log loss of the nearest neighbour's class, with the share of doubt that suits the test samples best."""
    near = KNeighborsClassifier(1).fit(train, y).predict_proba(test)
    return min(log_loss(truth, (1 - doubt) * near + doubt / near.shape[1]) for doubt in np.geomspace(1e-4, 0.5, 30))


USEFUL = {
    "lda": {},
    "orthonormal": {"embedding": "orthonormal", "max_iter": 3},
    "mfa": {"criterion": "mfa"},
    "patches": {"views": Patches(), "n_atoms": 32},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", USEFUL)
def test_probabilities_are_useful(name):
    """Digits: no worse than 1NN smoothed as suits it best, and at most a fifth above logistic regression."""
    samples, test, y, truth = train_test_split(*load_digits(return_X_y=True), train_size=900, random_state=0)
    model = SparLow(max_iter=0, random_state=0).set_params(**USEFUL[name]).fit(samples, y)
    loss = log_loss(truth, model.predict_proba(test))
    train, embedded = model.embedding_, model.transform(test)
    assert loss <= smoothed_nearest(train, y, embedded, truth)
    scale = train.std()
    logistic = LogisticRegression(max_iter=2000).fit(train / scale, y)
    assert loss <= 1.2 * log_loss(truth, logistic.predict_proba(embedded / scale))


def test_score_is_accuracy_with_classes_and_r2_with_targets():
    samples, targets = linear_data()
    for model in (small("mvr"), TraceQuotient("mvr")):
        model.fit(samples[:200], targets[:200])
        expected = r2_score(targets[200:], model.predict(samples[200:]), multioutput="variance_weighted")
        assert model.score(samples[200:], targets[200:]) == pytest.approx(expected)
        gaps = targets[200:].copy()
        gaps[::4, 0] = np.nan  # rows of which a target is missing do not count
        rows = np.all(np.isfinite(gaps), axis=1)
        expected = r2_score(gaps[rows], model.predict(samples[200:])[rows], multioutput="variance_weighted")
        assert model.score(samples[200:], gaps) == pytest.approx(expected)
        model.fit(X, Y)
        assert model.score(X_NEW, Y_NEW) == np.mean(model.predict(X_NEW) == Y_NEW)


@pytest.mark.slow
def test_models_work_where_classifiers_do():
    found = cross_val_predict(small(max_iter=0), X, Y, cv=3, method="predict_proba")
    assert found.shape == (150, 10)
    assert np.mean(found.argmax(axis=1) == Y) > 0.8


def test_without_classes_there_are_no_predictions():
    for model in (small("pca", 4), TraceQuotient("pca", 4)):
        assert hasattr(model, "predict_proba")  # labels may come
        model.fit(X)
        assert not hasattr(model, "predict")
        assert not hasattr(model, "predict_proba")
        with pytest.raises(AttributeError) as caught:
            model.predict(X)
        assert "fitted with no labels" in str(caught.value.__cause__)
