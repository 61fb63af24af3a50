"""Models in files: saved with skops, so that loading one never runs code from the file.

A file holds a fitted estimator or pipeline and, beside it, what the command line and the page need to know: the shape
of the images, the labels of the training samples, the names of the features, where the samples came from.
"""

from __future__ import annotations

import copy
import dataclasses
import importlib.metadata
import os
import pathlib
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from .criteria import CRITERIA
from .estimators import DictionaryLearner, SparLow, TraceQuotient
from .estimators.labels import Labels
from .priors import ElasticNet, KLDivergence

Array = NDArray[Any]

VERSION = importlib.metadata.version("sparlow")
FORMAT = "sparlow model 1"
ESTIMATORS = (SparLow, TraceQuotient, DictionaryLearner, Pipeline)
TRUSTED = (*ESTIMATORS, Labels, ElasticNet, KLDivergence, *dict.fromkeys(CRITERIA.values()))
# plain holders of arrays that skops leaves to its callers: trees of neighbours, sparse matrices
_HOLDERS = (
    "scipy.sparse._csr.csr_array",
    "sklearn.metrics._dist_metrics.EuclideanDistance32",
    "sklearn.metrics._dist_metrics.EuclideanDistance64",
    "sklearn.neighbors._kd_tree.KDTree",
    "sklearn.neighbors._ball_tree.BallTree",
)


class ModelFileError(ValueError):
    """A file that is not a model of this library, or a damaged one."""


@dataclass(frozen=True)
class ModelFile:
    """What a model file holds.

    Parameters
    ----------
    model : SparLow, TraceQuotient, DictionaryLearner or Pipeline
        Fitted.
    image_shape : (int, int), optional
        Height and width, if the samples are images.
    labels : array of shape (n_samples,), optional
        Labels of the training samples, also where the criterion does not use them.
    feature_names : tuple of str, optional
        Columns of the table that the samples came from.
    data : dict
        Where the samples came from, how many they were, and their fingerprint.
    version : str
        The version of the library that wrote the file.

    """

    model: Any
    image_shape: tuple[int, int] | None = None
    labels: Array | None = None
    feature_names: tuple[str, ...] | None = None
    data: dict[str, Any] = field(default_factory=dict)
    version: str = ""

    def training_labels(self) -> Array | None:
        """A label for each row of the model's ``embedding_``, −1 where it has none; None if they are not known."""
        rows = len(self.model.embedding_)
        if self.labels is not None and len(self.labels) == rows:
            return self.labels
        known = self.model._training
        if known.y is None:
            return None
        classes = self.model.classes_
        if classes.dtype.kind == "b" or (classes.dtype.kind == "f" and np.all(classes == np.round(classes))):
            classes = classes.astype(int)  # as labels in files are read
        labels = classes.astype(object)[known.y]
        labels[known.y < 0] = -1
        return np.asarray(labels)


def _skops() -> Any:
    try:
        import skops.io
    except ImportError as error:
        raise ImportError("Model files need skops: pip install 'sparlow[cli]'") from error
    return skops.io


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Save a fitted model.

    The file is complete or not there at all: it is written under another name first. A ``callback`` is left out, as it
    is code.

    Parameters
    ----------
    model : SparLow, TraceQuotient, DictionaryLearner, Pipeline or ModelFile
        Fitted. Steps of a pipeline are the library's, also those of ``sparlow.images``, and scikit-learn's.
    path : path
        The file to write; ``.sparlow`` is the usual ending.

    """
    held = model if isinstance(model, ModelFile) else ModelFile(model)
    if not isinstance(held.model, ESTIMATORS):
        raise TypeError(f"model must be one of {_names(ESTIMATORS)}, got {type(held.model).__name__}.")
    check_is_fitted(held.model)
    held = dataclasses.replace(held, model=_without_callbacks(held.model), version=VERSION)
    content = {"format": FORMAT, **{part.name: getattr(held, part.name) for part in dataclasses.fields(held)}}
    path = pathlib.Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {path.parent} to save {path.name} in: make it first.")
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        _skops().dump(content, unfinished, compression=zipfile.ZIP_DEFLATED)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def _without_callbacks(model: Any) -> Any:
    if isinstance(model, Pipeline):
        model = copy.copy(model)
        model.steps = [(name, _without_callbacks(step)) for name, step in model.steps]
        return model
    if getattr(model, "callback", None) is None and "_skl_callbacks" not in vars(model):
        return model
    model = copy.copy(model)
    model.__dict__.pop("_skl_callbacks", None)
    if hasattr(model, "callback"):
        model.callback = None
    return model


def load_model(path: str | os.PathLike[str], *, trusted: Iterable[type] = ()) -> Any:
    """The fitted model in a file; see :func:`load_file`."""
    return load_file(path, trusted=trusted).model


def load_file(path: str | os.PathLike[str], *, trusted: Iterable[type] = ()) -> ModelFile:
    """Load a model and what was saved beside it. No code from the file is run.

    Parameters
    ----------
    path : path
        A file that :func:`save` wrote.
    trusted : iterable of types
        Priors, criteria or steps of your own that the model uses. The library's and scikit-learn's types, numbers and
        arrays are known; a file with any other is refused.

    Returns
    -------
    ModelFile

    Raises
    ------
    ModelFileError
        If the file is foreign or damaged.

    """
    skops, path = _skops(), pathlib.Path(path)
    if path.is_dir():
        raise FileNotFoundError(f"{path} is a folder, no model file: the model comes first, then the samples.")
    if not path.is_file():
        raise FileNotFoundError(f"There is no model file {path}.")
    names = [*_HOLDERS, *(f"{kind.__module__}.{kind.__qualname__}" for kind in (*TRUSTED, *_of_images(), *trusted))]
    try:
        strangers = sorted(set(skops.get_untrusted_types(file=path)) - set(names))
        content = None if strangers else skops.load(path, trusted=names)
    except Exception as error:  # whatever a damaged file provokes
        raise ModelFileError(
            f"{path} is not a SparLow model, or it is damaged ({_brief(error)}). Models are written by sparlow.save "
            "and by the command sparlow fit."
        ) from error
    if strangers:
        raise ModelFileError(
            f"{path} holds types that are not SparLow's: {', '.join(strangers)}. If they are priors, criteria or "
            "steps of your own, name them: load_model(path, trusted=[...])."
        )
    return _checked(content, path)


def _of_images() -> tuple[type, ...]:
    """The steps from pictures to rows, and what they hold."""
    from .images import DHOG, Codebook, DenseSIFT, HistogramIntersection, SpatialPyramid
    from .images.coders import CODERS

    return DenseSIFT, DHOG, Codebook, SpatialPyramid, HistogramIntersection, *CODERS


def _checked(content: Any, path: pathlib.Path) -> ModelFile:
    found = content.get("format") if isinstance(content, dict) else None
    if found != FORMAT:
        what = f"its format is {found!r}, expected {FORMAT!r}" if found else "it holds something else"
        raise ModelFileError(f"{path} is not a model file that this version of SparLow reads: {what}.")
    parts = [part.name for part in dataclasses.fields(ModelFile)]
    try:
        held = ModelFile(**{name: content[name] for name in parts})
        check_is_fitted(held.model)
    except (KeyError, TypeError, NotFittedError) as error:
        raise ModelFileError(f"{path} is damaged: {_brief(error)}.") from error
    if not isinstance(held.model, ESTIMATORS):
        raise ModelFileError(f"{path} holds a {type(held.model).__name__}, expected one of {_names(ESTIMATORS)}.")
    return held


def _names(kinds: Iterable[type]) -> str:
    return ", ".join(kind.__name__ for kind in kinds)


def _brief(error: Exception) -> str:
    words = str(error).strip().splitlines()
    return f"{type(error).__name__}: {words[0][:160]}" if words else type(error).__name__
