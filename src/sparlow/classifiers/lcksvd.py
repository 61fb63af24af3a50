"""Label-consistent K-SVD (Jiang, Lin and Davis 2013)."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval

from ..dictionaries import omp
from ..parallel import one_blas_thread
from .base import atoms_for, first_dictionary, one_hot, ridge
from .stacked import StackedKSVD


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
        "n_atoms": [Interval(Integral, 1, None, closed="left"), None],
        "n_nonzero": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "beta": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_atoms: int | None = None,
        *,
        n_nonzero: int = 20,
        alpha: float = 0.1,
        beta: float = 0.1,
        max_iter: int = 10,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_atoms = n_atoms
        self.n_nonzero = n_nonzero
        self.alpha = alpha
        self.beta = beta
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    @one_blas_thread()
    def fit(self, X: Any, y: Any) -> LCKSVD:
        """Learn dictionary and classifier.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples, which are scaled to unit norm.
        y : array of shape (n_samples,)
            Labels.

        Returns
        -------
        self : LCKSVD

        """
        X, labels = self._training_samples(X, y)
        rng = check_random_state(self.random_state)
        n_atoms = atoms_for(self.n_atoms, X, labels)
        D, _ = first_dictionary(X, labels, n_atoms, rng, self.n_jobs)
        H = one_hot(labels, len(self.classes_), X.dtype)
        self.dictionary_, _ = self._learn(X, X.dtype.type(np.sqrt(self.alpha + self.beta)) * H, D, 1.0, rng)
        self.classifier_ = ridge(omp(X, self.dictionary_, self.n_nonzero, n_jobs=self.n_jobs), H, 1.0)
        return self
