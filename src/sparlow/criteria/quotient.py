"""The trace quotient: its value, its derivatives and its matrices."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..checks import Array
from ..graphs import Structure
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
