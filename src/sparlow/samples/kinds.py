"""What readers give and what they are told."""

from __future__ import annotations

import functools
import hashlib
import os
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class SamplesError(ValueError):
    """A file or folder that cannot be read as samples."""


@dataclass(frozen=True)
class Samples:
    """Samples as rows.

    Parameters
    ----------
    X : array of shape (n, m)
        Samples; images row by row, grey values from 0 to 1 if they were bytes.
    y : array of shape (n,), optional
        Labels, −1 where a sample has none; or real targets, NaN where they are missing.
    shape : (int, int), optional
        Height and width, if the samples are images.
    feature_names : tuple of str, optional
        Column names of a table.
    names : tuple of str, optional
        What to call the samples: paths of images within their folder.
    source : str
        The file or folder.
    bare : array of bool of shape (n,), optional
        Which samples have no label, −1 in ``y`` as it is for those whose label is −1.
    features : str
        What made rows of pictures, if ``sparlow features`` did.

    """

    X: Array
    y: Array | None = None
    shape: tuple[int, int] | None = None
    feature_names: tuple[str, ...] | None = None
    names: tuple[str, ...] | None = None
    source: str = ""
    bare: Array | None = None
    features: str = ""

    @functools.cached_property
    def fingerprint(self) -> str:
        """A number that tells these samples from others."""
        return hashlib.sha256(np.ascontiguousarray(self.X).tobytes()).hexdigest()[:16]

    @functools.cached_property
    def marks(self) -> Array:
        """A number for each sample, the same for equal ones."""
        rows = np.ascontiguousarray(self.X)
        marks = [int.from_bytes(hashlib.blake2b(row.tobytes(), digest_size=8).digest()) for row in rows]
        return np.array(marks, np.uint64)

    def take(self, rows: Array) -> Samples:
        """Some of them."""
        y, bare = (None if part is None else part[rows] for part in (self.y, self.bare))
        names = None if self.names is None else tuple(self.names[row] for row in rows)
        return replace(self, X=self.X[rows], y=y, bare=bare, names=names)


@dataclass(frozen=True)
class Reading:
    """How to read samples.

    Parameters
    ----------
    label_column : str, optional
        Name or position (from 0, or from −1 at the end) of the column of labels; by default one called label, class,
        target or y, or the only column that is not numeric.
    labels : path, optional
        A file of labels: .npy, or text with one on each line.
    size : (int, int), optional
        Height and width: what images are scaled to, or the shape of rows that are images.
    part : {"train", "test", "all"}, optional
        Which part of a file that has both.
    header : bool, optional
        Whether the first line of a .csv names the columns; by default it does if none of its cells is a
        number, one is a usual name of labels, or one is a word above a column of numbers.
    unlabelled : str, optional
        The label of samples that have none; empty cells of a table are unlabelled in any case.

    """

    label_column: str | None = None
    labels: str | os.PathLike[str] | None = None
    size: tuple[int, int] | None = None
    part: str | None = None
    header: bool | None = None
    unlabelled: str | None = None
    columns: tuple[str, ...] | None = field(default=None, repr=False)  # those of a model, in its order
