"""Rows of the evidence: what is measured, that nothing is measured twice or lost, and what is made of it."""

import dataclasses
import io
import json
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import normalize

from evidence import __main__ as command
from evidence import charts, datasets
from evidence.__main__ import main
from evidence.contract import MethodOutput, NotApplicable
from evidence.defaults import default_prior
from evidence.methods import METHODS, copies
from evidence.models import Classical, Joint
from evidence.paper import EXPERIMENTS
from evidence.report import chapters, fill
from evidence.rows import (
    KEPT,
    RULES,
    RowFile,
    apply_method,
    measure,
    packed,
    predictions,
    row_file,
    run,
    tasks,
    unpacked,
)
from evidence.specification import Entry, Experiment, Setting, Size
from evidence.splits import draw
from evidence.tables import TABLES, Table, gather
from sparlow import SparLow
from sparlow.solvers import Solver
from tests import cases

DIGITS = Setting("digits", train=150, test=80)


def experiment(*entries, kind="table", measures=("1nn",), name="table9", seeds=1):
    return Experiment(name, "a trial", kind, entries, Size(seeds), Size(1), measures)


# ── settings ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_draws_are_the_same_for_the_same_seed_and_apart():
    first, again, other = (draw(DIGITS, seed) for seed in (0, 0, 1))
    assert np.array_equal(first.X, again.X)
    assert not np.array_equal(first.rows, other.rows)
    assert not np.intersect1d(first.rows, first.test_rows).size
    np.testing.assert_allclose(np.linalg.norm(first.X, axis=1), 1)
    assert (len(first.y), len(first.y_test), first.shape) == (150, 80, (8, 8))


def test_labels_are_kept_for_so_many_of_each_class():
    samples = draw(Setting("digits", labels=3), 0)
    assert np.all(np.unique(samples.y[samples.y != -1], return_counts=True)[1] == 3)
    truth = load_digits().target[samples.rows]
    assert np.array_equal(samples.y[samples.y != -1], truth[samples.y != -1])
    assert (samples.y_test != -1).all()


def test_some_classes_only():
    samples = draw(Setting("digits", per_class=20, classes=(3, 5)), 0)
    assert np.unique(samples.y).tolist() == np.unique(samples.y_test).tolist() == [3, 5]
    assert len(samples.y) == 40


# ── methods ─────────────────────────────────────────────────────────────────────────────────────────────────────────


SETTINGS = {
    "all labels": Setting("digits", test=60),
    "few labels": Setting("digits", labels=3, test=60),
    "transductive": Setting("digits", labels=3, transductive=True, test=60),
}
TUNED = {"tune": {"n_components": [2, 4]}}
SMALL_MODEL = {"n_atoms": 20, "max_iter": 2}
BLIND = [
    ("PCA", "all labels", TUNED),
    ("LDA", "all labels", {}),
    ("LDA-SparLow", "all labels", {**SMALL_MODEL, "tune": {"shrinkage": [0.1, 1.0]}}),
    ("LC-KSVD", "all labels", {"n_atoms": 20, "alpha": 0.1, "n_nonzero": 5}),
    ("LGC", "few labels", {"n_neighbors": 7, "alpha": 0.2}),
    ("scattering + LGC", "few labels", {"n_neighbors": 7, "alpha": 0.2}),
    ("local SDA-SparLow", "few labels", {"n_atoms": 20}),
    ("present LDA-SparLow decision", "all labels", SMALL_MODEL),
    ("SDA-SparLow", "few labels", {**SMALL_MODEL, "spread": True}),
    ("LapRLS", "transductive", {"width": 1.0, "gamma_A": 1e-3, "gamma_I": 1.0}),
    ("SDA-SparLow", "transductive", SMALL_MODEL),
]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "setting", "options"), BLIND, ids=lambda word: str(word) if word else "")
def test_test_labels_change_no_prediction(method, setting, options, monkeypatch):
    """Labels of the test part are shuffled in the image set itself, before anything is drawn from it."""
    X, y = load_digits(return_X_y=True)
    poisoned = np.concatenate([y[:150], np.random.default_rng(0).permutation(y[150:300])])
    one = experiment(Entry(method, SETTINGS[setting], options), kind="traces", measures=("1nn", "svm"))
    (task,) = tasks(one, one.full)
    found, rows, seen = [], [], []
    for labels in (y[:300], poisoned):
        data = datasets.Dataset("digits", X[:300] / 16, labels, (8, 8), 150)
        monkeypatch.setattr(datasets, "loaded", lambda name, folder, data=data: data)
        split = draw(task.entry.setting, 0)
        steps = []
        output = apply_method(task, split, lambda Z, y, Z_test, steps=steps: steps.append(Z_test))
        found.append(predictions(task, split, output))
        seen.append(steps)
        rows.append(measure(task))
    honest, blind = found
    assert set(honest) == set(blind) == ({"own"} if "own" in honest else {"1nn", "svm"})
    for name, predicted in honest.items():
        np.testing.assert_array_equal(predicted, blind[name])
    np.testing.assert_array_equal(*seen)
    # the labels were others: what is compared with them is worse
    assert all(rows[1]["accuracy"][name] < rows[0]["accuracy"][name] - 10 for name in honest), rows
    assert rows[0]["parameters"] == rows[1]["parameters"]


def test_candidates_that_fail_on_a_fold_are_told_in_the_row():
    one = experiment(Entry("PCA", DIGITS, {"tune": {"n_components": [2, 60, 110]}}))
    row = measure(tasks(one, one.full)[0])
    assert row["status"] == "done"
    (said,) = row["warnings"]
    assert re.search(r"1 of 3 candidates for PCA .*'n_components': 110", said)


def as_measured(criterion, **options):
    """The model of the committed rows, whose embeddings are then scaled to unit norm; digits are images."""
    options = {"prior": default_prior(draw(DIGITS, 0).X, False, 1.0), "solver": Solver(mu_proximity=0.0), **options}
    return SparLow(criterion, embedding="orthonormal", early_stopping=False, random_state=0, **options)


def test_trace_is_what_fits_with_so_many_steps_give():
    one = experiment(Entry("LDA-SparLow", DIGITS, {"n_atoms": 30, "max_iter": 3}), kind="traces")
    (task,) = tasks(one, one.full)
    row = measure(task)
    samples = draw(DIGITS, 0)
    expected = []
    for steps in range(4):
        model = as_measured("lda", n_atoms=30, max_iter=steps).fit(samples.X, samples.y)
        neighbour = KNeighborsClassifier(1).fit(normalize(model.embedding_), samples.y)
        expected.append(100 * neighbour.score(normalize(model.transform(samples.X_test)), samples.y_test))
    np.testing.assert_allclose(row["trace"], expected, atol=1.3)  # one of eighty images
    assert row["accuracy"]["1nn"] == row["trace"][-1]


def test_sequential_methods_take_no_step_and_tuning_chooses_among_priors():
    tune = {"prior": [[5.0, 0.1], [0.05, 0.1]], "normalize_embedding": [True]}
    one = experiment(Entry("SparPCA", DIGITS, {"n_atoms": 30, "n_components": 8, "tune": tune}))
    row = measure(tasks(one, one.full)[0])
    assert (row["parameters"]["n_iter"], row["parameters"]["n_atoms"]) == (0, 30)
    assert row["parameters"]["normalize_embedding"] is True
    assert row["parameters"]["prior"].startswith("ElasticNet(l1=0.05")
    assert row["dimension"] == 8


def test_copies_are_moved_and_what_moves_in_is_black():
    image = np.zeros((1, 9))
    image[0, 4] = 1.0
    X = np.concatenate(list(copies(image, (3, 3), 1)))
    np.testing.assert_array_equal(X[0], image[0])
    assert sorted(np.argmax(X, axis=1)) == list(range(9))
    edge = np.zeros((1, 9))
    edge[0, [0, 4]] = 1.0
    X = np.concatenate(list(copies(edge, (3, 3), 1)))
    assert sorted(np.count_nonzero(X, axis=1)) == [1, 1, 1, 1, 1, 2, 2, 2, 2]
    np.testing.assert_allclose(np.linalg.norm(X[1:], axis=1), 1)
    assert len(list(copies(image, None, 0))) == 1
    with pytest.raises(NotApplicable, match="one shape"):
        list(copies(image, None, 1))


@pytest.mark.slow
def test_shifted_rows_learn_from_copies_and_average_over_copies():
    options = {"n_atoms": 30, "max_iter": 1, "n_components": 2}
    made = {}
    for extra in ({}, {"averaged": 1}, {"shifts": 1}):
        one = experiment(Entry("LDA-SparLow", DIGITS, {**options, **extra}), kind="clouds")
        row = measure(tasks(one, one.full)[0])
        assert row["status"] == "done", row
        made[tuple(extra)] = {name: unpacked(array) for name, array in row["arrays"].items()}
    plain, averaged, shifted = made.values()
    np.testing.assert_array_equal(plain["train"], averaged["train"])
    samples = draw(DIGITS, 0)
    model = as_measured("lda", **options).fit(samples.X, samples.y)
    mean = sum(normalize(model.transform(copy)) for copy in copies(samples.X_test, samples.shape, 1))
    np.testing.assert_allclose(averaged["test"], normalize(mean), atol=1e-3)  # rows are kept in half precision
    assert len(shifted["train"]) == len(shifted["y"]) == 9 * len(plain["train"])


def test_rows_of_spread_labels_use_all_training_samples_and_say_so():
    few, options = dataclasses.replace(DIGITS, labels=3), {"n_atoms": 30, "max_iter": 1}
    one = experiment(Entry("SDA-SparLow", few, {**options, "spread": True}))
    row = measure(tasks(one, one.full)[0])
    assert (row["status"], row["options"]) == ("done", {**options, "spread": True})
    samples = draw(few, 0)
    model = as_measured("sda", **options).fit(samples.X, samples.y)
    train, test = normalize(model.embedding_), normalize(model.transform(samples.X_test))
    expected = 100 * KNeighborsClassifier(1).fit(train, model.transduction_).score(test, samples.y_test)
    assert row["accuracy"]["1nn"] == pytest.approx(expected, abs=1e-3)
    known = samples.y >= 0
    without = 100 * KNeighborsClassifier(1).fit(train[known], samples.y[known]).score(test, samples.y_test)
    assert abs(expected - without) > 0.1  # or this would tell nothing


def test_landmarks_are_named_in_the_note():
    one = experiment(Entry("KPCA", DIGITS, {"n_components": 5, "landmarks": 60}))
    row = measure(tasks(one, one.full)[0])
    assert row["status"] == "done"
    assert "fitted on 60 training samples" in row["note"]


@pytest.mark.parametrize("method", ["LDA", "SLap-SparLow"])
def test_one_label_per_class_is_a_row_with_its_reason(method):
    one = experiment(Entry(method, Setting("digits", labels=1, train=100, test=50)))
    row = measure(tasks(one, one.full)[0])
    assert row["status"] == "not applicable"
    assert "one label per class" in row["reason"]


def test_one_label_per_class_is_enough_for_sda():
    one = experiment(Entry("SDA-SparLow", Setting("digits", labels=1, test=200), {"n_atoms": 60, "max_iter": 2}))
    row = measure(tasks(one, one.full)[0])
    assert row["accuracy"]["1nn"] > 60


def test_sparlow_that_decides_has_the_predictions_of_the_library():
    one = experiment(Entry("present LDA-SparLow decision", DIGITS, SMALL_MODEL), measures=("1nn", "svm"))
    (task,) = tasks(one, one.full)
    split = draw(DIGITS, 0)
    found = predictions(task, split, apply_method(task, split))
    assert set(found) == {"own"}
    model = SparLow("lda", **SMALL_MODEL, random_state=0).fit(split.X, split.y)
    np.testing.assert_array_equal(found["own"], model.predict(split.X_test))


# ── rows ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_rows_survive_half_a_line_and_the_last_of_a_key_counts(tmp_path):
    file = RowFile(tmp_path / "deep" / "rows.jsonl")
    assert file.read() == []
    file.append({"key": "a", "value": 1})
    file.append({"key": "b", "value": 2})
    with open(file.path, "ab") as out:
        out.write(b'{"key": "c", "val')
    assert [row["key"] for row in file.read()] == ["a", "b"]
    file.append({"key": "a", "value": 3})
    assert {row["key"]: row["value"] for row in file.read()} == {"a": 3, "b": 2}
    assert len(file.path.read_text().splitlines()) == 3
    file.path.write_text('{"key": "a"}\nnonsense\n')
    with pytest.raises(ValueError, match=r"Line 2 of .*rows.jsonl is no row"):
        file.read()


@pytest.mark.parametrize(
    "array", [np.linspace(-3, 5, 12).reshape(3, 4), np.arange(6, dtype=np.uint8).reshape(2, 3), np.array([-5, 70_000])]
)
def test_arrays_in_rows(array):
    back = unpacked(json.loads(json.dumps(packed(array))))
    assert back.shape == array.shape
    np.testing.assert_allclose(back, array, atol=0 if array.dtype.kind in "iu" else 8 / 65535)


def test_keys_follow_what_is_measured_and_nothing_else():
    entry = Entry("PCA", DIGITS, {"n_components": 5}, {"1nn": 90.0})
    renamed = dataclasses.replace(entry, label="other", printed={}, panel="p", x=3)
    assert entry.key(0) == renamed.key(0) == Entry("PCA", DIGITS, {"n_components": 5}).key(0)
    others = [
        dataclasses.replace(entry, options={"n_components": 6}),
        dataclasses.replace(entry, setting=Setting("digits")),
        dataclasses.replace(entry, method="KPCA"),
    ]
    assert len({entry.key(0), entry.key(1), *(other.key(0) for other in others)}) == 5


def test_one_seed_where_nothing_is_left_to_chance():
    usps, mnist = Setting("usps"), Setting("mnist", train=100)
    entries = (Entry("PCA", usps), Entry("PCA", mnist), Entry("LDA-SparLow", usps))
    found = tasks(experiment(*entries, seeds=3), Size(3))
    assert [(task.entry.method, task.entry.setting.data, task.seed) for task in found] == [
        ("PCA", "usps", 0),
        ("PCA", "mnist", 0),
        ("LDA-SparLow", "usps", 0),
        ("PCA", "mnist", 1),
        ("LDA-SparLow", "usps", 1),
        ("PCA", "mnist", 2),
        ("LDA-SparLow", "usps", 2),
    ]


class Counted:
    """A method that counts its calls, and goes wrong at one of them."""

    def __init__(self, wrong_at=None, error=KeyboardInterrupt):
        self.calls, self.wrong_at, self.error = 0, wrong_at, error

    def __call__(self, given):
        self.calls += 1
        if self.calls == self.wrong_at:
            raise self.error
        return MethodOutput(given.X[:, :20], given.X_test[:, :20])


def test_a_run_that_was_stopped_goes_on(tmp_path, monkeypatch):
    one = experiment(Entry("counted", DIGITS), seeds=4)
    work = tasks(one, one.full)
    first = Counted(wrong_at=3)
    monkeypatch.setitem(METHODS, "counted", first)
    with pytest.raises(KeyboardInterrupt):
        run(work, tmp_path)
    assert [row["seed"] for row in row_file(one, tmp_path).read()] == [0, 1]
    second = Counted()
    monkeypatch.setitem(METHODS, "counted", second)
    assert run(work, tmp_path) == 0
    assert second.calls == 2
    assert sorted(row["seed"] for row in row_file(one, tmp_path).read()) == [0, 1, 2, 3]
    assert run(work, tmp_path) == 0
    assert second.calls == 2
    run(work[:1], tmp_path, again=True)
    assert second.calls == 3


def test_two_runs_at_the_same_time_share_the_rows(tmp_path, monkeypatch):
    """The second run begins while the first measures its first row."""
    one = experiment(Entry("nested", DIGITS), seeds=3)
    work = tasks(one, one.full)
    measured, told = [], {"first": [], "second": []}

    def note(name):
        return lambda row, task: told[name].append((task.seed, row is not None))

    def nested(given):
        measured.append(given.seed)
        if len(measured) == 1:
            assert run(work, tmp_path, report=note("second")) == 0
        return MethodOutput(given.X, given.X_test)

    monkeypatch.setitem(METHODS, "nested", nested)
    assert run(work, tmp_path, report=note("first")) == 0
    assert sorted(measured) == [0, 1, 2]
    assert told["second"] == [(0, False), (1, True), (2, True)]
    assert told["first"] == [(0, True), (1, False), (2, False)]
    assert sorted(row["seed"] for row in row_file(one, tmp_path).read()) == [0, 1, 2]
    assert run(work, tmp_path, report=note("first")) == 0
    assert len(told["first"]) == 3


@pytest.mark.slow
def test_the_claim_of_a_killed_run_is_free(tmp_path):
    file = RowFile(tmp_path / "rows.jsonl")
    code = """
import os, sys
from evidence.rows import RowFile
with RowFile(sys.argv[1]).claim("a") as mine:
    os._exit(mine)
"""
    assert subprocess.run([sys.executable, "-c", code, str(file.path)], cwd=cases.ROOT).returncode == 1  # it had it
    with file.claim("a") as mine, file.claim("a") as twice, file.claim("b") as other:
        assert (mine, twice, other) == (True, False, True)
    with file.claim("a") as again:
        assert again


def test_what_fails_is_a_row_and_is_tried_again(tmp_path, monkeypatch):
    one = experiment(Entry("counted", DIGITS), seeds=2)
    monkeypatch.setitem(METHODS, "counted", Counted(wrong_at=1, error=RuntimeError("no luck")))
    assert run(tasks(one, one.full), tmp_path) == 1
    rows = row_file(one, tmp_path).read()
    assert [row["status"] for row in rows] == ["failed", "done"]
    assert rows[0]["reason"].startswith("RuntimeError: no luck (test_evidence_rows.py")
    monkeypatch.setitem(METHODS, "counted", Counted())
    seen = []
    assert run(tasks(one, one.full), tmp_path, report=lambda row, task: seen.append(task.seed)) == 0
    assert seen == [0]


def test_an_interrupted_fit_makes_no_row(tmp_path, monkeypatch):
    def interrupted(self, X, y):
        self.stop_reason_, self.embedding_ = "interrupted", np.zeros((len(X), 2))
        return self

    monkeypatch.setattr(SparLow, "fit", interrupted)
    one = experiment(Entry("LDA-SparLow", DIGITS))
    with pytest.raises(KeyboardInterrupt):
        run(tasks(one, one.full), tmp_path)
    assert row_file(one, tmp_path).read() == []


def test_an_interrupted_reproduction_says_what_is_kept_and_how_to_go_on(tmp_path, monkeypatch, capsys):
    def fit(self, X, y):
        self.stop_reason_, self.embedding_ = "interrupted", np.zeros((len(X), 2))
        return self

    monkeypatch.setattr(SparLow, "fit", fit)
    words = [
        "run",
        "table1",
        "--on",
        "digits",
        "--quick",
        "-o",
        str(tmp_path),
        "--methods",
        "raw pixels",
        "Lap-SparLow",
    ]
    assert main(words) == 130
    said = capsys.readouterr().err
    assert f"1 of 2 rows are kept in {tmp_path}" in said
    assert "the same command goes on" in said


def test_rows_say_what_was_measured(tmp_path):
    one = experiment(Entry("PCA", DIGITS, {"n_components": 10}), measures=("1nn", "svm"))
    run(tasks(one, one.full, threads=1), tmp_path)
    (row,) = row_file(one, tmp_path).read()
    samples = draw(DIGITS, 0)
    pca = PCA(10, random_state=0).fit(samples.X)
    nearest = KNeighborsClassifier(1).fit(pca.transform(samples.X), samples.y)
    assert row["accuracy"]["1nn"] == pytest.approx(100 * nearest.score(pca.transform(samples.X_test), samples.y_test))
    weights = np.bincount(samples.y_test)
    assert np.average(row["per_class"]["1nn"], weights=weights) == pytest.approx(row["accuracy"]["1nn"], abs=0.01)
    assert row["accuracy"]["svm"] > 80
    assert row["experiment"] == "table9"
    assert row["setting"] == {"data": "digits", "train": 150, "test": 80, "features": "pixels"}
    assert (row["n_train"], row["n_test"], row["dimension"]) == (150, 80, 10)
    assert {"tuning", "fit"} <= set(row["seconds"])
    assert 10 < row["peak_memory_mb"] < 50_000
    assert set(row["versions"]) >= {"sparlow", "numpy", "scipy", "scikit-learn", "python"}


@pytest.mark.slow
def test_rows_at_the_same_time_are_the_same(tmp_path):
    one = experiment(Entry("PCA", DIGITS, {"n_components": 10}), Entry("raw pixels", DIGITS), seeds=2)
    for folder, jobs in (("one", 1), ("two", -1)):  # all cores
        assert run(tasks(one, one.full, threads=1), tmp_path / folder, jobs=jobs) == 0
    alone, together = (
        {row["key"]: row["accuracy"] for row in row_file(one, tmp_path / folder).read()} for folder in ("one", "two")
    )
    assert alone == together
    assert len(alone) == 4


# ── reports ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def made_row(entry, seed, **content):
    return {"key": entry.key(seed), "seed": seed, "method": entry.method, "status": "done", **content}


def test_tables_show_means_deviations_and_differences(tmp_path):
    entries = (
        Entry("PCA", DIGITS, {}, {"1nn": 90.0, "svm": 91.0}),
        Entry("LDA", DIGITS, {}, {"1nn": 80.0}),
        Entry("LGC", DIGITS, {}, {"own": 70.0}),
    )
    one = experiment(*entries, measures=("1nn", "svm"), seeds=2)
    file = row_file(one, tmp_path)
    for seed, value in ((0, 92.0), (1, 94.0)):
        file.append(made_row(entries[0], seed, accuracy={"1nn": value, "svm": value + 1}, rules=RULES))
        file.append({**made_row(entries[1], seed), "status": "not applicable", "reason": "no scatter"})
    file.append(made_row(entries[2], 0, accuracy={"own": 71.25}, note="by neighbours"))
    (chapter,) = chapters([one], tmp_path, lambda e: e.full)
    assert chapter.picture is None
    assert chapter.table.head == ("method", "1NN", "printed", "difference", "SVM", "printed", "difference")
    assert chapter.table.rows == (
        ("PCA", "**93.00 ± 1.41**", "90", "+3.0", "**94.00 ± 1.41**", "91", "+3.0"),
        ("LDA", "not applicable", "80", "", "not applicable", "", ""),
        ("LGC", "71.25 (own), 1 seed", "70", "+1.2", "–", "", ""),
    )
    assert "LDA: no scatter." in chapter.table.notes
    assert "LGC: by neighbours." in chapter.table.notes
    assert "5 of 6 rows so far." in chapter.table.notes


def test_a_table_of_means_over_classes_has_them_in_all_columns(tmp_path):
    entry = Entry("PCA", DIGITS, {}, {"1nn": 60.0})
    one = dataclasses.replace(experiment(entry, measures=("1nn", "svm")), mean_over_classes=True)
    shares = {"1nn": [100.0, 40.0], "svm": [100.0, 0.0]}
    row = made_row(entry, 0, accuracy={"1nn": 90.0, "svm": 95.0}, per_class=shares, rules=RULES)
    row_file(one, tmp_path).append(row)
    (chapter,) = chapters([one], tmp_path, lambda e: e.full)
    assert chapter.table.rows[0][1:5] == ("**70.00**", "60", "+10.0", "**50.00**")
    row_file(one, tmp_path).append({**row, "rules": {}})
    (before,) = chapters([one], tmp_path, lambda e: e.full)
    assert before.table.rows[0][4] == "**50.00†**"


def test_traces_are_tabled_by_start_end_and_best_step(tmp_path):
    entry = Entry("LDA-SparLow", DIGITS, {}, {"first": 95.0, "1nn": 97.0})
    one = experiment(entry, kind="traces", seeds=2, name="fig9z")
    file = row_file(one, tmp_path)
    file.append(made_row(entry, 0, trace=[94.0, 98.0, 96.0], accuracy={"1nn": 96.0}))
    file.append(made_row(entry, 1, trace=[96.0, 97.0], accuracy={"1nn": 97.0}))
    (result,) = gather(one, one.full, tmp_path)
    assert result.traces().tolist() == [[94, 98, 96], [96, 97, 97]]
    (chapter,) = chapters([one], tmp_path, lambda e: e.full)
    row = dict(zip(chapter.table.head, chapter.table.rows[0], strict=True))
    assert chapter.table.rows[0][1:5] == ("95.00 ± 1.41", "95", "96.50 ± 0.71", "97")
    assert (row["best step"], row["there"], row["steps"], row["difference"]) == ("1", "97.50", "2", "-0.5")
    assert chapter.picture.stat().st_size > 5000


def test_what_failed_is_called_so_and_is_missing(tmp_path):
    entries = (Entry("PCA", DIGITS), Entry("LDA", DIGITS))
    one = experiment(*entries)
    row_file(one, tmp_path).append(made_row(entries[0], 0, accuracy={"1nn": 92.0}))
    row_file(one, tmp_path).append({**made_row(entries[1], 0), "status": "failed", "reason": "MemoryError: too much"})
    (chapter,) = chapters([one], tmp_path, lambda e: e.full)
    assert chapter.table.rows == (("PCA", "**92.00**"), ("LDA", "failed"))
    assert chapter.table.notes == ("LDA: MemoryError: too much.", "1 of 2 rows so far.")


def test_documents_are_filled_between_their_marks(tmp_path):
    entry = Entry("PCA", DIGITS, {}, {"1nn": 90.0})
    one = experiment(entry)
    row_file(one, tmp_path).append(made_row(entry, 0, accuracy={"1nn": 91.0}))
    found = chapters([one], tmp_path, lambda e: e.full)
    page = tmp_path / "page.md"
    page.write_text("# Mine\n\n<!-- table9 -->\nold\n<!-- end table9 -->\n\nmy words\n")
    assert fill(page, found, {"claims": "nothing"}) == []
    once = page.read_text()
    assert "old" not in once
    assert once.startswith("# Mine")
    assert once.endswith("my words\n")
    assert "| PCA | **91.00** | 90 | +1.0 |" in once
    fill(page, found)
    assert page.read_text() == once
    page.write_text("nothing here")
    (own,) = fill(page, found)
    assert own == tmp_path / "page" / "table9.md"
    assert re.search(r"# Table 9: a trial.*\*\*91.00\*\*", own.read_text(), re.DOTALL)


def test_tables_are_written_for_other_programs():
    table = Table(("method", "1NN"), (("raw & plain", "**91.00 ± 0.10**"), ("50 %", "–")), ("A note.",))
    frame = pd.read_csv(io.StringIO(table.csv()))
    assert frame.to_numpy().tolist() == [["raw & plain", "91.00 ± 0.10"], ["50 %", "–"]]
    lines = table.latex().splitlines()
    assert r"raw \& plain & \textbf{91.00 $\pm$ 0.10} \\" in lines
    assert lines[-1] == "% A note."


TINY = {"n_atoms": 30, "max_iter": 1, "n_components": 3, "tune": {}}
SMALL = Setting("digits", train=100, test=40)


def tiny(one):
    """Every kind of entry of an experiment, as little of it as shows the way."""
    methods = {"table1": ("PCA", "ISOMAP", "PCA-SparLow"), "fig5c": ("LDA", "LGC", "SDA-SparLow")}.get(one.name)
    entries = tuple(e for e in one.entries if methods is None or e.method in methods)
    setting = {"train": 100, "test": 40, "per_class": None} if one.kind not in ("clouds", "thumbnails") else {}
    options = TINY if one.kind != "thumbnails" else {**TINY, "n_components": 2}
    points = {"fig2b": (0.0, 1.0), "fig5a": (4, 1), "fig5c": (1, 4)}.get(one.name, ())
    size = Size(2 if one.kind == "boxes" else 1, 1, setting, options, points)
    return dataclasses.replace(one, entries=entries, quick=size)


CHOSEN = ["table1", "fig2a", "fig2b", "fig3", "fig5a", "fig5c", "fig7", "fig8", "fig9", "fig10"]


@pytest.mark.slow
def test_a_small_reproduction_makes_every_table_and_figure(tmp_path, monkeypatch, capsys):
    small = tuple(tiny(one) for one in EXPERIMENTS if one.name in CHOSEN)
    assert {one.kind for one in small} == set(TABLES)
    assert set(KEPT) <= set(TABLES)
    monkeypatch.setattr(command, "EXPERIMENTS", small)
    words = ["--quick", "--on", "digits", "--output", str(tmp_path)]
    assert main(["list", *words]) == 0
    assert re.search(r"fig2b +0 of 8 .* digits", capsys.readouterr().out)
    assert main(["run", *words]) == 0
    said = capsys.readouterr()
    assert re.search(r"\[1 of \d+, .* left\] table1 digits PCA, seed 0: 1nn \d+", said.err)
    assert "report.md" in said.out
    assert {path.stem for path in (tmp_path / "figures").glob("*.png")} == set(CHOSEN) - {"table1"}
    text = (tmp_path / "report.md").read_text()
    assert all(f"figures/{name}.png" in text for name in CHOSEN if name != "table1")
    assert "## Table 1: " in text
    assert "not applicable" in text
    assert "rows so far" not in text
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.jsonl")}
    assert main(["report", *words]) == 0
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.jsonl")} == before


def test_missing_data_is_named_before_anything_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SPARLOW_DATA", str(tmp_path))
    assert main(["run", "fig9", "--output", str(tmp_path / "rows")]) == 2
    assert re.search(r"What needs pie is left out.*Deng Cai", capsys.readouterr().err)
    assert main(["list", "fig9"]) == 0
    assert "pie (missing)" in capsys.readouterr().out
    assert main(["run", "fig99"]) == 2


def test_a_method_has_one_colour_in_all_panels():
    first, second = charts.Series("a", [1, 2], [90, 91]), charts.Series("b", [1, 2], [80, 81], printed=[82, 83])
    figure = charts.lines({"left": [first, second], "right": [second]}, ("x", "accuracy"))
    left, right = (dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True)) for ax in figure.axes)
    assert left["b"].lines[0].get_color() == right["b"].lines[0].get_color() != left["a"].lines[0].get_color()
    assert set(right) == {"b", "printed"}
    many = [charts.Series(f"method {place}", [1, 2], [place, place]) for place in range(20)]
    (ax,) = charts.lines({"": many}, ("x", "accuracy")).axes
    drawn = [one.lines[0] for one in ax.containers]
    assert (
        len({(line.get_color(), line.get_marker()) for line in drawn})
        == len({line.get_color() for line in drawn})
        == 20
    )


def test_a_rival_among_traces_shows_its_end(tmp_path):
    one = experiment(Entry("raw pixels", DIGITS, {"shifts": 1}), kind="traces")
    run(tasks(one, one.full), tmp_path)
    result = gather(one, one.full, tmp_path)
    (row,) = TABLES["traces"](one, result).rows
    assert f"{result[0].values()[0]:.2f}" in row


@pytest.mark.parametrize("name", ["shrinkage", "mu_coherence", "mu_proximity", "tol", "refresh_every", "solver"])
def test_words_of_the_rows_reach_the_library(name):
    """Every option of the committed rows has its place among the parameters of the library."""
    values = {"shrinkage": 0.7, "mu_coherence": 0.2, "mu_proximity": 3.0, "tol": 1e-3, "refresh_every": 4}
    value = values.get(name, "joint")
    samples = draw(DIGITS, 0)
    model = Joint("mfa", **{name: value}).translated(samples.X, samples.y)
    assert (model.embedding, model.early_stopping) == ("orthonormal", False)
    place = {"shrinkage": "criterion__shrinkage", "solver": "solver__method"}.get(name, f"solver__{name}")
    assert model.get_params()[place] == value
    if name == "shrinkage":
        assert Classical("lap", shrinkage=0.7).translated(samples.X, None).criterion.shrinkage == 0.7


def test_embeddings_of_rows_are_centred_and_of_unit_norm_where_they_are_to_be():
    samples = draw(DIGITS, 0)
    options = {"n_atoms": 30, "max_iter": 1, "random_state": 0}
    plain = Joint("lda", normalize_embedding=False, **options).fit(samples.X, samples.y)
    np.testing.assert_allclose(plain.embedding_.mean(axis=0), 0, atol=1e-9)
    scaled = Joint("lda", **options).fit(samples.X, samples.y)
    np.testing.assert_allclose(scaled.embedding_, normalize(plain.embedding_), atol=1e-12)
    np.testing.assert_allclose(scaled.transform(samples.X_test), normalize(plain.transform(samples.X_test)), atol=1e-12)
    one = Joint("lda", 1, **options).fit(samples.X, samples.y)
    assert len(np.unique(np.round(one.embedding_, 6))) > 10  # one number keeps more than its sign
