"""A sample of the descriptors of many images, its clusters, and the mixture of Gaussians that it is drawn from."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.cluster import kmeans_plusplus
from sklearn.utils import check_random_state

from .. import _kernels
from ..checks import Array
from ..constants import NARROWEST
from ..parallel import Threads, frozen, one_blas_thread
from .bags import Bags, track
from .coders import FisherCoding, nearest


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
    parts = [slice(first, first + 2048) for first in range(0, len(X), 2048)]
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
            if np.mean(assigned != last) < 1e-3:  # few descriptors change their word
                break
    return words


@one_blas_thread()
def mixture(
    X: Array, n_gaussians: int, n_dimensions: int, max_iter: int, random_state: Any, n_jobs: int | None = None
) -> FisherCoding:
    """Return Fisher scores of a mixture of Gaussians with diagonal covariances, fitted to principal components.

    The components are those of the signed roots of the descriptors. The mixture starts from clusters of k-means and
    takes ``max_iter`` steps of expectation and maximisation.

    Parameters
    ----------
    X : float32 array of shape (n, m)
        Descriptors.
    n_gaussians, n_dimensions : int
        Sizes of the mixture and of the projection.
    max_iter : int
        Number of steps.
    random_state : int or RandomState, optional
        From where k-means starts.
    n_jobs : int, optional
        Threads of k-means.

    Returns
    -------
    coder : FisherCoding

    """
    roots = np.empty_like(X)
    _kernels.signed_roots(*frozen(X), roots)
    mean = roots.mean(axis=0, dtype=np.float64)
    covariance = np.cov(roots, rowvar=False, dtype=np.float64)
    axes = np.linalg.eigh(covariance)[1][:, ::-1][:, :n_dimensions]
    axes *= np.sign(axes[np.argmax(np.abs(axes), axis=0), np.arange(axes.shape[1])])  # one of two directions
    Z = ((roots - mean) @ axes).astype(np.float32)
    least = NARROWEST * Z.var(axis=0, dtype=np.float64) + np.finfo(np.float32).tiny
    centres = kmeans(Z, n_gaussians, 10, random_state, n_jobs)
    posteriors = np.zeros((len(Z), n_gaussians), np.float32)
    posteriors[np.arange(len(Z)), nearest(Z, centres, 1)[:, 0]] = 1
    for step in range(max_iter + 1):
        coder = _maximised(Z, posteriors, least, mean, axes)
        if step < max_iter:
            posteriors = coder.posteriors(Z, 1e-6)  # smaller ones do not matter
    return coder


def _maximised(Z: Array, posteriors: Array, least: Array, mean: Array, axes: Array) -> FisherCoding:
    """Return the mixture that is likeliest for given posteriors; what has none keeps a little of the whole sample."""
    totals = posteriors.sum(axis=0, dtype=np.float64) + 1e-3
    few = 1e-3 / totals[:, None]  # the whole sample counts as a thousandth of a descriptor
    weights = posteriors.T.astype(np.float64) / totals[:, None]
    first = weights @ Z + few * Z.mean(axis=0)
    second = weights @ (Z * Z) + few * np.mean(Z * Z, axis=0)
    variances = np.maximum(second - first**2, least)
    parts = (mean, axes, totals / totals.sum(), first, variances)
    return FisherCoding(*(np.ascontiguousarray(array, np.float32) for array in parts))
