"""Discriminative K-SVD (Zhang and Li 2010)."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval

from ..parallel import one_blas_thread
from .base import atoms_for, first_dictionary, one_hot
from .stacked import StackedKSVD


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
        "n_atoms": [Interval(Integral, 1, None, closed="left"), None],
        "n_nonzero": [Interval(Integral, 1, None, closed="left")],
        "gamma": [Interval(Real, 0, None, closed="neither")],
        "beta": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_atoms: int | None = None,
        *,
        n_nonzero: int = 16,
        gamma: float = 1.0,
        beta: float = 1.0,
        max_iter: int = 10,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_atoms = n_atoms
        self.n_nonzero = n_nonzero
        self.gamma = gamma
        self.beta = beta
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    @one_blas_thread()
    def fit(self, X: Any, y: Any) -> DKSVD:
        """Learn dictionary and classifier.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples, which are scaled to unit norm.
        y : array of shape (n_samples,)
            Labels.

        Returns
        -------
        self : DKSVD

        """
        X, labels = self._training_samples(X, y)
        rng = check_random_state(self.random_state)
        n_atoms = atoms_for(self.n_atoms, X, labels)
        D, _ = first_dictionary(X, labels, n_atoms, rng, self.n_jobs)
        scale = np.sqrt(self.gamma)
        targets = scale * one_hot(labels, len(self.classes_), X.dtype)
        self.dictionary_, part = self._learn(X, targets.astype(X.dtype), D, self.beta, rng)
        self.classifier_ = (part / scale).astype(X.dtype)
        return self
