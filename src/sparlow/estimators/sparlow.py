"""SparLow: dictionary and projection learned together."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import _fit_context
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import estimator_html_repr
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..checks import FLOATS, Array, check_array, new_samples, validate_data, warn
from ..coding import Coder
from ..copies import Copies
from ..criteria import CRITERIA, Criterion, criterion_named
from ..dictionaries import LEARNERS
from ..embedding import Served
from ..labels import labels_of_batch
from ..parallel import Finishing, one_blas_thread
from ..priors import Prior
from ..rows import Codes, Local, Samples, code, is_dask, streams
from ..solvers import SOLVERS, EarlyStopping, Solver
from ..views import Bound, Views, views_named
from .base import Projector, all_or_nothing, by_blocks, check_attributes, in_parts, refuse_stacks, table_of_numbers
from .fitting import Beside, Scaling, begun_with, fit_model
from .streaming import all_so_far, can_stream, with_batch


class SparLow(CallbackSupportMixin, Projector):
    """Learn low-dimensional representations: sparse codes and a projection of them, learned together.

    A sample x has the sparse code φ(x) = argmin ½‖x − φD‖² + Σ g(φⱼ) and the embedding φ(x)U. Dictionary D and
    projection U maximise::

        J(D, U) = f(D, U) − |f₀| (μ₁ g_c(D) + μ₂ g_d(D)),   f = tr(UᵀAU)/tr(UᵀBU),

    where A and B come from the criterion, g_c is the mean coherence of the atoms and g_d their mean squared distance
    from the first dictionary.

    Parameters
    ----------
    criterion : str or Criterion, default="lda"
        "pca", "lle", "lap" (no labels), "lda", "mfa", "mvr" (labels), "sda", "slap" or "smfa", "smvr" (−1 marks
        unlabelled samples), or an object with parameters such as ``sparlow.criteria.MFA(k_within=5)``.
    n_components : int, optional
        Dimension l of the embedding. By default classes − 1 where there are classes, the number of independent targets
        for mvr and smvr, and at most 48 for the others, no more than a sample has features. Where more columns are
        better on held-out samples by a point and more than chance, there are up to 48 for classes, too.
    n_atoms : int, optional
        Number of atoms r; by default chosen from the data.
    prior : Prior, optional
        What codes cost, for instance ``sparlow.priors.ElasticNet(0.1)``; by default an elastic net whose weights are
        chosen from the data.
    views : "patches" or Views, optional
        Views of each sample whose codes are pooled: "patches" or ``sparlow.views.Patches()`` for local codes of images,
        ``sparlow.views.Shifts(1)`` for copies moved by a pixel.
    dictionary : str or array of shape (n_atoms, n_features), default="auto"
        The first dictionary: a learner ("ksvd", "online", "rls", "samples"), class by class where there are
        at least as many labels as atoms, or atoms of your own. "auto" is "ksvd", and "online" for patches.
    max_iter : int, default=10
        Passes of stochastic steps, or steps of the ascent. 0 gives the sequential method: the best projection for the
        first dictionary.
    solver : str or Solver, default="auto"
        How steps are made: "stochastic" moves D by mini-batches against a projection of running sums, "eliminate" takes
        the best U for each D and moves D by conjugate gradients of all samples, "joint" moves both, the ascent of the
        paper. "auto" is "stochastic" for criteria with labels unless the embedding is orthonormal, and "eliminate"
        elsewhere. A ``sparlow.solvers.Solver`` has further settings, the weights μ₁ and μ₂ of the ascent among them.
    copies : Copies or callable, optional
        What a sample may look like without becoming something else: stochastic steps learn from copies drawn anew for
        each batch. ``sparlow.Copies(shift=1)`` moves pictures by a pixel; a function of your own gets ``(X, rng)``.
    early_stopping : "auto", bool or EarlyStopping, default="auto"
        Hold out a part of the samples, and drop the steps where these are no better after them. "auto" does so where
        there are labels. With patches "auto" makes no step.
    embedding : {"auto", "whitened", "quadratic", "orthonormal"}, default="auto"
        "whitened": W maximises the ratio trace tr((WᵀBW)⁻¹WᵀAW) for the features [φ(x), x], with a ridge for each part
        that is chosen on held-out samples, and with further columns where these help. "quadratic", for lda:
        discriminant analysis of all products of two features. "orthonormal": UᵀU = I, for the codes alone. "auto"
        is "whitened" or "quadratic", whichever is better on held-out samples, for lda with patches, and "whitened"
        elsewhere. Criteria without labels have an orthonormal U for the features [φ(x), γx] instead.
    normalize : "auto" or bool, default="auto"
        Scale samples to unit norm first. "auto" standardises the columns instead, where few of them hold nearly all of
        the variance, as in tables of unlike units, where they come standardised, or where norms tell classes apart.
    warm_start : bool, default=False
        Start from the dictionary of the last fit.
    verbose : int, default=0
        Print a line per step. Callbacks of scikit-learn (``set_callbacks``) can follow the fit, too.
    random_state : int or RandomState, optional
        First dictionary and held-out part.
    n_jobs : int, optional
        Threads. The model does not depend on it, to the last bit.

    Attributes
    ----------
    dictionary_ : array of shape (n_atoms, n_features)
        D, atoms of unit norm.
    projection_ : array of shape (n_features_out, n_components)
        W, or U rotated so that UᵀAU is diagonal and descending; best columns first, signs fixed. It has a row for each
        atom, or for each cell, sign and atom of patches; below these one for each feature where samples stand beside
        their codes.
    column_means_, column_scales_ : array of shape (n_features,) or None
        What is subtracted from the columns, and what they are divided by, where they are standardised.
    forms_ : array of shape (n_components, p, p) or None
        For the quadratic embedding: the forms M of the features projected to p leading directions, ``projection_``.
    weights_ : (float, float)
        α and γ of the features [αφ(x), γx]; zero for a part that is left out.
    components_ : array of shape (n_components, n_features)
        The factor images: what a unit of each component adds to the mean image. With patches, the projection's columns.
    prior_ : Prior
        The prior in use.
    criterion_ : Criterion
        The criterion in use.
    embedding_ : array of shape (n_samples, n_components)
        Embedding of the training samples.
    history_ : dict of arrays
        One entry for the start and one for each step: cost J (of the balanced criterion, scaled so as to go on from
        its value at each reweighting), quotient f (as the criterion is written, not balanced), coherence, proximity,
        step, gradient_norm, nonzeros, seconds, evaluations, restarted, step_number. For stochastic passes cost and
        quotient are the share of the targets that the projection explains in batches which it does not know yet.
    held_out_ : dict
        The scores on held-out samples at the "start" and at the "end" of the steps, where these were tried.
    n_iter_, best_iter_ : int
        Steps or passes of the model.
    n_components_, n_atoms_ : int
        The dimension of the embedding and the number of atoms.
    shrinkage_, mu_proximity_ : float
        The shrinkage and the μ₂ in use.
    ridges_ : (float, float)
        The ridges of codes and samples of the whitened embedding, in multiples of the variance of one sample, chosen on
        held-out samples; infinite for a part that is left out.
    ridge_ : float
        What shrinkage added to the diagonal of B.
    spectrum_ : dict of arrays
        What each component adds: quotient (of the component alone, on the training samples), held_out (the score of
        the first k components on held-out samples) and its standard error, by n_components k. held_out is NaN for
        numbers that were not tried, and where no part was held out. ``sparlow.plots.spectrum`` draws it.
    stop_reason_ : str
        Why learning ended.
    classes_ : array of shape (n_classes,)
        Class labels, if there are any.
    transduction_ : array of shape (n_samples,)
        For criteria that take unlabelled samples: labels of all training samples, those that were missing spread over
        neighbours, −1 where none arrives; not for targets that are no classes, nor if interrupted.
    memberships_ : array of shape (n_samples, n_classes)
        How sure these labels are: rows sum to one, and are zero where none arrives.
    regression_ : Ridge
        For mvr and smvr: the regression of the targets on the embedding.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : array of shape (n_features,)
        Their names, if X has column names.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sparlow import SparLow
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SparLow("lda", max_iter=5, random_state=0).fit(X[:900], y[:900])
    >>> model.transform(X[900:]).shape
    (897, 9)
    >>> model.score(X[900:], y[900:]) > 0.93
    True

    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "criterion": [StrOptions(set(CRITERIA)), Criterion],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "n_atoms": [Interval(Integral, 1, None, closed="left"), None],
        "prior": [Prior, None],
        "views": [StrOptions({"patches"}), Views, None],
        "dictionary": [StrOptions({"auto", *LEARNERS}), "array-like"],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "solver": [StrOptions(set(SOLVERS)), Solver],
        "copies": [Copies, callable, None],
        "early_stopping": [StrOptions({"auto"}), "boolean", EarlyStopping],
        "embedding": [StrOptions({"auto", "whitened", "quadratic", "orthonormal"})],
        "normalize": [StrOptions({"auto"}), "boolean"],
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        criterion: str | Criterion = "lda",
        n_components: int | None = None,
        *,
        n_atoms: int | None = None,
        prior: Prior | None = None,
        views: str | Views | None = None,
        dictionary: Any = "auto",
        max_iter: int = 10,
        solver: str | Solver = "auto",
        copies: Any = None,
        early_stopping: str | bool | EarlyStopping = "auto",
        embedding: str = "auto",
        normalize: str | bool = "auto",
        warm_start: bool = False,
        verbose: int = 0,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.criterion = criterion
        self.n_components = n_components
        self.n_atoms = n_atoms
        self.prior = prior
        self.views = views
        self.dictionary = dictionary
        self.max_iter = max_iter
        self.solver = solver
        self.copies = copies
        self.early_stopping = early_stopping
        self.embedding = embedding
        self.normalize = normalize
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _whole(self, name: str) -> Any:
        value = super()._whole(name)
        if name == "solver" and isinstance(value, str):
            return Solver(value)
        if name == "early_stopping" and isinstance(value, (bool, str)):
            return EarlyStopping()
        return value

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"groups": True}  # whoever names groups means all choices

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        X_val: Any = None,
        y_val: Any = None,
    ) -> SparLow:
        """Learn dictionary and projection. Ctrl-C ends it with the best model so far, once the first step has begun.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Samples.
        y : array of shape (n_samples,) or (n_samples, n_targets), optional
            Labels, −1 for unlabelled samples if the criterion is semi-supervised; targets for mvr and smvr. Criteria
            without labels do not learn from y; if it holds classes, :meth:`predict` knows them.
        sample_weight : array of shape (n_samples,), optional
            How often each sample counts in the means and scatters of the criterion, for lda, mvr and pca; only their
            ratios matter. The first dictionary, the choices on held-out samples and the neighbours that vote in
            :meth:`predict` do not depend on it.
        groups : array of shape (n_samples,), optional
            Which samples belong together, such as the pictures of one person or patient. The parts that are held out
            for choices have whole groups. With scikit-learn's metadata routing, pipelines and searches pass them on.
        X_val, y_val : arrays of shape (n_val, n_features) and (n_val,) or (n_val, n_targets), optional
            Validation samples of your own: choices are made by the score on these, and all of X is learned from.

        Returns
        -------
        self : SparLow

        """
        with all_or_nothing(self), Finishing() as finishing, one_blas_thread():
            last = getattr(self, "dictionary_", None) if self.warm_start else None
            self._forget()
            beside = Beside(sample_weight, groups, X_val, y_val)
            self._remember(fit_model(self, X, y, beside, last, finishing))
            self._bind()
        if finishing.came:
            self.stop_reason_ = "interrupted"
        if self.stop_reason_ == "interrupted":
            said = f"Learning was interrupted after {self.n_iter_} steps: this is the best model so far."
            warn(said, ConvergenceWarning)
        return self

    @available_if(can_stream)
    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any = None, classes: Any = None) -> SparLow:
        """Learn from one batch of a stream; for lda, mvr and pca.

        The first batch gives the first dictionary and all that is chosen from the data. It needs at least as many
        samples as there are atoms, and two classes. Where it is small, the stream keeps its samples and begins again
        with all of them when it has seen four times as many, for the last time when it has seen 20 000. Each batch
        enters running statistics and moves the dictionary by one step. The fitted attributes follow when a tenth more
        samples were seen than before. Predictions are made from samples that are kept: up to 60 000, within a quarter
        of scikit-learn's ``working_memory``.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Samples.
        y : array of shape (n_samples,) or (n_samples, n_targets), optional
            Labels, −1 for samples that are to be passed over; targets for mvr.
        classes : array of shape (n_classes,), optional
            All classes that will come, with the first batch; by default those that it has.

        Returns
        -------
        self : SparLow

        """
        with all_or_nothing(self), one_blas_thread():
            self._partial_fit(X, y, classes)
        return self

    def _partial_fit(self, X: Any, y: Any, classes: Any) -> None:
        """Check one batch, and let the stream learn from it."""
        refuse_stacks(X)
        begun = self.__dict__.get("_stream")
        if begun is None:
            if hasattr(self, "dictionary_"):
                warn("partial_fit drops the fitted model and begins a new one: a stream cannot go on from fit or load.")
            self._forget()
        X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, order="C", reset=begun is None)
        known = classes if begun is None else begun["labels"].classes
        if begun is not None and classes is not None and not np.array_equal(np.unique(classes), known):
            raise ValueError(f"classes must be those of the first batch, {known.tolist()}: name all of them there.")
        labels = labels_of_batch(criterion_named(self.criterion), X, y, known, type(self).__name__)
        begun, whole = all_so_far(begun_with(self, X, labels) if begun is None else begun, X, labels)
        if whole is not None:
            X, labels = whole
            begun = begun_with(self, X, labels, begun)
        begun, fitted = with_batch(begun, X, labels)
        if fitted:
            self._remember(fitted)
            self._bind()
        self._stream = begun

    def _html_repr(self) -> str:
        """Return scikit-learn's diagram, and below it the numbers of a fitted model."""
        return estimator_html_repr(self) + (table_of_numbers(self) if "dictionary_" in vars(self) else "")

    # ── after learning ─────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def coder_(self) -> Coder:
        """The coder of the learned dictionary and prior, for many small batches of samples or views."""
        coder = self.__dict__.get("_coder")
        if "dictionary_" not in self.__dict__:
            check_is_fitted(self)
        if coder is None or coder.dictionary is not self.dictionary_ or coder.prior is not self.prior_:
            coder = Coder(self.dictionary_, self.prior_, n_jobs=self.n_jobs)
        return coder

    def _coded(self, X: Any) -> Codes:
        """Return samples, checked and scaled, coded at the learned dictionary."""
        refuse_stacks(X)
        X = new_samples(self, X, FLOATS)
        X = Scaling(self.normalize is not False, self.column_means_, self.column_scales_)(X)
        samples = Samples(X, self.prior_, self._views, self.weights_, self.n_jobs)
        return code(samples, self.coder_, keep=False)

    def encode(self, X: Any) -> Any:
        """Return the sparse codes of samples with the learned dictionary; with ``views``, the pooled codes.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        codes : csr_array of shape (n_samples, n_atoms)
            With patches there is a column for each cell, sign and atom.

        """
        check_is_fitted(self)
        if is_dask(X):
            return by_blocks(self.encode, X)
        if streams(X):
            store = Local(X)
            return sp.csr_array(sp.vstack([self.encode(store.read(rows)) for rows in store.slices]))
        features = self._coded(X).features
        return features if sp.issparse(features) else sp.csr_array(features)

    def transform(self, X: Any) -> Array:
        """Return the embedding of samples.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        embedding : array of shape (n_samples, n_components)

        """
        if is_dask(X):
            check_is_fitted(self)
            return by_blocks(self._embedding_of, X)
        return self._embedding_of(X)

    def _embedding_of(self, X: Any) -> Array:
        """Return the embedding of samples in memory, or part by part."""
        return in_parts(self._embedded, X) if streams(X, 4) else self._embedded(X)  # scaled, coded, projected

    def _embedded(self, X: Any) -> Array:
        """Return the embedding of samples in memory."""
        coded = self._coded(X)
        served = self.__dict__.get("_served")
        if served is None or served.source is not self.projection_:
            served = Served(self.projection_, self.weights_, self._centre, self.forms_)
        return served(coded.features, coded.samples.X).astype(coded.samples.dtype, copy=False)

    @one_blas_thread()
    def inverse_transform(self, Z: Any) -> Array:
        """Return images with embedding Z: the mean image and the factor images in the amounts that Z says.

        With ``Shifts`` images are blurred, as codes are means over the moved copies. Patches have no inverse.

        Parameters
        ----------
        Z : array of shape (n_samples, n_components)
            Embeddings.

        Returns
        -------
        X : array of shape (n_samples, n_features)
            On the scale of samples of unit norm, or of standardised columns divided by √(p + ‖x‖²), if ``normalize``.

        """
        check_is_fitted(self)
        if self._mean_image is None:
            raise ValueError(
                "There is no way back from pooled codes of views to an image: where in a cell an atom was, and the "
                "contrast of each patch, are lost. Leave out views for an inverse."
            )
        Z = check_array(Z, dtype=FLOATS, input_name="Z")
        if Z.shape[1] != len(self.components_):
            raise ValueError(f"Z has {Z.shape[1]} columns, but the embedding has {len(self.components_)}.")
        return np.asarray(self._mean_image.astype(Z.dtype) + Z @ self.components_.astype(Z.dtype, copy=False))

    @one_blas_thread()
    def quotient(self, X: Any) -> float:
        """Return the criterion's quotient on new samples, without the shrinkage of its denominator.

        Models of different shrinkage compare by it; models of different criteria do not. Only for criteria without
        labels.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Samples, at least two.

        Returns
        -------
        quotient : float

        """
        coded = self._coded(X)
        if self.criterion_.supervision != "none":
            raise ValueError(f"quotient is for criteria without labels, got {self.criterion!r}: use score(X, y).")
        if len(coded.samples) < 2:
            raise ValueError("The quotient compares samples: at least two are needed.")
        bound = self.criterion_.bind(coded.samples.X, None, self.n_jobs)
        return bound.value(coded, self.projection_.astype(float)).quotient

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name not in _COMPUTED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "dictionary_" in vars(self):
            self._check_sound()
            unit = self.normalize is not False
            m = self.n_features_in_
            views = views_named(self.views)
            self._views = Bound() if views is None else views.bound(m, unit, self._epsilon, self._whitener)
            self._bind()

    def _bind(self) -> None:
        """Prepare what codes and embeds new samples."""
        self._coder = Coder(self.dictionary_, self.prior_, n_jobs=self.n_jobs)
        self._served = Served(self.projection_, self.weights_, self._centre, self.forms_)

    def _check_sound(self) -> None:
        """Refuse attributes of ``SparLow`` from a damaged file."""
        check_attributes(self)


_COMPUTED = ("_coder", "_served", "_views")  # made again from what a file keeps
