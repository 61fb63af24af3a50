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


@dataclass(frozen=True)
class Section:
    """A titled part of a page.

    Parameters
    ----------
    title : str
        Plain text.
    body : str
        HTML; :func:`table` and :func:`figure` make some.
    lead : str, optional
        A sentence or two under the title, plain text.

    """

    title: str
    body: str
    lead: str = ""

    @property
    def anchor(self) -> str:
        """What links to the section name."""
        return re.sub(r"\W+", "-", self.title.lower()).strip("-") or "section"


def resource(name: str) -> str:
    """The text of a file that ships with this room."""
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
    """A page that opens without a network.

    Parameters
    ----------
    title : str
        Plain text.
    sections : iterable of Section
        In their order; a table of contents leads to them.
    lead : str, optional
        Plain text under the title.
    facts : mapping, optional
        Short names and values for the head of the page.
    data : object, optional
        JSON for the scripts, in the element ``#data``.
    scripts : sequence of str
        JavaScript, run at the end.
    footer : str, optional
        Plain text.

    Returns
    -------
    html : str

    """
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
    lead = f'<p class="lead">{html.escape(part.lead)}</p>' if part.lead else ""
    return (
        f'<section class="card" id="{part.anchor}" aria-labelledby="{part.anchor}-title">'
        f'<h2 id="{part.anchor}-title">{html.escape(part.title)}</h2>{lead}{part.body}</section>'
    )


def _safe_json(data: Any) -> str:
    """JSON that cannot end the element it stands in."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def table(
    rows: Iterable[Sequence[Any]], head: Sequence[Any] = (), *, caption: str = "", strong: Iterable[int] = ()
) -> str:
    """Rows as an HTML table; numbers stand to the right, cells are escaped, ``**cells**`` are strong.

    Parameters
    ----------
    rows : iterable of sequences
        Cells as text or numbers.
    head : sequence, optional
        Column titles.
    caption : str, optional
        Plain text above.
    strong : iterable of int, optional
        Places of rows to emphasise.

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
    return isinstance(cell, (int, float)) or bool(
        re.fullmatch(r"[-+−<≈ ]*[\d.,]+( ?± ?[\d.]+)?( ?%)?|–|", _plain(cell))
    )


def _plain(cell: Any) -> str:
    """The text of a cell without the marks of a strong one."""
    text = str(cell).strip()
    return text[2:-2] if re.fullmatch(r"\*\*.+\*\*", text) else text


def _cell(cell: Any, tag: str, right: bool) -> str:
    scope = ' scope="col"' if tag == "th" else ""
    text = html.escape(_plain(cell))
    text = text if _plain(cell) == str(cell).strip() else f"<strong>{text}</strong>"
    return f"<{tag}{scope}{' class=number' if right else ''}>{text}</{tag}>"


def figure(picture: bytes | str, caption: str = "", *, description: str = "") -> str:
    """A picture inside the page: PNG, JPEG or WebP bytes, or SVG text.

    Parameters
    ----------
    picture : bytes or str
        Bytes of an image, or an ``<svg>`` element.
    caption : str, optional
        Plain text below.
    description : str, optional
        For readers who do not see it; by default the caption.

    """
    if isinstance(picture, bytes):
        kind = "png" if picture[:4] == b"\x89PNG" else "webp" if picture[8:12] == b"WEBP" else "jpeg"
        shown = f'<img src="{data_uri(picture, f"image/{kind}")}" alt="{html.escape(description or caption)}">'
    else:
        shown = picture
    said = f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
    return f"<figure>{shown}{said}</figure>"


def data_uri(content: bytes, kind: str) -> str:
    """Bytes as a ``data:`` address."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
