"""Rows gathered for reading: what each entry of an experiment gave over its seeds, as tables of text."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .plan import Entry, Experiment, Size
from .rows import Row
from .run import DONE, RULES, row_file, tasks
from .splits import LEARNED

Array = NDArray[Any]

MEASURES = {"1nn": "1NN", "svm": "SVM", "own": "own decision"}


@dataclass(frozen=True)
class Result:
    """An entry and its rows; ``reason`` says why there are none, ``failed`` that there should be some."""

    entry: Entry
    rows: tuple[Row, ...]
    reason: str = ""
    wanted: int = 0
    failed: bool = False
    mean_over_classes: bool = False

    def values(self, measure: str = "1nn") -> Array:
        """Accuracies over the seeds; a method that classifies by itself has its own decision in place of 1NN."""
        found = [self._accuracies(row) for row in self.rows if "accuracy" in row]
        kept = [one.get(measure, one.get("own") if measure == "1nn" else None) for one in found]
        return np.array([value for value in kept if value is not None], float)

    def _accuracies(self, row: Row) -> dict[str, float]:
        if self.mean_over_classes:
            return {name: float(np.mean(values)) for name, values in row["per_class"].items()}
        return dict(row["accuracy"])

    def printed(self, measure: str = "1nn") -> float | None:
        """The paper's value."""
        values = self.entry.printed
        return values.get(measure, values.get("own") if measure == "1nn" else None)

    def traces(self) -> Array:
        """Accuracies over the steps (seeds, steps); a shorter one goes on with its last value."""
        found = [row["trace"] for row in self.rows if row.get("trace")]
        longest = max(map(len, found), default=0)
        return np.array([trace + [trace[-1]] * (longest - len(trace)) for trace in found], float)


def gather(experiment: Experiment, size: Size, output: str | os.PathLike[str], on: str | None = None) -> list[Result]:
    """Results in the order of the experiment's entries, of all seeds that have rows."""
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
        results.append(Result(entry, good, reason, len(wanted), failed, experiment.mean_over_classes))
    return results


def state(experiment: Experiment, size: Size, output: str | os.PathLike[str], on: str | None = None) -> tuple[int, int]:
    """Rows that are there, of how many."""
    there = {row["key"] for row in row_file(experiment, output).read() if row["status"] in DONE}
    wanted = [task.key for task in tasks(experiment, size, on=on)]
    return sum(key in there for key in wanted), len(wanted)


# ── tables of text ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Table:
    """Cells as text, with the rows that lead it."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def markdown(self) -> str:
        """As Markdown."""
        lines = [self.head, ("---",) * len(self.head), *self.rows] if self.rows else []
        text = "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)
        return "\n\n".join(filter(None, [text, *self.notes]))


def spread(values: Array, digits: int = 2) -> str:
    """Mean ± standard deviation over seeds, the mean alone for one."""
    if not len(values):
        return "–"
    mean = f"{values.mean():.{digits}f}"
    return f"{mean} ± {values.std(ddof=1):.{digits}f}" if len(values) > 1 else mean


def difference(values: Array, printed: float | None) -> str:
    """Ours less the printed value."""
    return "" if printed is None or not len(values) else f"{values.mean() - printed:+.1f}"


def _printed(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _notes(results: Iterable[Result]) -> tuple[str, ...]:
    """Who has an out-of-sample map of which kind, what does not apply, what is missing."""
    said: dict[str, list[str]] = {}
    for result in results:
        place = f" ({result.entry.x:g})" if result.entry.x is not None else ""
        if result.reason:
            said.setdefault(result.reason, []).append(f"{result.entry.name}{place}")
        for row in result.rows[:1]:
            if row.get("note"):
                said.setdefault(row["note"], []).append(result.entry.name)
    notes = [f"{', '.join(dict.fromkeys(names))}: {reason}." for reason, names in said.items()]
    notes += [f"{what}: {before} by an earlier rule." for what, before in _superseded(results).items()]
    have = sum(r.wanted if r.reason and not r.failed else len(r.rows) for r in results)
    wanted = sum(r.wanted for r in results)
    if have < wanted:
        notes.append(f"{have} of {wanted} rows so far.")
    return tuple(notes)


def _superseded(results: Iterable[Result]) -> dict[str, str]:
    """How many rows have a measure, or parameters, by another rule than the present one."""
    said = {}
    for what, rule in RULES.items():
        rows = [row for result in results for row in result.rows if _GOES_BY[what](row)]
        before = sum(row.get("rules", {}).get(what, 1) != rule for row in rows)
        if before:
            said[_RULED[what]] = f"{before} of {len(rows)} rows"
    return said


def _with_folds_anew(row: Row) -> bool:
    """Whether parameters were chosen on folds of learned features."""
    setting = row.get("setting", {})
    chosen = row.get("seconds", {}).get("tuning", 0) > 0.1  # seconds: nothing was chosen in less
    return chosen and setting.get("features") in LEARNED and not setting.get("transductive")


_RULED = {"svm": MEASURES["svm"], "folds": "Parameters by folds"}
_GOES_BY: dict[str, Callable[[Row], bool]] = {
    "svm": lambda row: "svm" in row.get("accuracy", {}),
    "folds": _with_folds_anew,
}


def panels_of(results: Sequence[Result]) -> list[str]:
    """Parts of the table or figure, in their order."""
    return list(dict.fromkeys(result.entry.panel for result in results))


def _cell(result: Result | None, measure: str) -> tuple[str, str, str]:
    if result is None:
        return "", "", ""
    values, printed = result.values(measure), result.printed(measure)
    without = "failed" if result.failed else "not applicable"
    ours = without if result.reason and not len(values) else spread(values)
    if len(values) and measure == "1nn" and "1nn" not in result.rows[0]["accuracy"]:
        ours += " (own)"
    return ours, _printed(printed), difference(values, printed)


def compared(experiment: Experiment, results: Sequence[Result]) -> Table:
    """A row for each method; ours, printed and difference for each panel and measure.

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
    """The places of the largest mean, as it is shown; where splits are drawn, among those of the most splits."""
    fewest = max(1, *map(len, columns)) if by_chance else 1
    means = [round(float(values.mean()), 2) if len(values) >= fewest else -np.inf for values in columns]
    most = max(means, default=-np.inf)
    return {place for place, mean in enumerate(means) if mean == most and np.isfinite(most)}


def _trimmed(head: Sequence[str], rows: Sequence[Sequence[str]], notes: tuple[str, ...]) -> Table:
    """Without columns that are empty throughout."""
    kept = [place for place in range(len(head)) if any(row[place] for row in rows)]
    return Table(tuple(head[p] for p in kept), tuple(tuple(row[p] for p in kept) for row in rows), notes)


def listed(experiment: Experiment, results: Sequence[Result]) -> Table:
    """A row for each method with families: ours, printed, difference; none where nothing is measured but a picture."""
    rows = []
    for result in results if experiment.measures else ():
        rows.append([result.entry.panel, result.entry.name, *_cell(result, "1nn"), _extremes(result)])
    return _trimmed(("", "method", "1NN", "printed", "difference", "lowest, highest"), rows, _notes(results))


def _extremes(result: Result) -> str:
    values = result.values()
    return f"{values.min():.2f}, {values.max():.2f}" if len(values) > 1 else ""


def along(experiment: Experiment, results: Sequence[Result]) -> Table:
    """A row for each method of each panel, a column for each place on the axis; printed values in brackets."""
    places = list(dict.fromkeys(result.entry.x for result in results))
    places.sort(key=lambda x: x or 0)
    by_panel = sorted(results, key=lambda r: panels_of(results).index(r.entry.panel))
    names = list(dict.fromkeys((r.entry.panel, r.entry.name) for r in by_panel))
    found = {(r.entry.panel, r.entry.name, r.entry.x): r for r in results}
    rows = []
    for panel, name in names:
        row = [panel, name]
        for x in places:
            ours, printed, _ = _cell(found.get((panel, name, x)), "1nn")
            row.append(f"{ours} ({printed})" if printed else ours)
        rows.append(row)
    head = ("", experiment.axes[0], *(f"{x:g}" for x in places if x is not None))
    said = ("In brackets: printed.",) if any(result.entry.printed for result in results) else ()
    return _trimmed(head, rows, (*_notes(results), *said))


def stepwise(experiment: Experiment, results: Sequence[Result]) -> Table:
    """Start, end and best step of each trace, with the printed start and end."""
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


def gridded(experiment: Experiment, results: Sequence[Result]) -> Table:
    """Accuracies over the two weights."""
    across, down, values = weights_grid(results)
    rows = [
        [f"{y:g}", *("–" if np.isnan(v) else f"{v:.2f}" for v in line)] for y, line in zip(down, values, strict=True)
    ]
    corner = f"{experiment.axes[1]} \\ {experiment.axes[0]}"
    return Table((corner, *(f"{x:g}" for x in across)), tuple(map(tuple, rows)), _notes(results))


def weights_grid(results: Sequence[Result]) -> tuple[list[float], list[float], Array]:
    """Values of mu_coherence and of mu_proximity, and mean accuracies (proximities, coherences)."""
    across = sorted({float(result.entry.options["mu_coherence"]) for result in results})
    down = sorted({float(result.entry.options["mu_proximity"]) for result in results})
    values = np.full((len(down), len(across)), np.nan)
    for result in results:
        found = result.values()
        if len(found):
            place = down.index(result.entry.options["mu_proximity"]), across.index(result.entry.options["mu_coherence"])
            values[place] = found.mean()
    return across, down, values


# What an experiment of each kind is tabled as.
TABLES: dict[str, Callable[[Experiment, Sequence[Result]], Table]] = {
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
