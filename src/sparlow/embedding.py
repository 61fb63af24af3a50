"""From features to the embedding that ``transform`` returns.

The trace quotient fixes a subspace. Distances within it are those of the features, and directions in which classes
scatter much count as much as others. The whitened embedding is the solution of the ratio trace instead,

    max tr((WᵀBW)⁻¹ WᵀAW),  WᵀBW = I,

so that the denominator of the criterion, the scatter within classes for lda, is the same in all directions. The
features are [φ(x), x], each part with a ridge of its own: with an infinite ridge on the codes it is the classical
method on the samples. A wide embedding has further columns: those of the largest total variance among the directions
that are left, with WᵀBW = I too. It is a regularised Mahalanobis metric, for classes of more than one mode.

Without labels there is nothing to choose ridges by. The features are then [φ(x), γx] with a fixed weight, and U is that
of the trace quotient.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from sklearn.utils import gen_batches

from . import _kernels
from .checks import Array
from .constants import BESIDE, COUNTS, RIDGES, RIDGES_BESIDE, WIDE
from .criteria import Quotient
from .graphs import Structure, centring
from .parallel import frozen
from .rows import Codes, Features, Rows
from .tracequotient import check_scatter

PAIRS = [pair for pair in itertools.product(RIDGES, RIDGES_BESIDE) if pair != (np.inf, np.inf)]
_NUMBERS = 1 << 22  # distances that are compared at once
_JITTER = 1e-12  # keeps the Gram matrix of centred samples positive definite


@dataclass(frozen=True)
class Embedding:
    """The map y = (φ − φ̄)W.

    Parameters
    ----------
    projection : array of shape (w, l)
        W.
    centre : array of shape (l,)
        φ̄W, φ̄ the mean of the training samples.

    """

    projection: Array
    centre: Array

    @classmethod
    def of(cls, projection: Array, coded: Features, weights: Array | None = None) -> Embedding:
        """Return the map for a projection, centred on the training samples, which may have weights (n,)."""
        return cls(projection, coded.weighted_mean(weights) @ projection)

    def __call__(self, coded: Features) -> Array:
        """Return the embedding (n, l)."""
        Y = coded @ self.projection
        Y -= self.centre
        return Y


def block_weights(coded: Any, ridges: tuple[float, float]) -> tuple[tuple[float, float], float]:
    """Return the weights (α, γ) of codes and samples, and the one ridge that then stands for both ridges.

    A ridge of 1 adds to the sum over all samples, in each direction, what one sample has in all directions together:
    tr(ZᵀΠZ)/n to ZᵀΠZ, or tr(ZᵀΠZ)/n² to the mean. So it means the same for any number of samples and features.
    """
    a, b = ridges
    if np.isfinite(a):
        a *= _variance_of_one(coded.weighted((1.0, 0.0)))
    if np.isfinite(b):
        b *= _variance_of_one(coded.weighted((0.0, 1.0)))
    if not np.isfinite(a):
        return (0.0, 1.0), b
    return (1.0, float(np.sqrt(a / b)) if np.isfinite(b) else 0.0), a


def weights_beside(codes: float, samples: float) -> tuple[float, float]:
    """Return the weights (1, γ) with which samples deviate twice as much as their codes, from variances of both.

    Without labels nothing chooses the weights. Samples keep distances, codes tell apart what is near.
    """
    return 1.0, BESIDE * float(np.sqrt(codes / max(samples, np.finfo(float).tiny)))


def variances(coded: Any, weights: Array | None = None) -> tuple[float, float]:
    """Return the variance of all codes together, and of all features of the samples, which may have weights (n,)."""
    codes, samples = coded.weighted((1.0, 0.0)), coded.weighted((0.0, 1.0))
    if weights is None:
        return _variance_of_one(codes), _variance_of_one(samples)
    return codes.weighted_variance(weights), samples.weighted_variance(weights)


def _variance_of_one(rows: Features) -> float:
    """Return the variance of all features together, for one of n samples."""
    n = rows.shape[0]
    return max((rows.squares / n - float(rows.mean @ rows.mean)) / n, np.finfo(float).tiny)


class Ratio:
    """The ratio trace of a criterion for the features [φ, x], solved for any two ridges.

    What does not depend on the ridges is computed once. Where there are fewer samples than features, the problem is
    solved in the span of the samples.

    Parameters
    ----------
    quotient : Quotient
        The criterion bound to the training samples.
    coded : Codes
        The training samples.

    """

    def __init__(self, quotient: Quotient, coded: Codes) -> None:
        self.quotient, self.coded = quotient, coded
        beside = [coded.samples.X] if coded.samples.views.whole else []
        both = Rows(coded.features, *beside, n_jobs=coded.n_jobs)
        n, width = both.shape
        self._sample_span = width > n
        if self._sample_span:
            self._grams = [_centred_gram(Rows(block)) for block in both.blocks]
        else:
            self._top, self._bottom = _numerator(quotient.above, both), _denominator(quotient, both)

    def width(self, ridges: tuple[float, float]) -> int:
        """Return the number of features that these ridges leave."""
        parts = (self.coded.features.shape[1], self.coded.samples.X.shape[1] if self.coded.samples.views.whole else 0)
        return sum(part for part, ridge in zip(parts, ridges, strict=True) if np.isfinite(ridge))

    def solve(self, ridges: tuple[float, float], n_components: int, wide: bool = False) -> tuple[Codes, Array]:
        """Return the training samples with the weights that the ridges mean, and W (w, l)."""
        weights, ridge = block_weights(self.coded, ridges)
        coded = self.coded.weighted(weights)
        if self._sample_span:
            K = np.sum([weight**2 * gram for weight, gram in zip(weights, self._grams, strict=False) if weight], axis=0)
            return coded, solve_in_sample_span(self.quotient, coded, K, ridge, n_components, wide)
        r = self.coded.features.shape[1]
        scale = np.repeat(weights, (r, len(self._bottom) - r))
        kept = scale > 0
        scale = scale[kept]
        B = self._bottom[np.ix_(kept, kept)] * scale[:, None] * scale
        B[np.diag_indices_from(B)] += ridge
        total = _total(self.quotient, coded) if wide else None
        return coded, ratio_trace(self._top.scaled(kept, scale), B, n_components, total)


def whitened(quotient: Quotient, coded: Features, ridge: float, n_components: int, wide: bool = False) -> Array:
    """Return W (w, l) of the ratio trace for features as they are."""
    n, width = coded.shape
    if width > n:
        coded = coded.in_memory()  # no larger than B would be
        return solve_in_sample_span(quotient, coded, _centred_gram(coded), ridge, n_components, wide)
    B = _denominator(quotient, coded)
    B[np.diag_indices_from(B)] += ridge
    total = _total(quotient, coded) if wide else None
    return ratio_trace(_numerator(quotient.above, coded), B, n_components, total)


def solve_in_sample_span(
    quotient: Quotient, coded: Features, K: Array, ridge: float, n_components: int, wide: bool = False
) -> Array:
    """Return W = ZᵀC (w, l), the solution in the span of the centred samples Z, given K = ZZᵀ.

    With K = PPᵀ the rows of P stand for the samples: they have the same products, in n dimensions.
    """
    n = len(K)
    K = K + _JITTER * float(np.trace(K)) * np.eye(n)
    P = _cholesky(K)
    inner = Rows(P)
    B = _denominator(quotient, inner, 10 * _JITTER * float(np.trace(K)))
    B[np.diag_indices_from(B)] += ridge
    total = _total(quotient, inner) if wide else None
    V = ratio_trace(_numerator(quotient.above, inner), B, n_components, total, min(n - 1, coded.shape[1]))
    C = scipy.linalg.solve_triangular(P, V, lower=True, trans="T", check_finite=False)
    return _signed(coded.rmatmul(C) - np.outer(coded.mean, C.sum(axis=0)))


def _cholesky(M: Array) -> Array:
    """Return the lower factor of a positive definite matrix, which it overwrites."""
    try:
        return np.asarray(scipy.linalg.cholesky(M, lower=True, overwrite_a=True, check_finite=False))
    except np.linalg.LinAlgError as error:
        raise ValueError(
            "The features of all samples, or of all samples of each class, are equal up to rounding: there is nothing "
            "that an embedding could tell apart. A weaker prior gives codes that differ; prior=None chooses one."
        ) from error


@dataclass(frozen=True)
class Numerator:
    """A = TᵀKT with T (c, w) and K (c, c) where that is small, or A itself."""

    T: Array | None
    core: Array | None
    A: Array | None

    def scaled(self, kept: Array, scale: Array) -> Numerator:
        """Return the numerator of some features, multiplied."""
        if self.A is None:
            assert self.T is not None
            return Numerator(self.T[:, kept] * scale, self.core, None)
        return Numerator(None, None, self.A[np.ix_(kept, kept)] * scale[:, None] * scale)


def _numerator(S: Structure, rows: Features) -> Numerator:
    """Return the numerator of the ratio trace."""
    n = rows.shape[0]
    if S.graph is None and S.factors is not None and not np.any(S.diagonal):
        assert S.core is not None
        return Numerator(rows.rmatmul(S.factors).T, S.core / n, None)
    return Numerator(None, None, rows.form(S) / n)


def _denominator(quotient: Quotient, rows: Features, lost: float = 0.0) -> Array:
    """Return B (w, w); where it is a total that has A in it, the other part, which gives the same directions."""
    below = quotient.below if quotient.rest is None else quotient.rest
    if below is None:
        raise ValueError(
            'The criterion has no structure below, which the whitened embedding needs: choose embedding="orthonormal".'
        )
    B = rows.form(below) / rows.shape[0]
    check_scatter(B, rows.squares, "features", lost)
    return B


def _total(quotient: Quotient, rows: Features) -> Array:
    """Return the total scatter (w, w): that of the criterion, if its denominator is one, or that of the features."""
    S = centring(rows.shape[0]) if quotient.rest is None or quotient.below is None else quotient.below
    return rows.form(S) / rows.shape[0]


def ratio_trace(top: Numerator, B: Array, n_components: int, total: Array | None = None, most: int = WIDE) -> Array:
    """Return W (w, l) that maximises tr(WᵀAW) with WᵀBW = I, best columns first; overwrites B.

    Where the ``total`` scatter (w, w) is given, further columns follow, up to 48 or ``most`` in all: those that it is
    largest for, with WᵀBW = I.
    """
    L = _cholesky(B)
    if top.A is None:
        assert top.T is not None
        assert top.core is not None
        values, E = np.linalg.eigh(top.core)
        root = E * np.sqrt(np.maximum(values, 0))
        C = scipy.linalg.solve_triangular(L, top.T.T @ root, lower=True, check_finite=False)
        Q = np.linalg.svd(C, full_matrices=False)[0][:, :n_components]
    else:
        Q = _leading(_whitened_form(L, top.A), n_components)
    further = min(WIDE, most, len(L)) - n_components
    if total is not None and further > 0:
        T = _whitened_form(L, total)
        TQ = T @ Q
        T -= TQ @ Q.T + Q @ TQ.T - Q @ (Q.T @ TQ) @ Q.T  # what the criterion's own columns leave
        Q = np.hstack([Q, _leading(T, further)])
    return _signed(scipy.linalg.solve_triangular(L, Q, lower=True, trans="T", check_finite=False))


def _whitened_form(L: Array, A: Array) -> Array:
    """Return L⁻¹AL⁻ᵀ."""
    half = scipy.linalg.solve_triangular(L, A, lower=True, check_finite=False)
    return np.asarray(scipy.linalg.solve_triangular(L, half.T, lower=True, check_finite=False))


def _leading(M: Array, count: int) -> Array:
    """Return the eigenvectors (w, count) of a symmetric matrix for its largest eigenvalues, in falling order."""
    w = len(M)
    found = scipy.linalg.eigh((M + M.T) / 2, subset_by_index=[w - count, w - 1], check_finite=False)
    return np.asarray(found[1][:, ::-1])


def _signed(W: Array) -> Array:
    """Return W with columns whose entry of largest magnitude is positive."""
    largest = np.argmax(np.abs(W), axis=0)
    return W * np.where(W[largest, np.arange(W.shape[1])] < 0, -1.0, 1.0)


def _centred_gram(rows: Rows) -> Array:
    """Return ZZᵀ (n, n) of the centred rows; only where there are fewer samples than features.

    Columns are centred before the product: where samples have a large mean, little would be left of it afterwards.
    """
    K = np.zeros((rows.shape[0],) * 2)
    for block in rows.blocks:
        for columns in gen_batches(block.shape[1], 1024):  # bounds the copies
            part = block[:, columns]
            dense = np.array(part.toarray() if sp.issparse(part) else part, float)
            dense -= dense.mean(axis=0)
            K += dense @ dense.T
    return K


def surely(gains: Array, errors: float = 1.0) -> bool:
    """Return whether the sum of gains, one per sample, is larger than so many of its standard errors."""
    return bool(gains.sum() > errors * np.sqrt(np.sum(gains**2)))


def nearest_right(train: Array, y: Array, test: Array, truth: Array) -> Array:
    """Return for each sample whether its nearest neighbour has its class: the mean over distance and angle.

    In one dimension there are two angles only, so the distance alone counts.
    """
    ways = [(train, test), (_unit(train), _unit(test))][: train.shape[1]]
    right = np.zeros(len(test))
    for ours, theirs in ways:
        squares = np.einsum("ij,ij->i", ours, ours)
        for some in gen_batches(len(test), max(1, _NUMBERS // len(train))):
            nearest = (squares - 2 * theirs[some] @ ours.T).argmin(axis=1)
            right[some] += (y[nearest] == truth[some]) / len(ways)
    return right


def _unit(Y: Array) -> Array:
    """Return embeddings scaled to unit norm."""
    return Y / np.maximum(np.linalg.norm(Y, axis=1, keepdims=True), np.finfo(float).tiny)


def tried_counts(n_components: int) -> list[int]:
    """Return at most sixteen numbers of components from 1 to all, dense where they are small."""
    spread = np.geomspace(1, n_components, min(COUNTS, n_components))
    return [int(count) for count in np.unique(np.maximum(np.round(spread), np.arange(1, len(spread) + 1)))]


def component_quotients(quotient: Quotient, coded: Features, Y: Array) -> Array:
    """Return the quotient of each component by itself, yᵀS_A y / yᵀS_B y, from the embedding Y (n, l)."""
    above = _forms(quotient.above, Y)
    if quotient.below is None:  # the trace form: the share of all variance
        return above / max(quotient.variance(coded), np.finfo(float).tiny)
    below = _forms(quotient.below, Y)
    return above / np.maximum(below, np.finfo(float).eps * above + np.finfo(float).tiny)  # classes of equal samples


def _forms(S: Structure, Y: Array) -> Array:
    """Return yᵀSy of each column, a few columns at a time: Y may be the largest array of a fit."""
    return np.concatenate([np.einsum("nl,nl->l", y, S @ y) for y in np.split(Y, range(4, Y.shape[1], 4), 1)])


def spectrum_of(quotients: Array, held_out: Mapping[int, Array]) -> dict[str, Array]:
    """Return the fitted attribute ``spectrum_``; ``held_out`` has the outcomes of the first k components by k."""
    count = len(quotients)
    score, error = np.full(count, np.nan), np.full(count, np.nan)
    for k, outcomes in held_out.items():
        if k <= count:
            score[k - 1] = outcomes.mean()
            error[k - 1] = outcomes.std() / np.sqrt(len(outcomes)) if len(outcomes) > 1 else np.nan
    return {"n_components": np.arange(1, count + 1), "quotient": quotients, "held_out": score, "error": error}


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
