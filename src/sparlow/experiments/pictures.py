"""Pictures as vectors for experiments: spatial pyramids of LLC codes, reduced by PCA; learned from training pictures.

Computing them takes minutes, so they are kept on disk, in the folder that SPARLOW_CACHE names (by default
``~/.cache/sparlow``), by the pictures (their files' names, sizes and dates) and the settings.
"""

from __future__ import annotations

import os
import pathlib
import zipfile
from typing import Any

import joblib
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import normalize

from ..datasets import Dataset
from ..images import Codebook, DenseSIFT, SpatialPyramid

Array = NDArray[Any]

VARIABLE = "SPARLOW_CACHE"
_WORDS = 1024
_PATCHES = (16, 24, 32)
_WAY = 1  # another number where the same pictures come to have other components


def pictures(data: Dataset, train: Array, test: Array) -> tuple[Array, Array]:
    """The pictures themselves, for methods that begin with them."""
    images = np.asarray(data.images, dtype=object)
    return images[train], images[test]


def pyramids(dimension: int | None = None) -> Any:
    """Features of :data:`sparlow.experiments.splits.FEATURES`: so many principal components, scaled to unit norm.

    By default half as many as training pictures: the last components describe these alone, and make new pictures look
    unlike them. In a fold, whose pictures are a part ``of`` so many, as large a share of its components.
    """

    def features(data: Dataset, train: Array, test: Array, of: int | None = None) -> tuple[Array, Array]:
        count = max(len(train) // 2, 1)
        if dimension is not None:
            count = max(round(dimension * len(train) / (of or len(train))), 1)
        vectors = normalize(_kept(*pictures(data, train, test), data.name)[:, :count])
        return vectors[: len(train)], vectors[len(train) :]

    return features


def _kept(train: Array, test: Array, name: str) -> Array:
    """All principal components of training and test pictures, from disk if they are there."""
    folder = pathlib.Path(os.environ.get(VARIABLE) or pathlib.Path.home() / ".cache" / "sparlow")
    path = folder / f"{name}-{joblib.hash([_marks(train), _marks(test), _WORDS, _PATCHES, _WAY])}.npy"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.npy")
        np.save(part, _components(train, test))
        part.replace(path)
    return np.asarray(np.load(path))


def _marks(images: Array) -> list[Any]:
    """What tells pictures apart: name, size and date of a file, or its checksum in an archive; or the picture."""
    return [_mark(image) for image in images]


def _mark(image: Any) -> Any:
    if isinstance(image, zipfile.Path):
        member = image.root.getinfo(image.at)
        return str(image), member.file_size, member.CRC
    if isinstance(image, (str, os.PathLike)):
        seen = os.stat(image)
        return os.fspath(image), seen.st_size, seen.st_mtime_ns
    return image


def _components(train: Array, test: Array) -> Array:
    """Principal components (n, n_train − 1) of the pyramids, learned from the training pictures."""
    words = Codebook(_WORDS, "llc", n_samples=50_000, max_iter=15, random_state=0, n_jobs=-1)
    chain = make_pipeline(DenseSIFT(_PATCHES, 8), words, SpatialPyramid((1, 2, 4), n_jobs=-1))
    known = chain.fit(train).transform(train)  # (n, 21 · 1024), sparse
    return principal_components(known, sp.vstack([known, chain.transform(test)], format="csr"))


def principal_components(known: Any, rows: Any) -> Array:
    """All components of sparse rows that ``known`` has, by descending variance.

    Fewer samples than dimensions: the axes are combinations of the samples, found from their Gram matrix.
    """
    learned = known.toarray().astype(np.float32)
    centre = learned.mean(axis=0)
    learned -= centre
    values, vectors = np.linalg.eigh(learned @ learned.T)
    keep = np.flatnonzero(values > 1e-6 * values[-1])[::-1]
    axes = (vectors[:, keep] / np.sqrt(values[keep])).T @ learned
    return np.asarray(rows @ axes.T - axes @ centre, np.float32)
