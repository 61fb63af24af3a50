"""Rows on disk: one JSON line each, appended when they are known.

A process that is killed while it writes leaves half a line, which the next one takes away.
"""

from __future__ import annotations

import base64
import json
import os
import pathlib
import zlib
from typing import Any, BinaryIO

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

import numpy as np
from numpy.typing import NDArray

Row = dict[str, Any]
Array = NDArray[Any]


class RowFile:
    """The rows of one experiment; of two with the same key the last one counts."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = pathlib.Path(path)

    def read(self) -> list[Row]:
        """All complete rows."""
        if not self.path.exists():
            return []
        rows: dict[str, Row] = {}
        for number, line in enumerate(self.path.read_bytes().split(b"\n")[:-1], start=1):
            try:
                row = json.loads(line)
                rows[row["key"]] = row
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(
                    f"Line {number} of {self.path} is no row: take the line out, or move the file away to start anew."
                ) from error
        return list(rows.values())

    def append(self, row: Row) -> None:
        """Write a row and make sure that it is on disk."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "ab+") as file:
            if fcntl is not None:  # of two processes that write at the same time, one waits
                fcntl.flock(file, fcntl.LOCK_EX)
            _drop_half_line(file)
            file.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


def _drop_half_line(file: BinaryIO) -> None:
    file.seek(0)
    content = file.read()
    if content and not content.endswith(b"\n"):
        file.truncate(content.rfind(b"\n") + 1)


def packed(array: Array) -> dict[str, Any]:
    """An array as compressed text: whole numbers as they are, others in 16 bits between their extremes."""
    array = np.asarray(array)
    if array.dtype.kind in "iub":
        low, step = 0.0, 1.0
        whole = array if array.dtype == np.uint8 else array.astype(np.int32)
    else:
        low, high = float(array.min()), float(array.max())
        step = (high - low) / 65535 or 1.0
        whole = np.round((array - low) / step).astype(np.uint16)
    data = base64.b64encode(zlib.compress(whole.tobytes(), 9)).decode()
    return {"shape": list(array.shape), "type": whole.dtype.str, "low": low, "step": step, "data": data}


def unpacked(pack: dict[str, Any]) -> Array:
    """The array again."""
    whole = np.frombuffer(zlib.decompress(base64.b64decode(pack["data"])), pack["type"]).reshape(pack["shape"])
    return whole if pack["step"] == 1.0 and pack["low"] == 0.0 else whole * pack["step"] + pack["low"]
