"""Labels for unlabelled samples: spread over the neighbour graph again and again, as the embedding improves."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .. import graphs
from .quotient import Quotient

Array = NDArray[Any]


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
