"""The options of ``reproduce``, and what it prints."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from .plan import Experiment
from .rows import Row
from .run import Task, done, run, tasks
from .specs import EXPERIMENTS, named


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options, for this command or as a part of another."""
    parser.add_argument("experiments", nargs="*", metavar="NAME", help="table1, fig5c, fig6 …; all by default")
    parser.add_argument("--list", action="store_true", help="print all experiments, their state, cost and data")
    parser.add_argument("--quick", action="store_true", help="a small version of each: few samples, steps and seeds")
    parser.add_argument("--on", metavar="SET", help="run on another image set, such as digits, instead of the paper's")
    parser.add_argument("--output", metavar="DIR", help="folder of rows, figures and page (results, or results-quick)")
    parser.add_argument("--data", metavar="DIR", help="folder of the image sets (by default SPARLOW_DATA)")
    parser.add_argument("--seeds", type=int, metavar="N", help="number of seeds instead of the experiment's own")
    parser.add_argument("--methods", nargs="+", metavar="METHOD", help="these methods only")
    parser.add_argument("--jobs", type=int, default=1, help="rows at the same time, each a process (1)")
    parser.add_argument("--threads", type=int, default=2, help="threads of each row (2)")
    parser.add_argument("--again", action="store_true", help="measure also what has a row")


def execute(options: argparse.Namespace) -> int:
    """Run what the options say; 0 if no row failed."""
    chosen = [e for name in options.experiments for e in named(name)] or list(EXPERIMENTS)
    output = options.output or ("results-quick" if options.quick else "results")
    work = [task for experiment in chosen for task in _tasks(experiment, options)]
    if options.list:
        for experiment in chosen:
            print(_state(experiment, [t for t in work if t.experiment is experiment], output, options.quick))
        return 0
    left = [task for task in work if options.again or task.key not in done(task.experiment, output)]
    line = _Lines(len(left))
    failed = run(left, output, jobs=options.jobs, again=True, report=line)
    return 1 if failed else 0


def _tasks(experiment: Experiment, options: argparse.Namespace) -> list[Task]:
    from dataclasses import replace

    size = experiment.quick if options.quick else experiment.full
    size = size if options.seeds is None else replace(size, seeds=options.seeds)
    found = tasks(experiment, size, on=options.on, threads=options.threads, folder=options.data)
    return [
        t for t in found if not options.methods or t.entry.name in options.methods or t.entry.method in options.methods
    ]


def _state(experiment: Experiment, work: Sequence[Task], output: str, quick: bool) -> str:
    have = done(experiment, output)
    size = experiment.quick if quick else experiment.full
    ready = sum(task.key in have for task in work)
    return (
        f"{experiment.name:8} {ready:4d} of {len(work):4d} rows  about {size.minutes:5.0f} min  "
        f"{', '.join(experiment.data):12} {experiment.title}"
    )


class _Lines:
    """A line for each row, with the time left as judged from the rows so far."""

    def __init__(self, count: int) -> None:
        self.count, self.ready, self.began = count, 0, time.perf_counter()

    def __call__(self, row: Row, task: Task) -> None:
        self.ready += 1
        spent = time.perf_counter() - self.began
        left = spent / self.ready * (self.count - self.ready) / 60
        values = " ".join(f"{k} {v:.2f}" for k, v in row.get("accuracy", {}).items()) or row.get("reason", "")
        place = f" x={task.entry.x:g}" if task.entry.x is not None else ""
        print(
            f"[{self.ready}/{self.count}, {left:.0f} min left] {task.experiment.name} {task.entry.panel} "
            f"{task.entry.name}{place} seed {task.seed}: {values} ({row['total_seconds']:.0f} s, {row['peak_memory_mb']} MB)",
            file=sys.stderr,
            flush=True,
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command by itself."""
    parser = argparse.ArgumentParser(prog="python -m sparlow.experiments", description=__doc__)
    add_arguments(parser)
    return execute(parser.parse_args(arguments))
