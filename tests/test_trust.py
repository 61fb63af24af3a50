"""Files of strangers, full disks, interruptions: nothing is lost, nothing runs, and the message says what to do."""

import copy
import errno
import json
import os
import pathlib
import signal
import subprocess
import sys
import warnings
import zipfile

import numpy as np
import pytest
import skops.io
from PIL import Image
from sklearn.base import BaseEstimator, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC

from sparlow import DictionaryLearner, SparLow, TraceQuotient, files, load, models, save
from sparlow.app import main
from sparlow.app.commands import fit as fit_command
from sparlow.app.outputs import no_formula
from sparlow.app.readers import read
from sparlow.classifiers import BMDDL, DKSVD, FDDL, LCKSVD, SRC, TDDL, LapRLS
from sparlow.estimators import choosing
from sparlow.images import DHOG, Codebook, DenseSIFT, Scattering, SpatialPyramid
from sparlow.models import ModelFileError, load_file
from sparlow.solvers import Solver
from sparlow.views import Patches, Shifts
from tests import cases

DIGITS = load_digits()
X, Y = DIGITS.data[:150], DIGITS.target[:150]
SMALL = ["--pictures", "whole", "--set", "n_atoms=20", "max_iter=1", "--jobs", "1"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A .npz file and a model learned from it."""
    path = tmp_path_factory.mktemp("trust")
    np.savez(path / "data.npz", images=DIGITS.images[:150], labels=Y)
    assert main(["fit", str(path / "data.npz"), "-o", str(path / "m.sparlow"), *SMALL]) == 0
    return path


def small(**options):
    return SparLow("lda", **{"n_atoms": 20, "max_iter": 0, "random_state": 0, **options})


# ── outputs ────────────────────────────────────────────────────────────────────────────────────────────────────────

WRITERS = {
    "fit": ["fit", "{data}", "-o", "{out}", *SMALL],
    "transform npy": ["transform", "{model}", "{data}", "-o", "{out}.npy"],
    "transform npz": ["transform", "{model}", "{data}", "-o", "{out}.npz"],
    "transform csv": ["transform", "{model}", "{data}", "-o", "{out}.csv"],
    "transform parquet": ["transform", "{model}", "{data}", "-o", "{out}.parquet"],
    "transform codes": ["transform", "{model}", "{data}", "--codes", "-o", "{out}.npz"],
    "predict csv": ["predict", "{model}", "{data}", "-o", "{out}.csv"],
    "predict npy": ["predict", "{model}", "{data}", "-o", "{out}.npy"],
    "report": ["report", "{model}", "{data}", "-o", "{out}.html", "--classifiers", "1NN"],
    "features": [
        "features",
        "{folder}",
        "-o",
        "{out}.npz",
        "--set",
        "n_words=8",
        "--set",
        "n_components=0",
        "--jobs",
        "1",
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_the_earlier_file_and_names_it(name, place, tmp_path, capsys, monkeypatch):
    for kind in range(2):
        (tmp_path / "pictures" / str(kind)).mkdir(parents=True)
        for seed in range(2):
            Image.fromarray(cases.stripes(kind, seed)).save(tmp_path / "pictures" / str(kind) / f"{seed}.png")
    (tmp_path / "results").mkdir()
    named = {"data": place / "data.npz", "model": place / "m.sparlow", "folder": tmp_path / "pictures",
             "out": tmp_path / "results" / "out"}  # fmt: skip
    words = [word.format(**named) for word in WRITERS[name]]
    out = next(tmp_path / "results" / word for word in words if str(tmp_path / "results") in word)
    out.write_bytes(b"earlier")

    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as disk:
        disk.setattr(files.os, "fsync", full)
        assert main(words) == 1
    said = capsys.readouterr().err
    assert f"{out} could not be written: No space left on device" in said
    assert "unchanged" in said
    assert out.read_bytes() == b"earlier"
    assert [file.name for file in out.parent.iterdir()] == [out.name]
    assert main(words) == 0
    assert out.read_bytes() != b"earlier"
    assert [file.name for file in out.parent.iterdir()] == [out.name]


def refused_above(limit, words):
    """Run a command that may write no file of more bytes, and hear from it which file does not fit."""
    code = f"""
import resource, sys
from sparlow.app import main
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
sys.exit(main(sys.argv[1:]))
"""
    done = subprocess.run([sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "z.npy could not be written" in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="files have no such limit on Windows")
def test_a_file_that_really_does_not_fit_is_named(place, tmp_path):
    (tmp_path / "z.npy").write_bytes(b"earlier")
    words = ["transform", place / "m.sparlow", place / "data.npz", "-o", tmp_path / "z.npy"]
    refused_above(4000, words)
    assert (tmp_path / "z.npy").read_bytes() == b"earlier"
    assert [file.name for file in tmp_path.iterdir()] == ["z.npy"]


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="files have no such limit on Windows")
def test_a_result_written_part_by_part_that_does_not_fit_is_named(place, tmp_path):
    np.save(tmp_path / "x.npy", np.tile(DIGITS.images[:150], (300, 1, 1)))
    words = ["transform", place / "m.sparlow", tmp_path / "x.npy", "-o", tmp_path / "z.npy", "--memory", "10MB"]
    refused_above(100_000, words)
    assert [file.name for file in tmp_path.iterdir()] == ["x.npy"]


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows, and modes are others")
def test_links_and_modes_are_kept_and_pipes_are_written_to(tmp_path):
    (tmp_path / "real").write_text("earlier")
    (tmp_path / "real").chmod(0o640)
    (tmp_path / "link").symlink_to("real")
    with files.replacing(tmp_path / "link") as unfinished:
        unfinished.write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o640
    with files.replacing(os.devnull) as unfinished:
        assert str(unfinished) == os.devnull


def test_what_cannot_be_saved_is_said_before_learning(place, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(fit_command, "learn_with_progress", lambda *_: pytest.fail("learned"))
    words = ["fit", str(place / "data.npz"), "-o"]
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "skops.io", None)
        assert main([*words, str(tmp_path / "m.sparlow"), *SMALL]) == 2
    assert "Model files need skops: pip install 'sparlow[cli]'" in capsys.readouterr().err

    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as without:
        without.setattr("sparlow.app.outputs.tempfile.TemporaryFile", refuse)
        assert main([*words, str(tmp_path / "m.sparlow"), *SMALL]) == 2
    assert "cannot be written to: Permission denied" in capsys.readouterr().err
    with monkeypatch.context() as without:
        (tmp_path / "m.sparlow").touch()
        without.setattr("sparlow.app.outputs.os.access", lambda *_: False)
        assert main([*words, str(tmp_path / "m.sparlow"), *SMALL]) == 2
    assert "is read-only" in capsys.readouterr().err


# ── interruptions ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_ctrl_c_while_saving_loses_nothing(place, tmp_path, capsys, monkeypatch):
    def interrupted(held, path):
        signal.raise_signal(signal.SIGINT)
        save(held, path)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(fit_command, "save", interrupted)
    assert main(["fit", str(place / "data.npz"), "-o", str(tmp_path / "m.sparlow"), *SMALL]) == 130
    assert "what was learned is saved first" in capsys.readouterr().err
    assert load(tmp_path / "m.sparlow").n_iter_ <= 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_ctrl_c_loses_nothing(place, tmp_path, capsys, monkeypatch):
    transduced = choosing.transduced

    def again(*arguments):  # after the last step
        signal.raise_signal(signal.SIGINT)
        return transduced(*arguments)

    monkeypatch.setattr(choosing, "transduced", again)
    learn = fit_command.learn_with_progress

    def first(model, dataset, terminal, interrupts):
        terminal.progress = lambda *_: Bar()
        learn(model, dataset, terminal, interrupts)

    class Bar:
        def __enter__(self):
            return lambda words: signal.raise_signal(signal.SIGINT)

        def __exit__(self, *error):
            pass

    monkeypatch.setattr(fit_command, "learn_with_progress", first)
    words = [
        "--set",
        "n_atoms=20",
        "--set",
        "max_iter=50",
        "--jobs",
        "1",
        "--set",
        "early_stopping=False",
        "--set",
        "embedding=orthonormal",
    ]
    assert main(["fit", str(place / "data.npz"), "-o", str(tmp_path / "m.sparlow"), *words]) == 130
    model = load(tmp_path / "m.sparlow")
    assert (model.stop_reason_, model.n_iter_) == ("interrupted", 1)


# ── bombs ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_files_that_grow_beyond_the_limit_are_refused_before_they_are_unpacked(tmp_path, capsys, monkeypatch):
    bomb = tmp_path / "bomb.npz"
    np.savez_compressed(bomb, X=np.zeros((2000, 2000)), y=np.zeros(2000))
    save(small().fit(X, Y), tmp_path / "m.sparlow")
    with zipfile.ZipFile(tmp_path / "m.sparlow", "a", zipfile.ZIP_DEFLATED) as file:
        file.writestr("more.npy", bytes(30_000_000))
    monkeypatch.setenv("SPARLOW_MAX_BYTES", "2e7")
    with pytest.raises(ModelFileError, match=r"would grow to 0\.0 GB.*SPARLOW_MAX_BYTES=\d+.*max_bytes"):
        load(tmp_path / "m.sparlow")
    with pytest.raises(ModelFileError, match="differ from its digest"):  # within the limit, but not what was saved
        load(tmp_path / "m.sparlow", max_bytes=10**9)
    assert main(["fit", str(bomb), "-o", str(tmp_path / "n.sparlow")]) == 2
    said = capsys.readouterr().err
    assert "would grow to" in said
    assert "SPARLOW_MAX_BYTES=" in said
    monkeypatch.setenv("SPARLOW_MAX_BYTES", "4e7")
    assert read(bomb).X.shape == (2000, 2000)
    monkeypatch.setenv("SPARLOW_MAX_BYTES", "much")
    with pytest.raises(ValueError, match="must be a number of bytes such as 4e9, got 'much'"):
        files.max_growth()
    monkeypatch.delenv("SPARLOW_MAX_BYTES")
    assert files.max_growth() == 2**30
    # a large file that is not packed is not a bomb
    np.savez(tmp_path / "plain.npz", X=np.zeros((2000, 2000)))
    files.check_zip(tmp_path / "plain.npz", max_bytes=1000)


# ── caches ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("damage", ["cut", "altered", "moved", "indices", "pickle"])
def test_entries_of_a_cache_are_arrays_with_a_checksum_and_damaged_ones_are_computed_again(damage, tmp_path):
    pictures = [cases.stripes(kind, 0) for kind in range(3)]
    chain = make_pipeline(DenseSIFT(), Codebook(8, random_state=0, memory=tmp_path), SpatialPyramid(memory=tmp_path))
    rows = chain.fit(pictures).transform(pictures).toarray()
    entries = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    assert len(entries) == 4  # the words and three rows
    assert {path.suffix for path in entries} == {".npz"}
    whole = [path.read_bytes() for path in entries]
    for path, content in zip(entries, whole, strict=True):
        if damage == "cut":
            path.write_bytes(content[: len(content) // 2])
        elif damage == "altered":
            path.write_bytes(content[:300] + bytes([content[300] ^ 1]) + content[301:])
        elif damage == "moved":
            path.write_bytes(whole[(whole.index(content) + 1) % 4])
        elif damage == "pickle":
            path.write_bytes(b"\x80\x04.")
    if damage == "indices":
        from sparlow.images.bags import ArrayCache

        for path in entries:
            key = path.parent.name + path.stem
            bad = {"indices": np.array([2**30], np.int32), "values": np.ones(1, np.float32)}
            ArrayCache(tmp_path).put(key, bad)
    again = chain.fit(pictures).transform(pictures).toarray()
    np.testing.assert_array_equal(again, rows)
    assert [path.read_bytes() for path in entries] == whole


# ── checkpoints ────────────────────────────────────────────────────────────────────────────────────────────────────


def altered(arrays, about):
    """Return arrays of a checkpoint with other words about them."""
    return {**arrays, "about": np.array(json.dumps({**json.loads(str(arrays["about"])), **about}))}


CHECKPOINTS = {
    "object": (lambda a: {**a, "dictionary": np.array([print], object)}, "Object arrays cannot be loaded"),
    "nan": (lambda a: {**a, "dictionary": a["dictionary"] * np.nan}, "dictionary must be an array of finite"),
    "words": (lambda a: {**a, "projection": np.full((30, 9), "x")}, "projection must be an array of finite numbers"),
    "no words": (lambda a: {k: v for k, v in a.items() if k != "about"}, "no checkpoint"),
    "no key": (lambda a: altered(a, {"key": []}), "no checkpoint"),
    "another format": (lambda a: altered(a, {"format": "other"}), "its format is 'other'"),
}


@pytest.mark.slow
def test_checkpoints_that_are_damaged_or_forged_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "fit.npz"

    def fit(max_iter):
        return small(
            max_iter=max_iter, early_stopping=False, embedding="orthonormal", solver=Solver(checkpoint=path)
        ).fit(X, Y)

    fit(2)
    content = path.read_bytes()
    with np.load(path) as file:
        arrays = dict(file)
    for change, said in CHECKPOINTS.values():
        np.savez(path, **change(arrays))
        with pytest.raises(ValueError, match=rf"is no checkpoint of this version.*{said}|{said}.*of this version"):
            fit(3)
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match="is no checkpoint of this version"):
        fit(3)
    np.savez_compressed(path, **arrays, more=np.zeros(10**6))
    monkeypatch.setenv("SPARLOW_MAX_BYTES", "1e6")
    with pytest.raises(ValueError, match="would grow to"):
        fit(3)
    path.write_bytes(content)
    assert fit(3).n_iter_ == 3


# ── words ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_no_cell_is_a_formula(tmp_path):
    assert [no_formula(cell) for cell in ("=1+1", "+a", "-b", "@c", "\td")] == ["'=1+1", "'+a", "'-b", "'@c", "'\td"]
    assert [no_formula(cell) for cell in ("a=b", "-1", "+2.5", "-1e-3", -3, 2.5, "")] == [
        "a=b", "-1", "+2.5", "-1e-3", -3, 2.5, ""]  # fmt: skip
    names = ["=cmd()", "+x", "-y", "@z", "plain"]
    np.savez(tmp_path / "d.npz", X=X[:100], y=np.array(names)[Y[:100] % 5], names=np.array(names * 20))
    assert main(["fit", str(tmp_path / "d.npz"), "-o", str(tmp_path / "m"), *SMALL]) == 0
    for command in ("transform", "predict"):
        out = tmp_path / f"{command}.csv"
        assert main([command, str(tmp_path / "m"), str(tmp_path / "d.npz"), "-o", str(out)]) == 0
        lines = out.read_text().splitlines()
        assert lines[1].startswith("'=cmd(),")
        assert any(line.startswith("'-y,") for line in lines)
        if command == "transform":
            assert isinstance(float(lines[1].split(",")[-1]), float)
            again = read(out)
            assert again.names[:5] == tuple(names)
            assert set(again.y.tolist()) == set(names)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_names_that_are_no_utf8_do_not_fail_after_the_work(tmp_path, capsysbinary):
    folder = os.fsencode(tmp_path) + b"/pictures"
    for kind, label in enumerate((b"caf\xe9", b"th\xe9")):
        os.makedirs(folder + b"/" + label)
        for seed in range(20):
            path = os.fsdecode(folder + b"/" + label + b"/x\xff%d.png" % seed)
            Image.fromarray(cases.stripes(kind, seed)).save(path)
    data, model = os.fsdecode(folder), str(tmp_path / "m.sparlow")
    assert main(["fit", data, "-o", model, *SMALL]) == 0
    assert main(["inspect", model]) == 0
    assert main(["predict", model, data]) == 0
    assert rb"caf\xe9" in capsysbinary.readouterr().out
    for ending in ("csv", "npz", "parquet"):
        assert main(["transform", model, data, "-o", str(tmp_path / f"z.{ending}")]) == 0
    assert rb"caf\xe9/x\xff0.png" in (tmp_path / "z.csv").read_bytes()
    assert main(["report", model, data, "-o", str(tmp_path / "r.html"), "--classifiers", "1NN"]) == 0
    words = ["--set", "n_words=8", "n_components=0", "--jobs", "1"]
    assert main(["features", data, "-o", str(tmp_path / "f.npz"), *words]) == 0
    with np.load(tmp_path / "f.npz") as file:
        assert file["names"][0] == r"caf\xe9/x\xff0.png"


def test_names_of_strangers_do_not_steer_the_terminal(tmp_path, capsys):
    names = np.array(["\x1b[2Jone", "\x1b]0;two\x07", "\x9b3m"])
    data, model = str(tmp_path / "d.npz"), str(tmp_path / "m.sparlow")
    np.savez(data, X=X[:90], y=names[Y[:90] % 3])
    assert main(["fit", data, "-o", model, *SMALL]) == 0
    for words in (["inspect", model], ["predict", model, data], ["evaluate", model, data], ["fit", data]):
        main(words)
    assert main(["inspect", str(tmp_path / "\x1b[1mmissing")]) == 2
    said = capsys.readouterr()
    assert not set("\x1b\x07\x9b") & set(said.out + said.err)
    assert r"\x1b[2Jone" in said.out
    assert r"\x1b[1mmissing" in said.err


# ── model files ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_altered_numbers_are_noticed(tmp_path):
    save(small().fit(X, Y), tmp_path / "m.sparlow")
    with zipfile.ZipFile(tmp_path / "m.sparlow") as file:
        members = {name: file.read(name) for name in file.namelist()}
    arrays = sorted(name for name in members if name.endswith(".npy"))
    assert len(arrays) > 5
    for name in (*arrays, "schema.json"):
        changed = bytearray(members[name])
        changed[-3] ^= 1
        with zipfile.ZipFile(tmp_path / "n.sparlow", "w") as file:
            for other, content in members.items():
                file.writestr(other, bytes(changed) if other == name else content)
        with pytest.raises(ModelFileError, match="altered after it was saved"):
            load(tmp_path / "n.sparlow")
    with zipfile.ZipFile(tmp_path / "n.sparlow", "w") as file:
        for name, content in members.items():
            if name.endswith((".npy", ".json")):
                file.writestr(name, content)
    with pytest.raises(ModelFileError, match="has no digest"):
        load(tmp_path / "n.sparlow")


OUT_OF_RANGE = {
    "dictionary of words": {"dictionary_": np.full((20, 64), "x")},
    "dictionary of another width": {"dictionary_": np.ones((20, 63))},
    "dictionary of more atoms": {"dictionary_": np.ones((21, 64))},
    "dictionary with nan": {"dictionary_": np.full((20, 64), np.nan)},
    "dictionary of integers": {"dictionary_": np.ones((20, 64), int)},
    "no dictionary": {"dictionary_": None},
    "projection": {"projection_": np.ones((19, 9))},
    "components": {"components_": np.ones((9, 65))},
    "embedding": {"embedding_": np.ones((150, 8))},
    "features": {"n_features_in_": -64},
    "atoms": {"n_atoms_": 2**40},
    "a truth for a number": {"n_components_": True},
    "parameter": {"normalize": "perhaps"},
}


def save_unchecked(model, path):
    """Save a model that is not sound, which a copy would notice."""
    with pytest.MonkeyPatch.context() as patch:
        for kind in (SparLow, TraceQuotient):
            patch.setattr(kind, "__setstate__", BaseEstimator.__setstate__)
        save(model, path)


@pytest.mark.slow
@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_attributes_out_of_range_are_refused(name, tmp_path):
    model = small().fit(X, Y)
    vars(model).update(OUT_OF_RANGE[name])
    save_unchecked(model, tmp_path / "m.sparlow")
    with pytest.raises(ModelFileError, match="damaged"):
        load(tmp_path / "m.sparlow")


@pytest.mark.slow
def test_labels_priors_and_views_out_of_range_are_refused(tmp_path):
    path = tmp_path / "m.sparlow"
    for change in ("labels", "prior", "views"):
        model = small(views=None).fit(X, Y)
        if change == "labels":
            model._training.y[0] = 10**6
        elif change == "prior":
            object.__setattr__(model.prior_, "l1", -1.0)
        else:
            model.views = Shifts(1, (9, 9))
        save_unchecked(model, path)
        with pytest.raises(ModelFileError, match="damaged"):
            load(path)
    classical = TraceQuotient("lda").fit(X, Y)
    classical._training.y[0] = 10**9  # probabilities of so many classes would fill the memory
    save_unchecked(classical, path)
    with pytest.raises(ModelFileError, match="labels of the training samples"):
        load(path)
    for other, name in ((TraceQuotient("lda").fit(X, Y), "projection_"), (DictionaryLearner(10).fit(X), "dictionary_")):
        setattr(other, name, np.ones((7, 7)))
        save(other, path)
        with pytest.raises(ModelFileError, match=name):
            load(path)


def described(descriptor=None, coding="llc"):
    pictures = [np.random.RandomState(seed).randint(0, 255, (48, 48)).astype(np.uint8) for seed in range(2)]
    book = Codebook(8, coding, random_state=0, n_neighbors=3, n_templates=20)
    return make_pipeline(descriptor or DenseSIFT(), book, SpatialPyramid((1, 2))).fit(pictures)


CHAIN_OUT_OF_RANGE = {
    "patch": ("llc", lambda chain: setattr(chain[0], "patch", 2)),
    "huge patch": ("llc", lambda chain: setattr(chain[0], "patch", 10**9)),
    "step": ("llc", lambda chain: setattr(chain[0], "step", 0)),
    "words of words": ("hard", lambda chain: setattr(chain[1], "words_", np.full((8, 128), "x"))),
    "width": ("hard", lambda chain: setattr(chain[1], "n_features_in_", 64)),
    "fewer words": ("hard", lambda chain: setattr(chain[1], "n_words", 4)),
    "another coder": ("hard", lambda chain: setattr(chain[1], "coding", "llc")),
    "no neighbours": ("llc", lambda chain: object.__setattr__(chain[1]._coder, "k", 0)),
    "too many neighbours": ("llc", lambda chain: object.__setattr__(chain[1]._coder, "k", 9)),
    "ridge": ("llc", lambda chain: object.__setattr__(chain[1]._coder, "ridge", float("nan"))),
    "dictionary": ("sparse", lambda chain: object.__setattr__(chain[1]._coder, "dictionary", np.ones((8, 127)))),
    "templates": ("laplacian", lambda chain: object.__setattr__(chain[1]._coder.templates, "k", 21)),
    "pull": ("laplacian", lambda chain: object.__setattr__(chain[1]._coder, "pull", -1.0)),
    "axes": ("fisher", lambda chain: object.__setattr__(chain[1]._coder, "axes", np.ones((127, 64)))),
    "centres": ("fisher", lambda chain: object.__setattr__(chain[1]._coder, "centres", np.ones((9, 64)))),
    "variances": ("fisher", lambda chain: object.__setattr__(chain[1]._coder, "variances", np.zeros((8, 64)))),
    "no levels": ("hard", lambda chain: setattr(chain[2], "levels", ())),
    "huge levels": ("hard", lambda chain: setattr(chain[2], "levels", (10**5,))),
    "words of the pyramid": ("hard", lambda chain: setattr(chain[2], "n_words_", 2**40)),
}


@pytest.mark.parametrize("name", CHAIN_OUT_OF_RANGE)
def test_features_out_of_range_are_refused(name, tmp_path):
    coding, change = CHAIN_OUT_OF_RANGE[name]
    chain = described(coding=coding)
    save(chain, tmp_path / "m.sparlow")
    load(tmp_path / "m.sparlow")
    change(chain)
    save(chain, tmp_path / "m.sparlow")
    with pytest.raises(ModelFileError, match="damaged"):
        load(tmp_path / "m.sparlow")


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("image_shape", ("x", 8)),
        ("image_shape", (10**6, 10**6)),
        ("labels", "abc"),
        ("feature_names", (1, 2)),
        ("data", [1]),
    ],
)
def test_what_stands_beside_a_model_is_checked(name, wrong, tmp_path):
    save(models.ModelFile(TraceQuotient().fit(X, Y), **{name: wrong}), tmp_path / "m.sparlow")
    with pytest.raises(ModelFileError, match=f"damaged.*{name}"):
        load(tmp_path / "m.sparlow")


@pytest.mark.slow
def test_patches_and_scattering_out_of_range_are_refused(tmp_path):
    path = tmp_path / "m.sparlow"
    for wrong in ({"_epsilon": float("nan")}, {"_epsilon": -1.0}, {"_epsilon": "x"}, {"n_features_in_": 10**8}):
        model = small(views=Patches()).fit(X, Y)
        vars(model).update(wrong)
        save_unchecked(model, path)
        with pytest.raises(ModelFileError, match="damaged"):
            load(path)
    for views in (
        Patches(shape=(10**4, 10**4)),
        Patches(size=5),
        Patches(cells=2),
        Shifts(1),
        Patches(signs=False, root=False),
    ):
        model = small(views=Patches()).fit(X, Y)
        model.views = views
        save_unchecked(model, path)
        with pytest.raises(ModelFileError, match="damaged"):
            load(path)
    for name, wrong in (
        ("J", 25),
        ("J", 10**30),
        ("L", 10**6),
        ("image_shape_", (2**31, 2**31)),
        ("output_shape_", (1, 1, 1)),
    ):
        chain = make_pipeline(Scattering(2, 4), TraceQuotient()).fit(X, Y)
        setattr(chain[0], name, wrong)
        save(chain, path)
        with pytest.raises(ModelFileError, match="damaged"):
            load(path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [SRC, DKSVD, LCKSVD, FDDL, TDDL, BMDDL, LapRLS], ids=lambda kind: kind.__name__)
def test_classifiers_out_of_range_are_refused(kind, tmp_path):
    path = tmp_path / "m.sparlow"
    options = {} if kind is LapRLS else {"n_atoms": 20, "random_state": 0}
    chain = make_pipeline(StandardScaler(), kind(**options)).fit(X, Y)
    save(chain, path)
    np.testing.assert_allclose(load(path).decision_function(X), chain.decision_function(X), rtol=1e-4, atol=1e-4)
    name = "coef_" if kind is LapRLS else "dictionary_"
    for wrong in (np.full(getattr(chain[-1], name).shape, np.nan), np.ones((20, 63)), "x")[
        : 1 if kind is LapRLS else 3
    ]:
        other = make_pipeline(chain[0], copy.copy(chain[-1]))
        setattr(other[-1], name, wrong)
        for made in (other, other[-1]):
            save(made, path)
            with pytest.raises(ModelFileError, match="damaged"):
                load(path)


def test_a_file_names_no_place_to_write_to(tmp_path, monkeypatch):
    path, evil = tmp_path / "m.sparlow", str(tmp_path / "evil")
    chain = described()
    model = small(solver=Solver(checkpoint=evil)).fit(X, Y)
    save(chain, path)
    save(model, path)
    assert load(path).solver.checkpoint is None
    pathlib.Path(evil).unlink()
    monkeypatch.setattr(models, "_portable", lambda model: model)
    for forged in (
        chain.set_params(spatialpyramid__memory=evil),
        chain.set_params(spatialpyramid__memory=None, memory=evil),
        model,
    ):
        save(forged, path)
        with pytest.raises(ModelFileError, match="which no saved model does"):
            load(path)
    assert not pathlib.Path(evil).exists()


def test_trusted_takes_types_and_names(tmp_path):
    path = tmp_path / "m.sparlow"
    save(small().fit(X, Y), path)
    load(path, trusted=["numpy.dtype", DHOG])
    with pytest.raises(TypeError, match=r"trusted takes types, or their names such as 'numpy.dtype', got 3"):
        load(path, trusted=[3])
    model = small(prior=cases.OwnPrior(tuple(np.full(20, 0.1).tolist()), 0.1)).fit(X, Y)
    with pytest.warns(UserWarning, match="load must be told to trust"):
        save(model, path)
    kind = cases.OwnPrior
    assert load(path, trusted=[f"{kind.__module__}.{kind.__qualname__}"]).n_atoms_ == 20


def test_a_file_of_another_program_is_refused(tmp_path):
    skops.io.dump({"format": models.FORMAT, "model": small().fit(X, Y)}, tmp_path / "m.sparlow")
    with pytest.raises(ModelFileError, match="no digest"):
        load_file(tmp_path / "m.sparlow")


# ── pipelines ──────────────────────────────────────────────────────────────────────────────────────────────────────

CLASSIFIERS = [
    LogisticRegression(max_iter=1000),
    LinearDiscriminantAnalysis(),
    KNeighborsClassifier(3),
    SVC(),
    LinearSVC(),
    GaussianNB(),
    RandomForestClassifier(5, random_state=0),
    CalibratedClassifierCV(LinearSVC(), cv=2),
    MLPClassifier(max_iter=1000, random_state=0),
]


@pytest.mark.slow
@pytest.mark.parametrize("classifier", CLASSIFIERS, ids=lambda step: type(step).__name__)
def test_pipelines_of_usual_steps_are_loaded(classifier, tmp_path):
    whole = make_pipeline(StandardScaler(), PCA(20), small(), clone(classifier)).fit(X, Y)
    with warnings.catch_warnings(action="ignore"):  # trees must be told to trust
        save(whole, tmp_path / "m.sparlow")
    again = load(tmp_path / "m.sparlow", trusted=["sklearn.tree._tree.Tree"])
    np.testing.assert_array_equal(again.predict(X), whole.predict(X))


def every_command(model, data, folder, more=()):
    """Run what takes a saved model; return the labels that it gives."""
    report = ["--classifiers", "1NN"]
    assert main(["inspect", str(model)]) == 0
    assert main(["transform", str(model), str(data), "-o", str(folder / "z.npy"), *more]) == 0
    assert main(["transform", str(model), str(data), "--codes", "-o", str(folder / "c.npz"), *more]) == 0
    assert main(["evaluate", str(model), str(data), "--classifiers", "1NN", *more]) == 0
    assert main(["report", str(model), str(data), "-o", str(folder / "r.html"), *report, *more]) == 0
    assert main(["predict", str(model), str(data), "-o", str(folder / "labels.npy"), *more]) == 0
    return np.load(folder / "labels.npy")


@pytest.mark.slow
def test_every_command_takes_a_pipeline(tmp_path, capsys):
    whole = make_pipeline(StandardScaler(), PCA(20), small(), LogisticRegression(max_iter=1000)).fit(X, Y)
    save(whole, tmp_path / "m.sparlow")
    np.savez(tmp_path / "new.npz", X=DIGITS.data[150:300], y=DIGITS.target[150:300])
    found = every_command(tmp_path / "m.sparlow", tmp_path / "new.npz", tmp_path)
    np.testing.assert_array_equal(found, whole.predict(DIGITS.data[150:300]))
    np.testing.assert_allclose(np.load(tmp_path / "z.npy"), whole[:-1].transform(DIGITS.data[150:300]), atol=1e-5)
    said = capsys.readouterr().out
    assert "steps: StandardScaler → PCA → SparLow → LogisticRegression" in said
    assert "LogisticRegression %" in said
    assert main(["predict", str(tmp_path / "m.sparlow"), str(tmp_path / "new.npz"), "--classifier", "1NN"]) == 0
    save(make_pipeline(StandardScaler(), PCA(2)).fit(X), tmp_path / "n.sparlow")
    assert main(["inspect", str(tmp_path / "n.sparlow")]) == 2
    assert "without a SparLow model, which commands need" in capsys.readouterr().err


def test_every_command_takes_a_pipeline_of_columns(tmp_path, capsys):
    pandas = pytest.importorskip("pandas")
    X, y = load_iris(return_X_y=True)
    table = pandas.DataFrame(X, columns=["a", "b", "c", "d"])
    table["kind"] = np.where(np.arange(150) % 3, "u", "v")
    table["label"] = np.array(["se", "ve", "vi"])[y]
    table.loc[7, "b"] = np.nan
    table.to_csv(tmp_path / "t.csv", index=False)
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    columns = ColumnTransformer(
        [("numbers", numbers, ["a", "b", "c", "d"]), ("words", OneHotEncoder(handle_unknown="ignore"), ["kind"])]
    )
    whole = make_pipeline(columns, small(n_atoms=15), KNeighborsClassifier(1))
    whole.fit(table.drop(columns="label"), table["label"])
    save(whole, tmp_path / "m.sparlow")
    np.testing.assert_array_equal(load(tmp_path / "m.sparlow").predict(table), whole.predict(table))
    found = every_command(tmp_path / "m.sparlow", tmp_path / "t.csv", tmp_path)
    np.testing.assert_array_equal(found, whole.predict(table))
    np.savez(tmp_path / "new.npz", X=X)
    assert main(["predict", str(tmp_path / "m.sparlow"), str(tmp_path / "new.npz")]) == 2
    assert "a table was expected" in capsys.readouterr().err
    table.drop(columns="b").to_csv(tmp_path / "less.csv", index=False)
    assert main(["predict", str(tmp_path / "m.sparlow"), str(tmp_path / "less.csv")]) == 2
    assert "lacks columns that the model was learned from: b" in capsys.readouterr().err
