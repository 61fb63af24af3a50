"""The house itself: who imports whom, what an import costs, that examples and documentation do what they say."""

import ast
import json
import os
import re
import runpy
import subprocess
import sys
import tomllib

import matplotlib.pyplot as plt
import numpy as np
import pytest

import sparlow
from tests import cases, pages

SOURCE = cases.ROOT / "src" / "sparlow"

# A room is a file, or a folder with what is in it. It may import the rooms below it, never one above or beside.
FLOORS = [
    ["checks", "constants"],
    ["_kernels", "parallel", "files", "labels"],
    ["neighbours", "priors", "tracequotient", "voting"],
    ["graphs", "views", "derivative", "optimize", "copies", "coders"],
    ["coding"],
    ["rows", "dictionaries"],
    ["criteria"],
    ["problem", "embedding", "defaults", "distributed"],
    ["solvers", "quadratic", "checkpoints", "stochastic"],
    ["stream"],
    ["estimators", "images"],
    ["evaluation", "classifiers", "explanations", "printed"],
    ["models"],
    ["plots", "export"],
    ["app"],
]
# A library that may be imported in one room only.
HOMES = {
    "numba": {"_kernels"},
    "matplotlib": {"plots"},
    "dask": {"distributed"},
    "distributed": {"distributed"},
    "spams": set(),
    "skops": {"models"},
    "rich": {"app", "images"},
    "onnxruntime": {"images"},
    "onnx": set(),
    "torch": set(),
}


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


def top_packages(path):
    """Names of top-level packages that a file imports absolutely."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    found = {alias.name.split(".")[0] for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return found | {n.module.split(".")[0] for n in nodes if isinstance(n, ast.ImportFrom) and not n.level}


def test_imports_go_downwards_only():
    floor = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}
    apart = [SOURCE / "__init__.py"]
    paths = [path for path in SOURCE.rglob("*.py") if path not in apart]
    assert {room_of(path) for path in paths} <= set(floor), "give each room a floor in FLOORS"
    for path in paths:
        rooms, packages = imports(path)
        own = room_of(path)
        assert all(room == own or floor[room] < floor[own] for room in rooms), path
        for library, homes in HOMES.items():
            assert library not in packages or own in homes, (path, library)
        assert not {"sparlow", "evidence"} & packages, f"{path}: import rooms of the library alone, and relatively"


def test_the_map_shows_the_floors():
    page = (cases.ROOT / "docs" / "architecture.md").read_text()
    drawn = []
    for floor, room in re.findall(r"(?m)^\| (\d*) ?\| `(\w+)/?` \|", page):
        drawn += [[]] if floor else []
        drawn[-1].append(room)
    assert [sorted(rooms) for rooms in drawn] == [sorted(rooms) for rooms in FLOORS]


def test_numbers_that_change_results_stand_in_one_file_with_a_reason_each():
    path = SOURCE / "constants.py"
    names = [target for node in ast.parse(path.read_text()).body for target in getattr(node, "targets", [])]
    assert sum(len(getattr(target, "elts", [target])) for target in names) <= 80
    assert len(re.findall(r"(?m)^[A-Z_0-9, ]+ = .+  # .+$", path.read_text())) == len(names)


def test_the_evidence_stands_beside_the_library():
    """It imports the library, which stays complete without it: nothing of the evidence is built into the wheel."""
    paths = list((cases.ROOT / "evidence").rglob("*.py"))
    assert any("sparlow" in top_packages(path) for path in paths)
    settings = tomllib.loads((cases.ROOT / "pyproject.toml").read_text())
    assert settings["tool"]["hatch"]["build"]["targets"]["wheel"] == {"packages": ["src/sparlow"]}
    for path in (*paths, *(cases.ROOT / "src").rglob("*.py")):
        assert len(path.read_text().splitlines()) <= 500, path


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


TOP = """Coder Copies DictionaryLearner SparLow TraceQuotient as_printed encode load objective omp optimality_gap
         pullback save trace_ratio"""
ROOMS = "classifiers coders criteria explanations export images plots priors solvers views"


def test_top_level_has_few_names_and_the_modules_as_attributes():
    assert set(sparlow.__all__) == {*TOP.split(), *ROOMS.split()} == set(dir(sparlow))
    for name in sparlow.__all__:
        assert getattr(sparlow, name).__doc__
    for name in ("LDA", "ElasticNet", "Shifts", "load_model"):  # of scikit-learn's names, or in a module of their own
        assert not hasattr(sparlow, name)
    with pytest.raises(AttributeError, match="no attribute 'datasets'"):
        sparlow.datasets  # noqa: B018


@pytest.mark.slow
def test_heavy_modules_are_imported_when_they_are_asked_for():
    """So that ``import sparlow`` takes little longer than scikit-learn's estimators and the compiler together."""
    code = """
import sys, time, json
began = time.perf_counter()
import numba, scipy.sparse, scipy.linalg, sklearn.callback, sklearn.linear_model, sklearn.model_selection
import sklearn.neighbors, sklearn.pipeline, sklearn.svm, sklearn.tree
others = time.perf_counter()
import sparlow
ours = time.perf_counter()
early = [name for name in ("images", "classifiers", "plots", "app") if f"sparlow.{name}" in sys.modules]
libraries = [name for name in ("matplotlib", "PIL", "skops", "pynndescent") if name in sys.modules]
sparlow.classifiers, sparlow.images
print(json.dumps([early, libraries, (ours - others) / (others - began)]))
"""
    found = [json.loads(run(code)) for _ in range(3)]
    assert all((early, libraries) == ([], []) for early, libraries, _ in found)
    assert min(share for _, _, share in found) < 0.5


@pytest.mark.slow
def test_second_process_compiles_no_kernel_whatever_the_prior_and_the_layout(tmp_path):
    code = """
import sys, numpy as np, scipy.sparse as sp, json
from numba.core import event
from sparlow import dictionaries, encode, pullback
from sparlow.priors import ElasticNet, KLDivergence
X = np.eye(3)
prior = ElasticNet(0.1)
if sys.argv[1:]:
    X.flags.writeable = False
    X = np.asfortranarray(X)
    prior = KLDivergence(0.1, threshold=0.1)
with event.install_recorder("numba:compile") as recorder:
    encode(X, X, KLDivergence(0.1))  # quadratic priors have a kernel of their own
    codes = encode(X, X, prior)
    codes.indices, codes.indptr = codes.indices.astype(np.int64), codes.indptr.astype(np.int64)
    codes.data.flags.writeable = False
    pullback(X, X, prior, encode(X, X, prior, start=codes), X)
    dictionaries.ksvd(X, 2)
    dictionaries.online(X, 2, prior)
print(json.dumps(sorted({str(e.data["dispatcher"]) for _, e in recorder.buffer})))
"""
    first, second = (json.loads(run(code, *words, NUMBA_CACHE_DIR=str(tmp_path))) for words in ([], ["other"]))
    assert all(any(kernel in name for name in first) for kernel in ("encode_samples_generally", "encode_samples"))
    kernels = ("encode", "chunk", "products", "solve", "update", "accumulate")
    assert all(any(kernel in name for name in first) for kernel in kernels)
    assert not any(kernel in name for name in second for kernel in kernels)


@pytest.mark.slow
def test_joint_learning_example_runs(tmp_path, capsys):
    rows = cases.load_example("joint_learning").main(tmp_path, n_samples=400, passes=2)
    assert [row.name for row in rows] == [
        "raw pixels",
        "PCA, 95 % of variance",
        "LDA, shrinkage",
        "codes alone, start",
        "codes alone, end",
        "SparLow, start",
        "SparLow, defaults",
        "SparLow, patches",
    ]
    assert min(min(row.accuracies().values()) for row in rows) > 0.8
    said = capsys.readouterr().out
    pictures = sorted(tmp_path.glob("*.png"))
    assert len(pictures) == 5
    assert all(str(path) in said for path in (*pictures, tmp_path / "report.html"))
    assert "codes alone, end" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_generalisation_example_runs(tmp_path):
    path = tmp_path / "curves.png"
    curves = cases.load_example("generalisation").main(path, n_samples=200, passes=10, seeds=[0])
    assert curves["stochastic"][-1] > curves["stochastic"][0] == curves["eliminate"][0] > 80
    assert path.exists()


@pytest.mark.slow
def test_coding_example_runs(tmp_path):
    accuracies, losses = cases.load_example("codes_of_digits").main(tmp_path, steps=3)
    assert np.all(np.diff(losses) < 0)
    assert min(accuracies.values()) > 80
    assert len(list(tmp_path.glob("*.png"))) == 4


@pytest.mark.slow
def test_pictures_example_runs(tmp_path, capsys):
    accuracies = cases.load_example("pictures").main(tmp_path)
    floor, *others = accuracies.values()
    assert min(others) > floor + 20
    assert "keeps its row, of 0 nonzeros" in capsys.readouterr().out
    assert (tmp_path / "pictures.png").exists()


GALLERY = sorted((cases.ROOT / "examples" / "gallery").glob("plot_*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_examples_of_the_gallery_run_and_their_words_are_not_cut(path):
    runpy.run_path(str(path), run_name="__main__")
    figures = [plt.figure(number) for number in plt.get_fignums()]
    assert figures
    for figure in figures:
        figure.canvas.draw()
        for text in [*(ax.title for ax in figure.axes), *(ax.xaxis.label for ax in figure.axes)]:
            box = text.get_window_extent()
            if text.get_text():
                assert box.y1 <= figure.bbox.y1 + 2, text
                assert box.y0 >= -2, text


@pytest.mark.slow
def test_prior_example_runs(capsys):
    cases.load_example("own_prior").main()
    assert "e-1" in capsys.readouterr().out


@pytest.mark.slow
def test_notebook_for_teachers_runs():
    """It is kept without outputs; its pictures, its table of numbers and what it prints come when it is run."""
    code = """
import json, sys, nbclient, nbformat
notebook = nbformat.read(sys.argv[1], 4)
assert not any(cell.get("outputs") for cell in notebook.cells)
nbclient.NotebookClient(notebook, timeout=280).execute()
outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
pictures = sum("image/png" in output.get("data", {}) for output in outputs)
numbers = sum("sparlow-numbers" in output.get("data", {}).get("text/html", "") for output in outputs)
print(json.dumps([pictures, numbers]))
"""
    assert json.loads(run(code, str(cases.ROOT / "examples" / "teaching.ipynb"))) == [9, 1]


@pytest.mark.slow
@pytest.mark.parametrize("page", pages.PAGES)
def test_pages_run_and_print_what_they_say(page, tmp_path, monkeypatch):
    """The same words; numbers may be of an earlier default, but no page promises a better share than there is."""
    monkeypatch.chdir(tmp_path)
    blocks = [(said, promised) for _, said, promised in pages.run(page)]
    assert blocks
    for said, promised in blocks:
        if promised is not None:
            assert pages.shape_of(said) == pages.shape_of(promised), "python -m tests.pages fills the page anew"
            assert all(now > then - 2 for now, then in zip(pages.shares(said), pages.shares(promised), strict=True))


def test_the_site_begins_with_the_lines_of_the_readme():
    first = pages.BLOCK.search((cases.ROOT / "README.md").read_text())
    shown = (cases.ROOT / "docs" / "index.md").read_text()
    assert f"```python\n{first[1]}```\n\n```\n{first[3]}```" in shown


@pytest.mark.parametrize(
    "page", [*sorted(cases.ROOT.glob("docs/*.md")), cases.ROOT / "README.md"], ids=lambda p: p.name
)
def test_links_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())
    made = ("http", "gallery/", "api/")  # elsewhere, or made by make docs, whose warnings are errors
    assert all(target.startswith(made) or (page.parent / target).exists() for target in targets), targets


@pytest.mark.parametrize(
    "page", [*sorted(cases.ROOT.glob("docs/*.md")), cases.ROOT / "README.md"], ids=lambda p: p.name
)
def test_code_on_pages_is_as_wide_as_their_column(page):
    blocks = re.findall(r"(?m)^```(?:python|sh)\n(.*?)^```", page.read_text(), re.DOTALL)
    assert [line for block in blocks for line in block.splitlines() if len(line) > 88] == []


def test_errata_name_tests_that_exist():
    named = re.findall(r"tests/(\w+\.py)::(\w+)", (cases.ROOT / "docs" / "errata.md").read_text())
    assert len(named) > 5
    for file, name in named:
        assert f"def {name}(" in (cases.ROOT / "tests" / file).read_text(), (file, name)
