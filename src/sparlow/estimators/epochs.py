"""Epochs of small stochastic steps over samples, wherever these are; callbacks that follow them."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..checkpoints import Checkpoint
from ..checks import Array
from ..coding import Coder
from ..constants import LEARNING_TOL, SEEN
from ..criteria import LDA, Quotient
from ..dictionaries import unit_samples
from ..labels import Labels
from ..problem import coherence, proximity
from ..rows import Samples, code
from ..stochastic import Batch, Learner, Moments, Pairs, State, Sums, of_targets, targets_of


@dataclass(frozen=True)
class Epochs:
    """What epochs are made of: samples, their labels, and the sums that a criterion needs."""

    samples: Samples
    begin: Callable[[int], Sums]
    targets: Array  # (n, c)
    weights: Array  # (n,) how often each sample counts; zero for those that teach nothing
    graph: sp.csr_array | None  # along which neighbours are drawn
    strata: tuple[Array, ...]  # rows that batches have equal parts of
    batch: int  # samples of a step

    @classmethod
    def of(cls, setup: Any, samples: Samples, labels: Labels, quotient: Quotient, count: int, batch: int) -> Epochs:
        """Return the epochs of a criterion bound to samples."""
        n = len(samples)
        if of_targets(setup.criterion):
            c = len(labels.classes) if labels.classes is not None else labels.targets.shape[1]  # type: ignore[union-attr]
            T, known = targets_of(labels, c)
            weights: Any = labels.weights
            if isinstance(setup.criterion, LDA):
                assert labels.y is not None
                weights = setup.criterion.sample_weights(labels.y, labels.weights)
            weights = known * (1.0 if weights is None else weights / weights.mean())
            classes = labels.targets is None
            return cls(
                samples,
                lambda width: Moments.zero(width, c, classes, count),
                T,
                weights,
                None,
                (np.flatnonzero(known),),
                batch,
            )
        known = np.ones(n, bool) if labels.known is None else labels.known
        strata = tuple(rows for rows in (np.flatnonzero(known), np.flatnonzero(~known)) if len(rows))
        graphs = [
            part.graph for part in (quotient.above, quotient.below) if part is not None and part.graph is not None
        ]
        joined = sp.csr_array(sum(abs(graph) for graph in graphs)) if graphs else None
        begin = Pairs.zero(quotient, count)
        return cls(samples, lambda width: begin, np.zeros((n, 0)), np.ones(n), joined, strata, batch)

    @property
    def _size(self) -> int:
        """The rows of the largest stratum in a batch; the other strata and neighbours join them."""
        return self.batch // (len(self.strata) * (1 if self.graph is None else 2))

    @property
    def per_pass(self) -> int:
        """The number of batches of a pass."""
        rows = max(self.strata, key=len)
        return sum(math.ceil((last - first) / self._size) for first, last in self._cuts(rows))

    def _cuts(self, rows: Array) -> list[tuple[int, int]]:
        """Return where the rows of each part begin and end."""
        return [tuple(np.searchsorted(rows, (part.start, part.stop)).tolist()) for part in self.samples.store.slices]

    def batches(self, rng: np.random.RandomState) -> Iterator[tuple[Array, Array]]:
        """Return rows and their weights, batch by batch, once for each sample that teaches.

        Samples in parts come part by part. Where there are unlabelled samples, half of each batch is labelled; labelled
        ones come again as often as needed. With a graph half of a batch are neighbours of the others.
        """
        rows = max(self.strata, key=len)
        others = [part for part in self.strata if part is not rows]
        cuts, size = self._cuts(rows), self._size
        for i in rng.permutation(len(cuts)):
            order = rng.permutation(rows[slice(*cuts[i])])
            for begin in range(0, len(order), size):
                drawn = [rng.choice(part, min(size, len(part)), False) for part in others]
                yield self._joined([order[begin : begin + size], *drawn], rng)

    def _joined(self, parts: list[Array], rng: np.random.RandomState) -> tuple[Array, Array]:
        """Return the rows of one batch with their neighbours, and weights that stand for all samples."""
        seeds = np.concatenate(parts)
        if self.graph is not None:
            drawn = [_one_of(self.graph, i, rng) for i in seeds]
            seeds = np.unique(np.concatenate([seeds, [j for j in drawn if j >= 0]]).astype(int))
        if len(self.strata) == 1:
            return seeds, self.weights[seeds]
        weights = np.zeros(len(seeds))
        for part in self.strata:
            inside = np.isin(seeds, part, assume_unique=True)
            weights[inside] = len(part) / len(self.samples) * len(seeds) / max(1, int(inside.sum()))
        return seeds, weights


def _one_of(graph: sp.csr_array, i: int, rng: np.random.RandomState) -> int:
    """Return a neighbour in a graph, −1 where there is none."""
    start, stop = graph.indptr[i], graph.indptr[i + 1]
    return int(graph.indices[rng.randint(start, stop)]) if stop > start else -1


@dataclass
class Course:
    """How learning went: the dictionary, the rows of ``history_``, and why it ended."""

    dictionary: Array
    rows: list[dict[str, float]]
    reason: str


def learn_in_steps(
    setup: Any,
    epochs: Epochs,
    D: Array,
    tell: Callable[[dict[str, float], Array], bool] | None = None,
    checkpoint: Checkpoint | None = None,
) -> Course:
    """Make ``max_iter`` passes of stochastic steps, but no more than with 200 000 samples, from the dictionary D.

    ``tell(row, D)`` hears of each pass, and ends learning by a true answer.
    """
    learner, anchor = Learner(setup.shrinkage), D
    state, done = learner.init(D, epochs.begin(setup.views.width(len(D)))), 0
    total = min(setup.max_iter * epochs.per_pass, math.ceil(SEEN / epochs.batch))
    rows = [_row(setup, state, anchor, 0, [])]
    if checkpoint is not None and checkpoint.arrays is not None:
        assert checkpoint.numbers is not None
        state, rows = state.restored(checkpoint.arrays), checkpoint.numbers["rows"]
        done = checkpoint.numbers["done"]
    reason = "max_iter reached"
    try:
        while done < total and reason == "max_iter reached":
            rng = np.random.RandomState([setup.seed % 2**32, len(rows)])
            found = []
            for some, weights in itertools.islice(epochs.batches(rng), total - done):
                part = _drawn(setup, epochs.samples.take(some), rng)
                coded = code(part, Coder(state.dictionary, setup.prior, tol=LEARNING_TOL, n_jobs=setup.n_jobs))
                rate = (1 + math.cos(math.pi * done / total)) / 2
                state = learner.step(state, coded, Batch(epochs.targets[some], weights, some), rate)
                done += 1
                found.append((state.explained, coded.nonzeros))
            rows.append(_row(setup, state, anchor, len(rows), found))
            if checkpoint is not None:
                checkpoint.keep_pass(state.arrays(), rows, done)
            if tell is not None and tell(rows[-1], state.dictionary):
                reason = "stopped by callback"
    except KeyboardInterrupt:
        reason = "interrupted"
    return Course(state.dictionary, rows, reason)


def _drawn(setup: Any, samples: Samples, rng: np.random.RandomState) -> Samples:
    """Return a batch, or copies of it."""
    X = samples.X
    if setup.copies is not None:
        X = X.toarray() if sp.issparse(X) else np.asarray(X)
        X = np.asarray(setup.copies.draw(X, rng) if hasattr(setup.copies, "draw") else setup.copies(X, rng), X.dtype)
        X = unit_samples(X) if setup.unit else X
    return dataclasses.replace(samples, store=X, weights=(1.0, 0.0))


def _row(setup: Any, state: State, anchor: Array, number: int, found: list[tuple[float, float]]) -> dict[str, float]:
    """Return the row of ``history_`` for one pass."""
    explained, nonzeros = np.array(found).T if found else np.full((2, 1), np.nan)
    explained = explained[np.isfinite(explained)]
    return {
        "step_number": number,
        "cost": float(explained.mean()) if len(explained) else float("nan"),
        "quotient": float(explained.mean()) if len(explained) else float("nan"),
        "coherence": coherence(state.dictionary),
        "proximity": proximity(state.dictionary, anchor),
        "step": state.moved,
        "gradient_norm": float("nan"),
        "nonzeros": float(nonzeros.mean()),
        "seconds": time.perf_counter() - setup.began,
        "evaluations": 1,
        "restarted": False,
        "held_out": float("nan"),
    }


Row = dict[str, float]


class OnStep:
    """Call a function after each step of a fit, as a callback of scikit-learn.

    Parameters
    ----------
    function : callable
        ``function(row, model)`` gets the row of ``history_`` as a dict, and the model as it is at this step, fitted. A
        true answer ends the fit.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sparlow import SparLow
    >>> from sparlow.estimators import OnStep
    >>> X, y = load_digits(return_X_y=True)
    >>> costs = []
    >>> follow = OnStep(lambda row, model: costs.append(row["cost"]))
    >>> model = SparLow(n_atoms=50, max_iter=2, early_stopping=False, embedding="orthonormal", random_state=0)
    >>> model = model.set_callbacks(follow).fit(X[:200], y[:200])
    >>> len(costs)
    2

    """

    def __init__(self, function: Callable[[Row, Any], Any]) -> None:
        self.function = function

    def setup(self, estimator: Any, context: Any) -> None:
        """Do nothing; part of the protocol."""

    def teardown(self, estimator: Any, context: Any) -> None:
        """Do nothing; part of the protocol."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Do nothing; part of the protocol."""

    def on_fit_task_end(self, estimator: Any, context: Any, *, fitted_estimator: Any = None) -> bool:
        """Call the function after a step."""
        row = getattr(fitted_estimator, "_row", None)
        return row is not None and bool(self.function(dict(row), fitted_estimator))


class Follower:
    """Tell each step of a fit to the callbacks of a model, and print a line where it is verbose.

    ``beside`` are fitted attributes that do not change from step to step.
    """

    def __init__(self, model: Any, X: Any, y: Any, max_iter: int, verbose: int, beside: dict[str, Any]) -> None:
        self._model, self._verbose, self._beside = model, verbose, beside
        self._data = {"estimator": model, "X": X, "y": y}
        self._context = model._init_callback_context(max_subtasks=max_iter)
        self._context.call_on_fit_task_begin(**self._data)

    def step(self, row: Row, state: Callable[[], dict[str, Any]]) -> bool:
        """Tell of one accepted step; return whether someone wants to stop. ``state()`` gives the fitted attributes."""
        if self._verbose:
            print(self._line(row), flush=True)
        if not hasattr(self._model, "_skl_callbacks"):
            return False
        task = self._context.subcontext(task_name="step").call_on_fit_task_begin(**self._data)
        attributes = functools.cache(
            lambda: {**state(), **self._beside, "_row": row}
        )  # computed only if a callback wants the model
        return bool(task.call_on_fit_task_end(**self._data, reconstruction_attributes=attributes))

    def close(self, fitted: dict[str, Any]) -> None:
        """Tell that the fit is over, with these fitted attributes."""
        self._context.call_on_fit_task_end(**self._data, reconstruction_attributes={**fitted, **self._beside})

    def _line(self, row: Row) -> str:
        """Return the printed line of a step."""
        return (
            f"[{type(self._model).__name__}] step {row['step_number']:3.0f}  J {row['cost']:.5g}"
            f"  f {row['quotient']:.5g}  nonzeros {row['nonzeros']:.1f}  {row['seconds']:.1f} s"
        )
