"""Write tables, figures and one page from the rows; nothing is measured."""

from __future__ import annotations

import html
import os
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparlow.app import page as pages

from . import charts
from .charts import Series
from .rows import unpacked
from .specification import Experiment, Size
from .tables import TABLES, MeasuredEntry, Table, gather, panels_of, weights_grid

Array = NDArray[Any]

_DOTS = 150
_LEAD = (
    "Measured beside printed values: accuracy in %, mean ± deviation over seeds, and the difference from the paper. "
    "Parameters are chosen on training samples alone."
)
_QUICK = (
    " This is the small version: a few hundred samples, few steps, one seed. Accuracies are lower than in full, also "
    "where a remark speaks of larger numbers."
)


@dataclass(frozen=True)
class Chapter:
    """Hold one experiment for reading: its table, and its figure as a PNG file if it has one."""

    experiment: Experiment
    table: Table
    picture: pathlib.Path | None = None
    on: str | None = None

    @property
    def remark(self) -> str:
        """Return what a reader must know."""
        sets = ", ".join(self.experiment.data)
        return (
            f"Measured on {self.on} instead of {sets}: the paper prints nothing for it. There: {self.experiment.remark}"
            if self.on
            else self.experiment.remark
        )

    @property
    def title(self) -> str:
        """Return its number in the paper and what it shows."""
        if self.experiment.name.startswith("printed"):
            return self.experiment.title
        kind, number = re.fullmatch(r"(\D+)(.*)", self.experiment.name).groups()  # type: ignore[union-attr]
        where = f" (the set {self.on})" if self.on else ""
        return f"{'Table' if kind == 'table' else 'Figure'} {number}: {self.experiment.title}{where}"


def chapters(
    experiments: Sequence[Experiment],
    output: str | os.PathLike[str],
    size: Callable[[Experiment], Size],
    *,
    on: str | None = None,
    pictures: str | os.PathLike[str] | None = None,
) -> list[Chapter]:
    """Return tables and figures of all experiments that have rows.

    Parameters
    ----------
    experiments : sequence of Experiment
        Which ones, in their order.
    output : path
        Folder of the rows.
    size : callable
        Which size of an experiment is read.
    on : str, optional
        The image set, if it is not the paper's.
    pictures : path, optional
        Folder for the figures, ``output``/figures by default.

    """
    folder = pathlib.Path(pictures if pictures is not None else pathlib.Path(output) / "figures")
    found = []
    for experiment in experiments:
        results = gather(experiment, size(experiment), output, on)
        if not any(result.rows or result.reason for result in results):
            continue
        table = TABLES[experiment.kind](experiment, results)
        measured = [r for r in results if r.rows]
        figure = FORMS.get(experiment.kind, _no_figure)(experiment, measured) if measured else None
        path = None
        if figure is not None:
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{experiment.name}.png"
            figure.savefig(path, dpi=_DOTS, bbox_inches="tight")
            figure.clear()
        found.append(Chapter(experiment, table, path, on))
    return found


def markdown(found: Sequence[Chapter], beside: str | os.PathLike[str]) -> str:
    """Return all chapters as Markdown; links to figures are relative to the folder ``beside``."""
    return "\n\n".join(f"## {chapter.title}\n\n{block(chapter, beside)}" for chapter in found) + "\n"


def block(chapter: Chapter, beside: str | os.PathLike[str]) -> str:
    """Return remark, table and figure of one chapter as Markdown."""
    parts = [chapter.remark, chapter.table.markdown()]
    if chapter.picture is not None:
        link = os.path.relpath(chapter.picture, beside).replace(os.sep, "/")
        parts.append(f"![{chapter.title}]({link})")
    return "\n\n".join(part for part in parts if part)


def page(found: Sequence[Chapter], title: str, quick: bool = False) -> str:
    """Return all chapters as one HTML file that needs no other file."""
    return pages.document(title, [_section(chapter) for chapter in found], lead=_LEAD + _QUICK * quick)


def _section(chapter: Chapter) -> pages.Section:
    table = chapter.table
    parts = [pages.table(table.rows, table.head)] if table.rows else []
    parts += [f"<p>{html.escape(note)}</p>" for note in table.notes]
    if chapter.picture is not None:
        parts.append(pages.figure(chapter.picture.read_bytes(), description=chapter.title))
    return pages.Section(chapter.title, "".join(parts), chapter.remark)


def fill(
    document: str | os.PathLike[str], found: Sequence[Chapter], texts: Mapping[str, str] | None = None
) -> list[pathlib.Path]:
    """Put chapters and ``texts`` between their marks in a Markdown file; return pages for the chapters without marks.

    The marks are ``<!-- NAME -->`` and ``<!-- end NAME -->`` on lines of their own; what stands around them stays. A
    chapter without marks becomes a page in the folder beside the file that has its name.
    """
    path = pathlib.Path(document)
    text, pages_ = path.read_text(encoding="utf-8"), []
    contents = {chapter.experiment.name: block(chapter, path.parent) for chapter in found} | dict(texts or {})
    chapters_ = {chapter.experiment.name: chapter for chapter in found}
    for name, content in contents.items():
        marks = re.compile(f"(<!-- {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
        text, count = marks.subn(rf"\g<1>\n{_literal(content)}\n\n\g<2>", text)
        if not count and name in chapters_:
            pages_.append(_own_page(path.with_suffix(""), chapters_[name]))
    path.write_text(text, encoding="utf-8")
    return pages_


def _own_page(folder: pathlib.Path, chapter: Chapter) -> pathlib.Path:
    """Write the page of one chapter, made by a command alone."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{chapter.experiment.name}.md"
    said = "Written by `python -m evidence report --document docs/evidence.md`. [All experiments](../evidence.md)."
    text = f"---\norphan: true\n---\n# {chapter.title}\n\n{said}\n\n{block(chapter, folder)}\n"
    path.write_text(text, encoding="utf-8")
    return path


def _literal(text: str) -> str:
    """Return the text as a replacement of regular expressions."""
    return text.replace("\\", r"\\")


# ── figures ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _no_figure(experiment: Experiment, results: Sequence[MeasuredEntry]) -> None:
    return None


def _boxes(experiment: Experiment, results: Sequence[MeasuredEntry]) -> Any:
    printed = {r.entry.name: value for r in results if (value := r.printed()) is not None}
    return charts.boxes({r.entry.name: r.values() for r in results}, printed, "1NN accuracy (%)")


def _surface(experiment: Experiment, results: Sequence[MeasuredEntry]) -> Any:
    return charts.surface(*weights_grid(results), experiment.axes)


def _lines(experiment: Experiment, results: Sequence[MeasuredEntry]) -> Any:
    panels: dict[str, list[Series]] = {}
    there = {(r.entry.panel, r.entry.name) for r in results}
    names = dict.fromkeys((panel, entry.name) for panel in panels_of(results) for entry in experiment.entries)
    for panel, name in (pair for pair in names if pair in there):
        own = sorted(
            (r for r in results if (r.entry.panel, r.entry.name) == (panel, name)), key=lambda r: r.entry.x or 0
        )
        own = [r for r in own if len(r.values())]
        printed = [np.nan if r.printed() is None else float(r.printed() or 0) for r in own]
        series = Series(
            name,
            [float(r.entry.x or 0) for r in own],
            [float(r.values().mean()) for r in own],
            [float(r.values().std()) for r in own],
            printed,
        )
        panels.setdefault(panel, []).append(series)
    return charts.lines(panels, experiment.axes, reverse=experiment.axes[0].startswith("dimension"))


def _traces(experiment: Experiment, results: Sequence[MeasuredEntry]) -> Any:
    panels: dict[str, list[Series]] = {}
    for result in results:
        traces = result.traces()
        if not len(traces):
            continue
        steps = traces.shape[1]
        printed = np.full(steps, np.nan)
        printed[0], printed[-1] = (result.entry.printed.get(name, np.nan) for name in ("first", "1nn"))
        mean, deviation = traces.mean(axis=0), traces.std(axis=0)
        series = Series(result.entry.name, range(steps), mean.tolist(), deviation.tolist(), printed.tolist())
        panels.setdefault(result.entry.panel, []).append(series)
    return charts.lines(panels, experiment.axes) if panels else None


def _bars(experiment: Experiment, results: Sequence[MeasuredEntry]) -> Any:
    groups: dict[str, list[Series]] = {}
    for r in results:
        values, printed = r.values(), r.printed()
        one = Series(r.entry.name, [0], [values.mean()], [values.std()], [np.nan if printed is None else printed])
        groups.setdefault(r.entry.panel, []).append(one)
    return charts.bars(groups, "1NN accuracy (%)")


def _arrays(result: MeasuredEntry) -> dict[str, Array]:
    return {name: unpacked(pack) for name, pack in result.rows[0]["arrays"].items()}


def _faces(experiment: Experiment, results: Sequence[MeasuredEntry]) -> Any:
    columns: dict[str, dict[str, Array]] = {}
    for result in results:
        columns.setdefault(result.entry.panel, {})[result.entry.name] = _arrays(result)["images"]
    return charts.faces(columns)


def _clouds(experiment: Experiment, results: Sequence[MeasuredEntry]) -> Any:
    columns: dict[str, dict[str, tuple[Array, Array, Array, Array]]] = {}
    for result in results:
        kept = _arrays(result)
        title = f"{result.entry.name}: {result.values().mean():.1f} %"
        four = (kept["train"], kept["y"], kept["test"], kept["y_test"])
        columns.setdefault(result.entry.panel, {})[title] = four
    return charts.clouds(columns)


def _thumbnails(experiment: Experiment, results: Sequence[MeasuredEntry]) -> Any:
    kept = {result.entry.name: _arrays(result) for result in results}
    return charts.thumbnails({name: (one["train"], one["images"]) for name, one in kept.items()})


# How an experiment of each kind is drawn.
FORMS: dict[str, Callable[[Experiment, Sequence[MeasuredEntry]], Any]] = {
    "boxes": _boxes,
    "surface": _surface,
    "lines": _lines,
    "traces": _traces,
    "bars": _bars,
    "faces": _faces,
    "clouds": _clouds,
    "thumbnails": _thumbnails,
}
