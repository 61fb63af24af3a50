"""Measure the house: how much code there is, how many cases it has, and how much of it a call enters.

    python -m benchmarks.house                       # this tree, printed
    python -m benchmarks.house --ref 82e3be5         # another commit beside it, in a git worktree of its own
    python -m benchmarks.house --ref 82e3be5 --keep  # and written to results/house.json

How it counts:

- *Code lines* hold a token of Python that is neither a comment nor part of a docstring.
- *Branches* are McCabe's: if, elif, ternary, for, while, except, each further operand of ``and`` and ``or``, each
  ``for`` and ``if`` of a comprehension.
- *Named numbers* are assignments in a module's body to a name in capitals of a number or a tuple of numbers (signed,
  or an expression of numbers alone). ``by pattern`` counts lines by a regular expression, strings in tuples too.
- *Functions entered* are those of ``src/sparlow`` that Python enters in any thread, without lambdas and comprehensions.
- *Core* is the library without ``app``, ``images`` and ``classifiers``.
- *Options* are those of all sub-commands, each as often as it is declared, without ``--help`` and ``--version``.
- *User pages* are ``README.md`` and what ``docs/`` has, without the evidence: its own folder, results, zoo, errata.
- *Private names* are attributes with a leading underscore that the tests read and the library defines.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import tokenize
from collections.abc import Callable, Iterator
from typing import Any

ROOT = pathlib.Path(__file__).parents[1]
RESULTS = pathlib.Path(__file__).parent / "results" / "house.json"
PATTERN = re.compile(r"^_?[A-Z][A-Z_0-9]*(: [A-Za-z]+)? = -?[0-9(]", re.MULTILINE)
LABORATORY = ("evidence", "results", "zoo", "errata")
BRANCHES = (ast.If, ast.IfExp, ast.For, ast.While, ast.ExceptHandler, ast.comprehension)
NUMERIC = (ast.Constant, ast.Tuple, ast.UnaryOp, ast.BinOp, ast.operator, ast.unaryop, ast.Load)
CALLS = ("fit", "transform", "predict", "Dask fit", "sparlow fit photos/")


def code_lines(text: str) -> int:
    """Count the lines that hold a token of code."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            docstrings |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in skipped]
    return len({row for token in tokens for row in range(token.start[0], token.end[0] + 1)} - docstrings)


def branches(text: str) -> int:
    """Count the decisions of a file."""
    nodes = list(ast.walk(ast.parse(text)))
    operands = sum(len(node.values) - 1 for node in nodes if isinstance(node, ast.BoolOp))
    filters = sum(len(node.ifs) for node in nodes if isinstance(node, ast.comprehension))
    return operands + filters + sum(isinstance(node, BRANCHES) for node in nodes)


def named_numbers(text: str) -> list[str]:
    """Return the names in capitals that a module gives to numbers."""
    names = []
    for node in ast.parse(text).body:
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
            continue
        parts = list(ast.walk(node.value))
        numbers = [part.value for part in parts if isinstance(part, ast.Constant)]
        if numbers and all(isinstance(part, NUMERIC) for part in parts):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            written = [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
            if all(isinstance(number, (int, float)) and not isinstance(number, bool) for number in numbers):
                names += [name for name in written if name == name.upper()]
    return names


def private_names(root: pathlib.Path) -> set[str]:
    """Return the library's private names that the tests read."""
    defined = set()
    for path in (root / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                defined.add(node.name)
            elif isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
                defined.add(node.id if isinstance(node, ast.Name) else node.attr)
    read = set()
    for path in (root / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                read.add(node.attr)
            elif isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith("sparlow")):
                read |= {alias.name for alias in node.names}
    return {name for name in defined & read if re.match(r"_[A-Za-z]", name) and name != "_repr_html_"}


def size(paths: list[pathlib.Path]) -> dict[str, float]:
    """Return the measures of some files."""
    texts = [path.read_text() for path in paths]
    code = sum(map(code_lines, texts))
    return {
        "files": len(texts),
        "lines": sum(len(text.splitlines()) for text in texts),
        "code lines": code,
        "branches per 100 code lines": round(100 * sum(map(branches, texts)) / code, 1),
        "named numbers": sum(len(named_numbers(text)) for text in texts),
        "named numbers by pattern": sum(len(PATTERN.findall(text)) for text in texts),
    }


def measure_text(root: pathlib.Path) -> dict[str, Any]:
    """Return what can be read from a tree without running it."""
    source = root / "src" / "sparlow"
    paths = sorted(source.rglob("*.py"))
    rooms = {name: [path for path in paths if name in path.relative_to(source).parts] for name in _folders(source)}
    apart = {path for name in ("app", "images", "classifiers") for path in rooms[name]}
    pages = [path for path in (root / "docs").rglob("*.md") if not set(LABORATORY) & {*path.parts[:-1], path.stem}]
    return {
        "library": size(paths),
        "core": size([path for path in paths if path not in apart]),
        **{name: size(files) for name, files in rooms.items()},
        "words of user pages": sum(len(page.read_text().split()) for page in [*pages, root / "README.md"]),
        "private names in tests": len(private_names(root)),
    }


def _folders(source: pathlib.Path) -> list[str]:
    return sorted(path.name for path in source.iterdir() if (path / "__init__.py").exists())


class Entered:
    """The functions of the library that Python enters within this context, in any thread."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.codes: set[Any] = set()

    def _note(self, frame: Any, event: str, _: Any) -> None:
        if event == "call":
            self.codes.add(frame.f_code)

    def __enter__(self) -> Entered:
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def counts(self) -> dict[str, int]:
        """Return how many functions and files were entered."""
        ours = [code for code in self.codes if code.co_filename.startswith(self.source)]
        named = {(code.co_filename, code.co_qualname) for code in ours if not code.co_name.startswith("<")}
        return {"functions": len(named), "files": len({file for file, _ in named})}


def enter(call: str) -> dict[str, int]:
    """Run one call on 600 images of digits, or on photographs of them, and count what it entered."""
    from sklearn.datasets import load_digits

    import sparlow

    X, y = (part[:600] for part in load_digits(return_X_y=True))
    entered = Entered(str(pathlib.Path(sparlow.__file__).parent))
    estimator = sparlow.SparLow(random_state=0)
    with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        work: Callable[[], Any]
        if call == "Dask fit":
            import dask.array as da
            from distributed import Client

            stack.enter_context(Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=None))
            work = lambda: estimator.fit(da.from_array(X, (100, -1)), da.from_array(y, 100))  # noqa: E731
        elif call.startswith("sparlow"):
            from PIL import Image

            from sparlow.app import main

            for row, (image, label) in enumerate(zip(X[:100], y, strict=False)):
                path = pathlib.Path(folder, "photos", str(label), f"{row}.png")
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray((image.reshape(8, 8) * 15).astype("uint8")).resize((64, 64)).save(path)
            words = ["fit", f"{folder}/photos", "-o", f"{folder}/model.sparlow", "--quiet"]
            work = lambda: main(words)  # noqa: E731
        elif call == "fit":
            work = lambda: estimator.fit(X, y)  # noqa: E731
        else:
            estimator.fit(X, y)
            work = lambda: getattr(estimator, call)(X)  # noqa: E731
        with entered:
            work()
    return entered.counts()


def count_options() -> int:
    """Count the options that the command declares."""
    from sparlow.app import main

    class Caught(Exception):  # noqa: N818
        """The parser, at the moment when it is asked to read the words."""

    def catch(parser: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
        raise Caught(parser)

    def count(parser: argparse.ArgumentParser) -> int:
        own = [action for action in parser._actions if not {"--help", "--version"} & set(action.option_strings)]
        subs = [action for action in own if isinstance(action, argparse._SubParsersAction)]
        inner = sum(count(sub) for action in subs for sub in action.choices.values())
        return inner + sum(bool(action.option_strings) for action in own)

    argparse.ArgumentParser.parse_args = argparse.ArgumentParser.parse_known_args = catch  # type: ignore
    try:
        main(["fit", "photos"])
    except Caught as caught:
        return count(caught.args[0])
    raise RuntimeError("the command parses its words without argparse")


def run(task: str, root: pathlib.Path) -> Any:
    """Run a task of this script in a process of its own, on the sources of a tree."""
    command = [sys.executable, str(pathlib.Path(__file__).resolve()), "--task", task]
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=root, check=False)
    if done.returncode:
        raise RuntimeError(f"{task}: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def measure(root: pathlib.Path) -> dict[str, Any]:
    """Return all measures of a tree."""
    calls = {call: run(call, root) for call in CALLS}
    return {**measure_text(root), "options": run("options", root), **{f"entered by {c}": n for c, n in calls.items()}}


@contextlib.contextmanager
def worktree(ref: str) -> Iterator[pathlib.Path]:
    """Check a commit out beside this tree, and take the copy away again."""
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder, "tree")
        subprocess.run(["git", "worktree", "add", "--detach", copy, ref], cwd=ROOT, check=True, capture_output=True)
        try:
            yield copy
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", copy], cwd=ROOT, check=True)


def flat(measures: dict[str, Any]) -> dict[str, float]:
    """Return measures of measures under one name each."""
    rows = {}
    for name, value in measures.items():
        rows |= (
            {f"{name}: {inner}": number for inner, number in value.items()}
            if isinstance(value, dict)
            else {name: value}
        )
    return rows


def main() -> None:
    """Measure the trees and print them side by side."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ref", help="a commit to measure beside this tree")
    parser.add_argument("--text", action="store_true", help="only what can be read without running anything")
    parser.add_argument("--keep", action="store_true", help="write the rows to results/house.json")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.task:
        print(json.dumps(count_options() if arguments.task == "options" else enter(arguments.task)))
        return
    take = measure_text if arguments.text else measure
    columns = {}
    if arguments.ref:
        with worktree(arguments.ref) as tree:
            columns[arguments.ref] = flat(take(tree))
    columns["now"] = flat(take(ROOT))
    print(f"{'':45}" + "".join(f"{name:>12}" for name in columns))
    names = list(dict.fromkeys(name for column in columns.values() for name in column))
    rows = [{"measure": name, **{c: column[name] for c, column in columns.items() if name in column}} for name in names]
    for row in rows:
        print(f"{row['measure']:45}" + "".join(f"{row.get(name, ''):>12}" for name in columns))
    if arguments.keep:
        RESULTS.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


if __name__ == "__main__":
    main()
