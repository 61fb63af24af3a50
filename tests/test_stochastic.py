"""Streams: statistics, the step of one batch, classes that come late, unlabelled samples, pickling."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

from sparlow import DictionaryLearner, SparLow, criteria, online, problem
from sparlow.coded import Rows, Samples
from sparlow.estimators import streaming
from sparlow.labels import Labels
from sparlow.manifolds import Spheres
from sparlow.online import Moments, Stream, indicators, kind_of
from sparlow.problem import begin
from tests import cases

N, M, R = 60, 9, 14
KINDS = {
    "lda": criteria.LDA(),
    "lda, plain": criteria.LDA(balance=0.0),
    "mvr": criteria.MVR(),
    "mvr, targets": criteria.MVR(),
    "pca": criteria.PCA(),
}


def batch(name):
    """Samples, labels, their targets (n, c) and a dictionary."""
    X, y, D = cases.labelled(N, M, R)
    if name == "pca":
        return X, Labels(), np.zeros((N, 0)), D
    labels = Labels(y, np.arange(4))
    if name == "mvr, targets":
        labels = Labels(targets=X[:, :2] + 0.1 * np.random.default_rng(0).standard_normal((N, 2)))
    return X, labels, indicators(labels, 4)[0], D


def stream(name, D, labels, components=2, **options):
    criterion = KINDS[name]
    n_targets = 0 if name == "pca" else 2 if labels.targets is not None else 4
    settings = {"shrinkage": 0.1, "mu_coherence": 0.2, "mu_proximity": 0.3, "seed": 0, **options}
    kind = kind_of(criterion, labels.y is not None)
    return Stream(criterion, kind, cases.priors(R)["elastic net"], D, components, n_targets, False, **settings)


@pytest.mark.parametrize("name", KINDS)
def test_one_batch_of_everything_is_one_step_of_steepest_ascent(name, monkeypatch):
    monkeypatch.setattr(online, "_PROJECTION", 1e-12)
    monkeypatch.setattr(problem, "_PROJECTION", 1e-12)
    X, labels, T, D = batch(name)
    running = stream(name, D, labels)
    running.update(X, T, np.ones(N, bool))
    samples = Samples(X, running.prior)
    quotient = KINDS[name].bind(X, labels.bound)
    options = {"shrinkage": 0.1, "mu_coherence": 0.2, "mu_proximity": 0.3}
    task, first = begin("eliminate", samples, quotient, D, 2, **options)
    task, first = task.refreshed(first)
    manifold = Spheres(R, M)
    G = manifold.gradient(D, task.gradient(first))
    norm = manifold.norm(D, G)
    length = 0.03 * np.sqrt(R)
    length = min(length, norm / (2 * task.scale * 0.3 / R))
    np.testing.assert_allclose(running.dictionary, manifold.retract(D, length / norm * G), atol=1e-7)
    np.testing.assert_allclose(running.scale, task.scale)


@pytest.mark.parametrize("name", KINDS)
def test_later_batches_move_atoms_in_proportion_to_their_size(name):
    X, labels, T, D = batch(name)
    running = stream(name, D, labels, mu_proximity=0.0)
    running.update(X[:20], T[:20], np.ones(20, bool))
    for seen, rows in ((50, slice(20, 50)), (online.DRAWN + 50 + 10, slice(50, 60))):
        before, n = running.dictionary, rows.stop - rows.start
        running.moments.seen = seen - n
        running.update(X[rows], T[rows], np.ones(n, bool))
        moved = np.sqrt(np.mean(np.sum((running.dictionary - before) ** 2, axis=1)))
        np.testing.assert_allclose(moved, 0.24 * n / max(online.DRAWN, seen), rtol=1e-2)


@pytest.mark.parametrize("cut", [[1], [7, 20, 21], list(range(1, 40))])
def test_statistics_do_not_depend_on_how_later_rows_are_cut(cut):
    rng = np.random.default_rng(0)
    first, later = rng.standard_normal((20, 5)), rng.standard_normal((40, 5))
    T, U = np.eye(3)[rng.integers(0, 3, 20)], np.eye(3)[rng.integers(0, 3, 40)]

    def seen(cuts):
        moments = Moments.zero(5, 3)
        moments.add(Rows(first), T)
        for rows in np.split(np.arange(40), cuts):
            moments.add(Rows(later[rows]), U[rows])
        return moments

    whole, parts = seen([]), seen(cut)
    for name in ("second", "total", "by_target", "targets", "weight", "seen", "first"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-12, err_msg=name)
    weights = (np.maximum(np.arange(1, 61), 20) / 60) ** online._FORGETTING
    rows = np.vstack([first, later])
    np.testing.assert_allclose(whole.second, (rows.T * weights) @ rows)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order].astype(np.float32), y[order]


def streamed(X, y, size=150, **options):
    model = SparLow(**{"n_atoms": 60, "random_state": 0, **options})
    for first in range(0, len(X), size):
        model.partial_fit(X[first : first + size], y[first : first + size], classes=np.arange(10))
    return model


def test_streams_learn_and_the_order_of_rows_matters_little(digits):
    X, y = digits
    scores = [
        streamed(X[:1200][o], y[:1200][o]).score(X[1200:], y[1200:]) for o in (slice(None), slice(None, None, -1))
    ]
    whole = SparLow(n_atoms=60, random_state=0, max_iter=0).fit(X[:1200], y[:1200]).score(X[1200:], y[1200:])
    assert min(scores) > whole - 0.02
    assert abs(scores[0] - scores[1]) < 0.02


def test_the_first_samples_may_come_in_small_batches(digits, monkeypatch):
    """A stream begins again with all samples so far: then it is the one that began with them in one batch."""
    X, y = digits
    monkeypatch.setattr(streaming, "DRAWN", 600)
    small = streamed(X[:600], y[:600], size=100)
    whole = streamed(X[:600], y[:600], size=600)
    for half in (small, whole):
        half.partial_fit(X[600:900], y[600:900])
    assert small._stream["first"] is None
    np.testing.assert_array_equal(small.dictionary_, whole.dictionary_)
    assert small._stream["stream"].n_coded > whole._stream["stream"].n_coded  # what was coded in vain is counted
    sparse = SparLow(n_atoms=60, random_state=0)
    for first in range(0, 600, 100):
        sparse.partial_fit(sp.csr_array(X[first : first + 100]), y[first : first + 100], classes=np.arange(10))
    np.testing.assert_allclose(sparse.transform(X[:9]), streamed(X[:600], y[:600]).transform(X[:9]), atol=1e-4)
    early = streamed(X[:300], y[:300], size=100)._stream
    assert early["began_with"] == 100
    assert early["first"][0].shape == (300, 64)


def test_samples_are_coded_less_than_twice_and_the_oldest_codes_first(digits, monkeypatch):
    X, y = digits
    monkeypatch.setattr(streaming, "DRAWN", 150)
    stream = streamed(X[:1200], y[:1200])._stream["stream"]
    assert 1.5 * 1200 < stream.n_coded <= 1.9 * 1200
    assert len(stream.kept) == 1200
    ages = [one.coded_at for one in stream.kept]
    assert min(ages) > 300
    with sklearn.config_context(working_memory=0):
        monkeypatch.setattr(online, "_FEWEST", 200)
        assert len(streamed(X[:600], y[:600]).embedding_) == 200


def test_one_pass_online_is_a_way_to_fit(digits):
    X, y = digits
    model = SparLow(n_atoms=60, random_state=0, solver="online", max_iter=1).fit(X[:900], y[:900])
    assert model.score(X[900:], y[900:]) > 0.93
    assert model.n_iter_ == 1
    assert "1 pass" in model.stop_reason_
    with pytest.raises(ValueError, match="lda, mvr and pca"):
        SparLow("mfa", n_atoms=60, solver="online").fit(X[:300], y[:300])


def test_a_class_may_come_late_and_unlabelled_samples_are_passed_over(digits):
    X, y = digits
    early, late = np.flatnonzero(y[:900] != 7), np.flatnonzero(y == 7)[:80]
    model = streamed(X[early], y[early])
    assert 7 not in model.predict(X[900:1000])
    for _ in range(2):
        model.partial_fit(X[late], y[late])
    new = np.flatnonzero(y == 7)[80:]
    assert np.mean(model.predict(X[new]) == 7) > 0.8
    before, D = model.n_samples_seen_, model._stream["stream"].dictionary
    model.partial_fit(X[:50], np.full(50, -1))
    assert model.n_samples_seen_ == before
    np.testing.assert_array_equal(model._stream["stream"].dictionary, D)


def test_pickling_in_mid_stream(digits):
    X, y = digits
    model = streamed(X[:300], y[:300])
    other = pickle.loads(pickle.dumps(model))
    for half in (model, other):
        half.partial_fit(X[300:600], y[300:600])
    np.testing.assert_array_equal(model.dictionary_, other.dictionary_)
    np.testing.assert_array_equal(model.transform(X[:20]), other.transform(X[:20]))


def test_a_first_batch_of_single_samples_says_what_it_lacks():
    with pytest.raises(ValueError, match="No class has two samples in the first batch"):
        SparLow("lda", n_atoms=5).partial_fit(np.random.default_rng(0).random((10, 8)), np.arange(10))


def test_a_stream_that_drops_a_fitted_model_says_so(digits):
    X, y = digits
    model = SparLow("lda", n_atoms=30, max_iter=0, random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="drops the fitted model"):
        model.partial_fit(X[:300], y[:300])
    model.partial_fit(X[300:600], y[300:600], classes=np.arange(10))  # warnings are errors
    with pytest.raises(ValueError, match="classes must be those of the first batch"):
        model.partial_fit(X[300:600], y[300:600], classes=[0, 1])


def test_streams_of_targets_and_of_nothing(digits):
    X, _ = digits
    targets = np.c_[X[:, 20], X[:, 30] - X[:, 42]]
    model = SparLow("mvr", n_atoms=60, random_state=0)
    for first in range(0, 900, 300):
        model.partial_fit(X[first : first + 300], targets[first : first + 300])
    assert model.score(X[900:], targets[900:]) > 0.8
    plain = SparLow("pca", n_atoms=60, random_state=0).partial_fit(X[:300]).partial_fit(X[300:600])
    assert plain.transform(X).shape == (len(X), plain.n_components_)


@pytest.mark.parametrize("name", ["mfa", "lap", "lle", "sda", "slap", "smvr"])
def test_other_criteria_say_why_they_cannot(name, digits):
    X, y = digits
    assert not hasattr(SparLow(name), "partial_fit")
    with pytest.raises(AttributeError) as error:
        SparLow(name).partial_fit(X[:100], y[:100], classes=np.arange(10))
    assert "compares each sample with its neighbours" in str(error.value.__cause__)


def test_many_classes_in_small_batches():
    """A list of classes, or a small batch, may have one of each without a warning."""
    X, y = np.random.default_rng(0).standard_normal((115, 12)), np.arange(115) % 30
    model = SparLow(n_atoms=20, random_state=0).partial_fit(X[:90], y[:90], classes=np.arange(30))
    model.partial_fit(X[90:], y[90:])
    assert model.n_samples_seen_ == 115


def test_errors_of_streams(digits):
    X, y = digits
    model = SparLow(n_atoms=40).partial_fit(X[:100][y[:100] < 5], y[:100][y[:100] < 5])
    with pytest.raises(ValueError, match="Name all labels"):
        model.partial_fit(X[:100], y[:100])
    with pytest.raises(ValueError, match="not among classes"):
        SparLow(n_atoms=60).partial_fit(X[:100], y[:100], classes=[0, 1])
    with pytest.raises(ValueError, match="n_atoms=200"):
        SparLow(n_atoms=200).partial_fit(X[:100], y[:100], classes=np.arange(10))
    model = SparLow(n_atoms=60).partial_fit(X[:100], y[:100], classes=np.arange(10))
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:100, :5], y[:100])
    with pytest.raises(ValueError, match="two classes"):
        SparLow(n_atoms=20).partial_fit(X[y == 1], y[y == 1], classes=np.arange(10))
    with pytest.raises(NotFittedError):
        SparLow().transform(X)


def test_dictionaries_learn_from_streams(digits):
    X, _ = digits
    learner = DictionaryLearner(50, "online", random_state=0)
    costs = []
    for _ in range(3):
        for first in range(0, 900, 300):
            learner.partial_fit(X[first : first + 300])
        codes = learner.transform(X[900:])
        costs.append(float(np.sum((X[900:] - learner.inverse_transform(codes)) ** 2)))
    assert costs[0] > costs[1] > costs[2]
    np.testing.assert_allclose(np.linalg.norm(learner.dictionary_, axis=1), 1, rtol=1e-5)
    with pytest.raises(AttributeError) as error:
        DictionaryLearner(50).partial_fit(X)
    assert "online" in str(error.value.__cause__)
