"""``sparlow transform MODEL DATA -o FILE``."""

from __future__ import annotations

import argparse
import pathlib
from typing import Any

import numpy as np

from ...files import replacing
from ...rows import Local
from ..dataset import DataError, Dataset
from ..large import is_large, mapped, parts_of, within_memory
from ..outputs import TABLES, writable, write
from ..saved import SavedModel, check_same_kind, read_data, read_model
from ..terminal import OK, Terminal, UserError


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Read, embed, write."""
    path = writable(arguments.output, arguments.model, arguments.data)
    suffix = path.suffix.lower()
    if arguments.codes and suffix != ".npz":
        raise UserError(f"--codes writes a .npz file, not {path.name}.")
    if suffix not in (".npy", ".npz", *TABLES):
        raise UserError(f"{path.name}: the embedding is written as .npy, .npz, {', '.join(TABLES)}.")
    held = read_model(arguments.model)
    if suffix == ".npy" and pathlib.Path(arguments.data).suffix.lower() == ".npy" and not arguments.codes:
        with within_memory(arguments):
            large = _large(arguments, held, path, terminal)
        if large is not None:
            return large
    elif is_large(arguments):
        raise UserError("--memory reads a .npy file and writes a .npy file, not codes.")
    dataset = read_data(arguments, arguments.data, held, terminal)
    terminal.stage(f"embedding {len(dataset.X)} samples")
    if arguments.codes:
        values: Any = held.model.encode(dataset.X)
        write(path, values)
    else:
        values = held.embed(dataset.X)
        write(path, _content(path.suffix.lower(), values, dataset))
    n, width = values.shape
    what = "codes" if arguments.codes else "numbers"
    payload = {"output": str(path), "n_samples": n, "width": width, "codes": arguments.codes}
    terminal.result(payload, f"{path}: {n} samples, {width} {what} each")
    return OK


def _large(arguments: argparse.Namespace, held: SavedModel, path: pathlib.Path, terminal: Terminal) -> int | None:
    """Embed a large file part by part, and write each part at once; None if the file is not large."""
    try:
        dataset = mapped(arguments.data)
    except DataError:
        if is_large(arguments):
            raise
        return None
    parts = parts_of(dataset.X)
    if parts is None or held.before is not None:
        if is_large(arguments) and held.before is not None:
            raise UserError("--memory is for models of samples as they are, not for pipelines.")
        return None
    check_same_kind(dataset, held, arguments.data)
    store = Local(dataset.X)
    shape = (0, 0)
    with (
        replacing(path) as unfinished,
        unfinished.open("wb") as file,  # not a map: a full disk would end the process by a signal
        terminal.progress("embedding", len(parts)) as step,
    ):
        for rows in parts:
            Z = np.ascontiguousarray(held.embed(store.read(rows)))
            if rows.start == 0:
                shape = (len(dataset.X), Z.shape[1])
                header = {**np.lib.format.header_data_from_array_1_0(Z), "shape": shape}
                np.lib.format.write_array_header_1_0(file, header)
            file.write(Z.data)
            step(f"{rows.stop} of {len(dataset.X)} samples")
    payload = {"output": str(path), "n_samples": shape[0], "width": shape[1], "codes": False}
    terminal.result(payload, f"{path}: {shape[0]} samples, {shape[1]} numbers each")
    return OK


def _content(suffix: str, Z: Any, dataset: Dataset) -> Any:
    """Return what a file of an embedding holds."""
    if suffix == ".npy":
        return Z
    if suffix == ".npz":
        arrays = {"Z": Z} if dataset.names is None else {"Z": Z, "names": np.array(dataset.names)}
        if dataset.y is not None:
            arrays["y"] = dataset.y.astype(str) if dataset.y.dtype.kind == "O" else dataset.y
        return arrays
    columns: dict[str, Any] = {} if dataset.names is None else {"name": list(dataset.names)}
    if dataset.y is not None and dataset.y.ndim == 1:
        mixed = dataset.y.dtype.kind == "O"  # words, and −1 where there is none
        columns["label"] = [str(label) for label in dataset.y] if mixed else dataset.y.tolist()
    return {**columns, **{f"z{place + 1}": Z[:, place].tolist() for place in range(Z.shape[1])}}
