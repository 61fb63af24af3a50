"""Classification by sparse representation (Wright, Yang, Ganesh, Sastry and Ma 2009)."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.preprocessing import normalize
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from ..coding import encode
from ..dictionaries import class_union, samples
from ..priors import ElasticNet

Array = NDArray[Any]


class SRC(ClassifierMixin, BaseEstimator):
    """The class whose atoms leave the smallest residual, min over c of ‖x − φ_c D_c‖.

    Atoms are training samples scaled to unit norm, and φ is the sparse code of x over the atoms of all classes.

    Parameters
    ----------
    n_atoms : int, optional
        So many random samples, the same number of each class; all by default.
    l1, l2 : float
        The elastic net of the codes.
    random_state : int or RandomState, optional
        Which samples.
    n_jobs : int, optional
        Threads.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Class labels.
    dictionary_ : array of shape (n_atoms, n_features)
        Atoms.
    atom_classes_ : array of shape (n_atoms,)
        Their classes.
    n_features_in_ : int
        Number of features.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sparlow.classifiers import SRC
    >>> X, y = load_digits(return_X_y=True)
    >>> SRC(random_state=0).fit(X[:900], y[:900]).score(X[900:], y[900:]) > 0.94
    True

    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_atoms": [Interval(Integral, 1, None, closed="left"), None],
        "l1": [Interval(Real, 0, None, closed="left")],
        "l2": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        n_atoms: int | None = None,
        *,
        l1: float = 0.01,
        l2: float = 1e-3,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_atoms = n_atoms
        self.l1 = l1
        self.l2 = l2
        self.random_state = random_state
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> SRC:
        """Keep the atoms.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples.
        y : array of shape (n_samples,)
            Labels.

        Returns
        -------
        self : SRC

        """
        X, y = validate_data(self, X, y, dtype=float)
        self.classes_ = np.unique(y)
        if self.n_atoms is None:
            self.dictionary_, self.atom_classes_ = normalize(X), y
        else:
            rng = check_random_state(self.random_state)
            self.dictionary_, self.atom_classes_ = class_union(X, y, self.n_atoms, samples, random_state=rng)
        return self

    def residuals(self, X: Any) -> Array:
        """‖x − φ_c D_c‖ for each class, of samples scaled to unit norm.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        residuals : array of shape (n_samples, n_classes)

        """
        check_is_fitted(self)
        X = normalize(validate_data(self, X, dtype=float, reset=False))
        codes = encode(X, self.dictionary_, ElasticNet(self.l1, self.l2), n_jobs=self.n_jobs)
        return class_residuals(X, codes, self.dictionary_, self.atom_classes_)

    def predict(self, X: Any) -> Array:
        """The class of the smallest residual.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        y : array of shape (n_samples,)

        """
        return self.classes_[np.argmin(self.residuals(X), axis=1)]


def class_residuals(X: Array, codes: sp.csr_array, D: Array, atom_classes: Array) -> Array:
    """‖x − φ_c D_c‖ (n, c), φ_c the codes over the atoms of class c, classes in ascending order."""
    columns, classes = codes.tocsc(), np.unique(atom_classes)
    blocks = [atom_classes == label for label in classes]
    return np.stack([np.linalg.norm(X - columns[:, own] @ D[own], axis=1) for own in blocks], axis=1)
