"""The commands of ``sparlow``: each is a module with ``run(arguments, terminal)``, declared in ``options.py``."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from ..options import WRONG_USE, parser
from ..terminal import INTERRUPTED, OK, WORK_FAILED, Terminal, UserError

TRACEBACK = "SPARLOW_TRACEBACK"  # the environment variable that asks where an error arose


def main(words: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    whole = parser(importlib.metadata.version("sparlow"))
    try:
        arguments = whole.parse_args(words)
    except SystemExit as end:  # argparse has said what is wrong, or printed the help
        return int(end.code or 0)
    if arguments.command is None:
        whole.print_help()
        return OK
    terminal = Terminal(arguments.json, arguments.quiet)
    try:
        with terminal, _warnings_as_lines(terminal):
            command = importlib.import_module(f"{__name__}.{arguments.command}")
            return int(command.run(arguments, terminal) or OK)
    except KeyboardInterrupt:
        terminal.error("interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except Exception as error:
        if os.environ.get(TRACEBACK):
            traceback.print_exc()
        return _tell(error, terminal)


def _tell(error: Exception, terminal: Terminal) -> int:
    """Print the message of an error and return the exit code."""
    message = " ".join(str(error).split())
    if isinstance(error, (UserError, ImportError)):
        terminal.error(message)
        return getattr(error, "code", WRONG_USE)
    if isinstance(error, (ValueError, OSError, MemoryError)):
        terminal.error(message or type(error).__name__)
        return WORK_FAILED
    terminal.error(f"unexpected {type(error).__name__}: {message}. {TRACEBACK}=1 shows where.")
    return WORK_FAILED


@contextlib.contextmanager
def _warnings_as_lines(terminal: Terminal) -> Iterator[None]:
    """Print warnings as lines of the command."""
    said = set()

    def show(message: Any, *_: Any, **__: Any) -> None:
        text = " ".join(str(message).split())
        kind = text if text.startswith("left out") else re.sub(r"\d+(\.\d+)?", "#", text)
        if kind not in said:  # once, not once for each fold
            said.add(kind)
            terminal.warn(text)

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        warnings.showwarning = show
        yield
