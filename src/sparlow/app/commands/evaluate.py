"""``sparlow evaluate [MODEL] DATA``."""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier

from ...criteria import criterion_named
from ...evaluation import (
    OWN,
    Judgement,
    compare,
    folds,
    in_order,
    judge,
    labels_of,
    pooled,
    said_of_commonest,
)
from ...labels import known_rows
from ..confidence import answer
from ..dataset import Dataset, tidy_labels
from ..judgements import lines_of
from ..learning import Source, features_of, read_source
from ..pictures import describe
from ..pictures import learn as learn_features
from ..saved import SavedModel, read_data, read_model
from ..settings import build_model
from ..terminal import OK, WORK_FAILED, Terminal, UserError, table

Array = NDArray[Any]

_OF_LEARNING = ("set", "kind", "network", "one_hot", "fill", "standardize", "columns", "drop", "grey", "groups")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Judge and tell."""
    if arguments.model is None:
        rows, how = _cross_validated(arguments, terminal)
        return _tell(rows, how, 0, terminal)
    for name in _OF_LEARNING:
        if getattr(arguments, name) not in (None, [], False):
            option = "pictures" if name == "kind" else name.replace("_", "-")
            raise UserError(f"--{option} goes without MODEL: {arguments.model} is learned already.")
    held = read_model(arguments.model)
    dataset = read_data(arguments, arguments.data, held, terminal)
    how = f"{arguments.model} on {arguments.data}"
    known = dataset.seen_by(held)
    seen = int(known.sum())
    if seen:
        terminal.warn(said_of_seen(seen, len(dataset.X)))
        how += f", of which {seen} of {len(dataset.X)} were learned from"
    if not known.all():
        dataset = dataset.take(np.flatnonzero(~known))
    if held.model._training.targets is not None:
        return _r_squared(held, dataset, how, seen, terminal)
    terminal.stage(f"judging the model on {len(dataset.X)} samples")
    return _tell([judge_saved(held, dataset, arguments.classifiers, terminal)], how, seen, terminal)


def _tell(rows: list[Judgement], how: str, seen: int, terminal: Terminal) -> int:
    """Print judgements, and say where the first is worse than no model at all."""
    said = said_of_commonest(rows[0])
    if said:
        terminal.warn(said)
    payload = {"how": how, **_seen(seen), "below_commonest": bool(said), "methods": [as_dict(row) for row in rows]}
    terminal.result(payload, f"{how}\n\n{_text(rows)}")
    return OK


def _seen(count: int) -> dict[str, Any]:
    """Return how many samples the model was learned from, as parts of a result."""
    return {"seen_in_training": count > 0, "n_seen": count}


def said_of_seen(seen: int, count: int) -> str:
    """Return a warning of samples that the model was learned from."""
    if seen == count:
        return "the model was learned from these very samples: how it does on them says nothing about others."
    return f"the model was learned from {seen} of these {count} samples, which are left out."


def judge_saved(held: SavedModel, dataset: Dataset, classifiers: Any, terminal: Terminal) -> Judgement:
    """Train classifiers on the model's training samples and let them label new ones."""
    known = held.training_labels()
    if dataset.y is None:
        raise UserError(f"{dataset.source} has no labels to compare with: --labels names them.")
    if known is None:
        raise UserError("The model was learned without labels, so there are none to give. Evaluate it without MODEL.")
    check_labels_known(known, dataset, "the model", terminal)
    if len(known) < held.data.get("n_samples", 0) and classifiers:
        terminal.tell(f"{' and '.join(classifiers)} learn from {len(known)} training samples, those in the file")
    try:
        return judge(held.name, held.model.embedding_, known, held.model.transform(dataset.X), dataset.y,
                     classifiers=classifiers, own=own_answers(held, dataset))  # fmt: skip
    except ValueError as error:
        raise UserError(f"{dataset.source}: {error}", WORK_FAILED) from error


def own_answers(held: SavedModel, dataset: Dataset) -> dict[str, Array]:
    """Return the labels that sparlow predict gives, by what gives them; nothing for a model without labels."""
    if held.predictor is not None and not is_classifier(held.predictor):
        return {}
    if held.predictor is None and held.training_labels() is None:
        return {}
    name = OWN if held.predictor is None else type(held.predictor).__name__
    return {name: tidy_labels(answer(held, dataset.X, 0).labels)}


def check_labels_known(known: Any, dataset: Dataset, teacher: str, terminal: Terminal) -> None:
    """Refuse samples none of whose labels the classifiers have learned, and warn where there are some such labels."""
    learned, asked = labels_of(known, dataset.y)
    strange = in_order({*asked} - {*learned})
    if not strange:
        return
    if len(strange) == len(asked):
        raise UserError(
            f"{dataset.source}: none of its labels ({_few(asked)}) is known to {teacher}, which has {_few(learned)}: "
            "every answer would be wrong. --labels names others."
        )
    terminal.warn(
        f"{dataset.source}: {teacher} does not know the labels {_few(strange)}: samples that have them count as wrong."
    )


def _few(labels: list[str]) -> str:
    """Return the first of some labels, for a message."""
    return f"{', '.join(labels[:5])}{' …' if len(labels) > 5 else ''}"


def _parts(source: Source, train: Array, held: Array) -> tuple[Array, Array]:
    """Return samples to learn from, and samples to judge by, of which nothing is learned."""
    if source.pictures is not None:
        features = learn_features(source.pictures.take(train), clone(source.steps))
        return features.X, describe(source.pictures.take(held), features.pipeline)
    dataset = source.dataset
    rows = dataset.X if dataset.frame is None else dataset.frame.iloc
    if source.scaler is None:
        return rows[train], rows[held]
    scaler = clone(source.scaler)
    return scaler.fit_transform(rows[train]), scaler.transform(rows[held])


def _cross_validated(arguments: argparse.Namespace, terminal: Terminal) -> tuple[list[Judgement], str]:
    """Return judgements, and how they came about."""
    arguments.memory = None
    model = build_model(arguments.criterion, arguments.set, arguments.jobs)
    source = read_source(arguments, model, terminal)
    dataset, how = source.dataset, f"{arguments.folds}-fold cross-validation on {arguments.data}"
    y = dataset.classes
    if y is None:
        raise UserError(f"{dataset.source}: cross-validation needs class labels; --labels names them.")
    groups = dataset.groups
    how += ", groups held out whole" * (groups is not None)
    if source.pictures is not None and arguments.network is not None:  # nothing is learned from these pictures
        dataset = replace(dataset, X=features_of(source, terminal).X)
        source = Source(dataset)
    how += ", features learned anew in each fold" * (source.pictures is not None)
    if dataset.features:
        how += (
            ", features learned from all of these pictures, those held out included: sparlow evaluate FOLDER does not"
        )
    criterion = criterion_named(model.criterion)
    known = np.flatnonzero(known_rows(y, semi=criterion.supervision == "semi"))
    name = f"{type(criterion).__name__}-SparLow"
    parts: dict[str, list[Judgement]] = {}
    terminal.stage(f"fold 1 of {arguments.folds} (the first fit after installation also compiles for some seconds)")
    try:
        with terminal.progress("folds", arguments.folds) as step:
            for _, test in folds(y[known], arguments.folds, 0, None if groups is None else groups[known]):
                held = known[test]
                train = np.setdiff1d(np.arange(len(y)), held)
                began = time.perf_counter()
                X, X_new = _parts(source, train, held)
                seconds = time.perf_counter() - began
                fitted = _WithGroups(model, None if groups is None else groups[train])
                for row in compare({name: fitted}, X, y[train], X_new, y[held], arguments.classifiers):
                    parts.setdefault(row.name, []).append(replace(row, fit_seconds=row.fit_seconds + seconds))
                said = parts[name][-1].accuracies().items()
                step("  ".join(f"{which} {100 * value:.1f} %" for which, value in said))
    except (ValueError, TypeError) as error:
        raise UserError(str(error), WORK_FAILED) from error
    return [pooled(rows) for rows in parts.values()], how


class _WithGroups:
    """A model that is fitted with the groups of one fold."""

    def __init__(self, model: Any, groups: Array | None) -> None:
        self._model, self._groups = model, groups

    def __sklearn_clone__(self) -> _WithGroups:
        return _WithGroups(clone(self._model), self._groups)

    def fit(self, X: Array, y: Any) -> Any:
        """Return the fitted model."""
        return self._model.fit(X, y) if self._groups is None else self._model.fit(X, y, groups=self._groups)


def _r_squared(held: SavedModel, dataset: Dataset, how: str, seen: int, terminal: Terminal) -> int:
    """Print R² of predicted targets."""
    if dataset.y is None:
        raise UserError(f"{dataset.source} has no targets to compare with: --labels names them.")
    score = held.model.score(dataset.X, dataset.y)
    text = f"{how}\n\nR² of the regression on the embedding: {score:.4f}"
    terminal.result({"how": how, **_seen(seen), "r2": score}, text)
    return OK


def as_dict(row: Judgement) -> dict[str, Any]:
    """Return a judgement for scripts."""
    return {
        "name": row.name,
        "dimension": row.dimension,
        "fit_seconds": row.fit_seconds,
        "n_samples": len(row.truth),
        "accuracy": row.accuracies(),
        "balanced_accuracy": {which: row.balanced(which) for which in row.predicted},
        "classes": row.classes,
        "per_class": {which: row.per_class(which) for which in row.predicted},
        "confusion": {which: row.confusion(which) for which in row.predicted},
    }


def _text(rows: list[Judgement]) -> str:
    """Return the accuracies as lines for the terminal."""
    first = rows[0]
    lines, head = lines_of(rows, seconds=not np.isnan(first.fit_seconds))
    counts = dict(zip(*np.unique(first.truth, return_counts=True), strict=True))
    common = max(counts, key=lambda label: counts[label])
    share = f"{100 * counts[common] / len(first.truth):.2f}"
    parts = [table(lines, head)]
    if len(rows) == 1:
        parts.append(f"always {str(common)!r}, the commonest class: {share} %")
    parts.append(f"{first.name}, {len(first.truth)} samples, {next(iter(first.predicted))}:")
    return "\n\n".join([*parts, _confusion_text(first, next(iter(first.predicted)))])


def _confusion_text(row: Judgement, classifier: str) -> str:
    """Return the confusion matrix; of many classes the pairs with most errors."""
    classes, counts, right = row.classes, row.confusion(classifier), row.per_class(classifier)
    if len(classes) <= 16:
        head = ["true \\ given", *classes, "right %"]
        lines = [
            [label, *(count or "." for count in counts[place]), f"{100 * right[label]:.1f}" if label in right else ""]
            for place, label in enumerate(classes)
        ]
        return table(lines, head)
    wrong = counts - np.diag(np.diag(counts))
    worst = [divmod(int(place), len(classes)) for place in np.argsort(-wrong, axis=None)[:10]]
    lines = [[classes[true], classes[given], wrong[true, given]] for true, given in worst if wrong[true, given]]
    return table(lines, ["true class", "taken for", "times"]) if lines else "no errors"
