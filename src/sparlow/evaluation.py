"""Judge models on samples not learned from: by 1NN and SVM on their embedding, and by their own predictions."""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import (
    GridSearchCV,
    ParameterGrid,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler
from sklearn.svm import SVC

from .checks import Array, warn
from .constants import COSTS, FOLDS, TRIED, WIDTHS
from .labels import is_labelled, known_rows
from .neighbours import neighbours

Fold = tuple[Array, Array, Array, Array]  # samples and labels to learn from, samples and labels to judge by


# ── classifiers ─────────────────────────────────────────────────────────────────────────────────────────────────────


def nearest_neighbour(Z: Array, y: Array, Z_new: Array) -> Array:
    """Return the labels of the nearest labelled samples (1NN)."""
    known = is_labelled(y)
    return np.asarray(y[known][neighbours(Z[known], 1, Z_new)[1][:, 0]])


def support_vectors(Z: Array, y: Array, Z_new: Array, *, seed: int = 0, n_jobs: int | None = None) -> Array:
    """Return the labels that a Gaussian support vector machine (SVM) of the labelled samples gives.

    C and γ are chosen by cross-validation on at most 3000 training samples, drawn with ``seed``: the smallest γ within
    one sample of the best accuracy, with the C that is best for it. An embedding learned with these labels makes hardly
    a mistake on any fold, and a single sample must not choose a narrow kernel. Where a class has a single sample,
    C = 10 and γ = 1 / total variance.
    """
    known = is_labelled(y)
    Z, y, Z_new = np.asarray(Z[known], float), y[known], np.asarray(Z_new, float)
    if len(np.unique(y)) == 1:  # nothing to separate
        return np.full(len(Z_new), y[0])
    unit = 1 / max(float(np.var(Z, axis=0).sum()), 1e-12)
    few, labels = part(Z, y, seed)
    machine = SVC(C=10.0, gamma=unit, cache_size=500)
    if n_folds(labels) < 2:
        return np.asarray(machine.fit(Z, y).predict(Z_new))
    grid = {"C": COSTS, "gamma": [unit * width for width in WIDTHS]}
    widest = functools.partial(widest_kernel, n_samples=len(labels))
    search = GridSearchCV(machine, grid, cv=list(training_folds(labels)), refit=widest, n_jobs=n_jobs)
    with joblib.parallel_config("threading"):  # libsvm releases the interpreter's lock
        search.fit(few, labels)
    best = search.best_estimator_
    return np.asarray((best if len(few) == len(Z) else best.fit(Z, y)).predict(Z_new))


def widest_kernel(results: Mapping[str, Any], n_samples: int) -> int:
    """Return the place of the smallest γ within 1.5 samples of the best accuracy, with its best C.

    Folds differ in size, so that one sample may count as one and a half.
    """
    scores, known = results["mean_test_score"], results["params"]
    near = np.flatnonzero(scores >= np.max(scores) - 1.5 / n_samples)
    return int(min(near, key=lambda place: (known[place]["gamma"], -scores[place], known[place]["C"])))


CLASSIFIERS: dict[str, Callable[[Array, Array, Array], Array]] = {"1NN": nearest_neighbour, "SVM": support_vectors}
OWN = "predict"  # what the predictions of a method itself are called beside those of classifiers


# ── parameters by training folds ────────────────────────────────────────────────────────────────────────────────────


def part(X: Array, y: Array, seed: int, most: int = TRIED) -> tuple[Array, Array]:
    """Return at most ``most`` samples.

    Where some have no label, these are all labelled ones and some of the others. Otherwise classes keep their
    proportions where that is possible.
    """
    if len(y) <= most:
        return X, y
    known = is_labelled(y)
    rng = np.random.RandomState(seed)
    if not known.all():
        others = rng.permutation(np.flatnonzero(~known))[: max(most - int(known.sum()), 0)]
        rows = np.sort(np.concatenate([np.flatnonzero(known), others]))
        return X[rows], y[rows]
    classes, counts = np.unique(y, return_counts=True)
    if counts.min() < 2 or len(classes) > min(most, len(y) - most):
        rows = rng.permutation(len(y))[:most]
        return X[rows], y[rows]
    X, _, y, _ = train_test_split(X, y, train_size=most, stratify=y, random_state=seed)
    return X, y


def n_folds(y: Array) -> int:
    """Return the number of folds that the smallest class allows, at most three; 1 if a class has a single label."""
    return int(min(FOLDS, np.unique(y[is_labelled(y)], return_counts=True)[1].min()))


def training_folds(y: Array) -> Iterator[tuple[Array, Array]]:
    """Yield rows to learn from and rows to judge by; samples without a label are always learned from."""
    known = np.flatnonzero(is_labelled(y))
    for _, test in folds(y[known], n_folds(y)):
        yield np.setdiff1d(np.arange(len(y)), known[test]), known[test]


def divided(X: Array, y: Array, seed: int) -> Iterator[Fold]:
    """Yield the training folds of at most 3000 samples; none where a class has a single label."""
    X, y = part(X, y, seed)
    if n_folds(y) > 1:
        for rows, test in training_folds(y):
            yield X[rows], y[rows], X[test], y[test]


def searched(estimator: Any, grid: Mapping[str, Sequence[Any]], parts: Callable[[], Iterable[Fold]]) -> Any:
    """Return a copy of the estimator with the parameters of ``grid`` that are best on training folds.

    An estimator with ``transform`` is judged by 1NN on its embedding, any other by its predictions. A single candidate
    is taken without a trial. A candidate that cannot be fitted on a fold is excluded, with a ``FitFailedWarning`` that
    tells the reason; where all are, or where there are no folds, the parameters stay as they are.

    Parameters
    ----------
    estimator : estimator
        What is searched for; it is not changed.
    grid : mapping of str to sequences
        Parameters and their candidate values.
    parts : callable
        Returns the training folds.

    """
    candidates = list(ParameterGrid(dict(grid)))
    if len(candidates) < 2:
        return clone(estimator).set_params(**candidates[0])
    scores = np.zeros(len(candidates))
    reasons: dict[int, Exception] = {}
    for fold in parts():
        for place, candidate in enumerate(candidates):
            try:
                scores[place] += _accuracy_on(fold, clone(estimator).set_params(**candidate))
            except (ValueError, np.linalg.LinAlgError) as error:  # more components than a fold allows, for instance
                reasons.setdefault(place, error)
    if reasons:
        place, reason = next(iter(reasons.items()))
        warn(
            f"{len(reasons)} of {len(candidates)} candidates for {type(estimator).__name__} cannot be fitted on a "
            f"training fold and are excluded, among them {candidates[place]}: {reason}",
            FitFailedWarning,
        )
        scores[list(reasons)] = -np.inf
    if not np.any(scores > 0):
        return clone(estimator)
    return clone(estimator).set_params(**candidates[int(np.argmax(scores))])


def _accuracy_on(fold: Fold, estimator: Any) -> float:
    """Return the accuracy of a classifier, or of 1NN on what a transformer gives, on a fold."""
    X, y, X_test, y_test = fold
    estimator.fit(X, y)
    if not hasattr(estimator, "transform"):
        return share_right(estimator.predict(X_test), y_test)
    return share_right(nearest_neighbour(own_embedding(estimator, X), y, estimator.transform(X_test)), y_test)


def own_embedding(estimator: Any, X: Array) -> Array:
    """Return the embedding of the samples that the estimator was fitted on."""
    found = getattr(estimator, "embedding_", ())
    return np.asarray(found) if len(found) == len(X) else np.asarray(estimator.transform(X))


# ── judgements ──────────────────────────────────────────────────────────────────────────────────────────────────────


def share_right(predicted: Array, truth: Array) -> float:
    """Return the share of right labels."""
    return float(np.mean(predicted == truth))


def share_right_by_class(predicted: Array, truth: Array) -> dict[Any, float]:
    """Return the share of right labels of each class that occurs."""
    return {label: share_right(predicted[truth == label], label) for label in np.unique(truth)}


@dataclass(frozen=True)
class Judgement:
    """Hold the labels that classifiers give to one representation.

    Parameters
    ----------
    name : str
        The method.
    dimension : int
        Numbers per sample.
    fit_seconds : float
        What learning took; NaN where the model was there already.
    truth : array of shape (n,)
        True labels of the new samples, as strings.
    predicted : dict of arrays of shape (n,)
        Labels by classifier; :data:`OWN` names the predictions of the method itself.

    """

    name: str
    dimension: int
    fit_seconds: float
    truth: Array
    predicted: dict[str, Array]

    @property
    def classes(self) -> list[str]:
        """Return the labels, numbers by size."""
        return in_order(np.concatenate([self.truth, *self.predicted.values()]))

    def accuracy(self, classifier: str) -> float:
        """Return the share of right labels."""
        return share_right(self.predicted[classifier], self.truth)

    def accuracies(self) -> dict[str, float]:
        """Return the share of right labels by classifier."""
        return {classifier: self.accuracy(classifier) for classifier in self.predicted}

    def balanced(self, classifier: str) -> float:
        """Return the mean over the classes of the share of right labels."""
        return float(np.mean([*self.per_class(classifier).values()]))

    def percent(self, classifier: str) -> str:
        """Return the share of right labels for a table, empty where the method has no such classifier."""
        return f"{100 * self.accuracy(classifier):.2f}" if classifier in self.predicted else ""

    def confusion(self, classifier: str) -> Array:
        """Return counts (c, c): true classes down, labels given across."""
        return np.asarray(confusion_matrix(self.truth, self.predicted[classifier], labels=self.classes))

    def per_class(self, classifier: str) -> dict[str, float]:
        """Return the share of right labels of each class that occurs."""
        found = share_right_by_class(self.predicted[classifier], self.truth)
        return {label: found[label] for label in in_order(found)}


def in_order(labels: Iterable[Any]) -> list[str]:
    """Return the distinct labels as strings: numbers by size, then words by alphabet."""

    def key(label: str) -> tuple[bool, float, str]:
        try:
            return False, float(label), label
        except ValueError:
            return True, 0.0, label

    return sorted({str(label) for label in labels}, key=key)


def _labelled_rows(y: Any, y_new: Any) -> tuple[Array, Array]:
    """Return which training samples and which new ones have a label; the former decide for both what −1 is."""
    rows = known_rows(y)
    is_class = {"-1", "-1.0"} & {str(label) for label in np.asarray(y)[rows]}
    return rows, np.ones(len(y_new), bool) if is_class else known_rows(y_new, semi=True)


def labels_of(y: Any, y_new: Any) -> tuple[list[str], list[str]]:
    """Return the distinct labels of training samples and of new ones, in order, without −1 where it stands for none."""
    rows, rows_new = _labelled_rows(y, y_new)
    return in_order(np.asarray(y)[rows]), in_order(np.asarray(y_new)[rows_new])


def judge(
    name: str,
    Z: Array,
    y: Any,
    Z_new: Array,
    y_new: Any,
    *,
    fit_seconds: float = float("nan"),
    classifiers: Iterable[str] = tuple(CLASSIFIERS),
    own: Mapping[str, Array] | None = None,
) -> Judgement:
    """Train each classifier on (Z, y) and let it label ``Z_new``; samples without a label count nowhere.

    ``own`` holds further labels of the new samples, by what gave them.
    """
    rows, rows_new = _labelled_rows(y, y_new)
    if not rows_new.any():
        raise ValueError(f"None of the {len(y_new)} new samples has a label: there is nothing to compare with.")
    known, truth = np.asarray(y)[rows].astype(str), np.asarray(y_new)[rows_new].astype(str)
    predicted = {which: np.asarray(labels)[rows_new].astype(str) for which, labels in (own or {}).items()}
    predicted |= {which: CLASSIFIERS[which](Z[rows], known, Z_new[rows_new]) for which in classifiers}
    return Judgement(name, int(Z.shape[1]), fit_seconds, truth, predicted)


def learn_and_judge(
    name: str, model: Any, X: Array, y: Any, X_new: Array, y_new: Any, classifiers: Iterable[str] = tuple(CLASSIFIERS)
) -> Judgement:
    """Fit a copy of ``model`` on (X, y), with its seconds, and judge it on new samples; by ``predict`` if it has it.

    Classifiers judge its embedding; a model without one is judged by its predictions alone.
    """
    began = time.perf_counter()
    fitted = clone(model).fit(X, y)
    seconds = time.perf_counter() - began
    own = {OWN: fitted.predict(X_new)} if hasattr(fitted, "classes_") and hasattr(fitted, "predict") else {}
    if not hasattr(fitted, "transform"):
        return judge(name, X, y, X_new, y_new, fit_seconds=seconds, classifiers=(), own=own)
    Z, Z_new = own_embedding(fitted, X), fitted.transform(X_new)
    return judge(name, Z, y, Z_new, y_new, fit_seconds=seconds, classifiers=classifiers, own=own)


COMMONEST = "commonest class"


def rivals() -> dict[str, Any]:
    """Return the usual alternatives; the embedding of raw values are samples of unit norm."""
    return {
        COMMONEST: DummyClassifier(strategy="most_frequent"),
        "LDA, shrinkage": make_pipeline(Normalizer(), LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto")),
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)),
        "raw values": make_pipeline(Normalizer(), FunctionTransformer()),
    }


def compare(
    models: dict[str, Any], X: Array, y: Any, X_new: Array, y_new: Any, classifiers: Iterable[str] = tuple(CLASSIFIERS)
) -> Iterator[Judgement]:
    """Judge models and then the rivals, all learned from the same samples and judged on the same others."""
    classifiers = tuple(classifiers)
    for name, model in models.items():
        yield learn_and_judge(name, model, X, y, X_new, y_new, classifiers)
    rows = known_rows(y)
    labels = np.asarray(y)[rows].astype(str)
    for name, model in rivals().items():
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            yield learn_and_judge(name, model, X[rows], labels, X_new, y_new, classifiers)


def said_of_commonest(judgement: Judgement) -> str:
    """Return a warning of a method that is right less often than the commonest class, or an empty text."""
    classes, counts = np.unique(np.asarray(judgement.truth).astype(str), return_counts=True)
    always = str(classes[np.argmax(counts)])
    which = next(iter(judgement.predicted))
    ours, theirs = judgement.accuracy(which), share_right(np.full(len(judgement.truth), always), judgement.truth)
    if ours >= theirs:
        return ""
    return (
        f"{judgement.name} is below the commonest class: {100 * ours:.1f} % where always {always!r} has "
        f"{100 * theirs:.1f} %."
    )


def folds(y: Array, count: int, seed: int = 0, groups: Array | None = None) -> list[tuple[Array, Array]]:
    """Return rows to learn from and rows to judge on; each fold keeps the proportions of the classes, groups whole."""
    fewest = int(np.unique(y, return_counts=True)[1].min())
    if fewest < 2:
        raise ValueError("Cross-validation needs two samples of each class at least; there is a class of one.")
    if fewest < count:
        raise ValueError(f"{count} folds need {count} samples of each class; the smallest has {fewest}.")
    if groups is None:
        return list(StratifiedKFold(count, shuffle=True, random_state=seed).split(y, y))
    if len(np.unique(groups)) < count:
        raise ValueError(f"{count} folds need {count} groups at least; there are {len(np.unique(groups))}.")
    return list(StratifiedGroupKFold(count, shuffle=True, random_state=seed).split(y, y, groups))


def split(y: Array, test_fraction: float, seed: int = 0) -> tuple[Array, Array]:
    """Return one such split: sorted rows to learn from and rows held out."""
    classes, counts = np.unique(y, return_counts=True)
    if counts.min() < 2:
        raise ValueError(
            f"A held-out part needs two samples of each class; there is one of {classes[counts.argmin()]}."
        )
    count = min(max(round(test_fraction * len(y)), len(classes)), len(y) - len(classes))
    train, test = next(StratifiedShuffleSplit(1, test_size=count, random_state=seed).split(y, y))
    return np.sort(train), np.sort(test)


def pooled(parts: list[Judgement]) -> Judgement:
    """Join the judgements of one method on several folds."""
    predicted = {which: np.concatenate([part.predicted[which] for part in parts]) for which in parts[0].predicted}
    seconds = float(np.mean([part.fit_seconds for part in parts]))
    truth = np.concatenate([part.truth for part in parts])
    return Judgement(parts[0].name, parts[0].dimension, seconds, truth, predicted)
