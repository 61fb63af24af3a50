"""SparLow: dictionary and projection learned together."""

from __future__ import annotations

import html
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import _fit_context
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state, estimator_html_repr
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..checks import check_array, validate_data
from ..coded import Coded, Samples, code
from ..coding import Coder
from ..criteria import CRITERIA, LDA, Criterion, criterion_named
from ..defaults import default_prior, warn_of_common_mean
from ..dictionaries import LEARNERS
from ..embedding import Embedding
from ..labels import Labels, check_labels, labels_of_batch
from ..messages import warn
from ..online import kind_of
from ..parallel import Finishing, one_blas_thread
from ..parts import Local, Parts, drawn_rows, is_dask, streams
from ..priors import Prior
from ..quadratic import Quadratic
from ..solvers import SOLVERS, EarlyStopping, Solver
from ..views import Bound, Views
from .base import FLOATS, Projector, all_or_nothing, classes_beside, refuse_stacks
from .callbacks import Follower
from .large import as_array, by_blocks, in_parts, store_of
from .learning import Setup, learn_model
from .scaling import Scaling, choose_scaling
from .streaming import begin_stream, is_due, learn_online, state_of, take_in

Array = NDArray[Any]


def _streams(model: Any) -> bool:
    """Return whether a model can learn from a stream; the error says why not."""
    if model.views is not None:
        raise AttributeError("partial_fit takes samples as they are: leave views out, or use fit.")
    try:
        kind_of(criterion_named(model.criterion), True)
    except ValueError as error:
        raise AttributeError(str(error)) from error
    return True


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
        for mvr and smvr, and at most 48 for the others. Where principal components of the samples are better on
        held-out samples, there are up to 48 of these instead.
    n_atoms : int, optional
        Number of atoms r; by default chosen from the data.
    prior : Prior, optional
        What codes cost, for instance ``sparlow.priors.ElasticNet(0.1)``; by default an elastic net whose weights are
        chosen from the data.
    views : Views, optional
        Views of each sample whose codes are pooled: ``sparlow.views.Patches()`` for local codes of images,
        ``sparlow.views.Shifts(1)`` for copies moved by a pixel.
    dictionary : str or array of shape (n_atoms, n_features), default="auto"
        The first dictionary: a learner ("ksvd", "online", "rls", "samples"), class by class where there are
        at least as many labels as atoms, or atoms of your own. "auto" is "ksvd", and "online" for patches.
    max_iter : int, default=10
        Steps of joint learning. 0 gives the sequential method: the best projection for the first dictionary.
    solver : str or Solver, default="eliminate"
        How steps are made: "eliminate" takes the best U for each D, "joint" moves both as in the paper, "online" moves
        D after each mini-batch, for data that are too large for many passes. A
        ``sparlow.solvers.Solver`` has further settings, the weights μ₁ and μ₂ among them.
    early_stopping : "auto", bool or EarlyStopping, default="auto"
        Hold out a part of the samples to choose the number of steps by the score on them. Where no step is better than
        the start by more than chance, the start is kept. "auto" does so where there are labels. With patches "auto"
        makes no step at all, as no gain of joint learning is established there.
    embedding : {"auto", "whitened", "quadratic", "orthonormal"}, default="auto"
        "whitened": W maximises the ratio trace tr((WᵀBW)⁻¹WᵀAW) for the features [φ(x), x], with a ridge for each part
        that is chosen on held-out samples. "quadratic", for lda: discriminant analysis of all products of two features.
        "orthonormal": the paper's U for the codes alone. "auto" is "orthonormal" for criteria without labels,
        "whitened" or "quadratic", whichever is better on held-out samples, for lda with patches, and "whitened"
        elsewhere.
    normalize : "auto" or bool, default="auto"
        Scale samples to unit norm first. "auto" also standardises the columns before, where few of them hold nearly all
        of the variance, as in tables of unlike units.
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
        step, gradient_norm, nonzeros, seconds, held_out, evaluations, restarted, step_number. With early stopping it
        is the history of choosing the number of steps.
    n_iter_, best_iter_ : int
        Steps made, and steps of the model: fewer where a held-out part chose them.
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
        "views": [Views, None],
        "dictionary": [StrOptions({"auto", *LEARNERS}), "array-like"],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "solver": [StrOptions(set(SOLVERS)), Solver],
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
        views: Views | None = None,
        dictionary: Any = "auto",
        max_iter: int = 10,
        solver: str | Solver = "eliminate",
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

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> SparLow:
        """Learn dictionary and projection. Ctrl-C ends it with the best model so far, once the first step has begun.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Samples.
        y : array of shape (n_samples,) or (n_samples, n_targets), optional
            Labels, −1 for unlabelled samples if the criterion is semi-supervised; targets for mvr and smvr. Criteria
            without labels do not learn from y; if it holds classes, :meth:`predict` knows them.

        Returns
        -------
        self : SparLow

        """
        with all_or_nothing(self), Finishing() as finishing, one_blas_thread():
            last = getattr(self, "dictionary_", None) if self.warm_start else None
            self._forget()
            self._remember(self._fit(X, y, last, finishing))
            self._coder = Coder(self.dictionary_, self.prior_, n_jobs=self.n_jobs)
        if finishing.came:
            self.stop_reason_ = "interrupted"
        if self.stop_reason_ == "interrupted":
            said = f"Learning was interrupted after {self.n_iter_} steps: this is the best model so far."
            warn(said, ConvergenceWarning)
        return self

    @available_if(_streams)
    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any = None, classes: Any = None) -> SparLow:
        """Learn from one batch of a stream; for lda, mvr and pca.

        The first batch gives the first dictionary and all that is chosen from the data. So it should be large, ten
        thousand samples if there are so many, at least as many as there are atoms, and have samples of two classes.
        Each batch enters running statistics and moves the dictionary by one step. The fitted attributes follow when a
        tenth more samples were seen than before. Predictions are made from 20 000 samples that are kept.

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
        criterion = criterion_named(self.criterion)
        refuse_stacks(X)
        begun = self.__dict__.get("_stream")
        if begun is None:
            self._forget()
        X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, order="C", reset=begun is None)
        known = classes if begun is None else begun["labels"].classes
        labels = labels_of_batch(criterion, X, y, known, type(self).__name__)
        if begun is None:
            scaling = self._scaling_for(X, labels)
            X = scaling(X)
            seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
            prior = self.prior or default_prior(X, criterion.faithful)
            setup = self._setup(criterion, labels, prior, Bound(), seed)
            stream = begin_stream(setup, Samples(X, prior, n_jobs=self.n_jobs), labels)
            begun = {"stream": stream, "setup": setup, "scaling": scaling, "labels": labels, "last": 0}
        else:
            begun = {**begun, "stream": begun["stream"].copy()}  # a batch that fails leaves the stream as it was
            X = begun["scaling"](X)
        take_in(begun["stream"], X, labels)
        if not begun["stream"].has_begun:
            raise ValueError("The first batch needs labelled samples of at least two classes.")
        if is_due(begun["stream"], begun["last"]):
            scaling = begun["scaling"]
            self._remember(
                {
                    **state_of(begun["stream"], begun["setup"], begun["labels"]),
                    "column_means_": scaling.means,
                    "column_scales_": scaling.scales,
                }
            )
            self._coder = Coder(self.dictionary_, self.prior_, n_jobs=self.n_jobs)
            begun["last"] = begun["stream"].moments.seen
        self._stream = begun

    def _fit(self, X: Any, y: Any, last: Array | None, finishing: Finishing) -> dict[str, Any]:
        """Return the fitted attributes; ``last`` is a dictionary to go on from."""
        criterion = criterion_named(self.criterion)
        refuse_stacks(X)
        rng, given, store = check_random_state(self.random_state), X, None
        seed = rng.randint(np.iinfo(np.int32).max)
        if streams(X):  # what is chosen from the data is chosen from some of the samples
            store = store_of(X, self.n_jobs)
            y = as_array(y)
            labels = check_labels(criterion, store, y, type(self).__name__)
            drawn = drawn_rows(*store.shape, labels, seed)
            X = store.take(drawn)
        X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, order="C", ensure_min_samples=2)
        if store is None:
            labels = check_labels(criterion, X, y, type(self).__name__)
        scaling = self._scaling_for(X, labels)
        X = scaling(X)
        views = Bound() if self.views is None else self.views.bind(X, scaling.unit)
        if views.whole:
            warn_of_common_mean(X)
        prior = self.prior or default_prior(X, criterion.faithful, views)
        samples: Any = Samples(X, prior, views, n_jobs=self.n_jobs)
        if store is not None:
            samples = Parts(store, scaling, prior, views, n_jobs=self.n_jobs, drawn=drawn)
        del X
        setup = self._setup(criterion, labels, prior, views, seed, last)
        columns = {"column_means_": scaling.means, "column_scales_": scaling.scales}
        beside = {**classes_beside(labels, y, len(samples)), **columns}
        follower = Follower(self, given, y, self.max_iter, self.verbose, beside)
        passes = max(1, self.max_iter) if setup.solver.method == "online" else 0
        try:
            setup = learn_online(setup, samples, labels) if passes else setup
            fitted = learn_model(setup, samples, labels, rng, follower.step, finishing)
        finally:
            if store is not None:
                samples.close()
        if self._stands_aside() and self.max_iter and fitted["stop_reason_"] == "max_iter reached":
            fitted["stop_reason_"] = "no joint steps for views with contrast, unless early_stopping asks for them"
        if passes:
            fitted |= {"n_iter_": passes, "stop_reason_": f"{passes} pass{'es' * (passes > 1)} over the samples"}
        follower.close(fitted)
        return {**fitted, **beside, "shrinkage_": setup.shrinkage}

    def _setup(
        self, criterion: Criterion, labels: Labels, prior: Prior, views: Bound, seed: int, last: Array | None = None
    ) -> Setup:
        """Return everything that is decided before learning begins; ``last`` is a dictionary to go on from."""
        solver = self._whole("solver")
        nearness = criterion.usual_proximity(labels.bound)
        shrinkage = criterion.usual_shrinkage if criterion.shrinkage is None else criterion.shrinkage
        if last is not None and self.n_atoms not in (None, len(last)):
            raise ValueError(
                f"n_atoms={self.n_atoms}, but warm_start goes on from the {len(last)} atoms of the last fit."
            )
        return Setup(
            criterion=criterion,
            n_components=self.n_components,
            n_atoms=self.n_atoms,
            dictionary=self.dictionary if last is None else last,
            prior=prior,
            views=views,
            solver=solver,
            max_iter=0 if self._stands_aside() else self.max_iter,
            stopping=self._stopping(criterion),
            insists=self.early_stopping != "auto",
            mu_proximity=nearness if solver.mu_proximity is None else solver.mu_proximity,
            shrinkage=shrinkage,
            whiten=self.embedding != "orthonormal" and criterion.supervision != "none",
            order=self._order(criterion, labels),
            seed=seed,
            fixed_seed=seed if isinstance(self.random_state, Integral) else None,
            n_jobs=self.n_jobs,
        )

    def _stopping(self, criterion: Criterion) -> EarlyStopping | None:
        """Return the early stopping in use, None for none."""
        auto = self.early_stopping == "auto"
        without = self.max_iter == 0 or self._stands_aside() or (auto and criterion.supervision == "none")
        if self.early_stopping is False or without:
            return None
        if not auto and getattr(criterion, "graph", None) is not None:
            raise ValueError("early_stopping needs graphs of parts of the samples: it cannot use one of your own.")
        return self.early_stopping if isinstance(self.early_stopping, EarlyStopping) else EarlyStopping()

    def _stands_aside(self) -> bool:
        """Return whether joint learning is left out: no gain of it is established for patches."""
        return self.early_stopping == "auto" and self.views is not None and bool(self.views.contrast)

    def _order(self, criterion: Criterion, labels: Labels) -> int | None:
        """Return the order of the embedding, None where it is to be chosen."""
        suits = isinstance(criterion, LDA) and criterion.class_weight is None and labels.y is not None
        if self.embedding == "quadratic" and not suits:
            raise ValueError(
                f'embedding="quadratic" is for lda without class_weight, got the criterion {self.criterion!r}.'
            )
        if self.embedding == "quadratic":
            return 2
        return None if self.embedding == "auto" and suits else 1

    def _html_repr(self) -> str:
        """Return scikit-learn's diagram, and below it the numbers of a fitted model."""
        diagram = estimator_html_repr(self)
        if "dictionary_" not in vars(self):
            return diagram
        held = self.spectrum_["held_out"]
        numbers = {
            "training samples": f"{len(self.embedding_)} of {self.n_features_in_} numbers",
            "atoms": f"{self.n_atoms_}",
            "components": f"{self.n_components_}",
            "prior": f"{self.prior_}",
            "joint steps": f"{self.best_iter_} of {self.n_iter_} made",
            "why it ended": self.stop_reason_,
            "held-out score": f"{held[np.isfinite(held)][-1]:.3f}" if np.isfinite(held).any() else "no part held out",
        }
        rows = "".join(f"<tr><th>{name}</th><td>{html.escape(said)}</td></tr>" for name, said in numbers.items())
        return f'{diagram}<table class="sparlow-numbers"><tbody>{rows}</tbody></table>'

    # ── after learning ─────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def coder_(self) -> Coder:
        """The coder of the learned dictionary and prior, for many small batches of samples or views."""
        check_is_fitted(self)
        coder = self.__dict__.get("_coder")
        if coder is None or coder.dictionary is not self.dictionary_ or coder.prior is not self.prior_:
            coder = Coder(self.dictionary_, self.prior_, n_jobs=self.n_jobs)
        return coder

    def _coded(self, X: Any) -> Coded:
        """Return samples, checked and scaled, coded at the learned dictionary."""
        check_is_fitted(self)
        refuse_stacks(X)
        X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, order="C", reset=False)
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
            return by_blocks(self._embedding_of, X, self.n_components_)
        return self._embedding_of(X)

    @one_blas_thread()
    def _embedding_of(self, X: Any) -> Array:
        check_is_fitted(self)
        if streams(X):
            return in_parts(self._embedding_of, X)
        coded = self._coded(X)
        W = self.projection_.astype(float)
        embedding = Embedding(W, self._centre) if self.forms_ is None else Quadratic(W, self.forms_, self._centre)
        return embedding(coded).astype(coded.samples.dtype, copy=False)

    def without_training(self) -> SparLow:
        """Return a copy without the embedding of the training samples: smaller, it transforms but does not predict."""
        state = {**self.__getstate__(), "embedding_": self.embedding_[:0], "_training": Labels()}
        slim = SparLow()
        slim.__setstate__({name: value for name, value in state.items() if name != "classes_"})
        return slim

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
            On the scale of samples of unit norm if ``normalize``.

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

    def _scaling_for(self, X: Any, labels: Labels) -> Scaling:
        """Return how samples are scaled: as the user says, or as suits them."""
        if self.normalize == "auto" and self.views is None:
            return choose_scaling(X, labels)
        return Scaling(self.normalize is not False)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name not in _COMPUTED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "dictionary_" in vars(self):
            self._check_sound()
            unit = self.normalize is not False
            m = self.n_features_in_
            self._views = Bound() if self.views is None else self.views.bound(m, unit, self._epsilon)
            self._coder = Coder(self.dictionary_, self.prior_, n_jobs=self.n_jobs)
            self._neighbours = None if self._training.y is None else self._voters()

    def _check_sound(self) -> None:
        """Refuse fitted attributes that do not fit each other, as a damaged file may have them."""
        m = self.n_features_in_
        views = Bound() if self.views is None else self.views.bound(m, True, self._epsilon)
        alpha, gamma = self.weights_
        width = (views.width(len(self.dictionary_)) if alpha else 0) + (m if gamma else 0)
        count, inner = len(self._centre), self.projection_.shape[1]
        shapes = {
            "dictionary_": (len(self.dictionary_), views.n_inputs(m)),
            "projection_": (width, inner),
            "components_": (count, m if views.whole else width),
            "embedding_": (len(self.embedding_), count),
            "_centre": (count,),
        }
        if self.forms_ is not None:
            shapes["forms_"] = (count, inner, inner)
        elif inner != count:
            raise ValueError(f"projection_ has {inner} columns, but the embedding has {count}.")
        for name, shape in shapes.items():
            array = getattr(self, name)
            if not isinstance(array, np.ndarray) or array.dtype.char not in "fd" or array.shape != shape:
                raise ValueError(f"{name} must be an array of floats of shape {shape}, got {np.shape(array)}.")
            if not np.isfinite(array).all():
                raise ValueError(f"{name} holds numbers that are not finite.")
        for name, number in (("n_atoms_", len(self.dictionary_)), ("n_components_", count)):
            if getattr(self, name) != number or isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be {number}, got {getattr(self, name)!r}.")
        y, n_classes = self._training.y, len(getattr(self, "classes_", ()))
        if y is not None and (len(y) != len(self.embedding_) or y.min() < -1 or y.max() >= n_classes):
            raise ValueError("The labels of the training samples do not fit the embedding or the classes.")


_COMPUTED = ("_coder", "_views", "_neighbours")  # made again from what a file keeps
