"""``python -m evidence``, and settings that begin with pictures or learn from test samples too."""

import errno
import functools
import io
import json
import re
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import FunctionTransformer, normalize

from evidence import datasets, rows, splits
from evidence.__main__ import Selection, _parser, main, overview
from evidence.contract import MethodInput
from evidence.methods import of_estimator
from evidence.paper import EXPERIMENTS
from evidence.specification import Entry, Experiment, Setting, Size
from evidence.splits import draw
from evidence.tables import _best, along, gather, listed
from sparlow.images import PrincipalComponents, pyramid_features
from tests import cases
from tests.cases import stripes

SMALL = ["--quick", "--on", "digits"]


def command(capsys, *words):
    """Exit code, lines on stdout, text on stderr."""
    try:
        code = main([str(word) for word in words])
    except SystemExit as stop:  # of argparse
        code = stop.code
    said = capsys.readouterr()
    return code, said.out.splitlines(), said.err


def listing(*words):
    """Rows of the overview by name of the experiment."""
    selection = Selection.of(_parser().parse_args(["list", *map(str, words)]))
    return overview(selection).set_index("name")


# ── the command ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_list_names_every_experiment_its_rows_and_its_data(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("SPARLOW_DATA", str(tmp_path))
    told = listing("-o", tmp_path)
    assert told.index.tolist() == [one.name for one in EXPERIMENTS]
    assert told.data["table1"] == "usps (missing), mnist (missing)"
    assert re.fullmatch(r"0 of \d+", told.rows["table1"])
    assert not listing("-o", tmp_path, *SMALL).data.str.contains("missing").any()
    code, shown, said = command(capsys, "list", "-o", tmp_path)
    assert code == 0
    line = next(line for line in shown if line.startswith("table1 "))
    assert re.match(r"table1 +0 of \d+ +\d.* +usps \(missing\), mnist \(missing\) +Unsup", line)
    assert said == f"Rows are counted in {tmp_path}, which --output names; image sets in {tmp_path}.\n"
    monkeypatch.delenv("SPARLOW_DATA")
    assert "no folder of image sets is set (--data or SPARLOW_DATA)" in command(capsys, "list", "-o", tmp_path)[2]


@pytest.mark.slow
def test_the_command_runs_from_the_clone():
    done = subprocess.run(
        [sys.executable, "-m", "evidence", "list", "fig9"], cwd=cases.ROOT, capture_output=True, text=True, check=True
    )
    assert re.search(r"fig9 +\d+ of \d+", done.stdout)
    assert str(cases.ROOT / "evidence" / "results") in done.stderr


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
        rows.row_file(one, tmp_path).append(row)
    table = along(one, gather(one, one.full, tmp_path))
    assert table.head == ("", "dimension l", "2", "4")
    assert table.rows == (
        ("many", "PCA", "0.00 (90)", "4.00 (90)"),
        ("many", "LDA", "2.00 (90)", "6.00 (90)"),
        ("few", "PCA", "1.00", "5.00"),
        ("few", "LDA", "3.00", "7.00"),
    )


def test_rows_of_other_sets_and_sizes_have_folders_of_their_own():
    for words, folder in (((), "results"), (("--quick",), "results-quick"), (SMALL, "results-quick-digits")):
        output = Selection.of(_parser().parse_args(["report", *words])).output
        assert output == cases.ROOT / "evidence" / folder


def test_a_file_adds_methods_to_a_table(tmp_path, capsys):
    """The page's own file, one of its methods: a criterion, a prior or an outside method is one line each."""
    page = (cases.ROOT / "docs" / "evidence" / "add_your_method.md").read_text()
    file = tmp_path / "mine.py"
    file.write_text(re.search(r"```python\n(.*?)```", page, re.DOTALL)[1])
    words = ["table1", "--with", file, *SMALL, "--methods", "my outside method", "-o", tmp_path / "rows"]
    assert command(capsys, "run", *words)[0] == 0
    code, written, _ = command(capsys, "report", *words, "--format", "csv")
    assert code == 0
    assert written[-1] == str(tmp_path / "rows" / "table1.csv")
    frame = pd.read_csv(written[-1], index_col="method")
    assert float(frame.loc["my outside method", "digits 1NN"]) > 80


def test_pictures_alone_have_no_table(tmp_path):
    entry = Entry("PCA-SparLow", Setting("digits"))
    one = Experiment("fig9z", "a trial", "thumbnails", (entry,), Size(1), measures=())
    row = {"key": entry.key(0), "seed": 0, "method": entry.method, "status": "done", "note": "a word"}
    rows.row_file(one, tmp_path).append(row)
    table = listed(one, gather(one, one.full, tmp_path))
    assert (table.rows, table.markdown()) == ((), "PCA-SparLow: a word.")


@pytest.mark.slow
def test_rows_are_measured_once_and_reported_as_one_page(tmp_path, capsys, monkeypatch):
    document = tmp_path / "page.md"
    document.write_text("# Mine\n\n<!-- table1 -->\n<!-- end table1 -->\n\n<!-- fig9 -->\n<!-- end fig9 -->\n")
    output = tmp_path / "results"
    words = ["table1", "fig9", *SMALL, "--methods", "PCA", "-o", output]
    code, written, said = command(capsys, "run", *words)
    assert code == 0
    assert re.search(r"\[1 of \d, .* left\] table1 digits PCA, seed 0: 1nn", said)
    names = ("report.md", "report.html", "figures/fig9.png")
    assert written == [str(output / name) for name in names]
    code, written, said = command(capsys, "report", *words, "--document", document)
    assert (code, said) == (0, "")
    assert written[-1] == str(tmp_path / "images" / "evidence" / "fig9.png")  # beside the document
    found = [json.loads(line) for line in (output / "table1.jsonl").read_text().splitlines()]
    assert {row["method"] for row in found} == {"PCA"}
    assert {tuple(row["options"]) for row in found} == {("n_components",)}  # not "PCA, l by folds"
    assert all(row["accuracy"]["1nn"] > 95 for row in found)
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
    assert command(capsys, "run", "fig9", *words[2:])[0] == 0
    assert "## Table 1" in (output / "report.md").read_text()
    # what has a row is not measured again
    monkeypatch.setattr(rows, "measure", None)
    before = (output / "table1.jsonl").read_bytes()
    for name in ("run", "report"):
        assert command(capsys, name, *words)[0] == 0
        assert (output / "table1.jsonl").read_bytes() == before


WRONG = {
    "experiment": (["run", "fig99"], "no experiment 'fig99'; there are printed"),
    "method": (["run", "table1", "--methods", "PCB"], "no method 'PCB' in table1; there are raw pixels"),
    "image set": (["run", "table1", "--on", "imagenet"], "invalid choice: 'imagenet'"),
    "no seeds": (["run", "table1", "--seeds", "0"], "at least 1, got 0"),
    "no threads": (
        ["run", "table1", "--threads", "0"],
        "--threads must be a number such as 2, or -1 for all cores, got 0",
    ),
    "no file": (["run", "table1", "--with", "nowhere.py"], "no file nowhere.py with METHODS and ENTRIES"),
    "no document": (["report", "--document", "nowhere.md"], "no document nowhere.md"),
    "no data": (["run", "fig9"], "What needs pie is left out. pie is not in"),
    "pictures": (["run", "table1", "--on", "scenes15"], "invalid choice: 'scenes15'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_words_end_with_2_before_anything_is_measured(name, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("SPARLOW_DATA", str(tmp_path))
    monkeypatch.setattr(rows, "measure", None)
    words, promised = WRONG[name]
    code, told, said = command(capsys, *words, "-o", tmp_path / "rows")
    assert (code, told) == (2, [])
    assert promised in said
    assert not (tmp_path / "rows").exists()


def test_nothing_to_report_ends_with_1(tmp_path, capsys):
    code, _, said = command(capsys, "report", "-o", tmp_path)
    assert code == 1
    assert f"{tmp_path} has no rows" in said


def test_a_damaged_set_is_told_before_anything_is_measured(tmp_path, capsys, monkeypatch):
    (tmp_path / "pie_32x32.npz").write_bytes(b"half a file")
    monkeypatch.setattr(rows, "measure", None)
    code, told, said = command(capsys, "run", "fig9", "--data", tmp_path, "-o", tmp_path / "rows")
    assert (code, told) == (2, [])
    assert "pie_32x32.npz is damaged" in said
    assert "Get it again from" in said


def test_rows_of_the_sets_at_hand_are_measured_without_the_others(tmp_path, capsys, monkeypatch):
    calls = []

    def load(name, folder=None):
        calls.append(name)
        if name == "mnist":
            raise FileNotFoundError("mnist is not in the attic.")
        return datasets.Dataset("digits", load_digits().data / 16, load_digits().target, (8, 8))

    monkeypatch.setattr(datasets, "load", load)
    datasets._loaded.cache_clear()
    code, _, said = command(capsys, "run", "table1", "--quick", "--methods", "PCA", "-o", tmp_path)
    datasets._loaded.cache_clear()
    assert code == 2
    assert said.startswith("What needs mnist is left out. mnist is not in the attic.\n")
    assert sorted(calls) == ["mnist", "usps"]  # each is loaded once
    (row,) = map(json.loads, (tmp_path / "table1.jsonl").read_text().splitlines())
    assert row["setting"]["data"] == "usps"


def test_rows_that_fail_say_why(tmp_path, capsys, monkeypatch):
    def fails(problem):
        raise RuntimeError("the roof fell in")

    monkeypatch.setitem(rows.METHODS, "PCA", fails)
    code, written, said = command(capsys, "run", "table1", "fig9", *SMALL, "--methods", "PCA", "-o", tmp_path)
    assert code == 1
    assert "table1 digits PCA, seed 0 and 1 more failed: RuntimeError: the roof fell in" in said
    assert [path.split(".")[-1] for path in written] == ["md", "html"]  # there is nothing to draw


def test_the_cost_is_that_of_the_open_rows(tmp_path, capsys):
    words = ("fig9", *SMALL, "-o", tmp_path)
    cost = lambda: listing(*words).cost["fig9"]  # noqa: E731
    planned = 60 * _fig9()[1].minutes
    assert cost() == f"{planned:.0f} s"
    assert command(capsys, "run", *words, "--methods", "PCA")[0] == 0
    assert float(cost().split()[0]) < planned  # by the row that was measured
    path = tmp_path / "fig9.jsonl"
    path.write_text(json.dumps(dict(json.loads(path.read_text()), total_seconds=50)) + "\n")
    seeds = ("--seeds", "2", "--methods", "PCA")
    assert listing(*words, *seeds).cost["fig9"] == "50 s"  # as the same with seed 0
    lines = (tmp_path / "fig9.jsonl").read_text().splitlines()
    whole = [dict(json.loads(lines[0]), key=task.key) for task in rows.tasks(*_fig9(), on="digits")]
    (tmp_path / "fig9.jsonl").write_text("".join(json.dumps(row) + "\n" for row in whole))
    assert cost() == "–"


def _fig9():
    one = next(experiment for experiment in EXPERIMENTS if experiment.name == "fig9")
    return one, one.quick


# ── settings ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_transductive_settings_show_test_samples_without_labels():
    inductive = draw(Setting("digits", train=100, test=50, labels=2), 0)
    split = draw(Setting("digits", train=100, test=50, labels=2, transductive=True), 0)
    np.testing.assert_array_equal(split.X, np.vstack([inductive.X, inductive.X_test]))
    np.testing.assert_array_equal(split.y, np.concatenate([inductive.y, np.full(50, -1)]))
    np.testing.assert_array_equal(split.y_test, load_digits().target[inductive.test_rows])
    np.testing.assert_array_equal(split.rows[-50:], split.test_rows)


@pytest.fixture
def scenes(tmp_path, monkeypatch):
    """A folder with a zip of drawn pictures of three classes, twelve to learn from and six to test."""
    monkeypatch.setenv("SPARLOW_CACHE", str(tmp_path / "cache"))
    monkeypatch.delitem(datasets.CHECKSUMS, "scenes15_gray256.zip")
    monkeypatch.setattr(splits, "RECIPE", functools.partial(splits.RECIPE, n_words=24))
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
    split = draw(setting, 0, scenes)
    assert split.X.shape == (12, 11)  # as many components as pictures less one
    assert split.X_test.shape == (6, 11)
    np.testing.assert_allclose(np.linalg.norm(split.X, axis=1), 1, rtol=1e-5)
    assert KNeighborsClassifier(1).fit(split.X, split.y).score(split.X_test, split.y_test) == 1
    (kept,) = (scenes / "cache").iterdir()
    # principal components: apart from the scale of each row they are uncorrelated over the training pictures
    whole = np.load(kept)[:12]
    np.testing.assert_allclose(whole.mean(axis=0), 0, atol=1e-5)
    gram = whole.T @ whole
    np.testing.assert_allclose(gram - np.diag(np.diag(gram)), 0, atol=1e-4)
    assert (np.diff(np.diag(gram)) < 0).all()
    # the recipe that users have makes the same
    recipe = pyramid_features(64, n_words=24, random_state=0)
    pictures = draw(Setting("scenes15", features="pictures"), 0, scenes)
    np.testing.assert_allclose(recipe.fit_transform(pictures.X), split.X, atol=1e-6)
    np.testing.assert_allclose(recipe.transform(pictures.X_test), split.X_test, atol=1e-6)
    monkeypatch.setattr(splits, "_components", None)  # not computed twice
    np.testing.assert_array_equal(draw(setting, 1, scenes).X, split.X)
    assert draw(Setting("scenes15", features="pyramids 64", transductive=True), 0, scenes).X.shape == (18, 11)


def test_fisher_vectors_are_the_same_in_pieces_and_as_the_recipe_makes_them(scenes, monkeypatch):
    monkeypatch.setattr(splits, "TEACHERS", {"scenes15": "scenes15"})
    monkeypatch.setattr(splits, "FISHER", functools.partial(splits.FISHER, n_words=4, patch=16))
    setting = Setting("scenes15", features="fisher")
    split = draw(setting, 0, scenes)
    assert (split.X.shape, split.X_test.shape) == ((12, 8), (6, 8))
    pictures = draw(Setting("scenes15", features="pictures"), 0, scenes)
    vectors = splits._mixture("scenes15", scenes)
    components = PrincipalComponents(8).fit(vectors.transform(pictures.X))
    expected = normalize(components.transform(vectors.transform(pictures.X_test)))
    np.testing.assert_allclose(np.abs(split.X_test), np.abs(expected), atol=1e-4)
    monkeypatch.setattr(splits, "_PIECE", 5)
    np.testing.assert_allclose(np.abs(draw(setting, 0, scenes).X), np.abs(split.X), atol=5e-3)  # kept in half precision


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
    split = draw(setting, 0, scenes)
    learned, components = [], splits._components
    monkeypatch.setattr(splits, "_components", lambda steps, *parts: learned.append(parts) or components(steps, *parts))
    seen = {}

    class Watched(FunctionTransformer):
        def fit(self, X, y):
            seen[len(X), X.shape[1]] = y
            return self

    given = MethodInput(
        split.X, split.y, split.X_test, folds=split.folds, options={"tune": {"check_inverse": [True, False]}}
    )
    of_estimator(lambda p: Watched())(given)
    assert set(seen) == {(8, 4), (12, 6)}  # half as many components as pictures, in the folds and at last
    assert len(learned) == 3
    for train, held in learned:
        assert (len(train), len(held)) == (8, 4)
        assert not {str(picture) for picture in train} & {str(picture) for picture in held}
    assert draw(Setting("scenes15", features="pyramids", transductive=True), 0, scenes).folds is None


def test_a_fold_has_as_large_a_share_of_its_components(scenes, monkeypatch):
    monkeypatch.setitem(
        splits.LEARNED, "pyramids 64", functools.partial(splits.pyramids, dimension=6)
    )  # 6 of the 11 of twelve pictures
    split = draw(Setting("scenes15", features="pyramids 64"), 0, scenes)
    assert [fold[0].shape for fold in split.folds()] == 3 * [(8, 4)]


def test_pipelines_get_the_pictures_themselves(scenes):
    split = draw(Setting("scenes15", features="pictures"), 0, scenes)
    assert split.shape is None
    with split.X_test[0].open("rb") as file:
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


def test_a_full_disk_is_said_and_the_next_run_goes_on(tmp_path, capsys, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "table1.jsonl"))

    monkeypatch.setattr("evidence.__main__.run", full)
    assert main(["run", "table1", "--on", "digits", "--quick", "--methods", "PCA", "-o", str(tmp_path)]) == 1
    assert "table1.jsonl could not be written: the disk is full" in capsys.readouterr().err
