"""How far a long loop is, and how long it will take."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def track(items: Iterable[T], total: int, what: str, verbose: int) -> Iterator[T]:
    """Yield the items, with a bar and the time left on a terminal where ``verbose`` and rich is installed."""
    if not (verbose and sys.stderr.isatty()):
        yield from items
        return
    try:
        from rich.console import Console
        from rich.progress import track as bar
    except ImportError:
        yield from items
        return
    yield from bar(items, what, total=total, console=Console(stderr=True), transient=True)
