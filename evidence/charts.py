"""Draw measured numbers beside printed ones: what is measured is solid, what is printed hollow or dashed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.offsetbox import AnnotationBbox, OffsetImage
from numpy.typing import ArrayLike, NDArray

from sparlow.plots import embedding, images

Array = NDArray[Any]

_WIDTH, _HEIGHT = 6.4, 4.0
_NAMES = 9  # in a legend that stands inside the axes
_COLOURS = [*plt.colormaps["tab20"].colors[::2], *plt.colormaps["tab20"].colors[1::2]]  # type: ignore[attr-defined]
_MARKERS = "osD^vP*X<>^vP*X<>osD"  # a method has a colour and a marker that no other has


@dataclass(frozen=True)
class Series:
    """Hold the values of a method along an axis: mean, deviation, and printed values (NaN where there are none)."""

    name: str
    x: Sequence[float]
    mean: Sequence[float]
    deviation: Sequence[float] = ()
    printed: Sequence[float] = field(default=())


def lines(panels: Mapping[str, Sequence[Series]], axes: tuple[str, str], *, reverse: bool = False) -> Figure:
    """Draw values over a parameter with deviations; printed values are hollow, with dashes between them.

    Parameters
    ----------
    panels : mapping of str to sequences of Series
        A panel for each, side by side. Series of one name have one colour in all of them.
    axes : (str, str)
        Names of the axes.
    reverse : bool, default=False
        x falls from left to right and is spaced by its logarithm, as dimensions are.

    """
    figure, drawn = plt.subplots(1, len(panels), figsize=(_WIDTH * len(panels), _HEIGHT), squeeze=False)
    names = list(dict.fromkeys(one.name for series in panels.values() for one in series))
    for ax, (panel, series) in zip(drawn[0], panels.items(), strict=True):
        for one in series:
            place = names.index(one.name) % len(_COLOURS)
            colour, marker = _COLOURS[place], _MARKERS[place]
            deviation = np.asarray(one.deviation if len(one.deviation) else np.zeros(len(one.x)), float)
            many = len(one.x) > 15
            style = {"color": colour, "marker": marker, "markersize": 4, "capsize": 0 if many else 2, "lw": 1.4}
            ax.errorbar(one.x, one.mean, deviation, label=one.name, elinewidth=0.7, **style)
            _printed_line(ax, one, colour, marker)
        _finish(ax, axes, panel)
        if reverse:
            ax.set_xscale("log", base=2)
            ax.invert_xaxis()
            ticks = sorted({value for one in series for value in one.x})
            ax.set_xticks(ticks, [f"{value:g}" for value in ticks], minor=False)
            ax.tick_params(axis="x", labelsize=7)
        elif len({value for one in series for value in one.x}) <= 8:
            ax.set_xticks(sorted({value for one in series for value in one.x}))
        elif all(float(value).is_integer() for one in series for value in one.x):
            ax.xaxis.get_major_locator().set_params(integer=True)
    figure.tight_layout()
    return figure


def _printed_line(ax: Any, one: Series, colour: Any, marker: str) -> None:
    """Draw printed values; neighbours are joined, but not a first and a last one with nothing between them."""
    y = np.asarray(one.printed, float)
    if not np.isfinite(y).any():
        return
    ax.plot(one.x, y, marker, color=colour, ls="--", lw=0.7, mfc="none", markersize=6, alpha=0.8)


def _finish(ax: Any, axes: tuple[str, str], title: str) -> None:
    ax.set(xlabel=axes[0], ylabel=axes[1], title=title)
    ax.title.set_fontsize(10)
    ax.grid(alpha=0.3)
    if ax.get_legend_handles_labels()[1]:
        if any(line.get_linestyle() == "--" for line in ax.get_lines()):
            ax.plot([], [], "o--", color="0.4", mfc="none", lw=0.7, label="printed")
        beside = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}  # many names would cover the lines
        many = len(ax.get_legend_handles_labels()[1]) > _NAMES
        ax.legend(fontsize=7, frameon=False, **(beside if many else {"loc": "best"}))


def boxes(values: Mapping[str, ArrayLike], printed: Mapping[str, float], ylabel: str) -> Figure:
    """Draw a box for the values of each method over its seeds, and a hollow diamond for the printed value."""
    figure, ax = plt.subplots(figsize=(_WIDTH, _HEIGHT))
    names = list(values)
    ax.boxplot([np.asarray(values[name], float) for name in names], tick_labels=names, widths=0.5)
    known = [(place, printed[name]) for place, name in enumerate(names, start=1) if name in printed]
    if known:
        ax.plot(*zip(*known, strict=True), "D", color="C3", mfc="none", ls="none", label="printed")
        ax.legend(fontsize=8, frameon=False)
    ax.set_ylabel(ylabel)
    ax.grid(alpha=0.3, axis="y")
    ax.tick_params(axis="x", labelsize=8, rotation=20)
    figure.tight_layout()
    return figure


def surface(x: Sequence[float], y: Sequence[float], values: ArrayLike, axes: tuple[str, str]) -> Figure:
    """Draw values (y down, x across) over two parameters: a map with a number in each cell.

    Parameters
    ----------
    x, y : sequences of float
        The parameters.
    values : array of shape (len(y), len(x))
        NaN where nothing was measured.
    axes : (str, str)
        Names of the parameters.

    """
    figure, ax = plt.subplots(figsize=(0.9 * len(x) + 2.2, 0.55 * len(y) + 1.6))
    table = np.asarray(values, float)
    shown = ax.imshow(table, cmap="viridis", aspect="auto", origin="lower")
    middle = (np.nanmin(table) + np.nanmax(table)) / 2
    for row, column in np.argwhere(np.isfinite(table)):
        value = table[row, column]
        colour = "white" if value < middle else "black"
        ax.text(column, row, f"{value:.1f}", ha="center", va="center", fontsize=8, color=colour)
    ax.set_xticks(range(len(x)), [f"{value:g}" for value in x])
    ax.set_yticks(range(len(y)), [f"{value:g}" for value in y])
    ax.set(xlabel=axes[0], ylabel=axes[1])
    figure.colorbar(shown, label="1NN accuracy (%)")
    figure.tight_layout()
    return figure


def bars(groups: Mapping[str, Sequence[Series]], ylabel: str) -> Figure:
    """Draw groups of bars, each a Series of one value; printed values are dashed outlines."""
    figure, ax = plt.subplots(figsize=(_WIDTH * 1.2, _HEIGHT))
    left, ticks = 0.0, []
    for series in groups.values():
        for place, one in enumerate(series):
            error = one.deviation[0] if len(one.deviation) else 0.0
            ax.bar(left, one.mean[0], 0.8, yerr=error, color=f"C{place}", capsize=3, alpha=0.9)
            ax.text(left, 2, f"{one.mean[0]:.1f}", ha="center", color="white", fontsize=8)
            if len(one.printed) and np.isfinite(one.printed[0]):
                ax.bar(left, one.printed[0], 0.92, fill=False, ls="--", edgecolor="k", lw=0.9)
            ticks.append((left, one.name))
            left += 1
        left += 0.6
    if any(np.isfinite(one.printed).any() for series in groups.values() for one in series):
        ax.bar(0, 0, fill=False, ls="--", edgecolor="k", lw=0.9, label="printed")
        ax.legend(fontsize=8, frameon=False, loc="upper left", ncols=2)
    ax.set_xticks([place for place, _ in ticks], [name for _, name in ticks], rotation=20, fontsize=8)
    ax.set(ylabel=ylabel, ylim=(0, 108))
    ax.grid(alpha=0.3, axis="y")
    figure.tight_layout()
    return figure


def faces(columns: Mapping[str, Mapping[str, Array]]) -> Figure:
    """Draw a row of images for each method, in columns of methods; each image has its own grey scale."""
    rows = max(len(methods) for methods in columns.values())
    figure, drawn = plt.subplots(rows, len(columns), figsize=(5.6 * len(columns), 0.85 * rows + 0.5), squeeze=False)
    for side, (title, methods) in enumerate(columns.items()):
        for place, (name, stack) in enumerate(methods.items()):
            ax = images(stack.reshape(len(stack), -1), stack.shape[1:], columns=len(stack), ax=drawn[place, side])
            ax.set_title(f"{name}, {title}" if place == 0 else name, fontsize=9)
    figure.tight_layout()
    return figure


def clouds(columns: Mapping[str, Mapping[str, tuple[Array, Array, Array, Array]]]) -> Figure:
    """Draw embeddings in three dimensions, a column for each family; points are learned from, crosses are not.

    Parameters
    ----------
    columns : mapping of mappings
        Family to title to (train, y, test, y_test).

    """
    rows = max(len(methods) for methods in columns.values())
    figure = plt.figure(figsize=(3.6 * len(columns), 3.5 * rows))
    for side, methods in enumerate(columns.values()):
        for place, (title, (train, y, test, y_test)) in enumerate(methods.items()):
            ax: Any = figure.add_subplot(rows, len(columns), place * len(columns) + side + 1, projection="3d")
            embedding(train, y, size=9, legend=place == 0 and side == 0, ax=ax)
            for number, label in enumerate(np.unique(y)):
                ax.scatter(*test[y_test == label].T, marker="x", s=12, lw=0.8, color=f"C{number}")
            ax.set_aspect("auto")
            ax.set_title(title, fontsize=9)
            ax.tick_params(labelsize=5, pad=-2)
    figure.tight_layout()
    return figure


def thumbnails(panels: Mapping[str, tuple[Array, Array]]) -> Figure:
    """Draw images at their places in a two-dimensional embedding; panels of (Z, images)."""
    figure, drawn = plt.subplots(1, len(panels), figsize=(5.2 * len(panels), 5.0), squeeze=False)
    for ax, (title, (Z, stack)) in zip(drawn[0], panels.items(), strict=True):
        zoom = 20.0 / stack.shape[1]
        ax.plot(*Z.T, ".", ms=1)
        for place, image in zip(Z, stack, strict=True):
            box = OffsetImage(image, zoom=zoom, cmap="gray")
            ax.add_artist(AnnotationBbox(box, tuple(place), frameon=False))
        ax.set_title(title, fontsize=10)
        ax.margins(0.08)
        ax.tick_params(labelsize=7)
    figure.tight_layout()
    return figure
