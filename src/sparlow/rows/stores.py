"""Where rows are, in memory or files, and who computes: stores, their chunks, and how sums over these are added."""

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
from .chunks import Task, forget


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


class RowGroups:
    """Rows of parquet files, read by row groups."""

    ndim = 2

    def __init__(self, paths: list[str], columns: list[str] | None) -> None:
        schema = self._opened(paths[0]).schema_arrow
        names = [field.name for field in schema if _numbers(field.type)]
        strange = [name for name in columns or [] if name not in names]
        if strange or not names:
            said = f"no column of numbers named {strange[0]!r}" if strange else "no column of numbers"
            raise ValueError(f"{paths[0]} has {said}; it has {', '.join(schema.names)}.")
        self.columns = names if columns is None else columns
        self.groups, dtypes = [], []
        for path in paths:
            opened = self._opened(path)
            about, kinds = opened.metadata, {field.name: field.type for field in opened.schema_arrow}
            strange = [name for name in self.columns if name not in kinds or not _numbers(kinds[name])]
            if strange:
                raise ValueError(f"{path} has no column of numbers named {strange[0]!r}, as {paths[0]} has.")
            dtypes += [_dtype(kinds[name]) for name in self.columns]
            sizes = [about.row_group(i).num_rows for i in range(about.num_row_groups)]
            self.groups += [(path, i, size) for i, size in enumerate(sizes) if size]
        if not self.groups:
            raise ValueError(f"{paths[0]} has no rows." if len(paths) == 1 else f"None of {len(paths)} files has rows.")
        self.sizes = tuple(size for *_, size in self.groups)
        self.dtype = np.result_type(*dtypes)
        self.shape = sum(self.sizes), self._read(*self.groups[0][:2]).shape[1]
        self._starts = np.cumsum([0, *self.sizes[:-1]])

    @staticmethod
    def _opened(path: str) -> Any:
        try:
            from pyarrow.parquet import ParquetFile
        except ImportError as error:  # pragma: no cover
            raise ImportError("Parquet files need pyarrow: pip install 'sparlow[parquet]'") from error
        return ParquetFile(path)

    def _read(self, path: str, group: int) -> Array:
        table = self._opened(path).read_row_group(group, self.columns)
        blocks = []
        for name in self.columns:
            column = table[name].combine_chunks()
            if column.null_count:
                raise ValueError(f"{path} has gaps in the column {name!r}.")
            flat = column.flatten() if hasattr(column.type, "list_size") else column
            blocks.append(flat.to_numpy(zero_copy_only=False).reshape(len(column), -1))
        return np.hstack(blocks)

    def __getitem__(self, index: Any) -> Array:
        """Return some rows and columns; Dask asks for whole groups, or for what was cut out of them."""
        rows, columns = index if isinstance(index, tuple) else (index, slice(None))
        wanted = np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else np.asarray(rows)
        if not wanted.size:
            return np.empty((0, self.shape[1]), self.dtype)[:, columns]
        first, last = np.searchsorted(self._starts, [wanted.min(), wanted.max()], side="right") - 1
        read = [self._read(*self.groups[i][:2]).astype(self.dtype, copy=False) for i in range(first, last + 1)]
        found = read[0] if len(read) == 1 else np.concatenate(read)
        whole = isinstance(rows, slice) and len(wanted) == len(found) and rows.step in (None, 1)
        return (found if whole else found[wanted - self._starts[first]])[..., columns]

    def __len__(self) -> int:
        return self.shape[0]


def _numbers(kind: Any) -> bool:
    """Return whether a type of pyarrow is a number, or a list of numbers of fixed length."""
    try:
        return _dtype(kind).kind in "buif"
    except (NotImplementedError, TypeError):  # categories, structures
        return False


def _dtype(kind: Any) -> np.dtype[Any]:
    """Return the type of the numbers of a column."""
    return np.dtype((kind.value_type if hasattr(kind, "list_size") else kind).to_pandas_dtype())


class File:
    """Rows of a .npy file, opened where they are read."""

    ndim = 2

    def __init__(self, path: str) -> None:
        self.path = path
        found = np.load(path, mmap_mode="r")
        if found.ndim != 2:
            raise ValueError(f"{path} must hold rows (samples, features), got an array of shape {found.shape}.")
        self.shape, self.dtype = found.shape, found.dtype
        self.offset = found.offset if found.flags.c_contiguous else None

    def __getitem__(self, index: Any) -> Array:
        """Return some rows and columns; whole rows one after the other are read without a map of the file."""
        rows, columns = index if isinstance(index, tuple) else (index, slice(None))
        width = self.shape[1]
        whole = isinstance(columns, slice) and columns.indices(width) == (0, width, 1)
        first, stop, step = rows.indices(self.shape[0]) if isinstance(rows, slice) else (0, 0, 0)
        if self.offset is None or not whole or step != 1 or stop <= first:
            return np.array(np.load(self.path, mmap_mode="r")[rows, columns])
        found = np.empty((stop - first, width), self.dtype)
        with open(self.path, "rb") as file:
            file.seek(self.offset + first * width * self.dtype.itemsize)
            if file.readinto(found.data.cast("B")) != found.nbytes:
                raise ValueError(f"{self.path} ends before row {stop}.")
        return found
