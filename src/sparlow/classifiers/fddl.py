"""Fisher discrimination dictionary learning (Yang, Zhang, Feng and Zhang 2014)."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import Tags, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from ..checks import Array
from ..coding import encode, objective
from ..priors import ElasticNet
from .base import COMMON, DictionaryClassifier, atoms_for, class_means, first_dictionary
from .src import class_residuals


@dataclass(frozen=True)
class Fisher:
    """The objective of FDDL for samples X (n, m) of classes ``labels`` (n,), and atoms of classes ``places`` (r,)."""

    X: Array
    labels: Array
    places: Array
    lambda1: float
    lambda2: float

    @property
    def own(self) -> Array:
        """Which atoms are of the class of each sample (n, r)."""
        return self.labels[:, None] == self.places

    @property
    def blocks(self) -> list[Array]:
        """The atoms of each class."""
        return [np.flatnonzero(self.places == c) for c in range(self.places.max() + 1)]

    def _curvature(self, D: Array) -> Array:
        """Return the Hessian of the residual terms, G + blockdiag(G) with G = DDᵀ."""
        same = self.places[:, None] == self.places
        G = D @ D.T
        return G + same * G

    def updated_codes(self, D: Array, codes: Array, steps: int = 15) -> Array:
        """Return the codes of all samples after some accelerated proximal gradients."""
        X, labels, K = self.X, self.labels, self._curvature(D)
        rate = 1 / (_largest_eigenvalue(K) + 2 * self.lambda2)
        # A gradient step is linear in the codes: of ½(tr S_W − tr S_B + ‖Φ‖²) the gradient is
        # (φ − m_c) − (m_c − m) + φ = 2φ − 2m_c + m.
        step = np.eye(len(K), dtype=X.dtype) * X.dtype.type(1 - 2 * rate * self.lambda2) - rate * K
        towards = rate * (1 + self.own.astype(X.dtype)) * (X @ D.T)
        threshold = rate * self.lambda1
        ahead, momentum = codes, 1.0
        for _ in range(steps):
            means = rate * self.lambda2 * (2 * class_means(ahead, labels) - ahead.mean(axis=0))
            moved = ahead @ step
            moved += towards
            moved += means[labels]
            moved -= np.clip(moved, -threshold, threshold)
            following = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
            ahead = moved - codes
            ahead *= (momentum - 1) / following
            ahead += moved
            codes, momentum = moved, following
        return codes

    def updated_atoms(self, D: Array, codes: Array) -> Array:
        """Return the atoms, each in turn its best unit vector while all else is fixed."""
        D = D.copy()
        residual = self.X - codes @ D
        for c, block in enumerate(self.blocks):
            Phi, members = codes[:, block], self.labels == c
            residual += Phi @ D[block]
            A = 2 * (Phi.T @ Phi)
            B = Phi.T @ residual + Phi[members].T @ self.X[members]
            for place, atom in enumerate(block):
                towards = B[place] - A[place] @ D[block] + A[place, place] * D[atom]
                norm = np.linalg.norm(towards)
                if norm > 0:
                    D[atom] = towards / norm
            residual -= Phi @ D[block]
        return D

    def cost(self, D: Array, codes: Array) -> float:
        """Return the objective of FDDL: fidelity, sparsity and Fisher terms."""
        X, mine = self.X, codes * self.own
        within = np.sum((X - mine @ D) ** 2)
        foreign = codes - mine
        others = sum(np.sum((foreign[:, block] @ D[block]) ** 2) for block in self.blocks)
        means = class_means(codes, self.labels)[self.labels]
        scatter = np.sum((codes - means) ** 2) - np.sum((means - codes.mean(axis=0)) ** 2) + np.sum(codes**2)
        plain = np.sum((X - codes @ D) ** 2) + within + others + self.lambda2 * scatter
        return float(0.5 * plain + self.lambda1 * np.abs(codes).sum())


@dataclass(eq=False, repr=False)
class FDDL(DictionaryClassifier):
    """Classify by Fisher discrimination dictionary learning.

    Dictionary and codes minimise::

        R(D, Φ) + λ₁‖Φ‖₁ + (λ₂/2)(tr S_W − tr S_B + ‖Φ‖²),
        R(D, Φ) = ½‖X − ΦD‖² + ½ Σ over samples of class c ( ‖x − φ_c D_c‖² + Σ over j ≠ c of ‖φ_j D_j‖² )

    φ_j is the code over the atoms D_j of class j; S_W and S_B are the scatter of the codes within and between classes.
    Atoms of a class rebuild its samples and no others. Codes are updated by accelerated proximal gradients, then atoms
    one after the other.

    A new sample is coded by the lasso over all atoms and goes to the class of the smallest
    ‖x − φ_c D_c‖² + w ‖φ − m_c‖², m_c the mean code of the class: the paper's global classifier. The local one codes
    it over the atoms of each class alone and takes the smallest ½‖x − φD_c‖² + λ₁‖φ‖₁; it suits classes of many
    samples.

    Parameters
    ----------
    n_atoms : int, optional
        By default ten for each class.
    lambda1, lambda2 : float
        λ₁ and λ₂. Samples have unit norm.
    w : float, default=0.5
        w.
    scheme : {"global", "local"}, default="global"
        The classifier.
    max_iter : int, default=5
        Updates of codes and atoms in turn.
    random_state : int or RandomState, optional
        For the first dictionary, by K-SVD of each class.
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
    atom_classes_ : array of shape (n_atoms,)
        The class of each atom.
    mean_codes_ : array of shape (n_classes, n_atoms)
        m_c.
    costs_ : array of shape (n_iter,)
        The objective after each iteration; it never rises.
    n_iter_ : int
        Iterations.
    n_features_in_ : int
        Number of features.

    References
    ----------
    M. Yang, L. Zhang, X. Feng, D. Zhang: Sparse representation based Fisher discrimination dictionary learning for
    image classification. International Journal of Computer Vision 109(3), 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sparlow.classifiers import FDDL
    >>> X, y = load_digits(return_X_y=True)
    >>> FDDL(max_iter=2, random_state=0).fit(X[:900], y[:900]).score(X[900:], y[900:]) > 0.85
    True

    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON,
        "lambda1": [Interval(Real, 0, None, closed="left")],
        "lambda2": [Interval(Real, 0, None, closed="left")],
        "w": [Interval(Real, 0, None, closed="left")],
        "scheme": [StrOptions({"global", "local"})],
    }

    n_atoms: int | None = None
    _: KW_ONLY
    lambda1: float = 0.005
    lambda2: float = 0.01
    w: float = 0.5
    scheme: str = "global"
    max_iter: int = 5
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    def _learn(self, X: Array, labels: Array) -> None:
        rng = check_random_state(self.random_state)
        n_atoms = atoms_for(self.n_atoms, X, labels)
        D, places = first_dictionary(X, labels, n_atoms, rng, self.n_jobs)
        self.atom_classes_ = self.classes_[places]
        problem = Fisher(X, labels, places, self.lambda1, self.lambda2)
        codes = np.zeros((len(X), n_atoms), X.dtype)
        costs: list[float] = []
        for iteration in range(self.max_iter):
            codes = problem.updated_codes(D, codes)
            D = problem.updated_atoms(D, codes)
            costs.append(problem.cost(D, codes))
            self._say(f"iteration {iteration + 1} of {self.max_iter}: cost {costs[-1]:.6g}")
        self.dictionary_, self.costs_, self.n_iter_ = D, np.array(costs), len(costs)
        self.mean_codes_ = class_means(codes, labels)

    def _scores(self, X: Array) -> Array:
        prior = ElasticNet(self.lambda1, 1e-3)
        if self.scheme == "local":
            blocks = [self.dictionary_[self.atom_classes_ == label] for label in self.classes_]
            costs = [objective(X, D, prior, encode(X, D, prior, n_jobs=self.n_jobs)) for D in blocks]
            return -np.stack(costs, axis=1).astype(X.dtype)
        codes = encode(X, self.dictionary_, prior, n_jobs=self.n_jobs)
        M = self.mean_codes_
        away = np.sum(M**2, axis=1) - 2 * (codes @ M.T)  # ‖φ − m_c‖² less ‖φ‖², which all classes share
        residuals = class_residuals(X, codes, self.dictionary_, self.atom_classes_, self.classes_)
        return np.asarray(-(residuals**2) - self.w * away)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # two features: the atoms of any class span the plane
        return tags


def _largest_eigenvalue(K: Array) -> float:
    """Return the largest eigenvalue by power iteration, with a margin for what is missing to convergence."""
    v = np.ones(len(K), K.dtype)
    for _ in range(50):
        v = K @ v
        v /= np.linalg.norm(v)
    return 1.05 * float(v @ K @ v)
