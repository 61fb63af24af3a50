"""Fisher discrimination dictionary learning (Yang, Zhang, Feng and Zhang 2014)."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.preprocessing import normalize
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from ..coding import encode
from ..dictionaries import class_union, ksvd
from ..priors import ElasticNet
from .src import class_residuals

Array = NDArray[Any]


class FDDL(ClassifierMixin, BaseEstimator):
    """Atoms of each class that rebuild its samples and no others, with codes of small scatter within classes.

        min ½‖X − ΦD‖² + ½ Σ over samples of class c ( ‖x − φ_c D_c‖² + Σ over j ≠ c of ‖φ_j D_j‖² )
            + λ₁‖Φ‖₁ + (λ₂/2) ( tr S_W − tr S_B + ‖Φ‖² ),

    φ_j the codes over the atoms D_j of class j, S_W and S_B the scatter of the codes within and between classes. Codes
    by accelerated proximal gradients and atoms one after the other take turns. A new sample is coded by the lasso and
    goes to the class of the smallest ‖x − φ_c D_c‖² + w ‖φ − m_c‖², m_c the mean code of the class.

    Parameters
    ----------
    n_atoms : int, optional
        By default ten for each class.
    l1, fisher : float
        λ₁ and λ₂.
    weight : float, default=0.5
        w.
    max_iter : int, default=5
        Turns.
    random_state : int or RandomState, optional
        For the first dictionary, by K-SVD of each class.
    n_jobs : int, optional
        Threads.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Class labels.
    dictionary_ : array of shape (n_atoms, n_features)
        D.
    atom_classes_ : array of shape (n_atoms,)
        The class of each atom.
    mean_codes_ : array of shape (n_classes, n_atoms)
        m_c.
    costs_ : array of shape (max_iter,)
        The cost after each turn; it never rises.
    n_features_in_ : int
        Number of features.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sparlow.classifiers import FDDL
    >>> X, y = load_digits(return_X_y=True)
    >>> FDDL(max_iter=2, random_state=0).fit(X[:900], y[:900]).score(X[900:], y[900:]) > 0.85
    True

    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_atoms": [Interval(Integral, 1, None, closed="left"), None],
        "l1": [Interval(Real, 0, None, closed="left")],
        "fisher": [Interval(Real, 0, None, closed="left")],
        "weight": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        n_atoms: int | None = None,
        *,
        l1: float = 0.005,
        fisher: float = 0.01,
        weight: float = 0.5,
        max_iter: int = 5,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_atoms = n_atoms
        self.l1 = l1
        self.fisher = fisher
        self.weight = weight
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> FDDL:
        """Learn the dictionary.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples, which are scaled to unit norm.
        y : array of shape (n_samples,)
            Labels.

        Returns
        -------
        self : FDDL

        """
        X, y = validate_data(self, X, y, dtype=float)
        X, rng = normalize(X), check_random_state(self.random_state)
        self.classes_, labels = np.unique(y, return_inverse=True)
        n_atoms = 10 * len(self.classes_) if self.n_atoms is None else self.n_atoms
        D, self.atom_classes_ = class_union(X, y, n_atoms, ksvd, random_state=rng, n_jobs=self.n_jobs)
        own = y[:, None] == self.atom_classes_
        codes = np.zeros((len(X), n_atoms))
        costs = []
        for _ in range(self.max_iter):
            codes = self._coded(X, D, codes, own, labels)
            D = self._atoms(X, D, codes, own)
            costs.append(self._cost(X, D, codes, own, labels))
        self.dictionary_, self.costs_ = D, np.array(costs)
        self.mean_codes_ = _means(codes, labels)
        return self

    def _curvature(self, D: Array) -> Array:
        """The Hessian of the residual terms, G + blockdiag(G) with G = DDᵀ."""
        same = self.atom_classes_[:, None] == self.atom_classes_
        G = D @ D.T
        return G + same * G

    def _coded(self, X: Array, D: Array, codes: Array, own: Array, labels: Array, steps: int = 15) -> Array:
        """Accelerated proximal gradients for the codes of all samples."""
        K = self._curvature(D)
        linear = (1 + own) * (X @ D.T)
        rate = 1 / (_largest_eigenvalue(K) + 2 * self.fisher)
        ahead, momentum = codes, 1.0
        for _ in range(steps):
            means = _means(ahead, labels)[labels]
            # of ½(tr S_W − tr S_B + ‖Φ‖²): (φ − m_c) − (m_c − m) + φ
            fisher = 2 * ahead - 2 * means + ahead.mean(axis=0)
            moved = ahead - rate * (ahead @ K - linear + self.fisher * fisher)
            new = np.sign(moved) * np.maximum(np.abs(moved) - rate * self.l1, 0)
            following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
            ahead = new + ((momentum - 1) / following) * (new - codes)
            codes, momentum = new, following
        return codes

    def _atoms(self, X: Array, D: Array, codes: Array, own: Array) -> Array:
        """Each atom in turn: its best unit vector, all else fixed."""
        D = D.copy()
        residual = X - codes @ D
        for label in self.classes_:
            block = np.flatnonzero(self.atom_classes_ == label)
            Phi, members = codes[:, block], own[:, block[0]]
            residual += Phi @ D[block]
            A = 2 * (Phi.T @ Phi)
            B = Phi.T @ residual + Phi[members].T @ X[members]
            for place, atom in enumerate(block):
                towards = B[place] - A[place] @ D[block] + A[place, place] * D[atom]
                norm = np.linalg.norm(towards)
                if norm > 0:
                    D[atom] = towards / norm
            residual -= Phi @ D[block]
        return D

    def _cost(self, X: Array, D: Array, codes: Array, own: Array, labels: Array) -> float:
        mine = codes * own
        within = np.sum((X - mine @ D) ** 2)
        foreign = codes - mine
        blocks = [self.atom_classes_ == label for label in self.classes_]
        others = sum(np.sum((foreign[:, block] @ D[block]) ** 2) for block in blocks)
        means = _means(codes, labels)[labels]
        scatter = np.sum((codes - means) ** 2) - np.sum((means - codes.mean(axis=0)) ** 2) + np.sum(codes**2)
        plain = np.sum((X - codes @ D) ** 2) + within + others + self.fisher * scatter
        return float(0.5 * plain + self.l1 * np.abs(codes).sum())

    def predict(self, X: Any) -> Array:
        """The class of the smallest ‖x − φ_c D_c‖² + w ‖φ − m_c‖².

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        y : array of shape (n_samples,)

        """
        check_is_fitted(self)
        X = normalize(validate_data(self, X, dtype=float, reset=False))
        codes = encode(X, self.dictionary_, ElasticNet(self.l1, 1e-3), n_jobs=self.n_jobs)
        M = self.mean_codes_
        away = np.sum(M**2, axis=1) - 2 * (codes @ M.T)  # ‖φ − m_c‖² less ‖φ‖², which all classes share
        distances = class_residuals(X, codes, self.dictionary_, self.atom_classes_) ** 2 + self.weight * away
        return self.classes_[np.argmin(distances, axis=1)]


def _means(codes: Array, labels: Array) -> Array:
    """Mean code of each class."""
    members = (labels == np.arange(labels.max() + 1)[:, None]).astype(float)
    return (members @ codes) / members.sum(axis=1, keepdims=True)


def _largest_eigenvalue(K: Array) -> float:
    """By power iteration, with a margin for what is missing to convergence."""
    v = np.ones(len(K))
    for _ in range(50):
        v = K @ v
        v /= np.linalg.norm(v)
    return 1.05 * float(v @ K @ v)
