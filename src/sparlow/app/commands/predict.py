"""``sparlow predict MODEL DATA -o FILE``."""

from __future__ import annotations

import argparse
import pathlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...evaluation import CLASSIFIERS
from ...labels import known_rows
from ..arguments import add_data, add_output, fraction, whole_number
from ..confidence import Answer, answer
from ..dataset import Dataset, tidy_labels
from ..outputs import TABLES, writable, write_npy
from ..saved import SavedModel, read_data, read_model
from ..terminal import OK, Terminal, UserError, table

Array = NDArray[Any]

SUMMARY = "label new samples with a saved model, or predict their targets"
EXAMPLES = """\
  sparlow predict faces.sparlow new_faces/ -o labels.csv
  sparlow predict faces.sparlow who.png
  sparlow predict faces.sparlow new_faces/ --reject 0.05    # no label for what is unlike the training samples
  sparlow predict digits.sparlow new.npy --classifier SVM -o labels.npy

The nearest training samples in the embedding vote. FILE is .csv or .parquet, with the columns name (if samples have
names), label, probability, second (the second choice), likeness and nearest1, nearest2, … (training samples), or .npy
with the labels alone; without it they are printed. likeness is the share of held-out samples that are less like the
training samples: --reject P leaves those below P without a label, which turns away about a share P of samples of known
classes, and most of unknown ones. With --classifier, or with the classifier of a saved pipeline, that gives the labels.
Models of real targets (--criterion mvr and smvr) predict these by their ridge regression. Labels in DATA are not looked
at."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("model", metavar="MODEL", help="a file that sparlow fit wrote")
    parser.add_argument("data", metavar="DATA", help="samples: .npz, .npy, .csv, .parquet, images in a folder, or one")
    parser.add_argument("-o", "--output", metavar="FILE", help=".csv, .parquet or .npy; default: print them")
    parser.add_argument(
        "--classifier", choices=list(CLASSIFIERS), help="default: that of the saved pipeline, or votes of neighbours"
    )
    parser.add_argument("--reject", type=fraction, metavar="P", help="give no label to samples of a likeness below P")
    parser.add_argument(
        "--nearest", type=whole_number(0), default=3, metavar="K", help="nearest training samples to name; default: 3"
    )
    add_output(parser)
    add_data(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Read, label, write."""
    path = None if arguments.output is None else writable(arguments.output, arguments.model, arguments.data)
    if path is not None and path.suffix.lower() not in (".csv", ".parquet", ".npy"):
        raise UserError(f"{path.name}: labels are written as .csv, .parquet or .npy.")
    held = read_model(arguments.model)
    dataset = read_data(arguments, arguments.data, held, terminal)
    terminal.stage(f"predicting {len(dataset.X)} samples")
    targets = _targets(held, dataset, arguments)
    if targets is not None:
        if arguments.reject is not None:
            raise UserError("--reject is for labels; this model predicts numbers.")
        return _tell(path, targets, {"target": targets}, dataset, {"what": "target"}, arguments, terminal)
    said = _answer(held, dataset, arguments)
    kept = np.ones(len(dataset.X), bool)
    if arguments.reject is not None:
        if "unlikeness" not in held.data:
            terminal.warn(
                f"{arguments.model} does not say how like held-out samples are, as sparlow fit measures it: likeness "
                "is that of the training samples to each other, and more than a share P of known ones is turned away."
            )
        assert said.likeness is not None
        kept = said.likeness >= arguments.reject
    labels = tidy_labels(said.labels)
    counts = {str(label): int(np.sum(labels[kept] == label)) for label in np.unique(labels[kept])}
    payload = {"what": "label", "counts": counts, **({} if arguments.reject is None else {"rejected": int(sum(~kept))})}
    blank = -1 if labels.dtype.kind in "iu" else ""
    return _tell(path, np.where(kept, labels, blank), _columns(said, labels, kept, held), dataset, payload, arguments,
                 terminal)  # fmt: skip


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
    said = answer(held, dataset.X, arguments.nearest)
    if arguments.classifier is None:
        return said
    rows = known_rows(known)
    Z, words = held.model.embedding_[rows], np.asarray(known)[rows].astype(str)
    labels = CLASSIFIERS[arguments.classifier](Z, words, held.model.transform(dataset.X))
    return Answer(labels, None, None, said.likeness, said.nearest)


def _columns(said: Answer, labels: Array, kept: Array, held: SavedModel) -> dict[str, Any]:
    """Return the columns of a table; labels that are not given are empty."""
    columns: dict[str, Any] = {
        "label": [label if ok else None for label, ok in zip(labels.tolist(), kept, strict=True)]
    }
    if said.probabilities is not None:
        columns["probability"] = [round(float(value), 4) for value in said.probabilities]
    if said.second is not None:
        columns["second"] = tidy_labels(said.second).tolist()
    if said.likeness is not None:
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
    arguments: argparse.Namespace,
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
        lines = [list(row) for row in zip(*shown.values(), strict=True)]
        terminal.result({**payload, **columns}, table(lines, list(columns)))
        return OK
    if path.suffix.lower() == ".npy":
        write_npy(path, found)
    else:
        TABLES[path.suffix.lower()](path, columns, arguments.raw)
    rejected = f", {payload['rejected']} left without one" if payload.get("rejected") else ""
    terminal.result({"output": str(path), **payload}, f"{path}: {len(found)} {what}{'s' * (len(found) > 1)}{rejected}")
    return OK


def _shown(name: str, cell: Any) -> str:
    """Return a cell as a terminal shows it: shares with three digits, so that columns are easy to compare."""
    if cell is None:
        return ""
    return f"{cell:.3f}" if name in ("probability", "likeness") else str(cell)
