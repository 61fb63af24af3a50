"""Sums over the samples that criteria ask for: ΦᵀdΦ for weights d of the samples, and ΦᵀF for factors F.

Φ = [αφ, γx] are codes with samples beside them. A part adds up what has codes in it, with weights 1. What has only
samples in it no dictionary changes, so that it is added up once in a fit. The weights α and γ come at the end.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import gen_batches

from ..coded import Coded, Rows
from ..graphs import Structure

Array = NDArray[Any]

_BATCH = 1024  # rows whose products are added up in the precision of the samples


@dataclass(frozen=True)
class Asked:
    """Weights d (n,) or factors F (n, c) over the samples, by themselves or for ΦV, named by their numbers."""

    name: str
    over: Any
    basis: Array | None = None

    @classmethod
    def of(cls, over: Any, basis: Array | None, beside: bool) -> Asked:
        """Return what is asked, where samples stand beside their codes or not."""
        found = hashlib.blake2b(f"{over.shape} {beside}".encode(), digest_size=16)
        arrays = [over.data, over.indices, over.indptr] if sp.issparse(over) else [over]
        for array in arrays if basis is None else [*arrays, basis]:
            found.update(np.ascontiguousarray(array).view(np.uint8).data)
        return cls(found.hexdigest(), over, basis)

    def rows(self, rows: slice) -> Any:
        """Return the weights or factors of a part."""
        return self.over[rows]

    def joined(self, own: Any, alpha: float, gamma: float, beside: Callable[[Asked], Array]) -> Array:
        """Return the sum over Φ = [αφ, γx], given that with codes in it and the one over samples alone."""
        if self.basis is not None:
            return np.asarray(own)
        if self.over.ndim == 2:
            return np.vstack(([alpha * own] if alpha else []) + ([gamma * beside(self)] if gamma else []))
        if not alpha:
            return gamma**2 * beside(self)
        square, cross = own
        if not gamma:
            return np.asarray(alpha**2 * square)
        cross = alpha * gamma * cross
        return np.block([[alpha**2 * square, cross], [cross.T, gamma**2 * beside(self)]])


def sums_of_part(coded: Coded, bases: list[Array | None], own: list[Any]) -> tuple[Any, ...]:
    """Return for each that is asked the sum over a part: φᵀdφ and φᵀdX, or φᵀF; with a basis that over ΦV."""
    found: list[Any] = []
    codes, beside = Rows(coded.features), coded.samples.weights[1]
    projected: dict[int, Rows] = {}
    for basis, over in zip(bases, own, strict=True):
        if basis is not None:
            rows = projected.setdefault(id(basis), Rows(coded @ basis))
            found.append(rows.form(Structure(over)) if over.ndim == 1 else rows.rmatmul(over))
        elif over.ndim == 2:
            found.append(codes.rmatmul(over))
        else:
            cross = _cross(coded.features, coded.samples.X, over) if beside else 0.0
            found.append((codes.form(Structure(over)), cross))
    return tuple(found)


def sums_beside(X: Any, shared: Any, over: Any) -> Array:
    """Return XᵀdX, or XᵀF, of the samples of a part."""
    return Rows(X).form(Structure(over)) if over.ndim == 1 else Rows(X).rmatmul(over)


def _cross(codes: Any, X: Any, weights: Array) -> Array:
    """Return φᵀdX; products have the precision of the samples, sums of many are double."""
    out = np.zeros((codes.shape[1], X.shape[1]))
    for rows in gen_batches(X.shape[0], _BATCH):
        some, each = codes[rows], weights[rows].astype(codes.dtype)
        if sp.issparse(some):
            data = some.data * np.repeat(each, np.diff(some.indptr))
            some = sp.csr_array((data, some.indices, some.indptr), shape=some.shape)
        else:
            some = some * each[:, None]
        part = some.T @ X[rows]
        out += part.toarray() if sp.issparse(part) else part
    return out
