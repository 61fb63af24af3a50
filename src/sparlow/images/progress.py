"""How far a long loop is, and how long it will take."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


def track(items: Iterable[T], total: int, what: str, verbose: int) -> Iterator[T]:
    """Yield the items, with a bar and the time left on a terminal where ``verbose`` and rich is installed.

    The time left is that of the items so far, each taken to last as long as their mean.
    """
    if not (verbose and sys.stderr.isatty()):
        yield from items
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    except ImportError:
        yield from items
        return
    columns: tuple[Any, ...] = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TextColumn("{task.fields[left]}"), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total, left="")
        for done, item in enumerate(items, 1):
            seconds = (bar.tasks[0].elapsed or 0.0) / done * (total - done)
            bar.update(task, completed=done, left=f"{seconds:.0f} s left")
            yield item
