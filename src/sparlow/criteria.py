"""The trace quotient and its nine criteria.

    f(Φ, U) = tr(UᵀAU) / tr(UᵀBU),  A = ΦᵀS_AΦ / n,  B = ΦᵀS_BΦ / n + ridge · I

A criterion is a small object with parameters. ``bind(X, y)`` builds its structure matrices once, from samples and
labels, and returns a :class:`Quotient`, which knows values and derivatives. The same quotient serves the classical
method (Φ = X), the sequential one (codes of a fixed dictionary) and the joint one.

| name | S_A | S_B | classical method |
|---|---|---|---|
| pca | Π | tr(ΦᵀΠΦ) I | PCA |
| lle | Π | (I − W)ᵀ(I − W) | ONPP |
| lap | affinities, centred | their degrees, centred | OLPP |
| lda | between classes | within classes | LDA |
| mfa | L⁻ of neighbours of other classes | L⁺ of neighbours of the same class | MFA |
| mvr | targets T Tᵀ | I (centred) | ridge regression |
| sda | between classes | all labelled + αL | SDA |
| slap | L⁻ + α₁Lᴺ | L⁺ + α₂L | SDE |
| smvr | targets | I on labelled samples + ρL | LapRLS |
"""

from __future__ import annotations

import dataclasses
import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_array

from . import graphs
from .graphs import Structure

Array = NDArray[Any]

_COUNTS = ("k", "k_within", "k_between")
_WEIGHTS = ("balance", "alpha", "far", "near", "rho", "reg")
_EDGES = 1_500_000  # edges of the graph within classes that MFA aims at by default
_HEAVIEST = 10.0  # weight of the closest pair over that of the farthest: more, and one pair would rule the projection
_LEAST = 1e-12  # the smallest share of the largest pair distance that counts when pairs are balanced


@dataclass(frozen=True)
class Value:
    """The quotient at one point: numerator, denominator, and what its derivatives need."""

    top: float
    bottom: float
    embedding: Array  # Y = ΦU (n, l)
    top_product: Array  # S_A Y
    bottom_product: Array | None  # S_B Y, None for the trace form

    @property
    def quotient(self) -> float:
        """F = top / bottom."""
        return self.top / self.bottom


@dataclass(frozen=True)
class Quotient:
    """A criterion bound to samples and labels: f(Φ, U) = tr(UᵀAU)/tr(UᵀBU), its derivatives, and its matrices.

    Parameters
    ----------
    above, below : Structure
        S_A and S_B. With ``below`` None the denominator is the trace form B = tr(ΦᵀS_AΦ)/n · I of PCA.
    ridge : float
        Added to the diagonal of B.
    balance : callable, optional
        Embedding -> S_A with weights that favour pairs now close together; see :meth:`refreshed`.
    rest : Structure, optional
        Where the denominator is a total that has S_A in it, the other part: ``below`` = ``above`` + ``rest``.

    """

    above: Structure
    below: Structure | None
    ridge: float = 0.0
    balance: Callable[[Array], Structure] | None = None
    rest: Structure | None = None

    @classmethod
    def of_total(
        cls, above: Structure, rest: Structure, balance: Callable[[Array], Structure] | None = None
    ) -> Quotient:
        """The quotient of a part and the total, S_A against S_A + rest; its values lie between 0 and 1."""
        return cls(above, above + rest, balance=balance, rest=rest)

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self.above.diagonal)

    def matrices(self, codes: Any, n_jobs: int | None = None) -> tuple[Array, Array]:
        """A and B (r, r) for fixed codes."""
        n = self.n_samples
        A = self.above.form(codes, n_jobs) / n
        B = np.trace(A) * np.eye(len(A)) if self.below is None else self.below.form(codes, n_jobs) / n
        B[np.diag_indices_from(B)] += self.ridge
        return A, B

    def value(self, codes: Any, U: Array) -> Value:
        """f and what its derivatives need, from Y = ΦU alone: ⟨Y, S_A Y⟩ / (⟨Y, S_B Y⟩ + n · ridge · l)."""
        n, width = self.n_samples, U.shape[1]
        Y = np.asarray(codes @ U, float)
        above = self.above @ Y
        below = None if self.below is None else self.below @ Y
        bottom = width * self._spread(codes) if below is None else float(np.vdot(Y, below))
        return Value(float(np.vdot(Y, above)) / n, bottom / n + self.ridge * width, Y, above, below)

    def _spread(self, codes: Any) -> float:
        """tr(ΦᵀΠΦ), the total variance times n."""
        squares = codes.data if sp.issparse(codes) else np.asarray(codes)
        mean = np.asarray(codes.mean(axis=0), float).ravel()
        return float(np.sum(squares.astype(float) ** 2) - self.n_samples * np.vdot(mean, mean))

    def _difference(self, value: Value) -> Array:
        """E = (S_A Y − f S_B Y) / (n b), so that ∂f/∂Φ = 2EUᵀ (+ …) and ∂f/∂U = 2ΦᵀE (+ …)."""
        E = value.top_product
        if value.bottom_product is not None:
            E = E - value.quotient * value.bottom_product
        return E / (self.n_samples * value.bottom)

    def codes_gradient(self, codes: Any, U: Array, value: Value) -> tuple[Array, Array, float]:
        """∂f/∂Φ as (left, right, scale): left @ right + scale · Φ, of which the n × r product is never formed."""
        left, right = 2 * self._difference(value), U.T
        if self.below is not None:
            return left, right, 0.0
        # the trace form adds −f · 2l ΠΦ / (n b): a multiple of Φ less its mean, which is of rank one
        scale = -2 * value.quotient * U.shape[1] / (self.n_samples * value.bottom)
        mean = np.asarray(codes.mean(axis=0), float).reshape(1, -1)
        return np.hstack([left, np.full((len(left), 1), -scale)]), np.vstack([right, mean]), scale

    def projection_gradient(self, codes: Any, U: Array, value: Value) -> Array:
        """∂f/∂U (r, l) on the Grassmann manifold, where tr(UᵀU) = l is constant, up to normal directions."""
        gradient = 2 * (codes.T @ self._difference(value))
        constant = self.ridge if self.below is not None else self.ridge + self._spread(codes) / self.n_samples
        return np.asarray(gradient - (2 * value.quotient * constant / value.bottom) * U)

    def refreshed(self, codes: Any, U: Array) -> Quotient:
        """The quotient with its pairs balanced anew for the present embedding, scaled to have the present value.

        A sum over pairs is dominated by those already far apart, and learning the dictionary would go on to separate
        what is separate. With weights 1/d² of the present distances each pair counts the same: a step of iterative
        reweighting for the sum of log d². The weights span a factor of ten at most: without a bound the projection
        would jump from one close pair to the next.
        """
        if self.balance is None:
            return self
        before = self.value(codes, U)
        above = self.balance(before.embedding)
        top = float(np.vdot(before.embedding, above @ before.embedding)) / self.n_samples
        if not top > 0:
            return self
        above = above * (before.top / top)
        return dataclasses.replace(self, above=above, below=self.below if self.rest is None else above + self.rest)


@dataclass(frozen=True)
class Criterion(ABC):
    """What a criterion provides: ``bind(X, y)`` and how many components it can give.

    ``supervision`` is "none" (labels are ignored), "full", or "semi" (−1 marks unlabelled samples); ``targets`` says
    that real-valued or multi-label targets are accepted too. ``proximity`` is the weight μ₂ of g_d if the user names
    none: criteria that no label checks would give up what the codes say of the samples. ``fewest_per_class`` is the
    number of samples that each class must have.
    """

    supervision: ClassVar[str] = "none"
    targets: ClassVar[bool] = False
    proximity: ClassVar[float] = 0.0
    fewest_per_class: ClassVar[int] = 1

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            _check_parameter(type(self).__name__, field.name, getattr(self, field.name))

    @abstractmethod
    def bind(self, X: Any, y: Array | None = None, n_jobs: int | None = None) -> Quotient:
        """Structure matrices from samples X (n, m) and encoded labels y (n,) in 0 … c−1, −1 unlabelled, or targets."""

    def most_components(self, n_features: int, y: Array | None) -> int:
        """The largest number of components that carry information."""
        return n_features

    def usual_components(self, n_features: int, y: Array | None) -> int:
        """The number of components if the user names none."""
        return min(48, n_features, max(1, n_features // 4))


def _check_parameter(criterion: str, name: str, value: Any) -> None:
    """Numbers of neighbours are whole and positive, weights are numbers and not negative."""
    if name in _COUNTS and value is not None:
        if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name} of {criterion} must be a positive whole number, got {value!r}.")
    elif name in _WEIGHTS and not (isinstance(value, numbers.Real) and 0 <= float(value) < np.inf):
        raise ValueError(f"{name} of {criterion} must be a number, not negative, got {value!r}.")


def _n_classes(y: Array | None) -> int:
    assert y is not None
    return int(y.max()) + 1


def _as_targets(y: Array) -> Array:
    """T (n, d): targets as given, or one-hot / √n_c; centred over the labelled samples, zero elsewhere."""
    if _are_labels(y):
        known = y >= 0
        T = np.zeros((len(y), _n_classes(y)))
        T[known, y[known]] = 1 / np.sqrt(np.bincount(y[known]))[y[known]]
    else:
        T = np.array(y, float, ndmin=2).T if y.ndim == 1 else np.array(y, float)
        known = np.all(np.isfinite(T), axis=1)
        T[~known] = 0
    T[known] -= T[known].mean(axis=0)
    return T


def _are_labels(y: Array) -> bool:
    """Whether y holds encoded classes, not targets."""
    return y.ndim == 1 and y.dtype.kind in "iu"


def _labelled(y: Array) -> Array:
    return y >= 0 if _are_labels(y) else np.all(np.isfinite(y.reshape(len(y), -1)), axis=1)


def _neighbourhood(criterion: Any, X: Any, binary: bool, n_jobs: int | None) -> sp.csr_array:
    """The user's graph, checked, or the affinities of the k nearest neighbours."""
    n = X.shape[0]
    if criterion.graph is None:
        return graphs.affinities(X, min(criterion.k, n - 1), None, binary, n_jobs)
    graph = sp.csr_array(check_array(criterion.graph, accept_sparse="csr", dtype=float, input_name="graph"))
    if graph.shape != (n, n):
        raise ValueError(f"graph must have shape ({n}, {n}), one row for each sample, got {graph.shape}.")
    if graph.nnz and graph.data.min() < 0:
        raise ValueError("graph must have no negative weights.")
    if abs(graph - graph.T).max() > 1e-8 * max(1.0, abs(graph).max()):
        raise ValueError("graph must be symmetric: use graph.maximum(graph.T), for instance.")
    return sp.csr_array(graph > 0).astype(float) if binary else graph


@dataclass(frozen=True)
class PCA(Criterion):
    """Largest variance: A = ΦᵀΠΦ, B = tr(ΦᵀΠΦ) I."""

    proximity = 300.0

    def bind(self, X: Any, y: Array | None = None, n_jobs: int | None = None) -> Quotient:
        return Quotient(graphs.centring(X.shape[0]), None)


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

    proximity = 1000.0
    k: int = 10
    reg: float = 1e-3

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

    proximity = 100.0
    k: int = 10
    graph: Any = dataclasses.field(default=None, compare=False)

    def bind(self, X: Any, y: Array | None = None, n_jobs: int | None = None) -> Quotient:
        W = _neighbourhood(self, X, False, n_jobs)
        degrees = np.asarray(W.sum(axis=1)).ravel()
        if not degrees.any():
            raise ValueError("The graph has no edges.")
        mean = degrees.mean()
        v, core = degrees[:, None] / mean, np.array([[-1.0 / len(degrees)]])
        above = Structure(np.zeros(len(degrees)), W * (1 / mean), v, core)
        return Quotient(above, Structure(degrees / mean, None, v, core))


@dataclass(frozen=True)
class LDA(Criterion):
    """Class means apart, classes tight: A between-class scatter, B within-class scatter.

    Parameters
    ----------
    balance : float
        While the dictionary is learned, pairs of classes are weighted by d^(−2·balance), d their present distance, the
        closest pair at most ten times as much as the farthest; 0 keeps the classical scatter throughout. The first
        projection is always the classical one.

    """

    supervision = "full"
    balance: float = 1.0

    def bind(self, X: Any, y: Array | None = None, n_jobs: int | None = None) -> Quotient:
        assert y is not None
        return Quotient(graphs.between_classes(y), graphs.within_classes(y), balance=_class_balance(y, self.balance))

    def most_components(self, n_features: int, y: Array | None) -> int:
        return min(n_features, _n_classes(y) - 1)

    def usual_components(self, n_features: int, y: Array | None) -> int:
        return self.most_components(n_features, y)


def _class_balance(labels: Array, power: float) -> Callable[[Array], Structure] | None:
    """How to balance pairs of classes, None for power 0."""
    return (lambda Y: _balanced_classes(Y, labels, power)) if power else None


def _balanced_classes(Y: Array, labels: Array, power: float) -> Structure:
    """Between-class scatter with weights d^(−2·power) of the distances d of the class means in the embedding."""
    means = graphs.class_means(labels, _n_classes(labels)).T @ Y
    squares = ((means[:, None] - means[None]) ** 2).sum(axis=-1)
    squares = np.maximum(squares, _LEAST * squares.max() + np.finfo(float).tiny)
    return graphs.between_classes(labels, np.minimum((squares.max() / squares) ** power, _HEAVIEST))


@dataclass(frozen=True)
class MFA(Criterion):
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

    supervision = "full"
    fewest_per_class = 2
    k_within: int | None = None
    k_between: int | None = None
    balance: float = 1.0

    def bind(self, X: Any, y: Array | None = None, n_jobs: int | None = None) -> Quotient:
        assert y is not None
        within, between = graphs.class_neighbours(X, y, *_neighbour_counts(self, y), n_jobs)
        balance = (lambda Y: _balanced_edges(Y, y, between, self.balance)) if self.balance else None
        return Quotient(graphs.laplacian(between), graphs.laplacian(within), balance=balance)

    def usual_components(self, n_features: int, y: Array | None) -> int:
        return min(n_features, _n_classes(y) - 1)


def _neighbour_counts(criterion: Any, y: Array) -> tuple[int, int]:
    """k_within and k_between, chosen by the number of labelled samples where the user names none."""
    usual = min(200, max(10, _EDGES // int(np.sum(y >= 0))))
    within = usual if criterion.k_within is None else criterion.k_within
    return within, 2 * usual if criterion.k_between is None else criterion.k_between


def _balanced_edges(Y: Array, labels: Array, graph: sp.csr_array, power: float) -> Structure:
    """The Laplacian of ``graph``, each edge divided by a power of the mean squared length of its pair of classes."""
    edges = graph.tocoo()
    lengths = np.empty(edges.nnz)
    for first in range(0, edges.nnz, 1 << 16):
        part = slice(first, first + (1 << 16))
        lengths[part] = np.sum((Y[edges.row[part]] - Y[edges.col[part]]) ** 2, axis=1)
    c = _n_classes(labels)
    pairs = labels[edges.row] * c + labels[edges.col]
    counts, sums = np.bincount(pairs, minlength=c * c), np.bincount(pairs, lengths, minlength=c * c)
    means = (sums / np.maximum(counts, 1))[pairs]
    means = np.maximum(means, _LEAST * means.max() + np.finfo(float).tiny)
    weights = np.minimum((means.max() / means) ** power, _HEAVIEST)
    return graphs.laplacian(sp.csr_array((weights, (edges.row, edges.col)), shape=graph.shape))


@dataclass(frozen=True)
class MVR(Criterion):
    """Ridge regression of targets: A = ΦᵀTTᵀΦ, B = ΦᵀΠΦ + ridge I (errata 3).

    Class labels become one-hot targets divided by √n_c, so that large classes do not dominate; all targets are centred,
    as a regression with an intercept does. The ridge is the estimator's ``shrinkage``.

    Parameters
    ----------
    balance : float
        As for :class:`LDA`, where the targets are class labels: A is then the scatter between classes, B the total.

    """

    supervision = "full"
    targets = True
    balance: float = 1.0

    def bind(self, X: Any, y: Array | None = None, n_jobs: int | None = None) -> Quotient:
        assert y is not None
        if _are_labels(y):  # ΠMMᵀΠ = between classes, Π = between + within
            balance = _class_balance(y, self.balance)
            return Quotient.of_total(graphs.between_classes(y), graphs.within_classes(y), balance)
        return Quotient(graphs.outer(_as_targets(y)), graphs.centring(X.shape[0]))

    def usual_components(self, n_features: int, y: Array | None) -> int:
        assert y is not None
        return min(n_features, max(1, int(np.linalg.matrix_rank(_as_targets(y)))))


@dataclass(frozen=True)
class SDA(Criterion):
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
        rest = graphs.within_classes(y)
        if self.alpha:
            smooth = graphs.laplacian(_neighbourhood(self, X, False, n_jobs))
            rest = rest + smooth * (self.alpha * float(np.mean(y >= 0)))
        return Quotient.of_total(graphs.between_classes(y), rest, _class_balance(y, self.balance))

    def most_components(self, n_features: int, y: Array | None) -> int:
        return min(n_features, _n_classes(y) - 1)

    def usual_components(self, n_features: int, y: Array | None) -> int:
        return self.most_components(n_features, y)


@dataclass(frozen=True)
class SLAP(Criterion):
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
    fewest_per_class = 2
    k_within: int | None = None
    k_between: int | None = None
    k: int = 10
    far: float = 0.1
    near: float = 0.1
    graph: Any = dataclasses.field(default=None, compare=False)

    def bind(self, X: Any, y: Array | None = None, n_jobs: int | None = None) -> Quotient:
        assert y is not None
        within, between = graphs.class_neighbours(X, y, *_neighbour_counts(self, y), n_jobs)
        above, below = graphs.laplacian(between), graphs.laplacian(within)
        if self.far or self.near:
            graph = _neighbourhood(self, X, True, n_jobs)
            above = above + graphs.strangers(graph) * self.far
            below = below + graphs.laplacian(graph) * self.near
        return Quotient(above, below)

    def usual_components(self, n_features: int, y: Array | None) -> int:
        return min(n_features, _n_classes(y) - 1)


@dataclass(frozen=True)
class SMVR(Criterion):
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
    targets = True
    rho: float = 1.0
    k: int = 10
    graph: Any = dataclasses.field(default=None, compare=False)
    balance: float = 1.0

    def bind(self, X: Any, y: Array | None = None, n_jobs: int | None = None) -> Quotient:
        assert y is not None
        known = _labelled(y)
        smooth = Structure(np.zeros(len(y)))
        if self.rho:
            smooth = graphs.laplacian(_neighbourhood(self, X, False, n_jobs)) * (self.rho * float(known.mean()))
        if _are_labels(y):
            rest = graphs.within_classes(y) + smooth
            return Quotient.of_total(graphs.between_classes(y), rest, _class_balance(y, self.balance))
        mask = known.astype(float)
        return Quotient(
            graphs.outer(_as_targets(y)), Structure(mask, None, mask[:, None], np.array([[-1 / mask.sum()]])) + smooth
        )

    def usual_components(self, n_features: int, y: Array | None) -> int:
        assert y is not None
        return min(n_features, max(1, int(np.linalg.matrix_rank(_as_targets(y)))))


CRITERIA: dict[str, type[Criterion]] = {
    "pca": PCA,
    "lle": LLE,
    "lap": LAP,
    "lda": LDA,
    "mfa": MFA,
    "mvr": MVR,
    "sda": SDA,
    "slap": SLAP,
    "smfa": SLAP,
    "smvr": SMVR,
}


def criterion_named(criterion: str | Criterion) -> Criterion:
    """A criterion from its name, or the object itself."""
    if isinstance(criterion, Criterion):
        return criterion
    if criterion in CRITERIA:
        return CRITERIA[criterion]()
    raise ValueError(
        f"criterion must be one of {', '.join(CRITERIA)}, or a Criterion such as MFA(), got {criterion!r}."
    )
