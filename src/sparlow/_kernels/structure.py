"""Quadratic forms of sparse codes: ΦᵀSΦ for diagonal and sparse S, added up sample by sample."""

import numpy as np

from .compilation import kernel


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
def add_graph_form(first, graph_indptr, graph_indices, graph_data, indptr, indices, data, out):
    """Add Σᵢ φᵢ (Σⱼ Gᵢⱼ φⱼ)ᵀ for the rows i of G from ``first`` on."""
    r = out.shape[0]
    total = np.empty(r)
    for i in range(graph_indptr.shape[0] - 1):
        for a in range(r):
            total[a] = 0.0
        for e in range(graph_indptr[i], graph_indptr[i + 1]):
            j = graph_indices[e]
            for s in range(indptr[j], indptr[j + 1]):
                total[indices[s]] += graph_data[e] * data[s]
        for s in range(indptr[first + i], indptr[first + i + 1]):
            row, value = out[indices[s]], float(data[s])
            for a in range(r):
                row[a] += value * total[a]
