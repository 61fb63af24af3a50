"""Bags of descriptors, computed when asked for: what the stages of the chain hand to each other.

A stage does not hold what it makes of a set. It returns :class:`Bags`, which remembers the pictures and what to do with
each of them; the last stage goes through it picture by picture. So memory does not grow with the set.
"""

from __future__ import annotations

import hashlib
import io
import operator
import os
import pathlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, overload

import numpy as np
import scipy.sparse as sp

from ..checks import Array, warn
from ..files import check_zip, replacing
from .coders import FisherCodes
from .reading import content_key, name_of

T = TypeVar("T")


def track(items: Iterable[T], total: int, what: str, verbose: int) -> Iterator[T]:
    """Yield the items, with a bar and the time left on a terminal where ``verbose`` and rich is installed.

    The time left is that of the items so far, each taken to last as long as their mean.
    """
    if not (verbose and sys.stderr.isatty()):
        yield from items
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    except ImportError:
        yield from items
        return
    columns: tuple[Any, ...] = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TextColumn("{task.fields[left]}"), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total, left="")
        for done, item in enumerate(items, 1):
            seconds = (bar.tasks[0].elapsed or 0.0) / done * (total - done)
            bar.update(task, completed=done, left=f"{seconds:.0f} s left")
            yield item


Row = tuple[Array, Array]

_DIGEST = 20  # bytes at the end of each file


class ArrayCache:
    """Named arrays by key in a folder.

    An entry is a .npz file with the BLAKE2 digest of its bytes and of its key behind it. It holds arrays of numbers
    only, and reading one runs no code. An entry that is damaged, cut short or moved to another key is not used, and
    computed again. The digest is no signature: whoever may write to the folder may write wrong numbers.

    Parameters
    ----------
    folder : path
        Made if it is not there.

    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = pathlib.Path(folder)
        self._refused = False  # whether it has been said that entries cannot be written

    def get(self, key: str) -> dict[str, Array] | None:
        """Return the arrays, or None where there is no such entry or a damaged one."""
        try:
            content = self._path(key).read_bytes()
            packed, digest = content[:-_DIGEST], content[-_DIGEST:]
            if _digest(key, packed) != digest:
                return None
            check_zip(self._path(key))
            with np.load(io.BytesIO(packed), allow_pickle=False) as arrays:
                return dict(arrays)
        except Exception:  # whatever a damaged file provokes
            return None

    def put(self, key: str, arrays: Mapping[str, Array]) -> None:
        """Write an entry; others never see half of a file. Where it cannot be written, the run goes on without it."""
        path = self._path(key)
        file = io.BytesIO()
        np.savez(file, **dict(arrays))  # type: ignore[arg-type]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as unfinished:
                unfinished.write_bytes(file.getvalue() + _digest(key, file.getvalue()))
        except OSError as error:
            if not self._refused:
                warn(f"The cache is not complete, so the next run computes more again. {error}", RuntimeWarning)
            self._refused = True

    def get_row(self, key: str, width: int) -> Row | None:
        """Return the indices and values of a sparse row, or None where they do not fit a row of this width."""
        arrays = self.get(key)
        if arrays is None or set(arrays) != {"indices", "values"}:
            return None
        indices, values = arrays["indices"], arrays["values"]
        sound = indices.ndim == values.ndim == 1 and len(indices) == len(values)
        sound = sound and indices.dtype == np.int32 and values.dtype == np.float32
        if not sound or (len(indices) and not 0 <= indices.min() <= indices.max() < width):
            return None
        return indices, values

    def put_row(self, key: str, row: Row) -> None:
        """Write a sparse row."""
        self.put(key, {"indices": row[0], "values": row[1]})

    def _path(self, key: str) -> pathlib.Path:
        """Return the file of an entry of the cache."""
        return self._folder / "sparlow-images" / key[:2] / f"{key[2:]}.npz"


def _digest(key: str, packed: bytes) -> bytes:
    """Return the checksum of arrays that the cache keeps."""
    return hashlib.blake2b(packed, digest_size=_DIGEST, key=key.encode()[:64]).digest()


def cache_of(memory: Any) -> ArrayCache | None:
    """Return the cache in the folder that ``memory`` names, a path or a joblib.Memory, or None."""
    if memory is None:
        return None
    folder = memory.location if hasattr(memory, "location") else memory
    return None if folder is None else ArrayCache(folder)


@dataclass(frozen=True)
class Bag:
    """What is known of one picture.

    Parameters
    ----------
    values : array of shape (k, m), csr_array of shape (k, n_words) or FisherCodes
        Descriptors, or their codes over a codebook.
    positions : array of shape (k, 2)
        Centres x, y of their patches, in pixels of the picture as it was used.
    size : (int, int)
        Its width and height.
    error : str or None
        Why the picture could not be used; the bag is empty then.

    """

    values: Any
    positions: Array
    size: tuple[int, int]
    error: str | None = None

    def __len__(self) -> int:
        return len(self.positions)

    def with_values(self, values: Array | sp.csr_array) -> Bag:
        """Return the same places with other numbers."""
        return replace(self, values=values)


@dataclass(frozen=True)
class Step:
    """What a stage does with one picture or bag, and the words that tell it from any other."""

    function: Callable[[Any], Bag]
    width: int
    signature: str


class Bags(Sequence[Bag]):
    """A sequence of bags, each computed when it is asked for.

    ``bags[3]`` computes one; ``bags[10:20]`` and ``bags[[1, 5]]`` are sequences again, of which nothing is computed.

    Parameters
    ----------
    items : sequence
        Pictures, or bags.
    steps : tuple of Step
        What is done with each, in turn.

    Attributes
    ----------
    skipped : list of (int, str, str)
        Items that the last stage to go through all of them could not use: number, name, reason.

    """

    def __init__(self, items: Sequence[Any], steps: tuple[Step, ...] = ()) -> None:
        self._items = items
        self._steps = steps
        self.skipped: list[tuple[int, str, str]] = []

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> Bag: ...
    @overload
    def __getitem__(self, index: slice | Sequence[int]) -> Bags: ...
    def __getitem__(self, index: Any) -> Bag | Bags:
        """Return one bag, or the sequence of some of them."""
        if isinstance(index, slice):
            return Bags(self._items[index], self._steps)
        if np.ndim(index) == 1:
            chosen = np.asarray(index)
            rows = np.flatnonzero(chosen) if chosen.dtype == bool else chosen
            return Bags([self._items[int(i)] for i in rows], self._steps)
        value = self._items[operator.index(index)]
        for step in self._steps:
            value = step.function(value)
        return value

    def __repr__(self) -> str:
        return f"<{len(self)} bags of rows of width {self.width}, computed when asked for>"

    @property
    def width(self) -> int:
        """The number of columns of each bag."""
        if self._steps:
            return self._steps[-1].width
        return int(self._items[0].values.shape[1]) if len(self) else 0

    @property
    def steps(self) -> tuple[Step, ...]:
        """What is done with each item."""
        return self._steps

    def then(self, step: Step) -> Bags:
        """Return the same sequence with one more step."""
        return Bags(self._items, (*self._steps, step))

    def key(self, index: int, further: str = "") -> str:
        """Return a digest of the content of an item, of all that is done with it, and of further words."""
        item = self._items[index]
        digest = hashlib.blake2b(digest_size=20)
        digest.update(_bag_key(item) if isinstance(item, Bag) else content_key(item).encode())
        for step in self._steps:
            digest.update(step.signature.encode())
        digest.update(further.encode())
        return digest.hexdigest()

    def name(self, index: int) -> str:
        """Return what to call an item in a message."""
        item = self._items[index]
        return "(bag)" if isinstance(item, Bag) else name_of(item)

    def report_errors(self, errors: Iterable[tuple[int, str]]) -> list[tuple[int, str, str]]:
        """Note the items that could not be used, warn of them, and return their numbers, names and reasons."""
        self.skipped = listed = [(index, self.name(index), reason) for index, reason in errors]
        if listed:
            warn(
                f"{len(listed)} of {len(self)} images could not be used and count as empty, the first being number "
                f"{listed[0][0]}: {listed[0][2].rstrip('.')}. sparlow.images.unreadable lists them all.",
            )
        return listed


def as_bags(X: Any, maker: str) -> Bags:
    """Check that a stage was given bags, as the stage before makes them."""
    if isinstance(X, Bags):
        return X
    if isinstance(X, Sequence) and not isinstance(X, (str, bytes)) and all(isinstance(item, Bag) for item in X):
        return Bags(X)
    raise ValueError(f"Expected bags as {maker}.transform makes them, got {type(X).__name__}.")


def _bag_key(bag: Bag) -> bytes:
    """Return a digest of the descriptors of one picture."""
    digest = hashlib.blake2b(digest_size=20)
    values = bag.values
    parts: tuple[Array, ...]
    if sp.issparse(values):
        parts = (values.data, values.indices, values.indptr)
    elif isinstance(values, FisherCodes):
        parts = (values.coordinates, values.posteriors, *vars(values.coder).values())
    else:
        parts = (values,)
    for array in (*parts, bag.positions):
        digest.update(f"{array.shape} {array.dtype.str}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    digest.update(repr(bag.size).encode())
    return digest.digest()
