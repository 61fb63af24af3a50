"""From the features of samples to their embedding, bound once: the path that a service takes.

Each row is computed by itself, so that it has the same bits alone and among others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from . import _kernels
from .parallel import frozen

Array = NDArray[Any]


class Served:
    """The map [φ, x] → y of a fitted model, y = [αφ, γx]W − centre, or the forms of that product.

    Parameters
    ----------
    projection : array of shape (w, p)
        W.
    weights : (float, float)
        α and γ; a part of weight zero has no rows in W.
    centre : array of shape (l,)
    forms : array of shape (l, p, p), optional

    """

    def __init__(self, projection: Array, weights: tuple[float, float], centre: Array, forms: Array | None) -> None:
        self.source, self.weights = projection, weights
        self.centre, self.forms = centre, forms
        self._dtype = np.dtype(float) if forms is None else forms.dtype
        self._projection: Array | None = None

    def __call__(self, codes: Any, X: Any) -> Array:
        """Return the embedding (n, l), in double precision."""
        blocks = [block for block, weight in zip((codes, X), self.weights, strict=True) if weight]
        W = self._weighted(blocks[-1].shape[1])
        P = np.zeros((X.shape[0], W.shape[1]), self._dtype)
        if sp.issparse(blocks[-1]):
            blocks = [sp.csr_array(sp.hstack(blocks, "csr")) if len(blocks) == 2 else blocks[0], P[:, :0]]
        sparse, dense = blocks if len(blocks) == 2 else (sp.csr_array((len(P), 0)), blocks[0])
        arrays = (
            array.astype(kind, copy=False)
            for array, kind in (
                (sparse.indptr, np.int64),
                (sparse.indices, np.int32),
                (sparse.data, self._dtype),
            )
        )
        _kernels.project(*frozen(*arrays, np.ascontiguousarray(dense, self._dtype), W), P)
        if self.forms is not None:
            values = np.empty((len(P), len(self.forms)))
            _kernels.form_values(*frozen(P, self.forms), values)
            P = values
        P -= self.centre
        return P

    def _weighted(self, last: int) -> Array:
        """Return W with the weights of its parts, of which the last has so many rows."""
        if self._projection is None:
            W, kept = np.array(self.source, self._dtype, order="C"), [weight for weight in self.weights if weight]
            W[-last:] *= kept[-1]
            W[:-last] *= kept[0]
            self._projection = W
        return self._projection
