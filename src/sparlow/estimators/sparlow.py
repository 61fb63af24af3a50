"""SparLow: dictionary and projection learned together."""

from __future__ import annotations

import time
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from ..criteria import CRITERIA, Criterion, bound, criterion_named
from ..defaults import default_prior, default_proximity, kinship, warn_of_common_mean
from ..dictionaries import LEARNERS, check_samples, unit_samples
from ..messages import warn
from ..priors import Prior
from ..problem import SOLVERS, Evaluation, JointProblem, learn
from ..tracequotient import canonical
from ..views import Pooling, Views
from .callbacks import Audience, CallbackSupportMixin, with_callbacks
from .labels import Labels
from .projector import FLOATS, Projector, all_or_nothing, refuse_stacks
from .start import Plan, first_dictionary
from .watch import Watch, radius_of

Array = NDArray[Any]


class SparLow(CallbackSupportMixin, Projector):
    """Low-dimensional image representations: sparse codes and an orthogonal projection of them, learned together.

    A sample x has the sparse code φ(x) = argmin ½‖x − φD‖² + Σ g(φⱼ) and the embedding φ(x)U. Dictionary D and
    projection U maximise

        J(D, U) = f(D, U) − |f₀| (μ₁ g_c(D) + μ₂ g_d(D)),   f = tr(UᵀAU)/tr(UᵀBU),

    where A and B come from the criterion, g_c is the mean coherence of the atoms and g_d their mean squared distance
    from the first dictionary.

    Parameters
    ----------
    criterion : str or Criterion, default="lda"
        "pca", "lle", "lap" (no labels), "lda", "mfa", "mvr" (labels), "sda", "slap" or "smfa", "smvr" (−1 marks
        unlabelled samples), or an object with parameters such as ``MFA(k_within=5)``.
    n_components : int, optional
        Dimension l of the embedding; by default classes − 1 where there are classes, the number of independent targets
        for mvr and smvr, and 48, but at most a quarter of the atoms, for the others. Beyond classes − 1 lda and sda
        have nothing to give; mvr and smvr have only directions of little scatter, which the paper uses.
    n_atoms : int, optional
        Number of atoms r; by default one per 8k^1.5 samples (k: see ``prior``), from 100 and 10 per class to 2000 or n.
    prior : Prior, optional
        What codes cost; by default ``ElasticNet(s · k^1.5 · min(v³, 0.22), 0.2/k)``, v = 1 − ‖mean of the
        unit-norm samples‖², k = (c/0.75)^1.5, between 0.2 and 1, with c the median of the largest |cosine| of a sample
        with another (k = 1 for images), and s the median norm of the samples (1 if they are normalised); an eighth of
        that l1, a quarter with ``views``, and ``max(v², 0.05)`` for pca, lle and lap.
    dictionary : str or array of shape (n_atoms, n_features), default="ksvd"
        The first dictionary: a learner ("ksvd", "online", "rls", "samples"), class by class where there are
        at least as many labels as atoms, or atoms of your own.
    max_iter : int, default=10
        Steps of joint learning. 0 gives the sequential method: the best projection for the first dictionary.
    shrinkage : float, optional
        Multiple of tr(B)/r added to the diagonal of B, B at the first codes; by default 0.1, and 10 for lap and lle,
        which would otherwise follow directions of hardly any variance.
    mu_coherence : float, default=0.0
        μ₁.
    mu_proximity : float, optional
        μ₂; by default 0 for lda, mfa and mvr, and what keeps the others near their start: 10 000 for lle, 3000 for lap,
        300 for pca, 100 for slap, 10 for sda and smvr; 1000 for mvr and smvr where the targets are not classes. At
        least 100 (1 − k), k as above.
    validation_fraction : float, optional
        Part of the samples held out to choose the number of steps by the score on them; the model is then learned from
        all samples with so many steps.
    n_iter_no_change : int, default=5
        With a held-out part: stop after so many steps without a better score.
    refresh_every : int, default=2
        Steps after which criteria that balance pairs (lda, mfa, mvr, sda, smvr) weigh them anew.
    solver : {"eliminate", "joint"}, default="eliminate"
        Whether U is the best one for each D, or moves with D by conjugate gradients as in the paper.
    views : Views, optional
        Views of each sample whose codes are averaged, such as ``Shifts(1)``: pictures moved by a pixel. For digits
        and other pictures that lie a little off; embeddings then change less with the place.
    normalize : bool, default=True
        Scale samples, and views of them, to unit norm first.
    normalize_embedding : bool, default=True
        Centre the embedding and scale each sample's to unit norm, so that Euclidean distances compare angles (in one
        dimension: divide all by the same number). For pictures in two or three dimensions False shows more.
    tol : float, default=1e-5
        Stop when the cost rises by less than this, relative to its size, in two steps.
    warm_start : bool, default=False
        Start from the dictionary of the last fit.
    callback : callable, optional
        Called after each step with its row of ``history_`` as a dict; a true answer stops. A function of two
        parameters also gets the model as it is at this step, fitted, to look at or to transform with.
    verbose : int, default=0
        Print a line per step.
    random_state : int or RandomState, optional
        First dictionary and held-out part.
    n_jobs : int, optional
        Threads. The model does not depend on it, to the last bit.

    Attributes
    ----------
    dictionary_ : array of shape (n_atoms, n_features)
        D, atoms of unit norm.
    projection_ : array of shape (n_atoms, n_components)
        U, rotated so that UᵀAU is diagonal and descending, signs fixed.
    components_ : array of shape (n_components, n_features)
        The factor images UᵀD.
    prior_ : Prior
        The prior in use.
    criterion_ : Criterion
        The criterion in use.
    embedding_ : array of shape (n_samples, n_components)
        Embedding of the training samples.
    history_ : dict of arrays
        One entry for the start and one for each step: cost J (of the balanced criterion, scaled so as to go on from
        its value at each reweighting), quotient f (as the criterion is written, not balanced), coherence, proximity,
        step, gradient_norm, nonzeros, seconds, held_out, evaluations, restarted, step_number. With a held-out part it
        is the history of choosing the number of steps.
    n_iter_, best_iter_ : int
        Steps made, and steps of the model: fewer where a held-out part chose them.
    n_components_, n_atoms_ : int
        The dimension of the embedding and the number of atoms.
    shrinkage_, mu_proximity_ : float
        The shrinkage and the μ₂ in use.
    ridge_ : float
        What shrinkage added to the diagonal of B.
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
        "dictionary": [StrOptions(set(LEARNERS)), "array-like"],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "shrinkage": [Interval(Real, 0, None, closed="left"), None],
        "mu_coherence": [Interval(Real, 0, None, closed="left")],
        "mu_proximity": [Interval(Real, 0, None, closed="left"), None],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither"), None],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "refresh_every": [Interval(Integral, 1, None, closed="left")],
        "solver": [StrOptions(set(SOLVERS))],
        "views": [Views, None],
        "normalize": ["boolean"],
        "normalize_embedding": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="left")],
        "warm_start": ["boolean"],
        "callback": [callable, None],
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
        dictionary: Any = "ksvd",
        max_iter: int = 10,
        shrinkage: float | None = None,
        mu_coherence: float = 0.0,
        mu_proximity: float | None = None,
        validation_fraction: float | None = None,
        n_iter_no_change: int = 5,
        refresh_every: int = 2,
        solver: str = "eliminate",
        views: Views | None = None,
        normalize: bool = True,
        normalize_embedding: bool = True,
        tol: float = 1e-5,
        warm_start: bool = False,
        callback: Callable[..., Any] | None = None,
        verbose: int = 0,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.criterion = criterion
        self.n_components = n_components
        self.n_atoms = n_atoms
        self.prior = prior
        self.dictionary = dictionary
        self.max_iter = max_iter
        self.shrinkage = shrinkage
        self.mu_coherence = mu_coherence
        self.mu_proximity = mu_proximity
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.refresh_every = refresh_every
        self.solver = solver
        self.views = views
        self.normalize = normalize
        self.normalize_embedding = normalize_embedding
        self.tol = tol
        self.warm_start = warm_start
        self.callback = callback
        self.verbose = verbose
        self.random_state = random_state
        self.n_jobs = n_jobs

    def set_params(self, **params: Any) -> SparLow:
        """Set parameters. A prior, a criterion or views are set as a whole."""
        for name in params:
            whole, _, part = name.partition("__")
            if part and whole in ("prior", "criterion", "views"):
                raise ValueError(
                    f"There is no parameter {name!r}: {whole} is set or searched as a whole, for instance "
                    f"{{{whole!r}: [{getattr(self, whole)!r}, ...]}}."
                )
        return super().set_params(**params)

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> SparLow:
        """Learn dictionary and projection. Ctrl-C ends it with the best model so far, once the first step has begun.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Samples.
        y : array of shape (n_samples,) or (n_samples, n_targets), optional
            Labels, −1 for unlabelled samples if the criterion is semi-supervised; targets for mvr and smvr.

        Returns
        -------
        self : SparLow

        """
        with all_or_nothing(self):
            self._remember(self._fit(X, y))
        if self.stop_reason_ == "interrupted":
            said = f"Learning was interrupted after {self.n_iter_} steps: this is the best model so far."
            warn(said, ConvergenceWarning)
        return self

    def _fit(self, X: Any, y: Any) -> dict[str, Any]:
        """The fitted attributes."""
        began = time.perf_counter()
        criterion = criterion_named(self.criterion)
        refuse_stacks(X)
        given, X = X, validate_data(self, X, accept_sparse="csr", dtype=FLOATS, order="C", ensure_min_samples=2)
        labels = self._labels(criterion, X, y)
        X, pooling = self._scaled(X), self._pooling()
        warn_of_common_mean(X)
        rng = check_random_state(self.random_state)
        k = kinship(X, labels.known)
        prior = default_prior(X, criterion.faithful, k, self.views is not None) if self.prior is None else self.prior
        usual = max(criterion.usual_proximity(labels.bound), default_proximity(k))
        nearness = usual if self.mu_proximity is None else self.mu_proximity
        last = getattr(self, "dictionary_", None) if self.warm_start else None
        audience = Audience(self, given, y, self.max_iter, self.callback, self.verbose)
        rows, held = self._split(criterion, labels, X.shape[0], rng)
        shrinkage = criterion.shrinkage if self.shrinkage is None else self.shrinkage
        seed = rng.randint(np.iinfo(np.int32).max)
        plan = Plan(criterion, k, prior, nearness, shrinkage, pooling, last, seed, began)
        if held is None:
            watch = self._learn(plan, X, labels, self.max_iter, audience)
            fitted = {**watch.summary(), **watch.state(watch.last), **watch.transduced(watch.last)}
        else:
            held_out = X[held], labels.take(held)
            watch = self._learn(plan, X[rows], labels.take(rows), self.max_iter, audience, held_out)
            fitted = {**watch.summary(), "best_iter_": watch.best_step, **watch.state(watch.best)}
            if watch.reason not in ("interrupted", "stopped by callback"):
                fitted |= self._learn_from_all(plan, X, labels, watch.best_step)
        audience.close(fitted)
        return {**fitted, "shrinkage_": shrinkage}

    def _learn_from_all(self, plan: Plan, X: Any, labels: Labels, n_steps: int) -> dict[str, Any]:
        """The model again, from the held-out samples too, with the number of steps that was best on them."""
        try:
            watch = self._learn(plan, X, labels, n_steps, None)
        except KeyboardInterrupt:
            return {"stop_reason_": "interrupted"}
        interrupted = {"stop_reason_": "interrupted"} if watch.reason == "interrupted" else {}
        return {**interrupted, **watch.state(watch.last), **watch.transduced(watch.last)}

    def _learn(
        self,
        plan: Plan,
        X: Any,
        labels: Labels,
        max_iter: int,
        audience: Audience | None,
        held_out: tuple[Any, Labels] | None = None,
    ) -> Watch:
        """Dictionary, graphs, first projection and so many steps from there."""
        criterion = plan.criterion
        D = first_dictionary(self, plan, X, labels)
        count = self._check_components(criterion, len(D), labels, "atoms")
        quotient = bound(criterion, X, labels.bound, self.n_jobs)
        problem = SOLVERS[self.solver](
            X, plan.prior, quotient, D, count, self.mu_coherence, plan.mu_proximity, self.n_jobs, plan.pooling
        )
        watch = Watch(self, criterion, problem, labels, held_out, audience, plan.began)
        result = learn(  # plain arguments: a call with ** would hold the first codes while it goes on
            problem,
            watch.begin(problem.start(D, plan.shrinkage)),
            max_iter=max_iter,
            refresh_every=self.refresh_every,
            tol=self.tol,
            callback=watch.step,
        )
        watch.last, watch.reason = result.evaluation, watch.reason or result.reason
        return watch

    # ── before learning ────────────────────────────────────────────────────────────────────────────────────────────

    def _scaled(self, X: Any) -> Any:
        return unit_samples(X) if self.normalize else check_samples(X)

    def _pooling(self) -> Pooling:
        return Pooling.of(self.views, self.n_features_in_, self.normalize)

    def _split(self, criterion: Criterion, labels: Labels, n: int, rng: Any) -> tuple[Array, Array | None]:
        """Rows to learn from and rows held out; unlabelled samples are never held out."""
        if self.validation_fraction is None or self.max_iter == 0:
            return np.arange(n), None
        if getattr(criterion, "graph", None) is not None:
            raise ValueError("validation_fraction needs graphs of parts of the samples: it cannot use one of your own.")
        held = labels.held_out(n, self.validation_fraction, rng)
        return np.setdiff1d(np.arange(n), held), held

    # ── after learning ─────────────────────────────────────────────────────────────────────────────────────────────

    def _state(self, problem: JointProblem, now: Evaluation, labels: Labels) -> dict[str, Any]:
        """The fitted attributes at one evaluation."""
        dtype = problem.X.dtype
        U = canonical(problem.plain.above.form(now.codes, self.n_jobs), now.projection)
        mean_code = np.asarray(now.codes.mean(axis=0), float).ravel()
        centre = mean_code @ U
        radius = radius_of(now.quotient.embedding)
        plain = now.codes @ U.astype(dtype)
        return {
            "dictionary_": now.dictionary.astype(dtype),
            "projection_": U.astype(dtype),
            "components_": (U.T @ now.dictionary).astype(dtype),
            "n_components_": U.shape[1],
            "n_atoms_": len(U),
            "ridge_": problem.quotient.ridge,
            "mu_proximity_": problem.mu_proximity,
            "_centre": centre.astype(dtype),
            "_mean_image": (mean_code @ now.dictionary).astype(dtype),
            "_radius": radius,
            **self._memory(self._arranged(plain, centre, radius), plain, labels),
        }

    def _arranged(self, Y: Array, centre: Array, radius: float) -> Array:
        """The embedding as it is given out: centred and scaled to unit norm, or as it is.

        In one dimension a unit norm would leave the sign alone: there all samples are divided by the same number.
        """
        if not self.normalize_embedding:
            return np.asarray(Y)
        Y = Y - centre.astype(Y.dtype, copy=False)
        if Y.shape[1] == 1:
            return Y / Y.dtype.type(radius) if radius > 0 else Y
        norms = np.linalg.norm(Y, axis=1, keepdims=True)
        return np.divide(Y, norms, out=np.zeros_like(Y), where=norms > 0)

    def encode(self, X: Any) -> sp.csr_array:
        """Sparse codes of samples with the learned dictionary; with ``views``, the means of those of the views.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        codes : csr_array of shape (n_samples, n_atoms)

        """
        check_is_fitted(self)
        refuse_stacks(X)
        return self._codes(validate_data(self, X, accept_sparse="csr", dtype=FLOATS, order="C", reset=False))

    def _codes(self, X: Any) -> sp.csr_array:
        return self._pooling().mean_codes(self._scaled(X), self.dictionary_, self.prior_, self.n_jobs)

    def transform(self, X: Any) -> Array:
        """The embedding φ(x)U of samples.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        embedding : array of shape (n_samples, n_components)

        """
        return self._embedding_of(X)

    def _embed(self, codes: sp.csr_array) -> Array:
        return self._arranged(self._plain(codes), self._centre, self._radius)

    def _plain(self, codes: sp.csr_array) -> Array:
        return np.asarray(codes @ self.projection_.astype(codes.dtype, copy=False))

    def _plain_embedding(self, X: Any) -> Array:
        return self._plain(self.encode(X))

    def _embedding_of(self, X: Any) -> Array:
        """:meth:`transform` as an array, whatever ``set_output`` says."""
        return self._embed(self.encode(X))

    def inverse_transform(self, Z: Any) -> Array:
        """Images with embedding Z: the mean image and the factor images UᵀD in the amounts that Z says.

        With ``views`` they are blurred: codes, and so images, are means over the moved copies.

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
        Z = check_array(Z, dtype=FLOATS, input_name="Z")
        if Z.shape[1] != len(self.components_):
            raise ValueError(f"Z has {Z.shape[1]} columns, but the embedding has {len(self.components_)}.")
        moved = Z * Z.dtype.type(self._radius) if self.normalize_embedding else Z - self._centre.astype(Z.dtype)
        return np.asarray(self._mean_image.astype(Z.dtype) + moved @ self.components_.astype(Z.dtype, copy=False))

    def _quotient_on(self, X: Any) -> float:
        X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, order="C", reset=False, ensure_min_samples=2)
        quotient = self.criterion_.bind(self._scaled(X), None, self.n_jobs)
        return quotient.value(self._codes(X), self.projection_.astype(float)).quotient
