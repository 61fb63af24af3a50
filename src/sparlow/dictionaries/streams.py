"""Learners that read the samples in batches and keep sums only: online dictionary learning and recursive least squares.

minimise Σᵢ ½‖xᵢ − φᵢD‖² + Σⱼ g(φᵢⱼ) over unit-norm atoms D and codes φᵢ
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from .. import _kernels
from ..checks import Array, check_count
from ..coding import Coder, encode
from ..constants import DEAD, LEARNING_TOL, ONLINE_FORGETTING
from ..parallel import Threads, frozen
from ..priors import Prior
from .atoms import Callback, check_samples, dense_rows, first_atoms, renew

_BLOCK = 32  # atoms updated between two products with all atoms


def online(
    X: ArrayLike | sp.sparray | sp.spmatrix,
    n_atoms: int,
    prior: Prior,
    *,
    n_iter: int = 10,
    batch_size: int | None = None,
    forgetting: float = ONLINE_FORGETTING,
    start: ArrayLike | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    callback: Callback | None = None,
) -> Array:
    """Learn atoms online, as Mairal, Bach, Ponce and Sapiro (2010) do.

    Each batch is coded with the atoms at hand and enters A = Σ φᵀφ and B = Σ φᵀx, older batches counting less. Then
    each atom in turn becomes the exact minimiser on the sphere of ½⟨A, DDᵀ⟩ − ⟨B, D⟩.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, m)
        Samples as they are, neither centred nor scaled.
    n_atoms : int
        How many atoms; at most the number of samples of distinct direction.
    prior : Prior
        What codes cost, for instance ``ElasticNet(0.1)``.
    n_iter : int, default=10
        Passes over the samples, each in a new random order.
    batch_size : int, optional
        Samples per batch; by default n/10, but 32 at least and 512 at most.
    forgetting : float, default=3.0
        ρ ≥ 0: before batch t the sums shrink by (1 − 1/t)^ρ. 0 never forgets.
    start : array of shape (n_atoms, m), optional
        Atoms to start from, random samples by default.
    random_state : int or RandomState, optional
        Which samples to start from, and their order.
    n_jobs : int, optional
        Threads. The result does not depend on it.
    callback : callable, optional
        ``callback(iteration, dictionary, cost)`` after each pass, the cost being the mean objective that its batches
        met; it stops the learner by returning True.

    Returns
    -------
    dictionary : array of shape (n_atoms, m)
        In the precision of X. Atoms that no code used are replaced, after each pass, by the samples explained worst.

    """
    if not 0 <= forgetting < np.inf:
        raise ValueError(f"forgetting must be zero or a positive number, got {forgetting!r}.")
    size = None if batch_size is None else check_count(batch_size, "batch_size")
    stream = Passes.of(X, n_atoms, prior, n_iter, size, start, random_state, n_jobs)
    return stream.learn(Sums.zero(stream.D, forgetting), callback)


def rls_dla(
    X: ArrayLike | sp.sparray | sp.spmatrix,
    n_atoms: int,
    prior: Prior,
    *,
    n_iter: int = 10,
    batch_size: int | None = None,
    forgetting: float = 0.8,
    horizon: float = 0.8,
    start: ArrayLike | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    callback: Callback | None = None,
) -> Array:
    """Learn atoms by recursive least squares, batch by batch, as Skretting and Engan (2010) do.

    Each batch of codes Φ and samples X gives a step D ← D + C Φᵀ(X − ΦD), where C is the inverse of A = Σ φᵀφ over all
    codes so far, older ones counting less, kept up to date by the Woodbury identity. Of Φᵀ(X − ΦD) only the part
    tangent to the spheres is used: a prior shrinks codes, which least squares without it would answer by longer atoms
    and, once these are cut to unit norm, by a rising cost. C is scaled along with the atoms. The forgetting factor
    rises from ``forgetting`` to 1 along a cubic, so the search is bold at first and settles later.

    Parameters
    ----------
    X, n_atoms, prior, n_iter, batch_size, start, random_state, n_jobs, callback
        As of :func:`online`.
    forgetting : float, default=0.8
        λ₀ in (0, 1], the first forgetting factor per batch.
    horizon : float, default=0.8
        The share of all batches after which λ = 1.

    Returns
    -------
    dictionary : array of shape (n_atoms, m)
        In the precision of X. Atoms that no code used are replaced, after each pass, by the samples explained worst.

    """
    if not 0 < forgetting <= 1:
        raise ValueError(f"forgetting must be above 0 and at most 1, got {forgetting!r}.")
    if not 0 < horizon <= 1:
        raise ValueError(f"horizon must be above 0 and at most 1, got {horizon!r}.")
    size = None if batch_size is None else check_count(batch_size, "batch_size")
    stream = Passes.of(X, n_atoms, prior, n_iter, size, start, random_state, n_jobs)
    return stream.learn(Recursion.start(stream.D, forgetting, horizon * stream.n_batches), callback)


def begin_online(X: Any, n_atoms: int, random_state: Any) -> tuple[Array, Sums]:
    """Return the atoms that a stream begins with, drawn from its first batch, and sums over nothing."""
    D = first_atoms(X, n_atoms, None, check_random_state(random_state)).astype(np.float64)
    return D, Sums.zero(D, ONLINE_FORGETTING)


def continue_online(D: Array, memory: Sums, X: Any, prior: Prior, n_jobs: int | None) -> Array:
    """Return the atoms after one more batch, which ``memory`` takes in."""
    D = D.copy()
    with Threads(1):
        memory.update(D, X, encode(X, D.astype(X.dtype), prior, tol=LEARNING_TOL, n_jobs=n_jobs))
    return D.astype(X.dtype)


@dataclass
class Passes:
    """Passes over the samples in random batches: coded, handed to a memory, and atoms of no use renewed."""

    X: Any
    D: Array
    prior: Prior
    n_iter: int
    size: int
    rng: np.random.RandomState
    n_jobs: int | None

    @classmethod
    def of(
        cls,
        X: Any,
        n_atoms: int,
        prior: Prior,
        n_iter: int,
        size: int | None,
        start: Any,
        random_state: Any,
        n_jobs: Any,
    ) -> Passes:
        """Return passes over checked samples, from atoms given or drawn."""
        X = check_samples(X)
        if not isinstance(prior, Prior):
            raise ValueError(f"prior must be an object such as ElasticNet(0.1) or KLDivergence(0.05), got {prior!r}.")
        rng = check_random_state(random_state)
        D = first_atoms(X, n_atoms, start, rng)
        size = batch_size_for(X.shape[0]) if size is None else size
        return cls(X, D, prior, check_count(n_iter, "n_iter"), size, rng, n_jobs)

    @property
    def n_batches(self) -> int:
        """Return the number of batches in all passes."""
        return self.n_iter * -(-self.X.shape[0] // self.size)

    def learn(self, memory: Memory, callback: Callback | None) -> Array:
        """Learn a dictionary batch by batch."""
        D = self.D.astype(np.float64)
        costs = np.empty(self.X.shape[0])
        coder = Coder(self.D, self.prior, tol=LEARNING_TOL, n_jobs=self.n_jobs)
        with Threads(1):  # holds BLAS to one thread also between the calls of encode
            for iteration in range(1, self.n_iter + 1):
                energy = np.zeros(len(D))
                for rows in batches(self.X.shape[0], self.size, self.rng):
                    x, coder = self.X[rows], coder.at(D.astype(self.D.dtype))
                    codes = coder.codes(x)
                    costs[rows] = coder.costs(x, codes)
                    energy += np.bincount(codes.indices, codes.data.astype(np.float64) ** 2, len(D))
                    memory.update(D, x, codes)
                fewest, worst = DEAD * float(energy.mean()), np.argsort(-costs, kind="stable")
                memory.forget(renew(D, self.X, energy, fewest, worst, positive=self.prior.positive))
                if callback is not None and callback(iteration, D.astype(self.D.dtype), float(costs.mean())) is True:
                    break
        return D.astype(self.D.dtype)


# ── what learners keep of the batches they have read, and the step that it allows ───────────────────────────────────


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
        step[~(norms < 1e6)] = 0  # the step is tangent, so norms are at least 1
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
        # a variance so large is of rounding errors
        growth = np.maximum(1.0, np.diag(self.C) * self.trust / (norms**2 * 1e6))
        scale = 1 / (norms * np.sqrt(growth))
        self.C *= scale[:, None] * scale

    def forget(self, atoms: Array) -> None:
        """Reset the statistics of these atoms to their initial value."""
        self.C[atoms] = 0
        self.C[:, atoms] = 0
        self.C[atoms, atoms] = 1 / self.trust
