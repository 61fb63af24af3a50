"""The derivative of the codes, sample by sample and atom by atom."""

import numpy as np

from .algebra import (
    DEPENDENT,
    DEPENDENT_SINGLE,
    PIVOT,
    PIVOT_SINGLE,
    dot,
    extend_factor,
    solve_factored,
    subtract_multiple,
)
from .compilation import ZERO, kernel


@kernel
def factored_entries(indptr, indices, left, right):
    """Return the entries of ``left @ right.T`` at the given places of a CSR pattern."""
    out = np.empty(indices.shape[0], left.dtype)
    for i in range(indptr.shape[0] - 1):
        for s in range(indptr[i], indptr[i + 1]):
            out[s] = dot(left[i], right[indices[s]])
    return out


@kernel
def solve_supports(indptr, indices, curv, weights, G, largest):
    """Solve β = (D_Λ D_Λᵀ + diag g″)⁻¹ w_Λ by sample, in place of ``weights``; supports above ``largest`` are left.

    Atoms that depend on those before them in the support, as far as rounding lets one tell, get β = 0.
    """
    size = 0
    for i in range(indptr.shape[0] - 1):
        k = indptr[i + 1] - indptr[i]
        if k <= largest:
            size = max(size, k)
    floor, dependent = (PIVOT_SINGLE, DEPENDENT_SINGLE) if G.itemsize == 4 else (PIVOT, DEPENDENT)
    L, right = np.empty((size, size), G.dtype), np.empty(size, G.dtype)
    kept, kept_curv = np.empty(size, np.int64), np.empty(size, G.dtype)
    support, support_curv = np.empty(size, np.int64), np.empty(size, G.dtype)
    places = np.empty(size, np.int64)
    for i in range(indptr.shape[0] - 1):
        first, k = indptr[i], indptr[i + 1] - indptr[i]
        if k > largest:
            continue
        for s in range(k):
            places[s], support[s], support_curv[s] = first + s, indices[first + s], curv[first + s]
        done = ZERO
        while True:
            done = extend_factor(G, support, support_curv, k, L, kept, kept_curv, done, floor, dependent)
            if done == 0 or L[done - 1, done - 1] * L[done - 1, done - 1] * dependent <= 1:
                break
            done -= 1  # this row depends on those before it
            k -= 1
            for s in range(done, k):
                places[s], support[s], support_curv[s] = places[s + 1], support[s + 1], support_curv[s + 1]
        for s in range(k):
            right[s] = weights[places[s]]
        solve_factored(L, right, k)
        for s in range(first, indptr[i + 1]):
            weights[s] = 0
        for s in range(k):
            weights[places[s]] = right[s]


@kernel
def transposed_products(indptr_t, samples, q_t, phi_t, indptr, indices, q, phi, X, QtX, S):
    """Compute rows of QᵀX and of S = QᵀΦ + ΦᵀQ for some atoms, of which ``*_t`` hold the columns (CSC)."""
    m = X.shape[1]
    for j in range(QtX.shape[0]):
        out, s_row = QtX[j], S[j]
        for s in range(indptr_t[j], indptr_t[j + 1]):
            i, q_ij, phi_ij = samples[s], q_t[s], phi_t[s]
            subtract_multiple(out, -q_ij, X[i], m)
            for t in range(indptr[i], indptr[i + 1]):
                s_row[indices[t]] += q_ij * phi[t] + phi_ij * q[t]


@kernel
def residual_products(indptr, indices, q, phi, X, D, out):
    """Add Qᵀ(X − ΦD) − Φᵀ(QD) to ``out`` (r, m), row by row: for short rows, whose atoms stay in the cache."""
    m = X.shape[1]
    residual, step = np.empty(m, D.dtype), np.empty(m, D.dtype)
    for i in range(indptr.shape[0] - 1):
        for t in range(m):
            residual[t], step[t] = X[i, t], 0
        for s in range(indptr[i], indptr[i + 1]):
            atom = D[indices[s]]
            for t in range(m):
                residual[t] -= phi[s] * atom[t]
                step[t] += q[s] * atom[t]
        for s in range(indptr[i], indptr[i + 1]):
            row = out[indices[s]]
            for t in range(m):
                row[t] += q[s] * residual[t] - phi[s] * step[t]
