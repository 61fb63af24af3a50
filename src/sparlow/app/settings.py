"""Parameters by their names: what ``--set NAME=VALUE`` takes comes from signatures and docstrings of the library."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable
from typing import Any

from .. import priors, solvers, views
from ..copies import Copies
from ..criteria import CRITERIA, Criterion
from ..estimators import SparLow
from ..solvers import Solver
from .terminal import UserError

# what belongs to a run of the command, or has an option of its own
_RUN = ("criterion", "n_jobs", "verbose", "warm_start")
_KINDS: dict[str, Any] = {kind.__name__: kind for kind in CRITERIA.values()} | {
    kind.__name__: kind
    for kind in (priors.ElasticNet, priors.KLDivergence, views.Patches, views.Shifts, Copies, Solver,
                 solvers.EarlyStopping)
}  # fmt: skip


def _fields(kind: Any) -> list[str]:
    """Return the parameters of a criterion or of a solver."""
    return [field.name for field in dataclasses.fields(kind) if field.name not in ("graph", "method")]


def value_of(text: str) -> Any:
    """Return what a text says in Python: a number, a tuple, a word, or an object of the library such as Patches(6)."""
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        return text
    if isinstance(tree, ast.Call) or (isinstance(tree, ast.Name) and tree.id in _KINDS):
        return _made(tree)
    try:
        return ast.literal_eval(tree)
    except ValueError:
        return text


def _made(tree: ast.Call | ast.Name) -> Any:
    """Return the object that a call of one of the library's classes gives."""
    called = tree.func if isinstance(tree, ast.Call) else tree
    if not isinstance(called, ast.Name) or called.id not in _KINDS:
        raise UserError(f"--set: {ast.unparse(called)} is none of {', '.join(_KINDS)}.")
    parts, named = (tree.args, tree.keywords) if isinstance(tree, ast.Call) else ([], [])
    try:
        values = [ast.literal_eval(part) for part in parts]
        return _KINDS[called.id](*values, **{str(part.arg): ast.literal_eval(part.value) for part in named})
    except (ValueError, TypeError) as error:
        known = ", ".join(inspect.signature(_KINDS[called.id]).parameters)
        raise UserError(f"--set: {ast.unparse(tree)}: {error}. {called.id} has {known}.") from error


def given(words: Iterable[tuple[str, str]], known: Iterable[str]) -> dict[str, Any]:
    """Return the values that ``--set`` gives to known names."""
    known = list(known)
    for name, _ in words:
        if name not in known:
            raise UserError(f"--set {name}: there is no such parameter. There are {', '.join(known)}.")
    return {name: value_of(text) for name, text in words}


def build_model(criterion: str, words: Iterable[tuple[str, str]], n_jobs: int) -> SparLow:
    """Return the model that ``--criterion`` and ``--set`` describe, not fitted."""
    if criterion not in CRITERIA:
        raise UserError(f"--criterion {criterion}: there is no such criterion. There are {', '.join(CRITERIA)}.")
    kind = CRITERIA[criterion]
    own = [name for name in inspect.signature(SparLow).parameters if name not in _RUN]
    values = given(words, [*own, *_fields(kind), *_fields(Solver)])
    of_solver = {name: values.pop(name) for name in _fields(Solver) if name in values}
    of_criterion = {name: values.pop(name) for name in _fields(kind) if name in values}
    try:
        if of_solver:
            solver = values.get("solver", "auto")
            values["solver"] = (
                Solver(solver, **of_solver) if isinstance(solver, str) else dataclasses.replace(solver, **of_solver)
            )
        asked: str | Criterion = kind(**of_criterion) if of_criterion else criterion
        model = SparLow(asked, **{"random_state": 0, "n_jobs": n_jobs, **values})
        model._validate_params()
    except (ValueError, TypeError) as error:
        raise UserError(f"--set: {error}") from error
    return model


def parameters() -> str:
    """Return the names that ``--set`` takes, each with the first sentence of its documentation."""
    said = _documented(SparLow)
    lines = ["", "parameters of the model, for --set:"]
    lines += [_line(name, said[name]) for name in inspect.signature(SparLow).parameters if name not in _RUN]
    lines += ["", "of the solver:", *(_line(name, _documented(Solver)[name]) for name in _fields(Solver))]
    lines += ["", "criteria, for --criterion, and their parameters:"]
    for name, kind in CRITERIA.items():
        lines.append(_line(name, f"{_summary(kind)} {', '.join(_fields(kind))}"))
    objects = f"Values are those of Python, objects too: prior=ElasticNet(0.1), with {', '.join(_KINDS)}."
    return "\n".join([*lines, "", textwrap.fill(objects, 118), ""])


def _line(name: str, words: str) -> str:
    """Return a name and what it means."""
    return textwrap.fill(f"  {name:17}{words}", 118, subsequent_indent=" " * 19)


def _summary(kind: Callable[..., Any]) -> str:
    """Return the first line of a docstring, without its formula."""
    return (kind.__doc__ or "").strip().splitlines()[0].partition(":")[0].rstrip(".") + "."


def _documented(kind: Callable[..., Any]) -> dict[str, str]:
    """Return the first sentence of each parameter in a docstring."""
    text = inspect.cleandoc(kind.__doc__ or "").partition("Parameters\n----------\n")[2].partition("\n\n")[0]
    found = re.findall(r"^([\w, ]+) : .*\n((?:    .*\n?)+)", text + "\n", re.MULTILINE)
    sentence = {
        names: re.split(r"(?<=[.;]) ", " ".join(body.replace("``", "").split()))[0].rstrip(";") for names, body in found
    }
    return {name: words for names, words in sentence.items() for name in names.split(", ")}
