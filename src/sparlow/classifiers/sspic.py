"""Structured sparse priors for image classification (Srinivas, Suo, Dao, Monga and Tran 2015)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Tags, check_random_state
from sklearn.utils._param_validation import Interval

from .. import _kernels
from ..checks import Array
from ..dictionaries import class_union, ksvd
from ..parallel import Threads, chunks, frozen
from .base import COMMON, DictionaryClassifier

_NEVER = 1e6  # a price that no atom can pay
_LEAST_DIMENSIONS, _SHARE = 5.0, 0.2


@dataclass(frozen=True)
class SpikeAndSlab:
    """A prior of codes: aⱼ is zero or, with probability κⱼ, of N(0, σ²/λ); samples have noise of variance σ²."""

    kappa: Array  # (r,)
    lam: float
    sigma2: float

    @property
    def prices(self) -> Array:
        """ρⱼ = σ² log(2πσ²(1 − κⱼ)²/(λκⱼ²)), what it costs to use an atom."""
        odds = (1 - self.kappa) / self.kappa
        return np.asarray(self.sigma2 * (np.log(2 * np.pi * self.sigma2 / self.lam) + 2 * np.log(odds)))

    def surprise(self, costs: Array, dimensions: float) -> Array:
        """Return −log p(x, a) for samples with these costs of their codes."""
        constant = dimensions / 2 * np.log(2 * np.pi * self.sigma2) - np.sum(np.log1p(-self.kappa))
        return np.asarray(costs / (2 * self.sigma2) + constant)


@dataclass(eq=False, repr=False)
class SSPIC(DictionaryClassifier):
    """min over classes c and codes a of ‖x − aD‖² + λ‖a‖² + Σ over aⱼ ≠ 0 of ρⱼ, with λ and ρ of class c.

    A spike-and-slab prior for each class: x = aD + noise of variance σ², aⱼ = 0 or, with probability κⱼ, of N(0, σ²/λ).
    The maximum a posteriori is the minimum above with ρⱼ = σ² log(2πσ²(1 − κⱼ)²/(λκⱼ²)). It is sought greedily by
    adaptive matching pursuit, which inserts and removes atoms. κ, λ and σ of a class are estimated from the codes of
    its training samples, which are then found anew. The first codes use atoms of the sample's own class only. A new
    sample gets the class of the largest posterior: the costs above are divided by 2σ², and the constants of the
    densities are added, for σ and κ differ between classes.

    The original text was not at hand: the model was put together from secondary sources, and details may differ. In
    particular the noise of images is not independent from pixel to pixel. σ² is therefore the mean energy of the
    residual divided by ``dimensions``, not by the number of pixels. With all pixels the prior weighs too little.

    Parameters
    ----------
    n_atoms : int, optional
        Atoms in all. By K-SVD of each class if there are at least twice as many samples, for otherwise atoms rebuild
        their samples without the residual from which the noise is learned; else random samples. By default all
        samples are atoms. A sample that is an atom is coded without it while learning.
    price : float, default=0.003
        ρ of the first codes: an atom joins if it explains more than this share of the energy of a sample.
    dimensions : float, optional
        The independent dimensions of the noise. Fewer give the prior more weight. By default a fifth of
        (tr C)²/tr C², C the covariance of the first residuals, but 5 at least.
    max_iter : int, default=2
        Estimates of the priors.
    smoothing : float, default=100.0
        Pseudocounts: κⱼ = (n_c ū + smoothing · κ̄) / (n_c + smoothing), ū the share of samples that use atom j and κ̄
        the mean share over the atoms of the same class as j.
    random_state : int or RandomState, optional
        For the atoms.
    n_jobs : int, optional
        Threads. The result does not depend on it.
    verbose : int, default=0
        Print the mean cost of each iteration.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Class labels.
    dictionary_ : array of shape (n_atoms, n_features)
        D.
    atom_classes_ : array of shape (n_atoms,)
        The class of each atom.
    kappa_ : array of shape (n_classes, n_atoms)
        κ of each class.
    dimensions_ : float
        The dimensions of the noise.
    lambda_, sigma2_ : arrays of shape (n_classes,)
        λ and σ² of each class.
    costs_ : array of shape (n_iter,)
        The mean of −log p(x, a) over the training samples under the prior of their class, for each estimate.
    n_iter_ : int
        Estimates.
    n_features_in_ : int
        Number of features.

    References
    ----------
    U. Srinivas, Y. Suo, M. Dao, V. Monga, T. D. Tran: Structured sparse priors for image classification. IEEE
    Transactions on Image Processing 24(6), 2015.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sparlow.classifiers import SSPIC
    >>> X, y = load_digits(return_X_y=True)
    >>> SSPIC(200, random_state=0).fit(X[:900], y[:900]).score(X[900:], y[900:]) > 0.9
    True

    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON,
        "price": [Interval(Real, 0, None, closed="left")],
        "dimensions": [Interval(Real, 0, None, closed="neither"), None],
        "smoothing": [Interval(Real, 0, None, closed="neither")],
    }

    n_atoms: int | None = None
    _: KW_ONLY
    price: float = 0.003
    dimensions: float | None = None
    max_iter: int = 2
    smoothing: float = 100.0
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    def _learn(self, X: Array, labels: Array) -> None:
        D, places, own = self._dictionary(X, labels)
        self.dictionary_, self.atom_classes_ = D, self.classes_[places]
        members = [np.flatnonzero(labels == c) for c in range(len(self.classes_))]
        codes = [
            adaptive_pursuit(
                X[rows], D, 1e-2, np.where(places == c, self.price, _NEVER), barred=own[rows], n_jobs=self.n_jobs
            )[0]
            for c, rows in enumerate(members)
        ]
        self.dimensions_ = self._dimensions(X, codes, members) if self.dimensions is None else float(self.dimensions)
        costs: list[float] = []
        for iteration in range(self.max_iter):
            total = 0.0
            priors = [self._estimate(X[rows], codes[c], places) for c, rows in enumerate(members)]
            for c, (rows, prior) in enumerate(zip(members, priors, strict=True)):
                codes[c], surprise = self.coded(X[rows], own[rows], prior)
                total += float(surprise.sum())
            costs.append(total / len(X))
            self._say(f"estimate {iteration + 1} of {self.max_iter}: cost {costs[-1]:.6g}")
        self.kappa_ = np.stack([prior.kappa for prior in priors])
        self.lambda_, self.sigma2_ = np.array([(prior.lam, prior.sigma2) for prior in priors]).T
        self.costs_, self.n_iter_ = np.array(costs), len(costs)

    def _dictionary(self, X: Array, labels: Array) -> tuple[Array, Array, Array]:
        """Return the atoms, their classes, and the atom that each sample is, −1 for none."""
        own = np.full(len(X), -1)
        rng = check_random_state(self.random_state)
        if self.n_atoms is not None and 2 * self.n_atoms <= len(X):
            return *class_union(X, labels, self.n_atoms, ksvd, random_state=rng, n_jobs=self.n_jobs), own
        used = X.any(axis=1)
        if not used.any():
            raise ValueError("All samples are zero: there is nothing that SSPIC could take as an atom.")
        rows = np.flatnonzero(used)
        if self.n_atoms is not None and self.n_atoms < len(rows):
            turns = np.empty(len(rows), np.int64)  # samples in random order, the classes in turns
            for c in np.unique(labels[rows]):
                turns[labels[rows] == c] = rng.permutation(np.sum(labels[rows] == c))
            rows = np.sort(rows[np.argsort(turns, kind="stable")[: self.n_atoms]])
        own[rows] = np.arange(len(rows))
        return X[rows], labels[rows], own

    def _dimensions(self, X: Array, codes: list[sp.csr_array], members: list[Array]) -> float:
        """Return a fifth of the effective dimensions of the residuals, (tr C)²/tr C², but 5 at least."""
        residual = np.vstack([X[rows] - code @ self.dictionary_ for code, rows in zip(codes, members, strict=True)])
        residual = residual.astype(np.float64)
        squares = float(np.sum((residual.T @ residual if X.shape[1] < len(X) else residual @ residual.T) ** 2))
        return (
            max(_LEAST_DIMENSIONS, _SHARE * float(np.sum(residual**2)) ** 2 / squares) if squares else _LEAST_DIMENSIONS
        )

    def _estimate(self, X: Array, codes: sp.csr_array, places: Array) -> SpikeAndSlab:
        """Return the prior that suits the codes of some samples."""
        n = len(X)
        uses = np.bincount(codes.indices, minlength=len(places)).astype(np.float64)
        by_class = np.bincount(places, uses) / (n * np.bincount(places))  # mean share of use of the atoms of a class
        kappa = (uses + self.smoothing * by_class[places]) / (n + self.smoothing)
        kappa = np.clip(kappa, 0.1 / ((n + 1) * len(places)), 0.95)
        residual = X - codes @ self.dictionary_
        sigma2 = max(float(np.sum(residual.astype(np.float64) ** 2)) / n, 1e-6) / self.dimensions_
        square = float(np.mean(codes.data.astype(np.float64) ** 2)) if codes.nnz else 1.0
        return SpikeAndSlab(kappa, min(max(sigma2 / max(square, 1e-12), 1e-6), 10.0), sigma2)

    def coded(self, X: Array, own: Array, prior: SpikeAndSlab) -> tuple[sp.csr_array, Array]:
        """Return codes under the prior of one class, and how little it expects them."""
        codes, costs = adaptive_pursuit(X, self.dictionary_, prior.lam, prior.prices, barred=own, n_jobs=self.n_jobs)
        return codes, prior.surprise(costs, self.dimensions_)

    def _scores(self, X: Array) -> Array:
        own = np.full(len(X), -1)
        priors = map(SpikeAndSlab, self.kappa_, self.lambda_, self.sigma2_)
        columns = [-self.coded(X, own, prior)[1] for prior in priors]
        return np.stack(columns, axis=1).astype(X.dtype)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # two features: the atoms of any class span the plane
        return tags


def adaptive_pursuit(
    X: Array, D: Array, ridge: float, prices: Array, *, barred: Array | None = None, n_jobs: int | None = None
) -> tuple[sp.csr_array, Array]:
    """Minimise ‖x − aD‖² + ridge · ‖a‖² + Σ over aⱼ ≠ 0 of prices[j] greedily, by insertions and removals of atoms.

    Parameters
    ----------
    X : array of shape (n, m)
        Samples.
    D : array of shape (r, m)
        Atoms of unit norm.
    ridge : float
        A positive number.
    prices : array of shape (r,)
        Any numbers; atoms of negative price are tried first.
    barred : array of shape (n,), optional
        An atom for each sample that it must not use; −1 for none.
    n_jobs : int, optional
        Threads. The result does not depend on it.

    Returns
    -------
    codes : csr_array of shape (n, r)
    costs : array of shape (n,)

    """
    n, r = len(X), len(D)
    if np.shape(prices) != (r,) or not ridge > 0:
        raise ValueError(
            f"There must be one price for each of {r} atoms, and a positive ridge, got {np.shape(prices)}, {ridge}."
        )
    most = min(r, 2 * X.shape[1])
    barred = np.full(n, -1) if barred is None else barred
    wide = D.astype(np.float64)
    G = wide @ wide.T
    costs = np.empty(n)

    def pursue(rows: slice) -> tuple[Array, Array, Array]:
        x = X[rows].astype(np.float64)
        indices, data = np.empty((len(x), most), np.int32), np.empty((len(x), most))
        arrays = frozen(np.ascontiguousarray(x @ wide.T), G, np.einsum("ij,ij->i", x, x))
        forms = frozen(np.asarray(prices, np.float64), np.asarray(barred[rows], np.int64))
        counts = _kernels.adapt_chunk(*arrays, float(ridge), *forms, most, indices, data, costs[rows])
        used = np.arange(most) < counts[:, None]
        return counts, indices[used], data[used].astype(X.dtype)

    with Threads(n_jobs) as threads:
        parts = list(threads.map(pursue, chunks(n, max(*D.shape, most))))
    counts, indices, data = (np.concatenate(part) for part in zip(*parts, strict=True))
    return sp.csr_array((data, indices, np.concatenate([[0], np.cumsum(counts)])), shape=(n, r)), costs
