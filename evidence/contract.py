"""Say what a method is given and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from sparlow.evaluation import Fold

Array = NDArray[Any]
StepListener = Callable[[Array, Array, Array], None]


class NotApplicable(Exception):  # noqa: N818
    """Say that a method does not apply in this setting; the message is the reason."""


@dataclass(frozen=True)
class MethodInput:
    """Hold what a method may see."""

    X: Array
    y: Array
    X_test: Array
    shape: tuple[int, int] | None = None
    seed: int = 0
    threads: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    # called with the training embedding, its labels and the test embedding, at the start and after each step
    on_step: StepListener | None = None
    # training folds whose features were learned without the samples held out; by default X and y are divided
    folds: Callable[[], Iterable[Fold]] | None = None


@dataclass(frozen=True)
class MethodOutput:
    """Hold embeddings of both parts, or predicted labels of the test part, and how they were found."""

    train: Array | None = None
    test: Array | None = None
    predicted: Array | None = None
    labels: Array | None = None  # of the rows of ``train`` where these are not the given ones
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    note: str = ""
    arrays: Mapping[str, Array] = field(default_factory=dict)


Method = Callable[[MethodInput], MethodOutput]


def found_of(estimator: Any) -> dict[str, Any]:
    """Return what was chosen from the data, and how learning went."""
    history = estimator.history_
    return {
        "criterion": repr(estimator.criterion_),
        "prior": repr(estimator.prior_),
        "n_atoms": estimator.n_atoms_,
        "n_components": estimator.n_components_,
        "shrinkage": estimator.shrinkage_,
        "mu_proximity": round(estimator.mu_proximity_, 3),
        "n_iter": estimator.n_iter_,
        "stop_reason": estimator.stop_reason_,
        "nonzeros": [round(float(history["nonzeros"][i]), 2) for i in (0, -1)],
        "quotient": [float(f"{history['quotient'][i]:.4g}") for i in (0, -1)],
    }
