"""Criteria with labels: lda, mfa, mvr, and what sda, slap and smvr share with them."""

from __future__ import annotations

import dataclasses
import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import graphs
from ..checks import Array
from ..constants import MFA_EDGES, TARGETS
from ..graphs import Structure
from ..labels import are_classes, are_known, n_classes
from .base import Criterion, Quotient, count, weight
from .following import class_balance, edge_balance


def _are_class_weights(value: Any) -> bool:
    if not isinstance(value, tuple):
        return value is None or value == "balanced"
    return len(value) > 0 and all(isinstance(one, numbers.Real) and 0 < float(one) < np.inf for one in value)


@dataclass(frozen=True)
class Discriminant(Criterion):
    """A criterion of class means: c of them differ in c − 1 directions."""

    supervision = "full"

    def most_components(self, n_features: int, y: Array | None) -> int:
        return min(n_features, n_classes(y) - 1)

    def usual_components(self, n_features: int, y: Array | None) -> int:
        return self.most_components(n_features, y)


@dataclass(frozen=True)
class LDA(Discriminant):
    """Class means apart, classes tight: A between-class scatter, B within-class scatter.

    Parameters
    ----------
    balance : float
        While the dictionary is learned, pairs of classes are weighted by d^(−2·balance), d their present distance, the
        closest pair at most ten times as much as the farthest; 0 keeps the classical scatter throughout. The first
        projection is always the classical one.
    class_weight : "balanced" or tuple of floats, optional
        How often each sample of a class counts in both scatters, in the order of ``classes_``. "balanced" is
        n / (c n_c), so that all classes count the same, whatever their number of samples n_c. The first dictionary and
        the choices on held-out samples do not depend on it.

    """

    neighbours = False
    weighted = True
    balance: float = weight(1.0)
    class_weight: str | tuple[float, ...] | None = dataclasses.field(
        default=None,
        metadata={"check": _are_class_weights, "expected": '"balanced", a tuple of positive numbers, or None'},
    )

    def bind(
        self, X: Any, y: Array | None = None, n_jobs: int | None = None, sample_weight: Array | None = None
    ) -> Quotient:
        assert y is not None
        weights = self.sample_weights(y, sample_weight)
        above, below = graphs.between_classes(y, sample_weight=weights), graphs.within_classes(y, weights)
        return Quotient(above, below, balance=class_balance(y, self.balance, weights))

    def sample_weights(self, y: Array, sample_weight: Array | None) -> Array | None:
        """Return how often each sample counts (n,), None where each counts once."""
        if self.class_weight is None:
            return sample_weight
        if not isinstance(self.class_weight, str) and len(self.class_weight) != n_classes(y):
            raise ValueError(
                f"class_weight has {len(self.class_weight)} numbers, but there are {n_classes(y)} classes."
            )
        masses = graphs.class_masses(y, sample_weight)
        balanced = isinstance(self.class_weight, str)
        each = masses.sum() / (len(masses) * masses) if balanced else np.array(self.class_weight, float)
        return each[y] if sample_weight is None else each[y] * sample_weight


@dataclass(frozen=True)
class Margin(Criterion):
    """A criterion of neighbours of the same class and of other classes."""

    supervision = "full"
    fewest_per_class = 2
    k_within: int | None = count()
    k_between: int | None = count()

    def usual_components(self, n_features: int, y: Array | None) -> int:
        return min(n_features, n_classes(y) - 1)

    def class_graphs(self, X: Any, y: Array, n_jobs: int | None) -> tuple[sp.csr_array, sp.csr_array]:
        """Return the edges within and between classes; by default their number depends on the labelled samples."""
        usual = min(200, max(10, MFA_EDGES // int(np.sum(y >= 0))))
        within = usual if self.k_within is None else self.k_within
        between = 2 * usual if self.k_between is None else self.k_between
        return graphs.class_neighbours(X, y, within, between, n_jobs)


@dataclass(frozen=True)
class MFA(Margin):
    """Neighbours of other classes apart, neighbours of the same class close: A = ΦᵀL⁻Φ, B = ΦᵀL⁺Φ.

    Parameters
    ----------
    k_within, k_between : int, optional
        Neighbours of the same class and of other classes. By default 200 of the same class (fewer above 7500
        samples, so that there are about 1.5 million edges, but at least 10), and twice that default of other classes:
        where each sample has few, joint learning follows single pairs that do not recur in new samples.
    balance : float
        While the dictionary is learned, edges between classes are weighted by d^(−2·balance), d the mean distance
        over the edges between the same two classes, at most ten times as much as the lightest.

    """

    balance: float = weight(1.0)

    def bind(self, X: Any, y: Array | None = None, n_jobs: int | None = None) -> Quotient:
        assert y is not None
        within, between = self.class_graphs(X, y, n_jobs)
        balance = edge_balance(y, between, self.balance)
        return Quotient(graphs.laplacian(between), graphs.laplacian(within), balance=balance)


@dataclass(frozen=True)
class Regression(Criterion):
    """A criterion of targets, or of classes as targets."""

    supervision = "full"
    targets = True

    def usual_proximity(self, y: Array | None) -> float:
        """Return a large weight for real targets: each gives one direction, and free atoms would fit their noise."""
        return self.proximity if y is None or are_classes(y) else TARGETS

    def usual_components(self, n_features: int, y: Array | None) -> int:
        assert y is not None
        return min(n_features, max(1, int(np.linalg.matrix_rank(_as_targets(y)))))


def regression(
    y: Array, balance: float, smooth: Structure | None = None, sample_weight: Array | None = None
) -> Quotient:
    """Return the quotient of T Tᵀ and the scatter of the labelled samples, to which ``smooth`` is added."""
    if are_classes(y):  # ΠMMᵀΠ = between classes, Π = between + within
        rest = graphs.within_classes(y, sample_weight)
        rest = rest if smooth is None else rest + smooth
        above = graphs.between_classes(y, sample_weight=sample_weight)
        return Quotient.of_total(above, rest, balance=class_balance(y, balance, sample_weight))
    weights = are_known(y).astype(float) * (1.0 if sample_weight is None else sample_weight)
    scatter = graphs.centring(len(y), weights)
    T = _as_targets(y) if sample_weight is None else weights[:, None] * (y - np.average(y, axis=0, weights=weights))
    return Quotient(graphs.outer(T), scatter if smooth is None else scatter + smooth)


def _as_targets(y: Array) -> Array:
    """Return T (n, d): targets as given, or one-hot / √n_c; centred over the labelled samples, zero elsewhere."""
    known = are_known(y)
    if are_classes(y):
        T = np.zeros((len(y), n_classes(y)))
        T[known, y[known]] = 1 / np.sqrt(np.bincount(y[known]))[y[known]]
    else:
        T = np.array(y, float).reshape(len(y), -1)
        T[~known] = 0
    T[known] -= T[known].mean(axis=0)
    return T


@dataclass(frozen=True)
class MVR(Regression):
    """Ridge regression of targets: A = ΦᵀTTᵀΦ, B = ΦᵀΠΦ + ridge I (errata 3).

    Class labels become one-hot targets divided by √n_c, so that large classes do not dominate; all targets are centred,
    as a regression with an intercept does. The ridge is the estimator's ``shrinkage``.

    Parameters
    ----------
    balance : float
        As for :class:`LDA`, where the targets are class labels: A is then the scatter between classes, B the total.

    """

    neighbours = False
    weighted = True
    balance: float = weight(1.0)

    def bind(
        self, X: Any, y: Array | None = None, n_jobs: int | None = None, sample_weight: Array | None = None
    ) -> Quotient:
        assert y is not None
        return regression(y, self.balance, sample_weight=sample_weight)
