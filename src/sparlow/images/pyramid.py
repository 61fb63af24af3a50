"""Codes of one image pooled over cells of ever finer grids: bags to one row each."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context
from sklearn.utils import Tags
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.validation import check_is_fitted

from .. import _kernels
from ..checks import Array
from ..parallel import Threads, frozen
from .bags import Bag, Bags, Row, as_bags, cache_of, track
from .coders import FisherCodes


@dataclass(frozen=True)
class _Pooling:
    """Bag of codes → the nonzero entries of its row."""

    levels: tuple[int, ...]
    pooling: str
    norm: str | None
    weights: tuple[float, ...]
    n_words: int

    @property
    def n_cells(self) -> int:
        """The number of cells of all levels of the pyramid."""
        return sum(level * level for level in self.levels)

    def __call__(self, bag: Bag) -> Row:
        out = np.zeros((self.n_cells, self.n_words), np.float32)
        if len(bag):
            if bag.values.shape != (len(bag), self.n_words):
                raise ValueError(f"Codes have shape {bag.values.shape}, but {(len(bag), self.n_words)} was expected.")
            self._pool(bag.values, self._cells(bag), out)
            self._scale(out, bag.values)
        row = out.ravel()
        indices = np.flatnonzero(row).astype(np.int32)
        return indices, row[indices]

    def _pool(self, codes: Any, cells: Array, out: Array) -> None:
        """Fill in the largest magnitudes, or the sums over the number of descriptors."""
        if isinstance(codes, FisherCodes):
            if self.pooling == "max":
                raise ValueError('Fisher scores are pooled by their mean: use SpatialPyramid(pooling="mean").')
            codes.add_to(out, cells)
            out /= np.float32(len(cells))
            return
        arrays = frozen(codes.indptr.astype(np.int64), codes.indices.astype(np.int32, copy=False))
        if self.pooling == "max":
            _kernels.pool_max(*arrays, *frozen(np.abs(codes.data), cells), out)
        else:
            _kernels.pool_sum(*arrays, *frozen(codes.data / np.float32(len(cells)), cells), out)

    def _cells(self, bag: Bag) -> Array:
        """Return the cell of each descriptor at each level, cells of all levels counted through, row by row."""
        cells, first = np.empty((len(bag), len(self.levels)), np.int64), 0
        relative = (bag.positions + 0.5) / np.array(bag.size)
        for place, level in enumerate(self.levels):
            x, y = np.minimum((relative * level).astype(np.int64), level - 1).T
            cells[:, place] = first + y * level + x
            first += level * level
        return cells

    def _scale(self, out: Array, codes: Any) -> None:
        """Weigh the levels of the pyramid, and scale the features of a picture, in place."""
        cells = np.array([level * level for level in self.levels])
        if self.norm in ("power", "intra"):
            _kernels.signed_roots(out, out)
            if self.norm == "intra":
                _to_unit_rows(out.reshape(len(out) * _n_gaussians(codes), -1))
            _to_unit_rows(out)
            weights = np.array(self.weights) if self.norm == "intra" else np.ones(len(cells))
            out *= np.sqrt(np.repeat(weights / weights.sum() / cells, cells)).astype(np.float32)[:, None]
            return
        out *= np.repeat(self.weights, cells).astype(np.float32)[:, None]
        if self.norm is not None:
            total = np.abs(out).sum() if self.norm == "l1" else np.sqrt(np.sum(out * out))
            out /= max(total, np.finfo(np.float32).tiny)


def _to_unit_rows(out: Array) -> None:
    """Scale rows to unit norm in place; rows of zeros stay."""
    norms = np.sqrt(np.einsum("ij,ij->i", out, out))
    out /= np.maximum(norms, np.finfo(np.float32).tiny)[:, None]


def _n_gaussians(codes: Any) -> int:
    """Return how many Gaussians the columns of Fisher scores belong to, in blocks of as many columns."""
    if not isinstance(codes, FisherCodes):
        raise ValueError('norm="intra" scales the scores of each Gaussian: it needs Codebook(coding="fisher").')
    return len(codes.coder.centres)


class SpatialPyramid(TransformerMixin, BaseEstimator):
    """Pool the codes of each image over the cells of grids of 1 × 1, 2 × 2, 4 × 4 … cells; one row for each image.

    The row has n_words numbers for each cell, 21 · n_words for the levels (1, 2, 4).

    Parameters
    ----------
    levels : sequence of int, default=(1, 2, 4)
        Cells along each side of the image.
    pooling : {"max", "mean"}, default="max"
        "max": for each word the largest magnitude of its codes in the cell. "mean": their sum over the cell divided
        by the number of descriptors of the image, so that the cells of a level add up to the mean code.
    norm : {"auto", "l2", "l1", "power", "intra"} or None, default="auto"
        What rows are scaled to; "auto" is "l2" for max and None for mean pooling. "power", for Fisher scores,
        takes signed square roots and scales each cell so that the cells of a level have the same norm and the levels,
        too; ``level_weights`` do not count then. "intra" also gives the Gaussians of a cell the same norm
        (Arandjelović, Zisserman, *All about VLAD*, 2013), and ``level_weights`` are shares of the squared norm.
    level_weights : {"match"} or None, default=None
        "match" weighs levels as the pyramid match of Lazebnik, Schmid and Ponce: 2^(l − L − 1) for level l = 1 … L and
        2^(−L) for level 0; the intersection of two such rows is the pyramid match kernel.
    sparse_output : bool, default=True
        A csr_array, or a dense array.
    memory : path or joblib.Memory, optional
        Folder in which the row of each image is kept, under a name made of the content of the image and of everything
        that is done with it. Images that are known are not computed again, so a run that was stopped goes on.
    n_jobs : int, optional
        Threads; each computes a whole image, from its file to its row. Results do not depend on it.
    verbose : int, default=0
        Show progress and time left on a terminal (with rich).

    Attributes
    ----------
    n_words_ : int
        Width of the codes.

    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "levels": ["array-like"],
        "pooling": [StrOptions({"max", "mean"})],
        "norm": [StrOptions({"auto", "l1", "l2", "power", "intra"}), None],
        "level_weights": [StrOptions({"match"}), None],
        "sparse_output": ["boolean"],
        "memory": [str, os.PathLike, HasMethods(["cache"]), None],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        levels: Sequence[int] = (1, 2, 4),
        pooling: str = "max",
        *,
        norm: str | None = "auto",
        level_weights: str | None = None,
        sparse_output: bool = True,
        memory: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.levels = levels
        self.pooling = pooling
        self.norm = norm
        self.level_weights = level_weights
        self.sparse_output = sparse_output
        self.memory = memory
        self.n_jobs = n_jobs
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> SpatialPyramid:
        """Check the parameters and note the width of the codes; nothing is computed.

        Parameters
        ----------
        X : Bags
            Bags of codes.
        y : object, optional
            Ignored.

        Returns
        -------
        self : SpatialPyramid

        """
        self.n_words_ = as_bags(X, "Codebook").width
        self._pooling()
        return self

    def transform(self, X: Any) -> Any:
        """Return pooled codes.

        Parameters
        ----------
        X : Bags
            Bags of codes.

        Returns
        -------
        rows : csr_array or array of shape (n_images, n_cells · n_words), float32
            Images that could not be used have rows of zeros; ``X.skipped`` lists them.

        """
        check_is_fitted(self)
        bags = as_bags(X, "Codebook")
        if len(bags) and bags.width != self.n_words_:
            raise ValueError(f"The pyramid was fitted for codes of {self.n_words_} words, got {bags.width}.")
        pooling, errors = self._pooling(), []
        results = track(self._rows(bags, pooling), len(bags), "images", self.verbose)
        width, rows = pooling.n_cells * pooling.n_words, []
        dense = None if self.sparse_output else np.zeros((len(bags), width), np.float32)
        for index, (row, error) in enumerate(results):
            if dense is None:
                rows.append(row)
            else:
                dense[index, row[0]] = row[1]
            if error is not None:
                errors.append((index, error))
        bags.report_errors(errors)
        return _stack(rows, width) if dense is None else dense

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return names such as "grid4_row0_column3_word17".

        Parameters
        ----------
        input_features : object, optional
            Ignored.

        Returns
        -------
        names : array of str

        """
        check_is_fitted(self)
        grids = [(level, y, x) for level in self._levels() for y in range(level) for x in range(level)]
        names = [f"grid{g}_row{y}_column{x}_word{w}" for g, y, x in grids for w in range(self.n_words_)]
        return np.array(names, dtype=object)

    def _rows(self, bags: Bags, pooling: _Pooling) -> Any:
        """Return the pooled codes of pictures as a sparse matrix."""
        cache = cache_of(self.memory)

        def compute(index: int) -> tuple[Row, str | None]:
            key = bags.key(index, repr(pooling)) if cache is not None else ""
            known = cache.get_row(key, pooling.n_cells * pooling.n_words) if cache is not None else None
            if known is not None:
                return known, None
            bag = bags[index]
            row = pooling(bag)
            if cache is not None and bag.error is None:
                cache.put_row(key, row)
            return row, bag.error

        with Threads(self.n_jobs) as threads:
            yield from threads.map(compute, range(len(bags)))

    def _levels(self) -> tuple[int, ...]:
        """Return the levels of the pyramid, checked."""
        levels = tuple(int(level) for level in self.levels)
        if not levels or min(levels) < 1 or levels != tuple(self.levels):
            raise ValueError(f"levels must be whole numbers from 1 on, for instance (1, 2, 4), got {self.levels!r}.")
        return levels

    def _pooling(self) -> _Pooling:
        """Return how codes are pooled over the cells of the pyramid."""
        levels = self._levels()
        norm = ("l2" if self.pooling == "max" else None) if self.norm == "auto" else self.norm
        top = len(levels) - 1
        match = tuple(2.0 ** (max(place, 1) - top - 1) for place in range(len(levels)))
        weights = match if self.level_weights == "match" else (1.0,) * len(levels)
        return _Pooling(levels, self.pooling, norm, weights, self.n_words_)

    def _check_sound(self) -> None:
        """Refuse fitted numbers from a file that no row could be made with."""
        if not isinstance(self.n_words_, Integral) or self.n_words_ < 1:
            raise ValueError(f"n_words_ of SpatialPyramid must be a positive whole number, got {self.n_words_!r}")
        if self._pooling().n_cells * self.n_words_ > 1 << 28:  # a gigabyte
            raise ValueError(f"SpatialPyramid has rows of more than {1 << 28} numbers")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.no_validation = True
        return tags


def _stack(rows: list[Row], width: int) -> sp.csr_array:
    """Return the rows of pictures as one sparse matrix."""
    counts = np.array([len(indices) for indices, _ in rows], np.int64)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    kind = np.int32 if max(indptr[-1], width) < 2**31 else np.int64
    indices = np.concatenate([row[0] for row in rows]) if rows else np.empty(0)
    values = np.concatenate([row[1] for row in rows]) if rows else np.empty(0)
    arrays = values.astype(np.float32, copy=False), indices.astype(kind, copy=False), indptr.astype(kind)
    return sp.csr_array(arrays, shape=(len(rows), width))
