"""Speed and recall of the neighbour search, as ratios of CPU time measured in one run, one thread each.

Exact search of neighbours of classes against one product of the samples with themselves (each pair of blocks once);
exact search among all samples against scikit-learn's brute force; recall of the approximate searches. Run with
``python benchmarks/graphs.py --output benchmarks/results/graphs.json``. Samples are made up: 512 features whose
variance falls off, classes that overlap. With ``--mnist FILE`` recall is measured on the images of that npz as well.
"""

import argparse
import json
import pathlib
import platform
import time

import numpy as np
import sklearn
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from sparlow import __version__, neighbours

EDGES = 1_500_000


def samples(n, m=512, n_classes=50):
    """Features (n, m) in single precision, and labels."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, n)
    scale = 1 / np.sqrt(np.arange(1, m + 1))
    X = (0.5 * rng.standard_normal((n_classes, m))[y] + rng.standard_normal((n, m))) * scale
    return (X @ np.linalg.qr(rng.standard_normal((m, m)))[0]).astype(np.float32), y


def seconds(function):
    """CPU time of a call, and what it returns."""
    began = time.process_time()
    result = function()
    return time.process_time() - began, result


def product(X, size=1024):
    """Inner products of all pairs of blocks, each once."""
    for i in range(0, len(X), size):
        for j in range(i, len(X), size):
            X[i : i + size] @ X[j : j + size].T


def usual(n):
    """Numbers of neighbours that MFA takes by default."""
    within = min(200, max(10, EDGES // n))
    return within, 2 * within


def recall(found, truth):
    """Share of the true pairs that were found."""
    pairs = [np.sort(rows.astype(np.int64) << 32 | columns) for rows, columns in (found, truth)]
    return float(np.isin(pairs[1], pairs[0], assume_unique=True).mean())


def with_limits(function, **limits):
    """Call a function with other limits of the search."""
    before = {name: getattr(neighbours, name) for name in limits}
    try:
        for name, value in limits.items():
            setattr(neighbours, name, value)
        return function()
    finally:
        for name, value in before.items():
            setattr(neighbours, name, value)


def classes(name, X, y, share=0.0):
    """Neighbours of classes: seconds over those of the product, and recall where a share of samples is compared.

    A fifth is what the search takes of 100 000 samples, a tenth of 200 000.
    """
    k = usual(len(X))
    base, _ = seconds(lambda: product(X))
    exact, truth = seconds(lambda: with_limits(lambda: neighbours.class_neighbours(X, y, *k), EXACT_CLASSES=len(X)))
    row = dict(what="classes", data=name, n=len(X), m=X.shape[1], k=k, product=base, exact=exact, ratio=exact / base)
    if share:
        limits = dict(EXACT_CLASSES=0, PROBED=int(share * len(X)), CELL=max(64, int(share * len(X)) // 40))
        row["share"] = share
        row["approximate"], found = seconds(
            lambda: with_limits(lambda: neighbours.class_neighbours(X, y, *k), **limits)
        )
        row["recall_within"], row["recall_between"] = (recall(a, b) for a, b in zip(found, truth, strict=True))
    return row


def alone(name, X, approximate, k=10):
    """Neighbours among all samples against scikit-learn's, and recall of nearest-neighbour descent."""
    brute, _ = seconds(lambda: NearestNeighbors(algorithm="brute", n_jobs=1).fit(X).kneighbors(n_neighbors=k))
    exact, (_, truth) = seconds(lambda: with_limits(lambda: neighbours.neighbours(X, k), EXACT=len(X)))
    row = dict(what="all", data=name, n=len(X), m=X.shape[1], k=k, sklearn=brute, exact=exact, ratio=exact / brute)
    if approximate:
        row["approximate"], (_, found) = seconds(lambda: with_limits(lambda: neighbours.neighbours(X, k), EXACT=0))
        rows = np.repeat(np.arange(len(X)), k)
        row["recall"] = recall((rows, found.ravel()), (rows, truth.ravel()))
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="*", default=[15_000, 60_000])
    parser.add_argument("--alone", type=int, nargs="*", default=[2000, 15_000], help="sizes without labels")
    parser.add_argument("--recall", type=int, default=15_000, help="the number of samples whose recall is measured")
    parser.add_argument("--mnist", type=pathlib.Path)
    parser.add_argument("--output", type=pathlib.Path)
    arguments = parser.parse_args()
    rows = []
    with threadpool_limits(1):
        for warm in (lambda X, y: neighbours.class_neighbours(X, y, 5, 5), lambda X, y: neighbours.neighbours(X, 5)):
            warm(*samples(1500))
        tasks = [(classes, "made up", *samples(n)) for n in arguments.sizes]
        tasks += [(alone, "made up", samples(n)[0], n == arguments.recall) for n in arguments.alone]
        sets = [("made up", *samples(arguments.recall))]
        if arguments.mnist:
            data = np.load(arguments.mnist)
            X, y = (data[key][: arguments.recall] for key in ("X_train", "y_train"))
            sets.append(("MNIST", (X.reshape(len(X), -1) / 255).astype(np.float32), y.astype(int)))
        tasks += [(classes, *data, share) for data in sets for share in (0.2, 0.1)]
        for function, *task in tasks:
            rows.append(function(*task))
            print(rows[-1], flush=True)
    if arguments.output:
        versions = dict(sparlow=__version__, numpy=np.__version__, sklearn=sklearn.__version__)
        report = dict(machine=platform.processor() or platform.machine(), **versions, rows=rows)
        arguments.output.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
