"""Turn a setting into unit-norm vectors and labels of a training and a test part.

Features of pictures take minutes to compute. They are kept in the folder that the environment variable SPARLOW_CACHE
names (by default ``~/.cache/sparlow``), by the pictures (names, sizes and dates of their files) and the recipe.
"""

from __future__ import annotations

import functools
import os
import pathlib
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from sparlow.constants import TRIED
from sparlow.evaluation import Fold, divided
from sparlow.images import fisher_features, pyramid_features

from . import datasets
from .datasets import Dataset
from .specification import Setting

Array = NDArray[Any]

CACHE = "SPARLOW_CACHE"
RECIPE = functools.partial(pyramid_features, random_state=0, n_jobs=-1)
FISHER = functools.partial(fisher_features, 0, random_state=0)
TEACHERS = {"scenes15": "caltech256", "caltech101": "caltech256", "caltech256": "caltech101"}  # of the mixtures
_TAUGHT = 4  # pictures of each class of the other set
_PIECE = 1000  # pictures whose Fisher vectors are one file
_VERSION = 2  # of the recipes: raise it where the same pictures come to have other components


@dataclass(frozen=True)
class Split:
    """Hold a training and a test part; ``rows`` and ``test_rows`` are their places in the image set."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array
    shape: tuple[int, int] | None
    rows: Array
    test_rows: Array
    folds: Callable[[], Iterator[Fold]] | None = None  # where features are learned: anew for each training fold


@functools.lru_cache(maxsize=1)  # rows of the same split follow one another
def draw(setting: Setting, seed: int, folder: str | os.PathLike[str] | None = None) -> Split:
    """Return the training and test part of a setting, the same for the same seed."""
    data = datasets.loaded(setting.data, folder)
    train, test = _parts(data, setting, seed)
    rng = np.random.RandomState(seed)
    if setting.train is not None:
        train = rng.permutation(train)[: setting.train]
    if setting.test is not None:
        test = rng.permutation(test)[: setting.test]
    further = {"folder": folder} if setting.features == "fisher" else {}
    X, X_test = FEATURES[setting.features](data, train, test, **further)
    y = data.labels[train]
    if setting.labels is not None:
        y = _hidden(y, setting.labels, rng)
    if setting.transductive:
        X, y = np.concatenate([X, X_test]), np.concatenate([y, np.full(len(test), -1)])
        train = np.concatenate([train, test])
    anew = setting.features in LEARNED and setting.labels is None and not setting.transductive
    folds = functools.partial(_folds, data, setting, train, seed) if anew else None
    return Split(X, y, X_test, data.labels[test], data.shape, train, test, folds)


def _folds(data: Dataset, setting: Setting, train: Array, seed: int) -> Iterator[Fold]:
    """Yield training folds whose features are learned without the pictures held out.

    Folds of features learned from all training pictures would prefer parameters that suit pictures which codebook and
    principal components know already.
    """
    for known, y, held, y_held in divided(train, data.labels[train], seed):
        X, X_held = LEARNED[setting.features](data, known, held, min(len(train), TRIED))
        yield X, y, X_held, y_held


def _parts(data: Dataset, setting: Setting, seed: int) -> tuple[Array, Array]:
    if setting.per_class is not None:
        train, test = data.split(setting.per_class, seed)
    elif data.n_train is not None:
        train, test = data.standard_split()
    else:
        rows = np.arange(len(data.labels))
        halves = train_test_split(rows, stratify=data.labels, test_size=0.5, random_state=seed)
        train, test = (np.sort(half) for half in halves)
    if setting.classes:
        known = np.unique(data.labels)
        classes = setting.classes if np.isin(setting.classes, known).all() else known[: len(setting.classes)]
        train, test = (part[np.isin(data.labels[part], classes)] for part in (train, test))
    return train, test


def _hidden(y: Array, labels: int, rng: np.random.RandomState) -> Array:
    kept = np.concatenate([rng.permutation(np.flatnonzero(y == label))[:labels] for label in np.unique(y)])
    shown = np.full(len(y), -1)
    shown[kept] = y[kept]
    return shown


# ── features ────────────────────────────────────────────────────────────────────────────────────────────────────────


def pixels(data: Dataset, train: Array, test: Array) -> tuple[Array, Array]:
    """Return grey values scaled to unit norm."""
    return normalize(data.images[train]), normalize(data.images[test])


def pictures(data: Dataset, train: Array, test: Array) -> tuple[Array, Array]:
    """Return the pictures themselves, for methods that begin with them."""
    images = np.asarray(data.images, dtype=object)
    return images[train], images[test]


def pyramids(
    data: Dataset, train: Array, test: Array, of: int | None = None, *, dimension: int | None = None
) -> tuple[Array, Array]:
    """Return the features of :func:`sparlow.images.pyramid_features`, learned from the training pictures.

    Parameters
    ----------
    data : Dataset
        A set of pictures.
    train, test : arrays of int
        Rows to learn from and rows to test on.
    of : int, optional
        Size of the whole of which ``train`` is a part, in a training fold. A fold gets the same share of its components
        as the whole.
    dimension : int, optional
        Number of components, by default half as many as training pictures.

    """
    count = max(len(train) // 2 if dimension is None else round(dimension * len(train) / (of or len(train))), 1)
    vectors = normalize(_kept(*pictures(data, train, test), data.name)[:, :count])
    return vectors[: len(train)], vectors[len(train) :]


def fisher(
    data: Dataset, train: Array, test: Array, folder: str | os.PathLike[str] | None = None
) -> tuple[Array, Array]:
    """Return principal components of Fisher vectors, found from their products as by kernel PCA.

    The mixture of Gaussians is that of pictures of another set, :data:`TEACHERS`, so a picture has the same Fisher
    vector in all splits. The components are learned from the training pictures, two thirds as many.
    """
    if len(train) + len(test) <= _PIECE:  # the others are not needed
        vectors = _mixture(TEACHERS[data.name], folder).transform(np.concatenate(pictures(data, train, test)))
        products, count = vectors @ vectors.T, len(train)
        train, test = np.arange(count), np.arange(count, len(products))
    else:
        products = fisher_products(data, folder)
    return components_of(products, train, test, max(2 * len(train) // 3, 1))


def components_of(products: Array, train: Array, test: Array, count: int) -> tuple[Array, Array]:
    """Return principal components of unit norm, learned from the rows ``train`` of a set with these products."""
    K, mean = products[np.ix_(train, train)].astype(float), products[:, train].mean(axis=1, dtype=float)
    grand = mean[train].mean()
    values, vectors = np.linalg.eigh(K - mean[train] - mean[train][:, None] + grand)
    kept = np.argsort(values)[::-1][:count]
    axes = vectors[:, kept] / np.sqrt(values[kept])
    rows = np.concatenate([train, test])
    centred = products[np.ix_(rows, train)].astype(float) - mean[rows][:, None] - mean[train] + grand
    features = normalize(centred @ axes).astype(np.float32)
    return features[: len(train)], features[len(train) :]


# Set, rows to learn from and rows to test on -> vectors of both. Those that are learned see the training part alone.
FEATURES: dict[str, Callable[..., tuple[Array, Array]]] = {"pixels": pixels, "pictures": pictures}
LEARNED = {"pyramids": pyramids} | {
    f"pyramids {dimension}": functools.partial(pyramids, dimension=dimension)
    for dimension in (64, 128, 256, 512, 1000, 2000, 3000)
}
# Parameters of methods on Fisher vectors are fixed, so that there are no folds of them.
FEATURES |= LEARNED | {"fisher": fisher}


def _kept(train: Array, test: Array, name: str) -> Array:
    """Return all principal components of training and test pictures, from disk if they are there."""
    recipe = RECIPE(max(len(train) - 1, 1))
    marks = [[_mark(image) for image in part] for part in (train, test)]
    digest = joblib.hash([*marks, recipe["codebook"].n_words, recipe["descriptors"].patch, _VERSION])
    path = _folder() / f"{name}-{digest}.npy"
    if not path.exists():
        _write(path, _components(recipe[:-1], train, test))
    return np.asarray(np.load(path))


def _components(steps: Any, train: Array, test: Array) -> Array:
    """Return principal components (n, n_train − 1), learned from the training pictures, before they are scaled."""
    return np.concatenate([steps.fit_transform(train), steps.transform(test)])


def _mark(image: Any) -> Any:
    """Return what tells pictures apart: name, size and date of a file, its checksum in an archive, or the picture."""
    if isinstance(image, zipfile.Path):
        member = image.root.getinfo(image.at)
        return str(image), member.file_size, member.CRC
    if isinstance(image, (str, os.PathLike)):
        seen = os.stat(image)
        return os.fspath(image), seen.st_size, seen.st_mtime_ns
    return image


def fisher_products(data: Dataset, folder: str | os.PathLike[str] | None = None, once: bool = False) -> Array:
    """Return the products of the Fisher vectors of all pictures of a set, from disk as far as they are there.

    ``once`` stops after one new piece, so that long work can be cut.
    """
    images = pictures(data, np.arange(len(data.labels)), np.arange(0))[0]
    place = _folder() / f"{data.name}-fisher-{joblib.hash([[_mark(image) for image in images], _PIECE, _VERSION])}"
    parts = [slice(first, first + _PIECE) for first in range(0, len(images), _PIECE)]
    steps = functools.cache(lambda: _mixture(TEACHERS[data.name], folder))
    rows = []
    for number, part in enumerate(parts):
        path = place / f"rows{number}.npy"
        if not path.exists():
            _write(path, steps().transform(images[part]).astype(np.float16))
            if once:
                return np.empty(0)
        rows.append(np.load(path, mmap_mode="r"))
    products = np.zeros((len(images), len(images)), np.float32)
    for i, part in enumerate(parts):
        path = place / f"products{i}.npy"
        if not path.exists():
            left = rows[i].astype(np.float32)
            _write(path, np.hstack([left @ right.astype(np.float32).T for right in rows[: i + 1]]))
            if once:
                return np.empty(0)
        products[part, : min(part.stop, len(images))] = np.load(path)
    lower = np.tril(products)
    return lower + np.tril(lower, -1).T


def _mixture(name: str, folder: str | os.PathLike[str] | None) -> Any:
    """Return the steps from pictures to Fisher vectors, learned from a few pictures of each class of a set."""
    data = datasets.loaded(name, folder)
    path = _folder() / f"mixture-{name}-{_VERSION}.joblib"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        joblib.dump(FISHER().fit(pictures(data, *data.split(_TAUGHT, 0))[0]), path)
    return joblib.load(path)


def _write(path: pathlib.Path, array: Array) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.npy")
    np.save(part, array)
    part.replace(path)


def _folder() -> pathlib.Path:
    return pathlib.Path(os.environ.get(CACHE) or pathlib.Path.home() / ".cache" / "sparlow")
