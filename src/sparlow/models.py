"""Save models in files and load them; skops reads and writes them, so loading never runs code from a file.

A file holds a fitted estimator or pipeline and, beside it, what the command line and the page need to know: the shape
of the images, the labels of the training samples, the names of the features, where the samples came from.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import importlib.metadata
import math
import numbers
import os
import pathlib
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import BallTree, KDTree
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from .checks import Array, warn
from .constants import VOTERS
from .criteria import CRITERIA, Criterion
from .estimators import DictionaryLearner, SparLow, TraceQuotient
from .files import TooLargeError, check_zip, replacing
from .labels import Labels
from .printed import Printed
from .priors import ElasticNet, KLDivergence, Prior
from .solvers import EarlyStopping, Solver
from .views import Patches, Shifts, Views
from .voting import Memberships, Rule, Voters, drawn

VERSION = importlib.metadata.version("sparlow")
FORMAT = "sparlow model 3"
ESTIMATORS = (SparLow, TraceQuotient, DictionaryLearner, Pipeline)
_SAVABLE = "one of SparLow, TraceQuotient, DictionaryLearner, a classifier or step of sparlow, or a Pipeline"
TRUSTED = (
    *ESTIMATORS,
    Labels,
    ElasticNet,
    KLDivergence,
    Shifts,
    Patches,
    Solver,
    EarlyStopping,
    Rule,
    Voters,
    Memberships,
    *dict.fromkeys(CRITERIA.values()),
    Printed,
)
# what scikit-learn's estimators hold and skops leaves to its callers
_HELD = (
    "numpy.dtype",
    "scipy.sparse._csr.csr_array",
    "sklearn.metrics._dist_metrics.EuclideanDistance32",
    "sklearn.metrics._dist_metrics.EuclideanDistance64",
    "sklearn.neighbors._kd_tree.KDTree",
    "sklearn.neighbors._ball_tree.BallTree",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.compose._column_transformer.make_column_selector",
    "sklearn.feature_selection._univariate_selection.f_classif",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "sklearn.utils._bunch.Bunch",
)
# the shapes of fitted arrays; a letter is one number throughout a model: n samples, m features, r atoms, l components
_SHAPES: dict[type, dict[str, str]] = {
    TraceQuotient: {"projection_": "ml", "components_": "lm", "embedding_": "nl", "mean_": "m"},
    DictionaryLearner: {"dictionary_": "rm", "components_": "rm"},
}
_COUNTS = {"n_features_in_": "m", "n_atoms_": "r", "n_components_": "l"}
_DIGEST = "sparlow.blake2b"  # the member of a file with the digest of all others


class ModelFileError(ValueError):
    """A file that is not a model of this library, or a damaged one."""


@dataclass(frozen=True)
class ModelFile:
    """What a model file holds.

    Parameters
    ----------
    model : estimator or Pipeline
        Fitted.
    image_shape : (int, int) or (int, int, 3), optional
        Height and width, if the samples are images; a third number if they have colours.
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
    image_shape: tuple[int, ...] | None = None
    labels: Array | None = None
    feature_names: tuple[str, ...] | None = None
    data: dict[str, Any] = field(default_factory=dict)
    version: str = ""

    def training_labels(self) -> Array | None:
        """Return a label for each row of ``embedding_``, −1 where it has none; None if labels are not known."""
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


def skops_io() -> Any:
    """Return the library that model files are written with."""
    try:
        import skops.io
    except ImportError as error:
        raise ImportError("Model files need skops: pip install 'sparlow[cli]'") from error
    return skops.io


def save(model: Any, path: str | os.PathLike[str], *, training: bool = False) -> None:
    """Save a fitted model.

    The file is written under another name first, so an earlier one stays until the new one is complete. It holds a
    digest, by which :func:`load` notices altered numbers. Callbacks are left out, as they are code, and so are folders
    of caches (``memory``).

    Parameters
    ----------
    model : estimator, Pipeline or ModelFile
        A fitted estimator of the library, also those of ``sparlow.classifiers`` and ``sparlow.images``. Steps of a
        pipeline are these and most of scikit-learn's; a warning names those that :func:`load` must be told to trust.
    path : path
        The file to write; ``.sparlow`` is the usual ending.
    training : bool, default=False
        Keep the embedding of all training samples. Otherwise the file holds that of at most about 2048, drawn evenly
        from the classes; ``predict`` does not need them.

    Notes
    -----
    Matrices are kept in single precision.

    """
    held = model if isinstance(model, ModelFile) else ModelFile(model)
    if not _is_savable(held.model):
        best = " Save its best_estimator_." if hasattr(held.model, "best_estimator_") else ""
        raise TypeError(f"model must be {_SAVABLE}, got {type(held.model).__name__}.{best}")
    _check_fitted(held.model)
    if not training:
        held = _with_few(held)
    held = dataclasses.replace(held, model=_portable(held.model), version=VERSION)
    content = {"format": FORMAT, **{part.name: getattr(held, part.name) for part in dataclasses.fields(held)}}
    path = pathlib.Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {path.parent} to save {path.name} in: make it first.")
    with replacing(path) as unfinished:
        skops_io().dump(content, unfinished, compression=zipfile.ZIP_DEFLATED)
        _sign(unfinished)
        untrusted = _untrusted_types(unfinished, _names_of(TRUSTED))
    if untrusted:
        warn(f"{path} holds types that load must be told to trust, by trusted=[...]: {', '.join(untrusted)}.")


def _with_few(held: ModelFile) -> ModelFile:
    """Return a model file with the embedding of a few training samples, and what is known of these."""
    step, n = _projector_in(held.model), 0
    if step is None or (n := len(step.embedding_)) <= VOTERS:
        return held
    rows = drawn(step._training.y if held.labels is None or len(held.labels) != n else held.labels, n)
    labels = held.labels[rows] if held.labels is not None and len(held.labels) == n else held.labels
    names = held.data.get("names", range(n))
    data = {**held.data, "names": [names[row] for row in rows.tolist()]} if held.data else held.data
    return dataclasses.replace(
        held, model=_replaced(held.model, step, step.with_training(rows)), labels=labels, data=data
    )


def _projector_in(model: Any) -> Any:
    """Return the estimator of embeddings in a model or a pipeline, None where there is none."""
    if isinstance(model, (SparLow, TraceQuotient)):
        return model
    found = (_projector_in(step) for _, step in getattr(model, "steps", ()))
    return next((step for step in found if step is not None), None)


def _replaced(model: Any, step: Any, other: Any) -> Any:
    """Return a model with one of its steps replaced."""
    if model is step:
        return other
    if hasattr(model, "steps"):
        model = copy.copy(model)
        model.steps = [(name, _replaced(part, step, other)) for name, part in model.steps]
    return model


def _portable(model: Any) -> Any:
    """Return a copy without what belongs to one run or machine: callbacks, streams, caches and files; of steps too.

    Fitted matrices of the library are rounded to single precision.
    """
    if not isinstance(model, BaseEstimator):
        return model  # "passthrough"
    model = copy.copy(model)
    if type(model).__module__.partition(".")[0] == __package__:
        for name, value in vars(model).items():
            if name[0] == "_" or name[-1] == "_":
                vars(model)[name] = _rounded(value)
    for name in ("_skl_callbacks", "_stream"):
        vars(model).pop(name, None)
    if isinstance(getattr(model, "solver", None), Solver):
        model.solver = dataclasses.replace(model.solver, checkpoint=None)
    for name in ("callback", "memory"):
        if hasattr(model, name):
            setattr(model, name, None)
    for name in ("steps", "transformer_list"):
        if hasattr(model, name):
            setattr(model, name, [(label, _portable(step)) for label, step in getattr(model, name)])
    return model


def _rounded(value: Any) -> Any:
    """Return a matrix of doubles, or the voters of a model, in single precision; anything else as it is."""
    if isinstance(value, Voters):
        return dataclasses.replace(value, points=_rounded(value.points), means=_rounded(value.means))
    if isinstance(value, Memberships):
        return Memberships(_rounded(value.points), _rounded(value.shares))
    doubles = isinstance(value, np.ndarray) and value.dtype == np.float64 and value.ndim > 1
    return value.astype(np.float32) if doubles else value


def _check_fitted(model: Any) -> None:
    """Check every step of a pipeline; scikit-learn looks at the last only."""
    for _, step in getattr(model, "steps", ()):
        if isinstance(step, BaseEstimator):
            _check_fitted(step)
    check_is_fitted(model)


def _names_of(kinds: Iterable[type | str]) -> list[str]:
    """Return what skops calls the types that are trusted."""
    names = list(_HELD)
    for kind in (*kinds, *_estimators_of_the_library()):
        if not isinstance(kind, (type, str)):
            raise TypeError(f"trusted takes types, or their names such as 'numpy.dtype', got {kind!r}.")
        names.append(kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}")
    return names


def _untrusted_types(path: pathlib.Path, names: list[str]) -> list[str]:
    """Return the types in a file that are not among those named."""
    return sorted(set(skops_io().get_untrusted_types(file=path)) - set(names))


def _digest(file: zipfile.ZipFile) -> str:
    """Return the digest of the names and contents of all members but the digest itself."""
    digest = hashlib.blake2b(digest_size=32)
    for name in sorted(file.namelist()):
        if name != _DIGEST:
            digest.update(f"{len(name)} {name} {file.getinfo(name).file_size} ".encode())
            with file.open(name) as member:
                while chunk := member.read(1 << 20):
                    digest.update(chunk)
    return digest.hexdigest()


def _sign(path: pathlib.Path) -> None:
    """Add the digest to a new file."""
    with zipfile.ZipFile(path, "a") as file:
        file.writestr(_DIGEST, _digest(file))


def _verify(path: pathlib.Path) -> None:
    """Refuse a file whose contents are not those that were saved."""
    with zipfile.ZipFile(path) as file:
        if _DIGEST not in file.namelist():
            raise ValueError("it has no digest, so another program or an earlier version wrote it")
        if file.read(_DIGEST).decode("ascii", "replace") != _digest(file):
            raise ValueError("its contents differ from its digest: it was altered after it was saved")


def load(path: str | os.PathLike[str], *, trusted: Iterable[type | str] = (), max_bytes: int | None = None) -> Any:
    """Return the fitted model in a file. No code from the file is run.

    Parameters
    ----------
    path : path
        A file that :func:`save` wrote.
    trusted : iterable of types or of their names
        Priors, criteria, views or steps of your own that the model uses, as types or as names such as
        ``"numpy.dtype"``. The library's types, most of scikit-learn's, numbers and arrays are known; a file with any
        other type is refused.
    max_bytes : int, optional
        By how much the file may grow when it is unpacked: by default the environment variable ``SPARLOW_MAX_BYTES``,
        or 1 GB.

    Returns
    -------
    model : estimator or Pipeline

    Raises
    ------
    ModelFileError
        If the file is foreign, damaged, altered or too large, or holds numbers that the model could not use.

    """
    return load_file(path, trusted=trusted, max_bytes=max_bytes).model


def load_file(
    path: str | os.PathLike[str], *, trusted: Iterable[type | str] = (), max_bytes: int | None = None
) -> ModelFile:
    """Return the model in a file and what was saved beside it; see :func:`load`."""
    skops, path = skops_io(), pathlib.Path(path)
    if path.is_dir():
        raise FileNotFoundError(
            f"{path} is a folder, no model file; where a command takes both, the model comes before the samples."
        )
    if not path.is_file():
        raise FileNotFoundError(f"There is no model file {path}.")
    names = _names_of((*TRUSTED, *trusted))
    try:
        check_zip(path, max_bytes)
        _verify(path)
        untrusted = _untrusted_types(path, names)
        content = None if untrusted else skops.load(path, trusted=names)
        _make_sound(content)
    except TooLargeError as error:
        raise ModelFileError(f"{error} In Python: load(path, max_bytes=...).") from error
    except Exception as error:  # whatever a damaged file provokes
        if path.suffix.lower() in (".npz", ".npy", ".csv", ".parquet"):
            raise ModelFileError(
                f"{path} holds samples; a model file was expected. Usage: sparlow COMMAND MODEL DATA."
            ) from error
        raise ModelFileError(
            f"{path} is not a SparLow model, or it is damaged ({_brief(error)}). Models are written by sparlow.save "
            "and by the commands sparlow fit and sparlow features --save."
        ) from error
    if untrusted:
        raise ModelFileError(
            f"{path} holds types that are not SparLow's: {', '.join(untrusted)}. If they are priors, criteria, "
            "views or steps of your own, name them: load(path, trusted=[...])."
        )
    return _checked(content, path)


def _estimators_of_the_library() -> tuple[type, ...]:
    """Return the steps from pictures to rows with what they hold, and the classifiers."""
    from . import classifiers, images
    from .images.coders import CODERS, Templates

    found = [getattr(room, name) for room in (images, classifiers) for name in room.__all__]
    return (
        *(kind for kind in found if isinstance(kind, type) and issubclass(kind, BaseEstimator)),
        *CODERS.values(),
        Templates,
    )


def _is_savable(model: Any) -> bool:
    """Return whether a file may hold a model: an estimator of the library, or a pipeline."""
    return isinstance(model, BaseEstimator) and isinstance(model, (*ESTIMATORS, *_estimators_of_the_library()))


def _make_sound(part: Any) -> None:
    """Refuse numbers from a file that would lead a compiled loop astray; search trees are grown anew."""
    if isinstance(part, (list, tuple, dict)):
        for item in part.values() if isinstance(part, dict) else part:
            _make_sound(item)
    elif sp.issparse(part) and part.format in ("csr", "csc"):
        part.check_format(full_check=True)
    elif hasattr(part, "__dict__") and not isinstance(part, type):
        tree = vars(part).get("_tree")
        if isinstance(tree, (KDTree, BallTree)):
            options = part.effective_metric_params_ or {}
            part._tree = type(tree)(part._fit_X, part.leaf_size, metric=part.effective_metric_, **options)
        _make_sound(vars(part))
        _check_part(part)


def _check_part(part: Any) -> None:
    """Refuse an object whose numbers do not fit each other, or that names files to write to."""
    if isinstance(part, BaseEstimator) and getattr(part, "memory", None) is not None:
        raise ValueError("it names a folder to keep a cache in, which no saved model does")
    if isinstance(part, Solver) and part.checkpoint is not None:
        raise ValueError("it names a file for checkpoints, which no saved model does")
    if dataclasses.is_dataclass(part) and isinstance(part, (Prior, Criterion, Views)):
        dataclasses.replace(part)  # type: ignore[type-var]  # makes its own checks again
    if type(part).__module__.split(".")[0] == __name__.split(".")[0] and hasattr(part, "_parameter_constraints"):
        part._validate_params()
    if hasattr(part, "_check_sound") and not (isinstance(part, SparLow) and not hasattr(part, "dictionary_")):
        part._check_sound()
    for kind, shapes in _SHAPES.items():
        if isinstance(part, kind) and hasattr(part, "n_features_in_"):
            _check_shapes(part, shapes)


def _check_shapes(model: Any, shapes: dict[str, str]) -> None:
    """Refuse fitted arrays of other kinds or shapes than a fit gives."""
    sizes: dict[str, tuple[int, str]] = {}
    for name, letter in _COUNTS.items():
        count = getattr(model, name, None)
        if count is not None:
            if not isinstance(count, numbers.Integral) or isinstance(count, bool) or count < 1:
                raise ValueError(f"{name} must be a positive whole number, got {count!r}")
            sizes[letter] = int(count), name
    for name, letters in shapes.items():
        array = getattr(model, name, None)
        if array is None and name.startswith("_"):
            continue
        if not isinstance(array, np.ndarray) or array.dtype.char not in "fd" or array.ndim != len(letters):
            raise ValueError(f"{name} must be an array of floats with {len(letters)} dimensions")
        if not np.isfinite(array).all():
            raise ValueError(f"{name} holds numbers that are not finite")
        for size, letter in zip(array.shape, letters, strict=True):
            expected, other = sizes.setdefault(letter, (size, name))
            if size != expected:
                raise ValueError(f"{name} of shape {array.shape} does not fit {other}, which has {expected}")
    labels, classes = getattr(getattr(model, "_training", None), "y", None), getattr(model, "classes_", None)
    if labels is not None and classes is not None:
        whole = isinstance(labels, np.ndarray) and labels.dtype.kind == "i" and labels.ndim == 1
        if not whole or (len(labels) and not -1 <= labels.min() <= labels.max() < len(classes)):
            raise ValueError("the labels of the training samples must be whole numbers from -1 to the last class")


def _checked(content: Any, path: pathlib.Path) -> ModelFile:
    """Return what a model file holds, after a check of its format."""
    found = content.get("format") if isinstance(content, dict) else None
    if found != FORMAT:
        what = f"its format is {found!r}, expected {FORMAT!r}" if found else "it holds something else"
        raise ModelFileError(f"{path} is not a model file that this version of SparLow reads: {what}.")
    parts = [part.name for part in dataclasses.fields(ModelFile)]
    try:
        held = ModelFile(**{name: content[name] for name in parts})
        _check_fitted(held.model)
        _check_beside(held)
    except (KeyError, TypeError, ValueError, NotFittedError) as error:
        raise ModelFileError(f"{path} is damaged: {_brief(error)}.") from error
    if not _is_savable(held.model):
        raise ModelFileError(f"{path} holds a {type(held.model).__name__}, expected {_SAVABLE}.")
    return held


def _check_beside(held: ModelFile) -> None:
    """Refuse what stands beside a model and is not what commands expect."""
    shape, labels, names = held.image_shape, held.labels, held.feature_names
    if shape is not None:
        whole = isinstance(shape, tuple) and all(type(side) is int and side > 0 for side in shape)
        if not (whole and (len(shape) == 2 or shape[2:] == (3,))) or math.prod(shape) > 1 << 26:
            raise ValueError(f"image_shape must be height and width, or (height, width, 3), got {shape!r}")
    if labels is not None and not (isinstance(labels, np.ndarray) and labels.ndim in (1, 2)):
        raise ValueError("labels must be an array")
    if names is not None and not (isinstance(names, tuple) and all(isinstance(name, str) for name in names)):
        raise ValueError("feature_names must be words")
    if not isinstance(held.data, dict) or not isinstance(held.version, str):
        raise ValueError("data must be a dictionary, and version a word")


def _brief(error: Exception) -> str:
    """Return the first line of an error, for a message about a model file."""
    words = str(error).strip().splitlines()
    return f"{type(error).__name__}: {words[0][:160].rstrip('.')}" if words else type(error).__name__
