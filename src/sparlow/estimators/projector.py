"""What the joint and the classical estimator share: components, embedding of targets, scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils import Tags, check_consistent_length, column_or_1d
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..criteria import Criterion, criterion_named
from ..dictionaries import labelled
from ..messages import warn
from .labels import Labels, check_labels, check_targets

Array = NDArray[Any]

FLOATS = [np.float64, np.float32]
_OF_CALLBACKS = ("_callback_fit_ctx", "_skl_callbacks_to_teardown")
OF_SOME_CRITERIA = ("classes_", "regression_", "transduction_")  # fitted attributes that not every fit has


def _regresses(model: Any) -> bool:
    """Whether the criterion is a regression, so that there is something to predict."""
    try:
        return criterion_named(model.criterion).targets
    except ValueError:
        return False


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


def r_squared(targets: Array, predicted: Array) -> float:
    """1 − the squared error of all targets together, relative to that of their means."""
    return float(1 - np.sum((targets - predicted) ** 2) / np.sum((targets - targets.mean(axis=0)) ** 2))


def _comparable(labels: Array, classes: Array) -> Array:
    """Labels as numbers where the classes are, as words where these are words."""
    numbers = classes.dtype.kind in "biuf"
    if (labels.dtype.kind in "biuf") == numbers:
        return labels
    return labels.astype(classes.dtype if numbers else classes.dtype.kind)


@contextmanager
def all_or_nothing(model: Any) -> Iterator[None]:
    """A fit that fails leaves the model as it was: not fitted, or as the last fit left it.

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


class Projector(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """A transformer X -> embedding (n, l) that maximises a trace quotient."""

    criterion: Any
    n_components: int | None

    def _check_components(self, criterion: Criterion, n_features: int, labels: Labels, what: str) -> int:
        """The number of components, chosen or checked against what the criterion can give."""
        if self.n_components is None:
            return criterion.usual_components(n_features, labels.bound)
        most = criterion.most_components(n_features, labels.bound)
        if self.n_components > most:
            because = f"classes - 1 = {most}" if most < n_features else f"the {n_features} {what}"
            raise ValueError(
                f"n_components={self.n_components} is more than {type(criterion).__name__} can give here, which is "
                f"{most} ({because}). Choose n_components={most} or less."
            )
        return int(self.n_components)

    def _labels(self, criterion: Criterion, X: Any, y: Any) -> Labels:
        return check_labels(criterion, X, y, type(self).__name__)

    def _remember(self, fitted: dict[str, Any]) -> None:
        """Set the fitted attributes; those that only some criteria have do not outlive the last fit."""
        for of_last_fit in OF_SOME_CRITERIA:
            self.__dict__.pop(of_last_fit, None)
        self.__dict__.update(fitted)

    def _memory(self, embedding: Array, plain: Array, labels: Labels) -> dict[str, Any]:
        """The training embedding, and the regression of the targets on the ``plain`` one where the criterion is one."""
        memory: dict[str, Any] = {"embedding_": embedding, "_training": labels}
        if labels.classes is not None:
            memory["classes_"] = labels.classes
        if not _regresses(self):
            return memory
        if labels.targets is not None:
            targets = labels.targets
        else:
            assert labels.y is not None
            assert labels.classes is not None
            targets = np.eye(len(labels.classes))[labels.y]
        known: Any = labels.known
        scale = float(np.var(plain[known], axis=0).sum()) * known.sum()
        ridge = Ridge(alpha=max(1e-3 * scale / plain.shape[1], 1e-12))
        return {**memory, "regression_": ridge.fit(plain[known].astype(float), targets[known])}

    @available_if(_regresses)
    def predict(self, X: Any) -> Array:
        """The ridge regression's targets, or the class whose indicator is largest; for mvr and smvr.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        y : array of shape (n_samples,) or (n_samples, n_targets)

        """
        check_is_fitted(self)
        values = np.asarray(self.regression_.predict(np.asarray(self._plain_embedding(X), float)))
        if self._training.targets is None:
            return self.classes_[np.argmax(values, axis=1)]
        return values.ravel() if self._training.targets.shape[1] == 1 else values

    @abstractmethod
    def _embedding_of(self, X: Any) -> Array:
        """:meth:`transform` as an array, whatever ``set_output`` says."""

    def _plain_embedding(self, X: Any) -> Array:
        """The embedding before it is centred and scaled."""
        return self._embedding_of(X)

    def score(self, X: Any, y: Any = None) -> float:
        """How good the embedding is on samples not seen before, so that searches over parameters can use it.

        With class labels: the accuracy of the nearest training sample in the embedding. With real targets: R² of
        the regression. Without labels: the criterion's quotient on X, without the shrinkage of its denominator, so that
        models of different ``shrinkage`` compare; on the training samples it is therefore larger than the quotient that
        was maximised. Unlabelled samples do not count.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Samples.
        y : array of shape (n_samples,), optional
            Their labels or targets.

        Returns
        -------
        score : float

        """
        check_is_fitted(self)
        known = self._training
        if known.y is None and known.targets is None:
            return self._quotient_on(X)
        if y is None:
            raise ValueError(
                f"score needs the labels y of the samples: the criterion {self.criterion!r} is supervised."
            )
        if known.targets is not None:
            targets = check_targets(y)
            rows = np.all(np.isfinite(targets), axis=1)
            return r_squared(targets[rows], np.asarray(self.predict(X)).reshape(targets.shape)[rows])
        assert known.y is not None
        rows = known.y >= 0
        search = KNeighborsClassifier(1).fit(self.embedding_[rows], self.classes_[known.y[rows]])
        new = column_or_1d(y)
        check_consistent_length(X, new)
        semi = criterion_named(self.criterion).supervision == "semi"
        told = labelled(new) if semi else np.ones(len(new), bool)
        if semi and new.dtype.kind == "f":
            told = told & ~np.isnan(new)
        if len(new) and not told.any():
            raise ValueError("score needs labels, but all samples in y are unlabelled (-1).")
        predicted = search.predict(self._embedding_of(X)[told])
        truth = _comparable(new[told], self.classes_)
        learned = {*self.classes_.tolist()}
        strange = [label for label in truth.tolist() if label not in learned]
        if strange:
            warn(
                f"{len(strange)} of {len(truth)} samples have a label that the model has not learned (first: "
                f"{strange[0]}) and count as wrong. In searches pass cv=StratifiedKFold(5, shuffle=True)."
            )
        return float(np.mean(predicted == truth))

    @abstractmethod
    def _quotient_on(self, X: Any) -> float:
        """The criterion's quotient on samples X, for criteria without labels."""

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        try:
            criterion = criterion_named(self.criterion)
        except ValueError:
            return tags
        tags.target_tags.required = criterion.supervision != "none"
        tags.target_tags.multi_output = criterion.targets
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
