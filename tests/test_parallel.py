"""One BLAS thread inside, as many as before outside, however contexts overlap."""

import gc
import os
import pathlib
import random
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from threadpoolctl import threadpool_info

from sparlow import parallel
from sparlow.parallel import Threads, one_blas_thread


def raising(number, frame):
    """A handler of one's own, which kernels are not protected from."""
    raise KeyboardInterrupt


def blas_threads():
    """Of the libraries whose threads are shared by the whole process, as those of numpy and scipy are."""
    shared = [library for library in threadpool_info() if library.get("threading_layer") == "pthreads"]
    return [library["num_threads"] for library in shared]


def test_overlapping_contexts_restore_what_was():
    before = blas_threads()
    first, second = Threads(1), Threads(2)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert set(blas_threads()) == {1}
    second.__exit__(None, None, None)
    assert blas_threads() == before


def test_contexts_of_several_threads_restore_what_was():
    before = blas_threads()
    seen = []

    def work():
        for _ in range(20):
            with Threads(2) as threads:
                seen.extend(blas_threads())
                assert list(threads.map(abs, range(-3, 3))) == [3, 2, 1, 0, 1, 2]

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert set(seen) == {1}
    assert blas_threads() == before


def test_an_interrupt_waits_for_the_kernel_and_is_an_interrupt_then():
    done = []

    def kernel(chunk):
        signal.raise_signal(signal.SIGINT)
        done.append(chunk)  # not cut short
        return chunk

    for n_jobs in (1, 2):
        with pytest.raises(KeyboardInterrupt), Threads(n_jobs) as threads:
            list(threads.map(kernel, range(3)))
        assert done[0] == 0
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt), Threads(1):
        kernel(7)  # outside of map: at the end of the context
    assert done[-1] == 7


def test_interrupts_are_left_to_a_handler_of_ones_own():
    came = []
    before = signal.signal(signal.SIGINT, lambda *_: came.append(1))
    try:
        with Threads(1):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert came == [1]


def test_contexts_in_other_threads_and_in_one_another_leave_interrupts_alone():
    with ThreadPoolExecutor(1) as pool, Threads(1), Threads(1):
        pool.submit(lambda: Threads(1).__enter__().__exit__(None, None, None)).result()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_is_heeded_by_the_innermost_map():
    done = []

    def kernel(chunk):
        done.append(chunk)
        if chunk == 1:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), Threads(1) as outer:
        for _ in outer.map(lambda part: list(Threads(1).__enter__().map(kernel, range(10))), range(3)):
            pass
    assert done == [0, 1]


@pytest.mark.slow
@pytest.mark.parametrize("handler", [signal.default_int_handler, raising])
def test_blas_has_its_threads_again_after_interrupts_at_any_moment(handler):
    before, own = blas_threads(), signal.signal(signal.SIGINT, handler)
    rng, hits = random.Random(0), 0
    try:
        for _ in range(60):
            timer = threading.Timer(rng.uniform(0, 0.003), os.kill, (os.getpid(), signal.SIGINT))
            try:
                timer.start()
                end = time.perf_counter() + 0.01
                while time.perf_counter() < end:
                    with Threads(rng.choice([1, 2])) as threads:
                        list(threads.map(abs, range(3)))
                timer.join()  # where the machine is busy it comes here
            except KeyboardInterrupt:
                hits += 1
            timer.join()
            assert signal.getsignal(signal.SIGINT) is handler
        gc.collect()
        assert blas_threads() == before
    finally:
        signal.signal(signal.SIGINT, own)
    assert hits > 30


def interrupt_at(step, work):
    """Run work with an interrupt at one step of the interpreter in the contexts; returns whether it came that far."""
    count, before = 0, sys.gettrace()

    def trace(frame, event, argument):
        nonlocal count
        if pathlib.Path(frame.f_code.co_filename).name not in ("parallel.py", "contextlib.py"):
            return None
        frame.f_trace_opcodes = True
        count += event == "opcode"
        if event == "opcode" and count == step:
            sys.settrace(None)
            signal.getsignal(signal.SIGINT)(signal.SIGINT, frame)
        return trace

    sys.settrace(trace)
    try:
        work()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return count >= step


def alone():
    with one_blas_thread():
        pass


def threads():
    with Threads(1) as some:
        list(some.map(abs, [1]))


@pytest.mark.parametrize("work", [alone, threads, one_blas_thread()(int)])
def test_blas_has_its_threads_again_after_an_interrupt_at_every_step(work):
    before, step = blas_threads(), 1
    interrupt_at(0, work)  # Python 3.12 tells of steps from the second trace on
    while interrupt_at(step, work):
        assert not parallel._open, step
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        step += 1
    assert step > 100
    assert blas_threads() == before


def test_a_context_that_is_never_left_lets_go_of_blas_with_its_object():
    before = blas_threads()
    left = Threads(1).__enter__()
    assert set(blas_threads()) == {1}
    left._interrupts.close()
    del left
    gc.collect()
    assert blas_threads() == before


@pytest.mark.parametrize("n_jobs", [0, "2", 1.5])
def test_no_threads_are_refused_in_plain_words(n_jobs):
    with pytest.raises(ValueError, match="n_jobs must be a number of threads such as 2, or -1 for all cores, got"):
        Threads(n_jobs)
