"""Samples from the user's own files: tables, arrays, folders of images -> rows, labels, shape."""

from __future__ import annotations

import os
import pathlib
import zipfile
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from .arrays import read_npy, read_npz
from .kinds import Reading, Samples, SamplesError
from .labels import read_labels, tidy_labels, told_labels
from .pictures import IMAGE_SUFFIXES, holds_images, is_image, read_pictures, say_depth
from .tables import read_csv, read_parquet

__all__ = [
    "IMAGE_SUFFIXES",
    "TABLES",
    "Reading",
    "Samples",
    "SamplesError",
    "holds_images",
    "is_image",
    "read",
    "say_depth",
    "tidy_labels",
]

Reader = Callable[[pathlib.Path, Reading], Samples]


def read(path: str | os.PathLike[str], how: Reading | None = None) -> Samples:
    """Read samples from a file (.npz, .npy, .csv, .tsv, .txt, .parquet, an image) or a folder of images by class.

    Parameters
    ----------
    path : path
        The file or folder.
    how : Reading, optional
        What cannot be seen from the file.

    Returns
    -------
    Samples

    """
    path, how = pathlib.Path(path), how or Reading()
    if holds_images(path):
        found = read_pictures(path, how)
    elif not path.exists():
        raise SamplesError(f"There is no file or folder {path}.")
    elif _is_model(path):
        raise SamplesError(f"{path} holds what sparlow has learned, where samples are expected: these come after it.")
    elif path.suffix.lower() not in READERS:
        raise SamplesError(f"{path}: samples are read from {', '.join(READERS)} files, an image or a folder of images.")
    else:
        found = _guarded(READERS[path.suffix.lower()], path, how)
    if how.labels is not None:
        found = replace(found, y=read_labels(pathlib.Path(how.labels)))
    return replace(_checked(found, path, how), source=str(path))


def _is_model(path: pathlib.Path) -> bool:
    """Whether a file is what skops writes; that of numpy is a zip file too."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as file:
        return "schema.json" in file.namelist()


def _guarded(reader: Reader, path: pathlib.Path, how: Reading) -> Samples:
    try:
        return reader(path, how)
    except (SamplesError, ImportError):
        raise
    except Exception as error:  # whatever a damaged file provokes
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise SamplesError(f"{path} cannot be read as a {path.suffix} file: {reason}") from error


def _checked(found: Samples, path: pathlib.Path, how: Reading) -> Samples:
    X, y = found.X, found.y
    if X.size == 0:
        raise SamplesError(f"{path} holds no samples (its shape is {X.shape}).")
    if y is not None and len(y) != len(X):
        raise SamplesError(f"{len(y)} labels for {len(X)} samples in {path}: each sample needs one.")
    if not np.isfinite(X).all():
        row, column = np.argwhere(~np.isfinite(X))[0]
        named = f"{column} (from 0)" if found.feature_names is None else repr(found.feature_names[column])
        raise SamplesError(f"{path}: sample {row} (from 0) has a missing or infinite value in column {named}.")
    if found.shape is not None and found.shape[0] * found.shape[1] != X.shape[1]:
        raise SamplesError(
            f"{path}: samples have {X.shape[1]} numbers, which is no image of {found.shape[0]}x{found.shape[1]}."
        )
    if y is None:
        return found
    labels, bare = told_labels(y, how.unlabelled)
    return replace(found, y=labels, bare=bare)


TABLES: dict[str, Reader] = {".csv": read_csv, ".tsv": read_csv, ".txt": read_csv, ".parquet": read_parquet}
READERS: dict[str, Reader] = {
    ".npz": read_npz,
    ".npy": read_npy,
    **TABLES,
}
