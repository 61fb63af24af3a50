"""A sample of the descriptors of many images, and its clusters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import kmeans_plusplus
from sklearn.utils import check_random_state

from .. import _kernels
from ..parallel import Threads, frozen
from .bags import Bags
from .coders import nearest
from .progress import track

Array = NDArray[Any]

_CHUNK = 2048  # descriptors at a time
_SETTLED = 1e-3  # stop when a smaller share of the descriptors changes its word


def sample_descriptors(
    bags: Bags, n_samples: int, random_state: Any, n_jobs: int | None = None, verbose: int = 0
) -> tuple[Array, list[tuple[int, str]]]:
    """Return about ``n_samples`` descriptors, as many of each image, and the images that could not be used.

    Where there are more images than descriptors wanted, one is taken of each of a random part of the images.
    """
    rng = check_random_state(random_state)
    chosen = np.sort(rng.permutation(len(bags))[:n_samples])
    quota = -(-n_samples // max(len(chosen), 1))
    seeds = rng.randint(np.iinfo(np.int32).max, size=len(chosen))

    def draw(place: int) -> tuple[Array, str | None]:
        bag = bags[chosen[place]]
        rows = np.random.RandomState(seeds[place]).permutation(len(bag))[:quota]
        return bag.values[np.sort(rows)], bag.error

    with Threads(n_jobs) as threads:
        drawn = list(track(threads.map(draw, range(len(chosen))), len(chosen), "sampling descriptors", verbose))
    errors = [(int(row), error) for row, (_, error) in zip(chosen, drawn, strict=True) if error is not None]
    parts = [part for part, _ in drawn if len(part)]
    return np.concatenate(parts) if parts else np.empty((0, bags.width), np.float32), errors


def kmeans(
    X: Array, n_words: int, max_iter: int, random_state: Any, n_jobs: int | None = None, verbose: int = 0
) -> Array:
    """Return centres of clusters: minimise Σᵢ minⱼ‖xᵢ − bⱼ‖² by Lloyd's steps, from k-means++ on a part.

    The result has the same bits for any number of threads, which caches rely on.

    Parameters
    ----------
    X : float32 array of shape (n, m)
        Descriptors.
    n_words : int
        Number of centres.
    max_iter : int
        The most passes over the descriptors.
    random_state : int or RandomState, optional
        From where to start.
    n_jobs : int, optional
        Threads.
    verbose : int
        Show progress on a terminal.

    Returns
    -------
    words : float32 array of shape (n_words, m)

    """
    rng = check_random_state(random_state)
    parts = [slice(first, first + _CHUNK) for first in range(0, len(X), _CHUNK)]
    with Threads(n_jobs) as threads:
        some = X[rng.permutation(len(X))[: 8 * n_words]]
        words = kmeans_plusplus(some, n_words, random_state=rng)[0].astype(np.float32)
        assigned = np.full(len(X), -1, np.int32)
        for _ in track(range(max_iter), max_iter, "learning words", verbose):
            last = assigned
            assigned = np.concatenate(list(threads.map(lambda part: nearest(X[part], words, 1)[:, 0], parts)))  # noqa: B023
            sums, counts = np.zeros(words.shape), np.zeros(n_words, np.int64)
            _kernels.add_to_words(*frozen(X, assigned), sums, counts)
            empty = counts == 0
            words = (sums / np.maximum(counts, 1)[:, None]).astype(np.float32)
            words[empty] = X[rng.permutation(len(X))[: int(empty.sum())]]
            if np.mean(assigned != last) < _SETTLED:
                break
    return words
