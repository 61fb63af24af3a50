"""What the commands say and where: results on stdout, notes, progress and errors on stderr."""

from __future__ import annotations

import contextlib
import json
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .options import WRONG_USE

OK, WORK_FAILED, INTERRUPTED = 0, 1, 130
# names in files of other people must not move the cursor, clear the screen or rename the window
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(9), *range(11, 32), *range(127, 160))}


def harmless(text: str) -> str:
    """Return a text with its control characters, but line ends and tabs, written as escapes."""
    return text.translate(_CONTROLS)


class UserError(Exception):
    """An error for the user, with the exit code of the command."""

    def __init__(self, message: str, code: int = WRONG_USE) -> None:
        super().__init__(message)
        self.code = code


class Terminal:
    """Where a command speaks.

    On a terminal there are bars and notes. In a pipe a stage of the work is named once it has been silent for
    ``PATIENCE`` seconds, and again after ten seconds and every half minute. With ``quiet`` there is nothing of both.
    """

    PATIENCE = 1.5

    def __init__(self, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json = as_json
        self.quiet = quiet
        self.lively = not quiet and sys.stderr.isatty()
        self._stage = ""
        self._ended = threading.Event()

    def __enter__(self) -> Terminal:
        if not (self.quiet or self.lively):
            threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()

    def stage(self, text: str) -> None:
        """Say what the command does from now on: at once on a terminal, in a pipe if it takes longer."""
        self._stage = text
        self.note(text)

    def _watch(self) -> None:
        """Name stages that take long, from a thread of its own."""
        told, shown, again = time.monotonic(), "", 10.0
        while not self._ended.wait(0.1):
            silent, stage = time.monotonic() - told, self._stage
            if stage and silent >= (self.PATIENCE if stage != shown else again):
                still = f" (still, after {silent:.0f} s)" if stage == shown else ""
                print(harmless(f"sparlow: {stage} …{still}"), file=sys.stderr, flush=True)
                told, again, shown = time.monotonic(), 30.0 if stage == shown else 10.0, stage

    def result(self, payload: dict[str, Any], text: str) -> None:
        """Print the outcome of a command, for scripts or for people."""
        shown = json.dumps(plain(payload), indent=2, allow_nan=False) if self.as_json else text
        coding = sys.stdout.encoding or "utf-8"
        print(harmless(shown).encode(coding, "backslashreplace").decode(coding), flush=True)

    def note(self, text: str) -> None:
        """Print what is going on, on a terminal."""
        if self.lively:
            print(harmless(text), file=sys.stderr, flush=True)

    def tell(self, text: str) -> None:
        """Print a choice that was made for the user, unless quiet."""
        if not self.quiet:
            print(harmless(f"sparlow: {text}"), file=sys.stderr, flush=True)

    def warn(self, text: str) -> None:
        """Print what someone should know, in any case."""
        print(harmless(f"sparlow: warning: {text}"), file=sys.stderr, flush=True)

    def error(self, text: str) -> None:
        """Print why a command ends here."""
        print(harmless(f"sparlow: error: {text}"), file=sys.stderr, flush=True)

    @contextlib.contextmanager
    def progress(self, title: str, total: int) -> Iterator[Callable[[str], None]]:
        """Show a bar that the given function moves on by one, with words about the step; in a pipe, a stage each."""
        done, began, bar = 0, time.monotonic(), self._bar(title, total) if self.lively else None

        def move(words: str) -> None:
            nonlocal done
            done += 1
            if bar is None:
                self.stage(": ".join(filter(None, [f"{title}, {done} of {total}", words])))
                return
            left = (time.monotonic() - began) / done * (total - done)
            bar.update(bar.task_ids[0], advance=1, words=words + f"  at most {left:.0f} s left" * (done < total))

        with bar or contextlib.nullcontext():
            yield move

    def _bar(self, title: str, total: int) -> Any:
        """Return a bar of rich, None where it is not installed."""
        try:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
        except ImportError:
            return None
        columns = (TextColumn("{task.description}"), BarColumn(30), MofNCompleteColumn(), TimeElapsedColumn())
        bar = Progress(*columns, TextColumn("{task.fields[words]}"), console=Console(stderr=True))
        bar.add_task(title, total=total, words="")
        return bar


class InterruptGuard:
    """Let the first Ctrl-C interrupt, and none after it or after :meth:`hold`: what was learned is saved first."""

    deferrable = True  # until a kernel returns, see parallel.py

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._held = False
        self._before: Any = None
        self.came = False

    def __call__(self, number: int, frame: Any) -> None:
        """Handle an interrupt."""
        first, self.came = not self.came, True
        if first and not self._held:
            raise KeyboardInterrupt
        self._terminal.warn("stopping; what was learned is saved first.")

    def hold(self) -> None:
        """Let no interrupt through any more."""
        self._held = True

    def __enter__(self) -> InterruptGuard:
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self)
        return self

    def __exit__(self, *error: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)


def plain(value: Any) -> Any:
    """Return arrays, numpy's numbers, tuples and NaN as JSON knows them."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def table(rows: Sequence[Sequence[Any]], head: Sequence[str] = ()) -> str:
    """Return rows in aligned columns: words to the left, numbers to the right."""
    cells = [[str(cell) for cell in row] for row in ([head] if head else []) + list(rows)]
    widths = [max(len(row[place]) for row in cells) for place in range(len(cells[0]))]
    numeric = [
        all(not isinstance(row[place], str) or row[place][:1] in "0123456789." for row in rows)
        for place in range(len(cells[0]))
    ]
    lines = [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in cells
    ]
    return "\n".join(lines)
