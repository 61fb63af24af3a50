"""Open saved models, and read users' files in the form that a model was learned from."""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
from collections.abc import Sequence
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
from .pictures import describe, holds_pictures, least_side, look_at, takes_pictures
from .readers import COLUMNED, completed, read, read_pictures
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
    def name(self) -> str:
        """Return what to call the model in tables."""
        return f"{type(self.model.criterion_).__name__}-SparLow"

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


def how_to_read(arguments: argparse.Namespace, **known: Any) -> ReadOptions:
    """Return how the arguments say that DATA is to be read."""
    same = "groups unlabelled size part fill skip one_hot"
    given = {name: getattr(arguments, name, None) for name in f"labels {same}".split()}
    options = {name: value for name, value in given.items() if value is not None}
    if "one_hot" in options:
        options["one_hot"] = tuple(options["one_hot"])
    use = getattr(arguments, "columns", None)
    return ReadOptions(
        **{
            **options,
            "use": None if use is None else tuple(use),
            "drop": tuple(getattr(arguments, "drop", ())),
            "n_jobs": getattr(arguments, "jobs", -1),
            **known,
        }
    )


def read_data(
    arguments: argparse.Namespace, paths: str | Sequence[str], held: SavedModel, terminal: Terminal | None = None
) -> Dataset:
    """Return the samples in DATA, prepared as those that a model was learned from."""
    paths = [paths] if isinstance(paths, str) else list(paths)
    if terminal is not None:
        terminal.stage(f"reading {paths[0]}")
    files = [pathlib.Path(path) for path in paths]
    if len(files) > 1 and not all(map(holds_pictures, files)):
        raise UserError(f"{len(files)} files: several are read at once if all are pictures or folders of them.")
    held.model.set_params(n_jobs=getattr(arguments, "jobs", -1))
    try:
        return _read(arguments, files, held, terminal)
    except (DataError, OSError) as error:
        raise UserError(str(error)) from error


def _read(
    arguments: argparse.Namespace, files: list[pathlib.Path], held: SavedModel, terminal: Terminal | None
) -> Dataset:
    check_reading(arguments, files[0])
    path, pictures = files[0], holds_pictures(files[0])
    shape = held.image_shape
    known: dict[str, Any] = {
        "columns": held.columns or held.feature_names,
        "colours": shape is not None and len(shape) == 3,
        "usual": held.data.get("labels_from"),
    }
    known["size"] = shape if pictures else getattr(arguments, "size", None)
    if getattr(arguments, "unlabelled", None) is None:
        known["unlabelled"] = held.data.get("unlabelled")
    how = how_to_read(arguments, **known)
    if held.of_photographs:
        return _read_photographs(files, held, how, terminal)
    if pictures:
        if "features" in held.data:
            raise DataError(f"{path}: the model was learned from features of pictures, not from pixels.{_LIKE}")
        dataset = read_pictures(look_at(files, dataclasses.replace(how, groups=None)), how)
        dataset = _with_channels(dataset, shape)
    elif held.columns is not None:
        return _read_frame(path, held, how, terminal)
    else:
        dataset = _with_channels(read(path, how), shape)
    check_same_kind(dataset, held, str(path))
    if held.before is None:
        return dataset
    X, rows = held.prepare(dataset.X), dataset.X if dataset.rows is None else dataset.rows
    return dataclasses.replace(dataset, X=X, rows=rows, shape=dataset.shape if X.shape == dataset.X.shape else None)


def _with_channels(dataset: Dataset, shape: tuple[int, ...] | None) -> Dataset:
    """Return grey pictures with three equal channels, where the model knows colours."""
    if shape is None or len(shape) == 2 or dataset.X.shape[1] * 3 != np.prod(shape):
        return dataset
    return dataclasses.replace(dataset, X=np.repeat(dataset.X, 3, axis=1), shape=shape)


def _read_frame(path: pathlib.Path, held: SavedModel, how: ReadOptions, terminal: Terminal | None) -> Dataset:
    """Return a table prepared by a pipeline that was fitted on a data frame."""
    columns = held.columns or ()
    if ending_of(path) not in COLUMNED:
        some = f"{', '.join(columns[:5])}{' …' if len(columns) > 5 else ''}"
        raise DataError(
            f"{path}: the model was learned from a table with the columns {some}; a table was expected "
            f"({', '.join(COLUMNED)})."
        )
    words = known_words(held.before)
    found = read(path, dataclasses.replace(how, worded=tuple(words)))
    said = said_of_frame(found.frame, words)
    if said and terminal is not None:
        terminal.tell(f"{path}: {said}")
    return dataclasses.replace(found, X=held.prepare(found.frame))


def _read_photographs(
    files: list[pathlib.Path], held: SavedModel, how: ReadOptions, terminal: Terminal | None
) -> Dataset:
    """Return the features of pictures, by what the model has learned."""
    if files[0].exists() and not holds_pictures(files[0]):
        raise DataError(
            f"{files[0]}: the model was learned from photographs; a folder of pictures or one was expected."
        )
    assert held.before is not None
    how = dataclasses.replace(how, size=None, colours=False)
    pictures = look_at(files, how, least_side(held.before))
    if terminal is not None:
        terminal.stage(f"features of {len(pictures)} pictures")
    verbose = int(terminal is not None and terminal.lively)
    X = describe(pictures, held.before, n_jobs=how.n_jobs, verbose=verbose)
    return completed(pictures.dataset(X, how, described=True), how)


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


def check_reading(arguments: argparse.Namespace, path: pathlib.Path) -> None:
    """Refuse options that say nothing about such a file."""
    of_tables = ("columns", "drop", "one_hot", "fill")
    asked = [
        f"--{name.replace('_', '-')}" for name in of_tables if getattr(arguments, name, None) not in (None, [], False)
    ]
    if asked and ending_of(path) not in COLUMNED:
        raise UserError(f"{' and '.join(asked)}: for tables, which {path} is not.")
    if getattr(arguments, "part", None) is not None and path.exists() and path.suffix.lower() != ".npz":
        raise UserError(f"--part is for .npz files of two parts, which {path} is not.")


def check_same_kind(dataset: Dataset, held: SavedModel, path: str) -> None:
    """Refuse samples of another width than the model's, and rows that were made of pictures in another way."""
    made, expected = held.data.get("features"), held.width
    advice = _LIKE if made else ""
    if dataset.X.shape[1] != expected:
        form = "" if held.image_shape is None else f" ({'x'.join(map(str, held.image_shape))} pictures)"
        raise UserError(
            f"{path}: samples have {dataset.X.shape[1]} numbers, but the model was learned from samples of "
            f"{expected}{form}.{advice}"
        )
    if made and dataset.features and made != dataset.features:
        raise UserError(
            f"{path}: these rows were made with another codebook, other components or other choices than those that "
            f"the model was learned from, so their numbers mean something else.{advice}"
        )
