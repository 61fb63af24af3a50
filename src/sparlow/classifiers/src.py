"""Classification by sparse representation (Wright, Yang, Ganesh, Sastry and Ma 2009)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Tags, check_random_state
from sklearn.utils._param_validation import Interval

from ..checks import Array
from ..coding import encode
from ..dictionaries import class_union, samples
from ..priors import ElasticNet
from .base import COMMON, DictionaryClassifier


@dataclass(eq=False, repr=False)
class SRC(DictionaryClassifier):
    """min over classes c of ‖x − φ_c D_c‖: the class whose samples rebuild x best (sparse representation).

    Atoms are training samples scaled to unit norm. φ is the sparse code of x over the atoms of all classes,
    argmin ½‖x − φD‖² + l1‖φ‖₁ + l2‖φ‖², and φ_c its part over the atoms of class c. Nothing is learned.

    Parameters
    ----------
    n_atoms : int, optional
        So many random samples, the same number of each class; all by default.
    l1, l2 : float
        The elastic net of the codes.
    random_state : int or RandomState, optional
        Which samples.
    n_jobs : int, optional
        Threads. The result does not depend on it.
    verbose : int, default=0
        Print the number of atoms.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Class labels.
    dictionary_ : array of shape (n_atoms, n_features)
        Atoms.
    atom_classes_ : array of shape (n_atoms,)
        Their classes.
    n_features_in_ : int
        Number of features.

    References
    ----------
    J. Wright, A. Y. Yang, A. Ganesh, S. S. Sastry, Y. Ma: Robust face recognition via sparse representation. IEEE
    Transactions on Pattern Analysis and Machine Intelligence 31(2), 2009.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sparlow.classifiers import SRC
    >>> X, y = load_digits(return_X_y=True)
    >>> SRC(random_state=0).fit(X[:900], y[:900]).score(X[900:], y[900:]) > 0.94
    True

    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON,
        "l1": [Interval(Real, 0, None, closed="left")],
        "l2": [Interval(Real, 0, None, closed="left")],
    }

    n_atoms: int | None = None
    _: KW_ONLY
    l1: float = 0.01
    l2: float = 1e-3
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    def _learn(self, X: Array, labels: Array) -> None:
        if self.n_atoms is None:
            used = X.any(axis=1)  # zeros have no direction
            D, places = X[used], labels[used]
        else:
            rng = check_random_state(self.random_state)
            D, places = class_union(X, labels, self.n_atoms, samples, random_state=rng)
        self.dictionary_, self.atom_classes_ = D, self.classes_[places]
        self._say(f"{len(D)} atoms")

    def residuals(self, X: Any) -> Array:
        """Return ‖x − φ_c D_c‖ for each class, of samples scaled to unit norm.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        residuals : array of shape (n_samples, n_classes)

        """
        return -self._scores(self._new_samples(X))

    def _scores(self, X: Array) -> Array:
        codes = encode(X, self.dictionary_, ElasticNet(self.l1, self.l2), n_jobs=self.n_jobs)
        return -class_residuals(X, codes, self.dictionary_, self.atom_classes_, self.classes_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # two features: the atoms of any class span the plane
        return tags


def class_residuals(X: Array, codes: sp.csr_array, D: Array, atom_classes: Array, classes: Array) -> Array:
    """Return ‖x − φ_c D_c‖ (n, c), φ_c the codes over the atoms of class c."""
    columns = codes.tocsc()
    blocks = [atom_classes == label for label in classes]
    return np.stack([np.linalg.norm(X - columns[:, own] @ D[own], axis=1) for own in blocks], axis=1)
