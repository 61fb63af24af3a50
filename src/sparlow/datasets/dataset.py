"""A set of images with labels, and how to split it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

Array = NDArray[Any]


@dataclass(frozen=True)
class Dataset:
    """Images and labels.

    Parameters
    ----------
    name : str
    images : array of shape (n, height · width), or of shape (n,) with dtype object
        Grey values from 0 to 1, row by row: ``images[i].reshape(shape)`` is upright. Sets whose pictures differ in size
        have paths instead (``pathlib.Path`` or ``zipfile.Path``), to be opened with ``images[i].open("rb")``.
    labels : array of shape (n,)
    shape : (int, int) or None
        Height and width; None where images are paths.
    n_train : int or None
        The first samples are the standard training part; None if there is no standard split.
    classes : tuple of str
        Names of the labels in ascending order, where they have names.

    """

    name: str
    images: Array
    labels: Array
    shape: tuple[int, int] | None
    n_train: int | None = None
    classes: tuple[str, ...] = ()

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
