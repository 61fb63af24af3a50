"""SparLow and the classical methods in the words of the committed rows.

The rows were measured with codes alone, an orthonormal projection and all steps, and embeddings were centred and
scaled to unit norm; what was left open was chosen as in :mod:`evidence.defaults`. Their options, such as ``shrinkage``
or ``normalize_embedding``, are the vocabulary of the evidence. Here they are translated to the parameters of the
library, so that a row measured again means the same.
"""

from __future__ import annotations

import copy
import dataclasses
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.preprocessing import normalize

from sparlow.criteria import Criterion, criterion_named
from sparlow.dictionaries import distinct_rows
from sparlow.estimators import OnStep, SparLow, TraceQuotient
from sparlow.solvers import Solver

from .defaults import default_n_atoms, default_prior, default_proximity, kinship

Array = NDArray[Any]


class Translated(BaseEstimator):
    """An estimator whose work another one does, ``model_``; fitted attributes that are not its own are the other's."""

    criterion: str | Criterion
    shrinkage: float | None

    @abstractmethod
    def translated(self, X: Array, y: Array | None) -> Any:
        """Return the estimator of the library that the parameters describe, for these samples."""

    def fit(self, X: Array, y: Array | None = None) -> Translated:
        """Fit the estimator of the library."""
        return self.of(self.translated(X, y).fit(X, y))

    def of(self, model: Any) -> Translated:
        """Take a fitted model of the library."""
        self.model_ = model
        self.embedding_ = self.scaled(model.embedding_)
        return self

    def transform(self, X: Array) -> Array:
        """Return the embedding of samples."""
        return self.scaled(self.model_.transform(X))

    def scaled(self, Z: Array) -> Array:
        """Return the embedding as it is judged."""
        return np.asarray(Z)

    def _criterion(self) -> Criterion:
        criterion = criterion_named(self.criterion)
        return criterion if self.shrinkage is None else dataclasses.replace(criterion, shrinkage=self.shrinkage)

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_") and not name.startswith("_") and "model_" in vars(self):
            return getattr(self.model_, name)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")


class Classical(Translated):
    """A trace quotient of the samples themselves."""

    def __init__(
        self,
        criterion: str | Criterion = "lda",
        n_components: int | None = None,
        *,
        shrinkage: float | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.criterion = criterion
        self.n_components = n_components
        self.shrinkage = shrinkage
        self.n_jobs = n_jobs

    def translated(self, X: Array, y: Array | None) -> TraceQuotient:
        """Return the estimator of the library."""
        return TraceQuotient(self._criterion(), self.n_components, n_jobs=self.n_jobs)


class Joint(Translated):
    """SparLow with codes alone, an orthonormal U and all steps.

    ``normalize_embedding`` scales embeddings to unit norm, in two dimensions or more.

    ``solver`` is the method of :class:`sparlow.solvers.Solver`, whose other fields are parameters by themselves.
    """

    def __init__(
        self,
        criterion: str | Criterion = "lda",
        n_components: int | None = None,
        *,
        n_atoms: int | None = None,
        prior: Any = None,
        views: Any = None,
        dictionary: Any = "ksvd",
        max_iter: int = 10,
        solver: str = "eliminate",
        tol: float = 1e-5,
        refresh_every: int = 2,
        mu_coherence: float = 0.0,
        mu_proximity: float | None = None,
        shrinkage: float | None = None,
        normalize: bool = True,
        normalize_embedding: bool = True,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.criterion = criterion
        self.n_components = n_components
        self.n_atoms = n_atoms
        self.prior = prior
        self.views = views
        self.dictionary = dictionary
        self.max_iter = max_iter
        self.solver = solver
        self.tol = tol
        self.refresh_every = refresh_every
        self.mu_coherence = mu_coherence
        self.mu_proximity = mu_proximity
        self.shrinkage = shrinkage
        self.normalize = normalize
        self.normalize_embedding = normalize_embedding
        self.random_state = random_state
        self.n_jobs = n_jobs

    def translated(self, X: Array, y: Array | None) -> SparLow:
        """Return the estimator of the library, with the defaults of the committed rows."""
        criterion = self._criterion()
        X = normalize(X) if self.normalize else X
        y = None if criterion.supervision == "none" else y
        known = None if y is None else y != -1
        k = kinship(X, known)
        prior, n_atoms, mu = self.prior, self.n_atoms, self.mu_proximity
        if prior is None:
            prior = default_prior(X, criterion.mild_prior, k, self.views is not None)
        if n_atoms is None and isinstance(self.dictionary, str):
            n_atoms = _usual_n_atoms(X, y, k)
        if mu is None:
            mu = max(criterion.usual_proximity(y), default_proximity(k))
        return SparLow(
            criterion,
            self.n_components,
            n_atoms=n_atoms,
            prior=prior,
            views=self.views,
            dictionary=self.dictionary,
            max_iter=self.max_iter,
            solver=Solver(self.solver, self.tol, self.refresh_every, self.mu_coherence, mu),
            early_stopping=False,
            embedding="orthonormal",
            normalize=self.normalize,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        )

    def fit_following(self, X: Array, y: Array, on_step: Callable[[Joint], Any]) -> Joint:
        """Fit, and show a copy of this estimator after each step."""

        def show(row: dict[str, float], now: SparLow) -> None:
            on_step(copy.copy(self).of(now))

        return self.of(self.translated(X, y).set_callbacks(OnStep(show)).fit(X, y))

    def of(self, model: Any) -> Joint:
        """Take a fitted model of the library."""
        super().of(model)
        return self

    def scaled(self, Z: Array) -> Array:
        """Return the embedding, of unit norm if so wished; it is centred already."""
        return np.asarray(normalize(Z) if self.normalize_embedding and Z.shape[1] > 1 else Z)


def _usual_n_atoms(X: Array, y: Array | None, k: float) -> int:
    """Return the number of atoms; only labelled samples count where some have no label and these are enough."""
    distinct, known = len(distinct_rows(X)), None if y is None else y != -1
    if y is None or known is None:
        return default_n_atoms(len(X), distinct, k=k)
    some = None if known.all() else len(distinct_rows(X[known]))
    return default_n_atoms(len(X), distinct, len(np.unique(y[known])), k, some)
