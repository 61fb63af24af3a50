"""Weights that favour pairs now close together; :meth:`Quotient.balanced` says why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import gen_batches

from .. import graphs
from ..graphs import Structure
from ..labels import n_classes

Array = NDArray[Any]

_HEAVIEST = 10.0  # weight of the closest pair over that of the farthest: more, and one pair would rule the projection
_EDGES = 1 << 16  # edges that are measured at once
_LEAST = 1e-12  # the smallest share of the largest pair distance that counts when pairs are balanced


def class_balance(
    labels: Array, power: float, sample_weight: Array | None = None
) -> Callable[[Array], Structure] | None:
    """Return how to balance pairs of classes, None for power 0."""
    return (lambda Y: _balanced_classes(Y, labels, power, sample_weight)) if power else None


def edge_balance(labels: Array, graph: sp.csr_array, power: float) -> Callable[[Array], Structure] | None:
    """Return how to balance the edges of a graph between classes, None for power 0."""
    return (lambda Y: _balanced_edges(Y, labels, graph, power)) if power else None


def pair_weights(squares: Array, power: float) -> Array:
    """Return (d_max²/d²)^power for squared distances d², the heaviest at most ten times the lightest."""
    squares = np.maximum(squares, _LEAST * squares.max() + np.finfo(float).tiny)
    return np.minimum((squares.max() / squares) ** power, _HEAVIEST)


def _balanced_classes(Y: Array, labels: Array, power: float, sample_weight: Array | None) -> Structure:
    """Return the between-class scatter with weights d^(−2·power), d the distances of class means in the embedding."""
    means = graphs.class_means(labels, n_classes(labels), sample_weight).T @ Y
    squares = ((means[:, None] - means[None]) ** 2).sum(axis=-1)
    return graphs.between_classes(labels, pair_weights(squares, power), sample_weight)


def _balanced_edges(Y: Array, labels: Array, graph: sp.csr_array, power: float) -> Structure:
    """Return the Laplacian of ``graph``, each edge divided by a power of the mean squared length of its class pair."""
    c = n_classes(labels)
    counts, sums = np.zeros(c * c), np.zeros(c * c)
    pairs = np.empty(graph.nnz, np.int32)
    rows = np.repeat(np.arange(graph.shape[0], dtype=np.int32), np.diff(graph.indptr))
    for edges in gen_batches(graph.nnz, _EDGES):
        starts, ends = rows[edges], graph.indices[edges]
        pairs[edges] = labels[starts] * c + labels[ends]
        counts += np.bincount(pairs[edges], minlength=c * c)
        sums += np.bincount(pairs[edges], np.sum((Y[starts] - Y[ends]) ** 2, axis=1), minlength=c * c)
    present = counts > 0
    table = np.zeros(c * c)
    table[present] = pair_weights(sums[present] / counts[present], power)
    return graphs.laplacian(sp.csr_array((table[pairs], graph.indices, graph.indptr), shape=graph.shape))
