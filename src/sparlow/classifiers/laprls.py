"""Laplacian regularised least squares (Belkin, Niyogi and Sindhwani 2006)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.utils._param_validation import Interval, StrOptions

from ..checks import Array, warn
from ..graphs import affinities, laplacian, neighbours
from ..labels import is_labelled, known_rows
from .base import COMMON, DictionaryClassifier, one_hot


@dataclass(eq=False, repr=False)
class LapRLS(DictionaryClassifier):
    """Classify by least squares that are smooth over a graph of neighbours.

    The function h minimises::

        Σ over labelled ‖T_i − h(x_i)‖²/l + γ_A‖h‖²_K + γ_I tr(HᵀLH)/n

    h is in the space of the kernel, H = h(X), T the centred indicators of the l labelled among n samples, and L the
    Laplacian of the neighbour graph of all samples, scaled to mean degree 1. The minimiser is h(x) = k(x, X) α with::

        (JK + γ_A l I + γ_I (l/n) LK) α = JT,   J marking the labelled samples.

    This is a semi-supervised method: the label −1 marks samples without a label. Only where a single class would be
    left, as for the labels −1 and +1, −1 is a class like any other, and a warning says so. The kernel matrix takes
    n² numbers. Samples are taken as they are, not scaled to unit norm.

    Parameters
    ----------
    kernel : {"rbf", "linear"}, default="rbf"
        The kernel; "rbf" is exp(−‖x − x′‖² / (2 (width · s)²)), s the median distance to the k-th neighbour.
    width : float, default=1.0
        See ``kernel``.
    gamma_A : float, default=1e-4
        γ_A.
    gamma_I : float, default=1.0
        γ_I.
    k : int, default=10
        Neighbours.
    n_jobs : int, optional
        Threads for the search of neighbours.
    verbose : int, default=0
        Print the numbers of labelled samples and of classes.

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

    References
    ----------
    M. Belkin, P. Niyogi, V. Sindhwani: Manifold regularization: a geometric framework for learning from labeled and
    unlabeled examples. Journal of Machine Learning Research 7, 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from sparlow.classifiers import LapRLS
    >>> X = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]])
    >>> LapRLS(k=2).fit(X, [0, -1, -1, 1, -1, -1]).predict(X)
    array([0, 0, 0, 1, 1, 1])

    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON,
        "kernel": [StrOptions({"rbf", "linear"})],
        "width": [Interval(Real, 0, None, closed="neither")],
        "gamma_A": [Interval(Real, 0, None, closed="neither")],
        "gamma_I": [Interval(Real, 0, None, closed="left")],
        "k": [Interval(Integral, 1, None, closed="left")],
    }

    kernel: str = "rbf"
    _: KW_ONLY
    width: float = 1.0
    gamma_A: float = 1e-4  # noqa: N815
    gamma_I: float = 1.0  # noqa: N815
    k: int = 10
    n_jobs: int | None = None
    verbose: int = 0

    def _known(self, y: Array) -> Array:
        known = known_rows(y)
        if known.all() and not is_labelled(y).all():
            warn("All labels but -1 are of one class: LapRLS takes -1 for a class here, not for unlabelled samples.")
        return known

    def _scaled(self, X: Array) -> Array:
        return X

    def _learn(self, X: Array, labels: Array) -> None:
        n, k, known = len(X), min(self.k, len(X) - 1), labels >= 0
        self._say(f"{known.sum()} of {n} samples labelled, {len(self.classes_)} classes")
        self._X = X
        far = self.width * float(np.median(neighbours(X, k, n_jobs=self.n_jobs)[0][:, -1]))
        self.gamma_ = 0.5 / max(far, 1e-12) ** 2
        K = self._kernel(X)
        T = one_hot(labels, len(self.classes_), X.dtype)
        self._mean = T[known].mean(axis=0)
        T[known] -= self._mean
        system = known[:, None] * K
        if self.gamma_I:
            smooth = laplacian(affinities(X, k, n_jobs=self.n_jobs))
            system += (self.gamma_I * known.sum() / n) * np.asarray(smooth @ K)
        system[np.diag_indices(n)] += self.gamma_A * known.sum()
        try:
            self.coef_ = np.linalg.solve(system.astype(np.float64), T).astype(X.dtype)
        except np.linalg.LinAlgError as error:
            raise ValueError(
                f"The system of LapRLS is singular: gamma_A={self.gamma_A:.3g} is too small for a kernel with entries "
                f"up to {np.abs(K).max():.3g}. Scale X, or make gamma_A larger."
            ) from error

    def _scores(self, X: Array) -> Array:
        return np.asarray(self._kernel(X) @ self.coef_ + self._mean)

    def _kernel(self, X: Array) -> Array:
        """Return the kernel of samples with the training samples."""
        return linear_kernel(X, self._X) if self.kernel == "linear" else rbf_kernel(X, self._X, gamma=self.gamma_)
