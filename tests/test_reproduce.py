"""``sparlow reproduce``, and settings that begin with pictures or learn from test samples too."""

import importlib
import io
import json
import re
import sys
import zipfile

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import FunctionTransformer

from sparlow import datasets
from sparlow.app import main
from sparlow.app.terminal import Terminal
from sparlow.datasets import sources
from sparlow.experiments import EXPERIMENTS, Entry, Experiment, Setting, Size, pictures, splits
from sparlow.experiments.methods import Problem, of_estimator
from sparlow.experiments.results import _best, along, gather, listed
from sparlow.experiments.splits import draw
from tests.cases import stripes

RUN = importlib.import_module("sparlow.experiments.run")  # the room; its function has the same name
SMALL = ["--quick", "--on", "digits"]


def reproduce(capsys, *words):
    """Exit code, JSON on stdout, text on stderr."""
    code = main(["reproduce", *map(str, words), "--json"])
    said = capsys.readouterr()
    return code, json.loads(said.out) if said.out else None, said.err


# ── the command ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_list_names_every_experiment_its_rows_and_its_data(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("SPARLOW_DATA", str(tmp_path))
    code, told, said = reproduce(capsys, "--list", "-o", tmp_path)
    assert (code, said) == (0, "")
    assert [row["name"] for row in told["experiments"]] == [one.name for one in EXPERIMENTS]
    table1 = told["experiments"][0]
    assert table1["data"] == "usps (missing), mnist (missing)"
    assert re.fullmatch(r"0 of \d+", table1["rows"])
    assert main(["reproduce", "--list", "-o", str(tmp_path), *SMALL]) == 0
    assert "missing" not in capsys.readouterr().out
    monkeypatch.setattr(Terminal, "note", lambda self, text: print(text, file=sys.stderr))  # as on a terminal
    assert main(["reproduce", "--list", "-o", str(tmp_path)]) == 0
    said = capsys.readouterr().err
    assert said == f"Rows are counted in {tmp_path}, which --output names; image sets in {tmp_path}.\n"
    monkeypatch.delenv("SPARLOW_DATA")
    assert main(["reproduce", "--list", "-o", str(tmp_path)]) == 0
    assert "no folder of image sets is set (--data or SPARLOW_DATA)" in capsys.readouterr().err


def test_lines_are_tabled_panel_by_panel(tmp_path):
    many, few = Setting("digits", train=150), Setting("digits", train=50)
    entries = [
        Entry(method, setting, {"n_components": x}, {"1nn": 90.0} if setting is many else {}, x=x, panel=panel)
        for x in (2, 4)
        for method in ("PCA", "LDA")
        for setting, panel in ((many, "many"), (few, "few"))
    ]
    one = Experiment("fig9z", "a trial", "lines", tuple(entries), Size(1), axes=("dimension l", "accuracy (%)"))
    for place, entry in enumerate(entries):
        row = {"key": entry.key(0), "seed": 0, "method": entry.method, "status": "done", "accuracy": {"1nn": place}}
        RUN.row_file(one, tmp_path).append(row)
    table = along(one, gather(one, one.full, tmp_path))
    assert table.head == ("", "dimension l", "2", "4")
    assert table.rows == (
        ("many", "PCA", "0.00 (90)", "4.00 (90)"),
        ("many", "LDA", "2.00 (90)", "6.00 (90)"),
        ("few", "PCA", "1.00", "5.00"),
        ("few", "LDA", "3.00", "7.00"),
    )


def test_rows_of_other_sets_and_sizes_have_folders_of_their_own(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words, folder in (((), "results"), (("--quick",), "results-quick"), (SMALL, "results-quick-digits")):
        code, _, said = reproduce(capsys, "--report", *words)
        assert (code, f"{folder} has no rows to report on" in said) == (1, True)


def test_pictures_alone_have_no_table(tmp_path):
    entry = Entry("PCA-SparLow", Setting("digits"))
    one = Experiment("fig9z", "a trial", "thumbnails", (entry,), Size(1), measures=())
    row = {"key": entry.key(0), "seed": 0, "method": entry.method, "status": "done", "note": "a word"}
    RUN.row_file(one, tmp_path).append(row)
    table = listed(one, gather(one, one.full, tmp_path))
    assert (table.rows, table.markdown()) == ((), "PCA-SparLow: a word.")


def test_rows_are_measured_once_and_reported_as_one_page(tmp_path, capsys, monkeypatch):
    document = tmp_path / "page.md"
    document.write_text("# Mine\n\n<!-- table1 -->\n<!-- end table1 -->\n\n<!-- fig9 -->\n<!-- end fig9 -->\n")
    output = tmp_path / "results"
    words = ["table1", "fig9", *SMALL, "--methods", "PCA", "-o", output]
    code, told, said = reproduce(capsys, *words, "--document", document)
    assert (code, said) == (0, "")
    figure = tmp_path / "images" / "evidence" / "fig9.png"  # beside the document
    written = [str(path) for path in (output / "report.md", output / "report.html", figure)]
    assert told == {"failed": 0, "reasons": {}, "missing": [], "written": written}
    rows = [json.loads(line) for line in (output / "table1.jsonl").read_text().splitlines()]
    assert {row["method"] for row in rows} == {"PCA"}
    assert {tuple(row["options"]) for row in rows} == {("n_components",)}  # not "PCA, l by folds"
    assert all(row["accuracy"]["1nn"] > 95 for row in rows)
    # the page needs nothing beside it
    page = (output / "report.html").read_text()
    assert "Table 1: Unsupervised methods on digits" in page
    links = re.findall(r"""(?:src|href)=["']?([^"'\s>]*)|url\(["']?([^)]*)""", page)
    assert links
    assert all("".join(link).startswith(("data:", "#")) for link in links)
    assert "@import" not in page
    # links of a document lead from its folder to the figures
    (link,) = re.findall(r"!\[.*\]\((.*)\)", document.read_text())
    assert (document.parent / link).is_file()
    assert "| PCA |" in document.read_text().replace("| digits ", "")
    # a run of one experiment does not take the others out of the report
    assert reproduce(capsys, "fig9", *words[2:])[0] == 0
    assert "## Table 1" in (output / "report.md").read_text()
    # what has a row is not measured again
    monkeypatch.setattr(RUN, "measure", None)
    before = (output / "table1.jsonl").read_bytes()
    for more in ((), ("--report",)):
        assert reproduce(capsys, *words, *more)[0] == 0
        assert (output / "table1.jsonl").read_bytes() == before


WRONG = {
    "experiment": (["fig99"], "no experiment 'fig99'; there are table1"),
    "method": (["table1", "--methods", "PCB"], "no method 'PCB' in table1; there are raw pixels"),
    "image set": (["table1", "--on", "imagenet"], "invalid choice: 'imagenet'"),
    "no seeds": (["table1", "--seeds", "0"], "at least 1, got 0"),
    "no threads": (["table1", "--threads", "0"], "--threads must be a number such as 2, or -1 for all cores, got 0"),
    "no document": (["table1", "--document", "nowhere.md"], "no document nowhere.md"),
    "no data": (["fig9"], "What needs pie is left out. pie is not in"),
    "pictures": (["table1", "--on", "scenes15"], "invalid choice: 'scenes15'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_words_end_with_2_before_anything_is_measured(name, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("SPARLOW_DATA", str(tmp_path))
    monkeypatch.setattr(RUN, "measure", None)
    words, promised = WRONG[name]
    code, told, said = reproduce(capsys, *words, "-o", tmp_path / "rows")
    assert (code, told) == (2, None)
    assert promised in said
    assert not (tmp_path / "rows").exists()


def test_nothing_to_report_ends_with_1(tmp_path, capsys):
    code, _, said = reproduce(capsys, "table1", "--report", "-o", tmp_path)
    assert code == 1
    assert f"{tmp_path} has no rows" in said


def test_a_damaged_set_is_told_before_anything_is_measured(tmp_path, capsys, monkeypatch):
    (tmp_path / "pie_32x32.npz").write_bytes(b"half a file")
    monkeypatch.setattr(RUN, "measure", None)
    code, told, said = reproduce(capsys, "fig9", "--data", tmp_path, "-o", tmp_path / "rows")
    assert (code, told) == (2, None)
    assert "pie_32x32.npz is damaged" in said
    assert "Get it again from" in said


def test_rows_of_the_sets_at_hand_are_measured_without_the_others(tmp_path, capsys, monkeypatch):
    def load(name, folder=None):
        if name == "mnist":
            raise FileNotFoundError("mnist is not in the attic.")
        return datasets.Dataset("digits", load_digits().data / 16, load_digits().target, (8, 8))

    monkeypatch.setattr(datasets, "load", load)
    splits._loaded.cache_clear()
    code, told, said = reproduce(capsys, "table1", "--quick", "--methods", "PCA", "-o", tmp_path)
    splits._loaded.cache_clear()
    assert (code, told["missing"]) == (2, ["mnist"])
    assert said.count("\n") == 1
    assert "What needs mnist is left out. mnist is not in the attic." in said
    (row,) = map(json.loads, (tmp_path / "table1.jsonl").read_text().splitlines())
    assert row["setting"]["data"] == "usps"


def test_rows_that_fail_say_why_also_in_a_pipe(tmp_path, capsys, monkeypatch):
    def fails(problem):
        raise RuntimeError("the roof fell in")

    monkeypatch.setitem(RUN.METHODS, "PCA", fails)
    code, told, said = reproduce(capsys, "table1", "fig9", *SMALL, "--methods", "PCA", "-o", tmp_path)
    (reason,) = told["reasons"]
    assert (code, told["failed"]) == (1, len(told["reasons"][reason]))
    assert "table1 digits PCA, seed 0 and 1 more failed: RuntimeError: the roof fell in" in said
    assert not [path for path in told["written"] if path.endswith(".png")]  # there is nothing to draw


def test_the_cost_is_that_of_the_open_rows(tmp_path, capsys):
    words = ("fig9", *SMALL, "-o", tmp_path)
    cost = lambda: reproduce(capsys, "--list", *words)[1]["experiments"][0]["cost"]  # noqa: E731
    planned = 60 * _fig9()[1].minutes
    assert cost() == f"{planned:.0f} s"
    assert reproduce(capsys, *words, "--methods", "PCA")[0] == 0
    assert float(cost().split()[0]) < planned  # by the row that was measured
    path = tmp_path / "fig9.jsonl"
    path.write_text(json.dumps(dict(json.loads(path.read_text()), total_seconds=50)) + "\n")
    seeds = ("--seeds", "2", "--methods", "PCA")
    assert reproduce(capsys, "--list", *words, *seeds)[1]["experiments"][0]["cost"] == "50 s"  # as the same with seed 0
    lines = (tmp_path / "fig9.jsonl").read_text().splitlines()
    whole = [dict(json.loads(lines[0]), key=task.key) for task in RUN.tasks(*_fig9(), on="digits")]
    (tmp_path / "fig9.jsonl").write_text("".join(json.dumps(row) + "\n" for row in whole))
    assert cost() == "–"


def _fig9():
    one = next(experiment for experiment in EXPERIMENTS if experiment.name == "fig9")
    return one, one.quick


# ── settings ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_transductive_settings_show_test_samples_without_labels():
    inductive = draw(Setting("digits", train=100, test=50, labels=2), 0)
    samples = draw(Setting("digits", train=100, test=50, labels=2, transductive=True), 0)
    np.testing.assert_array_equal(samples.X, np.vstack([inductive.X, inductive.X_test]))
    np.testing.assert_array_equal(samples.y, np.concatenate([inductive.y, np.full(50, -1)]))
    np.testing.assert_array_equal(samples.y_test, load_digits().target[inductive.test_rows])
    np.testing.assert_array_equal(samples.rows[-50:], samples.test_rows)


@pytest.fixture
def scenes(tmp_path, monkeypatch):
    """A folder with a zip of drawn pictures of three classes, twelve to learn from and six to test."""
    monkeypatch.setenv("SPARLOW_CACHE", str(tmp_path / "cache"))
    monkeypatch.delitem(sources.CHECKSUMS, "scenes15_gray256.zip")
    monkeypatch.setattr(pictures, "_WORDS", 24)
    with zipfile.ZipFile(tmp_path / "scenes15_gray256.zip", "w") as archive:
        for part, seeds in (("train", range(4)), ("test", range(4, 6))):
            for kind, name in enumerate(("Across", "Down", "Slant")):
                for seed in seeds:
                    file = io.BytesIO()
                    Image.fromarray(stripes(kind, 10 * seed + kind, (56, 64))).save(file, "PNG")
                    archive.writestr(f"{part}/{name}/image_{seed}.png", file.getvalue())
    return tmp_path


def test_pictures_become_unit_rows_that_tell_classes_apart_and_are_kept(scenes, monkeypatch):
    setting = Setting("scenes15", features="pyramids 64")
    samples = draw(setting, 0, scenes)
    assert samples.X.shape == (12, 11)  # as many components as pictures less one
    assert samples.X_test.shape == (6, 11)
    np.testing.assert_allclose(np.linalg.norm(samples.X, axis=1), 1, rtol=1e-5)
    assert KNeighborsClassifier(1).fit(samples.X, samples.y).score(samples.X_test, samples.y_test) == 1
    (kept,) = (scenes / "cache").iterdir()
    # principal components: apart from the scale of each row they are uncorrelated over the training pictures
    whole = np.load(kept)[:12]
    np.testing.assert_allclose(whole.mean(axis=0), 0, atol=1e-5)
    gram = whole.T @ whole
    np.testing.assert_allclose(gram - np.diag(np.diag(gram)), 0, atol=1e-4)
    assert (np.diff(np.diag(gram)) < 0).all()
    monkeypatch.setattr(pictures, "_components", None)  # not computed twice
    np.testing.assert_array_equal(draw(setting, 1, scenes).X, samples.X)
    assert draw(Setting("scenes15", features="pyramids 64", transductive=True), 0, scenes).X.shape == (18, 11)


def test_test_pictures_have_no_say_in_the_features(scenes):
    with zipfile.ZipFile(scenes / "scenes15_gray256.zip", "a") as archive:
        file = io.BytesIO()
        Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64), dtype=np.uint8)).save(file, "PNG")
        archive.writestr("test/Across/image_9.png", file.getvalue())
    more = draw(Setting("scenes15", features="pyramids 64"), 0, scenes)
    assert len(more.y_test) == 7
    again = draw(Setting("scenes15", features="pyramids 64", test=3), 0, scenes)
    np.testing.assert_array_equal(again.X, more.X)


def test_pictures_held_out_of_a_training_fold_have_no_say_in_its_features(scenes, monkeypatch):
    setting = Setting("scenes15", features="pyramids")
    samples = draw(setting, 0, scenes)
    learned, components = [], pictures._components
    monkeypatch.setattr(
        pictures, "_components", lambda train, test: learned.append((train, test)) or components(train, test)
    )
    seen = {}

    class Watched(FunctionTransformer):
        def fit(self, X, y):
            seen[len(X), X.shape[1]] = y
            return self

    problem = Problem(
        samples.X, samples.y, samples.X_test, folds=samples.folds, options={"tune": {"check_inverse": [True, False]}}
    )
    of_estimator(lambda p: Watched())(problem)
    assert set(seen) == {(8, 4), (12, 6)}  # half as many components as pictures, in the folds and at last
    assert len(learned) == 3
    for train, held in learned:
        assert (len(train), len(held)) == (8, 4)
        assert not {str(picture) for picture in train} & {str(picture) for picture in held}
    assert draw(Setting("scenes15", features="pyramids", transductive=True), 0, scenes).folds is None


def test_a_fold_has_as_large_a_share_of_its_components(scenes, monkeypatch):
    monkeypatch.setitem(splits.LEARNED, "pyramids 64", pictures.pyramids(6))  # 6 of the 11 of twelve pictures
    samples = draw(Setting("scenes15", features="pyramids 64"), 0, scenes)
    assert [fold[0].shape for fold in samples.folds()] == 3 * [(8, 4)]


def test_pipelines_get_the_pictures_themselves(scenes):
    samples = draw(Setting("scenes15", features="pictures"), 0, scenes)
    assert samples.shape is None
    with samples.X_test[0].open("rb") as file:
        assert Image.open(file).size == (64, 56)


def test_equal_values_are_all_the_largest():
    columns = [np.array([98.571]), np.array([98.5712, 98.571]), np.array([97.0]), np.array([])]
    assert _best(columns, by_chance=False) == {0, 1}
    assert _best(columns, by_chance=True) == {1}  # one lucky split does not lead
    assert _best([np.array([])], True) == _best([np.array([])], False) == set()


def test_classes_of_another_set_are_its_first_ones(monkeypatch):
    """Subjects of ORL are counted from 1."""
    labels = np.repeat(np.arange(1, 6), 4)
    made = datasets.Dataset("orl", np.eye(20), labels, (4, 5))
    train, test = splits._parts(made, Setting("orl", per_class=2, classes=(0, 1, 2)), 0)
    assert set(labels[train]) == set(labels[test]) == {1, 2, 3}
    train, _ = splits._parts(made, Setting("orl", per_class=2, classes=(2, 5)), 0)
    assert set(labels[train]) == {2, 5}
