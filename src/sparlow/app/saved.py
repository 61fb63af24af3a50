"""Open saved models, and read users' files in the form that a model was learned from."""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier, is_regressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from ..defaults import unlike_columns
from ..estimators import SparLow
from ..models import ModelFile, ModelFileError, load_file
from .dataset import DataError, Dataset, ReadOptions, ending_of
from .photographs import describe, least_side, look_at, takes_pictures
from .readers import COLUMNED, holds_pictures, labelled, read, read_frame
from .tables import known_words, said_of_frame
from .terminal import Terminal, UserError

Array = NDArray[Any]

_LIKE = " Make rows of pictures by sparlow features --like, with what the first run did --save."


@dataclass(frozen=True)
class SavedModel(ModelFile):
    """A model file as commands use it: ``model`` is the SparLow step of a pipeline.

    Parameters
    ----------
    before : Pipeline, optional
        The steps before it, which prepare samples.
    after : Pipeline, optional
        The steps after it, such as a classifier.

    """

    before: Pipeline | None = None
    after: Pipeline | None = None

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Return the columns of the data frame that the pipeline was fitted on, if it was one."""
        names = None if self.before is None else getattr(self.before, "feature_names_in_", None)
        return None if names is None else tuple(names.tolist())

    @property
    def width(self) -> int:
        """Return how many numbers a sample has before it is prepared."""
        first = self.model if self.before is None else self.before
        return int(getattr(first, "n_features_in_", self.model.n_features_in_))

    @property
    def of_photographs(self) -> bool:
        """Return whether the model takes pictures of any size, of which it computes features."""
        return takes_pictures(self.before)

    @property
    def steps(self) -> list[str]:
        """Return the names of the steps of the pipeline, or of the model alone."""
        parts = [*(self.before or ()), self.model, *(self.after or ())]
        return [type(step).__name__ for step in parts]

    @property
    def predictor(self) -> Any:
        """Return the classifier or regressor at the end, if there is one."""
        last = None if self.after is None else self.after[-1]
        return last if last is not None and (is_classifier(last) or is_regressor(last)) else None

    def prepare(self, X: Any) -> Array:
        """Return samples as the SparLow step takes them."""
        if self.before is None:
            return np.asarray(X)
        rows = self.before.transform(X)
        return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, float)

    def embed(self, X: Array) -> Array:
        """Return the embedding of prepared samples, by all steps but a classifier or regressor."""
        Z = self.model.transform(X)
        for step in self.after or ():
            if step is not self.predictor:
                Z = step.transform(Z)
        return np.asarray(Z)

    def predict(self, X: Array) -> Array:
        """Return what the classifier or regressor at the end says of prepared samples."""
        return np.asarray(self.predictor.predict(self.embed(X)))


def read_model(path: str) -> SavedModel:
    """Return the model in a file."""
    try:
        held = load_file(path)
    except (ModelFileError, OSError) as error:
        raise UserError(str(error)) from error
    if "features" in held.data and not isinstance(held.model, (SparLow, Pipeline)):
        raise UserError(f"{path} was written by sparlow features --save. Usage: sparlow features --like {path}.")
    fields = {field.name: getattr(held, field.name) for field in dataclasses.fields(ModelFile)}
    if isinstance(held.model, SparLow):
        return SavedModel(**fields)
    steps = _flat_steps(held.model.steps) if isinstance(held.model, Pipeline) else []
    place = next((place for place, (_, step) in enumerate(steps) if isinstance(step, SparLow)), None)
    if place is None:
        if "features" in held.data:
            raise UserError(f"{path} was written by sparlow features --save. Usage: sparlow features --like {path}.")
        raise UserError(
            f"{path} holds a {type(held.model).__name__} without a SparLow model, which commands need: use it in "
            "Python, by sparlow.load."
        )
    before, after = Pipeline(steps[:place]) if place else None, Pipeline(steps[place + 1 :])
    return SavedModel(**{**fields, "model": steps[place][1]}, before=before, after=after if len(after) else None)


def _flat_steps(steps: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return the steps of a pipeline with those of pipelines in it, each with a name of its own."""
    found = []
    for name, step in steps:
        inner = _flat_steps(step.steps) if isinstance(step, Pipeline) else None
        found += [(name, step)] if inner is None else [(f"{name}-{own}", part) for own, part in inner]
    return [(name, step) for name, step in found if step is not None and step != "passthrough"]


def read_data(
    arguments: argparse.Namespace, path: str, held: SavedModel | None = None, terminal: Terminal | None = None
) -> Dataset:
    """Return the samples in DATA; with a model, prepared as those that it was learned from."""
    if terminal is not None:
        terminal.stage(f"reading {path}")
    check_reading(arguments, pathlib.Path(path), held)
    try:
        if held is not None and held.of_photographs:
            return _read_photographs(arguments, pathlib.Path(path), held, terminal)
        how = how_to_read(arguments, path, held)
        if held is not None and held.columns is not None:
            words = known_words(held.before)
            frame, dataset = read_frame(path, how, held.columns, set(words))
            said = said_of_frame(frame, words)
            if said and terminal is not None:
                terminal.tell(f"{path}: {said}")
            held.model.set_params(n_jobs=arguments.jobs)
            return dataclasses.replace(dataset, X=held.prepare(frame))
        dataset = read(path, how)
    except (DataError, OSError) as error:
        raise UserError(str(error)) from error
    if held is None:
        return dataset
    held.model.set_params(n_jobs=arguments.jobs)
    check_same_kind(dataset, held, path)
    if held.before is None:
        return dataset
    X = held.prepare(dataset.X)
    return dataclasses.replace(
        dataset, X=X, rows=dataset.X, shape=dataset.shape if X.shape == dataset.X.shape else None
    )


def how_to_read(arguments: argparse.Namespace, path: str, held: SavedModel | None = None) -> ReadOptions:
    """Return how the arguments say that DATA is to be read."""
    size = arguments.size or (held.image_shape if held is not None and holds_pictures(pathlib.Path(path)) else None)
    return ReadOptions(
        label_column=arguments.label_column,
        labels=arguments.labels,
        size=size,
        part=arguments.part,
        header=arguments.header,
        unlabelled=arguments.unlabelled,
        columns=None if held is None else held.feature_names,
        use=None if arguments.columns is None else tuple(arguments.columns),
        drop=tuple(arguments.drop),
        one_hot=None if getattr(arguments, "one_hot", None) is None else tuple(arguments.one_hot),
        fill=getattr(arguments, "fill", False),
        skip=arguments.skip,
        n_jobs=arguments.jobs,
    )


def _read_photographs(
    arguments: argparse.Namespace, path: pathlib.Path, held: SavedModel, terminal: Terminal | None
) -> Dataset:
    """Return the features of pictures, by what the model has learned."""
    if arguments.size is not None:
        raise UserError("--size is for pictures scaled to one size; this model takes them as they are.")
    if path.exists() and not holds_pictures(path):
        raise DataError(f"{path}: the model was learned from photographs; a folder of pictures or one was expected.")
    assert held.before is not None
    pictures = look_at(path, skip=arguments.skip, n_jobs=arguments.jobs, classes=False, least=least_side(held.before))
    if terminal is not None:
        terminal.stage(f"features of {len(pictures.files)} pictures")
    verbose = int(terminal is not None and terminal.lively)
    X = describe(pictures, held.before, n_jobs=arguments.jobs, verbose=verbose)
    held.model.set_params(n_jobs=arguments.jobs)
    return read_labels_of(arguments, pictures.dataset(X))


def read_labels_of(arguments: argparse.Namespace, dataset: Dataset) -> Dataset:
    """Return samples with the labels that the arguments name, all checked."""
    return labelled(dataset, ReadOptions(labels=arguments.labels, unlabelled=arguments.unlabelled))


def standardizer(arguments: argparse.Namespace, dataset: Dataset, terminal: Terminal) -> StandardScaler | None:
    """Return what scales the columns of a dataset, if that is asked for, or if columns differ in scale."""
    if arguments.standardize is False:
        return None
    if arguments.standardize is None:
        pictures = dataset.shape is not None or dataset.features
        if pictures or not unlike_columns(dataset.X):
            return None
        terminal.tell("columns differ in scale and are scaled to mean 0 and variance 1 (--no-standardize: as they are)")
    return StandardScaler()


def check_reading(arguments: argparse.Namespace, path: pathlib.Path, held: SavedModel | None = None) -> None:
    """Refuse options that say nothing about such a file, and pictures where rows made of pictures are due."""
    if arguments.label_column is not None and ending_of(path) not in COLUMNED:
        raise UserError(f"--label-column is for tables, which {path} is not: its labels have another place.")
    if (arguments.columns is not None or arguments.drop) and ending_of(path) not in COLUMNED:
        raise UserError(f"--columns and --drop are for tables, which {path} is not.")
    encodes = getattr(arguments, "one_hot", None) is not None or getattr(arguments, "fill", False)
    if encodes and ending_of(path) not in COLUMNED:
        raise UserError(f"--one-hot and --fill are for tables, which {path} is not.")
    if arguments.part is not None and path.exists() and path.suffix.lower() != ".npz":
        raise UserError(f"--part is for .npz files of two parts, which {path} is not.")
    if held is not None and "features" in held.data and holds_pictures(path) and not held.of_photographs:
        raise UserError(f"{path}: the model was learned from features of pictures, not from pixels.{_LIKE}")


def check_same_kind(dataset: Dataset, held: SavedModel, path: str) -> None:
    """Refuse samples of another width than the model's, and rows that were made of pictures in another way."""
    made, expected = held.data.get("features"), held.width
    advice = _LIKE if made else ""
    if dataset.X.shape[1] != expected:
        form = "" if held.image_shape is None else " ({}x{} images)".format(*held.image_shape)
        raise UserError(
            f"{path}: samples have {dataset.X.shape[1]} numbers, but the model was learned from samples of "
            f"{expected}{form}.{advice}"
        )
    if made and dataset.features and made != dataset.features:
        raise UserError(
            f"{path}: these rows were made with another codebook, other components or other choices than those that "
            f"the model was learned from, so their numbers mean something else.{advice}"
        )
