"""Dense local descriptors: histograms of gradient orientations on a grid of patches."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions

from .. import _kernels
from ..checks import Array
from ..parallel import frozen
from .bags import Bag, Bags, Step
from .reading import UnreadableImageError, name_of, pictures_in, read_levels

WIDTH = 128  # 4 × 4 cells of 8 orientations
_CLIP = np.float32(0.2)


@dataclass(frozen=True)
class _Window:
    """How much pixels count along one direction: pixel ``left + starts[i] + x`` counts ``weights[i, x]`` in cell i."""

    patch: int
    starts: Array
    weights: Array

    @functools.cached_property
    def total(self) -> float:
        """The weight of all pixels together."""
        return float(self.weights.sum()) ** 2


def _gaussian_taps(sigma: float) -> Array:
    """Return the taps of a Gaussian filter."""
    reach = int(np.ceil(3 * sigma))
    taps = np.exp(-0.5 * (np.arange(-reach, reach + 1) / max(sigma, 1e-9)) ** 2)
    return (taps / taps.sum()).astype(np.float32)


@dataclass(frozen=True)
class _Extractor:
    """Picture → bag of descriptors."""

    windows: tuple[_Window, ...]
    step: int
    taps: Array
    contrast: float
    max_side: int | None
    skip: bool

    def __call__(self, image: Any) -> Bag:
        try:
            levels, white = read_levels(image, self.max_side)
            self._check_size(levels, image)
        except UnreadableImageError as error:
            if not self.skip:
                raise
            return Bag(np.empty((0, WIDTH), np.float32), np.empty((0, 2), np.float32), (0, 0), str(error))
        levels = np.ascontiguousarray(levels)
        if len(self.taps) > 1:
            levels = _kernels.smooth(*frozen(levels, self.taps))
        size = levels.shape[1], levels.shape[0]
        windows = [window for window in self.windows if window.patch <= min(size)]
        grids, positions = _grids(tuple(window.patch for window in windows), self.step, size)
        descriptors, first = np.empty((len(positions), WIDTH), np.float32), 0
        for window, grid in zip(windows, grids, strict=True):
            last = first + grid.down * grid.across
            self._fill(levels, white, window, grid, descriptors[first:last])
            first = last
        return Bag(descriptors, positions.copy(), size)

    def _check_size(self, levels: Array, image: Any) -> None:
        """Refuse pictures that are smaller than a patch."""
        smallest = min(window.patch for window in self.windows)
        if min(levels.shape) < smallest:
            height, width = levels.shape
            raise UnreadableImageError(
                f"Cannot use the image {name_of(image)}: it is {width} × {height} pixels as it is used, too small for "
                f"a patch of {smallest}. Enlarge it, or learn with a smaller patch."
            )

    def _fill(self, levels: Array, white: int, window: _Window, grid: _PatchGrid, descriptors: Array) -> None:
        """Fill in the patches of one size."""
        rows = descriptors.reshape(grid.down, grid.across, WIDTH)
        least = np.float32(self.contrast * white * window.total)
        image, starts, weights = frozen(levels, window.starts, window.weights)
        _kernels.describe(image, grid.top, grid.left, self.step, starts, weights, least, _CLIP, rows)


class _PatchGrid(NamedTuple):
    """Where the first patch begins, and how many there are."""

    left: int
    top: int
    across: int
    down: int


@functools.lru_cache(maxsize=16)
def _grids(patches: tuple[int, ...], step: int, size: tuple[int, int]) -> tuple[tuple[_PatchGrid, ...], Array]:
    """Return the grid of each size of patch on an image, and the centres of all patches."""
    grids, positions = [], []
    for patch in patches:
        lefts, tops = (_first_pixels(side, patch, step) for side in size)
        grids.append(_PatchGrid(lefts[0], tops[0], len(lefts), len(tops)))
        x, y = np.meshgrid(lefts, tops)
        positions.append(np.column_stack([x.ravel(), y.ravel()]) + (patch - 1) / 2)
    return tuple(grids), np.concatenate(positions).astype(np.float32)


def _first_pixels(length: int, patch: int, step: int) -> range:
    """Return the first pixels of patches within ``range(length)``; what is left over is shared by both ends."""
    spare = (length - patch) % step
    return range(spare // 2, length - patch + 1, step)


class _DenseDescriptor(TransformerMixin, BaseEstimator, ABC):
    """The manners that all dense descriptors share."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "patch": [Interval(Integral, 4, None, closed="left"), "array-like"],
        "step": [Interval(Integral, 1, None, closed="left")],
        "smooth": [Interval(Real, 0, None, closed="left")],
        "contrast": [Interval(Real, 0, None, closed="left")],
        "max_side": [Interval(Integral, 4, None, closed="left"), None],
        "on_error": [StrOptions({"raise", "skip"})],
    }

    def __init__(
        self,
        patch: int | Sequence[int] = 16,
        step: int = 8,
        *,
        smooth: float = 1.0,
        contrast: float = 0.0005,
        max_side: int | None = 300,
        on_error: str = "raise",
    ) -> None:
        self.patch = patch
        self.step = step
        self.smooth = smooth
        self.contrast = contrast
        self.max_side = max_side
        self.on_error = on_error

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any = None, y: Any = None) -> _DenseDescriptor:
        """Check the parameters; there is nothing to learn.

        Parameters
        ----------
        X : sequence of images, optional
            Not looked at.
        y : object, optional
            Ignored.

        Returns
        -------
        self

        """
        self._extractor()
        return self

    def transform(self, X: Any) -> Bags:
        """Return the descriptors of images, computed when they are asked for.

        Parameters
        ----------
        X : sequence of images
            Paths, members of zip files, bytes of files, arrays or PIL images, of any size, mixed.

        Returns
        -------
        bags : Bags
            A sequence of as many bags: descriptors (k, 128) of float32, positions (k, 2) and the size of the image.

        """
        self._validate_params()
        X = pictures_in(X)
        words = {**self.get_params(), "patch": self._patches()}
        del words["on_error"]
        return Bags(X, (Step(self._extractor(), WIDTH, f"{type(self).__name__} 1 {sorted(words.items())}"),))

    def set_output(self, *, transform: str | None = None) -> _DenseDescriptor:
        """Accept any choice, so that pipelines can be told: bags are not tables and stay bags."""
        return self

    @staticmethod
    @abstractmethod
    def _window(patch: int) -> _Window:
        """Return how much the pixels of a patch count in its cells."""

    def _patches(self) -> tuple[int, ...]:
        """Return the sizes of patches, checked."""
        patches = tuple(int(size) for size in np.atleast_1d(self.patch))
        if not patches or min(patches) < 4:
            raise ValueError(f"patch must be one or several whole numbers from 4 on, got {self.patch!r}.")
        return patches

    def _extractor(self) -> _Extractor:
        """Return what computes the descriptors of one picture."""
        windows = tuple(self._window(size) for size in self._patches())
        taps = _gaussian_taps(self.smooth)
        return _Extractor(windows, self.step, taps, self.contrast, self.max_side, self.on_error == "skip")

    def _check_sound(self) -> None:
        """Refuse parameters from a file that no picture could be described with."""
        if max(*self._patches(), self.step, self.smooth) > 10_000:
            raise ValueError(f"patch, step and smooth of {type(self).__name__} must be at most 10000 pixels")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.no_validation = True
        return tags


class DenseSIFT(_DenseDescriptor):
    """SIFT descriptors on a grid of upright patches.

    A patch has 4 × 4 cells of 8 orientations. The gradient of each pixel is shared between the two nearest
    orientations and the four nearest cells, by linear interpolation, and counts less away from the centre of the patch
    (a Gaussian whose standard deviation is half the patch). The 128 numbers are scaled to unit norm, cut at 0.2 and
    scaled again; those of patches without contrast are zero. They are ordered by rows of cells, columns of cells and
    orientations from the x axis towards the top, as those of Lowe's program and of OpenCV for keypoints of angle zero.

    Parameters
    ----------
    patch : int or sequence of int, default=16
        Side of the patches in pixels; several give descriptors of each size that fits in the image.
    step : int, default=8
        Distance of neighbouring patches. The grid is centred and patches lie within the image.
    smooth : float, default=1.0
        Standard deviation of the Gaussian that the image is smoothed with first.
    contrast : float, default=0.0005
        Patches whose 128 numbers, with grey values from 0 to 1 and weights of pixels that add up to one, have a norm
        of at most this are set to zero.
    max_side : int or None, default=300
        Larger images are reduced to this longer side first.
    on_error : {"raise", "skip"}, default="raise"
        What an image does that cannot be read or is smaller than a patch: raise an error with its name, or give an
        empty bag. The stage that goes through the bags (Codebook in ``fit``, SpatialPyramid in ``transform``) warns of
        these and lists them in its ``skipped_``; the image keeps its row, all zeros.

    Examples
    --------
    >>> from sklearn.datasets import load_sample_images
    >>> from sparlow.images import DenseSIFT
    >>> bags = DenseSIFT(patch=16, step=8).fit_transform(load_sample_images().images)
    >>> bags
    <2 bags of rows of width 128, computed when asked for>
    >>> bags[0].values.shape, bags[0].size
    ((864, 128), (300, 200))

    """

    @staticmethod
    def _window(patch: int) -> _Window:
        """Return linear interpolation between the centres of cells, times a Gaussian of deviation half the patch."""
        cell, middle = patch / 4, (patch - 1) / 2
        centres = middle + cell * (np.arange(4) - 1.5)
        starts = np.ceil(centres - cell).astype(np.int64)
        x = starts[:, None] + np.arange(int(2 * cell) + 1)
        tent = np.maximum(0.0, 1 - np.abs(x - centres[:, None]) / cell)
        return _Window(patch, starts, (tent * np.exp(-0.5 * ((x - middle) / (patch / 2)) ** 2)).astype(np.float32))


class DHOG(_DenseDescriptor):
    """Histograms of oriented gradients on a grid, the fast relative of :class:`DenseSIFT`, at several sizes.

    The window is flat: all pixels count alike, each in the one cell that it lies in (by area where an edge of a cell
    crosses it). What is left is a sum over boxes. All else is as in DenseSIFT.

    Parameters
    ----------
    patch : int or sequence of int, default=(16, 25, 31)
        Sides of the patches in pixels.
    step, smooth, contrast, max_side, on_error
        As of :class:`DenseSIFT`; smooth is 0 by default.

    Examples
    --------
    >>> from sklearn.datasets import load_sample_images
    >>> from sparlow.images import DHOG
    >>> DHOG().fit_transform(load_sample_images().images)[1].values.shape
    (2382, 128)

    """

    def __init__(
        self,
        patch: int | Sequence[int] = (16, 25, 31),
        step: int = 8,
        *,
        smooth: float = 0.0,
        contrast: float = 0.0005,
        max_side: int | None = 300,
        on_error: str = "raise",
    ) -> None:
        super().__init__(patch, step, smooth=smooth, contrast=contrast, max_side=max_side, on_error=on_error)

    @staticmethod
    def _window(patch: int) -> _Window:
        """Return boxes of a quarter of the patch; a pixel on an edge counts by the part that lies within."""
        edges = np.arange(5) * patch / 4
        starts = np.floor(edges[:4]).astype(np.int64)
        taps = int(max(np.ceil(edges[1:]) - starts))
        x = starts[:, None] + np.arange(taps)
        inside = np.minimum(x + 1, edges[1:, None]) - np.maximum(x, edges[:4, None])
        return _Window(patch, starts, np.maximum(inside, 0).astype(np.float32))
