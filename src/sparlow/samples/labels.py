"""Labels as they stand in files -> integers, words or real targets, and which of them are missing."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .kinds import SamplesError

Array = NDArray[Any]

UNLABELLED = -1


def tidy_labels(y: Array, unlabelled: str | None = None) -> Array:
    """Whole numbers as integers and words as strings, −1 without a label; real targets as floats, NaN where missing."""
    return told_labels(y, unlabelled)[0]


def told_labels(y: Array, unlabelled: str | None = None) -> tuple[Array, Array]:
    """:func:`tidy_labels`, and which of them are missing: empty, None, NaN or the word for it; none of many columns."""
    if y.ndim > 1 and y.shape[1:] != (1,):
        return y, np.zeros(len(y), bool)
    y = y.ravel()
    if y.dtype.kind in "OUS":
        empty = [value is None or (isinstance(value, float) and np.isnan(value)) for value in y]
        words = np.where(empty, "", np.array([str(value).strip() for value in y]))
        bare = (words == "") | (words == (unlabelled or ""))
        y = np.array([float(word) if is_number(word) else np.nan for word in np.where(bare, "nan", words)])
        if not bare.all() and (not np.isfinite(y).any() or not all(map(is_number, words[~bare]))):
            return np.where(bare, UNLABELLED, words.astype(object)) if bare.any() else words, bare
    elif unlabelled is not None and y.dtype.kind in "iuf" and is_number(unlabelled):
        y = np.where(y == float(unlabelled), np.nan, y.astype(float))
    bare = np.isnan(y) if y.dtype.kind == "f" else np.zeros(len(y), bool)
    if y.dtype.kind == "f" and not np.isinf(y).any() and np.all((y == np.round(y)) | bare):
        return np.where(bare, UNLABELLED, y).astype(int), bare
    return y.astype(int) if y.dtype.kind == "b" else y, bare


def read_labels(path: pathlib.Path) -> Array:
    """Labels in a file of their own, as they stand there."""
    if not path.is_file():
        raise SamplesError(f"There is no file of labels {path}.")
    try:
        if path.suffix.lower() == ".npy":
            return np.load(path, allow_pickle=False)
        return np.array([line.strip().strip('"') for line in path.read_text().splitlines()])
    except (ValueError, OSError, UnicodeDecodeError) as error:
        raise SamplesError(f"{path} cannot be read as labels: {error}") from error


def is_number(cell: str) -> bool:
    """Whether a text reads as a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True
