"""Recipes from pictures to features, and the classical ones from pictures to classes."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import Normalizer
from sklearn.svm import SVC, LinearSVC
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from .. import _kernels
from ..checks import FLOATS, Array, check_array, validate_data
from ..parallel import Threads, chunks, frozen, one_blas_thread
from ..priors import ElasticNet
from .codebook import Codebook
from .descriptors import DHOG, DenseSIFT
from .pyramid import SpatialPyramid

PATCHES = {"sift": (16, 24, 32), "dhog": (16, 25, 31), "fisher": (16, 32, 64)}  # sides in pixels, by default


class PrincipalComponents(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Project rows on their principal components.

    Rows may be sparse and wide, as pyramids are. Where they are fewer than their columns, the axes are combinations of
    the rows, found from their Gram matrix.

    Parameters
    ----------
    n_components : int, optional
        Number of components, at most the rank of the centred rows. By default half as many as training rows: the last
        components describe these rows alone, and make new rows look unlike them.
    share : float, default=0.5
        Number of components by default, as a share of the training rows.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        Orthonormal axes, by descending variance.
    mean_ : array of shape (n_features_in,)
        Mean of the training rows.
    n_components_ : int
        Number of components.
    n_features_in_ : int
        Width of the rows.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sparlow.images import PrincipalComponents
    >>> PrincipalComponents(3).fit_transform(load_digits().data).shape
    (1797, 3)

    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "share": [Interval(Real, 0, 1, closed="right")],
    }

    def __init__(self, n_components: int | None = None, *, share: float = 0.5) -> None:
        self.n_components = n_components
        self.share = share

    @_fit_context(prefer_skip_nested_validation=True)
    @one_blas_thread()
    def fit(self, X: Any, y: Any = None) -> PrincipalComponents:
        """Find the components of the rows.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features_in)
            Rows.
        y : object, optional
            Ignored.

        Returns
        -------
        self : PrincipalComponents

        """
        X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, ensure_min_samples=2)
        centred = X.toarray() if sp.issparse(X) else X.copy()
        self.mean_ = centred.mean(axis=0)
        centred -= self.mean_
        few_rows = centred.shape[0] < centred.shape[1]
        values, vectors = np.linalg.eigh(centred @ centred.T if few_rows else centred.T @ centred)
        count = self.n_components if self.n_components is not None else max(int(self.share * len(centred)), 1)
        kept = np.flatnonzero(values > 1e-6 * values[-1])[::-1][:count]
        if not len(kept):
            raise ValueError("All rows are equal: they have no principal components.")
        axes = vectors[:, kept]
        self.components_ = (axes / np.sqrt(values[kept])).T @ centred if few_rows else np.ascontiguousarray(axes.T)
        self.n_components_ = self._n_features_out = len(kept)
        return self

    @one_blas_thread()
    def transform(self, X: Any) -> Array:
        """Project features of pictures.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, n_features_in)
            Rows.

        Returns
        -------
        Z : array of shape (n_samples, n_components)

        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, reset=False)
        if sp.issparse(X) and X.nnz > 0.1 * np.prod(X.shape, dtype=float):  # products of dense rows are quicker
            parts = [X[rows].toarray() @ self.components_.T for rows in chunks(X.shape[0], 1)]
            return np.vstack(parts) - self.components_ @ self.mean_
        return np.asarray(X @ self.components_.T - self.components_ @ self.mean_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def pyramid_features(
    n_components: int | None = None,
    *,
    descriptor: str = "sift",
    patch: int | Sequence[int] | None = None,
    step: int | None = None,
    n_words: int | None = None,
    coding: str = "llc",
    random_state: Any = None,
    memory: Any = None,
    n_jobs: int | None = None,
    on_error: str = "raise",
    verbose: int = 0,
) -> Pipeline:
    """Return the recipe that turns pictures into features: principal components of spatial pyramids, of unit norm.

    Everything is learned from the pictures given to ``fit``. The evidence on pictures uses it with its defaults, and
    :func:`fisher_features`, which are better and quicker.

    Parameters
    ----------
    n_components : int, optional
        Number of principal components, by default half as many as training pictures, two thirds for Fisher vectors; 0
        keeps the pyramids themselves.
    descriptor : {"sift", "dhog"}
        Kind of local descriptors.
    patch : int or sequence of int, optional
        Sides of the patches in pixels. By default 16, 24 and 32 for "sift", 16, 25 and 31 for "dhog", and 16, 32 and 64
        for Fisher vectors of either.
    step : int, optional
        Distance of neighbouring patches in pixels; by default 8, and 5 for Fisher vectors.
    n_words : int, optional
        Size of the codebook, which is learned from 50 000 descriptors; by default 1024, and 32 for "fisher".
    coding : {"llc", "hard", "sparse", "laplacian", "fisher"}
        How descriptors are coded, see :class:`Codebook`. Codes are pooled over the picture, its quarters and
        sixteenths by their maximum, those of "hard" and "fisher" by their mean.
    random_state, memory, n_jobs, on_error, verbose
        Passed to the steps that take them.

    Returns
    -------
    pipeline : sklearn.pipeline.Pipeline
        Steps "descriptors", "codebook", "pyramid" and, unless ``n_components`` is 0, "components" and "norm".

    Examples
    --------
    >>> import numpy as np
    >>> from sparlow.images import pyramid_features
    >>> images = np.random.default_rng(0).integers(0, 256, (6, 48, 48), dtype=np.uint8)
    >>> pyramid_features(n_words=8, random_state=0).fit_transform(images).shape
    (6, 3)

    """
    if descriptor not in ("sift", "dhog"):
        raise ValueError(f"descriptor must be 'sift' or 'dhog', got {descriptor!r}.")
    fisher = coding == "fisher"
    if patch is None:
        patch = PATCHES["fisher" if fisher else descriptor]
    step = step or (5 if fisher else 8)
    shared = {"memory": memory, "n_jobs": n_jobs, "verbose": verbose}
    if n_words is None:
        n_words = 32 if fisher else 1024
    near = min(5, n_words)
    words = Codebook(
        n_words, coding, n_neighbors=near, n_samples=50_000, max_iter=15, random_state=random_state, **shared
    )
    pyramid = SpatialPyramid(pooling="mean" if coding in ("hard", "fisher") else "max", **shared)
    if fisher:
        pyramid.set_params(norm="intra", level_weights="match", sparse_output=False)  # hardly a number is zero
    steps: list[tuple[str, Any]] = [
        ("descriptors", (DHOG if descriptor == "dhog" else DenseSIFT)(patch, step, on_error=on_error)),
        ("codebook", words),
        ("pyramid", pyramid),
    ]
    if n_components != 0:
        share = 2 / 3 if fisher else 0.5
        steps += [("components", PrincipalComponents(n_components, share=share)), ("norm", Normalizer())]
    return Pipeline(steps)


def fisher_features(n_components: int | None = None, **settings: Any) -> Pipeline:
    """Return the recommended recipe for photographs: principal components of Fisher vectors, of unit norm.

    Dense SIFT at three sizes, scores of a mixture of 32 Gaussians over 64 principal components of their roots, summed
    over the picture, its quarters and sixteenths, signed roots, equal norms of the Gaussians of a cell and of the cells
    of a level, half of the squared norm for the sixteenths: rows of 86 016 numbers. Perronnin, Sánchez, Mensink,
    *Improving the Fisher kernel for large-scale image classification*, 2010.

    Parameters
    ----------
    n_components : int, optional
        Number of principal components, by default two thirds as many as training pictures; 0 keeps the Fisher vectors.
    **settings
        Those of :func:`pyramid_features` but ``coding``.

    Returns
    -------
    pipeline : sklearn.pipeline.Pipeline
        Steps "descriptors", "codebook", "pyramid" and, unless ``n_components`` is 0, "components" and "norm".

    Examples
    --------
    >>> import numpy as np
    >>> from sparlow.images import fisher_features
    >>> images = np.random.default_rng(0).integers(0, 256, (6, 48, 48), dtype=np.uint8)
    >>> fisher_features(0, n_words=8, random_state=0).fit_transform(images).shape
    (6, 21504)

    """
    return pyramid_features(n_components, coding="fisher", **settings)


def histogram_intersection(X: Any, Y: Any = None, n_jobs: int | None = None) -> Array:
    """Return the kernel k(x, y) = Σⱼ min(xⱼ, yⱼ) of rows without negative entries.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, m)
        Histograms.
    Y : array or sparse matrix of shape (p, m), optional
        X by default.
    n_jobs : int, optional
        Threads. The result does not depend on it.

    Returns
    -------
    K : array of shape (n, p)

    """
    left = _nonnegative(X, "X")
    right = left if Y is None else _nonnegative(Y, "Y")
    if left.shape[1] != right.shape[1]:
        raise ValueError(f"X has {left.shape[1]} features, but Y has {right.shape[1]}.")
    K = np.empty((left.shape[0], right.shape[0]))
    columns = frozen(right.indptr.astype(np.int64), right.indices.astype(np.int32), right.data.astype(np.float32))

    def fill(i: int) -> None:
        row = left[[i]].toarray().ravel().astype(np.float32)
        _kernels.intersections(*frozen(row), *columns, K[i])

    with Threads(n_jobs) as threads:
        for _ in threads.map(fill, range(len(K))):
            pass
    return K


def _nonnegative(X: Any, name: str) -> sp.csr_array:
    """Return features as a CSR array; refuse negative ones, which have no histogram intersection."""
    checked = sp.csr_array(check_array(X, accept_sparse="csr", dtype=FLOATS, input_name=name))
    if checked.nnz and checked.data.min() < 0:
        raise ValueError(f"Negative values in data passed to {name}: the intersection is of histograms.")
    return checked


class HistogramIntersection(TransformerMixin, BaseEstimator):
    """Map rows to their intersections with the training rows, for ``SVC(kernel="precomputed")``.

    Parameters
    ----------
    n_jobs : int, optional
        Threads.

    Attributes
    ----------
    rows_ : csr_array of shape (n_train, n_features)
        The training rows.

    """

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> HistogramIntersection:
        """Keep the training rows.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_train, n_features)
            Histograms.
        y : object, optional
            Ignored.

        Returns
        -------
        self : HistogramIntersection

        """
        self.rows_ = _nonnegative(validate_data(self, X, accept_sparse="csr", dtype=FLOATS), "X")
        return self

    def transform(self, X: Any) -> Array:
        """Return the intersections with the training rows.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, n_features)
            Histograms.

        Returns
        -------
        K : array of shape (n, n_train)

        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, reset=False)
        return histogram_intersection(X, self.rows_, self.n_jobs)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags


def kspm(
    n_words: int = 400,
    *,
    C: float = 10.0,
    step: int = 8,
    random_state: Any = None,
    memory: Any = None,
    n_jobs: int | None = None,
    on_error: str = "raise",
) -> Pipeline:
    """Return spatial pyramid matching: hard assignment, weighted histograms over cells, intersection kernel, SVM.

    Lazebnik, Schmid, Ponce, *Beyond bags of features*, 2006.

    Parameters
    ----------
    n_words : int
        Size of the codebook.
    C : float
        Of the support vector machine.
    step : int
        Distance of neighbouring patches of 16 × 16 pixels.
    random_state, memory, n_jobs, on_error
        Handed to the stages that take them.

    Returns
    -------
    pipeline : sklearn.pipeline.Pipeline
        Steps "descriptors", "codebook", "pyramid", then the classifier, "svm" (here with "kernel" before it).

    """
    return Pipeline(
        [
            *_features(n_words, "hard", "mean", "match", step, random_state, memory, n_jobs, on_error),
            ("kernel", HistogramIntersection(n_jobs)),
            ("svm", SVC(C=C, kernel="precomputed")),
        ]
    )


def scspm(
    n_words: int = 1024,
    *,
    C: float = 10.0,
    step: int = 8,
    random_state: Any = None,
    memory: Any = None,
    n_jobs: int | None = None,
    on_error: str = "raise",
) -> Pipeline:
    """Return sparse codes, max pooling over a spatial pyramid, linear SVM.

    Yang, Yu, Gong, Huang, *Linear spatial pyramid matching using sparse coding*, 2009. Parameters and result as of
    :func:`kspm`.
    """
    return _linear(_features(n_words, "sparse", "max", None, step, random_state, memory, n_jobs, on_error), C)


def llc(
    n_words: int = 1024,
    *,
    C: float = 10.0,
    step: int = 8,
    random_state: Any = None,
    memory: Any = None,
    n_jobs: int | None = None,
    on_error: str = "raise",
) -> Pipeline:
    """Return locality-constrained linear codes, max pooling over a spatial pyramid, linear SVM.

    Wang, Yang, Yu, Lv, Huang, Gong, 2010. Parameters and result as of :func:`kspm`.
    """
    return _linear(_features(n_words, "llc", "max", None, step, random_state, memory, n_jobs, on_error), C)


def lsc(
    n_words: int = 1024,
    *,
    lambda1: float = 0.3,
    beta: float = 0.2,
    n_neighbors: int = 5,
    C: float = 10.0,
    step: int = 8,
    random_state: Any = None,
    memory: Any = None,
    n_jobs: int | None = None,
    on_error: str = "raise",
) -> Pipeline:
    """Return the pipeline of Laplacian sparse codes, max pooling over a spatial pyramid, and a linear SVM.

    Gao, Tsang, Chia, *Laplacian sparse coding, hypergraph Laplacian sparse coding, and applications*, 2013.

    Parameters
    ----------
    n_words : int
        Size of the codebook.
    lambda1 : float
        λ of the paper's objective ‖x − φD‖² + λ‖φ‖₁ + …, in which the residual is not halved; 0.3 to 0.4 there.
    beta : float
        β, how strongly codes of similar descriptors are held together; 0.1 to 0.2 there. The weights of the
        neighbours of a descriptor add up to one here.
    n_neighbors : int
        Neighbours of a descriptor, by histogram intersection.
    C, step, random_state, memory, n_jobs, on_error
        As of :func:`kspm`.

    Returns
    -------
    pipeline : sklearn.pipeline.Pipeline
        Steps "descriptors", "codebook", "pyramid" and "svm".

    """
    features = _features(n_words, "laplacian", "max", None, step, random_state, memory, n_jobs, on_error)
    return _linear(features, C).set_params(
        codebook__prior=ElasticNet(lambda1 / 2), codebook__pull=beta, codebook__n_neighbors=n_neighbors
    )


def _features(
    n_words: int,
    coding: str,
    pooling: str,
    level_weights: str | None,
    step: int,
    random_state: Any,
    memory: Any,
    n_jobs: int | None,
    on_error: str,
) -> list[tuple[str, Any]]:
    """Return the steps from pictures to features of a classical pipeline."""
    return [
        ("descriptors", DenseSIFT(16, step, on_error=on_error)),
        ("codebook", Codebook(n_words, coding, random_state=random_state, n_jobs=n_jobs)),
        ("pyramid", SpatialPyramid(pooling=pooling, level_weights=level_weights, memory=memory, n_jobs=n_jobs)),
    ]


def _linear(features: list[tuple[str, Any]], C: float) -> Pipeline:
    """Return a classical pipeline of features and a linear support vector machine."""
    return Pipeline([*features, ("svm", LinearSVC(C=C, random_state=0))])
