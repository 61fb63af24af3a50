"""How good a representation is: the accuracy of two classifiers on samples it was not learned from, beside rivals."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import GridSearchCV, StratifiedKFold, StratifiedShuffleSplit
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import FunctionTransformer, normalize
from sklearn.svm import SVC

from .dictionaries import labelled as is_labelled

Array = NDArray[Any]

_COSTS = (1.0, 10.0, 100.0)
_WIDTHS = (0.3, 1.0, 3.0)  # gamma in units of 1 / (dimensions × variance)
_SEARCH = 2000  # training samples that C and gamma are chosen on


def nearest_neighbour(Z: Array, y: Array, Z_new: Array) -> Array:
    """The label of the nearest sample (1NN)."""
    return np.asarray(KNeighborsClassifier(1).fit(Z, y).predict(Z_new))


def support_vectors(Z: Array, y: Array, Z_new: Array) -> Array:
    """The labels of a Gaussian support vector machine (SVM).

    C and γ come from three-fold cross-validation on the training samples, of which 2000 at most, drawn with seed 0,
    take part in the choice.
    """
    Z, Z_new = np.asarray(Z, float), np.asarray(Z_new, float)
    unit = 1 / (Z.shape[1] * (Z.var() or 1.0))
    rows = _some(y, _SEARCH)
    counts = np.unique(y[rows], return_counts=True)[1]
    if counts.min() < 3:
        return np.asarray(SVC(C=10.0, gamma=unit).fit(Z, y).predict(Z_new))
    grid = {"C": _COSTS, "gamma": [unit * width for width in _WIDTHS]}
    best = GridSearchCV(SVC(), grid, cv=3, refit=False).fit(Z[rows], y[rows]).best_params_
    return np.asarray(SVC(**best).fit(Z, y).predict(Z_new))


CLASSIFIERS: dict[str, Callable[[Array, Array, Array], Array]] = {"1NN": nearest_neighbour, "SVM": support_vectors}


def _some(y: Array, most: int) -> Array:
    """Rows of at most so many samples, classes in proportion."""
    classes = len(np.unique(y))
    if len(y) <= most or most < classes:
        return np.arange(len(y))
    counts = np.unique(y, return_counts=True)[1]
    if counts.min() < 2 or len(y) - most < classes:
        return np.sort(np.random.default_rng(0).permutation(len(y))[:most])
    return np.sort(next(StratifiedShuffleSplit(1, train_size=most, random_state=0).split(y, y))[0])


@dataclass(frozen=True)
class Judgement:
    """What classifiers made of one representation.

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
        Labels by classifier.

    """

    name: str
    dimension: int
    fit_seconds: float
    truth: Array
    predicted: dict[str, Array]

    @property
    def classes(self) -> list[str]:
        """Labels, numbers in their order."""
        return in_order(np.concatenate([self.truth, *self.predicted.values()]))

    def accuracy(self, classifier: str) -> float:
        """Share of right labels."""
        return float(np.mean(self.predicted[classifier] == self.truth))

    def accuracies(self) -> dict[str, float]:
        """Of each classifier."""
        return {classifier: self.accuracy(classifier) for classifier in self.predicted}

    def confusion(self, classifier: str) -> Array:
        """Counts (c, c): true classes down, labels given across."""
        classes = self.classes
        place = {label: number for number, label in enumerate(classes)}
        counts = np.zeros((len(classes), len(classes)), int)
        np.add.at(counts, ([place[t] for t in self.truth], [place[p] for p in self.predicted[classifier]]), 1)
        return counts

    def per_class(self, classifier: str) -> dict[str, float]:
        """Share of right labels among the samples of each class that occurs."""
        right = self.predicted[classifier] == self.truth
        return {
            label: float(right[self.truth == label].mean()) for label in self.classes if np.any(self.truth == label)
        }


def in_order(labels: Iterable[Any]) -> list[str]:
    """Distinct labels as strings: numbers by size, then words by alphabet."""

    def key(label: str) -> tuple[bool, float, str]:
        try:
            return False, float(label), label
        except ValueError:
            return True, 0.0, label

    return sorted({str(label) for label in labels}, key=key)


def known_rows(y: Any, *, semi: bool = False) -> Array:
    """Which samples have a label: −1 marks those without, unless it is one of two classes and nobody says ``semi``."""
    y = np.asarray(y)
    if not semi and len({str(label) for label in y}) <= 2:
        return np.ones(len(y), bool)
    return np.asarray(is_labelled(y))


def judge(
    name: str,
    Z: Array,
    y: Any,
    Z_new: Array,
    y_new: Any,
    *,
    fit_seconds: float = float("nan"),
    classifiers: Iterable[str] = tuple(CLASSIFIERS),
) -> Judgement:
    """Train each classifier on (Z, y) and let it label ``Z_new``; samples without a label count nowhere."""
    rows, rows_new = known_rows(y), known_rows(y_new)
    known, truth = np.asarray(y)[rows].astype(str), np.asarray(y_new)[rows_new].astype(str)
    predicted = {which: CLASSIFIERS[which](Z[rows], known, Z_new[rows_new]) for which in classifiers}
    return Judgement(name, int(Z.shape[1]), fit_seconds, truth, predicted)


def learn_and_judge(
    name: str, model: Any, X: Array, y: Any, X_new: Array, y_new: Any, classifiers: Iterable[str] = tuple(CLASSIFIERS)
) -> Judgement:
    """Fit a copy of ``model`` on (X, y), with its seconds, and judge it on new samples."""
    began = time.perf_counter()
    fitted = clone(model).fit(X, y)
    seconds = time.perf_counter() - began
    options: dict[str, Any] = {"fit_seconds": seconds, "classifiers": classifiers}
    return judge(name, fitted.transform(X), y, fitted.transform(X_new), y_new, **options)


def rivals() -> dict[str, Any]:
    """What people use otherwise, on samples of unit norm."""
    return {
        "raw values": FunctionTransformer(),
        "PCA, 95 % of the variance": PCA(0.95),
        "LDA, shrinkage": LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto"),
    }


def compare(
    models: dict[str, Any], X: Array, y: Any, X_new: Array, y_new: Any, classifiers: Iterable[str] = tuple(CLASSIFIERS)
) -> Iterator[Judgement]:
    """Judge models and then the rivals, all learned from the same samples and judged on the same others."""
    classifiers = tuple(classifiers)
    for name, model in models.items():
        yield learn_and_judge(name, model, X, y, X_new, y_new, classifiers)
    rows = known_rows(y)
    unit, unit_new, labels = normalize(X[rows]), normalize(X_new), np.asarray(y)[rows].astype(str)
    for name, model in rivals().items():
        yield learn_and_judge(name, model, unit, labels, unit_new, y_new, classifiers)


def folds(y: Array, count: int, seed: int = 0) -> list[tuple[Array, Array]]:
    """Rows to learn from and to judge on, classes in proportion in each fold."""
    fewest = int(np.unique(y, return_counts=True)[1].min())
    if fewest < 2:
        raise ValueError("Cross-validation needs two samples of each class at least; there is a class of one.")
    if fewest < count:
        raise ValueError(f"{count} folds need {count} samples of each class; the smallest has {fewest}.")
    return list(StratifiedKFold(count, shuffle=True, random_state=seed).split(y, y))


def split(y: Array, test_fraction: float, seed: int = 0) -> tuple[Array, Array]:
    """One such split: sorted rows to learn from and rows held out."""
    classes, counts = np.unique(y, return_counts=True)
    if counts.min() < 2:
        raise ValueError(
            f"A held-out part needs two samples of each class; there is one of {classes[counts.argmin()]}."
        )
    count = min(max(round(test_fraction * len(y)), len(classes)), len(y) - len(classes))
    train, test = next(StratifiedShuffleSplit(1, test_size=count, random_state=seed).split(y, y))
    return np.sort(train), np.sort(test)


def pooled(parts: list[Judgement]) -> Judgement:
    """The judgements of the same method on several folds as one."""
    predicted = {which: np.concatenate([part.predicted[which] for part in parts]) for which in parts[0].predicted}
    seconds = float(np.mean([part.fit_seconds for part in parts]))
    truth = np.concatenate([part.truth for part in parts])
    return Judgement(parts[0].name, parts[0].dimension, seconds, truth, predicted)
