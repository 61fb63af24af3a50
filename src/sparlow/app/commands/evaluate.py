"""``sparlow evaluate [MODEL] DATA``."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from ...criteria import criterion_named
from ...estimators import SparLow
from ...evaluation import (
    CLASSIFIERS,
    OWN,
    Judgement,
    compare,
    folds,
    in_order,
    judge,
    labels_of,
    learn_and_judge,
    pooled,
)
from ...labels import known_rows
from ..arguments import add_data, add_model, build_model, refuse_model_options, views_of, whole_number
from ..confidence import answer
from ..dataset import Dataset, tidy_labels
from ..photographs import Pictures, Recipe, describe
from ..photographs import learn as learn_features
from ..saved import SavedModel, read_data, read_labels_of, read_model, standardizer
from ..terminal import OK, WORK_FAILED, Terminal, UserError, table
from .fit import check_labelled, mixed, photographs, tell_of_colours, wants_encoding

Array = NDArray[Any]

SUMMARY = "accuracy of a saved model on new samples, or of a fresh one by cross-validation"
EXAMPLES = """\
  sparlow evaluate faces.sparlow new_faces/           # the saved model on samples it has not seen
  sparlow evaluate faces/ --rivals                    # is SparLow any good here? five folds, beside PCA and LDA
  sparlow evaluate digits.npz --criterion mfa --folds 10 --json

With MODEL: classifiers are trained on the embedding of the model's training samples and label DATA.
Without: a model with the given parameters is learned on each fold's training part and judged on the rest.
predict is what sparlow predict answers: the votes of neighbours, or the classifier of a saved pipeline, under its name.
1NN is the nearest neighbour, SVM a Gaussian support vector machine whose C and gamma come from training samples only.
A model learned from real targets is judged by R²."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("model", nargs="?", metavar="MODEL", help="a file that sparlow fit wrote; without it: folds")
    parser.add_argument("data", metavar="DATA", help="samples with labels")
    parser.add_argument("--classifiers", nargs="+", choices=list(CLASSIFIERS), default=list(CLASSIFIERS), metavar="C",
                        help=f"what judges the embedding: {', '.join(CLASSIFIERS)} or both; default: both")  # fmt: skip
    parser.add_argument("--folds", type=whole_number(2), default=5, metavar="K", help="without MODEL; default: 5")
    parser.add_argument("--rivals", action="store_true", help="without MODEL: also raw values, PCA and LDA")
    add_model(parser)
    add_data(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Judge and tell."""
    if arguments.model is None:
        (rows, features), seen = _cross_validated(arguments, terminal), 0
        how = f"{arguments.folds}-fold cross-validation on {arguments.data}{f', {features}' * bool(features)}"
    else:
        if arguments.rivals:
            raise UserError("--rivals goes without MODEL: rivals need samples to learn from. See also sparlow report.")
        refuse_model_options(arguments)
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
            return _r_squared(held, dataset, {"how": how, **_seen(seen)}, terminal)
        terminal.stage(f"judging the model on {len(dataset.X)} samples")
        rows = [judge_saved(held, dataset, arguments.classifiers, terminal)]
    terminal.result({"how": how, **_seen(seen), "methods": [as_dict(row) for row in rows]}, f"{how}\n\n{_text(rows)}")
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
        raise UserError(f"{dataset.source} has no labels to compare with: --label-column or --labels name them.")
    if known is None:
        raise UserError("The model was learned without labels, so there are none to give. Evaluate it without MODEL.")
    check_labels_known(known, dataset, "the model", terminal)
    if len(known) < held.data.get("n_samples", 0):
        terminal.tell(f"1NN and SVM learn from {len(known)} training samples, those that the file holds")
    name = f"{type(held.model.criterion_).__name__}-SparLow"
    try:
        return judge(name, held.model.embedding_, known, held.model.transform(dataset.X), dataset.y,
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
            "every answer would be wrong. --label-column or --labels name other labels."
        )
    terminal.warn(
        f"{dataset.source}: {teacher} does not know the labels {_few(strange)}: samples that have them count as wrong."
    )


def _few(labels: list[str]) -> str:
    """Return the first of some labels, for a message."""
    return f"{', '.join(labels[:5])}{' …' if len(labels) > 5 else ''}"


@dataclass(frozen=True)
class _Folded:
    """Samples whose preparation is learned anew in each fold: scaled columns, or features of photographs."""

    y: Array
    whole: Dataset | Pictures
    scaler: Any = None  # of columns
    frame: Any = None  # what it scales and encodes, in place of the rows of the dataset
    run: dict[str, Any] = field(default_factory=dict)  # threads and progress

    def parts(self, train: Array, held: Array) -> tuple[Array, Array, float]:
        """Return samples to learn from, samples to judge by, of which nothing is learned, and seconds of learning."""
        began = time.perf_counter()
        if isinstance(self.whole, Pictures):
            features = learn_features(self.whole.take(train), Recipe(), **self.run)
            seconds = time.perf_counter() - began
            return features.X, describe(self.whole.take(held), features.pipeline, **self.run), seconds
        rows = self.whole.X if self.frame is None else self.frame.iloc
        X, X_new = rows[train], rows[held]
        if self.scaler is not None:
            X, X_new = self.scaler.fit_transform(X), self.scaler.transform(X_new)
        return X, X_new, time.perf_counter() - began


def _folded(arguments: argparse.Namespace, model: SparLow, terminal: Terminal) -> _Folded:
    """Read what is judged, and choose the views of the model."""
    pictures = photographs(arguments, terminal)
    if pictures is not None:
        known = arguments.network is not None
        dataset = read_labels_of(arguments, pictures.dataset(np.ones((len(pictures.files), 1)), colours=known))
        check_labelled(model, dataset)
        tell_of_colours(dataset, terminal)
        run = {"n_jobs": arguments.jobs, "verbose": int(terminal.lively)}
        if known:  # nothing is learned from these pictures
            terminal.stage(f"vectors of {len(pictures.files)} pictures")
            X = learn_features(pictures, Recipe(network=arguments.network), **run).X
            return _Folded(_classes(dataset), replace(dataset, X=X))
        return _Folded(_classes(dataset), pictures, run=run)
    if wants_encoding(arguments):
        mixture, dataset = mixed(arguments, terminal)
        check_labelled(model, dataset)
        encoder = mixture.encoder(arguments.standardize is not False)
        return _Folded(_classes(dataset), dataset, encoder, mixture.frame)
    dataset = read_data(arguments, arguments.data, terminal=terminal)
    model.set_params(views=views_of(arguments, dataset))
    check_labelled(model, dataset)
    tell_of_colours(dataset, terminal)
    return _Folded(_classes(dataset), dataset, standardizer(arguments, dataset, terminal))


def _classes(dataset: Dataset) -> Array:
    """Return the class labels of a file, or say that it has none."""
    if dataset.y is None or dataset.y.ndim > 1 or dataset.y.dtype.kind == "f":
        raise UserError(f"{dataset.source}: cross-validation needs class labels; --label-column or --labels name them.")
    return dataset.y


def _cross_validated(arguments: argparse.Namespace, terminal: Terminal) -> tuple[list[Judgement], str]:
    """Return judgements, and what is to be known about them."""
    if arguments.start is not None:
        raise UserError("--from has seen the held-out samples: without MODEL each fold learns a dictionary of its own.")
    model = build_model(arguments)
    data = _folded(arguments, model, terminal)
    y, n = data.y, len(data.y)
    semi = criterion_named(model.criterion).supervision == "semi"
    known = np.flatnonzero(known_rows(y, semi=semi))
    name = f"{criterion_named(model.criterion).__class__.__name__}-SparLow"
    parts: dict[str, list[Judgement]] = {}
    terminal.stage(f"fold 1 of {arguments.folds} (the first fit after installation also compiles for some seconds)")
    try:
        with terminal.progress("folds", arguments.folds) as step:
            for _, test in folds(y[known], arguments.folds, arguments.seed):
                held = known[test]
                train = np.setdiff1d(np.arange(n), held)
                X, X_new, seconds = data.parts(train, held)
                fold = (X, y[train], X_new, y[held])
                if arguments.rivals:
                    found = list(compare({name: model}, *fold, arguments.classifiers))
                else:
                    found = [learn_and_judge(name, model, *fold, arguments.classifiers)]
                for row in found:
                    parts.setdefault(row.name, []).append(replace(row, fit_seconds=row.fit_seconds + seconds))
                step("  ".join(f"{which} {100 * value:.1f} %" for which, value in found[0].accuracies().items()))
    except (ValueError, TypeError) as error:
        raise UserError(str(error), WORK_FAILED) from error
    return [pooled(rows) for rows in parts.values()], _said_of_features(data.whole)


def _said_of_features(whole: Dataset | Pictures) -> str:
    """Return how features of pictures were learned, or an empty text."""
    if isinstance(whole, Pictures):
        return "features learned anew in each fold"
    if whole.features:
        return "features learned from all of these pictures, those held out included: sparlow evaluate FOLDER does not"
    return ""


def _r_squared(held: SavedModel, dataset: Dataset, said: dict[str, Any], terminal: Terminal) -> int:
    """Print R² of predicted targets."""
    if dataset.y is None:
        raise UserError(f"{dataset.source} has no targets to compare with: --label-column or --labels name them.")
    score = held.model.score(dataset.X, dataset.y)
    terminal.result({**said, "r2": score}, f"{said['how']}\n\nR² of the regression on the embedding: {score:.4f}")
    return OK


def as_dict(row: Judgement) -> dict[str, Any]:
    """Return a judgement for scripts."""
    return {
        "name": row.name,
        "dimension": row.dimension,
        "fit_seconds": row.fit_seconds,
        "n_samples": len(row.truth),
        "accuracy": row.accuracies(),
        "classes": row.classes,
        "per_class": {which: row.per_class(which) for which in row.predicted},
        "confusion": {which: row.confusion(which) for which in row.predicted},
    }


def _text(rows: list[Judgement]) -> str:
    """Return the accuracies as lines for the terminal."""
    classifiers = list(rows[0].predicted)
    lines = [[row.name, row.dimension, *(row.percent(which) for which in classifiers), *_seconds(row)] for row in rows]
    head = ["", "numbers", *(f"{which} %" for which in classifiers), "fit (s)"][: len(lines[0])]
    first = rows[0]
    parts = [table(lines, head), f"{first.name}, {len(first.truth)} samples, {classifiers[0]}:"]
    parts.append(_confusion_text(first, classifiers[0]))
    return "\n\n".join(parts)


def _seconds(row: Judgement) -> list[str]:
    """Return the seconds of a fit; nothing for a model that was fitted before."""
    return [] if np.isnan(row.fit_seconds) else [f"{row.fit_seconds:.2f}"]


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
