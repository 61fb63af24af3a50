"""Codes of the views of a sample, pooled in cells, with its derivative; products and quadratic forms of codes.

A sample has V views. ``indptr``, ``indices`` and ``data`` hold the codes of all views of some samples, view after view.
View v belongs to the cells ``cells[e]`` with the weights ``weights[e]``, e from ``starts[v]`` to ``starts[v + 1]``.
"""

import math

import numpy as np

from .algebra import dot
from .compilation import kernel, part


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


@kernel
def pool_codes(indptr, indices, data, starts, cells, weights, n_atoms, signs, out):
    """Add z_c = Σᵥ w_cv h(φᵥ) to ``out`` (n, cells, width), h(φ) = [φ⁺, φ⁻] where ``signs``, φ otherwise."""
    n_views = starts.shape[0] - 1
    for i in range(out.shape[0]):
        for v in range(n_views):
            row = i * n_views + v
            for e in range(starts[v], starts[v + 1]):
                cell, weight = out[i, cells[e]], weights[e]
                for s in range(indptr[row], indptr[row + 1]):
                    if signs and data[s] < 0:
                        cell[n_atoms + indices[s]] -= weight * data[s]
                    else:
                        cell[indices[s]] += weight * data[s]


@kernel
def root_and_scale(z, root, offset, unit, norms):
    """Replace each row z by s(z)/‖s(z)‖, s(z) = √(z + offset) − √offset or z itself; norms are 1 without ``unit``."""
    least = math.sqrt(offset)
    for i in range(z.shape[0]):
        row, total = z[i], 0.0
        for j in range(row.shape[0]):
            if root and row[j] > 0:
                row[j] = math.sqrt(row[j] + offset) - least
            total += float(row[j]) * row[j]
        norms[i] = math.sqrt(total) if unit and total > 0 else 1.0
        if unit:
            inverse = 1.0 / norms[i]
            for j in range(row.shape[0]):
                row[j] *= inverse


@kernel
def pull_features(features, norms, gradient, root, offset, unit):
    """Replace ∂f/∂Φ by ∂f/∂z, row by row, in place of ``gradient``; ``features`` and ``norms`` as they were made."""
    least = math.sqrt(offset)
    for i in range(features.shape[0]):
        phi, row = features[i], gradient[i]
        along = 0.0
        if unit:
            for j in range(row.shape[0]):
                along += float(phi[j]) * row[j]
        for j in range(row.shape[0]):
            slope = (row[j] - along * phi[j]) / norms[i]
            if root:  # s = √(z + δ) − √δ has the derivative 1/(2√(z + δ)) = 1/(2(s + √δ))
                slope *= 0.5 / (phi[j] * norms[i] + least)
            row[j] = slope


@kernel
def pull_codes(indptr, indices, data, starts, cells, weights, n_atoms, signs, gradient, out):
    """Compute ∂f/∂φᵥⱼ = Σ_c w_cv ∂f/∂z_cj at the stored codes, from ``gradient`` = ∂f/∂z (n, cells, width)."""
    n_views = starts.shape[0] - 1
    for i in range(gradient.shape[0]):
        for v in range(n_views):
            row = i * n_views + v
            for s in range(indptr[row], indptr[row + 1]):
                negative = signs and data[s] < 0
                place = n_atoms + indices[s] if negative else indices[s]
                total = 0.0
                for e in range(starts[v], starts[v + 1]):
                    total += weights[e] * gradient[i, cells[e], place]
                out[s] = -total if negative else total


@kernel
def add_diagonal_form(indptr, indices, data, weights, out):
    """Add the upper triangle of Σᵢ wᵢ φᵢ φᵢᵀ; indices sorted."""
    for i in range(indptr.shape[0] - 1):
        last = indptr[i + 1]
        for s in range(indptr[i], last):
            row, value = out[indices[s]], weights[i] * data[s]
            for t in range(s, last):
                row[indices[t]] += value * data[t]


@kernel
def add_graph_form(first, weights, graph_indptr, graph_indices, graph_data, indptr, indices, data, out):
    """Add P = Σᵢ φᵢ (½ wᵢ φᵢ + Σⱼ Gᵢⱼ φⱼ)ᵀ over each pair once, for the rows i of a symmetric G from ``first`` on.

    P + Pᵀ is the form of G with w for its diagonal. Of the pairs i < j those with an odd sum count in row j, the others
    in row i, so that all rows have as much work. A batch of samples at a time, atom by atom: each row of
    ``out``, which as a whole is too large for the cache, is then read and written once for a batch instead of once for
    each nonzero.
    """
    r, n = out.shape[0], graph_indptr.shape[0] - 1
    batch = 256  # samples whose nonzeros are sorted by atoms at once
    sums, ends = np.empty((min(batch, n), r)), np.empty(r, np.int64)
    for start in range(0, n, batch):
        stop = min(start + batch, n)
        for i in range(start, stop):
            own, total = first + i, sums[i - start]
            for a in range(r):
                total[a] = 0.0
            _add_code(0.5 * weights[i], own, indptr, indices, data, total)
            for e in range(graph_indptr[i], graph_indptr[i + 1]):
                j = graph_indices[e]
                if (j > own) != ((j + own) % 2 == 1):
                    _add_code(graph_data[e], j, indptr, indices, data, total)
        samples, values = _by_atoms(indptr[first + start : first + stop + 1], indices, data, ends)
        _add_products(samples, values, ends, sums, out)


@part
def _add_code(weight, sample, indptr, indices, data, out):
    """Add a multiple of a code to a dense row."""
    atoms, values = indices[indptr[sample] : indptr[sample + 1]], data[indptr[sample] : indptr[sample + 1]]
    for s in range(atoms.shape[0]):
        out[np.uint32(atoms[s])] += weight * values[s]  # unsigned: no look for indices from the end


@part
def _by_atoms(indptr, indices, data, ends):
    """Return the nonzeros of some samples in the order of their atoms, and where those of each atom end."""
    base, count = indptr[0], indptr[-1] - indptr[0]
    samples, values = np.empty(count, np.int64), np.empty(count)
    for a in range(ends.shape[0]):
        ends[a] = 0
    for s in range(base, base + count):
        ends[indices[s]] += 1
    total = 0
    for a in range(ends.shape[0]):
        total += ends[a]
        ends[a] = total - ends[a]
    for i in range(indptr.shape[0] - 1):
        for s in range(indptr[i], indptr[i + 1]):
            place = ends[indices[s]]
            samples[place], values[place] = i, data[s]
            ends[indices[s]] = place + 1
    return samples, values


@part
def _add_products(samples, values, ends, sums, out):
    """Add to the row of each atom its values times the sums of their samples, four at a time."""
    e = 0
    for a in range(ends.shape[0]):
        row = out[a]
        while e + 4 <= ends[a]:
            s0, s1, s2, s3 = sums[samples[e]], sums[samples[e + 1]], sums[samples[e + 2]], sums[samples[e + 3]]
            v0, v1, v2, v3 = values[e], values[e + 1], values[e + 2], values[e + 3]
            for c in range(row.shape[0]):
                row[c] += v0 * s0[c] + v1 * s1[c] + v2 * s2[c] + v3 * s3[c]
            e += 4
        while e < ends[a]:
            s0, v0 = sums[samples[e]], values[e]
            for c in range(row.shape[0]):
                row[c] += v0 * s0[c]
            e += 1
