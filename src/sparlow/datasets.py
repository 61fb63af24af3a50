"""Image sets that the evidence rests on: images as rows, labels, shape, and how to split them.

The library ships none of them. All but the digits of scikit-learn are read from one folder, which the argument
``folder`` or the environment variable ``SPARLOW_DATA`` names.
"""

from __future__ import annotations

import os
import pathlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.utils import check_random_state

Array = NDArray[Any]

VARIABLE = "SPARLOW_DATA"


@dataclass(frozen=True)
class Dataset:
    """Images and labels.

    Parameters
    ----------
    name : str
    images : array of shape (n, height · width)
        Grey values from 0 to 1, row by row: ``images[i].reshape(shape)`` is upright.
    labels : array of shape (n,)
    shape : (int, int)
    n_train : int or None
        The first samples are the standard training part; None if there is no standard split.

    """

    name: str
    images: Array
    labels: Array
    shape: tuple[int, int]
    n_train: int | None = None

    def standard_split(self) -> tuple[Array, Array]:
        """Rows of the standard training and test part."""
        if self.n_train is None:
            raise ValueError(f"{self.name} has no standard split: use split(n_per_class, random_state).")
        return np.arange(self.n_train), np.arange(self.n_train, len(self.labels))

    def split(self, n_per_class: int, random_state: Any = None) -> tuple[Array, Array]:
        """Rows of a random training part with ``n_per_class`` samples of each class, and of the rest."""
        rng = check_random_state(random_state)
        classes, counts = np.unique(self.labels, return_counts=True)
        if counts.min() <= n_per_class:
            raise ValueError(
                f"{self.name} has a class of {counts.min()} samples: n_per_class={n_per_class} leaves none to test on."
            )
        chosen = [rng.permutation(np.flatnonzero(self.labels == c))[:n_per_class] for c in classes]
        train = np.sort(np.concatenate(chosen))
        return train, np.setdiff1d(np.arange(len(self.labels)), train)


@dataclass(frozen=True)
class _Source:
    """Where a set is read from, and what to tell someone who does not have it."""

    file: str
    shape: tuple[int, int]
    scale: float
    where: str


_SOURCES = {
    "usps": _Source(
        "usps.npz", (16, 16), 2000.0, "USPS digits, zip.train and zip.test of The Elements of Statistical Learning"
    ),
    "mnist": _Source("mnist.npz", (28, 28), 255.0, "MNIST digits, the four idx files of LeCun, Cortes and Burges"),
    "pie": _Source("pie_32x32.npz", (32, 32), 255.0, "CMU PIE faces, PIE_32x32 of Deng Cai's face data"),
    "orl": _Source("orl_32x32.npz", (32, 32), 255.0, "ORL (AT&T) faces, ORL_32x32 of Deng Cai's face data"),
}

NAMES = ("digits", *_SOURCES)


def load(name: str, folder: str | os.PathLike[str] | None = None) -> Dataset:
    """Load a set by its name.

    Parameters
    ----------
    name : {"digits", "usps", "mnist", "pie", "orl"}
        "digits" comes with scikit-learn.
    folder : path, optional
        Where the files are; by default what the environment variable SPARLOW_DATA says.

    Returns
    -------
    Dataset

    """
    if name == "digits":
        digits = load_digits()
        return Dataset("digits", digits.data / 16.0, digits.target, (8, 8))
    if name not in _SOURCES:
        raise ValueError(f"There is no set {name!r}; there are {', '.join(NAMES)}.")
    source = _SOURCES[name]
    with np.load(_path(source, folder)) as arrays:
        if "X_train" in arrays:
            X = np.concatenate([arrays["X_train"], arrays["X_test"]])
            y = np.concatenate([arrays["y_train"], arrays["y_test"]])
            return Dataset(name, X / source.scale, y.astype(int), source.shape, len(arrays["y_train"]))
        return Dataset(name, arrays["X"] / source.scale, arrays["y"].astype(int), source.shape)


def _path(source: _Source, folder: str | os.PathLike[str] | None) -> pathlib.Path:
    named = folder if folder is not None else os.environ.get(VARIABLE)
    if named is None:
        raise FileNotFoundError(
            f"Where is {source.file}? Set {VARIABLE} to the folder it is in, or give load(..., folder=...). "
            f"It is made from: {source.where}."
        )
    path = pathlib.Path(named) / source.file
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}. Put it there; it is made from: {source.where}.")
    return path
