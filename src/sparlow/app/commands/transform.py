"""``sparlow transform MODEL DATA -o FILE``."""

from __future__ import annotations

import argparse
import pathlib
from typing import Any

import numpy as np

from ..arguments import add_data, add_output
from ..dataset import Dataset
from ..outputs import TABLES, writable, write_npy, write_npz, write_sparse
from ..saved import read_data, read_model
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
    add_output(parser)
    add_data(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Read, embed, write."""
    path = writable(arguments.output, arguments.model, arguments.data)
    suffix = path.suffix.lower()
    if arguments.codes and suffix != ".npz":
        raise UserError(f"--codes writes a .npz file, not {path.name}.")
    if suffix not in (".npy", ".npz", *TABLES):
        raise UserError(f"{path.name}: the embedding is written as .npy, .npz, {', '.join(TABLES)}.")
    held = read_model(arguments.model)
    dataset = read_data(arguments, arguments.data, held, terminal)
    terminal.stage(f"embedding {len(dataset.X)} samples")
    if arguments.codes:
        values: Any = held.model.encode(dataset.X)
        write_sparse(path, values)
    else:
        values = held.embed(dataset.X)
        _write(path, values, dataset, arguments.raw)
    n, width = values.shape
    what = "codes" if arguments.codes else "numbers"
    payload = {"output": str(path), "n_samples": n, "width": width, "codes": arguments.codes}
    terminal.result(payload, f"{path}: {n} samples, {width} {what} each")
    return OK


def _write(path: pathlib.Path, Z: Any, dataset: Dataset, raw: bool) -> None:
    suffix = path.suffix.lower()
    if suffix == ".npy":
        write_npy(path, Z)
    elif suffix == ".npz":
        arrays = {"Z": Z} if dataset.names is None else {"Z": Z, "names": np.array(dataset.names)}
        if dataset.y is not None:
            arrays["y"] = dataset.y.astype(str) if dataset.y.dtype.kind == "O" else dataset.y
        write_npz(path, arrays)
    else:
        TABLES[suffix](path, _columns(Z, dataset), raw)


def _columns(Z: Any, dataset: Dataset) -> dict[str, Any]:
    columns: dict[str, Any] = {} if dataset.names is None else {"name": list(dataset.names)}
    if dataset.y is not None and dataset.y.ndim == 1:
        mixed = dataset.y.dtype.kind == "O"  # words, and −1 where there is none
        columns["label"] = [str(label) for label in dataset.y] if mixed else dataset.y.tolist()
    return {**columns, **{f"z{place + 1}": Z[:, place].tolist() for place in range(Z.shape[1])}}
