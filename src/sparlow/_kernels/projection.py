"""Features times a matrix, quadratic forms and thresholds, row by row."""

import numpy as np

from .algebra import dot
from .compilation import kernel


@kernel
def project(indptr, indices, data, X, W, out):
    """Add [Φ, X]W to ``out``, for codes Φ in CSR form and dense rows X; either may have no columns."""
    first, width = W.shape[0] - X.shape[1], W.shape[1]
    for i in range(out.shape[0]):
        row, x = out[i], X[i]
        for s in range(indptr[i], indptr[i + 1]):
            source, value = W[np.uint32(indices[s])], data[s]
            for c in range(width):
                row[c] += value * source[c]
        for j in range(0, X.shape[1] - 3, 4):  # four at a time: the row is read and written once for all four
            a, b, c, d = W[first + j], W[first + j + 1], W[first + j + 2], W[first + j + 3]
            u, v, w, z = x[j], x[j + 1], x[j + 2], x[j + 3]
            for t in range(width):
                row[t] += u * a[t] + v * b[t] + w * c[t] + z * d[t]
        for j in range(X.shape[1] - X.shape[1] % 4, X.shape[1]):
            source, value = W[first + j], x[j]
            for t in range(width):
                row[t] += value * source[t]


@kernel
def form_values(P, forms, out):
    """Write the values pᵀMp of quadratic forms M (l, p, p) at the rows of P to ``out`` (n, l)."""
    for i in range(P.shape[0]):
        p = P[i]
        for k in range(forms.shape[0]):
            total = 0.0
            for a in range(p.shape[0]):
                total += p[a] * dot(forms[k, a], p)
            out[i, k] = total


@kernel
def shrink(z, level, positive, counts, indices, data):
    """Store what a soft threshold leaves of the rows of z (n, r), and return how many numbers these are."""
    nnz = 0
    for i in range(z.shape[0]):
        first = nnz
        for j in range(z.shape[1]):
            value = z[i, j]
            rest = (-value if value < 0 and not positive else value) - level
            indices[nnz], data[nnz] = j, rest if value > 0 else -rest
            nnz += rest > 0
        counts[i] = nnz - first
    return nnz
