"""What estimators share: checks, predictions, scores, nested parameters, fitted attributes, data in parts."""

from __future__ import annotations

import copy
import dataclasses
import html
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics import r2_score
from sklearn.utils import ClassifierTags, Tags, check_consistent_length, column_or_1d
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from ..checks import Array, image_sides, refuse_unsound, warn
from ..criteria import CRITERIA, criterion_named
from ..labels import Labels, check_targets, is_labelled, without_na
from ..parallel import one_blas_thread
from ..rows import Local, Store, is_dask
from ..views import Bound, Patches, Shifts, views_named
from ..voting import Memberships, Voters

_OF_CALLBACKS = ("_callback_fit_ctx", "_skl_callbacks_to_teardown")
# fitted attributes that are not public
_HELD = ("_centre", "_coder", "_epsilon", "_mean_image", "_served", "_stream", "_training", "_views", "_voters",
         "_whitener")  # fmt: skip


def refuse_stacks(X: Any) -> None:
    """Say what to do with a stack of pictures (n, height, width)."""
    shape: tuple[int, ...] = getattr(X, "shape", ())
    if isinstance(X, (list, tuple)) and len(X) and np.ndim(X[0]) > 1:
        shape = (len(X), *np.shape(X[0]))
    if len(shape) > 2:
        raise ValueError(
            f"Found array with dim {len(shape)}, while dim <= 2 is required: X has shape {tuple(shape)}, but each "
            "picture should be a row. Use X.reshape(len(X), -1)."
        )


def _has_classes(model: Any) -> bool:
    """Return True where the model knows classes, or would if it were fitted with labels; the error says why not."""
    if hasattr(model, "embedding_") and not hasattr(model, "classes_"):
        given = "targets" if hasattr(model, "regression_") else "no labels"
        raise AttributeError(f"The model was fitted with {given}, so it has no classes. Fit it with labels: fit(X, y).")
    return True


def _predicts(model: Any) -> bool:
    """Return True where the model predicts classes or targets; the error says why not."""
    return hasattr(model, "regression_") or _has_classes(model)


@contextmanager
def all_or_nothing(model: Any) -> Iterator[None]:
    """Leave the model as it was where a fit fails: not fitted, or as the last fit left it.

    What scikit-learn's callbacks have left in the model stays, for they are still to be ended by it.
    """
    before = dict(vars(model))
    try:
        yield
    except BaseException:
        under_way = {name: vars(model)[name] for name in _OF_CALLBACKS if name in vars(model)}
        model.__dict__.clear()
        model.__dict__.update(before | under_way)
        raise


class NestedParameters(BaseEstimator):
    """Parameters that are frozen dataclasses, whose fields can be searched: ``prior__l1``, ``criterion__k_within``."""

    _nested: ClassVar[tuple[str, ...]] = ("criterion", "prior", "views", "solver", "early_stopping")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Get the parameters of this estimator.

        Parameters
        ----------
        deep : bool, default=True
            Also those of prior, criterion, views and solver, as ``prior__l1`` for instance.

        Returns
        -------
        params : dict

        """
        params = super().get_params(deep)
        if deep:
            for name in self._nested:
                value = params.get(name)
                if dataclasses.is_dataclass(value):
                    params |= {
                        f"{name}__{field.name}": getattr(value, field.name) for field in dataclasses.fields(value)
                    }
        return params

    def set_params(self, **params: Any) -> Any:
        """Set the parameters of this estimator.

        Parameters
        ----------
        **params : dict
            Parameters; ``prior__l1=0.1`` replaces one field of the prior. A criterion given by name is replaced by its
            object.

        Returns
        -------
        self : estimator

        """
        inner: dict[str, dict[str, Any]] = {}
        for key in list(params):
            name, _, field = key.partition("__")
            if field and name in self._nested and name in self._get_param_names():
                inner.setdefault(name, {})[field] = params.pop(key)
        super().set_params(**params)
        for name, fields in inner.items():
            setattr(self, name, _replaced(name, self._whole(name), fields))
        return self

    def _validate_params(self) -> None:
        """Check the parameters. Names of criteria are small, classes of criteria are capital."""
        given = getattr(self, "criterion", None)
        if isinstance(given, str) and given not in CRITERIA and given.lower() in CRITERIA:
            kind = CRITERIA[given.lower()].__name__
            raise ValueError(
                f"There is no criterion {given!r}: write {given.lower()!r}, or an object such as {kind}()."
            )
        super()._validate_params()

    def _whole(self, name: str) -> Any:
        """Return a parameter as an object, where it may also be a name."""
        value = getattr(self, name)
        named = {"criterion": criterion_named, "views": views_named}
        return named[name](value) if name in named else value


def _replaced(name: str, value: Any, fields: dict[str, Any]) -> Any:
    """Return a prior, criterion or other part with some fields replaced."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        given = next(iter(fields))
        raise ValueError(f"{name}__{given} cannot be set: {name} is {value!r}. Set {name} to an object first.")
    known = [field.name for field in dataclasses.fields(value) if field.init]
    for field in fields:
        if field not in known:
            raise ValueError(f"Invalid parameter {field!r} of {name}={value!r}. Valid parameters are: {known!r}.")
    return dataclasses.replace(value, **fields)


class Projector(ClassNamePrefixFeaturesOutMixin, TransformerMixin, NestedParameters, ABC):
    """A transformer X -> embedding (n, l) that maximises a trace quotient, and a classifier or regressor on top."""

    criterion: Any
    n_components: int | None

    @abstractmethod
    def _embedding_of(self, X: Any) -> Array:
        """Return :meth:`transform` as an array, whatever ``set_output`` says."""

    def _forget(self) -> None:
        """Drop what an earlier fit has left, so that none of it is seen by callbacks or outlives it."""
        for name in [name for name in vars(self) if name in _HELD or (name.endswith("_") and name[0] != "_")]:
            del self.__dict__[name]

    def _remember(self, fitted: dict[str, Any]) -> None:
        """Set the fitted attributes."""
        self.__dict__.update(fitted)
        self._voters = self._elected()
        self.__dict__.pop("_rule", None)

    def _elected(self) -> Voters | Memberships | None:
        """Return the training samples that vote in predictions, none where there are no classes."""
        if self._training.y is None:
            return None
        if hasattr(self, "memberships_"):
            return Memberships.among(self.embedding_, self.memberships_)
        known = self._training.y >= 0
        return Voters.of(self.embedding_[known], self._training.y[known], self.__dict__.get("_rule"))

    def without_training(self) -> Any:
        """Return a copy without the embedding of the training samples and their labels: it transforms and predicts.

        Returns
        -------
        model : estimator

        """
        return self.with_training(np.zeros(0, int))

    def with_training(self, rows: Array) -> Any:
        """Return a copy with some rows of the embedding of the training samples, and their labels.

        Parameters
        ----------
        rows : array of shape (k,)
            Rows of ``embedding_``.

        Returns
        -------
        model : estimator

        """
        other = copy.copy(self)
        other.embedding_, other._training = self.embedding_[rows], self._training.take(rows)
        if hasattr(self, "memberships_"):
            other.memberships_ = self.memberships_[rows]
        return other

    @available_if(_predicts)
    def predict(self, X: Any) -> Array:
        """Predict the class of each sample, or its targets.

        Classes are those of the largest probability; see :meth:`predict_proba`. Real-valued
        targets, of mvr and smvr, come from a ridge regression on the embedding.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        y : array of shape (n_samples,) or (n_samples, n_targets)

        """
        if "_training" not in vars(self):
            check_is_fitted(self)
        if is_dask(X):
            return by_blocks(self.predict, X)
        if self._training.targets is None:
            return self.classes_[np.argmax(self.predict_proba(X), axis=1)]
        with one_blas_thread():
            values = np.asarray(self.regression_.predict(np.asarray(self._embedding_of(X), float)))
        return values.ravel() if self._training.targets.shape[1] == 1 else values

    @available_if(_has_classes)
    def predict_proba(self, X: Any) -> Array:
        """Predict the probability of each class.

        The 50 nearest training samples in the embedding vote with weights that fall with the distance, or with the
        angle, and so do the means of classes. How fast they fall is chosen by the log loss on held-out samples, or by
        leaving out one training sample at a time. Above 2048 training samples so many means of neighbours vote, with
        their numbers: neither time nor memory grow with the samples. Where labels have spread to unlabelled samples,
        the ten nearest by angle vote with the shares of ``memberships_``.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        probabilities : array of shape (n_samples, n_classes)
            In the order of ``classes_``.

        """
        if "_voters" not in vars(self):
            check_is_fitted(self)
        voters = vars(self)["_voters"] if "_voters" in vars(self) else self._elected()
        if voters is None:
            raise ValueError("There are no classes to predict: fit was called without labels.")
        if is_dask(X):
            return by_blocks(self.predict_proba, X)
        Y = self._embedding_of(X)
        with one_blas_thread():
            return voters.probabilities(Y)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of :meth:`predict`, or R² for targets; unlabelled samples do not count.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Samples.
        y : array of shape (n_samples,) or (n_samples, n_targets)
            Their labels or targets.
        sample_weight : array of shape (n_samples,), optional
            How often each sample counts.

        Returns
        -------
        score : float

        """
        check_is_fitted(self)
        if y is None:
            raise ValueError("score needs the labels y of the samples. For the quotient on X use quotient(X).")
        y = without_na(as_array(y))
        refuse_unsound(y, "y")
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, np.zeros(len(y)), ensure_non_negative=True)
        if self._training.targets is not None:
            targets = check_targets(y)
            rows = np.all(np.isfinite(targets), axis=1)
            predicted = np.asarray(as_array(self.predict(X))).reshape(targets.shape)
            truth, predicted, weights = targets[rows], predicted[rows], None if weights is None else weights[rows]
            return float(r2_score(truth, predicted, sample_weight=weights, multioutput="variance_weighted"))
        new = column_or_1d(y)
        check_consistent_length(X, new)
        known = is_labelled(new) if criterion_named(self.criterion).supervision == "semi" else np.ones(len(new), bool)
        if len(new) and not known.any():
            raise ValueError("score needs labels, but all samples in y are unlabelled (-1).")
        predicted = as_array(self.predict(X))
        truth, learned = _comparable(new[known], self.classes_), {*self.classes_.tolist()}
        strange = [label for label in truth.tolist() if label not in learned]
        if strange:
            warn(
                f"{len(strange)} of {len(truth)} samples have a label that the model has not learned (first: "
                f"{strange[0]}) and count as wrong. In searches pass cv=StratifiedKFold(5, shuffle=True)."
            )
        return float(np.average(predicted[known] == truth, weights=None if weights is None else weights[known]))

    @property
    def _n_features_out(self) -> int:
        """Return the number of components, for names of output columns."""
        return int(self.embedding_.shape[1])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        try:
            criterion = criterion_named(self.criterion)
        except ValueError:
            return tags
        tags.target_tags.required = criterion.supervision != "none"
        tags.target_tags.multi_output = criterion.targets
        tags.classifier_tags = ClassifierTags()  # of predict_proba
        if criterion.supervision == "full" and not criterion.targets:  # −1 is no class of the others
            tags.estimator_type = "classifier"  # folds are stratified, and scorers take probabilities
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def classes_beside(labels: Labels, y: Any, n: int) -> dict[str, Any]:
    """Return labels given to an unsupervised fit as fitted attributes, where they are classes: for predictions."""
    if labels.bound is not None or y is None:
        return {}
    values = np.asarray(y)
    try:
        suitable = values.shape in ((n,), (n, 1)) and type_of_target(values) in ("binary", "multiclass")
    except (ValueError, TypeError):  # NaN, or a mixture of types
        suitable = False
    if not suitable:
        return {}
    classes, encoded = np.unique(values.ravel(), return_inverse=True)
    if len(classes) < 2:
        return {}
    return {"classes_": classes, "_training": Labels(encoded, classes)}


def _comparable(labels: Array, classes: Array) -> Array:
    """Return labels as numbers where the classes are, as words where these are words."""
    numbers = classes.dtype.kind in "biuf"
    if (labels.dtype.kind in "biuf") == numbers:
        return labels
    if not numbers:
        return labels.astype(classes.dtype.kind)
    try:
        return labels.astype(classes.dtype)
    except (ValueError, TypeError):  # words that are no numbers: other labels than those learned
        named = {str(label): label for label in classes.tolist()}
        return np.array([named.get(str(label), label) for label in labels.tolist()], dtype=object)


def _adapter() -> Any:
    """Return the module that speaks to Dask; nothing of Dask is imported before."""
    from .. import distributed

    return distributed


def store_of(X: Any, n_jobs: int | None) -> Store:
    """Return the store of samples that are read in parts."""
    return _adapter().Cluster.of(X) if is_dask(X) else Local(X, n_jobs)


def as_array(y: Any) -> Any:
    """Return labels in memory; one number for each sample is small beside the samples."""
    return _adapter().gathered(y) if is_dask(y) else y


def by_blocks(function: Callable[[Any], Any], X: Any) -> Any:
    """Return a function of rows as a dask array, computed where the rows are; (n, width) or (n,)."""
    return _adapter().by_blocks(function, X)


def in_parts(function: Callable[[Any], Array], X: Any) -> Array:
    """Return a function of rows, part by part: memory beyond input and result stays bounded."""
    out: Array | None = None
    store = Local(X)
    for rows in store.slices:
        part = function(store.read(rows))
        if out is None:
            out = np.empty((X.shape[0], *part.shape[1:]), part.dtype)
        out[rows] = part
    assert out is not None
    return out


def features_of(model: Any) -> str:
    """Return what the embedding of a fitted model is made from, in words."""
    codes, samples = model.weights_
    if not codes:
        return "samples alone, as their codes did not help"
    return "codes and samples" if samples else "codes"


def _sides(model: Any) -> str:
    """Return the sides of pictures that the views of a model take samples for, in words."""
    views = views_named(model.views)
    if not isinstance(views, (Patches, Shifts)):
        return ""
    try:
        height, width, channels = image_sides("", views.shape, model.n_features_in_)
    except ValueError:  # views that were set after the fit
        return ""
    return f", read as {height} × {width} pixels" + " in colours" * (channels > 1)


def table_of_numbers(model: Any) -> str:
    """Return the numbers of a fitted model as an HTML table."""
    held = model.__dict__.get("spectrum_", {"held_out": np.empty(0)})["held_out"]
    numbers = {
        "training samples": f"{len(model.embedding_)} of {model.n_features_in_} numbers{_sides(model)}",
        "atoms": f"{model.n_atoms_}",
        "components": f"{model.n_components_}",
        "prior": f"{model.prior_}",
        "embedding of": features_of(model),
        "joint steps": f"{model.best_iter_} of {model.n_iter_} made",
        "why it ended": model.stop_reason_,
        "held-out score": f"{held[np.isfinite(held)][-1]:.3f}" if np.isfinite(held).any() else "no part held out",
    }
    rows = "".join(f"<tr><th>{name}</th><td>{html.escape(said)}</td></tr>" for name, said in numbers.items())
    return f'<table class="sparlow-numbers"><tbody>{rows}</tbody></table>'


def check_attributes(model: Any) -> None:
    """Refuse fitted attributes that do not fit each other, as a damaged file may have them."""
    m = model.n_features_in_
    asked = views_named(model.views)
    views = Bound() if asked is None else asked.bound(m, True, model._epsilon, model._whitener)
    alpha, gamma = model.weights_
    width = (views.width(len(model.dictionary_)) if alpha else 0) + (m if gamma else 0)
    count, inner = len(model._centre), model.projection_.shape[1]
    shapes = {
        "dictionary_": (len(model.dictionary_), views.n_inputs(m)),
        "projection_": (width, inner),
        "components_": (count, m if views.whole else width),
        "embedding_": (len(model.embedding_), count),
        "_centre": (count,),
    }
    if hasattr(model, "memberships_"):
        shapes["memberships_"] = (len(model.embedding_), len(model.classes_))
    if model.forms_ is not None:
        shapes["forms_"] = (count, inner, inner)
    elif inner != count:
        raise ValueError(f"projection_ has {inner} columns, but the embedding has {count}.")
    for name, shape in shapes.items():
        array = getattr(model, name)
        if not isinstance(array, np.ndarray) or array.dtype.char not in "fd" or array.shape != shape:
            raise ValueError(f"{name} must be an array of floats of shape {shape}, got {np.shape(array)}.")
        if not np.isfinite(array).all():
            raise ValueError(f"{name} holds numbers that are not finite.")
    for name, number in (("n_atoms_", len(model.dictionary_)), ("n_components_", count)):
        if getattr(model, name) != number or isinstance(getattr(model, name), bool):
            raise ValueError(f"{name} must be {number}, got {getattr(model, name)!r}.")
    y, n_classes = model._training.y, len(getattr(model, "classes_", ()))
    if y is not None and (len(y) != len(model.embedding_) or y.min(initial=0) < -1 or y.max(initial=-1) >= n_classes):
        raise ValueError("The labels of the training samples do not fit the embedding or the classes.")
