"""Moved copies: other pictures of the same thing, drawn anew for each mini-batch."""

from __future__ import annotations

import numbers
from dataclasses import dataclass

import numpy as np

from .checks import Array


@dataclass(frozen=True)
class Copies:
    """How a sample may change without becoming something else; only you know, so that nothing is on by default.

    A copy is moved, mirrored, turned and scaled by amounts drawn for it alone, with values between pixels interpolated
    and the border repeated. Noise and mixing suit vectors. Labels stay.

    Parameters
    ----------
    shift : float, default=0
        Move by up to so many pixels down and to the right, or back.
    mirror : bool, default=False
        Exchange left and right in half of the copies.
    turn : float, default=0
        Turn by up to so many degrees, in either direction.
    scale : float, default=0
        Enlarge or shrink by up to this share: 0.1 is from 0.9 to 1.1.
    noise : float, default=0
        Add normal noise with this share of the root mean square distance of samples from their mean.
    mix : float, default=0
        Replace up to this share, at most a half, by another sample of the batch.
    shape : tuple of int, optional
        Height and width of the pictures, and channels if there are several; by default they are square and grey.

    Examples
    --------
    >>> import numpy as np
    >>> from sparlow import Copies
    >>> drawn = Copies(shift=1).draw(np.eye(4, 16), np.random.RandomState(0))
    >>> drawn.shape
    (4, 16)

    """

    shift: float = 0.0
    mirror: bool = False
    turn: float = 0.0
    scale: float = 0.0
    noise: float = 0.0
    mix: float = 0.0
    shape: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        for name, most in (("shift", np.inf), ("turn", 180), ("scale", 0.9), ("noise", np.inf), ("mix", 0.5)):
            value = getattr(self, name)
            if not isinstance(value, numbers.Real) or isinstance(value, bool) or not 0 <= float(value) <= most:
                limit = "not negative" if most == np.inf else f"from 0 to {most:g}"
                raise ValueError(f"{name} of Copies must be a number, {limit}, got {value!r}.")
        if not isinstance(self.mirror, bool):
            raise ValueError(f"mirror of Copies must be True or False, got {self.mirror!r}.")
        if self.shape is not None and not (
            isinstance(self.shape, tuple)
            and len(self.shape) in (2, 3)
            and all(isinstance(side, numbers.Integral) and side > 0 for side in self.shape)
        ):
            raise ValueError(f"shape of Copies must be (height, width) or (height, width, channels), got {self.shape}.")

    @property
    def moves(self) -> bool:
        """Whether pixels change their places."""
        return bool(self.shift or self.mirror or self.turn or self.scale)

    def draw(self, X: Array, rng: np.random.RandomState) -> Array:
        """Return one copy (n, m) of each sample."""
        if self.moves:
            X = self._moved(X, rng)
        if self.mix:
            share = X.dtype.type(self.mix) * rng.random_sample((len(X), 1)).astype(X.dtype)
            X = X + share * (X[rng.permutation(len(X))] - X)
        if self.noise:
            deviation = float(np.sqrt(np.mean(np.sum((X - X.mean(axis=0)) ** 2, axis=1)) / X.shape[1]))
            X = X + (self.noise * deviation * rng.standard_normal(X.shape)).astype(X.dtype)
        return X

    def sides(self, m: int) -> tuple[int, int, int]:
        """Return height, width and channels of pictures of m numbers."""
        side = round(m**0.5)
        shape = (side, side) if self.shape is None else self.shape
        h, w, c = (*(int(one) for one in shape), 1)[:3]
        if h * w * c != m:
            raise ValueError(
                f"Pictures of shape {shape} have {h * w * c} numbers, but samples have {m}: give Copies the shape "
                "(height, width) or (height, width, channels)."
            )
        return h, w, c

    def _moved(self, X: Array, rng: np.random.RandomState) -> Array:
        """Return pictures (n, m) after maps x ↦ R(x − centre)/s + centre + t, drawn for each."""
        n, (h, w, c) = len(X), self.sides(X.shape[1])
        angle = np.deg2rad(self.turn) * rng.uniform(-1, 1, n)
        size = 1 + self.scale * rng.uniform(-1, 1, n)
        down, right = self.shift * rng.uniform(-1, 1, (2, n))
        if not self.turn and not self.scale:
            down, right = np.rint(down), np.rint(right)  # whole pixels leave values as they are
        turned = 1.0 - 2.0 * (rng.random_sample(n) < 0.5) if self.mirror else np.ones(n)
        row, column = np.arange(h) - (h - 1) / 2, np.arange(w) - (w - 1) / 2
        cos, sin = np.cos(angle) / size, np.sin(angle) / size
        i = cos[:, None, None] * row[:, None] - sin[:, None, None] * column + (h - 1) / 2 + down[:, None, None]
        j = sin[:, None, None] * row[:, None] + cos[:, None, None] * column
        j = turned[:, None, None] * j + (w - 1) / 2 + right[:, None, None]
        return _interpolated(X.reshape(n, h, w, c), i, j).reshape(n, -1)


def _interpolated(pictures: Array, i: Array, j: Array) -> Array:
    """Return the values of pictures (n, h, w, c) at places (n, h, w) between pixels; beyond the border it repeats."""
    n, h, w, _ = pictures.shape
    i, j = np.clip(i, 0, h - 1), np.clip(j, 0, w - 1)
    top, left = np.floor(i).astype(int), np.floor(j).astype(int)
    low, far = np.minimum(top + 1, h - 1), np.minimum(left + 1, w - 1)
    a, b = ((place - whole)[..., None].astype(pictures.dtype) for place, whole in ((i, top), (j, left)))
    each = np.arange(n)[:, None, None]
    if not (a.any() or b.any()):
        return np.asarray(pictures[each, top, left])
    upper = (1 - b) * pictures[each, top, left] + b * pictures[each, top, far]
    lower = (1 - b) * pictures[each, low, left] + b * pictures[each, low, far]
    return np.asarray((1 - a) * upper + a * lower)
