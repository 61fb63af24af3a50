"""What the classifiers share: checks of samples and labels, scores to classes, atoms and their regression."""

from __future__ import annotations

from abc import abstractmethod
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from ..checks import FLOATS, Array, validate_data
from ..constants import PASSES
from ..dictionaries import check_samples, class_union, distinct_rows, ksvd, samples, unit_samples
from ..labels import UNLABELLED, refuse_mixture
from ..parallel import one_blas_thread

COMMON: dict[str, list[Any]] = {
    "n_atoms": [Interval(Integral, 1, None, closed="left"), None],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "random_state": ["random_state"],
    "n_jobs": [Integral, None],
    "verbose": ["verbose"],
}


class DictionaryClassifier(ClassifierMixin, BaseEstimator):
    """Base of the classifiers: a subclass has parameters, ``_learn`` and ``_scores``.

    Samples are scaled to unit norm. float32 is kept. Every label is a class, −1 too.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = COMMON
    verbose: int

    @abstractmethod
    def _learn(self, X: Array, labels: Array) -> None:
        """Set the fitted attributes; X has unit norm, labels (n,) are places in ``classes_``."""

    @abstractmethod
    def _scores(self, X: Array) -> Array:
        """Return a score for each sample and class (n, c), larger for likelier classes; X has unit norm."""

    @_fit_context(prefer_skip_nested_validation=True)
    @one_blas_thread()
    def fit(self, X: Any, y: Any) -> DictionaryClassifier:
        """Learn from samples with labels.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples.
        y : array of shape (n_samples,)
            Labels.

        Returns
        -------
        self : DictionaryClassifier

        """
        self._learn(*self._training_samples(X, y))
        return self

    def decision_function(self, X: Any) -> Array:
        """Return the scores of the classes.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        scores : array of shape (n_samples, n_classes), or (n_samples,) for two classes
            The largest score is that of the predicted class. For two classes the score of the second less that of the
            first.

        """
        scores = self._scored(X)
        return np.asarray(scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores)

    def predict(self, X: Any) -> Array:
        """Return the class of the largest score.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        y : array of shape (n_samples,)

        """
        scores = self._scored(X)
        return np.asarray(self.classes_[np.argmax(scores, axis=1)])

    @one_blas_thread()
    def _scored(self, X: Any) -> Array:
        """Return the scores of samples that are not checked yet."""
        return self._scores(self._new_samples(X))

    def _training_samples(self, X: Any, y: Any) -> tuple[Array, Array]:
        """Return checked samples and the places of their labels in ``classes_``, which it sets; −1 for none."""
        refuse_mixture(y)
        X, y = validate_data(self, X, y, dtype=FLOATS, order="C")
        check_classification_targets(y)
        known = self._known(y)
        self.classes_, places = np.unique(y[known], return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"{type(self).__name__} needs samples of at least two classes, got 1 class.")
        labels = np.full(len(y), UNLABELLED)
        labels[known] = places
        return check_samples(self._scaled(X)), labels

    def _known(self, y: Array) -> Array:
        """Return which samples have a label."""
        return np.ones(len(y), bool)

    def _scaled(self, X: Array) -> Array:
        """Return samples as they are learned from."""
        return np.asarray(unit_samples(X))

    def _new_samples(self, X: Any) -> Array:
        """Return checked samples of unit norm."""
        check_is_fitted(self)
        return self._scaled(validate_data(self, X, dtype=FLOATS, order="C", reset=False))

    def _check_sound(self) -> None:
        """Refuse fitted arrays from a file that compiled loops could not use."""
        for name, array in vars(self).items():
            if isinstance(array, np.ndarray) and array.dtype.kind == "f" and not np.isfinite(array).all():
                raise ValueError(f"{name} of {type(self).__name__} holds numbers that are not finite")
        D = vars(self).get("dictionary_")
        if D is not None and (
            not isinstance(D, np.ndarray) or D.dtype.char not in "fd" or D.shape[-1:] != (self.n_features_in_,)
        ):
            raise ValueError(f"dictionary_ of {type(self).__name__} must have atoms of {self.n_features_in_} features")

    def _say(self, text: str) -> None:
        """Print a line of progress if the user asked for it."""
        if self.verbose:
            print(f"[{type(self).__name__}] {text}")


def atoms_for(n_atoms: int | None, X: Array, labels: Array, per_class: int = 10) -> int:
    """Return the number of atoms: the user's, or ``per_class`` for each class where it has so many samples."""
    if n_atoms is not None:
        return n_atoms
    return sum(min(per_class, max(1, len(distinct_rows(X[labels == c])))) for c in range(labels.max() + 1))


def first_dictionary(
    X: Array, labels: Array, n_atoms: int, random_state: Any, n_jobs: int | None
) -> tuple[Array, Array]:
    """Return a dictionary to learn from, and the class of each atom: K-SVD of each class, from random samples."""

    def learn(X: Array, n_atoms: int, random_state: Any) -> Array:
        start = samples(X, n_atoms, random_state=random_state)
        return ksvd(X, n_atoms, start=start, n_iter=PASSES)

    return class_union(X, labels, n_atoms, learn, random_state=random_state, n_jobs=n_jobs)


def one_hot(labels: Array, n_classes: int, dtype: Any) -> Array:
    """Return H (n, c), which marks the class of each sample."""
    return (labels[:, None] == np.arange(n_classes)).astype(dtype)


def ridge(codes: sp.csr_array, targets: Array, weight: float) -> Array:
    """Return W = (AᵀA + weight · I)⁻¹AᵀT, the ridge regression of targets on codes, in the precision of the codes."""
    gram = (codes.T @ codes).toarray().astype(np.float64)
    gram.flat[:: len(gram) + 1] += weight
    return np.linalg.solve(gram, np.asarray(codes.T @ targets, dtype=np.float64)).astype(codes.dtype)


def class_means(codes: Any, labels: Array) -> Array:
    """Return the mean code of each class (c, r)."""
    members = sp.csr_array((np.ones(len(labels)), labels, np.arange(len(labels) + 1))).T.tocsr()
    sums = members.astype(codes.dtype) @ codes
    dense = sums.toarray() if sp.issparse(sums) else sums
    return np.asarray(dense / np.bincount(labels)[:, None].astype(codes.dtype))
