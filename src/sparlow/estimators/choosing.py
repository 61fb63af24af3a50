"""What is left open is decided on held-out samples: two ridges, further columns, whether steps help. Then all teach."""

from __future__ import annotations

import dataclasses
import functools
import os
from typing import Any

import numpy as np
from sklearn.metrics import r2_score

from ..checkpoints import Checkpoint, digest, digest_of_samples
from ..checks import Array, warn
from ..constants import DRAWN, FEW, FLAT, FOLDS, MANY, POOLED, TRIED, USUAL, WIDE, WORTH
from ..criteria.base import bind_checked
from ..dictionaries import distinct_rows
from ..embedding import (
    PAIRS,
    Embedding,
    Ratio,
    nearest_right,
    surely,
    tried_counts,
)
from ..labels import Labels
from ..parallel import Finishing
from ..problem import check_codes
from ..rows import Codes, Samples
from ..solvers import EarlyStopping
from ..voting import Rule, best_rule
from .learning import (
    Choice,
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


def learn_model(
    setup: Setup,
    samples: Samples,
    labels: Labels,
    rng: Any,
    tell: Tell | None,
    finishing: Finishing,
    validation: tuple[Samples, Labels] | None = None,
) -> dict[str, Any]:
    """Choose on held-out samples what is left open, learn from all samples, and return the fitted attributes.

    ``validation`` are the samples held out; parts of the others by default.
    """
    if setup.whiten and (setup.n_components or 0) > len(samples):
        raise ValueError(
            f"n_components={setup.n_components} is more than {len(samples)} samples can give: choose "
            f'{len(samples)} or less, or embedding="orthonormal".'
        )
    checkpoint, trials = _checkpoint(setup, samples, labels), []
    try:
        if checkpoint is not None and checkpoint.chosen is not None:
            choice = _chosen_before(checkpoint.chosen)
        else:
            trials = Trial.several(setup, samples, labels, rng, validation)
            choice = _choose(setup, trials, _usual(setup, labels)) if trials else _usual(setup, labels)
            if checkpoint is not None:
                checkpoint.chosen = _as_chosen(choice)
        learned = learn_from(setup, samples, labels, choice, tell, checkpoint=checkpoint)
    except KeyboardInterrupt:
        if not trials or trials[0].choice is None:
            raise
        return {**trials[0].fitted(), "stop_reason_": "interrupted"}
    finishing.begin()
    told = {**learned.summary(), **described(learned, learned.last)}
    told["held_out_"] = choice.held_out
    if learned.reason == "interrupted":
        return told
    try:
        return {**told, **transduced(setup.criterion, learned.objective.quotient, labels, told["embedding_"])}
    except KeyboardInterrupt:
        return {**told, "stop_reason_": "interrupted"}


def _usual(setup: Setup, labels: Labels) -> Choice:
    """Return what is chosen where held-out samples do not say otherwise."""
    unjudged = labels.few and setup.stopping is not None and not setup.insists
    ridges = POOLED if not setup.views.whole else FEW if labels.few else USUAL
    return Choice(ridges, n_steps=0 if unjudged else None)


def _choose(setup: Setup, trials: list[Trial], usual: Choice) -> Choice:
    """Return the best choice after the steps, or before them if held-out samples are not better after them.

    The gain of steps grows with the number of samples: a trial of some of these drops the steps only if the samples
    held out are surely worse after them.
    """
    best, outcomes = best_choice(setup, trials, usual)
    if setup.stopping is not None and setup.max_iter > 0:
        for trial in trials:
            trial.choice = best
        moved = [trial.after_steps() for trial in trials]
        end, after = best_choice(setup, moved, usual)
        held_out = {"start": float(outcomes.mean()), "end": float(after.mean())}
        worse = surely(outcomes - after, 2.0) if trials[0].of_some else after.mean() <= outcomes.mean()
        if worse:
            best = dataclasses.replace(best, n_steps=0, held_out=held_out)
        else:
            trials, best = moved, dataclasses.replace(end, n_steps=setup.max_iter, held_out=held_out)
    counts = [trial.by_count(best) for trial in trials]
    by_count = {k: _pooled(trials, [found[k] for found in counts]) for k in min(counts, key=len)}
    trials[0].choice = best
    return dataclasses.replace(best, votes=trials[0].votes(best), by_count=by_count)


def best_choice(setup: Setup, trials: list[Trial], usual: Choice) -> tuple[Choice, Array]:
    """Return the choice with the best ridges at the dictionaries of the trials, and the outcomes with these.

    Ties go to the pair nearest to the usual one. Further columns must add a point, and more than chance.
    """

    def outcomes(choice: Choice) -> Array:
        return _pooled(trials, [trial.outcomes(choice) for trial in trials])

    if not (setup.whiten and setup.views.whole):
        return usual, outcomes(usual)
    room = {ridges: all(trial.has_room(ridges) for trial in trials) for ridges in (*PAIRS, FLAT)}
    near = np.log10(np.minimum([pair for pair in PAIRS if room[pair]], 100.0)) - np.log10(usual.ridges)
    ordered = [[pair for pair in PAIRS if room[pair]][i] for i in np.argsort(np.abs(near).sum(axis=1), kind="stable")]
    found = {ridges: outcomes(Choice(ridges)) for ridges in ordered}
    best = max(found, key=lambda ridges: float(found[ridges].mean()))
    if not all(trial.may_be_wide for trial in trials):
        return Choice(best), found[best]
    options = [Choice(ridges, wide=True) for ridges in (best, *[FLAT] * room[FLAT])]
    wide = [outcomes(option) for option in options]
    most = int(np.argmax([right.mean() for right in wide]))
    gains = wide[most] - found[best]
    if surely(gains) and gains.mean() > WORTH:
        return options[most], wide[most]
    return Choice(best), found[best]


def _pooled(trials: list[Trial], outcomes: list[Array]) -> Array:
    """Return the mean outcome of each sample over the trials that hold it out; scores of targets as they are."""
    if trials[0].truth.targets is not None:
        return np.concatenate(outcomes)
    places = np.unique(np.concatenate([trial.rows for trial in trials]), return_inverse=True)[1]
    return np.asarray(np.bincount(places, np.concatenate(outcomes)) / np.bincount(places))


class Trial:
    """Learning from a part of the samples, judged on others, which are ``rows`` of all."""

    def __init__(self, setup: Setup, rest: Samples, known: Labels, held: Samples, truth: Labels, rows: Array) -> None:
        self.setup, self.rest, self.known, self.held, self.truth, self.rows = setup, rest, known, held, truth, rows
        self.choice: Choice | None = None  # while steps are made
        self.of_some = False  # whether only some of all samples are in it

    @functools.cached_property
    def dictionary(self) -> Array:
        """The first dictionary, learned without the samples held out."""
        return first_dictionary(self.setup, self.rest, self.known)

    @functools.cached_property
    def _start(self) -> tuple[Ratio, Codes]:
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
    def several(
        cls,
        setup: Setup,
        samples: Samples,
        labels: Labels,
        rng: Any,
        validation: tuple[Samples, Labels] | None = None,
    ) -> list[Trial]:
        """Return trials with other parts held out: three of few samples, one of many, none where none is possible."""
        open_ = (setup.whiten and setup.views.whole) or (setup.stopping is not None and setup.max_iter > 0)
        if not open_:
            return []
        if validation is not None:
            return [cls(setup, samples, labels, *validation, np.arange(len(validation[0])))]
        fraction = (setup.stopping or EarlyStopping()).fraction
        obstacle = cls._obstacle(setup, len(samples), labels, fraction)
        if obstacle is not None:
            if setup.stopping is not None and setup.insists:
                warn(f"early_stopping is left out, and all steps up to max_iter={setup.max_iter} are made: {obstacle}.")
            return []
        count = int(np.sum(labels.known))  # type: ignore[arg-type]
        draws = 1 if count >= MANY or not setup.views.whole else FOLDS
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
        if labels.groups is not None and not len(labels.held_out(n, fraction, np.random.RandomState(0))):
            return "no group can be held out: each has nearly all samples of a class"
        if (setup.n_components or 0) > (1 - fraction) * n:
            return f"the samples that are left have fewer than n_components={setup.n_components} dimensions"
        return None

    @classmethod
    def _drawn(cls, setup: Setup, samples: Samples, labels: Labels, rng: Any) -> Trial:
        """Draw the samples of a trial, and the part that is held out."""
        fraction = (setup.stopping or EarlyStopping()).fraction
        rows = np.arange(len(samples))
        known: Any = labels.known
        if known.sum() > TRIED and labels.groups is None:  # of each class as many as before, the unlabelled as they are
            others = np.flatnonzero(~known)
            others = others if len(others) <= DRAWN else rng.permutation(others)[:DRAWN]
            drawn = labels.held_out(len(samples), TRIED / known.sum(), rng)
            rows = np.union1d(np.r_[drawn, labels.lacking(drawn, FOLDS, rng)], others)
        part, part_labels = samples.take(rows), labels.take(rows)
        held = part_labels.held_out(len(part), fraction, rng)
        rest = np.setdiff1d(np.arange(len(part)), held)
        if isinstance(setup.dictionary, str) and setup.n_atoms is not None and setup.views.whole:
            setup = dataclasses.replace(setup, n_atoms=min(setup.n_atoms, len(distinct_rows(part.X[rest]))))
        parts = part.take(rest), part_labels.take(rest), part.take(held), part_labels.take(held)
        trial = cls(setup, *parts, rows[held])
        trial.of_some = len(part) < len(samples)
        return trial

    def has_room(self, ridges: tuple[float, float]) -> bool:
        """Return whether the features that these ridges leave are as many as the components."""
        return self._start[0].width(ridges) >= self._count

    @property
    def may_be_wide(self) -> bool:
        """Return whether further columns may be tried: for classes, where the user has named no number."""
        return self.setup.n_components is None and self.known.y is not None and self._count < WIDE

    def outcomes(self, choice: Choice) -> Array:
        """Return how well each held-out sample is embedded."""
        return self._judged(*self.embedded(choice))

    def embedded(self, choice: Choice) -> tuple[Array, Array]:
        """Return the embeddings of the samples learned from and of those held out."""
        if not self.setup.whiten:
            learned = learn_from(
                self._at_first_dictionary(), self.rest, self.known, dataclasses.replace(choice, n_steps=0)
            )
            embedding: Any = embedding_at(learned, learned.last)
            held = self.held.coded(self.dictionary).weighted(learned.last.coded.samples.weights)
            return embedding(learned.last.coded), embedding(held)
        ratio, held = self._start
        coded, W = ratio.solve(choice.ridges, self._count, choice.wide)
        embedding = Embedding.of(W, coded)
        return embedding(coded), embedding(held.weighted(coded.samples.weights))

    def after_steps(self) -> Trial:
        """Return the trial at the dictionary that the steps lead to."""
        assert self.choice is not None
        choice = dataclasses.replace(self.choice, n_steps=self.setup.max_iter)
        learned = learn_from(self._at_first_dictionary(), self.rest, self.known, choice)
        if learned.reason == "interrupted":
            raise KeyboardInterrupt
        setup = dataclasses.replace(self.setup, dictionary=learned.last.dictionary, n_atoms=None)
        return Trial(setup, self.rest, self.known, self.held, self.truth, self.rows)

    def fitted(self) -> dict[str, Any]:
        """Return the fitted attributes of the start, learned from the part."""
        assert self.choice is not None
        choice = dataclasses.replace(self.choice, n_steps=0)
        learned = learn_from(self._at_first_dictionary(), self.rest, self.known, choice)
        return {**learned.summary(), **described(learned, learned.last)}

    def votes(self, choice: Choice) -> Rule | None:
        """Return how neighbours vote, where there are classes."""
        if self.truth.y is None:
            return None
        ours, theirs = self.embedded(choice)
        rows: Any = self.known.known
        return best_rule(ours[rows], self.known.y[rows], theirs, self.truth.y)  # type: ignore[index]

    def by_count(self, choice: Choice) -> dict[int, Array]:
        """Return the outcomes by number of columns."""
        ours, theirs = self.embedded(choice)
        return {k: self._judged(ours[:, :k], theirs[:, :k]) for k in tried_counts(ours.shape[1])}

    def _at_first_dictionary(self) -> Setup:
        """Return the setup with the first dictionary of the trial."""
        return dataclasses.replace(self.setup, dictionary=self.dictionary, n_atoms=None)

    def _judged(self, ours: Array, theirs: Array) -> Array:
        """Return what each held-out sample adds to the score: whether its neighbours have its class, or R² alone."""
        rows: Any = self.known.known
        if self.truth.targets is not None:
            predicted = regress(ours, self.known).predict(theirs).reshape(self.truth.targets.shape)
            return np.array([r2_score(self.truth.targets, predicted, multioutput="variance_weighted")])
        return nearest_right(ours[rows], self.known.y[rows], theirs, self.truth.y)  # type: ignore[index, arg-type]


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
    return Checkpoint.at(os.fspath(setup.solver.checkpoint), key)


def _as_chosen(choice: Choice) -> dict[str, Any]:
    """Return a choice as a file of plain numbers keeps it."""
    by_count = {count: outcomes.tolist() for count, outcomes in choice.by_count.items()}
    return {**dataclasses.asdict(choice), "by_count": by_count}


def _chosen_before(known: dict[str, Any]) -> Choice:
    """Return a choice that a checkpoint has kept."""
    votes = None if known["votes"] is None else Rule(*known["votes"])
    by_count = {int(count): np.array(outcomes) for count, outcomes in known["by_count"].items()}
    held_out = dict(known["held_out"])
    return Choice(tuple(known["ridges"]), known["wide"], known["n_steps"], votes, by_count, held_out)
