"""What models are learned from: samples of a user's file, prepared, and the steps that prepare new ones."""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..criteria import Criterion, criterion_named
from ..estimators import SparLow
from ..evaluation import in_order
from ..labels import known_rows
from ..views import Patches, Views, views_named
from .confidence import Prepare
from .dataset import DataError, Dataset
from .large import is_large, read_large
from .pictures import (
    LARGEST,
    SMALLEST,
    Features,
    Pictures,
    at_rest,
    holds_pictures,
    least_side,
    look_at,
    recipe,
    unlike,
)
from .pictures import learn as learn_features
from .readers import completed, read, read_pictures
from .saved import SavedModel, check_reading, how_to_read, read_data, standardizer
from .tables import encoder
from .terminal import Terminal, UserError


@dataclass(frozen=True)
class Source:
    """Samples as they were read: rows, a table to be encoded, or photographs without features yet."""

    dataset: Dataset
    pictures: Pictures | None = None
    steps: Any = None  # that learn features of photographs
    scaler: Any = None  # of columns, not fitted


@dataclass(frozen=True)
class Prepared:
    """Samples as a model learns from them, the steps that made them, and how to make them anew for held-out ones."""

    dataset: Dataset
    before: list[tuple[str, Any]]
    anew: Prepare | None = None


def read_source(arguments: argparse.Namespace, model: SparLow, terminal: Terminal) -> Source:
    """Read DATA, check that its labels suit the criterion, and choose the views of the model."""
    path = pathlib.Path(arguments.data)
    check_reading(arguments, path)
    if arguments.standardize is False and model.normalize == "auto":  # which may standardise columns
        model.set_params(normalize=True)
    terminal.stage(f"reading {path}")
    try:
        if is_large(arguments):
            source = Source(read_large(arguments))
        elif holds_pictures(path):
            source = _read_pictures(arguments, path, terminal)
        elif arguments.kind == "photographs" or arguments.network is not None:
            raise DataError(f"{path} is neither a folder nor a picture.")
        else:
            local = arguments.kind in (None, "patches")
            source = Source(read(path, how_to_read(arguments, colours=local and not arguments.grey)))
    except (DataError, OSError) as error:
        raise UserError(str(error)) from error
    dataset = source.dataset
    check_labelled(model, dataset)
    if source.pictures is None:
        model.set_params(views=views_of(arguments, views_named(model.views), dataset))
    if dataset.coloured and arguments.network is None:
        terminal.tell("the colours of the pictures are left out: they are read in grey" + ", as asked" * arguments.grey)
    if dataset.frame is not None:
        _tell_of_frame(dataset.frame, arguments, terminal)
        return replace(source, scaler=encoder(dataset.frame, arguments.standardize is not False))
    if source.pictures is None and not is_large(arguments):
        return replace(source, scaler=standardizer(arguments, dataset, terminal))
    return source


def _read_pictures(arguments: argparse.Namespace, path: pathlib.Path, terminal: Terminal) -> Source:
    """Read pictures as pixels, or as photographs that features are to be learned from."""
    featured = arguments.kind == "photographs" or arguments.network is not None
    if featured and (arguments.size is not None or arguments.standardize is not None):
        option = "--pictures photographs" if arguments.network is None else "--network"
        raise DataError(f"{option} takes pictures as they are: --size and --standardize do not go with it.")
    local, pixels = arguments.kind in (None, "patches"), arguments.kind in ("patches", "whole")
    how = how_to_read(arguments, colours=local and not featured and not arguments.grey, whole=pixels)
    pictures = look_at([path], how)
    why = "" if pixels or arguments.size is not None or not path.is_dir() else unlike(pictures)
    if not featured and not why:
        return Source(read_pictures(pictures, how))
    if not featured:
        terminal.tell(f"the pictures {why}: features are learned first (--size HxW: pixels, scaled to one size)")
    steps = recipe(pictures, {}, arguments.network, n_jobs=arguments.jobs, verbose=int(terminal.lively))
    if min(min(picture.used) for picture in pictures.files) < least_side(steps):
        pictures = look_at([path], how, least_side(steps))
    how = replace(how, colours=arguments.network is not None)
    empty = np.ones((len(pictures), 1))
    return Source(completed(pictures.dataset(empty, how, described=True), how), pictures, steps)


def _tell_of_frame(frame: Any, arguments: argparse.Namespace, terminal: Terminal) -> None:
    """Say what becomes of a table of numbers and words."""
    words = [name for name in frame if frame[name].dtype == object]
    gaps = int(frame.drop(columns=words).isna().sum().sum())
    filled = f"{gaps} missing numbers are filled with medians, " * bool(gaps)
    scaled = "" if arguments.standardize is False else "columns of numbers are scaled to mean 0 and variance 1, "
    counts = [f"{name}: {frame[name].nunique(dropna=False)} numbers" for name in words]
    terminal.tell(f"{filled}{scaled}words are encoded ({', '.join(counts) or 'there are none'})")


def features_of(source: Source, terminal: Terminal) -> Features:
    """Learn the features of photographs, or compute the vectors of a network."""
    assert source.pictures is not None
    what = "vectors" if "network" in source.steps.named_steps else "learning features"
    terminal.stage(f"{what} of {len(source.pictures)} pictures")
    return learn_features(source.pictures, source.steps)


def prepared(source: Source, terminal: Terminal) -> Prepared:
    """Return the samples to learn from."""
    dataset = source.dataset
    if source.pictures is not None:
        features = features_of(source, terminal)
        return Prepared(replace(dataset, X=features.X), at_rest(features.pipeline).steps, features.anew)
    if source.scaler is None:
        return Prepared(dataset, [])
    rows = None if dataset.frame is not None else dataset.X if dataset.rows is None else dataset.rows
    X = source.scaler.fit_transform(dataset.X if dataset.frame is None else dataset.frame)
    name = "standardize" if dataset.frame is None else "columns"
    return Prepared(replace(dataset, X=X, rows=rows), [(name, source.scaler)])


def read_start(arguments: argparse.Namespace, model: SparLow, start: SavedModel, terminal: Terminal) -> Prepared:
    """Return samples prepared as those of a saved model, which gives views and the first dictionary."""
    for name in ("network", "standardize", "kind"):
        if getattr(arguments, name) is not None:
            option = "pictures" if name == "kind" else name
            raise UserError(f"--{option} goes without --from: samples are prepared as those of that model were.")
    dataset = read_data(arguments, arguments.data, start, terminal)
    model.set_params(dictionary=start.model.dictionary_, views=start.model.views)
    check_labelled(model, dataset)
    return Prepared(dataset, [] if start.before is None else start.before.steps)


def views_of(arguments: argparse.Namespace, asked: Views | None, dataset: Dataset) -> Views | None:
    """Return the views of the samples; by default patches, for small pictures."""
    shape = dataset.shape
    if asked is None and arguments.kind != "patches":
        small = shape is not None and min(shape[:2]) >= SMALLEST and max(shape[:2]) <= LARGEST
        asked = Patches() if arguments.kind is None and small else None
    elif asked is None:
        asked = Patches()
    if asked is None or getattr(asked, "shape", shape) is not None:
        return asked
    if shape is None:
        raise UserError(
            f"{type(asked).__name__} are views of pictures, but {dataset.source} holds rows of {dataset.X.shape[1]} "
            "numbers: rows that are pictures need --size HEIGHTxWIDTH."
        )
    views = dataclasses.replace(asked, shape=shape)  # type: ignore[type-var]
    try:
        with warnings.catch_warnings(action="ignore"):  # the fit says it
            views.maps(dataset.X.shape[1])
    except ValueError as error:
        raise UserError(str(error)) from error
    return views


def check_labelled(model: SparLow, dataset: Dataset) -> None:
    """Refuse a criterion that needs labels where there are none, none for some samples, or no classes."""
    criterion = criterion_named(model.criterion)
    supervision = criterion.supervision
    if dataset.bare is not None and dataset.bare.any() and supervision not in ("none", "semi"):
        first = int(np.argmax(dataset.bare))
        named = f"number {first} from 0" if dataset.names is None else dataset.names[first]
        count = int(dataset.bare.sum())
        lack = "1 sample has" if count == 1 else f"{count} samples have"
        raise UserError(
            f"{dataset.source}: {lack} no label (first: {named}): move them away, or use "
            f"--criterion {'smvr' if criterion.targets else 'sda'}."
        )
    _check_classes(criterion, dataset)
    if dataset.y is None and supervision != "none":
        raise UserError(
            f"{dataset.source} has no labels, which the criterion needs. Name them (--labels, or a sub-folder per "
            "class), or use --criterion pca, lle or lap."
        )


def _check_classes(criterion: Criterion, dataset: Dataset) -> None:
    """Refuse real targets where the criterion wants classes, and a single class."""
    y, classes = dataset.y, dataset.classes
    if y is None or criterion.supervision == "none" or criterion.targets:
        return
    if classes is None:
        found = f"real numbers (such as {y[~np.isnan(y)][0]})" if y.ndim == 1 else f"{y.shape[1]} columns"
        raise UserError(
            f"{dataset.source}: the labels are {found}, but {type(criterion).__name__} needs classes. For targets to "
            "regress on use --criterion mvr, or smvr where some are missing; for classes name other labels by --labels."
        )
    names = in_order(classes[known_rows(classes)])
    if len(names) < 2:
        raise UserError(f"{dataset.source}: all labels are {', '.join(names)}, but classes to tell apart are needed.")


def describe_samples(dataset: Dataset) -> str:
    """Return one line about samples."""
    sides = (
        "" if dataset.shape is None else "x".join(map(str, dataset.shape[:2])) + " colour" * (len(dataset.shape) > 2)
    )
    form = f"{sides} pictures" if dataset.shape else f"samples of {dataset.X.shape[1]} numbers"
    if dataset.classes is None:
        return f"{len(dataset.X)} {form}"
    rows = known_rows(dataset.classes)
    without = "" if rows.all() else f", {np.sum(~rows)} without a label"
    return f"{len(dataset.X)} {form}, {len(in_order(dataset.classes[rows]))} classes{without}"
