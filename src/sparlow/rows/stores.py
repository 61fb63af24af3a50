"""Where rows are, and who computes: row stores, how they are cut into chunks, and how sums over chunks are added."""

from __future__ import annotations

import functools
import itertools
import math
import mmap
import uuid
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn import get_config

from ..checks import Array
from ..constants import DRAWN, DRAWN_OF_EACH
from ..labels import Labels
from ..parallel import Threads
from .tasks import Task, forget


def working_memory() -> int:
    """Return the bytes that temporary arrays may take: ``working_memory`` of scikit-learn's configuration, 1 GiB."""
    return int(get_config()["working_memory"] * 2**20)


def rows_per_chunk(n_features: int) -> int:
    """Return the rows of a chunk: the largest power of two whose rows in double precision take 1/32 of the memory."""
    rows = working_memory() / (32 * 8 * max(1, n_features))
    return int(np.clip(2 ** math.floor(math.log2(max(rows, 1))), 16, 1 << 16))


def is_dask(X: Any) -> bool:
    """Return whether X is a collection of Dask, which is not imported to find out."""
    return type(X).__module__.partition(".")[0] == "dask" and hasattr(X, "dask")


def _is_store(X: Any) -> bool:
    """Return whether X is an array in a file that is read by slices, as of zarr and h5py."""
    return hasattr(X, "chunks") and hasattr(X, "dtype") and hasattr(X, "__getitem__") and not hasattr(X, "iloc")


def streams(X: Any, times: int = 1) -> bool:
    """Return whether samples are read in chunks: Dask's always, others from a size on.

    That is a quarter of the working memory for arrays in files (memory maps, zarr, HDF5), and all of it for arrays in
    memory; where ``times`` as much as the samples is needed at once, so much less.
    """
    if is_dask(X):
        return True
    in_file = isinstance(X, np.memmap) or _is_store(X)
    if not (in_file or isinstance(X, np.ndarray) or sp.issparse(X)) or len(X.shape) != 2 or X.dtype.kind not in "buif":
        return False
    size = X.nnz * 12 if sp.issparse(X) else X.shape[0] * X.shape[1] * X.dtype.itemsize
    return bool(times * size >= (working_memory() // 4 if in_file else working_memory()))


def cut(n: int, n_features: int) -> Array:
    """Return the bounds of the chunks of n rows."""
    return np.append(np.arange(0, n, rows_per_chunk(n_features)), n)


def nothing(rows: slice) -> None:
    """Return what a chunk needs of its own where that is nothing."""


def add(left: Any, right: Any) -> Any:
    """Add two partial results, arrays or tuples of them."""
    if isinstance(left, tuple):
        return tuple(add(a, b) for a, b in zip(left, right, strict=True))
    return left + right


def pairwise_sum(parts: Iterable[Any]) -> Any:
    """Add results in their order, neighbours first, then sums of two, of four, …; few are held at a time."""
    kept: list[tuple[int, Any]] = []  # how many parts a sum has, and the sum
    for part in parts:
        count = 1
        while kept and kept[-1][0] == count:
            part, count = add(kept.pop()[1], part), 2 * count
        kept.append((count, part))
    return functools.reduce(lambda total, before: add(before[1], total), reversed(kept[:-1]), kept[-1][1])


class Session:
    """One fit: its name, which codes are still of use, and sums over the samples, which no dictionary changes."""

    def __init__(self) -> None:
        self.name = uuid.uuid4().hex
        self.alive: set[str] = set()
        self.sums: dict[str, Any] = {}
        self._count = itertools.count()
        weakref.finalize(self, forget, self.name).atexit = False

    def token(self) -> str:
        """Return a new name for codes."""
        return f"{self.name}-{next(self._count)}"


class Store(ABC):
    """Rows in chunks.

    Parameters
    ----------
    shape : (int, int)
    dtype : dtype
        Of the samples once they are read, float32 or float64.
    bounds : array of shape (chunks + 1,)
        Where chunks begin and end.

    """

    in_memory: Any = None  # the samples, scaled, where they are in memory

    def __init__(self, shape: tuple[int, int], dtype: Any, bounds: Any) -> None:
        self.shape = shape
        self.dtype = np.dtype(dtype if dtype in (np.float32, np.float64) else np.float64)
        self.bounds = np.unique(bounds)  # a chunk without rows is no chunk
        self.session = Session()

    @property
    def slices(self) -> list[slice]:
        """The rows of each chunk."""
        return [slice(a, b) for a, b in itertools.pairwise(self.bounds.tolist())]

    @abstractmethod
    def each(self, task: Task, local: Callable[[slice], Any]) -> Iterator[Any]:
        """Return the task of each chunk in order; ``local(rows)`` gives what a chunk needs of its own."""

    @abstractmethod
    def take(self, rows: Array) -> Any:
        """Return some rows as they are stored; ``rows`` are sorted."""

    def into(self, out: Array, task: Task) -> Array:
        """Write the task of each chunk into its rows of ``out``, and return that."""
        for rows, part in zip(self.slices, self.each(task, nothing), strict=True):
            out[rows] = part
        return out

    def total(self, task: Task, local: Callable[[slice], Any]) -> Any:
        """Return the pairwise sum of the tasks of all chunks."""
        return pairwise_sum(self.each(task, local))

    def forget(self) -> None:
        """Let go what is kept for a fit."""
        forget(self.session.name)


class Memory(Store):
    """Samples in memory, scaled as they are to be coded: one chunk."""

    def __init__(self, rows: Any) -> None:
        super().__init__(rows.shape, rows.dtype, [0, rows.shape[0]])
        self.in_memory = rows

    def each(self, task: Task, local: Callable[[slice], Any]) -> Iterator[Any]:
        """Return a function of the samples; their codes are kept by who has made them."""
        yield task.function(self.in_memory, task.shared, local(slice(0, self.shape[0])))

    def take(self, rows: Array) -> Any:
        return self.in_memory[rows]


class Local(Store):
    """Rows of an array, a memory map or another row store, computed on by threads of this process.

    Parameters
    ----------
    rows : array, csr_array, memory map, or anything with ``shape``, ``dtype`` and slices
    n_jobs : int, optional
    bounds : array, optional
        By default as of :func:`cut`.

    """

    def __init__(self, rows: Any, n_jobs: int | None = None, bounds: Array | None = None) -> None:
        super().__init__(tuple(rows.shape), rows.dtype, cut(*rows.shape) if bounds is None else bounds)
        self.rows, self.n_jobs = sp.csr_array(rows) if sp.issparse(rows) else rows, n_jobs

    def each(self, task: Task, local: Callable[[slice], Any]) -> Iterator[Any]:
        """Return the task of each chunk, by threads, in order."""

        def compute(chunk: tuple[int, slice]) -> Any:
            index, rows = chunk
            return task(index, lambda: self.read(rows), local(rows))

        with Threads(self.n_jobs) as threads:
            yield from threads.map(compute, enumerate(self.slices))

    def read(self, rows: Any) -> Any:
        """Return some rows; of a memory map as a copy, after which its pages no longer count as this process's."""
        found = self.rows[rows]
        mapped = getattr(self.rows, "_mmap", None)
        if mapped is None or not hasattr(mmap, "MADV_DONTNEED"):
            return found
        found = np.array(found)
        if self.rows.mode == "r":
            mapped.madvise(mmap.MADV_DONTNEED)
        return found

    def take(self, rows: Array) -> Any:
        """Read some rows of the array or file."""
        if isinstance(self.rows, np.ndarray) or sp.issparse(self.rows):
            return self.read(rows)
        wanted = [(part, rows[(rows >= part.start) & (rows < part.stop)] - part.start) for part in self.slices]
        found = [self.rows[part][some] for part, some in wanted if len(some)]
        return sp.vstack(found, "csr") if sp.issparse(found[0]) else np.concatenate(found)


def drawn_rows(n: int, n_features: int, labels: Labels, seed: int) -> Array:
    """Draw the rows that defaults and the first dictionary come from, sorted: 20 000, and 20 of each class at least.

    Fewer where these would take more than an eighth of the working memory, but 2000 at least.
    """
    most = max(DRAWN // 10, min(DRAWN, working_memory() // (8 * 8 * n_features)))
    rng = np.random.RandomState(seed)
    chosen = rng.choice(n, min(n, most), replace=False)
    return np.union1d(chosen, labels.lacking(chosen, DRAWN_OF_EACH, rng))
