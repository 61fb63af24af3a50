"""What every criterion provides, and what several of them are made of."""

from __future__ import annotations

import dataclasses
import numbers
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .. import graphs
from .quotient import Quotient

Array = NDArray[Any]

_COUNTS = ("k", "k_within", "k_between")
_WEIGHTS = ("balance", "alpha", "far", "near", "rho", "reg")
_SHARES = ("propagate",)


@dataclass(frozen=True)
class Criterion(ABC):
    """What a criterion provides: ``bind(X, y)`` and how many components it can give.

    ``supervision`` is "none" (labels are ignored), "full", or "semi" (−1 marks unlabelled samples); ``targets`` says
    that real-valued or multi-label targets are accepted too. ``proximity`` is the weight μ₂ of g_d if the user names
    none: criteria that no label checks would give up what the codes say of the samples. ``fewest_per_class`` is the
    number of samples that each class must have. ``faithful`` asks for a milder default prior: codes that keep more of
    the sample, where the criterion has nothing else to go by. ``shrinkage`` is what is added to the diagonal of B if
    the user names nothing, as a multiple of its mean.
    """

    supervision: ClassVar[str] = "none"
    targets: ClassVar[bool] = False
    proximity: ClassVar[float] = 0.0
    fewest_per_class: ClassVar[int] = 1
    faithful: ClassVar[bool] = False
    shrinkage: ClassVar[float] = 0.1

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            _check_parameter(type(self).__name__, field.name, getattr(self, field.name))

    @abstractmethod
    def bind(self, X: Any, y: Array | None = None, n_jobs: int | None = None) -> Quotient:
        """Structure matrices from samples X (n, m) and encoded labels y (n,) in 0 … c−1, −1 unlabelled, or targets."""

    def usual_proximity(self, y: Array | None) -> float:
        """μ₂ if the user names none; ``y`` as of :meth:`bind`."""
        return self.proximity

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
    elif name in _SHARES and not (isinstance(value, numbers.Real) and 0 <= float(value) <= 1):
        raise ValueError(f"{name} of {criterion} must be a number from 0 to 1, got {value!r}.")


def bound(criterion: Criterion, X: Any, y: Array | None, n_jobs: int | None) -> Quotient:
    """What ``bind`` of a criterion, which may be a user's, returns, if that can be one."""
    quotient = criterion.bind(X, y, n_jobs)
    name = f"{type(criterion).__name__}.bind"
    if not isinstance(quotient, Quotient):
        raise TypeError(f"{name} must return a Quotient(above, below), got {type(quotient).__name__}.")
    for structure in (quotient.above, quotient.below):
        if structure is None and quotient.above is not None:
            continue  # the trace form
        if not isinstance(structure, graphs.Structure):
            made = type(structure).__name__
            raise TypeError(f"{name}: above and below must be a Structure of sparlow.graphs, got {made}.")
        if len(structure.diagonal) != X.shape[0]:
            raise ValueError(f"{name} made a structure of {len(structure.diagonal)} samples, but X has {X.shape[0]}.")
    return quotient


def n_classes(y: Array | None) -> int:
    """The number of classes of encoded labels."""
    assert y is not None
    return int(y.max()) + 1


def are_labels(y: Array) -> bool:
    """Whether y holds encoded classes, not targets."""
    return y.ndim == 1 and y.dtype.kind in "iu"


def are_known(y: Array) -> Array:
    """Which samples have a label (not −1) or all of their targets (no NaN)."""
    return y >= 0 if are_labels(y) else np.all(np.isfinite(y.reshape(len(y), -1)), axis=1)


def neighbourhood(X: Any, k: int, graph: Any, n_jobs: int | None) -> sp.csr_array:
    """The user's graph, checked, or the affinities of the k nearest neighbours."""
    n = X.shape[0]
    if graph is None:
        return graphs.affinities(X, min(k, n - 1), n_jobs=n_jobs)
    return graphs.checked_graph(graph, n)
