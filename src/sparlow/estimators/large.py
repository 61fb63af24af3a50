"""Where estimators meet data that are read in parts: files larger than memory, and collections of Dask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..checks import Array
from ..rows import Local, Store, is_dask


def _adapter() -> Any:
    """Return the module that speaks to Dask; nothing of Dask is imported before."""
    from .. import distributed

    return distributed


def store_of(X: Any, n_jobs: int | None) -> Store:
    """Return the store of samples that are read in parts."""
    return _adapter().Cluster.of(X) if is_dask(X) else Local(X, n_jobs)


def as_array(y: Any) -> Any:
    """Return labels in memory; one number for each sample is small beside the samples."""
    return _adapter().gathered(y) if is_dask(y) else y


def by_blocks(function: Callable[[Any], Any], X: Any) -> Any:
    """Return a function of rows as a dask array, computed where the rows are; (n, width) or (n,)."""
    return _adapter().by_blocks(function, X)


def in_parts(function: Callable[[Any], Array], X: Any) -> Array:
    """Return a function of rows, part by part: memory beyond input and result stays bounded."""
    out: Array | None = None
    store = Local(X)
    for rows in store.slices:
        part = function(store.read(rows))
        if out is None:
            out = np.empty((X.shape[0], *part.shape[1:]), part.dtype)
        out[rows] = part
    assert out is not None
    return out
