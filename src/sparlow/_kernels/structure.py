"""Quadratic forms of sparse codes: ΦᵀSΦ for diagonal and sparse S, added up sample by sample."""

import numpy as np

from .compilation import kernel, part


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
