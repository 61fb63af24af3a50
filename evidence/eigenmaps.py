"""Laplacian eigenmaps (Belkin and Niyogi 2003) with an out-of-sample map (Bengio et al. 2004)."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import eigsh
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from sparlow.graphs import affinities
from sparlow.neighbours import neighbours

Array = NDArray[Any]


class LaplacianEigenmaps(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Embedding by the smoothest functions on the neighbour graph, Ly = μVy, V the degrees.

    scikit-learn's SpectralEmbedding has no map for new samples. Here it is the Nyström extension: with weights w to the
    k nearest training samples,

        y_j(x) = Σ_i w(x, x_i) y_ij / ((1 − μ_j) Σ_i w(x, x_i)),

    which reproduces y_ij at the training samples up to the symmetrisation of the graph.

    Parameters
    ----------
    n_components : int, default=20
        Dimension of the embedding.
    k : int, default=10
        Neighbours.
    n_jobs : int, optional
        Threads.

    Attributes
    ----------
    embedding_ : array of shape (n_samples, n_components)
        The training samples.
    eigenvalues_ : array of shape (n_components,)
        1 − μ.
    n_features_in_ : int
        Number of features.

    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "k": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
    }

    def __init__(self, n_components: int = 20, *, k: int = 10, n_jobs: int | None = None) -> None:
        self.n_components = n_components
        self.k = k
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> LaplacianEigenmaps:
        """Build the graph and find its smoothest functions.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples.
        y : None
            Ignored.

        Returns
        -------
        self : LaplacianEigenmaps

        """
        X = validate_data(self, X, dtype=float, ensure_min_samples=self.n_components + 3)
        if not np.ptp(X, axis=0).any():
            raise ValueError(f"All {len(X)} samples are the same: their neighbour graph says nothing.")
        self._X, k = X, min(self.k, len(X) - 1)
        self._bandwidth = max(float(np.mean(neighbours(X, k, n_jobs=self.n_jobs)[0] ** 2)), np.finfo(float).tiny)
        W = affinities(X, k, self._bandwidth, n_jobs=self.n_jobs)
        degrees = np.asarray(W.sum(axis=1)).ravel()
        scale = sp.diags_array(1 / np.sqrt(degrees))
        start = np.random.RandomState(0).uniform(-1, 1, len(X))
        values, vectors = eigsh(sp.csr_array(scale @ W @ scale), k=self.n_components + 1, which="LA", v0=start)
        order = np.argsort(-values)[1:]
        self.eigenvalues_ = values[order]
        Y = vectors[:, order] / np.sqrt(degrees)[:, None]
        self.embedding_ = Y / np.sqrt(np.mean(Y**2, axis=0))
        return self

    def transform(self, X: Any) -> Array:
        """Return the Nyström extension to new samples.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        embedding : array of shape (n_samples, n_components)

        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=float, reset=False)
        distances, indices = neighbours(self._X, min(self.k, len(self._X)), X, self.n_jobs)
        # relative to the nearest one: far from all samples every weight would vanish
        weights = np.exp((distances[:, :1] ** 2 - distances**2) / self._bandwidth)
        weights /= weights.sum(axis=1, keepdims=True)
        mean = np.einsum("ik,ikj->ij", weights, self.embedding_[indices])
        return np.asarray(mean / self.eigenvalues_)

    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Return the embedding of the training samples themselves.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples.
        y : None
            Ignored.

        Returns
        -------
        embedding : array of shape (n_samples, n_components)

        """
        return self.fit(X).embedding_

    @property
    def _n_features_out(self) -> int:
        return self.embedding_.shape[1]
