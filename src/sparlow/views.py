"""Views of a sample: the same picture moved a little, told by the mean of their codes.

    φ̄(x) = 1/V Σ_v φ(xT_v),  T₁ = I,  each xT_v scaled to unit norm where x is

Each view has a code of its own, so the mean is not the code of a blurred picture: it changes little when the picture
moves, and keeps what atoms tell. Dictionary and projection are learned for the means, with exact derivatives.
"""

from __future__ import annotations

import functools
import itertools
import math
import numbers
import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_array

from .coding import encode, pullback
from .dictionaries import unit_samples
from .dictionaries.atoms import check_count
from .messages import warn
from .priors import Prior

Array = NDArray[Any]


class Views(ABC):
    """The contract of a family of views; subclass it to bring your own, as a frozen dataclass of plain numbers."""

    @abstractmethod
    def maps(self, n_features: int) -> tuple[sp.csr_array, ...]:
        """Matrices T (m, m), so that X @ T are views of the rows of X; the same ones at every call.

        The rows as they are need not be among them: they are always the first view.
        """


@dataclass(frozen=True)
class Shifts(Views):
    """Pictures moved by up to ``pixels`` pixels in eight directions; what moves in is zero.

    A picture has 1 + 8 · ``pixels`` views with itself, and coding takes so many times as long.

    Parameters
    ----------
    pixels : int, default=1
        The longest way along each axis. One suits 16 × 16 pixels, two 28 × 28.
    shape : (int, int), optional
        Height and width of the pictures; by default they are square, as any square number of features is taken to be.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sparlow import Shifts, SparLow
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SparLow("lda", views=Shifts(1), max_iter=3, random_state=0).fit(X[:300], y[:300])
    >>> model.transform(X[900:]).shape
    (897, 9)

    """

    pixels: int = 1
    shape: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        check_count(self.pixels, "pixels")
        if self.shape is not None:
            sides = tuple(self.shape) if np.ndim(self.shape) == 1 else ()
            if len(sides) != 2 or not all(isinstance(side, numbers.Integral) and side > 0 for side in sides):
                raise ValueError(f"shape must be height and width, two positive whole numbers, got {self.shape!r}.")
            object.__setattr__(self, "shape", (int(sides[0]), int(sides[1])))

    def maps(self, n_features: int) -> tuple[sp.csr_array, ...]:
        """One matrix for each way and direction, those by one pixel first."""
        height, width = self._sides(n_features)
        far = max(1, min(height, width) // 4)
        if self.pixels >= min(height, width):
            raise ValueError(
                f"Shifts by {self.pixels} pixels move pictures of {height} x {width} pixels out of sight: up to {far} "
                "make sense."
            )
        if self.pixels > far:
            warn(
                f"Shifts by {self.pixels} pixels move more than a quarter of pictures of {height} x {width} pixels out "
                f"of sight, and the mean over them tells little: up to {far} make sense."
            )
        ways = [way for way in itertools.product((-1, 0, 1), repeat=2) if way != (0, 0)]
        lengths = range(1, self.pixels + 1)
        return tuple(_shift(height, width, down * by, right * by) for by in lengths for down, right in ways)

    def _sides(self, n_features: int) -> tuple[int, int]:
        if self.shape is None:
            side = math.isqrt(n_features)
            if side * side != n_features:
                raise ValueError(
                    f"Shifts needs the shape of the pictures: {n_features} numbers are no square. "
                    f"Give it as Shifts({self.pixels}, shape=(height, width))."
                )
            return side, side
        height, width = self.shape
        if height * width != n_features:
            raise ValueError(
                f"Shifts has shape={self.shape}, pictures of {height * width} pixels, but samples have {n_features} "
                "features."
            )
        return height, width


def _shift(height: int, width: int, down: int, right: int) -> sp.csr_array:
    """T such that X @ T are the pictures moved."""
    row, column = np.mgrid[:height, :width].reshape(2, -1)
    stays = (row + down >= 0) & (row + down < height) & (column + right >= 0) & (column + right < width)
    source = np.flatnonzero(stays)
    target = (source // width + down) * width + source % width + right
    return sp.csr_array((np.ones(len(source)), (source, target)), shape=(height * width, height * width))


class Codes(NamedTuple):
    """Codes of samples: the mean over their views, and those of each view."""

    mean: sp.csr_array
    views: tuple[sp.csr_array, ...]


@dataclass(frozen=True)
class Pooling:
    """Coding of samples by the mean over their views; without maps these are the samples alone.

    Parameters
    ----------
    maps : tuple of matrices
        Of the views beside the sample itself.
    unit : bool, default=False
        Scale views to unit norm.

    """

    maps: tuple[Any, ...] = ()
    unit: bool = False

    @classmethod
    def of(cls, views: Views | None, n_features: int, unit: bool) -> Pooling:
        """Coding with the user's views, their matrices checked."""
        if views is None:
            return cls()
        maps, square = tuple(views.maps(n_features)), (n_features, n_features)
        for T in maps:
            if np.shape(T) != square:
                name = f"{type(views).__name__}.maps({n_features})"
                raise ValueError(f"{name} must give matrices of shape {square}, got one of shape {np.shape(T)}.")
        return cls(tuple(check_array(T, accept_sparse="csr", input_name="a matrix of views") for T in maps), unit)

    @property
    def count(self) -> int:
        """Number of views, V."""
        return 1 + len(self.maps)

    def views(self, X: Any) -> Iterator[Any]:
        """The samples, and each view of them in turn."""
        yield X
        for T in self.maps:
            moved = X @ T.astype(X.dtype, copy=False)
            moved = moved if sp.issparse(moved) else np.ascontiguousarray(moved)
            yield unit_samples(moved) if self.unit else moved

    def encode(self, X: Any, D: Array, prior: Prior, start: Codes | None = None, n_jobs: int | None = None) -> Codes:
        """Codes of samples, started from those for another dictionary nearby."""
        starts = (None,) * self.count if start is None else start.views
        views = tuple(
            encode(view, D, prior, start=at, n_jobs=n_jobs) for view, at in zip(self.views(X), starts, strict=True)
        )
        return Codes(self._mean(views), views)

    def mean_codes(self, X: Any, D: Array, prior: Prior, n_jobs: int | None = None) -> sp.csr_array:
        """The means alone, one view at a time."""
        return self._mean(encode(view, D, prior, n_jobs=n_jobs) for view in self.views(X))

    def pullback(
        self, X: Any, D: Array, prior: Prior, codes: Codes, gradient: tuple[Array, Array, float], n_jobs: int | None
    ) -> Array:
        """∂f/∂D from ∂f/∂Φ̄ = left @ right + scale · Φ̄: each view's code has 1/V of it."""
        if self.count == 1:
            return pullback(X, D, prior, codes.mean, gradient, n_jobs=n_jobs)
        left, right, scale = gradient
        share: Any = (left / self.count, right, codes.mean * (scale / self.count) if scale else 0.0)
        slope = np.zeros(D.shape)
        for view, code in zip(self.views(X), codes.views, strict=True):
            slope += pullback(view, D, prior, code, share, n_jobs=n_jobs)
        return slope

    def _mean(self, views: Iterable[sp.csr_array]) -> sp.csr_array:
        total = functools.reduce(operator.add, views)
        return total if self.count == 1 else sp.csr_array(total * total.dtype.type(1 / self.count))
