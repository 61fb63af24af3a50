"""Pictures as vectors for experiments: spatial pyramids of LLC codes, reduced by PCA; learned from training pictures.

Computing them takes minutes, so they are kept on disk, in the folder that SPARLOW_CACHE names (by default
``~/.cache/sparlow``), by the name of the set, the rows learned from and the settings.
"""

from __future__ import annotations

import os
import pathlib
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import normalize

from ..datasets import Dataset
from ..images import Codebook, DenseSIFT, SpatialPyramid

Array = NDArray[Any]

VARIABLE = "SPARLOW_CACHE"
_WORDS = 1024
_PATCHES = (16, 24, 32)


def pictures(data: Dataset, train: Array) -> Array:
    """The pictures themselves, for methods that begin with them."""
    return np.asarray(data.images, dtype=object)


def pyramids(dimension: int | None = None) -> Any:
    """Features of :data:`sparlow.experiments.splits.FEATURES`: so many principal components, scaled to unit norm.

    By default half as many as training pictures: the last components describe these alone, and make new pictures look
    unlike them.
    """

    def features(data: Dataset, train: Array) -> Array:
        return normalize(_kept(data, train)[:, : dimension or max(len(train) // 2, 1)])

    return features


def _kept(data: Dataset, train: Array) -> Array:
    """All principal components, from disk if they are there."""
    folder = pathlib.Path(os.environ.get(VARIABLE) or pathlib.Path.home() / ".cache" / "sparlow")
    path = folder / f"{data.name}-{joblib.hash([len(data.labels), np.asarray(train), _WORDS, _PATCHES])}.npy"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.npy")
        np.save(part, _components(np.asarray(data.images, dtype=object), train))
        part.replace(path)
    return np.asarray(np.load(path))


def _components(images: Array, train: Array) -> Array:
    """Principal components (n, n_train − 1) of the pyramids, by descending variance over the training pictures."""
    words = Codebook(_WORDS, "llc", n_samples=50_000, max_iter=15, random_state=0, n_jobs=-1)
    chain = make_pipeline(DenseSIFT(_PATCHES, 8), words, SpatialPyramid((1, 2, 4), n_jobs=-1))
    rows = chain.fit(images[train]).transform(images)  # (n, 21 · 1024), sparse
    learned = rows[train].toarray().astype(np.float32)
    centre = learned.mean(axis=0)
    learned -= centre
    # fewer samples than dimensions: the axes are combinations of the samples, found from their Gram matrix
    values, vectors = np.linalg.eigh(learned @ learned.T)
    keep = np.flatnonzero(values > 1e-6 * values[-1])[::-1]
    axes = (vectors[:, keep] / np.sqrt(values[keep])).T @ learned
    return np.asarray(rows @ axes.T - axes @ centre, np.float32)
