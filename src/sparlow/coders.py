"""Coders: what codes samples with one dictionary, checked once. :class:`SoftThreshold` is the cheapest of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from . import _kernels
from .checks import FLOATS, Array, check_array
from .parallel import Threads, chunks, frozen


class DictionaryCoder(ABC):
    """Base of the coders: dictionary and samples are checked here, subclasses have ``encode``."""

    def __init__(self, dictionary: ArrayLike, n_jobs: int | None = None) -> None:
        self.dictionary: Array = check_array(dictionary, dtype=FLOATS, order="C", input_name="dictionary")
        self.n_jobs = n_jobs
        norms = np.linalg.norm(self.dictionary, axis=1)
        wrong = np.flatnonzero(np.abs(norms - 1) > 1e-5)
        if len(wrong):
            raise ValueError(
                f"Atoms must have unit norm, but {len(wrong)} of {len(norms)} have not (the first is atom {wrong[0]}, "
                f"norm {norms[wrong[0]]:.3g}). Remove atoms of zero norm, then divide: D / numpy.linalg.norm(D, axis=1,"
                " keepdims=True)."
            )

    @abstractmethod
    def encode(self, X: Any) -> sp.csr_array:
        """Return the sparse codes (n, r) of samples."""

    def checked(self, X: Any) -> Any:
        """Check samples, and that they have as many features as the atoms."""
        X = check_array(X, accept_sparse="csr", dtype=FLOATS, order="C", input_name="X")
        if X.shape[1] != self.dictionary.shape[1]:
            raise ValueError(
                f"X has {X.shape[1]} features, but the atoms of the dictionary have {self.dictionary.shape[1]}."
            )
        return sp.csr_array(X) if sp.issparse(X) else X


class SoftThreshold(DictionaryCoder):
    """Code samples by one product and a threshold.

    With z = Dx the codes are sign(z) max(abs(z) − λ, 0), entry by entry. For orthonormal atoms this is the ℓ₁ code. For
    others it neglects what atoms have in common.

    Parameters
    ----------
    dictionary : array of shape (r, m)
        Atoms of unit norm.
    level : float
        λ.
    positive : bool, default=False
        Leave out negative codes.
    n_jobs : int, optional
        Threads. The result does not depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> from sparlow.coders import SoftThreshold
    >>> SoftThreshold(np.eye(2), 1.0).encode(np.array([[3.0, 0.5]])).toarray()
    array([[2., 0.]])

    """

    def __init__(
        self, dictionary: ArrayLike, level: float, *, positive: bool = False, n_jobs: int | None = None
    ) -> None:
        super().__init__(dictionary, n_jobs)
        if not 0 <= level < np.inf:
            raise ValueError(f"level must be zero or a positive number, got {level!r}.")
        self.level, self.positive = float(level), bool(positive)

    def __repr__(self) -> str:
        r, m = self.dictionary.shape
        return f"SoftThreshold({r} atoms of {m} features, level={self.level})"

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
        X = self.checked(X)
        D = self.dictionary.astype(X.dtype, copy=False)

        def code(rows: slice) -> tuple[Array, Array, Array]:
            z = np.ascontiguousarray(X[rows] @ D.T)
            counts, indices, data = (
                np.empty(len(z), np.int64),
                np.empty(z.size + 1, np.int32),
                np.empty(z.size + 1, z.dtype),
            )
            nnz = _kernels.shrink(*frozen(z), z.dtype.type(self.level), self.positive, counts, indices, data)
            return counts, indices[:nnz].copy(), data[:nnz].copy()

        with Threads(self.n_jobs) as threads:
            results = list(threads.map(code, chunks(X.shape[0], max(D.shape))))
        counts, indices, data = map(np.concatenate, zip(*results, strict=True))
        indptr = np.concatenate([[0], np.cumsum(counts)])
        codes = sp.csr_array((data, indices, indptr), shape=(X.shape[0], len(D)))
        codes.has_canonical_format = True
        return codes
