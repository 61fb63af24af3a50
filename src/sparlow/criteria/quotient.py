"""The trace quotient: its value, its derivatives and its matrices."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..graphs import Structure

Array = NDArray[Any]


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
    ridge: float = 0.0
    balance: Callable[[Array], Structure] | None = None
    rest: Structure | None = None
    renew: Callable[[Array], Quotient] | None = None
    memberships: Callable[[Array], Array] | None = None

    @classmethod
    def of_total(
        cls, above: Structure, rest: Structure, balance: Callable[[Array], Structure] | None = None
    ) -> Quotient:
        """The quotient of a part and the total, S_A against S_A + rest; its values lie between 0 and 1."""
        return cls(above, above + rest, balance=balance, rest=rest)

    @property
    def changes(self) -> bool:
        """Whether it is balanced or renewed while the dictionary is learned."""
        return self.balance is not None or self.renew is not None

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self.above.diagonal)

    def scale(self, factor: float) -> None:
        """Multiply both structures in place, not the ridge; only for a quotient whose arrays nothing else holds."""
        parts = [part for part in (self.above, self.below, self.rest) if part is not None]
        arrays = [part.diagonal for part in parts]
        arrays += [part.graph.data for part in parts if part.graph is not None]
        arrays += [part.core for part in parts if part.core is not None]
        for array in {id(array): array for array in arrays}.values():  # parts may share them
            array *= factor

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

    def balanced(self, before: Value) -> Quotient:
        """The quotient with its pairs balanced for the embedding of ``before``, scaled to have the value there.

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
