"""``sparlow reproduce [NAME …]``."""

from __future__ import annotations

import argparse

from ..experiments import command
from ..experiments.command import EXAMPLES, SUMMARY, add_arguments
from ..experiments.run import run as measure
from .terminal import INTERRUPTED, OK, WORK_FAILED, WRONG_USE, Terminal, UserError, table

__all__ = ["EXAMPLES", "SUMMARY", "add_arguments", "run"]


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """List, measure, or report on what was measured."""
    try:
        plan = command.Plan.of(arguments)
    except ValueError as error:
        raise UserError(str(error)) from error
    if arguments.list:
        rows = command.overview(plan)
        names = ("name", "rows", "cost", "data", "title")
        terminal.result({"experiments": [dict(zip(names, row, strict=True)) for row in rows]}, table(rows, names))
        terminal.note(command.places(plan))
        return OK
    missing = [] if arguments.report else plan.missing()
    for name in missing:
        terminal.warn(f"{name} is missing, what needs it is left out. {command.where(name, plan)}")
    failed = 0 if arguments.report else _measure(plan, arguments, terminal)
    written = [str(path) for path in command.write(plan, arguments.document)]
    if not written:
        raise UserError(f"{plan.output} has no rows to report on.", WRONG_USE if missing else WORK_FAILED)
    terminal.result({"written": written, "failed": failed, "missing": missing}, "\n".join(written))
    return WORK_FAILED if failed else WRONG_USE if missing else OK


def _measure(plan: command.Plan, arguments: argparse.Namespace, terminal: Terminal) -> int:
    work = plan.open_tasks(arguments.again)
    progress = command.Progress(len(work), terminal.note)
    try:
        return measure(work, plan.output, jobs=arguments.jobs, again=True, report=progress)
    except KeyboardInterrupt:
        said = f"{progress.ready} of {len(work)} rows are kept in {plan.output}: the same command goes on from there"
        raise UserError(f"interrupted; {said}.", INTERRUPTED) from None
