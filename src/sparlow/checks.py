"""Arrays: their type, and checks of users' arrays, those of scikit-learn and two that it leaves out.

Masked entries would silently be read as the numbers beneath the mask. Sparse matrices whose indices lie beyond their
shape make compiled code read foreign memory.
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import validation

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
