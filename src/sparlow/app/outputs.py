"""Write the files of commands: whole or not at all, and safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import os
import pathlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..files import replacing
from .dataset import FORMULA, is_number
from .terminal import UserError

Columns = Mapping[str, Sequence[Any]]


def writable(path: str, *read: str | None) -> pathlib.Path:
    """Return the path of a file to write; refuse one that is read or cannot be written."""
    target = pathlib.Path(path)
    if any(target.resolve() == pathlib.Path(other).resolve() for other in read if other is not None):
        raise UserError(f"{path} is read by this command: name another file to write.")
    if target.is_dir():
        raise UserError(f"{path} is a folder: name a file to write.")
    if not target.parent.is_dir():
        raise UserError(f"There is no folder {target.parent} to write {target.name} into.")
    if target.exists() and not os.access(target, os.W_OK):
        raise UserError(f"{path} is read-only: name another file to write, or allow writing to it.")
    if not target.exists() or target.is_file():
        try:
            with tempfile.TemporaryFile(dir=target.resolve().parent):
                pass
        except OSError as error:
            raise UserError(f"{target.parent} cannot be written to: {error.strerror}. Name another folder.") from error
    return target


def write_npy(path: pathlib.Path, array: Any) -> None:
    """Write an array."""
    with replacing(path) as unfinished, unfinished.open("wb") as file:
        np.save(file, array)


def write_npz(path: pathlib.Path, arrays: Mapping[str, Any]) -> None:
    """Write named arrays, none of them of objects."""
    with replacing(path) as unfinished, unfinished.open("wb") as file:
        np.savez(file, **arrays)


def write_sparse(path: pathlib.Path, matrix: Any) -> None:
    """Write a sparse matrix as scipy reads it."""
    import scipy.sparse as sp

    with replacing(path) as unfinished, unfinished.open("wb") as file:
        sp.save_npz(file, matrix)


def write_bytes(path: pathlib.Path, content: bytes) -> None:
    """Write bytes."""
    with replacing(path) as unfinished:
        unfinished.write_bytes(content)


def write_text(path: pathlib.Path, text: str) -> None:
    """Write text as UTF-8."""
    with replacing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8", errors="backslashreplace")


def write_csv(path: pathlib.Path, columns: Columns, raw: bool = False) -> None:
    """Write columns with a header; unless ``raw``, a spreadsheet takes no cell for a formula."""
    shown = (lambda cell: cell) if raw else no_formula
    with (
        replacing(path) as unfinished,
        unfinished.open("w", newline="", encoding="utf-8", errors="backslashreplace") as file,
    ):
        writer = csv.writer(file)
        writer.writerow([shown(name) for name in columns])
        writer.writerows([shown(cell) for cell in row] for row in zip(*columns.values(), strict=True))


def no_formula(cell: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula: words that begin like one get an apostrophe."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in FORMULA and not is_number(cell) else cell


def write_parquet(path: pathlib.Path, columns: Columns, raw: bool = False) -> None:
    """Write columns as .parquet; cells are written as they are."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow: pip install 'sparlow[parquet]'") from error
    with replacing(path) as unfinished:
        pyarrow.parquet.write_table(pyarrow.table(dict(columns)), unfinished)


TABLES: dict[str, Callable[[pathlib.Path, Columns, bool], None]] = {".csv": write_csv, ".parquet": write_parquet}
