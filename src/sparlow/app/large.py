"""Files larger than memory: rows of a .npy file that are read in parts, here or by the workers of a cluster."""

from __future__ import annotations

import argparse
import contextlib
import pathlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray

from ..rows import Local, streams
from .dataset import DataError, Dataset, labels_and_missing, read_labels, readable
from .terminal import UserError

Array = NDArray[Any]

_WORKING = 0.5  # share of the memory that temporary arrays take; the rest are the program and the results


def is_large(arguments: argparse.Namespace) -> bool:
    """Return whether DATA is to be read in parts."""
    return arguments.memory is not None or getattr(arguments, "scheduler", None) is not None


@contextlib.contextmanager
def within_memory(arguments: argparse.Namespace) -> Iterator[None]:
    """Hold temporary arrays to the memory that the user names."""
    memory = sklearn.get_config()["working_memory"]
    if arguments.memory is not None:
        memory = _WORKING * arguments.memory / 2**20
    with sklearn.config_context(working_memory=memory):
        yield


def mapped(path: str, size: tuple[int, ...] | None = None) -> Dataset:
    """Return the rows of a .npy file, of which none is read yet."""
    if pathlib.Path(path).suffix.lower() != ".npy":
        raise UserError(f"{path}: files larger than memory are read from .npy files. Write one with numpy.save.")
    try:
        rows = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as a .npy file: {error}") from error
    if rows.dtype.kind not in "buif" or rows.ndim not in (2, 3) or not rows.size:
        raise DataError(
            f"{path}: expected real numbers of shape (samples, numbers) or (samples, height, width), got "
            f"{rows.dtype} of shape {rows.shape}."
        )
    shape = size if rows.ndim == 2 else tuple(int(side) for side in rows.shape[1:])
    return Dataset(rows.reshape(len(rows), -1), shape=shape, source=readable(path))


def read_large(arguments: argparse.Namespace) -> Dataset:
    """Return the samples in DATA, of which none is read yet, with their labels."""
    found = mapped(arguments.data, arguments.size)
    if getattr(arguments, "standardize", None):
        raise UserError("--standardize goes without --memory and --scheduler: scale the columns of the file before.")
    if arguments.labels is None:
        return found
    y = read_labels(pathlib.Path(arguments.labels))
    if len(y) != len(found.X):
        raise DataError(f"{len(y)} labels for {len(found.X)} samples in {arguments.data}: each sample needs one.")
    labels, bare = labels_and_missing(y, arguments.unlabelled)
    return replace(found, y=labels, bare=bare)


@contextlib.contextmanager
def on_cluster(address: str | None, dataset: Dataset, path: str) -> Iterator[Dataset]:
    """Give samples that the workers of a cluster read, and a client to it; samples as they are without an address."""
    if address is None:
        yield dataset
        return
    from ..distributed import connected, from_npy

    try:
        client = connected(address)
    except (OSError, TimeoutError, ValueError) as error:
        raise UserError(f"No scheduler answers at {address}: {error}") from error
    with client:
        yield replace(dataset, X=from_npy(pathlib.Path(path).resolve()))


def parts_of(X: Array) -> list[slice] | None:
    """Return the parts in which rows are read, None if they are few enough to be read at once."""
    return Local(X).slices if streams(X) else None
