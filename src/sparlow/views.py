"""Views of each sample, whose codes are pooled: moved copies of a picture, or its patches.

A view is a linear map of the sample, pᵥ = N(x Tᵥ) with Tᵥ (m, q). All views of all samples are coded over one
dictionary (r, q). The codes are pooled in cells and make one row of features:

    z_c = Σᵥ w_cv h(φᵥ),   h(φ) = [φ⁺, φ⁻] or φ;   Φ(x) = s(z)/‖s(z)‖,  s the root, or nothing of both.

A family of views says what Tᵥ, N, w, h and s are. :class:`Bound` knows how to compute them and their derivative.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import numbers
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from . import _kernels
from .checks import Array, check_array, check_count, image_sides, likely_sides, some_of, warn
from .constants import PLACES
from .parallel import frozen


class Views(ABC):
    """The contract of a family of views; subclass it to bring your own, as a frozen dataclass of plain numbers.

    Only :meth:`maps` must be written. The class attributes say what happens to views and codes:

    ``unit``
        Scale views to unit norm where samples are.
    ``contrast``
        Subtract the mean of each view and divide by its norm plus this share of the root mean square norm of the
        training views; 0 for none of it.
    ``whitening``
        Then whiten them, with this share of their mean variance added to that of each direction; 0 for none of it.
    ``signs``
        Pool positive and negative parts of the codes apart, [φ⁺, φ⁻].
    ``root``
        Take the square root of pooled codes and scale each row to unit norm. It needs ``signs``, and weights that are
        not negative.
    """

    unit: ClassVar[bool] = True
    contrast: float = 0.0
    whitening: float = 0.0
    signs: bool = False
    root: bool = False

    @abstractmethod
    def maps(self, n_features: int) -> tuple[Any, ...]:
        """Return the matrices Tᵥ (m, q), the same at every call; X @ Tᵥ are views of the rows of X."""

    def weights(self, n_features: int) -> Any:
        """Return the weights w (cells, views), dense or sparse; by default one cell, the mean over the views."""
        n_views = len(self.maps(n_features))
        return np.full((1, n_views), 1.0 / n_views)

    def bind(self, X: Any, unit: bool = True) -> Bound:
        """Return these views for samples such as the rows of X; ``unit`` says whether samples have unit norm."""
        bound = self.bound(X.shape[1], unit)
        if not self.contrast:
            return bound
        some, raw = some_of(X), dataclasses.replace(bound, unit=False)
        typical = math.sqrt(float(np.trace(raw.second_moment(some))))
        if not typical > 0:
            raise ValueError(f"{type(self).__name__}: all views of the samples are flat, without any contrast.")
        bound = self.bound(X.shape[1], unit, self.contrast * typical)
        if not self.whitening:
            return bound
        values, axes = np.linalg.eigh(bound.second_moment(some))
        scales = np.sqrt(values.mean() / (np.maximum(values, 0) + self.whitening * values.mean()))
        return self.bound(X.shape[1], unit, bound.epsilon, (axes * scales) @ axes.T)

    def bound(self, n_features: int, unit: bool = True, epsilon: float = 0.0, whitener: Array | None = None) -> Bound:
        """Return these views for samples of so many features, with what :meth:`bind` measured."""
        m, name = n_features, type(self).__name__
        if self.root and not self.signs:
            raise ValueError(f"{name}: root needs signs, as the square root of a negative mean is not defined.")
        if not self.contrast >= 0:
            raise ValueError(f"{name}: contrast must be zero or a positive number, got {self.contrast!r}.")
        maps = tuple(sp.csc_array(T) for T in self.maps(m))
        if not maps or any(T.shape[0] != m or T.shape[1] != maps[0].shape[1] for T in maps):
            shapes = sorted({T.shape for T in maps})
            raise ValueError(f"{name}.maps({m}) must give matrices of {m} rows, all of the same shape, got {shapes}.")
        weights = check_array(self.weights(m), accept_sparse="csr", input_name="weights")
        if weights.shape[1] != len(maps):
            raise ValueError(f"{name}.weights({m}) must have {len(maps)} columns, one per view, got {weights.shape}.")
        if self.root and weights.min() < 0:
            raise ValueError(f"{name}.weights({m}) must not be negative where root is on.")
        by_view = sp.csr_array(sp.csr_array(weights).T)
        side_by_side = check_array(sp.hstack(maps, "csc"), accept_sparse="csc", input_name="a matrix of views")
        unit = self.unit and unit and not epsilon
        sound = isinstance(epsilon, numbers.Real) and 0 <= float(epsilon) < np.inf
        q = maps[0].shape[1]
        if not sound or (whitener is not None and (np.shape(whitener) != (q, q) or not np.isfinite(whitener).all())):
            raise ValueError(f"{name}: what was measured of views is not finite or has the wrong shape: {epsilon!r}.")
        return Bound(sp.csr_array(side_by_side), len(maps), by_view, unit, epsilon, self.signs, self.root, whitener)


@dataclass(frozen=True)
class Bound:
    """Views bound to samples of m features: how to cut them, to pool their codes, and to take a gradient back.

    Parameters
    ----------
    maps : csr_array of shape (m, views · q), optional
        The matrices Tᵥ side by side; None for the sample itself as its only view.
    n_views : int
    weights : csr_array of shape (views, cells), optional
    unit : bool
        Scale views to unit norm.
    epsilon : float
        Where positive, the mean of each view is subtracted, and it is divided by its norm + epsilon.
    signs, root : bool
        See :class:`Views`.
    whitener : array of shape (q, q), optional
        What views are multiplied by then.

    """

    maps: Any = None
    n_views: int = 1
    weights: Any = None
    unit: bool = False
    epsilon: float = 0.0
    signs: bool = False
    root: bool = False
    whitener: Array | None = None

    OFFSET: ClassVar[float] = 1e-6  # δ of the root √(z + δ) − √δ, which has a derivative at 0

    @property
    def whole(self) -> bool:
        """Whether a sample is its only view, so that its features are its code."""
        return self.maps is None

    @property
    def like_samples(self) -> bool:
        """Whether views are of the same kind as samples, so that atoms can be learned from these."""
        return self.maps is None or (self.n_inputs(self.maps.shape[0]) == self.maps.shape[0] and not self.epsilon)

    @property
    def n_cells(self) -> int:
        """The number of cells, C."""
        return 1 if self.weights is None else int(self.weights.shape[1])

    def description(self) -> tuple[Any, ...]:
        """Return numbers and arrays that differ where views do."""
        matrices = [part for part in (self.maps, self.weights) if part is not None]
        arrays = [array for part in matrices for array in (part.indptr, part.indices, part.data)]
        return self.n_views, self.unit, self.epsilon, self.signs, self.root, self.whitener, *arrays

    def n_inputs(self, n_features: int) -> int:
        """Return q, the number of features of a view and of an atom."""
        return n_features if self.maps is None else self.maps.shape[1] // self.n_views

    def width(self, n_atoms: int) -> int:
        """Return the number of features that r atoms give."""
        return n_atoms * (2 if self.signs else 1) * self.n_cells

    def parts(self, n: int, n_features: int) -> list[slice]:
        """Cut range(n) in parts whose views fit in memory together."""
        size = max(1, (1 << 22) // (self.n_views * self.n_inputs(n_features)))  # bounds the views that are in memory
        return [slice(first, min(first + size, n)) for first in range(0, n, size)]

    def cut(self, X: Any) -> Any:
        """Return the views (n · views, q) of the rows of X, sample by sample."""
        if self.maps is None:
            return X
        T = self.maps.astype(X.dtype, copy=False)
        product = X @ T if sp.issparse(X) else (T.T @ X.T).T
        dense = product.toarray() if sp.issparse(product) else np.asarray(product)
        views = np.ascontiguousarray(dense).reshape(X.shape[0] * self.n_views, -1)
        if self.epsilon:
            views -= views.mean(axis=1, keepdims=True)
            views /= np.linalg.norm(views, axis=1, keepdims=True) + views.dtype.type(self.epsilon)
            return views if self.whitener is None else views @ self.whitener.astype(views.dtype)
        if self.unit:
            norms = np.linalg.norm(views, axis=1, keepdims=True)
            return np.divide(views, norms, out=np.zeros_like(views), where=norms > 0)
        return views

    def second_moment(self, X: Any) -> Array:
        """Return the mean of ppᵀ over all views p of samples; the mean of a view is not part of it."""
        total: Any = 0.0
        for part in self.parts(X.shape[0], X.shape[1]):
            P = self.cut(X[part]).astype(float)
            P -= P.mean(axis=1, keepdims=True)
            total = total + P.T @ P
        return np.asarray(total / (X.shape[0] * self.n_views))

    def pool(self, codes: sp.csr_array) -> tuple[Array, Array]:
        """Return the features (n, width) of the codes of all views, and their norms before they were scaled."""
        n, r = codes.shape[0] // self.n_views, codes.shape[1]
        z = np.zeros((n, self.n_cells, self.width(r) // self.n_cells), codes.dtype)
        _kernels.pool_codes(*_arrays(codes), *self._cells(codes.dtype), r, self.signs, z)
        features, norms = z.reshape(n, -1), np.ones(n)
        if self.root:
            _kernels.root_and_scale(features, True, self.OFFSET, True, norms)
        return features, norms

    def pull(self, codes: sp.csr_array, gradient: Array) -> Array:
        """Return ∂f/∂φᵥ at the stored codes, given ∂f/∂Φ (n, width), which is overwritten."""
        n, r = codes.shape[0] // self.n_views, codes.shape[1]
        if self.root:
            features, norms = self.pool(codes)
            _kernels.pull_features(features, norms, gradient, True, self.OFFSET, True)
        out = np.empty(codes.nnz, codes.dtype)
        slope = gradient.reshape(n, self.n_cells, -1)
        _kernels.pull_codes(*_arrays(codes), *self._cells(codes.dtype), r, self.signs, slope, out)
        return out

    def _cells(self, dtype: np.dtype[Any]) -> tuple[Array, Array, Array]:
        """Return the weights of patches in cells, as the kernels take them."""
        W = self.weights
        return frozen(W.indptr.astype(np.int64), W.indices.astype(np.int64), W.data.astype(dtype))


def _arrays(codes: sp.csr_array) -> tuple[Array, Array, Array]:
    """Return the arrays of codes of views, as the kernels take them."""
    return frozen(codes.indptr.astype(np.int64), codes.indices.astype(np.int32, copy=False), codes.data)


class _Pictures(Views):
    """Views of pictures whose shape may be left open: then they are taken to be square."""

    shape: tuple[int, ...] | None

    def bind(self, X: Any, unit: bool = True) -> Bound:
        """Return these views for samples such as the rows of X, which are warned of where they do not look square."""
        bound, sides = super().bind(X, unit), likely_sides(X) if self.shape is None else None
        if sides is not None:
            name, side = type(self).__name__, math.isqrt(X.shape[1])
            warn(
                f"{name} reads rows of {X.shape[1]} numbers as {side} x {side} pixels, but they look like {sides[0]} x "
                f"{sides[1]}: give {name}(shape={sides}), or shape=({side}, {side}) if they are square."
            )
        return bound


@dataclass(frozen=True)
class Shifts(_Pictures):
    """Pictures moved by up to ``pixels`` pixels in eight directions; zeros move in.

    The codes of a picture and of its copies are averaged. A picture has 1 + 8 · ``pixels`` views, and coding takes so
    many times as long.

    Parameters
    ----------
    pixels : int, default=1
        The longest shift along each axis. One suits 16 × 16 pixels, two 28 × 28.
    shape : (int, int), optional
        Height and width of the pictures. By default they are square.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sparlow import SparLow
    >>> from sparlow.views import Shifts
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
            image_sides("Shifts", self.shape, int(np.prod(np.asarray(self.shape, dtype=object).ravel())))

    def maps(self, n_features: int) -> tuple[sp.csr_array, ...]:
        """Return the identity and one matrix for each direction and length, shorter shifts first."""
        height, width, channels = image_sides("Shifts", self.shape, n_features)
        far = max(1, min(height, width) // 4)
        said = f"Shifts by {self.pixels} pixels move {{}} pictures of {height} x {width} pixels out of sight: "
        said += f"up to {far} make sense."
        if self.pixels >= min(height, width):
            raise ValueError(said.format("all of"))
        if self.pixels > far:
            warn(said.format("more than a quarter of"))
        ways = [way for way in itertools.product((-1, 0, 1), repeat=2) if way != (0, 0)]
        moves = [(down * by, right * by) for by in range(1, self.pixels + 1) for down, right in ways]
        place = np.arange(n_features).reshape(height, width, channels)
        return tuple(_moved(place, down, right) for down, right in [(0, 0), *moves])


def _moved(place: Array, down: int, right: int) -> sp.csr_array:
    """Return T such that X @ T are the pictures moved; ``place`` (height, width, channels) numbers their pixels."""
    height, width, _ = place.shape
    source = place[max(0, -down) : height - max(0, down), max(0, -right) : width - max(0, right)].ravel()
    target = place[max(0, down) : height + min(0, down), max(0, right) : width + min(0, right)].ravel()
    return sp.csr_array((np.ones(len(source)), (source, target)), shape=(place.size, place.size))


@dataclass(frozen=True)
class Patches(_Pictures):
    """Patches of images, their codes pooled in a grid of cells.

    Each patch loses its mean and is divided by its norm plus a share ``contrast`` of the root mean square norm. The
    positive and the negative parts of codes are pooled apart, each patch in the cells around its centre with bilinear
    weights. The row of an image is the square root of these means, scaled to unit norm: 2 · n_atoms · cells² numbers.

    Parameters
    ----------
    size : int, optional
        Side of a patch in pixels; by default a quarter of the shorter side of the image, odd, from 3 to 7.
    stride : int, optional
        Pixels from one patch to the next; by default the fewest that give at most 2500 patches, 1 up to 50 × 50 pixels.
    cells : int or tuple of int, optional
        Cells along each side of the image; by default 4 below 24 pixels, 6 from there. Several numbers make a pyramid.
    padding : {"edge", "zero", "none"}, default="edge"
        What lies around the image, half a patch wide: its outermost pixels again, zeros, or nothing.
    contrast : float, default=0.1
        The share of the root mean square norm that is added to the norm of each patch.
    whitening : float, default=0
        Whiten patches then: 0.1 adds a tenth of their mean variance to that of each direction. It helps photographs in
        colours and hurts digits and faces; 0 leaves patches as they are.
    signs : bool, default=True
        Pool positive and negative parts of codes apart.
    root : bool, default=True
        Take the square root of pooled codes and scale rows to unit norm.
    shape : (int, int) or (int, int, int), optional
        Height, width and channels of the images. By default they are square and grey: 256 numbers are 16 × 16 pixels.
        Where they look like other sides, fit warns. ``grid(n_features)`` tells the sides in use.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sparlow import SparLow
    >>> from sparlow.views import Patches
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SparLow("lda", n_atoms=32, views=Patches(), random_state=0).fit(X[:300], y[:300])
    >>> model.score(X[900:], y[900:]) > 0.9
    True

    """

    size: int | None = None
    stride: int | None = None
    cells: int | tuple[int, ...] | None = None
    padding: str = "edge"
    contrast: float = 0.1
    whitening: float = 0.0
    signs: bool = True
    root: bool = True
    shape: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("size", "stride"):
            if getattr(self, name) is not None:
                check_count(getattr(self, name), name)
        if self.cells is not None:
            for side in np.atleast_1d(np.asarray(self.cells, dtype=object)):
                check_count(side, "cells")
        if self.padding not in ("edge", "zero", "none"):
            raise ValueError(f'padding must be "edge", "zero" or "none", got {self.padding!r}.')
        for name, value in (("contrast", self.contrast), ("whitening", self.whitening)):
            if not (isinstance(value, numbers.Real) and 0 <= float(value) < np.inf) or value == self.contrast == 0:
                raise ValueError(f"{name} must be a positive number, got {value!r}.")
        if self.root and not self.signs:
            raise ValueError("root needs signs: the square root of a negative mean is not defined.")

    def maps(self, n_features: int) -> tuple[sp.csc_array, ...]:
        """Return one matrix (m, size² · channels) for each patch, row by row."""
        grid = self.grid(n_features)
        inside = np.arange(n_features).reshape(grid.height, grid.width, grid.channels)
        around = [(grid.margin, grid.margin)] * 2 + [(0, 0)]
        options: dict[str, Any] = {"mode": "edge"} if self.padding == "edge" else {"constant_values": -1}
        place = np.pad(inside, around, **options)
        out = []
        for top, left in itertools.product(grid.tops, grid.lefts):
            source = place[top : top + grid.size, left : left + grid.size].ravel()
            target = np.flatnonzero(source >= 0)
            shape = (n_features, grid.size**2 * grid.channels)
            out.append(sp.csc_array((np.ones(len(target)), (source[target], target)), shape=shape))
        return tuple(out)

    def weights(self, n_features: int) -> sp.csr_array:
        """Return bilinear weights (cells, patches); those of each patch have the same sum."""
        grid = self.grid(n_features)
        levels = []
        for side in grid.cells:
            down, right = (_bilinear(len(places), side) for places in (grid.tops, grid.lefts))
            weights = np.einsum("ct,dl->cdtl", down, right).reshape(side**2, -1)
            levels.append(weights * side**2 / weights.shape[1])
        return sp.csr_array(np.vstack(levels))

    def grid(self, n_features: int) -> Grid:
        """Return where the patches of images of so many numbers lie, by the rules for what is left open."""
        height, width, channels = image_sides("Patches", self.shape, n_features)
        shorter = min(height, width)
        size = self.size or min(7, max(3, shorter // 4 | 1))
        if size > shorter:
            raise ValueError(f"Patches of {size} pixels do not fit in images of {height} x {width}: make size smaller.")
        stride = self.stride or next(by for by in itertools.count(1) if -(-height // by) * -(-width // by) <= PLACES)
        margin = 0 if self.padding == "none" else size // 2
        tops, lefts = (_places(side + 2 * margin - size, stride) for side in (height, width))
        cells = np.atleast_1d((4 if shorter < 24 else 6) if self.cells is None else self.cells)
        most, count = min(len(tops), len(lefts)), len(tops) * len(lefts)
        sides = tuple(min(int(side), most) for side in cells)
        n_cells = sum(side**2 for side in sides)
        # bounds the patches of an image, and the numbers of it, its patches and their weights to 128 MB
        if count > 1 << 14 or max(n_features, count * size**2 * channels, count * n_cells) > 1 << 24:
            raise ValueError(
                f"Patches would cut {count} patches of {size} x {size} pixels from each image of {height} x {width}, "
                f"for {n_cells} cells, which is too much: raise stride, or use fewer cells or smaller images."
            )
        return Grid(height, width, channels, size, margin, tuple(tops), tuple(lefts), sides)


def views_named(views: Views | str | None) -> Views | None:
    """Return the views of that name, "patches", or the object itself."""
    return Patches() if isinstance(views, str) and views == "patches" else views  # type: ignore[return-value]


@dataclass(frozen=True)
class Grid:
    """Where patches lie: corners ``tops`` × ``lefts`` in the image with a ``margin`` around it; cells along a side."""

    height: int
    width: int
    channels: int
    size: int
    margin: int
    tops: tuple[int, ...]
    lefts: tuple[int, ...]
    cells: tuple[int, ...]


def _places(last: int, stride: int) -> range:
    """Return 0, stride, … up to ``last``, shifted so that what is left over is equal at both ends."""
    return range((last % stride) // 2, last + 1, stride)


def _bilinear(n_places: int, cells: int) -> Array:
    """Return weights (cells, places): one at the centre of a cell, falling to zero at the centres beside it."""
    place = np.clip((np.arange(n_places) + 0.5) * cells / n_places - 0.5, 0, cells - 1)
    return np.maximum(0, 1 - np.abs(place[None, :] - np.arange(cells)[:, None]))
