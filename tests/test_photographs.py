"""Folders of pictures: local codes of small ones, features of photographs, and both in one file."""

import csv
import shutil
import time

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from sparlow import SparLow, load, save
from sparlow.app import learning, main
from sparlow.app.commands import evaluate
from sparlow.app.dataset import ReadOptions
from sparlow.app.pictures import learn, look_at, recipe
from sparlow.images import fisher_features, pyramid_features, reading
from sparlow.models import load_file
from sparlow.views import Patches
from tests import cases
from tests.test_cli import run

DIGITS = load_digits()
KINDS = ("across", "down", "slant")
BRIEF = ["--jobs", "1", "--set", "max_iter=0"]


def draw(folder, seeds, side=64):
    """Write drawn pictures of different sizes in a sub-folder for each class."""
    for kind, name in enumerate(KINDS):
        (folder / name).mkdir(parents=True)
        for seed in seeds:
            picture = Image.fromarray(cases.stripes(kind, 10 * seed + kind))
            picture.resize((side + seed, side + 2 * seed)).save(folder / name / f"{seed}.png")


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """Photographs to learn from, others, and a model of few words."""
    path = tmp_path_factory.mktemp("photographs")
    draw(path / "old", range(6))
    draw(path / "new", range(6, 9))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learning, "recipe", lambda *given, **run: recipe(given[0], {"n_words": 4}, *given[2:], **run))
        assert main(["fit", str(path / "old"), "-o", str(path / "m.sparlow"), *BRIEF]) == 0
        yield path


def test_seconds_are_those_of_features_and_model(photographs, tmp_path, capsys, monkeypatch):
    def slow(*given):
        time.sleep(0.7)
        return learn(*given)

    monkeypatch.setattr(learning, "learn_features", slow)
    monkeypatch.setattr(evaluate, "learn_features", slow)
    code, told, _ = run(capsys, "fit", photographs / "old", "-o", tmp_path / "m", *BRIEF)
    assert (code, told["seconds"] > 0.7) == (0, True)
    words = ["--folds", "2", "--classifiers", "1NN", *BRIEF]
    code, told, _ = run(capsys, "evaluate", photographs / "old", *words)
    assert (code, [row["fit_seconds"] > 0.7 for row in told["methods"]]) == (0, [True] * 5)


def test_pictures_are_decoded_once(photographs, tmp_path, capsys, monkeypatch):
    opened = []
    real = reading.file_bytes
    monkeypatch.setattr(reading, "file_bytes", lambda image: opened.append(str(image)) or real(image))
    for words in (["fit", photographs / "old", "-o", tmp_path / "m", *BRIEF],
                  ["report", photographs / "m.sparlow", photographs / "new", "-o", tmp_path / "r.html"]):  # fmt: skip
        opened.clear()
        assert run(capsys, *words)[0] == 0
        assert len(opened) == len({*opened}) > 0


def test_colours_that_are_left_out_are_spoken_of(tmp_path, capsys):
    tint = np.array([[1.0, 0.6, 0.2], [0.2, 0.6, 1.0]])
    for place, image in enumerate(DIGITS.images[:40]):
        pixels = 15 * image[..., None] * tint[place % 2]
        (tmp_path / "p" / str(place % 2)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / "p" / str(place % 2) / f"{place}.png")
    expected = "sparlow: the colours of the pictures are left out: they are read in grey\n"
    words = ["--set", "n_atoms=8", "--pictures", "whole", *BRIEF]
    code, _, said = run(capsys, "fit", tmp_path / "p", "-o", tmp_path / "m", *words)
    assert (code, said) == (0, expected)
    assert run(capsys, "evaluate", tmp_path / "p", "--folds", "2", "--classifiers", "1NN", *words)[2] == expected
    said = run(capsys, "predict", tmp_path / "m", tmp_path / "p")[2]
    assert "colours" not in said  # said once, by what learns


def test_patches_keep_colours(tmp_path, capsys):
    """Classes of equal grey values that differ in colour alone."""
    rng = np.random.default_rng(0)
    for place in range(30):
        pixels = rng.integers(0, 40, (12, 12, 3)) + np.array([[100, 0, 15], [0, 51, 15]])[place % 2]
        (tmp_path / "p" / "rg"[place % 2]).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / "p" / "rg"[place % 2] / f"{place}.png")
    words = ["--set", "n_atoms=8", *BRIEF]
    code, _, said = run(capsys, "fit", tmp_path / "p", "-o", tmp_path / "m", *words)
    assert (code, said) == (0, "")
    held = load_file(tmp_path / "m")
    assert (held.image_shape, held.model.views) == ((12, 12, 3), Patches(shape=(12, 12, 3)))
    told = run(capsys, "predict", tmp_path / "m", tmp_path / "p")[1]
    assert told["label"] == [name[0] for name in told["name"]]
    assert run(capsys, "report", tmp_path / "m", tmp_path / "p", "-o", tmp_path / "r.html")[0] == 0
    assert "12 × 12 pixels in colour" in (tmp_path / "r.html").read_text()
    code, _, said = run(capsys, "fit", tmp_path / "p", "-o", tmp_path / "m", *words, "--grey")
    assert (code, load_file(tmp_path / "m").image_shape, "read in grey, as asked" in said) == (0, (12, 12), True)


def test_one_file_learns_from_photographs_and_labels_others(photographs, tmp_path, capsys):
    model, out = photographs / "m.sparlow", tmp_path / "labels.csv"
    assert [name for name, _ in load(model).steps] == [
        "descriptors",
        "codebook",
        "pyramid",
        "components",
        "norm",
        "sparlow",
    ]
    code, told, said = run(capsys, "predict", model, photographs / "new", "-o", out)
    assert (code, told["n_samples"], said) == (0, 9, "")
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [row["label"] for row in rows] == [row["name"].split("/")[0] for row in rows]
    assert all(row["nearest1"].startswith(row["label"]) for row in rows)
    # one picture, of another size
    with Image.open(photographs / "new/down/7.png") as picture:
        picture.resize((100, 90)).save(tmp_path / "one.png")
    code, told, _ = run(capsys, "predict", model, tmp_path / "one.png")
    assert (code, told["label"], told["name"]) == (0, ["down"], ["one.png"])
    np.savez(tmp_path / "rows.npz", X=np.ones((2, 3)))
    code, _, said = run(capsys, "predict", model, tmp_path / "rows.npz")
    assert (code, "a folder of pictures or one was expected" in said) == (2, True)


def test_every_command_takes_a_model_of_photographs(photographs, tmp_path, capsys):
    model, new = photographs / "m.sparlow", photographs / "new"
    code, told, _ = run(capsys, "evaluate", model, new, "--classifiers", "1NN")
    assert (code, told["methods"][0]["accuracy"]["1NN"]) == (0, 1.0)
    assert run(capsys, "transform", model, new, "-o", tmp_path / "z.npy")[0] == 0
    assert np.load(tmp_path / "z.npy").shape == (9, load(model)["sparlow"].n_components_)
    assert "DenseSIFT" in run(capsys, "inspect", model)[1]["steps"]
    code, _, said = run(capsys, "evaluate", model, photographs / "old", "--classifiers", "1NN")
    assert (code, "learned from these very samples" in said) == (0, True)  # known by their files
    assert run(capsys, "report", model, new, "-o", tmp_path / "p.html", "--classifiers", "1NN")[0] == 0
    page = (tmp_path / "p.html").read_text()
    assert "features of a photograph" in page
    assert "data:image/webp" in page
    assert 'id="atoms"' not in page


def test_photographs_that_cannot_be_read_are_all_named_before_the_work(photographs, tmp_path, capsys):
    folder = tmp_path / "some"
    shutil.copytree(photographs / "new", folder)
    (folder / "down" / "a.png").write_bytes(b"no picture")
    (folder / "slant" / "b.png").write_bytes((folder / "slant/7.png").read_bytes()[:200])
    Image.new("L", (9, 9)).save(folder / "across" / "c.png")
    for words in (["predict", photographs / "m.sparlow"], ["evaluate", photographs / "m.sparlow"]):
        code, _, said = run(capsys, *words, folder)
        assert code == 2
        assert all(f"{name}.png" in said for name in "abc")
        code, _, said = run(capsys, *words, folder, "--skip")
        assert (code, said.count("left out")) == (0, 3)
    code, _, said = run(capsys, "fit", folder, "-o", tmp_path / "m")
    assert (code, "a.png" in said, "b.png" in said) == (2, True, True)


def test_commands_take_a_pipeline_of_pictures_that_python_saved(photographs, tmp_path, capsys):
    files = sorted((photographs / "old").rglob("*.png"))
    labels = [file.parent.name for file in files]
    features = pyramid_features(n_words=16, patch=16, random_state=0)
    whole = make_pipeline(features, SparLow("lda", n_atoms=9, max_iter=0, random_state=0), KNeighborsClassifier(1))
    save(whole.fit(files, labels), tmp_path / "m.sparlow")
    code, told, _ = run(capsys, "predict", tmp_path / "m.sparlow", photographs / "new")
    new = sorted((photographs / "new").rglob("*.png"))
    assert (code, told["label"]) == (0, whole.predict(new).tolist())
    assert run(capsys, "evaluate", tmp_path / "m.sparlow", photographs / "new", "--classifiers", "1NN")[0] == 0


@pytest.mark.slow
def test_features_are_learned_anew_in_each_fold(photographs, tmp_path, capsys):
    words = ["--folds", 2, "--classifiers", "1NN", *BRIEF]
    code, told, said = run(capsys, "evaluate", photographs / "old", *words)
    assert (code, "features learned anew in each fold" in told["how"]) == (0, True)
    assert "the pictures differ in size: features are learned first" in said
    assert told["methods"][0]["accuracy"]["1NN"] > 0.8
    made = ["-o", tmp_path / "rows.npz", "--set", "n_words=16", "--jobs", 1]
    assert run(capsys, "features", photographs / "old", *made)[0] == 0
    code, told, _ = run(capsys, "evaluate", tmp_path / "rows.npz", *words)
    assert (code, "features learned from all of these pictures" in told["how"]) == (0, True)


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """Small pictures of one size in a sub-folder for each of three classes, as files and as an array."""
    path = tmp_path_factory.mktemp("digits")
    rows = np.flatnonzero(DIGITS.target < 3)[:120]
    for row in rows:
        (path / "all" / str(DIGITS.target[row])).mkdir(parents=True, exist_ok=True)
        picture = Image.fromarray((15 * DIGITS.images[row]).astype(np.uint8))
        picture.save(path / "all" / str(DIGITS.target[row]) / f"{row}.png")
    np.savez(path / "rows.npz", X=DIGITS.data[rows], y=DIGITS.target[rows])
    assert main(["fit", str(path / "all"), "-o", str(path / "m.sparlow"), "--set", "n_atoms=12", *BRIEF]) == 0
    return path


def test_small_pictures_have_local_codes(digits, tmp_path, capsys):
    assert load(digits / "m.sparlow").views == Patches(shape=(8, 8))
    words = ["-o", tmp_path / "m", "--set", "n_atoms=12", *BRIEF]
    assert run(capsys, "fit", digits / "all", *words, "--pictures", "whole")[0] == 0
    assert load(tmp_path / "m").views is None
    assert run(capsys, "fit", digits / "rows.npz", *words)[0] == 0  # rows of unknown shape are no pictures
    assert load(tmp_path / "m").views is None
    assert run(capsys, "fit", digits / "rows.npz", *words, "--size", "8x8")[0] == 0
    assert load(tmp_path / "m").views == Patches(shape=(8, 8))
    for more, promised in (
        (["--pictures", "patches"], "Patches are views of pictures, but"),
        (["--set", "views=Shifts(1)"], "Shifts are views of pictures, but"),
        (["--pictures", "photographs"], "is neither a folder nor a picture"),
        (["--pictures", "photographs", "--size", "8x8"], "is neither a folder nor a picture"),
        (["--fill"], "--fill: for tables"),
    ):
        code = main([*map(str, ["fit", digits / "rows.npz", *words, *more])])
        assert (code, promised in capsys.readouterr().err) == (2, True)
    # a start has its own views
    code, _, said = run(capsys, "fit", digits / "all", "--from", digits / "m.sparlow", *words[:2], *BRIEF)
    assert (code, said, load(tmp_path / "m").views) == (0, "", Patches(shape=(8, 8)))


def test_one_picture_of_another_size_is_named(digits, tmp_path, capsys):
    shutil.copytree(digits / "all", tmp_path / "all")
    Image.fromarray(np.zeros((9, 8), np.uint8)).save(tmp_path / "all" / "1" / "odd.png")
    main(["fit", str(tmp_path / "all"), "-o", str(tmp_path / "m")])
    assert "differ in size (1/odd.png has 8 × 9 pixels, most have 8 × 8)" in capsys.readouterr().err


def test_every_command_takes_a_local_model(digits, tmp_path, capsys):
    model, new = digits / "m.sparlow", digits / "all"
    assert run(capsys, "evaluate", model, new, "--classifiers", "1NN")[0] == 0
    assert run(capsys, "transform", model, new, "-o", tmp_path / "z.npy")[0] == 0
    assert run(capsys, "transform", model, new, "--codes", "-o", tmp_path / "c.npz")[0] == 0
    code, told, _ = run(capsys, "predict", model, new)
    assert (code, told["label"]) == (0, [int(name.split("/")[0]) for name in told["name"]])
    assert run(capsys, "inspect", model)[0] == 0
    assert run(capsys, "report", model, new, "-o", tmp_path / "r.html", "--classifiers", "1NN")[0] == 0
    page = (tmp_path / "r.html").read_text()
    assert "patches of the pictures" in page
    assert "how much it looks at each place" in page
    with pytest.raises(ValueError, match="no way back from pooled codes"):
        load(model).inverse_transform(np.zeros((1, 2)))


def test_unlike_samples_get_no_label(digits, tmp_path, capsys):
    model = digits / "m.sparlow"
    assert len(load_file(model).data["unlikeness"]) == 40
    np.save(tmp_path / "others.npy", DIGITS.images[np.isin(DIGITS.target, (4, 7))][:60] / 16)
    code, told, _ = run(capsys, "predict", model, tmp_path / "others.npy", "--reject", 0.05)
    assert (code, told["rejected"] > 40, told["label"].count(None)) == (0, True, told["rejected"])
    assert run(capsys, "predict", model, tmp_path / "others.npy", "--reject", 0.05, "-o", tmp_path / "l.npy")[0] == 0
    assert np.sum(np.load(tmp_path / "l.npy") == -1) == told["rejected"]
    code, told, said = run(capsys, "predict", model, digits / "all", "--reject", 0.05)
    assert (code, told["rejected"] < 12) == (0, True)
    save(load(model), tmp_path / "m")  # without a measurement on held-out samples
    code, _, said = run(capsys, "predict", tmp_path / "m", tmp_path / "others.npy", "--reject", 0.05)
    assert (code, "does not say how like held-out samples are" in said) == (0, True)


def test_explain_says_which_atoms_speak_for_a_class_and_where(digits, photographs, tmp_path, capsys):
    model, one = digits / "m.sparlow", next((digits / "all" / "1").iterdir())
    code, told, _ = run(capsys, "explain", model, one, "-o", tmp_path / "why.png", "--parts", 3)
    assert (code, told["label"], len(told["parts"])) == (0, 1, 3)
    assert {*told["parts"][0]} == {"atom", "sign", "where", "share"}
    with Image.open(tmp_path / "why.png") as drawn:
        assert drawn.size[0] > 300
    code, told, _ = run(capsys, "explain", model, digits / "all", "--sample", 2, "--class", 2, "--against", 0)
    assert (code, told["label"], told["against"]) == (0, 2, 0)
    assert main(["explain", str(model), str(one)]) == 0
    assert "rather than" in capsys.readouterr().out
    words = ["fit", digits / "all", "-o", tmp_path / "w", "--pictures", "whole", "--set", "n_atoms=12", *BRIEF]
    assert run(capsys, *words)[0] == 0
    code, told, _ = run(capsys, "explain", tmp_path / "w", one, "-o", tmp_path / "why.png")
    assert (code, told["label"], told["n_atoms"] > 0) == (0, 1, True)
    for words, promised in (
        ([model, one, "--class", "nine"], "--class nine: the model has no such class. It has 0, 1, 2."),
        ([model, one, "--class", 1, "--against", 1], "the same class"),
        ([model, one, "--sample", 1], "has 1 samples, counted from 0"),
        ([tmp_path / "w", one, "--class", 1], "--class and --against are for models of local codes"),
        ([photographs / "m.sparlow", one], "features of photographs, whose atoms are no pictures"),
        ([model, one, "-o", tmp_path / "why.gif"], "explanations are drawn as .png"),
    ):
        code, _, said = run(capsys, "explain", *words)
        assert (code, promised in said) == (2, True), said


def test_commands_take_the_patches_of_the_library(tmp_path):
    Image.new("L", (300, 200)).save(tmp_path / "a.png")
    large = look_at([tmp_path / "a.png"], ReadOptions())
    assert recipe(large, {})["descriptors"].patch == list(fisher_features()["descriptors"].patch)
    assert recipe(large, {"coding": "llc"})["descriptors"].patch == list(pyramid_features()["descriptors"].patch)
