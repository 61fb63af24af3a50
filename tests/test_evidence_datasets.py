"""Image sets of the evidence: loading and splitting, in each format that they come in."""

import gzip
import hashlib
import struct
import zipfile

import numpy as np
import pytest
from scipy.io import savemat
from sklearn.utils import Bunch

from evidence import datasets

RNG = np.random.default_rng(0)


def test_digits_come_with_scikit_learn():
    digits = datasets.load("digits")
    assert digits.images.shape == (1797, 64)
    assert digits.images.max() == 1
    with pytest.raises(ValueError, match="no standard split"):
        digits.standard_split()


def test_split_takes_so_many_of_each_class_and_leaves_the_rest():
    digits = datasets.load("digits")
    train, test = digits.split(20, 0)
    assert np.all(np.bincount(digits.labels[train]) == 20)
    assert np.array_equal(np.union1d(train, test), np.arange(1797))
    assert not np.intersect1d(train, test).size
    assert np.array_equal(train, digits.split(20, 0)[0])
    assert not np.array_equal(train, digits.split(20, 1)[0])
    with pytest.raises(ValueError, match="leaves none"):
        digits.split(500)


def test_files_are_read_from_the_folder_named(tmp_path, monkeypatch):
    X = np.arange(8 * 256).reshape(8, 256).astype(np.uint16)
    np.savez(tmp_path / "usps.npz", scale=2000, X_train=X[:6], y_train=np.arange(6), X_test=X[6:], y_test=np.arange(2))
    loaded = datasets.load("usps", tmp_path, check=False)
    np.testing.assert_allclose(loaded.images, X / 2000)
    assert [len(part) for part in loaded.standard_split()] == [6, 2]
    monkeypatch.setenv("SPARLOW_DATA", str(tmp_path))
    assert datasets.load("usps", check=False).shape == (16, 16)
    assert datasets.available("usps")
    assert not datasets.available("orl")
    with pytest.raises(FileNotFoundError, match=rf"orl is not in {tmp_path}.*AT&T.*put there orl_32x32.npz, or ORL"):
        datasets.load("orl")
    monkeypatch.delenv("SPARLOW_DATA")
    assert not datasets.available("usps")
    with pytest.raises(FileNotFoundError, match=r"by SPARLOW_DATA.*LeCun.*put there mnist.npz, or train-images"):
        datasets.load("mnist")
    with pytest.raises(ValueError, match="digits, usps"):
        datasets.load("imagenet")


@pytest.mark.parametrize("name", ["usps.npz", "zip.train", "usps.h5"])
def test_another_file_or_half_of_one_says_where_to_get_it(tmp_path, name):
    (tmp_path / name).write_bytes(b"half a fi")
    (tmp_path / "zip.test").write_bytes(b"half a fi")
    with pytest.raises(ValueError, match=rf"{name}.*(damaged|cannot be read).*Elements of Statistical Learning.*there"):
        datasets.load("usps", tmp_path)


def _idx(array):
    return b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}i", *array.shape) + array.tobytes()


@pytest.mark.parametrize("packed", [False, True])
def test_mnist_as_idx_files(tmp_path, packed):
    images = RNG.integers(0, 256, (5, 28, 28)).astype(np.uint8)
    labels = np.array([3, 1, 4, 1, 5], np.uint8)
    parts = {"train": slice(0, 3), "t10k": slice(3, 5)}
    for part, rows in parts.items():
        for kind, array in (("images-idx3", images[rows]), ("labels-idx1", labels[rows])):
            data = _idx(array)
            name = f"{part}-{kind}-ubyte" + ".gz" * packed
            (tmp_path / name).write_bytes(gzip.compress(data) if packed else data)
    loaded = datasets.load("mnist", tmp_path, check=False)
    np.testing.assert_allclose(loaded.images, images.reshape(5, -1) / 255)
    assert loaded.labels.tolist() == labels.tolist()
    assert [part.tolist() for part in loaded.standard_split()] == [[0, 1, 2], [3, 4]]
    known = "f68b" if packed else "6bbc"
    with pytest.raises(ValueError, match=rf"train-images-idx3-ubyte.* md5 checksum is not {known}.*check=False"):
        datasets.load("mnist", tmp_path)


def test_checksums_are_of_the_files_as_they_lie_there(tmp_path, monkeypatch):
    array = RNG.integers(0, 256, (2, 28, 28)).astype(np.uint8)
    for part in ("train", "t10k"):
        for kind, data in (("images-idx3", _idx(array)), ("labels-idx1", _idx(np.zeros(2, np.uint8)))):
            path = tmp_path / f"{part}-{kind}-ubyte.gz"
            path.write_bytes(gzip.compress(data))
            known = ("sha256", hashlib.sha256(path.read_bytes()).hexdigest())
            monkeypatch.setitem(datasets.CHECKSUMS, path.name, known)
    assert datasets.load("mnist", tmp_path).images.shape == (4, 784)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match="damaged"):
        datasets.load("mnist", tmp_path)
    with pytest.raises(ValueError, match="cannot be read"):
        datasets.load("mnist", tmp_path, check=False)


def test_a_set_is_loaded_once(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(datasets, "load", lambda *words: calls.append(words) or len(calls))
    for name in ("first", "second"):
        monkeypatch.setenv("SPARLOW_DATA", str(tmp_path / name))
        assert datasets.loaded("usps") == datasets.loaded("usps", tmp_path / name) == len(calls)
    assert len(calls) == 2


@pytest.mark.parametrize("packed", [False, True])
def test_usps_as_text(tmp_path, packed):
    values = RNG.uniform(-1, 1, (4, 256)).round(3)
    for name, rows in (("zip.train", [0, 1, 2]), ("zip.test", [3])):
        text = "\n".join(f"{row}.0000 " + " ".join(map(str, values[row])) + " " for row in rows) + "\n"
        data = text.encode()
        (tmp_path / (name + ".gz" * packed)).write_bytes(gzip.compress(data) if packed else data)
    loaded = datasets.load("usps", tmp_path)
    np.testing.assert_allclose(loaded.images, (values + 1) / 2)
    assert loaded.labels.tolist() == [0, 1, 2, 3]
    assert loaded.n_train == 3


def test_usps_as_hdf5(tmp_path):
    import h5py

    values = RNG.uniform(size=(4, 256))
    with h5py.File(tmp_path / "usps.h5", "w") as file:
        for part, rows in (("train", slice(0, 3)), ("test", slice(3, 4))):
            file[f"{part}/data"], file[f"{part}/target"] = values[rows], np.arange(4)[rows]
    loaded = datasets.load("usps", tmp_path)
    np.testing.assert_allclose(loaded.images, values)
    assert (loaded.labels.tolist(), loaded.n_train) == ([0, 1, 2, 3], 3)


@pytest.mark.parametrize(("name", "file"), [("pie", "PIE_32x32.mat"), ("orl", "ORL_32x32.mat")])
def test_faces_of_matlab_stand_upright(tmp_path, name, file):
    pictures = RNG.integers(0, 256, (3, 32, 32)).astype(np.uint8)
    columns_first = pictures.transpose(0, 2, 1).reshape(3, -1)
    savemat(tmp_path / file, {"fea": columns_first, "gnd": np.array([[1], [1], [2]])})
    loaded = datasets.load(name, tmp_path)
    np.testing.assert_allclose(loaded.images.reshape(3, 32, 32), pictures / 255)
    assert loaded.labels.tolist() == [1, 1, 2]
    assert loaded.n_train is None
    savemat(tmp_path / file, {"faces": columns_first})
    with pytest.raises(ValueError, match=rf"{file} cannot be read: .*fea.*Deng Cai"):
        datasets.load(name, tmp_path)


def test_pictures_in_a_zip_with_a_standard_split(tmp_path):
    with zipfile.ZipFile(tmp_path / "scenes15_gray256.zip", "w") as archive:
        for entry in ("test/Coast/image_3.jpg", "train/Forest/image_1.jpg", "train/Coast/image_2.jpg", "README.txt"):
            archive.writestr(entry, entry)
    loaded = datasets.load("scenes15", tmp_path, check=False)
    assert loaded.shape is None
    assert loaded.classes == ("Coast", "Forest")
    assert loaded.labels.tolist() == [1, 2, 1]
    assert [part.tolist() for part in loaded.standard_split()] == [[0, 1], [2]]
    with loaded.images[2].open("rb") as file:
        assert file.read() == b"test/Coast/image_3.jpg"


@pytest.mark.parametrize(
    ("name", "root"), [("caltech101", "101_ObjectCategories"), ("caltech256", "256_ObjectCategories")]
)
def test_pictures_in_a_folder_of_classes(tmp_path, name, root):
    for entry in ("zebra/image_0002.jpg", "zebra/image_0001.jpg", "ant/image_0001.jpg", "ant/.hidden.jpg", "ant/x.txt"):
        path = tmp_path / root / entry
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(entry)
    loaded = datasets.load(name, tmp_path)
    assert [path.relative_to(tmp_path / root).as_posix() for path in loaded.images] == [
        "ant/image_0001.jpg",
        "zebra/image_0001.jpg",
        "zebra/image_0002.jpg",
    ]
    assert loaded.labels.tolist() == [1, 2, 2]
    with pytest.raises(ValueError, match="no standard split"):
        loaded.standard_split()


def test_a_folder_without_pictures_is_an_error(tmp_path):
    (tmp_path / "101_ObjectCategories" / "ant").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"101_ObjectCategories cannot be read: there are no pictures.*Caltech"):
        datasets.load("caltech101", tmp_path)


def test_images_of_another_size_are_refused(tmp_path):
    savemat(tmp_path / "ORL_32x32.mat", {"fea": np.zeros((2, 2048)), "gnd": np.array([[1], [2], [3]])})
    with pytest.raises(ValueError, match=r"cannot be read: it holds images of shape \(4, 1024\) with 3 labels"):
        datasets.load("orl", tmp_path)


def test_fetching_goes_through_openml(monkeypatch):
    asked = []

    def answer(*arguments, **options):
        asked.append((arguments, options))
        if arguments:
            return Bunch(data=np.full((3, 784), 51), target=np.array(["5", "0", "4"]))
        labels = np.concatenate([np.repeat(np.arange(10), datasets._USPS_TRAIN), np.zeros(3, int)]) + 1
        return Bunch(data=np.full((len(labels), 256), -1.0), target=labels.astype(str))

    monkeypatch.setattr(datasets, "fetch_openml", answer)
    mnist = datasets.load("mnist", fetch=True)
    assert mnist.images.max() == 0.2
    assert (mnist.labels.tolist(), mnist.n_train) == ([5, 0, 4], 60_000)
    usps = datasets.load("usps", fetch=True)
    assert usps.images.max() == 0
    assert (usps.labels.min(), usps.labels.max(), usps.n_train) == (0, 9, 7291)
    assert asked[0][0] == ("mnist_784",)
    assert asked[1][1]["data_id"] == 41082
    with pytest.raises(ValueError, match="pie cannot be fetched"):
        datasets.load("pie", fetch=True)
