"""Kernels are compiled and kept on disk where that is possible, in memory where it is not."""

import json
import pathlib
import subprocess
import sys

import pytest

from sparlow._kernels import compilation

USE = """
import warnings
import numba.core.caching as caching
{prepare}
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import numpy as np, sparlow
    from sparlow.priors import ElasticNet
    codes = sparlow.encode(np.array([[3.0, 0.5]]), np.eye(2), ElasticNet(1.0, 0.5))
assert codes.toarray().tolist() == [[1.0, 0.0]]
print(sum("NUMBA_CACHE_DIR" in str(warning.message) for warning in caught))
"""
NO_FOLDER = """
for name in dir(caching):
    kind = getattr(caching, name)
    if isinstance(kind, type) and hasattr(kind, "_locator_classes"):
        kind._locator_classes = []
"""
FULL_DISK = """
def fail(*arguments):
    raise OSError(28, "No space left on device")
caching.IndexDataCacheFile._save_data = fail
caching.IndexDataCacheFile._save_index = fail
"""


@pytest.mark.parametrize("prepare", [NO_FOLDER, FULL_DISK], ids=["read-only folders", "full disk"])
@pytest.mark.slow
def test_where_nothing_can_be_kept_the_library_works_and_says_so_once(prepare, tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))  # empty: everything is compiled
    done = subprocess.run([sys.executable, "-c", USE.format(prepare=prepare)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1"]
    assert done.stderr.count("SparLow is compiling, once, about") == 1


def test_functions_of_a_session_are_compiled_without_a_word():
    scope = {"__name__": "__main__"}
    exec("def double(x):\n    return 2 * x", scope)
    assert compilation.kept(compilation.njit, scope["double"])(3) == 6


FIT = """
import json
from numba.core import event, types
from sklearn.datasets import load_digits
from sparlow import SparLow

class Listener(event.Listener):
    names, literal = [], []
    def on_start(self, event):
        dispatcher, kinds = event.data["dispatcher"].py_func, event.data["args"]
        if dispatcher.__module__.startswith("sparlow"):
            self.names.append(dispatcher.__name__)
            self.literal += [dispatcher.__name__] * any(isinstance(kind, types.Literal) for kind in kinds)
    def on_end(self, event):
        pass

event.register("numba:compile", Listener())
X, y = load_digits(return_X_y=True)
SparLow("lda", random_state=0).fit(X[:300], y[:300])
print(json.dumps([Listener.names, Listener.literal]))
"""


@pytest.mark.slow
def test_a_first_fit_compiles_what_it_needs_once_and_the_second_process_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    done = [subprocess.run([sys.executable, "-c", FIT], capture_output=True, text=True, check=True) for _ in range(2)]
    (names, literal), (again, _) = (json.loads(process.stdout) for process in done)
    assert "encode_samples" in names
    assert "encode_samples_generally" not in names  # it takes as long as all the others together
    assert literal == []
    assert again == []
    said = f"SparLow is compiling, once, about {compilation.SECONDS} s\n"
    assert [process.stderr for process in done] == [said, ""]


def test_the_seconds_that_are_said_are_those_that_were_measured():
    root = pathlib.Path(__file__).parent.parent
    rows = [json.loads(line) for line in (root / "benchmarks/results/compilation.jsonl").read_text().splitlines()]
    first = {row["case"]: row["seconds"] for row in rows if row["process"] == "first"}
    assert round(first["float64"]) == compilation.SECONDS
    assert all(row["seconds"] == 0 for row in rows if row["process"] == "second")
    page = " ".join((root / "docs/errors.md").read_text().split())
    assert f"about {compilation.SECONDS} s" in page
    told = "{float64:.1f} with float64 samples, {float32:.1f} with float32, {patches:.1f} with `views=Patches()`"
    assert told.format(**first) in page
