"""Judgements as tables, for the terminal and the page."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..evaluation import Judgement


def lines_of(rows: list[Judgement], *, seconds: bool) -> tuple[list[list[Any]], list[str]]:
    """Return the cells and the head of a table of judgements: accuracies, balanced accuracy of the first column."""
    first, *others = rows[0].predicted
    head = ["", "numbers", f"{first} %", "balanced %", *(f"{which} %" for which in others), "fit (s)"]
    lines = []
    for row in rows:
        balanced = f"{100 * row.balanced(first):.2f}" if first in row.predicted else ""
        cells = [row.name, row.dimension, row.percent(first), balanced, *(row.percent(other) for other in others)]
        lines.append([*cells, "" if np.isnan(row.fit_seconds) else f"{row.fit_seconds:.2f}"])
    return (lines, head) if seconds else ([line[:-1] for line in lines], head[:-1])
