"""Codes of descriptors over a codebook: one word, a few words, sparse combinations of atoms, Fisher scores."""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from .. import _kernels
from ..checks import Array
from ..coding import Coder, encode
from ..constants import LEARNING_TOL, SWEEPS, UNLIKELY
from ..parallel import chunks, frozen
from ..priors import ElasticNet, Prior


class WordCoder(Protocol):
    """Descriptors (k, m) of float32 → codes (k, n_words), or those of Fisher scores."""

    def __call__(self, X: Array) -> Any:
        """Return codes, row by row."""

    def check(self, n_words: int, width: int) -> None:
        """Refuse arrays that do not fit so many words of this width: a coder may come from a file."""


def nearest(X: Array, words: Array, k: int) -> Array:
    """Return the indices (n, k) of the words nearest to each descriptor in Euclidean distance, nearest first."""
    check_words(words, k)
    if X.shape[1] != words.shape[1]:
        raise ValueError(f"Descriptors have {X.shape[1]} numbers, but the words have {words.shape[1]}.")
    half_norms = 0.5 * np.einsum("ij,ij->i", words, words)
    out = np.empty((len(X), k), np.int32)
    for rows in chunks(len(X), len(words)):
        out[rows] = _kernels.nearest_words(*frozen(X[rows] @ words.T, half_norms), k)
    return out


def check_words(words: Any, k: Any) -> None:
    """Refuse what a compiled loop could not index by: coders may come from a file."""
    if not (isinstance(words, np.ndarray) and words.ndim == 2 and words.dtype.kind == "f" and np.isfinite(words).all()):
        raise ValueError("The words of a codebook must be a two-dimensional array of finite numbers.")
    if not isinstance(k, (int, np.integer)) or not 1 <= k <= len(words):
        raise ValueError(f"A descriptor is coded by 1 to {len(words)} of the words, got {k!r}.")


def _check_shape(array: Array, expected: tuple[int, int], name: str) -> None:
    """Refuse words or templates of another shape."""
    check_words(array, 1)
    if array.shape != expected:
        raise ValueError(f"{name} of a coder must have the shape {expected}, got {array.shape}.")


def _check_prior(prior: Any) -> None:
    """Refuse a prior of a coder that is no elastic net."""
    if not isinstance(prior, ElasticNet):
        raise ValueError(f"The prior of a coder must be an ElasticNet, got {type(prior).__name__}.")


def _rows(indices: Array, data: Array, n_words: int) -> sp.csr_array:
    """Return a sparse matrix with as many entries in each row."""
    n, k = indices.shape
    indptr = np.arange(0, n * k + 1, k, dtype=np.int32)
    return sp.csr_array((data.ravel(), indices.ravel(), indptr), shape=(n, n_words))


@dataclass(frozen=True)
class HardAssignment:
    """One at the nearest word."""

    words: Array

    def __call__(self, X: Array) -> sp.csr_array:
        """Return codes, row by row."""
        return _rows(nearest(X, self.words, 1), np.ones((len(X), 1), np.float32), len(self.words))

    def check(self, n_words: int, width: int) -> None:
        """Refuse words of another shape."""
        _check_shape(self.words, (n_words, width), "words")


@dataclass(frozen=True)
class LocalityConstrained:
    """LLC: argmin over w of ‖x − wB‖² + ridge·tr(C)‖w‖² with Σw = 1, B the k nearest words, C their covariance about x.

    Wang, Yang, Yu, Lv, Huang, Gong, *Locality-constrained linear coding for image classification*, 2010, the fast
    approximation of section 3.
    """

    words: Array
    k: int
    ridge: float

    def __call__(self, X: Array) -> sp.csr_array:
        """Return codes, row by row."""
        indices = nearest(X, self.words, self.k)
        weights = _kernels.local_weights(*frozen(X, self.words, indices), self.ridge)
        return _rows(indices, weights, len(self.words))

    def check(self, n_words: int, width: int) -> None:
        """Refuse words of another shape, and numbers of neighbours that there are not."""
        _check_shape(self.words, (n_words, width), "words")
        check_words(self.words, self.k)
        if not (isinstance(self.ridge, float) and 0 < self.ridge < np.inf):
            raise ValueError(f"ridge of a coder must be a positive number, got {self.ridge!r}.")


@dataclass(frozen=True)
class SparseCoding:
    """Codes φ(x) = argmin over φ of ½‖x − φD‖² + Σⱼ g(φⱼ) of the library's engine."""

    dictionary: Array
    prior: Prior
    n_jobs: int | None = None

    def __call__(self, X: Array) -> sp.csr_array:
        """Return codes, row by row."""
        if not len(X):
            return sp.csr_array((0, len(self.dictionary)), dtype=np.float32)
        return encode(X, self.dictionary, self.prior, tol=LEARNING_TOL, n_jobs=self.n_jobs)

    def check(self, n_words: int, width: int) -> None:
        """Refuse a dictionary of another shape."""
        _check_shape(self.dictionary, (n_words, width), "dictionary")
        _check_prior(self.prior)


@dataclass(frozen=True)
class Templates:
    """Descriptors with known codes, and how to average the codes of those next to a descriptor."""

    descriptors: Array
    codes: sp.csr_array
    k: int

    def mean_codes(self, X: Array, own: bool = False) -> sp.csr_array:
        """Return φ̄(x) = Σₜ wₜφₜ over the k nearest templates, wₜ ∝ the intersection Σᵢ min(xᵢ, tᵢ), Σw = 1.

        With ``own`` the descriptors are the templates themselves, and none is averaged with itself.
        """
        indices = nearest(X, self.descriptors, self.k + own)
        if own:
            indices = _without_own(indices)
        weights = np.minimum(X[:, None, :], self.descriptors[indices]).sum(axis=2) + np.float32(1e-6)
        weights /= weights.sum(axis=1, keepdims=True)
        return sp.csr_array(_rows(indices, weights, len(self.descriptors)) @ self.codes)


def _without_own(indices: Array) -> Array:
    """Leave out of each row its own number, or the last entry where it is not there."""
    own = indices == np.arange(len(indices))[:, None]
    own[:, -1] |= ~own.any(axis=1)
    return indices[~own].reshape(len(indices), -1)


@dataclass(frozen=True)
class LaplacianCoding:
    """LSc: φ(x) = argmin over φ of ½‖x − φD‖² + l1‖φ‖₁ + l2‖φ‖² + pull/2 Σₜ wₜ‖φ − φₜ‖².

    t runs over the nearest templates, whose codes are fixed; Σw = 1. The last term is pull/2‖φ − φ̄‖² and a constant,
    so this is sparse coding of [x, √pull φ̄] with the atoms [d, √pull e], all divided by √(1 + pull) so that atoms have
    unit norm again, and it is solved exactly.

    Gao, Tsang, Chia, Zhao, *Local features are not lonely*, 2010, with templates as in its section on many features.
    """

    dictionary: Array
    prior: ElasticNet
    pull: float
    templates: Templates
    n_jobs: int | None = None

    def __call__(self, X: Array) -> sp.csr_array:
        """Return codes, row by row."""
        if not len(X):
            return sp.csr_array((0, len(self.dictionary)), dtype=np.float32)
        return self.towards(X, self.templates.mean_codes(X))

    def towards(self, X: Array, means: sp.csr_array) -> sp.csr_array:
        """Return codes pulled towards given codes."""
        samples = sp.hstack([sp.csr_array(X), np.sqrt(self.pull) * means], format="csr") / np.sqrt(1 + self.pull)
        return self._joint.encode(samples.astype(np.float32))

    @functools.cached_property
    def _joint(self) -> Coder:
        """Return the coder of [x, √pull φ̄]: the Gram matrix of its long atoms would take half the time of a picture."""
        r, scale, root = len(self.dictionary), 1 / np.sqrt(1 + self.pull), np.sqrt(self.pull)
        atoms = scale * np.hstack([self.dictionary, root * np.eye(r, dtype=np.float32)])
        prior = ElasticNet(self.prior.l1 * scale**2, self.prior.l2 * scale**2, positive=self.prior.positive)
        return Coder(atoms.astype(np.float32), prior, tol=LEARNING_TOL, n_jobs=self.n_jobs)

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields: files and other processes do not get the coder that was made of them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def check(self, n_words: int, width: int) -> None:
        """Refuse a dictionary or templates of other shapes."""
        _check_shape(self.dictionary, (n_words, width), "dictionary")
        _check_prior(self.prior)
        templates = self.templates
        if not isinstance(templates, Templates) or not sp.issparse(templates.codes):
            raise ValueError("templates of a coder must be Templates with sparse codes.")
        _check_shape(templates.descriptors, (len(templates.descriptors), width), "descriptors of templates")
        check_words(templates.descriptors, templates.k)
        if templates.codes.shape != (len(templates.descriptors), n_words):
            raise ValueError(f"Codes of templates must have {n_words} columns and a row for each of them.")
        if not (isinstance(self.pull, float) and 0 <= self.pull < np.inf):
            raise ValueError(f"pull of a coder must be a number of at least 0, got {self.pull!r}.")

    @classmethod
    def with_templates(
        cls, dictionary: Array, prior: ElasticNet, pull: float, descriptors: Array, k: int, n_jobs: int | None
    ) -> LaplacianCoding:
        """Learn codes of the templates: sparse codes, then a few sweeps in which each is pulled to its neighbours."""
        templates = Templates(descriptors, SparseCoding(dictionary, prior, n_jobs)(descriptors), k)
        for _ in range(SWEEPS):
            coder = cls(dictionary, prior, pull, templates, n_jobs)
            codes = coder.towards(descriptors, templates.mean_codes(descriptors, own=True))
            templates = Templates(descriptors, codes, k)
        return cls(dictionary, prior, pull, templates)


@dataclass(frozen=True)
class FisherCoding:
    """Fisher scores: how a descriptor would move the centres and variances of a mixture of Gaussians.

    Descriptors are signed roots, projected on ``axes`` after ``mean`` is taken off. With posteriors γₖ and
    u = (z − cₖ)/σₖ the code has γₖ/√πₖ · u and γₖ/√(2πₖ) · (u² − 1) for each Gaussian k. Posteriors below 0.001 count
    as zero. Descriptors that are zero have no code. Codes are kept in their factors, :class:`FisherCodes`.

    Perronnin, Sánchez, Mensink, *Improving the Fisher kernel for large-scale image classification*, 2010.
    """

    mean: Array
    axes: Array
    shares: Array
    centres: Array
    variances: Array

    def __call__(self, X: Array) -> FisherCodes:
        """Return codes, row by row."""
        Z = self.projected(X)
        posteriors = self.posteriors(Z, UNLIKELY)
        posteriors[~np.any(X, axis=1)] = 0
        return FisherCodes(Z, posteriors, self)

    def projected(self, X: Array) -> Array:
        """Return the coordinates of descriptors."""
        roots = np.empty_like(X)
        _kernels.signed_roots(*frozen(X), roots)
        return np.ascontiguousarray(roots @ self.axes - self.mean @ self.axes)

    def log_likelihoods(self, Z: Array) -> Array:
        """Return log(πₖ N(z; cₖ, σₖ²)) up to a constant for each coordinate vector and Gaussian."""
        inverse = 1 / self.variances
        constant = np.log(self.shares) - 0.5 * np.sum(np.log(self.variances) + self.centres**2 * inverse, axis=1)
        return np.ascontiguousarray(Z @ (self.centres * inverse).T - 0.5 * (Z * Z) @ inverse.T + constant)

    def posteriors(self, Z: Array, least: float) -> Array:
        """Return the posteriors of the Gaussians, zero where they are below ``least``."""
        scores = self.log_likelihoods(Z)
        _kernels.posteriors(scores, np.float32(least))
        return scores

    def check(self, n_words: int, width: int) -> None:
        """Refuse parts of other shapes, and shares or variances that are not positive."""
        check_words(self.axes, 1)
        d = self.axes.shape[1]
        for name, shape in (("axes", (width, d)), ("centres", (n_words, d)), ("variances", (n_words, d))):
            _check_shape(getattr(self, name), shape, name)
        _check_shape(np.atleast_2d(self.mean), (1, width), "mean")
        _check_shape(np.atleast_2d(self.shares), (1, n_words), "shares")
        if min(self.shares.min(), self.variances.min()) <= 0:
            raise ValueError("shares and variances of a coder must be positive.")

    @property
    def width(self) -> int:
        """Two numbers for each Gaussian and coordinate."""
        return 2 * self.centres.size


@dataclass(frozen=True)
class FisherCodes:
    """Fisher scores of descriptors in their factors: coordinates (k, d) and posteriors (k, n_words)."""

    coordinates: Array
    posteriors: Array
    coder: FisherCoding

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of descriptors and of columns."""
        return len(self.coordinates), self.coder.width

    def add_to(self, out: Array, cells: Array) -> None:
        """Add the codes to the rows of ``out`` that ``cells`` (k, levels) names."""
        coder = self.coder
        model = (coder.centres, 1 / np.sqrt(coder.variances), 1 / np.sqrt(coder.shares))
        _kernels.fisher_sums(*frozen(self.coordinates, self.posteriors, *model, cells), out)

    def toarray(self) -> Array:
        """Return the codes themselves, one row for each descriptor."""
        out = np.zeros(self.shape, np.float32)
        self.add_to(out, np.arange(len(out))[:, None])
        return out


CODERS: dict[str, type[WordCoder]] = {
    "hard": HardAssignment,
    "llc": LocalityConstrained,
    "sparse": SparseCoding,
    "laplacian": LaplacianCoding,
    "fisher": FisherCoding,
}
