"""Write the files of commands: whole or not at all, and safe to open in a spreadsheet."""

from __future__ import annotations

import os
import pathlib
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..files import replacing
from .dataset import FORMULA, is_number
from .tables import pandas
from .terminal import UserError

Columns = Mapping[str, Sequence[Any]]
TABLES = (".csv", ".parquet")


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


def write(path: pathlib.Path, content: Any) -> None:
    """Write bytes, text, an array, a sparse matrix, named arrays, or columns, as their kind and the ending say."""
    suffix = path.suffix.lower()
    with replacing(path) as unfinished:
        if isinstance(content, bytes):
            unfinished.write_bytes(content)
        elif isinstance(content, str):
            unfinished.write_text(content, encoding="utf-8", errors="backslashreplace")
        elif suffix in TABLES:
            _write_table(unfinished, content, suffix)
        else:
            with unfinished.open("wb") as file:
                if sp.issparse(content):
                    sp.save_npz(file, content)
                elif isinstance(content, Mapping):
                    np.savez(file, **content)
                else:
                    np.save(file, content)


def _write_table(path: pathlib.Path, columns: Columns, suffix: str) -> None:
    """Write columns with a header; a spreadsheet takes no cell of a .csv for a formula."""
    if suffix == ".parquet":
        frame = pandas().DataFrame(dict(columns))
        try:
            frame.to_parquet(path, engine="pyarrow")
        except ImportError as error:
            raise ImportError("Parquet files need pyarrow: pip install 'sparlow[parquet]'") from error
        return
    safe = {no_formula(name): [no_formula(cell) for cell in column] for name, column in columns.items()}
    frame = pandas().DataFrame({name: pandas().Series(column, dtype=object) for name, column in safe.items()})
    frame.to_csv(path, index=False, lineterminator="\r\n", errors="backslashreplace")


def no_formula(cell: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula: words that begin like one get an apostrophe."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in FORMULA and not is_number(cell) else cell
