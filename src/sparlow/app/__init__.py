"""The application: the command ``sparlow``, the readers of users' files, and the page that shows a model.

The library never imports it.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    from .commands import main as run

    return run(words)
