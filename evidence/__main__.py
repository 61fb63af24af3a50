"""The options of ``reproduce``, and what it prints."""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import time
from collections.abc import Callable, Sequence

from .. import datasets
from .plan import Experiment, Size
from .report import chapters, fill, markdown, page
from .results import state
from .rows import Row
from .run import Task, done, row_file, tasks
from .specs import EXPERIMENTS, named

SUMMARY = "rerun the paper's tables and figures, and show them beside the printed values"
EXAMPLES = """\
  sparlow reproduce --list
  sparlow reproduce --quick
  sparlow reproduce table1 fig6 --data images/
  sparlow reproduce table1 --on digits --quick
  sparlow reproduce --report

Rows are kept as soon as they are measured: a run that was stopped goes on where it ended. The image sets are read
from the folder that --data or the environment variable SPARLOW_DATA names; digits needs none."""


_SEEDS = 10  # among which rows of the same entry are looked for
_OTHER = tuple(name for name in datasets.NAMES if datasets.of_one_shape(name))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of this command."""
    parser.add_argument("experiments", nargs="*", metavar="NAME", help="table1, fig5c, fig6 and so on; all by default")
    parser.add_argument("--list", action="store_true", help="print the experiments, their state, cost and data")
    parser.add_argument("--report", action="store_true", help="measure nothing: tables, figures and page of the rows")
    parser.add_argument("--quick", action="store_true", help="a small version of each: few samples, steps and seeds")
    parser.add_argument("--on", metavar="SET", choices=_OTHER, help=f"{', '.join(_OTHER)} instead of the paper's set")
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        help="default: results, results-quick, results-quick-digits …",
    )
    parser.add_argument("--data", metavar="DIR", help="folder of the image sets; default: SPARLOW_DATA")
    parser.add_argument("--seeds", type=int, metavar="N", help="so many seeds instead of the experiment's own number")
    parser.add_argument("--methods", nargs="+", metavar="METHOD", help="these rows only, by name")
    parser.add_argument("--jobs", type=int, default=1, help="rows at the same time, each a process; default: 1")
    parser.add_argument("--threads", type=int, default=2, help="threads of each row; default: 2")
    parser.add_argument("--again", action="store_true", help="measure also what has a row")
    parser.add_argument("--document", metavar="FILE", help="a Markdown file whose marked places are filled")


@dataclasses.dataclass(frozen=True)
class Plan:
    """What the options ask for."""

    experiments: tuple[Experiment, ...]
    output: pathlib.Path
    quick: bool = False
    on: str | None = None
    data: str | None = None
    seeds: int | None = None
    methods: tuple[str, ...] = ()
    threads: int | None = None

    @classmethod
    def of(cls, options: argparse.Namespace) -> Plan:
        """From the options of the command; a name or file that is not there is an error now, not hours later."""
        chosen = {e.name: e for name in options.experiments for e in named(name)} or {e.name: e for e in EXPERIMENTS}
        parts = ("results", "quick" if options.quick else "", options.on or "")
        output = options.output or "-".join(filter(None, parts))
        methods = tuple(options.methods or ())
        known = {name: None for e in chosen.values() for entry in e.entries for name in (entry.name, entry.method)}
        if unknown := [name for name in methods if name not in known]:
            raise ValueError(f"There is no method {unknown[0]!r} in {', '.join(chosen)}; there are {', '.join(known)}.")
        if options.seeds is not None and options.seeds < 1:
            raise ValueError(f"--seeds must be at least 1, got {options.seeds}.")
        for name in ("jobs", "threads"):
            if getattr(options, name) == 0:
                raise ValueError(f"--{name} must be a number such as 2, or -1 for all cores, got 0.")
        if options.document is not None and not pathlib.Path(options.document).is_file():
            raise ValueError(f"There is no document {options.document} to fill.")
        given = {name: getattr(options, name) for name in ("quick", "on", "data", "seeds", "threads")}
        return cls(tuple(chosen.values()), pathlib.Path(output), methods=methods, **given)

    def size(self, experiment: Experiment) -> Size:
        """Of an experiment."""
        size = experiment.quick if self.quick else experiment.full
        return size if self.seeds is None else dataclasses.replace(size, seeds=self.seeds)

    def sets(self, experiment: Experiment) -> tuple[str, ...]:
        """Image sets that an experiment needs."""
        return experiment.data if self.on is None else (self.on,)

    def tasks(self) -> list[Task]:
        """Rows to measure."""
        found: list[Task] = []
        for experiment in self.experiments:
            whole = tasks(experiment, self.size(experiment), on=self.on, threads=self.threads, folder=self.data)
            found += [task for task in whole if self._chosen(task)]
        return found

    def _chosen(self, task: Task) -> bool:
        """Whether --methods names the row, or its method where no row has just that name."""
        names = {entry.name for entry in task.experiment.entries}
        method = task.entry.method
        return not self.methods or task.entry.name in self.methods or (method in self.methods and method not in names)

    def open_tasks(self, again: bool = False) -> list[Task]:
        """Those without a row."""
        there = {experiment.name: done(experiment, self.output) for experiment in self.experiments}
        return [task for task in self.tasks() if again or task.key not in there[task.experiment.name]]


def unreadable(work: Sequence[Task]) -> dict[str, str]:
    """Image sets that rows need and that are missing or damaged, each with what to do about it."""
    found = {}
    for name, folder in dict.fromkeys((task.entry.setting.data, task.folder) for task in work):
        try:
            datasets.load(name, folder)
        except (OSError, ValueError) as error:
            found[name] = str(error)
    return found


def overview(plan: Plan) -> list[tuple[str, str, str, str, str]]:
    """Name, rows that are there, cost, data, title of each experiment."""
    rows = []
    for experiment in plan.experiments:
        size = plan.size(experiment)
        ready, count = state(experiment, size, plan.output, plan.on)
        need = ", ".join(
            name if datasets.available(name, plan.data) else f"{name} (missing)" for name in plan.sets(experiment)
        )
        left = _duration(_seconds_left(plan, experiment, size, count)) if ready < count else "–"
        rows.append((experiment.name, f"{ready} of {count}", left, need, experiment.title))
    return rows


def _seconds_left(plan: Plan, experiment: Experiment, size: Size, count: int) -> float:
    """Of the open rows: as the same took with other seeds, as rows took on the whole, or as the plan says."""
    rows = row_file(experiment, plan.output).read()
    taken = {row["key"]: row["total_seconds"] for row in rows if row["status"] == "done"}
    own = experiment.quick if plan.quick else experiment.full
    planned = 60 * own.minutes / max(len(tasks(experiment, own, on=plan.on)), 1)
    usual = sum(taken.values()) / len(taken) if taken else planned
    left = 0.0
    for task in plan.open_tasks():
        if task.experiment is experiment:
            alike = [taken[key] for seed in range(_SEEDS) if (key := task.entry.key(seed)) in taken]
            left += sum(alike) / len(alike) if alike else usual
    return left


def places(plan: Plan) -> str:
    """Where rows and image sets were looked for."""
    folder = datasets.named_folder(plan.data)
    sets = f"image sets in {folder}" if folder else "no folder of image sets is set (--data or SPARLOW_DATA)"
    return f"Rows are counted in {plan.output}, which --output names; {sets}."


def write(plan: Plan, document: str | None = None) -> list[pathlib.Path]:
    """Figures and tables of all rows that are there, not of those just measured alone; the files written."""
    pictures = None if document is None else pathlib.Path(document).parent / "images" / "evidence"
    found = chapters(EXPERIMENTS, plan.output, plan.size, on=plan.on, pictures=pictures)
    if not found:
        return []
    path = plan.output / "report.md"
    path.write_text(f"# {_title(plan)}\n\n{markdown(found, plan.output)}", encoding="utf-8")
    if document is not None:
        fill(document, found)
    web = plan.output / "report.html"
    web.write_text(page(found, _title(plan), plan.quick), encoding="utf-8")
    return [path, web, *(chapter.picture for chapter in found if chapter.picture is not None)]


def _title(plan: Plan) -> str:
    return "Reproduction" + (", quick" if plan.quick else "") + (f", on {plan.on}" if plan.on else "")


class Progress:
    """Words on each row, with the time left as judged by the rows so far."""

    def __init__(self, count: int, say: Callable[[str], None]) -> None:
        self.count, self.ready, self.began, self.say = count, 0, time.perf_counter(), say
        self.failed: dict[str, list[str]] = {}  # reason: rows

    def __call__(self, row: Row, task: Task) -> None:
        """One row more."""
        self.ready += 1
        if row["status"] == "failed":
            self.failed.setdefault(row["reason"], []).append(f"{place(task)}, seed {task.seed}")
        left = (time.perf_counter() - self.began) / self.ready * (self.count - self.ready)
        self.say(f"[{self.ready} of {self.count}, {_duration(left)} left] {describe(row, task)}")


def place(task: Task) -> str:
    """Which row it is, in words."""
    entry = task.entry
    where = " ".join(part for part in (task.experiment.name, entry.panel, entry.name) if part)
    return where + (f" at {entry.x:g}" if entry.x is not None else "")


def describe(row: Row, task: Task) -> str:
    """A row in a line."""
    values = ", ".join(f"{name} {value:.2f}" for name, value in row.get("accuracy", {}).items())
    said = values or row.get("reason", "kept")
    return f"{place(task)}, seed {task.seed}: {said} ({row['total_seconds']:.0f} s, {row['peak_memory_mb']} MB)"


def _duration(seconds: float) -> str:
    return (
        f"{seconds:.0f} s"
        if seconds < 90
        else f"{seconds / 60:.0f} min"
        if seconds < 5400
        else f"{seconds / 3600:.1f} h"
    )
