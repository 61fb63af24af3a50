"""What a fit begins with: the choices made for it, and the first dictionary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..criteria import Criterion
from ..defaults import default_n_atoms
from ..dictionaries import distinct_rows, learn_dictionary, suits_classes, unit_atoms
from ..priors import Prior
from ..views import Pooling
from .labels import Labels

Array = NDArray[Any]


@dataclass(frozen=True)
class Plan:
    """What learning from a part of the samples and from all of them have in common."""

    criterion: Criterion
    kinship: float
    prior: Prior
    mu_proximity: float
    shrinkage: float
    pooling: Pooling
    last: Array | None  # the dictionary to go on from
    seed: int
    began: float


def first_dictionary(model: Any, plan: Plan, X: Any, labels: Labels) -> Array:
    """Atoms of the last fit, of the user, or learned from the samples."""
    if plan.last is not None:
        return _given(model, X, plan.last, "dictionary_ of the last fit (warm_start)")
    if not isinstance(model.dictionary, str):
        return _given(model, X, model.dictionary, "dictionary")
    distinct = len(distinct_rows(X))
    if distinct < 2:
        raise ValueError(
            f"All samples are zero or multiples of the same one (n_samples={X.shape[0]}, n_features={X.shape[1]}): "
            "there is nothing that atoms, which have unit norm, could tell apart."
        )
    n_atoms = model.n_atoms
    if n_atoms is None:
        some = labels.y is not None and labels.y.min() < 0
        n_labelled = len(distinct_rows(X[labels.known])) if some else None
        classes = None if labels.classes is None else len(labels.classes)
        n_atoms = default_n_atoms(X.shape[0], distinct, classes, plan.kinship, n_labelled)
    model._check_components(plan.criterion, n_atoms, labels, "atoms")  # before the work, not after it
    options: dict[str, Any] = {"prior": plan.prior, "random_state": np.random.RandomState(plan.seed)}
    y = labels.y if labels.y is not None and suits_classes(X, labels.y, n_atoms) else None
    return learn_dictionary(model.dictionary, X, n_atoms, y, n_jobs=model.n_jobs, **options)[0].astype(float)


def _given(model: Any, X: Any, given: Any, name: str) -> Array:
    D = unit_atoms(given, X.shape[1], name)
    if model.n_atoms is not None and model.n_atoms != len(D):
        raise ValueError(f"n_atoms={model.n_atoms}, but {name} has {len(D)} atoms: leave n_atoms out.")
    return D
