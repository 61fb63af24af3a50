"""Wavelet scattering: averages of moduli of wavelet coefficients."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from .. import _kernels
from ..checks import Array, refuse_unsound, validate_data
from ..parallel import Threads, chunks, frozen

_TWO_PI = 2 * 3.1415  # kymatio scales its filters with this value of 2π; the coefficients are then equal
_NEGLIGIBLE = 9.0  # a Gaussian is less than 3e-18 of its peak at this many standard deviations
_REPEATED = 1 << 21  # wavelets of the second order are stored once for each lane up to this size


# ── filters ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _frequencies(n: int) -> Array:
    """Return the angular frequencies of a discrete Fourier transform of length n."""
    return 2 * np.pi * np.fft.fftfreq(n)


def _gaussian(rows: Array, columns: Array, centre: Array, covariance: Array) -> Array:
    """Return the discrete Fourier transform of a modulated Gaussian window.

    Let g be the Gaussian density with the given covariance and ξ the centre. The transform of g(u) exp(iξu), sampled at
    the pixels u, is Σₖ exp(−½ (ω − ξ + 2πk)ᵀ C (ω − ξ + 2πk)) over pairs k of integers.
    """
    (a, b), (_, d) = covariance
    narrow = math.sqrt(np.linalg.eigvalsh(covariance)[0])
    reach = 1 + math.ceil(_NEGLIGIBLE / narrow / (2 * np.pi))
    total = np.zeros((len(rows), len(columns)))
    for shift in itertools.product(range(-reach, reach + 1), repeat=2):
        peak = centre - 2 * np.pi * np.array(shift)
        if narrow * np.linalg.norm(np.maximum(np.abs(peak) - np.pi, 0)) < _NEGLIGIBLE:
            u, v = rows[:, None] - peak[0], columns - peak[1]
            total += np.exp(-0.5 * (a * u * u + 2 * b * u * v + d * v * v))
    return total * (2 * np.pi / _TWO_PI)


def _morlet(rows: Array, columns: Array, scale: int, angle: float, slant: float) -> Array:
    """Return the discrete Fourier transform of a Morlet wavelet; it is real."""
    along = np.array([math.cos(angle), math.sin(angle)])
    across = np.array([-along[1], along[0]])
    deviation = 0.8 * 2**scale
    covariance = deviation**2 * (np.outer(along, along) + np.outer(across, across) / slant**2)
    centre, zero = 0.75 * np.pi / 2**scale * along, np.zeros(1)
    window = functools.partial(_gaussian, covariance=covariance)
    beta = window(zero, zero, centre) / window(zero, zero, np.zeros(2))
    return window(rows, columns, centre) - beta * window(rows, columns, np.zeros(2))


def low_pass(n: int, J: int) -> Array:
    """Return the factor of the low-pass filter along one axis, in Fourier space."""
    reach = 2 * np.pi * np.arange(-3, 4)[:, None]
    return np.exp(-0.5 * (0.8 * 2 ** (J - 1) * (_frequencies(n) + reach)) ** 2).sum(axis=0) * math.sqrt(
        2 * np.pi / _TWO_PI
    )


def _kept(n: int, j: int) -> Array:
    """Return the indices of the lowest n / 2^j of n frequencies."""
    half = n >> (j + 1)
    return np.r_[:half, n - (n >> j) + half : n]


# ── tables for the kernel ───────────────────────────────────────────────────────────────────────────────────────────


def _factors(n: int) -> list[int]:
    """Return the radices of a transform of length n: as many fours as possible, then primes."""
    factors, radix = [], 4
    while n > 1:
        while n % radix == 0:
            factors.append(radix)
            n //= radix
        radix = {4: 2, 2: 3}.get(radix, radix + 2)
    return factors


def _circle(angles: Array) -> Array:
    """Return cosines and sines of angles, one after the other."""
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1).reshape(-1, 2)


def _transform_plan(n: int) -> tuple[list[int], Array, Array]:
    """Plan a Fourier transform of length n by decimation in frequency, in place.

    For each radix r a transform of length rm becomes r transforms of length m. Result k of the rows p, p + m, p + 2m …
    is turned by exp(−2πi pk / rm) and stays in row p + km; it contributes to frequencies that are k modulo r.

    Returns
    -------
    radices, turns, order
        ``turns`` has, for each radix, its roots of unity, followed by the turns for each p and k ≥ 1. ``order`` is the
        frequency that each row has in the end.

    """
    radices, turns = _factors(n), [np.empty((0, 2))]
    order, length = np.zeros(1, np.int64), n
    for radix in radices:
        k = np.arange(radix)
        turns.append(_circle(2 * np.pi / radix * k))
        turns.append(_circle(-2 * np.pi / length * np.outer(np.arange(length // radix), k[1:])))
        order = np.add.outer(order, n // length * k).ravel()
        length //= radix
    return radices, np.concatenate(turns), order


def _stacked(arrays: list[list[Array]], dtype: Any) -> Array:
    """Stack arrays [axis][j] of different sizes, with zeros at their ends."""
    size = np.max([[array.shape for array in line] for line in arrays], axis=(0, 1))
    stack = np.zeros((len(arrays), len(arrays[0]), *size), dtype)
    for axis, line in enumerate(arrays):
        for j, array in enumerate(line):
            stack[axis, j][tuple(slice(length) for length in array.shape)] = array
    return stack


@dataclass(frozen=True)
class Network:
    """What is computed for images of one shape, and the tables that the kernel needs for it."""

    shape: tuple[int, int]
    J: int
    L: int
    order: int
    dtype: Any

    @property
    def paths(self) -> list[tuple[tuple[int, int], ...]]:
        """Scale and angle of each wavelet of a path, in the order of the coefficients."""
        wavelets = list(itertools.product(range(self.J), range(self.L)))
        paths: list[tuple[tuple[int, int], ...]] = [()]
        if self.order > 0:
            paths += [(first,) for first in wavelets]
        if self.order > 1:
            paths += [(first, second) for first in wavelets for second in wavelets if second[0] > first[0]]
        return paths

    @property
    def output_shape(self) -> tuple[int, int, int]:
        """Numbers of paths, rows and columns."""
        L, J = self.L, self.J
        n_paths = (1, 1 + L * J, 1 + L * J + L * L * J * (J - 1) // 2)[self.order]
        return n_paths, self.shape[0] >> J, self.shape[1] >> J

    @functools.cached_property
    def padded(self) -> tuple[int, int]:
        """The size of the padded image: one block of 2^J pixels on each side, less what makes the size a multiple."""
        height, width = ((side >> self.J) + 2 << self.J for side in self.shape)
        return height, width

    @functools.cached_property
    def tables(self) -> tuple[Any, ...]:
        """Arguments of the kernel between the images and the result."""
        pixels = tuple(
            np.pad(np.arange(side), ((size - side) // 2, (size - side + 1) // 2), mode="reflect")
            for side, size in zip(self.shape, self.padded, strict=True)
        )
        bank = self.bank()
        return pixels, self.order, self.L, self._plans(), self._blur(), self._first(bank), *self._second(bank)

    def _plans(self) -> tuple[Array, Array, Array]:
        """Return the tables of the Fourier transforms of all sizes."""
        plans = [[_transform_plan(size >> j) for j in range(self.J)] for size in self.padded]
        radices = [[np.array([*plan[0], 0]) for plan in line] for line in plans]
        turns = [[plan[1] for plan in line] for line in plans]
        places = [[np.stack([plan[2], np.argsort(plan[2])]) for plan in line] for line in plans]
        return _stacked(radices, np.int64), _stacked(turns, self.dtype), _stacked(places, np.int64)

    def _blur(self) -> tuple[Array, Array]:
        """Return the weights of the points in each coefficient, and the range of those that are not negligible."""
        weights, bands = [], []
        for size, count in zip(self.padded, self.output_shape[1:], strict=True):
            weights.append([self._weights(size, j, count) for j in range(self.J)])
            bands.append([np.array([self._band(row) for row in matrix]) for matrix in weights[-1]])
        return _stacked(weights, self.dtype), _stacked(bands, np.int64)

    def _weights(self, size: int, j: int, count: int) -> Array:
        """Return the low-pass filter at resolution 2^−j, around the points kept: multiples of 2^J but the borders."""
        taps = np.fft.ifft(low_pass(size, self.J)[_kept(size, j)]).real
        places = np.arange(1, count + 1) << (self.J - j)
        return taps[np.subtract.outer(places, np.arange(len(taps))) % len(taps)]

    def _band(self, row: Array) -> tuple[int, int]:
        """Return the range of frequencies in which a filter is not negligible."""
        count = np.flatnonzero(np.abs(row) > np.finfo(self.dtype).eps / 16 * np.abs(row).max())
        return int(count[0]), int(count[-1]) + 1

    def bank(self) -> Array:
        """Return wavelets in Fourier space, transposed: scale, angle, column frequency, row frequency."""
        rows, columns = map(_frequencies, self.padded)
        angles = [(int(self.L / 2 - 1) - t) * np.pi / self.L for t in range(self.L)]
        bank = [[_morlet(rows, columns, j, angle, 4 / self.L).T for angle in angles] for j in range(self.J)]
        return np.array(bank)

    def _first(self, bank: Array) -> Array:
        """Return wavelets of the first order, in lanes; the constants of the inverse transform are included."""
        (n, m), lanes = self.padded, _kernels.LANES
        groups = -(-self.L // lanes)
        padded = np.zeros((self.J, groups * lanes, m, n), self.dtype)
        padded[:, : self.L] = bank / (n * m)
        grouped = padded.reshape(self.J, groups, lanes, m, n).transpose(0, 1, 3, 4, 2)
        return np.ascontiguousarray(grouped).reshape(self.J, groups, m, n * lanes)

    def _second(self, bank: Array) -> tuple[Array, Array, int]:
        """Return wavelets of scale k at resolution 2^−j, where each starts, and how often each number is repeated."""
        (n, m), parts, starts = self.padded, [np.empty(0)], np.zeros((self.J, self.J), np.int64)
        for j, k in itertools.combinations(range(self.J), 2) if self.order == 2 else ():
            kept = bank[k][:, _kept(m, j)][:, :, _kept(n, j)]
            starts[j, k] = sum(part.size for part in parts)
            parts.append(kept.ravel() / kept[0].size)
        flat = np.concatenate(parts).astype(self.dtype)
        copies = _kernels.LANES if flat.size * _kernels.LANES <= _REPEATED else 1
        return np.repeat(flat, copies), starts * copies, copies


@functools.lru_cache(maxsize=4)
def network_of(*words: Any) -> Network:
    """Return a network; those used last are kept, with their tables."""
    return Network(*words)


# ── the transformer ─────────────────────────────────────────────────────────────────────────────────────────────────


class Scattering(TransformerMixin, BaseEstimator):
    """Compute the wavelet scattering coefficients of gray images.

    The transform cascades wavelet filters ψ, moduli and a low-pass filter φ. Nothing is learned. For an image x the
    coefficients are

    - order 0: ``x ⋆ φ``
    - order 1: ``|x ⋆ ψ₁| ⋆ φ``, for every wavelet
    - order 2: ``||x ⋆ ψ₁| ⋆ ψ₂| ⋆ φ``, for every pair of wavelets of which the second has the larger scale

    They are sampled every 2^J pixels. They change little if the image is shifted by less than 2^J pixels or slightly
    deformed, and order 2 recovers part of what the average of order 1 loses. A linear classifier is often enough after
    them.

    Parameters
    ----------
    J : int, default=2
        Logarithm (base 2) of the averaging scale. Wavelets have the scales 2^0 … 2^(J − 1). Images must have at least
        2^J pixels on each side.
    L : int, default=8
        Number of angles of the wavelets, between 0 and π; at most 128. The kernel computes eight angles at a time, so
        multiples of eight use it best.
    max_order : {0, 1, 2}, default=2
        Highest order of the coefficients.
    shape : (int, int), optional
        Height and width of the images. By default they are taken from the stack that ``fit`` is given. Without a stack,
        images are square.
    log : bool or float, default=False
        If True, return ``log(εr + |S|)`` in place of the coefficients S. Here ε = 0.01, and r is the root mean square
        of the pixels of the image. A number is used as ε. The logarithm makes orders comparable. If all pixels are
        multiplied by c > 0, log c is added to every feature. For an image of zeros r = 1.
    n_jobs : int, optional
        Number of threads. Results do not depend on it.

    Attributes
    ----------
    image_shape_ : (int, int)
        Height and width of the images.
    output_shape_ : (int, int, int)
        Numbers of paths, rows and columns; a row of the output is such an array, flattened. There are
        1 + JL + L²J(J − 1)/2 paths of orders 0 to 2, and ⌊height / 2^J⌋ rows and ⌊width / 2^J⌋ columns.
    n_features_in_ : int
        Number of pixels.
    feature_names_in_ : array of str
        Names of the pixels, where ``fit`` was given a table with names.

    Notes
    -----
    The wavelet of scale 2^j and angle θ is a Morlet wavelet: a Gaussian window of standard deviation 0.8 · 2^j along θ
    and L/4 times as much across it, modulated with frequency ¾π · 2^−j along θ, minus the multiple of the window that
    makes its mean zero. The low-pass filter is a Gaussian of standard deviation 0.8 · 2^(J − 1). Images are extended by
    reflection, by about 2^J pixels on each side, to a multiple of 2^J pixels, and then taken as periodic.

    Conventions are those of kymatio 0.3 (``Scattering2D``), the order of the coefficients included, and the
    coefficients are equal up to rounding errors.

    References
    ----------
    .. [1] J. Bruna, S. Mallat, "Invariant scattering convolution networks", IEEE TPAMI 35(8), 2013.
    .. [2] S. Mallat, "Group invariant scattering", Communications on Pure and Applied Mathematics 65(10), 2012.
    .. [3] M. Andreux et al., "Kymatio: Scattering transforms in Python", JMLR 21(60), 2020.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sparlow.images import Scattering
    >>> X, y = load_digits(return_X_y=True)  # rows of 8 × 8 pixels
    >>> scattering = Scattering(J=2).fit(X)
    >>> scattering.transform(X).shape
    (1797, 324)
    >>> scattering.output_shape_
    (81, 2, 2)
    >>> str(scattering.get_feature_names_out()[100])
    'order2_scale0_angle1_scale1_angle0_row0_column0'

    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "J": [Interval(Integral, 1, 30, closed="both")],
        "L": [Interval(Integral, 1, 128, closed="both")],
        "max_order": [Interval(Integral, 0, 2, closed="both")],
        "shape": ["array-like", None],
        "log": ["boolean", Interval(Real, 0, None, closed="neither")],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        J: int = 2,
        L: int = 8,
        *,
        max_order: int = 2,
        shape: Sequence[int] | None = None,
        log: bool | float = False,
        n_jobs: int | None = None,
    ) -> None:
        self.J = J
        self.L = L
        self.max_order = max_order
        self.shape = shape
        self.log = log
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Scattering:
        """Check the parameters and learn the shape of the images.

        Parameters
        ----------
        X : array of shape (n_images, height · width) or (n_images, height, width)
            Images.
        y : object, optional
            Ignored.

        Returns
        -------
        self : Scattering

        """
        X, stack = self._rows(X, reset=True)
        self.image_shape_ = self._image_shape(X.shape[1], stack)
        self._check_scale()
        self.output_shape_ = self._network(X.dtype).output_shape
        return self

    def _check_scale(self) -> None:
        """Refuse a scale that is larger than the images."""
        smallest = min(self.image_shape_)
        if smallest < 2**self.J:
            most = smallest.bit_length() - 1
            advice = f"use J={most} or less" if most > 0 else "they are too small for scattering"
            raise ValueError(
                f"J={self.J} needs images of at least {2**self.J} × {2**self.J} pixels, got "
                f"{self.image_shape_[0]} × {self.image_shape_[1]} (height × width); {advice}."
            )

    def _check_sound(self) -> None:
        """Refuse attributes of a scattering model that do not fit each other, as a damaged file may have them."""
        sides = self.image_shape_
        whole = isinstance(sides, tuple) and len(sides) == 2 and all(type(side) is int and side > 0 for side in sides)
        if not whole or math.prod(sides) != self.n_features_in_:
            raise ValueError(f"image_shape_={sides!r} does not fit {self.n_features_in_} pixels.")
        self._check_scale()
        if tuple(self.output_shape_) != self._network(np.float64).output_shape:
            raise ValueError(f"output_shape_={self.output_shape_!r} does not fit images of {sides} pixels.")

    def transform(self, X: Any) -> Array:
        """Return the scattering coefficients of each image.

        Parameters
        ----------
        X : array of shape (n_images, height · width) or (n_images, height, width)
            Images.

        Returns
        -------
        rows : array of shape (n_images, n_paths · rows · columns)
            float32 for images in float32, otherwise float64.

        """
        check_is_fitted(self)
        X, stack = self._rows(X, reset=False)
        if stack is not None and stack != self.image_shape_:
            raise ValueError(f"Scattering was fitted for images of shape {self.image_shape_}, got {stack}.")
        network = self._network(X.dtype)
        tables = network.tables
        out = np.empty((len(X), *network.output_shape), X.dtype)
        rows = out.reshape(len(X), math.prod(network.output_shape))

        def compute(part: slice) -> None:
            images = np.ascontiguousarray(X[part])
            _kernels.scatter(*frozen(images.reshape(len(images), *self.image_shape_)), *tables, out[part])
            if self.log:
                scale = np.linalg.norm(images, axis=1, keepdims=True) / math.sqrt(images.shape[1])
                scale[scale == 0] = 1
                epsilon = 0.01 if isinstance(self.log, (bool, np.bool_)) else self.log
                rows[part] = np.log(np.abs(rows[part]) + images.dtype.type(epsilon) * scale)

        with Threads(self.n_jobs) as threads:
            for _ in threads.map(compute, chunks(len(X), rows.shape[1])):
                pass
        return rows

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return names such as "order1_scale0_angle3_row2_column0".

        Parameters
        ----------
        input_features : array of str, optional
            Ignored, but for its length, which must be the number of pixels.

        Returns
        -------
        names : array of str

        """
        check_is_fitted(self)
        _check_feature_names_in(self, input_features, generate_names=False)
        _, rows, columns = self.output_shape_
        names = []
        for path in self._network(np.dtype(np.float64)).paths:
            wavelets = "".join(f"_scale{j}_angle{t}" for j, t in path)
            places = itertools.product(range(rows), range(columns))
            names += [f"order{len(path)}{wavelets}_row{row}_column{column}" for row, column in places]
        return np.array(names, dtype=object)

    def _rows(self, X: Any, reset: bool) -> tuple[Array, tuple[int, int] | None]:
        """Return one row for each image, and the shape of the images where X is a stack."""
        X = np.asarray(X) if isinstance(X, (list, tuple)) else X
        stack = None
        if getattr(X, "ndim", 2) > 2:
            if X.ndim > 3:
                raise ValueError(
                    "X must have one row for each gray image, or be a stack of shape (n_images, height, width); got an "
                    f"array of shape {X.shape}."
                )
            refuse_unsound(X, "X")
            stack = int(X.shape[1]), int(X.shape[2])
            X = np.asarray(X).reshape(len(X), stack[0] * stack[1])
        return validate_data(self, X, dtype=[np.float64, np.float32], reset=reset), stack

    def _image_shape(self, n_pixels: int, stack: tuple[int, int] | None) -> tuple[int, int]:
        """Return height and width of the images in rows."""
        if self.shape is None:
            side = math.isqrt(n_pixels)
            if stack is None and side * side != n_pixels:
                raise ValueError(f"Rows of {n_pixels} pixels are not square images; give shape=(height, width).")
            return stack or (side, side)
        sides = tuple(self.shape)
        if len(sides) != 2 or not all(isinstance(side, Integral) and side > 0 for side in sides):
            raise ValueError(f"shape must be (height, width) in pixels, got {self.shape!r}.")
        shape = int(sides[0]), int(sides[1])
        if shape[0] * shape[1] != n_pixels or (stack is not None and stack != shape):
            got = f"rows of {n_pixels} pixels" if stack is None else f"images of shape {stack}"
            raise ValueError(f"shape={shape} needs rows of {shape[0] * shape[1]} pixels, got {got}.")
        return shape

    def _network(self, dtype: Any) -> Network:
        """Return the scattering network for a precision."""
        return network_of(self.image_shape_, int(self.J), int(self.L), int(self.max_order), np.dtype(dtype))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        # rows of any width are not images: scikit-learn's checks are for those that take them
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags
