"""Dictionary learning: orthogonal matching pursuit, and updates of atoms one after the other."""

import math

import numpy as np

from .algebra import dot, euclidean, subtract_multiple
from .compilation import ZERO, kernel, part


@part
def _largest(z):
    """Return the place of the largest magnitude; two passes, since the first is then done in vector registers."""
    best = abs(z[0])
    for j in range(z.shape[0]):
        best = max(best, abs(z[j]))
    for j in range(z.shape[0]):
        if abs(z[j]) >= best:
            return j
    return 0


@part
def _orthogonalise(G, chosen, k, W):
    """Set row k of W, the products qₖ·dⱼ of the new orthonormal direction with all atoms.

    Return ρ = qₖ·d for the new atom d, by ρ² = 1 − Σₜ (qₜ·d)².
    """
    new = chosen[k]
    row, source = W[k], G[new]
    square = source[new]
    for j in range(row.shape[0]):
        row[j] = source[j]
    for t in range(k):
        along = W[t, new]
        square -= along * along
        subtract_multiple(row, along, W[t], row.shape[0])
    return math.sqrt(max(square, 0.0))


@kernel
def pursue_chunk(C, G, energies, n_nonzero, floor, positive, indices, data):
    """Run orthogonal matching pursuit on a few samples, from ``C = X Dᵀ``, ``G = D Dᵀ`` and ``energies`` ‖x‖².

    The chosen atoms are orthogonalised one by one to q₀, q₁, …, of which only the products with the atoms are kept:
    W[t, j] = qₜ·dⱼ. Then z = D (x − Σₜ aₜqₜ) needs no residual, and the codes solve a triangular system. A sample stops
    early when ``floor`` of its energy is left, or when the best atom depends on those chosen to this precision.

    If ``positive``, only atoms of positive correlation join, and codes that the last fit makes negative become zero.

    Fills ``indices`` and ``data`` (n, n_nonzero), sorted by atom, and returns the number of codes per sample.
    """
    n, r = C.shape
    counts = np.zeros(n, np.int64)
    W = np.empty((n_nonzero, r), C.dtype)
    z = np.empty(r, C.dtype)
    chosen = np.empty(n_nonzero, np.int64)
    along, pivots = np.empty(n_nonzero), np.empty(n_nonzero)
    for i in range(n):
        for j in range(r):
            z[j] = C[i, j]
        left = float(energies[i])
        k = ZERO
        while k < n_nonzero and left > floor * energies[i]:
            best = np.argmax(z) if positive else _largest(z)
            if float(z[best]) ** 2 <= floor * energies[i] or (positive and z[best] <= 0):
                break
            chosen[k] = best
            pivot = _orthogonalise(G, chosen, k, W)
            if pivot * pivot <= floor:
                break
            for j in range(r):
                W[k, j] /= pivot
            along[k], pivots[k] = z[best] / pivot, pivot
            left -= along[k] * along[k]
            subtract_multiple(z, z.dtype.type(along[k]), W[k], r)
            k += 1
            for t in range(k):
                z[chosen[t]] = 0
        for t in range(k - 1, -1, -1):  # Lᵀφ = a with L[s, t] = qₜ·d of the s-th chosen
            for s in range(t + 1, k):
                along[t] -= W[t, chosen[s]] * along[s]
            along[t] /= pivots[t]
        for t in range(k):
            s = t
            while s > 0 and indices[i, s - 1] > chosen[t]:
                indices[i, s], data[i, s] = indices[i, s - 1], data[i, s - 1]
                s -= 1
            indices[i, s], data[i, s] = chosen[t], max(along[t], 0.0) if positive else along[t]
        counts[i] = k
    return counts


@kernel
def update_atoms(atoms, residual, D, indptr_t, samples, places, positive, codes):
    """Make the approximate K-SVD step, atom by atom, in place of ``D``, ``codes`` and ``residual = X − ΦD``.

    With E the residual of the samples that use an atom d, less its part, and g its codes: d ← Eᵀg / ‖Eᵀg‖, g ← E d.
    This is one step of alternating minimisation of ‖E − g d‖², so the error never rises; nor does it where codes must
    be ``positive``, with g ← max(E d, 0). ``samples`` and ``places`` (into ``codes``) list the users of each atom
    (CSC).
    """
    m = D.shape[1]
    new, old = np.empty(m, D.dtype), np.empty(m, D.dtype)
    for j in atoms:
        first, last = indptr_t[j], indptr_t[j + 1]
        square = 0.0
        for t in range(m):
            old[t] = D[j, t]
            new[t] = 0
        for s in range(first, last):  # Eᵀg = Rᵀg + ‖g‖² d
            g = codes[places[s]]
            square += g * g
            subtract_multiple(new, -g, residual[samples[s]], m)
        subtract_multiple(new, D.dtype.type(-square), old, m)
        length = euclidean(new)
        if not length > 0:
            continue
        for t in range(m):
            new[t] = new[t] / length
        cosine = dot(old, new)
        for s in range(first, last):
            row, g = residual[samples[s]], codes[places[s]]
            g_new = dot(row, new) + g * cosine
            if positive and g_new < 0:
                g_new *= 0
            for t in range(m):
                row[t] += g * old[t] - g_new * new[t]
            codes[places[s]] = g_new
        for t in range(m):
            D[j, t] = new[t]


@kernel
def accumulate(indptr, indices, codes, X, A, B):
    """Add ΦᵀΦ to A and ΦᵀX to B."""
    m = X.shape[1]
    for i in range(X.shape[0]):
        for s in range(indptr[i], indptr[i + 1]):
            j, code = indices[s], float(codes[s])
            for t in range(indptr[i], indptr[i + 1]):
                A[j, indices[t]] += code * codes[t]
            for t in range(m):
                B[j, t] += code * X[i, t]


@kernel
def update_block(S, A, D, least):
    """Replace each atom of a block in turn by the exact minimiser on the sphere, in place of ``D``.

    ``S = B − A D`` for the rows of the block with all atoms, ``A`` its diagonal block: d ← (s + Aⱼⱼd) / ‖s + Aⱼⱼd‖,
    and S follows. Atoms with Aⱼⱼ ≤ ``least`` are left as they are.
    """
    b, m = D.shape
    new = np.empty(m)
    for j in range(b):
        if A[j, j] <= least:
            continue
        for t in range(m):
            new[t] = S[j, t] + A[j, j] * D[j, t]
        length = euclidean(new)
        if not length > 0:
            continue
        for t in range(m):
            step = new[t] / length - D[j, t]
            D[j, t] += step
            new[t] = step
        for i in range(b):
            subtract_multiple(S[i], A[i, j], new, m)
