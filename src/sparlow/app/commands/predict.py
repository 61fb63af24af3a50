"""``sparlow predict MODEL DATA -o FILE``."""

from __future__ import annotations

import argparse
import pathlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...evaluation import CLASSIFIERS, known_rows
from ..arguments import add_data, add_output
from ..dataset import Dataset, tidy_labels
from ..outputs import TABLES, writable, write_npy
from ..saved import SavedModel, read_data, read_model
from ..terminal import OK, Terminal, UserError, table

Array = NDArray[Any]

SUMMARY = "label new samples with a saved model, or predict their targets"
EXAMPLES = """\
  sparlow predict faces.sparlow new_faces/ -o labels.csv
  sparlow predict digits.sparlow new.npy --classifier SVM -o labels.npy
  sparlow predict faces.sparlow who.png

Labels are those of the nearest training sample in the embedding, or of an SVM that learns from the training samples.
Models of real targets (--criterion mvr and smvr) predict these by their ridge regression. FILE is .csv or .parquet
(columns name, if samples have names, and label or target), or .npy; without it they are printed. Labels in DATA are not
looked at."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("model", metavar="MODEL", help="a file that sparlow fit wrote")
    parser.add_argument("data", metavar="DATA", help="samples: .npz, .npy, .csv, .parquet, images in a folder, or one")
    parser.add_argument("-o", "--output", metavar="FILE", help=".csv, .parquet or .npy; default: print them")
    parser.add_argument("--classifier", choices=list(CLASSIFIERS), help="default: that of the saved pipeline, or 1NN")
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
    if held.predictor is not None and arguments.classifier is None:
        found = tidy_labels(held.predict(dataset.X))
        what = "target" if found.dtype.kind == "f" else "label"
    elif held.model._training.targets is not None:
        found, what = np.asarray(held.model.predict(dataset.X)), "target"
    else:
        found, what = labels_given(held, dataset, arguments.classifier or "1NN"), "label"
    columns = _columns(found, dataset, what)
    payload: dict[str, Any] = {"n_samples": len(found), "what": what}
    if what == "label":
        payload["counts"] = {str(label): int(np.sum(found == label)) for label in np.unique(found)}
    if path is None:
        lines = [[str(cell) for cell in row] for row in zip(*columns.values(), strict=True)]
        terminal.result({**payload, **columns}, table(lines, list(columns)))
    else:
        _write(path, found, columns, arguments.raw)
        terminal.result({"output": str(path), **payload}, f"{path}: {len(found)} {what}{'s' * (len(found) > 1)}")
    return OK


def labels_given(held: SavedModel, dataset: Dataset, classifier: str) -> Array:
    """Return the labels that a classifier, trained on the embedding of the training samples, gives to others."""
    known = held.training_labels()
    if known is None:
        raise UserError("The model was learned without labels, so there are none to give: sparlow transform embeds.")
    rows = known_rows(known)
    Z, words = held.model.embedding_[rows], np.asarray(known)[rows].astype(str)
    return tidy_labels(CLASSIFIERS[classifier](Z, words, held.model.transform(dataset.X)))


def _columns(found: Array, dataset: Dataset, what: str) -> dict[str, Any]:
    """Return names, if there are any, and labels or targets."""
    columns: dict[str, Any] = {} if dataset.names is None else {"name": list(dataset.names)}
    if found.ndim == 1:
        return {**columns, what: found.tolist()}
    return {**columns, **{f"{what}{place + 1}": column.tolist() for place, column in enumerate(found.T)}}


def _write(path: pathlib.Path, found: Array, columns: dict[str, Any], raw: bool) -> None:
    if path.suffix.lower() == ".npy":
        write_npy(path, found)
    else:
        TABLES[path.suffix.lower()](path, columns, raw)
