"""K-SVD of samples with their labels stacked beside them: D-KSVD and label-consistent K-SVD."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval

from ..checks import Array
from ..dictionaries import ksvd, omp
from .base import COMMON, DictionaryClassifier, atoms_for, first_dictionary, one_hot, ridge


class StackedKSVD(DictionaryClassifier):
    """Base of the classifiers that learn by K-SVD of the rows [X, T], T weighted targets of the labels."""

    n_atoms: int | None
    n_nonzero: int
    max_iter: int
    random_state: Any
    n_jobs: int | None

    def _stacked(self, X: Array, labels: Array, targets: Array, weight: float) -> tuple[Array, Array]:
        """Return D and the part of the targets, divided by the norms of D's atoms, and set ``costs_``, ``n_iter_``."""
        rng = check_random_state(self.random_state)
        D, _ = first_dictionary(X, labels, atoms_for(self.n_atoms, X, labels), rng, self.n_jobs)
        codes = omp(X, D, self.n_nonzero, n_jobs=self.n_jobs)
        costs: list[float] = []

        def follow(iteration: int, dictionary: Array, cost: float) -> None:
            costs.append(2 * cost)
            self._say(f"iteration {iteration} of {self.max_iter}: cost {2 * cost:.6g}")

        learned = ksvd(
            np.hstack([X, targets]),
            len(D),
            n_nonzero=self.n_nonzero,
            n_iter=self.max_iter,
            start=np.hstack([D, ridge(codes, targets, weight)]),
            random_state=rng,
            n_jobs=self.n_jobs,
            callback=follow,
        )
        self.costs_, self.n_iter_ = np.array(costs), len(costs)
        # New samples have no targets, so an atom without a part in the samples is of no use to them.
        norms = np.linalg.norm(learned[:, : X.shape[1]], axis=1, keepdims=True)
        learned = (learned / np.maximum(norms, 1e-6))[norms[:, 0] > 1e-6]
        return np.ascontiguousarray(learned[:, : X.shape[1]]), learned[:, X.shape[1] :]

    def _scores(self, X: Array) -> Array:
        codes = omp(X, self.dictionary_, self.n_nonzero, n_jobs=self.n_jobs)
        return np.asarray(codes @ self.classifier_)


@dataclass(eq=False, repr=False)
class DKSVD(StackedKSVD):
    """min ‖X − AD‖² + γ‖H − AW‖² with at most T nonzeros per code: dictionary and linear classifier in one K-SVD.

    H (n, c) marks the class of each sample. The problem is K-SVD of the rows [X, √γ H] over the atoms [D, √γ W]. It
    starts with a dictionary learned for each class and with W by ridge regression, W = (AᵀA + βI)⁻¹AᵀH. Afterwards each
    atom and its row of W are divided by the norm of the atom. A new sample is coded by orthogonal matching pursuit over
    D and gets the class of the largest entry of aW.

    Parameters
    ----------
    n_atoms : int, optional
        Number of atoms; by default ten for each class.
    n_nonzero : int, default=16
        T, the most nonzeros of a code.
    gamma : float, default=1.0
        γ, the weight of the labels. Samples have unit norm, and so have the rows of H.
    beta : float, default=1.0
        β, the ridge of the first W.
    max_iter : int, default=10
        Iterations of K-SVD.
    random_state : int or RandomState, optional
        For the first dictionary.
    n_jobs : int, optional
        Threads. The result does not depend on it.
    verbose : int, default=0
        Print the cost of each iteration.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Class labels.
    dictionary_ : array of shape (n_atoms, n_features)
        D, atoms of unit norm.
    classifier_ : array of shape (n_atoms, n_classes)
        W.
    costs_ : array of shape (n_iter,)
        The objective divided by the number of samples, after each iteration.
    n_iter_ : int
        Iterations.
    n_features_in_ : int
        Number of features.

    References
    ----------
    Q. Zhang, B. Li: Discriminative K-SVD for dictionary learning in face recognition. CVPR, 2010.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sparlow.classifiers import DKSVD
    >>> X, y = load_digits(return_X_y=True)
    >>> DKSVD(150, random_state=0).fit(X[:900], y[:900]).score(X[900:], y[900:]) > 0.85
    True

    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON,
        "n_nonzero": [Interval(Integral, 1, None, closed="left")],
        "gamma": [Interval(Real, 0, None, closed="neither")],
        "beta": [Interval(Real, 0, None, closed="neither")],
    }

    n_atoms: int | None = None
    _: KW_ONLY
    n_nonzero: int = 16
    gamma: float = 1.0
    beta: float = 1.0
    max_iter: int = 10
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    def _learn(self, X: Array, labels: Array) -> None:
        scale, H = X.dtype.type(np.sqrt(self.gamma)), one_hot(labels, len(self.classes_), X.dtype)
        self.dictionary_, part = self._stacked(X, labels, scale * H, self.beta)
        self.classifier_ = (part / scale).astype(X.dtype)


@dataclass(eq=False, repr=False)
class LCKSVD(StackedKSVD):
    """min ‖X − ΦD‖² + α‖Q − ΦA‖² + β‖H − ΦW‖², at most T nonzeros per code: codes alike within a class (LC-KSVD2).

    Q (n, r) marks the atoms of each sample's class, H (n, c) its class. It is K-SVD of the rows [X, √α Q, √β H], begun
    with a dictionary for each class and with A and W by ridge regression. All samples of a class have the same row of
    [√α Q, √β H], of norm √(α + β), and rows of different classes are orthogonal. So there is an isometry to the rows
    [X, √(α + β) H], over which the dictionary is learned: only the sum of the weights matters, as Kviatkovsky et al.
    show.

    A new sample gets the class of the largest entry of φW. This W is learned anew, by ridge regression on codes that do
    not know the labels, as those of new samples do not. The W of the joint problem, which the paper takes, is less
    accurate: on faces by 1 to 15 points, for weights α, β of 0.001 to 240.

    Parameters
    ----------
    n_atoms : int, optional
        By default ten for each class.
    n_nonzero : int, default=20
        T, the most nonzeros of a code.
    alpha, beta : float
        Weights of the two terms, relative to samples of unit norm; Q and H have rows of unit norm. Only their sum
        matters.
    max_iter : int, default=10
        Iterations of K-SVD.
    random_state : int or RandomState, optional
        For the first dictionary.
    n_jobs : int, optional
        Threads. The result does not depend on it.
    verbose : int, default=0
        Print the cost of each iteration.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Class labels.
    dictionary_ : array of shape (n_atoms, n_features)
        D.
    classifier_ : array of shape (n_atoms, n_classes)
        W.
    costs_ : array of shape (n_iter,)
        The objective divided by the number of samples, after each iteration.
    n_iter_ : int
        Iterations.
    n_features_in_ : int
        Number of features.

    References
    ----------
    Z. Jiang, Z. Lin, L. S. Davis: Label consistent K-SVD: learning a discriminative dictionary for recognition. IEEE
    Transactions on Pattern Analysis and Machine Intelligence 35(11), 2013.

    I. Kviatkovsky, M. Gabel, E. Rivlin, I. Shimshoni: On the equivalence of the LC-KSVD and the D-KSVD algorithms. IEEE
    Transactions on Pattern Analysis and Machine Intelligence 39(2), 2017.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sparlow.classifiers import LCKSVD
    >>> X, y = load_digits(return_X_y=True)
    >>> LCKSVD(max_iter=3, random_state=0).fit(X[:900], y[:900]).score(X[900:], y[900:]) > 0.85
    True

    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON,
        "n_nonzero": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "beta": [Interval(Real, 0, None, closed="left")],
    }

    n_atoms: int | None = None
    _: KW_ONLY
    n_nonzero: int = 20
    alpha: float = 0.1
    beta: float = 0.1
    max_iter: int = 10
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    def _learn(self, X: Array, labels: Array) -> None:
        scale, H = X.dtype.type(np.sqrt(self.alpha + self.beta)), one_hot(labels, len(self.classes_), X.dtype)
        self.dictionary_, _ = self._stacked(X, labels, scale * H, 1.0)
        self.classifier_ = ridge(omp(X, self.dictionary_, self.n_nonzero, n_jobs=self.n_jobs), H, 1.0)
