"""Latency of one sample and of batches, and sizes of model files, by number of samples, atoms and pixels.

    python -m benchmarks.serving                 # this tree, printed
    python -m benchmarks.serving --ref c98bbfc   # another commit beside it in turns, written to results/serving.jsonl

A case is a model that each version fits in a process of its own. Processes of the two versions take turns, twice.
Seconds are of the wall, on one thread; the ratio is that of the medians over the turns.

- ``samples``: a trace quotient on so many samples of 48 numbers in twelve classes. All its work is voting.
- ``atoms``: default models of USPS digits with so many training samples as atoms.
- ``side``: patches of pictures of so many pixels along a side, learned from 300 pictures of MNIST scaled to it.
"""

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

from benchmarks.house import worktree
from sparlow import SparLow, TraceQuotient, save
from sparlow.views import Patches

RESULTS = pathlib.Path(__file__).parent / "results" / "serving.jsonl"
DATA = pathlib.Path(os.environ.get("SPARLOW_DATA", "data"))
CASES = [
    *(("samples", n) for n in (3000, 30_000, 290_000)),
    *(("atoms", r) for r in (250, 1000, 2000)),
    *(("side", side) for side in (16, 28, 48)),
]
TURNS, CALLS, BATCH = 2, 200, 2000


def drawn(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw samples of twelve classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(12, size=n)
    return np.random.default_rng(0).standard_normal((12, 48))[y] + 0.7 * rng.standard_normal((n, 48)), y


def fitted(kind: str, size: int):
    """Return a fitted model, new samples and their labels."""
    if kind == "samples":
        return TraceQuotient("lda").fit(*drawn(size, 1)), *drawn(10_000, 2)
    if kind == "atoms":
        with np.load(DATA / "usps.npz") as file:
            X, y, test, truth = (file[name] for name in ("X_train", "y_train", "X_test", "y_test"))
        X, test = X / 2000.0, test / 2000.0
        D = X[: 3 * size : 3] if 3 * size < len(X) else X[:size]
        D = D / np.linalg.norm(D, axis=1, keepdims=True)
        return SparLow("lda", dictionary=D, max_iter=0, random_state=0).fit(X, y), test, truth
    from PIL import Image

    with np.load(DATA / "mnist.npz") as file:
        X, y = file["X_train"][:500], file["y_train"][:500]
    X = np.array([np.asarray(Image.fromarray(row.reshape(28, 28)).resize((size, size))).ravel() for row in X]) / 255.0
    return SparLow("lda", views=Patches(), max_iter=0, random_state=0).fit(X[:300], y[:300]), X[300:], y[300:]


def microseconds(function, X: np.ndarray) -> list[float]:
    """Return the median and the 99th percentile of calls with one row."""
    found = []
    for i in range(CALLS + 10):
        row = X[i % len(X)][None]
        begun = time.perf_counter()
        function(row)
        found.append(time.perf_counter() - begun)
    return [round(1e6 * float(value), 1) for value in np.percentile(found[10:], [50, 99])]


def measured(kind: str, size: int) -> dict:
    """Return what one version takes in one case."""
    model, X, y = fitted(kind, size)
    batch = np.resize(X, (BATCH, X.shape[1]))[: BATCH if kind != "side" else len(X)]
    model.transform(batch)
    begun = time.perf_counter()
    model.transform(batch)
    share = 1e6 * (time.perf_counter() - begun) / len(batch)
    begun = time.perf_counter()
    score = model.score(X, y)
    seconds = time.perf_counter() - begun
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "m.sparlow"
        save(model, path)
        megabytes = path.stat().st_size / 1e6
    return {
        "transform": microseconds(model.transform, X), "share": [round(share, 1)],
        "predict": microseconds(model.predict, X), "score_10000": [round(1e6 * seconds * 10_000 / len(X))],
        "file": [round(megabytes, 2)], "accuracy": [round(100 * score, 2)],
    }  # fmt: skip


def child(source: pathlib.Path, kind: str, size: int) -> dict:
    """Measure one case in a process of its own, with the library of a source tree."""
    environment = {**os.environ, "PYTHONPATH": str(source / "src"), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", "benchmarks.serving", "--case", kind, str(size)]
    home = pathlib.Path(__file__).parents[1]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment, cwd=home)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure cases, in turns with another commit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ref", help="a commit to measure beside this tree")
    parser.add_argument("--cases", nargs="+", help="kinds of cases; default: all")
    parser.add_argument("--sizes", nargs="+", type=int, help="sizes of cases; default: all. Rows of the others stay")
    parser.add_argument("--case", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        print(json.dumps(measured(arguments.case[0], int(arguments.case[1]))))
        return
    home, rows = pathlib.Path(__file__).parents[1], []
    with worktree(arguments.ref) if arguments.ref else contextlib.nullcontext() as other:
        sources = {"now": home} | ({"before": pathlib.Path(other)} if other else {})
        for kind, size in CASES:
            if kind not in (arguments.cases or [kind]) or size not in (arguments.sizes or [size]):
                continue
            turns = [{name: child(source, kind, size) for name, source in sources.items()} for _ in range(TURNS)]
            for what in turns[0]["now"]:
                middle = {
                    name: np.median([turn[name][what] for turn in turns], axis=0).round(2).tolist() for name in sources
                }
                row = {"case": kind, "size": size, "what": what, **middle}
                if other:
                    row["ratio"] = round(middle["before"][0] / middle["now"][0], 2)
                rows.append(row)
                print(json.dumps(row), flush=True)
    if other:
        measured_now = {(row["case"], row["size"]) for row in rows}
        known = [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
        rows += [row for row in known if (row["case"], row["size"]) not in measured_now]
        rows.sort(key=lambda row: CASES.index((row["case"], row["size"])))
        RESULTS.write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main()
