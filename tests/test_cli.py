"""The command line: what it writes, what it says, how it ends."""

import glob
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits, load_wine
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from sparlow import SparLow, load, save
from sparlow.app import main
from sparlow.app.commands import inspect
from sparlow.app.options import COMMANDS
from sparlow.app.terminal import Terminal
from sparlow.criteria import MFA
from sparlow.evaluation import compare
from sparlow.models import load_file
from sparlow.solvers import EarlyStopping, Solver
from tests import cases

DIGITS = load_digits()
SMALL = ["--pictures", "whole", "--set", "n_atoms=30", "max_iter=2", "--jobs", "1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Samples in two files, and a model learned from the first."""
    path = tmp_path_factory.mktemp("cli")
    np.savez(path / "train.npz", images=DIGITS.images[:200], labels=DIGITS.target[:200])
    np.savez(path / "test.npz", images=DIGITS.images[200:300], labels=DIGITS.target[200:300])
    assert main(["fit", str(path / "train.npz"), "-o", str(path / "m.sparlow"), *SMALL]) == 0
    return path


def run(capsys, *words):
    """Exit code, JSON on stdout, text on stderr."""
    code = main([*map(str, words), "--json"])
    said = capsys.readouterr()
    return code, json.loads(said.out) if said.out else None, said.err


@pytest.mark.slow
def test_fit_saves_the_model_that_python_would_make(folder, capsys):
    held = load_file(folder / "m.sparlow")
    X, y = DIGITS.data[:200], DIGITS.target[:200]
    expected = SparLow("lda", n_atoms=30, max_iter=2, random_state=0, n_jobs=1).fit(X, y)
    np.testing.assert_allclose(held.model.dictionary_, expected.dictionary_, atol=1e-6)
    assert held.image_shape == (8, 8)
    assert held.labels.tolist() == y.tolist()
    assert held.data["n_samples"] == 200
    words = "--criterion mfa --set k_within=5 k_between=7 n_components=4 prior=ElasticNet(0.05,0.1,positive=True)"
    words += " random_state=3 shrinkage=0.2 mu_coherence=0.1 mu_proximity=1 early_stopping=EarlyStopping(0.3)"
    words += " solver=joint embedding=orthonormal tol=1e-4 dictionary=online refresh_every=1"
    code, told, said = run(capsys, "fit", folder / "train.npz", "-o", folder / "n.sparlow", *SMALL, *words.split())
    assert (code, said) == (0, "")
    asked = load(folder / "n.sparlow").get_params()
    assert asked["criterion"] == MFA(k_within=5, k_between=7, shrinkage=0.2)
    assert str(asked["prior"]) == "ElasticNet(l1=0.05, l2=0.1, positive=True)"
    numbers = {"n_components": 4, "random_state": 3, "embedding": "orthonormal", "dictionary": "online",
               "early_stopping": EarlyStopping(0.3), "solver": Solver("joint", 1e-4, 1, 0.1, 1.0)}  # fmt: skip
    assert {name: asked[name] for name in numbers} == numbers
    assert told["n_components"] == 4
    assert 0 < told["held_out"] <= 1


def test_a_fit_goes_on_from_a_saved_model(folder, capsys):
    code, told, _ = run(capsys, "fit", folder / "train.npz", "--from", folder / "m.sparlow", "--set", "max_iter=0",
                        "-o", folder / "again.sparlow")  # fmt: skip
    assert (code, told["steps"], told["n_atoms"]) == (0, 0, 30)
    first, again = (load(folder / f"{name}.sparlow") for name in ("m", "again"))
    np.testing.assert_allclose(again.dictionary_, first.dictionary_, atol=1e-12)


@pytest.mark.parametrize("suffix", ["npy", "npz", "csv", "parquet"])
def test_transform_writes_the_embedding(suffix, folder, capsys):
    path = folder / f"z.{suffix}"
    code, told, _ = run(capsys, "transform", folder / "m.sparlow", folder / "test.npz", "-o", path)
    expected = load(folder / "m.sparlow").transform(DIGITS.data[200:300])
    assert (code, told["n_samples"], told["width"]) == (0, *expected.shape)
    if suffix == "npy":
        found, labels = np.load(path), None
    elif suffix == "npz":
        found, labels = (np.load(path)[name] for name in ("Z", "y"))
    else:
        import pandas as pd

        table = pd.read_csv(path) if suffix == "csv" else pd.read_parquet(path)
        labels = table.pop("label")
        assert list(table) == [f"z{k}" for k in range(1, expected.shape[1] + 1)]
        found = table.to_numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    if labels is not None:
        assert list(labels) == DIGITS.target[200:300].tolist()


def test_arrays_are_written_with_names_alone(folder, capsys, monkeypatch):
    written = {}  # numpy 2.0 takes every other argument for an array
    monkeypatch.setattr(np, "savez", lambda file, **arrays: written.update(arrays))
    assert run(capsys, "transform", folder / "m.sparlow", folder / "test.npz", "-o", folder / "names.npz")[0] == 0
    assert set(written) == {"Z", "y"}


def test_transform_writes_codes(folder, capsys):
    import scipy.sparse as sp

    words = ("transform", folder / "m.sparlow", folder / "test.npz", "--codes", "-o")
    assert run(capsys, *words, folder / "codes.npz")[0] == 0
    expected = load(folder / "m.sparlow").encode(DIGITS.data[200:300])
    assert abs(sp.load_npz(folder / "codes.npz") - expected).max() == 0
    code, _, said = run(capsys, *words, folder / "codes.csv")
    assert (code, "writes a .npz" in said) == (2, True)


def test_evaluate_a_saved_model(folder, capsys):
    code, told, said = run(capsys, "evaluate", folder / "m.sparlow", folder / "test.npz")
    assert (code, said, told["seen_in_training"]) == (0, "", False)
    (row,) = told["methods"]
    model = load(folder / "m.sparlow")
    nearest = KNeighborsClassifier(1).fit(model.embedding_, DIGITS.target[:200])
    assert row["accuracy"]["1NN"] == nearest.score(model.transform(DIGITS.data[200:300]), DIGITS.target[200:300])
    assert list(row["accuracy"]) == ["predict", "1NN", "SVM"]
    assert row["accuracy"]["predict"] == model.score(DIGITS.data[200:300], DIGITS.target[200:300])
    assert np.sum(row["confusion"]["SVM"]) == 100
    assert len(row["per_class"]["1NN"]) == 10
    code, told, said = run(capsys, "evaluate", folder / "m.sparlow", folder / "train.npz", "--classifiers", "1NN")
    assert (code, told["seen_in_training"], "learned from these very samples" in said) == (0, True, True)
    model, mixed = str(folder / "m.sparlow"), str(folder / "mixed.npz")
    np.savez(mixed, images=DIGITS.images[150:300], labels=DIGITS.target[150:300])
    code, told, said = run(capsys, "evaluate", model, mixed, "--classifiers", "1NN")
    assert (code, told["n_seen"], "learned from 50 of these 150 samples" in said) == (0, 50, True)
    assert told["methods"][0]["accuracy"]["1NN"] == row["accuracy"]["1NN"]  # those left out are not counted
    code, told, _ = run(capsys, "report", model, mixed, "--classifiers", "1NN", "-o", folder / "mixed.html")
    assert "on the 100 samples of" in told["protocol"]
    assert "(50 others it was)" in told["protocol"]
    assert told["accuracy"]["LDA-SparLow"]["1NN"] == row["accuracy"]["1NN"]
    assert "The model was learned from 50 of them" in (folder / "mixed.html").read_text()
    words = (mixed, "--train", folder / "train.npz", "--classifiers", "1NN", "-o", folder / "mixed.html")
    code, told, said = run(capsys, "report", model, *words)
    assert "on the 100 samples of" in told["protocol"]
    assert told["accuracy"]["LDA-SparLow"]["1NN"] == row["accuracy"]["1NN"]
    np.savez(mixed, images=DIGITS.images[200:300], labels=DIGITS.target[200:300] + 10)
    code, told, said = run(capsys, "report", model, mixed, "--classifiers", "1NN", "-o", folder / "x.html")
    assert "knows none of the labels" in said
    assert "knows none of the labels" in told["protocol"]
    assert main(["evaluate", str(folder / "m.sparlow"), str(folder / "test.npz")]) == 0
    said = capsys.readouterr().out
    assert "true \\ given" in said
    assert "fit (s)" not in said  # it was fitted before
    assert "100 samples, predict:" in said  # the confusion of what sparlow predict answers


@pytest.mark.parametrize("criterion", ["lda", "sda", "pca"])
@pytest.mark.slow
def test_labels_that_a_model_does_not_know(criterion, folder, tmp_path, capsys):
    model, data, page = tmp_path / "m.sparlow", tmp_path / "new.npz", tmp_path / "page.html"
    words = ("--criterion", criterion, "--set", "n_atoms=20", "max_iter=0", "--jobs", "1")
    assert run(capsys, "fit", folder / "train.npz", "-o", model, *words)[0] == 0
    X, y = DIGITS.data[200:260], DIGITS.target[200:260]
    np.savez(data, X=X, y=np.where(y > 7, y + 10, y))
    code, told, said = run(capsys, "evaluate", model, data, "--classifiers", "1NN")
    assert (code, "does not know the labels 18, 19: samples" in said) == (0, True)
    assert told["methods"][0]["accuracy"]["1NN"] > 0.4
    np.savez(data, X=X, y=np.where(y % 2, "odd", "even"))
    for command in (["evaluate", model, data], ["report", model, data, "--train", folder / "train.npz", "-o", page]):
        code, told, said = run(capsys, *command, "--classifiers", "1NN")
        assert (code, told) == (2, None)
        assert "none of its labels (even, odd) is known to" in said
        assert "which has 0, 1, 2, 3, 4 …" in said
    assert main(["inspect", str(model)]) == 0


@pytest.mark.parametrize("kind", [float, bool])
def test_models_learned_in_python_know_their_labels_on_the_command_line(kind, tmp_path, capsys):
    y = (DIGITS.target % 2).astype(kind)
    save(SparLow(n_atoms=20, max_iter=0, random_state=0).fit(DIGITS.data[:200], y[:200]), tmp_path / "m.sparlow")
    np.savez(tmp_path / "new.npz", X=DIGITS.data[200:300], y=y[200:300])
    code, told, said = run(capsys, "evaluate", tmp_path / "m.sparlow", tmp_path / "new.npz", "--classifiers", "1NN")
    assert (code, said) == (0, "")
    assert told["methods"][0]["accuracy"]["1NN"] > 0.6
    assert told["methods"][0]["accuracy"]["predict"] == load(tmp_path / "m.sparlow").score(
        DIGITS.data[200:300], y[200:300]
    )


@pytest.mark.slow
def test_evaluate_by_folds_beside_rivals(folder, capsys):
    words = ("evaluate", folder / "train.npz", "--folds", "2", "--classifiers", "1NN", *SMALL)
    code, told, _ = run(capsys, *words)
    names = [row["name"] for row in told["methods"]]
    assert (code, names[0]) == (0, "LDA-SparLow")
    assert {"commonest class", "logistic regression", "LDA, shrinkage", "raw values"} == {*names[1:]}
    found = {row["name"]: row for row in told["methods"]}
    assert all(row["n_samples"] == 200 for row in found.values())
    assert list(found["raw values"]["accuracy"]) == ["1NN"]  # they predict nothing
    assert list(found["logistic regression"]["accuracy"]) == ["predict"]  # it has no embedding
    assert found["commonest class"]["balanced_accuracy"]["predict"] == pytest.approx(0.1)
    ours = found["LDA-SparLow"]
    assert ours["balanced_accuracy"]["predict"] == pytest.approx(np.mean([*ours["per_class"]["predict"].values()]))
    assert main([*map(str, words)]) == 0
    assert "predict %  balanced %" in capsys.readouterr().out
    assert run(capsys, *words, "--criterion", "sda")[1]["methods"][0]["name"] == "SDA-SparLow"


def test_a_model_below_the_commonest_class_is_told_so(tmp_path, capsys):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((150, 6)), np.where(np.arange(150) % 5, "no", "yes")
    np.savez(tmp_path / "old.npz", X=X[:75], y=y[:75])
    np.savez(tmp_path / "new.npz", X=X[75:], y=y[75:])
    words = ("--classifiers", "1NN", "--jobs", 1)
    plain = ("--set", "n_atoms=12", "max_iter=0", "class_weight=balanced", "--jobs", 1)
    assert run(capsys, "fit", tmp_path / "old.npz", "-o", tmp_path / "m", *plain)[0] == 0
    assert load(tmp_path / "m").criterion.class_weight == "balanced"
    for judged in ((tmp_path / "m", tmp_path / "new.npz"), (tmp_path / "old.npz", *plain)):
        code, told, said = run(capsys, "evaluate", *judged, *words)
        found = told["methods"][0]["accuracy"]["predict"]
        assert (code, told["below_commonest"]) == (0, found < 0.8)
        assert ("is below the commonest class" in said) == (found < 0.8)
        assert found < 0.8  # noise
        assert "where always 'no' has 80.0 %" in said


def test_groups_are_held_out_whole(tmp_path, capsys):
    rng = np.random.default_rng(0)
    persons = np.arange(160) // 4  # what a person is like says nothing of the class
    X = np.repeat(rng.standard_normal((40, 8)), 4, axis=0) + 0.05 * rng.standard_normal((160, 8))
    rows = [",".join([*(f"f{k}" for k in range(8)), "person", "label"])]
    rows += [",".join([*map(str, x), f"p{who}", "ab"[who % 2]]) for x, who in zip(X, persons, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(rows))
    words = ("--set", "n_atoms=16", "max_iter=0", "--classifiers", "1NN", "--jobs", 1, "--folds", 2)
    random = run(capsys, "evaluate", tmp_path / "t.csv", "--drop", "person", *words)[1]
    code, told, _ = run(capsys, "evaluate", tmp_path / "t.csv", "--groups", "person", *words)
    assert (code, "groups held out whole" in told["how"]) == (0, True)
    assert random["methods"][0]["accuracy"]["1NN"] > 0.85 > 0.7 > told["methods"][0]["accuracy"]["1NN"]
    words = ("fit", tmp_path / "t.csv", "--groups", "person", "-o", tmp_path / "m", "--set", "max_iter=0", "--jobs", 1)
    assert run(capsys, *words)[0] == 0
    assert load_file(tmp_path / "m").feature_names == tuple(f"f{k}" for k in range(8))


def test_labels_are_looked_for_before_features_are_learned(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sparlow.app.learning.learn_features", lambda *_: pytest.fail("learned"))
    for place in range(4):
        Image.fromarray(np.full((40 + place, 40), 9, np.uint8)).save(tmp_path / f"{place}.png")
    code, _, said = run(capsys, "fit", tmp_path, "-o", tmp_path / "m")
    assert (code, "has no labels, which the criterion needs" in said) == (2, True)


def test_predict_takes_many_files_and_knows_what_was_learned_from(tmp_path, capsys):
    for row in range(60):
        place = tmp_path / "p" / "abc"[DIGITS.target[row] % 3]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray((DIGITS.images[row] * 15).astype(np.uint8)).save(place / f"{row}.png")
    assert run(capsys, "fit", tmp_path / "p", "-o", tmp_path / "m", *SMALL)[0] == 0
    files = sorted((tmp_path / "p").rglob("*.png"))[:5]
    Image.fromarray((DIGITS.images[99] * 15).astype(np.uint8)).save(tmp_path / "new.png")
    code, told, said = run(capsys, "predict", tmp_path / "m", *files, tmp_path / "new.png")
    assert (code, told["n_samples"], told["n_seen"]) == (0, 6, 5)
    assert told["name"] == [*(file.name for file in files), "new.png"]
    assert "learned from 5 of these 6 samples" in said
    code, _, said = run(capsys, "predict", tmp_path / "m", files[0], tmp_path / "m")
    assert (code, "several are read at once if all are pictures" in said) == (2, True)


def test_unsupervised_models_are_judged_by_the_labels_of_their_samples(folder, capsys):
    path = folder / "pca.sparlow"
    assert run(capsys, "fit", folder / "train.npz", "--criterion", "pca", "-o", path, *SMALL)[0] == 0
    code, told, _ = run(capsys, "evaluate", path, folder / "test.npz", "--classifiers", "1NN")
    assert code == 0
    assert told["methods"][0]["accuracy"]["1NN"] > 0.7
    assert told["methods"][0]["accuracy"]["predict"] == load(path).score(DIGITS.data[200:300], DIGITS.target[200:300])


def test_targets_are_judged_by_r_squared(folder, tmp_path, capsys):
    np.savez(tmp_path / "t.npz", X=DIGITS.data[:200], y=DIGITS.data[:200, :2].sum(axis=1) + DIGITS.target[:200] / 7)
    assert run(capsys, "fit", tmp_path / "t.npz", "--criterion", "mvr", "-o", tmp_path / "t.sparlow", *SMALL)[0] == 0
    code, told, said = run(capsys, "evaluate", tmp_path / "t.sparlow", tmp_path / "t.npz")
    assert (code, told["seen_in_training"], "learned from these very samples" in said) == (0, True, True)
    assert 0.3 < told["r2"] <= 1


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npy"])
@pytest.mark.parametrize("classifier", ["1NN", "SVM"])
def test_new_samples_get_labels(suffix, classifier, folder, tmp_path, capsys):
    import pandas as pd

    np.save(tmp_path / "new.npy", DIGITS.data[200:300])
    path = tmp_path / f"labels{suffix}"
    words = ("predict", folder / "m.sparlow", tmp_path / "new.npy", "--classifier", classifier, "-o", path)
    code, told, said = run(capsys, *words)
    assert (code, said, sum(told["counts"].values())) == (0, "", 100)
    read = {".csv": pd.read_csv, ".parquet": pd.read_parquet, ".npy": np.load}[suffix](path)
    found = read if suffix == ".npy" else read["label"].to_numpy()
    words = ("evaluate", folder / "m.sparlow", folder / "test.npz", "--classifiers", classifier)
    accuracy = run(capsys, *words)[1]["methods"][0]["accuracy"][classifier]
    assert np.mean(found == DIGITS.target[200:300]) == accuracy


def test_new_samples_get_targets_or_are_told_why_not(folder, tmp_path, capsys):
    import pandas as pd

    targets = np.column_stack([DIGITS.data[:200, :9].sum(axis=1), DIGITS.target[:200] / 7])
    np.savez(tmp_path / "t.npz", X=DIGITS.data[:200], y=targets)
    np.save(tmp_path / "bare.npy", DIGITS.data[:200])
    model, out = tmp_path / "t.sparlow", tmp_path / "t.csv"
    assert run(capsys, "fit", tmp_path / "t.npz", "--criterion", "mvr", "-o", model, *SMALL)[0] == 0
    assert run(capsys, "predict", model, tmp_path / "bare.npy", "-o", out)[0] == 0
    expected = load(model).predict(DIGITS.data[:200])
    np.testing.assert_allclose(pd.read_csv(out)[["target1", "target2"]], expected)
    assert run(capsys, "fit", tmp_path / "bare.npy", "--criterion", "pca", "-o", model, *SMALL)[0] == 0
    code, _, said = run(capsys, "predict", model, tmp_path / "bare.npy", "-o", out)
    assert (code, "learned without labels" in said) == (2, True)


def test_inspect_tells_what_is_inside(folder, capsys):
    code, told, _ = run(capsys, "inspect", folder / "m.sparlow")
    assert code == 0
    assert told["parameters"]["max_iter"] == 2
    assert told["chosen"]["n_atoms"] == 30
    assert told["data"]["classes"] == [str(k) for k in range(10)]
    assert told["learning"]["stop_reason"]
    assert "marks" not in told["data"]
    assert len(told["history"]["quotient"]) == told["learning"]["steps_made"] + 1
    assert main(["inspect", str(folder / "m.sparlow")]) == 0
    assert "course of learning" in capsys.readouterr().out


def test_columns_are_matched_by_name(tmp_path, capsys):
    import pandas as pd

    table = pd.DataFrame(DIGITS.data[:120, 20:40], columns=[f"p{k}" for k in range(20)])
    table["digit"] = DIGITS.target[:120]
    table.to_csv(tmp_path / "a.csv", index=False)
    table.iloc[:, ::-1].to_parquet(tmp_path / "b.parquet")
    words = ("--labels", "digit")
    assert run(capsys, "fit", tmp_path / "a.csv", *words, "-o", tmp_path / "m.sparlow", *SMALL)[0] == 0
    for name in ("a.csv", "b.parquet"):
        out = tmp_path / f"{name}.npy"
        assert run(capsys, "transform", tmp_path / "m.sparlow", tmp_path / name, "-o", out)[0] == 0
    np.testing.assert_array_equal(np.load(tmp_path / "a.csv.npy"), np.load(tmp_path / "b.parquet.npy"))


def test_pictures_beside_the_classes_need_a_criterion_for_them(tmp_path, capsys):
    for row in range(60):
        place = tmp_path / "p" / "abc"[DIGITS.target[row] % 3]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray((DIGITS.images[row] * 15).astype(np.uint8)).save(place / f"{row}.png")
    Image.fromarray(np.eye(8, dtype=np.uint8) * 200).save(tmp_path / "p" / "loose.png")
    words = ("fit", tmp_path / "p", "-o", tmp_path / "m.sparlow", *SMALL)
    code, _, said = run(capsys, *words)
    assert (code, "1 sample has no label (first: loose.png): move them away" in said) == (2, True)
    assert run(capsys, *words, "--criterion", "sda")[0] == 0


@pytest.mark.slow
def test_reports_do_not_judge_by_samples_that_were_seen(folder, tmp_path, capsys, monkeypatch):
    start, page = tmp_path / "start.sparlow", tmp_path / "page.html"
    words = ("--from", folder / "m.sparlow", "--set", "max_iter=0", "--jobs", "1", "-o", start)
    assert run(capsys, "fit", folder / "train.npz", *words)[0] == 0
    few = ("--classifiers", "1NN", "-o", page)
    judged = []
    monkeypatch.setattr(
        "sparlow.app.commands.report.compare", lambda models, *rest: judged.append(models) or compare(models, *rest)
    )
    code, told, _ = run(capsys, "report", start, folder / "train.npz", *few)
    ((model,),) = (models.values() for models in judged)
    assert (code, model.dictionary, model.n_atoms) == (0, "ksvd", 30)
    assert "first dictionary is K-SVD's" in told["protocol"]
    assert "K-SVD" not in run(capsys, "report", folder / "m.sparlow", folder / "train.npz", *few)[1]["protocol"]
    words = ("report", start, folder / "train.npz", "--train", folder / "test.npz", *few)
    code, told, said = run(capsys, *words)
    assert (code, "learned from these very samples" in said) == (0, True)
    assert "learned from these very samples" in told["protocol"]
    assert "1NN, on samples it learned from" in facts(page)
    assert "held out" not in facts(page)
    assert "learned from other samples (200 of" in said
    assert "learned from other samples (200 of" in told["protocol"]
    words = ("report", start, folder / "test.npz", "--train", folder / "train.npz", *few)
    code, told, said = run(capsys, *words)
    assert (code, said, "Beware" in told["protocol"]) == (0, "", False)
    assert "1NN, held out" in facts(page)


def facts(page):
    return re.search(r'<dl class="facts">.*?</dl>', page.read_text())[0]


WRONG = {
    "threads": (["fit", "{missing}", "-o", "{out}", "--jobs", "0"], "expected a number of threads such as 2, or -1"),
    "no such parameter": (["fit", "{missing}", "-o", "{out}", "--set", "atoms=3"], "There are n_components, n_atoms,"),
    "a bad parameter": (
        ["fit", "{missing}", "-o", "{out}", "--set", "n_atoms=0"],
        "'n_atoms' parameter",
    ),
    "a bad setting": (
        ["fit", "{missing}", "-o", "{out}", "--set", "tol=-1"],
        "tol of Solver must be",
    ),
    "a bad object": (
        ["fit", "{missing}", "-o", "{out}", "--set", "prior=ElasticNet(l3=1)"],
        "ElasticNet has l1",
    ),
    "no such object": (["fit", "{missing}", "-o", "{out}", "--set", "prior=open('x')"], "open is none of PCA, LLE"),
    "a parameter of features": (
        ["features", "{missing}", "-o", "{out}.npz", "--set", "words=1"],
        "There are n_components",
    ),
    "data after parameters": (["fit", "-o", "{out}", "--set", "n_atoms=3", "{train}"], "expected NAME=VALUE"),
    "some labels missing": (["fit", "{gaps}", "-o", "{out}"], "1 sample has no label (first: number 1 from 0)"),
    "real labels": (["fit", "{real}", "-o", "{out}"], "real numbers (such as 0.5), but LDA needs classes"),
    "folds of real labels": (["evaluate", "{real}", "--criterion", "sda"], "use --criterion mvr"),
    "repeated columns": (["fit", "{twice}", "-o", "{out}"], "the header has 'p' more than once"),
    "unknown command": (["fly"], "invalid choice"),
    "unknown criterion": (["fit", "{train}", "-o", "{out}", "--criterion", "magic"], "There are pca, lle, lap, lda"),
    "part of a folder": (["fit", "{folder}", "-o", "{out}", "--part", "test"], "is for .npz files of two parts"),
    "set of a model": (["evaluate", "{model}", "{train}", "--set", "n_atoms=3"], "--set goes without MODEL"),
    "no data": (["fit", "{missing}", "-o", "{out}"], "no file or folder"),
    "no model": (["inspect", "{missing}"], "no model file"),
    "swapped": (
        ["evaluate", "{folder}", "{model}"],
        "is a folder, no model file; where a command takes both, the model comes before",
    ),
    "labels as text": (["predict", "{model}", "{train}", "-o", "{out}.txt"], "labels are written as .csv"),
    "foreign model": (["inspect", "{train}"], "holds samples; a model file was expected"),
    "model as samples": (["evaluate", "{model}"], "is a model file; samples were expected"),
    "samples to write over": (["fit", "{train}", "-o", "{train}"], "is read by this command: name another"),
    "label column of arrays": (["fit", "{train}", "-o", "{out}", "--labels", "y"], "no file of labels y"),
    "damaged model": (["transform", "{broken}", "{train}", "-o", "{out}.npy"], "damaged"),
    "no folder to write into": (["fit", "{train}", "-o", "{missing}/x/m"], "no folder"),
    "a folder to write": (["fit", "{train}", "-o", "{folder}"], "is a folder"),
    "wrong size": (["fit", "{train}", "-o", "{out}", "--size", "large"], "HEIGHTxWIDTH"),
    "bad setting": (["fit", "{train}", "-o", "{out}", "--criterion", "lap", "--set", "k=0"], "positive whole"),
    "other features": (["transform", "{model}", "{narrow}", "-o", "{out}.npy"], "learned from samples of 64 (8x8"),
    "unknown output": (["transform", "{model}", "{train}", "-o", "{out}.doc"], "written as .npy"),
    "no labels": (["fit", "{narrow}", "-o", "{out}"], "--labels"),
    "nothing to compare": (["evaluate", "{model}", "{bare}"], "no labels to compare"),
    "one fold": (["evaluate", "{train}", "--folds", "1"], "at least 2"),
    "no pictures": (["features", "{empty}", "-o", "{out}.npz"], "holds no pictures"),
    "no such folder": (["features", "{missing}", "-o", "{out}.npz"], "no folder"),
    "rows as text": (["features", "{empty}", "-o", "{out}.csv"], "written as .npz"),
    "train is data": (["report", "{model}", "{train}", "--train", "{train}", "-o", "{out}"], "same samples"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_usage_ends_with_2_and_a_word_of_help(name, folder, tmp_path, capsys):
    np.save(tmp_path / "narrow.npy", DIGITS.data[:50, :7])
    np.save(tmp_path / "bare.npy", DIGITS.data[:50])
    np.savez(tmp_path / "real.npz", X=DIGITS.data[:50], y=np.arange(50) + 0.5)
    (tmp_path / "twice.csv").write_text("p,p,label\n1,2,0\n3,4,1\n")
    (tmp_path / "gaps.csv").write_text("p,label\n1,0\n3,\n5,1\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").write_bytes((folder / "m.sparlow").read_bytes()[:5000])
    files = {"train": folder / "train.npz", "model": folder / "m.sparlow", "out": tmp_path / "out", "folder": tmp_path,
             "missing": tmp_path / "missing", "broken": tmp_path / "broken", "narrow": tmp_path / "narrow.npy",
             "bare": tmp_path / "bare.npy", "empty": tmp_path / "empty",
             "real": tmp_path / "real.npz", "twice": tmp_path / "twice.csv", "gaps": tmp_path / "gaps.csv"}  # fmt: skip
    words, promised = WRONG[name]
    assert main([word.format(**files) for word in words]) == 2
    said = capsys.readouterr()
    assert promised in said.err
    assert "Traceback" not in said.err
    assert "usage:" not in said.err  # a line on what is wrong, not every option
    assert not said.out
    assert not (tmp_path / "out").exists()


def test_work_that_fails_ends_with_1(tmp_path, capsys, monkeypatch):
    np.savez(tmp_path / "same.npz", X=np.ones((20, 4)), y=np.arange(20) % 2)
    assert main(["fit", str(tmp_path / "same.npz"), "-o", str(tmp_path / "m")]) == 1
    assert "multiples of the same one" in capsys.readouterr().err
    monkeypatch.setenv("SPARLOW_TRACEBACK", "1")
    assert main(["fit", str(tmp_path / "same.npz"), "-o", str(tmp_path / "m"), "--set", "n_components=5"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_errors_nobody_foresaw_are_told_in_a_line(folder, monkeypatch, capsys):
    def broken(arguments, terminal):
        raise RuntimeError("a slip")

    monkeypatch.setattr(inspect, "run", broken)
    assert main(["inspect", str(folder / "m.sparlow")]) == 1
    assert (
        capsys.readouterr().err == "sparlow: error: unexpected RuntimeError: a slip. SPARLOW_TRACEBACK=1 shows where.\n"
    )


def test_the_command_alone_prints_its_help_and_does_not_wait_for_scikit_learn():
    code = "import sys; from sparlow.app import main; main([]); main(['--help']); sys.exit('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.count("usage: sparlow [-h]") == 2


def test_help_lists_the_parameters_of_the_estimator(capsys):
    assert main(["fit", "--help"]) == 0
    said = capsys.readouterr().out
    named = [line.split()[0] for line in said.partition("parameters of the model, for --set:")[2].splitlines() if line]
    own = {*SparLow().get_params()} - {"criterion", "n_jobs", "verbose", "warm_start"}
    assert own <= {*named}
    assert {"tol", "checkpoint", "lda", "smvr"} <= {*named}


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_examples(name, capsys):
    assert main([name, "--help"]) == 0
    assert f"examples:\n  sparlow {name}" in capsys.readouterr().out


def test_shares_have_three_digits_on_the_terminal(folder, capsys):
    assert main(["predict", str(folder / "m.sparlow"), str(folder / "test.npz"), "--jobs", "1"]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    places = [header.split().index(name) for name in ("probability", "likeness")]
    assert len(lines) > 3
    assert all(re.fullmatch(r"[01]\.\d{3}", line.split()[place]) for line in lines for place in places)


def test_the_whole_help_names_commands_and_exit_codes(capsys):
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in (*COMMANDS, "130", "exit codes"))


@pytest.mark.slow
def test_documented_commands_run(tmp_path, monkeypatch, capsys):
    for row in range(120):
        place = tmp_path / "digits" / str(DIGITS.target[row]) if row < 110 else tmp_path / "new"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray((DIGITS.images[row] * 15).astype(np.uint8)).save(place / f"{row}.png")
    text = (cases.ROOT / "docs" / "command_line.md").read_text()
    commands = re.search(r"```sh\n(.*?)```", text, re.DOTALL)[1].splitlines()
    printed = re.search(r"```\n(digits.*?)```", text, re.DOTALL)[1]
    monkeypatch.chdir(tmp_path)
    for command in commands:
        program, *words = shlex.split(command)
        words = [found for word in words for found in (sorted(glob.glob(word)) if "*" in word else [word])]
        assert (program, main(words)) == ("sparlow", 0), command
    said = capsys.readouterr()
    for line in printed.splitlines():  # the page shows what is printed, but for numbers
        assert line == "…" or line.split()[:1] == [] or line.split()[0].rstrip(":") in said.out or "png" in line
    assert said.err == ""
    assert "LDA-SparLow on digits" in (tmp_path / "report.html").read_text()


def process(*words, **options):
    return subprocess.Popen([sys.executable, "-m", "sparlow.app", *map(str, words)], **options)


@pytest.mark.slow
def test_a_pipe_gets_the_result_and_nothing_else(folder):
    with process("fit", folder / "train.npz", "-o", folder / "p.sparlow", *SMALL, "--json",
                 stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:  # fmt: skip
        out, err = child.communicate(timeout=300)
    stages = err.decode().splitlines()  # said where they take long, and nothing else
    assert (child.returncode, [line for line in stages if " …" not in line]) == (0, [])
    assert json.loads(out)["n_atoms"] == 30
    assert load(folder / "p.sparlow").n_atoms_ == 30


@pytest.mark.slow
def test_ctrl_c_saves_the_best_model_so_far(folder):
    path = folder / "interrupted.sparlow"
    ours, theirs = pty.openpty()  # a terminal: progress is shown
    words = ["--set", "n_atoms=30", "max_iter=1000000", "tol=0", "--jobs", "1"]
    words += ["--set", "early_stopping=False", "embedding=orthonormal"]
    with process("fit", folder / "train.npz", "-o", path, *words, stdout=subprocess.PIPE, stderr=theirs) as child:
        os.close(theirs)
        said = b""
        while b"quotient" not in said:
            said += os.read(ours, 4096)
        child.send_signal(signal.SIGINT)
        try:
            while os.read(ours, 4096):
                pass
        except OSError:  # the other side is closed
            pass
        out = child.stdout.read()
    os.close(ours)
    assert child.returncode == 130
    assert b"interrupted" in out
    model = load(path)
    assert model.stop_reason_ == "interrupted"
    assert model.n_iter_ >= 1
    assert model.score(DIGITS.data[200:300], DIGITS.target[200:300]) > 0.8


@pytest.fixture(scope="module")
def wine(tmp_path_factory):
    """A table whose columns differ in scale."""
    data = load_wine()
    rows = np.column_stack([data.data, data.target])
    path = tmp_path_factory.mktemp("wine") / "wine.csv"
    np.savetxt(path, rows, delimiter=",", header=",".join([*data.feature_names, "label"]), comments="")
    return path


def test_commands_scale_samples_as_the_library_does(tmp_path, capsys):
    """Classes of one direction and two norms: the model standardises columns, unless it is asked not to."""
    rng = np.random.default_rng(0)
    y = np.arange(240) % 2
    table = (1 + 3 * y[:, None]) * (1 + 0.2 * rng.standard_normal((240, 9)))
    np.savez(tmp_path / "d.npz", X=table, y=y)
    for words, scaled in (([], True), (["--no-standardize"], False), (["--set", "normalize=True"], False)):
        words = ["--set", "n_atoms=20", "max_iter=0", "--jobs", "1", *words]
        assert run(capsys, "fit", tmp_path / "d.npz", "-o", tmp_path / "m", *words)[0] == 0
        assert (load(tmp_path / "m").column_means_ is not None) == scaled


def test_columns_that_differ_in_scale_are_standardized(wine, tmp_path, capsys):
    words = ["--set", "n_atoms=30", "max_iter=1", "--jobs", "1"]
    code, _, said = run(capsys, "fit", wine, "-o", tmp_path / "m", *words)
    assert code == 0
    assert said.count("columns differ in scale and are scaled") == 1
    data = load_wine()
    scaled = StandardScaler().fit_transform(data.data)
    expected = SparLow("lda", n_atoms=30, max_iter=1, random_state=0, n_jobs=1).fit(scaled, data.target)
    whole = load(tmp_path / "m")
    assert [type(step).__name__ for step in whole] == ["StandardScaler", "SparLow"]
    np.testing.assert_allclose(whole.transform(data.data), expected.transform(scaled), atol=1e-6)
    # every command scales what it reads, and knows the samples again
    assert run(capsys, "transform", tmp_path / "m", wine, "-o", tmp_path / "z.npy", "--jobs", "1")[0] == 0
    np.testing.assert_allclose(np.load(tmp_path / "z.npy"), whole.transform(data.data), atol=1e-9)
    code, told, _ = run(capsys, "evaluate", tmp_path / "m", wine, "--classifiers", "1NN", "--jobs", "1")
    assert (code, told["n_seen"]) == (0, 178)
    # asked for, asked not to, started from
    assert run(capsys, "fit", wine, "-o", tmp_path / "n", "--no-standardize", *words)[0] == 0
    assert isinstance(load(tmp_path / "n"), SparLow)
    np.savez(tmp_path / "d.npz", X=data.data, y=data.target)
    assert run(capsys, "fit", tmp_path / "d.npz", "-o", tmp_path / "n", "--standardize", *words)[::2] == (0, "")
    np.testing.assert_allclose(load(tmp_path / "n").transform(data.data), whole.transform(data.data), atol=1e-6)
    assert run(capsys, "fit", wine, "-o", tmp_path / "k", "--from", tmp_path / "m", *words)[0] == 0
    assert [type(step).__name__ for step in load(tmp_path / "k")] == ["StandardScaler", "SparLow"]
    code, _, said = run(capsys, "fit", wine, "-o", tmp_path / "k", "--from", tmp_path / "m", "--standardize", *words)
    assert code == 2
    assert "--standardize goes without --from" in said


@pytest.mark.slow
def test_raw_columns_do_not_collapse(wine, capsys):
    words = ["--set", "max_iter=1", "n_atoms=40", "--classifiers", "1NN", "--jobs", "1", "--folds", "3"]
    code, told, said = run(capsys, "evaluate", wine, *words)
    assert code == 0
    assert told["methods"][0]["accuracy"]["1NN"] > 0.94
    code, told, said = run(capsys, "evaluate", wine, "--no-standardize", *words)
    assert told["methods"][0]["accuracy"]["1NN"] < 0.93
    assert said.count("nearly equal") == 1  # not once for each fold


@pytest.mark.slow
def test_every_command_leaves_out_broken_pictures(folder, tmp_path, capsys):
    for row in range(60):
        place = tmp_path / "p" / str(DIGITS.target[row])
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray((DIGITS.images[row] * 15).astype(np.uint8)).save(place / f"{row}.png")
    for name in ("0/x.png", "1/y.png"):
        (tmp_path / "p" / name).write_text("no picture")
    model = tmp_path / "m"
    commands = [
        ["fit", tmp_path / "p", "-o", model, "--set", "n_atoms=20", "max_iter=0"],
        ["transform", model, tmp_path / "p", "-o", tmp_path / "z.npy"],
        ["predict", model, tmp_path / "p"],
        ["evaluate", model, tmp_path / "p", "--classifiers", "1NN"],
        [
            "evaluate",
            tmp_path / "p",
            "--classifiers",
            "1NN",
            "--folds",
            "2",
            "--set",
            "n_atoms=20",
            "--set",
            "max_iter=0",
        ],
        ["report", model, tmp_path / "p", "-o", tmp_path / "r.html", "--classifiers", "1NN"],
        [
            "features",
            tmp_path / "p",
            "-o",
            tmp_path / "f.npz",
            "--set",
            "patch=4",
            "--set",
            "step=2",
            "--set",
            "n_words=8",
        ],
    ]
    assert {words[0] for words in commands} == set(COMMANDS) - {"inspect", "explain"}  # of no sample, of one
    for words in commands:
        assert main([*map(str, words), "--jobs", "2", "--skip"]) == 0, words
        assert capsys.readouterr().err.count("left out: Cannot use the image") == 2
        assert main([*map(str, words), "--jobs", "1"]) == 2
        said = capsys.readouterr().err
        assert "x.png: it is not a picture" in said
        assert "y.png be read. With --skip such pictures are left out." in said


@pytest.mark.slow
def test_every_command_of_tables_takes_the_same_options_and_says_the_same_with_two_threads(wine, tmp_path, capsys):
    model = tmp_path / "m"
    commands = [
        ["fit", wine, "-o", model, "--set", "n_atoms=20", "max_iter=0"],
        ["transform", model, wine, "-o", tmp_path / "z.npy"],
        ["predict", model, wine],
        ["evaluate", model, wine, "--classifiers", "1NN"],
        ["evaluate", wine, "--classifiers", "1NN", "--folds", "2", "--set", "n_atoms=20", "max_iter=0"],
        ["report", model, wine, "-o", tmp_path / "r.html", "--classifiers", "1NN"],
    ]
    assert {words[0] for words in commands} == set(COMMANDS) - {"inspect", "explain", "features"}
    for words in commands:
        said = []
        for jobs in ("1", "2"):
            assert main([*map(str, words), "--jobs", jobs, "--skip"]) == 0, words
            said.append(re.sub(r"\S+ s\b|\d+\.\d\d$", "", capsys.readouterr().out, flags=re.MULTILINE))  # no seconds
        assert said[0] == said[1], words


def test_a_model_that_leaves_its_codes_out_says_so(tmp_path, capsys):
    y, X = np.arange(200) % 4, np.random.default_rng(3).standard_normal((200, 16))
    X[:, :4] += 2.5 * np.eye(4)[y]
    model = SparLow("lda", n_atoms=16, random_state=0).fit(X, y)
    assert model.weights_[0] == 0
    save(model, tmp_path / "m")
    np.save(tmp_path / "x.npy", X[:1])
    for command, words in (("explain", [tmp_path / "x.npy"]), ("inspect", [])):
        assert main([command, str(tmp_path / "m"), *map(str, words)]) == 0
        assert "samples alone, as their codes did not help" in capsys.readouterr().out
    assert "samples alone" in model._repr_html_()


def test_words_are_encoded_and_gaps_filled_on_request(tmp_path, capsys):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    table = pandas.DataFrame(
        {
            "age": np.round(rng.normal(40, 5, 80) + 20 * y),
            "income": np.round(rng.normal(40_000, 5000, 80)),
            "city": rng.choice(["Kiel", "Ulm"], 80),
            "species": np.where(y, "cat", "dog"),
        }
    )
    table.loc[3, "income"] = np.nan
    table.to_csv(tmp_path / "t.csv.gz", index=False, sep=";", decimal=",")
    words = [
        "fit",
        tmp_path / "t.csv.gz",
        "-o",
        tmp_path / "m",
        "--set",
        "max_iter=0",
        "--set",
        "n_atoms=20",
        "--jobs",
        1,
    ]
    code, _, said = run(capsys, *words, "--labels", "species")
    assert (code, "'income' (1 of 80)" in said, "--fill: with the median" in said) == (2, True, True)
    code, _, said = run(capsys, *words, "--labels", "species", "--fill")
    assert (code, "column 'city' has" in said, "--one-hot city makes a number of each word" in said) == (2, True, True)
    code, told, said = run(capsys, *words, "--labels", "species", "--fill", "--one-hot")
    assert (code, told["n_features"]) == (0, 4)
    assert "1 missing numbers are filled with medians, columns of numbers are scaled" in said
    assert "words are encoded (city: 2 numbers)" in said
    table.loc[5, "city"] = "Rome"  # a new word, and columns in another order
    table[["city", "income", "age", "species"]].to_csv(tmp_path / "new.csv", index=False)
    code, told, said = run(capsys, "evaluate", tmp_path / "m", tmp_path / "new.csv", "--classifiers", "1NN")
    assert (code, told["n_seen"]) == (0, 79)
    assert "1 missing numbers are filled as in learning; 1 words that the model has not seen" in said
    for city in ("", "5"):  # a column of words that has none here
        (tmp_path / "one.csv").write_text(f"age,income,city\n41,40000,{city}\n")
        assert run(capsys, "predict", tmp_path / "m", tmp_path / "one.csv")[0] == 0
    code, told, _ = run(capsys, "evaluate", tmp_path / "t.csv.gz", "--one-hot", "city", "--fill", "--folds", 2,
                        "--classifiers", "1NN", "--set", "max_iter=0")  # fmt: skip
    assert (code, told["methods"][0]["accuracy"]["1NN"] > 0.7) == (0, True)
    code, _, said = run(capsys, *words, "--one-hot", "town")
    assert (code, "--one-hot names 'town', which is no column" in said) == (2, True)
    assert run(capsys, "fit", tmp_path, "-o", tmp_path / "m", "--fill")[0] == 2


@pytest.mark.slow
def test_raw_wine_is_judged_as_well_as_by_linear_discriminants(wine, capsys):
    code, told, _ = run(capsys, "evaluate", wine, "--classifiers", "1NN", "--jobs", 1)
    found = {row["name"]: row["accuracy"]["1NN"] for row in told["methods"] if "1NN" in row["accuracy"]}
    assert code == 0
    assert found["LDA-SparLow"] >= found["LDA, shrinkage"] - 0.01


def test_a_long_stage_is_named_without_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(Terminal, "PATIENCE", 0.05)
    with Terminal() as terminal:
        terminal.stage("counting")
        time.sleep(0.5)
    with Terminal(quiet=True) as terminal:
        terminal.stage("resting")
        time.sleep(0.3)
    assert capsys.readouterr().err == "sparlow: counting …\n"


def test_names_of_classes_are_whole(tmp_path, capsys):
    rng = np.random.default_rng(0)
    names = np.array(["chrysanthemum", "chrysalis"])[np.arange(40) % 2]
    np.savez(tmp_path / "t.npz", X=rng.normal(size=(40, 5)) + 3 * (np.arange(40) % 2)[:, None], y=names)
    assert main(["evaluate", str(tmp_path / "t.npz"), "--folds", "2", "--classifiers", "1NN", "--jobs", "1"]) == 0
    assert re.search(r"true . given +chrysalis +chrysanthemum +right %", capsys.readouterr().out)
