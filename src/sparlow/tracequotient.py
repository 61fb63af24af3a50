"""The best projection for fixed codes: maximise tr(UᵀAU)/tr(UᵀBU) over orthonormal U."""

from __future__ import annotations

import inspect
import numbers
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike
from scipy.sparse.linalg import ArpackError, eigsh

from .checks import Array, check_array, check_count, is_count
from .parallel import one_blas_thread

# Lanczos restarts at random where eigenvalues are equal. Only newer versions of SciPy take a seed for that: with others
# the dense solver is used, so that equal calls give equal bits.
SEEDED = "rng" in inspect.signature(eigsh).parameters
_PARTIAL = 1500  # dimension from which on Lanczos pays
_DENSE = 0.2  # what LAPACK's partial solver costs in products with a vector, by dimension (measured at 1000 and 2000)


class TraceRatio(NamedTuple):
    """The outcome of :func:`trace_ratio`."""

    projection: Array
    value: float
    n_iter: int


@one_blas_thread()
def trace_ratio(
    A: ArrayLike,
    B: ArrayLike,
    n_components: int,
    *,
    start: ArrayLike | None = None,
    tol: float = 1e-10,
    max_iter: int = 100,
) -> TraceRatio:
    """Maximise tr(UᵀAU) / tr(UᵀBU) over U (r, l) with UᵀU = I.

    The iteration U ← top-l eigenvectors of A − ρB, ρ ← tr(UᵀAU)/tr(UᵀBU) rises monotonically to the global maximum,
    with quadratic speed at its end (Ngo, Bellalij and Saad, 2010). There is no closed form for l > 1: generalised
    eigenvectors maximise the ratio trace tr((UᵀBU)⁻¹UᵀAU), which is another problem.

    Parameters
    ----------
    A, B : array of shape (r, r)
        Symmetric. B positive semi-definite, of rank more than r − l.
    n_components : int
        l, from 1 to r.
    start : array of shape (r, l), optional
        An orthonormal U to start from, for instance the solution of a similar problem.
    tol : float
        The iteration stops when the quotient rises by less, relative to its size, or when its speed says that the next
        turn would add a ten-thousandth of that at most.
    max_iter : int
        Largest number of eigenvalue problems.

    Returns
    -------
    projection : array of shape (r, l)
        U, rotated so that UᵀAU is diagonal and descending, each column's largest entry positive.
    value : float
        The quotient.
    n_iter : int
        Eigenvalue problems solved.

    Examples
    --------
    >>> import numpy as np
    >>> from sparlow import trace_ratio
    >>> U, value, _ = trace_ratio(np.diag([3.0, 2.0, 1.0]), np.diag([1.0, 1.0, 4.0]), n_components=2)
    >>> value
    2.5

    """
    top: Array = check_array(A, dtype=np.float64, input_name="A")
    bottom: Array = check_array(B, dtype=np.float64, input_name="B")
    r = len(top)
    if top.shape != (r, r) or bottom.shape != (r, r):
        raise ValueError(f"A and B must be square and of the same size, got {top.shape} and {bottom.shape}.")
    for M, given, name in ((top, A, "A"), (bottom, B, "B")):
        rounding = 1e-10 if getattr(given, "dtype", None) != np.float32 else 1e-5  # of sums in single precision
        if not np.allclose(M, M.T, rtol=100 * rounding, atol=rounding * (np.abs(M).max() + np.finfo(float).tiny)):
            raise ValueError(f"{name} must be symmetric.")
    if not is_count(n_components) or n_components > r:
        raise ValueError(f"n_components must be a whole number from 1 to {r}, the size of A, got {n_components}.")
    check_count(max_iter, "max_iter")
    if not isinstance(tol, numbers.Real) or not 0 <= tol < np.inf:
        raise ValueError(f"tol must be zero or a positive number, got {tol!r}.")
    U, value, turns = best_projection(top, bottom, n_components, _check_start(start, (r, n_components)), tol, max_iter)
    return TraceRatio(canonical(U.T @ (top @ U), U), value, turns)


def _check_start(start: ArrayLike | None, shape: tuple[int, int]) -> Array | None:
    """Return a U to start from, orthonormal to the last bit, or None."""
    if start is None:
        return None
    U: Array = check_array(start, dtype=np.float64, input_name="start")
    if U.shape != shape:
        raise ValueError(f"start must have shape {shape}, got {U.shape}.")
    off = np.abs(U.T @ U - np.eye(shape[1])).max()
    if off > 1e-5:
        raise ValueError(
            f"start must have orthonormal columns, but UᵀU differs from the identity by {off:.2g}. Use its factor Q: "
            "numpy.linalg.qr(start)[0]."
        )
    return np.linalg.qr(U)[0]


def best_projection(
    A: Array, B: Array, n_components: int, start: Array | None = None, tol: float = 1e-10, max_iter: int = 100
) -> tuple[Array, float, int]:
    """Run the iteration of :func:`trace_ratio`, without its checks and canonical form."""
    U: Any = start
    value = -np.inf if U is None else _quotient(A, B, U)
    shift = first_shift(A, B, n_components) if U is None else value
    before = np.inf  # what the last turn gained
    for turn in range(1, max_iter + 1):
        U = _top_eigenvectors(A - shift * B, n_components, U, 10 * tol)
        new = _quotient(A, B, U)
        gain, value, shift = new - value, max(new, value), new
        # the gain that is predicted for the next turn is below the tolerance by a wide margin
        if min(gain, 1e4 * next_gain(gain, before)) <= tol * abs(new) and np.isfinite(gain):
            return U, value, turn
        before = gain
    return U, value, max_iter


def next_gain(gain: float, before: float) -> float:
    """Return what the next turn will gain: what is missing falls as its square, so that gains d₁, d₂ make d₂³/d₁²."""
    return gain * (gain / before) ** 2 if 0 < gain < before < np.inf else np.inf


def check_scatter(B: Array, squares: float, what: str, lost: float = 0.0) -> None:
    """Refuse a denominator in which only rounding is left.

    Sums of squares that cancel leave about 1e-13 of the ``squares`` of the rows that B was made of; ``lost`` is what
    centring leaves of them.
    """
    rounding = 1e-13 * squares + lost
    if np.trace(B) < -rounding:
        raise ValueError(
            f"The denominator is negative, tr(B) = {np.trace(B):.3g}: a criterion's S_B must be positive semi-definite."
        )
    if not np.trace(B) > rounding:
        raise ValueError(
            f"The {what} have no scatter for the denominator: those of all samples, or of all samples of each class, "
            "are equal."
        )


def first_shift(A: Array, B: Array, count: int) -> float:
    """Return the quotient to start from: that of B⁻¹AG, G random, or tr(A)/tr(B) where it is more.

    Where the rank of A is ``count``, as for lda, the columns of B⁻¹AG span the solution of the ratio trace.
    """
    trace = float(np.trace(B))
    if not trace > 0:
        raise ValueError("tr(B) must be positive: B must be positive semi-definite and not zero.")
    plain = float(np.trace(A)) / trace
    G = np.random.RandomState(0).standard_normal((len(A), count))
    try:
        factor = scipy.linalg.cho_factor(B, lower=True, check_finite=False)
    except np.linalg.LinAlgError:  # not every B is positive definite
        return plain
    U = np.linalg.qr(scipy.linalg.cho_solve(factor, A @ G, check_finite=False))[0]
    return max(plain, _quotient(A, B, U))


def _quotient(A: Array, B: Array, U: Array) -> float:
    """Return tr(UᵀAU)/tr(UᵀBU), or say that it is unbounded."""
    bottom = float(np.vdot(U, B @ U))
    if not bottom > 1e-14 * float(np.trace(B)):
        raise ValueError(
            f"tr(UᵀBU) vanishes for some subspace of {U.shape[1]} dimensions, so the quotient is unbounded. "
            "Add a multiple of the identity to B (shrinkage), or ask for more components."
        )
    return float(np.vdot(U, A @ U)) / bottom


def _top_eigenvectors(M: Array, count: int, start: Array | None, tol: float) -> Array:
    """Return the eigenvectors of the ``count`` largest eigenvalues.

    By Lanczos where that is a small part of a large matrix, for as many restarts as a dense solver would cost: where
    eigenvalues cluster about the last one asked for, as those of lda do with many classes, it would take far more.
    """
    r = len(M)
    basis = 2 * count + 20
    restarts = int((_DENSE * r - basis) / (basis - count))
    if SEEDED and r >= _PARTIAL and restarts >= 1:
        v0 = np.ones(r) if start is None else start.sum(axis=1) + 1e-3
        try:
            _, U = eigsh(M, count, which="LA", v0=v0, ncv=basis, maxiter=restarts, tol=tol, rng=0)
            return np.linalg.qr(U)[0]
        except ArpackError:
            pass
    try:
        U = scipy.linalg.eigh(M, subset_by_index=[r - count, r - 1], check_finite=False)[1]
        if U.shape[1] == count and np.abs(U.T @ U - np.eye(count)).max() < 1e-8:
            return U
    except np.linalg.LinAlgError:
        pass
    # on some clusters of equal eigenvalues LAPACK's partial solver gives up, gives a vector twice, or too few
    return np.linalg.eigh(M)[1][:, r - count :]


def canonical(core: Array, U: Array) -> Array:
    """Rotate U to diagonalise the core UᵀAU, descending, the entry of largest modulus in each column positive.

    The quotient fixes only the span of U; this choice is the same on every run.
    """
    _, V = np.linalg.eigh(core)
    U = U @ V[:, ::-1]
    largest = np.argmax(np.abs(U), axis=0)
    signs = np.sign(U[largest, np.arange(U.shape[1])])
    return U * np.where(signs == 0, 1.0, signs)
