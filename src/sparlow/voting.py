"""From the embedding to classes: votes of training samples, and of the means of classes.

    p(c) = (Σᵢ wᵢ exp(−β d²(y, yᵢ)) [yᵢ in c] + f q(c)) / (Σᵢ wᵢ exp(−β d²(y, yᵢ)) + f),   q(c) ∝ n_c exp(−γ d²(y, m_c))

The sum runs over the 50 nearest voters, and d² is relative to the nearest one. Voters are the training samples, and
wᵢ = 1. Where these are more than 2048, so many cells stand for them: a cell is the samples of a class that are nearest
to one of them, the voter is their mean, and wᵢ is their number. So time and memory do not grow
with the training set beyond that. Distances are those of the embeddings, or of the embeddings scaled to unit norm.

Where labels have spread to unlabelled samples, :class:`Memberships` average the shares that these have got.

The :class:`Rule` has the smallest log loss on held-out samples. In it β is relative to how far voters are apart, so
that a rule chosen among some samples suits more of them.
"""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils import gen_batches

from .checks import Array, evenly
from .constants import MANY, MOST_NEIGHBOURS, NEAREST, UNIFORM, VOTERS, VOTERS_OF_EACH

_FACTORS = np.geomspace(0.1, 100, 13)  # of β and γ, over typical squared distances
_WEIGHTS = np.geomspace(1e-3, 10, 5)  # of the means, f


class Rule(NamedTuple):
    """How voters are counted: by angle or by distance; β times a typical squared distance; γ; f."""

    angle: bool = False
    near: float = 1.0
    mean: float = 1.0
    weight: float = 1.0


def drawn(labels: Array | None, n: int) -> Array:
    """Return the rows of at most about 2048 samples, evenly spaced, each class with its share and at least ten."""
    if n <= VOTERS or labels is None:
        return evenly(np.arange(n), VOTERS)
    groups = [np.flatnonzero(labels == c) for c in np.unique(labels)]
    return np.sort(np.concatenate([evenly(group, max(VOTERS * len(group) // n, VOTERS_OF_EACH)) for group in groups]))


@dataclass(frozen=True)
class Voters:
    """Points that vote for their classes, by one rule.

    Parameters
    ----------
    points : array of shape (k, l)
        Embeddings, of unit norm where angles count.
    labels : array of shape (k,)
        Their classes, 0 … c − 1.
    weights : array of shape (k,)
        How many samples each stands for.
    means : array of shape (c, l)
        The mean of each class.
    shares : array of shape (c,)
        The share of each class.
    rule : Rule
    beta : float

    """

    points: Array
    labels: Array
    weights: Array
    means: Array
    shares: Array
    rule: Rule
    beta: float

    @classmethod
    def of(cls, Y: Array, labels: Array, rule: Rule | None = None) -> Voters:
        """Return voters for labelled training samples; without a rule it is chosen by leaving out one at a time."""
        rule = best_rule(Y, labels) if rule is None else Rule(*rule)
        counts = np.bincount(labels)
        Y = _scaled(Y, rule.angle)
        cells = _cells(Y, labels, counts)
        return cls(*cells, _means(Y, labels, counts), counts / counts.sum(), rule, rule.near / _apart(cells[0]))

    @functools.cached_property
    def _table(self) -> tuple[Array, Array]:
        """What of squared distances depends on the voters alone."""
        return _table(self.points)

    def __getstate__(self) -> dict[str, Any]:
        return {part.name: getattr(self, part.name) for part in dataclasses.fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the arrays of a file in double precision."""
        double = {name: np.asarray(state[name], float) for name in ("points", "weights", "means", "shares")}
        self.__dict__.update(state | double)

    def _check_sound(self) -> None:
        """Refuse voters from a damaged file."""
        (k, width), c = np.shape(self.points), len(self.shares)
        shapes = {"points": (k, width), "weights": (k,), "means": (c, width), "shares": (c,)}
        for name, shape in shapes.items():
            array = getattr(self, name)
            sound = isinstance(array, np.ndarray) and array.dtype.char in "fd" and array.shape == shape
            if not sound or not np.isfinite(array).all():
                raise ValueError(f"{name} of the voters must be finite floats of shape {shape}, got {np.shape(array)}.")
        y = self.labels
        if (
            not (isinstance(y, np.ndarray) and y.dtype.kind == "i" and y.shape == (k,))
            or not 0 <= y.min() <= y.max() < c
        ):
            raise ValueError("The labels of the voters do not fit them or the classes.")
        rule = (self.beta, *self.rule[1:])
        if len(rule) != 4 or not all(isinstance(number, float) and 0 < number < np.inf for number in rule):
            raise ValueError(f"The rule of the voters must be positive numbers, got {self.rule}.")

    def probabilities(self, Y: Array, own: bool = False) -> Array:
        """Return the probabilities (n, c) of the classes; ``own`` says that Y are the voters, each beside itself."""
        out = np.empty((len(Y), len(self.shares)))
        for rows in gen_batches(len(Y), MANY):
            part = _scaled(Y[rows], self.rule.angle)
            squares, near = _nearest(part, self.points, np.arange(rows.start, rows.stop) if own else None, self._table)
            votes = self.weights[near] * np.exp(-self.beta * (squares - squares[:, :1]))
            shares = self.rule.weight * self._by_means(part)
            np.add.at(shares, (np.arange(len(part))[:, None], self.labels[near]), votes)
            out[rows] = shares / shares.sum(axis=1, keepdims=True)
        return out

    def _by_means(self, Y: Array) -> Array:
        """Return q (n, c)."""
        squares = _squares(Y, self.means)
        return _posterior(self.rule.mean * (squares - squares.min(axis=1, keepdims=True)), self.shares)


@dataclass(frozen=True)
class Memberships:
    """Training samples that vote with the shares of classes that spreading has given them.

    p(c) is the mean of the shares of the ten nearest samples by angle, with the weights exp(−d²/t), where t is their
    mean squared distance. Samples that no label has reached have no vote, and of the others at most 2048 have one.

    Parameters
    ----------
    points : array of shape (k, l)
        Embeddings of unit norm; the mean of all is zero.
    shares : array of shape (k, c)
        Rows of sum one.

    """

    points: Array
    shares: Array

    @classmethod
    def among(cls, Y: Array, shares: Array) -> Memberships:
        """Return the memberships of samples embedded at Y."""
        reached = np.flatnonzero(shares.any(axis=1))
        rows = reached[drawn(shares[reached].argmax(axis=1), len(reached))]
        return cls(_scaled(Y[rows], Y.shape[1] > 1), np.asarray(shares[rows], float))

    def probabilities(self, Y: Array, own: bool = False) -> Array:
        """Return the probabilities (n, c) of the classes; ``own`` says that Y are the voters, each beside itself."""
        out = np.empty((len(Y), self.shares.shape[1]))
        for rows in gen_batches(len(Y), MANY):
            part = _scaled(Y[rows], Y.shape[1] > 1)
            at = np.arange(rows.start, rows.stop) if own else None
            squares, near = _nearest(part, self.points, at, None, MOST_NEIGHBOURS)
            typical = np.maximum(squares.mean(axis=1, keepdims=True), np.finfo(float).tiny)
            out[rows] = np.einsum("nk,nkc->nc", np.exp(-squares / typical), self.shares[near])
        out /= out.sum(axis=1, keepdims=True)
        return (1 - UNIFORM) * out + UNIFORM / out.shape[1]

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the arrays of a file in double precision."""
        self.__dict__.update({name: np.asarray(state[name], float) for name in ("points", "shares")})

    def _check_sound(self) -> None:
        """Refuse voters from a damaged file."""
        for array in (self.points, self.shares):
            if not (isinstance(array, np.ndarray) and array.ndim == 2 and len(array) == len(self.points)):
                raise ValueError("The voters must be embeddings (k, l) and shares (k, c).")
            if not np.isfinite(array).all():
                raise ValueError("The voters must be finite numbers.")


def best_rule(Y: Array, labels: Array, new: Array | None = None, truth: Array | None = None) -> Rule:
    """Return the rule of the smallest log loss on new samples, or on training samples, each left out."""
    if len(Y) < 3:
        return Rule()
    own = None
    if new is None or truth is None:  # cells would know the samples in them
        rows = evenly(np.arange(len(Y)), VOTERS)
        Y, labels = Y[rows], labels[rows]
        own = evenly(np.arange(len(Y)), MANY)
        new, truth = Y[own], labels[own]
    ways = (False, True)[: Y.shape[1]]  # in one dimension there are two angles only
    return min(_best_of(_scaled(Y, way), labels, _scaled(new, way), truth, own, way) for way in ways)[1]


def _best_of(Y: Array, labels: Array, new: Array, truth: Array, own: Array | None, angle: bool) -> tuple[float, Rule]:
    """Return the smallest log loss of rules by angle or by distance, and its rule."""
    counts = np.bincount(labels, minlength=int(truth.max()) + 1)
    points, classes, weights = _cells(Y, labels, counts)
    found = [_nearest(new[some], points, None if own is None else own[some]) for some in gen_batches(len(new), MANY)]
    squares, near = (np.concatenate(part) for part in zip(*found, strict=True))
    right, weights = classes[near] == truth[:, None], weights[near]
    rows, far = np.arange(len(truth)), _squares(new, _means(Y, labels, counts))
    if own is not None:  # the mean of the others of its class
        far[rows, truth] *= (counts[truth] / np.maximum(counts[truth] - 1, 1)) ** 2
    nearest, apart = far.min(axis=1, keepdims=True), _apart(points)
    means = _FACTORS / _typical(nearest)
    q = np.array([_posterior(mean * (far - nearest), counts / counts.sum())[rows, truth] for mean in means])
    best = (np.inf, Rule(angle))
    for factor in _FACTORS:
        votes = weights * np.exp(-factor / apart * (squares - squares[:, :1]))
        ours, everyone = (votes * right).sum(axis=1), votes.sum(axis=1)
        for f in _WEIGHTS:
            losses = -np.log((ours + f * q) / (everyone + f)).mean(axis=1)
            at = int(np.argmin(losses))
            best = min(best, (float(losses[at]), Rule(angle, float(factor), float(means[at]), float(f))))
    return best


def _apart(points: Array) -> float:
    """Return the typical squared distance of voters from those near by."""
    rows = evenly(np.arange(len(points)), MANY)
    squares, _ = _nearest(points[rows], points, rows)
    return _typical(squares[:, : max(1, squares.shape[1] // 10)])


def _cells(Y: Array, labels: Array, counts: Array) -> tuple[Array, Array, Array]:
    """Return voters, their classes and their weights: the samples, or the means of cells where there are more."""
    if len(Y) <= VOTERS:
        return Y, labels, np.ones(len(Y))
    points, classes, sizes = [], [], []
    rows = drawn(labels, len(Y))
    for c in np.flatnonzero(counts):
        members, centres = Y[labels == c], Y[rows[labels[rows] == c]]
        cell = np.concatenate(
            [_squares(members[some], centres).argmin(axis=1) for some in gen_batches(len(members), MANY)]
        )
        size = np.bincount(cell, minlength=len(centres))
        points.append(_means(members, cell, size)[size > 0])
        sizes.append(size[size > 0])
        classes.append(np.full(len(sizes[-1]), c))
    return np.concatenate(points), np.concatenate(classes), np.concatenate(sizes).astype(float)


def _posterior(exponents: Array, shares: Array) -> Array:
    """Return n_c exp(−exponent) (n, c), in shares."""
    weights = shares * np.exp(-exponents)
    return (1 - UNIFORM) * weights / weights.sum(axis=1, keepdims=True) + UNIFORM * shares


def _typical(squares: Array) -> float:
    """Return the median of what is above zero: equal samples tell nothing about the scale."""
    apart = squares[squares > 0]
    return float(np.median(apart)) if len(apart) else 1.0


def _scaled(Y: Array, angle: bool) -> Array:
    """Return embeddings in double precision, scaled to unit norm where angles count."""
    Y = np.asarray(Y, float)
    return Y / np.maximum(np.linalg.norm(Y, axis=1, keepdims=True), np.finfo(float).tiny) if angle else Y


def _means(points: Array, labels: Array, counts: Array) -> Array:
    """Return the mean of each class (c, l)."""
    members = sp.csr_array((np.ones(len(labels)), labels, np.arange(len(labels) + 1)), shape=(len(labels), len(counts)))
    return np.asarray(members.T @ points) / np.maximum(counts, 1)[:, None]


def _table(points: Array) -> tuple[Array, Array]:
    """Return what of squared distances depends on the points alone."""
    return np.ascontiguousarray(-2 * points.T), np.einsum("ij,ij->i", points, points)


def _squares(Y: Array, points: Array, table: tuple[Array, Array] | None = None) -> Array:
    """Return squared distances (n, k)."""
    products, norms = _table(points) if table is None else table
    out = Y @ products
    out += norms
    out += np.einsum("ij,ij->i", Y, Y)[:, None]
    return np.maximum(out, 0, out=out)


def _nearest(
    Y: Array, points: Array, own: Array | None, table: tuple[Array, Array] | None = None, count: int = NEAREST
) -> tuple[Array, Array]:
    """Return squared distances (n, k) to the nearest points, in rising order, and which these are."""
    squares = _squares(Y, points, table)
    if own is not None:
        squares[np.arange(len(own)), own] = np.inf
    k = min(count, len(points) - (own is not None))
    near = np.argpartition(squares, k - 1, axis=1)[:, :k]
    found = np.take_along_axis(squares, near, 1)
    order = np.argsort(found, axis=1, kind="stable")
    return np.take_along_axis(found, order, 1), np.take_along_axis(near, order, 1)
