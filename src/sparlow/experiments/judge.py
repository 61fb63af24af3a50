"""What an embedding is worth: 1NN and Gaussian SVM, and the choice of parameters on training samples alone.

Test labels enter :func:`accuracies` and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV, ParameterGrid, StratifiedKFold, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

Array = NDArray[Any]

TUNING = 3000  # at most so many samples choose parameters
_FOLDS = 3


def part(X: Array, y: Array, seed: int, most: int = TUNING) -> tuple[Array, Array]:
    """At most ``most`` samples: all labelled ones and some without label, or classes in proportion."""
    if len(y) <= most:
        return X, y
    if (y == -1).any():
        known, others = np.flatnonzero(y != -1), np.flatnonzero(y == -1)
        others = np.random.RandomState(seed).permutation(others)[: max(most - len(known), 0)]
        rows = np.sort(np.concatenate([known, others]))
        return X[rows], y[rows]
    X, _, y, _ = train_test_split(X, y, train_size=most, stratify=y, random_state=seed)
    return X, y


def n_folds(y: Array) -> int:
    """As many folds as the smallest class allows, three at most; one if a class has a single label."""
    return int(min(_FOLDS, np.unique(y[y != -1], return_counts=True)[1].min()))


def folds(y: Array) -> Iterator[tuple[Array, Array]]:
    """Rows to learn from and rows to judge by; judged samples without a label stay among those learned from."""
    known = np.flatnonzero(y != -1)
    for _, held in StratifiedKFold(n_folds(y), shuffle=True, random_state=0).split(known, y[known]):
        yield np.setdiff1d(np.arange(len(y)), known[held]), known[held]


def searched(estimator: Any, grid: Mapping[str, Sequence[Any]], X: Array, y: Array, seed: int) -> Any:
    """The estimator with the parameters of ``grid`` that serve best on training folds.

    Transformers are judged by 1NN on their embedding, classifiers by what they predict. With a single label in a
    class there is nothing to hold out: the estimator comes back as it is.
    """
    X, y = part(X, y, seed)
    candidates = list(ParameterGrid(dict(grid)))
    if len(candidates) < 2 or n_folds(y) < 2:
        return clone(estimator) if n_folds(y) < 2 else clone(estimator).set_params(**candidates[0])
    scores = np.zeros(len(candidates))
    for rows, held in folds(y):
        for place, candidate in enumerate(candidates):
            scores[place] += _trial(clone(estimator).set_params(**candidate), X, y, rows, held)
    return clone(estimator).set_params(**candidates[int(np.argmax(scores))])


def _trial(estimator: Any, X: Array, y: Array, rows: Array, held: Array) -> float:
    try:
        estimator.fit(X[rows], y[rows])
    except ValueError:  # more components than a fold allows, for instance
        return 0.0
    if is_classifier(estimator):
        return float(np.mean(estimator.predict(X[held]) == y[held]))
    return float(np.mean(nearest(own_embedding(estimator, X[rows]), y[rows], estimator.transform(X[held])) == y[held]))


def own_embedding(estimator: Any, X: Array) -> Array:
    """The embedding of the samples that the estimator was fitted on."""
    found = getattr(estimator, "embedding_", ())
    return np.asarray(found) if len(found) == len(X) else np.asarray(estimator.transform(X))


def nearest(Z: Array, y: Array, Z_new: Array) -> Array:
    """The label of the nearest labelled sample."""
    known = y != -1
    return np.asarray(KNeighborsClassifier(1).fit(Z[known], y[known]).predict(Z_new))


def gaussian_svm(Z: Array, y: Array, Z_new: Array, seed: int, threads: int | None = None) -> Array:
    """Labels by a Gaussian SVM, C and gamma by cross-validation on at most TUNING training samples."""
    Z, Z_new = Z[y != -1].astype(float), Z_new.astype(float)
    y = y[y != -1]
    scale = 1 / max(float(np.var(Z, axis=0).sum()), 1e-12)
    grid = {"C": [1, 10, 100], "gamma": [scale * g for g in (0.25, 1, 4)]}
    few = part(Z, y, seed)
    splits = StratifiedKFold(n_folds(few[1]), shuffle=True, random_state=0)
    with joblib.parallel_config("threading"):  # libsvm leaves the interpreter's lock alone
        search = GridSearchCV(SVC(cache_size=500), grid, cv=splits, n_jobs=threads).fit(*few)
    return np.asarray(SVC(cache_size=500, **search.best_params_).fit(Z, y).predict(Z_new))


def accuracies(predicted: Array, truth: Array) -> tuple[float, list[float]]:
    """Share of right answers in %, over all test samples and for each class."""
    right = predicted == truth
    classes = [100 * float(np.mean(right[truth == label])) for label in np.unique(truth)]
    return 100 * float(np.mean(right)), [round(value, 2) for value in classes]
