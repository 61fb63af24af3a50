"""Criteria of few labels and many samples: sda, slap, smvr; −1 marks unlabelled samples."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import graphs
from ..checks import Array
from ..constants import FEWEST_NEIGHBOURS, MOST_NEIGHBOURS
from ..graphs import Structure
from ..labels import are_classes, are_known, n_classes
from .base import Criterion, Quotient, count, neighbourhood, weight
from .following import class_balance, propagated
from .supervised import Discriminant, Margin, Regression, regression


@dataclass(frozen=True)
class FewLabels(Criterion):
    """A criterion that uses a neighbour graph of all samples, and labels spread over it."""

    supervision = "semi"
    k: int | None = count()
    graph: Any = dataclasses.field(default=None, compare=False)
    propagate: float = weight(0.7, most=1)

    def bind(self, X: Any, y: Array | None = None, n_jobs: int | None = None) -> Quotient:
        assert y is not None
        k = self.k or _usual_k(X.shape[0], y)
        graph = neighbourhood(X, k, self.graph, n_jobs)

        def build(labels: Array) -> Quotient:
            return self.of_labels(X, labels, graph, n_jobs)

        if not are_classes(y) or y.min() >= 0:
            return build(y)
        return propagated(build, graph, y, k, self.propagate, n_jobs)

    @abstractmethod
    def of_labels(self, X: Any, y: Array, graph: sp.csr_array, n_jobs: int | None) -> Quotient:
        """Return the quotient of labels or targets y and the neighbour graph."""


def _usual_k(n: int, y: Array) -> int:
    """Return a fifth of the samples per class, from three to ten: more neighbours would join most of a small set."""
    if not are_classes(y):
        return MOST_NEIGHBOURS
    return min(MOST_NEIGHBOURS, max(FEWEST_NEIGHBOURS, n // (5 * max(1, n_classes(y)))))


def _smoothness(weight: float, y: Array, graph: sp.csr_array) -> Structure:
    """Return ``weight`` · L times the share of labelled samples, so that it means the same for any share."""
    return graphs.laplacian(graph) * (weight * float(np.mean(are_known(y))))


@dataclass(frozen=True)
class SDA(FewLabels, Discriminant):
    """Semi-supervised discriminant analysis: A between-class scatter, B total scatter of labelled samples + αL.

    Parameters
    ----------
    alpha : float
        Weight of the neighbour graph of all samples, relative to the labelled scatter.
    k : int, optional
        Neighbours; by default a fifth of the samples that there are for each class, from three to ten, and ten where
        the targets are no classes.
    graph : sparse matrix of shape (n, n), optional
        Affinities of your own instead.
    propagate : float
        While the dictionary is learned, labels spread over the neighbours in samples and embedding, and this share of
        the samples that fall to each class, the most certain, is taken for labelled. With 0 labels stay as
        given. The first projection always uses the labels given.
    balance : float
        As for :class:`LDA`.

    """

    proximity = 10.0
    alpha: float = weight(1.0)
    balance: float = weight(1.0)

    def of_labels(self, X: Any, y: Array, graph: sp.csr_array, n_jobs: int | None) -> Quotient:
        rest = graphs.within_classes(y) + _smoothness(self.alpha, y, graph)
        return Quotient.of_total(graphs.between_classes(y), rest, balance=class_balance(y, self.balance))


@dataclass(frozen=True)
class SLAP(FewLabels, Margin):
    """Semi-supervised MFA (SDE): A = Φᵀ(L⁻ + α₁Lᴺ)Φ, B = Φᵀ(L⁺ + α₂L)Φ (errata 8).

    L⁻ and L⁺ are MFA's on the labelled samples; L joins neighbours among all samples, Lᴺ all pairs that are not.

    Parameters
    ----------
    k_within, k_between : int, optional
        Neighbours of the same class and of other classes among the labelled samples; by default as for :class:`MFA`.
    k : int, optional
        Neighbours among all samples; by default as for :class:`SDA`.
    far, near : float
        α₁ and α₂, relative to the labelled parts.
    graph : sparse matrix of shape (n, n), optional
        A neighbour graph of your own instead; only where it has edges matters.
    propagate : float
        As for :class:`SDA`.

    """

    proximity = 100.0
    far: float = weight(0.1)
    near: float = weight(0.1)

    def of_labels(self, X: Any, y: Array, graph: sp.csr_array, n_jobs: int | None) -> Quotient:
        within, between = self.class_graphs(X, y, n_jobs)
        above, below = graphs.laplacian(between), graphs.laplacian(within)
        if self.far or self.near:
            edges = sp.csr_array(graph > 0).astype(float)
            above = above + graphs.non_neighbours(edges) * self.far
            below = below + graphs.laplacian(edges) * self.near
        return Quotient(above, below)


@dataclass(frozen=True)
class SMVR(FewLabels, Regression):
    """Semi-supervised ridge regression (LapRLS): A = ΦᵀTTᵀΦ, B = scatter of the labelled samples + ρL + ridge I.

    With class labels, and the same weights, it is :class:`SDA`.

    Parameters
    ----------
    rho : float
        Weight of the neighbour graph of all samples, relative to the labelled scatter.
    k : int, optional
        Neighbours; by default a fifth of the samples that there are for each class, from three to ten, and ten where
        the targets are no classes.
    graph : sparse matrix of shape (n, n), optional
        Affinities of your own instead.
    propagate : float
        As for :class:`SDA`, where the targets are class labels.
    balance : float
        As for :class:`MVR`.

    """

    proximity = 10.0
    rho: float = weight(1.0)
    balance: float = weight(1.0)

    def of_labels(self, X: Any, y: Array, graph: sp.csr_array, n_jobs: int | None) -> Quotient:
        return regression(y, self.balance, _smoothness(self.rho, y, graph))
