"""A fit that is followed, stopped, interrupted, gone on with, or watched on a held-out part."""

import re
import subprocess
import sys

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from sparlow import DictionaryLearner, TraceQuotient
from sparlow.estimators import OnStep, choosing, learning
from sparlow.priors import ElasticNet
from sparlow.rows import samples as rows_of_samples
from sparlow.solvers import EarlyStopping
from sparlow.views import Shifts
from tests import cases
from tests.digits import UNIT, X_NEW, Y_NEW, X, Y, labels_for, linear_data, plain, small


@pytest.mark.parametrize("options", [{"embedding": "orthonormal"}, {"views": Shifts(1)}], ids=["orthonormal", "views"])
def test_a_callback_sees_each_step_and_the_model_there_and_can_stop(options):
    rows, embeddings = [], []

    def stop_at_two(row, model):
        rows.append(row)
        embeddings.append(model.transform(X_NEW))
        return row["step_number"] == 2

    options = {**options, "early_stopping": False}
    model = small(max_iter=9, **options).set_callbacks(OnStep(stop_at_two)).fit(X, Y)
    assert (model.n_iter_, model.stop_reason_) == (2, "stopped by callback")
    assert [row["step_number"] for row in rows] == [1, 2]
    assert rows[1]["cost"] == model.history_["cost"][2]
    np.testing.assert_allclose(embeddings[1], model.transform(X_NEW), atol=1e-8)
    assert not np.allclose(embeddings[0], embeddings[1])
    if "views" not in options:  # the lengths of stochastic steps depend on how many are to come
        np.testing.assert_array_equal(small(max_iter=2, **options).fit(X, Y).dictionary_, model.dictionary_)


def test_verbose_prints_a_line_for_each_step(capsys):
    plain(max_iter=2, verbose=1).fit(X, Y)
    lines = capsys.readouterr().out.splitlines()
    assert [re.match(r"\[SparLow\] step +(\d+)  J [\d.]+  f [\d.]+  nonzeros", line)[1] for line in lines] == ["1", "2"]
    plain(max_iter=1).fit(X, Y)
    assert not capsys.readouterr().out


def test_progress_bar_of_scikit_learn(capsys):
    callback = pytest.importorskip("sklearn.callback")
    model = plain(max_iter=2).set_callbacks(callback.ProgressBar()).fit(X, Y)
    assert "SparLow" in capsys.readouterr().out
    np.testing.assert_array_equal(model.dictionary_, plain(max_iter=2).fit(X, Y).dictionary_)


@pytest.mark.slow
def test_a_fit_that_fails_ends_the_progress_bar():
    """Its thread would keep the interpreter from ending."""
    pytest.importorskip("sklearn.callback")
    code = """
from sklearn.callback import ProgressBar
from sklearn.datasets import load_digits
from sparlow import SparLow
X, y = load_digits(return_X_y=True)
model = SparLow(n_atoms=500).set_callbacks(ProgressBar())
try:
    model.fit(X[:100], y[:100])
except ValueError:
    print(sorted(set(vars(model)) - set(SparLow().get_params())))
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert "['_skl_callbacks']" in ended.stdout


@pytest.mark.parametrize("name", ["lda", "mvr", "pca"])
def test_scoring_monitor_of_scikit_learn(name):
    callback = pytest.importorskip("sklearn.callback")

    def as_good_as(estimator, samples, y):
        return float(estimator.score(samples, y))

    monitor = callback.ScoringMonitor(scoring={"own": as_good_as})
    model = plain(name, max_iter=2, random_state=1).set_callbacks(monitor).fit(X, Y)
    scores = [row["own"] for row in monitor.get_logs().data if row["task_name"] == "step"]
    assert len(scores) == 2
    assert scores[-1] == pytest.approx(model.score(X, Y))


# ── second fits and interrupts ────────────────────────────────────────────────────────────────────────────────────────


def test_warm_start_goes_on():
    model = small("pca", 4, warm_start=True).fit(X)
    first = model.history_
    D = model.dictionary_
    model.fit(X)
    assert model.history_["quotient"][0] == pytest.approx(first["quotient"][-1], rel=1e-2)
    assert model.history_["cost"][-1] > first["cost"][-1]
    np.testing.assert_array_equal(model.set_params(max_iter=0).fit(X).dictionary_.shape, D.shape)
    cold = small("pca", 4).fit(X).fit(X)
    np.testing.assert_array_equal(cold.dictionary_, D)


def test_warm_start_with_other_features_says_so():
    model = small("pca", 4, warm_start=True).fit(X)
    with pytest.raises(ValueError, match="features"):
        model.fit(X[:, :40])


@pytest.mark.parametrize("early_stopping", [False, EarlyStopping(0.25)])
def test_a_first_fit_is_the_same_with_and_without_warm_start(early_stopping):
    """With a held-out part the model learned from the rest is no fit to go on from."""
    warm, cold = (small(warm_start=w, early_stopping=early_stopping).fit(X, Y) for w in (True, False))
    for attribute in ("dictionary_", "projection_", "embedding_"):
        np.testing.assert_array_equal(getattr(warm, attribute), getattr(cold, attribute))
    if not early_stopping:
        again = warm.fit(X, Y)
        assert not np.array_equal(again.dictionary_, cold.dictionary_)


FAILURES = {
    "NaN": lambda: (np.full((20, 5), np.nan), np.arange(20) % 2),
    "one class": lambda: (X[:, :40], np.zeros(150)),
    "lengths": lambda: (X[:, :40], Y[:9]),
    "no scatter": lambda: (np.ones((20, 5)), np.arange(20) % 2),
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("build", [small, TraceQuotient], ids=["SparLow", "TraceQuotient"])
def test_a_fit_that_fails_leaves_the_last_one_as_it_was(build, failure):
    model = build("mvr").fit(X, Y)
    before, embedding = dict(vars(model)), model.transform(X_NEW)
    with pytest.raises(ValueError, match=r".+"):
        model.fit(*FAILURES[failure]())
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is value for name, value in before.items())
    np.testing.assert_array_equal(model.transform(X_NEW), embedding)
    assert model.predict(X_NEW).shape == (200,)


def test_a_first_fit_that_fails_leaves_nothing():
    for model in (small(), TraceQuotient(), DictionaryLearner(n_atoms=1000)):
        before = dict(vars(model))
        with pytest.raises(ValueError, match=r".+"):
            model.fit(X, np.zeros(150))
        assert vars(model) == before


def test_an_interrupt_leaves_the_best_model_so_far():
    def interrupt(row, model):
        if row["step_number"] == 2:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="interrupted after 2 steps"):
        model = plain(max_iter=9).set_callbacks(OnStep(interrupt)).fit(X, Y)
    assert (model.n_iter_, model.stop_reason_) == (2, "interrupted")
    np.testing.assert_array_equal(model.dictionary_, plain(max_iter=2).fit(X, Y).dictionary_)
    assert model.score(X_NEW, Y_NEW) > 0.7


def coding_calls(monkeypatch, before=lambda calls: None):
    """A list that gets the samples of each coding; ``before(calls)`` is called before it is done."""
    true, calls = rows_of_samples.code, []

    def code(samples, *arguments, **options):
        calls.append(samples.X)
        before(calls)
        return true(samples, *arguments, **options)

    monkeypatch.setattr(rows_of_samples, "code", code)
    return calls


@pytest.mark.parametrize(("early_stopping", "call"), [(False, 4), (EarlyStopping(0.3), 9)])
def test_an_interrupt_while_coding(monkeypatch, early_stopping, call):
    """Ctrl-C comes at any time; here within the line search."""

    def interrupt(calls):
        if len(calls) == call:
            raise KeyboardInterrupt

    coding_calls(monkeypatch, interrupt)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = plain(max_iter=9, early_stopping=early_stopping).fit(X, Y)
    assert model.stop_reason_ == "interrupted"
    assert model.transform(X_NEW).shape == (200, 9)
    assert len(model.history_["cost"]) == model.n_iter_ + 1


def test_an_interrupt_while_learning_from_all_keeps_the_model_of_the_part(monkeypatch):
    true = learning.first_dictionary
    calls = []

    def last_is_interrupted(setup, *arguments):
        if isinstance(setup.dictionary, str):  # it is learned, not given
            calls.append(1)
            if len(calls) == 4:
                raise KeyboardInterrupt
        return true(setup, *arguments)

    for module in (choosing, learning):
        monkeypatch.setattr(module, "first_dictionary", last_is_interrupted)
    model = plain(max_iter=2, early_stopping=EarlyStopping(0.3))
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model.fit(X, Y)
    assert model.transform(X_NEW).shape == (200, 9)
    assert len(calls) == 4  # of three parts, and of all


# ── a held-out part ───────────────────────────────────────────────────────────────────────────────────────────────────

SUPERVISED = [name for name in cases.CRITERIA if cases.CRITERIA[name].supervision != "none"]
KEPT = "joint learning does not help on held-out samples: the start is kept"
CLASSICAL = (
    "codes do not help on held-out samples: the classical method",
    "codes do not help on held-out samples: a wide metric of the samples",
)


@pytest.mark.parametrize("embedding", ["whitened", "orthonormal"])
@pytest.mark.parametrize("name", SUPERVISED)
@pytest.mark.slow
def test_the_best_held_out_step_is_chosen_or_the_start_is_kept(name, embedding):
    """What was learned from all samples is what so many steps give."""
    y = labels_for(name)
    model = small(name, 4, max_iter=4, embedding=embedding, early_stopping=EarlyStopping(0.25)).fit(X, y)
    scores = model.held_out_
    assert all(0.3 < score <= 1 for score in scores.values())
    assert model.best_iter_ == (4 if scores["end"] > scores["start"] else 0)
    assert (model.best_iter_ == 0) == (model.stop_reason_ in (KEPT, *CLASSICAL))
    assert model.embedding_.shape == (150, 4)
    np.testing.assert_allclose(model.embedding_, model.transform(X), atol=1e-8)
    if embedding == "orthonormal":
        again = plain(name, 4, max_iter=model.best_iter_).fit(X, y)
        np.testing.assert_array_equal(model.dictionary_, again.dictionary_)


def test_a_held_out_part_does_not_make_a_fit_impossible():
    """As many atoms as samples: there are fewer samples to choose the number of steps on."""
    rows = np.sort(np.r_[np.flatnonzero(Y == 0)[:8], np.flatnonzero(Y == 1)[:8]])
    model = small(n_atoms=16, early_stopping=EarlyStopping(0.25)).fit(X[rows], Y[rows])
    assert model.dictionary_.shape == (16, 64)
    assert len(model.history_["held_out"]) == model.n_iter_ + 1


def test_without_labels_all_steps_are_made():
    model = small("pca", 4, max_iter=2).fit(X)
    assert (model.n_iter_, model.best_iter_) == (2, 2)
    assert np.all(np.isnan(model.history_["held_out"]))


@pytest.mark.parametrize("name", ["mvr", "smvr"])
def test_real_targets_are_held_out_too(name):
    samples, targets = linear_data()
    if name == "smvr":
        targets[::5] = np.nan
    options = {"dictionary": np.eye(10), "prior": ElasticNet(0.01, 0.01), "normalize": False}
    model = plain(name, max_iter=3, early_stopping=EarlyStopping(0.25), **options).fit(samples, targets)
    scores = model.history_["held_out"]
    assert model.best_iter_ == np.argmax(scores)
    assert np.all((scores > 0.5) & (scores <= 1))


def test_steps_are_chosen_without_the_held_out_samples_and_the_model_is_made_of_all(monkeypatch):
    seen = coding_calls(monkeypatch)
    model = plain(max_iter=2, early_stopping=EarlyStopping(0.2), dictionary="samples").fit(X, Y)
    sizes = [len(samples) for samples in seen if len(samples) != 30]  # those held out are coded to be judged
    change = sizes.index(150)
    assert set(sizes[:change]) == {120}
    assert set(sizes[change:]) == {150}
    found = np.isclose(seen[0] @ UNIT.T, 1, atol=1e-12).any(axis=0)
    assert found.sum() == 120
    assert model.history_["nonzeros"].shape == (model.n_iter_ + 1,)
    assert small(max_iter=0, dictionary="samples", early_stopping=True).fit(X, Y).best_iter_ == 0


def test_held_out_scores_stand_in_the_history_and_are_the_same_again():
    model, twin = (plain(max_iter=5, early_stopping=EarlyStopping(0.3)).fit(X, Y) for _ in range(2))
    assert model.held_out_.keys() == {"start", "end"}
    scores = model.history_["held_out"]
    assert scores[0] == model.held_out_["start"]
    assert model.n_iter_ == 0 or scores[-1] == model.held_out_["end"]
    np.testing.assert_array_equal(model.dictionary_, twin.dictionary_)
