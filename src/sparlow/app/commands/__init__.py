"""The commands ``sparlow fit | transform | predict | evaluate | explain | inspect | report | features``.

A sub-command is a module with ``SUMMARY``, ``EXAMPLES``, ``add_arguments(parser)`` and ``run(arguments, terminal)``,
and a line in ``COMMANDS``.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from ...models import VERSION
from ..terminal import INTERRUPTED, OK, WORK_FAILED, WRONG_USE, Terminal, UserError
from . import evaluate, explain, features, fit, inspect, predict, report, transform

COMMANDS: dict[str, Any] = {
    "fit": fit,
    "transform": transform,
    "predict": predict,
    "evaluate": evaluate,
    "explain": explain,
    "inspect": inspect,
    "report": report,
    "features": features,
}

_EPILOG = """\
DATA is a .npz (X or images, y or labels), .npy, .csv or .parquet file, a folder of images with a
sub-folder per class, or one image.

examples:
  sparlow fit faces/ -o faces.sparlow
  sparlow evaluate faces.sparlow new_faces/
  sparlow report faces.sparlow faces/ -o report.html

exit codes:
  0    done
  1    the work failed, for instance samples that nothing can be learned from
  2    wrong usage, or a file that is missing, foreign or damaged
  130  interrupted; a fit under way saves the best model so far
"""


class _Parser(argparse.ArgumentParser):
    """A parser that says what is wrong without printing every option."""

    def error(self, message: str) -> NoReturn:
        """End the command with a message about its usage."""
        self.exit(WRONG_USE, f"{self.prog}: error: {message}. {self.prog} --help lists what there is.\n")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    whole = _Parser(
        prog="sparlow",
        description="Small, telling image representations: sparse codes and a projection, learned together.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    whole.add_argument("--version", action="version", version=f"sparlow {VERSION}")
    commands = whole.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        sub = commands.add_parser(
            name,
            help=command.SUMMARY,
            description=f"{command.SUMMARY[0].upper()}{command.SUMMARY[1:]}.",
            epilog=f"examples:\n{command.EXAMPLES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(sub)
        manners = sub.add_argument_group("output")
        manners.add_argument("--json", action="store_true", help="print the result as one JSON document")
        manners.add_argument("--quiet", action="store_true", help="no progress and no notes, also on a terminal")
        manners.add_argument("--traceback", action="store_true", help="show where in the program an error arose")
    return whole


def main(words: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    try:
        arguments = parser().parse_args(words)
    except SystemExit as end:  # argparse has said what is wrong, or printed the help
        return int(end.code or 0)
    terminal = Terminal(arguments.json, arguments.quiet)
    try:
        with terminal, _warnings_as_lines(terminal):
            return int(COMMANDS[arguments.command].run(arguments, terminal) or OK)
    except KeyboardInterrupt:
        terminal.error("interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except Exception as error:
        if arguments.traceback:
            traceback.print_exc()
        return _tell(error, terminal)


def _tell(error: Exception, terminal: Terminal) -> int:
    """Print the message of an error and return the exit code."""
    message = " ".join(str(error).split())
    if isinstance(error, UserError):
        terminal.error(message)
        return error.code
    if isinstance(error, ImportError):
        terminal.error(message)
        return WRONG_USE
    if isinstance(error, (ValueError, OSError, MemoryError)):
        terminal.error(message or type(error).__name__)
        return WORK_FAILED
    terminal.error(f"unexpected {type(error).__name__}: {message}. --traceback shows where.")
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
