"""Rows kept on disk, one file per image, so that a run that was stopped goes on where it was."""

from __future__ import annotations

import io
import os
import pathlib
import tempfile
import zipfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Row = tuple[Array, Array]


class RowCache:
    """Sparse rows by key in a folder.

    Parameters
    ----------
    folder : path
        Made if it is not there.

    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = pathlib.Path(folder)

    def get(self, key: str) -> Row | None:
        """Indices and values, or None where there is no such row, or a damaged file."""
        try:
            with np.load(io.BytesIO(self._path(key).read_bytes()), allow_pickle=False) as arrays:
                return arrays["indices"], arrays["values"]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return None

    def put(self, key: str, row: Row) -> None:
        """Write a row; others never see half of a file."""
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(dir=path.parent, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, indices=row[0], values=row[1])
            os.replace(unfinished, path)
        except BaseException:
            pathlib.Path(unfinished).unlink(missing_ok=True)
            raise

    def _path(self, key: str) -> pathlib.Path:
        return self._folder / "sparlow-images" / key[:2] / f"{key[2:]}.npz"


def cache_of(memory: Any) -> RowCache | None:
    """The cache that ``memory`` names: a folder, a joblib.Memory, or none."""
    if memory is None:
        return None
    folder = memory.location if hasattr(memory, "location") else memory
    return None if folder is None else RowCache(folder)
