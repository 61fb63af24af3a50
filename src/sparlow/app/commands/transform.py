"""``sparlow transform MODEL DATA -o FILE``."""

from __future__ import annotations

import argparse
import csv
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..arguments import add_data, read_data, read_model, writable
from ..dataset import Dataset
from ..terminal import OK, Terminal, UserError

SUMMARY = "embed samples with a saved model"
EXAMPLES = """\
  sparlow transform faces.sparlow faces/ -o embedding.npy
  sparlow transform faces.sparlow faces/ -o embedding.csv    # with a header, names of files and labels
  sparlow transform digits.sparlow new.npz --codes -o codes.npz

FILE is .npy (the embedding), .npz (Z, and y and names if there are any), .csv or .parquet (columns z1, z2, …, name and
label if there are any)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("model", metavar="MODEL", help="a file that sparlow fit wrote")
    parser.add_argument("data", metavar="DATA", help="samples: .npz, .npy, .csv, .parquet, images in a folder, or one")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help=".npy, .npz, .csv or .parquet")
    parser.add_argument("--codes", action="store_true", help="sparse codes instead, as a scipy sparse matrix (.npz)")
    add_data(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Read, embed, write."""
    path = writable(arguments.output, arguments.model, arguments.data)
    suffix = path.suffix.lower()
    if arguments.codes and suffix != ".npz":
        raise UserError(f"--codes writes a .npz file, not {path.name}.")
    if suffix not in WRITERS:
        raise UserError(f"{path.name}: the embedding is written as {', '.join(WRITERS)}.")
    held = read_model(arguments.model)
    dataset = read_data(arguments, arguments.data, held)
    if arguments.codes:
        import scipy.sparse as sp

        values: Any = held.model.encode(dataset.X)
        sp.save_npz(path, values)
    else:
        values = held.model.transform(dataset.X)
        WRITERS[suffix](path, values, dataset)
    n, width = values.shape
    what = "codes" if arguments.codes else "numbers"
    payload = {"output": str(path), "n_samples": n, "width": width, "codes": arguments.codes}
    terminal.result(payload, f"{path}: {n} samples, {width} {what} each")
    return OK


def _columns(Z: Any, dataset: Dataset) -> dict[str, Any]:
    columns: dict[str, Any] = {} if dataset.names is None else {"name": list(dataset.names)}
    if dataset.y is not None and dataset.y.ndim == 1:
        mixed = dataset.y.dtype.kind == "O"  # words, and −1 where there is none
        columns["label"] = [str(label) for label in dataset.y] if mixed else dataset.y.tolist()
    return {**columns, **{f"z{place + 1}": Z[:, place].tolist() for place in range(Z.shape[1])}}


def _write_npy(path: pathlib.Path, Z: Any, dataset: Dataset) -> None:
    np.save(path, Z)


def _write_npz(path: pathlib.Path, Z: Any, dataset: Dataset) -> None:
    arrays = {"Z": Z} if dataset.names is None else {"Z": Z, "names": np.array(dataset.names)}
    if dataset.y is not None:
        arrays["y"] = dataset.y.astype(str) if dataset.y.dtype.kind == "O" else dataset.y
    np.savez(path, **arrays)  # nothing to pickle: no array of objects among them


def write_csv(path: pathlib.Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Columns of a table, with a header."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def write_parquet(path: pathlib.Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """The same as .parquet."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow: pip install 'sparlow[parquet]'") from error
    pyarrow.parquet.write_table(pyarrow.table(dict(columns)), path)


WRITERS: dict[str, Callable[[pathlib.Path, Any, Dataset], None]] = {
    ".npy": _write_npy,
    ".npz": _write_npz,
    ".csv": lambda path, Z, dataset: write_csv(path, _columns(Z, dataset)),
    ".parquet": lambda path, Z, dataset: write_parquet(path, _columns(Z, dataset)),
}
