"""Structure over the samples: n × n matrices S as diagonal + sparse graph + low rank, never dense.

A criterion compares two quadratic forms ⟨Y, SY⟩ = tr(UᵀΦᵀSΦU) of the embedding Y = ΦU. All it needs of S is the
product SY and, for fixed codes, the small matrix ΦᵀSΦ.
"""

from __future__ import annotations

import itertools
import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import gen_batches

from . import _kernels
from .messages import warn
from .parallel import Threads, frozen

Array = NDArray[Any]

_EXACT = 20_000  # samples up to which neighbours are searched exactly
_FEW = 500  # samples of a class up to which an exact search costs no more than one through an index
_QUERIES = 4096  # samples whose neighbours are searched at once
_BLOCKS = 4  # partial sums of ΦᵀSΦ, whatever the number of threads, so that the result does not depend on it


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

    def __matmul__(self, Y: Array) -> Array:
        """SY for a dense Y (n, l)."""
        out = self.diagonal[:, None] * Y
        if self.graph is not None:
            out += self.graph @ Y
        if self.factors is not None:
            out += self.factors @ (self.core @ (self.factors.T @ Y))
        return out

    def __add__(self, other: Structure) -> Structure:
        """The sum; factors of both are put side by side."""
        graph = self.graph if other.graph is None else other.graph if self.graph is None else self.graph + other.graph
        if self.factors is None or other.factors is None:
            factors, core = (self.factors, self.core) if other.factors is None else (other.factors, other.core)
        else:
            factors = sp.csr_array(sp.hstack([sp.csr_array(self.factors), sp.csr_array(other.factors)]))
            core = sp.block_diag([self.core, other.core]).toarray()
        return Structure(self.diagonal + other.diagonal, graph, factors, core)

    def __mul__(self, factor: float) -> Structure:
        """A multiple of S."""
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
        """ΦᵀSΦ (r, r) in double precision, for sparse or dense Φ (n, r)."""
        if not sp.issparse(codes):
            dense = np.asarray(codes, np.float64)
            return _symmetric(dense.T @ (self @ dense))
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
        return _symmetric(out)


def _times(graph: sp.csr_array, factor: float) -> sp.csr_array:
    """A multiple of a graph, which shares its edges but not their weights."""
    return sp.csr_array((graph.data * factor, graph.indices, graph.indptr), shape=graph.shape)


def _symmetric(matrix: Array) -> Array:
    return (matrix + matrix.T) / 2


def _sparse_form(diagonal: Array, graph: sp.csr_array | None, codes: sp.csr_array, threads: Threads) -> Array:
    """Φᵀ(diag + graph)Φ as a sum over a fixed number of blocks of samples, for a symmetric graph."""
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

    bounds = np.linspace(0, n, min(_BLOCKS, n) + 1).astype(int)
    out = np.zeros((r, r))
    for part in threads.map(block, [slice(a, b) for a, b in itertools.pairwise(bounds)]):
        out += part
    return out + (np.triu(out, 1) if graph is None else out).T


# ── structures of labels ────────────────────────────────────────────────────────────────────────────────────────────


def centring(n: int, known: Array | None = None) -> Structure:
    """Π = I − 11ᵀ/n; with a mask ``known`` of shape (n,) that of the samples it marks, zero elsewhere."""
    marks = np.ones(n) if known is None else np.asarray(known, float)
    return Structure(marks, None, marks[:, None], np.array([[-1.0 / marks.sum()]]))


def class_means(labels: Array, n_classes: int) -> sp.csr_array:
    """The matrix N (n, c) with NᵀY the class means; unlabelled samples (−1) have empty rows."""
    rows = np.flatnonzero(labels >= 0)
    counts = np.bincount(labels[rows], minlength=n_classes)
    return sp.csr_array((1.0 / counts[labels[rows]], (rows, labels[rows])), shape=(len(labels), n_classes))


def between_classes(labels: Array, weights: Array | None = None) -> Structure:
    """Between-class scatter Σ over pairs c < d of (n_c n_d / n) w_cd (μ_c − μ_d)(μ_c − μ_d)ᵀ.

    With all weights 1 it is MMᵀ − 11ᵀ/n on the labelled samples, M = one-hot / √n_c (errata 1).
    """
    known = labels[labels >= 0]
    counts = np.bincount(known).astype(float)
    pairs = np.outer(counts, counts) / len(known)
    if weights is not None:
        pairs = pairs * weights
    np.fill_diagonal(pairs, 0)
    core = np.diag(pairs.sum(axis=1)) - pairs
    return Structure(np.zeros(len(labels)), None, class_means(labels, len(counts)), core)


def within_classes(labels: Array) -> Structure:
    """Within-class scatter I − MMᵀ on the labelled samples."""
    counts = np.bincount(labels[labels >= 0]).astype(float)
    return Structure((labels >= 0).astype(float), None, class_means(labels, len(counts)), -np.diag(counts))


def outer(targets: Array) -> Structure:
    """T Tᵀ for targets T (n, d)."""
    return Structure(np.zeros(len(targets)), None, targets, np.eye(targets.shape[1]))


# ── neighbour graphs ────────────────────────────────────────────────────────────────────────────────────────────────


def neighbours(X: Any, k: int, queries: Any = None, n_jobs: int | None = None) -> tuple[Array, Array]:
    """Distances and indices (n, k) of the k nearest rows of X to each query, or to each row of X but itself.

    Exact up to about 20 000 rows; above that by nearest-neighbour descent if pynndescent is there.
    """
    approximate = X.shape[0] > _EXACT and _descent() is not None
    return _search(X, k, approximate, n_jobs)(k, queries)


def _search(X: Any, most: int, approximate: bool, n_jobs: int | None) -> Callable[[int, Any], tuple[Array, Array]]:
    """A function (k ≤ most, queries or None) -> distances and indices, which shares an index among its calls."""
    if not approximate:
        exact = NearestNeighbors(n_jobs=n_jobs).fit(X)
        return lambda k, queries: exact.kneighbors(queries, n_neighbors=k)
    # one thread: with more, what it finds depends on their number
    index = _descent().NNDescent(X, n_neighbors=max(most + 1, 15), random_state=0, n_jobs=1)
    return lambda k, queries: _found(index, k) if queries is None else index.query(queries, k=k)[::-1]


def _descent() -> Any:
    try:
        import pynndescent
    except ImportError:
        warn(
            "More than 20 000 samples and no pynndescent: neighbours are searched exactly, which takes time n². "
            "Install it with: pip install 'sparlow[graphs]'",
        )
        return None
    return pynndescent


def _found(index: Any, k: int) -> tuple[Array, Array]:
    """The k nearest rows of an index to each of its own rows, but itself."""
    indices, distances = index.neighbor_graph
    own = indices == np.arange(len(indices))[:, None]
    own[~own.any(axis=1), -1] = True  # a row that does not list itself drops its farthest neighbour
    keep = ~own & (np.cumsum(~own, axis=1) <= k)
    return distances[keep].reshape(-1, k), indices[keep].reshape(-1, k)


def joined(n: int, rows: Array, columns: Array, weights: Array) -> sp.csr_array:
    """A symmetric graph: an edge where either end names the other ("or")."""
    graph = sp.csr_array((weights.ravel(), (rows.ravel(), columns.ravel())), shape=(n, n))
    return sp.csr_array(graph.maximum(graph.T))


def affinities(X: Any, k: int, bandwidth: float | None = None, n_jobs: int | None = None) -> sp.csr_array:
    """Heat-kernel affinities exp(−‖xᵢ − xⱼ‖²/t) of the k nearest neighbours.

    t is by default the mean squared distance to the neighbours. Weights stay above zero, so that a sample far from all
    others keeps its edges.
    """
    n = X.shape[0]
    distances, indices = neighbours(X, k, n_jobs=n_jobs)
    squares = distances**2
    t = bandwidth if bandwidth is not None else max(float(squares.mean()), np.finfo(float).tiny)
    weights = np.maximum(np.exp(-squares / t), np.finfo(float).tiny)
    return joined(n, np.repeat(np.arange(n), k), indices, weights)


def laplacian(graph: sp.csr_array) -> Structure:
    """L = degree − adjacency, scaled to mean degree 1, so that its weight means the same for any n and k."""
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    mean = degrees.mean() if degrees.any() else 1.0
    return Structure(degrees / mean, _times(graph, -1.0 / mean))


def spread_labels(graph: sp.csr_array, y: Array, retained: float = 0.9, tol: float = 1e-6) -> Array:
    """Memberships F (n, c) of labels y (−1: none) spread over a graph (local and global consistency).

    F = (1 − α)(I − αS)⁻¹T with S = V^(−½)WV^(−½), T one-hot divided by the class's number of labels and
    α = ``retained``, by its fixed-point iteration. Classes are scaled to equal mass, rows to sum 1; rows that no label
    reaches are zero.
    """
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    half = sp.diags_array(1 / np.sqrt(np.maximum(degrees, np.finfo(float).tiny)))
    S = sp.csr_array(half @ graph @ half)
    known = y >= 0
    T = np.zeros((len(y), int(y.max()) + 1))
    T[known, y[known]] = 1 / np.bincount(y[known])[y[known]]
    F = T
    for _ in range(int(np.log(tol) / np.log(retained))):
        F = retained * (S @ F) + (1 - retained) * T
    F = F / np.maximum(F.sum(axis=0), np.finfo(float).tiny)
    return np.asarray(F / np.maximum(F.sum(axis=1, keepdims=True), np.finfo(float).tiny))


def strangers(graph: sp.csr_array) -> Structure:
    """Lᴺ, the Laplacian of all pairs that the 0/1 ``graph`` does not join: nI − 11ᵀ − L, scaled to mean degree 1."""
    n = graph.shape[0]
    ones = sp.csr_array((np.ones(graph.nnz), graph.indices, graph.indptr), shape=graph.shape)
    degrees = np.asarray(ones.sum(axis=1)).ravel()
    mean = n - 1 - degrees.mean()
    if mean <= 0:  # every sample is a neighbour of every other one
        return Structure(np.zeros(n))
    return Structure((n - degrees) / mean, ones * (1.0 / mean), np.ones((n, 1)), np.array([[-1.0 / mean]]))


def barycentric_residual(X: Any, k: int, reg: float = 1e-3, n_jobs: int | None = None) -> Structure:
    """Z = (I − W)ᵀ(I − W), W the weights that rebuild each sample best from its k nearest neighbours, summing to 1."""
    n = X.shape[0]
    _, indices = neighbours(X, k, n_jobs=n_jobs)
    weights = np.empty((n, k))
    dense = X.toarray() if sp.issparse(X) else np.asarray(X, float)
    for first in range(0, n, 256):
        rows = slice(first, min(first + 256, n))
        offsets = dense[indices[rows]] - dense[rows, None, :]  # (b, k, m)
        gram = offsets @ offsets.transpose(0, 2, 1)
        trace = np.trace(gram, axis1=1, axis2=2)
        gram[:, np.arange(k), np.arange(k)] += (reg * np.where(trace > 0, trace, 1.0))[:, None]
        w = np.linalg.solve(gram, np.ones((rows.stop - first, k, 1)))[..., 0]
        weights[rows] = w / w.sum(axis=1, keepdims=True)
    W = sp.csr_array((weights.ravel(), (np.repeat(np.arange(n), k), indices.ravel())), shape=(n, n))
    residual = sp.eye_array(n, format="csr") - W
    return Structure(np.zeros(n), sp.csr_array(residual.T @ residual))


def class_neighbours(
    X: Any, labels: Array, k_within: int, k_between: int, n_jobs: int | None = None
) -> tuple[sp.csr_array, sp.csr_array]:
    """Graphs of the k_within nearest samples of the same class and the k_between nearest of other classes, 0/1 (int8).

    Samples with label −1 have no edges. A class of fewer samples gives what neighbours it has. Exact up to about 20 000
    labelled samples; above that, classes of more than 500 are searched through an index of each, by nearest-neighbour
    descent, so that time grows linearly with n for a given number of classes.
    """
    n = X.shape[0]
    known = np.flatnonzero(labels >= 0)
    many = len(known) > _EXACT and _descent() is not None
    nearest, distance = np.zeros((len(known), k_between), np.int32), np.full((len(known), k_between), np.inf)
    rows, columns = [], []
    for c in range(labels.max() + 1):
        own, others = np.flatnonzero(labels == c).astype(np.int32), np.flatnonzero(labels[known] != c)
        k, width = min(k_within, len(own) - 1), min(k_between, len(own))
        search = _search(X[own], k, many and len(own) > _FEW, n_jobs)
        if k > 0:
            rows.append(np.repeat(own, k))
            columns.append(own[search(k, None)[1]].ravel())
        for batch in gen_batches(len(others), _QUERIES):  # bounds the copies that searching and sorting make
            rest = others[batch]
            found, hits = search(width, X[known[rest]])
            distance[rest], nearest[rest] = _nearest(
                np.hstack([distance[rest], found]), np.hstack([nearest[rest], own[hits]]), k_between
            )
    near = np.isfinite(distance)
    starts, ends = np.repeat(known.astype(np.int32), near.sum(axis=1)), nearest[near]
    del distance, nearest, near  # there are millions of edges: nothing of them is held twice
    return _unweighted(n, np.concatenate(rows), np.concatenate(columns)), _unweighted(n, starts, ends)


def _unweighted(n: int, rows: Array, columns: Array) -> sp.csr_array:
    """A symmetric 0/1 graph, in a byte for each edge."""
    return joined(n, rows, columns, np.ones(len(rows), np.int8))


def _nearest(distance: Array, index: Array, k: int) -> tuple[Array, Array]:
    """The k smallest distances of each row, with their indices."""
    if distance.shape[1] > k:
        order = np.argpartition(distance, k - 1, axis=1)[:, :k]
        distance, index = np.take_along_axis(distance, order, 1), np.take_along_axis(index, order, 1)
    return distance, index
