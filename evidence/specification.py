"""The words in which experiments are written down: settings, entries, sizes, experiments."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Setting:
    """Which samples are learned from and which are tested on.

    Parameters
    ----------
    data : str
        Name of an image set, see :func:`sparlow.datasets.load`.
    per_class : int, optional
        Learn from so many random samples of each class; by default the standard split, or half of each class where
        there is none.
    train, test : int, optional
        At most so many random samples of the training and of the test part.
    labels : int, optional
        Keep so many random labels of each class, the other training samples are unlabelled (−1).
    classes : tuple of int
        These classes only; as many of the first where the set has others.
    transductive : bool
        Learn from the test samples too, without their labels.
    features : str
        How images become vectors, a name of :data:`sparlow.experiments.splits.FEATURES`.

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
        """Whether the seed decides which samples are in which part."""
        standard = self.data in ("usps", "mnist", "scenes15") and self.per_class is None
        return not standard or self.train is not None or self.test is not None or self.labels is not None


@dataclass(frozen=True)
class Entry:
    """A row to be measured for each seed: a method in a setting, and where its result belongs.

    ``printed`` holds the paper's values by the name of the measure ("1nn", "svm", "own": the method's own decision,
    "first": 1NN at the start of the iterations). ``options`` are for the method, see
    :mod:`sparlow.experiments.methods`; ``x`` is the place along the figure's axis, ``panel`` the part of the figure.
    """

    method: str
    setting: Setting
    options: Mapping[str, Any] = field(default_factory=dict)
    printed: Mapping[str, float] = field(default_factory=dict)
    x: float | None = None
    panel: str = ""
    label: str = ""

    @property
    def name(self) -> str:
        """What tables and legends call it."""
        return self.label or self.method

    def key(self, seed: int) -> str:
        """The same for the same method, setting, options and seed; resuming looks rows up by it."""
        setting = asdict(self.setting)
        if not self.setting.transductive:
            del setting["transductive"]
        what = [self.method, setting, dict(self.options), seed]
        return hashlib.sha1(json.dumps(what, sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Size:
    """How much of an experiment is run: number of seeds, and what replaces parts of settings and options.

    ``options`` are SparLow's, and replace those that an entry of another method names. ``points`` are the values of x
    that are run, all by default.
    ``minutes`` is about what it costs on two cores.
    """

    seeds: int = 3
    minutes: float = 1.0
    setting: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    points: tuple[float, ...] = ()

    def of(self, entry: Entry) -> Entry:
        """The entry at this size."""
        ours = re.search("Spar[A-Z]", entry.method)  # SparLDA, LDA-SparLow, not Sparse PCA
        changed = {name: value for name, value in self.options.items() if ours or name in entry.options}
        return replace(entry, setting=replace(entry.setting, **self.setting), options={**entry.options, **changed})


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper.

    Parameters
    ----------
    name, title : str
    kind : str
        What it is drawn as, a name of :data:`sparlow.experiments.report.FORMS`.
    entries : tuple of Entry
    full, quick : Size
    measures : tuple of str
        "1nn", "svm".
    axes : (str, str)
        What x is, and a word on the other axis.
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
        """Image sets it needs."""
        return tuple(dict.fromkeys(entry.setting.data for entry in self.entries))

    def at(self, size: Size, on: str | None = None) -> tuple[Entry, ...]:
        """Entries at a size; ``on`` another image set than the paper's, which has no printed values."""
        chosen = [e for e in self.entries if not size.points or e.x is None or e.x in size.points]
        entries = [size.of(entry) for entry in chosen]
        if on is None:
            return tuple(_distinct(entries))
        # what begins with picture files has no place on a set of one shape; what panels share is one there
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
    """Entries without repetition: what two sets have in the paper is one on another set."""
    seen: dict[tuple[str, str, float | None, str], Entry] = {}
    for entry in entries:
        seen.setdefault((entry.key(0), entry.panel, entry.x, entry.name), entry)
    return list(seen.values())
