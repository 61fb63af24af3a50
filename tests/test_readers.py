"""Samples from files of every kind come out the same; what cannot be read is named."""

import gzip
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from sparlow.app.dataset import DataError, ReadOptions, tidy_labels
from sparlow.app.readers import read
from sparlow.app.tables import encoder

RNG = np.random.default_rng(0)
X = np.round(RNG.random((9, 6)), 3)
Y = np.repeat([0, 1, 2], 3)
WORDS = np.array(["ant", "bee", "cat"])[Y]


def test_arrays(tmp_path):
    np.savez(tmp_path / "a.npz", X=X, y=Y)
    found = read(tmp_path / "a.npz")
    np.testing.assert_array_equal(found.X, X)
    np.testing.assert_array_equal(found.y, Y)
    assert found.shape is None
    assert found.source == str(tmp_path / "a.npz")
    assert read(tmp_path / "a.npz", ReadOptions(size=(2, 3))).shape == (2, 3)
    np.savez(tmp_path / "b.npz", images=(255 * X).astype(np.uint8).reshape(9, 2, 3), labels=WORDS)
    found = read(tmp_path / "b.npz")
    np.testing.assert_allclose(found.X, (255 * X).astype(np.uint8) / 255)
    assert found.shape == (2, 3)
    assert found.y.tolist() == WORDS.tolist()
    np.save(tmp_path / "c.npy", X.astype(np.float32))
    (tmp_path / "labels.txt").write_text("\n".join(WORDS) + "\n")
    np.save(tmp_path / "labels.npy", Y)
    found = read(tmp_path / "c.npy", ReadOptions(labels=tmp_path / "labels.txt"))
    assert found.X.dtype == np.float32
    assert found.y.tolist() == WORDS.tolist()
    assert read(tmp_path / "c.npy", ReadOptions(labels=tmp_path / "labels.npy")).y.tolist() == Y.tolist()
    assert read(tmp_path / "c.npy").y is None
    colour = RNG.random((4, 2, 3, 3))
    np.save(tmp_path / "d.npy", colour)
    grey = colour[..., 0] * 0.299 + colour[..., 1] * 0.587 + colour[..., 2] * 0.114
    np.testing.assert_allclose(read(tmp_path / "d.npy").X, grey.reshape(4, 6))


def test_files_of_two_parts(tmp_path):
    np.savez(tmp_path / "a.npz", X_train=X[:6], y_train=Y[:6], X_test=X[6:], y_test=Y[6:])
    with pytest.raises(DataError, match="--part train, test or all"):
        read(tmp_path / "a.npz")
    np.testing.assert_array_equal(read(tmp_path / "a.npz", ReadOptions(part="train")).X, X[:6])
    np.testing.assert_array_equal(read(tmp_path / "a.npz", ReadOptions(part="test")).y, Y[6:])
    np.testing.assert_array_equal(read(tmp_path / "a.npz", ReadOptions(part="all")).X, X)


def frame(labels):
    table = pd.DataFrame(X, columns=[f"f{k}" for k in range(6)])
    table.insert(2, "species", labels)
    return table


@pytest.mark.parametrize("labels", [Y, WORDS], ids=["numbers", "words"])
@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet"])
def test_tables(labels, suffix, tmp_path):
    path = tmp_path / f"a.{suffix}"
    if suffix == "parquet":
        frame(labels).to_parquet(path)
    else:
        frame(labels).to_csv(path, index=False, sep="," if suffix == "csv" else "\t")
    found = read(path, ReadOptions(labels="species"))
    np.testing.assert_array_equal(found.X, X)
    assert found.y.tolist() == labels.tolist()
    assert found.feature_names == ("f0", "f1", "f2", "f3", "f4", "f5")
    assert read(path, ReadOptions(labels="2")).y.tolist() == labels.tolist()
    turned = read(path, ReadOptions(labels="species", columns=("f5", "f1")))
    np.testing.assert_array_equal(turned.X, X[:, [5, 1]])
    with pytest.raises(DataError, match=r"lacks columns.*f9"):
        read(path, ReadOptions(labels="species", columns=("f9",)))
    with pytest.raises(DataError, match=r"no column 'colour'.*f0"):
        read(path, ReadOptions(labels="colour"))


def test_labels_are_found_where_they_usually_are(tmp_path):
    path = tmp_path / "a.csv"
    frame(Y).rename(columns={"species": "Label"}).to_csv(path, index=False)
    assert read(path).y.tolist() == Y.tolist()
    frame(WORDS).to_csv(path, index=False, header=False)
    found = read(path)
    assert found.y.tolist() == WORDS.tolist()
    assert found.feature_names is None
    np.testing.assert_array_equal(found.X, X)
    pd.DataFrame(X).to_csv(path, index=False, header=False, sep=";")
    assert read(path).y is None
    numbers = pd.DataFrame(X, columns=range(6))
    numbers["y"] = Y
    numbers.to_csv(path, index=False)  # a header of numbers and one word
    assert read(path, ReadOptions(labels="y")).y.tolist() == Y.tolist()


def test_headers_as_pandas_writes_them(tmp_path):
    path = tmp_path / "a.csv"
    for name, labels in (("label", Y), ("label", WORDS), ("age", Y)):
        table = pd.DataFrame(X)
        table[name] = labels
        for index in (False, True):
            table.to_csv(path, index=index)
            found = read(path, ReadOptions(labels="-1"))
            np.testing.assert_array_equal(found.X, X)
            assert found.y.tolist() == labels.tolist()
            assert found.feature_names == tuple("012345")
    pd.DataFrame(X).to_csv(path)  # numbers alone and an index
    np.testing.assert_array_equal(read(path).X, X)
    path.write_text(",a,b\n0,1.5,2\n2,3.5,4\n")  # no index: it does not count on
    assert read(path).X.shape == (2, 3)
    path.write_text("1,2,ant\n3,4,bee\n")  # a word above words names nothing
    assert read(path).y.tolist() == ["ant", "bee"]
    path.write_text(",2,3\n1,4,5\n")  # nor does an empty cell
    with pytest.raises(DataError, match="line 1: the value in column '0' is missing"):
        read(path, ReadOptions(labels="1"))


def test_columns_need_names_of_their_own(tmp_path):
    path = tmp_path / "a.csv"
    for header, named in (
        ("p,p,label", "'p'"),
        ("p,,,label", r"'' \(no name\)"),
        ("label,p,label", "'label'"),
        ("p,p,q,q,y", "'p', 'q'"),
    ):
        path.write_text(f"{header}\n{','.join('1' for _ in header.split(','))}\n")
        with pytest.raises(DataError, match=f"the header has {named} more than once.*rename"):
            read(path)
    path.write_text("p,,label\n1,2,0\n3,4,1\n")  # one without a name is found by having none
    assert read(path, ReadOptions(columns=("", "p"))).X.tolist() == [[2, 1], [4, 3]]
    path.write_text("5,0,0\n3,0,7\n")  # no header: values repeat
    for column, labels in (("0", [5, 3]), ("2", [0, 7]), ("-1", [0, 7])):
        found = read(path, ReadOptions(labels=column))
        assert (found.y.tolist(), found.feature_names) == (labels, None)


def test_missing_values_are_named_by_their_line(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b,label\n1,2,0\n\n3, ,1\n")  # a blank line counts
    with pytest.raises(
        DataError, match=r"line 4: the value in column 'b' is missing\. In all: 'b' \(1 of 2\)"
    ) as caught:
        read(path)
    assert "--labels" not in str(caught.value)
    path.write_text("a,b,label\n1,2,0\n\n3,x,1\n")
    with pytest.raises(
        DataError,
        match=r"line 4: column 'b' has 'x', which is not a number; --one-hot b .* --drop b leaves the column out\.$",
    ):
        read(path)
    path.write_text("a,b\n1,2\n3,\n")  # a column of numbers is not labels for want of one
    with pytest.raises(DataError, match=r"line 3: the value in column 'b' is missing.*--labels b"):
        read(path)
    assert read(path, ReadOptions(labels="b")).y.tolist() == [2, -1]
    pd.DataFrame({"a": ["1", ""], "label": [0, 1]}).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"row 1 \(from 0\): the value in column 'a' is missing"):
        read(tmp_path / "a.parquet")


def test_unlabelled_samples():
    assert tidy_labels(np.array(["1", "", "2"])).tolist() == [1, -1, 2]
    assert tidy_labels(np.array(["a", "", "b"])).tolist() == ["a", -1, "b"]
    assert tidy_labels(np.array(["a", "?", "b"]), "?").tolist() == ["a", -1, "b"]
    assert tidy_labels(np.array([0, 9, 2]), "9").tolist() == [0, -1, 2]
    assert tidy_labels(np.array([True, False]), "x").tolist() == [1, 0]
    for classes in (np.array([1.0, np.nan, 2.0]), np.array([1, None, 2.0], object), np.array(["1", "nan", "2.0"])):
        found = tidy_labels(classes)
        assert (found.dtype.kind, found.tolist()) == ("i", [1, -1, 2])
    assert tidy_labels(np.array(["", ""])).tolist() == [-1, -1]
    targets = [1.5, np.nan, -1.0]
    for given, mark in (
        (np.array(targets), None),
        (np.array(["1.5", "", "-1"]), None),
        (np.array(["1.5", "?", "-1"]), "?"),
        (np.array([1.5, -999.0, -1.0]), "-999"),
        (np.array([1.5, float("nan"), -1.0], object), None),
    ):
        np.testing.assert_array_equal(tidy_labels(given, mark), targets)
    for words in (["nan", "inf"], ["nan", "ant"], ["inf", "inf"], ["NaN", "-inf", "nan"]):
        assert tidy_labels(np.array(words)).tolist() == words
    assert tidy_labels(np.array(["nan", "", "inf"])).tolist() == ["nan", -1, "inf"]
    assert tidy_labels(np.array([1.0, 2.0])).dtype.kind == "i"
    assert tidy_labels(np.array([1.5, 2.0])).dtype.kind == "f"
    assert tidy_labels(np.array([True, False])).tolist() == [1, 0]
    assert tidy_labels(np.zeros((3, 2))).shape == (3, 2)


def test_missing_labels_are_told_from_a_label_of_minus_one(tmp_path):
    for name, text in {"a": '1\n-1\n""\nnan\n', "b": 'ant\n-1\n""\nnan\n'}.items():
        (tmp_path / f"{name}.txt").write_text(text)
    np.save(tmp_path / "x.npy", X[:4])
    for name, labels, missing in (("a", [1, -1, -1, -1], [2, 3]), ("b", ["ant", "-1", -1, "nan"], [2])):
        found = read(tmp_path / "x.npy", ReadOptions(labels=tmp_path / f"{name}.txt"))
        assert found.y.tolist() == labels
        assert np.flatnonzero(found.bare).tolist() == missing
        assert found.take(np.array([3, 2])).bare.tolist() == found.bare[[3, 2]].tolist()


def make_folder(path, size=(4, 3)):
    for row, (vector, word) in enumerate(zip(X, WORDS, strict=True)):
        (path / word).mkdir(parents=True, exist_ok=True)
        grey = np.round(255 * np.resize(vector, size)).astype(np.uint8)
        Image.fromarray(grey).save(path / word / f"{row}.png")
    return path


def test_folders_of_images(tmp_path):
    folder = make_folder(tmp_path / "a")
    (folder / "ant" / "readme.txt").write_text("not an image")
    (folder / ".hidden").mkdir()
    Image.new("L", (3, 4)).save(folder / ".hidden" / "x.png")
    found = read(folder)
    assert found.shape == (4, 3)
    assert found.y.tolist() == WORDS.tolist()
    assert found.names[0] == "ant/0.png"
    np.testing.assert_allclose(found.X, np.array([np.round(255 * np.resize(v, 12)) for v in X]) / 255)
    assert read(folder, ReadOptions(unlabelled="bee")).y.tolist() == [-1 if w == "bee" else w for w in WORDS]
    Image.new("RGB", (3, 4), (255, 0, 0)).save(folder / "top.png")
    found = read(folder)
    assert found.y.tolist() == [*WORDS.tolist(), -1]
    np.testing.assert_allclose(found.X[-1], 76 / 255)
    with pytest.warns(UserWarning, match="squeezed"):
        small = read(folder, ReadOptions(size=(2, 2)))
    assert small.X.shape == (10, 4)
    Image.new("L", (9, 9)).save(folder / "ant" / "large.png")
    with pytest.raises(DataError, match=r"large.png is 9x9.*--size"):
        read(folder)


def test_squeezed_and_large_images_are_spoken_of(tmp_path):
    make_folder(tmp_path / "small", size=(8, 6))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(tmp_path / "small", ReadOptions(size=(4, 3))).shape == (4, 3)  # the same proportions
    with pytest.warns(UserWarning, match="were squeezed"):
        read(tmp_path / "small", ReadOptions(size=(4, 4)))
    make_folder(tmp_path / "large", size=(200, 150))
    with pytest.warns(UserWarning, match="30000 numbers each.*--pictures photographs"):
        read(tmp_path / "large")


def test_folders_of_parts_are_not_silently_classes(tmp_path):
    make_folder(tmp_path / "set" / "train")
    make_folder(tmp_path / "set" / "test")
    with pytest.raises(DataError, match=r"parts of a set \(train, test\), not its classes: name one, .*set.train\."):
        read(tmp_path / "set")
    make_folder(tmp_path / "zoos" / "berlin")
    make_folder(tmp_path / "zoos" / "wien")
    with pytest.warns(UserWarning, match=r"of berlin and wien, which are taken to be the classes.*: .*zoos.berlin\."):
        found = read(tmp_path / "zoos")
    assert {*found.y} == {"berlin", "wien"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(tmp_path / "set" / "train")


def test_orientation_of_photographs_and_deep_images(tmp_path):
    (tmp_path / "a").mkdir()
    picture = Image.fromarray(np.arange(12, dtype=np.uint8).reshape(4, 3))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by a quarter
    picture.save(tmp_path / "a" / "0.png", exif=exif)
    found = read(tmp_path)
    assert found.shape == (3, 4)
    np.testing.assert_allclose(found.X[0].reshape(3, 4) * 255, np.rot90(np.arange(12).reshape(4, 3), -1))
    (tmp_path / "b").mkdir()
    Image.fromarray(np.full((3, 4), 257 * 100, np.uint16)).save(tmp_path / "b" / "0.png")
    np.testing.assert_allclose(read(tmp_path).X[1] * 255, 100)


def test_what_cannot_be_read_is_named(tmp_path):
    def refuse(match, path, **how):
        with pytest.raises(DataError, match=match):
            read(path, ReadOptions(**how))

    refuse("no file or folder", tmp_path / "nothing")
    refuse("holds no pictures", tmp_path)
    for name in ("a.npz", "a.npy", "a.parquet"):
        (tmp_path / name).write_bytes(b"nonsense")
        refuse("cannot be read as a", tmp_path / name)
    (tmp_path / "a.doc").write_text("hello")
    refuse(r"\.npz, \.npy", tmp_path / "a.doc")
    (tmp_path / "a.csv").write_text("")
    refuse("empty", tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("a,b\n")
    refuse("no samples", tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3\n")
    refuse("line 3: the value in column 'b' is missing", tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("a,b,c\n1,x,q\n3,y,r\n")
    refuse(r"'b' has 'x'.*--labels b", tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3,nan\n")
    refuse("line 3: the value in column 'b' is missing", tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3,inf\n")
    refuse(r"sample 1 \(from 0\) has a missing or infinite value in column 'b'", tmp_path / "a.csv")
    np.save(tmp_path / "a.npy", X)
    (tmp_path / "l.txt").write_text("1\n2\n")
    refuse("2 labels for 9 samples", tmp_path / "a.npy", labels=tmp_path / "l.txt")
    refuse("no file of labels", tmp_path / "a.npy", labels=tmp_path / "m.txt")
    refuse("no picture of 5x5", tmp_path / "a.npy", size=(5, 5))
    np.save(tmp_path / "a.npy", X.reshape(9, 2, 3))
    refuse("leave --size out", tmp_path / "a.npy", size=(3, 2))
    np.save(tmp_path / "a.npy", X[0])
    refuse("expected an array", tmp_path / "a.npy")
    np.save(tmp_path / "a.npy", WORDS)
    refuse("must be numbers", tmp_path / "a.npy")
    np.savez(tmp_path / "a.npz", weights=X)
    refuse("holds the arrays weights", tmp_path / "a.npz")
    np.save(tmp_path / "p.npy", np.array([{}]), allow_pickle=True)
    refuse("cannot be read", tmp_path / "p.npy")
    (tmp_path / "f" / "a").mkdir(parents=True)
    (tmp_path / "f" / "a" / "x.png").write_bytes(b"nonsense")
    refuse(r"x.png: it is not a picture", tmp_path / "f")


def test_fingerprints_tell_samples_apart(tmp_path):
    np.save(tmp_path / "a.npy", X)
    found = read(tmp_path / "a.npy")
    assert found.fingerprint == read(tmp_path / "a.npy").fingerprint
    assert found.fingerprint != found.take(np.arange(8)).fingerprint


def test_one_image_is_a_sample_without_a_label(tmp_path):
    (tmp_path / "ant").mkdir()
    Image.fromarray(np.arange(48, dtype=np.uint8).reshape(6, 8)).save(tmp_path / "ant" / "a.png")
    found, folder = read(tmp_path / "ant" / "a.png"), read(tmp_path)
    assert (found.shape, found.y, found.names) == ((6, 8), None, ("a.png",))
    np.testing.assert_array_equal(found.X, folder.X)
    assert read(tmp_path / "ant" / "a.png", ReadOptions(size=(3, 4))).X.shape == (1, 12)
    (tmp_path / "b.png").write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"b\.png: it is not a picture"):
        read(tmp_path / "b.png")


def test_names_of_arrays_are_kept_where_each_sample_has_one(tmp_path):
    np.savez(tmp_path / "a.npz", X=X[:2], names=["ant", "bee"])
    assert read(tmp_path / "a.npz").names == ("ant", "bee")
    np.savez(tmp_path / "a.npz", X=X[:2], names=[b"ant", b"bee"])
    assert read(tmp_path / "a.npz").names == ("ant", "bee")
    for names in (["ant"], "ant", [["ant"], ["bee"]], [1, 2], np.array(["ant", "bee"], object)):
        np.savez(tmp_path / "a.npz", X=X[:2], names=names, features=names)
        found = read(tmp_path / "a.npz")
        assert (found.names, found.features) == (None, "ant" if isinstance(names, str) else "")
    np.savez(tmp_path / "a.npz", X_train=X[:2], X_test=X[:3], names=["ant", "bee"])
    assert read(tmp_path / "a.npz", ReadOptions(part="train")).names is None


def test_a_column_of_names_is_no_number_and_no_label(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("name,z1,z2\nant.png,1,2\nbee.png,3,4\n")
    found = read(path)
    assert (found.names, found.y, found.feature_names) == (("ant.png", "bee.png"), None, ("z1", "z2"))
    path.write_text("name,kind,z1\nant.png,small,1\nbee.png,big,3\n")
    found = read(path)
    assert (found.names, found.y.tolist()) == (("ant.png", "bee.png"), ["small", "big"])
    path.write_text("name,z1\nant.png,1\nbee.png,3\n")
    assert read(path, ReadOptions(labels="name")).y.tolist() == ["ant.png", "bee.png"]
    path.write_text("name,z1\n5,1\n6,3\n")  # numbers are a column like others
    assert read(path).feature_names == ("name", "z1")


def test_damaged_arrays_and_objects_are_said_in_plain_words(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((20, 4)))
    (tmp_path / "x.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:-100])
    with pytest.raises(DataError, match=r"x\.npy cannot be read as a \.npy file: it is damaged or cut short"):
        read(tmp_path / "x.npy")
    np.savez(tmp_path / "o.npz", X=np.ones((2, 2)), y=np.array(["a", None], object))
    with pytest.raises(DataError, match=r"it holds Python objects, which are not read\. Save arrays of numbers"):
        read(tmp_path / "o.npz")


def test_packed_tables_and_decimal_commas_are_read(tmp_path, monkeypatch):
    text = "length;width;label\n1,5;-2,25e1;a\n2;3,0;b\n"
    (tmp_path / "t.csv").write_text(text)
    with gzip.open(tmp_path / "t.csv.gz", "wt") as file:
        file.write(text)
    for name in ("t.csv", "t.csv.gz"):
        found = read(tmp_path / name)
        assert found.X.tolist() == [[1.5, -22.5], [2.0, 3.0]]
        assert found.y.tolist() == ["a", "b"]
        assert found.feature_names == ("length", "width")
    (tmp_path / "u.csv").write_text("p,q\n1,5\n2,3\n")  # between commas a comma is no decimal one
    assert read(tmp_path / "u.csv").X.tolist() == [[1, 5], [2, 3]]
    with gzip.open(tmp_path / "bomb.csv.gz", "wb") as file:
        file.write(b"p,q\n" + b"1,2\n" * 500_000)
    monkeypatch.setenv("SPARLOW_MAX_BYTES", "1e6")
    with pytest.raises(DataError, match=r"would grow.*SPARLOW_MAX_BYTES"):
        read(tmp_path / "bomb.csv.gz")
    (tmp_path / "broken.csv.gz").write_bytes(b"no gzip")
    with pytest.raises(DataError, match=r"cannot be read as a \.csv\.gz file"):
        read(tmp_path / "broken.csv.gz")


@pytest.mark.parametrize(
    "day", ["2024-01-0{}", "2024/1/{}", "0{}.01.2024", "1/{}/24", "2024-01-0{} 12:30:00", "2024-01-0{}T12:30Z"]
)
def test_dates_are_no_numbers_no_labels_and_no_words_to_encode(day, tmp_path):
    path = tmp_path / "t.csv"
    dates = [day.format(number) for number in (1, 2, 3)]
    path.write_text("a,date\n" + "".join(f"{row},{date}\n" for row, date in enumerate(dates)))
    said = f"column 'date' has '{dates[0]}', a date: --drop date leaves the column out. To learn from it put numbers"
    with pytest.raises(DataError, match=re.escape(said)):  # the only words were taken for labels
        read(path)
    for how in (ReadOptions(one_hot=()), ReadOptions(one_hot=(), fill=True), ReadOptions(fill=True)):
        with pytest.raises(DataError, match=re.escape(said)):
            read(path, how)
    assert read(path, ReadOptions(drop=("date",))).feature_names == ("a",)
    assert read(path, ReadOptions(labels="date")).y.tolist() == dates
    assert list(read(path, ReadOptions(one_hot=("date",))).frame["date"]) == dates  # whoever names it may have it
    path.write_text(path.read_text() + "7,\n8,soon\n")
    with pytest.raises(DataError, match=f"'{dates[0]}', which is not a number; --one-hot date"):
        read(path, ReadOptions(labels="a", fill=True))


def test_dates_of_parquet_files_are_no_numbers(tmp_path):
    pandas = pytest.importorskip("pandas")
    days = pandas.to_datetime(["2024-01-01", "2024-01-02", "2024-01-01"])
    pandas.DataFrame({"a": [1.0, 2.0, 3.0], "day": days, "label": [0, 1, 0]}).to_parquet(tmp_path / "t.parquet")
    for reading in (
        lambda: read(tmp_path / "t.parquet"),
        lambda: read(tmp_path / "t.parquet", ReadOptions(fill=True)),
    ):
        with pytest.raises(DataError, match=r"row 0 .* column 'day' has '2024-01-01.*', a date: --drop day"):
            reading()
    found = read(tmp_path / "t.parquet", ReadOptions(one_hot=("day",)))
    assert encoder(found.frame, False).fit_transform(found.frame).shape == (3, 3)
    assert found.y.tolist() == [0, 1, 0]


def test_columns_are_chosen_and_left_out(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("p,q,r,word,label\n1,2,3,u,0\n4,5,6,v,1\n")
    with pytest.raises(DataError, match=r"column 'word' has 'u', which is not a number; --one-hot word makes a number"):
        read(path)
    found = read(path, ReadOptions(drop=("word",)))
    assert found.feature_names == ("p", "q", "r")
    found = read(path, ReadOptions(use=("r", "p")))
    assert found.X.tolist() == [[3, 1], [6, 4]]
    assert found.y.tolist() == [0, 1]
    assert read(path, ReadOptions(use=("r", "p"), drop=("p",))).feature_names == ("r",)
    with pytest.raises(DataError, match="--columns names 's', but the columns of numbers are p, q, r, word"):
        read(path, ReadOptions(use=("s",)))
    with pytest.raises(DataError, match="--drop names 's'"):
        read(path, ReadOptions(drop=("s",)))
    with pytest.raises(DataError, match="no columns left"):
        read(path, ReadOptions(use=("p",), drop=("p",)))
    (tmp_path / "bare.csv").write_text("1,2,3\n4,5,6\n")
    assert read(tmp_path / "bare.csv", ReadOptions(drop=("1",))).X.tolist() == [[1, 3], [4, 6]]


def test_missing_values_are_counted_by_column(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("p,q,r,label\n1,2,3,0\n,5,,1\n7,8,,0\n")
    said = r"line 3: the value in column 'p' is missing\. In all: 'p' \(1 of 3\), 'r' \(2 of 3\)\..*--drop p r\."
    with pytest.raises(DataError, match=said):
        read(path)
    assert read(path, ReadOptions(drop=("p", "r"))).X.tolist() == [[2], [5], [8]]


def test_broken_pictures_are_named_at_once_or_left_out(tmp_path):
    for name in ("a/1.png", "a/2.png", "b/3.png", "b/4.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.fromarray(np.full((8, 8), 9, np.uint8)).save(tmp_path / name)
    for name in ("a/0.png", "b/5.png", "b/6.png"):
        (tmp_path / name).write_text("no picture")
    said = (
        r"0\.png: it is not a picture.* Nor can .*5\.png, .*6\.png be read\. With --skip such pictures are left out\."
    )
    with pytest.raises(DataError, match=said):
        read(tmp_path, ReadOptions(n_jobs=2))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = read(tmp_path, ReadOptions(skip=True))
    assert [str(warning.message).startswith("left out: Cannot use") for warning in caught] == [True] * 3
    assert found.names == ("a/1.png", "a/2.png", "b/3.png", "b/4.png")
    assert found.y.tolist() == ["a", "a", "b", "b"]
    for name in found.names:
        (tmp_path / name).write_text("no picture")
    with warnings.catch_warnings(action="ignore"), pytest.raises(DataError, match="None of the 7 pictures"):
        read(tmp_path, ReadOptions(skip=True))


def test_pictures_of_true_and_false_are_read(tmp_path):
    """Whether pictures have colours is asked of any type of numbers."""
    values = np.random.default_rng(0).random((6, 4, 4, 3)) > 0.5
    np.save(tmp_path / "colours.npy", values)
    np.save(tmp_path / "grey.npy", np.repeat(values[..., :1], 3, axis=-1))
    assert read(tmp_path / "colours.npy", ReadOptions()).coloured
    kept = read(tmp_path / "colours.npy", ReadOptions(colours=True))
    assert (kept.shape, kept.coloured) == ((4, 4, 3), False)
    np.testing.assert_array_equal(kept.X, values.reshape(6, -1))
    assert not read(tmp_path / "grey.npy", ReadOptions()).coloured
