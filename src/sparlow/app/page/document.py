"""One self-contained HTML file from titled sections: style and scripts are inside, nothing is fetched."""

from __future__ import annotations

import base64
import html
import importlib.resources
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Section:
    """A titled part of a page: plain text, HTML, and a sentence or two under the title."""

    title: str
    body: str
    lead: str = ""

    @property
    def anchor(self) -> str:
        """Return the name that links use."""
        return re.sub(r"\W+", "-", self.title.lower()).strip("-") or "section"


def resource(name: str) -> str:
    """Return the text of a file that ships with the page."""
    return importlib.resources.files(__package__).joinpath("resources", name).read_text(encoding="utf-8")


def document(
    title: str,
    sections: Iterable[Section],
    *,
    lead: str = "",
    facts: Mapping[str, Any] | None = None,
    data: Any = None,
    scripts: Sequence[str] = (),
    footer: str = "",
) -> str:
    """Return a page that opens without a network; ``data`` is JSON for the scripts, in the element ``#data``."""
    sections = list(sections)
    links = "".join(f'<a href="#{part.anchor}">{html.escape(part.title)}</a>' for part in sections)
    cards = "\n".join(_card(part) for part in sections)
    known = "".join(
        f"<div><dt>{html.escape(k)}</dt><dd>{html.escape(str(v))}</dd></div>" for k, v in (facts or {}).items()
    )
    payload = "" if data is None else f'<script id="data" type="application/json">{_safe_json(data)}</script>'
    code = "".join(f"<script>{script}</script>" for script in (resource("page.js"), *scripts))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{html.escape(title)}</title>
<style>{resource("page.css")}</style>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<div class="page">
<header class="top"><h1>{html.escape(title)}</h1>
<button id="theme" type="button" title="light or dark">Dark</button></header>
{f'<p class="lead">{html.escape(lead)}</p>' if lead else ""}
{f'<dl class="facts">{known}</dl>' if known else ""}
<nav class="toc" aria-label="Contents">{links}</nav>
<main id="content">
{cards}
</main>
<footer>{html.escape(footer)}</footer>
</div>
{payload}
{code}
</body>
</html>
"""


def _card(part: Section) -> str:
    """Return one section of the page as HTML."""
    lead = f'<p class="lead">{html.escape(part.lead)}</p>' if part.lead else ""
    return (
        f'<section class="card" id="{part.anchor}" aria-labelledby="{part.anchor}-title">'
        f'<h2 id="{part.anchor}-title">{html.escape(part.title)}</h2>{lead}{part.body}</section>'
    )


def _safe_json(data: Any) -> str:
    """Return JSON that cannot end the element it stands in."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def table(
    rows: Iterable[Sequence[Any]], head: Sequence[Any] = (), *, caption: str = "", strong: Iterable[int] = ()
) -> str:
    """Return rows as an HTML table; numbers stand to the right, cells are escaped, ``**cells**`` are strong.

    ``strong`` has the places of rows to emphasise.
    """
    rows, strong = [list(row) for row in rows], set(strong)
    numeric = [all(_numeric(row[place]) for row in rows) for place in range(len(rows[0]) if rows else 0)]
    body = "".join(
        f"<tr{' class=ours' if place in strong else ''}>"
        + "".join(_cell(cell, "td", right) for cell, right in zip(row, numeric, strict=True))
        + "</tr>"
        for place, row in enumerate(rows)
    )
    wide = numeric or [False] * len(head)
    top = "".join(_cell(cell, "th", right) for cell, right in zip(head, wide, strict=True))
    top = f"<thead><tr>{top}</tr></thead>" if head else ""
    said = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    return f'<div class="scroll"><table>{said}{top}<tbody>{body}</tbody></table></div>'


def _numeric(cell: Any) -> bool:
    """Return whether a cell of a table of the page is a number."""
    return isinstance(cell, (int, float)) or bool(
        re.fullmatch(r"[-+−<≈ ]*[\d.,]+( ?± ?[\d.]+)?( ?%)?|–|", _plain(cell))
    )


def _plain(cell: Any) -> str:
    """Return the text of a cell without the marks of a strong one."""
    text = str(cell).strip()
    return text[2:-2] if re.fullmatch(r"\*\*.+\*\*", text) else text


def _cell(cell: Any, tag: str, right: bool) -> str:
    """Return a cell of a table of the page."""
    scope = ' scope="col"' if tag == "th" else ""
    text = html.escape(_plain(cell))
    text = text if _plain(cell) == str(cell).strip() else f"<strong>{text}</strong>"
    return f"<{tag}{scope}{' class=number' if right else ''}>{text}</{tag}>"


def figure(picture: bytes | str, caption: str = "", *, description: str = "") -> str:
    """Return a picture inside the page: PNG, JPEG or WebP bytes, or SVG text; it is described by its caption."""
    if isinstance(picture, bytes):
        kind = "png" if picture[:4] == b"\x89PNG" else "webp" if picture[8:12] == b"WEBP" else "jpeg"
        shown = f'<img src="{data_uri(picture, f"image/{kind}")}" alt="{html.escape(description or caption)}">'
    else:
        shown = picture
    said = f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
    return f"<figure>{shown}{said}</figure>"


def data_uri(content: bytes, kind: str) -> str:
    """Return bytes as a ``data:`` address."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def curve(x: ArrayLike, y: ArrayLike, title: str, *, marked: int | None = None, words: str = "") -> str:
    """Draw a line with dots over whole steps; values that are not finite are left out, one step is marked."""
    steps, values = np.asarray(x, float), np.asarray(y, float)
    good = np.isfinite(values)
    steps, values = steps[good], values[good]
    if not len(values):
        return ""
    wide, tall, left, bottom, top = 350, 220, 62, 34, 28
    low, high = float(values.min()), float(values.max())
    X = left + (steps - steps.min()) * (wide - left - 16) / (np.ptp(steps) or 1)
    Y = tall - bottom - 8 - (values - low) / ((high - low) or 1) * (tall - bottom - top - 16)
    levels = "".join(
        f'<line class="axis" x1="{left}" x2="{wide - 8}" y1="{place:.1f}" y2="{place:.1f}"/>'
        f'<text x="{left - 6}" y="{place + 4:.1f}" text-anchor="end">{value:.4g}</text>'
        for value, place in {low: Y.max(), high: Y.min()}.items()
    )
    every = max(1, int(np.ceil(len(steps) / 11)))
    below = "".join(
        f'<text x="{a:.1f}" y="{tall - bottom + 16}" text-anchor="middle">{value:.0f}</text>'
        for a, value in list(zip(X, steps, strict=True))[::every]
    )
    dots = "".join(
        f'<circle class="{"mark" if s == marked else "dot"}" cx="{a:.1f}" cy="{b:.1f}" r="{7 if s == marked else 3}">'
        f"<title>step {s:.0f}: {v:.5g}</title></circle>"
        for a, b, s, v in zip(X, Y, steps, values, strict=True)
    )
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(X, Y, strict=True))
    name = html.escape(f"{title} ({words})" if words else title)
    return (
        f'<svg viewBox="0 0 {wide} {tall}" width="{wide}" role="img" aria-label="{name}">'
        f'<text class="title" x="4" y="14">{name}</text>{levels}{below}'
        f'<text x="{(left + wide) / 2}" y="{tall - 4}" text-anchor="middle">step</text>'
        f'<polyline class="curve" points="{points}"/>{dots}</svg>'
    )


def confusion(counts: Array, classes: Sequence[str], title: str) -> str:
    """Draw counts (c, c) as a grid, true classes down and labels given across; shades follow the share of a row."""
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
    """Return a long name cut to fit on the page."""
    return html.escape(label if len(label) <= 18 else label[:17] + "…")
