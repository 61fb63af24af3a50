"""What every criterion provides, and the trace quotient: value, derivatives and matrices."""

from __future__ import annotations

import dataclasses
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from .. import graphs
from ..checks import Array, is_count, is_weight
from ..graphs import Structure
from ..labels import Labels
from ..rows import Features


@dataclass(frozen=True)
class Value:
    """The quotient at one point: numerator, denominator, and what its derivatives need."""

    top: float
    bottom: float
    embedding: Array  # Y = ΦU (n, l)

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
        S_A and S_B. With ``below`` None the denominator is the trace form B = tr(ΦᵀS_AΦ)/n · I of PCA, for a centring
        S_A, or one that is a graph.
    ridge : float
        Added to the diagonal of B.
    balance : callable, optional
        Embedding -> S_A with weights that favour pairs now close together; see :meth:`balanced`.
    rest : Structure, optional
        Where the denominator is a total that has S_A in it, the other part: ``below`` = ``above`` + ``rest``.
    renew : callable, optional
        Embedding -> the quotient that takes this one's place, where what it is made of depends on the embedding.
    memberships : callable, optional
        Embedding -> shares (n, c) of all samples in the classes, where some have no label.

    """

    above: Structure
    below: Structure | None
    _: KW_ONLY
    ridge: float = 0.0
    balance: Callable[[Array], Structure] | None = None
    rest: Structure | None = None
    renew: Callable[[Array | None], Quotient] | None = None
    memberships: Callable[[Array | None], Array] | None = None

    @classmethod
    def of_total(
        cls, above: Structure, rest: Structure, *, balance: Callable[[Array], Structure] | None = None
    ) -> Quotient:
        """Return the quotient of a part and the total, S_A against S_A + rest; its values lie between 0 and 1."""
        return cls(above, above + rest, balance=balance, rest=rest)

    @property
    def changes(self) -> bool:
        """Whether it is balanced or renewed while the dictionary is learned."""
        return self.balance is not None or self.renew is not None

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self.above.diagonal)

    def scaled(self, factor: float) -> Quotient:
        """Return the quotient with both structures multiplied; the ridge stays."""
        above, below, rest = (None if part is None else part * factor for part in (self.above, self.below, self.rest))
        assert above is not None
        return dataclasses.replace(self, above=above, below=below, rest=rest)

    def matrices(self, coded: Features) -> tuple[Array, Array]:
        """Return A and B (w, w) for a fixed representation."""
        n = self.n_samples
        A = coded.form(self.above) / n
        B = np.trace(A) * np.eye(len(A)) if self.below is None else coded.form(self.below) / n
        B[np.diag_indices_from(B)] += self.ridge
        return A, B

    def value(self, coded: Features, U: Array, embedding: Array | None = None) -> Value:
        """Return f and what its derivatives need, from Y = ΦU alone: ⟨Y, S_A Y⟩ / (⟨Y, S_B Y⟩ + n · ridge · l)."""
        n, width = self.n_samples, U.shape[1]
        Y = coded @ U if embedding is None else embedding
        top = float(np.vdot(Y, self.above @ Y))
        bottom = width * self.variance(coded) if self.below is None else float(np.vdot(Y, self.below @ Y))
        return Value(top / n, bottom / n + self.ridge * width, Y)

    def variance(self, coded: Features) -> float:
        """Return tr(ΦᵀS_AΦ) of the trace form; for a centring S_A the variance times n, each sample with its weight."""
        if self.above.graph is not None:
            return float(np.sum(_rows_of(coded) * self._smoothed(coded)))
        weights = self.above.diagonal
        if np.ptp(weights) > 0:
            return coded.weighted_variance(weights)
        return float(weights[0] * (coded.squares - self.n_samples * np.vdot(coded.mean, coded.mean)))

    def _smoothed(self, coded: Features) -> Any:
        """Return S_AΦ (n, w) for an S_A that is a graph."""
        return (self.above.graph + sp.diags_array(self.above.diagonal)) @ _rows_of(coded)

    def _difference(self, value: Value) -> Array:
        """Return E = (S_A Y − f S_B Y) / (n b), so that ∂f/∂Φ = 2EUᵀ (+ …) and ∂f/∂U = 2ΦᵀE (+ …)."""
        E = self.above @ value.embedding
        if self.below is not None:
            E -= value.quotient * (self.below @ value.embedding)
        E /= self.n_samples * value.bottom
        return E

    def features_gradient(self, coded: Features, U: Array, value: Value) -> tuple[Array, Array, Any]:
        """Return ∂f/∂Φ as (left, right, scale): left @ right + scale · Φ; the n × w product is never formed.

        The scale is a number, or has one for each sample (n,); or it is the second term itself, sparse (n, w).
        """
        left, right = self._difference(value), U.T
        left *= 2
        if self.below is not None:
            return left, right, 0.0
        # the trace form adds −f · 2l S_AΦ / (n b): each row of Φ, times its weight, less the mean, which is of rank one
        scale, weights = -2 * value.quotient * U.shape[1] / (self.n_samples * value.bottom), self.above.diagonal
        if self.above.graph is not None:
            return left, right, sp.csr_array(scale * self._smoothed(coded))
        left = np.hstack([left, -scale * weights[:, None]])
        if np.ptp(weights) == 0:
            return left, np.vstack([right, coded.mean]), float(scale * weights[0])
        return left, np.vstack([right, coded.weighted_mean(weights)]), scale * weights

    def projection_gradient(self, coded: Features, U: Array, value: Value) -> Array:
        """Return ∂f/∂U (w, l) on the Grassmann manifold, where tr(UᵀU) = l is constant, up to normal directions."""
        gradient = 2 * coded.rmatmul(self._difference(value))
        constant = self.ridge if self.below is not None else self.ridge + self.variance(coded) / self.n_samples
        return np.asarray(gradient - (2 * value.quotient * constant / value.bottom) * U)

    def balanced(self, before: Value) -> Quotient:
        """Return the quotient with its pairs balanced for the embedding of ``before``, scaled to have the value there.

        A sum over pairs is dominated by those already far apart, and learning the dictionary would go on to separate
        what is separate. With weights 1/d² of the present distances each pair counts the same: a step of iterative
        reweighting for the sum of log d². The weights span a factor of ten at most: without a bound the projection
        would jump from one close pair to the next.
        """
        Y = before.embedding
        above = self.above if self.balance is None else self.balance(Y)
        others = self.below if self.rest is None else self.rest
        assert others is not None
        top = float(np.vdot(Y, above @ Y)) / self.n_samples
        bottom = float(np.vdot(Y, others @ Y)) / self.n_samples + self.ridge * Y.shape[1]
        if not (top > 0 and bottom > 0 and before.top > 0):
            return self
        # s·top/bottom = F, or s·top/(s·top + bottom) = F where the denominator is a total
        F = before.quotient
        wanted = (F if self.rest is None else F / max(1 - F, np.finfo(float).eps)) * bottom
        above = above * (wanted / top)
        return dataclasses.replace(self, above=above, below=self.below if self.rest is None else above + self.rest)


def _rows_of(coded: Features) -> Any:
    """Return Φ (n, w), of codes alone."""
    (block,) = coded.in_memory().blocks
    return block


_SETTINGS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "supervision": (
        lambda value: value in ("none", "full", "semi"),
        '"none" (bind gets no labels), "full" or "semi" (-1 marks unlabelled samples)',
    ),
    **dict.fromkeys(
        ("targets", "mild_prior", "neighbours", "on_codes", "weighted"),
        (lambda value: isinstance(value, bool), "True or False"),
    ),
    **dict.fromkeys(("proximity", "usual_shrinkage", "fewest_per_class"), (is_weight, "a number, not negative")),
}


def count(default: int | None = None) -> Any:
    """Declare a parameter that is a positive whole number, or None where that is the default."""

    def good(value: Any) -> bool:
        return is_count(value) or (value is None and default is None)

    return dataclasses.field(default=default, metadata={"check": good, "expected": "a positive whole number"})


def weight(default: float | None, most: float = np.inf, kw_only: bool = False) -> Any:
    """Declare a parameter that is a number from 0 to ``most``, or None where that is the default."""

    def good(value: Any) -> bool:
        return is_weight(value, most) or (value is None and default is None)

    expected = "a number, not negative" if most == np.inf else f"a number from 0 to {most:g}"
    return dataclasses.field(default=default, metadata={"check": good, "expected": expected}, kw_only=kw_only)


@dataclass(frozen=True)
class Criterion(ABC):
    """The contract of a criterion; subclass it to bring your own, as a frozen dataclass.

    Only :meth:`bind` must be written. Class attributes say what the criterion needs:

    ``supervision``
        "none" (labels are ignored), "full", or "semi" (−1 marks unlabelled samples).
    ``targets``
        Whether real-valued or multi-label targets are accepted, too.
    ``fewest_per_class``
        The number of samples that each class must have.
    ``proximity``
        The usual weight μ₂ of g_d. Without labels, learning would move atoms until codes no longer represent the
        samples.
    ``mild_prior``
        Whether the default prior should be milder, so that codes keep more of the sample.
    ``usual_shrinkage``
        The shrinkage if the user gives none.
    ``neighbours``
        Whether :meth:`bind` looks at the samples, as for a graph of neighbours; otherwise it needs their number alone.
    ``on_codes``
        Whether :meth:`bind` takes ``codes`` (n, r) by name, those of the first dictionary, to find neighbours among.
    ``weighted``
        Whether :meth:`bind` takes ``sample_weight`` (n,) by name: how often each sample counts, 1 on average.

    Parameters
    ----------
    shrinkage : float, optional
        Multiple of tr(B)/r that is added to the diagonal of B, r the number of codes.

    """

    supervision: ClassVar[str] = "none"
    targets: ClassVar[bool] = False
    proximity: ClassVar[float] = 0.0
    fewest_per_class: ClassVar[int] = 1
    mild_prior: ClassVar[bool] = False
    usual_shrinkage: ClassVar[float] = 0.1
    neighbours: ClassVar[bool] = True
    on_codes: ClassVar[bool] = False
    weighted: ClassVar[bool] = False

    shrinkage: float | None = weight(None, kw_only=True)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, (is_good, expected) in _SETTINGS.items():
            if not is_good(getattr(cls, name)):
                raise TypeError(f"{name} of {cls.__name__} must be {expected}; got {getattr(cls, name)!r}.")
        try:
            inspect.signature(cls.bind).bind(None, "X", "y", "n_jobs")
        except TypeError as error:
            usual = "bind(self, X, y=None, n_jobs=None)"
            raise TypeError(f"bind of {cls.__name__} must be defined as {usual}: {error}.") from error

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if "check" in field.metadata and not field.metadata["check"](value):
                expected = field.metadata["expected"]
                raise ValueError(f"{field.name} of {type(self).__name__} must be {expected}, got {value!r}.")

    @abstractmethod
    def bind(self, X: Any, y: Array | None = None, n_jobs: int | None = None) -> Quotient:
        """Return the quotient for samples X (n, m) and encoded labels y (n,), −1 unlabelled, or targets (n, d)."""

    def usual_proximity(self, y: Array | None) -> float:
        """Return μ₂ if the user names none; ``y`` as of :meth:`bind`."""
        return self.proximity

    def most_components(self, n_features: int, y: Array | None) -> int:
        """Return the largest number of components that carry information."""
        return n_features

    def usual_components(self, n_features: int, y: Array | None) -> int:
        """Return the number of components if the user names none."""
        return min(48, n_features, max(1, n_features // 4))


def bind_checked(criterion: Criterion, X: Any, labels: Labels, n_jobs: int | None, codes: Any = None) -> Quotient:
    """Return what ``bind`` of a criterion gives, which may be a user's, after a check of its type and size."""
    options: dict[str, Any] = {"codes": codes} if criterion.on_codes and codes is not None else {}
    if labels.weights is not None:
        options["sample_weight"] = labels.weights / labels.weights.mean()
    name = f"{type(criterion).__name__}.bind"
    try:
        quotient = criterion.bind(X, labels.bound, n_jobs, **options)
    except (TypeError, AttributeError, IndexError) as error:
        if criterion.supervision != "none":
            raise
        raise TypeError(
            f'{name} failed: {error}. It was given y=None, as supervision of {type(criterion).__name__} is "none". If '
            'it needs labels, write supervision = "full" in the class, or "semi" where -1 marks unlabelled samples.'
        ) from error
    if not isinstance(quotient, Quotient):
        raise TypeError(f"{name} must return a Quotient(above, below), got {type(quotient).__name__}.")
    for structure in (quotient.above, quotient.below):
        if structure is None and quotient.above is not None:
            continue  # the trace form
        if not isinstance(structure, graphs.Structure):
            made = type(structure).__name__
            raise TypeError(f"{name}: above and below must be a Structure of sparlow.graphs, got {made}.")
        try:
            structure.check(X.shape[0])
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name} made {error}") from error
    of_a_graph = quotient.above.graph is not None and quotient.above.factors is None
    if quotient.below is None and not of_a_graph and not graphs.is_centring(quotient.above):
        raise ValueError(
            f"{name}: below=None is the trace form of PCA, which needs above=centring(n) or centring(n, weights), or a "
            "graph without factors. Give a structure below for any other."
        )
    return quotient


def neighbourhood(X: Any, k: int, graph: Any, n_jobs: int | None) -> sp.csr_array:
    """Return the user's graph, checked, or the affinities of the k nearest neighbours."""
    n = X.shape[0]
    if graph is None:
        return graphs.affinities(X, min(k, n - 1), n_jobs=n_jobs)
    return graphs.checked_graph(graph, n)
