"""Work shared among threads so that the result is the same for any number of them."""

from __future__ import annotations

import collections
import functools
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ClassVar, TypeVar

import joblib
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import OpenBLASController, ThreadpoolController

Array = NDArray[Any]
S = TypeVar("S")
T = TypeVar("T")

_CHUNK_NUMBERS = 1 << 18  # numbers in the dense arrays of one chunk


class Threads:
    """Runs functions over chunks on ``n_jobs`` threads, one BLAS thread each, results in order.

    Chunks do not depend on the number of threads, and BLAS is held to one, so neither do the results.
    """

    def __init__(self, n_jobs: int | None) -> None:
        self._n = joblib.effective_n_jobs(n_jobs)

    def __enter__(self) -> Threads:
        self._interrupts = _Interrupts()
        _hold_blas()
        self._pool = ThreadPoolExecutor(self._n) if self._n > 1 else None
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        _release_blas()
        self._interrupts.close()

    def map(self, function: Callable[[S], T], chunks: Iterable[S]) -> Iterator[T]:
        """Results in the order of the chunks; only a few are computed ahead of the reader, to bound memory."""
        for result in self._results(function, chunks):
            self._interrupts.heed()
            yield result

    def _results(self, function: Callable[[S], T], chunks: Iterable[S]) -> Iterator[T]:
        if self._pool is None:
            yield from map(function, chunks)
            return
        pending: collections.deque[Future[T]] = collections.deque()
        for chunk in chunks:
            pending.append(self._pool.submit(function, chunk))
            if len(pending) > 4 * self._n:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def uninterrupted(function: Callable[[S], T], chunk: S) -> T:
    """Run a function on one chunk in this thread, with KeyboardInterrupt delayed until it returns."""
    interrupts = _Interrupts()
    try:
        return function(chunk)
    finally:
        interrupts.close()


class _Interrupts:
    """Ctrl-C held back until compiled kernels have returned, for numba loses its way if one comes in between.

    Only where Python's own handler is in charge, and in the main thread, which alone is interrupted. Contexts within
    one another share what came.
    """

    came: ClassVar[bool] = False

    def __init__(self) -> None:
        self._main = threading.current_thread() is threading.main_thread()
        self._ours = self._main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._ours:
            _Interrupts.came = False
            signal.signal(signal.SIGINT, self._note)

    @staticmethod
    def _note(number: int, frame: Any) -> None:
        _Interrupts.came = True

    def heed(self) -> None:
        """Let go an interrupt that came."""
        if self._main and _Interrupts.came:
            _Interrupts.came = False
            raise KeyboardInterrupt

    def close(self) -> None:
        """Interrupts are no longer held back."""
        if self._ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        self.heed()


_lock = threading.Lock()
_inside: list[Any] = []  # the limit, once for each context that is open


def _hold_blas() -> None:
    """One BLAS thread for the whole process, from the first context that opens …"""
    with _lock:
        _inside.append(_inside[0] if _inside else _blas().limit(limits=1, user_api="blas"))


def _release_blas() -> None:
    """… to the last one that closes, in whatever order."""
    with _lock:
        limit = _inside.pop()
        if not _inside:
            _let_any_thread_set()
            limit.restore_original_limits()
            _let_any_thread_set()


def _let_any_thread_set() -> None:
    """Newer versions of threadpoolctl heed only the thread that set OpenBLAS first, until told otherwise."""
    clear = getattr(OpenBLASController, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


@functools.cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def chunks(n: int, width: int) -> list[slice]:
    """Slices of ``range(n)``, of a size that depends on nothing but the ``width`` of the arrays made for each row."""
    size = max(16, min(512, _CHUNK_NUMBERS // width))
    return [slice(first, min(first + size, n)) for first in range(0, n, size)]


def frozen(*arrays: Array) -> tuple[Any, ...]:
    """Read-only views: one compiled kernel then serves arrays that are writeable, read-only or memory-mapped."""
    views = tuple(np.asarray(array).view() for array in arrays)
    for view in views:
        view.flags.writeable = False
    return views
