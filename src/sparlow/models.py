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
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import BallTree, KDTree
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from .criteria import CRITERIA
from .embedding import Embedding, Neighbours
from .estimators import DictionaryLearner, SparLow, TraceQuotient
from .labels import Labels
from .messages import warn
from .priors import ElasticNet, KLDivergence
from .samples import Samples
from .solvers import EarlyStopping, Solver
from .views import Bound, Patches, Shifts

Array = NDArray[Any]

VERSION = importlib.metadata.version("sparlow")
FORMAT = "sparlow model 1"
ESTIMATORS = (SparLow, TraceQuotient, DictionaryLearner, Pipeline)
_PARTS = (Labels, ElasticNet, KLDivergence, Bound, Patches, Shifts, Embedding, Neighbours, EarlyStopping, Solver)
TRUSTED = (*ESTIMATORS, *_PARTS, *dict.fromkeys(CRITERIA.values()))
# what scikit-learn's estimators hold and skops leaves to its callers; made sound after loading, see _make_sound
_HELD = (
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
        Where the samples came from, how many they were, their fingerprint and the mark of each.
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

    def learned_from(self, samples: Samples) -> bool:
        """Whether these are known to be the samples that the model was learned from."""
        return bool(self.data.get("fingerprint") == samples.fingerprint)

    def has_seen(self, samples: Samples) -> NDArray[np.bool_]:
        """Which samples are equal to some that the model is known to have been learned from."""
        if "marks" not in self.data:  # a file from before there were any
            return np.full(len(samples.X), self.learned_from(samples))
        return np.isin(samples.marks, self.data["marks"])


def skops_io() -> Any:
    """The library that model files are written with."""
    try:
        import skops.io
    except ImportError as error:
        raise ImportError("Model files need skops: pip install 'sparlow[cli]'") from error
    return skops.io


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Save a fitted model.

    The file is complete or not there at all: it is written under another name first. Callbacks are left out, as they
    are code, and so are folders of caches (``memory``).

    Parameters
    ----------
    model : SparLow, TraceQuotient, DictionaryLearner, Pipeline or ModelFile
        Fitted. Steps of a pipeline are the library's, also those of ``sparlow.images``, and most of scikit-learn's; a
        warning names those that :func:`load_model` will want to be told of.
    path : path
        The file to write; ``.sparlow`` is the usual ending.

    """
    held = model if isinstance(model, ModelFile) else ModelFile(model)
    if not isinstance(held.model, ESTIMATORS):
        best = " Save its best_estimator_." if hasattr(held.model, "best_estimator_") else ""
        raise TypeError(f"model must be one of {_names(ESTIMATORS)}, got {type(held.model).__name__}.{best}")
    _check_fitted(held.model)
    held = dataclasses.replace(held, model=_portable(held.model), version=VERSION)
    content = {"format": FORMAT, **{part.name: getattr(held, part.name) for part in dataclasses.fields(held)}}
    path = pathlib.Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {path.parent} to save {path.name} in: make it first.")
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        skops_io().dump(content, unfinished, compression=zipfile.ZIP_DEFLATED)
        strangers = _strangers(unfinished, _names_of(TRUSTED))
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
    if strangers:
        warn(f"{path} holds types that load_model must be told to trust, by trusted=[...]: {', '.join(strangers)}.")


def _portable(model: Any) -> Any:
    """A copy without what belongs to one run or one machine: callbacks, and folders of caches; steps likewise."""
    if not isinstance(model, BaseEstimator):
        return model  # "passthrough"
    model = copy.copy(model)
    vars(model).pop("_skl_callbacks", None)
    for name in ("callback", "memory"):
        if hasattr(model, name):
            setattr(model, name, None)
    for name in ("steps", "transformer_list"):
        if hasattr(model, name):
            setattr(model, name, [(label, _portable(step)) for label, step in getattr(model, name)])
    return model


def _check_fitted(model: Any) -> None:
    """Every step of a pipeline, of which scikit-learn looks at the last."""
    for _, step in getattr(model, "steps", ()):
        if isinstance(step, BaseEstimator):
            _check_fitted(step)
    check_is_fitted(model)


def _names_of(kinds: Iterable[type]) -> list[str]:
    """What skops calls the types that are trusted."""
    return [*_HELD, *(f"{kind.__module__}.{kind.__qualname__}" for kind in (*kinds, *_kin()))]


def _strangers(path: pathlib.Path, names: list[str]) -> list[str]:
    """Types in a file that are not among those named."""
    return sorted(set(skops_io().get_untrusted_types(file=path)) - set(names))


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
        Priors, criteria, views or steps of your own that the model uses. The library's and scikit-learn's types,
        numbers and arrays are known; a file with any other is refused.

    Returns
    -------
    ModelFile

    Raises
    ------
    ModelFileError
        If the file is foreign or damaged.

    """
    skops, path = skops_io(), pathlib.Path(path)
    if path.is_dir():
        raise FileNotFoundError(
            f"{path} is a folder, no model file; where a command takes both, the model comes before the samples."
        )
    if not path.is_file():
        raise FileNotFoundError(f"There is no model file {path}.")
    names = _names_of((*TRUSTED, *trusted))
    try:
        strangers = _strangers(path, names)
        content = None if strangers else skops.load(path, trusted=names)
        _make_sound(content)
    except Exception as error:  # whatever a damaged file provokes
        if path.suffix.lower() in (".npz", ".npy", ".csv", ".parquet"):
            raise ModelFileError(f"{path} holds samples, no model: the model comes first, then the samples.") from error
        raise ModelFileError(
            f"{path} is not a SparLow model, or it is damaged ({_brief(error)}). Models are written by sparlow.save "
            "and by the commands sparlow fit and sparlow features --save."
        ) from error
    if strangers:
        raise ModelFileError(
            f"{path} holds types that are not SparLow's: {', '.join(strangers)}. If they are priors, criteria, "
            "views or steps of your own, name them: load_model(path, trusted=[...])."
        )
    return _checked(content, path)


def _kin() -> tuple[type, ...]:
    """The steps from pictures to rows with what they hold, and the rivals."""
    from . import images, rivals
    from .images.coders import CODERS

    found = [getattr(room, name) for room in (images, rivals) for name in room.__all__]
    return *(kind for kind in found if isinstance(kind, type) and issubclass(kind, BaseEstimator)), *CODERS


def _make_sound(part: Any) -> None:
    """Let no indices from a file lead a compiled loop astray: sparse matrices are checked, trees grown anew."""
    if isinstance(part, (list, tuple, dict)):
        for item in part.values() if isinstance(part, dict) else part:
            _make_sound(item)
    elif sp.issparse(part) and part.format in ("csr", "csc"):
        part.check_format(full_check=True)
    elif hasattr(part, "__dict__") and not isinstance(part, type):
        if isinstance(part, SparLow):
            part.views = getattr(part, "views", None)  # a file from before there were any
        tree = vars(part).get("_tree")
        if isinstance(tree, (KDTree, BallTree)):
            options = part.effective_metric_params_ or {}
            part._tree = type(tree)(part._fit_X, part.leaf_size, metric=part.effective_metric_, **options)
        _make_sound(vars(part))


def _checked(content: Any, path: pathlib.Path) -> ModelFile:
    found = content.get("format") if isinstance(content, dict) else None
    if found != FORMAT:
        what = f"its format is {found!r}, expected {FORMAT!r}" if found else "it holds something else"
        raise ModelFileError(f"{path} is not a model file that this version of SparLow reads: {what}.")
    parts = [part.name for part in dataclasses.fields(ModelFile)]
    try:
        held = ModelFile(**{name: content[name] for name in parts})
        _check_fitted(held.model)
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
