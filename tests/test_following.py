"""A fit that is followed, stopped, interrupted, gone on with, or watched on a held-out part."""

import re
import subprocess
import sys

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from sparlow import DictionaryLearner, TraceQuotient, views
from sparlow.estimators import sparlow as estimator
from sparlow.priors import ElasticNet
from tests import cases
from tests.digits import UNIT, X_NEW, Y_NEW, X, Y, labels_for, linear_data, small


def test_a_callback_sees_each_step_and_can_stop():
    rows = []

    def stop_at_two(row):
        rows.append(row)
        return row["step_number"] == 2

    model = small(max_iter=9, callback=stop_at_two).fit(X, Y)
    assert (model.n_iter_, model.stop_reason_) == (2, "stopped by callback")
    assert [row["step_number"] for row in rows] == [1, 2]
    assert rows[1]["cost"] == model.history_["cost"][2]
    np.testing.assert_array_equal(small(max_iter=2).fit(X, Y).dictionary_, model.dictionary_)


def test_verbose_prints_a_line_for_each_step(capsys):
    small(max_iter=2, verbose=1).fit(X, Y)
    lines = capsys.readouterr().out.splitlines()
    assert [re.match(r"\[SparLow\] step +(\d+)  J [\d.]+  f [\d.]+  nonzeros", line)[1] for line in lines] == ["1", "2"]
    small(max_iter=1, verbose=1, validation_fraction=0.2).fit(X, Y)
    assert re.search(r"held out 0\.\d{4}", capsys.readouterr().out)
    small(max_iter=1).fit(X, Y)
    assert not capsys.readouterr().out


def test_progress_bar_of_scikit_learn(capsys):
    callback = pytest.importorskip("sklearn.callback")
    model = small(max_iter=2).set_callbacks(callback.ProgressBar()).fit(X, Y)
    assert "SparLow" in capsys.readouterr().out
    np.testing.assert_array_equal(model.dictionary_, small(max_iter=2).fit(X, Y).dictionary_)


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
    model = small(name, max_iter=2, random_state=1).set_callbacks(monitor).fit(X, Y)
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


@pytest.mark.parametrize("validation_fraction", [None, 0.25])
def test_a_first_fit_is_the_same_with_and_without_warm_start(validation_fraction):
    """With a held-out part the model learned from the rest is no fit to go on from."""
    warm, cold = (small(warm_start=w, validation_fraction=validation_fraction).fit(X, Y) for w in (True, False))
    for attribute in ("dictionary_", "projection_", "embedding_"):
        np.testing.assert_array_equal(getattr(warm, attribute), getattr(cold, attribute))
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
    def interrupt(row):
        if row["step_number"] == 2:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="interrupted after 2 steps"):
        model = small(max_iter=9, callback=interrupt).fit(X, Y)
    assert (model.n_iter_, model.stop_reason_) == (2, "interrupted")
    np.testing.assert_array_equal(model.dictionary_, small(max_iter=2).fit(X, Y).dictionary_)
    assert model.score(X_NEW, Y_NEW) > 0.7


@pytest.mark.parametrize("validation_fraction", [None, 0.3])
def test_an_interrupt_while_coding(monkeypatch, validation_fraction):
    """Ctrl-C comes at any time; here within the line search."""
    true, count = views.encode, []

    def interrupted(*args, **options):
        count.append(1)
        if len(count) == 4:
            raise KeyboardInterrupt
        return true(*args, **options)

    monkeypatch.setattr(views, "encode", interrupted)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = small(max_iter=9, validation_fraction=validation_fraction).fit(X, Y)
    assert model.stop_reason_ == "interrupted"
    assert model.transform(X_NEW).shape == (200, 9)
    assert len(model.history_["cost"]) == model.n_iter_ + 1


def test_an_interrupt_while_learning_from_all_keeps_the_model_of_the_part(monkeypatch):
    true = estimator.first_dictionary
    calls = []

    def second_is_interrupted(self, *arguments):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return true(self, *arguments)

    monkeypatch.setattr(estimator, "first_dictionary", second_is_interrupted)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = small(max_iter=2, validation_fraction=0.3).fit(X, Y)
    assert model.transform(X_NEW).shape == (200, 9)
    calls.clear()
    model = small(max_iter=2, validation_fraction=0.3, callback=lambda row: True).fit(X, Y)
    assert (len(calls), model.stop_reason_) == (1, "stopped by callback")


# ── a held-out part ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", cases.CRITERIA)
def test_the_best_held_out_step_is_chosen(name):
    y = labels_for(name)
    model = small(name, 4, max_iter=4, validation_fraction=0.25, n_iter_no_change=9).fit(X, y)
    scores = model.history_["held_out"]
    assert np.all(np.isfinite(scores))
    assert model.best_iter_ == np.argmax(scores)
    assert model.embedding_.shape == (150, 4)
    np.testing.assert_allclose(model.embedding_, model.transform(X), atol=1e-8)


@pytest.mark.parametrize("name", ["mvr", "smvr"])
def test_real_targets_are_held_out_too(name):
    samples, targets = linear_data()
    if name == "smvr":
        targets[::5] = np.nan
    options = {"dictionary": np.eye(10), "prior": ElasticNet(0.01, 0.01), "normalize": False}
    model = small(name, max_iter=3, validation_fraction=0.25, normalize_embedding=False, **options)
    model.fit(samples, targets)
    scores = model.history_["held_out"]
    assert model.best_iter_ == np.argmax(scores)
    assert np.all((scores > 0.5) & (scores <= 1))


def test_steps_are_chosen_without_the_held_out_samples_and_the_model_is_made_of_all(monkeypatch):
    seen = []
    true = views.encode
    monkeypatch.setattr(views, "encode", lambda samples, *a, **o: seen.append(samples) or true(samples, *a, **o))
    model = small(max_iter=2, validation_fraction=0.2, dictionary="samples").fit(X, Y)
    sizes = [len(samples) for samples in seen if len(samples) != 30]  # those held out are coded to be judged
    change = sizes.index(150)
    assert set(sizes[:change]) == {120}
    assert set(sizes[change:]) == {150}
    found = np.isclose(seen[0] @ UNIT.T, 1, atol=1e-12).any(axis=0)
    assert found.sum() == 120
    assert model.history_["nonzeros"].shape == (model.n_iter_ + 1,)
    assert small(max_iter=0, dictionary="samples", validation_fraction=0.2).fit(X, Y).best_iter_ == 0


def test_learning_stops_when_the_held_out_score_no_longer_rises():
    model = small(max_iter=40, validation_fraction=0.3, n_iter_no_change=2).fit(X, Y)
    assert model.stop_reason_ == "held-out score no longer rises"
    assert model.n_iter_ == model.best_iter_ + 2
    twin = small(max_iter=40, validation_fraction=0.3, n_iter_no_change=2).fit(X, Y)
    np.testing.assert_array_equal(model.dictionary_, twin.dictionary_)
