"""Codes of the views of a sample, pooled in cells; and the derivative of that.

A sample has V views. ``indptr``, ``indices`` and ``data`` hold the codes of all views of some samples, view after view.
View v belongs to the cells ``cells[e]`` with the weights ``weights[e]``, e from ``starts[v]`` to ``starts[v + 1]``.
"""

import math

from .compilation import kernel


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
