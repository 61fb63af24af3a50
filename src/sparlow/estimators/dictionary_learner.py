"""Sparse codes with a dictionary learned from the samples."""

from __future__ import annotations

import copy
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from ..checks import FLOATS, Array, check_array, validate_data
from ..coding import encode
from ..defaults import default_n_atoms, default_prior
from ..dictionaries import LEARNERS, begin_online, check_samples, continue_online, distinct_rows, learn_dictionary
from ..labels import is_labelled, refuse_mixture
from ..priors import Prior
from .base import NestedParameters, all_or_nothing


def _streams(model: Any) -> bool:
    """Return whether the learner can learn from a stream; the error says why not."""
    if model.method in ("online", "odl") and not model.class_wise:
        return True
    raise AttributeError(
        f'partial_fit is for method="online" without class_wise, got method={model.method!r}, '
        f"class_wise={model.class_wise}: the others look at all samples at once."
    )


@dataclass(eq=False, repr=False)
class DictionaryLearner(ClassNamePrefixFeaturesOutMixin, TransformerMixin, NestedParameters):
    """Learn atoms D of unit norm such that X ≈ ΦD with sparse codes Φ, then transform samples to their codes.

    Codes are φ(x) = argmin over φ of ½‖x − φD‖² + Σⱼ g(φⱼ), with the prior g.

    Parameters
    ----------
    n_atoms : int, optional
        Number of atoms. By default one per two samples, at least 100 and ten per class if class-wise, at most 1000 and
        the samples of distinct direction.
    method : {"ksvd", "online", "odl", "rls", "samples"}, default="ksvd"
        The learner, see :mod:`sparlow.dictionaries`; "odl" is another name of "online".
    prior : Prior, optional
        What codes cost. By default an elastic net that follows the spread and the scale of the samples; it is kept in
        ``prior_``. Used in ``transform``. Only "online" and "rls" also learn with it; "ksvd" takes its sign constraint.
    n_nonzero : int, optional
        For "ksvd": the most nonzero codes per sample while learning.
    max_iter : int, optional
        Passes over the samples; 10 by default, to which "ksvd" adds two of the online method.
    class_wise : bool, default=False
        Learn atoms for each class of ``y`` by themselves. Samples of label −1 are unlabelled and left out.
    random_state : int or RandomState, optional
        Which samples to start from, and their order.
    n_jobs : int, optional
        Threads. Results do not depend on it.
    verbose : int, default=0
        Print the cost of each pass where positive.

    Attributes
    ----------
    dictionary_ : array of shape (n_atoms, n_features)
        Atoms; ``components_`` is the same array.
    prior_ : Prior
        The prior of the codes.
    n_iter_ : int
        Passes made over the samples, of the class that needed most if class-wise.
    atom_classes_ : array of shape (n_atoms,)
        The class of each atom, if class-wise.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : array of shape (n_features,)
        Their names, if X has column names.

    Notes
    -----
    Codes are sparse, so ``set_output(transform="pandas")`` is refused by scikit-learn with an error that says so.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sparlow import DictionaryLearner
    >>> from sparlow.priors import ElasticNet
    >>> X, _ = load_digits(return_X_y=True)
    >>> learner = DictionaryLearner(n_atoms=100, prior=ElasticNet(5.0), random_state=0).fit(X)
    >>> codes = learner.transform(X)
    >>> codes.shape
    (1797, 100)
    >>> float(abs(X - learner.inverse_transform(codes)).mean().round(1))
    1.1

    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_atoms": [Interval(Integral, 1, None, closed="left"), None],
        "method": [StrOptions(set(LEARNERS))],
        "prior": [Prior, None],
        "n_nonzero": [Interval(Integral, 1, None, closed="left"), None],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "class_wise": ["boolean"],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    n_atoms: int | None = None
    method: str = "ksvd"
    prior: Prior | None = None
    _: KW_ONLY
    n_nonzero: int | None = None
    max_iter: int | None = None
    class_wise: bool = False
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> DictionaryLearner:
        """Learn the dictionary.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Samples.
        y : array of shape (n_samples,), optional
            Their classes, needed if ``class_wise``.

        Returns
        -------
        self : DictionaryLearner

        """
        with all_or_nothing(self):
            self._fit(X, y)
        return self

    def _fit(self, X: Any, y: Any) -> None:
        """Learn the dictionary from checked samples."""
        labels = y if self.class_wise else "no_validation"
        refuse_mixture(labels)
        checked = validate_data(self, X, labels, accept_sparse="csr", dtype=FLOATS, order="C")
        X, y = checked if self.class_wise else (checked, None)
        X = check_samples(X)
        if y is not None:
            check_classification_targets(y[is_labelled(y)])
        self.prior_ = default_prior(X) if self.prior is None else self.prior
        self.n_iter_ = 1
        self.__dict__.pop("_memory", None)
        n_atoms = self._default_n_atoms(X, y) if self.n_atoms is None else self.n_atoms
        D, classes = learn_dictionary(
            self.method, X, n_atoms, y, random_state=self.random_state, n_jobs=self.n_jobs, prior=self.prior_,
            n_nonzero=self.n_nonzero, n_iter=self.max_iter, callback=self._report,
        )  # fmt: skip
        self.dictionary_ = self.components_ = D
        self.__dict__.pop("atom_classes_", None)
        if classes is not None:
            self.atom_classes_ = classes

    @available_if(_streams)
    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any = None) -> DictionaryLearner:
        """Learn from one batch of a stream, by the online method.

        The first batch gives the first atoms, so it must have as many samples of distinct direction as there are atoms,
        and the prior where none is given.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Samples.
        y : None
            Ignored.

        Returns
        -------
        self : DictionaryLearner

        """
        with all_or_nothing(self):
            first = "_memory" not in vars(self)
            X = check_samples(validate_data(self, X, accept_sparse="csr", dtype=FLOATS, order="C", reset=first))
            if first:
                self.prior_ = default_prior(X) if self.prior is None else self.prior
                n_atoms = self._default_n_atoms(X, None) if self.n_atoms is None else self.n_atoms
                D, memory = begin_online(X, n_atoms, self.random_state)
            else:
                D, memory = self.dictionary_.astype(float), copy.deepcopy(self.__dict__["_memory"])
            self.dictionary_ = self.components_ = continue_online(D, memory, X, self.prior_, self.n_jobs)
            self._memory = memory
            self.n_iter_ = 1
        return self

    def transform(self, X: Any) -> sp.csr_array:
        """Return the sparse codes of samples.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        codes : csr_array of shape (n_samples, n_atoms)

        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, order="C", reset=False)
        return encode(X, self.dictionary_, self.prior_, n_jobs=self.n_jobs)

    def inverse_transform(self, codes: Any) -> Array:
        """Return the samples that codes stand for, ΦD.

        Parameters
        ----------
        codes : array or sparse matrix of shape (n_samples, n_atoms)
            Codes.

        Returns
        -------
        X : array of shape (n_samples, n_features)

        """
        check_is_fitted(self)
        codes = check_array(codes, accept_sparse="csr", dtype=FLOATS, input_name="codes")
        if codes.shape[1] != len(self.dictionary_):
            raise ValueError(
                f"codes have {codes.shape[1]} columns, but the dictionary has {len(self.dictionary_)} atoms."
            )
        return np.asarray(codes @ self.dictionary_.astype(codes.dtype, copy=False))

    def _default_n_atoms(self, X: Any, y: Array | None) -> int:
        """Return the number of atoms of a dictionary learned from samples, class by class with labels."""
        if y is None:
            return default_n_atoms(X.shape[0], len(distinct_rows(X)))
        known = is_labelled(y)
        classes = np.unique(y[known])
        distinct = sum(len(distinct_rows(X[y == label])) for label in classes)
        return max(default_n_atoms(int(known.sum()), distinct, len(classes)), len(classes), 1)

    def _report(self, iteration: int, dictionary: Array, cost: float) -> None:
        """Print how far learning of the dictionary is."""
        self.n_iter_ = max(self.n_iter_, iteration)
        if self.verbose:
            print(f"[DictionaryLearner] {self.method}, pass {iteration}: cost {cost:.6g}")

    @property
    def _n_features_out(self) -> int:
        """Return the number of atoms, for names of output columns."""
        return len(self.dictionary_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = bool(self.class_wise)
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
