"""Descriptors of an image against the words of a codebook, and their pooling over cells."""

import math

import numpy as np

from .algebra import dot
from .compilation import kernel, part


@part
def insert(distance, word, nearest, distances):
    """Keep the smallest distances in rising order."""
    s = nearest.shape[0] - 1
    while s > 0 and distances[s - 1] > distance:
        nearest[s], distances[s] = nearest[s - 1], distances[s - 1]
        s -= 1
    nearest[s], distances[s] = word, distance


@kernel
def nearest_words(products, half_norms, k):
    """Return the k words of least ½‖b‖² − x·b, nearest first, from products x·b (n, r) and half_norms ½‖b‖² (r,)."""
    n, r = products.shape
    nearest = np.zeros((n, k), np.int32)
    distances, line = np.empty(k, np.float32), np.empty(r, np.float32)
    for i in range(n):
        row = products[i]
        for j in range(r):
            line[j] = half_norms[j] - row[j]
        distances[:] = np.float32(np.finfo(np.float32).max)
        for first in range(0, r, 16):  # few blocks hold a near word: most are passed by after one comparison
            last = min(first + 16, r)
            least = line[first]
            for j in range(first + 1, last):
                least = min(least, line[j])
            if least < distances[k - 1]:
                for j in range(first, last):
                    if line[j] < distances[k - 1]:
                        insert(line[j], j, nearest[i], distances)
    return nearest


@part
def factor_and_solve(C, w, least):
    """Solve Cw = 1 for a positive definite C by Cholesky's method, in place; pivots are ``least`` or more."""
    k = w.shape[0]
    for i in range(k):
        for j in range(i + 1):
            entry = C[i, j]
            for t in range(j):
                entry -= C[i, t] * C[j, t]
            C[i, j] = math.sqrt(max(entry, least)) if i == j else entry / C[j, j]
    for i in range(k):
        total = 1.0
        for t in range(i):
            total -= C[i, t] * w[t]
        w[i] = total / C[i, i]
    for i in range(k - 1, -1, -1):
        for t in range(i + 1, k):
            w[i] -= C[t, i] * w[t]
        w[i] /= C[i, i]


@kernel
def local_weights(X, words, nearest, ridge):
    """Return weights (n, k) of sum one that rebuild x from its nearest words: argmin ‖x − wB‖² + ridge·tr(C)‖w‖².

    C = (B − x)(B − x)ᵀ; the minimiser is proportional to the solution of (C + ridge·tr(C) I) w = 1. A descriptor that
    equals all of its words has equal weights.
    """
    n, k = nearest.shape
    m = X.shape[1]
    out, shifted = np.empty((n, k), np.float32), np.empty((k, m), np.float32)
    C, w = np.empty((k, k)), np.empty(k)
    for i in range(n):
        x, trace = X[i], 0.0
        for a in range(k):
            row, word = shifted[a], words[nearest[i, a]]
            for s in range(m):
                row[s] = word[s] - x[s]
            for b in range(a + 1):
                C[a, b] = dot(row, shifted[b])
            trace += C[a, a]
        for a in range(k):
            C[a, a] += ridge * trace if trace > 0 else 1.0
        factor_and_solve(C, w, 1e-7 * trace)  # 1e-7: products in single precision
        total = np.sum(w)
        for a in range(k):
            out[i, a] = w[a] / total
    return out


@kernel
def add_to_words(X, nearest, sums, counts):
    """Add each descriptor to the sum of its nearest word."""
    for i in range(X.shape[0]):
        row, x = sums[nearest[i]], X[i]
        for s in range(x.shape[0]):
            row[s] += x[s]
        counts[nearest[i]] += 1


@kernel
def pool_max(indptr, indices, data, cells, out):
    """Set out[c, j] to the largest of the codes j of the descriptors in cell c, and zero; ``cells`` (n, levels)."""
    for i in range(indptr.shape[0] - 1):
        for level in range(cells.shape[1]):
            row = out[cells[i, level]]
            for s in range(indptr[i], indptr[i + 1]):
                row[indices[s]] = max(row[indices[s]], data[s])


@kernel
def pool_sum(indptr, indices, data, cells, out):
    """Set out[c, j] to the sum of the codes j of the descriptors in cell c; ``cells`` (n, levels)."""
    for i in range(indptr.shape[0] - 1):
        for level in range(cells.shape[1]):
            row = out[cells[i, level]]
            for s in range(indptr[i], indptr[i + 1]):
                row[indices[s]] += data[s]


@kernel
def signed_roots(X, out):
    """Set out to √|x| with the sign of x."""
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            out[i, j] = math.copysign(math.sqrt(abs(X[i, j])), X[i, j])


@kernel
def posteriors(scores, least):
    """Turn rows of log likelihoods into posteriors, in place; those below ``least`` become zero."""
    n, r = scores.shape
    reach = math.log(least)
    for i in range(n):
        row, top, total = scores[i], scores[i, 0], np.float32(0.0)
        for k in range(1, r):
            top = max(top, row[k])
        for k in range(r):
            below = row[k] - top
            row[k] = math.exp(below) if below > reach else 0.0
            total += row[k]
        for k in range(r):
            row[k] = row[k] / total if row[k] >= least * total else 0.0


@kernel
def fisher_sums(Z, shares, centres, scales, roots, cells, out):
    """Add γₖ/√πₖ · u and γₖ/√(2πₖ) · (u² − 1), u = (z − cₖ)/σₖ, to the cells of each descriptor.

    ``shares`` are posteriors γ (n, r), ``scales`` 1/σ, ``roots`` 1/√π, ``cells`` (n, levels). A Gaussian has 2d columns
    of ``out``: d of its centre, d of its variances.
    """
    d = Z.shape[1]
    half, code = np.float32(math.sqrt(0.5)), np.empty(2 * d, np.float32)
    for i in range(Z.shape[0]):
        for k in range(centres.shape[0]):
            share = shares[i, k] * roots[k]
            if share > 0:
                for j in range(d):
                    u = (Z[i, j] - centres[k, j]) * scales[k, j]
                    code[j], code[d + j] = share * u, share * half * (u * u - 1)
                for level in range(cells.shape[1]):
                    row = out[cells[i, level], 2 * d * k : 2 * d * (k + 1)]
                    for j in range(2 * d):
                        row[j] += code[j]


@kernel
def intersections(row, indptr, indices, data, out):
    """Set out[i] = Σⱼ min(rowⱼ, yᵢⱼ) over the stored entries of the sparse yᵢ; both without negative entries."""
    for i in range(indptr.shape[0] - 1):
        total = 0.0
        for s in range(indptr[i], indptr[i + 1]):
            total += min(row[indices[s]], data[s])
        out[i] = total
