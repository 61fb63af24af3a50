"""Read users' files: arrays, tables and folders of images become rows, labels and a shape."""

from __future__ import annotations

import os
import pathlib
import zipfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..files import TooLargeError, check_zip
from ..images.reading import (
    SUFFIXES,
    UnreadableImageError,
    class_of,
    find_pictures,
    has_colours,
    is_picture,
    read_levels,
    resized,
)
from ..messages import warn
from ..parallel import Threads
from .dataset import DataError, Dataset, ReadOptions, ending_of, labels_and_missing, read_labels, readable
from .tables import Mixture, frame_of, read_mixture, read_table

Array = NDArray[Any]
T = TypeVar("T")
Reader = Callable[[pathlib.Path, ReadOptions], Dataset]

_SAMPLE_KEYS = ("X", "images", "data", "x")
_LABEL_KEYS = ("y", "labels", "label", "target", "targets")
_SQUEEZE = 0.02  # a change of proportions up to this share is not reported
_LARGE = 128 * 128  # pixels
_LOOKS = 10  # pictures that are looked at for colours
_FEATURES = "photographs of things and places are better described by sparlow features first"
_PARTS = {"train", "training", "test", "testing", "val", "valid", "validation", "new"}


def read(path: str | os.PathLike[str], how: ReadOptions | None = None) -> Dataset:
    """Read a file (.npz, .npy, .csv, .tsv, .txt, .parquet, an image) or a folder with a sub-folder for each class.

    Parameters
    ----------
    path : path
        The file or folder.
    how : ReadOptions, optional
        What cannot be seen from the file.

    Returns
    -------
    Dataset

    """
    path, how = pathlib.Path(path), how or ReadOptions()
    if holds_pictures(path):
        found = _read_pictures(path, how)
    elif not path.exists():
        raise DataError(f"There is no file or folder {path}.")
    elif _is_model(path):
        raise DataError(f"{path} is a model file; samples were expected. Usage: sparlow COMMAND MODEL DATA.")
    elif ending_of(path) not in READERS:
        raise DataError(f"{path}: samples are read from {', '.join(READERS)} files, an image or a folder of images.")
    else:
        found = _guarded(READERS[ending_of(path)], path, how)
    return labelled(replace(found, source=readable(str(path))), how)


def labelled(found: Dataset, how: ReadOptions) -> Dataset:
    """Return samples with the labels that a file of its own has for them, all checked."""
    if how.labels is not None:
        found = replace(found, y=read_labels(pathlib.Path(how.labels)))
    return _checked(found, pathlib.Path(found.source), how)


def read_frame(
    path: str | os.PathLike[str], how: ReadOptions, wanted: Sequence[str], worded: Collection[str] = ()
) -> tuple[Any, Dataset]:
    """Return columns of a table as a data frame, for a pipeline that was fitted on one, and labels and names."""
    path = pathlib.Path(path)
    if not path.is_file() or ending_of(path) not in COLUMNED:
        raise DataError(
            f"{path}: the model was learned from a table with the columns {', '.join(wanted[:5])}"
            f"{' …' if len(wanted) > 5 else ''}; a table was expected ({', '.join(COLUMNED)})."
        )
    frame, found = _guarded(lambda path, how: frame_of(path, how, wanted, worded), path, how)
    y = found.y if how.labels is None else read_labels(pathlib.Path(how.labels))
    if y is not None and len(y) != len(frame):
        raise DataError(f"{len(y)} labels for {len(frame)} samples in {path}: each sample needs one.")
    labels, bare = (None, None) if y is None else labels_and_missing(y, how.unlabelled)
    return frame, replace(found, y=labels, bare=bare, source=readable(str(path)))


def read_mixed(path: str | os.PathLike[str], how: ReadOptions) -> tuple[Mixture, Dataset]:
    """Return a table of numbers and words to be encoded, and its labels and names."""
    path = pathlib.Path(path)
    if not path.is_file() or ending_of(path) not in COLUMNED:
        raise DataError(f"{path}: --one-hot and --fill are for tables ({', '.join(COLUMNED)}).")
    mixture, found = _guarded(read_mixture, path, how)
    found = replace(found, X=np.ones((len(mixture.frame), 1)), source=readable(str(path)))
    return mixture, labelled(found, how)


def holds_pictures(path: pathlib.Path) -> bool:
    """Return whether a path is a folder, or a single picture."""
    return path.is_dir() or is_picture(path, path.parent)


def _is_model(path: pathlib.Path) -> bool:
    """Return whether skops wrote a file; numpy's .npz is a zip file too."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as file:
        return "schema.json" in file.namelist()


def _guarded(reader: Callable[[pathlib.Path, ReadOptions], T], path: pathlib.Path, how: ReadOptions) -> T:
    """Read a user's file, and name it in whatever error comes."""
    try:
        return reader(path, how)
    except (DataError, ImportError):
        raise
    except TooLargeError as error:
        raise DataError(str(error)) from error
    except Exception as error:  # whatever a damaged file provokes
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        cut = "it is damaged or cut short. " if path.suffix.lower() in (".npy", ".npz") else ""
        if "Object arrays" in reason:
            cut, reason = "", "it holds Python objects, which are not read. Save arrays of numbers or of words (str)."
        raise DataError(f"{path} cannot be read as a {ending_of(path)} file: {cut}{reason}") from error


def _checked(found: Dataset, path: pathlib.Path, how: ReadOptions) -> Dataset:
    """Return samples of a user's file, checked."""
    X, y = found.X, found.y
    if X.size == 0:
        raise DataError(f"{path} holds no samples (its shape is {X.shape}).")
    if y is not None and len(y) != len(X):
        raise DataError(f"{len(y)} labels for {len(X)} samples in {path}: each sample needs one.")
    if not np.isfinite(X).all():
        row, column = np.argwhere(~np.isfinite(X))[0]
        named = f"{column} (from 0)" if found.feature_names is None else repr(found.feature_names[column])
        raise DataError(f"{path}: sample {row} (from 0) has a missing or infinite value in column {named}.")
    if found.shape is not None and found.shape[0] * found.shape[1] != X.shape[1]:
        raise DataError(
            f"{path}: samples have {X.shape[1]} numbers, which is no image of {found.shape[0]}x{found.shape[1]}."
        )
    if y is None:
        return found
    labels, bare = labels_and_missing(y, how.unlabelled)
    return replace(found, y=labels, bare=bare)


def _dataset(values: Array, path: pathlib.Path, size: tuple[int, int] | None, **known: Any) -> Dataset:
    """Return samples from an array (n, m), (n, h, w) or (n, h, w, 3); bytes become grey values."""
    X, shape = _as_rows(values, path, size)
    coloured = values.ndim == 4 and values.shape[-1] > 1 and bool(np.any(values[..., 1:3] != values[..., :1]))
    return Dataset(X, shape=shape, coloured=coloured, **known)


def _as_rows(values: Array, path: pathlib.Path, size: tuple[int, int] | None) -> tuple[Array, tuple[int, int] | None]:
    """Return rows, and the shape of images."""
    if values.dtype.kind not in "buif":
        raise DataError(f"{path}: samples must be numbers, got an array of {values.dtype}.")
    X = (
        values / 255.0
        if values.dtype == np.uint8
        else values.astype(values.dtype if values.dtype.kind == "f" else float)
    )
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(float)
    if X.ndim == 4 and X.shape[-1] in (1, 3, 4):
        X = X[..., 0] if X.shape[-1] == 1 else X[..., :3] @ np.array([0.299, 0.587, 0.114], X.dtype)
    if X.ndim == 2:
        return np.ascontiguousarray(X), size
    if X.ndim != 3:
        raise DataError(
            f"{path}: expected an array (samples, numbers), (samples, height, width) or (samples, height, width, "
            f"3), got {values.shape}."
        )
    shape = (int(X.shape[1]), int(X.shape[2]))
    if size is not None and size != shape:
        raise DataError(f"{path}: the images are {shape[0]}x{shape[1]}, not {size[0]}x{size[1]}: leave --size out.")
    return np.ascontiguousarray(X.reshape(len(X), -1)), shape


def _read_npy(path: pathlib.Path, how: ReadOptions) -> Dataset:
    """Read an array of rows or images."""
    return _dataset(np.load(path, allow_pickle=False), path, how.size)


def _read_npz(path: pathlib.Path, how: ReadOptions) -> Dataset:
    """Read named arrays: samples, labels, names, shape."""
    check_zip(path)
    with np.load(path, allow_pickle=False) as arrays:
        keys = list(arrays)
        size = how.size
        if size is None and "shape" in keys and np.size(arrays["shape"]) == 2:
            size = tuple(int(side) for side in np.ravel(arrays["shape"]))  # type: ignore[assignment]
        values, y = _npz_arrays(arrays, keys, path, how.part)
        names, features = _npz_words(arrays, "names", keys), _npz_words(arrays, "features", keys)
    named = tuple(names.tolist()) if names.shape == values.shape[:1] else None
    return _dataset(values, path, size, y=y, names=named, features=str(features) if features.ndim == 0 else "")


def _npz_words(arrays: Any, key: str, keys: list[str]) -> Array:
    """Return an array of strings, empty where there is none; the names of a file of two parts are not used."""
    if key not in keys or any(name.endswith("_train") for name in keys):
        return np.empty(0, str)
    try:
        return np.asarray(arrays[key].astype(str)) if arrays[key].dtype.kind in "US" else np.empty(0, str)
    except ValueError:  # objects, which are not read
        return np.empty(0, str)


def _npz_arrays(arrays: Any, keys: list[str], path: pathlib.Path, part: str | None) -> tuple[Array, Array | None]:
    """Return samples and labels of a .npz file, by the names of its arrays."""
    plain = next((key for key in _SAMPLE_KEYS if key in keys), None)
    if plain is not None:
        label = next((key for key in _LABEL_KEYS if key in keys), None)
        return arrays[plain], None if label is None else arrays[label]
    stem = next((key for key in _SAMPLE_KEYS if f"{key}_train" in keys and f"{key}_test" in keys), None)
    if stem is None:
        raise DataError(
            f"{path} holds the arrays {', '.join(keys) or '(none)'}: samples are expected under X or images, labels "
            "under y or labels, or both parts as X_train, y_train, X_test, y_test."
        )
    if part is None:
        raise DataError(f"{path} has a training and a test part: choose one with --part train, test or all.")
    parts = ("train", "test") if part == "all" else (part,)
    label = next((key for key in _LABEL_KEYS if all(f"{key}_{which}" in keys for which in parts)), None)
    values = np.concatenate([arrays[f"{stem}_{which}"] for which in parts])
    return values, None if label is None else np.concatenate([arrays[f"{label}_{which}"] for which in parts])


def pictures_with_classes(path: pathlib.Path) -> tuple[list[pathlib.Path], list[str]]:
    """Return the pictures of a folder, or one picture, and their classes: "" for those in no sub-folder."""
    if path.exists() and not holds_pictures(path):
        raise DataError(f"{path} is neither a folder nor an image ({', '.join(sorted(SUFFIXES))}).")
    if not path.exists():
        raise DataError(f"There is no folder or image {path}.")
    files = find_pictures(path)
    if not files:
        raise DataError(
            f"{path} holds no images ({', '.join(sorted(SUFFIXES))}), nor do its sub-folders: expected a sub-folder "
            "for each class."
        )
    if path.is_dir():
        _check_depth(files, path)
    return files, [readable(class_of(file, path)) for file in files]


def _read_pictures(path: pathlib.Path, how: ReadOptions) -> Dataset:
    """Read pictures of one size, or scaled to one; those that cannot be read are all named."""
    files, classes = pictures_with_classes(path)
    with Threads(how.n_jobs) as threads:
        decoded = list(threads.map(lambda file: _row(file, how.size), files))
    broken = [found for found in decoded if isinstance(found, str)]
    if broken and not how.skip:
        raise DataError(say_unreadable(broken))
    for reason in broken:
        warn(f"left out: {reason}")
    kept = [place for place, found in enumerate(decoded) if not isinstance(found, str)]
    if not kept:
        raise DataError(f"None of the {len(files)} pictures in {path} can be read.")
    files, classes = [files[place] for place in kept], [classes[place] for place in kept]
    pictures = [found for found in decoded if not isinstance(found, str)]
    size = how.size or pictures[0].shape
    for file, picture in zip(files, pictures, strict=True):
        if picture.levels.shape != size:
            height, width = picture.shape
            raise DataError(
                f"{file} is {height}x{width}, the first image {size[0]}x{size[1]}: name a common size, for instance "
                f"--size 32x32; {_FEATURES}."
            )
    squeezed = sum(abs(p.shape[0] * size[1] / (p.shape[1] * size[0]) - 1) > _SQUEEZE for p in pictures)
    _warn_of_sizes(path, size, squeezed, len(files))
    folder = path if path.is_dir() else path.parent
    names = tuple(readable(file.relative_to(folder).as_posix()) for file in files)
    X = np.array([picture.levels.ravel() / float(picture.white) for picture in pictures])
    y = np.array(classes) if any(classes) else None
    return Dataset(X, y, size, names=names, coloured=some_coloured(files))


def some_coloured(files: Sequence[pathlib.Path]) -> bool:
    """Return whether some of the pictures have colours; a few of them are looked at."""
    return any(map(has_colours, files[:: max(1, len(files) // _LOOKS)]))


class _Picture(NamedTuple):
    """Grey values in the size asked for, the value of white, and the shape of the picture in its file."""

    levels: Array
    white: int
    shape: tuple[int, int]


def _row(file: pathlib.Path, size: tuple[int, int] | None) -> _Picture | str:
    """Return a picture, or why it cannot be read."""
    try:
        levels, white = read_levels(file)
    except UnreadableImageError as error:
        return str(error)
    shape = (int(levels.shape[0]), int(levels.shape[1]))
    return _Picture(levels if size in (None, shape) else resized(levels, size or shape), white, shape)


def say_unreadable(reasons: Sequence[str]) -> str:
    """Return one message about pictures that cannot be read: why of the first, and the names of the others."""
    others = [reason.removeprefix("Cannot use the image ").split(": ")[0] for reason in reasons[1:]]
    told = f" Nor can {', '.join(others[:20])}{f' and {len(others) - 20} more' if len(others) > 20 else ''} be read."
    return f"{reasons[0].rstrip('.')}.{told if others else ''} With --skip such pictures are left out."


def _warn_of_sizes(path: pathlib.Path, size: tuple[int, int], squeezed: int, count: int) -> None:
    """Warn of images that were squeezed to the size asked for, and of very large ones."""
    named = f"{size[0]}x{size[1]}"
    if squeezed:
        warn(
            f"{path}: {squeezed} of {count} images have other proportions than {named}, to which they were squeezed; "
            f"{_FEATURES}.",
        )
    if size[0] * size[1] > _LARGE:
        warn(
            f"{path}: images of {named} are {size[0] * size[1]} numbers each, which takes time: --size 64x64 is "
            f"less; {_FEATURES}.",
        )


def _check_depth(files: list[pathlib.Path], folder: pathlib.Path) -> None:
    """Refuse parts of a set (train, test) in place of its classes; warn where all pictures lie two folders deep."""
    parts = [file.relative_to(folder).parts for file in files]
    if all(len(names) > 2 for names in parts):
        first = sorted({names[0] for names in parts}, key=lambda name: (not name.lower().startswith("train"), name))
        if len(first) > 1 and all(name.lower() in _PARTS for name in first):
            raise DataError(
                f"{folder} holds parts of a set ({', '.join(first)}), not its classes: name one, {folder / first[0]}."
            )
        warn(
            f"{folder}: images lie in folders of {' and '.join(first[:2])}{' and others' * (len(first) > 2)}, which "
            f"are taken to be the classes. If these are parts of the set, name one of them: {folder / first[0]}."
        )


# files whose columns may have names
COLUMNED: dict[str, Reader] = dict.fromkeys(
    (".csv", ".tsv", ".txt", ".parquet", ".csv.gz", ".tsv.gz", ".txt.gz"), read_table
)
READERS: dict[str, Reader] = {".npz": _read_npz, ".npy": _read_npy, **COLUMNED}
