"""From the embedding to classes: votes of the nearest training samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import gen_batches

Array = NDArray[Any]

_NEAREST = 50  # neighbours whose votes are counted
_TRIED = 2000  # training samples that the bandwidth is chosen on
_FEW = 1 << 14  # training samples that are compared with so many others at once
_DISTANCES = 1 << 23  # distances that are computed at once where there are more


@dataclass(frozen=True)
class Neighbours:
    """Classes by the nearest training samples in the embedding, which vote with the weight exp(−β d²).

    p(c) = (Σ of the votes of class c + share of c · floor) / (all votes + floor), over the 50 nearest samples. β and
    the floor are those of the smallest log loss on held-out samples.

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
    def among(cls, points: Array, labels: Array, beta: float, floor: float) -> Neighbours:
        """Return the neighbours among some points, in double precision if they are few; many are not copied."""
        return cls(
            np.array(points, float) if len(points) <= _FEW else np.ascontiguousarray(points), labels, beta, floor
        )

    @classmethod
    def of(cls, points: Array, labels: Array, new: Array | None = None, truth: Array | None = None) -> Neighbours:
        """Choose bandwidth and floor by the log loss on new samples, or by leaving out one sample at a time."""
        plain = cls.among(points, labels, 1.0, 1e-3)
        points = plain.points
        if len(points) < 3:
            return plain
        if new is None or truth is None:
            rows = np.unique(np.linspace(0, len(points) - 1, min(_TRIED, len(points))).astype(int))
            truth = labels[rows]
            found = [plain._nearest(points[rows[some]], rows[some]) for some in gen_batches(len(rows), plain._at_once)]
        else:
            found = [plain._nearest(new[some]) for some in gen_batches(len(new), plain._at_once)]
        squares, votes = (np.concatenate(part) for part in zip(*found, strict=True))
        near = squares[:, : max(1, squares.shape[1] // 10)]
        apart = near[near > 0]  # equal samples tell nothing about the scale
        typical = float(np.median(apart)) if len(apart) else 1.0
        best = (np.inf, plain)
        for beta in np.geomspace(0.1, 100, 13) / typical:
            for floor in (1e-4, 1e-3, 1e-2, 0.1):
                tried = cls(points, labels, float(beta), floor)
                given = tried._shares(squares, votes)[np.arange(len(truth)), truth]
                loss = -float(np.mean(np.log(np.maximum(given, 1e-15))))
                if loss < best[0]:
                    best = (loss, tried)
        return best[1]

    def probabilities(self, Y: Array) -> Array:
        """Return the shares (n, c) of the classes."""
        out = np.empty((len(Y), int(self.labels.max()) + 1))
        for rows in gen_batches(len(Y), self._at_once):
            out[rows] = self._shares(*self._nearest(Y[rows]))
        return out

    @property
    def _at_once(self) -> int:
        """How many samples are compared with all training samples at once, in bounded memory."""
        return _TRIED if len(self.points) <= _FEW else max(16, _DISTANCES // len(self.points))

    def _nearest(self, Y: Array, own: Array | None = None) -> tuple[Array, Array]:
        """Return squared distances (n, k) to the nearest training samples, in rising order, and their classes."""
        squares = euclidean_distances(np.asarray(Y, self.points.dtype), self.points, squared=True)
        if own is not None:
            squares[np.arange(len(own)), own] = np.inf
        k = min(_NEAREST, len(self.points) - (own is not None))
        near = np.argpartition(squares, k - 1, axis=1)[:, :k]
        found = np.take_along_axis(squares, near, 1)
        order = np.argsort(found, axis=1, kind="stable")
        return np.take_along_axis(found, order, 1), self.labels[np.take_along_axis(near, order, 1)]

    def _shares(self, squares: Array, votes: Array) -> Array:
        """Return the probabilities of classes from distances and classes of neighbours."""
        weights = np.exp(-self.beta * (squares - squares[:, :1]))
        counts = np.bincount(self.labels)
        out = np.tile(self.floor * counts / counts.sum(), (len(squares), 1))
        np.add.at(out, (np.arange(len(squares))[:, None], votes), weights)
        return out / out.sum(axis=1, keepdims=True)
