"""``sparlow predict MODEL DATA… -o FILE``."""

from __future__ import annotations

import argparse
import pathlib
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...evaluation import CLASSIFIERS
from ...labels import known_rows
from ..confidence import Answer, answer
from ..dataset import Dataset, tidy_labels
from ..outputs import TABLES, writable, write
from ..saved import SavedModel, read_data, read_model
from ..terminal import OK, Terminal, UserError, table

Array = NDArray[Any]


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Read, label, write."""
    path = None if arguments.output is None else writable(arguments.output, arguments.model, *arguments.data)
    if path is not None and path.suffix.lower() not in (*TABLES, ".npy"):
        raise UserError(f"{path.name}: labels are written as .csv, .parquet or .npy.")
    held = read_model(arguments.model)
    dataset = read_data(arguments, arguments.data, held, terminal)
    n = len(dataset.X)
    terminal.stage(f"predicting {n} samples")
    seen = int(dataset.seen_by(held).sum())
    if seen:
        which = "these very samples" if seen == n else f"{seen} of these {n} samples"
        terminal.tell(f"the model was learned from {which}: what it says of them tells nothing about new ones")
    targets = _targets(held, dataset, arguments)
    if targets is not None:
        if arguments.reject is not None:
            raise UserError("--reject is for labels; this model predicts numbers.")
        return _tell(path, targets, {"target": targets}, dataset, {"what": "target", "n_seen": seen}, terminal)
    said = _answer(held, dataset, arguments)
    kept = np.ones(n, bool)
    if arguments.reject is not None:
        if "unlikeness" not in held.data:
            terminal.warn(
                f"{arguments.model} does not say how like held-out samples are, as sparlow fit measures it: likeness "
                "is that of the training samples to each other, and more than a share P of known ones is turned away."
            )
        kept = said.likeness >= arguments.reject
    labels = tidy_labels(said.labels)
    counts = {str(label): int(np.sum(labels[kept] == label)) for label in np.unique(labels[kept])}
    payload = {"what": "label", "n_seen": seen, "counts": counts}
    payload |= {} if arguments.reject is None else {"rejected": int(sum(~kept))}
    given = np.where(kept, labels, -1 if labels.dtype.kind in "iu" else "")
    return _tell(path, given, _columns(said, labels, kept, held), dataset, payload, terminal)


def _targets(held: SavedModel, dataset: Dataset, arguments: argparse.Namespace) -> Array | None:
    """Return predicted numbers, or None for a model of classes."""
    if held.predictor is not None and arguments.classifier is None:
        found = tidy_labels(held.predict(dataset.X))
        return found if found.dtype.kind == "f" or found.ndim > 1 else None
    return None if held.model._training.targets is None else np.asarray(held.model.predict(dataset.X))


def _answer(held: SavedModel, dataset: Dataset, arguments: argparse.Namespace) -> Answer:
    """Return labels by the votes of neighbours or by a classifier, with what speaks for them."""
    known = held.training_labels()
    if known is None and held.predictor is None:
        raise UserError("The model was learned without labels, so there are none to give: sparlow transform embeds.")
    said = answer(held, dataset.X)
    if arguments.classifier is None:
        return said
    rows = known_rows(known)
    Z, words = held.model.embedding_[rows], np.asarray(known)[rows].astype(str)
    labels = CLASSIFIERS[arguments.classifier](Z, words, held.model.transform(dataset.X))
    return replace(said, labels=labels, probabilities=None, second=None)


def _columns(said: Answer, labels: Array, kept: Array, held: SavedModel) -> dict[str, Any]:
    """Return the columns of a table; labels that are not given are empty."""
    given = [label if ok else None for label, ok in zip(labels.tolist(), kept, strict=True)]
    columns: dict[str, Any] = {"label": given}
    if said.probabilities is not None:
        columns["probability"] = [round(float(value), 4) for value in said.probabilities]
    if said.second is not None:
        columns["second"] = tidy_labels(said.second).tolist()
    columns["likeness"] = [round(float(value), 4) for value in said.likeness]
    names = held.data.get("names")
    for place, rows in enumerate(said.nearest.T):
        columns[f"nearest{place + 1}"] = [int(row) if names is None else names[row] for row in rows]
    return columns


def _tell(
    path: pathlib.Path | None,
    found: Array,
    columns: dict[str, Any],
    dataset: Dataset,
    payload: dict[str, Any],
    terminal: Terminal,
) -> int:
    """Write or print labels or targets."""
    if found.ndim > 1:
        columns = {f"target{place + 1}": column.tolist() for place, column in enumerate(found.T)}
    columns = {name: column.tolist() if isinstance(column, np.ndarray) else column for name, column in columns.items()}
    if dataset.names is not None:
        columns = {"name": list(dataset.names), **columns}
    payload, what = {"n_samples": len(found), **payload}, payload["what"]
    if path is None:
        shown = {name: [_shown(name, cell) for cell in column] for name, column in columns.items()}
        terminal.result({**payload, **columns}, table(list(zip(*shown.values(), strict=True)), list(columns)))
        return OK
    write(path, found if path.suffix.lower() == ".npy" else columns)
    rejected = f", {payload['rejected']} left without one" if payload.get("rejected") else ""
    terminal.result({"output": str(path), **payload}, f"{path}: {len(found)} {what}{'s' * (len(found) > 1)}{rejected}")
    return OK


def _shown(name: str, cell: Any) -> str:
    """Return a cell as a terminal shows it: shares with three digits, so that columns are easy to compare."""
    if cell is None:
        return ""
    return f"{cell:.3f}" if name in ("probability", "likeness") else str(cell)
