"""Files of rows that whoever needs some of them opens: .npy files, and parquet files by row groups."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..checks import Array


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
