"""Arrays: their type, and checks of users' arrays; warnings that point to the caller's line.

Masked entries would silently be read as the numbers beneath the mask. Sparse matrices whose indices lie beyond their
shape make compiled code read foreign memory.
"""

from __future__ import annotations

import math
import numbers
import os
import pathlib
import sys
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
import sklearn
from numpy.typing import NDArray
from sklearn.utils import validation

_OURS = tuple(f"{pathlib.Path(file).parent}{os.sep}" for file in (__file__, sklearn.__file__))


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn in the name of the first frame outside of this library and of scikit-learn, which calls it in turn."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level + 1)


Array = NDArray[Any]

FLOATS = [np.float64, np.float32]


def is_count(value: Any) -> bool:
    """Return whether a value is a positive whole number."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= 1


def is_weight(value: Any, most: float = np.inf) -> bool:
    """Return whether a value is a finite number from 0 to ``most``."""
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return real and 0 <= float(value) <= most and float(value) < np.inf


def check_count(value: Any, name: str) -> int:
    """Return a positive whole number, or refuse what is none."""
    if not is_count(value):
        raise ValueError(f"{name} must be a positive whole number, got {value!r}.")
    return int(value)


def check_array(X: Any, **options: Any) -> Any:
    """Check an array with scikit-learn's function of this name, which gets all ``options``."""
    refuse_unsound(X, options.get("input_name") or "X")
    return validation.check_array(X, **options)


def validate_data(estimator: Any, X: Any, y: Any = "no_validation", **options: Any) -> Any:
    """Check the input of an estimator with scikit-learn's function of this name, which gets all ``options``."""
    refuse_unsound(X, "X")
    refuse_words(X)
    refuse_unsound(y, "y")
    return validation.validate_data(estimator, X, y, **options)


def new_samples(estimator: Any, X: Any, dtypes: Any) -> Any:
    """Check samples for a fitted estimator; rows that are sound as they stand take a few microseconds."""
    if (
        type(X) is np.ndarray
        and X.ndim == 2
        and X.dtype in dtypes
        and X.flags.c_contiguous
        and X.shape[0] > 0
        and X.shape[1] == getattr(estimator, "n_features_in_", None)
        and not hasattr(estimator, "feature_names_in_")
        and np.isfinite(X).all()
    ):
        return X
    validation.check_is_fitted(estimator)
    return validate_data(estimator, X, accept_sparse="csr", dtype=dtypes, order="C", reset=False)


def refuse_unsound(X: Any, name: str) -> None:
    """Refuse masked entries, and sparse matrices with indices beyond their shape: one pass over the indices."""
    if np.ma.is_masked(X):
        raise ValueError(
            f"{name} is a masked array, and {int(np.ma.getmaskarray(X).sum())} of its entries are masked: fill them in "
            "with filled(), or leave these samples out."
        )
    if not sp.issparse(X):
        return
    try:
        if X.format in ("csr", "csc", "bsr"):
            X.check_format(full_check=True)
        elif X.format == "coo":
            for places, size in zip((X.row, X.col), X.shape, strict=True):
                if len(places) and not 0 <= places.min() <= places.max() < size:
                    raise ValueError(f"an index is not within 0 and {size - 1}")
    except (ValueError, IndexError) as error:
        raise ValueError(f"{name} is not a valid sparse matrix of shape {X.shape}: {error}.") from error


def refuse_words(X: Any) -> None:
    """Refuse a data frame with words or dates, and name the column."""
    columns = getattr(X, "columns", None)
    for name, dtype in zip(columns, X.dtypes, strict=True) if columns is not None and hasattr(X, "dtypes") else ():
        column, kind = np.asarray(X[name]), getattr(dtype, "kind", "O")
        if kind in "Mm":
            raise ValueError(f"X has dates in the column {name!r} (first {column[0]}): make numbers of it, or drop it.")
        try:
            if kind in "OUST":
                column.astype(float)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"X has words in the column {name!r} (first {column[0]!r}): encode it, for instance by scikit-learn's "
                "OneHotEncoder, or drop it."
            ) from error


def image_sides(name: str, shape: Any, n_features: int) -> tuple[int, int, int]:
    """Return height, width and channels of images of so many numbers; without a shape they are square and grey."""
    if shape is None:
        side = math.isqrt(n_features)
        if side * side != n_features:
            third = math.isqrt(n_features // 3)
            in_colours = f" or, for colours, ({third}, {third}, 3)" if 3 * third**2 == n_features else ""
            raise ValueError(
                f"{name} needs the shape of the images: {n_features} is not a square number. "
                f"Give it as {name}(shape=(height, width)){in_colours}."
            )
        return side, side, 1
    sides = tuple(shape) if np.ndim(shape) == 1 else ()
    if len(sides) not in (2, 3) or not all(isinstance(side, numbers.Integral) and int(side) > 0 for side in sides):
        said = "(height, width), or (height, width, channels), of positive whole numbers"
        raise ValueError(f"shape must be {said}, got {shape!r}.")
    height, width, channels = (*sides, 1)[:3]
    if height in (1, 3) and channels > 4:
        raise ValueError(
            f"shape={tuple(shape)}: channels come last, as in (height, width, 3). Use np.moveaxis(X, 1, 3)."
        )
    if height * width * channels != n_features:
        raise ValueError(
            f"{name} has shape={tuple(shape)}, images of {height * width * channels} numbers, but samples have "
            f"{n_features} features."
        )
    return int(height), int(width), int(channels)


def evenly(rows: Array, count: int) -> Array:
    """Return at most so many of some rows, evenly spaced."""
    return np.asarray(rows[np.unique(np.linspace(0, len(rows) - 1, min(count, len(rows))).astype(int))])


def some_of(X: Any) -> Any:
    """Return a few samples, spread over all of them."""
    return X[evenly(np.arange(X.shape[0]), 500)]


def likely_sides(X: Any) -> tuple[int, int] | None:
    """Return height and width that suit pictures clearly better than the square that rows of X would make, or None.

    In a picture a pixel is like the one below it. So the mean squared difference of numbers that lie w places apart
    has a minimum where w is the width.
    """
    m, rows = X.shape[1], some_of(X)[: max(1, (1 << 22) // X.shape[1])]
    rows = np.asarray(rows.toarray() if sp.issparse(rows) else rows, float)

    def step(w: int) -> float:
        return float(np.mean((rows[:, w:] - rows[:, :-w]) ** 2))

    side = math.isqrt(m)
    # fewer than 2000 pairs of numbers do not tell
    widths = [w for w in range(3, m // 3 + 1) if m % w == 0 and w != side and rows.shape[0] * (m - w) >= 2000]
    if not widths:
        return None
    found = min(widths, key=step)
    aside = max(1, found // 4)
    beside = min(step(found - aside), step(found + aside))
    # square pictures are not doubted where steps down in others are nearly as large
    return (m // found, found) if step(found) < min(0.7 * step(side), beside) else None
