"""What others install: the wheel holds the library alone, runs with its core dependencies, and names missing extras."""

import ast
import os
import re
import subprocess
import sys
import tomllib
import zipfile

import pytest

from tests import cases, lowest

SETTINGS = tomllib.loads((cases.ROOT / "pyproject.toml").read_text())
CORE = {"numpy", "scipy", "sklearn", "numba", "llvmlite", "joblib", "threadpoolctl"}  # llvmlite comes with numba
# every other library that the sources import, and the extra that brings it
EXTRAS = {"matplotlib": "plots", "skops": "cli", "rich": "cli", "PIL": "images", "pyarrow": "parquet",
          "onnxruntime": "networks",
          "pynndescent": "graphs", "dask": "distributed", "distributed": "distributed", "pandas": "cli"}  # fmt: skip
UNIX_ONLY = {"resource", "fcntl", "pwd", "grp", "termios"}


def modules(path, top_level):
    """Return the packages that a file imports, at its top level or anywhere."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = tree.body if top_level else ast.walk(tree)
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found.add(node.module.split(".")[0])
    return found


SOURCES = sorted((cases.ROOT / "src").rglob("*.py"))


def test_the_sources_import_core_dependencies_and_named_extras_only():
    known = CORE | set(EXTRAS) | set(sys.stdlib_module_names)
    for path in SOURCES:
        assert modules(path, top_level=False) <= known, path
        assert modules(path, top_level=True) <= CORE | set(sys.stdlib_module_names), path


def test_nothing_is_for_unix_alone():
    for path in [*SOURCES, *(cases.ROOT / "evidence").rglob("*.py")]:
        assert not modules(path, top_level=True) & UNIX_ONLY, path
        assert not re.search(r"os\.fork|get_context\(.fork|SIGALRM", path.read_text(encoding="utf-8")), path


@pytest.mark.slow
def test_the_wheel_holds_the_library_alone_and_works_without_extras(tmp_path):
    pytest.importorskip("build")
    pytest.importorskip("hatchling")
    words = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(cases.ROOT)]
    subprocess.run(words, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        file.extractall(tmp_path / "installed")
    version = SETTINGS["project"].get("version", wheel.name.split("-")[1])
    assert {name.split("/")[0] for name in names} == {"sparlow", f"sparlow-{version}.dist-info"}
    inside = {name for name in names if name.endswith(".py")}
    assert inside == {path.relative_to(cases.ROOT / "src").as_posix() for path in SOURCES}
    assert "sparlow/py.typed" in names
    run = f"""
import sys
ours = {str(cases.ROOT / "src")!r}
sys.path[:] = [{str(tmp_path / "installed")!r}] + [place for place in sys.path if place and not place.startswith(ours)]
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {sorted(EXTRAS)!r}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
sys.argv = ["ten_lines.py", {str(cases.ROOT / "README.md")!r}]
exec(open({str(cases.ROOT / "tests" / "ten_lines.py")!r}).read())
import sparlow
print(sparlow.__file__)
"""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([sys.executable, "-c", run], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path / "installed"))


MISSING = {
    "plots": ("matplotlib", "from sparlow import plots; plots.images(X, shape=(2, 2))"),
    "cli": ("skops", "from sparlow import TraceQuotient, save; save(TraceQuotient().fit(X, y), 'm.sparlow')"),
    "images": ("PIL", "from sparlow.images import read_gray; read_gray('a.png')"),
    "parquet": ("pyarrow", "from sparlow.app.readers import read; open('a.parquet', 'w').close(); read('a.parquet')"),
    "distributed": ("dask", "from sparlow import distributed"),
    "networks": ("onnxruntime", "from sparlow.images import Network\n"
                 "    open('a.onnx', 'w').write('x'); Network('a.onnx').fit([])"),
    "graphs": ("pynndescent", "import warnings; from sparlow.neighbours import _descent\n"
               "    with warnings.catch_warnings(record=True) as told:\n"
               "        warnings.simplefilter('always'); _descent()\n"
               "    print(told[0].message)"),
}  # fmt: skip


def test_every_extra_for_users_is_named_where_it_is_missing():
    assert set(SETTINGS["project"]["optional-dependencies"]) == {
        *MISSING, *("evidence", "bench", "docs", "dev")}  # fmt: skip
    assert set(lowest.EXTRAS) == {*MISSING, "evidence"}


@pytest.mark.parametrize("extra", MISSING)
@pytest.mark.slow
def test_a_missing_extra_is_named(extra, tmp_path):
    blocked, call = MISSING[extra]
    code = f"""
import sys
sys.modules[{blocked!r}] = None
from sklearn.datasets import load_iris
X, y = load_iris(return_X_y=True)
try:
    {call}
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert re.search(rf"pip install .sparlow\[{extra}\]", done.stdout), done.stderr


def test_every_dependency_has_a_lowest_and_a_highest_version():
    project = SETTINGS["project"]
    for line in project["dependencies"]:
        assert re.fullmatch(r"[a-z-]+>=[0-9.]+,<[0-9]+", line), line
    names = {line.split("==")[0] for line in lowest.constraints()}
    assert {"numpy", "scipy", "scikit-learn", "numba", "skops", "matplotlib"} <= names


def test_workflows_pin_actions_by_hash_and_give_few_permissions():
    for path in (cases.ROOT / ".github" / "workflows").glob("*.yml"):
        text = path.read_text()
        used = re.findall(r"uses: (\S+)(.*)", text)
        assert used
        for action, comment in used:
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action), action
            assert re.match(r" # v\d+\.\d+\.\d+$", comment), comment
        assert "\npermissions: {}\n" in text


def test_the_release_is_described():
    version = re.search(r'__version__ = "(.*)"', (cases.ROOT / "src" / "sparlow" / "__init__.py").read_text())[1]
    log = (cases.ROOT / "CHANGELOG.md").read_text()
    date = re.search(rf"^## {re.escape(version)} \((\d{{4}}-\d\d-\d\d)\)$", log, re.MULTILINE)[1]
    citation = (cases.ROOT / "CITATION.cff").read_text()
    assert f"version: {version}\ndate-released: {date}\n" in citation
    assert "preferred-citation" in citation
    for name in ("CONTRIBUTING.md", "SECURITY.md", "LICENSE"):
        assert (cases.ROOT / name).is_file()
