"""What is read from a user's file, how it is to be read, and its labels."""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..labels import UNLABELLED
from ..models import ModelFile
from ..rows import Local

Array = NDArray[Any]

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how cells begin that spreadsheets take for formulas
_AT_ONCE = 4096  # rows that are copied at once


class DataError(ValueError):
    """A file or folder that cannot be read as samples."""


@dataclass(frozen=True)
class Picture:
    """A picture file, which is read once."""

    file: pathlib.Path
    name: str  # its path within the folder
    folders: tuple[str, ...]  # that it lies in; the first is its class
    size: tuple[int, int]  # height and width of the file, upright
    used: tuple[int, int]  # height and width as it is used
    digest: Array  # of the content of the file
    coloured: bool  # whether colours can be seen
    pixels: Array | None  # grey values or colours; None where they would take too much memory
    thumbnail: Array  # (height, width, 3)


@dataclass(frozen=True)
class Dataset:
    """Samples of a user's file as rows, with what is known of them."""

    X: Array  # (n, m); pictures row by row, values from 0 to 1 if they were bytes
    y: Array | None = None  # labels, −1 where a sample has none; or real targets, NaN where they are missing
    shape: tuple[int, ...] | None = None  # height and width of pictures; a third number if they have colours
    feature_names: tuple[str, ...] | None = None  # columns of a table
    names: tuple[str, ...] | None = None  # what to call the samples
    source: str = ""  # the file or folder
    bare: Array | None = None  # which samples have no label; in y they are −1, which may also be a label
    features: str = ""  # the digest of what sparlow features made the rows with
    rows: Array | None = None  # samples as they were read, where X was prepared; of pictures the digests of their files
    pictures: tuple[Picture, ...] | None = None
    described: bool = False  # whether the rows are features of pictures, not their pixels
    coloured: bool = False  # whether these are grey values of pictures that have colours
    groups: Array | None = None  # which samples belong together
    frame: Any = None  # columns of a table that are to be encoded; until then X is empty
    labels_from: str | None = None  # the column of the labels

    @functools.cached_property
    def fingerprint(self) -> str:
        """Return a digest of all samples."""
        digest = hashlib.sha256()
        for rows in self._parts():
            digest.update(rows.tobytes())
        return digest.hexdigest()[:16]

    @functools.cached_property
    def marks(self) -> Array:
        """Return a number for each sample, the same for equal samples."""
        rows = itertools.chain.from_iterable(self._parts())
        marks = [int.from_bytes(hashlib.blake2b(row.tobytes(), digest_size=8).digest()) for row in rows]
        return np.array(marks, np.uint64)

    def _parts(self) -> Iterator[Array]:
        """Return the samples as they were read, some at a time; of a file none stays in memory."""
        rows = self.X if self.rows is None else self.rows
        if isinstance(rows, np.memmap):
            store = Local(rows)
            yield from map(store.read, store.slices)
        else:
            yield from (rows[first : first + _AT_ONCE] for first in range(0, len(rows), _AT_ONCE))

    def is_training_set_of(self, held: ModelFile) -> bool:
        """Return whether these are known to be the samples that a model was learned from."""
        return bool(held.data.get("fingerprint") == self.fingerprint)

    def seen_by(self, held: ModelFile) -> NDArray[np.bool_]:
        """Return which samples are equal to some that a model is known to have been learned from."""
        if "marks" not in held.data:
            return np.full(len(self.X), self.is_training_set_of(held))
        return np.isin(self.marks, held.data["marks"])

    def take(self, rows: Array) -> Dataset:
        """Return some of the samples."""
        arrays = {name: getattr(self, name) for name in ("X", "y", "bare", "rows", "groups")}
        listed = {name: getattr(self, name) for name in ("names", "pictures")}
        taken = {name: part[rows] for name, part in arrays.items() if part is not None}
        taken |= {name: tuple(part[row] for row in rows) for name, part in listed.items() if part is not None}
        return replace(self, **taken, frame=None if self.frame is None else self.frame.iloc[rows])

    @property
    def classes(self) -> Array | None:
        """Return the labels if they are classes, None for targets or nothing."""
        return None if self.y is None or self.y.ndim > 1 or self.y.dtype.kind == "f" else self.y


@dataclass(frozen=True)
class ReadOptions:
    """How to read a file: what cannot be seen from it."""

    # a column of a table, by its name or position (from 0, or from −1 at the end), or a file
    labels: str | os.PathLike[str] | None = None
    groups: str | os.PathLike[str] | None = None  # likewise; "folders" for those of pictures below their classes
    unlabelled: str | None = None  # the label of samples that have none; empty cells have none in any case
    size: tuple[int, ...] | None = None  # what pictures are scaled to, or the shape of rows that are pictures
    colours: bool = False  # keep the colours of pictures
    whole: bool = False  # read pictures in their full size
    part: str | None = None  # of a file that has both: train, test or all
    columns: tuple[str, ...] | None = None  # those that a model was learned from, in its order
    worded: tuple[str, ...] | None = None  # those of them that were words, for a model that encodes words
    usual: str | None = None  # the column that a model had its labels from
    use: tuple[str, ...] | None = None  # the only columns to use
    drop: tuple[str, ...] = ()  # columns to leave out
    one_hot: tuple[str, ...] | None = None  # columns of words to encode; () for all of them but the labels
    fill: bool = False  # put the median of a column where a number is missing
    skip: bool = False  # leave out pictures that cannot be read, with a warning
    n_jobs: int | None = None  # threads that decode pictures

    @property
    def encodes(self) -> bool:
        """Return whether words are to be encoded or gaps to be filled."""
        return self.one_hot is not None or self.fill or self.worded is not None


def readable(name: str) -> str:
    r"""Return the name of a file as text: bytes that are no UTF-8 are written as \xff."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def tidy_labels(y: Array, unlabelled: str | None = None) -> Array:
    """Return labels as integers or strings, −1 where one is missing; real targets as floats, NaN where missing."""
    return labels_and_missing(y, unlabelled)[0]


def labels_and_missing(y: Array, unlabelled: str | None = None) -> tuple[Array, Array]:
    """Return :func:`tidy_labels` and which labels are missing: empty, None, NaN or ``unlabelled``."""
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
    """Read a file of labels as they stand there."""
    if not path.is_file():
        raise DataError(f"There is no file of labels {path}.")
    try:
        if path.suffix.lower() == ".npy":
            return np.load(path, allow_pickle=False)
        return np.array([line.strip().strip('"') for line in path.read_text().splitlines()])
    except (ValueError, OSError) as error:
        raise DataError(f"{path} cannot be read as labels: {error}") from error


def ending_of(path: pathlib.Path) -> str:
    """Return the ending of a file's name that says how to read it: ".csv.gz" rather than ".gz"."""
    return "".join(path.suffixes[-2:]).lower() if path.suffix.lower() == ".gz" else path.suffix.lower()


def is_number(cell: str) -> bool:
    """Return whether a text reads as a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True
