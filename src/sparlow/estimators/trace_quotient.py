"""The classical methods: a trace quotient of the samples themselves."""

from __future__ import annotations

import dataclasses
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted

from ..checks import FLOATS, Array, check_array, validate_data
from ..constants import SHRINKAGE
from ..criteria import CRITERIA, Criterion, criterion_named
from ..criteria.base import bind_checked
from ..graphs import centring
from ..labels import check_labels, check_weights
from ..parallel import one_blas_thread
from ..rows import Rows
from ..tracequotient import best_projection, canonical, check_scatter
from .base import Projector, all_or_nothing, classes_beside, refuse_stacks
from .learning import n_components_of, regress, transduced

# With less of it, components that add less than the quotient itself give way to directions along which samples hardly
# differ at all.


@dataclass(eq=False, repr=False)
class TraceQuotient(Projector):
    """Reduce dimensions by a trace quotient of the samples themselves: max over UᵀU = I of tr(UᵀXᵀS_AXU)/tr(UᵀXᵀS_BXU).

    Directions along which all samples are equal (pixels that are always black) are left out of U where there are
    enough others: they add nothing to either trace, and would win over components that add less than the quotient.

    The same criteria as :class:`SparLow`, on the samples instead of their codes: "pca" is PCA, "lle" ONPP, "lap" OLPP,
    "lda" LDA with an orthogonal projection, "mfa" MFA, "mvr" ridge regression, "sda" SDA, "slap" SDE, "smvr" LapRLS.

    Parameters
    ----------
    criterion : str or Criterion, default="lda"
        A name, or an object with parameters such as ``MFA(k_within=5)``. By default tr(B)/m is added to the diagonal
        of B; ``LDA(shrinkage=0.1)`` adds a tenth of that.
    n_components : int, optional
        Dimension l of the embedding; by default what suits the criterion (classes − 1 where there are classes).
    n_jobs : int, optional
        Threads.

    Attributes
    ----------
    projection_ : array of shape (n_features, n_components)
        U, its columns sorted by what they add to the numerator.
    components_ : array of shape (n_components, n_features)
        Uᵀ.
    mean_ : array of shape (n_features,)
        Mean of the training samples, weighted where they are; subtracted before projecting.
    criterion_ : Criterion
        The criterion in use.
    quotient_ : float
        The value of the quotient, what shrinkage adds to its denominator included.
    embedding_ : array of shape (n_samples, n_components)
        The embedding of the training samples.
    classes_ : array of shape (n_classes,)
        Class labels, if there are any.
    transduction_, memberships_ : arrays of shape (n_samples,) and (n_samples, n_classes)
        As for :class:`SparLow`.
    regression_ : Ridge
        For mvr and smvr: the regression of the targets on the embedding.
    n_iter_ : int
        Eigenvalue problems solved.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : array of shape (n_features,)
        Their names, if X has column names.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sparlow import TraceQuotient
    >>> X, y = load_digits(return_X_y=True)
    >>> TraceQuotient("lda", n_components=9).fit(X[:900], y[:900]).score(X[900:], y[900:]) > 0.85
    True

    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "criterion": [StrOptions(set(CRITERIA)), Criterion],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "n_jobs": [Integral, None],
    }

    criterion: str | Criterion = "lda"
    n_components: int | None = None
    _: KW_ONLY
    n_jobs: int | None = None

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> TraceQuotient:
        """Find the projection.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Samples.
        y : array of shape (n_samples,) or (n_samples, n_targets), optional
            Labels, −1 for unlabelled samples if the criterion is semi-supervised; targets for mvr and smvr.
        sample_weight : array of shape (n_samples,), optional
            How often each sample counts in means and scatters, for lda, mvr and pca; only their ratios matter. The
            neighbours that vote in :meth:`predict` do not depend on it.

        Returns
        -------
        self : TraceQuotient

        """
        with all_or_nothing(self), one_blas_thread():
            self._forget()
            self._remember(self._fit(X, y, sample_weight))
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> dict[str, Any]:
        """Return the fitted attributes."""
        criterion = criterion_named(self.criterion)
        refuse_stacks(X)
        X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, order="C", ensure_min_samples=2)
        labels = check_weights(criterion, X, check_labels(criterion, X, y, type(self).__name__), sample_weight)
        count = n_components_of(criterion, self.n_components, X.shape[1], labels, "features")
        shrinkage = SHRINKAGE if criterion.shrinkage is None else criterion.shrinkage
        mean = Rows(X).weighted_mean(labels.weights).astype(X.dtype)
        quotient = bind_checked(criterion, X, labels, self.n_jobs)
        centred = X if hasattr(X, "toarray") else X - mean
        rows = Rows(centred, n_jobs=self.n_jobs)
        A, B = quotient.matrices(rows)
        lost = (64 * np.finfo(X.dtype).eps) ** 2 * Rows(X).squares
        check_scatter(B, rows.squares, "features", lost)
        B[np.diag_indices_from(B)] += shrinkage * np.trace(B) / len(B)
        V = _span(rows.form(centring(X.shape[0])), count)
        U, value, n_iter = best_projection(V.T @ A @ V, V.T @ B @ V, count)
        U = V @ U
        U = canonical(U.T @ (A @ U), U).astype(X.dtype)
        embedding = _projected(X, mean, U)
        fitted: dict[str, Any] = {"regression_": regress(embedding, labels)} if criterion.targets else {}
        if labels.classes is not None:
            fitted["classes_"] = labels.classes
        fitted |= transduced(criterion, quotient, labels, embedding)
        return {
            **fitted,
            "projection_": U,
            "components_": np.ascontiguousarray(U.T),
            "mean_": mean,
            "quotient_": value,
            "n_iter_": n_iter,
            "criterion_": criterion,
            "shrinkage_": shrinkage,
            "embedding_": embedding,
            "_training": dataclasses.replace(labels, weights=None),
            **classes_beside(labels, y, X.shape[0]),
        }

    def transform(self, X: Any) -> Array:
        """Project samples.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        embedding : array of shape (n_samples, n_components)

        """
        check_is_fitted(self)
        return self._embedding_of(X)

    @one_blas_thread()
    def _embedding_of(self, X: Any) -> Array:
        refuse_stacks(X)
        X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, order="C", reset=False)
        return _projected(X, self.mean_, self.projection_)

    @one_blas_thread()
    def inverse_transform(self, Z: Any) -> Array:
        """Return the samples on the subspace that have embedding Z.

        Parameters
        ----------
        Z : array of shape (n_samples, n_components)
            Embeddings.

        Returns
        -------
        X : array of shape (n_samples, n_features)

        """
        check_is_fitted(self)
        Z = check_array(Z, dtype=FLOATS, input_name="Z")
        if Z.shape[1] != len(self.components_):
            raise ValueError(f"Z has {Z.shape[1]} columns, but the embedding has {len(self.components_)}.")
        return np.asarray(Z @ self.components_.astype(Z.dtype, copy=False) + self.mean_.astype(Z.dtype, copy=False))

    @one_blas_thread()
    def quotient(self, X: Any) -> float:
        """Return the criterion's quotient on new samples, without shrinkage; only for criteria without labels.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Samples, at least two.

        Returns
        -------
        quotient : float

        """
        check_is_fitted(self)
        if self.criterion_.supervision != "none":
            raise ValueError(f"quotient is for criteria without labels, got {self.criterion!r}: use score(X, y).")
        X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, reset=False, ensure_min_samples=2)
        quotient = self.criterion_.bind(X, None, self.n_jobs)
        return quotient.value(Rows(X - self.mean_), self.projection_.astype(float)).quotient


def _projected(X: Any, mean: Array, U: Array) -> Array:
    """Return (X − mean) U in the precision of X, sparse or dense."""
    U = U.astype(X.dtype, copy=False)
    return np.asarray(safe_sparse_dot(X, U) - mean.astype(X.dtype, copy=False) @ U)


def _span(scatter: Array, fewest: int) -> Array:
    """Return an orthonormal basis of the directions in which samples differ; all directions if these are too few."""
    values, vectors = np.linalg.eigh(scatter)
    alive = values > 1e-10 * values[-1]
    return vectors[:, alive] if alive.sum() >= fewest else np.eye(len(values))
