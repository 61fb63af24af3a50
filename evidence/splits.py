"""A setting becomes samples: unit-norm vectors and labels of a training and a test part."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from .. import datasets
from ..datasets import Dataset
from ..evaluation import TUNING, Fold, divided
from .pictures import pictures, pyramids
from .plan import Setting

Array = NDArray[Any]


@dataclass(frozen=True)
class Samples:
    """Training and test part; ``rows`` and ``test_rows`` are their places in the image set."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array
    shape: tuple[int, int] | None
    rows: Array
    test_rows: Array
    folds: Callable[[], Iterator[Fold]] | None = None  # where features are learned: anew for each training fold


def pixels(data: Dataset, train: Array, test: Array) -> tuple[Array, Array]:
    """Grey values scaled to unit norm."""
    return normalize(data.images[train]), normalize(data.images[test])


# Set, rows to learn from and rows to test on -> vectors of both; what has to be learned (a codebook) sees the first.
FEATURES: dict[str, Callable[[Dataset, Array, Array], tuple[Array, Array]]] = {"pixels": pixels, "pictures": pictures}
LEARNED = {f"pyramids {dimension}": pyramids(dimension) for dimension in (64, 128, 256, 512, 1000, 2000, 3000)}
LEARNED["pyramids"] = pyramids()
FEATURES |= LEARNED


@functools.lru_cache(maxsize=2)
def _loaded(name: str, folder: str | None) -> Dataset:
    return datasets.load(name, folder)


def draw(setting: Setting, seed: int, folder: str | os.PathLike[str] | None = None) -> Samples:
    """The samples of a setting; the same for the same seed."""
    data = _loaded(setting.data, None if folder is None else os.fspath(folder))
    train, test = _parts(data, setting, seed)
    rng = np.random.RandomState(seed)
    if setting.train is not None:
        train = rng.permutation(train)[: setting.train]
    if setting.test is not None:
        test = rng.permutation(test)[: setting.test]
    X, X_test = FEATURES[setting.features](data, train, test)
    y = data.labels[train]
    if setting.labels is not None:
        y = _hidden(y, setting.labels, rng)
    if setting.transductive:
        X, y = np.concatenate([X, X_test]), np.concatenate([y, np.full(len(test), -1)])
        train = np.concatenate([train, test])
    anew = setting.features in LEARNED and setting.labels is None and not setting.transductive
    folds = functools.partial(_folds, data, setting, train, seed) if anew else None
    return Samples(X, y, X_test, data.labels[test], data.shape, train, test, folds)


def _folds(data: Dataset, setting: Setting, train: Array, seed: int) -> Iterator[Fold]:
    """Training folds whose features know nothing of the pictures held out.

    Folds of features learned from all training pictures would prefer what fits pictures that codebook and principal
    components know already.
    """
    for known, y, held, y_held in divided(train, data.labels[train], seed):
        X, X_held = LEARNED[setting.features](data, known, held, min(len(train), TUNING))
        yield X, y, X_held, y_held


def _parts(data: Dataset, setting: Setting, seed: int) -> tuple[Array, Array]:
    if setting.per_class is not None:
        train, test = data.split(setting.per_class, seed)
    elif data.n_train is not None:
        train, test = data.standard_split()
    else:
        rows = np.arange(len(data.labels))
        train, test = (
            np.sort(p) for p in train_test_split(rows, stratify=data.labels, test_size=0.5, random_state=seed)
        )
    if setting.classes:
        known = np.unique(data.labels)
        classes = setting.classes if np.isin(setting.classes, known).all() else known[: len(setting.classes)]
        train, test = (p[np.isin(data.labels[p], classes)] for p in (train, test))
    return train, test


def _hidden(y: Array, labels: int, rng: np.random.RandomState) -> Array:
    kept = np.concatenate([rng.permutation(np.flatnonzero(y == label))[:labels] for label in np.unique(y)])
    shown = np.full(len(y), -1)
    shown[kept] = y[kept]
    return shown
