"""What every criterion provides, and what several of them are made of."""

from __future__ import annotations

import dataclasses
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from .. import graphs
from ..checks import Array, is_count, is_weight
from ..labels import Labels
from .quotient import Quotient

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
