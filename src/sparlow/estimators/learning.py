"""From checked samples to a learned model: first dictionary, steps, embedding, fitted attributes.

It flows one way. A :class:`Setup` holds what the user has set, a :class:`Choice` what was chosen on held-out samples
(``choosing.py``), :func:`learn_from` learns, :func:`described` gives the fitted attributes. Nothing here knows the
estimator.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.linear_model import Ridge

from ..checkpoints import Checkpoint
from ..checks import Array, warn
from ..constants import DRAWN, LOCAL_ATOMS, PASSES, POOLED_DIRECTIONS, SPREADINGS, USUAL
from ..criteria import Criterion, Quotient
from ..criteria.base import bind_checked
from ..criteria.following import sharpened
from ..defaults import default_n_atoms
from ..dictionaries import distinct_rows, learn_dictionary, suits_classes, unit_atoms
from ..embedding import Embedding, block_weights, component_quotients, spectrum_of, variances, weights_beside, whitened
from ..labels import UNLABELLED, Labels
from ..optimize import State
from ..priors import Prior
from ..problem import Evaluation, Objective, Refresh, begin, learn
from ..quadratic import Order, Quadratic, better_order, fit_quadratic
from ..rows import Codes, Features, Samples
from ..solvers import EarlyStopping, Solver
from ..stochastic import batch_size, has_steps
from ..tracequotient import canonical
from ..views import Bound
from ..voting import Rule
from .epochs import Course, Epochs, learn_in_steps

Tell = Callable[[dict[str, float], Callable[[], dict[str, Any]]], bool]

_KEPT = "joint learning does not help on held-out samples: the start is kept"
_UNJUDGED = "too few labels to hold some out, so no step is made"


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
    beside: bool  # whether samples stand beside their codes where it is not
    order: int | None  # of the embedding, 1 or 2; None chooses
    seed: int
    n_jobs: int | None
    copies: Any = None  # what draws copies of a batch
    unit: bool = True  # whether samples have unit norm
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


def components_beside(setup: Setup, samples: Any, n_atoms: int, labels: Labels) -> int:
    """Return the number of components of codes with samples beside them; by default no more than a sample has features.

    ``samples`` are those with the weights of both.
    """
    count = n_components_of(setup.criterion, setup.n_components, samples.width(n_atoms), labels, "atoms")
    return min(count, samples.shape[1]) if setup.beside and setup.n_components is None else count


def first_dictionary(setup: Setup, samples: Samples, labels: Labels) -> Array:
    """Return the atoms of the user, or learn them from the samples or their views."""
    if not isinstance(setup.dictionary, str):
        D = unit_atoms(setup.dictionary, setup.views.n_inputs(samples.shape[1]), "dictionary")
        if setup.n_atoms is not None and setup.n_atoms != len(D):
            raise ValueError(f"n_atoms={setup.n_atoms}, but dictionary has {len(D)} atoms: leave n_atoms out.")
        return D
    rng = np.random.RandomState(setup.seed)
    n_samples, (samples, labels) = len(samples), samples.drawn_from(labels)
    vectors = samples.vectors(DRAWN, rng)
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
    width = setup.views.width(n_atoms) + (samples.shape[1] if setup.beside else 0)
    n_components_of(setup.criterion, setup.n_components, width, labels, "features" if setup.beside else "atoms")
    classes = setup.views.like_samples and labels.y is not None and suits_classes(samples.X, labels.y, n_atoms)
    y = labels.y if classes else None
    options: dict[str, Any] = {"prior": setup.prior, "random_state": rng, "n_jobs": setup.n_jobs}
    method = setup.dictionary
    if method == "auto":
        method = "ksvd" if setup.views.like_samples else "online"
    if not setup.views.like_samples:
        options["n_iter"] = PASSES
    return learn_dictionary(method, vectors, n_atoms, y, **options)[0].astype(float)


def _usual_atoms(setup: Setup, n_samples: int, labels: Labels, distinct: int) -> int:
    """Return the number of atoms where the user gives none."""
    if not setup.views.whole:
        return min(LOCAL_ATOMS, distinct)
    return default_n_atoms(n_samples, distinct, None if labels.classes is None else len(labels.classes))


@dataclass(frozen=True)
class Choice:
    """What is chosen on held-out samples: two ridges, further columns, whether steps are made, how neighbours vote."""

    ridges: tuple[float, float] = USUAL
    wide: bool = False
    n_steps: int | None = None
    votes: Rule | None = None
    by_count: dict[int, Array] = field(default_factory=dict)  # outcomes on held-out samples by number of components
    held_out: dict[str, float] = field(default_factory=dict)  # their mean at the start and after the steps


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
        for row, when in ((self.rows[0], "start"), (self.rows[-1], "end")):
            if self.choice.held_out and (when == "start" or n_iter):
                row["held_out"] = self.choice.held_out[when]
        history = {name: np.array([row[name] for row in self.rows]) for name in self.rows[0]}
        reason = self.reason
        if self.choice.n_steps == 0 and reason == "max_iter reached":
            reason = _KEPT if self.choice.held_out else _UNJUDGED
        return {"n_iter_": n_iter, "best_iter_": n_iter, "stop_reason_": reason, "history_": history}


def learn_from(
    setup: Setup,
    samples: Samples,
    labels: Labels,
    choice: Choice,
    tell: Tell | None = None,
    checkpoint: Checkpoint | None = None,
) -> Learned:
    """Learn the first dictionary, bind the criterion, and make the steps that were chosen."""
    D = None if checkpoint is None else checkpoint.anchor
    D = first_dictionary(setup, samples, labels) if D is None else D
    if checkpoint is not None and checkpoint.anchor is None:
        checkpoint.anchor = D
        checkpoint.save()
    steps = setup.max_iter if choice.n_steps is None else choice.n_steps
    quotient, course = None, None
    if steps and setup.solver.method == "stochastic":
        quotient = bind_checked(setup.criterion, _looked_at(setup, samples, D), labels, setup.n_jobs)
        if has_steps(setup.criterion, quotient):
            D, course = _stepped(setup, samples, labels, choice, quotient, D, tell, checkpoint)
            steps, checkpoint = 0, None
        else:
            warn(
                f"{type(setup.criterion).__name__} has the trace form below, for which no stochastic steps are known: "
                'the ascent of all samples is taken. solver="eliminate" says so without this warning.'
            )
    coded, ridge = samples.coded(D, keep=steps > 0), None
    if quotient is None or setup.views.epsilon:
        first = coded.features if setup.criterion.on_codes else None
        quotient = bind_checked(setup.criterion, _looked_at(setup, samples, D, coded), labels, setup.n_jobs, first)
    if setup.whiten:
        weights, ridge = block_weights(coded, choice.ridges)
        samples, coded = dataclasses.replace(samples, weights=weights), coded.weighted(weights)
    elif setup.beside:
        weights = weights_beside(*variances(coded, labels.weights))
        samples, coded = dataclasses.replace(samples, weights=weights), coded.weighted(weights)
    count = components_beside(setup, samples, len(D), labels)
    steps = steps if samples.weights[0] else 0
    embedding: Embedding | Quadratic | None = None
    U: Array | None = None
    if ridge is not None and steps == 0:
        better = Order(setup.order or 1)
        if setup.order is None and setup.views.epsilon and labels.y is not None:
            better = better_order(coded, labels.y, setup.seed, labels.groups)
            choice = dataclasses.replace(choice, votes=better.votes)
        if better.order == 2:
            assert labels.y is not None
            embedding = fit_quadratic(*_at_most(coded, labels.y, setup.seed), count, setup.seed, better.basis)
            U = np.linalg.qr(embedding.basis[:, :count])[0]
        else:
            near: Array | None = None
            for _ in range(1 if quotient.renew is None else SPREADINGS):
                quotient = quotient if quotient.renew is None else quotient.renew(near)
                W = whitened(quotient, coded, ridge, count, choice.wide)
                embedding = Embedding.of(W, coded, labels.weights)
                near = None if quotient.renew is None else embedding(coded)
            U = np.linalg.qr(W[:, :count])[0]
    objective, start = begin(
        setup.solver.method if setup.solver.method != "stochastic" else "eliminate",
        samples,
        quotient,
        D,
        count,
        shrinkage=setup.shrinkage,
        ridge=ridge,
        mu_coherence=setup.solver.mu_coherence,
        mu_proximity=setup.mu_proximity,
        sums=setup.solver.sums,
        start=(coded, U),
    )
    learned = Learned(setup, labels, choice, objective, start, embedding)
    del coded
    if course is not None:
        learned.rows, learned.reason = course.rows, course.reason
        return learned

    def follow(objective: Objective, state: State) -> str | None:
        learned.objective, now = objective, state.evaluation
        learned.rows.append(_row(learned, now, state))
        if tell is not None and tell(learned.rows[-1], lambda: described(learned, now)):
            return "stopped by callback"
        return None

    refresh: Refresh | None = None
    if checkpoint is None or checkpoint.numbers is None:
        learned.rows.append(_row(learned, start, None))
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
        what = "a wide metric of the samples" if choice.wide else "the classical method"
        learned.reason = f"codes do not help on held-out samples: {what}"
    return learned


def _looked_at(setup: Setup, samples: Samples, D: Array, coded: Codes | None = None) -> Any:
    """Return what neighbours are searched in: the samples, or the leading directions of pooled codes of patches."""
    if not setup.criterion.neighbours:
        return samples
    if not setup.views.epsilon:
        return samples.for_neighbours()
    coded = samples.coded(D) if coded is None else coded
    return coded @ coded.leading_directions(POOLED_DIRECTIONS, centred=False)


def _stepped(
    setup: Setup,
    samples: Samples,
    labels: Labels,
    choice: Choice,
    quotient: Quotient,
    D: Array,
    tell: Tell | None,
    checkpoint: Checkpoint | None,
) -> tuple[Array, Course]:
    """Return the dictionary after the passes of stochastic steps, and how they went; codes learn alone."""
    alone = dataclasses.replace(samples, weights=(1.0, 0.0))
    count = n_components_of(setup.criterion, setup.n_components, alone.width(len(D)), labels, "atoms")

    def follow(row: dict[str, float], now: Array) -> bool:
        def model() -> dict[str, Any]:
            known = dataclasses.replace(setup, dictionary=now, n_atoms=None)
            learned = learn_from(known, samples, labels, dataclasses.replace(choice, n_steps=0))
            return {**learned.summary(), **described(learned, learned.last)}

        return tell is not None and tell(row, model)

    epochs = Epochs.of(setup, alone, labels, quotient, count, batch_size(len(D)))
    course = learn_in_steps(setup, epochs, D, follow, checkpoint)
    return course.dictionary, course


def _at_most(coded: Codes, y: Array, seed: int) -> tuple[Features, Array]:
    """Return coded samples and labels; of samples in parts only so many as kernel matrices are made of."""
    if coded.chunk is not None:
        return coded, y
    known = np.flatnonzero(y >= 0)
    rows = np.sort(np.random.RandomState(seed).permutation(known)[:DRAWN])
    return coded.take(rows), y[rows]


def _handed_over(learned: Learned) -> Evaluation:
    """Return the evaluation, which is then no longer held."""
    last, learned.last = learned.last, None  # type: ignore[assignment]
    return last


def _row(learned: Learned, now: Evaluation, state: State | None) -> dict[str, float]:
    """Return the row of ``history_`` for one step."""
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
        "held_out": nan,
    }


def embedding_at(learned: Learned, now: Evaluation) -> Embedding | Quadratic:
    """Return the embedding at one evaluation: that of the ratio trace, or of the projection in canonical form."""
    setup, objective, weights = learned.setup, learned.objective, learned.labels.weights
    if learned.embedding is not None:
        return learned.embedding
    if setup.order == 2:
        assert learned.labels.y is not None
        some = _at_most(now.coded, learned.labels.y, setup.seed)
        return fit_quadratic(*some, now.projection.shape[1], setup.seed)
    if not setup.whiten:
        Y = now.coded @ now.projection
        return Embedding.of(canonical(Y.T @ (objective.plain.above @ Y), now.projection), now.coded, weights)
    quotient = objective.plain if objective.quotient.renew is None else objective.quotient
    W = whitened(quotient, now.coded, quotient.ridge, now.projection.shape[1], learned.choice.wide)
    return Embedding.of(W, now.coded, weights)


def described(learned: Learned, now: Evaluation) -> dict[str, Any]:
    """Return the fitted attributes of a model at one evaluation."""
    setup, objective = learned.setup, learned.objective
    curvature = setup.prior.constant_curvature(len(now.dictionary))
    # codes of a curved prior do not depend on those they were started from
    if len(learned.rows) > 1 and (curvature is None or curvature.min() < 1e-4):
        # the codes that new samples get
        now = dataclasses.replace(now, coded=now.coded.samples.coded(now.dictionary))
    coded, dtype = now.coded, now.coded.samples.dtype
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
        "ridges_": learned.choice.ridges if setup.whiten else (np.nan, np.nan),
        "mu_proximity_": objective.mu_proximity,
        "criterion_": setup.criterion,
        "prior_": setup.prior,
        "embedding_": Y.astype(dtype, copy=False),
        "spectrum_": spectrum_of(component_quotients(objective.plain, coded, Y), learned.choice.by_count),
        "_centre": embedding.centre,
        "_views": setup.views,
        "_epsilon": setup.views.epsilon,
        "_whitener": setup.views.whitener,
        "_training": dataclasses.replace(learned.labels, weights=None),
        "_rule": learned.choice.votes,
    }
    state |= factors_of(coded, linear, now.dictionary, dtype, learned.labels.weights)
    if learned.labels.classes is not None:
        state["classes_"] = learned.labels.classes
    if setup.criterion.targets:
        state["regression_"] = regress(Y, learned.labels)
    return state


def factors_of(coded: Codes, W: Array, D: Array, dtype: Any, weights: Array | None = None) -> dict[str, Any]:
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


def transduced(criterion: Criterion, quotient: Quotient, labels: Labels, Y: Array) -> dict[str, Any]:
    """Return labels for the unlabelled samples embedded at Y, spread over neighbours; −1 where none arrives."""
    memberships, classes, y = quotient.memberships, labels.classes, labels.y
    if classes is None or y is None or criterion.supervision != "semi":
        return {}
    if memberships is None:  # every sample has its label
        return {"transduction_": classes[y]} if y.min() >= 0 else {}
    shares = memberships(Y)
    filled = classes[np.where(y >= 0, y, shares.argmax(axis=1))]
    filled[(y < 0) & ~shares.any(axis=1)] = UNLABELLED
    return {"transduction_": filled, "memberships_": sharpened(shares, y)}
