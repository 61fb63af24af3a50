"""From features to the embedding that ``transform`` returns, and from there to classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import gen_batches

from .coded import Rows

Array = NDArray[Any]


@dataclass(frozen=True)
class Embedding:
    """The map y = (φ − φ̄)U, scaled to unit norm; or y = φU as it is.

    Parameters
    ----------
    projection : array of shape (w, l)
    centre : array of shape (l,)
        φ̄U, φ̄ the mean of the training samples.
    radius : float
        Root mean square distance of the training samples from their mean.
    unit : bool
        Centre, and scale each sample to unit norm. In one dimension, where only the sign would be left, all samples are
        divided by the radius instead.

    """

    projection: Array
    centre: Array
    radius: float
    unit: bool

    @classmethod
    def of(cls, projection: Array, coded: Rows, unit: bool) -> Embedding:
        """Return the map for a projection, centred on the training samples."""
        Y = coded @ projection
        centre = Y.mean(axis=0)
        return cls(projection, centre, float(np.sqrt(np.mean(np.sum((Y - centre) ** 2, axis=1)))), unit)

    def __call__(self, coded: Rows) -> Array:
        """Return the embedding (n, l)."""
        Y = coded @ self.projection
        if not self.unit:
            return Y
        Y = Y - self.centre
        if Y.shape[1] == 1:
            return Y / self.radius if self.radius > 0 else Y
        norms = np.linalg.norm(Y, axis=1, keepdims=True)
        return np.divide(Y, norms, out=np.zeros_like(Y), where=norms > 0)


_NEAREST = 50  # neighbours whose votes are counted
_TRIED = 2000  # training samples that the bandwidth is chosen on


@dataclass(frozen=True)
class Neighbours:
    """Classes by the nearest training samples in the embedding, which vote with the weight exp(−β d²).

    p(c) = (Σ of the votes of class c + share of c · floor) / (all votes + floor), over the 50 nearest samples. β and
    the floor are those of the smallest leave-one-out log loss on the training samples.

    Parameters
    ----------
    points : array of shape (n, l)
        Embedding of the labelled training samples.
    labels : array of shape (n,)
        Their classes, 0 … c − 1.
    beta, floor : float

    """

    points: Array
    labels: Array
    beta: float
    floor: float

    @classmethod
    def of(cls, points: Array, labels: Array) -> Neighbours:
        """Choose bandwidth and floor by the leave-one-out log loss."""
        points = np.ascontiguousarray(points, dtype=float)
        plain = cls(points, labels, 1.0, 1e-3)
        rows = np.unique(np.linspace(0, len(points) - 1, min(_TRIED, len(points))).astype(int))
        if len(points) < 3:
            return plain
        squares, votes = plain._nearest(points[rows], own=rows)
        typical = max(float(np.median(squares[:, : max(1, squares.shape[1] // 10)])), np.finfo(float).tiny)
        best = (np.inf, plain)
        for beta in np.geomspace(0.1, 100, 13) / typical:
            for floor in (1e-4, 1e-3, 1e-2, 0.1):
                tried = cls(points, labels, float(beta), floor)
                truth = tried._shares(squares, votes)[np.arange(len(rows)), labels[rows]]
                loss = -float(np.mean(np.log(np.maximum(truth, 1e-15))))
                if loss < best[0]:
                    best = (loss, tried)
        return best[1]

    def probabilities(self, Y: Array) -> Array:
        """Return the shares (n, c) of the classes."""
        out = np.empty((len(Y), int(self.labels.max()) + 1))
        for rows in gen_batches(len(Y), 1024):
            out[rows] = self._shares(*self._nearest(np.asarray(Y[rows], float)))
        return out

    def _nearest(self, Y: Array, own: Array | None = None) -> tuple[Array, Array]:
        """Return squared distances (n, k) to the nearest training samples, in rising order, and their classes."""
        squares = euclidean_distances(Y, self.points, squared=True)
        if own is not None:
            squares[np.arange(len(own)), own] = np.inf
        k = min(_NEAREST, len(self.points) - (own is not None))
        near = np.argpartition(squares, k - 1, axis=1)[:, :k]
        found = np.take_along_axis(squares, near, 1)
        order = np.argsort(found, axis=1, kind="stable")
        return np.take_along_axis(found, order, 1), self.labels[np.take_along_axis(near, order, 1)]

    def _shares(self, squares: Array, votes: Array) -> Array:
        weights = np.exp(-self.beta * (squares - squares[:, :1]))
        counts = np.bincount(self.labels)
        out = np.tile(self.floor * counts / counts.sum(), (len(squares), 1))
        np.add.at(out, (np.arange(len(squares))[:, None], votes), weights)
        return out / out.sum(axis=1, keepdims=True)
