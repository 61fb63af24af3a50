"""File formats: paths in, images with labels out. What is wrong with a file raises; who reads says what to do."""

from __future__ import annotations

import gzip
import pathlib
import zipfile
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.io import loadmat

from .dataset import Dataset

Array = NDArray[Any]
Paths = Sequence[pathlib.Path]

_PICTURES = (".jpg", ".jpeg", ".png", ".pgm", ".tif", ".tiff", ".bmp")


def content(path: pathlib.Path) -> bytes:
    """The bytes of a file, unpacked if it ends in .gz."""
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def arrays(name: str, paths: Paths, shape: tuple[int, int], scale: float) -> Dataset:
    """NumPy's .npz with X and y, or X_train, y_train, X_test, y_test; grey values up to ``scale``."""
    with np.load(paths[0]) as file:
        if "X_train" in file:
            parts = [(file["X_train"], file["y_train"]), (file["X_test"], file["y_test"])]
        else:
            parts = [(file["X"], file["y"])]
    return _joined(name, [(X / scale, y) for X, y in parts], shape)


def idx(name: str, paths: Paths, shape: tuple[int, int], scale: float) -> Dataset:
    """The four idx files of MNIST: training images and labels, test images and labels."""
    images, labels, more_images, more_labels = (_idx_array(content(path)) for path in paths)
    parts = [(images, labels), (more_images, more_labels)]
    return _joined(name, [(X.reshape(len(X), -1) / scale, y) for X, y in parts], shape)


def _idx_array(data: bytes) -> Array:
    """A magic number (0, 0, 8 for bytes, number of axes), the length of each axis as 32-bit big-endian, the bytes."""
    if data[:3] != b"\0\0\x08":
        raise ValueError("it does not begin with the mark of an idx file of bytes")
    axes = data[3]
    lengths = np.frombuffer(data, ">i4", axes, offset=4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * axes).reshape(lengths)


def text_digits(name: str, paths: Paths, shape: tuple[int, int], scale: float) -> Dataset:
    """zip.train and zip.test: a line for each image, its digit and 256 numbers from −1 to 1."""
    parts = []
    for path in paths:
        table = np.array([line.split() for line in content(path).decode("ascii").splitlines() if line.strip()], float)
        parts.append(((table[:, 1:] + 1) / 2, table[:, 0]))
    return _joined(name, parts, shape)


def hdf5_digits(name: str, paths: Paths, shape: tuple[int, int], scale: float) -> Dataset:
    """usps.h5: groups train and test with data, from 0 to 1, and target."""
    try:
        import h5py
    except ImportError as error:
        raise ImportError("Files in HDF5 format need h5py: pip install 'sparlow[data]'") from error
    with h5py.File(paths[0]) as file:
        parts = [
            (np.asarray(file[part]["data"], float), np.asarray(file[part]["target"])) for part in ("train", "test")
        ]
    return _joined(name, parts, shape)


def matlab_faces(name: str, paths: Paths, shape: tuple[int, int], scale: float) -> Dataset:
    """Deng Cai's .mat: ``fea`` with an image in each row, column by column, and ``gnd``, the subjects."""
    file = loadmat(paths[0], variable_names=["fea", "gnd"])
    height, width = shape
    X = np.asarray(file["fea"], float).reshape(-1, width, height).transpose(0, 2, 1)
    return _joined(name, [(X.reshape(len(X), -1) / scale, file["gnd"].ravel())], shape)


def _joined(name: str, parts: Sequence[tuple[Array, Array]], shape: tuple[int, int]) -> Dataset:
    X, y = (np.concatenate([part[place] for part in parts]) for place in (0, 1))
    if X.ndim != 2 or X.shape[1] != shape[0] * shape[1] or len(X) != len(y):
        raise ValueError(f"it holds images of shape {X.shape} with {len(y)} labels, but {shape} pixels each are meant")
    return Dataset(name, X.astype(float), y.astype(int), shape, len(parts[0][1]) if len(parts) == 2 else None)


# ── pictures in folders ─────────────────────────────────────────────────────────────────────────────────────────────


def pictures(name: str, paths: Paths, *_: Any) -> Dataset:
    """A folder or .zip with a sub-folder for each class; train/ and test/ above them are the standard split."""
    found = sorted(_in_zip(paths[0]) if paths[0].is_file() else _in_folder(paths[0]), key=lambda item: item[:3])
    if not found:
        raise ValueError("there are no pictures in folders of classes")
    parts = {part for part, _, _, _ in found}
    if parts == {"train", "test"}:
        found.sort(key=lambda item: item[0] != "train")
    elif parts != {""}:
        raise ValueError(f"its folders are neither classes nor train and test with classes in them: {sorted(parts)}")
    names = sorted({label for _, label, _, _ in found})
    images = np.empty(len(found), object)
    images[:] = [path for _, _, _, path in found]
    labels = np.array([names.index(label) + 1 for _, label, _, _ in found])
    n_train = sum(part == "train" for part, _, _, _ in found) or None
    return Dataset(name, images, labels, None, n_train, tuple(names))


Found = tuple[str, str, str, Any]  # part, class, file name, path


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
            yield _part(list(above)), above[-1], path.name, path


def _part(above: list[str]) -> str:
    """The folder above the class, where it is train or test; a root folder of the archive counts as nothing."""
    return above[-2] if len(above) > 1 and above[-2] in ("train", "test") else ""


def _is_picture(file: str) -> bool:
    return file.lower().endswith(_PICTURES) and not file.startswith(".")
