"""The derivative of codes with respect to the dictionary, and the pieces of data that coding shares with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from . import _kernels
from .checks import Array, check_array
from .parallel import Threads, chunks, frozen
from .priors import Prior

_SMALL = 1 << 20  # numbers of a dictionary up to which products are computed row by row: chunks have a sum each
_LONG = 0.4  # share of atoms in use from which on dense products are faster than those


@dataclass(frozen=True)
class Atoms:
    """Atoms D and G = D Dᵀ, and both for screening, in single precision too.

    Rows of G and the atoms for screening are followed by zeros, so that kernels can read rows in whole blocks; so are
    those in D.
    """

    D: Array
    G: Array
    D_screen: Array
    D_single: Array
    G_single: Array

    @classmethod
    def of(cls, D: Array, n_jobs: int | None) -> Atoms:
        """Compute the Gram matrix by blocks, so that it has the same bits for any number of threads."""
        r, m = D.shape
        wide = _kernels.aligned((_kernels.padded(r) + _kernels.padded(1), m), D.dtype)
        wide[:r] = D
        D, D_screen = wide[:r], wide[: _kernels.padded(r)]
        G = _kernels.aligned((r, len(D_screen)), D.dtype)
        single = G if D.dtype == np.float32 else _kernels.aligned(G.shape, np.float32)

        def fill(rows: slice) -> None:
            lower = D[rows] @ D[: rows.stop].T
            G[rows, : rows.stop] = lower
            G[: rows.start, rows] = lower[:, : rows.start].T
            if single is not G:
                single[rows, : rows.stop] = lower
                single[: rows.start, rows] = lower[:, : rows.start].T

        with Threads(n_jobs) as threads:
            list(threads.map(fill, chunks(r, max(D.shape))))
        return cls(D, G, D_screen, D_screen.astype(np.float32, copy=False), single)


def dense_chunk(X: Any, rows: slice, D: Array) -> Array:
    """Return some rows as a plain array, small enough in value that squares do not overflow."""
    part = X[rows]
    dense = np.ascontiguousarray(part.toarray() if sp.issparse(part) else part, dtype=D.dtype)
    limit = 1e18 if D.dtype == np.float32 else 1e150
    if not frobenius(dense) < limit and max(dense.max(), -dense.min()) > limit:
        raise ValueError(
            f"X has entries above {limit:.0g} in {D.dtype}: divide it (and the prior's weights) by its scale."
        )
    return dense


def frobenius(dense: Array) -> float:
    """Return the root of the sum of all squares, infinite where it overflows: a quick bound on norms and entries."""
    with np.errstate(over="ignore"):
        flat = dense.ravel()
        return float(np.sqrt(flat @ flat))


def map_codes(function: Any, codes: sp.csr_array, prior: Prior) -> Array:
    """Return a scalar function of the prior, which a coder has checked, of each stored code."""
    indices = codes.indices.astype(np.int32, copy=False)
    parameters = np.array(prior.parameters(codes.shape[1]), dtype=np.float64).ravel()
    return _kernels.map_scalar(function, *frozen(codes.data, indices), parameters)


def rows_of(matrix: sp.csr_array, rows: slice, data: Array | None = None) -> tuple[Array, Array, Array]:
    """Return ``indptr, indices, data`` of some rows, for a kernel."""
    indptr = matrix.indptr[rows.start : rows.stop + 1].astype(np.int64)
    entries = slice(indptr[0], indptr[-1])
    indices = matrix.indices[entries].astype(np.int32, copy=False)
    return frozen(indptr - indptr[0], indices, (matrix.data if data is None else data)[entries])


def gradient_entries(gradient: Any, codes: sp.csr_array) -> Callable[[slice], Array]:
    """Return a function that gives the entries of ∂f/∂Φ on the support of some rows of the codes."""
    n, r = codes.shape
    dtype = codes.dtype
    if isinstance(gradient, (tuple, list)) and len(gradient) in (2, 3) and np.ndim(gradient[0]) == 2:
        left, right = (check_array(factor, dtype=dtype, order="C", input_name="gradient") for factor in gradient[:2])
        if left.shape[0] != n or right.shape[1] != r or left.shape[1] != right.shape[0]:
            raise ValueError(f"The factors of gradient must be ({n}, l) and (l, {r}), got {left.shape}, {right.shape}.")
        third = gradient[2] if len(gradient) == 3 else 0.0
        if np.ndim(third) or sp.issparse(third):
            third = _entries_of(third, codes)
        return factored_entries(left, right, third, codes)
    return _entries_of(gradient, codes)


def factored_entries(left: Array, right: Array, scale: Any, codes: sp.csr_array) -> Callable[[slice], Array]:
    """Return the entries of left @ right + scale · Φ, known to be sound; ``scale`` is one or gives entries itself."""
    dtype = codes.dtype
    left = np.ascontiguousarray(left, dtype)
    right = np.ascontiguousarray(np.asarray(right, dtype).T)

    def factored(rows: slice) -> Array:
        indptr, indices, data = rows_of(codes, rows)
        product = _kernels.factored_entries(indptr, indices, *frozen(left[rows], right))
        return product + (scale(rows) if callable(scale) else dtype.type(scale) * data)

    return factored


def _entries_of(gradient: Any, codes: sp.csr_array) -> Callable[[slice], Array]:
    """Return the entries of a matrix on the support of some rows of the codes, as a function of the rows."""
    full = check_array(gradient, accept_sparse="csr", dtype=codes.dtype, input_name="gradient")
    if full.shape != codes.shape:
        raise ValueError(f"gradient must have shape {codes.shape} like the codes, got {full.shape}.")

    def plain(rows: slice) -> Array:
        indptr, indices, _ = rows_of(codes, rows)
        part = full[rows].toarray() if sp.issparse(full) else full[rows]
        return part[np.repeat(np.arange(len(indptr) - 1), np.diff(indptr)), indices]

    return plain


def solved(
    atoms: Atoms, prior: Prior, codes: sp.csr_array, entries: Any, threads: Threads, parts: list[slice]
) -> sp.csr_array:
    """Return Q, with β = K⁻¹ w on the support of each sample."""
    D, (r, m) = atoms.D, atoms.D.shape
    _, _, curvature, _ = prior.compiled()
    curv = map_codes(curvature, codes, prior).astype(D.dtype, copy=False)
    largest = m if codes.nnz and curv.min() > 1e-6 else r  # the Woodbury identity is stable

    def solve(rows: slice) -> Array:
        indptr, indices, curv_rows = rows_of(codes, rows, curv)
        weights = entries(rows)
        _kernels.solve_supports(indptr, indices, curv_rows, weights, *frozen(atoms.G), largest)
        for i in np.flatnonzero(np.diff(indptr) > largest):
            part = slice(indptr[i], indptr[i + 1])
            weights[part] = solve_woodbury(D[indices[part]], curv_rows[part], weights[part])
        return weights

    solved = np.concatenate(list(threads.map(solve, parts)))
    return sp.csr_array((solved, codes.indices, codes.indptr), shape=codes.shape)


def solve_woodbury(D: Array, h: Array, w: Array) -> Array:
    """Solve (D Dᵀ + diag h)⁻¹ w for more atoms than dimensions: H⁻¹w − H⁻¹D (I + DᵀH⁻¹D)⁻¹ DᵀH⁻¹w."""
    scaled = D / np.sqrt(h)[:, None]
    inner = scaled.T @ scaled
    inner.flat[:: len(inner) + 1] += 1
    factor = scipy.linalg.cho_factor(inner, overwrite_a=True, check_finite=False)
    correction = scipy.linalg.cho_solve(factor, D.T @ (w / h), check_finite=False)
    return (w - D @ correction) / h


def products(X: Any, D: Array, codes: sp.csr_array, Q: sp.csr_array, threads: Threads, parts: list[slice]) -> Array:
    """Compute Qᵀ(X − ΦD) − Φᵀ(QD) = QᵀX − (QᵀΦ + ΦᵀQ) D, in the way that is fastest for these codes."""
    (r, m), n = D.shape, X.shape[0]
    by_rows = D.size <= _SMALL and not sp.issparse(X)
    long = codes.nnz > n * (_LONG * r if by_rows else m / 2)  # most of the dense products' entries are in use
    if not (by_rows or long):
        return sparse_products(X, D, codes, Q, threads)

    def dense(rows: slice) -> Array:
        q, phi = Q[rows].toarray(), codes[rows].toarray()
        return q.T @ (dense_chunk(X, rows, D) - phi @ D) - phi.T @ (q @ D)

    def sparse(rows: slice) -> Array:
        indptr, indices, q = rows_of(Q, rows)
        phi, out = codes.data[codes.indptr[rows.start] : codes.indptr[rows.stop]], np.zeros_like(D)
        _kernels.residual_products(indptr, indices, q, *frozen(phi, dense_chunk(X, rows, D), D), out)
        return out

    gradient = np.zeros_like(D)
    for term in threads.map(dense if long else sparse, parts):
        gradient += term
    return gradient


def sparse_products(X: Any, D: Array, codes: sp.csr_array, Q: sp.csr_array, threads: Threads) -> Array:
    """Compute QᵀX − (QᵀΦ + ΦᵀQ) D by blocks of atoms, from the columns of Q and Φ."""
    r, m = D.shape
    places = np.arange(Q.nnz, dtype=Q.indptr.dtype)
    columns = sp.csr_array((places, Q.indices, Q.indptr), shape=Q.shape).tocsc()
    del places
    bounds = columns.indptr.astype(np.int64)
    indptr, indices, q = rows_of(Q, slice(0, Q.shape[0]))
    dense = np.empty((Q.shape[0], 0), D.dtype) if sp.issparse(X) else np.ascontiguousarray(X)
    rows = (indptr, indices, q, *frozen(codes.data, dense))
    gradient = np.empty((r, m), D.dtype)

    def block(atoms: slice) -> None:
        size = atoms.stop - atoms.start
        part = slice(bounds[atoms.start], bounds[atoms.stop])
        local, samples = bounds[atoms.start : atoms.stop + 1] - part.start, columns.indices[part].astype(np.int32)
        q_t, phi_t = Q.data[columns.data[part]], codes.data[columns.data[part]]
        QtX, S = np.zeros((size, dense.shape[1]), D.dtype), np.zeros((size, r), D.dtype)
        _kernels.transposed_products(*frozen(local, samples, q_t, phi_t), *rows, QtX, S)
        if sp.issparse(X):
            QtX = (sp.csr_array((q_t, samples, local), shape=(size, Q.shape[0])) @ X).toarray()
        gradient[atoms] = QtX - S @ D

    list(threads.map(block, chunks(r, max(D.shape))))
    return gradient
