"""What is left open is chosen on held-out samples: ridges, further columns, number of steps. Then all samples teach."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import r2_score

from ..checkpoints import Checkpoint, digest, digest_of_samples
from ..coded import Coded, Samples
from ..criteria.base import bind_checked
from ..dictionaries import distinct_rows
from ..embedding import (
    FEW,
    FLAT,
    LARGER,
    PAIRS,
    POOLED,
    RIDGES_BESIDE,
    USUAL,
    WIDE,
    WORTH,
    Embedding,
    Neighbours,
    Ratio,
    choose_ridges,
    nearest_right,
    surely,
)
from ..labels import Labels
from ..messages import warn
from ..parallel import Finishing
from ..parts import working_memory
from ..problem import Evaluation, check_codes
from ..solvers import EarlyStopping
from ..spectrum import tried_counts
from .learning import (
    Choice,
    Learned,
    Setup,
    Tell,
    described,
    embedding_at,
    first_dictionary,
    learn_from,
    n_components_of,
    regress,
    transduced,
)

Array = NDArray[Any]

_TRIAL = 3000  # labelled samples that choices are tried on
_OF_EACH = 3  # of each class among them, where there are as many
_LARGER = 20_000  # samples that further columns are tried on, where there are as many
_MANY = 2000  # labelled samples from which on one part held out tells enough
_DRAWS = 3  # parts that are held out of fewer
_UNLABELLED = 20_000  # unlabelled samples beside those that choices are tried on
_ENDED = ("interrupted", "stopped by callback")
_KEPT = "joint learning does not help on held-out samples: the start is kept"


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
    trials = Trial.several(setup, samples, labels, rng) if known is None else []
    choice = _usual(setup, labels)
    fitted: dict[str, Any] = {}
    if trials:
        larger = functools.partial(trials[0].larger, samples, labels, rng)
        choice, fitted = _choose(setup, trials, larger, choice, tell)
        del larger
        if fitted.get("stop_reason_") in _ENDED:
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
    told = _TOLD[:2] if learned.reason == "interrupted" else _TOLD
    return {**ended, **{name: fitted[name] for name in told}, "best_iter_": choice.n_steps or 0}


def _usual(setup: Setup, labels: Labels) -> Choice:
    """Return what is chosen where held-out samples do not say otherwise."""
    if not setup.views.whole:
        return Choice(POOLED)
    return Choice(FEW if labels.few else USUAL)


def _choose(
    setup: Setup, trials: list[Trial], larger: Callable[[], Trial | None], start: Choice, tell: Tell | None
) -> tuple[Choice, dict[str, Any]]:
    """Return the choice, and the fitted attributes of the last model on the way; ``start`` wins ties.

    A ``larger`` trial, where there is one, says whether further columns help.
    """
    if setup.whiten and setup.views.whole:
        pairs = [ridges for ridges in PAIRS if all(trial.has_room(ridges) for trial in trials)]
        tried = [{ridges: trial.outcomes(Choice(ridges)) for ridges in pairs} for trial in trials]
        found = {ridges: _pooled(trials, [outcomes[ridges] for outcomes in tried]) for ridges in pairs}
        start = Choice(_beyond_the_grid(trials, found, choose_ridges(found, start.ridges)))
        if all(trial.may_be_wide for trial in trials):
            start = _columns(trials, larger(), start, found[start.ridges])
    choice, fitted = trials[0].run(start, tell)
    if choice.n_steps and trials[0].truth.y is not None and fitted["stop_reason_"] not in _ENDED:
        gained = [trial.gains(choice) for trial in trials]
        if any(gains is None for gains in gained):
            return choice, {**fitted, "stop_reason_": "interrupted"}
        if not surely(_pooled(trials, gained)):  # type: ignore[arg-type]
            choice = dataclasses.replace(choice, n_steps=0, by_count=trials[0].by_count(0))
            fitted |= {"best_iter_": 0, "stop_reason_": _KEPT}
    return choice, fitted


def _beyond_the_grid(
    trials: list[Trial], found: dict[tuple[float, float], Array], chosen: tuple[float, float]
) -> tuple[float, float]:
    """Return the ridges chosen, or a larger one of the samples, where theirs is the largest tried and that is better.

    ``found`` gets the outcomes of what is tried.
    """
    if chosen[1] != max(filter(np.isfinite, RIDGES_BESIDE)):
        return chosen
    more = [(chosen[0], ridge) for ridge in LARGER]
    found |= {ridges: _pooled(trials, [trial.outcomes(Choice(ridges)) for trial in trials]) for ridges in more}
    best = max(more, key=lambda ridges: float(found[ridges].mean()))
    return best if surely(found[best] - found[chosen]) else chosen


def _columns(trials: list[Trial], larger: Trial | None, start: Choice, narrow: Array) -> Choice:
    """Return the choice with further columns, where these surely help; ``narrow`` has the outcomes without them.

    Where fewer than 2000 samples judge, chance looks sure too often: further columns must add a point.
    """
    worth = WORTH
    if larger is not None:
        trials, narrow = [larger], _pooled([larger], [larger.outcomes(start)])
        worth = WORTH if len(larger.rows) < _MANY else 0.0
    room = all(trial.has_room(FLAT) for trial in trials)
    options = [Choice(ridges, wide=True) for ridges in (start.ridges, *[FLAT] * room)]
    wide = [_pooled(trials, [trial.outcomes(option) for trial in trials]) for option in options]
    best = int(np.argmax([outcomes.mean() for outcomes in wide]))
    gains = wide[best] - narrow
    return options[best] if surely(gains) and gains.mean() > worth else start


def _pooled(trials: list[Trial], outcomes: list[Array]) -> Array:
    """Return the mean outcome of each sample over the trials that hold it out; scores of targets as they are."""
    if trials[0].truth.targets is not None:
        return np.concatenate(outcomes)
    places = np.unique(np.concatenate([trial.rows for trial in trials]), return_inverse=True)[1]
    return np.asarray(np.bincount(places, np.concatenate(outcomes)) / np.bincount(places))


class Trial:
    """Learning from a part of the samples, ``taught`` of all, judged on the others, which are ``rows`` of all."""

    def __init__(
        self, setup: Setup, rest: Samples, known: Labels, held: Samples, truth: Labels, rows: Array, taught: Array
    ) -> None:
        self.setup, self.rest, self.known, self.held, self.truth = setup, rest, known, held, truth
        self.rows, self.taught = rows, taught
        self.right: list[Array] = []
        self._embeddings: dict[int, tuple[Array, Array]] = {}  # at the start, and at the best step so far
        self.votes: tuple[float, float] | None = None
        self._coded: Coded | None = None

    @functools.cached_property
    def dictionary(self) -> Array:
        """The first dictionary, learned without the samples held out."""
        return first_dictionary(self.setup, self.rest, self.known)

    @functools.cached_property
    def _start(self) -> tuple[Ratio, Coded]:
        """The ratio trace at the first dictionary, and the held-out samples coded at it."""
        D = self.dictionary
        quotient = bind_checked(self.setup.criterion, self.rest.X, self.known, self.setup.n_jobs)
        rest, held = self.rest.coded(D), self.held.coded(D)
        if not rest.nnz:
            check_codes(rest)
        return Ratio(quotient, rest), held

    @functools.cached_property
    def _count(self) -> int:
        """Return the number of components of a trial."""
        width = self.rest.views.width(len(self.dictionary))
        return n_components_of(self.setup.criterion, self.setup.n_components, width, self.known, "atoms")

    @classmethod
    def several(cls, setup: Setup, samples: Samples, labels: Labels, rng: Any) -> list[Trial]:
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
        draws = 1 if count >= _MANY or not setup.views.whole else _DRAWS
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
    def _drawn(cls, setup: Setup, samples: Samples, labels: Labels, rng: Any) -> Trial:
        """Draw the samples of a trial, and the part that is held out."""
        fraction = (setup.stopping or EarlyStopping()).fraction
        rows = np.arange(len(samples))
        known: Any = labels.known
        if known.sum() > _TRIAL:  # of each class as many as before, the unlabelled as they are
            others = np.flatnonzero(~known)
            others = others if len(others) <= _UNLABELLED else rng.permutation(others)[:_UNLABELLED]
            drawn = labels.held_out(len(samples), _TRIAL / known.sum(), rng)
            rows = np.union1d(np.r_[drawn, labels.lacking(drawn, _OF_EACH, rng)], others)
        part, part_labels = samples.take(rows), labels.take(rows)
        held = part_labels.held_out(len(part), fraction, rng)
        rest = np.setdiff1d(np.arange(len(part)), held)
        if isinstance(setup.dictionary, str) and setup.n_atoms is not None and setup.views.whole:
            setup = dataclasses.replace(setup, n_atoms=min(setup.n_atoms, len(distinct_rows(part.X[rest]))))
        parts = part.take(rest), part_labels.take(rest), part.take(held), part_labels.take(held)
        return cls(setup, *parts, rows[held], rows[rest])

    def larger(self, samples: Samples, labels: Labels, rng: Any) -> Trial | None:
        """Return a trial with many samples at the dictionary of this one, which is learned from few of them.

        The more samples there are, the more further columns help: few samples do not tell. None where they are all.
        """
        n, y = len(samples), labels.y
        if y is None or y.min() < 0 or n <= _TRIAL or not self.setup.whiten or not self.setup.views.whole:
            return None
        most = min(_LARGER, working_memory() // (8 * 8 * samples.shape[1]))
        if most <= _TRIAL:
            return None
        others = rng.permutation(np.setdiff1d(np.arange(n), self.taught))[: most - len(self.taught)]
        if np.bincount(y[others], minlength=int(y.max()) + 1).min() < 2:
            return None
        part = labels.take(others)
        held = others[part.held_out(len(others), min(_TRIAL, n // 3) / len(others), rng)]
        rest = np.union1d(self.taught, np.setdiff1d(others, held))
        parts = samples.take(rest), labels.take(rest), samples.take(held), labels.take(held)
        return Trial(self._at_first_dictionary(), *parts, held, rest)

    def has_room(self, ridges: tuple[float, float]) -> bool:
        """Return whether the features that these ridges leave are as many as the components."""
        return self._start[0].width(ridges) >= self._count

    @property
    def may_be_wide(self) -> bool:
        """Return whether further columns may be tried: for classes, where the user has named no number."""
        return self.setup.n_components is None and self.known.y is not None and self._count < WIDE

    def outcomes(self, choice: Choice) -> Array:
        """Return how well each held-out sample is embedded at the first dictionary."""
        ratio, held = self._start
        coded, W = ratio.solve(choice.ridges, self._count, choice.wide)
        embedding = Embedding.of(W, coded)
        return self._judged(embedding(coded), embedding(held.weighted(coded.samples.weights)))

    def run(self, start: Choice, tell: Tell | None) -> tuple[Choice, dict[str, Any]]:
        """Make steps, and return the choice of their number and the fitted attributes of the last model on the way."""
        setup = self._at_first_dictionary()
        steps = setup.stopping is not None and setup.max_iter > 0 and bool(np.isfinite(start.ridges[0]))
        choice = dataclasses.replace(start, n_steps=setup.max_iter if steps else 0)
        learned = learn_from(setup, self.rest, self.known, choice, tell if steps else None, self._judge)
        scores = [float(right.mean()) for right in self.right]
        best = int(np.argmax(scores))
        if len(self.right[0]) > 1 and not surely(self.right[best] - self.right[0]):
            best = 0
        fitted = {**learned.summary(), **described(learned, learned.last), "best_iter_": best}
        if best == 0 and steps and learned.reason not in _ENDED:
            fitted["stop_reason_"] = _KEPT
        n_steps = best if steps else None
        return dataclasses.replace(choice, n_steps=n_steps, votes=self.votes, by_count=self.by_count(best)), fitted

    def by_count(self, step: int) -> dict[int, Array]:
        """Return the outcomes after a step by number of columns; of the start, or of the best step."""
        ours, theirs = self._embeddings[step]
        return {k: self._judged(ours[:, :k], theirs[:, :k]) for k in tried_counts(ours.shape[1])}

    def gains(self, choice: Choice) -> Array | None:
        """Return what the steps of a choice add to the outcome of each held-out sample; None if interrupted."""
        assert choice.n_steps
        if self.right:  # those that it was chosen by
            return self.right[choice.n_steps] - self.right[0]
        found: list[Array] = []

        def judge(learned: Learned, now: Evaluation) -> tuple[float, str | None]:
            found.append(self._judged(*self._embedded(learned, now)))
            return float("nan"), None

        learned = learn_from(self._at_first_dictionary(), self.rest, self.known, choice, None, judge)
        return None if learned.reason == "interrupted" else found[-1] - found[0]

    def _at_first_dictionary(self) -> Setup:
        """Return the setup with the first dictionary of the trial."""
        return dataclasses.replace(self.setup, dictionary=self.dictionary, n_atoms=None)

    def _embedded(self, learned: Learned, now: Evaluation) -> tuple[Array, Array]:
        """Return the embeddings of the samples learned from and of those held out."""
        self._coded = held = self.held.coded(now.dictionary, self._coded)
        embedding = embedding_at(learned, now)
        return embedding(now.coded), embedding(held.weighted(now.coded.samples.weights))

    def _judged(self, ours: Array, theirs: Array) -> Array:
        """Return what each held-out sample adds to the score: whether its neighbours have its class, or R² alone."""
        rows: Any = self.known.known
        if self.truth.targets is not None:
            predicted = regress(ours, self.known).predict(theirs).reshape(self.truth.targets.shape)
            return np.array([r2_score(self.truth.targets, predicted, multioutput="variance_weighted")])
        return nearest_right(ours[rows], self.known.y[rows], theirs, self.truth.y)  # type: ignore[index, arg-type]

    def _judge(self, learned: Learned, now: Evaluation) -> tuple[float, str | None]:
        """Score one step on held-out samples, and say whether to stop."""
        ours, theirs = self._embedded(learned, now)
        outcomes = self._judged(ours, theirs)
        if all(outcomes.mean() > right.mean() for right in self.right):
            self._embeddings = {0: self._embeddings.get(0, (ours, theirs)), len(self.right): (ours, theirs)}
        self.right.append(outcomes)
        if self.truth.y is not None and self.votes is None:
            rows: Any = self.known.known
            found = Neighbours.of(ours[rows], self.known.y[rows], theirs, self.truth.y)  # type: ignore[index]
            self.votes = found.beta, found.floor
        patience = (self.setup.stopping or EarlyStopping()).patience
        late = len(self.right) - 1 - int(np.argmax([right.mean() for right in self.right])) >= patience
        return float(self.right[-1].mean()), "held-out score no longer rises" if late else None


def _checkpoint(setup: Setup, samples: Samples, labels: Labels) -> Checkpoint | None:
    """Return what an earlier fit with the same data and settings has left, where the user names a file."""
    if setup.solver.checkpoint is None:
        return None
    solver = dataclasses.replace(setup.solver, checkpoint=None)
    settings = [setup.criterion, setup.n_components, setup.n_atoms, setup.dictionary, setup.prior, solver]
    settings += [setup.mu_proximity, setup.shrinkage, setup.whiten, setup.beside, setup.order, setup.fixed_seed]
    settings += [setup.stopping, *setup.views.description(), setup.max_iter if setup.stopping else None]
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
    """Return a choice that a checkpoint has kept."""
    told = dict(known["told"])
    if told:
        told["history_"] = {name: np.array(column) for name, column in told["history_"].items()}
    votes = None if known["votes"] is None else tuple(known["votes"])
    by_count = {int(count): np.array(outcomes) for count, outcomes in known["by_count"].items()}
    return Choice(tuple(known["ridges"]), known["wide"], known["n_steps"], votes, by_count), told
