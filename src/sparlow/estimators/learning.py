"""From checked samples to a learned model: first dictionary, steps, held-out part, fitted attributes.

It flows one way: a :class:`Setup` holds every choice, :func:`learn_from` learns, :func:`described` gives the fitted
attributes. Nothing here knows the estimator.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.neighbors import KNeighborsClassifier

from ..coded import Coded, Samples
from ..criteria import Criterion, bound
from ..defaults import default_n_atoms
from ..dictionaries import distinct_rows, learn_dictionary, suits_classes, unit_atoms
from ..embedding import Embedding
from ..labels import UNLABELLED, Labels
from ..optimize import State
from ..priors import Prior
from ..problem import Evaluation, Objective, begin, learn
from ..solvers import EarlyStopping, Solver
from ..tracequotient import canonical
from ..views import Bound

Array = NDArray[Any]
Tell = Callable[[dict[str, float], Callable[[], dict[str, Any]]], bool]

_VECTORS = 50_000  # views that the first dictionary is learned from


@dataclass(frozen=True)
class Setup:
    """Everything that is decided before learning begins."""

    criterion: Criterion
    n_components: int | None
    n_atoms: int | None
    dictionary: Any  # the name of a learner, or atoms
    prior: Prior
    views: Bound
    solver: Solver
    max_iter: int
    mu_proximity: float
    shrinkage: float
    unit: bool  # whether embeddings are scaled to unit norm
    kinship: float
    seed: int
    n_jobs: int | None
    began: float = field(default_factory=time.perf_counter)


def n_components_of(criterion: Criterion, given: int | None, n_features: int, labels: Labels, what: str) -> int:
    """Return the number of components, chosen, or checked against what the criterion can give."""
    if given is None:
        return criterion.usual_components(n_features, labels.bound)
    most = criterion.most_components(n_features, labels.bound)
    if given > most:
        because = f"classes - 1 = {most}" if most < n_features else f"the {n_features} {what}"
        raise ValueError(
            f"n_components={given} is more than {type(criterion).__name__} can give here, which is {most} "
            f"({because}). Choose n_components={most} or less."
        )
    return int(given)


def first_dictionary(setup: Setup, samples: Samples, labels: Labels) -> Array:
    """Return the atoms of the user, or learn them from the samples or their views."""
    if not isinstance(setup.dictionary, str):
        D = unit_atoms(setup.dictionary, setup.views.n_inputs(samples.X.shape[1]), "dictionary")
        if setup.n_atoms is not None and setup.n_atoms != len(D):
            raise ValueError(f"n_atoms={setup.n_atoms}, but dictionary has {len(D)} atoms: leave n_atoms out.")
        return D
    rng = np.random.RandomState(setup.seed)
    vectors = samples.vectors(_VECTORS, rng)
    distinct = len(distinct_rows(vectors))
    if distinct < 2:
        n, m = samples.X.shape
        raise ValueError(
            f"All samples are zero or multiples of the same one (n_samples={n}, n_features={m}): there is nothing that "
            "atoms, which have unit norm, could tell apart."
        )
    n_atoms = setup.n_atoms
    if n_atoms is None:
        n_atoms = _usual_atoms(setup, samples, labels, distinct)
    # before the work, not after it
    n_components_of(setup.criterion, setup.n_components, setup.views.width(n_atoms), labels, "atoms")
    whole = setup.views.whole
    y = labels.y if whole and labels.y is not None and suits_classes(samples.X, labels.y, n_atoms) else None
    options: dict[str, Any] = {"prior": setup.prior, "random_state": rng, "n_jobs": setup.n_jobs}
    return learn_dictionary(setup.dictionary, vectors, n_atoms, y, **options)[0].astype(float)


def _usual_atoms(setup: Setup, samples: Samples, labels: Labels, distinct: int) -> int:
    if not setup.views.whole:
        return min(128, distinct)
    some = labels.y is not None and labels.y.min() < 0
    n_labelled = len(distinct_rows(samples.X[labels.known])) if some else None
    classes = None if labels.classes is None else len(labels.classes)
    return default_n_atoms(len(samples), distinct, classes, setup.kinship, n_labelled)


@dataclass
class Learned:
    """What was learned, how it went, and which step was best on the held-out part."""

    setup: Setup
    labels: Labels
    objective: Objective
    last: Evaluation
    reason: str
    rows: list[dict[str, float]]
    best: Evaluation | None = None
    best_step: int = 0

    def summary(self) -> dict[str, Any]:
        """Return the fitted attributes that tell how learning went."""
        n_iter = len(self.rows) - 1
        history = {name: np.array([row[name] for row in self.rows]) for name in self.rows[0]}
        return {"n_iter_": n_iter, "best_iter_": n_iter, "stop_reason_": self.reason, "history_": history}


def learn_from(
    setup: Setup,
    samples: Samples,
    labels: Labels,
    max_iter: int,
    tell: Tell | None = None,
    held_out: HeldOut | None = None,
    patience: int = 0,
) -> Learned:
    """Learn the first dictionary, bind the criterion, and make at most ``max_iter`` steps from there."""
    D = first_dictionary(setup, samples, labels)
    width = setup.views.width(len(D))
    count = n_components_of(setup.criterion, setup.n_components, width, labels, "atoms")
    quotient = bound(setup.criterion, samples.X, labels.bound, setup.n_jobs)
    objective, start = begin(
        setup.solver.method,
        samples,
        quotient,
        D,
        count,
        shrinkage=setup.shrinkage,
        mu_coherence=setup.solver.mu_coherence,
        mu_proximity=setup.mu_proximity,
    )
    learned = Learned(setup, labels, objective, start, "", [])
    best_score = -np.inf

    def note(now: Evaluation, row: dict[str, float]) -> None:
        nonlocal best_score
        score = float("nan") if held_out is None else held_out.score(learned, now)
        if held_out is not None and (score > best_score or learned.best is None):
            learned.best, learned.best_step, best_score = _light(now), len(learned.rows), score
        learned.rows.append({**row, "held_out": score})

    def follow(objective: Objective, state: State) -> str | None:
        learned.objective, now = objective, state.evaluation
        trials = state.n_evaluations - sum(int(row["evaluations"]) for row in learned.rows[1:])
        note(now, _row(setup, objective, now, len(learned.rows), state, trials))
        if tell is not None and tell(learned.rows[-1], lambda: described(learned, now)):
            return "stopped by callback"
        if held_out is not None and len(learned.rows) - 1 - learned.best_step >= patience:
            return "held-out score no longer rises"
        return None

    note(start, _row(setup, objective, start, 0, None, 1))
    learned.last = start
    solver = setup.solver
    del start  # evaluations are large: none is held for longer than it is needed
    learned.objective, state = learn(
        objective,
        _handed_over(learned),
        max_iter=max_iter,
        refresh_every=solver.refresh_every,
        tol=solver.tol,
        callback=follow,
    )
    learned.last, learned.reason = state.evaluation, state.reason
    return learned


def _handed_over(learned: Learned) -> Evaluation:
    """Return the evaluation, which is then no longer held."""
    last, learned.last = learned.last, None  # type: ignore[assignment]
    return last


def _light(now: Evaluation) -> Evaluation:
    """Return an evaluation without the codes of views, which are large."""
    import dataclasses

    return dataclasses.replace(now, coded=now.coded.without_codes())


def _row(
    setup: Setup, objective: Objective, now: Evaluation, number: int, state: State | None, trials: int
) -> dict[str, float]:
    codes = now.coded.codes
    nonzeros = float("nan") if codes is None else codes.nnz / codes.shape[0]
    return {
        "step_number": number,
        "cost": now.value,
        "quotient": objective.plain_quotient(now),
        "coherence": now.coherence,
        "proximity": now.proximity,
        "step": float("nan") if state is None else state.length,
        "gradient_norm": float("nan") if state is None else state.gradient_norm,
        "nonzeros": nonzeros,
        "seconds": time.perf_counter() - setup.began,
        "evaluations": trials,
        "restarted": False if state is None else state.restarted,
    }


class HeldOut:
    """Samples that steps are judged on; their last codes are the start of the next ones."""

    def __init__(self, samples: Samples, labels: Labels) -> None:
        self.samples, self.labels = samples, labels
        self._coded: Coded | None = None
        self._quotient: Any = None

    def score(self, learned: Learned, now: Evaluation) -> float:
        """Return accuracy by the nearest sample, R² of targets, or the quotient where there are no labels."""
        self._coded = coded = self.samples.coded(now.dictionary, self._coded)
        if self.labels.bound is None:
            if self._quotient is None:
                self._quotient = learned.setup.criterion.bind(self.samples.X, None, self.samples.n_jobs)
            return float(self._quotient.value(coded, now.projection).quotient)
        embedding = Embedding.of(now.projection, now.coded, learned.setup.unit)
        ours, theirs = embedding(now.coded), embedding(coded)
        if self.labels.targets is not None:
            regression = regress(now.coded @ now.projection, learned.labels)
            predicted = regression.predict(coded @ now.projection).reshape(self.labels.targets.shape)
            return float(r2_score(self.labels.targets, predicted, multioutput="variance_weighted"))
        known = learned.labels.y >= 0  # type: ignore[operator]
        nearest = KNeighborsClassifier(1).fit(ours[known], learned.labels.y[known])  # type: ignore[index]
        return float(nearest.score(theirs, self.labels.y))


def learn_with_steps_held_out(
    setup: Setup, samples: Samples, labels: Labels, stopping: EarlyStopping, rng: Any, tell: Tell | None
) -> dict[str, Any]:
    """Choose the number of steps on a held-out part, then learn from all samples with it; the fitted attributes."""
    held = labels.held_out(len(samples), stopping.fraction, rng)
    rest = np.setdiff1d(np.arange(len(samples)), held)
    held_out = HeldOut(samples.take(held), labels.take(held))
    first = learn_from(setup, samples.take(rest), labels.take(rest), setup.max_iter, tell, held_out, stopping.patience)
    assert first.best is not None
    fitted = {**first.summary(), "best_iter_": first.best_step, **described(first, first.best)}
    if first.reason in ("interrupted", "stopped by callback"):
        return fitted
    steps = first.best_step
    del first, held_out
    try:
        learned = learn_from(setup, samples, labels, steps)
    except KeyboardInterrupt:
        return {**fitted, "stop_reason_": "interrupted"}
    interrupted = {"stop_reason_": "interrupted"} if learned.reason == "interrupted" else {}
    return {**fitted, **interrupted, **described(learned, learned.last), **transduced(learned, learned.last)}


def described(learned: Learned, now: Evaluation) -> dict[str, Any]:
    """Return the fitted attributes of a model at one evaluation."""
    setup, objective = learned.setup, learned.objective
    dtype = now.coded.matrix.dtype
    U = canonical(now.coded.form(objective.plain.above), now.projection)
    embedding = Embedding.of(U, now.coded, setup.unit)
    state = {
        "dictionary_": now.dictionary.astype(dtype),
        "projection_": U.astype(dtype),
        "n_components_": U.shape[1],
        "n_atoms_": len(now.dictionary),
        "ridge_": objective.quotient.ridge,
        "mu_proximity_": objective.mu_proximity,
        "criterion_": setup.criterion,
        "prior_": setup.prior,
        "shrinkage_": setup.shrinkage,
        "embedding_": embedding(now.coded).astype(dtype, copy=False),
        "_embed": embedding,
        "_views": setup.views,
        "_training": learned.labels,
    }
    whole = setup.views.whole
    state["components_"] = (U.T @ now.dictionary if whole else U.T).astype(dtype)
    state["_mean_image"] = (now.coded.mean @ now.dictionary).astype(dtype) if whole else None
    if learned.labels.classes is not None:
        state["classes_"] = learned.labels.classes
    if setup.criterion.targets:
        state["regression_"] = regress(now.coded @ U, learned.labels)
    return state


def regress(plain: Array, labels: Labels) -> Ridge:
    """Return the ridge regression of targets, or of indicators of classes, on the embedding as it is."""
    if labels.targets is not None:
        targets = labels.targets
    else:
        assert labels.y is not None
        assert labels.classes is not None
        targets = np.eye(len(labels.classes))[labels.y]
    known: Any = labels.known
    scale = float(np.var(plain[known], axis=0).sum()) * known.sum()
    return Ridge(alpha=max(1e-3 * scale / plain.shape[1], 1e-12)).fit(plain[known].astype(float), targets[known])


def transduced(learned: Learned, now: Evaluation) -> dict[str, Any]:
    """Return labels for the unlabelled samples, spread over neighbours as while learning; −1 where none arrives."""
    memberships, classes, y = learned.objective.quotient.memberships, learned.labels.classes, learned.labels.y
    if classes is None or y is None or learned.setup.criterion.supervision != "semi" or learned.reason == "interrupted":
        return {}
    if memberships is None:  # every sample has its label
        return {"transduction_": classes[y]} if y.min() >= 0 else {}
    try:
        shares = memberships(now.quotient.embedding)
    except KeyboardInterrupt:
        return {"stop_reason_": "interrupted"}
    labels = classes[np.where(y >= 0, y, shares.argmax(axis=1))]
    labels[(y < 0) & ~shares.any(axis=1)] = UNLABELLED
    return {"transduction_": labels}
