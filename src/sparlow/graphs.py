"""Structure over the samples: n × n matrices S as diagonal + sparse graph + low rank, never dense.

A criterion compares two quadratic forms ⟨Y, SY⟩ = tr(UᵀΦᵀSΦU) of the embedding Y = ΦU. All it needs of S is the
product SY and, for fixed codes, the small matrix ΦᵀSΦ.
"""

from __future__ import annotations

import itertools
import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from . import _kernels
from . import neighbours as search
from .checks import Array, check_array, refuse_unsound
from .neighbours import Progress
from .neighbours import neighbours as neighbours  # also found here, beside the graphs that it makes
from .parallel import Threads, frozen


@dataclass(frozen=True)
class Structure:
    """S = diag(diagonal) + graph + F K Fᵀ, a symmetric n × n matrix.

    Parameters
    ----------
    diagonal : array of shape (n,)
    graph : sparse matrix of shape (n, n), optional
        Symmetric, as S is: of each pair of samples one entry is looked at.
    factors : array or sparse matrix F of shape (n, c), optional
    core : array K of shape (c, c), optional

    """

    diagonal: Array
    graph: sp.csr_array | None = None
    factors: Any = None
    core: Array | None = None

    def check(self, n: int) -> None:
        """Refuse parts that do not fit each other or n samples, or hold NaN: kernels would read beyond their arrays."""
        if len(self.diagonal) != n:
            raise ValueError(f"a structure of {len(self.diagonal)} samples, but X has {n}.")
        if self.graph is not None:
            _check_indices(self.graph, n)
        if (self.factors is None) != (self.core is None):
            raise ValueError("a structure needs both factors and core, or neither.")
        if self.factors is not None and self.core is not None:
            refuse_unsound(self.factors, "factors")
            c = self.factors.shape[1]
            if self.factors.shape[0] != n or self.core.shape != (c, c):
                shapes = f"{self.factors.shape} and {self.core.shape}"
                raise ValueError(f"factors must have shape ({n}, c) and core (c, c), got {shapes}.")
        for part in (self.diagonal, self.graph, self.factors, self.core):
            if part is not None and not np.all(np.isfinite(part.data if sp.issparse(part) else part)):
                raise ValueError("a structure that contains NaN or infinite values.")

    def __matmul__(self, Y: Array) -> Array:
        """Return SY for a dense Y (n, l)."""
        out = self.diagonal[:, None] * Y
        if self.graph is not None:
            out += self.graph @ Y
        if self.factors is not None:
            out += self.factors @ (self.core @ (self.factors.T @ Y))
        return out

    def __add__(self, other: Structure) -> Structure:
        """Return the sum; factors of both are put side by side."""
        graph = self.graph if other.graph is None else other.graph if self.graph is None else self.graph + other.graph
        if self.factors is None or other.factors is None:
            factors, core = (self.factors, self.core) if other.factors is None else (other.factors, other.core)
        else:
            factors = sp.csr_array(sp.hstack([sp.csr_array(self.factors), sp.csr_array(other.factors)]))
            core = scipy.linalg.block_diag(self.core, other.core)
        return Structure(self.diagonal + other.diagonal, graph, factors, core)

    def __mul__(self, factor: float) -> Structure:
        """Return a multiple of S."""
        if np.ndim(factor) or not isinstance(factor, (numbers.Real, np.ndarray)):
            return NotImplemented
        return Structure(
            factor * self.diagonal,
            None if self.graph is None else _times(self.graph, factor),
            self.factors,
            None if self.core is None else factor * self.core,
        )

    __rmul__ = __mul__
    __array_ufunc__ = None  # so that numbers of numpy leave the product to it

    def form(self, codes: Any, n_jobs: int | None = None) -> Array:
        """Return ΦᵀSΦ (r, r) in double precision, for sparse or dense Φ (n, r)."""
        if not sp.issparse(codes):
            dense = np.asarray(codes, np.float64)
            return symmetric(dense.T @ (self @ dense))
        codes = sp.csr_array(codes)
        if not codes.has_canonical_format:  # the kernels want sorted indices, each once
            codes = codes.copy()
            codes.sum_duplicates()
        with Threads(n_jobs) as threads:
            out = _sparse_form(self.diagonal, self.graph, codes, threads)
        if self.factors is not None:
            part = self.factors.T @ codes  # (c, r)
            part = np.asarray(part.toarray() if sp.issparse(part) else part, np.float64)
            out += part.T @ (self.core @ part)
        return out if self.factors is None and self.graph is None else symmetric(out)


def _check_indices(graph: Any, n: int) -> None:
    """Refuse a graph that has not n rows and columns, or names others: kernels would read beyond their arrays."""
    if not sp.issparse(graph):
        raise TypeError(f"graph must be a sparse matrix, got {type(graph).__name__}.")
    if graph.shape != (n, n):
        raise ValueError(f"graph must have shape ({n}, {n}), one row for each sample, got {graph.shape}.")
    refuse_unsound(graph, "graph")


def _times(graph: sp.csr_array, factor: float) -> sp.csr_array:
    """Return a multiple of a graph, which shares its edges but not their weights."""
    return sp.csr_array((graph.data * factor, graph.indices, graph.indptr), shape=graph.shape)


def symmetric(matrix: Array) -> Array:
    """Return the symmetric part of a matrix."""
    return (matrix + matrix.T) / 2


def _sparse_form(diagonal: Array, graph: sp.csr_array | None, codes: sp.csr_array, threads: Threads) -> Array:
    """Compute Φᵀ(diag + graph)Φ as a sum over a fixed number of blocks of samples, for a symmetric graph."""
    n, r = codes.shape
    graph = None if graph is None else sp.csr_array(graph)
    indptr, indices = codes.indptr.astype(np.int64), codes.indices.astype(np.int32, copy=False)
    diagonal = np.asarray(diagonal if graph is None else diagonal + graph.diagonal(), np.float64)

    def block(rows: slice) -> Array:
        part = np.zeros((r, r))
        if graph is not None:
            edges = graph[rows]
            arrays = frozen(edges.indptr.astype(np.int64), edges.indices.astype(np.int32), edges.data.astype(float))
            arrays = *frozen(diagonal[rows]), *arrays, *frozen(indptr, indices, codes.data)
            _kernels.add_graph_form(rows.start, *arrays, part)
        elif np.any(diagonal[rows]):
            own = indptr[rows.start : rows.stop + 1]
            _kernels.add_diagonal_form(*frozen(own, indices, codes.data, diagonal[rows]), part)
        return part

    # at most four sums, whatever the number of threads, so that the result does not depend on it
    bounds = np.linspace(0, n, min(4, -(-n // 500)) + 1).astype(int)
    out, *others = threads.map(block, [slice(a, b) for a, b in itertools.pairwise(bounds)])
    for part in others:
        out += part
    return out + (np.triu(out, 1) if graph is None else out).T


# ── structures of labels ────────────────────────────────────────────────────────────────────────────────────────────


def centring(n: int, weights: Array | None = None) -> Structure:
    """Return Π = I − 11ᵀ/n; with weights w (n,) diag(w) − wwᵀ/Σw, each sample counted w times.

    A mask of samples gives the matrix of these alone, zero elsewhere.
    """
    marks = np.ones(n) if weights is None else np.asarray(weights, float)
    return Structure(marks, None, marks[:, None], np.array([[-1.0 / marks.sum()]]))


def is_centring(S: Structure) -> bool:
    """Return whether a structure is that of :func:`centring`, diag(w) − wwᵀ/Σw for some weights w."""
    w, total = S.diagonal, float(S.diagonal.sum())
    if S.graph is not None or S.factors is None or S.core is None or S.core.shape != (1, 1) or not total > 0:
        return False
    root = np.sqrt(max(-float(S.core[0, 0]), 0.0)) * S.factors[:, 0]
    return bool(np.allclose(root * np.sign(root.sum()) * np.sqrt(total), w))


def class_masses(labels: Array, sample_weight: Array | None = None) -> Array:
    """Return how much each class counts (c,): its number of samples n_c, or the sum of their weights."""
    known = labels >= 0
    return np.bincount(labels[known], None if sample_weight is None else sample_weight[known]).astype(float)


def class_means(labels: Array, n_classes: int, sample_weight: Array | None = None) -> sp.csr_array:
    """Return the matrix N (n, c) with NᵀY the class means; unlabelled samples (−1) have empty rows."""
    rows = np.flatnonzero(labels >= 0)
    each = np.ones(len(rows)) if sample_weight is None else sample_weight[rows]
    masses = np.maximum(np.bincount(labels[rows], each, n_classes), np.finfo(float).tiny)
    return sp.csr_array((each / masses[labels[rows]], (rows, labels[rows])), shape=(len(labels), n_classes))


def between_classes(labels: Array, weights: Array | None = None, sample_weight: Array | None = None) -> Structure:
    """Return the between-class scatter Σ over pairs c < d of (n_c n_d / n) w_cd (μ_c − μ_d)(μ_c − μ_d)ᵀ.

    With all weights 1 it is MMᵀ − 11ᵀ/n on the labelled samples, M = one-hot / √n_c (errata 1). ``sample_weight`` (n,)
    says how often each sample counts in n_c, n and μ_c.
    """
    masses = class_masses(labels, sample_weight)
    pairs = np.outer(masses, masses) / masses.sum()
    if weights is not None:
        pairs = pairs * weights
    np.fill_diagonal(pairs, 0)
    core = np.diag(pairs.sum(axis=1)) - pairs
    return Structure(np.zeros(len(labels)), None, class_means(labels, len(masses), sample_weight), core)


def within_classes(labels: Array, sample_weight: Array | None = None) -> Structure:
    """Return the within-class scatter I − MMᵀ on the labelled samples; ``sample_weight`` as for the other scatter."""
    masses = class_masses(labels, sample_weight)
    diagonal = np.where(labels >= 0, 1.0 if sample_weight is None else sample_weight, 0.0)
    return Structure(diagonal, None, class_means(labels, len(masses), sample_weight), -np.diag(masses))


def outer(targets: Array) -> Structure:
    """Return T Tᵀ for targets T (n, d)."""
    return Structure(np.zeros(len(targets)), None, targets, np.eye(targets.shape[1]))


# ── neighbour graphs ────────────────────────────────────────────────────────────────────────────────────────────────


def checked_graph(graph: Any, n: int) -> sp.csr_array:
    """Return a user's graph over n samples as a CSR array of its own, checked and without stored zeros.

    It must have finite, nonnegative, symmetric weights.
    """
    if np.ma.is_masked(graph):
        raise ValueError("graph is a masked array with masked entries: fill them first, for instance with 0.")
    if sp.issparse(graph):
        _check_indices(graph, n)
    own = sp.csr_array(check_array(graph, accept_sparse="csr", dtype=float, input_name="graph"), copy=True)
    if own.shape != (n, n):
        raise ValueError(f"graph must have shape ({n}, {n}), one row for each sample, got {own.shape}.")
    own.sum_duplicates()
    if own.nnz and own.data.min() < 0:
        raise ValueError("graph must have no negative weights.")
    own.eliminate_zeros()
    if own.nnz and abs(own - own.T).max() > 1e-8 * max(1.0, own.max()):
        raise ValueError("graph must be symmetric: use graph.maximum(graph.T), for instance.")
    return own


def joined(n: int, rows: Array, columns: Array, weights: Array) -> sp.csr_array:
    """Return a symmetric graph: an edge where either end names the other ("or")."""
    graph = sp.csr_array((weights.ravel(), (rows.ravel(), columns.ravel())), shape=(n, n))
    return sp.csr_array(graph.maximum(graph.T))


def affinities(
    X: Any, k: int, bandwidth: float | None = None, n_jobs: int | None = None, progress: Progress | None = None
) -> sp.csr_array:
    """Return heat-kernel affinities exp(−‖xᵢ − xⱼ‖²/t) of the k nearest neighbours.

    t is by default the mean squared distance to the neighbours. Weights stay above zero, so that a sample far from all
    others keeps its edges. Samples that are all equal have weights of one.
    """
    if bandwidth is not None and not 0 < bandwidth < np.inf:
        raise ValueError(f"bandwidth must be a positive number, got {bandwidth}.")
    n = X.shape[0]
    distances, indices = neighbours(X, k, n_jobs=n_jobs, progress=progress)
    root = _root_mean_square(distances) if bandwidth is None else float(np.sqrt(bandwidth))
    weights = np.maximum(np.exp(-((distances / (root or 1.0)) ** 2)), np.finfo(float).tiny)
    return joined(n, np.repeat(np.arange(n), k), indices, weights)


def _root_mean_square(distances: Array) -> float:
    """Return √mean(d²), also where squares are too large or too small for a number."""
    largest = float(distances.max())
    return largest * float(np.sqrt(np.mean((distances / largest) ** 2))) if largest > 0 else 0.0


def laplacian(graph: sp.csr_array) -> Structure:
    """Return L = degree − adjacency, scaled to mean degree 1, so that its weight means the same for any n and k."""
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    mean = degrees.mean() if degrees.any() else 1.0
    return Structure(degrees / mean, _times(graph, -1.0 / mean))


def spread_labels(graph: sp.csr_array, y: Array) -> Array:
    """Return memberships F (n, c) of labels y (−1: none) spread over a graph (local and global consistency).

    F = (1 − α)(I − αS)⁻¹T with S = V^(−½)WV^(−½), T one-hot divided by the class's number of labels and
    α = 0.9, by its fixed-point iteration. Classes are scaled to equal mass, rows to sum 1; rows that no label
    reaches are zero.
    """
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    half = sp.diags_array(1 / np.sqrt(np.maximum(degrees, np.finfo(float).tiny)))
    S = sp.csr_array(half @ graph @ half)
    known = y >= 0
    T = np.zeros((len(y), int(y.max()) + 1))
    T[known, y[known]] = 1 / np.bincount(y[known])[y[known]]
    F = T
    retained = 0.9
    for _ in range(int(np.log(1e-6) / np.log(retained))):  # the rest is below 1e-6
        F = retained * (S @ F) + (1 - retained) * T
    F = F / np.maximum(F.sum(axis=0), np.finfo(float).tiny)
    return np.asarray(F / np.maximum(F.sum(axis=1, keepdims=True), np.finfo(float).tiny))


def non_neighbours(graph: sp.csr_array) -> Structure:
    """Return Lᴺ, the Laplacian of all pairs that the 0/1 ``graph`` does not join: nI − 11ᵀ − L, to mean degree 1."""
    n = graph.shape[0]
    ones = sp.csr_array((np.ones(graph.nnz), graph.indices, graph.indptr), shape=graph.shape)
    degrees = np.asarray(ones.sum(axis=1)).ravel()
    mean = n - 1 - degrees.mean()
    if mean <= 0:  # every sample is a neighbour of every other one
        return Structure(np.zeros(n))
    return Structure((n - degrees) / mean, ones * (1.0 / mean), np.ones((n, 1)), np.array([[-1.0 / mean]]))


def barycentric_residual(
    X: Any, k: int, reg: float = 1e-3, n_jobs: int | None = None, progress: Progress | None = None
) -> Structure:
    """Return Z = (I − W)ᵀ(I − W), W the weights that best rebuild each sample from its k nearest neighbours.

    Weights sum to one for each sample. Equal samples have equal weights.
    """
    n = X.shape[0]
    _, indices = neighbours(X, k, n_jobs=n_jobs, progress=progress)
    weights = np.empty((n, k))
    samples: Any = sp.csr_array(X) if sp.issparse(X) else np.asarray(X)
    for first in range(0, n, 256):
        rows = slice(first, min(first + 256, n))
        near, own = samples[indices[rows].ravel()], samples[rows]
        if sp.issparse(samples):
            near, own = near.toarray(), own.toarray()
        offsets = near.reshape(-1, k, samples.shape[1]).astype(float) - own[:, None, :]  # (b, k, m)
        largest = np.abs(offsets).max(axis=(1, 2), keepdims=True)
        offsets /= np.where(largest > 0, largest, 1.0)  # weights do not depend on the scale, but squares overflow
        gram = offsets @ offsets.transpose(0, 2, 1)
        trace = np.trace(gram, axis1=1, axis2=2)
        gram[:, np.arange(k), np.arange(k)] += (reg * np.where(trace > 0, trace, 1.0))[:, None]
        w = np.linalg.solve(gram, np.ones((rows.stop - first, k, 1)))[..., 0]
        weights[rows] = w / w.sum(axis=1, keepdims=True)
    W = sp.csr_array((weights.ravel(), (np.repeat(np.arange(n), k), indices.ravel())), shape=(n, n))
    residual = sp.eye_array(n, format="csr") - W
    return Structure(np.zeros(n), sp.csr_array(residual.T @ residual))


def class_neighbours(
    X: Any, labels: Array, k_within: int, k_between: int, n_jobs: int | None = None, progress: Progress | None = None
) -> tuple[sp.csr_array, sp.csr_array]:
    """Return graphs of the nearest samples of the same class and of other classes, with weights 0 and 1 (int8).

    An edge joins two samples if either is among the nearest of the other. Parameters, limits and accuracy are those of
    :func:`sparlow.neighbours.class_neighbours`.
    """
    n = X.shape[0]
    within, between = search.class_neighbours(X, labels, k_within, k_between, n_jobs, progress)
    return _unweighted(n, *within), _unweighted(n, *between)


def _unweighted(n: int, rows: Array, columns: Array) -> sp.csr_array:
    """Return a symmetric graph with weights 0 and 1, in a byte for each edge."""
    return joined(n, rows, columns, np.ones(len(rows), np.int8))
