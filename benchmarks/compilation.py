"""CPU seconds that a first fit compiles for, in a fresh environment.

    python -m benchmarks.compilation [--cases CASE ...]

Each case is a process of its own with an empty folder for compiled kernels; the next process finds what it left. A case
is one fit or several, of 900 of scikit-learn's digits, with patches of 300. Seconds are those of the processor within
numba's compiler. Rows are in benchmarks/results/compilation.jsonl.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numba
import numpy as np
from numba.core import event
from sklearn.datasets import load_digits

from sparlow import SparLow
from sparlow.views import Patches

RESULTS = pathlib.Path(__file__).parent / "results" / "compilation.jsonl"
FITS = {  # numbers, views, samples
    "float64": (float, None, 900),
    "float32": (np.float32, None, 900),
    "patches": (float, Patches(), 300),
}
CASES = {
    "float64": ["float64"],
    "float32": ["float32"],
    "patches": ["patches"],
    "all": ["float64", "float32", "patches"],
}


class Stopwatch(event.Listener):
    """Add up the seconds of all kernels that are compiled; parts of a kernel are in its seconds."""

    def __init__(self):
        self.seconds, self.kernels, self._began = 0.0, {}, []

    def on_start(self, event):
        """Remember when a kernel began."""
        self._began.append(time.process_time())

    def on_end(self, event):
        """Add its seconds, unless it is a part of another."""
        seconds = time.process_time() - self._began.pop()
        if not self._began:
            name = event.data["dispatcher"].py_func.__name__
            self.seconds += seconds
            self.kernels[name] = round(self.kernels.get(name, 0.0) + seconds, 2)


def watched(fits):
    """Fit, and print what was compiled."""
    watch = Stopwatch()
    event.register("numba:compile", watch)
    X, y = load_digits(return_X_y=True)
    for name in fits:
        dtype, views, n = FITS[name]
        SparLow("lda", views=views, random_state=0).fit(X[:n].astype(dtype), y[:n])
    print(json.dumps({"seconds": round(watch.seconds, 2), "kernels": watch.kernels}))


def main():
    """Run cases, each with a second process behind it; the rows of a case take the place of its earlier ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES), help="default: all")
    parser.add_argument("--fits", nargs="+", choices=FITS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.fits:
        return watched(arguments.fits)
    for case in arguments.cases:
        rows = []
        with tempfile.TemporaryDirectory() as folder:
            for process in ("first", "second"):
                done = subprocess.run(
                    [sys.executable, "-m", "benchmarks.compilation", "--fits", *CASES[case]],
                    env={**os.environ, "NUMBA_CACHE_DIR": folder}, stdout=subprocess.PIPE, check=True,
                )  # fmt: skip
                row = {"case": case, "process": process, "numba": numba.__version__, **json.loads(done.stdout)}
                rows.append(row)
                print(f"{case:8} {process:7} {row['seconds']:6.1f} s", flush=True)
        others = [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.is_file() else []
        rows = [row for row in others if row["case"] != case] + rows
        RESULTS.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return None


if __name__ == "__main__":
    main()
