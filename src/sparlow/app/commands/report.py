"""``sparlow report MODEL DATA -o report.html``."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace

import numpy as np
from sklearn.base import clone

from ...evaluation import Judgement, compare, judge, labels_of, rivals, said_of_commonest, split
from ...labels import known_rows
from ..dataset import Dataset
from ..outputs import writable, write
from ..page import report
from ..saved import SavedModel, read_data, read_model
from ..terminal import OK, WORK_FAILED, Terminal, UserError
from .evaluate import check_labels_known, judge_saved, own_answers, said_of_seen

_HELD_OUT = 0.3  # share that is judged where all samples were learned from
_NO_RIVALS = "Rivals need the samples that it was learned from: --train names them."


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Read, judge, write."""
    path = writable(arguments.output, arguments.model, arguments.data, arguments.train)
    held = read_model(arguments.model)
    dataset = read_data(arguments, arguments.data, held, terminal)
    terminal.stage(f"judging the model on {len(dataset.X)} samples")
    try:
        rows, protocol = _judged(arguments, held, dataset, terminal) if dataset.classes is not None else ([], "")
    except ValueError as error:
        raise UserError(str(error), WORK_FAILED) from error
    below = said_of_commonest(rows[0]) if rows else ""
    if below:
        terminal.warn(below)
    protocol = " ".join(filter(None, [protocol, below]))
    terminal.stage("making the page")
    seen = arguments.train is not None and bool(dataset.seen_by(held).all())
    write(path, report(held, dataset, judgements=rows, protocol=protocol, seen=seen))
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
    """Judge the model and its rivals on samples not learned from, and say how."""
    if arguments.train is not None:
        return _with_train(arguments, held, dataset, terminal)
    new = dataset.take(np.flatnonzero(~dataset.seen_by(held)))
    strange = _said_of_unknown_labels(held, new)
    if strange:
        terminal.warn(strange)
    elif len(new.X) and "fingerprint" in held.data and held.training_labels() is not None:
        rows = [judge_saved(held, new, arguments.classifiers, terminal)]
        known = len(dataset.X) - len(new.X)
        but = f" that it was not learned from ({known:,} others it was)" if known else ""
        return rows, f"The saved model on the {len(new.X):,} samples of {dataset.source}{but}. {_NO_RIVALS}"
    rows, protocol = _with_split(arguments, held, dataset, terminal)
    return rows, f"{protocol} Beware: {strange}" if strange else protocol


def _said_of_unknown_labels(held: SavedModel, new: Dataset) -> str:
    """Return a warning where the model knows none of the labels of new samples, or an empty text."""
    known = held.training_labels()
    if known is None or not np.any(known_rows(new.y)):
        return ""
    learned, asked = labels_of(known, new.y)
    if not {*learned}.isdisjoint(asked):
        return ""
    return f"the saved model knows none of the labels of {new.source}, and the accuracies are of another one."


def _with_train(
    arguments: argparse.Namespace, held: SavedModel, dataset: Dataset, terminal: Terminal
) -> tuple[list[Judgement], str]:
    """Judge the saved model on DATA, beside rivals learned from TRAIN."""
    part = "train" if arguments.train.lower().endswith(".npz") and arguments.part is not None else None
    own = {"part": part, "labels": None}
    train = read_data(argparse.Namespace(**{**vars(arguments), **own}), arguments.train, held)
    if train.y is None and train.is_training_set_of(held) and held.labels is not None:
        train = replace(train, y=held.labels) if len(held.labels) == len(train.X) else train
    if train.y is None:
        raise UserError(f"{arguments.train} has no labels to learn from: a .npz, a table or a folder holds them.")
    if train.fingerprint == dataset.fingerprint:
        raise UserError("TRAIN and DATA are the same samples: leave --train out, and a share of DATA is held out.")
    known = dataset.seen_by(held) | np.isin(dataset.marks, train.marks)
    if known.any() and not known.all():
        terminal.warn(f"Left out {known.sum()} of {len(dataset.X)} samples that the model or TRAIN knows.")
        dataset = dataset.take(np.flatnonzero(~known))
    elif known.any() and not dataset.seen_by(held).all():
        raise UserError("The model or TRAIN knows all samples of DATA: there is none to judge by.")
    check_labels_known(train.y, dataset, train.source, terminal)
    protocol = f"The saved model on the {len(dataset.X):,} samples of {dataset.source}; training: {train.source}."
    for said in _said_of_accuracies(held, dataset, train):
        terminal.warn(said)
        protocol += f" Beware: {said}"
    rows = [judge(held.name, held.model.transform(train.X), train.y, held.model.transform(dataset.X), dataset.y,
                  classifiers=arguments.classifiers, own=own_answers(held, dataset))]  # fmt: skip
    with terminal.progress("judging", len(rivals())) as step:
        for row in compare({}, train.X, train.y, dataset.X, dataset.y, arguments.classifiers):
            rows.append(row)
            step(row.name)
    return rows, protocol


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
    arguments: argparse.Namespace, held: SavedModel, dataset: Dataset, terminal: Terminal
) -> tuple[list[Judgement], str]:
    """Judge a model learned anew from a part of DATA on the held-out share."""
    y = dataset.classes
    assert y is not None
    known = np.flatnonzero(known_rows(y))
    test = known[split(y[known], _HELD_OUT)[1]]
    train = np.setdiff1d(np.arange(len(y)), test)
    model, start = held.model, ""
    if not isinstance(model.dictionary, str):  # learned from samples of which some may be held out here
        model = clone(model).set_params(dictionary="ksvd", n_atoms=model.n_atoms_)
        start = " Its first dictionary is K-SVD's: the saved model's may have seen the others."
    rows = []
    with terminal.progress("judging", len(rivals()) + 1) as step:
        parts = (dataset.X[train], y[train], dataset.X[test], y[test])
        for row in compare({held.name: model}, *parts, arguments.classifiers):
            rows.append(row)
            step(row.name)
    made = dataset.described or dataset.features
    features = " The features of the pictures were learned from all of them." if made else ""
    protocol = (
        f"A model with the same parameters, learned anew from {len(train):,} of the samples and judged on the other "
        f"{len(test):,}.{start}{features}"
    )
    return rows, protocol
