"""Label-consistent K-SVD (Jiang, Lin and Davis 2013)."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.preprocessing import normalize
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from ..dictionaries import class_union, ksvd, omp

Array = NDArray[Any]


class LCKSVD(ClassifierMixin, BaseEstimator):
    """A dictionary whose codes are alike within a class, with a linear classifier of the codes (LC-KSVD2).

        min ‖X − ΦD‖² + α ‖Q − ΦA‖² + β ‖H − ΦW‖²,   at most k nonzero codes per sample,

    Q (n, r) marks the atoms of each sample's class, H (n, c) its class. It is K-SVD of the rows [X, √α Q, √β H], begun
    with a dictionary for each class and with A and W by ridge regression. New samples: the largest entry of φW, where W
    is learned anew, by ridge regression on codes that do not know the labels, as those of new samples do not. The W of
    the joint problem, which the paper takes, is less accurate: on faces by 1 to 15 points, for weights α, β of 0.001 to
    240.

    Parameters
    ----------
    n_atoms : int, optional
        By default ten for each class.
    n_nonzero : int, default=20
        k.
    alpha, beta : float
        Weights of the two terms, relative to samples of unit norm; Q and H have rows of unit norm.
    max_iter : int, default=10
        Iterations of K-SVD.
    random_state : int or RandomState, optional
        For the first dictionary.
    n_jobs : int, optional
        Threads.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Class labels.
    dictionary_ : array of shape (n_atoms, n_features)
        D.
    classifier_ : array of shape (n_atoms, n_classes)
        W.
    n_features_in_ : int
        Number of features.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sparlow.classifiers import LCKSVD
    >>> X, y = load_digits(return_X_y=True)
    >>> LCKSVD(max_iter=3, random_state=0).fit(X[:900], y[:900]).score(X[900:], y[900:]) > 0.85
    True

    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_atoms": [Interval(Integral, 1, None, closed="left"), None],
        "n_nonzero": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "beta": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        n_atoms: int | None = None,
        *,
        n_nonzero: int = 20,
        alpha: float = 0.1,
        beta: float = 0.1,
        max_iter: int = 10,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_atoms = n_atoms
        self.n_nonzero = n_nonzero
        self.alpha = alpha
        self.beta = beta
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> LCKSVD:
        """Learn dictionary and classifier.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples, which are scaled to unit norm.
        y : array of shape (n_samples,)
            Labels.

        Returns
        -------
        self : LCKSVD

        """
        X, y = validate_data(self, X, y, dtype=float)
        X, rng = normalize(X), check_random_state(self.random_state)
        self.classes_ = np.unique(y)
        n_atoms = 10 * len(self.classes_) if self.n_atoms is None else self.n_atoms
        D, atom_classes = class_union(X, y, n_atoms, ksvd, random_state=rng, n_jobs=self.n_jobs)
        Q = normalize((y[:, None] == atom_classes).astype(float))
        H = (y[:, None] == self.classes_).astype(float)
        targets = np.hstack([np.sqrt(self.alpha) * Q, np.sqrt(self.beta) * H])
        start = np.hstack([D, self._regression(X, D, targets)])
        learned = ksvd(
            np.hstack([X, targets]),
            n_atoms,
            n_nonzero=self.n_nonzero,
            n_iter=self.max_iter,
            start=start,
            random_state=rng,
            n_jobs=self.n_jobs,
        )
        # an atom of which the samples' part is nothing cannot be used by new samples
        norms = np.linalg.norm(learned[:, : X.shape[1]], axis=1, keepdims=True)
        used = norms[:, 0] > 1e-6
        self.dictionary_ = learned[used, : X.shape[1]] / norms[used]
        self.classifier_ = self._regression(X, self.dictionary_, H)
        return self

    def _regression(self, X: Array, D: Array, targets: Array) -> Array:
        """Ridge regression of the targets on the codes, (ΦᵀΦ + I)⁻¹ΦᵀT."""
        codes = omp(X, D, self.n_nonzero, n_jobs=self.n_jobs)
        return np.linalg.solve((codes.T @ codes).toarray() + np.eye(len(D)), np.asarray(codes.T @ targets))

    def predict(self, X: Any) -> Array:
        """The class of the largest entry of φW.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        y : array of shape (n_samples,)

        """
        check_is_fitted(self)
        X = normalize(validate_data(self, X, dtype=float, reset=False))
        codes = omp(X, self.dictionary_, self.n_nonzero, n_jobs=self.n_jobs)
        return self.classes_[np.argmax(codes @ self.classifier_, axis=1)]
