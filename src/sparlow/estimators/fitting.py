"""From data and parameters, as ``SparLow`` got them, to a fit: checks, scaling, defaults, and the :class:`Setup`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.utils import check_random_state
from sklearn.utils.extmath import row_norms

from ..checks import FLOATS, Array, evenly, validate_data
from ..constants import FOLDS, STANDARDISED, TABLE, TRIED, WORTH
from ..criteria import LDA, Criterion, criterion_named
from ..defaults import default_prior, unlike_columns, warn_of_common_mean
from ..dictionaries import check_samples, unit_samples
from ..embedding import nearest_right, surely
from ..labels import Labels, check_labels, check_weights, class_folds, labels_of_batch, with_groups
from ..parallel import Finishing, one_blas_thread
from ..priors import Prior
from ..rows import Samples, drawn_rows, streams
from ..solvers import EarlyStopping, Solver
from ..views import Bound, views_named
from .base import as_array, classes_beside, refuse_stacks, store_of
from .choosing import learn_model
from .epochs import Follower
from .learning import Setup
from .streaming import Begun, begin_stream


class Beside(NamedTuple):
    """What ``fit`` takes beside samples and labels."""

    sample_weight: Any = None
    groups: Any = None
    X_val: Any = None
    y_val: Any = None


def fit_model(model: Any, X: Any, y: Any, beside: Beside, last: Array | None, finishing: Finishing) -> dict[str, Any]:
    """Return the fitted attributes; ``last`` is a dictionary to go on from."""
    sample_weight = beside.sample_weight
    criterion, name = criterion_named(model.criterion), type(model).__name__
    refuse_stacks(X)
    rng, given, store = check_random_state(model.random_state), X, None
    seed = rng.randint(np.iinfo(np.int32).max)
    if streams(X):  # what is chosen from the data is chosen from some of the samples
        store = store_of(X, model.n_jobs)
        y = as_array(y)
        labels = check_weights(criterion, store, check_labels(criterion, store, y, name), as_array(sample_weight))
        drawn = drawn_rows(*store.shape, labels, seed)
        X = store.take(drawn)
    X = validate_data(model, X, accept_sparse="csr", dtype=FLOATS, order="C", ensure_min_samples=2)
    if store is None:
        labels = check_weights(criterion, X, check_labels(criterion, X, y, name), sample_weight)
    labels = with_groups(labels, as_array(beside.groups))
    scaling = _scaling_for(model, X, labels if store is None else labels.take(drawn))
    X = scaling(X)
    asked = views_named(model.views)
    views = Bound() if asked is None else asked.bind(X, scaling.unit)
    if views.whole:
        warn_of_common_mean(X)
    prior = model.prior or default_prior(X, criterion.mild_prior, views)
    options: dict[str, Any] = {} if store is None else {"scaling": scaling, "drawn": drawn}
    samples = Samples(X if store is None else store, prior, views, n_jobs=model.n_jobs, **options)
    del X
    setup = _setup_of(model, criterion, labels, prior, views, seed, scaling, last)
    validation = _validation(model, beside, labels, scaling, prior, views)
    columns = {"column_means_": scaling.means, "column_scales_": scaling.scales}
    known = {**classes_beside(labels, y, len(samples)), **columns}
    follower = Follower(model, given, y, model.max_iter, model.verbose, known)
    try:
        fitted = learn_model(setup, samples, labels, rng, follower.step, finishing, validation)
    finally:
        samples.close()
    if _stands_aside(model) and model.max_iter and fitted["stop_reason_"] == "max_iter reached":
        fitted["stop_reason_"] = "no joint steps for views with contrast, unless early_stopping asks for them"
    follower.close(fitted)
    return {**fitted, **known, "shrinkage_": setup.shrinkage}


def _validation(
    model: Any, beside: Beside, labels: Labels, scaling: Scaling, prior: Prior, views: Bound
) -> tuple[Samples, Labels] | None:
    """Return the user's validation samples, checked and scaled, with their labels as the training samples have them."""
    if beside.X_val is None and beside.y_val is None:
        return None
    if beside.X_val is None or beside.y_val is None or labels.bound is None:
        raise ValueError("X_val and y_val come together, and are for criteria with labels: give both or neither.")
    X = validate_data(model, beside.X_val, accept_sparse="csr", dtype=FLOATS, order="C", reset=False)
    truth = labels_of_batch(criterion_named(model.criterion), X, beside.y_val, labels.classes, type(model).__name__)
    known = np.flatnonzero(np.asarray(truth.known))
    if not len(known):
        raise ValueError("y_val has no label: validation needs labelled samples.")
    return Samples(scaling(X[known]), prior, views, n_jobs=model.n_jobs), truth.take(known)


def begun_with(model: Any, X: Any, labels: Labels, again: Begun | None = None) -> Begun:
    """Return a stream that has seen no batch, with all that is chosen from the samples of the first one.

    ``again`` is the stream that begins again with more samples: its seed stays, and what it has coded is counted.
    """
    if labels.y is not None and np.bincount(labels.y[labels.y >= 0]).max(initial=0) < 2:
        raise ValueError("No class has two samples in the first batch, so there is no scatter: give a larger one.")
    criterion, scaling = criterion_named(model.criterion), _scaling_for(model, X, labels)
    began_with, X = X.shape[0], scaling(X)
    drawn = None if again is None else again["setup"].seed
    seed = check_random_state(model.random_state).randint(np.iinfo(np.int32).max) if drawn is None else drawn
    prior = model.prior or default_prior(X, criterion.mild_prior)
    setup = _setup_of(model, criterion, labels, prior, Bound(), seed, scaling)
    stream = begin_stream(setup, Samples(X, prior, n_jobs=model.n_jobs), labels)
    first = (None, None)
    if again is not None:
        stream.n_coded, first = again["stream"].n_coded, again["first"]
    begun = {"stream": stream, "setup": setup, "scaling": scaling, "labels": labels, "last": 0}
    return {**begun, "first": first, "began_with": began_with}


def _scaling_for(model: Any, X: Any, labels: Labels) -> Scaling:
    """Return how samples are scaled: as the user says, or as suits them."""
    if model.normalize == "auto" and model.views is None:
        return choose_scaling(X, labels)
    return Scaling(model.normalize is not False)


def _setup_of(
    model: Any,
    criterion: Criterion,
    labels: Labels,
    prior: Prior,
    views: Bound,
    seed: int,
    scaling: Scaling,
    last: Array | None = None,
) -> Setup:
    """Return everything that is decided before learning begins; ``last`` is a dictionary to go on from."""
    solver = Solver(model.solver) if isinstance(model.solver, str) else model.solver
    if solver.method == "auto":
        steps = criterion.supervision != "none" and model.embedding != "orthonormal"
        solver = dataclasses.replace(solver, method="stochastic" if steps else "eliminate")
    if getattr(model.copies, "moves", False) and scaling.means is not None:
        raise ValueError("Moved pictures need rows of unit norm: give normalize=True beside copies that move pixels.")
    nearness = criterion.usual_proximity(labels.bound)
    if last is not None and model.n_atoms not in (None, len(last)):
        raise ValueError(f"n_atoms={model.n_atoms}, but warm_start goes on from the {len(last)} atoms of the last fit.")
    return Setup(
        criterion=criterion,
        n_components=model.n_components,
        n_atoms=model.n_atoms,
        dictionary=model.dictionary if last is None else last,
        prior=prior,
        views=views,
        solver=solver,
        max_iter=0 if _stands_aside(model) else model.max_iter,
        stopping=_stopping(model, criterion),
        insists=model.early_stopping != "auto",
        mu_proximity=nearness if solver.mu_proximity is None else solver.mu_proximity,
        shrinkage=criterion.usual_shrinkage if criterion.shrinkage is None else criterion.shrinkage,
        whiten=model.embedding != "orthonormal" and criterion.supervision != "none",
        beside=model.embedding != "orthonormal" and criterion.supervision == "none" and views.whole,
        order=_order(model, criterion, labels),
        seed=seed,
        fixed_seed=seed if isinstance(model.random_state, Integral) else None,
        copies=model.copies,
        unit=scaling.unit,
        n_jobs=model.n_jobs,
    )


def _stands_aside(model: Any) -> bool:
    """Return whether joint learning is left out: no gain of it is established for patches."""
    views = views_named(model.views)
    return model.early_stopping == "auto" and views is not None and bool(views.contrast)


def _stopping(model: Any, criterion: Criterion) -> EarlyStopping | None:
    """Return the early stopping in use, None for none."""
    auto = model.early_stopping == "auto"
    without = model.max_iter == 0 or _stands_aside(model) or (auto and criterion.supervision == "none")
    if model.early_stopping is False or without:
        return None
    if not auto and getattr(criterion, "graph", None) is not None:
        raise ValueError("early_stopping needs graphs of parts of the samples: it cannot use one of your own.")
    return model.early_stopping if isinstance(model.early_stopping, EarlyStopping) else EarlyStopping()


def _order(model: Any, criterion: Criterion, labels: Labels) -> int | None:
    """Return the order of the embedding, None where it is to be chosen."""
    suits = isinstance(criterion, LDA) and criterion.class_weight is None and labels.weights is None
    if model.embedding == "quadratic" and not suits:
        raise ValueError(
            'embedding="quadratic" is for lda without class_weight and sample_weight, got the criterion '
            f"{model.criterion!r}{'' if labels.weights is None else ' with sample_weight'}."
        )
    if model.embedding == "quadratic":
        return 2
    return None if model.embedding == "auto" and suits else 1


@dataclass(frozen=True)
class Scaling:
    """Columns standardised or not, rows scaled or not.

    Rows are scaled to unit norm. Rows of p standardised columns are divided by √(p + ‖x‖²). Their norms stay below one
    and stay apart, as the distance from the mean may tell classes apart.
    """

    unit: bool
    means: Array | None = None
    scales: Array | None = None

    def __call__(self, X: Any) -> Any:
        """Return the samples scaled."""
        if self.means is None:
            return unit_samples(X) if self.unit else check_samples(X)
        Z = np.asarray((X - self.means) / self.scales)
        largest = np.maximum(np.max(np.abs(Z), axis=1, keepdims=True), 1.0)  # keeps squares from overflow
        Z /= largest
        Z /= np.hypot(np.sqrt(Z.shape[1]) / largest, np.linalg.norm(Z, axis=1, keepdims=True))
        return check_samples(Z.astype(X.dtype))


def standardised(X: Array, weights: Array | None = None) -> Scaling:
    """Return the scaling that standardises the columns of samples (of weights), and holds rows below unit norm."""
    means, deviations = _moments(X, weights)
    return Scaling(True, means, np.where(deviations > 0, deviations, 1.0))


def _moments(X: Array, weights: Array | None = None) -> tuple[Array, Array]:
    """Return the means of the columns, and their deviations, 0 where these are rounding alone."""
    largest = float(np.max(np.abs(X))) or 1.0  # squares of what is divided by it do not overflow
    if weights is None:
        means, spread = np.mean(X, axis=0, dtype=float), np.std(X / largest, axis=0, dtype=float)
    else:
        means = np.average(X, axis=0, weights=weights)
        spread = np.sqrt(np.average(((X - means) / largest) ** 2, axis=0, weights=weights))
    # smaller deviations are rounding alone
    varies = largest * spread > 10 * np.finfo(X.dtype).eps * np.max(np.abs(X), axis=0)
    return means, np.where(varies, largest * spread, 0.0)


def choose_scaling(X: Any, labels: Labels) -> Scaling:
    """Return the scaling of samples where the user has chosen none.

    Rows have unit norm. Columns are standardised instead where few of them hold the variance, or where they come with
    mean 0 and equal deviations. They are standardised, too, in tables of at most 100 columns where the norm of a row
    tells the classes apart: where LDA of held-out samples, judged by its decisions and by nearest neighbours, is better
    that way by more than a point and more than its standard error. Few labels among many samples do not tell that.
    """
    if unlike_columns(X) or _come_standardised(X, labels.weights) or _norms_tell_classes(X, labels):
        return standardised(X, labels.weights)
    return Scaling(True)


def _come_standardised(X: Any, weights: Array | None) -> bool:
    """Return whether columns have mean 0 and equal deviations, up to chance, as those that a user has standardised.

    Their zero is the mean of the samples. Unit norm would lose how far from it a sample is. Rows that come with equal
    norms have none to lose.
    """
    if sp.issparse(X) or X.shape[1] < 2:
        return False
    rows = evenly(np.arange(X.shape[0]), TRIED)
    X, weights = np.asarray(X[rows], float), None if weights is None else weights[rows]
    X = X / (float(np.max(np.abs(X))) or 1.0)
    norms = row_norms(X)
    if np.ptp(norms) <= 1e-3 * np.max(norms):  # such differences of norms are rounding
        return False
    means, deviations = _moments(X, weights)
    varies = deviations > 0
    if not varies.any():
        return False
    offsets = means[varies] / deviations[varies]
    alike = np.std(deviations[varies]) < STANDARDISED * np.mean(deviations[varies])
    return bool(alike and np.sqrt(np.mean(offsets**2)) < STANDARDISED)


@one_blas_thread()
def _norms_tell_classes(X: Any, labels: Labels) -> bool:
    """Return whether rows of unit norm lose what tells classes apart."""
    if labels.y is None or labels.few or sp.issparse(X) or X.shape[1] > TABLE:
        return False
    rows = evenly(np.flatnonzero(labels.y >= 0), TRIED)
    X, y = np.asarray(X[rows], float), labels.y[rows]
    X = X / (float(np.max(np.abs(X))) or 1.0)
    counts = np.bincount(y)
    counts = counts[counts > 0]
    if len(counts) < 2 or np.min(counts) < FOLDS or not np.all(np.linalg.norm(X, axis=1) > 0):
        return False
    gains = np.zeros(len(y))
    for train, held in class_folds(y, FOLDS, None if labels.groups is None else labels.groups[rows]):
        for scaling, sign in ((standardised(X[train]), 1), (Scaling(True), -1)):
            rest, others = scaling(X[train]), scaling(X[held])
            try:
                with np.errstate(invalid="ignore"):  # rows of one positive column are all the same once they are scaled
                    lda = LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.01).fit(rest, y[train])
            except np.linalg.LinAlgError:  # classes without any scatter
                return False
            near = nearest_right(lda.transform(rest), y[train], lda.transform(others), y[held])
            gains[held] += sign * (near + (lda.predict(others) == y[held])) / 2
    return surely(gains) and float(gains.mean()) > WORTH
