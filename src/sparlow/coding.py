"""Sparse coding and its derivative: the two operations that touch every sample.

    φ(x) = argmin over φ of ½‖x − φD‖² + Σⱼ g(φⱼ)

:func:`encode` computes the codes, :func:`pullback` carries a gradient with respect to them back to the dictionary.
:class:`Coder` does both for one dictionary, whose Gram matrix it computes once. Samples are rows of X (n, m), atoms are
unit-norm rows of D (r, m), codes are sparse Φ (n, r).
"""

from __future__ import annotations

import copy
import numbers
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from . import _kernels
from .checks import Array, refuse_unsound, warn
from .coders import DictionaryCoder
from .derivative import (
    Atoms,
    dense_chunk,
    frobenius,
    gradient_entries,
    map_codes,
    products,
    rows_of,
    solved,
)
from .parallel import Threads, chunks, frozen, one_blas_thread, uninterrupted
from .priors import Prior, checked_numbers


class Coder(DictionaryCoder):
    """Code samples with one dictionary and one prior.

    The Gram matrix of the atoms and all checks of dictionary and prior are made once, so that coding one sample costs
    little more than its share of a batch. A coder does not change; copies and threads may share it.

    Parameters
    ----------
    dictionary : array of shape (r, m)
        Atoms of unit norm.
    prior : Prior
        For instance ``ElasticNet(0.1)``.
    tol : float, optional
        The optimality gap, relative to ‖x‖; 1e-9 by default, 1e-5 for samples of float32.
    n_jobs : int, optional
        Threads. The result does not depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> from sparlow import Coder
    >>> from sparlow.priors import ElasticNet
    >>> coder = Coder(np.eye(2), ElasticNet(l1=1.0, l2=0.5))
    >>> coder.encode(np.array([[3.0, 0.5]])).toarray()
    array([[1., 0.]])

    """

    def __init__(
        self, dictionary: ArrayLike, prior: Prior, *, tol: float | None = None, n_jobs: int | None = None
    ) -> None:
        super().__init__(dictionary, n_jobs)
        self.prior = _check_prior(prior)
        self.tol = _check_tol(tol)
        self._numbers = _prior_numbers(prior, len(self.dictionary))
        self._constant_curvature = prior.constant_curvature(len(self.dictionary))
        self._atoms: dict[str, Atoms] = {}
        self._arguments: tuple[Any, ...] = ()

    def __repr__(self) -> str:
        r, m = self.dictionary.shape
        return f"Coder({r} atoms of {m} features, {self.prior})"

    def encode(self, X: Any, *, start: Any = None) -> sp.csr_array:
        """Return the sparse codes of samples; see :func:`encode`.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, m)
            Samples.
        start : sparse matrix of shape (n, r), optional
            Codes to start from. They change the time that coding takes, not the result.

        Returns
        -------
        codes : csr_array of shape (n, r)

        """
        X = self.checked(X)
        shape = X.shape[0], len(self.dictionary)
        return self.codes(X, None if start is None else _check_start(start, shape, X.dtype, self.prior))

    def pullback(self, X: Any, codes: Any, gradient: Any) -> Array:
        """Return the gradient with respect to the dictionary; see :func:`pullback`.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, m)
            Samples.
        codes : sparse matrix of shape (n, r)
            What :meth:`encode` returned for them.
        gradient : pair of arrays, array or sparse matrix
            ∂f/∂Φ.

        Returns
        -------
        gradient : array of shape (r, m)

        """
        X = self.checked(X)
        codes = _csr(codes, "codes", (X.shape[0], len(self.dictionary)), X.dtype)
        if np.any(_infeasible(self.prior, codes)):
            raise ValueError(
                f"codes has negative entries, which {self.prior} does not allow: are they of another prior?"
            )
        return self.slope(X, codes, gradient_entries(gradient, codes))

    def at(self, dictionary: Array) -> Coder:
        """Return a coder like this one for as many other atoms, known to be sound: for learners, which move atoms."""
        other = copy.copy(self)
        other.dictionary, other._atoms = dictionary, {}
        return other

    def codes(self, X: Any, start: sp.csr_array | None = None, n_jobs: int | None = None) -> sp.csr_array:
        """Encode samples that are known to be sound: finite, C-ordered or CSR, of float64 or float32."""
        n, r = X.shape[0], len(self.dictionary)
        atoms, tol = self._bound(X.dtype), self.tol or _usual_tol(X.dtype)
        constant = self._constant_curvature
        if not self._arguments:
            parameters, low, high, dense = self._numbers
            curvature = None if constant is None else frozen(constant)[0]
            limit = r if dense else 8  # at most max(8, support / 2) atoms join the working set at a time
            common = (*frozen(low, high), *self.prior.compiled(), parameters, curvature)
            self._arguments = common, float(np.min(high - low)), limit
        common, narrowest, add_limit = self._arguments

        def code(rows: slice) -> tuple[Array, Array, Array, Array]:
            x = dense_chunk(X, rows, atoms.D)
            if _single_precision_screens(x, narrowest):
                C, screen = _product(X[rows].astype(np.float32, copy=False), atoms.D_single), atoms.G_single
            else:
                C, screen = _product(x, atoms.D_screen), atoms.G
            arrays = frozen(x, C, atoms.D, atoms.G, screen)
            begin = _nothing(rows.stop - rows.start, X.dtype) if start is None else rows_of(start, rows)
            return _kernels.encode_chunk(*arrays, *common, *begin, tol, add_limit)

        parts = chunks(n, max(atoms.D.shape), most=2048)
        if n == 1 and constant is not None:  # its code is settled to the last bit whatever screened it
            results = [uninterrupted(code, parts[0])]
        elif len(parts) == 1:
            with one_blas_thread():
                results = [uninterrupted(code, parts[0])]
        else:
            with Threads(self.n_jobs if n_jobs is None else n_jobs) as threads:
                results = list(threads.map(code, parts))
        counts, indices, data, gaps = map(np.concatenate, zip(*results, strict=True)) if n > 1 else results[0]
        if not np.isfinite(data).all():
            raise ValueError("The codes of some samples overflowed: scale X, or give ElasticNet a larger l2.")
        indptr = np.zeros(n + 1, np.int32 if len(data) < 2**31 else np.int64)
        np.cumsum(counts, out=indptr[1:])
        codes = sp.csr_array((data, indices.astype(indptr.dtype, copy=False), indptr), shape=(n, r))
        codes.has_canonical_format = True  # the kernel stores them sorted
        unknown = np.flatnonzero(np.isinf(gaps))  # the kernel gave up before it had seen all atoms
        if len(unknown):
            gaps[unknown] = optimality_gap(X[unknown].astype(float), atoms.D, self.prior, codes[unknown].astype(float))
        _warn_unconverged(gaps, tol, X.dtype)
        return codes

    def slope(self, X: Any, codes: sp.csr_array, entries: Callable[[slice], Array]) -> Array:
        """Return ∂f/∂D from the entries of ∂f/∂Φ on the support of some rows; samples and codes are known to be sound.

        ``entries(rows)`` gives them in the order of the stored codes.
        """
        atoms = self._bound(X.dtype)
        parts = chunks(X.shape[0], max(atoms.D.shape))
        with Threads(self.n_jobs) as threads:
            Q = solved(atoms, self.prior, codes, entries, threads, parts)
            return products(X, atoms.D, codes, Q, threads, parts)

    def costs(self, X: Any, codes: sp.csr_array) -> Array:
        """Return the objective of each sample; samples and codes are known to be sound. See :func:`objective`."""
        D = self.dictionary.astype(X.dtype, copy=False)
        penalties = map_codes(self.prior.compiled()[0], codes, self.prior)
        totals = np.array(sp.csr_array((penalties, codes.indices, codes.indptr), shape=codes.shape).sum(axis=1)).ravel()
        for rows in chunks(X.shape[0], max(D.shape)):
            residual = dense_chunk(X, rows, D) - codes[rows] @ D
            totals[rows] += 0.5 * np.einsum("ij,ij->i", residual, residual)
        return np.where(_infeasible(self.prior, codes), np.inf, totals)

    def _bound(self, dtype: np.dtype[Any]) -> Atoms:
        """Return the atoms and their Gram matrix in the precision of the samples."""
        found = self._atoms.get(dtype.str)
        if found is None:
            found = self._atoms[dtype.str] = Atoms.of(self.dictionary.astype(dtype, copy=False), self.n_jobs)
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_atoms": {}, "_arguments": ()}  # computed again where they are wanted


def encode(
    X: ArrayLike | sp.sparray | sp.spmatrix,
    dictionary: ArrayLike,
    prior: Prior,
    *,
    start: sp.sparray | sp.spmatrix | ArrayLike | None = None,
    tol: float | None = None,
    n_jobs: int | None = None,
) -> sp.csr_array:
    """Compute sparse codes φ(x) = argmin over φ of ½‖x − φD‖² + Σⱼ g(φⱼ), row by row.

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
    remains are samples that need singular systems, as atoms in use depend on one another and l2 is zero or nearly
    (below 1e-7; below 5e-5 for float32): optimal codes are not unique there, up to rounding. For other priors, supports
    are exact to a thousandth of ``tol``, so that they may depend on the start where a correlation is so close to the
    edge of ∂g(0), and codes are not unique where the prior has no curvature, as ``KLDivergence`` below its threshold.
    The optimality gap is at most ``tol`` in all these cases, too, or a warning says so.

    Examples
    --------
    >>> import numpy as np
    >>> from sparlow import encode
    >>> from sparlow.priors import ElasticNet
    >>> codes = encode(np.array([[3.0, 0.5]]), np.eye(2), ElasticNet(l1=1.0, l2=0.5))
    >>> codes.toarray()
    array([[1., 0.]])

    """
    return Coder(dictionary, prior, tol=tol, n_jobs=n_jobs).encode(X, start=start)


def pullback(
    X: ArrayLike | sp.sparray | sp.spmatrix,
    dictionary: ArrayLike,
    prior: Prior,
    codes: sp.sparray | sp.spmatrix,
    gradient: tuple[ArrayLike, ArrayLike] | tuple[ArrayLike, ArrayLike, Any] | ArrayLike | sp.sparray | sp.spmatrix,
    *,
    n_jobs: int | None = None,
) -> Array:
    """Compute the gradient with respect to the dictionary, given W = ∂f/∂Φ at Φ = encode(X, D).

    For a sample with support Λ let K = D_Λ D_Λᵀ + diag g″(φ_Λ) and β = K⁻¹ w_Λ. With the β in the rows of a sparse Q::

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
    return Coder(dictionary, prior, n_jobs=n_jobs).pullback(X, codes, gradient)


def objective(
    X: ArrayLike | sp.sparray | sp.spmatrix, dictionary: ArrayLike, prior: Prior, codes: sp.sparray | sp.spmatrix
) -> Array:
    """Return ½‖x − φD‖² + Σⱼ g(φⱼ) of each sample, shape (n,)."""
    coder = Coder(dictionary, prior)
    X = coder.checked(X)
    return coder.costs(X, _csr(codes, "codes", (X.shape[0], len(coder.dictionary)), X.dtype))


def optimality_gap(
    X: ArrayLike | sp.sparray | sp.spmatrix, dictionary: ArrayLike, prior: Prior, codes: sp.sparray | sp.spmatrix
) -> Array:
    """Return the largest violation of the optimality conditions dⱼ·(x − φD) ∈ ∂g(φⱼ) of each sample, divided by ‖x‖.

    It is free of scale, zero for exact codes, and computed from the definition, independent of the solver.
    """
    coder = Coder(dictionary, prior)
    X = coder.checked(X)
    D = coder.dictionary.astype(X.dtype, copy=False)
    n, r = X.shape[0], D.shape[0]
    codes = _csr(codes, "codes", (n, r), D.dtype)
    _, low, high, _ = coder._numbers
    derivative = prior.compiled()[1]
    gaps = np.zeros(n)
    for rows in chunks(n, max(D.shape)):
        x, phi = dense_chunk(X, rows, D), codes[rows]
        z = (x - phi @ D) @ D.T
        violation = np.maximum(np.maximum(z - high, low - z), 0)
        sample = np.repeat(np.arange(phi.shape[0]), np.diff(phi.indptr))
        slope = map_codes(derivative, phi, prior)
        violation[sample, phi.indices] = np.abs(z[sample, phi.indices] - slope)
        norms = np.linalg.norm(x, axis=1)
        gaps[rows] = violation.max(axis=1) / np.where(norms > 0, norms, 1)
    return np.where(_infeasible(prior, codes), np.inf, gaps)


# ── checks ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _check_prior(prior: Prior) -> Prior:
    """Refuse what is no prior."""
    if not isinstance(prior, Prior):
        raise ValueError(f"prior must be an object such as ElasticNet(0.1) or KLDivergence(0.05), got {prior!r}.")
    return prior


def _usual_tol(dtype: np.dtype[Any]) -> float:
    """Return the optimality gap that codes reach by default."""
    return 1e-9 if dtype == np.float64 else 1e-5


def _check_tol(tol: float | None) -> float | None:
    """Refuse a tolerance that is not positive."""
    if tol is None:
        return None
    if not (isinstance(tol, numbers.Real) and not isinstance(tol, bool) and 0 < tol < np.inf):
        raise ValueError(f"tol must be a positive number, got {tol!r}.")
    return float(tol)


def _csr(codes: Any, name: str, shape: tuple[int, int], dtype: np.dtype[Any]) -> sp.csr_array:
    """Check codes that a user gives, and return them as a sorted CSR array."""
    refuse_unsound(codes, name)
    if not sp.issparse(codes):
        codes = np.asarray(codes)
    if codes.shape != shape:
        raise ValueError(f"{name} must have shape {shape} (samples × atoms), got {codes.shape}.")
    out = sp.csr_array(codes, dtype=dtype)
    if not (out.has_canonical_format and np.all(out.data)):
        out = out.copy()
        out.sum_duplicates()
        out.eliminate_zeros()
    if not np.all(np.isfinite(out.data)):
        raise ValueError(f"{name} contains NaN or infinite values.")
    return out


def _infeasible(prior: Prior, codes: sp.csr_array) -> Array:
    """Return the samples with a negative code where the prior allows none."""
    negative = sp.csr_array((codes.data < 0, codes.indices, codes.indptr), shape=codes.shape)
    return prior.positive & (np.array(negative.sum(axis=1)).ravel() > 0)


def _check_start(start: Any, shape: tuple[int, int], dtype: np.dtype[Any], prior: Prior) -> sp.csr_array:
    """Check codes to start from; negative ones become zero where codes are positive."""
    codes = _csr(start, "start", shape, dtype)
    if prior.positive and np.any(codes.data < 0):
        codes = codes.maximum(0).tocsr()
        codes.eliminate_zeros()
    return codes


def _prior_numbers(prior: Prior, r: int) -> tuple[Array, Array, Array, bool]:
    """Return parameters, ∂g(0) with finite ends, and whether a code is on where the data say nothing: 0 ∉ ∂g(0)."""
    parameters, low, high = checked_numbers(prior, r)
    dense = bool(np.any((low > 0) | (high < 0)))
    return parameters, np.maximum(low, -_kernels.FAR), np.minimum(high, _kernels.FAR), dense


def _warn_unconverged(gaps: Array, tol: float, dtype: np.dtype[Any]) -> None:
    """Warn of samples whose codes miss the optimality gap."""
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


def _product(part: Any, D: Array) -> Array:
    """Return the products of samples and atoms."""
    return np.ascontiguousarray(part @ D.T)


def _nothing(n: int, dtype: np.dtype[Any]) -> tuple[Array, Array, Array]:
    """Return ``indptr, indices, data`` of n empty rows."""
    return frozen(np.zeros(n + 1, np.int64), np.empty(0, np.int32), np.empty(0, dtype))


def _single_precision_screens(x: Array, narrowest: float) -> bool:
    """Return whether rounding in single precision is small against ∂g(0), so that few atoms join for it."""

    def small(largest: float) -> bool:
        in_range = largest == 0 or 1e-20 < largest < 1e20
        return bool(in_range and 6e-8 * (x.shape[1] + 100) * largest < 0.05 * narrowest)

    return small(2 * frobenius(x)) or small(np.sqrt(np.max(np.einsum("ij,ij->i", x, x, dtype=np.float64))))
