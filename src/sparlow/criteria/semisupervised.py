"""Criteria of few labels and many samples: sda, slap, smvr; −1 marks unlabelled samples."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import graphs
from ..graphs import Structure
from .balance import class_balance
from .base import are_known, neighbourhood
from .quotient import Quotient
from .supervised import Discriminant, Margin, Regression, regression

Array = NDArray[Any]


def _smoothness(weight: float, X: Any, y: Array, k: int, graph: Any, n_jobs: int | None) -> Structure:
    """``weight`` · L times the share of labelled samples: relative to their scatter it means the same for any share."""
    if not weight:
        return Structure(np.zeros(len(y)))
    return graphs.laplacian(neighbourhood(X, k, graph, False, n_jobs)) * (weight * float(np.mean(are_known(y))))


@dataclass(frozen=True)
class SDA(Discriminant):
    """Semi-supervised discriminant analysis: A between-class scatter, B total scatter of labelled samples + αL.

    Parameters
    ----------
    alpha : float
        Weight of the neighbour graph of all samples, relative to the labelled scatter.
    k : int
        Neighbours.
    graph : sparse matrix of shape (n, n), optional
        Affinities of your own instead.
    balance : float
        As for :class:`LDA`.

    """

    supervision = "semi"
    proximity = 10.0
    alpha: float = 1.0
    k: int = 10
    graph: Any = dataclasses.field(default=None, compare=False)
    balance: float = 1.0

    def bind(self, X: Any, y: Array | None = None, n_jobs: int | None = None) -> Quotient:
        assert y is not None
        rest = graphs.within_classes(y) + _smoothness(self.alpha, X, y, self.k, self.graph, n_jobs)
        return Quotient.of_total(graphs.between_classes(y), rest, class_balance(y, self.balance))


@dataclass(frozen=True)
class SLAP(Margin):
    """Semi-supervised MFA (SDE): A = Φᵀ(L⁻ + α₁Lᴺ)Φ, B = Φᵀ(L⁺ + α₂L)Φ (errata 8).

    L⁻ and L⁺ are MFA's on the labelled samples; L joins neighbours among all samples, Lᴺ all pairs that are not.

    Parameters
    ----------
    k_within, k_between : int, optional
        Neighbours of the same class and of other classes among the labelled samples; by default as for :class:`MFA`.
    k : int
        Neighbours among all samples.
    far, near : float
        α₁ and α₂, relative to the labelled parts.
    graph : sparse matrix of shape (n, n), optional
        A neighbour graph of your own instead; only where it has edges matters.

    """

    supervision = "semi"
    proximity = 100.0
    k: int = 10
    far: float = 0.1
    near: float = 0.1
    graph: Any = dataclasses.field(default=None, compare=False)

    def bind(self, X: Any, y: Array | None = None, n_jobs: int | None = None) -> Quotient:
        assert y is not None
        within, between = self.class_graphs(X, y, n_jobs)
        above, below = graphs.laplacian(between), graphs.laplacian(within)
        if self.far or self.near:
            graph = neighbourhood(X, self.k, self.graph, True, n_jobs)
            above = above + graphs.strangers(graph) * self.far
            below = below + graphs.laplacian(graph) * self.near
        return Quotient(above, below)


@dataclass(frozen=True)
class SMVR(Regression):
    """Semi-supervised ridge regression (LapRLS): A = ΦᵀTTᵀΦ, B = scatter of the labelled samples + ρL + ridge I.

    Parameters
    ----------
    rho : float
        Weight of the neighbour graph of all samples, relative to the labelled scatter.
    k : int
        Neighbours.
    graph : sparse matrix of shape (n, n), optional
        Affinities of your own instead.
    balance : float
        As for :class:`MVR`.

    """

    supervision = "semi"
    proximity = 10.0
    rho: float = 1.0
    k: int = 10
    graph: Any = dataclasses.field(default=None, compare=False)
    balance: float = 1.0

    def bind(self, X: Any, y: Array | None = None, n_jobs: int | None = None) -> Quotient:
        assert y is not None
        return regression(y, self.balance, _smoothness(self.rho, X, y, self.k, self.graph, n_jobs))
