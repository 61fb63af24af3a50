"""From checked samples to a learned model: first dictionary, steps, held-out part, fitted attributes.

It flows one way. A :class:`Setup` holds what the user has set, :class:`_Trial` chooses what is left open on held-out
samples, :func:`learn_from` learns, :func:`described` gives the fitted attributes. Nothing here knows the estimator.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score

from ..checkpoints import Checkpoint, digest, digest_of_samples
from ..coded import Coded, Rows, Samples
from ..criteria import Criterion, bind_checked
from ..defaults import LOCAL_ATOMS, default_n_atoms
from ..dictionaries import distinct_rows, learn_dictionary, suits_classes, unit_atoms
from ..embedding import (
    POOLED,
    PRINCIPAL,
    USUAL,
    Embedding,
    Neighbours,
    block_weights,
    choose_ridges,
    nearest_right,
    principal,
    surely,
    try_ridges,
    whitened,
)
from ..labels import UNLABELLED, Labels
from ..messages import warn
from ..optimize import State
from ..parallel import Finishing
from ..priors import Prior
from ..problem import Evaluation, Objective, Refresh, begin, check_codes, learn
from ..quadratic import Quadratic, better_order, fit_quadratic
from ..solvers import EarlyStopping, Solver
from ..spectrum import component_quotients, spectrum_of, tried_counts
from ..tracequotient import canonical
from ..views import Bound

Array = NDArray[Any]
Tell = Callable[[dict[str, float], Callable[[], dict[str, Any]]], bool]

_VECTORS = 20_000  # views that the first dictionary is learned from
_PASSES = 5  # passes over them
_TRIAL = 3000  # labelled samples that choices are tried on
_MANY = 2000  # labelled samples from which on one part held out tells enough
_PRINCIPAL = 48  # principal components, where these stand in for the criterion
_QUADRATIC = 20_000  # samples that the quadratic embedding is learned from, where they are in parts
_UNLABELLED = 20_000  # unlabelled samples beside those that choices are tried on
_MEASURED = 2000  # samples that the variance of codes is measured on


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
    stopping: EarlyStopping | None
    insists: bool  # whether the user asked for it
    mu_proximity: float
    shrinkage: float
    whiten: bool  # whether the embedding is that of the ratio trace
    order: int | None  # of the embedding, 1 or 2; None chooses
    seed: int
    n_jobs: int | None
    fixed_seed: int | None = None  # the user's, None where it is drawn
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
        D = unit_atoms(setup.dictionary, setup.views.n_inputs(samples.shape[1]), "dictionary")
        if setup.n_atoms is not None and setup.n_atoms != len(D):
            raise ValueError(f"n_atoms={setup.n_atoms}, but dictionary has {len(D)} atoms: leave n_atoms out.")
        return D
    rng = np.random.RandomState(setup.seed)
    n_samples, (samples, labels) = len(samples), samples.drawn_from(labels)
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
        n_atoms = _usual_atoms(setup, n_samples, labels, distinct)
    # before the work, not after it
    n_components_of(setup.criterion, setup.n_components, setup.views.width(n_atoms), labels, "atoms")
    classes = setup.views.like_samples and labels.y is not None and suits_classes(samples.X, labels.y, n_atoms)
    y = labels.y if classes else None
    options: dict[str, Any] = {"prior": setup.prior, "random_state": rng, "n_jobs": setup.n_jobs}
    method = setup.dictionary
    if method == "auto":
        method = "ksvd" if setup.views.like_samples else "online"
    if not setup.views.like_samples:
        options["n_iter"] = _PASSES
    return learn_dictionary(method, vectors, n_atoms, y, **options)[0].astype(float)


def _usual_atoms(setup: Setup, n_samples: int, labels: Labels, distinct: int) -> int:
    if not setup.views.whole:
        return min(LOCAL_ATOMS, distinct)
    return default_n_atoms(n_samples, distinct, None if labels.classes is None else len(labels.classes))


@dataclass(frozen=True)
class Choice:
    """What is chosen on held-out samples: two ridges, the number of steps, and how neighbours vote."""

    ridges: tuple[float, float] = USUAL
    n_steps: int | None = None
    votes: tuple[float, float] | None = None
    by_count: dict[int, Array] = field(default_factory=dict)  # outcomes on held-out samples by number of components


def _checkpoint(setup: Setup, samples: Samples, labels: Labels) -> Checkpoint | None:
    """Return what an earlier fit with the same data and settings has left, where the user names a file."""
    if setup.solver.checkpoint is None:
        return None
    solver = dataclasses.replace(setup.solver, checkpoint=None)
    settings = [setup.criterion, setup.n_components, setup.n_atoms, setup.dictionary, setup.prior, solver]
    settings += [setup.mu_proximity, setup.shrinkage, setup.whiten, setup.order, setup.fixed_seed, setup.stopping]
    settings += [*setup.views.description(), setup.max_iter if setup.stopping else None]
    key = {
        "samples": digest_of_samples(samples),
        "labels": digest(labels.bound, labels.weights),
        "settings": digest(*settings),
    }
    return Checkpoint.at(os.fspath(setup.solver.checkpoint), key, setup.views.n_inputs(samples.shape[1]))


_TOLD = ("history_", "n_iter_", "stop_reason_")  # of the choice of the number of steps


def _as_chosen(choice: Choice, fitted: dict[str, Any]) -> dict[str, Any]:
    """Return a choice as a file of plain numbers keeps it."""
    told = {name: fitted[name] for name in _TOLD if name in fitted}
    if told:
        told["history_"] = {name: column.tolist() for name, column in told["history_"].items()}
    by_count = {count: outcomes.tolist() for count, outcomes in choice.by_count.items()}
    return {**dataclasses.asdict(choice), "by_count": by_count, "told": told}


def _chosen_before(known: dict[str, Any]) -> tuple[Choice, dict[str, Any]]:
    told = dict(known["told"])
    if told:
        told["history_"] = {name: np.array(column) for name, column in told["history_"].items()}
    votes = None if known["votes"] is None else tuple(known["votes"])
    by_count = {int(count): np.array(outcomes) for count, outcomes in known["by_count"].items()}
    return Choice(tuple(known["ridges"]), known["n_steps"], votes, by_count), told


@dataclass
class Learned:
    """What was learned, and how it went."""

    setup: Setup
    labels: Labels
    choice: Choice
    objective: Objective
    last: Evaluation
    embedding: Embedding | Quadratic | None = None  # where no step is made
    reason: str = ""
    rows: list[dict[str, float]] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        """Return the fitted attributes that tell how learning went."""
        n_iter = len(self.rows) - 1
        history = {name: np.array([row[name] for row in self.rows]) for name in self.rows[0]}
        return {"n_iter_": n_iter, "best_iter_": n_iter, "stop_reason_": self.reason, "history_": history}


def learn_model(
    setup: Setup, samples: Samples, labels: Labels, rng: Any, tell: Tell | None, finishing: Finishing
) -> dict[str, Any]:
    """Choose on held-out samples what is left open, learn from all samples, and return the fitted attributes."""
    if setup.whiten and (setup.n_components or 0) > len(samples):
        raise ValueError(
            f"n_components={setup.n_components} is more than {len(samples)} samples can give: choose "
            f'{len(samples)} or less, or embedding="orthonormal".'
        )
    checkpoint = _checkpoint(setup, samples, labels)
    known = None if checkpoint is None else checkpoint.chosen
    trials = _Trial.several(setup, samples, labels, rng) if known is None else []
    choice = Choice(USUAL if setup.views.whole else POOLED)
    fitted: dict[str, Any] = {}
    if trials:
        ridges = USUAL if setup.views.whole else POOLED
        if setup.whiten and setup.views.whole:
            tried = [trial.ridges_tried() for trial in trials]
            pairs = [pair for pair in tried[0] if all(pair in found for found in tried)]
            ridges = choose_ridges({pair: np.concatenate([found[pair] for found in tried]) for pair in pairs})
        choice, fitted = trials[0].run(ridges, tell)
        if fitted.get("stop_reason_") in ("interrupted", "stopped by callback"):
            return fitted
        tell = None if setup.stopping is not None else tell
    del trials
    if known is not None:
        choice, fitted = _chosen_before(known)
        tell = None if fitted and setup.stopping is not None else tell
    elif checkpoint is not None:
        checkpoint.chosen = _as_chosen(choice, fitted)
    try:
        learned = learn_from(setup, samples, labels, choice, tell, checkpoint=checkpoint)
    except KeyboardInterrupt:
        if not fitted:
            raise
        return {**fitted, "stop_reason_": "interrupted"}
    finishing.begin()
    ended = {**learned.summary(), **described(learned, learned.last), **transduced(learned, learned.last)}
    if setup.stopping is None or not fitted:
        return ended
    told = ("history_", "n_iter_") if learned.reason == "interrupted" else ("history_", "n_iter_", "stop_reason_")
    return {**ended, **{name: fitted[name] for name in told}, "best_iter_": choice.n_steps or 0}


def learn_from(
    setup: Setup,
    samples: Samples,
    labels: Labels,
    choice: Choice,
    tell: Tell | None = None,
    judge: Callable[[Learned, Evaluation], tuple[float, str | None]] | None = None,
    checkpoint: Checkpoint | None = None,
) -> Learned:
    """Learn the first dictionary, bind the criterion, and make the steps that were chosen.

    ``judge(learned, now)`` is asked at the start and after each step for a score on held-out samples, and for a reason
    to stop.
    """
    D = None if checkpoint is None else checkpoint.anchor
    D = first_dictionary(setup, samples, labels) if D is None else D
    if checkpoint is not None and checkpoint.anchor is None:
        checkpoint.anchor = D
        checkpoint.save()
    looked_at = samples.for_neighbours() if setup.criterion.neighbours else samples
    quotient = bind_checked(setup.criterion, looked_at, labels, setup.n_jobs)
    del looked_at
    samples, ridge = _weighted(setup, samples, D, choice.ridges)
    count = n_components_of(setup.criterion, setup.n_components, samples.width(len(D)), labels, "atoms")
    if setup.whiten and choice.ridges == PRINCIPAL:
        count = _n_principal(setup, samples)
    steps = setup.max_iter if choice.n_steps is None else choice.n_steps
    steps = steps if samples.weights[0] else 0
    embedding: Embedding | Quadratic | None = None
    given = None
    if ridge is not None and steps == 0:
        coded = samples.coded(D)
        order = setup.order or 1
        if setup.order is None and setup.views.epsilon and labels.y is not None:
            order, votes = better_order(coded, labels.y, np.random.RandomState(setup.seed))
            choice = dataclasses.replace(choice, votes=votes)
        if order == 2:
            assert labels.y is not None
            embedding = fit_quadratic(*_at_most(coded, labels.y, setup.seed), count)
            given = coded, embedding.basis[:, :count]
        else:
            W = principal(coded, count) if choice.ridges == PRINCIPAL else whitened(quotient, coded, ridge, count)
            embedding = Embedding.of(W, coded, labels.weights)
            given = coded, np.linalg.qr(W)[0]
    objective, start = begin(
        setup.solver.method,
        samples,
        quotient,
        D,
        count,
        shrinkage=setup.shrinkage,
        ridge=ridge,
        mu_coherence=setup.solver.mu_coherence,
        mu_proximity=setup.mu_proximity,
        start=given,
    )
    learned = Learned(setup, labels, choice, objective, start, embedding)
    del given

    def note(now: Evaluation, state: State | None) -> str | None:
        score, enough = (float("nan"), None) if judge is None else judge(learned, now)
        learned.rows.append({**_row(learned, now, state), "held_out": score})
        return enough

    def follow(objective: Objective, state: State) -> str | None:
        learned.objective, now = objective, state.evaluation
        enough = note(now, state)
        if tell is not None and tell(learned.rows[-1], lambda: described(learned, now)):
            return "stopped by callback"
        return enough

    refresh: Refresh | None = None
    if checkpoint is None or checkpoint.numbers is None:
        note(start, None)
    del start  # evaluations are large: none is held for longer than it is needed
    held: list[Evaluation | State] = [_handed_over(learned)]
    if checkpoint is not None and checkpoint.numbers is not None:
        held.clear()
        learned.rows = checkpoint.numbers["rows"]
        learned.objective, held[:], refresh = checkpoint.restored(objective)
    learned.objective, state = learn(
        learned.objective,
        held.pop(),
        max_iter=steps,
        refresh_every=setup.solver.refresh_every,
        tol=setup.solver.tol,
        callback=follow,
        refresh=refresh,
        keep=None if checkpoint is None else lambda state, refresh: checkpoint.keep(state, refresh, learned.rows),
    )
    learned.last, learned.reason = state.evaluation, state.reason
    if not samples.weights[0]:
        what = "principal components of the samples" if choice.ridges == PRINCIPAL else "the classical method"
        learned.reason = f"codes do not help on held-out samples: {what}"
    return learned


def _at_most(coded: Coded, y: Array, seed: int) -> tuple[Rows, Array]:
    """Return coded samples and labels; of samples in parts only so many as kernel matrices are made of."""
    if isinstance(coded, Coded):
        return coded, y
    known = np.flatnonzero(y >= 0)
    rows = np.sort(np.random.RandomState(seed).permutation(known)[:_QUADRATIC])
    return coded.take(rows), y[rows]


def _n_principal(setup: Setup, samples: Samples) -> int:
    """Return the number of principal components where they stand in for the criterion."""
    return min(setup.n_components or _PRINCIPAL, *samples.shape)


def _weighted(setup: Setup, samples: Samples, D: Array, ridges: tuple[float, float]) -> tuple[Samples, float | None]:
    """Return the samples with the weights of codes and samples that the ridges mean, and the ridge for both."""
    if not setup.whiten:
        return samples, None
    some = np.unique(np.linspace(0, len(samples) - 1, _MEASURED).astype(int))
    part = samples.take(some)
    coded = part.coded(D)
    weights, ridge = block_weights(coded, ridges, len(samples))
    return dataclasses.replace(samples, weights=weights), ridge


def _handed_over(learned: Learned) -> Evaluation:
    """Return the evaluation, which is then no longer held."""
    last, learned.last = learned.last, None  # type: ignore[assignment]
    return last


def _row(learned: Learned, now: Evaluation, state: State | None) -> dict[str, float]:
    nan = float("nan")
    before = sum(int(row["evaluations"]) for row in learned.rows[1:])
    return {
        "step_number": len(learned.rows),
        "cost": now.value,
        "quotient": learned.objective.plain_quotient(now),
        "coherence": now.coherence,
        "proximity": now.proximity,
        "step": nan if state is None else state.length,
        "gradient_norm": nan if state is None else state.gradient_norm,
        "nonzeros": now.coded.nonzeros,
        "seconds": time.perf_counter() - learned.setup.began,
        "evaluations": 1 if state is None else state.n_evaluations - before,
        "restarted": False if state is None else state.restarted,
    }


class _Trial:
    """Learning from a part of the samples, judged on the others: ridges, number of steps, votes of neighbours."""

    def __init__(self, setup: Setup, rest: Samples, known: Labels, held: Samples, truth: Labels) -> None:
        self.setup, self.rest, self.known, self.held, self.truth = setup, rest, known, held, truth
        self.right: list[Array] = []
        self.by_count: dict[int, dict[int, Array]] = {}  # of the start, and of each step better than those before
        self.votes: tuple[float, float] | None = None
        self._coded: Coded | None = None

    @functools.cached_property
    def dictionary(self) -> Array:
        """The first dictionary, learned without the samples held out."""
        return first_dictionary(self.setup, self.rest, self.known)

    @classmethod
    def several(cls, setup: Setup, samples: Samples, labels: Labels, rng: Any) -> list[_Trial]:
        """Return trials with other parts held out: three of few samples, one of many, none where none is possible."""
        open_ = (setup.whiten and setup.views.whole) or (setup.stopping is not None and setup.max_iter > 0)
        if not open_:
            return []
        fraction = (setup.stopping or EarlyStopping()).fraction
        obstacle = cls._obstacle(setup, len(samples), labels, fraction)
        if obstacle is not None:
            if setup.stopping is not None and setup.insists:
                warn(f"early_stopping is left out, and all steps up to max_iter={setup.max_iter} are made: {obstacle}.")
            return []
        count = int(np.sum(labels.known))  # type: ignore[arg-type]
        draws = 1 if count >= _MANY or not (setup.whiten and setup.views.whole) else 3
        return [cls._drawn(setup, samples, labels, rng) for _ in range(draws)]

    @staticmethod
    def _obstacle(setup: Setup, n: int, labels: Labels, fraction: float) -> str | None:
        """Return why no part of the samples can be held out, or None where it can."""
        name = type(setup.criterion).__name__
        if labels.bound is None:
            return f"{name} has no labels to score held-out samples by"
        if getattr(setup.criterion, "graph", None) is not None:
            return "a graph of your own has no parts"
        fewest = max(2, setup.criterion.fewest_per_class + 1)
        counts = [fewest] if labels.y is None else np.bincount(labels.y[labels.y >= 0])
        if min(counts) < fewest:
            return f"{name} needs at least {fewest} samples of each class for it"
        if labels.y is not None and max(counts) < 3:  # of two samples one would be left, without scatter
            return "no class has three samples"
        if (setup.n_components or 0) > (1 - fraction) * n:
            return f"the samples that are left have fewer than n_components={setup.n_components} dimensions"
        return None

    @classmethod
    def _drawn(cls, setup: Setup, samples: Samples, labels: Labels, rng: Any) -> _Trial:
        fraction = (setup.stopping or EarlyStopping()).fraction
        rows = np.arange(len(samples))
        known: Any = labels.known
        if known.sum() > _TRIAL:  # of each class as many as before, the unlabelled as they are
            others = np.flatnonzero(~known)
            others = others if len(others) <= _UNLABELLED else rng.permutation(others)[:_UNLABELLED]
            rows = np.sort(np.r_[labels.held_out(len(samples), _TRIAL / known.sum(), rng), others])
        part, part_labels = samples.take(rows), labels.take(rows)
        held = part_labels.held_out(len(part), fraction, rng)
        rest = np.setdiff1d(np.arange(len(part)), held)
        if isinstance(setup.dictionary, str) and setup.n_atoms is not None and setup.views.whole:
            setup = dataclasses.replace(setup, n_atoms=min(setup.n_atoms, len(distinct_rows(part.X[rest]))))
        return cls(setup, part.take(rest), part_labels.take(rest), part.take(held), part_labels.take(held))

    def ridges_tried(self) -> dict[tuple[float, float], Array]:
        """Return for each pair of ridges how well held-out samples are embedded at the first dictionary."""
        D = self.dictionary
        quotient = bind_checked(self.setup.criterion, self.rest.X, self.known, self.setup.n_jobs)
        rest, held = self.rest.coded(D), self.held.coded(D)
        if not rest.nnz:
            check_codes(rest)
        width = self.rest.views.width(len(D))
        count = n_components_of(self.setup.criterion, self.setup.n_components, width, self.known, "atoms")
        return try_ridges(quotient, rest, held, count, _n_principal(self.setup, self.rest), self._outcomes)

    def run(self, ridges: tuple[float, float], tell: Tell | None) -> tuple[Choice, dict[str, Any]]:
        """Return the choice, and the fitted attributes of the last model on the way."""
        setup = dataclasses.replace(self.setup, dictionary=self.dictionary, n_atoms=None)
        steps = setup.stopping is not None and setup.max_iter > 0 and np.isfinite(ridges[0])
        choice = Choice(ridges, setup.max_iter if steps else 0)
        learned = learn_from(setup, self.rest, self.known, choice, tell if steps else None, self._judge)
        scores = [float(right.mean()) for right in self.right]
        best = int(np.argmax(scores))
        if len(self.right[0]) > 1 and not surely(self.right[best] - self.right[0]):
            best = 0
        fitted = {**learned.summary(), **described(learned, learned.last), "best_iter_": best}
        if best == 0 and steps and learned.reason not in ("interrupted", "stopped by callback"):
            fitted["stop_reason_"] = "joint learning does not help on held-out samples: the start is kept"
        return Choice(ridges, best if steps else None, self.votes, self.by_count[best]), fitted

    def _outcomes(self, ours: Array, theirs: Array) -> Array:
        """Return what each held-out sample adds to the score: whether its neighbours have its class, or R² alone."""
        rows: Any = self.known.known
        if self.truth.targets is not None:
            predicted = regress(ours, self.known).predict(theirs).reshape(self.truth.targets.shape)
            return np.array([r2_score(self.truth.targets, predicted, multioutput="variance_weighted")])
        return nearest_right(ours[rows], self.known.y[rows], theirs, self.truth.y)  # type: ignore[index, arg-type]

    def _judge(self, learned: Learned, now: Evaluation) -> tuple[float, str | None]:
        self._coded = held = self.held.coded(now.dictionary, self._coded)
        embedding = embedding_at(learned, now)
        ours, theirs = embedding(now.coded), embedding(held.weighted(now.coded.samples.weights))
        outcomes = self._outcomes(ours, theirs)
        if all(outcomes.mean() > right.mean() for right in self.right):
            counts = tried_counts(ours.shape[1])
            self.by_count[len(self.right)] = {k: self._outcomes(ours[:, :k], theirs[:, :k]) for k in counts}
        self.right.append(outcomes)
        if self.truth.y is not None and self.votes is None:
            rows: Any = self.known.known
            found = Neighbours.of(ours[rows], self.known.y[rows], theirs, self.truth.y)  # type: ignore[index]
            self.votes = found.beta, found.floor
        patience = (self.setup.stopping or EarlyStopping()).patience
        late = len(self.right) - 1 - int(np.argmax([right.mean() for right in self.right])) >= patience
        return float(self.right[-1].mean()), "held-out score no longer rises" if late else None


def embedding_at(learned: Learned, now: Evaluation) -> Embedding | Quadratic:
    """Return the embedding at one evaluation: that of the ratio trace, or of the projection in canonical form."""
    setup, objective, weights = learned.setup, learned.objective, learned.labels.weights
    if learned.embedding is not None:
        return learned.embedding
    if setup.order == 2:
        assert learned.labels.y is not None
        return fit_quadratic(*_at_most(now.coded, learned.labels.y, setup.seed), now.projection.shape[1])
    if not setup.whiten:
        return Embedding.of(canonical(now.coded.form(objective.plain.above), now.projection), now.coded, weights)
    quotient = objective.plain if objective.quotient.renew is None else objective.quotient
    return Embedding.of(whitened(quotient, now.coded, quotient.ridge, now.projection.shape[1]), now.coded, weights)


def described(learned: Learned, now: Evaluation) -> dict[str, Any]:
    """Return the fitted attributes of a model at one evaluation."""
    setup, objective, coded = learned.setup, learned.objective, now.coded
    dtype = coded.samples.dtype
    curvature = setup.prior.constant_curvature(len(now.dictionary))
    if curvature is not None and curvature.min() < 10 * np.finfo(dtype).eps:
        coded = coded.samples.coded(now.dictionary)  # codes need not be unique: take those that new samples get
    embedding = embedding_at(learned, now)
    Y = embedding(coded)
    if isinstance(embedding, Quadratic):  # what a small change of the mean features does to each component
        W, forms = embedding.basis, embedding.forms
        linear = 2 * W @ (forms @ (W.T @ coded.mean)).T
    else:
        W, forms, linear = embedding.projection, None, embedding.projection
    state = {
        "dictionary_": now.dictionary.astype(dtype),
        "projection_": W.astype(dtype),
        "forms_": forms,
        "n_components_": Y.shape[1],
        "n_atoms_": len(now.dictionary),
        "weights_": coded.samples.weights,
        "ridge_": objective.quotient.ridge,
        "ridges_": learned.choice.ridges,
        "mu_proximity_": objective.mu_proximity,
        "criterion_": setup.criterion,
        "prior_": setup.prior,
        "embedding_": Y.astype(dtype, copy=False),
        "spectrum_": spectrum_of(component_quotients(objective.plain, coded, Y), learned.choice.by_count),
        "_centre": embedding.centre,
        "_views": setup.views,
        "_epsilon": setup.views.epsilon,
        "_training": dataclasses.replace(learned.labels, weights=None),
        "_votes": learned.choice.votes,
    }
    state |= factors_of(coded, linear, now.dictionary, dtype, learned.labels.weights)
    if learned.labels.classes is not None:
        state["classes_"] = learned.labels.classes
    if setup.criterion.targets:
        state["regression_"] = regress(Y, learned.labels)
    return state


def factors_of(coded: Coded, W: Array, D: Array, dtype: Any, weights: Array | None = None) -> dict[str, Any]:
    """Return what a unit of each component looks like, and the mean image; with views there are only weights.

    Features move by W⁺ᵀ, the pseudoinverse: codes by their atoms, samples beside them by themselves.
    """
    if not coded.samples.views.whole:
        return {"components_": W.T.astype(dtype), "_mean_image": None}
    alpha, gamma = coded.samples.weights
    inverse, r = np.linalg.pinv(W), len(D) if alpha else 0
    parts = [inverse[:, :r] @ D / alpha] if alpha else []
    parts += [inverse[:, r:] / gamma] if gamma else []
    mean = coded.weighted_mean(weights)
    image = mean[r:] / gamma if gamma else mean @ D / alpha
    return {"components_": np.mean(parts, axis=0).astype(dtype), "_mean_image": image.astype(dtype)}


def regress(plain: Array, labels: Labels) -> Ridge:
    """Return the ridge regression of targets, or of indicators of classes, on the embedding."""
    if labels.targets is not None:
        targets = labels.targets
    else:
        assert labels.y is not None
        assert labels.classes is not None
        targets = np.eye(len(labels.classes))[labels.y]
    known: Any = labels.known
    Y = plain[known].astype(float)
    weights = np.ones(len(Y)) if labels.weights is None else labels.weights[known]
    scale = float(weights @ np.square(Y - np.average(Y, axis=0, weights=weights)).sum(axis=1))
    ridge = Ridge(alpha=max(1e-3 * scale / Y.shape[1], 1e-12))
    return ridge.fit(Y, targets[known], sample_weight=None if labels.weights is None else weights)


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
