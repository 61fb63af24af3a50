"""Words learned from descriptors, and codes over them."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar

import joblib
import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context
from sklearn.cluster import kmeans_plusplus
from sklearn.utils import Tags, check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from .. import _kernels
from ..checks import Array
from ..constants import NARROWEST
from ..dictionaries import online
from ..parallel import Threads, frozen, one_blas_thread
from ..priors import ElasticNet
from .bags import Bag, Bags, Step, as_bags, cache_of, track
from .coders import (
    CODERS,
    FisherCoding,
    HardAssignment,
    LaplacianCoding,
    LocalityConstrained,
    SparseCoding,
    WordCoder,
    check_words,
    nearest,
)


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


@dataclasses.dataclass(frozen=True)
class _CodeBag:
    """Bag of descriptors → bag of their codes."""

    coder: WordCoder

    def __call__(self, bag: Bag) -> Bag:
        return bag.with_values(self.coder(bag.values))


class Codebook(TransformerMixin, BaseEstimator):
    """Words learned from a sample of the descriptors of many images; descriptors are transformed to codes over them.

    Parameters
    ----------
    n_words : int, default=1024
        Size of the codebook.
    coding : {"llc", "hard", "sparse", "laplacian", "fisher"}, default="llc"
        "hard"
            1 at the nearest word (KSPM, bags of words).
        "llc"
            Locality-constrained linear coding: weights that add up to one and rebuild the descriptor from its
            ``n_neighbors`` nearest words.
        "sparse"
            argmin over φ of ½‖x − φD‖² + Σⱼ g(φⱼ) (ScSPM), exact.
        "laplacian"
            The same plus pull/2 Σₜ wₜ‖φ − φₜ‖² over the ``n_neighbors`` nearest of ``n_templates`` sampled descriptors
            with known codes φₜ, weights ∝ Σᵢ min(xᵢ, tᵢ) and Σw = 1 (LSc), exact for given templates. The templates'
            own codes start as sparse codes and are pulled towards those of their neighbours three times.

        "fisher"
            Words are the centres of a mixture of Gaussians over ``n_dimensions`` principal components of the signed
            roots of descriptors. A code has 2 · ``n_dimensions`` numbers for each Gaussian: how the descriptor would
            move its centre and its variances. Some dozens of words are enough. Pool codes with
            ``SpatialPyramid((1, 2), "mean", norm="intra")``.

        Words of the first two are centres of k-means clusters; of the next two, unit-norm atoms of online dictionary
        learning.
    n_neighbors : int, default=5
        Words of a descriptor in "llc", templates in "laplacian".
    ridge : float, default=1e-4
        Of "llc": what is added to the diagonal of the covariance, relative to its trace.
    prior : ElasticNet, optional
        Of "sparse" and "laplacian"; ElasticNet(0.15) by default, the weight of ScSPM for descriptors of unit norm.
    pull : float, default=0.2
        Of "laplacian": how strongly codes of similar descriptors are held together.
    n_templates : int, default=2048
        Of "laplacian".
    n_dimensions : int, default=64
        Of "fisher": number of principal components, at most as many as descriptors have numbers.
    n_samples : int, default=100_000
        How many descriptors to learn from, as many of each image.
    max_iter : int, optional
        Passes over the sample: at most 30 of k-means, 3 of dictionary learning, 20 of the mixture by default.
    random_state : int or RandomState, optional
        Which descriptors are sampled, and from where learning starts. Give a number if results are to be cached.
    memory : path or joblib.Memory, optional
        Folder in which words are kept, by parameters and the descriptors they are learned from. Entries are arrays
        with a checksum, never pickles; of a joblib.Memory only the folder is used.
    n_jobs : int, optional
        Threads of ``fit``. Results do not depend on it.
    verbose : int, default=0
        Show progress and time left on a terminal (with rich).

    Attributes
    ----------
    words_ : float32 array of shape (n_words, n_features_in)
        Words, or atoms; of "fisher" the centres of the Gaussians, as signed roots of descriptors.
    skipped_ : list of (int, str, str)
        Images that ``fit`` could not use: number, name, reason.
    n_features_in_ : int
        Width of the descriptors.

    Examples
    --------
    >>> from sklearn.datasets import load_sample_images
    >>> from sparlow.images import Codebook, DenseSIFT
    >>> bags = DenseSIFT().fit_transform(load_sample_images().images)
    >>> codes = Codebook(64, random_state=0).fit_transform(bags)[0].values
    >>> codes.shape, float(codes[0].sum().round(3))
    ((864, 64), 1.0)

    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_words": [Interval(Integral, 1, None, closed="left")],
        "coding": [StrOptions({*CODERS})],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "ridge": [Interval(Real, 0, None, closed="neither")],
        "prior": [ElasticNet, None],
        "pull": [Interval(Real, 0, None, closed="left")],
        "n_templates": [Interval(Integral, 2, None, closed="left")],
        "n_dimensions": [Interval(Integral, 1, None, closed="left")],
        "n_samples": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
        "memory": [str, os.PathLike, HasMethods(["cache"]), None],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_words: int = 1024,
        coding: str = "llc",
        *,
        n_neighbors: int = 5,
        ridge: float = 1e-4,
        prior: ElasticNet | None = None,
        pull: float = 0.2,
        n_templates: int = 2048,
        n_dimensions: int = 64,
        n_samples: int = 100_000,
        max_iter: int | None = None,
        random_state: Any = None,
        memory: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_words = n_words
        self.coding = coding
        self.n_neighbors = n_neighbors
        self.ridge = ridge
        self.prior = prior
        self.pull = pull
        self.n_templates = n_templates
        self.n_dimensions = n_dimensions
        self.n_samples = n_samples
        self.max_iter = max_iter
        self.random_state = random_state
        self.memory = memory
        self.n_jobs = n_jobs
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Codebook:
        """Learn the words.

        Parameters
        ----------
        X : Bags
            Bags of descriptors.
        y : object, optional
            Ignored.

        Returns
        -------
        self : Codebook

        """
        bags = as_bags(X, "DenseSIFT")
        rng = np.random.RandomState(_seed(self.random_state))
        sample, errors = sample_descriptors(bags, self.n_samples, rng, self.n_jobs, self.verbose)
        self.skipped_ = bags.report_errors(errors)
        self.n_features_in_ = bags.width
        self._check_sample(sample)
        if self.coding in ("hard", "llc"):
            self._coder = self._local_coder(sample, rng)
        elif self.coding == "fisher":
            self._coder = self._fisher_coder(sample[np.any(sample, axis=1)], rng)
        else:
            self._coder = self._sparse_coder(sample[np.any(sample, axis=1)], rng)
        return self

    def transform(self, X: Any) -> Bags:
        """Return the codes of descriptors, computed when they are asked for.

        Parameters
        ----------
        X : Bags
            Bags of descriptors.

        Returns
        -------
        coded : Bags
            As many bags, with sparse codes (k, n_words) in place of descriptors; (k, 2 · n_words · n_dimensions) of
            Fisher scores.

        """
        check_is_fitted(self)
        bags = as_bags(X, "DenseSIFT")
        if bags.width != self.n_features_in_ and len(bags):
            raise ValueError(f"The codebook was learned from {self.n_features_in_} numbers each, got {bags.width}.")
        if len(self.words_) != self.n_words:  # a file may say anything
            raise ValueError(f"The codebook has {len(self.words_)} words, but n_words={self.n_words}: fit it again.")
        parts = dataclasses.asdict(self._coder) if dataclasses.is_dataclass(self._coder) else self._coder
        signature = f"Codebook 1 {type(self._coder).__name__} {joblib.hash(parts)}"
        width = self._coder.width if isinstance(self._coder, FisherCoding) else self.n_words
        return bags.then(Step(_CodeBag(self._coder), width, signature))

    def set_output(self, *, transform: str | None = None) -> Codebook:
        """Accept any choice, so that pipelines can be told: bags are not tables and stay bags."""
        return self

    def _check_sample(self, sample: Array) -> None:
        """Refuse fewer descriptors than words."""
        used = int(np.any(sample, axis=1).sum()) if self.coding not in ("hard", "llc") else len(sample)
        if used < self.n_words:
            raise ValueError(
                f"{used} descriptors were sampled, too few for {self.n_words} words: give more images, a finer grid "
                "(step), a larger n_samples or a smaller n_words."
            )
        if self.coding == "llc" and self.n_neighbors > self.n_words:
            raise ValueError(f"n_neighbors={self.n_neighbors} is more than there are words, {self.n_words}.")

    def _local_coder(self, sample: Array, rng: np.random.RandomState) -> WordCoder:
        """Learn the words, and return the coder of the nearest ones."""
        self.words_ = self._learn(sample, self.max_iter or 30, None, rng)
        if self.coding == "hard":
            return HardAssignment(self.words_)
        return LocalityConstrained(self.words_, self.n_neighbors, float(self.ridge))

    def _fisher_coder(self, sample: Array, rng: np.random.RandomState) -> WordCoder:
        """Learn the mixture, and return the coder of Fisher vectors."""
        passes, (m, r) = self.max_iter or 20, (sample.shape[1], self.n_words)
        d = min(self.n_dimensions, m)
        shapes = {"mean": (m,), "axes": (m, d), "shares": (r,), "centres": (r, d), "variances": (r, d)}

        def learn() -> dict[str, Array]:
            return vars(mixture(sample, r, d, passes, rng, self.n_jobs))

        coder = FisherCoding(**self._kept(sample, f"mixture of {d} dimensions, {passes}", shapes, rng, learn))
        self.words_ = coder.centres @ coder.axes.T + coder.mean
        return coder

    def _sparse_coder(self, sample: Array, rng: np.random.RandomState) -> WordCoder:
        """Learn the words as atoms, and return the coder of sparse codes."""
        prior = ElasticNet(0.15) if self.prior is None else self.prior
        self.words_ = self._learn(sample, self.max_iter or 3, prior, rng)
        if self.coding == "sparse":
            return SparseCoding(self.words_, prior)
        templates = sample[rng.permutation(len(sample))[: self.n_templates]]
        if len(templates) < 2:
            raise ValueError(
                'coding="laplacian" averages over neighbours, but there is only one descriptor that is not flat. Give '
                "more or larger pictures, or use another coding."
            )
        k = min(self.n_neighbors, len(templates) - 1)
        return LaplacianCoding.with_templates(self.words_, prior, float(self.pull), templates, k, self.n_jobs)

    def _learn(self, sample: Array, passes: int, prior: ElasticNet | None, rng: np.random.RandomState) -> Array:
        """Return the words."""

        def learn() -> dict[str, Array]:
            if prior is None:
                return {"words": kmeans(sample, self.n_words, passes, rng, self.n_jobs, self.verbose)}
            words = online(sample, self.n_words, prior, n_iter=passes, random_state=rng, n_jobs=self.n_jobs)
            return {"words": words}

        shape = (self.n_words, sample.shape[1])
        return self._kept(sample, f"{passes} {prior!r}", {"words": shape}, rng, learn)["words"]

    def _kept(
        self,
        sample: Array,
        how: str,
        shapes: dict[str, tuple[int, ...]],
        rng: np.random.RandomState,
        learn: Callable[[], dict[str, Array]],
    ) -> dict[str, Array]:
        """Return what is learned, from ``memory`` if it is there; ``rng`` goes on as if it had been used."""
        cache = cache_of(self.memory)
        if cache is None:
            return learn()
        key = _sample_key(sample, self.n_words, how, rng)
        known = cache.get(key)
        if known is not None and _sound(known, shapes):
            rng.set_state(("MT19937", known["state"], *known["place"].tolist(), *known["spare"].tolist()))
            return {name: known[name] for name in shapes}
        learned = learn()
        _, state, place, has_spare, spare = rng.get_state(legacy=True)
        after = {"state": np.asarray(state), "place": np.array([place, has_spare]), "spare": np.array([spare])}
        cache.put(key, {**learned, **after})
        return learned

    def _check_sound(self) -> None:
        """Refuse fitted arrays from a file that compiled loops could not index by."""
        check_words(self.words_, 1)
        if self.words_.shape != (self.n_words, self.n_features_in_):
            raise ValueError(f"words_ must have the shape {(self.n_words, self.n_features_in_)}")
        if not isinstance(self._coder, CODERS[self.coding]):
            raise ValueError(f"the coder of coding={self.coding!r} must be a {CODERS[self.coding].__name__}")
        self._coder.check(self.n_words, self.n_features_in_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.no_validation = True
        return tags


def _sample_key(sample: Array, n_words: int, how: str, rng: np.random.RandomState) -> str:
    """Return a digest of all that words depend on."""
    _, state, *rest = rng.get_state(legacy=True)
    digest = hashlib.blake2b(digest_size=20)
    # the 1 changes where the same descriptors come to have other words
    digest.update(f"words 1 {sample.shape} {sample.dtype.str} {n_words} {how} {rest}".encode())
    for array in (sample, np.asarray(state)):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _sound(known: dict[str, Array], shapes: dict[str, tuple[int, ...]]) -> bool:
    """Return whether an entry of a cache holds finite arrays of these shapes and a random state."""
    expected = {name: (shape, np.dtype(np.float32)) for name, shape in shapes.items()} | {
        "state": ((624,), np.dtype(np.uint32)),
        "place": ((2,), np.dtype(np.int64)),
        "spare": ((1,), np.dtype(np.float64)),
    }
    found = {name: (array.shape, array.dtype) for name, array in known.items()}
    return (
        found == expected and 0 <= known["place"][0] <= 624 and all(np.isfinite(known[name]).all() for name in shapes)
    )


def _seed(random_state: Any) -> Any:
    """Return a number from whatever a random state may be."""
    if random_state is None or isinstance(random_state, Integral):
        return random_state
    return random_state.randint(np.iinfo(np.int32).max)
