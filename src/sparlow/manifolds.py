"""Where dictionaries and projections live: unit-norm rows, subspaces, and products of both.

A manifold offers five operations on points and tangent vectors, which are arrays (tuples of arrays for a product):
the metric ``inner``, the Riemannian ``gradient`` of a Euclidean one, ``retract`` along a tangent vector, ``transport``
of tangent vectors to the point reached, and a ``random_point``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

Point = Any  # an array, or a tuple of points for a product


class Manifold(ABC):
    """The contract; vectors are tangent at ``point`` unless said otherwise."""

    @abstractmethod
    def inner(self, point: Point, a: Point, b: Point) -> float:
        """Return ⟨a, b⟩ at ``point``."""

    @abstractmethod
    def project(self, point: Point, vector: Point) -> Point:
        """Return the tangent part of an ambient vector."""

    @abstractmethod
    def gradient(self, point: Point, euclidean: Point) -> Point:
        """Return the Riemannian gradient: the tangent vector g with ⟨g, ξ⟩ = euclidean · ξ for every tangent ξ."""

    @abstractmethod
    def retract(self, point: Point, step: Point) -> Point:
        """Return the point reached from ``point`` along ``step``, exact to first order."""

    @abstractmethod
    def transport(self, point: Point, step: Point, reached: Point, vector: Point) -> Point:
        """Carry ``vector`` along ``step`` to the tangent space at ``reached`` = retract(point, step)."""

    @abstractmethod
    def combine(self, a: float, x: Point, b: float, y: Point) -> Point:
        """Return a·x + b·y of two tangent vectors at the same point."""

    @abstractmethod
    def random_point(self, rng: np.random.Generator) -> Point:
        """Draw a point at random."""

    def norm(self, point: Point, vector: Point) -> float:
        """Return √⟨v, v⟩."""
        return math.sqrt(max(0.0, self.inner(point, vector, vector)))


class _Single(Manifold):
    """What manifolds of one array have in common."""

    def combine(self, a: float, x: Point, b: float, y: Point) -> Point:
        return a * x + b * y


@dataclass(frozen=True)
class Spheres(_Single):
    """Unit-norm rows d of an (r, m) array: a product of r spheres."""

    n_rows: int
    n_columns: int

    def inner(self, point: Point, a: Point, b: Point) -> float:
        return float(np.vdot(a, b))

    def project(self, point: Point, vector: Point) -> Point:
        """Return ξ − d(d·ξ)."""
        return vector - point * np.einsum("ij,ij->i", point, vector)[:, None]

    def gradient(self, point: Point, euclidean: Point) -> Point:
        return self.project(point, euclidean)

    def retract(self, point: Point, step: Point) -> Point:
        """Return (d + ξ)/‖d + ξ‖."""
        y = point + step
        return y / np.linalg.norm(y, axis=1, keepdims=True)

    def transport(self, point: Point, step: Point, reached: Point, vector: Point) -> Point:
        """Return (I − yyᵀ/‖y‖²)ξ/‖y‖ with y = d + step, the derivative of the retraction (errata 5)."""
        return self.project(reached, vector) / np.linalg.norm(point + step, axis=1, keepdims=True)

    def random_point(self, rng: np.random.Generator) -> Point:
        return self.retract(0.0, rng.standard_normal((self.n_rows, self.n_columns)))


@dataclass(frozen=True)
class Grassmann(_Single):
    """Subspaces of dimension l in r dimensions, as orthonormal U (r, l); tangent vectors H with UᵀH = 0.

    The metric is that of the projectors UUᵀ: ‖HUᵀ + UHᵀ‖² = 2‖H‖², so the gradient is half the projected one.
    """

    dimension: int
    subspace: int

    def inner(self, point: Point, a: Point, b: Point) -> float:
        return 2 * float(np.vdot(a, b))

    def project(self, point: Point, vector: Point) -> Point:
        """Return H = V − U(UᵀV)."""
        return vector - point @ (point.T @ vector)

    def gradient(self, point: Point, euclidean: Point) -> Point:
        return self.project(point, euclidean) / 2

    def retract(self, point: Point, step: Point) -> Point:
        """Return the orthogonal factor of U + H, triangular factor with positive diagonal."""
        Q, R = np.linalg.qr(point + step)
        return Q * np.where(np.diag(R) < 0, -1.0, 1.0).astype(Q.dtype)

    def transport(self, point: Point, step: Point, reached: Point, vector: Point) -> Point:
        """Return the projection on the tangent space at the point reached."""
        return self.project(reached, vector)

    def random_point(self, rng: np.random.Generator) -> Point:
        return self.retract(0.0, rng.standard_normal((self.dimension, self.subspace)))


@dataclass(frozen=True)
class Product(Manifold):
    """Pairs (or tuples) of points, one on each manifold; the metric is the sum."""

    parts: tuple[Manifold, ...]

    def _each(self, name: str, *points: Point) -> tuple[Any, ...]:
        """Return what the manifolds give for their parts of points or vectors."""
        return tuple(getattr(part, name)(*these) for part, *these in zip(self.parts, *points, strict=True))

    def inner(self, point: Point, a: Point, b: Point) -> float:
        return sum(self._each("inner", point, a, b))

    def project(self, point: Point, vector: Point) -> Point:
        return self._each("project", point, vector)

    def gradient(self, point: Point, euclidean: Point) -> Point:
        return self._each("gradient", point, euclidean)

    def retract(self, point: Point, step: Point) -> Point:
        return self._each("retract", point, step)

    def transport(self, point: Point, step: Point, reached: Point, vector: Point) -> Point:
        return self._each("transport", point, step, reached, vector)

    def combine(self, a: float, x: Point, b: float, y: Point) -> Point:
        return tuple(part.combine(a, u, b, v) for part, u, v in zip(self.parts, x, y, strict=True))

    def random_point(self, rng: np.random.Generator) -> Point:
        return tuple(part.random_point(rng) for part in self.parts)
