"""Read users' files: arrays, tables and pictures become rows, labels and a shape."""

from __future__ import annotations

import os
import pathlib
import zipfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..files import TooLargeError, check_zip
from .dataset import DataError, Dataset, ReadOptions, ending_of, labels_and_missing, read_labels, readable
from .pictures import Pictures, holds_pictures, look_at
from .tables import read_table

Array = NDArray[Any]
Reader = Callable[[pathlib.Path, ReadOptions], Dataset]

_SAMPLE_KEYS = ("X", "images", "data", "x")
_LABEL_KEYS = ("y", "labels", "label", "target", "targets")
_LUMA = (0.299, 0.587, 0.114)


def read(path: str | os.PathLike[str], how: ReadOptions | None = None) -> Dataset:
    """Read a file (.npz, .npy, .csv, .tsv, .txt, .parquet, a picture) or a folder with a sub-folder for each class.

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
        return read_pictures(look_at([path], how), how)
    if not path.exists():
        raise DataError(f"There is no file or folder {path}.")
    if _is_model(path):
        raise DataError(f"{path} is a model file; samples were expected. Usage: sparlow COMMAND MODEL DATA.")
    if ending_of(path) not in READERS:
        raise DataError(f"{path}: samples are read from {', '.join(READERS)} files, a picture or a folder of pictures.")
    return completed(replace(_guarded(READERS[ending_of(path)], path, how), source=readable(str(path))), how)


def read_pictures(pictures: Pictures, how: ReadOptions) -> Dataset:
    """Return the pixels of pictures as samples, with their labels."""
    return completed(pictures.dataset(pictures.pixels(how), how), how)


def completed(found: Dataset, how: ReadOptions) -> Dataset:
    """Return samples with the labels and groups that files of their own have for them, all checked."""
    if how.labels is not None and found.labels_from is None and found.y is None:
        found = replace(found, y=read_labels(pathlib.Path(how.labels)))
    if how.groups is not None and found.groups is None:
        found = replace(found, groups=read_labels(pathlib.Path(how.groups)))
    return _checked(found, how)


def _is_model(path: pathlib.Path) -> bool:
    """Return whether skops wrote a file; numpy's .npz is a zip file too."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as file:
        return "schema.json" in file.namelist()


def _guarded(reader: Reader, path: pathlib.Path, how: ReadOptions) -> Dataset:
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


def _checked(found: Dataset, how: ReadOptions) -> Dataset:
    """Return samples of a user's file, checked."""
    X, path = found.X, found.source
    if X.size == 0:
        raise DataError(f"{path} holds no samples (its shape is {X.shape}).")
    for what, values in (("labels", found.y), ("groups", found.groups)):
        if values is not None and len(values) != len(X):
            raise DataError(f"{len(values)} {what} for {len(X)} samples in {path}: each sample needs one.")
    if not np.isfinite(X).all():
        row, column = np.argwhere(~np.isfinite(X))[0]
        named = f"{column} (from 0)" if found.feature_names is None else repr(found.feature_names[column])
        raise DataError(f"{path}: sample {row} (from 0) has a missing or infinite value in column {named}.")
    if found.shape is not None and np.prod(found.shape) != X.shape[1]:
        sides = "x".join(map(str, found.shape))
        raise DataError(f"{path}: samples have {X.shape[1]} numbers, which is no picture of {sides}.")
    if found.groups is not None:
        found = replace(found, groups=np.asarray(found.groups).astype(str))
    if found.y is None:
        return found
    labels, bare = labels_and_missing(found.y, how.unlabelled)
    return replace(found, y=labels, bare=bare)


def _dataset(values: Array, path: pathlib.Path, how: ReadOptions, **known: Any) -> Dataset:
    """Return samples from an array (n, m), (n, h, w) or (n, h, w, 3); bytes become values from 0 to 1."""
    coloured = values.ndim == 4 and values.shape[-1] > 1 and bool(np.any(values[..., 1:3] != values[..., :1]))
    X, shape = _as_rows(values, path, how.size, coloured and how.colours)
    return Dataset(X, shape=shape, coloured=coloured and not how.colours, **known)


def _as_rows(
    values: Array, path: pathlib.Path, size: tuple[int, ...] | None, colours: bool
) -> tuple[Array, tuple[int, ...] | None]:
    """Return rows, and the shape of pictures."""
    if values.dtype.kind not in "buif":
        raise DataError(f"{path}: samples must be numbers, got an array of {values.dtype}.")
    X = values / 255.0 if values.dtype == np.uint8 else values
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(float)
    if X.ndim == 4 and X.shape[-1] in (1, 3, 4):
        X = X[..., 0] if X.shape[-1] == 1 else X[..., :3] if colours else X[..., :3] @ np.array(_LUMA, X.dtype)
    if X.ndim == 2:
        return np.ascontiguousarray(X), size
    if X.ndim < 3 or (X.ndim == 4 and not colours) or X.ndim > 4:
        raise DataError(
            f"{path}: expected an array (samples, numbers), (samples, height, width) or (samples, height, width, "
            f"3), got {values.shape}."
        )
    shape = tuple(int(side) for side in X.shape[1:])
    if size is not None and size[:2] != shape[:2]:
        raise DataError(
            f"{path}: the pictures are {shape[0]}x{shape[1]}, not {size[0]}x{size[1]}: leave --size out, or give what "
            "the model was learned from."
        )
    return np.ascontiguousarray(X.reshape(len(X), -1)), shape


def _read_npy(path: pathlib.Path, how: ReadOptions) -> Dataset:
    """Read an array of rows or pictures."""
    return _dataset(np.load(path, allow_pickle=False), path, how)


def _read_npz(path: pathlib.Path, how: ReadOptions) -> Dataset:
    """Read named arrays: samples, labels, names, shape."""
    check_zip(path)
    with np.load(path, allow_pickle=False) as arrays:
        keys = list(arrays)
        if how.size is None and "shape" in keys and np.size(arrays["shape"]) in (2, 3):
            how = replace(how, size=tuple(int(side) for side in np.ravel(arrays["shape"])))
        values, y = _npz_arrays(arrays, keys, path, how.part)
        names, features = _npz_words(arrays, "names", keys), _npz_words(arrays, "features", keys)
    named = tuple(names.tolist()) if names.shape == values.shape[:1] else None
    made = str(features) if features.ndim == 0 else ""
    return _dataset(values, path, how, y=None if how.labels else y, names=named, features=made)


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


# files whose columns may have names
COLUMNED: dict[str, Reader] = dict.fromkeys(
    (".csv", ".tsv", ".txt", ".parquet", ".csv.gz", ".tsv.gz", ".txt.gz"), read_table
)
READERS: dict[str, Reader] = {".npz": _read_npz, ".npy": _read_npy, **COLUMNED}
