"""Criteria without labels: pca, lle, lap."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import graphs
from ..checks import Array
from ..graphs import Structure
from .base import Criterion, Quotient, count, neighbourhood, weight


@dataclass(frozen=True)
class PCA(Criterion):
    """Largest variance: A = ΦᵀΠΦ, B = tr(ΦᵀΠΦ) I."""

    proximity = 300.0
    mild_prior = True
    neighbours = False
    weighted = True

    def bind(
        self, X: Any, y: Array | None = None, n_jobs: int | None = None, sample_weight: Array | None = None
    ) -> Quotient:
        return Quotient(graphs.centring(X.shape[0], sample_weight), None)


@dataclass(frozen=True)
class LLE(Criterion):
    """Samples rebuilt from their neighbours (ONPP): A = ΦᵀΠΦ, B = Φᵀ(I − W)ᵀ(I − W)Φ (errata 2).

    Parameters
    ----------
    k : int
        Neighbours.
    reg : float
        Regularisation of the weights, relative to the trace of the local Gram matrix.

    """

    proximity = 10_000.0
    mild_prior = True
    usual_shrinkage = 10.0
    k: int = count(10)
    reg: float = weight(1e-3)

    def bind(self, X: Any, y: Array | None = None, n_jobs: int | None = None) -> Quotient:
        n = X.shape[0]
        return Quotient(graphs.centring(n), graphs.barycentric_residual(X, min(self.k, n - 1), self.reg, n_jobs))


@dataclass(frozen=True)
class LAP(Criterion):
    """Neighbours stay neighbours (OLPP): A = ΦᵀWΦ, B = ΦᵀVΦ, W heat-kernel affinities, V their degrees.

    Both are centred by the degrees (W − vvᵀ/Σv, V − vvᵀ/Σv), which takes out the constant embedding.

    Parameters
    ----------
    k : int
        Neighbours.
    graph : sparse matrix of shape (n, n), optional
        Affinities of your own instead.

    """

    proximity = 3000.0
    mild_prior = True
    usual_shrinkage = 10.0
    k: int = count(10)
    graph: Any = dataclasses.field(default=None, compare=False)

    def bind(self, X: Any, y: Array | None = None, n_jobs: int | None = None) -> Quotient:
        W = neighbourhood(X, self.k, self.graph, n_jobs)
        degrees = np.asarray(W.sum(axis=1)).ravel()
        if not degrees.any():
            raise ValueError("The graph has no edges.")
        mean = degrees.mean()
        v, core = degrees[:, None] / mean, np.array([[-1.0 / len(degrees)]])
        above = Structure(np.zeros(len(degrees)), W * (1 / mean), v, core)
        return Quotient(above, Structure(degrees / mean, None, v, core))
