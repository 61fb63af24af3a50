"""scikit-learn's methods where they need a hand: unlabelled samples, and parameters on the scale of the data."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.decomposition import PCA, KernelPCA, SparsePCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import train_test_split
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.utils import check_array, check_X_y
from threadpoolctl import threadpool_limits

Array = NDArray[Any]


def _varied(X: Array, y: Any = None) -> tuple[Array, Any]:
    """Return the samples and labels, or raise ValueError where all samples are the same."""
    if not np.ptp(X, axis=0).any():
        raise ValueError(f"All {len(X)} samples are the same: there is nothing to learn from them.")
    return X, y


class LabelledLDA(LinearDiscriminantAnalysis):
    """LDA that leaves unlabelled samples (−1) out."""

    def fit(self, X: Array, y: Array) -> LabelledLDA:
        """Fit on the labelled samples."""
        X, y = _varied(*check_X_y(X, y))
        return super().fit(X[y != -1], y[y != -1])


class DecidingLDA(ClassifierMixin, BaseEstimator):
    """LDA that only classifies, by its own decision."""

    def __init__(self, shrinkage: float = 0.1) -> None:
        self.shrinkage = shrinkage

    def fit(self, X: Array, y: Array) -> DecidingLDA:
        """Fit on the labelled samples."""
        self.model_ = LabelledLDA(solver="eigen", shrinkage=self.shrinkage).fit(X, y)
        return self

    def predict(self, X: Array) -> Array:
        """Return the class of the nearest mean."""
        return np.asarray(self.model_.predict(X))


class ReducedNCA(NeighborhoodComponentsAnalysis):
    """NCA on 50 principal components of at most 3000 samples: its cost is quadratic in n.

    Its softmax has no temperature, so scale matters: samples are multiplied by ten, which serves unit-norm images best
    of 1, 10 and 30.
    """

    def fit(self, X: Array, y: Array) -> ReducedNCA:
        """Fit the principal components, then NCA."""
        X, y = _varied(*check_X_y(X, y))
        self.pca_ = PCA(min(50, *X.shape), random_state=0).fit(X)
        if len(y) > 3000:
            X, _, y, _ = train_test_split(X, y, train_size=3000, stratify=y, random_state=0)
        return super().fit(10 * self.pca_.transform(X), y)

    def transform(self, X: Array) -> Array:
        """Map the principal components."""
        return super().transform(10 * self.pca_.transform(X))


class GaussianKernelPCA(KernelPCA):
    """Kernel PCA with exp(−‖x − x′‖² / (width · s)), s the mean squared distance of two samples."""

    def __init__(self, n_components: int = 50, width: float = 1.0) -> None:
        super().__init__(n_components, kernel="rbf", eigen_solver="arpack", random_state=0)
        self.width = width

    def fit(self, X: Array, y: Any = None) -> GaussianKernelPCA:
        """Fit with the kernel's width from the samples."""
        X, _ = _varied(check_array(X))
        self.gamma = 1 / (self.width * 2 * float(np.var(X, axis=0).sum()))
        return super().fit(X)


class ScaledSparsePCA(SparsePCA):
    """Sparse PCA with alpha = sparsity · √n: the components it penalises grow with √n."""

    def __init__(self, n_components: int = 20, sparsity: float = 0.005, max_iter: int = 20) -> None:
        super().__init__(n_components, method="cd", max_iter=max_iter, random_state=0)
        self.sparsity = sparsity

    def fit(self, X: Array, y: Any = None) -> ScaledSparsePCA:
        """Fit with the penalty for so many samples."""
        X, _ = _varied(check_array(X))
        self.alpha = self.sparsity * np.sqrt(len(X))
        with threadpool_limits(1):  # hundreds of small problems: threads would wait for each other
            return super().fit(X)
