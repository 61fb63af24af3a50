"""What follows the embedding while the dictionary is learned: weights of pairs, labels for unlabelled samples.

Weights favour pairs that are close together; :meth:`Quotient.balanced` says why. Labels spread over the neighbour graph
again and again, as the embedding improves.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from sklearn.utils import gen_batches

from .. import graphs
from ..checks import Array
from ..constants import HEAVIEST, SHARPER
from ..graphs import Structure
from ..labels import n_classes
from .base import Quotient

_EDGES = 1 << 16  # edges that are measured at once


def class_balance(
    labels: Array, power: float, sample_weight: Array | None = None
) -> Callable[[Array], Structure] | None:
    """Return how to balance pairs of classes, None for power 0."""
    return (lambda Y: balanced_classes(Y, labels, power, sample_weight)) if power else None


def edge_balance(labels: Array, graph: sp.csr_array, power: float) -> Callable[[Array], Structure] | None:
    """Return how to balance the edges of a graph between classes, None for power 0."""
    return (lambda Y: balanced_edges(Y, labels, graph, power)) if power else None


def pair_weights(squares: Array, power: float) -> Array:
    """Return (d_max²/d²)^power for squared distances d², the heaviest at most ten times the lightest."""
    squares = np.maximum(squares, 1e-12 * squares.max() + np.finfo(float).tiny)  # closer pairs count as so far apart
    return np.minimum((squares.max() / squares) ** power, HEAVIEST)


def balanced_classes(Y: Array, labels: Array, power: float, sample_weight: Array | None) -> Structure:
    """Return the between-class scatter with weights d^(−2·power), d the distances of class means in the embedding."""
    means = graphs.class_means(labels, n_classes(labels), sample_weight).T @ Y
    squares = ((means[:, None] - means[None]) ** 2).sum(axis=-1)
    return graphs.between_classes(labels, pair_weights(squares, power), sample_weight)


def balanced_edges(Y: Array, labels: Array, graph: sp.csr_array, power: float) -> Structure:
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


def propagated(
    build: Callable[[Array], Quotient], graph: sp.csr_array, y: Array, k: int, share: float, n_jobs: int | None
) -> Quotient:
    """Return the quotient of labels y (n,), −1 for none, which renews itself with labels spread in the embedding.

    The labels given spread over ``graph`` joined by the k nearest neighbours in the embedding
    (:func:`graphs.spread_labels`); of the samples that fall to a class the most certain part, ``share``, is taken, the
    others stay unlabelled, and ``build`` makes the quotient of these labels. So samples that learning has brought
    together share their labels, while the first graph holds in bounds what was learned from wrong ones. Without an
    embedding they spread over ``graph`` alone. With a ``share`` of 0 the quotient stays as it is.
    """

    def memberships(Y: Array | None) -> Array:
        if Y is None:
            return graphs.spread_labels(graph, y)
        near = graphs.affinities(_directions(Y), min(k, len(Y) - 1), n_jobs=n_jobs)
        return graphs.spread_labels(sp.csr_array(graph + near), y)

    def renew(Y: Array | None) -> Quotient:
        labels = most_certain(memberships(Y), y, share)
        # per labelled sample, so that a ridge chosen for the first labels means the same
        return changing(build(labels).scaled(float(np.sum(y >= 0) / np.sum(labels >= 0))))

    def changing(quotient: Quotient) -> Quotient:
        return dataclasses.replace(quotient, renew=renew if share else None, memberships=memberships)

    return changing(build(y))


def _directions(Y: Array) -> Array:
    """Return directions from the mean, of unit norm; in one dimension, the differences themselves."""
    Y = Y - Y.mean(axis=0)
    if Y.shape[1] == 1:
        return Y
    lengths = np.linalg.norm(Y, axis=1, keepdims=True)
    return np.asarray(Y / np.maximum(lengths, np.finfo(float).tiny))


def most_certain(memberships: Array, y: Array, share: float) -> Array:
    """Return the given labels y, and for each class the ``share`` of the unlabelled samples nearest to certainty."""
    labels, classes = np.array(y), memberships.argmax(axis=1)
    certainty = memberships.max(axis=1)
    for c in range(memberships.shape[1]):
        rows = np.flatnonzero((y < 0) & (classes == c) & (certainty > 0))
        first = np.argsort(-certainty[rows], kind="stable")[: round(share * len(rows))]
        labels[rows[first]] = c
    return labels


def sharpened(memberships: Array, y: Array) -> Array:
    """Return memberships (n, c) as shares: those of labelled samples are certain, the others raised to a power."""
    shares = memberships**SHARPER
    shares /= np.maximum(shares.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    shares[y >= 0] = np.eye(shares.shape[1])[y[y >= 0]]
    return np.asarray(shares, np.float32)
