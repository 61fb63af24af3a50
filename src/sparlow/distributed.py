"""Samples on other machines: dask arrays, computed on by the workers of a Dask client.

The only module that imports Dask. It has one store, :class:`Cluster`. Tasks are functions of
some parts and of what is broadcast; none depends on what another task left behind. So a worker that dies takes nothing
with it but time: Dask computes its parts again elsewhere, and where the broadcast itself was lost the driver sends all
of it again. Sums are a tree over the index of the parts, added on the workers. A task has a branch of that tree, 1, 2,
4, … parts: how many does not change the sum.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import copy
import ctypes
import dataclasses
import functools
import itertools
import math
import os
import pathlib
import pickle
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .checks import Array, refuse_unsound
from .rows import (
    Context,
    File,
    Local,
    RowGroups,
    Store,
    Task,
    add,
    cut,
    forget,
    nothing,
    pairwise_sum,
    rows_per_chunk,
)

try:
    import dask
    import dask.array as da
    from dask.utils import parse_timedelta
    from distributed import CancelledError, Client, KilledWorker, TimeoutError, default_client, futures_of, wait
    from distributed.comm import CommClosedError
except ImportError as error:  # pragma: no cover
    raise ImportError("Dask arrays need dask and distributed: pip install 'sparlow[distributed]'") from error


LIGHT = 1 << 20  # bytes up to which what all tasks share goes with each task, and is not sent beforehand
_STALLED = 15.0  # seconds without task for any worker after which an evaluation is begun again
_GIVEN_BACK = "65536"  # Dask's default of MALLOC_TRIM_THRESHOLD_ for its workers
_LOST = (KilledWorker, CancelledError, concurrent.futures.CancelledError, CommClosedError, TimeoutError)


class ClusterLostError(RuntimeError):
    """Workers or scheduler are gone and did not come back in time."""


def timeout() -> float:
    """Return the seconds to wait for workers: ``sparlow.timeout`` of Dask's configuration, 300 by default."""
    return float(parse_timedelta(dask.config.get("sparlow.timeout", "300s")))


def checked(X: Any) -> Any:
    """Return a dask array of rows in chunks of whole rows, none much larger than a part; or say what is wrong with it.

    Chunks that are split along the features, or larger than four parts, are rechunked.
    """
    if not isinstance(X, da.Array):
        raise TypeError(
            f"Expected a dask array, got {type(X).__name__}. Of a data frame: X.to_dask_array(lengths=True)."
        )
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions (samples, features), got {X.ndim}: X.reshape((len(X), -1)).")
    if any(np.isnan(size) for size in X.shape):
        raise ValueError(
            "The chunks of X have unknown sizes. Compute them first: X.compute_chunk_sizes(), or "
            "to_dask_array(lengths=True) of a data frame."
        )
    if not all(X.shape):
        raise ValueError(f"X has no samples or no features: its shape is {X.shape}.")
    if X.dtype.kind not in "buif":
        raise ValueError(f"X must hold real numbers, got {X.dtype}.")
    if len(X.chunks[1]) > 1:
        X = X.rechunk({1: -1})
    size = rows_per_chunk(X.shape[1])
    return X.rechunk({0: size}) if max(X.chunks[0]) > 4 * size else X


class Cluster(Store):
    """Rows of a dask array, computed on by the workers of a client.

    Parameters
    ----------
    X : dask array of shape (n, m)
        Its chunks are the parts. Blocks that are not persisted are computed anew each time they are wanted.
    client : Client

    """

    def __init__(self, X: Any, client: Client) -> None:
        sizes = X.chunks[0]
        super().__init__(tuple(X.shape), X.dtype, np.cumsum([0, *sizes]))
        self.X, self.client = X, client
        self._held = bool(futures_of(X))
        blocks = X.to_delayed().ravel() if self._held else [_Block(X, place) for place in range(len(sizes))]
        self._blocks = [block for block, size in zip(blocks, sizes, strict=True) if size]
        self._broadcast: tuple[Context, Any] | None = None  # what the workers have been sent last

    @classmethod
    def of(cls, X: Any) -> Store:
        """Return the store of a dask array: on the workers of the client there is, or on threads of this process."""
        X = checked(X)
        try:
            return cls(X, default_client())
        except ValueError:
            return Local(Lazy(X), -1, np.cumsum([0, *X.chunks[0]]))

    def each(self, task: Task, local: Callable[[slice], Any]) -> Iterator[Any]:
        for group in self._computed(list, task, local, lambda leaves: leaves, self.client.gather):
            yield from group

    def into(self, out: Array, task: Task) -> Array:
        def write(futures: list[Any]) -> Array:
            parts = itertools.chain.from_iterable(self.client.gather(future) for future in futures)  # few at a time
            for rows, part in zip(self.slices, parts, strict=True):
                out[rows] = part
            return out

        return np.asarray(self._computed(list, task, nothing, lambda leaves: leaves, write))

    def total(self, task: Task, local: Callable[[slice], Any]) -> Any:
        return self._computed(pairwise_sum, task, local, lambda leaves: [_tree(leaves)], self.client.gather)[0]

    def take(self, rows: Array) -> Any:
        def fetch() -> Any:
            return self._result([self.client.compute(self.X[rows])], self.client.gather)[0]

        return self._again(fetch)

    def forget(self) -> None:
        super().forget()
        with contextlib.suppress(*_LOST):  # what a worker keeps ends with it
            if self.client.status == "running":
                self.client.run(forget, self.session.name, on_error="ignore")

    def _computed(
        self,
        together: Callable[[Iterator[Any]], Any],
        task: Task,
        local: Callable[[slice], Any],
        reduce: Callable[[list[Any]], list[Any]],
        gather: Callable[[list[Any]], Any],
    ) -> Any:
        """Gather what ``reduce`` makes of the tasks, each of which puts ``together`` the task of some parts."""
        run = dask.delayed(_run, pure=False, traverse=False)
        packed = pickle.dumps(dataclasses.replace(task, context=None))  # type: ignore[arg-type]

        def attempt() -> Any:
            context, sent = (
                self._sent_context(task.context),
                packed if len(packed) <= LIGHT else self._sent(packed, broadcast=True),
            )
            leaves = []
            for worker, groups in self._places():
                owns = [[local(self.slices[part]) for part in group] for group in groups]
                if owns[0][0] is not None:
                    owns = self._sent(owns, **({} if worker is None else {"workers": [worker], "timeout": _STALLED}))
                place = {} if worker is None else {"workers": [worker], "allow_other_workers": True}
                with dask.annotate(**place):
                    for group, mine in zip(groups, owns, strict=True):
                        blocks = [self._blocks[part] for part in group]
                        leaves.append(run(together, context, sent, group.start, mine, *blocks))
            return self._result(self.client.compute(reduce(leaves), optimize_graph=False), gather)

        return self._again(attempt)

    def _sent_context(self, context: Context) -> Any:
        """Return what parts are coded by as the workers have it; it is sent once."""
        if self._broadcast is None or self._broadcast[0] is not context or self._broadcast[1].status != "finished":
            self._broadcast = None
            self._broadcast = context, self._sent(context, broadcast=True)
        return self._broadcast[1]

    def _sent(self, data: Any, **options: Any) -> Any:
        """Scatter data; a worker that goes while they are sent is one more that was lost."""
        try:
            return self.client.scatter(data, hash=False, **options)
        except KeyError as error:  # the scheduler no longer knows the address
            raise CommClosedError(f"worker {error} was lost while it was sent data") from error

    def _places(self) -> list[tuple[str | None, list[range]]]:
        """Return the groups of parts that each worker computes best: those whose codes it has.

        Blocks that are in memory say themselves where: each is a group.
        """
        count = len(self._blocks)
        found = {} if self._held else self.client.scheduler_info(n_workers=-1)["workers"]
        if not found:
            return [(None, [range(part, part + 1) for part in range(count)])]
        size = group_size(count, len(found), sum(worker["nthreads"] for worker in found.values()))
        groups = [range(first, min(first + size, count)) for first in range(0, count, size)]
        share = -(-len(groups) // len(found))
        some = [groups[first : first + share] for first in range(0, len(groups), share)]
        return list(zip(sorted(found), some, strict=False))

    def _again(self, attempt: Callable[[], Any]) -> Any:
        """Return what an attempt gives; begin again where workers or the connection were lost on the way."""
        for trial in itertools.count(1):
            try:
                return attempt()
            except Exception as error:
                if not isinstance(error, _LOST) and self.client.status == "running":
                    raise
                self._broadcast = None
                if trial == 20:
                    raise ClusterLostError(self._said(f"{trial} attempts failed, the last by {error!r}")) from error
                self._wait_for_workers(error)

    def _wait_for_workers(self, error: BaseException) -> None:
        """Wait until a worker of the cluster is back."""
        deadline = time.monotonic() + timeout()
        while time.monotonic() < deadline:
            try:
                if self.client.status == "running" and self.client.scheduler_info(n_workers=-1)["workers"]:
                    return
                if self.client.status == "closed":
                    break
            except (OSError, TimeoutError):
                pass
            time.sleep(0.2)
        raise ClusterLostError(self._said(f"no worker was there for {timeout():.0f} s")) from error

    def _said(self, what: str) -> str:
        """Return the message that the cluster was lost."""
        n, parts = self.shape[0], len(self.slices)
        return (
            f"The cluster was lost: {what}. What was computed for this step, of {n} samples in {parts} parts, is lost. "
            "Start scheduler and workers again and call fit again; with solver=Solver(checkpoint=FILE) it goes on from "
            "the last step. Workers are waited for as long as dask.config.set({'sparlow.timeout': '600s'}) says."
        )

    def _result(self, futures: list[Any], gather: Callable[[list[Any]], Any]) -> Any:
        """Gather the results of futures, with an eye on the cluster while they take long."""
        idle = None
        while True:
            try:
                wait(futures, timeout=2.0)
                return gather(futures)
            except TimeoutError:
                workers = self.client.scheduler_info(n_workers=-1)["workers"] if self.client.status == "running" else {}
                busy = bool(workers) and any(self.client.processing().values())
                idle = None if busy else idle or time.monotonic()
                patience = min(timeout(), _STALLED) if workers else timeout()
                if idle is not None and time.monotonic() - idle > patience:
                    raise TimeoutError("nothing is being computed") from None


def group_size(count: int, workers: int, threads: int) -> int:
    """Return the parts of a task, a power of two: as many as give each thread a task, fewer to share them evenly."""
    size = 1 << int(np.log2(max(1, count // threads)))

    def most() -> int:
        return size * math.ceil(math.ceil(count / size) / workers)

    # no worker has 15 % more than the mean, nor a thread more than four tasks, each of which takes some 2 ms
    while size > 1 and most() > 1.15 * count / workers and count < 4 * threads * size:
        size //= 2
    return size


class _Block:
    """A block of a dask array that is computed within the task that wants it: it never travels."""

    def __init__(self, X: Any, place: int) -> None:
        (rows,) = dask.optimize(X.blocks[place])
        self._graph, ((self._key,),) = dict(rows.__dask_graph__()), rows.__dask_keys__()

    def read(self) -> Any:
        """Return the rows of a block on its worker."""
        return dask.get(self._graph, self._key)


def _run(
    together: Callable[[Iterator[Any]], Any], context: Context, packed: bytes, first: int, owns: list[Any], *blocks: Any
) -> Any:
    """Compute some parts on a worker, one after the other."""
    _keep_pages()
    task = dataclasses.replace(pickle.loads(packed), context=context)
    parts = (
        task(first + i, block.read if isinstance(block, _Block) else functools.partial(_as_it_is, block), local)
        for i, (block, local) in enumerate(zip(blocks, owns, strict=True))
    )
    return together(parts)


@functools.cache
def _keep_pages() -> None:
    """Let this worker keep the memory of freed arrays for the next ones.

    Dask starts workers with a setting by which each array above 128 kB is given back to the system when it is freed.
    The next one is cleared page by page, which takes a third of the time of a part. Another setting is left alone.
    """
    if os.environ.get("MALLOC_TRIM_THRESHOLD_") != _GIVEN_BACK:
        return
    with contextlib.suppress(OSError, AttributeError, TypeError):  # an allocator other than that of glibc
        library = ctypes.CDLL(None)
        library.mallopt(-3, 32 << 20)  # M_MMAP_THRESHOLD
        library.mallopt(-1, 256 << 20)  # M_TRIM_THRESHOLD of malloc.h


def _as_it_is(block: Any) -> Any:
    """Return a block of a dask array as it is."""
    return block


def _tree(leaves: list[Any]) -> Any:
    """Return the pairwise sum of parts as a tree of tasks."""
    together = dask.delayed(add, pure=False, traverse=False)
    while len(leaves) > 1:
        pairs = [leaves[i : i + 2] for i in range(0, len(leaves), 2)]
        leaves = [together(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return leaves[0]


class Lazy:
    """A dask array whose chunks are computed in this thread; slices are chunks."""

    def __init__(self, X: Any) -> None:
        self.X, self.shape, self.dtype = X, X.shape, X.dtype
        starts = np.cumsum([0, *X.chunks[0]]).tolist()
        self._blocks = {a: _Block(X, i) for i, (a, b) in enumerate(itertools.pairwise(starts)) if b > a}

    def __getitem__(self, rows: slice) -> Any:
        return self._blocks[rows.start].read()


def gathered(y: Any) -> Array:
    """Return a dask array in memory."""
    found = y.compute()
    refuse_unsound(found, "y")
    return np.asarray(found)


def by_blocks(function: Callable[[Any], Any], X: Any) -> Any:
    """Return a method of a model, applied to rows where they are, as a dask array (n, width) or (n,)."""
    X = checked(X)
    model = copy.copy(function.__self__)  # type: ignore[attr-defined]
    name = function.__name__
    one = getattr(model, name)(np.ones((1, X.shape[1]), X.dtype))
    slim = model.without_training()
    chunks = (X.chunks[0], *((width,) for width in one.shape[1:]))
    drop = 1 if one.ndim == 1 else None
    return X.map_blocks(_Called(slim, name, one[:0]), dtype=one.dtype, chunks=chunks, drop_axis=drop, meta=one[:0])


class _Called:
    """A method of a model by its name; made once for all blocks."""

    def __init__(self, model: Any, name: str, none: Any) -> None:
        self.model, self.name, self.none = model, name, none

    def __call__(self, block: Any) -> Any:
        return getattr(self.model, self.name)(block) if block.shape[0] else self.none


def connected(address: str) -> Client:
    """Return a client of the scheduler at an address."""
    return Client(address, timeout=min(30.0, timeout()))


def from_npy(path: str | os.PathLike[str]) -> Any:
    """Return the rows of a .npy file as a dask array whose chunks are read by the workers themselves.

    Every worker must find the file under the same path.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    X : dask array of shape (n, m)

    """
    rows = File(os.fspath(path))
    sizes = tuple(np.diff(cut(*rows.shape)).tolist())
    return da.from_array(
        rows, chunks=(sizes, (rows.shape[1],)), name=False, asarray=True, meta=np.empty((0, 0), rows.dtype)
    )


def from_parquet(path: str | os.PathLike[str], columns: list[str] | None = None) -> Any:
    """Return columns of a parquet file, or of all in a folder, as a dask array that the workers read themselves.

    Row groups are the chunks. A column is a number, or a list of numbers of fixed length. Every worker must find the
    file under the same path. Labels are a column, too: ``from_parquet(path, ["label"])[:, 0]``.

    Parameters
    ----------
    path : path
        The file, or a folder of files that are taken in the order of their names.
    columns : list of str, optional
        Which columns; by default all that hold numbers.

    Returns
    -------
    X : dask array of shape (n, m)

    """
    place = pathlib.Path(path)
    files = sorted(place.glob("*.parquet")) if place.is_dir() else [place]
    if not files:
        raise ValueError(f"{place} has no files named *.parquet.")
    rows = RowGroups([os.fspath(file) for file in files], columns)
    shape = rows.sizes, (rows.shape[1],)
    return da.from_array(rows, chunks=shape, name=False, asarray=True, meta=np.empty((0, 0), rows.dtype))
