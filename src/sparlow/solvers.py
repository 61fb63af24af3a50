"""How a model is learned: settings that are rarely touched, as small objects."""

from __future__ import annotations

import numbers
import os
from dataclasses import dataclass
from typing import Any

from .checks import is_count, is_weight
from .problem import METHODS

SOLVERS = ("auto", "stochastic", *METHODS)


def _require(owner: Any, name: str, good: bool, expected: str) -> None:
    """Refuse a setting of a solver that is out of range."""
    if not good:
        raise ValueError(f"{name} of {type(owner).__name__} must be {expected}, got {getattr(owner, name)!r}.")


@dataclass(frozen=True)
class Solver:
    """How dictionary and projection are learned together.

    Parameters
    ----------
    method : {"auto", "stochastic", "eliminate", "joint"}, default="auto"
        "stochastic" moves D by small steps on mini-batches, against a projection of running sums; ``max_iter`` is the
        number of passes. "eliminate" takes the best U for each D and moves D by conjugate gradients of all samples.
        "joint" moves both on the product manifold, the ascent of the paper. "auto" is "stochastic" for criteria with
        labels unless the embedding is orthonormal, and "eliminate" elsewhere.
    tol : float, default=1e-5
        Stop when the objective rises by less than this, relative to its size, in two steps.
    refresh_every : int, default=2
        Steps after which criteria that balance pairs of classes (lda, mfa, mvr, sda, smvr) compute their weights anew.
        Search directions are kept.
    mu_coherence : float, default=0.0
        Weight μ₁ of the coherence of the atoms.
    mu_proximity : float, optional
        Weight μ₂ of the distance from the first dictionary; by default chosen from criterion and data.
    checkpoint : str or path, optional
        A file that each step leaves its state in. Where it is there already, a fit with the same data and settings goes
        on from it, and ends with the bits of one that was not ended. Remove the file to begin anew.
    sums : bool, default=False
        Whether μ₁ and μ₂ weigh the paper's sums over pairs of atoms and over atoms. By default they weigh the means, in
        units of the first quotient.

    """

    method: str = "auto"
    tol: float = 1e-5
    refresh_every: int = 2
    mu_coherence: float = 0.0
    mu_proximity: float | None = None
    checkpoint: str | os.PathLike[str] | None = None
    sums: bool = False

    def __post_init__(self) -> None:
        _require(self, "method", self.method in SOLVERS, f"one of {', '.join(SOLVERS)}")
        _require(self, "tol", is_weight(self.tol), "a number, not negative")
        _require(self, "refresh_every", is_count(self.refresh_every), "a positive whole number")
        _require(self, "mu_coherence", is_weight(self.mu_coherence), "a number, not negative")
        good = self.mu_proximity is None or is_weight(self.mu_proximity)
        _require(self, "mu_proximity", good, "a number, not negative, or None")
        _require(self, "sums", isinstance(self.sums, bool), "True or False")
        named = self.checkpoint is None or isinstance(self.checkpoint, (str, os.PathLike))
        _require(self, "checkpoint", named, "the path of a file, or None")


@dataclass(frozen=True)
class EarlyStopping:
    """Hold out a part of the samples, and drop the steps if these samples are no better after them.

    Of more than 3000 labelled samples some are tried, and steps are dropped if those held out are worse by two standard
    errors. The model is then learned from all samples.

    Parameters
    ----------
    fraction : float, default=1/3
        The part of the samples that is held out; of the labelled ones where there are labels.

    """

    fraction: float = 1 / 3

    def __post_init__(self) -> None:
        good = isinstance(self.fraction, numbers.Real) and 0 < float(self.fraction) < 1
        _require(self, "fraction", good, "a number between 0 and 1")
