"""``sparlow features``: pictures to rows that the other commands read."""

import shutil
import signal

import numpy as np
import pytest
from PIL import Image

from sparlow.app import main
from sparlow.app.commands import features
from tests import cases
from tests.test_cli import run


def arrays(path):
    """Return the arrays of a file, which is closed."""
    with np.load(path) as file:
        return dict(file)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Drawn pictures in a sub-folder for each of three classes."""
    path = tmp_path_factory.mktemp("pictures")
    for kind, name in enumerate(("across", "down", "slant")):
        (path / name).mkdir()
        for seed in range(5):
            Image.fromarray(cases.stripes(kind, 10 * seed + kind)).save(path / name / f"{seed}.png")
    return path


TINY = ["--set", "n_words=16", "coding=llc", "--jobs", "1"]


@pytest.mark.slow
def test_features_are_rows_that_fit_learns_from(pictures, tmp_path, capsys):
    path = tmp_path / "rows.npz"
    code, told, said = run(capsys, "features", pictures, "-o", path, *TINY, "--set", "n_components=8")
    assert (code, said) == (0, "")
    assert told == {"output": str(path), "n_samples": 15, "width": 8, "skipped": []}
    rows = arrays(path)
    np.testing.assert_allclose(np.linalg.norm(rows["X"], axis=1), 1, rtol=1e-5)
    assert rows["y"].tolist() == ["across"] * 5 + ["down"] * 5 + ["slant"] * 5
    assert rows["names"][0] == "across/0.png"
    assert set(rows) == {"X", "y", "names", "features"}
    assert main(["fit", str(path), "-o", str(tmp_path / "m"), "--set", "n_atoms=9", "max_iter=1"]) == 0
    # the same words give the same rows, a cache changes none
    for more in ([], ["--cache", str(tmp_path / "cache")], ["--cache", str(tmp_path / "cache")]):
        assert (
            main(["features", str(pictures), "-o", str(tmp_path / "b.npz"), *TINY, "--set", "n_components=8", *more])
            == 0
        )
        np.testing.assert_array_equal(arrays(tmp_path / "b.npz")["X"], rows["X"])
        assert arrays(tmp_path / "b.npz")["features"] == rows["features"]
    assert any((tmp_path / "cache").rglob("*"))


@pytest.mark.parametrize(
    ("stage", "cached", "said"),
    [
        ("Codebook.fit", True, "nothing is kept yet, the codebook was still being learned"),
        ("SpatialPyramid.transform", True, "the codebook and rows so far are in "),
        ("SpatialPyramid.transform", False, "with --cache DIR a stopped run goes on"),
    ],
)
def test_interruption_says_what_is_kept(pictures, tmp_path, capsys, monkeypatch, stage, cached, said):
    def stop(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"sparlow.images.{stage}", stop)
    where = ["--cache", tmp_path / "cache"] if cached else []
    code, _, told = run(capsys, "features", pictures, "-o", tmp_path / "rows.npz", *TINY, *where)
    assert code == 130
    assert f"interrupted; {said}" in told


@pytest.mark.parametrize(("components", "width"), [(None, 10), (3, 3), (14, 14), (500, 14)])
def test_features_have_two_thirds_as_many_components_as_pictures(pictures, tmp_path, capsys, components, width):
    words = [] if components is None else ["--set", f"n_components={components}"]
    code, told, _ = run(capsys, "features", pictures, "-o", tmp_path / "rows.npz", *TINY, *words)
    assert (code, told["width"]) == (0, width)
    np.testing.assert_allclose(np.linalg.norm(arrays(tmp_path / "rows.npz")["X"], axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("coding", ["hard", "sparse", "laplacian"])
def test_features_of_pictures_alone(pictures, tmp_path, capsys, coding):
    words = [
        *TINY,
        "--set",
        "n_components=0",
        "--set",
        "descriptor=dhog",
        "--set",
        "patch=(8,12)",
        "--set",
        "step=6",
        "--set",
        f"coding={coding}",
    ]
    code, told, _ = run(capsys, "features", pictures / "down", "-o", tmp_path / "rows.npz", *words)
    assert (code, told["n_samples"], told["width"]) == (0, 5, 21 * 16)
    rows = arrays(tmp_path / "rows.npz")
    assert set(rows) == {"X", "names", "features"}
    assert (np.abs(rows["X"]).sum(axis=1) > 0).all()


def test_features_come_from_the_pictures_of_the_classes_alone(pictures, tmp_path, capsys):
    folder = tmp_path / "some"
    shutil.copytree(pictures, folder)
    for name in ("down/._0.png", ".cache/0.png", "loose.png", "down/broken.png"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"no picture")
    words = ["-o", tmp_path / "rows.npz", *TINY, "--set", "n_components=20"]
    code, told, said = run(capsys, "features", folder, *words, "--skip")
    assert (code, told["n_samples"], len(told["skipped"]), told["width"]) == (0, 15, 1, 14)
    assert "1 picture beside the sub-folders left out (first: loose.png)" in said
    for part in ("train", "test"):
        shutil.copytree(pictures, tmp_path / "whole" / part)
    code, _, said = run(capsys, "features", tmp_path / "whole", *words)
    assert (code, "parts of a set (train, test), not its classes" in said) == (2, True)
    found = arrays(tmp_path / "rows.npz")
    # the empty row of what cannot be read takes no part in the components: the rows before scaling have mean zero
    assert (
        run(capsys, "features", folder, "-o", tmp_path / "raw.npz", *TINY, "--set", "n_components=0", "--skip")[0] == 0
    )
    raw = arrays(tmp_path / "raw.npz")
    centred = raw["X"] - raw["X"].mean(axis=0)
    gram = centred @ centred.T
    lengths = np.sqrt(np.diag(gram))
    np.testing.assert_allclose(found["X"] @ found["X"].T, gram / np.outer(lengths, lengths), atol=1e-4)
    assert raw["features"] != found["features"]


def test_pictures_that_cannot_be_read_are_named_or_left_out(pictures, tmp_path, capsys):
    folder = tmp_path / "some"
    shutil.copytree(pictures, folder)
    (folder / "down" / "broken.png").write_bytes(b"half a pic")
    words = ["features", folder, "-o", tmp_path / "rows.npz", *TINY]
    code, _, said = run(capsys, *words)
    assert code == 2
    assert "broken.png" in said
    code, told, said = run(capsys, *words, "--skip")
    assert (code, told["n_samples"], told["skipped"]) == (0, 15, [str(folder / "down" / "broken.png")])
    assert said.count("broken.png") == 1
    assert "broken.png" in said
    assert "down" in arrays(tmp_path / "rows.npz")["y"]
    for picture in folder.rglob("*.png"):
        picture.write_bytes(b"half a pic")
    assert run(capsys, *words, "--skip")[0] != 0


@pytest.mark.parametrize(
    "choices",
    [["--set", "n_components=4"], ["--set", "n_components=0", "coding=hard"], ["--set", "coding=laplacian"]],
)
def test_new_pictures_get_rows_like_those_of_the_first(pictures, tmp_path, capsys, choices):
    first, learned = tmp_path / "rows.npz", tmp_path / "learned.features"
    assert run(capsys, "features", pictures, "-o", first, *TINY, *choices, "--save", learned)[0] == 0
    rows = arrays(first)
    # the same pictures again, the pictures of one class, and a single one: the same rows, whatever else is there
    for source, places in (
        (pictures, slice(0, 15)),
        (pictures / "down", slice(5, 10)),
        (pictures / "slant/3.png", [13]),
    ):
        code, told, said = run(capsys, "features", source, "--like", learned, "-o", tmp_path / "new.npz", "--jobs", 1)
        new = arrays(tmp_path / "new.npz")
        assert (code, said, told["n_samples"]) == (0, "", len(rows["X"][places]))
        np.testing.assert_allclose(new["X"], rows["X"][places], atol=1e-6)
        assert new["features"] == rows["features"]
        assert [str(name).rsplit("/")[-1] for name in new["names"]] == [
            str(name).rsplit("/")[-1] for name in rows["names"][places]
        ]


def test_labels_of_new_pictures_from_files_to_words(pictures, tmp_path, capsys):
    model, labels = tmp_path / "m.sparlow", tmp_path / "labels.csv"
    assert run(capsys, "features", pictures, "-o", tmp_path / "a.npz", *TINY, "--save", tmp_path / "f")[0] == 0
    assert run(capsys, "fit", tmp_path / "a.npz", "-o", model, "--set", "n_atoms=9", "max_iter=1")[0] == 0
    one = tmp_path / "one.png"
    shutil.copy(pictures / "down" / "2.png", one)
    assert run(capsys, "features", one, "--like", tmp_path / "f", "-o", tmp_path / "b.npz")[0] == 0
    assert run(capsys, "predict", model, tmp_path / "b.npz", "-o", labels)[0] == 0
    head, line = labels.read_text().splitlines()
    assert head == "name,label,probability,second,likeness,nearest1,nearest2,nearest3"
    assert line.split(",")[:2] == ["one.png", "down"]
    assert line.split(",")[5] == "down/2.png"
    code, told, _ = run(capsys, "predict", model, tmp_path / "b.npz")
    assert (code, told["name"], told["label"]) == (0, ["one.png"], ["down"])
    assert main(["predict", str(model), str(tmp_path / "b.npz")]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:2] == ["one.png", "down"]


def test_new_pictures_that_cannot_be_read_are_left_out_and_known_ones_come_from_the_cache(pictures, tmp_path, capsys):
    learned, new = tmp_path / "f", tmp_path / "new.npz"
    assert run(capsys, "features", pictures, "-o", tmp_path / "a.npz", *TINY, "--save", learned)[0] == 0
    folder = tmp_path / "some"
    shutil.copytree(pictures / "down", folder)
    (folder / "1.png").write_bytes(b"half a pic")
    words = ["features", folder, "--like", learned, "-o", new, "--jobs", 1, "--cache", tmp_path / "cache"]
    code, _, said = run(capsys, *words)
    assert code == 2
    assert "1.png" in said
    assert "With --skip such pictures are left out" in said
    assert "Nor can" not in said
    shutil.copy(folder / "1.png", folder / "3.png")
    assert f"Nor can {folder / '3.png'} be read." in run(capsys, *words)[2]
    shutil.copy(pictures / "down" / "3.png", folder / "3.png")
    for _ in range(2):  # computed, and found again
        code, told, said = run(capsys, *words, "--skip")
        assert (code, told["skipped"]) == (0, [str(folder / "1.png")])
        assert "left out: " in said
        np.testing.assert_allclose(arrays(new)["X"], arrays(tmp_path / "a.npz")["X"][[5, 7, 8, 9]], atol=1e-6)
    Image.fromarray(np.zeros((7, 7), np.uint8)).save(folder / "1.png")
    assert "too small for a patch of " in run(capsys, *words)[2]


def test_a_model_refuses_rows_that_were_made_in_another_way(pictures, tmp_path, capsys):
    model, other = tmp_path / "m", tmp_path / "b.npz"
    plain = ["--set", "n_components=0", "coding=llc"]
    assert run(capsys, "features", pictures, "-o", tmp_path / "a.npz", *TINY, *plain)[0] == 0
    assert run(capsys, "fit", tmp_path / "a.npz", "-o", model, "--set", "n_atoms=9", "max_iter=0")[0] == 0
    for choice in (
        ["--set", "coding=hard"],
        ["--set", "step=4"],
        ["--set", "random_state=3"],
        ["--set", "descriptor=dhog", "patch=16"],
    ):
        assert run(capsys, "features", pictures, "-o", other, *TINY, *plain, *choice)[0] == 0
        code, _, said = run(capsys, "transform", model, other, "-o", tmp_path / "z.npy")
        assert code == 2, choice
        assert "another codebook" in said
        assert "--like" in said
        code, _, said = run(capsys, "fit", other, "--from", model, "-o", tmp_path / "n", "--set", "max_iter=0")
        assert code == 2
        assert "another codebook" in said
    assert run(capsys, "transform", model, tmp_path / "a.npz", "-o", tmp_path / "z.npy")[0] == 0
    code, _, said = run(capsys, "predict", model, pictures / "down" / "0.png", "-o", tmp_path / "l.csv")
    assert code == 2
    assert "features --like" in said


def test_what_was_learned_is_not_learned_again(pictures, tmp_path, capsys):
    learned, out = tmp_path / "f", tmp_path / "rows.npz"
    assert run(capsys, "features", pictures, "-o", out, *TINY, "--save", learned)[0] == 0
    code, _, said = run(
        capsys, "features", pictures, "-o", out, "--like", learned, "--set", "n_words=16", "--save", learned
    )
    assert code == 2
    assert "--set, --save: what --like names is already learned" in said
    for name in ("--like", "--save"):
        code, _, said = run(capsys, "features", pictures, "-o", out, name, out)
        assert code == 2
        assert f"-o and {name} name the same file" in said
    code, _, said = run(capsys, "features", pictures, "-o", out, "--like", pictures)
    assert code == 2
    assert "is a folder; --like names a file" in said
    code, _, said = run(capsys, "features", out, "-o", tmp_path / "b.npz")
    assert code == 2
    assert "is neither a folder nor a picture" in said
    code, _, said = run(capsys, "features", pictures, "-o", out, "--like", tmp_path / "missing")
    assert code == 2
    assert "There is no model file" in said
    assert run(capsys, "fit", out, "-o", tmp_path / "m", "--set", "n_atoms=9", "max_iter=0")[0] == 0
    code, _, said = run(capsys, "features", pictures, "-o", out, "--like", tmp_path / "m")
    assert code == 2
    assert "was not written by sparlow features --save" in said
    code, _, said = run(capsys, "transform", learned, out, "-o", tmp_path / "z.npy")
    assert code == 2
    assert "was written by sparlow features --save. Usage: sparlow features --like" in said


def test_few_words_are_enough(pictures, tmp_path, capsys):
    code, told, said = run(capsys, "features", pictures, "-o", tmp_path / "r.npz", "--set", "n_words=4", "--jobs", 1)
    assert (code, said) == (0, "")
    assert told["n_samples"] == 15


def test_ctrl_c_while_rows_are_written_loses_none(pictures, tmp_path, capsys, monkeypatch):
    write = features.write

    def interrupted(path, arrays):
        signal.raise_signal(signal.SIGINT)
        write(path, arrays)

    monkeypatch.setattr(features, "write", interrupted)
    words = ["features", pictures, "-o", tmp_path / "r.npz", "--save", tmp_path / "f", *TINY]
    assert main([*map(str, words)]) == 130
    assert "what was learned is saved first" in capsys.readouterr().err
    assert len(arrays(tmp_path / "r.npz")["X"]) == 15
    monkeypatch.undo()
    assert main(["features", str(pictures), "-o", str(tmp_path / "again.npz"), "--like", str(tmp_path / "f")]) == 0
