"""The house itself: who imports whom, what an import costs, that examples and pictures work."""

import ast
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from sparlow import plots
from tests import cases

SOURCE = cases.ROOT / "src" / "sparlow"

# A room is a file, or a folder with what is in it. It may import the rooms below it, never one above or beside.
FLOORS = [
    ["_kernels", "parallel"],
    ["priors", "graphs", "regularizers", "manifolds"],
    ["coding", "criteria", "tracequotient", "optimize"],
    ["dictionaries"],
    ["problem", "defaults"],
    ["estimators"],
    ["datasets"],
    ["plots"],
    ["experiments"],
    ["cli"],
]
# A library that may be imported in one room only.
HOMES = {"numba": {"_kernels"}, "matplotlib": {"plots"}, "dask": {"distributed"}, "spams": set()}


def room_of(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path):
    """Names of sparlow's rooms and of top-level packages that a file imports."""
    folder = path.relative_to(SOURCE).parent.parts
    rooms, packages = set(), set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = folder[: len(folder) - node.level + 1] + tuple((node.module or "").split("."))
            rooms |= {base[0]} if base[0] else {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            packages.add(node.module.split(".")[0])
        elif isinstance(node, ast.Import):
            packages |= {alias.name.split(".")[0] for alias in node.names}
    return rooms, packages


def test_imports_go_downwards_only():
    floor = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}
    paths = [path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py"]
    assert {room_of(path) for path in paths} <= set(floor), "give each room a floor in FLOORS"
    for path in paths:
        rooms, packages = imports(path)
        own = room_of(path)
        assert all(room == own or floor[room] < floor[own] for room in rooms), path
        for library, homes in HOMES.items():
            assert library not in packages or own in homes, (path, library)
        assert "sparlow" not in packages, f"{path}: import the rooms relatively"


def run(code, *words, **environment):
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    ).stdout


def test_import_compiles_nothing_and_leaves_heavy_libraries_alone(tmp_path):
    code = """
import sys, sklearn, json
from numba.core import event
with event.install_recorder("numba:compile") as recorder:
    import sparlow
print(json.dumps([len(recorder.buffer), "matplotlib" in sys.modules]))
"""
    assert json.loads(run(code, NUMBA_CACHE_DIR=str(tmp_path))) == [0, False]


def test_second_process_compiles_no_kernel_whatever_the_prior_and_the_layout(tmp_path):
    code = """
import sys, numpy as np, scipy.sparse as sp, json
from numba.core import event
from sparlow import ElasticNet, KLDivergence, dictionaries, encode, pullback
X = np.eye(3)
prior = ElasticNet(0.1)
if sys.argv[1:]:
    X.flags.writeable = False
    X = np.asfortranarray(X)
    prior = KLDivergence(0.1, threshold=0.1)
with event.install_recorder("numba:compile") as recorder:
    codes = encode(X, X, prior)
    codes.indices, codes.indptr = codes.indices.astype(np.int64), codes.indptr.astype(np.int64)
    codes.data.flags.writeable = False
    pullback(X, X, prior, encode(X, X, prior, start=codes), X)
    dictionaries.ksvd(X, 2)
    dictionaries.online(X, 2, prior)
print(json.dumps(sorted({str(e.data["dispatcher"]) for _, e in recorder.buffer})))
"""
    first, second = (json.loads(run(code, *words, NUMBA_CACHE_DIR=str(tmp_path))) for words in ([], ["other"]))
    assert any("encode_chunk" in name for name in first)
    kernels = ("chunk", "products", "solve", "update", "accumulate")
    assert all(any(kernel in name for name in first) for kernel in kernels)
    assert not any(kernel in name for name in second for kernel in kernels)


@pytest.mark.parametrize("name", ["codes_of_digits", "own_prior"])
def test_examples_run(name, tmp_path, capsys):
    example = cases.load_example(name)
    if name == "own_prior":
        example.main()
        assert "e-1" in capsys.readouterr().out
    else:
        accuracies, losses = example.main(tmp_path, steps=3)
        assert np.all(np.diff(losses) < 0)
        assert min(accuracies.values()) > 80
        assert len(list(tmp_path.glob("*.png"))) == 4


def test_readme_prints_what_it_says(capsys):
    text = (cases.ROOT / "README.md").read_text()
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL).group(1)
    promised = re.search(r"prints\n\n```\n(.*?)```", text, re.DOTALL).group(1)
    exec(compile(code, "README.md", "exec"), {})
    said, expected = (line.split(", gap ") for line in (capsys.readouterr().out, promised))
    assert said[0] == expected[0]
    assert float(said[1]) < 1e-14


@pytest.mark.interpreted
def test_images_show_each_vector_upright():
    ax = plots.images(np.array([[0, 1, 2, 3, 4, 5.0]] * 3), (2, 3), columns=2)
    sheet = ax.images[0].get_array()
    np.testing.assert_allclose(sheet[1:3, 1:4], np.arange(6).reshape(2, 3) / 5)
    np.testing.assert_allclose(sheet[4:6, 1:4], np.arange(6).reshape(2, 3) / 5)
    assert np.all(np.isnan(sheet.filled(np.nan)[4:6, 5:8]))
    signed = plots.images(np.array([[-2.0, 1.0]]), (1, 2), columns=1, signed=True)
    np.testing.assert_allclose(signed.images[0].get_array()[1, 1:3], [-1, 0.5])
    with pytest.raises(ValueError, match="vectors must have shape"):
        plots.images(np.zeros((2, 5)), (2, 3))


@pytest.mark.interpreted
def test_explanation_shows_the_largest_codes_first():
    code = np.array([0.1, 0.0, -0.7])
    axes = plots.explanation(np.zeros(4), np.eye(4)[:3], code, (2, 2), n_atoms=3)
    assert [ax.get_title() for ax in axes] == ["image", "from 2 atoms", "-0.70", "+0.10", ""]
    np.testing.assert_allclose(axes[1].images[0].get_array(), [[0.1, 0], [-0.7, 0]])


def test_missing_matplotlib_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"sparlow\[plots\]"):
        plots.images(np.zeros((1, 4)), (2, 2))
