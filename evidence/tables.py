"""Gather the rows of an experiment over their seeds, and make tables of text of them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .rows import RULES, Row, row_file, tasks
from .specification import LATER, Entry, Experiment, Size
from .splits import LEARNED

Array = NDArray[Any]

MEASURES = {"1nn": "1NN", "svm": "SVM", "own": "own decision"}


@dataclass(frozen=True)
class MeasuredEntry:
    """Hold an entry and its rows; ``reason`` says why there are none, ``failed`` that there should be some."""

    entry: Entry
    rows: tuple[Row, ...]
    reason: str = ""
    wanted: int = 0
    failed: bool = False
    keys: tuple[str, ...] = ()  # of the rows that are asked for or there
    mean_over_classes: bool = False

    def values(self, measure: str = "1nn") -> Array:
        """Return accuracies over the seeds; for a method that only classifies its own decision counts as 1NN."""
        found = [self._accuracies(row) for row in self.rows if "accuracy" in row]
        kept = [one.get(measure, one.get("own") if measure == "1nn" else None) for one in found]
        return np.array([value for value in kept if value is not None], float)

    def _accuracies(self, row: Row) -> dict[str, float]:
        if self.mean_over_classes:
            return {name: float(np.mean(values)) for name, values in row["per_class"].items()}
        return dict(row["accuracy"])

    def printed(self, measure: str = "1nn") -> float | None:
        """Return the paper's value."""
        values = self.entry.printed
        return values.get(measure, values.get("own") if measure == "1nn" else None)

    def traces(self) -> Array:
        """Return accuracies over the steps (seeds, steps); a shorter trace goes on with its last value."""
        found = [dict(enumerate(row["trace"])) for row in self.rows if row.get("trace")]
        return pd.DataFrame(found, dtype=float).ffill(axis=1).to_numpy()


def gather(
    experiment: Experiment, size: Size, output: str | os.PathLike[str], on: str | None = None
) -> list[MeasuredEntry]:
    """Return the entries of an experiment in their order, with the rows of all seeds that there are."""
    rows = {row["key"]: row for row in row_file(experiment, output).read()}
    keys: dict[str, list[str]] = {}
    most = max([size.seeds, *(row["seed"] + 1 for row in rows.values())])
    for task in tasks(experiment, replace(size, seeds=most), on=on):
        if task.seed < size.seeds or task.key in rows:
            keys.setdefault(task.entry.key(0), []).append(task.key)
    results = []
    for entry in experiment.at(size, on):
        wanted = keys[entry.key(0)]
        found = [rows[key] for key in wanted if key in rows]
        good = tuple(row for row in found if row["status"] == "done")
        others = [row for row in found if row["status"] != "done"]
        reason = others[0]["reason"] if others and not good else ""
        failed = bool(reason) and others[0]["status"] == "failed"
        results.append(
            MeasuredEntry(entry, good, reason, len(wanted), failed, tuple(wanted), experiment.mean_over_classes)
        )
    return results


# ── tables of text ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Table:
    """Hold cells as text, and notes below them."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def markdown(self) -> str:
        """Return the table and its notes as Markdown."""
        lines = [self.head, ("---",) * len(self.head), *self.rows] if self.rows else []
        text = "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)
        return "\n\n".join(filter(None, [text, *self.notes]))

    def csv(self) -> str:
        """Return the cells as comma-separated values, without bold and notes."""
        cells = [[cell.strip("*") for cell in row] for row in self.rows]
        return pd.DataFrame(cells, columns=list(self.head)).to_csv(index=False)

    def latex(self) -> str:
        """Return the table as LaTeX, for the package booktabs; notes follow as comments."""
        lines = [" & ".join(map(_tex, line)) + r" \\" for line in (self.head, *self.rows)]
        rules = [rf"\begin{{tabular}}{{{'l' * len(self.head)}}}", r"\toprule", lines[0], r"\midrule", *lines[1:]]
        return "\n".join([*rules, r"\bottomrule", r"\end{tabular}", *(f"% {note}" for note in self.notes)]) + "\n"


def _tex(cell: str) -> str:
    """Return a cell as LaTeX: bold as it was, what has a meaning there escaped."""
    bold = re.fullmatch(r"\*\*(.*)\*\*", cell)
    escaped = re.sub(r"([&%$#_{}])", r"\\\1", bold[1] if bold else cell).replace("±", r"$\pm$")
    return rf"\textbf{{{escaped}}}" if bold else escaped


def spread(values: Array, digits: int = 2) -> str:
    """Return mean ± standard deviation over seeds, the mean alone for one."""
    if not len(values):
        return "–"
    mean = f"{values.mean():.{digits}f}"
    return f"{mean} ± {values.std(ddof=1):.{digits}f}" if len(values) > 1 else mean


def difference(values: Array, printed: float | None) -> str:
    """Return the mean less the printed value."""
    return "" if printed is None or not len(values) else f"{values.mean() - printed:+.1f}"


def _printed(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _notes(results: Sequence[MeasuredEntry]) -> tuple[str, ...]:
    """Say which out-of-sample maps are used, what does not apply and what is missing."""
    said: dict[str, list[str]] = {}
    for result in results:
        place = f" ({result.entry.x:g})" if result.entry.x is not None else ""
        if result.reason:
            said.setdefault(result.reason, []).append(f"{result.entry.name}{place}")
        if _is_open(result) and not result.entry.open.startswith(LATER):
            said.setdefault(f"not run, {result.entry.open}", []).append(f"{result.entry.name}{place}")
        for row in result.rows[:1]:
            if row.get("note"):
                said.setdefault(row["note"], []).append(result.entry.name)
    notes = [f"{', '.join(dict.fromkeys(names))}: {reason}." for reason, names in said.items()]
    if dear := sum(_is_open(result) and result.entry.open.startswith(LATER) for result in results):
        notes.append(f"Not run for their cost: {dear} of {len(results)} cells. Each takes minutes of CPU time.")
    notes += [f"{what}: {before} by an earlier rule." for what, before in _superseded(results).items()]
    have = {
        key for r in results for key in (r.keys if r.reason and not r.failed else [row.get("key") for row in r.rows])
    }
    wanted = {key for r in results for key in r.keys}
    if wanted - have:
        notes.append(f"{len(have)} of {len(wanted)} rows so far.")
    return tuple(notes)


def _is_open(result: MeasuredEntry) -> bool:
    """Return whether there is no row, and a reason why it was not measured."""
    return not result.rows and not result.reason and bool(result.entry.open)


def _by_earlier_rule(row: Row, what: str) -> bool:
    """Return whether a row has a measure, or parameters, by another rule than the present one."""
    return _GOES_BY[what](row) and row.get("rules", {}).get(what, 1) != RULES[what]


def _marks(result: MeasuredEntry, measure: str) -> str:
    """Return the marks of a cell: † for an SVM, ‡ for parameters, § for features by an earlier rule in any row."""
    svm = measure == "svm" and any(_by_earlier_rule(row, "svm") for row in result.rows)
    folds, fisher = (any(_by_earlier_rule(row, what) for row in result.rows) for what in ("folds", "fisher"))
    return "†" * svm + "‡" * folds + "§" * fisher


def _superseded(results: Iterable[MeasuredEntry]) -> dict[str, str]:
    """Count the rows that have a measure, or parameters, by another rule than the present one."""
    said = {}
    for what in RULES:
        rows = [row for result in results for row in result.rows if _GOES_BY[what](row)]
        before = sum(_by_earlier_rule(row, what) for row in rows)
        if before:
            said[_RULED[what]] = f"{before} of {len(rows)} rows"
    return said


def _with_folds_anew(row: Row) -> bool:
    """Return whether parameters were chosen on folds of learned features."""
    setting = row.get("setting", {})
    chosen = row.get("seconds", {}).get("tuning", 0) > 0.1  # seconds: nothing was chosen in less
    return chosen and setting.get("features") in LEARNED and not setting.get("transductive")


_RULED = {"svm": f"†, {MEASURES['svm']}", "folds": "‡, parameters by folds", "fisher": "§, Fisher vectors"}
_GOES_BY: dict[str, Callable[[Row], bool]] = {
    "svm": lambda row: "svm" in row.get("accuracy", {}),
    "folds": _with_folds_anew,
    "fisher": lambda row: row.get("setting", {}).get("features") == "fisher",
}


def panels_of(results: Sequence[MeasuredEntry]) -> list[str]:
    """Return the parts of the table or figure, in their order."""
    return list(dict.fromkeys(result.entry.panel for result in results))


def _cell(result: MeasuredEntry | None, measure: str) -> tuple[str, str, str]:
    if result is None:
        return "", "", ""
    values, printed = result.values(measure), result.printed(measure)
    without = "failed" if result.failed else "not applicable"
    ours = without if result.reason and not len(values) else spread(values)
    if _is_open(result):
        ours = f"not run: {result.entry.open}"
    ours += _marks(result, measure) if len(values) else ""
    if len(values) and measure == "1nn" and "1nn" not in result.rows[0]["accuracy"]:
        ours += " (own)"
    return ours, _printed(printed), difference(values, printed)


def compared(experiment: Experiment, results: Sequence[MeasuredEntry]) -> Table:
    """Return a row for each method: measured, printed and difference for each panel and measure.

    Where splits are drawn, a mean over fewer of them than the others says so.
    """
    panels = panels_of(results)
    names = list(dict.fromkeys(result.entry.name for result in results))
    head, rows = ["method"], [[name] for name in names]
    for panel in panels:
        own = {result.entry.name: result for result in results if result.entry.panel == panel}
        for measure in experiment.measures:
            head += [f"{panel} {MEASURES[measure]}".strip(), "printed", "difference"]
            cells = [_cell(own.get(name), measure) for name in names]
            columns = [own[name].values(measure) if name in own else np.array([]) for name in names]
            by_chance = any(result.entry.setting.by_chance for result in own.values())
            best = _best(columns, by_chance)
            for place, (row, cell) in enumerate(zip(rows, cells, strict=True)):
                fewer = by_chance and 0 < len(columns[place]) < max(map(len, columns))
                said = f"{cell[0]}, {len(columns[place])} seed{'s' * (len(columns[place]) > 1)}" if fewer else cell[0]
                row += [f"**{said}**" if place in best else said, *cell[1:]]
    notes = _notes(results)
    if any(" (own)" in cell for row in rows for cell in row):
        notes += ("(own): by the method's own classifier.",)
    return _trimmed(head, rows, notes)


def _best(columns: Sequence[Array], by_chance: bool) -> set[int]:
    """Return the places of the largest mean, as shown; where splits are drawn, among those of the most splits."""
    fewest = max(1, *map(len, columns)) if by_chance else 1
    means = [round(float(values.mean()), 2) if len(values) >= fewest else -np.inf for values in columns]
    most = max(means, default=-np.inf)
    return {place for place, mean in enumerate(means) if mean == most and np.isfinite(most)}


def _trimmed(head: Sequence[str], rows: Sequence[Sequence[str]], notes: tuple[str, ...]) -> Table:
    """Return a table without the columns that are empty throughout."""
    kept = [place for place in range(len(head)) if any(row[place] for row in rows)]
    return Table(tuple(head[p] for p in kept), tuple(tuple(row[p] for p in kept) for row in rows), notes)


def listed(experiment: Experiment, results: Sequence[MeasuredEntry]) -> Table:
    """Return a row for each method of each panel, none where nothing is measured but a picture."""
    rows = []
    for result in results if experiment.measures else ():
        rows.append([result.entry.panel, result.entry.name, *_cell(result, "1nn"), _extremes(result)])
    return _trimmed(("", "method", "1NN", "printed", "difference", "lowest, highest"), rows, _notes(results))


def _extremes(result: MeasuredEntry) -> str:
    values = result.values()
    return f"{values.min():.2f}, {values.max():.2f}" if len(values) > 1 else ""


def along(experiment: Experiment, results: Sequence[MeasuredEntry]) -> Table:
    """Return a row for each method of each panel, a column for each place on the axis; printed values in brackets."""
    by_panel = sorted(results, key=lambda r: panels_of(results).index(r.entry.panel))
    names = list(dict.fromkeys((r.entry.panel, r.entry.name) for r in by_panel))
    cells = pd.Series(
        {
            (r.entry.panel, r.entry.name, r.entry.x): f"{ours} ({printed})" if printed else ours
            for r in results
            for ours, printed, _ in [_cell(r, "1nn")]
        }
    ).unstack(fill_value="")
    rows = [[*name, *cells.loc[name]] for name in names]
    head = ("", experiment.axes[0], *(f"{x:g}" for x in cells.columns))
    said = ("In brackets: printed.",) if any(result.entry.printed for result in results) else ()
    return _trimmed(head, rows, (*_notes(results), *said))


def stepwise(experiment: Experiment, results: Sequence[MeasuredEntry]) -> Table:
    """Return start, end and best step of each trace, with the printed start and end."""
    head = ("", "method", "start", "printed", "end", "printed", "difference", "best step", "there", "steps")
    rows = []
    for result in results:
        traces, ends = result.traces(), result.values()  # a rival takes no steps and has its end alone
        ours = ["–", spread(ends) if len(ends) else "–", "–", "–", "–"]
        if len(traces):
            mean, ends = traces.mean(axis=0), traces[:, -1]
            best = int(np.argmax(mean))
            ours = [spread(traces[:, 0]), spread(ends), str(best), f"{mean[best]:.2f}", str(len(mean) - 1)]
        first, last = result.entry.printed.get("first"), result.entry.printed.get("1nn")
        gap = difference(ends, last)
        rows.append([result.entry.panel, result.entry.name, ours[0], _printed(first), ours[1], _printed(last), gap,
                     *ours[2:]])  # fmt: skip
    seen = "The best step is the one that the test images show, to judge the curve by; no method chooses by it."
    return _trimmed(head, rows, (*_notes(results), seen))


def gridded(experiment: Experiment, results: Sequence[MeasuredEntry]) -> Table:
    """Return accuracies over the two weights."""
    across, down, values = weights_grid(results)
    rows = [
        [f"{y:g}", *("–" if np.isnan(v) else f"{v:.2f}" for v in line)] for y, line in zip(down, values, strict=True)
    ]
    corner = f"{experiment.axes[1]} \\ {experiment.axes[0]}"
    return Table((corner, *(f"{x:g}" for x in across)), tuple(map(tuple, rows)), _notes(results))


def weights_grid(results: Sequence[MeasuredEntry]) -> tuple[list[float], list[float], Array]:
    """Return the values of μ₁ and of μ₂, and mean accuracies (proximities, coherences)."""
    names = ("mu_1", "mu_2") if "mu_1" in results[0].entry.options else ("mu_coherence", "mu_proximity")
    frame = pd.DataFrame(
        {**{name: r.entry.options[name] for name in names}, "mean": _mean(r.values())} for r in results
    )
    grid = frame.pivot(index=names[1], columns=names[0], values="mean").astype(float)
    return grid.columns.tolist(), grid.index.tolist(), grid.to_numpy()


def _mean(values: Array) -> float:
    return float(values.mean()) if len(values) else np.nan


# How an experiment of each kind is shown as a table.
TABLES: dict[str, Callable[[Experiment, Sequence[MeasuredEntry]], Table]] = {
    "table": compared,
    "boxes": listed,
    "surface": gridded,
    "lines": along,
    "traces": stepwise,
    "bars": listed,
    "faces": listed,
    "clouds": listed,
    "thumbnails": listed,
}
