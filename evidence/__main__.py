"""Measure the paper's tables and figures, and show them: ``python -m evidence list | run | report`` in the clone."""

from __future__ import annotations

import argparse
import dataclasses
import errno
import pathlib
import runpy
import sys
import time
from collections.abc import Sequence
from typing import Any

import pandas as pd

from . import datasets
from .claims import claims_table, counts, state
from .methods import METHODS
from .paper import EXPERIMENTS, named
from .report import chapters, fill, markdown, page
from .rows import Row, Task, row_file, run, tasks
from .specification import Experiment, Size

OK, WORK_FAILED, WRONG_USE, INTERRUPTED = 0, 1, 2, 130
HOME = pathlib.Path(__file__).parent

_EPILOG = """\
examples:
  python -m evidence list
  python -m evidence run --quick
  python -m evidence run table1 fig6 --data images/
  python -m evidence run table1 --on digits --quick
  python -m evidence report --document docs/evidence.md

Rows are kept as soon as they are measured. A run that was stopped goes on where it ended, and two runs at the same time
share the work. The image sets are read from the folder that --data or the environment variable SPARLOW_DATA names;
digits needs none.

exit codes: 0 done; 1 rows failed, or there are none to report on; 2 wrong use, or image sets are missing;
130 interrupted"""

_SEEDS = 10  # among which rows of the same entry are looked for
_OTHER = tuple(name for name in datasets.NAMES if datasets.of_one_shape(name))


def main(words: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    arguments = _parser().parse_args(words)
    try:
        selection = Selection.of(arguments)
    except ValueError as error:
        return _stop(str(error), WRONG_USE)
    try:
        return {"list": _list, "run": _run, "report": _report}[arguments.command](selection, arguments)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        said = f"{error.filename or selection.output} could not be written: the disk is full."
        return _stop(f"{said} Make room; the same command goes on from there.", WORK_FAILED)


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m evidence", description=__doc__, epilog=_EPILOG, formatter_class=raw)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("experiments", nargs="*", metavar="NAME", help="table1, fig5c, fig6 and so on; all by default")
    common.add_argument("--quick", action="store_true", help="a small version of each: few samples, steps and seeds")
    common.add_argument("--seeds", type=int, metavar="N", help="number of seeds instead of the experiment's own")
    common.add_argument("--on", metavar="SET", choices=_OTHER, help=f"{', '.join(_OTHER)} instead of the paper's set")
    common.add_argument("-o", "--output", metavar="DIR", help="default: evidence/results, evidence/results-quick …")
    common.add_argument("--data", metavar="DIR", help="folder of the image sets; default: SPARLOW_DATA")
    common.add_argument(
        "--with", metavar="FILE", dest="file", help="a Python file with METHODS and ENTRIES of your own"
    )
    common.add_argument("--methods", nargs="+", metavar="METHOD", help="these rows only, by name")
    commands.add_parser("list", parents=[common], help="print the experiments, their rows, cost and data")
    measuring = commands.add_parser("run", parents=[common], help="measure the rows that are missing, then report")
    measuring.add_argument("--jobs", type=int, default=1, help="rows at the same time, each a process; default: 1")
    measuring.add_argument("--threads", type=int, default=2, help="threads of each row; default: 2")
    measuring.add_argument("--again", action="store_true", help="measure also what has a row")
    reporting = commands.add_parser("report", parents=[common], help="write tables, figures and a page of the rows")
    reporting.add_argument("--format", choices=("latex", "csv"), help="also one file of that kind for each table")
    reporting.add_argument("--document", metavar="FILE", help="a Markdown file whose marked places are filled")
    return parser


@dataclasses.dataclass(frozen=True)
class Selection:
    """Hold what the options of a command select."""

    experiments: tuple[Experiment, ...]
    output: pathlib.Path
    quick: bool = False
    on: str | None = None
    data: str | None = None
    seeds: int | None = None
    methods: tuple[str, ...] = ()
    threads: int | None = None
    every: tuple[Experiment, ...] = EXPERIMENTS

    @classmethod
    def of(cls, options: argparse.Namespace) -> Selection:
        """Check the options; a wrong name is an error now, not hours later."""
        every = EXPERIMENTS if options.file is None else joined(options.file)
        if options.file is not None and getattr(options, "jobs", 1) != 1:
            raise ValueError("--with adds methods to this process alone: leave --jobs out.")
        chosen = {e.name: e for name in options.experiments for e in named(name, every)} or {e.name: e for e in every}
        parts = ("results", "quick" if options.quick else "", options.on or "")
        output = options.output or HOME / "-".join(filter(None, parts))
        methods = tuple(options.methods or ())
        known = {name: None for e in chosen.values() for entry in e.entries for name in (entry.name, entry.method)}
        if unknown := [name for name in methods if name not in known]:
            raise ValueError(f"There is no method {unknown[0]!r} in {', '.join(chosen)}; there are {', '.join(known)}.")
        if options.seeds is not None and options.seeds < 1:
            raise ValueError(f"--seeds must be at least 1, got {options.seeds}.")
        for name in ("jobs", "threads"):
            if getattr(options, name, None) == 0:
                raise ValueError(f"--{name} must be a number such as 2, or -1 for all cores, got 0.")
        document = getattr(options, "document", None)
        if document is not None and not pathlib.Path(document).is_file():
            raise ValueError(f"There is no document {document} to fill.")
        given: dict[str, Any] = {n: getattr(options, n, None) for n in ("quick", "on", "data", "seeds", "threads")}
        return cls(tuple(chosen.values()), pathlib.Path(output), methods=methods, every=every, **given)

    def size(self, experiment: Experiment) -> Size:
        """Return the size of an experiment."""
        size = experiment.quick if self.quick else experiment.full
        return size if self.seeds is None else dataclasses.replace(size, seeds=self.seeds)

    def open_tasks(self, experiment: Experiment, again: bool = False) -> list[Task]:
        """Return the rows of an experiment that are missing, or all."""
        there = set() if again else row_file(experiment, self.output).done()
        whole = tasks(experiment, self.size(experiment), on=self.on, threads=self.threads, folder=self.data)
        return [task for task in whole if task.key not in there and self._chosen(task)]

    def _chosen(self, task: Task) -> bool:
        """Return whether --methods names the row, or its method where no row has just that name."""
        names = {entry.name for entry in task.experiment.entries}
        method = task.entry.method
        return not self.methods or task.entry.name in self.methods or (method in self.methods and method not in names)


# ── list ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def joined(file: str) -> tuple[Experiment, ...]:
    """Return the experiments with the entries of a user's file, whose methods become known."""
    if not pathlib.Path(file).is_file():
        raise ValueError(f"There is no file {file} with METHODS and ENTRIES.")
    names = runpy.run_path(file)
    entries = names.get("ENTRIES", {})
    if unknown := [name for name in entries if name not in {e.name for e in EXPERIMENTS}]:
        raise ValueError(f"ENTRIES of {file} names no experiment by {unknown[0]!r}; `list` names them.")
    METHODS.update(names.get("METHODS", {}))
    return tuple(dataclasses.replace(e, entries=(*e.entries, *entries.get(e.name, ()))) for e in EXPERIMENTS)


def _list(selection: Selection, arguments: argparse.Namespace) -> int:
    frame = overview(selection)
    print(frame.apply(lambda column: column.str.ljust(column.str.len().max())).to_string(index=False, justify="left"))
    folder = datasets.named_folder(selection.data)
    sets = f"image sets in {folder}" if folder else "no folder of image sets is set (--data or SPARLOW_DATA)"
    _say(f"Rows are counted in {selection.output}, which --output names; {sets}.")
    return OK


def overview(selection: Selection) -> pd.DataFrame:
    """Return name, rows that are there, cost of the others, data and title of each experiment."""
    rows = []
    for experiment in selection.experiments:
        ready, count = state(experiment, selection.size(experiment), selection.output, selection.on)
        sets = experiment.data if selection.on is None else (selection.on,)
        need = [name if datasets.available(name, selection.data) else f"{name} (missing)" for name in sets]
        left = _duration(_seconds_left(selection, experiment)) if ready < count else "–"
        rows.append((experiment.name, f"{ready} of {count}", left, ", ".join(need), experiment.title))
    return pd.DataFrame(rows, columns=["name", "rows", "cost", "data", "title"])


def _seconds_left(selection: Selection, experiment: Experiment) -> float:
    """Estimate the seconds of the open rows by other seeds of the entry, by all rows, or by what is planned."""
    rows = row_file(experiment, selection.output).read()
    taken = {row["key"]: row["total_seconds"] for row in rows if row["status"] == "done"}
    own = experiment.quick if selection.quick else experiment.full
    planned = 60 * own.minutes / max(len(tasks(experiment, own, on=selection.on)), 1)
    usual = sum(taken.values()) / len(taken) if taken else planned
    left = 0.0
    for task in selection.open_tasks(experiment):
        alike = [taken[key] for seed in range(_SEEDS) if (key := task.entry.key(seed)) in taken]
        left += sum(alike) / len(alike) if alike else usual
    return left


# ── run ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _run(selection: Selection, arguments: argparse.Namespace) -> int:
    work = [task for one in selection.experiments for task in selection.open_tasks(one, arguments.again)]
    missing = unreadable(work)
    for name, reason in missing.items():
        _say(f"What needs {name} is left out. {reason}")
    work = [task for task in work if task.entry.setting.data not in missing]
    progress = Progress(len(work))
    try:
        run(work, selection.output, jobs=arguments.jobs, again=arguments.again, report=progress)
    except KeyboardInterrupt:
        said = f"{progress.ready} of {len(work)} rows are kept in {selection.output}"
        return _stop(f"interrupted; {said}: the same command goes on from there.", INTERRUPTED)
    for reason, rows in progress.failed.items():
        more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
        _say(f"{rows[0]}{more} failed: {reason}")
    if progress.elsewhere:
        _say(f"{progress.elsewhere} of {len(work)} rows were left to another run.")
    written = write(selection)
    if not written and not progress.elsewhere:
        advice = " --on digits needs no image set." if missing else ""
        return _stop(f"{selection.output} has no rows to report on.{advice}", WRONG_USE if missing else WORK_FAILED)
    return WORK_FAILED if progress.failed else WRONG_USE if missing else OK


def unreadable(work: Sequence[Task]) -> dict[str, str]:
    """Load the image sets that rows need; return those that are missing or damaged, each with what to do about it."""
    found = {}
    for name, folder in dict.fromkeys((task.entry.setting.data, task.folder) for task in work):
        try:
            datasets.loaded(name, folder)
        except (OSError, ValueError) as error:
            found[name] = str(error)
    return found


class Progress:
    """Report each row, with the time left as judged by the rows so far."""

    def __init__(self, count: int) -> None:
        self.count, self.ready, self.elsewhere, self.began = count, 0, 0, time.perf_counter()
        self.failed: dict[str, list[str]] = {}  # reason: rows

    def __call__(self, row: Row | None, task: Task) -> None:
        """Count one row more, or one that another run has."""
        if row is None:
            self.elsewhere += 1
            return
        self.ready += 1
        if row["status"] == "failed":
            self.failed.setdefault(row["reason"], []).append(_place(task))
        left = (time.perf_counter() - self.began) / self.ready * (self.count - self.ready - self.elsewhere)
        values = ", ".join(f"{name} {value:.2f}" for name, value in row.get("accuracy", {}).items())
        said = f"{values or row.get('reason', 'kept')} ({row['total_seconds']:.0f} s, {row['peak_memory_mb']} MB)"
        _say(f"[{self.ready} of {self.count}, {_duration(left)} left] {_place(task)}: {said}")


def _place(task: Task) -> str:
    """Return which row it is, in words."""
    entry = task.entry
    where = " ".join(part for part in (task.experiment.name, entry.panel, entry.name) if part)
    return f"{where}{'' if entry.x is None else f' at {entry.x:g}'}, seed {task.seed}"


# ── report ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _report(selection: Selection, arguments: argparse.Namespace) -> int:
    if write(selection, arguments.document, arguments.format):
        return OK
    return _stop(f"{selection.output} has no rows to report on.", WORK_FAILED)


def write(selection: Selection, document: str | None = None, form: str | None = None) -> list[pathlib.Path]:
    """Write figures and tables of all rows that are there, print the names of the files, and return them."""
    files = []
    figures = None if document is None else pathlib.Path(document).parent / "images" / "evidence"
    found = chapters(selection.every, selection.output, selection.size, on=selection.on, pictures=figures)
    if not found:
        return []
    quick, on = ", quick" if selection.quick else "", f", on {selection.on}" if selection.on else ""
    title = f"Reproduction{quick}{on}"
    text, web = selection.output / "report.md", selection.output / "report.html"
    text.write_text(f"# {title}\n\n{markdown(found, selection.output)}", encoding="utf-8")
    web.write_text(page(found, title, selection.quick), encoding="utf-8")
    if document is not None:
        texts = {"claims": claims_table(selection.output).markdown(), "counts": counts(selection.output)}
        files += fill(document, found, texts)
    for chapter in found if form is not None else ():
        files.append(selection.output / f"{chapter.experiment.name}.{'tex' if form == 'latex' else 'csv'}")
        table = chapter.table.latex() if form == "latex" else chapter.table.csv()
        files[-1].write_text(table, encoding="utf-8")
    written = [text, web, *files, *(chapter.picture for chapter in found if chapter.picture is not None)]
    print("\n".join(map(str, written)), flush=True)
    return written


# ── words ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _stop(text: str, code: int) -> int:
    _say(f"python -m evidence: error: {text}")
    return code


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


if __name__ == "__main__":
    sys.exit(main())
