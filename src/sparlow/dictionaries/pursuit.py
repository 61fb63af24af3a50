"""K-SVD: orthogonal matching pursuit and updates of one atom after the other, in turns.

    minimise ‖X − ΦD‖² over unit-norm atoms D and codes Φ with at most k nonzeros per sample

Aharon, Elad and Bruckstein (2006); the approximate update and the pursuit by Gram matrices are of Rubinstein,
Zibulevsky and Elad (2008).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils.extmath import row_norms

from .. import _kernels
from ..checks import Array, check_count
from ..coders import DictionaryCoder
from ..constants import HEAD_START, LITTLE, ONLINE_FORGETTING
from ..parallel import Threads, chunks, frozen
from ..priors import ElasticNet
from .atoms import Callback, check_samples, dense_rows, first_atoms, renew
from .streams import Passes, Sums, batch_size_for


def ksvd(
    X: ArrayLike | sp.sparray | sp.spmatrix,
    n_atoms: int,
    *,
    n_nonzero: int | None = None,
    n_iter: int = 10,
    positive: bool = False,
    start: ArrayLike | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    callback: Callback | None = None,
) -> Array:
    """Learn atoms by approximate K-SVD: minimise ‖X − ΦD‖² with at most k nonzero codes per sample.

    An iteration is a pursuit of all samples, then for each atom d, with E the residual of the samples that use it,
    less its own part, and g their codes: d ← Eᵀg/‖Eᵀg‖, g ← E d, which never raises the error. Atoms of little use and
    near-duplicates are replaced by the samples explained worst.

    From random samples this takes many iterations, and ends in poorer minima. Therefore, unless ``start`` is given, it
    begins with two passes of :func:`online`, with an elastic net of a tenth of the median norm of the samples.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, m)
        Samples as they are, neither centred nor scaled. Their residual is held as a dense array.
    n_atoms : int
        How many atoms; at most the number of samples of distinct direction.
    n_nonzero : int, optional
        k, the most nonzero codes per sample (at most ``n_atoms``). By default m/40, but 3 at least and 10 at
        most: more fit the samples at hand better, and new ones worse.
    n_iter : int, default=10
        Iterations.
    positive : bool, default=False
        Whether codes must not be negative, for dictionaries of priors whose codes are not: the pursuit takes up atoms
        of positive correlation only, and negative codes become zero.
    start : array of shape (n_atoms, m), optional
        Atoms to start from, random samples by default.
    random_state : int or RandomState, optional
        Which samples to start from, and their order in batches.
    n_jobs : int, optional
        Threads for the pursuits. The result does not depend on it.
    callback : callable, optional
        ``callback(iteration, dictionary, cost)`` after each iteration, the cost being ½‖X − ΦD‖²/n; it stops the
        learner by returning True.

    Returns
    -------
    dictionary : array of shape (n_atoms, m)
        In the precision of X.

    Examples
    --------
    >>> import numpy as np
    >>> from sparlow.dictionaries import ksvd
    >>> X = np.random.default_rng(0).standard_normal((200, 8))
    >>> ksvd(X, 12, random_state=0).shape
    (12, 8)

    """
    X, scale = _of_moderate_size(check_samples(X))
    n_iter = check_count(n_iter, "n_iter")
    rng = check_random_state(random_state)
    D = first_atoms(X, n_atoms, start, rng)
    k = _nonzeros(n_nonzero, D)
    if start is None:
        D = _head_start(X, D, rng, n_jobs, positive)
    fewest = LITTLE * X.shape[0] * k / len(D)
    with Threads(n_jobs) as threads:
        for iteration in range(1, n_iter + 1):
            codes = pursue(X, D, k, threads, positive)
            residual = residual_of(X, D, codes, threads)
            use = update_atoms(D, codes, residual, positive=positive)
            errors = np.einsum("ij,ij->i", residual, residual, dtype=np.float64)
            worst = np.argsort(-errors, kind="stable")
            unexplained = worst[errors[worst] > _floor(D) * _energies(X)[worst]]
            renew(D, X, use, fewest, unexplained, positive=positive)
            if callback is not None and callback(iteration, D.copy(), 0.5 * float(errors.mean()) * scale**2) is True:
                break
    return D


def omp(
    X: ArrayLike | sp.sparray | sp.spmatrix,
    dictionary: ArrayLike,
    n_nonzero: int | None = None,
    *,
    n_jobs: int | None = None,
) -> sp.csr_array:
    """Code samples by orthogonal matching pursuit, with at most ``n_nonzero`` nonzeros per sample.

    The atom of largest correlation with the residual joins, then all codes are fitted anew by least squares.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, m)
        Samples.
    dictionary : array of shape (r, m)
        Atoms of unit norm.
    n_nonzero : int, optional
        The most nonzero codes per sample; by default m/40, but 3 at least and 10 at most.
    n_jobs : int, optional
        Threads. The result does not depend on it.

    Returns
    -------
    codes : csr_array of shape (n, r)

    """
    return OMP(dictionary, n_nonzero, n_jobs=n_jobs).encode(X)


class OMP(DictionaryCoder):
    """Code samples with one dictionary by orthogonal matching pursuit; see :func:`omp`.

    The Gram matrix of the atoms is computed once.

    Parameters
    ----------
    dictionary : array of shape (r, m)
        Atoms of unit norm.
    n_nonzero : int, optional
        The most nonzero codes per sample; by default m/40, but 3 at least and 10 at most.
    positive : bool, default=False
        Only atoms of positive correlation join, and codes that the last fit makes negative become zero.
    n_jobs : int, optional
        Threads. The result does not depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> from sparlow.dictionaries import OMP
    >>> OMP(np.eye(2), 1).encode(np.array([[3.0, 0.5]])).toarray()
    array([[3., 0.]])

    """

    def __init__(
        self,
        dictionary: ArrayLike,
        n_nonzero: int | None = None,
        *,
        positive: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(dictionary, n_jobs)
        self.n_nonzero, self.positive = _nonzeros(n_nonzero, self.dictionary), positive
        self._bound: dict[str, tuple[Array, Array]] = {}

    def __repr__(self) -> str:
        r, m = self.dictionary.shape
        return f"OMP({r} atoms of {m} features, n_nonzero={self.n_nonzero})"

    def encode(self, X: Any) -> sp.csr_array:
        """Return the sparse codes of samples.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, m)
            Samples.

        Returns
        -------
        codes : csr_array of shape (n, r)

        """
        X = check_samples(self.checked(X))
        with Threads(self.n_jobs) as threads:
            if X.dtype.str not in self._bound:
                D = self.dictionary.astype(X.dtype, copy=False)
                self._bound[X.dtype.str] = D, D @ D.T
            D, G = self._bound[X.dtype.str]
            return pursue(X, D, self.n_nonzero, threads, self.positive, G)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_bound": {}}  # computed again where it is wanted


def _nonzeros(n_nonzero: int | None, D: Array) -> int:
    """Return the number of nonzeros of a code in K-SVD, given or usual."""
    r, m = D.shape
    k = min(10, max(3, m // 40)) if n_nonzero is None else check_count(n_nonzero, "n_nonzero")
    return min(k, r, m)


def _of_moderate_size(X: Any) -> tuple[Any, float]:
    """Return X divided by a power of two where its squares of squares would overflow or vanish, and the power.

    Atoms do not depend on the size of the samples, and such a division rounds nothing.
    """
    largest = float(np.abs(X).max())
    if largest == 0 or 1e-6 < largest < 1e6:
        return X, 1.0
    scale = 2.0 ** np.round(np.log2(largest))
    return X * X.dtype.type(1 / scale), float(scale)


def _floor(D: Array) -> float:
    """Return the share of energy that is rounding error."""
    return 1e-12 if D.dtype == np.float64 else 1e-5


def _energies(X: Any) -> Array:
    """Return the squared norms of samples."""
    if sp.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", X, X)


def pursue(X: Any, D: Array, k: int, threads: Threads, positive: bool = False, G: Array | None = None) -> sp.csr_array:
    """Code samples by orthogonal matching pursuit; G is the Gram matrix of the atoms, where it is known."""
    n, r = X.shape[0], len(D)
    G, energies = D @ D.T if G is None else G, _energies(X)
    indices, data = np.empty((n, k), np.int32), np.empty((n, k), D.dtype)

    def pursue_some(rows: slice) -> Array:
        C = np.ascontiguousarray(X[rows] @ D.T)
        arrays = frozen(C, G, energies[rows])
        return _kernels.pursue_chunk(*arrays, k, _floor(D), positive, indices[rows], data[rows])

    counts = np.concatenate(list(threads.map(pursue_some, chunks(n, max(D.shape)))))
    if positive:
        used = (np.arange(k) < counts[:, None]) & (data > 0)
        indices, data, counts = indices[used], data[used], used.sum(axis=1)
    elif np.all(counts == k):
        indices, data = indices.ravel(), data.ravel()
    else:
        used = np.arange(k) < counts[:, None]
        indices, data = indices[used], data[used]
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32 if n * k < 2**31 else np.int64)
    codes = sp.csr_array((data, indices.astype(indptr.dtype, copy=False), indptr), shape=(n, r))
    codes.has_canonical_format = True
    return codes


def _head_start(X: Any, D: Array, rng: np.random.RandomState, n_jobs: int | None, positive: bool) -> Array:
    """Return the atoms after a few passes of online learning, which K-SVD starts from."""
    norms = row_norms(X)
    prior = ElasticNet(0.1 * float(np.median(norms[norms > 0])), 1e-3, positive)
    size = batch_size_for(X.shape[0])
    return Passes(X, D, prior, HEAD_START, size, rng, n_jobs).learn(Sums.zero(D, ONLINE_FORGETTING), None)


def residual_of(X: Any, D: Array, codes: sp.csr_array, threads: Threads) -> Array:
    """Return what codes and atoms leave of the samples."""
    residual = np.empty(X.shape, D.dtype)

    def fill(rows: slice) -> None:
        np.subtract(dense_rows(X, rows), codes[rows] @ D, out=residual[rows])

    list(threads.map(fill, chunks(X.shape[0], max(D.shape))))
    return residual


def update_atoms(
    D: Array, codes: sp.csr_array, residual: Array, atoms: Array | None = None, positive: bool = False
) -> Array:
    """Update all atoms, or those given, in place, and return how many samples use each."""
    columns = sp.csr_array((np.arange(codes.nnz), codes.indices, codes.indptr), shape=codes.shape).tocsc()
    users = (columns.indptr.astype(np.int64), columns.indices.astype(np.int32, copy=False), columns.data)
    which = np.arange(len(D)) if atoms is None else atoms
    _kernels.update_atoms(*frozen(which), residual, D, *frozen(*users), positive, codes.data)
    return np.diff(columns.indptr)
