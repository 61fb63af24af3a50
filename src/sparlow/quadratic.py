"""A second-order embedding: each component is a quadratic form of the features.

    y_k(x) = φ(x)ᵀ V M_k Vᵀ φ(x) − centre_k

The forms are those of discriminant analysis with the kernel k(x, x') = (φ(x)·φ(x'))², whose features are all products
of two features. With K the centred kernel matrix of the training samples, Y the centred indicators of the classes,
columns divided by √n_c, and the ridge λ = 0.03 tr(K)/n,

    S = (K + λ)⁻¹Y,   YᵀKS = Q diag(ρ) Qᵀ,   A = S Q (ρ(1 − ρ))^(−½),

the scatter within classes plus the ridge is one in all directions, as for the whitened embedding. Since k is a square,
Σᵢ Aᵢₖ k(x, xᵢ) is the quadratic form M_k = Σᵢ Aᵢₖ VᵀφᵢφᵢᵀV: no training sample is kept. V is a basis of the leading
directions of the features of at most 3000 samples. Of these the model keeps 256 combinations: with C the second moments
of Vᵀφ, the leading directions of Σ_k (C^½M_kC^½)², which hold nearly all that the forms tell of such samples.

Above 10 000 samples the regression S is made in k parts of equal size and averaged, so that cost and memory are linear
in the number of samples. The ridge of a part is λ/k, so that it weighs on the mean over samples as that of all of them
does: the average has little variance, and a larger ridge would only add bias.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from sklearn.utils import gen_batches

from .checks import Array
from .constants import FALL, FORM_DIRECTIONS, FORM_RANK, KERNEL, KERNEL_PART, TRIED
from .embedding import nearest_right
from .labels import class_folds
from .parallel import Threads
from .rows import Features, Rows
from .voting import Rule, best_rule

SHARES = {1: 0.1, 2: 0.03}  # ridge by order, in multiples of the variance of one sample


@dataclass(frozen=True)
class Quadratic:
    """The map y_k = φᵀVM_kVᵀφ − centre_k.

    Parameters
    ----------
    basis : array of shape (w, p)
        V.
    forms : array of shape (l, p, p)
        M.
    centre : array of shape (l,)
        The mean over the training samples.

    """

    basis: Array
    forms: Array
    centre: Array

    def __call__(self, coded: Features) -> Array:
        """Return the embedding (n, l)."""
        return coded.by_rows(self._of_rows, len(self.forms)) - self.centre

    def _of_rows(self, rows: Rows) -> Array:
        """Return the values of the forms."""
        return values_of(self.forms, rows @ self.basis)


class NoScatterError(ValueError):
    """Samples whose features are the same."""


def values_of(forms: Array, P: Array) -> Array:
    """Return the values (n, l) of quadratic forms (l, p, p) at the rows of P (n, p)."""
    out = np.empty((len(P), len(forms)))
    for rows in gen_batches(len(P), 2048):
        part = P[rows].astype(forms.dtype, copy=False)
        for k, M in enumerate(forms):
            out[rows, k] = np.einsum("ij,ij->i", part @ M, part)
    return out


def _basis(coded: Features) -> Array:
    """Return an orthonormal basis (w, p) of the leading directions of the features, their mean included."""
    width = coded.shape[1]
    return np.eye(width) if width <= FORM_DIRECTIONS else coded.leading_directions(FORM_DIRECTIONS, centred=False)


def _some_labelled(y: Array, seed: int) -> Array:
    """Return the rows that basis and order are chosen on."""
    return np.sort(np.random.RandomState(seed).permutation(np.flatnonzero(y >= 0))[:TRIED])


def _in_basis(coded: Features, basis: Array) -> Array:
    """Return ΦV (n, p) in single precision."""
    return coded.by_rows(functools.partial(_projected, basis), basis.shape[1], np.float32)


def _projected(basis: Array, rows: Rows) -> Array:
    """Return ΦV of some rows."""
    return rows @ basis


def fit_quadratic(coded: Features, y: Array, n_components: int, seed: int, basis: Array | None = None) -> Quadratic:
    """Learn the embedding from samples with encoded labels y, −1 for unlabelled ones, which are left out.

    The ``basis`` is that of :func:`better_order`, or is found from as many samples.
    """
    with Threads(1):
        basis = _basis(coded.take(_some_labelled(y, seed))) if basis is None else basis
        known = y >= 0
        P = _in_basis(coded, basis)
        P, y = (P, y) if known.all() else (P[known], y[known])
        Y = _indicators(y)
        forms, spread = _regression(P, Y)
        scores = values_of(forms, P)
        scores -= scores.mean(axis=0)
        R = Y.T @ scores
        if spread is not None:
            R = spread
        rho, Q = np.linalg.eigh(_symmetric(R))
        rho = np.clip(rho[::-1][:n_components], 1e-6, 1 - 1e-6)
        turn = Q[:, ::-1][:, :n_components] / np.sqrt(rho * (1 - rho))
        largest = np.argmax(np.abs(turn), axis=0)
        turn *= np.where(turn[largest, np.arange(turn.shape[1])] < 0, -1.0, 1.0)
        M = np.tensordot(turn.T, forms, axes=1).astype(np.float32)
        if len(M[0]) > FORM_RANK:
            within, M = _kept(M, P)
            basis, P = basis @ within, P @ within
        return Quadratic(basis, M, values_of(M, P).mean(axis=0))


def _kept(M: Array, P: Array) -> tuple[Array, Array]:
    """Return the combinations (p, k) of directions that the forms keep, and the forms in them."""
    values, E = np.linalg.eigh((P.T @ P).astype(float) / len(P))
    values = np.sqrt(np.maximum(values, np.finfo(P.dtype).eps * values[-1]))
    root = ((E * values) @ E.T).astype(M.dtype)
    total = np.zeros(root.shape)
    for k, form in enumerate(M):
        M[k] = root @ form @ root
        total += M[k] @ M[k]
    leading = np.linalg.eigh(total)[1][:, ::-1][:, :FORM_RANK]
    within = (E / values) @ (E.T @ leading)
    leading = leading.astype(M.dtype)
    return within.astype(M.dtype), np.array([leading.T @ form @ leading for form in M])


def _indicators(y: Array) -> Array:
    """Return centred indicators of classes, for the second-order embedding."""
    Y = np.zeros((len(y), int(y.max()) + 1))
    Y[np.arange(len(y)), y] = 1
    Y /= np.sqrt(np.maximum(Y.sum(axis=0), 1))
    return Y - Y.mean(axis=0)


def _regression(P: Array, Y: Array) -> tuple[Array, Array | None]:
    """Return the forms (c, p, p) of the regression on the indicators, and YᵀKS where it is made in one part."""
    n = len(P)
    count = 1 if n <= KERNEL else -(-n // KERNEL_PART)
    forms = np.zeros((Y.shape[1], P.shape[1], P.shape[1]), np.float32)
    spread = None
    for first in range(count):
        rows = slice(first, None, count)
        part, targets = P[rows], Y[rows] - Y[rows].mean(axis=0)
        S, fitted = solved_forms(part, targets, 2, SHARES[2] / count)
        for c in range(Y.shape[1]):
            forms[c] += (part * S[:, c : c + 1]).T @ part / np.float32(count)
        if count == 1:
            spread = targets.T @ fitted
    return forms, spread


def solved_forms(P: Array, Y: Array, order: int, share: float) -> tuple[Array, Array]:
    """Return S = (K + λ)⁻¹Y, λ = share · tr(K)/n, and the fitted values KS, in single precision where it is enough."""
    K = P @ P.T
    if order == 2:
        K *= K
    size = float(np.trace(K, dtype=float))
    mean = K.mean(axis=0)
    K -= mean
    K -= mean[:, None] - mean.mean()
    spread = float(np.trace(K, dtype=float))
    if not spread > 1e-6 * size:  # what is left is rounding
        raise NoScatterError("The samples have the same features: there is no scatter for a quadratic embedding.")
    ridge = share * spread / len(K)
    K[np.diag_indices_from(K)] += np.float32(ridge)
    try:
        factor = scipy.linalg.cho_factor(K.T, lower=True, overwrite_a=True, check_finite=False)  # no copy of K = Kᵀ
    except np.linalg.LinAlgError:
        if P.dtype == np.float64:
            raise
        return tuple(part.astype(np.float32) for part in solved_forms(P.astype(np.float64), Y, order, share))  # type: ignore[return-value]
    S = scipy.linalg.cho_solve(factor, Y.astype(P.dtype), check_finite=False)
    return S - S.mean(axis=0), Y - ridge * S


@dataclass(frozen=True)
class Order:
    """The order of the embedding, how neighbours vote in it, and the basis that it was chosen in."""

    order: int = 1
    votes: Rule | None = None
    basis: Array | None = None


def better_order(coded: Features, y: Array, seed: int, groups: Array | None = None) -> Order:
    """Return the order of the embedding, 1 or 2, whose neighbours are right more often.

    By five folds, of whole groups if these are given. A difference of one sample is a tie; then it is 2 if the error of
    the regression on held-out samples falls by a tenth. Folds share the features, so these must not know the labels.
    """
    rows = _some_labelled(y, seed)
    folds = min(5, int(np.bincount(y[rows])[np.unique(y[rows])].min()))
    if folds < 2 or len(np.unique(y[rows])) < int(y.max()) + 1:
        return Order()
    parts = class_folds(y[rows], folds, None if groups is None else groups[rows])
    with Threads(1):
        part = coded.take(rows)
        basis = _basis(part)
        P, y = _in_basis(part, basis), y[rows]
        if not parts or not np.ptp(P, axis=0).max() > 0:
            return Order()
        right, error, votes = np.zeros(3), np.zeros(3), {}
        for train, held in parts:
            Y = _indicators(y[train])
            for order in (1, 2):
                try:
                    S, fitted = solved_forms(P[train], Y, order, SHARES[order])
                except NoScatterError:
                    return Order()
                cross = (P[held] @ P[train].T) ** order @ S
                own = (P[train] @ P[train].T) ** order @ S
                rho, Q = np.linalg.eigh(_symmetric(Y.T @ fitted))
                rho = np.clip(rho, 1e-6, 1 - 1e-6)
                turn = (Q / np.sqrt(rho * (1 - rho)))[:, 1:]
                centre = own.mean(axis=0)
                ours, theirs = (own - centre) @ turn, (cross - centre) @ turn
                right[order] += nearest_right(ours, y[train], theirs, y[held]).sum()
                votes[order] = best_rule(ours, y[train], theirs, y[held])
                truth = np.eye(Y.shape[1])[y[held]] / np.sqrt(np.bincount(y[train], minlength=Y.shape[1]))
                error[order] += float(np.sum((truth - truth.mean(axis=0) - (cross - centre)) ** 2))
    tie = abs(right[2] - right[1]) <= 1
    order = 2 if (error[2] < FALL * error[1] if tie else right[2] > right[1]) else 1
    return Order(order, votes[order], basis)


def _symmetric(R: Array) -> Array:
    """Return the symmetric part of a form."""
    return (R + R.T) / 2
