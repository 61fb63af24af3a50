"""``sparlow report MODEL DATA -o report.html``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable

import numpy as np
from sklearn.base import clone

from ...evaluation import CLASSIFIERS, Judgement, compare, judge, labels_of, rivals, split
from ...labels import known_rows
from ..arguments import add_data, fraction, whole_number
from ..dataset import Dataset
from ..outputs import writable, write_text
from ..page import report
from ..saved import SavedModel, read_data, read_model
from ..terminal import OK, WORK_FAILED, Terminal, UserError
from .evaluate import check_labels_known, judge_saved, own_answers, said_of_seen

SUMMARY = "a page to look at a model: embedding, atoms, accuracies, rivals, in one HTML file"
EXAMPLES = """\
  sparlow report faces.sparlow faces/ -o report.html
  sparlow report digits.sparlow test.npz --train train.npz -o report.html
  sparlow report digits.sparlow digits.npz --part test --train digits.npz -o report.html    # a file of two parts
  sparlow report digits.sparlow new.npy --labels new.txt --train old.npy --train-labels old.txt -o report.html

Accuracies are of samples that were not learned from. With --train the saved model is judged on DATA, and classifiers
and rivals learn from TRAIN, which should be what the model was learned from. Without it the saved model is judged
alone, on what it was not learned from of DATA. Where it was learned from all of DATA a share is held out, and a model
with the same parameters and the rivals learn from the rest. The file opens without a network."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("model", metavar="MODEL", help="a file that sparlow fit wrote")
    parser.add_argument(
        "data", metavar="DATA", help="samples to show: .npz, .npy, .csv, .parquet or a folder of images"
    )
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the page to write, *.html")
    parser.add_argument("--train", metavar="TRAIN", help="the samples that the model was learned from")
    parser.add_argument(
        "--train-part",
        choices=["train", "test", "all"],
        help="which part of a TRAIN that has both, whatever --part says of DATA; default: train",
    )
    parser.add_argument("--train-labels", metavar="FILE", help="labels of TRAIN in a file of their own")
    parser.add_argument(
        "--test-fraction", type=fraction, default=0.3, metavar="SHARE", help="without TRAIN; default: 0.3"
    )
    parser.add_argument("--rivals", action=argparse.BooleanOptionalAction, default=True,
                        help="judge the model beside raw values, PCA and LDA; off is faster")  # fmt: skip
    parser.add_argument("--classifiers", nargs="+", choices=list(CLASSIFIERS), default=list(CLASSIFIERS), metavar="C",
                        help=f"what judges the embedding: {', '.join(CLASSIFIERS)} or both; default: both")  # fmt: skip
    parser.add_argument(
        "--max-points", type=whole_number(2), default=10_000, metavar="N", help="most samples shown; default: 10000"
    )
    parser.add_argument("--title", help="of the page")
    add_data(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Read, judge, write."""
    path = writable(arguments.output, arguments.model, arguments.data, arguments.train)
    if arguments.train is None and (arguments.train_part or arguments.train_labels):
        raise UserError("--train-part and --train-labels say how to read TRAIN: name it by --train.")
    held = read_model(arguments.model)
    dataset = read_data(arguments, arguments.data, held, terminal)
    terminal.stage(f"judging the model on {len(dataset.X)} samples")
    rows, protocol = _judged(arguments, held, dataset, terminal)
    terminal.stage("making the page")
    seen = arguments.train is not None and bool(dataset.seen_by(held).all())
    text = report(
        held,
        dataset,
        judgements=rows,
        protocol=protocol,
        seen=seen,
        max_points=arguments.max_points,
        title=arguments.title,
    )
    write_text(path, text)
    size = os.path.getsize(path)
    payload = {
        "output": str(path),
        "bytes": size,
        "n_samples": len(dataset.X),
        "protocol": protocol,
        "accuracy": {row.name: row.accuracies() for row in rows},
    }
    terminal.result(payload, f"{path}: {size / 1e6:.1f} MB, open it in a browser")
    return OK


def _judged(
    arguments: argparse.Namespace, held: SavedModel, dataset: Dataset, terminal: Terminal
) -> tuple[list[Judgement], str]:
    """Judge the model and its rivals on samples not learned from, and say how; nothing without class labels."""
    y = dataset.y
    if y is None or y.ndim > 1 or y.dtype.kind == "f":
        return [], ""
    name = f"{type(held.model.criterion_).__name__}-SparLow"
    try:
        if arguments.train is not None:
            return _with_train(arguments, held, dataset, name, terminal)
        new = dataset.take(np.flatnonzero(~dataset.seen_by(held)))
        strange = _said_of_unknown_labels(held, new)
        if strange:
            terminal.warn(strange)
        elif len(new.X) and "fingerprint" in held.data and held.training_labels() is not None:
            rows = [judge_saved(held, new, arguments.classifiers, terminal)]
            known = len(dataset.X) - len(new.X)
            but = f" that it was not learned from ({known:,} others it was)" if known else ""
            return rows, f"The saved model on the {len(new.X):,} samples of {dataset.source}{but}. {_NO_RIVALS}"
        rows, protocol = _with_split(arguments, held, dataset, name, terminal)
        return rows, f"{protocol} Beware: {strange}" if strange else protocol
    except ValueError as error:
        raise UserError(str(error), WORK_FAILED) from error


def _said_of_unknown_labels(held: SavedModel, new: Dataset) -> str:
    """Return a warning where the model knows none of the labels of new samples, or an empty text."""
    known = held.training_labels()
    if known is None or not np.any(known_rows(new.y)):
        return ""
    learned, asked = labels_of(known, new.y)
    if not {*learned}.isdisjoint(asked):
        return ""
    return f"the saved model knows none of the labels of {new.source}, and the accuracies are of another one."


_NO_RIVALS = "Rivals need the samples that it was learned from: --train names them."


def _with_train(
    arguments: argparse.Namespace, held: SavedModel, dataset: Dataset, name: str, terminal: Terminal
) -> tuple[list[Judgement], str]:
    """Judge the saved model on DATA, beside rivals learned from TRAIN."""
    train = _read_train(arguments, held)
    if train.fingerprint == dataset.fingerprint:
        raise UserError("TRAIN and DATA are the same samples: leave --train out, and a share of DATA is held out.")
    known = dataset.seen_by(held) | np.isin(dataset.marks, train.marks)
    if known.any() and not known.all():
        terminal.warn(f"{known.sum()} of these {len(dataset.X)} samples the model or TRAIN knows: they are left out.")
        dataset = dataset.take(np.flatnonzero(~known))
    elif known.any() and not dataset.seen_by(held).all():
        raise UserError("The model or TRAIN knows all samples of DATA: there is none to judge by.")
    check_labels_known(train.y, dataset, train.source, terminal)
    protocol = f"The saved model on the {len(dataset.X):,} samples of {dataset.source}; training: {train.source}."
    for said in _said_of_accuracies(held, dataset, train):
        terminal.warn(said)
        protocol += f" Beware: {said}"
    rows = [judge(name, held.model.transform(train.X), train.y, held.model.transform(dataset.X), dataset.y,
                  classifiers=arguments.classifiers, own=own_answers(held, dataset))]  # fmt: skip
    if arguments.rivals:
        rows += _followed(compare({}, train.X, train.y, dataset.X, dataset.y, arguments.classifiers), terminal, 0)
    return rows, protocol


def _read_train(arguments: argparse.Namespace, held: SavedModel) -> Dataset:
    """Read TRAIN: by its own part and labels, otherwise as DATA."""
    part = arguments.train_part or ("train" if arguments.train.lower().endswith(".npz") else None)
    own = {"part": part, "labels": arguments.train_labels}
    train = read_data(argparse.Namespace(**{**vars(arguments), **own}), arguments.train, held)
    if train.y is None:
        raise UserError(f"{arguments.train} has no labels to learn from: --train-labels or --label-column name them.")
    return train


def _said_of_accuracies(held: SavedModel, dataset: Dataset, train: Dataset) -> list[str]:
    """Return what speaks against the accuracies on DATA of a model learned from TRAIN."""
    seen = int(dataset.seen_by(held).sum())  # all or none: of some the new ones are here
    doubts = [said_of_seen(seen, len(dataset.X))] if seen else []
    if "fingerprint" in held.data and not train.is_training_set_of(held):
        doubts.append(
            f"the model was learned from other samples ({held.data.get('n_samples', '?')} of "
            f"{held.data.get('source', 'an unknown file')}) than TRAIN ({len(train.X)} of {train.source})."
        )
    return doubts


def _with_split(
    arguments: argparse.Namespace, held: SavedModel, dataset: Dataset, name: str, terminal: Terminal
) -> tuple[list[Judgement], str]:
    """Judge a model learned anew from a part of DATA on the held-out share."""
    assert dataset.y is not None
    known = np.flatnonzero(known_rows(dataset.y))
    test = known[split(dataset.y[known], arguments.test_fraction)[1]]
    train = np.setdiff1d(np.arange(len(dataset.X)), test)
    model, start = held.model, ""
    if not isinstance(model.dictionary, str):  # learned from samples of which some may be held out here
        model = clone(model).set_params(dictionary="ksvd", n_atoms=model.n_atoms_)
        start = " Its first dictionary is K-SVD's: the saved model's may have seen the others."
    found = compare({name: model}, dataset.X[train], dataset.y[train], dataset.X[test], dataset.y[test],
                    arguments.classifiers)  # fmt: skip
    rows = _followed(found, terminal, 1) if arguments.rivals else [next(found)]
    made = dataset.files is not None or dataset.features
    features = " The features of the pictures were learned from all of them." if made else ""
    protocol = (
        f"A model with the same parameters, learned anew from {len(train):,} of the samples and judged on the other "
        f"{len(test):,}.{start}{features}"
    )
    return rows, protocol


def _followed(found: Iterable[Judgement], terminal: Terminal, extra: int) -> list[Judgement]:
    """Return judgements, with progress on the terminal."""
    rows = []
    with terminal.progress("judging", len(rivals()) + extra) as step:
        for row in found:
            rows.append(row)
            step(row.name)
    return rows
