"""What is recorded while a model is learned, and which step was best."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import KNeighborsClassifier

from ..criteria import Criterion
from ..dictionaries import UNLABELLED
from ..optimize import Step
from ..problem import Evaluation, JointProblem
from ..views import Codes
from .callbacks import Audience
from .labels import Labels
from .projector import r_squared

Array = NDArray[Any]


def radius_of(Y: Array) -> float:
    """The root mean square distance of the embedding from its mean."""
    return float(np.sqrt(np.mean(np.sum((Y - Y.mean(axis=0)) ** 2, axis=1))))


class Watch:
    """Follows the learning: a row per step, the score on the held-out part, the best step so far."""

    def __init__(
        self,
        model: Any,
        criterion: Criterion,
        problem: JointProblem,
        known: Labels,
        held_out: tuple[Any, Labels] | None,
        audience: Audience | None,
        began: float,
    ) -> None:
        self.model, self.criterion, self.problem, self.known = model, criterion, problem, known
        self.audience = audience
        self.X_held: Any = None if held_out is None else held_out[0]
        self.held = Labels() if held_out is None else held_out[1]
        self.coded: Codes | None = None
        self.quotient: Any = None
        self.rows: list[dict[str, float]] = []
        self.began, self.reason = began, ""
        self.best: Any = None
        self.last: Any = None
        self.best_step, self.best_score = 0, -np.inf

    def step(self, step: Step) -> bool:
        """After an accepted step."""
        row = self.row(step.evaluation, step)
        stop = self.audience is not None and self.audience.step(row, lambda: self.state(step.evaluation))
        if stop:
            self.reason = "stopped by callback"
        elif self.X_held is not None and len(self.rows) - 1 - self.best_step >= self.model.n_iter_no_change:
            stop, self.reason = True, "held-out score no longer rises"
        return stop

    def begin(self, now: Evaluation) -> Evaluation:
        """Record the start, and give it back."""
        self.row(now, None)
        return now

    def row(self, now: Evaluation, step: Step | None) -> dict[str, float]:
        """Record a row; for the start ``step`` is None."""
        number = len(self.rows)
        score = self._held_out(now)
        if self.X_held is not None and (score > self.best_score or self.best is None):
            kept = dataclasses.replace(now, coded=Codes(now.codes, ()))  # those of views are large
            self.best, self.best_step, self.best_score = kept, number, score
        nan = float("nan")
        self.rows.append(
            {
                "step_number": number,
                "cost": now.value,
                "quotient": self.problem.plain_quotient(now),
                "coherence": now.coherence,
                "proximity": now.proximity,
                "step": nan if step is None else step.step,
                "gradient_norm": nan if step is None else step.gradient_norm,
                "nonzeros": float(np.mean([codes.nnz for codes in now.coded.views])) / now.codes.shape[0],
                "seconds": time.perf_counter() - self.began,
                "held_out": score,
                "evaluations": 1 if step is None else step.n_evaluations,
                "restarted": False if step is None else step.restarted,
            }
        )
        return self.rows[-1]

    def _held_out(self, now: Evaluation) -> float:
        if self.X_held is None:
            return float("nan")
        problem = self.problem
        self.coded = problem.pooling.encode(self.X_held, now.dictionary, problem.prior, self.coded, problem.n_jobs)
        codes = self.coded.mean
        if self.held.bound is None:
            if self.quotient is None:
                bound = self.criterion.bind(self.X_held, None, self.problem.n_jobs)
                self.quotient = dataclasses.replace(bound, ridge=self.problem.plain.ridge)
            return float(self.quotient.value(codes, now.projection).quotient)
        ours, theirs = now.quotient.embedding, np.asarray(codes @ now.projection)
        if self.held.targets is not None:
            regression = self.model._memory(ours, ours, self.known)["regression_"]
            return r_squared(self.held.targets, regression.predict(theirs).reshape(self.held.targets.shape))
        centre = ours.mean(axis=0)
        radius = radius_of(ours)
        ours, theirs = (self.model._arranged(Y, centre, radius) for Y in (ours, theirs))
        assert self.known.y is not None
        rows = self.known.y >= 0
        return float(KNeighborsClassifier(1).fit(ours[rows], self.known.y[rows]).score(theirs, self.held.y))

    def state(self, now: Evaluation) -> dict[str, Any]:
        """The fitted attributes of the model at one evaluation."""
        state = self.model._state(self.problem, now, self.known)
        return {**state, "criterion_": self.criterion, "prior_": self.problem.prior}

    def transduced(self, now: Evaluation) -> dict[str, Any]:
        """Labels for the unlabelled samples: spread over neighbours, as while learning; −1 where none arrives."""
        memberships, classes, y = self.problem.quotient.memberships, self.known.classes, self.known.y
        if classes is None or y is None or self.criterion.supervision != "semi" or self.reason == "interrupted":
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

    def summary(self) -> dict[str, Any]:
        """The fitted attributes that tell how learning went."""
        n_iter = len(self.rows) - 1
        history = {name: np.array([row[name] for row in self.rows]) for name in self.rows[0]}
        return {"n_iter_": n_iter, "best_iter_": n_iter, "stop_reason_": self.reason, "history_": history}
