"""K-SVD of samples with their labels stacked beside them: what D-KSVD and LC-KSVD share."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dictionaries import ksvd, omp
from .base import Array, DictionaryClassifier, ridge


class StackedKSVD(DictionaryClassifier):
    """Base of the classifiers that learn by K-SVD of the rows [X, T], T weighted targets of the labels."""

    n_nonzero: int
    max_iter: int
    n_jobs: int | None

    def _learn(self, X: Array, targets: Array, D: Array, weight: float, rng: Any) -> tuple[Array, Array]:
        """Return D and the part of the targets, divided by the norms of D's atoms, and set ``costs_``, ``n_iter_``."""
        codes = omp(X, D, self.n_nonzero, n_jobs=self.n_jobs)
        costs: list[float] = []

        def follow(iteration: int, dictionary: Array, cost: float) -> None:
            costs.append(2 * cost)
            self._say(f"iteration {iteration} of {self.max_iter}: cost {2 * cost:.6g}")

        learned = ksvd(
            np.hstack([X, targets]),
            len(D),
            n_nonzero=self.n_nonzero,
            n_iter=self.max_iter,
            start=np.hstack([D, ridge(codes, targets, weight)]),
            random_state=rng,
            n_jobs=self.n_jobs,
            callback=follow,
        )
        self.costs_, self.n_iter_ = np.array(costs), len(costs)
        # New samples have no targets, so an atom without a part in the samples is of no use to them.
        norms = np.linalg.norm(learned[:, : X.shape[1]], axis=1, keepdims=True)
        learned = (learned / np.maximum(norms, 1e-6))[norms[:, 0] > 1e-6]
        return np.ascontiguousarray(learned[:, : X.shape[1]]), learned[:, X.shape[1] :]

    def _scores(self, X: Array) -> Array:
        codes = omp(X, self.dictionary_, self.n_nonzero, n_jobs=self.n_jobs)
        return np.asarray(codes @ self.classifier_)
