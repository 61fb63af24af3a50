"""One BLAS thread inside, as many as before outside, however contexts overlap."""

import threading

from threadpoolctl import threadpool_info

from sparlow.parallel import Threads


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
