"""Samples from .npy and .npz files."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .kinds import Reading, Samples, SamplesError

Array = NDArray[Any]

_SAMPLE_KEYS = ("X", "images", "data", "x")
_LABEL_KEYS = ("y", "labels", "label", "target", "targets")


def _as_rows(values: Array, path: pathlib.Path, size: tuple[int, int] | None) -> tuple[Array, tuple[int, int] | None]:
    """(n, m), (n, h, w) or (n, h, w, 3) -> rows and the shape of the images; bytes become grey values in [0, 1]."""
    if values.dtype.kind not in "buif":
        raise SamplesError(f"{path}: samples must be numbers, got an array of {values.dtype}.")
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
        raise SamplesError(
            f"{path}: expected an array (samples, numbers), (samples, height, width) or (samples, height, width, "
            f"3), got {values.shape}."
        )
    shape = (int(X.shape[1]), int(X.shape[2]))
    if size is not None and size != shape:
        raise SamplesError(f"{path}: the images are {shape[0]}x{shape[1]}, not {size[0]}x{size[1]}: leave --size out.")
    return np.ascontiguousarray(X.reshape(len(X), -1)), shape


def read_npy(path: pathlib.Path, how: Reading) -> Samples:
    """An array of rows or images."""
    X, shape = _as_rows(np.load(path, allow_pickle=False), path, how.size)
    return Samples(X, shape=shape)


def read_npz(path: pathlib.Path, how: Reading) -> Samples:
    """Named arrays: samples, labels, names, shape."""
    with np.load(path, allow_pickle=False) as arrays:
        keys = list(arrays)
        size = how.size
        if size is None and "shape" in keys and np.size(arrays["shape"]) == 2:
            size = tuple(int(side) for side in np.ravel(arrays["shape"]))  # type: ignore[assignment]
        values, y = _npz_arrays(arrays, keys, path, how.part)
        names, features = _npz_words(arrays, "names", keys), _npz_words(arrays, "features", keys)
    X, shape = _as_rows(values, path, size)
    named = tuple(names.tolist()) if names.shape == (len(X),) else None
    return Samples(X, y, shape, names=named, features=str(features) if features.ndim == 0 else "")


def _npz_words(arrays: Any, key: str, keys: list[str]) -> Array:
    """An array of strings, or an empty one where there is none of that name; names of two parts are nobody's."""
    if key not in keys or any(name.endswith("_train") for name in keys):
        return np.empty(0, str)
    try:
        return np.asarray(arrays[key].astype(str)) if arrays[key].dtype.kind in "US" else np.empty(0, str)
    except ValueError:  # objects, which are not read
        return np.empty(0, str)


def _npz_arrays(arrays: Any, keys: list[str], path: pathlib.Path, part: str | None) -> tuple[Array, Array | None]:
    plain = next((key for key in _SAMPLE_KEYS if key in keys), None)
    if plain is not None:
        label = next((key for key in _LABEL_KEYS if key in keys), None)
        return arrays[plain], None if label is None else arrays[label]
    stem = next((key for key in _SAMPLE_KEYS if f"{key}_train" in keys and f"{key}_test" in keys), None)
    if stem is None:
        raise SamplesError(
            f"{path} holds the arrays {', '.join(keys) or '(none)'}: samples are expected under X or images, labels "
            "under y or labels, or both parts as X_train, y_train, X_test, y_test."
        )
    if part is None:
        raise SamplesError(f"{path} has a training and a test part: choose one with --part train, test or all.")
    parts = ("train", "test") if part == "all" else (part,)
    label = next((key for key in _LABEL_KEYS if all(f"{key}_{which}" in keys for which in parts)), None)
    values = np.concatenate([arrays[f"{stem}_{which}"] for which in parts])
    return values, None if label is None else np.concatenate([arrays[f"{label}_{which}"] for which in parts])
