"""What learners keep of the batches they have read, and the step that it allows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from .. import _kernels
from ..parallel import frozen
from .atoms import Array, dense_rows

_BLOCK = 32  # atoms updated between two products with all atoms
_LEAP = 1e6  # a least-squares step so long, or a variance so large, is of rounding errors


def batch_size_for(n: int) -> int:
    """Return a tenth of the samples, but 32 at least and 512 at most."""
    return min(512, max(32, n // 10))


def batches(n: int, size: int, rng: np.random.RandomState) -> Iterator[Array]:
    """Return all of ``range(n)`` in random batches."""
    order = rng.permutation(n)
    for first in range(0, n, size):
        yield np.sort(order[first : first + size])


class Memory(Protocol):
    """What a learner keeps of the batches it has seen."""

    def update(self, D: Array, x: Any, codes: sp.csr_array) -> None:
        """Take in one batch and improve D (float64) in place."""

    def forget(self, atoms: Array) -> None:
        """Reset the statistics of these atoms: they are new."""


@dataclass
class Sums:
    """A = Σ φᵀφ and B = Σ φᵀx of the batches, older ones counting less."""

    A: Array
    B: Array
    forgetting: float
    t: int = 0

    @classmethod
    def zero(cls, D: Array, forgetting: float) -> Sums:
        """Start with no sample read; before batch t the sums shrink by (1 − 1/t)^forgetting."""
        return cls(np.zeros((len(D), len(D))), np.zeros(D.shape), forgetting)

    def update(self, D: Array, x: Any, codes: sp.csr_array) -> None:
        """Replace each atom in turn by the exact minimiser on the sphere of ½⟨A, DDᵀ⟩ − ⟨B, D⟩."""
        A, B = self.A, self.B
        self.t += 1
        for sums in (A, B):
            sums *= (1 - 1 / self.t) ** self.forgetting
        arrays = frozen(codes.indptr.astype(np.int64), codes.indices.astype(np.int32, copy=False), codes.data)
        _kernels.accumulate(*arrays, *frozen(dense_rows(x, slice(None))), A, B)
        least = 1e-12 * float(np.trace(A)) / len(A)
        for first in range(0, len(D), _BLOCK):
            block = slice(first, first + _BLOCK)
            S = B[block] - A[block] @ D
            _kernels.update_block(S, *frozen(np.ascontiguousarray(A[block, block])), D[block], least)

    def forget(self, atoms: Array) -> None:
        """Reset the statistics of these atoms to zero."""
        self.A[atoms] = 0
        self.A[:, atoms] = 0
        self.B[atoms] = 0


@dataclass
class Recursion:
    """C = A⁻¹, A = Σ φᵀφ of the batches, older ones counting less."""

    C: Array
    forgetting: float
    horizon: float
    t: int = 0
    trust: float = 1.0

    @classmethod
    def start(cls, D: Array, forgetting: float, horizon: float) -> Recursion:
        """Start with no sample read; the forgetting factor rises from ``forgetting`` to 1 in ``horizon`` batches."""
        return cls(np.eye(len(D)), forgetting, horizon)

    def update(self, D: Array, x: Any, codes: sp.csr_array) -> None:
        """Move D to D + C Φᵀ(X − ΦD), of the product only the part tangent to the spheres; then scale to unit norm."""
        codes = codes.astype(np.float64)
        energy = float(np.sum(codes.data**2)) / len(D)
        if not energy > 0:
            return
        if self.t == 0:  # the start counts as much as one batch
            self.trust = energy
            self.C /= energy
        self.t += 1
        self._remember(codes)
        pull = codes.T @ (dense_rows(x, slice(None)) - codes @ D)  # (r, m)
        pull -= np.einsum("ij,ij->i", pull, D)[:, None] * D
        step = self.C @ pull
        norms = np.linalg.norm(D + step, axis=1)
        step[~(norms < _LEAP)] = 0  # the step is tangent, so norms are at least 1
        D += step
        self._normalise(D)

    def _remember(self, codes: sp.csr_array) -> None:
        """Update C to (λA + ΦᵀΦ)⁻¹ = (C − CΦᵀ(λI + ΦCΦᵀ)⁻¹ΦC)/λ."""
        weight = 1 - (1 - self.forgetting) * max(0.0, 1 - self.t / self.horizon) ** 3
        V = codes @ self.C  # (b, r)
        M = codes @ V.T  # (b, b)
        M.flat[:: len(M) + 1] += weight
        try:
            L = scipy.linalg.cholesky(M, lower=True, check_finite=False)
        except np.linalg.LinAlgError:  # rounding has taken the sign of an eigenvalue of C: it begins anew
            self.C = np.eye(len(self.C)) / self.trust
            return
        Y = scipy.linalg.solve_triangular(L, V, lower=True, check_finite=False)
        self.C -= Y.T @ Y
        self.C /= weight

    def _normalise(self, D: Array) -> None:
        """Scale atoms to unit norm; codes grow by the norms that atoms lose, so rows and columns of C shrink by them.

        C of atoms out of use grows with forgetting; the bound keeps it from overflowing.
        """
        norms = np.linalg.norm(D, axis=1)
        D /= norms[:, None]
        growth = np.maximum(1.0, np.diag(self.C) * self.trust / (norms**2 * _LEAP))
        scale = 1 / (norms * np.sqrt(growth))
        self.C *= scale[:, None] * scale

    def forget(self, atoms: Array) -> None:
        """Reset the statistics of these atoms to their initial value."""
        self.C[atoms] = 0
        self.C[:, atoms] = 0
        self.C[atoms, atoms] = 1 / self.trust
