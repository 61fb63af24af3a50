"""``sparlow reproduce [NAME …]``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ...experiments import command
from ...experiments.command import EXAMPLES, SUMMARY, add_arguments
from ...experiments.run import Task
from ...experiments.run import run as measure
from ..terminal import INTERRUPTED, OK, WORK_FAILED, WRONG_USE, Terminal, UserError, table

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
    missing: dict[str, str] = {}
    failed: dict[str, list[str]] = {}
    if not arguments.report:
        work = plan.open_tasks(arguments.again)
        missing = command.unreadable(work)
        for name, reason in missing.items():
            terminal.warn(f"What needs {name} is left out. {reason}")
        failed = _measure([task for task in work if task.entry.setting.data not in missing], plan, arguments, terminal)
    written = [str(path) for path in command.write(plan, arguments.document)]
    if not written:
        advice = " --on digits needs no image set." if missing else ""
        raise UserError(f"{plan.output} has no rows to report on.{advice}", WRONG_USE if missing else WORK_FAILED)
    count = sum(map(len, failed.values()))
    payload = {"written": written, "failed": count, "reasons": failed, "missing": list(missing)}
    terminal.result(payload, "\n".join(written))
    return WORK_FAILED if failed else WRONG_USE if missing else OK


def _measure(
    work: Sequence[Task], plan: command.Plan, arguments: argparse.Namespace, terminal: Terminal
) -> dict[str, list[str]]:
    """Rows that failed, by reason."""
    progress = command.Progress(len(work), terminal.note)
    try:
        measure(work, plan.output, jobs=arguments.jobs, again=True, report=progress)
    except KeyboardInterrupt:
        said = f"{progress.ready} of {len(work)} rows are kept in {plan.output}: the same command goes on from there"
        raise UserError(f"interrupted; {said}.", INTERRUPTED) from None
    for reason, rows in progress.failed.items():
        more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
        terminal.warn(f"{rows[0]}{more} failed: {reason}")
    return progress.failed
