"""Tables of the zoo, from its rows: ``python -m benchmarks.zoo --table NAME`` prints one, ``--page`` writes the page.

A rival with two scalings counts by the one with the better mean. Differences are paired: SparLow and rival on the same
draws. Behind a ± stands the standard error of their mean, where there are at least two draws.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.zoo_sets import SETS

RESULTS = Path(__file__).parent / "results"
CLASSICAL = {"pca": "PCA", "lap": "OLPP", "lle": "ONPP", "sda": "SDA", "slap": "SDE", "smvr": "LapRLS"}
ATOMS = (8, 32, 128, 512, 1000)
LDA, RAW, PCA = ("lda", "lda_unit"), ("raw", "raw_unit"), ("pca",)
BEST = (*LDA, *RAW, *PCA)
CHOSEN = ("lda_chosen", "raw_chosen", "pca")

Row = dict[str, Any]
Difference = tuple[float, float]


def kept_rows(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def markdown(head: list[str], lines: list[list[str]]) -> list[str]:
    first, *others = ["| " + " | ".join(cells) + " |" for cells in (head, *lines)]
    return [first, "|---" * len(head) + "|", *others]


class Means:
    """Accuracies by set and method, on draws that all methods of a comparison share."""

    def __init__(self, rows: list[Row]) -> None:
        self.found: dict[tuple[str, str], dict[int, Row]] = {}
        for row in rows:
            self.found.setdefault((row["set"], row["method"]), {})[row["seed"]] = row

    def draws(self, name: str, method: str = "sparlow") -> set[int]:
        """Return the seeds of the draws that a method was run on."""
        return set(self.found.get((name, method), ()))

    def sets(self, *methods: str) -> list[str]:
        """Return the sets on which all of the methods were run."""
        return [name for name in SETS if all(self.draws(name, method) for method in methods)]

    def values(self, name: str, method: str, key: str, draws: set[int] | None = None) -> Any:
        """Return what a method has on all draws, or on some of them, in the order of their seeds."""
        rows = self.found.get((name, method), {})
        return np.array([rows[seed][key] for seed in sorted(rows) if draws is None or seed in draws], float)

    def best(self, name: str, methods: tuple[str, ...], key: str) -> str | None:
        """Return the method of the best mean on the draws of SparLow; None where none was run."""
        means = {method: self.values(name, method, key, self.draws(name)) for method in methods}
        means = {method: float(np.mean(found)) for method, found in means.items() if len(found)}
        return max(means, key=lambda method: means[method]) if means else None

    def difference(self, name: str, ours: str, theirs: str, keys: tuple[str, str]) -> Difference:
        """Return the mean of ours minus theirs over the draws of both, and its standard error (nan of one draw)."""
        draws = self.draws(name, ours) & self.draws(name, theirs)
        gains = self.values(name, ours, keys[0], draws) - self.values(name, theirs, keys[1], draws)
        error = np.std(gains, ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else np.nan
        return float(np.mean(gains)), float(error)

    def gain(self, name: str, methods: tuple[str, ...], key: str = "angle") -> Difference:
        """Return what SparLow has more than the best of some methods."""
        best = self.best(name, methods, key)
        assert best is not None
        return self.difference(name, "sparlow", best, (key, key))

    def steps_gain(self, name: str, key: str = "angle") -> Difference:
        """Return what joint learning adds to its start."""
        return self.difference(name, "sparlow", "sparlow", (key, f"start_{key}"))


def signed(difference: Difference, digits: int = 1) -> str:
    """Return a difference with its sign, and its standard error."""
    mean, error = difference
    said = f"{mean:+.{digits}f}".replace("-", "−")
    said = said.replace("−", "").replace("+", "") if float(f"{mean:.{digits}f}") == 0 else said
    return said if np.isnan(error) else f"{said} ± {error:.{digits}f}"


# ── tables ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _mean(means: Means, name: str, methods: tuple[str, ...], key: str) -> float:
    """Return the mean of the best of some methods on the draws of SparLow."""
    best = means.best(name, methods, key)
    return np.nan if best is None else float(np.mean(means.values(name, best, key, means.draws(name))))


def _one(value: float, digits: int = 1) -> str:
    return "" if np.isnan(value) else f"{value:.{digits}f}"


def _both(means: Means, name: str, methods: tuple[str, ...], prefix: str = "") -> str:
    found = [_mean(means, name, methods, prefix + key) for key in ("angle", "distance")]
    return "" if np.isnan(found[0]) else "{:.1f} / {:.1f}".format(*found)


def accuracies(rows: list[Row]) -> list[str]:
    """Accuracies by angle / by distance, beside the rivals that win most often."""
    means = Means(rows)
    head = ["set", "SparLow", "its start", "SVM", "logistic", "LDA", "raw rows", "PCA"]

    def line(name: str) -> list[str]:
        cells = [_both(means, name, ("sparlow",)), _both(means, name, ("sparlow",), "start_")]
        cells += [_one(_mean(means, name, (method,), "accuracy")) for method in ("svm", "logistic")]
        return [name, *cells, *(_both(means, name, methods) for methods in (LDA, RAW, PCA))]

    return markdown(head, [line(name) for name in means.sets("sparlow")])


def fits(rows: list[Row]) -> list[str]:
    """What the sets are and what a fit takes, beside two slower embeddings."""
    means = Means(rows)
    head = ["set", "kind", "part", "draws", "columns", "seconds", "NCA", "UMAP"]

    def line(name: str) -> list[str]:
        columns = _one(_mean(means, name, ("sparlow",), "columns"), 0)
        seconds = _one(float(np.median(means.values(name, "sparlow", "fit_seconds"))))
        cells = [SETS[name].kind, SETS[name].part, str(len(means.draws(name))), columns, seconds]
        return [name, *cells, *(_both(means, name, (method,)) for method in ("nca", "umap"))]

    return markdown(head, [line(name) for name in means.sets("sparlow")])


def differences(rows: list[Row]) -> list[str]:
    """What SparLow has more than others, by angle."""
    means = Means(rows)
    head = ["set", "draws", "SparLow − LDA", "− raw rows", "− best of LDA, raw rows, PCA", "end − start"]

    def line(name: str) -> list[str]:
        gains = [means.gain(name, methods) for methods in (LDA, RAW, BEST)]
        cells = [signed(gain) for gain in gains] + [signed(means.steps_gain(name))]
        return [name, str(len(means.draws(name))), *cells]

    return markdown(head, [line(name) for name in means.sets("sparlow")])


def pairs_of(means: Means) -> list[tuple[str, str, str]]:
    """Return sets, criteria and rivals that were run on the same draws."""
    rivals = [(ours, rival) for ours, classical in CLASSICAL.items() for rival in (classical, f"{classical}-wide")]
    rivals += [("sda", "spreading")]
    return [(n, ours, rival) for n in SETS for ours, rival in rivals if n in means.sets(f"{ours}-sparlow", rival)]


def criteria(rows: list[Row]) -> list[str]:
    """Criteria without labels, and with few, beside classical methods, by angle / by distance."""
    means = Means(rows)
    names = {"spreading": "label spreading + LDA"}
    names |= {f"{rival}-wide": f"{rival}, as many columns" for rival in CLASSICAL.values()}

    def line(name: str, ours: str, rival: str) -> list[str]:
        ours = f"{ours}-sparlow"
        draws = means.draws(name, ours) & means.draws(name, rival)
        keys = ("angle", "distance")
        cells = [[f"{np.mean(means.values(name, m, key, draws)):.1f}" for key in keys] for m in (ours, rival)]
        cells += [[signed(means.difference(name, ours, rival, (key, key))) for key in keys]]
        said = names.get(rival, rival)
        return [name, ours.removesuffix("-sparlow"), said, str(len(draws)), *(" / ".join(cell) for cell in cells)]

    head = ["set", "criterion", "rival", "draws", "SparLow", "rival's", "difference"]
    return markdown(head, [line(*pair) for pair in pairs_of(means)])


def atoms(rows: list[Row]) -> list[str]:
    """Start → end of joint learning with other numbers of atoms, by angle."""
    means = Means(rows)
    head = ["set", *(f"{count} atoms" for count in ATOMS)]

    def cell(name: str, count: int) -> str:
        start, end, steps = (means.values(name, f"atoms{count}", key) for key in ("start_angle", "angle", "steps"))
        if not len(end):
            return ""
        said = f"{np.mean(start):.1f}" + (f" → {np.mean(end):.1f}" if np.any(steps) else "")
        return said + (f" ({len(end)})" if len(end) > 1 else "")

    names = [name for name in SETS if any(means.draws(name, f"atoms{count}") for count in ATOMS)]
    return markdown(head, [[name, *(cell(name, count) for count in ATOMS)] for name in names])


# ── what the tables say ────────────────────────────────────────────────────────────────────────────────────────────


def named(gains: dict[str, Difference]) -> str:
    """Return sets with their differences, the lowest first."""
    order = sorted(gains, key=lambda name: gains[name][0])
    return ", ".join(f"`{name}` {signed(gains[name])}" for name in order) or "none"


def clearly(gains: dict[str, Difference], errors: float) -> dict[str, Difference]:
    """Return the differences that are so many standard errors below zero; one draw has none."""
    return {name: gain for name, gain in gains.items() if gain[0] < -errors * gain[1]}


def account(rows: list[Row]) -> list[str]:
    """What the tables of accuracies say, as lines of the page."""
    means = Means(rows)
    names = means.sets("sparlow")
    lines = []
    ahead = [np.mean([means.gain(name, LDA, key)[0] for name in names]) for key in ("angle", "distance")]
    lines += ["- Ahead of LDA by {:.1f} points on average by angle, {:.1f} by distance.".format(*ahead)]
    for said, methods, least in (("LDA", LDA, -0.2), ("the nearest raw sample", RAW, 0.0)):
        gains = {name: means.gain(name, methods) for name in names}
        behind = {name: gain for name, gain in gains.items() if round(gain[0], 3) < least}
        more = "More than 0.2 behind" if least else "Below"
        lines += [f"- {more} {said}, by angle, on {len(behind)} of {len(names)} sets: {named(behind)}."]
        sure = clearly(behind, 2)
        lines += [f"  By more than two standard errors: {', '.join(f'`{name}`' for name in sure) or 'none'}."]
    level = {
        key: [name for name in names if round(means.gain(name, BEST, key)[0], 3) >= 0] for key in ("angle", "distance")
    }
    few = {name: means.gain(name, BEST) for name in names if name not in level["angle"]}
    counts = [f"{len(found)} by {key}" for key, found in level.items()]
    lines += [f"- At least the best of LDA, raw rows and PCA on {' and '.join(counts)} of {len(names)} sets."]
    unsure = [name for name, gain in few.items() if gain[0] >= -gain[1]]
    lines += [f"  By angle it is behind by at most a standard error on {len(unsure)} more, by more on the others:"]
    lines += [f"  {named({name: gain for name, gain in few.items() if name not in unsure})}."]
    lines += chosen_account(means)
    for key in ("angle", "distance"):
        steps = {name: means.steps_gain(name, key) for name in names}
        lost, won = ({n: g for n, g in steps.items() if round(s * g[0], 3) > 0.2} for s in (-1, 1))
        lines += [f"- Joint learning, by {key}: costs more than 0.2 on {named(lost)}; gains more on {named(won)}."]
    for said, method in (("SVM", "svm"), ("Logistic regression", "logistic"), ("NCA", "nca"), ("UMAP", "umap")):
        key = "accuracy" if method in ("svm", "logistic") else "angle"
        gains = {n: means.difference(n, method, "sparlow", (key, "angle")) for n in means.sets("sparlow", method)}
        wins = sum(gain[0] > 0 for gain in gains.values())
        mean = signed((float(np.mean([gain[0] for gain in gains.values()])), np.nan))
        lines += [f"- {said}: ahead on {wins} of {len(gains)} sets, {mean} points on average."]
    return lines


def chosen_account(means: Means) -> list[str]:
    """What is left of the misses where the rivals' scaling is chosen on training folds, as SparLow's is."""
    names = means.sets("sparlow", *CHOSEN)
    gains = {method: {name: means.gain(name, (method,)) for name in names} for method in CHOSEN[:2]}
    behind = {name: gain for name, gain in gains["lda_chosen"].items() if round(gain[0], 3) < -0.2}
    below = {name: gain for name, gain in gains["raw_chosen"].items() if round(gain[0], 3) < 0}
    best = sum(round(means.gain(name, CHOSEN)[0], 3) >= 0 for name in names)
    return [
        "- Where the scaling of LDA and of raw rows is chosen on training folds, not by the better result on test "
        f"samples: more than 0.2 behind LDA on {len(behind)} of {len(names)} sets: {named(behind)};",
        f"  below the raw rows on {len(below)}: {named(below)}; at least the best of the three on {best}.",
    ]


def before(rows: list[Row]) -> list[str]:
    """What the scaling of tables has changed; ``rows`` are those of the scaling before."""
    means = Means([*kept_rows(RESULTS / "zoo.jsonl"), *({**row, "method": "before"} for row in rows)])
    lines = []
    for key in ("angle", "distance"):
        gains = {n: means.difference(n, "sparlow", "before", (key, key)) for n in means.sets("sparlow", "before")}
        mean = signed((float(np.mean([gain[0] for gain in gains.values()])), np.nan))
        lines += [f"- By {key}, {mean} points on average over {len(gains)} sets: {named(gains)}."]
    return lines


def criteria_account(rows: list[Row]) -> list[str]:
    """What the table of criteria says."""
    means = Means(rows)
    lines = []
    pairs = pairs_of(means)
    groups = {
        "the classical method": [pair for pair in pairs if pair[2] in CLASSICAL.values()],
        "the classical method with as many columns": [pair for pair in pairs if pair[2].endswith("-wide")],
        "label spreading + LDA": [pair for pair in pairs if pair[2] == "spreading"],
    }
    for said, group in groups.items():
        for key in ("angle", "distance"):
            gains = {
                f"{name} {ours}": means.difference(name, f"{ours}-sparlow", rival, (key, key))
                for name, ours, rival in group
            }
            ahead = signed((float(np.mean([gain[0] for gain in gains.values()])), np.nan))
            behind = {pair: gain for pair, gain in gains.items() if round(gain[0], 3) < -0.5}
            lines += [f"- Against {said}, by {key}: {ahead} points on average over {len(gains)} pairs."]
            lines += [f"  More than 0.5 below on {len(behind)}: {named(behind)}."]
            lines += [
                f"  By more than two standard errors: {', '.join(f'`{p}`' for p in clearly(behind, 2)) or 'none'}."
            ]
    return lines


def atoms_account(rows: list[Row]) -> list[str]:
    """What the table of numbers of atoms says."""
    means = Means([{**row, "set": f"{row['set']}, {row['method'][5:]}", "method": "sparlow"} for row in rows])
    steps = sum(bool(row["steps"]) for row in rows)
    lines = [f"- Held-out samples chose steps in {steps} of {len(rows)} fits."]
    for key in ("angle", "distance"):
        gains = {name: means.steps_gain(name, key) for name, _ in means.found}
        lost, won = ({n: g for n, g in gains.items() if round(s * g[0], 3) > 0.2} for s in (-1, 1))
        lines += [f"- By {key} they cost more than 0.2 on {named(lost)}; gain more on {named(won)}."]
    return lines


TABLES: dict[str, tuple[str, Callable[[list[Row]], list[str]]]] = {
    "accuracies": ("zoo", accuracies),
    "fits": ("zoo", fits),
    "differences": ("zoo", differences),
    "account": ("zoo", account),
    "before": ("zoo_before", before),
    "criteria": ("zoo_criteria", criteria),
    "criteria-account": ("zoo_criteria", criteria_account),
    "atoms": ("zoo_atoms", atoms),
    "atoms-account": ("zoo_atoms", atoms_account),
}


def printed(name: str, path: Path | None = None) -> str:
    """Return a table."""
    file, table = TABLES[name]
    return "\n".join(table(kept_rows(path or RESULTS / f"{file}.jsonl")))


PAGE = """\
# Defaults on many sets

`SparLow("lda").fit(X, y)` with nothing set, beside other methods on the same rows. Accuracy in per cent of the nearest
training sample, by angle / by distance: means over draws, at most 2000 test samples.
`SPARLOW_DATA=<folder> python -m benchmarks.zoo --sets all --seeds 0 1 2` makes the rows, which are kept in
`benchmarks/results/`, and `--page` this page.

Rows of SparLow below are those of version 0.2.0. `zoo_steps.jsonl` has one draw of today's default for 28 sets: 0.75
points more on average, 0.2 without `trace`, which gains 16; `isolet`, `scenes`, `noisy_usps` and `pie30` lose 0.5 to
1.4.

{accuracies}

- **Its start** is the model before learning together.
- **LDA** has a shrinkage chosen on folds. It is tried on rows as they are and on rows of unit norm; the better one
  counts. The same holds for the nearest of the raw rows. PCA keeps 95 % of the variance, at most 100 components.
- **SVM** (Gaussian kernel, C = 10) and **logistic** regression are classifiers, not embeddings. Each is tried on rows
  of unit norm and on standardised columns; the better one counts.

{account}

## The sets

Settings were chosen on the *open* sets. *Reserve* and *last* sets judge them.

{fits}

**Seconds** are CPU seconds of the whole fit with one thread, the median over draws. NCA starts from 50 principal
components. UMAP is supervised, with as many columns as SparLow; it has one draw.

## How sure the differences are

SparLow minus the other method on the same draws, by angle. Behind the ± stands the standard error of the mean over
draws. Draws share samples, so the error for new samples is larger. One draw has no error.

{differences}

## Without labels, and with five per class

Criteria by their defaults beside the classical method of the same name, by angle / by distance. Without labels SparLow
has up to 48 columns, the classical method a quarter of those of the samples. It is shown with as many, too, where that
differs. `python -m benchmarks.zoo --criteria` makes the rows.

{criteria}

{criteria-account}

## Other numbers of atoms

By angle, start → end of learning together; in brackets the number of draws. `python -m benchmarks.zoo --atoms` makes
the rows.

{atoms}

{atoms-account}
"""


def whole_page() -> str:
    """Return the page of the zoo."""
    return PAGE.format_map({name: printed(name) for name in TABLES})
