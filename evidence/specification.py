"""Define the words in which experiments are written down: settings, entries, sizes, experiments."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

LATER = "cost"  # why an entry has no row: it takes minutes of CPU time, often with features and folds of its own


@dataclass(frozen=True)
class Setting:
    """Say which samples are learned from and which are tested on.

    Parameters
    ----------
    data : str
        Name of an image set, see :func:`evidence.datasets.load`.
    per_class : int, optional
        Number of random training samples of each class. By default the standard split is used, or half of each class
        where there is none.
    train, test : int, optional
        Largest number of random samples of the training and of the test part.
    labels : int, optional
        Number of random training samples of each class that keep their label; the others are unlabelled (−1).
    classes : tuple of int
        Classes that are used; as many of the first where the set has others.
    transductive : bool
        Whether the test samples are learned from too, without their labels.
    features : str
        How images become vectors, a name of :data:`evidence.splits.FEATURES`.

    """

    data: str
    per_class: int | None = None
    train: int | None = None
    test: int | None = None
    labels: int | None = None
    classes: tuple[int, ...] = ()
    transductive: bool = False
    features: str = "pixels"

    @property
    def by_chance(self) -> bool:
        """Return whether the seed decides which samples are in which part."""
        standard = self.data in ("usps", "mnist", "scenes15") and self.per_class is None
        return not standard or self.train is not None or self.test is not None or self.labels is not None


@dataclass(frozen=True)
class Entry:
    """Name a row to be measured for each seed: a method in a setting, and its place in the table or figure.

    Parameters
    ----------
    method : str
        A name of :data:`evidence.methods.METHODS`.
    setting : Setting
    options : mapping
        Options of the method, see :mod:`evidence.methods`.
    printed : mapping of str to float
        The paper's values by measure: "1nn", "svm", "own" (the method's own decision), "first" (1NN at the first step).
    x : float, optional
        Place along the figure's axis.
    panel : str
        Part of the table or figure.
    label : str
        Name in tables and legends, by default the method.
    open : str
        Why the row has not been measured in full, in a few words; the cell says it.

    """

    method: str
    setting: Setting
    options: Mapping[str, Any] = field(default_factory=dict)
    printed: Mapping[str, float] = field(default_factory=dict)
    x: float | None = None
    panel: str = ""
    label: str = ""
    open: str = ""

    @property
    def name(self) -> str:
        """Return the name in tables and legends."""
        return self.label or self.method

    def key(self, seed: int) -> str:
        """Return a digest of method, setting, options and seed, by which rows are looked up."""
        setting = asdict(self.setting)
        if not self.setting.transductive:
            del setting["transductive"]
        what = [self.method, setting, dict(self.options), seed]
        return hashlib.sha1(json.dumps(what, sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Size:
    """Say how much of an experiment is run.

    Parameters
    ----------
    seeds : int
        Number of seeds.
    minutes : float
        Approximate cost on two cores.
    setting : mapping
        Replaces fields of the settings.
    options : mapping
        Replaces options of SparLow, and those that an entry of another method names.
    points : tuple of float
        Values of x that are run, all by default.

    """

    seeds: int = 3
    minutes: float = 1.0
    setting: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    points: tuple[float, ...] = ()

    def of(self, entry: Entry) -> Entry:
        """Return the entry at this size."""
        ours = re.search("Spar[A-Z]", entry.method)  # SparLDA, LDA-SparLow, not Sparse PCA
        changed = {name: value for name, value in self.options.items() if ours or name in entry.options}
        return replace(entry, setting=replace(entry.setting, **self.setting), options={**entry.options, **changed})


@dataclass(frozen=True)
class Experiment:
    """Describe a table or figure of the paper.

    Parameters
    ----------
    name, title : str
    kind : str
        What it is shown as, a name of :data:`evidence.tables.TABLES`.
    entries : tuple of Entry
    full, quick : Size
    measures : tuple of str
        "1nn", "svm".
    axes : (str, str)
        Names of the two axes.
    mean_over_classes : bool
        Whether tables show the mean of the classes' accuracies instead of that over all test samples.
    remark : str
        What a reader must know: what the paper leaves open, what is done otherwise.

    """

    name: str
    title: str
    kind: str
    entries: tuple[Entry, ...]
    full: Size = Size()
    quick: Size = Size(1)
    measures: tuple[str, ...] = ("1nn",)
    axes: tuple[str, str] = ("", "accuracy (%)")
    remark: str = ""
    mean_over_classes: bool = False

    @property
    def data(self) -> tuple[str, ...]:
        """Return the names of the image sets that are needed."""
        return tuple(dict.fromkeys(entry.setting.data for entry in self.entries))

    def at(self, size: Size, on: str | None = None) -> tuple[Entry, ...]:
        """Return the entries at a size; ``on`` names another image set than the paper's, without printed values."""
        chosen = [e for e in self.entries if not size.points or e.x is None or e.x in size.points]
        entries = [size.of(entry) for entry in chosen]
        if on is None:
            return tuple(_distinct(entries))
        # methods on picture files do not apply to a set of one shape; entries that panels share become one there
        moved = [_moved(entry, on) for entry in entries if entry.setting.features != "pictures"]
        homes: dict[tuple[str, float | None, str], set[str]] = {}
        for entry in moved:
            homes.setdefault((entry.key(0), entry.x, entry.name), set()).add(entry.panel)
        shared = any(len(panels) > 1 for panels in homes.values())
        return tuple(_distinct([replace(entry, panel=on) for entry in moved] if shared else moved))


def _moved(entry: Entry, on: str) -> Entry:
    setting = replace(entry.setting, data=on, per_class=None, features="pixels")
    classes = tuple(range(len(entry.setting.classes)))
    panel = on if entry.panel.lower() == entry.setting.data else entry.panel
    return replace(entry, setting=replace(setting, classes=classes), printed={}, panel=panel)


def _distinct(entries: list[Entry]) -> list[Entry]:
    """Return the entries without repetition: what two sets have in the paper is one on another set."""
    seen: dict[tuple[str, str, float | None, str], Entry] = {}
    for entry in entries:
        seen.setdefault((entry.key(0), entry.panel, entry.x, entry.name), entry)
    return list(seen.values())
