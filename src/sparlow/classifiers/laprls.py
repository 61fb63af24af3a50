"""Laplacian regularised least squares (Belkin, Niyogi and Sindhwani 2006)."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from ..graphs import affinities, laplacian, neighbours

Array = NDArray[Any]


class LapRLS(ClassifierMixin, BaseEstimator):
    """Ridge regression of class indicators that is smooth over the neighbour graph of all samples.

    Over functions h in the kernel's space, with T the centred indicators of the l labelled among n samples,

        min Σ over labelled ‖T_i − h(x_i)‖² / l + γ_A ‖h‖²_K + γ_I tr(HᵀLH) / n,   H = h(X),

    L the graph's Laplacian, scaled to mean degree 1. The minimiser is h(x) = k(x, X) α with

        (JK + γ_A l I + γ_I (l/n) LK) α = JT,   J marking the labelled samples.

    Parameters
    ----------
    kernel : {"rbf", "linear"}, default="rbf"
        The kernel; "rbf" is exp(−‖x − x′‖² / (2 (width · s)²)), s the median distance to the k-th neighbour.
    width : float, default=1.0
        See ``kernel``.
    ambient : float, default=1e-4
        γ_A.
    intrinsic : float, default=1.0
        γ_I.
    k : int, default=10
        Neighbours.
    n_jobs : int, optional
        Threads for the search of neighbours.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Class labels.
    coef_ : array of shape (n_samples, n_classes)
        α.
    gamma_ : float
        1 / (2 (width · s)²).
    n_features_in_ : int
        Number of features.

    Examples
    --------
    >>> import numpy as np
    >>> from sparlow.classifiers import LapRLS
    >>> X = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]])
    >>> LapRLS(k=2).fit(X, [0, -1, -1, 1, -1, -1]).predict(X)
    array([0, 0, 0, 1, 1, 1])

    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [StrOptions({"rbf", "linear"})],
        "width": [Interval(Real, 0, None, closed="neither")],
        "ambient": [Interval(Real, 0, None, closed="neither")],
        "intrinsic": [Interval(Real, 0, None, closed="left")],
        "k": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        kernel: str = "rbf",
        *,
        width: float = 1.0,
        ambient: float = 1e-4,
        intrinsic: float = 1.0,
        k: int = 10,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.width = width
        self.ambient = ambient
        self.intrinsic = intrinsic
        self.k = k
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> LapRLS:
        """Solve for α.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples.
        y : array of shape (n_samples,)
            Labels, −1 for unlabelled samples.

        Returns
        -------
        self : LapRLS

        """
        X, y = validate_data(self, X, y, dtype=float)
        known = y != -1
        self.classes_ = np.unique(y[known])
        if len(self.classes_) < 2:
            raise ValueError(f"LapRLS needs labels of at least two classes, got {len(self.classes_)}.")
        n, k = len(X), min(self.k, len(X) - 1)
        self._X = X
        self.gamma_ = (
            0.5 / max(self.width * float(np.median(neighbours(X, k, n_jobs=self.n_jobs)[0][:, -1])), 1e-12) ** 2
        )
        K = self._kernel(X)
        T = (y[:, None] == self.classes_) * known[:, None].astype(float)
        self._mean = T[known].mean(axis=0)
        T[known] -= self._mean
        system = known[:, None] * K
        if self.intrinsic:
            smooth = laplacian(affinities(X, k, n_jobs=self.n_jobs))
            system += (self.intrinsic * known.sum() / n) * np.asarray(smooth @ K)
        system[np.diag_indices(n)] += self.ambient * known.sum()
        self.coef_ = np.linalg.solve(system, T)
        return self

    def decision_function(self, X: Any) -> Array:
        """The regression h(x), a column for each class.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        values : array of shape (n_samples, n_classes)

        """
        check_is_fitted(self)
        return np.asarray(self._kernel(validate_data(self, X, dtype=float, reset=False)) @ self.coef_ + self._mean)

    def predict(self, X: Any) -> Array:
        """The class of the largest value.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        y : array of shape (n_samples,)

        """
        return self.classes_[np.argmax(self.decision_function(X), axis=1)]

    def _kernel(self, X: Array) -> Array:
        return linear_kernel(X, self._X) if self.kernel == "linear" else rbf_kernel(X, self._X, gamma=self.gamma_)
