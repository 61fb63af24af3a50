"""Work shared among threads so that the result is the same for any number of them."""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import numbers
import signal
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ClassVar, TypeVar

import joblib
import numpy as np
from threadpoolctl import OpenBLASController, ThreadpoolController

from .checks import Array

S = TypeVar("S")
T = TypeVar("T")


class Threads:
    """Runs functions over chunks on ``n_jobs`` threads, one BLAS thread each, results in order.

    Chunks do not depend on the number of threads, and BLAS is held to one, so neither do the results.
    """

    def __init__(self, n_jobs: int | None) -> None:
        if n_jobs == 0 or not (n_jobs is None or isinstance(n_jobs, numbers.Integral)):
            raise ValueError(f"n_jobs must be a number of threads such as 2, or -1 for all cores, got {n_jobs!r}.")
        self._n = joblib.effective_n_jobs(n_jobs)
        self._hold: _Hold | None = None

    def __enter__(self) -> Threads:
        self._interrupts = _Interrupts()
        try:
            with _undisturbed():
                self._hold = _Hold()
                self._pool = ThreadPoolExecutor(self._n) if self._n > 1 else None
        except BaseException:
            self._hold = None
            self._interrupts.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        try:
            if self._pool is not None:
                self._pool.shutdown(cancel_futures=True)
        finally:
            with _undisturbed():
                self._hold = None
        self._interrupts.close()

    def map(self, function: Callable[[S], T], chunks: Iterable[S]) -> Iterator[T]:
        """Return results in the order of the chunks; only a few are computed ahead of the reader, to bound memory."""
        for result in self._results(function, chunks):
            self._interrupts.heed()
            yield result

    def _results(self, function: Callable[[S], T], chunks: Iterable[S]) -> Iterator[T]:
        """Return what the threads compute, in the order of the chunks."""
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
    """Delay KeyboardInterrupt until compiled kernels return; numba cannot be interrupted.

    Only where Python's own handler is in charge, or one that says it may wait (``deferrable``), and in the main thread,
    which alone is interrupted. Contexts within one another share what came.
    """

    came: ClassVar[bool] = False
    handler: ClassVar[Any] = signal.default_int_handler

    def __init__(self) -> None:
        self._main = threading.current_thread() is threading.main_thread()
        handler = signal.getsignal(signal.SIGINT) if self._main else None
        self._ours = handler is signal.default_int_handler or getattr(handler, "deferrable", False)
        if self._ours:
            _Interrupts.came, _Interrupts.handler = False, handler
            signal.signal(signal.SIGINT, self._note)

    @staticmethod
    def _note(number: int, frame: Any) -> None:
        """Note that Ctrl-C came."""
        _Interrupts.came = True

    def heed(self) -> None:
        """Raise an interrupt that came."""
        if self._main and _Interrupts.came:
            _Interrupts.came = False
            _Interrupts.handler(signal.SIGINT, None)

    def close(self) -> None:
        """Delay interrupts no longer."""
        if self._ours:
            signal.signal(signal.SIGINT, _Interrupts.handler)
        self.heed()


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread in a block, or in a function that this decorates.

    Products of matrices round otherwise with two threads than with one. With one, results have the same bits on any
    machine with the same libraries and instructions, whatever its number of cores. Work is shared by ``n_jobs``.
    """
    hold = None
    try:
        with _undisturbed():
            hold = _Hold()
        yield
    finally:
        with _undisturbed():
            del hold


class Finishing:
    """Let work that has come to its last part end although an interrupt comes.

    Until :meth:`begin` is called interrupts are raised as ever. After that the first one is noted in ``came``, and a
    second one is raised. Only in the main thread and where Python's own handler is in charge.
    """

    deferrable = True

    def __init__(self) -> None:
        self._begun = self._ours = False
        self.came = False

    def begin(self) -> None:
        """Let the first interrupt from now on wait."""
        self._begun = True

    def __call__(self, number: int, frame: Any) -> None:
        """Handle an interrupt."""
        if self.came or not self._begun:
            raise KeyboardInterrupt
        self.came = True

    def __enter__(self) -> Finishing:
        main = threading.current_thread() is threading.main_thread()
        self._ours = main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._ours:
            signal.signal(signal.SIGINT, self)
        return self

    def __exit__(self, *error: object) -> None:
        if self._ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Let no handler of interrupts run in between; one that came is handed on at the end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
        if came and callable(before):
            before(signal.SIGINT, None)


_lock = threading.RLock()  # the garbage collector may release within it
_open: set[int] = set()  # contexts that hold BLAS to one thread
_limit: Any = None
_numbers = itertools.count()


class _Hold:
    """Hold BLAS to one thread in the whole process, until the object is gone.

    So it ends even where an interrupt comes before the lines that would end it.
    """

    def __init__(self) -> None:
        global _limit
        with _lock:
            number = next(_numbers)
            _open.add(number)
            weakref.finalize(self, _release_blas, number).atexit = False
            if _limit is None:
                _limit = _blas().limit(limits=1, user_api="blas")


def _release_blas(number: int) -> None:
    """Give BLAS its threads back if no other context, opened before or after, holds it."""
    global _limit
    with _lock:
        _open.discard(number)
        if not _open and _limit is not None:
            limit, _limit = _limit, None
            _let_any_thread_set()
            limit.restore_original_limits()
            _let_any_thread_set()


def _let_any_thread_set() -> None:
    """Allow any thread to set OpenBLAS: newer versions of threadpoolctl heed only the thread that set it first."""
    clear = getattr(OpenBLASController, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


@functools.cache
def _blas() -> ThreadpoolController:
    """Return what controls the threads of BLAS."""
    return ThreadpoolController()


def chunks(n: int, width: int, most: int = 512) -> list[slice]:
    """Return slices of ``range(n)``, of a size that depends only on the ``width`` of the arrays made for each row."""
    size = max(16, min(most, (1 << 18) // width))
    return [slice(first, min(first + size, n)) for first in range(0, n, size)]


def frozen(*arrays: Array) -> tuple[Any, ...]:
    """Return read-only views: one compiled kernel then serves writeable, read-only and memory-mapped arrays."""
    views = tuple(np.asarray(array).view() for array in arrays)
    for view in views:
        view.flags.writeable = False
    return views
