"""Arrays kept on disk with a checksum, so that a run that was stopped goes on where it was."""

from __future__ import annotations

import hashlib
import io
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..files import check_zip, replacing
from ..messages import warn

Array = NDArray[Any]
Row = tuple[Array, Array]

_DIGEST = 20  # bytes at the end of each file


class ArrayCache:
    """Named arrays by key in a folder.

    An entry is a .npz file with the BLAKE2 digest of its bytes and of its key behind it. It holds arrays of numbers
    only, and reading one runs no code. An entry that is damaged, cut short or moved to another key is not used, and
    computed again. The digest is no signature: whoever may write to the folder may write wrong numbers.

    Parameters
    ----------
    folder : path
        Made if it is not there.

    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = pathlib.Path(folder)
        self._refused = False  # whether it has been said that entries cannot be written

    def get(self, key: str) -> dict[str, Array] | None:
        """Return the arrays, or None where there is no such entry or a damaged one."""
        try:
            content = self._path(key).read_bytes()
            packed, digest = content[:-_DIGEST], content[-_DIGEST:]
            if _digest(key, packed) != digest:
                return None
            check_zip(self._path(key))
            with np.load(io.BytesIO(packed), allow_pickle=False) as arrays:
                return dict(arrays)
        except Exception:  # whatever a damaged file provokes
            return None

    def put(self, key: str, arrays: Mapping[str, Array]) -> None:
        """Write an entry; others never see half of a file. Where it cannot be written, the run goes on without it."""
        path = self._path(key)
        file = io.BytesIO()
        np.savez(file, **dict(arrays))  # type: ignore[arg-type]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as unfinished:
                unfinished.write_bytes(file.getvalue() + _digest(key, file.getvalue()))
        except OSError as error:
            if not self._refused:
                warn(f"The cache is not complete, so the next run computes more again. {error}", RuntimeWarning)
            self._refused = True

    def get_row(self, key: str, width: int) -> Row | None:
        """Return the indices and values of a sparse row, or None where they do not fit a row of this width."""
        arrays = self.get(key)
        if arrays is None or set(arrays) != {"indices", "values"}:
            return None
        indices, values = arrays["indices"], arrays["values"]
        sound = indices.ndim == values.ndim == 1 and len(indices) == len(values)
        sound = sound and indices.dtype == np.int32 and values.dtype == np.float32
        if not sound or (len(indices) and not 0 <= indices.min() <= indices.max() < width):
            return None
        return indices, values

    def put_row(self, key: str, row: Row) -> None:
        """Write a sparse row."""
        self.put(key, {"indices": row[0], "values": row[1]})

    def _path(self, key: str) -> pathlib.Path:
        """Return the file of an entry of the cache."""
        return self._folder / "sparlow-images" / key[:2] / f"{key[2:]}.npz"


def _digest(key: str, packed: bytes) -> bytes:
    """Return the checksum of arrays that the cache keeps."""
    return hashlib.blake2b(packed, digest_size=_DIGEST, key=key.encode()[:64]).digest()


def cache_of(memory: Any) -> ArrayCache | None:
    """Return the cache in the folder that ``memory`` names, a path or a joblib.Memory, or None."""
    if memory is None:
        return None
    folder = memory.location if hasattr(memory, "location") else memory
    return None if folder is None else ArrayCache(folder)
