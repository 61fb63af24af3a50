"""Load the image sets that the evidence rests on: images as rows, labels, shape, and how to split them.

None of them is in the clone. All but the digits of scikit-learn are read from one folder, which the argument ``folder``
or the environment variable ``SPARLOW_DATA`` names; usps and mnist can also be fetched from OpenML.
"""

from __future__ import annotations

import functools
import gzip
import os
import pathlib
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pooch
from numpy.typing import NDArray
from scipy.io import loadmat
from sklearn.datasets import fetch_openml, load_digits
from sklearn.utils import check_random_state

Array = NDArray[Any]
Paths = Sequence[pathlib.Path]
PathLike = str | os.PathLike[str]

VARIABLE = "SPARLOW_DATA"


@dataclass(frozen=True)
class Dataset:
    """Hold images and labels.

    Parameters
    ----------
    name : str
    images : array of shape (n, height · width), or of shape (n,) with dtype object
        Grey values from 0 to 1, row by row: ``images[i].reshape(shape)`` is upright. Sets whose pictures differ in size
        have paths instead (``pathlib.Path`` or ``zipfile.Path``), to be opened with ``images[i].open("rb")``.
    labels : array of shape (n,)
    shape : (int, int) or None
        Height and width; None where images are paths.
    n_train : int or None
        The first ``n_train`` samples are the standard training part; None if there is no standard split.
    classes : tuple of str
        Names of the labels in ascending order, where they have names.

    """

    name: str
    images: Array
    labels: Array
    shape: tuple[int, int] | None
    n_train: int | None = None
    classes: tuple[str, ...] = ()

    def standard_split(self) -> tuple[Array, Array]:
        """Return the rows of the standard training and test part."""
        if self.n_train is None:
            raise ValueError(f"{self.name} has no standard split: use split(n_per_class, random_state).")
        return np.arange(self.n_train), np.arange(self.n_train, len(self.labels))

    def split(self, n_per_class: int, random_state: Any = None) -> tuple[Array, Array]:
        """Return the rows of a random training part with ``n_per_class`` samples of each class, and of the rest."""
        rng = check_random_state(random_state)
        classes, counts = np.unique(self.labels, return_counts=True)
        if counts.min() <= n_per_class:
            raise ValueError(
                f"{self.name} has a class of {counts.min()} samples: n_per_class={n_per_class} leaves none to test on."
            )
        chosen = [rng.permutation(np.flatnonzero(self.labels == c))[:n_per_class] for c in classes]
        train = np.sort(np.concatenate(chosen))
        return train, np.setdiff1d(np.arange(len(self.labels)), train)


# ── file formats ────────────────────────────────────────────────────────────────────────────────────────────────────

Parts = list[tuple[Array, Array]]  # images and labels of one part, or of the training and the test part


def npz_arrays(paths: Paths, shape: tuple[int, int], scale: float) -> Parts:
    """Read NumPy's .npz with X and y, or X_train, y_train, X_test, y_test; grey values up to ``scale``."""
    with np.load(paths[0]) as file:
        ends = ("_train", "_test") if "X_train" in file else ("",)
        return [(file[f"X{end}"] / scale, file[f"y{end}"]) for end in ends]


def idx_files(paths: Paths, shape: tuple[int, int], scale: float) -> Parts:
    """Read the four idx files of MNIST: training images and labels, test images and labels."""
    arrays = [_idx_array(gzip.decompress(p.read_bytes()) if p.suffix == ".gz" else p.read_bytes()) for p in paths]
    return [(X.reshape(len(X), -1) / scale, y) for X, y in (arrays[:2], arrays[2:])]


def _idx_array(data: bytes) -> Array:
    """Decode a magic number (0, 0, 8 for bytes, number of axes), the 32-bit big-endian length of each axis, bytes."""
    if data[:3] != b"\0\0\x08":
        raise ValueError("it does not begin with the mark of an idx file of bytes")
    axes = data[3]
    lengths = np.frombuffer(data, ">i4", axes, offset=4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * axes).reshape(lengths)


def text_digits(paths: Paths, shape: tuple[int, int], scale: float) -> Parts:
    """Read zip.train and zip.test: a line for each image, its digit and 256 numbers from −1 to 1."""
    tables = [pd.read_csv(path, sep=r"\s+", header=None).to_numpy(float) for path in paths]
    return [((table[:, 1:] + 1) / 2, table[:, 0]) for table in tables]


def hdf5_digits(paths: Paths, shape: tuple[int, int], scale: float) -> Parts:
    """Read usps.h5: groups train and test with data, from 0 to 1, and target."""
    import h5py

    with h5py.File(paths[0]) as file:
        return [(np.asarray(file[f"{p}/data"], float), np.asarray(file[f"{p}/target"])) for p in ("train", "test")]


def matlab_faces(paths: Paths, shape: tuple[int, int], scale: float) -> Parts:
    """Read Deng Cai's .mat: ``fea`` with an image in each row, column by column, and ``gnd``, the subjects."""
    file = loadmat(paths[0], variable_names=["fea", "gnd"])
    height, width = shape
    X = np.asarray(file["fea"], float).reshape(-1, width, height).transpose(0, 2, 1)
    return [(X.reshape(len(X), -1) / scale, file["gnd"].ravel())]


def _joined(name: str, parts: Parts, shape: tuple[int, int]) -> Dataset:
    X, y = (np.concatenate([part[place] for part in parts]) for place in (0, 1))
    if X.ndim != 2 or X.shape[1] != shape[0] * shape[1] or len(X) != len(y):
        raise ValueError(f"it holds images of shape {X.shape} with {len(y)} labels, but {shape} pixels each are meant")
    return Dataset(name, X.astype(float), y.astype(int), shape, len(parts[0][1]) if len(parts) == 2 else None)


def picture_folders(name: str, path: pathlib.Path) -> Dataset:
    """List a folder or .zip with a sub-folder for each class; train/ and test/ above them are the standard split."""
    found = sorted(_in_zip(path) if path.is_file() else _in_folder(path), key=lambda item: item[:3])
    if not found:
        raise ValueError("there are no pictures in folders of classes")
    parts = {part for part, _, _, _ in found}
    if parts == {"train", "test"}:
        found.sort(key=lambda item: item[0] != "train")
    elif parts != {""}:
        raise ValueError(f"its folders are neither classes nor train and test with classes in them: {sorted(parts)}")
    images = np.empty(len(found), object)
    images[:] = [place for _, _, _, place in found]
    names, labels = np.unique([label for _, label, _, _ in found], return_inverse=True)
    n_train = sum(part == "train" for part, _, _, _ in found) or None
    return Dataset(name, images, labels + 1, None, n_train, tuple(names.tolist()))


Found = tuple[str, str, str, Any]  # part, class, file name, path

_SUFFIXES = (".jpg", ".jpeg", ".png", ".pgm", ".tif", ".tiff", ".bmp")


def _in_zip(path: pathlib.Path) -> Iterable[Found]:
    archive = zipfile.ZipFile(path)
    for entry in archive.namelist():
        *above, file = entry.split("/")
        if above and _is_picture(file):
            yield _part(above), above[-1], file, zipfile.Path(archive, entry)


def _in_folder(root: pathlib.Path) -> Iterable[Found]:
    for path in root.rglob("*"):
        above = path.relative_to(root).parts[:-1]
        if above and _is_picture(path.name):
            yield _part(above), above[-1], path.name, path


def _part(above: Sequence[str]) -> str:
    """Return the folder above the class if it is train or test; a root folder of the archive counts as nothing."""
    return above[-2] if len(above) > 1 and above[-2] in ("train", "test") else ""


def _is_picture(file: str) -> bool:
    return file.lower().endswith(_SUFFIXES) and not file.startswith(".")


# ── sources ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class FileForm:
    """Name the files that a set comes in (also packed as .gz) and their reader; without one, folders of pictures."""

    files: tuple[str, ...]
    read: Callable[[Paths, tuple[int, int], float], Parts] | None = None
    scale: float = 255.0

    def find(self, folder: pathlib.Path) -> list[pathlib.Path] | None:
        """Return where the files are, or None if one is missing."""
        places = [[p for p in (folder / file, folder / f"{file}.gz") if p.exists()] for file in self.files]
        return [there[0] for there in places] if all(places) else None


@dataclass(frozen=True)
class Source:
    """Describe a set: the forms it comes in, the shape of its images, and where to get it."""

    forms: tuple[FileForm, ...]
    where: str
    shape: tuple[int, int] | None = None

    def wanted(self) -> str:
        """Return the files in words."""
        return ", or ".join(" and ".join(form.files) for form in self.forms)

    def load(self, name: str, folder: pathlib.Path, check: bool) -> Dataset:
        """Read the first form that is there."""
        found = ((form, paths) for form in self.forms if (paths := form.find(folder)))
        form, paths = next(found, (None, []))
        if form is None:
            raise FileNotFoundError(
                f"{name} is not in {folder}. Get it from {self.where}, and put there {self.wanted()}."
            )
        if check:
            self._verify(paths)
        try:
            if form.read is None or self.shape is None:
                return picture_folders(name, paths[0])
            return _joined(name, form.read(paths, self.shape, form.scale), self.shape)
        except _UNREADABLE as error:
            files = " and ".join(str(path) for path in paths)
            raise ValueError(
                f"{files} cannot be read: {error}. Get {name} again from {self.where}, and put it there."
            ) from error

    def _verify(self, paths: Paths) -> None:
        for path in paths:
            kind, known = CHECKSUMS.get(path.name, ("", ""))
            if kind and pooch.file_hash(path, alg=kind) != known:
                raise ValueError(
                    f"{path} is damaged or another version: its {kind} checksum is not {known}. Get it again "
                    f"from {self.where}, and put it there; or read it as it is with load(..., check=False)."
                )


# What readers of arrays, text, HDF5, MATLAB and zip files raise on damaged ones; NotImplementedError is scipy's answer
# to MATLAB files of version 7.3 and zipfile's to an unknown compression.
_UNREADABLE = (
    OSError,
    ValueError,
    KeyError,
    IndexError,
    EOFError,
    TypeError,
    NotImplementedError,
    zipfile.BadZipFile,
    zlib.error,
)

_IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
_CAI = "Deng Cai's page of four face databases in matrix form"

SOURCES = {
    "usps": Source(
        (
            FileForm(("usps.npz",), npz_arrays, 2000.0),
            FileForm(("zip.train", "zip.test"), text_digits),
            FileForm(("usps.h5",), hdf5_digits),
        ),
        "the data page of The Elements of Statistical Learning (zip.train, zip.test)",
        (16, 16),
    ),
    "mnist": Source(
        (FileForm(("mnist.npz",), npz_arrays), FileForm(_IDX, idx_files)),
        "the MNIST page of LeCun, Cortes and Burges (four idx files)",
        (28, 28),
    ),
    "pie": Source(
        (FileForm(("pie_32x32.npz",), npz_arrays), FileForm(("PIE_32x32.mat",), matlab_faces)),
        f"{_CAI} (CMU PIE, PIE_32x32.mat)",
        (32, 32),
    ),
    "orl": Source(
        (FileForm(("orl_32x32.npz",), npz_arrays), FileForm(("ORL_32x32.mat",), matlab_faces)),
        f"{_CAI} (ORL, by AT&T, ORL_32x32.mat)",
        (32, 32),
    ),
    "scenes15": Source(
        tuple(FileForm((file,)) for file in ("scenes15_gray256.zip", "scene_categories.zip", "scene_categories")),
        "Svetlana Lazebnik's page of fifteen scene categories (scene_categories.zip)",
    ),
    "caltech101": Source(
        tuple(FileForm((file,)) for file in ("caltech101_gray256.zip", "101_ObjectCategories")),
        "the Caltech-101 page of Caltech's data archive (101_ObjectCategories, unpacked)",
    ),
    "caltech256": Source(
        tuple(FileForm((file,)) for file in ("caltech256_subset_gray160.zip", "256_ObjectCategories")),
        "the Caltech-256 page of Caltech's data archive (256_ObjectCategories, unpacked)",
    ),
}
NAMES = ("digits", *SOURCES)

CHECKSUMS = {
    "usps.npz": ("sha256", "e9b2dc7e71a2b33429ad35e9ec9f4daf9df819ed02d3be276dbf994bfe5c519d"),
    "mnist.npz": ("sha256", "58c05ffd9880e3b6ddfe8c74b89ccc40c0da6f6152f4c5203a7c6a12919c2344"),
    "pie_32x32.npz": ("sha256", "6598d5e3f14433fe79a22b84ff2575a03f1b0ef0f3f38383dc23627b8c671f13"),
    "orl_32x32.npz": ("sha256", "2574c1e20f8e57e9a78409a554731d349366b5dd0ad51d2a689153df77c4577d"),
    "scenes15_gray256.zip": ("sha256", "f4194671bca6cbd643b870709be63d2a8abb5bdf138b660cd13e9fae36a6e68e"),
    "caltech101_gray256.zip": ("sha256", "88c2ab35ffb63904a0a884a6880bf15840b051ee889cdc4b97133a3d3ff4087c"),
    "caltech256_subset_gray160.zip": ("sha256", "aa16fb3facd44f49057b97fa48a724eb9e76c6328f0a9a0a5ca939a14e4a872b"),
    "train-images-idx3-ubyte": ("md5", "6bbc9ace898e44ae57da46a324031adb"),
    "train-labels-idx1-ubyte": ("md5", "a25bea736e30d166cdddb491f175f624"),
    "t10k-images-idx3-ubyte": ("md5", "2646ac647ad5339dbf082846283269ea"),
    "t10k-labels-idx1-ubyte": ("md5", "27ae3e4e09519cfbb04c329615203637"),
    "train-images-idx3-ubyte.gz": ("md5", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
    "train-labels-idx1-ubyte.gz": ("md5", "d53e105ee54ea40749a09fcbcd1e9432"),
    "t10k-images-idx3-ubyte.gz": ("md5", "9fb629c4189551a2d022fa330f9573f3"),
    "t10k-labels-idx1-ubyte.gz": ("md5", "ec29112dd5afa0611ce80d1b7f02629c"),
}


# ── loading ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_FETCHED = ("usps", "mnist")
_FETCH = " Or fetch it with evidence.datasets.load(..., fetch=True)."
_USPS_TRAIN = (1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644)  # images of each digit in the official training part


def load(name: str, folder: PathLike | None = None, *, fetch: bool = False, check: bool = True) -> Dataset:
    """Load a set by its name.

    Parameters
    ----------
    name : {"digits", "usps", "mnist", "pie", "orl", "scenes15", "caltech101", "caltech256"}
        "digits" comes with scikit-learn.
    folder : path, optional
        Where the files are, by default the folder that the environment variable SPARLOW_DATA names. These are read:

        - usps: usps.npz, zip.train and zip.test (also .gz), or usps.h5
        - mnist: mnist.npz, or the four idx files (also .gz)
        - pie, orl: pie_32x32.npz, orl_32x32.npz, or Deng Cai's PIE_32x32.mat, ORL_32x32.mat
        - scenes15, caltech101, caltech256: a .zip or folder of pictures with a sub-folder for each class
    fetch : bool, default=False
        Get usps or mnist from OpenML with scikit-learn's client, which keeps a copy for the next time.
    check : bool, default=True
        Compare files with the checksums that are known.

    Returns
    -------
    Dataset

    """
    if name == "digits":
        digits = load_digits()
        return Dataset("digits", digits.data / 16.0, digits.target, (8, 8))
    if name not in SOURCES:
        raise ValueError(f"There is no set {name!r}; there are {', '.join(NAMES)}.")
    if fetch:
        return _fetched(name)
    source = SOURCES[name]
    named = named_folder(folder)
    if named is None:
        raise FileNotFoundError(
            f"Where is {name}? Name its folder by {VARIABLE}, on the command line by --data, in Python by "
            "load(..., folder=...). "
            f"Get it from {source.where}, and put there {source.wanted()}.{_FETCH * (name in _FETCHED)}"
        )
    return source.load(name, pathlib.Path(named), check)


def loaded(name: str, folder: PathLike | None = None) -> Dataset:
    """Load a set, once in a process."""
    named = named_folder(folder)
    return _loaded(name, None if named is None else os.fspath(named))


@functools.cache
def _loaded(name: str, folder: str | None) -> Dataset:
    return load(name, folder)


def named_folder(folder: PathLike | None = None) -> PathLike | None:
    """Return the folder of the image sets: the one given, or that of the environment variable; None if neither is."""
    return folder if folder is not None else os.environ.get(VARIABLE) or None


def available(name: str, folder: PathLike | None = None) -> bool:
    """Return whether the files of a set are there; they are not read."""
    if name == "digits":
        return True
    named = named_folder(folder)
    return named is not None and any(form.find(pathlib.Path(named)) for form in SOURCES[name].forms)


def of_one_shape(name: str) -> bool:
    """Return whether the images of a set all have one shape, so that their pixels are features."""
    return name == "digits" or SOURCES[name].shape is not None


def _fetched(name: str) -> Dataset:
    if name == "mnist":
        found = fetch_openml("mnist_784", version=1, as_frame=False)
        return Dataset(name, np.asarray(found.data) / 255.0, np.asarray(found.target, int), (28, 28), 60_000)
    if name not in _FETCHED:
        raise ValueError(f"{name} cannot be fetched, usps and mnist can: get it from {SOURCES[name].where}.")
    found = fetch_openml(data_id=41082, as_frame=False)
    images, labels = (np.asarray(found.data, float) + 1) / 2, np.asarray(found.target, int) - 1
    n_train = sum(_USPS_TRAIN)
    official = np.array_equal(np.bincount(labels[:n_train], minlength=10), _USPS_TRAIN)
    return Dataset(name, images, labels, (16, 16), n_train if official else None)
