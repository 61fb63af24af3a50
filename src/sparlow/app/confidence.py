"""How sure a model is of a sample: probabilities, the nearest training samples, and how like these it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import gen_batches

from ..estimators import SparLow
from ..labels import known_rows
from ..models import ModelFile
from .dataset import Dataset
from .saved import SavedModel

Array = NDArray[Any]

Prepare = Callable[[Array, Array], tuple[Array, Array]]

_MOST = 900  # samples that likeness is measured on, a third of which are held out


def unlikeness(Z: Array, training: Array, own: bool = False) -> Array:
    """Return the smallest ‖z − zᵢ‖/‖zᵢ‖ over the training samples zᵢ; ``own`` says that Z are these samples.

    The embedding has mean zero. Samples of known classes lie where training samples do, those of other classes about
    the mean: relative to its distance from there, they are far from every training sample.
    """
    lengths = np.maximum(np.linalg.norm(training, axis=1), np.finfo(float).tiny)
    out = np.empty(len(Z))
    for rows in gen_batches(len(Z), 1024):
        ratios = euclidean_distances(Z[rows], training) / lengths
        if own:
            ratios[np.arange(len(ratios)), np.arange(rows.start, rows.start + len(ratios))] = np.inf
        out[rows] = ratios.min(axis=1)
    return out


def held_out_unlikeness(model: SparLow, dataset: Dataset, prepare: Prepare | None = None) -> Array | None:
    """Return the :func:`unlikeness` of held-out samples, ascending; None where it cannot be measured.

    The embedding alone is solved for two thirds of at most 900 samples: dictionary and prior stay as they are, and no
    step is made. ``prepare(rest, held)`` returns the samples of these rows, prepared by what was learned from the
    former, whose dictionary is then learned anew; by default they are those of the dataset.
    """
    if dataset.classes is None or not hasattr(model, "classes_"):
        return None
    rows = np.random.default_rng(0).permutation(np.flatnonzero(known_rows(dataset.classes)))[:_MOST]
    held, rest = rows[: len(rows) // 3], rows[len(rows) // 3 :]
    known: dict[str, Any] = {"prior": model.prior_}
    if prepare is None:
        known |= {"dictionary": model.dictionary_, "n_atoms": None}
    if model.forms_ is not None:
        known["embedding"] = "quadratic"  # not to be chosen again
    judged = clone(model).set_params(max_iter=0, early_stopping=False, **known)
    try:
        X, X_held = (dataset.X[rest], dataset.X[held]) if prepare is None else prepare(rest, held)
        judged.fit(X, dataset.classes[rest])
    except ValueError:  # classes of one sample, for instance
        return None
    return np.sort(unlikeness(judged.transform(X_held), judged.embedding_))


@dataclass(frozen=True)
class Answer:
    """What a model says of samples.

    Parameters
    ----------
    labels : array of shape (n,)
        The labels given.
    probabilities : array of shape (n,), optional
        The probability of each.
    second : array of shape (n,), optional
        The second choices.
    likeness : array of shape (n,)
        The share of held-out samples that are less like the training samples: near 0 for what is unlike all of them.
    nearest : array of shape (n, k)
        The rows of the nearest training samples in the embedding.

    """

    labels: Array
    probabilities: Array | None
    second: Array | None
    likeness: Array
    nearest: Array


def likeness_of(held: ModelFile, Z: Array) -> Array:
    """Return the share of held-out samples that are less like the training samples than those embedded at Z.

    A model file that no held-out samples were measured for has the training samples instead, each beside the others.
    """
    training = np.asarray(held.model.embedding_, float)
    measured = held.data.get("unlikeness")
    if measured is None:
        measured = np.sort(unlikeness(training, training, own=True)) if len(training) > 1 else np.zeros(1)
    return np.asarray(1 - np.searchsorted(measured, unlikeness(Z, training)) / len(measured))


def answer(held: ModelFile, X: Array, n_nearest: int = 3) -> Answer:
    """Return the labels of samples with what speaks for them."""
    Z, training = np.asarray(held.model.transform(X), float), np.asarray(held.model.embedding_, float)
    likeness, nearest = likeness_of(held, Z), nearest_rows(Z, training, n_nearest)
    found = _shares(held, X)
    if found is None:
        labels = np.asarray(held.training_labels())
        known = np.flatnonzero(known_rows(labels))
        near = known[nearest_rows(Z, training[known], 1)[:, 0]]
        return Answer(labels[near], None, None, likeness, nearest)
    classes, shares = found
    order = np.argsort(-shares, axis=1, kind="stable")
    second = classes[order[:, 1]] if len(classes) > 1 else None
    return Answer(classes[order[:, 0]], shares[np.arange(len(X)), order[:, 0]], second, likeness, nearest)


def _shares(held: ModelFile, X: Array) -> tuple[Array, Array] | None:
    """Return classes and their probabilities, of the classifier at the end of a pipeline or of the model itself."""
    if isinstance(held, SavedModel) and held.predictor is not None and is_classifier(held.predictor):
        classes = held.predictor.classes_
        if hasattr(held.predictor, "predict_proba"):
            return classes, np.asarray(held.predictor.predict_proba(held.embed(X)))
        return classes, (held.predict(X)[:, None] == classes).astype(float)
    return (held.model.classes_, held.model.predict_proba(X)) if hasattr(held.model, "classes_") else None


def nearest_rows(Z: Array, training: Array, count: int, own: bool = False) -> Array:
    """Return the rows (n, count) of the nearest training samples, nearest first; ``own`` says that Z are these."""
    if own:
        near = nearest_rows(Z, training, count + 1)
        others = near != np.arange(len(Z))[:, None]
        others[others.all(axis=1), -1] = False  # equal samples: the sample itself is not among them
        return np.asarray(near[others]).reshape(len(Z), -1)
    count = min(count, len(training))
    if not count:
        return np.empty((len(Z), 0), int)
    found = []
    for rows in gen_batches(len(Z), 1024):
        squares = euclidean_distances(Z[rows], training, squared=True)
        near = np.argpartition(squares, count - 1, axis=1)[:, :count]
        found.append(np.take_along_axis(near, np.argsort(np.take_along_axis(squares, near, 1), axis=1), 1))
    return np.concatenate(found)


def n_distinct(Z: Array) -> int:
    """Return the number of distinct points of an embedding, up to a millionth of its extent."""
    extent = float(np.max(np.ptp(Z, axis=0), initial=0.0)) or 1.0
    return len(np.unique(np.round(np.asarray(Z, float) / extent, 6), axis=0))
