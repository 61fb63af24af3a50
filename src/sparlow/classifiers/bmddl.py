"""Bilevel model-based discriminative dictionary learning (Zhou, Zhang and Lin 2017)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval

from ..checks import Array
from ..coding import encode, pullback
from ..constants import BMDDL_NEIGHBOURS
from ..graphs import neighbours
from ..priors import ElasticNet
from .base import COMMON, DictionaryClassifier, atoms_for, class_means, first_dictionary, one_hot, ridge
from .tddl import moved_atoms, tangent

_LEAST_WEIGHT = 1e-6  # of the means, so that codes are unique


@dataclass(frozen=True)
class Stack:
    """Elastic nets whose codes are drawn to given ones: min ½‖x − aD‖² + α‖a‖₁ + (w/2)‖a − m‖².

    This is the lasso of the row [x, √w m] over the atoms [D, √w I]. These have norm s = √(1 + w), so atoms and α are
    divided by s, and a is what is left of the code after division by s.
    """

    alpha: float
    weight: float

    @property
    def norm(self) -> float:
        """Return s."""
        return float(np.sqrt(1 + self.weight))

    def prior(self) -> ElasticNet:
        """Return the prior of the stacked problem."""
        return ElasticNet(self.alpha / self.norm, 0.0)

    def rows(self, X: Array, means: Array) -> Array:
        """Return [x, √w m]."""
        return np.hstack([X, np.sqrt(self.weight) * means]).astype(X.dtype)

    def atoms(self, D: Array) -> Array:
        """Return [D, √w I]/s."""
        return (np.hstack([D, np.sqrt(self.weight) * np.eye(len(D))]) / self.norm).astype(D.dtype)

    def encode(
        self, X: Array, D: Array, means: Array, start: Any = None, tol: float | None = None, n_jobs: int | None = None
    ) -> sp.csr_array:
        """Return the codes a."""
        start = None if start is None else start * X.dtype.type(self.norm)
        rows, atoms = self.rows(X, means), self.atoms(D)
        codes = encode(rows, atoms, self.prior(), start=start, tol=tol, n_jobs=n_jobs)
        return sp.csr_array(codes * X.dtype.type(1 / self.norm))

    def pullback(
        self,
        X: Array,
        D: Array,
        means: Array,
        codes: sp.csr_array,
        slopes: tuple[Array, Array],
        H: Array,
        n_jobs: int | None,
    ) -> tuple[Array, Array]:
        """Return the gradient with respect to D, given that in the codes as two factors, with the means held; and QᵀH.

        The rows of Q are K⁻¹w, the influence of each sample (see :func:`sparlow.pullback`). Columns H beside the
        samples, where atoms are zero, change no code, and their gradient is QᵀH.
        """
        m, s = D.shape[1], X.dtype.type(self.norm)
        rows, atoms = np.hstack([self.rows(X, means), H]), np.hstack([self.atoms(D), np.zeros((len(D), H.shape[1]))])
        left, right = slopes
        slope = pullback(rows, atoms, self.prior(), sp.csr_array(codes * s), (left, right / s), n_jobs=n_jobs)
        return np.asarray(slope[:, :m] / s), np.asarray(slope[:, -H.shape[1] :] / s)


@dataclass(frozen=True)
class Level:
    """What is known at a dictionary: codes, means, W and the objective of the upper level."""

    D: Array
    codes: sp.csr_array
    means: Array
    W: Array
    cost: float


@dataclass(frozen=True)
class Bilevel:
    """Both levels of BMDDL for samples X (n, m) of classes ``labels`` (n,), with H (n, c) their indicators."""

    X: Array
    labels: Array
    H: Array
    alpha: float
    beta: float
    ridge: float
    n_means: int
    n_jobs: int | None = None

    def level(self, D: Array, near: Level | None = None) -> Level:
        """Return codes, means and W at a dictionary, begun from those at another one nearby."""
        first = ElasticNet(self.alpha, _LEAST_WEIGHT)
        codes = encode(self.X, D, first, n_jobs=self.n_jobs) if near is None else near.codes
        for _ in range(self.n_means):
            means = class_means(codes, self.labels)
            codes = self._codes(D, means, codes)
        W = ridge(codes, self.H, self.ridge)
        cost = float(np.sum((self.H - codes @ W) ** 2) + self.ridge * np.sum(W**2)) / len(self.X)
        return Level(D, codes, means, W, cost)

    def _groups(self) -> Iterator[tuple[Array, Stack]]:
        """Yield the samples of all classes of one size, with their problem."""
        sizes = np.bincount(self.labels)[self.labels]
        for size in np.unique(sizes):
            yield np.flatnonzero(sizes == size), _stack(self.alpha, self.beta, size)

    def _codes(self, D: Array, means: Array, start: sp.csr_array) -> sp.csr_array:
        """Return the codes for given means."""
        parts, places = [], []
        for rows, stack in self._groups():
            parts.append(stack.encode(self.X[rows], D, means[self.labels[rows]], start[rows], n_jobs=self.n_jobs))
            places.append(rows)
        return sp.csr_array(sp.vstack(parts, format="csr")[np.argsort(np.concatenate(places))])

    def gradient(self, at: Level) -> Array:
        """Return the gradient of ‖H − AW‖² + λ‖W‖² with respect to D, that of the means included.

        The influences q of the samples of a class solve K q = w + β Σ q on the supports, w = 2(aW − h)Wᵀ, as the codes
        solve K a = … + β Σ a: again sums and influences take turns. At the best W its own change has no effect.
        """
        X, H = self.X, self.H
        slopes = np.asarray(2 * (at.codes @ at.W - H))
        sums = np.zeros((H.shape[1], len(at.D)), X.dtype)  # of q over each class
        factors = np.ascontiguousarray(np.hstack([slopes, H]))
        for _ in range(self.n_means):
            total, influence = np.zeros_like(at.D), np.zeros_like(sums)
            right = np.vstack([at.W.T, X.dtype.type(self.beta) * sums])
            for rows, stack in self._groups():
                means, codes = at.means[self.labels[rows]], sp.csr_array(at.codes[rows])
                part, summed = stack.pullback(X[rows], at.D, means, codes, (factors[rows], right), H[rows], self.n_jobs)
                total += part
                influence += summed.T
            sums = influence
        return total

    def lower(self, at: Level, slope: Array, step: float) -> tuple[Level, float] | None:
        """Return a level of smaller objective and its step, or none if there is none along the slope."""
        along = tangent(at.D, slope)
        longest = float(np.linalg.norm(along, axis=1).max())
        if not longest > 0:
            return None
        for _ in range(6):
            new = self.level(moved_atoms(at.D, along, at.D.dtype.type(step / longest)), at)
            if new.cost < at.cost:
                return new, step
            step /= 2
        return None


def _stack(alpha: float, beta: float, count: int) -> Stack:
    """Return the coding problem of the lower level, for means over so many samples."""
    return Stack(alpha, max(beta * count, _LEAST_WEIGHT))


@dataclass(eq=False, repr=False)
class BMDDL(DictionaryClassifier):
    """min over D, W of ‖H − AW‖² + λ‖W‖² with A = argmin ½‖X − AD‖² + α‖A‖₁ + (β/2) tr(AᵀLA): two levels.

    H (n, c) marks the class of each sample, and L is the Laplacian of the graph that joins all samples of a class:
    tr(AᵀLA) = Σ_c n_c Σ over samples of class c of ‖a − m_c‖², m_c the mean code of the class. So for given means each
    code is an elastic net of the row [x, √(βn_c) m_c] over the atoms [D, √(βn_c) I], solved exactly; means and codes
    take turns. No n × n matrix is formed. W is a ridge regression, and D descends along the gradient through codes and
    means, by :func:`sparlow.pullback`, with atoms on the unit sphere; a step is halved until the objective falls. The
    paper solves the same problem by an alternating direction method on the optimality conditions.

    A new sample is drawn to the codes of its five nearest training samples, min ½‖x − aD‖² + α‖a‖₁ + (β/2) Σ‖a − aᵢ‖²,
    and gets the class of the largest entry of aW. Training samples and their codes are kept for it.

    Parameters
    ----------
    n_atoms : int, optional
        Number of atoms; by default ten for each class.
    alpha : float, default=0.05
        α. Samples have unit norm.
    beta : float, default=1e-3
        β.
    ridge : float, default=1.0
        λ.
    n_means : int, default=3
        How often means and codes take turns, and their derivatives.
    max_iter : int, default=10
        Steps of D.
    random_state : int or RandomState, optional
        For the first dictionary, by K-SVD of each class.
    n_jobs : int, optional
        Threads. The result does not depend on it.
    verbose : int, default=0
        Print the objective after each step.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Class labels.
    dictionary_ : array of shape (n_atoms, n_features)
        D, atoms of unit norm.
    classifier_ : array of shape (n_atoms, n_classes)
        W.
    mean_codes_ : array of shape (n_classes, n_atoms)
        m_c.
    samples_ : array of shape (n_samples, n_features)
        The training samples at unit norm.
    codes_ : csr_array of shape (n_samples, n_atoms)
        Their codes.
    costs_ : array of shape (n_iter + 1,)
        The objective of the upper level divided by the number of samples, at the start and after each step; it falls.
    n_iter_ : int
        Steps taken.
    n_features_in_ : int
        Number of features.

    References
    ----------
    P. Zhou, C. Zhang, Z. Lin: Bilevel model-based discriminative dictionary learning for recognition. IEEE Transactions
    on Image Processing 26(3), 2017.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sparlow.classifiers import BMDDL
    >>> X, y = load_digits(return_X_y=True)
    >>> BMDDL(max_iter=3, random_state=0).fit(X[:900], y[:900]).score(X[900:], y[900:]) > 0.9
    True

    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON,
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "beta": [Interval(Real, 0, None, closed="left")],
        "ridge": [Interval(Real, 0, None, closed="neither")],
        "n_means": [Interval(Integral, 1, None, closed="left")],
    }

    n_atoms: int | None = None
    _: KW_ONLY
    alpha: float = 0.05
    beta: float = 1e-3
    ridge: float = 1.0
    n_means: int = 3
    max_iter: int = 10
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    def _learn(self, X: Array, labels: Array) -> None:
        rng = check_random_state(self.random_state)
        H = one_hot(labels, len(self.classes_), X.dtype)
        n_atoms = atoms_for(self.n_atoms, X, labels)
        D, _ = first_dictionary(X, labels, n_atoms, rng, self.n_jobs)
        problem = Bilevel(X, labels, H, self.alpha, self.beta, self.ridge, self.n_means, self.n_jobs)
        at = problem.level(D)
        costs, step = [at.cost], 0.1  # how far the atom moves that moves most
        for iteration in range(self.max_iter):
            found = problem.lower(at, problem.gradient(at), step)
            if found is None:
                break
            at, step = found[0], 2 * found[1]
            costs.append(at.cost)
            self._say(f"step {iteration + 1} of {self.max_iter}: cost {at.cost:.6g}")
        self.dictionary_, self.classifier_, self.mean_codes_ = at.D, at.W, at.means
        self.samples_, self.codes_ = X, at.codes
        self.costs_, self.n_iter_ = np.array(costs), max(1, len(costs) - 1)

    def _scores(self, X: Array) -> Array:
        k = min(BMDDL_NEIGHBOURS, len(self.samples_))
        _, nearest = neighbours(self.samples_, k, X, self.n_jobs)
        average = sp.csr_array((np.full(nearest.size, 1 / k), nearest.ravel(), np.arange(0, nearest.size + 1, k)))
        average.resize(len(X), len(self.samples_))
        means = (average.astype(X.dtype) @ self.codes_.astype(X.dtype)).toarray()
        codes = _stack(self.alpha, self.beta, k).encode(X, self.dictionary_.astype(X.dtype), means, n_jobs=self.n_jobs)
        return np.asarray(codes @ self.classifier_)
