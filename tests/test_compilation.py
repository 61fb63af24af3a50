"""Kernels are compiled and kept on disk where that is possible, in memory where it is not."""

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
