"""Sparse coding and its derivative: the two calls that touch every sample.

    φ(x) = argmin over φ of ½‖x − φD‖² + Σⱼ g(φⱼ)

:func:`encode` computes the codes, :func:`pullback` carries a gradient with respect to them back to the dictionary.
Samples are rows of X (n, m), atoms are unit-norm rows of D (r, m), codes are sparse Φ (n, r).
"""

from __future__ import annotations

import itertools
import numbers
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array

from . import _kernels
from .messages import warn
from .parallel import Threads, chunks, frozen
from .priors import Prior, checked_numbers

Array = NDArray[Any]

_FLOATS = [np.float64, np.float32]
_UNIT_NORM = 1e-5  # how far the norm of an atom may be from 1
_FLAT = 1e-6  # curvatures from which on the Woodbury identity is stable


def encode(
    X: ArrayLike | sp.sparray | sp.spmatrix,
    dictionary: ArrayLike,
    prior: Prior,
    *,
    start: sp.sparray | sp.spmatrix | ArrayLike | None = None,
    tol: float | None = None,
    n_jobs: int | None = None,
) -> sp.csr_array:
    """Sparse codes φ(x) = argmin over φ of ½‖x − φD‖² + Σⱼ g(φⱼ), row by row.

    An active-set method: small systems are solved exactly by Newton steps on the support, all other atoms are
    screened by correlations in single precision with a margin for rounding. It stops when the largest violation of
    the optimality conditions dⱼ·(x − φD) ∈ ∂g(φⱼ) is at most ``tol``·‖x‖.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, m)
        Samples. float32 gives float32 (only the small systems are solved in float64), any other numbers float64.
        Memory-mapped and read-only arrays are fine: they are read in chunks.
    dictionary : array of shape (r, m)
        Atoms of unit norm.
    prior : Prior
        For instance ``ElasticNet(0.1)``. With l2 = 0, l1 is ``alpha`` of scikit-learn's ``sparse_encode``.
    start : sparse matrix of shape (n, r), optional
        Codes to start from, usually those of the same samples for a dictionary close to this one. They change the time
        that it takes, not the result; see the notes.
    tol : float, optional
        The optimality gap, relative to ‖x‖; 1e-9 by default, 1e-5 for float32.
    n_jobs : int, optional
        Threads, as everywhere in scikit-learn. The result does not depend on it.

    Returns
    -------
    codes : csr_array of shape (n, r)
        In the precision of X, indices sorted.

    Warns
    -----
    ConvergenceWarning
        If samples did not reach ``tol``.

    Notes
    -----
    A code is a function of its sample, the dictionary and the prior alone: with or without a start, alone or among
    other samples, its bits are the same. For the elastic net supports are exact, not to ``tol``, and the codes are
    computed from support and signs. Atoms on the edge of ∂g(0) to 1e-13·‖x‖ are decided on by a rule of their own. What
    remains are samples that need singular systems (l2 = 0 and atoms that depend on one another): optimal codes are not
    unique there. For priors with curvature, supports are exact to a thousandth of ``tol``, so that they may depend on
    the start where a correlation is so close to the edge of ∂g(0).

    Examples
    --------
    >>> import numpy as np
    >>> from sparlow import ElasticNet, encode
    >>> codes = encode(np.array([[3.0, 0.5]]), np.eye(2), ElasticNet(l1=1.0, l2=0.5))
    >>> codes.toarray()
    array([[1., 0.]])

    """
    X, D = _check_data(X, dictionary)
    prior = _check_prior(prior)
    tol = _check_tol(tol, D.dtype)
    n, r = X.shape[0], D.shape[0]
    begin = _check_start(start, (n, r), D.dtype, prior)
    parameters, low, high, dense = _prior_numbers(prior, r)
    narrowest = float(np.min(high - low))
    constant = prior.constant_curvature(r)
    common = (*frozen(low, high), *prior.compiled(), parameters, None if constant is None else frozen(constant)[0])
    add_limit = r if dense else _kernels.ADD_LIMIT
    D_single = D.astype(np.float32, copy=False)

    with Threads(n_jobs) as threads:
        G, G_single = _gram(D, threads)

        def code(rows: slice) -> tuple[Array, Array, Array, Array]:
            x = _dense_chunk(X, rows, D)
            if _single_precision_screens(x, narrowest):
                C, screen = _product(X[rows].astype(np.float32, copy=False), D_single), G_single
            else:
                C, screen = _product(x, D), G
            arrays = frozen(x, C, D, G, screen)
            return _kernels.encode_chunk(*arrays, *common, *_rows_of(begin, rows), tol, add_limit)

        parts = list(threads.map(code, chunks(n, max(D.shape))))

    counts, indices, data, gaps = (np.concatenate(part) for part in zip(*parts, strict=True))
    if not np.all(np.isfinite(data)):
        raise ValueError("The codes of some samples overflowed: scale X, or give ElasticNet a larger l2.")
    _warn_unconverged(gaps, tol, D.dtype)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32 if len(data) < 2**31 else np.int64)
    codes = sp.csr_array((data, indices.astype(indptr.dtype, copy=False), indptr), shape=(n, r))
    codes.has_canonical_format = True  # the kernel stores them sorted
    return codes


def pullback(
    X: ArrayLike | sp.sparray | sp.spmatrix,
    dictionary: ArrayLike,
    prior: Prior,
    codes: sp.sparray | sp.spmatrix,
    gradient: tuple[ArrayLike, ArrayLike] | tuple[ArrayLike, ArrayLike, Any] | ArrayLike | sp.sparray | sp.spmatrix,
    *,
    n_jobs: int | None = None,
) -> Array:
    """The gradient with respect to the dictionary, given W = ∂f/∂Φ at Φ = encode(X, D).

    For a sample with support Λ let K = D_Λ D_Λᵀ + diag g″(φ_Λ) and β = K⁻¹ w_Λ. With the β in the rows of a sparse Q,

        ∇_D f = QᵀX − (QᵀΦ + ΦᵀQ) D.

    D is taken as free here; project on the tangent space of the spheres for unit-norm atoms.

    Parameters
    ----------
    X, dictionary, prior
        As given to :func:`encode`.
    codes : sparse matrix of shape (n, r)
        What :func:`encode` returned.
    gradient : pair of arrays (n, l) and (l, r), or array or sparse matrix of shape (n, r)
        W, either as a product of two factors, of which the full matrix is never formed, or as it is. A third entry
        beside the factors is added to the product: a matrix as it is, or a number times the codes.
    n_jobs : int, optional
        Threads. The result does not depend on it.

    Returns
    -------
    gradient : array of shape (r, m)
        Rows of atoms that no sample uses are zero.

    Notes
    -----
    The codes are differentiable where no code is about to enter or leave the support. K is regular if g″ > 0, as for
    the elastic net with l2 > 0. Where it is numerically singular (duplicate atoms in use and l2 = 0) atoms that depend
    on others get β = 0: the result is finite, one of the many generalised gradients.
    Supports of more than m atoms, as of the KL prior, are solved by the Woodbury identity in m × m where all g″ are
    above 1e-6, by Cholesky factors otherwise.

    """
    X, D = _check_data(X, dictionary)
    prior = _check_prior(prior)
    n, (r, m) = X.shape[0], D.shape
    codes = _csr(codes, "codes", (n, r), D.dtype)
    if np.any(_infeasible(prior, codes)):
        raise ValueError(f"codes has negative entries, which {prior} does not allow: are they of another prior?")
    entries = _gradient_entries(gradient, codes)
    parts = chunks(n, max(D.shape))
    with Threads(n_jobs) as threads:
        Q = _solved(D, prior, codes, entries, threads, parts)
        if codes.nnz > n * m / 2:  # most of the dense products' entries are in use
            return _dense_products(X, D, codes, Q, threads, parts)
        return _sparse_products(X, D, codes, Q, threads)


def objective(
    X: ArrayLike | sp.sparray | sp.spmatrix, dictionary: ArrayLike, prior: Prior, codes: sp.sparray | sp.spmatrix
) -> Array:
    """½‖x − φD‖² + Σⱼ g(φⱼ) of each sample, shape (n,)."""
    X, D = _check_data(X, dictionary)
    codes = _csr(codes, "codes", (X.shape[0], D.shape[0]), D.dtype)
    value = _check_prior(prior).compiled()[0]
    penalties = _map_codes(value, codes, prior)
    totals = np.array(sp.csr_array((penalties, codes.indices, codes.indptr), shape=codes.shape).sum(axis=1)).ravel()
    for rows in chunks(X.shape[0], max(D.shape)):
        residual = _dense_chunk(X, rows, D) - codes[rows] @ D
        totals[rows] += 0.5 * np.einsum("ij,ij->i", residual, residual)
    return np.where(_infeasible(prior, codes), np.inf, totals)


def optimality_gap(
    X: ArrayLike | sp.sparray | sp.spmatrix, dictionary: ArrayLike, prior: Prior, codes: sp.sparray | sp.spmatrix
) -> Array:
    """How far codes are from optimal, per sample: the largest violation of dⱼ·(x − φD) ∈ ∂g(φⱼ), divided by ‖x‖.

    It is free of scale, zero for exact codes, and computed from the definition, independent of the solver.
    """
    X, D = _check_data(X, dictionary)
    n, r = X.shape[0], D.shape[0]
    codes = _csr(codes, "codes", (n, r), D.dtype)
    _, low, high, _ = _prior_numbers(_check_prior(prior), r)
    derivative = prior.compiled()[1]
    gaps = np.zeros(n)
    for rows in chunks(n, max(D.shape)):
        x, phi = _dense_chunk(X, rows, D), codes[rows]
        z = (x - phi @ D) @ D.T
        violation = np.maximum(np.maximum(z - high, low - z), 0)
        sample = np.repeat(np.arange(phi.shape[0]), np.diff(phi.indptr))
        slope = _map_codes(derivative, phi, prior)
        violation[sample, phi.indices] = np.abs(z[sample, phi.indices] - slope)
        norms = np.linalg.norm(x, axis=1)
        gaps[rows] = violation.max(axis=1) / np.where(norms > 0, norms, 1)
    return np.where(_infeasible(prior, codes), np.inf, gaps)


# ── checks ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _check_data(X: Any, dictionary: ArrayLike) -> tuple[Any, Array]:
    X = check_array(X, accept_sparse="csr", dtype=_FLOATS, input_name="X")
    if sp.issparse(X):
        X = sp.csr_array(X)
    D = check_array(dictionary, dtype=X.dtype, order="C", input_name="dictionary")
    if D.shape[1] != X.shape[1]:
        raise ValueError(f"X has {X.shape[1]} features, but the atoms of the dictionary have {D.shape[1]}.")
    norms = np.linalg.norm(D, axis=1)
    wrong = np.flatnonzero(np.abs(norms - 1) > _UNIT_NORM)
    if len(wrong):
        j = wrong[0]
        raise ValueError(
            f"Atoms must have unit norm, but {len(wrong)} of {len(D)} have not (the first is atom {j}, norm "
            f"{norms[j]:.3g}). Remove atoms of zero norm, then divide: D / numpy.linalg.norm(D, axis=1, keepdims=True)."
        )
    return X, D


def _check_prior(prior: Prior) -> Prior:
    if not isinstance(prior, Prior):
        raise ValueError(f"prior must be an object such as ElasticNet(0.1) or KLDivergence(0.05), got {prior!r}.")
    return prior


def _check_tol(tol: float | None, dtype: np.dtype[Any]) -> float:
    if tol is None:
        return 1e-9 if dtype == np.float64 else 1e-5
    if not (isinstance(tol, numbers.Real) and not isinstance(tol, bool) and 0 < tol < np.inf):
        raise ValueError(f"tol must be a positive number, got {tol!r}.")
    return float(tol)


def _csr(codes: Any, name: str, shape: tuple[int, int], dtype: np.dtype[Any]) -> sp.csr_array:
    if not sp.issparse(codes):
        codes = np.asarray(codes)
    if codes.shape != shape:
        raise ValueError(f"{name} must have shape {shape} (samples × atoms), got {codes.shape}.")
    out = sp.csr_array(codes, dtype=dtype)
    out.check_format(full_check=True)
    if not (out.has_canonical_format and np.all(out.data)):
        out = out.copy()
        out.sum_duplicates()
        out.eliminate_zeros()
    if not np.all(np.isfinite(out.data)):
        raise ValueError(f"{name} contains NaN or infinite values.")
    return out


def _infeasible(prior: Prior, codes: sp.csr_array) -> Array:
    """Samples with a negative code where the prior allows none."""
    negative = sp.csr_array((codes.data < 0, codes.indices, codes.indptr), shape=codes.shape)
    return prior.positive & (np.array(negative.sum(axis=1)).ravel() > 0)


def _check_start(start: Any, shape: tuple[int, int], dtype: np.dtype[Any], prior: Prior) -> sp.csr_array:
    if start is None:
        return sp.csr_array(shape, dtype=dtype)
    codes = _csr(start, "start", shape, dtype)
    if prior.positive and np.any(codes.data < 0):
        codes = codes.maximum(0).tocsr()
        codes.eliminate_zeros()
    return codes


def _prior_numbers(prior: Prior, r: int) -> tuple[Array, Array, Array, bool]:
    """Parameters, ∂g(0) with finite ends, and whether a code is on even where the data say nothing: 0 ∉ ∂g(0)."""
    parameters, low, high = checked_numbers(prior, r)
    dense = bool(np.any((low > 0) | (high < 0)))
    return parameters, np.maximum(low, -_kernels.FAR), np.minimum(high, _kernels.FAR), dense


def _warn_unconverged(gaps: Array, tol: float, dtype: np.dtype[Any]) -> None:
    failed = int(np.sum(~(gaps <= tol)))
    if failed:
        precision = " or convert X to float64" if dtype == np.float32 else ""
        warn(
            f"{failed} of {len(gaps)} samples did not reach the optimality gap tol={tol:.1g} (largest gap "
            f"{np.max(gaps):.1g}). Raise tol{precision}; more curvature of the prior (l2 of ElasticNet) and less "
            "coherent atoms help too.",
            ConvergenceWarning,
        )


# ── pieces of data ──────────────────────────────────────────────────────────────────────────────────────────────────


def _dense_chunk(X: Any, rows: slice, D: Array) -> Array:
    """Some rows as a plain array, small enough in value that squares do not overflow."""
    part = X[rows]
    dense = np.ascontiguousarray(part.toarray() if sp.issparse(part) else part, dtype=D.dtype)
    limit = 1e18 if D.dtype == np.float32 else 1e150
    if max(dense.max(), -dense.min()) > limit:
        raise ValueError(
            f"X has entries above {limit:.0g} in {D.dtype}: divide it (and the prior's weights) by its scale."
        )
    return dense


def _map_codes(function: Any, codes: sp.csr_array, prior: Prior) -> Array:
    """A scalar function of the prior, of each stored code."""
    indices = codes.indices.astype(np.int32, copy=False)
    return _kernels.map_scalar(function, *frozen(codes.data, indices), checked_numbers(prior, codes.shape[1])[0])


def _product(part: Any, D: Array) -> Array:
    return np.ascontiguousarray(part @ D.T)


def _rows_of(matrix: sp.csr_array, rows: slice, data: Array | None = None) -> tuple[Array, Array, Array]:
    """``indptr, indices, data`` of some rows, for a kernel."""
    indptr = matrix.indptr[rows.start : rows.stop + 1].astype(np.int64)
    entries = slice(indptr[0], indptr[-1])
    indices = matrix.indices[entries].astype(np.int32, copy=False)
    return frozen(indptr - indptr[0], indices, (matrix.data if data is None else data)[entries])


def _gram(D: Array, threads: Threads) -> tuple[Array, Array]:
    """D Dᵀ, and the same in single precision."""
    r = len(D)
    G = np.empty((r, r), D.dtype)
    single = G if D.dtype == np.float32 else np.empty((r, r), np.float32)

    def fill(rows: slice) -> None:
        lower = D[rows] @ D[: rows.stop].T
        G[rows, : rows.stop] = lower
        G[: rows.start, rows] = lower[:, : rows.start].T
        if single is not G:
            single[rows, : rows.stop] = lower
            single[: rows.start, rows] = lower[:, : rows.start].T

    list(threads.map(fill, chunks(r, max(D.shape))))
    return G, single


def _single_precision_screens(x: Array, narrowest: float) -> bool:
    """Whether rounding in single precision is small against ∂g(0), so that few atoms join for it."""
    largest = np.sqrt(np.max(np.einsum("ij,ij->i", x, x, dtype=np.float64)))
    in_range = largest == 0 or 1e-20 < largest < 1e20
    return bool(in_range and 6e-8 * (x.shape[1] + 100) * largest < 0.05 * narrowest)


# ── the parts of the pullback ───────────────────────────────────────────────────────────────────────────────────────


def _gradient_entries(gradient: Any, codes: sp.csr_array) -> Callable[[slice], Array]:
    """A function that gives the entries of ∂f/∂Φ on the support of some rows of the codes."""
    n, r = codes.shape
    dtype = codes.dtype
    if isinstance(gradient, (tuple, list)) and len(gradient) in (2, 3) and np.ndim(gradient[0]) == 2:
        left, right = (check_array(factor, dtype=dtype, order="C", input_name="gradient") for factor in gradient[:2])
        if left.shape[0] != n or right.shape[1] != r or left.shape[1] != right.shape[0]:
            raise ValueError(f"The factors of gradient must be ({n}, l) and (l, {r}), got {left.shape}, {right.shape}.")
        right = np.ascontiguousarray(right.T)
        third = gradient[2] if len(gradient) == 3 else 0.0
        more = _entries_of(third, codes) if np.ndim(third) or sp.issparse(third) else None

        def factored(rows: slice) -> Array:
            indptr, indices, data = _rows_of(codes, rows)
            product = _kernels.factored_entries(indptr, indices, *frozen(left[rows], right))
            return product + (dtype.type(third) * data if more is None else more(rows))

        return factored

    return _entries_of(gradient, codes)


def _entries_of(gradient: Any, codes: sp.csr_array) -> Callable[[slice], Array]:
    """The entries of a matrix on the support of some rows of the codes, as a function of the rows."""
    full = check_array(gradient, accept_sparse="csr", dtype=codes.dtype, input_name="gradient")
    if full.shape != codes.shape:
        raise ValueError(f"gradient must have shape {codes.shape} like the codes, got {full.shape}.")

    def plain(rows: slice) -> Array:
        indptr, indices, _ = _rows_of(codes, rows)
        part = full[rows].toarray() if sp.issparse(full) else full[rows]
        return part[np.repeat(np.arange(len(indptr) - 1), np.diff(indptr)), indices]

    return plain


def _solved(
    D: Array, prior: Prior, codes: sp.csr_array, entries: Any, threads: Threads, parts: list[slice]
) -> sp.csr_array:
    """Q, with β = K⁻¹ w on the support of each sample."""
    r, m = D.shape
    _, _, curvature, _ = prior.compiled()
    curv = _map_codes(curvature, codes, prior).astype(D.dtype, copy=False)
    largest = m if codes.nnz and curv.min() > _FLAT else r
    G, _ = _gram(D, threads)

    def solve(rows: slice) -> Array:
        indptr, indices, curv_rows = _rows_of(codes, rows, curv)
        weights = entries(rows)
        _kernels.solve_supports(indptr, indices, curv_rows, weights, *frozen(G), largest)
        for first, last in itertools.pairwise(indptr):
            if last - first > largest:
                part = slice(first, last)
                weights[part] = _solve_woodbury(D[indices[part]], curv_rows[part], weights[part])
        return weights

    solved = np.concatenate(list(threads.map(solve, parts)))
    return sp.csr_array((solved, codes.indices, codes.indptr), shape=codes.shape)


def _solve_woodbury(D: Array, h: Array, w: Array) -> Array:
    """(D Dᵀ + diag h)⁻¹ w for more atoms than dimensions: H⁻¹w − H⁻¹D (I + DᵀH⁻¹D)⁻¹ DᵀH⁻¹w."""
    scaled = D / np.sqrt(h)[:, None]
    inner = scaled.T @ scaled
    inner.flat[:: len(inner) + 1] += 1
    factor = scipy.linalg.cho_factor(inner, overwrite_a=True, check_finite=False)
    correction = scipy.linalg.cho_solve(factor, D.T @ (w / h), check_finite=False)
    return (w - D @ correction) / h


def _sparse_products(X: Any, D: Array, codes: sp.csr_array, Q: sp.csr_array, threads: Threads) -> Array:
    """QᵀX − (QᵀΦ + ΦᵀQ) D by blocks of atoms, from the columns of Q and Φ."""
    r, m = D.shape
    places = np.arange(Q.nnz, dtype=Q.indptr.dtype)
    columns = sp.csr_array((places, Q.indices, Q.indptr), shape=Q.shape).tocsc()
    del places
    bounds = columns.indptr.astype(np.int64)
    indptr, indices, q = _rows_of(Q, slice(0, Q.shape[0]))
    dense = np.empty((Q.shape[0], 0), D.dtype) if sp.issparse(X) else np.ascontiguousarray(X)
    rows = (indptr, indices, q, *frozen(codes.data, dense))
    gradient = np.empty((r, m), D.dtype)

    def block(atoms: slice) -> None:
        size = atoms.stop - atoms.start
        part = slice(bounds[atoms.start], bounds[atoms.stop])
        local, samples = bounds[atoms.start : atoms.stop + 1] - part.start, columns.indices[part].astype(np.int32)
        q_t, phi_t = Q.data[columns.data[part]], codes.data[columns.data[part]]
        QtX, S = np.zeros((size, dense.shape[1]), D.dtype), np.zeros((size, r), D.dtype)
        _kernels.transposed_products(*frozen(local, samples, q_t, phi_t), *rows, QtX, S)
        if sp.issparse(X):
            QtX = (sp.csr_array((q_t, samples, local), shape=(size, Q.shape[0])) @ X).toarray()
        gradient[atoms] = QtX - S @ D

    list(threads.map(block, chunks(r, max(D.shape))))
    return gradient


def _dense_products(
    X: Any, D: Array, codes: sp.csr_array, Q: sp.csr_array, threads: Threads, parts: list[slice]
) -> Array:
    """Qᵀ(X − ΦD) − Φᵀ(QD), chunk by chunk with dense products: for supports so long that sparsity does not pay."""

    def part(rows: slice) -> Array:
        q, phi = Q[rows].toarray(), codes[rows].toarray()
        return q.T @ (_dense_chunk(X, rows, D) - phi @ D) - phi.T @ (q @ D)

    gradient = np.zeros_like(D)
    for term in threads.map(part, parts):
        gradient += term
    return gradient
