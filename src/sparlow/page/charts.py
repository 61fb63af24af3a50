"""Small charts as SVG text that follows the theme of the page."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]


def curve(x: ArrayLike, y: ArrayLike, title: str, *, marked: int | None = None, words: str = "") -> str:
    """A line with dots over whole steps.

    Parameters
    ----------
    x, y : arrays of shape (n,)
        Points; those of which y is not finite are left out.
    title : str
        What y is.
    marked : int, optional
        A value of x to mark, with ``words`` beside it.
    words : str, optional
        What the mark means.

    """
    steps, values = np.asarray(x, float), np.asarray(y, float)
    good = np.isfinite(values)
    steps, values = steps[good], values[good]
    wide, tall, left, bottom, top = 350, 220, 50, 34, 28
    low, high = _range(values)
    across = (wide - left - 16) / (np.ptp(steps) or 1)
    X = left + (steps - steps.min()) * across
    Y = tall - bottom - (values - low) / (high - low) * (tall - bottom - top)
    ticks = "".join(
        f'<line class="axis" x1="{left}" x2="{wide - 8}" y1="{place:.1f}" y2="{place:.1f}"/>'
        f'<text x="{left - 6}" y="{place + 4:.1f}" text-anchor="end">{value:.4g}</text>'
        for value, place in _levels(low, high, tall - bottom, top)
    )
    every = max(1, int(np.ceil(len(steps) / 11)))
    below = "".join(
        f'<text x="{a:.1f}" y="{tall - bottom + 16}" text-anchor="middle">{value:.0f}</text>'
        for a, value in list(zip(X, steps, strict=True))[::every]
    )
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(X, Y, strict=True))
    dots = "".join(
        f'<circle class="dot" cx="{a:.1f}" cy="{b:.1f}" r="3"><title>step {s:.0f}: {v:.5g}</title></circle>'
        for a, b, s, v in zip(X, Y, steps, values, strict=True)
    )
    mark = _mark(X, Y, steps, marked, words, wide)
    return (
        f'<svg viewBox="0 0 {wide} {tall}" width="{wide}" role="img" aria-label="{html.escape(title)}">'
        f'<text class="title" x="4" y="14">{html.escape(title)}</text>{ticks}{below}'
        f'<text x="{(left + wide) / 2}" y="{tall - 4}" text-anchor="middle">step</text>'
        f'<polyline class="curve" points="{points}"/>{dots}{mark}</svg>'
    )


def _range(y: Array) -> tuple[float, float]:
    low, high = float(y.min()), float(y.max())
    room = 0.05 * (high - low) or max(abs(high), 1.0) * 0.05
    return low - room, high + room


def _levels(low: float, high: float, bottom: float, top: float) -> list[tuple[float, float]]:
    """Round values within the range, three to six of them, and where they are drawn."""
    rough = (high - low) / 4
    power = 10.0 ** np.floor(np.log10(rough))
    step = power * next(factor for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough)
    values = np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step
    return [(float(v), bottom - (v - low) / (high - low) * (bottom - top)) for v in values]


def _mark(X: Array, Y: Array, x: Array, marked: int | None, words: str, wide: int) -> str:
    place = np.flatnonzero(x == marked)
    if marked is None or not len(place):
        return ""
    a, b = X[place[0]], Y[place[0]]
    side = ("end", -10) if a > wide / 2 else ("start", 10)
    return (
        f'<circle class="mark" cx="{a:.1f}" cy="{b:.1f}" r="7"/>'
        f'<text x="{a + side[1]:.1f}" y="{b + 20:.1f}" text-anchor="{side[0]}">{html.escape(words)}</text>'
    )


def confusion(counts: Array, classes: Sequence[str], title: str) -> str:
    """Counts (c, c) as a grid, true classes down and labels given across; shades follow the share of a row."""
    c = len(classes)
    side = 44 if c <= 12 else 30 if c <= 24 else max(6, 720 // c)
    named = c <= 40
    longest = max(len(label) for label in classes)
    margin = min(150, 16 + 8 * longest) if named else 20
    turn = "" if longest <= 3 else " rotate(-90)"
    anchor = "start" if turn else "middle"
    span = margin + c * side
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    cells = []
    for true, given in np.argwhere(counts):
        x, y, count = margin + given * side, margin + true * side, counts[true, given]
        words = html.escape(f"{classes[true]} taken for {classes[given]}: {count} ({100 * share[true, given]:.1f} %)")
        cells.append(
            f'<rect class="heat" x="{x + 0.5}" y="{y + 0.5}" width="{side - 1}" height="{side - 1}" '
            f'fill-opacity="{0.12 + 0.78 * float(share[true, given]) ** 0.6:.2f}"><title>{words}</title></rect>'
        )
        if side >= 28:
            kind = "count strong" if share[true, given] > 0.5 else "count"
            middle = f'x="{x + side / 2}" y="{y + side / 2 + 4}"'
            cells.append(f'<text class="{kind}" {middle} pointer-events="none">{count}</text>')
    lines = "".join(
        f'<path class="axis" d="M{margin} {margin + k * side}H{span}M{margin + k * side} {margin}V{span}"/>'
        for k in range(c + 1)
    )
    names = ""
    if named:
        names = "".join(
            f'<text x="{margin - 6}" y="{margin + (k + 0.5) * side + 4}" text-anchor="end">{_cut(label)}</text>'
            f'<text transform="translate({margin + (k + 0.5) * side + (4 if turn else 0)} {margin - 6}){turn}" '
            f'text-anchor="{anchor}">{_cut(label)}</text>'
            for k, label in enumerate(classes)
        )
    return (
        f'<svg viewBox="0 0 {span + 2} {span + 2}" width="{span + 2}" role="img" aria-label="{html.escape(title)}">'
        f"{lines}{''.join(cells)}{names}</svg>"
    )


def _cut(label: str) -> str:
    return html.escape(label if len(label) <= 18 else label[:17] + "…")
