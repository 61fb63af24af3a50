"""Draw atoms, factors, explanations, embeddings and training curves as matplotlib axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from . import explanations
from .labels import is_labelled, without_na

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "curves",
    "embedding",
    "explanation",
    "images",
    "local_atoms",
    "local_explanation",
    "local_factors",
    "spectrum",
]


def _pyplot() -> Any:
    """Import matplotlib, or say which extra has it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Pictures need matplotlib: pip install 'sparlow[plots]'") from error
    return plt


def images(
    vectors: ArrayLike,
    shape: tuple[int, ...] | None = None,
    *,
    columns: int = 20,
    signed: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw vectors as a grid of images, each scaled to its own range.

    Parameters
    ----------
    vectors : array of shape (count, height × width) or (count, height × width × 3)
        Atoms, samples or factors.
    shape : (height, width) or (height, width, 3), optional
        Of one image; not needed for a stack of them, (count, height, width) or (count, height, width, 3).
    columns : int, default=20
        Images in a row of the grid.
    signed : bool, default=False
        Show zero as white, positive red and negative blue, for vectors whose sign tells something; of colours the mean.
    ax : Axes, optional
        Where to draw.

    """
    vectors = np.asarray(vectors, dtype=float)
    if vectors.ndim in (3, 4) and (shape is None or tuple(shape) == vectors.shape[1:]):
        shape = vectors.shape[1:]
        vectors = vectors.reshape(len(vectors), -1)
    if shape is None:
        raise ValueError(f"shape, the height and width of one image, is needed for vectors of shape {vectors.shape}.")
    if np.ndim(shape) != 1 or len(shape) not in (2, 3) or (*shape, 3)[2] not in (1, 3):
        raise ValueError(f"shape must be (height, width), or (height, width, 3) for colours, got {shape!r}.")
    size = int(np.prod(shape))
    if vectors.ndim != 2 or vectors.shape[1] != size:
        raise ValueError(f"vectors must have shape (count, {size}) for {tuple(shape)} images, got {vectors.shape}.")
    if signed and len(shape) == 3:
        vectors = np.asarray(vectors.reshape(len(vectors), -1, shape[2]).mean(axis=2))
    height, width, *colours = shape[:2] if signed or (*shape, 1)[2] == 1 else shape
    rows = -(-len(vectors) // columns)
    ax = ax or _pyplot().subplots(figsize=(columns * 0.5, rows * 0.5 + 0.3), layout="constrained")[1]
    sheet = np.full((rows * (height + 1) + 1, columns * (width + 1) + 1, *colours), 1.0 if colours else np.nan)
    for place, vector in enumerate(vectors):
        top, left = (place // columns) * (height + 1) + 1, (place % columns) * (width + 1) + 1
        low, high = (0.0, np.abs(vector).max()) if signed else (vector.min(), vector.max())
        scaled = (vector - low) / ((high - low) or 1.0)
        sheet[top : top + height, left : left + width] = scaled.reshape(height, width, *colours)
    ax.imshow(sheet, cmap="RdBu_r" if signed else "gray", vmin=-1 if signed else 0, vmax=1, interpolation="nearest")
    ax.set_axis_off()
    return ax


def explanation(
    image: ArrayLike, dictionary: ArrayLike, code: Any, shape: tuple[int, int], *, n_atoms: int = 6
) -> list[Axes]:
    """Draw an image, its reconstruction φD, and the atoms that explain it most, with their codes.

    With ``views`` the codes are means over the moved copies, and the reconstruction is as blurred as their mean.

    Parameters
    ----------
    image : array of shape (m,)
        One sample.
    dictionary : array of shape (r, m)
        The atoms.
    code : array of shape (r,) or sparse row
        The codes of the sample, for instance ``model.encode(X)[[0]]``.
    shape : (height, width)
        Of one image.
    n_atoms : int, default=6
        How many atoms to show.

    """
    dense = code.toarray() if hasattr(code, "toarray") else code
    code, dictionary = np.ravel(np.asarray(dense, dtype=float)), np.asarray(dictionary, dtype=float)
    image = np.ravel(np.asarray(image, dtype=float))
    if len(code) != len(dictionary) or len(image) != dictionary.shape[1]:
        raise ValueError(
            f"explanation is of one image, of {dictionary.shape[1]} pixels, and its {len(dictionary)} codes, got "
            f"{len(image)} and {len(code)} numbers: choose a row, X[0] and model.encode(X[:1])."
        )
    chosen = np.argsort(-np.abs(code))[: min(n_atoms, np.count_nonzero(code))]
    _, axes = _pyplot().subplots(1, n_atoms + 2, figsize=(1.3 * (n_atoms + 2), 1.7), squeeze=False)
    panels = [(image, "image"), (code @ dictionary, f"from {np.count_nonzero(code)} atoms")]
    panels += [(dictionary[j], f"{code[j]:+.2f}") for j in chosen]
    for ax, (vector, title) in zip(axes[0], panels, strict=False):
        ax.imshow(vector.reshape(shape), cmap="gray", interpolation="nearest")
        ax.set_title(title, fontsize=10)
    for ax in axes[0]:
        ax.set_axis_off()
    return list(axes[0])


def local_atoms(model: Any, *, columns: int = 16, ax: Axes | None = None) -> Axes:
    """Draw the atoms of a local model as patches.

    Parameters
    ----------
    model : SparLow
        Fitted, with ``views=Patches(...)``.
    columns : int, default=16
        Patches in a row of the grid.
    ax : Axes, optional
        Where to draw.

    """
    patch = explanations.Layout.of(model).patch
    atoms = np.asarray(model.dictionary_, float).reshape(len(model.dictionary_), *patch)
    return images(atoms if len(patch) == 2 or patch[2] == 3 else atoms.mean(axis=3), columns=columns, ax=ax)


def local_factors(model: Any, X: ArrayLike, *, n_components: int = 6, n_atoms: int = 5) -> Any:
    """Draw where in the picture the components of a local model look, and with which atoms.

    A row for each component has its picture (a tile for each cell, the sum of its atoms: red is brighter, blue darker),
    its map (how much it looks at each place) and the atoms that it uses most.

    Parameters
    ----------
    model : SparLow
        Fitted, with ``views=Patches(...)``.
    X : array of shape (n_samples, n_features)
        Pictures, a few hundred of all classes.
    n_components : int, default=6
        How many components to draw.
    n_atoms : int, default=5
        How many atoms to draw for each.

    Returns
    -------
    axes : array of Axes of shape (rows, 2 + n_atoms)

    """
    found = explanations.factors(model, X)
    pictures, maps, use = found.pictures(), found.maps, found.atoms
    rows = min(n_components, len(pictures))
    size = (1.25 * (n_atoms + 2), 1.35 * rows + 0.2)
    _, axes = _pyplot().subplots(rows, n_atoms + 2, figsize=size, squeeze=False, layout="constrained")
    patch = found.layout.patch
    atoms = found.dictionary.reshape(len(found.dictionary), *patch)
    for k, line in enumerate(axes):
        _signed(line[0], pictures[k])
        line[1].imshow(maps[k], cmap="magma", interpolation="bilinear")
        best = np.argsort(-use[k], kind="stable")[:n_atoms]
        for ax, atom in zip(line[2:], best, strict=False):
            ax.imshow(_shown(atoms[atom]), cmap="gray", interpolation="nearest")
            ax.set_title(f"{use[k, atom] / max(use[k].max(), 1e-12):.2f}", fontsize=8)
        line[0].set_ylabel(str(k + 1), rotation=0, labelpad=10, va="center")
        for ax in line:
            ax.set(xticks=[], yticks=[])
    for ax, title in zip(axes[0], ("factor", "where", "atoms"), strict=False):
        words = ax.get_title()
        ax.set_title(f"{title}\n{words}" if words else title, fontsize=9)
    return axes


def local_explanation(
    model: Any, image: ArrayLike, *, label: Any = None, against: Any = None, n_atoms: int = 6
) -> list[Axes]:
    """Draw what in a picture speaks for one class rather than another.

    The picture, with a frame for each of the parts that count most; the same over the map of what speaks for the class
    (red) and for the other one (blue); and the atoms of these parts, with their shares.

    Parameters
    ----------
    model : SparLow
        Fitted with classes and ``views=Patches(...)``.
    image : array of shape (n_features,)
        One picture.
    label, against : object, optional
        Two of ``model.classes_``; by default the most probable one and the next.
    n_atoms : int, default=6
        How many parts to draw.

    """
    from matplotlib.patches import Rectangle

    found = explanations.explain(model, image, label, against)
    layout, grid = found.layout, found.layout.grid
    picture = np.asarray(image, float).reshape(grid.height, grid.width, grid.channels)
    picture = picture[:, :, 0] if grid.channels == 1 else (picture - picture.min()) / (np.ptp(picture) or 1.0)
    _, row = _pyplot().subplots(1, n_atoms + 2, figsize=(1.3 * (n_atoms + 2), 1.8), squeeze=False, layout="constrained")
    axes = list(row[0])
    axes[0].imshow(picture, cmap="gray", interpolation="nearest")
    axes[0].set_title(f"{found.label}: {100 * found.probability:.0f} %", fontsize=9)
    axes[1].imshow(picture, cmap="gray", interpolation="nearest", alpha=0.35)
    extent = (-0.5, grid.width - 0.5, grid.height - 0.5, -0.5)
    _signed(axes[1], found.map, alpha=0.6, extent=extent, interpolation="bilinear")
    axes[1].set_title(f"{found.label}, not {found.against}", fontsize=9)
    centres, sizes = layout.centres(), layout.cell_size()
    for ax, (atom, sign, cell, value) in zip(axes[2:], found.largest(n_atoms), strict=False):
        (y, x), (height, width) = centres[cell], sizes[cell]
        colour = "#c0392b" if value > 0 else "#2471a3"
        corner = (x - width / 2, y - height / 2)
        axes[0].add_patch(Rectangle(corner, width, height, fill=False, edgecolor=colour, linewidth=1.4))
        values = sign * np.asarray(model.dictionary_[atom], float).reshape(layout.patch)
        ax.imshow(_shown(values), cmap="gray", interpolation="nearest")
        ax.set_title(f"{100 * value:+.1f} %\n{layout.where(cell)}", fontsize=8, color=colour)
    for ax in axes:
        ax.set_axis_off()
    return axes


def _shown(patch: Any) -> Any:
    """Return a patch as it is drawn: grey as it is, three colours between 0 and 1, the mean of other channels."""
    if patch.ndim == 2:
        return patch
    return (patch - patch.min()) / (np.ptp(patch) or 1.0) if patch.shape[2] == 3 else patch.mean(axis=2)


def _signed(ax: Any, values: Any, **options: Any) -> None:
    """Draw values with zero as white, positive red and negative blue."""
    high = float(np.abs(values).max()) or 1.0
    ax.imshow(values, **{"cmap": "RdBu_r", "vmin": -high, "vmax": high, "interpolation": "nearest", **options})


_MARKERS = "os^Dv*P"


def embedding(
    Z: ArrayLike,
    y: ArrayLike | None = None,
    *,
    names: Sequence[Any] | None = None,
    size: float = 12.0,
    legend: bool | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw an embedding of two or three dimensions as a scatter plot, coloured by class or by target.

    Up to ten classes differ by colour alone, more by colour and marker: seventy combinations, then they repeat. More
    than twenty are named in the picture, where a legend would be too long to be read.

    Parameters
    ----------
    Z : array of shape (n, 2) or (n, 3)
        The embedding, for instance of a model with ``n_components=2``.
    y : array of shape (n,), optional
        Class labels. Samples of label −1, None or NaN are unlabelled: small, grey, behind the others. Or real
        targets, of which some are not whole numbers, NaN where they are missing: these get a colour bar.
    names : sequence, optional
        What the legend calls the classes, in the order of ``np.unique(y)`` without −1.
    size : float, default=12.0
        Area of a marker, in points².
    legend : bool, optional
        Whether to draw the legend; by default for two to twenty classes.
    ax : Axes, optional
        Where to draw; for three dimensions made with ``projection="3d"``.

    """
    Z = np.asarray(Z, dtype=float)
    if Z.ndim != 2 or Z.shape[1] not in (2, 3):
        hint = (
            "one dimension is better shown as a histogram"
            if Z.shape[-1] == 1
            else "learn a model with n_components=2 for a picture, or choose columns"
        )
        raise ValueError(f"Z must have shape (n, 2) or (n, 3), got {Z.shape}: {hint}.")
    y = np.zeros(len(Z), int) if y is None else np.asarray(without_na(y))
    if y.shape != (len(Z),):
        raise ValueError(f"y must have one label for each of the {len(Z)} samples, got shape {y.shape}.")
    real = y.dtype.kind == "f" and bool(np.any(y[np.isfinite(y)] % 1))
    known = np.ones(len(y), bool) if real else is_labelled(y)
    known &= np.isfinite(y) if y.dtype.kind == "f" else True
    classes = np.unique(y[known]) if not real else y[:0]
    if real and names is not None:
        raise ValueError("names are of classes, but y has real targets.")
    names = list(classes if names is None else names)
    if len(names) != len(classes):
        raise ValueError(f"{len(names)} names for {len(classes)} classes.")
    own = ax is None
    if ax is None:
        fig = _pyplot().figure(figsize=(6.4, 5.2), layout="constrained")  # keeps room for the legend
        ax = fig.add_subplot(projection="3d" if Z.shape[1] == 3 else None)
    elif (ax.name == "3d") != (Z.shape[1] == 3):
        raise ValueError(f"Z has {Z.shape[1]} columns, but ax is {ax.name}: use projection='3d' for three.")
    scatter: Any = ax.scatter  # of two coordinates or three
    if not known.all():
        scatter(*Z[~known].T, s=0.4 * size, color="0.75", label="unlabelled", zorder=0)
    if real:
        points = scatter(*Z[known].T, s=size, lw=0, alpha=0.8, c=y[known])
        ax.figure.colorbar(points, ax=ax, shrink=0.7)
    crowd = len(classes) > 20
    for place, (label, name) in enumerate(zip(classes, names, strict=True)):
        points, colour, marker = Z[known & (y == label)], f"C{place % 10}", _MARKERS[place // 10 % len(_MARKERS)]
        scatter(*points.T, s=size, lw=0, alpha=0.8, label=name, color=colour, marker=marker)
        if crowd:
            _name_tag(ax, np.median(points, axis=0), name, colour)
    if len(classes) and (legend or (legend is None and len(classes) > 1 and not crowd)):
        _legend(ax, len(classes), own)
    if ax.name == "3d":
        ax.set_aspect("equal")
    else:
        ax.set_aspect("equal", adjustable="datalim")
    ax.tick_params(labelsize=7)
    return ax


def _name_tag(ax: Any, place: Any, name: Any, colour: str) -> None:
    """Write the name of a class at a place of the embedding."""
    box = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": colour, "linewidth": 0.6, "alpha": 0.8}
    ax.text(*place, str(name), fontsize=6, ha="center", va="center", bbox=box)


def _legend(ax: Axes, count: int, own: bool) -> None:
    """Put the legend beside the picture, in columns of about eighteen; a figure of our ``own`` makes room for it."""
    columns = -(-count // 18)
    holder: Any = ax
    where: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.08 if ax.name == "3d" else 1.0, 0.5)}
    if own and ax.name == "3d":  # beside such axes the layout leaves no room, at the figure's edge it does
        holder, where = ax.figure, {"loc": "outside right center"}
    holder.legend(
        **where,
        ncols=columns,
        fontsize=9 if columns == 1 else 7,
        frameon=False,
        handletextpad=0.1,
        columnspacing=0.8,
        markerscale=1.6,
    )


def _side_by_side(ax: Sequence[Axes] | None, panels: int) -> list[Any]:
    """Return the axes to draw on: those given, or new ones in a row."""
    if ax is None:
        ax = _pyplot().subplots(1, panels, figsize=(4.4 * panels, 3.2), squeeze=False)[1][0]
    return list(ax)


def _finished(axes: list[Any], panels: int) -> list[Any]:
    """Return axes whose numbers below are whole, with a grid, and a legend where curves have names."""
    for axis in axes[:panels]:
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.grid(alpha=0.3)
        if axis.get_legend_handles_labels()[1]:
            axis.legend(frameon=False, fontsize=8)
    axes[0].figure.tight_layout()
    return axes


def curves(
    history: Mapping[str, ArrayLike], *, label: str | None = None, ax: Sequence[Axes] | None = None
) -> list[Axes]:
    """Draw the quotient, or what batches have explained, and the score on held-out samples, over the steps.

    Parameters
    ----------
    history : dict of arrays
        ``SparLow.history_``. Without a held-out part (see ``early_stopping``) there is one panel only.
    label : str, optional
        A name, to tell the curves of several models on the same axes apart.
    ax : sequence of two Axes, optional
        Where to draw; as this function returned them, to add the curves of another model.

    Returns
    -------
    axes : list of Axes
        For the quotient and for the held-out score, whose best step is marked.

    """
    steps, quotient, score = (np.asarray(history[name], float) for name in ("step_number", "quotient", "held_out"))
    judged = np.isfinite(score)
    panels = 2 if judged.any() else 1
    axes = _side_by_side(ax, panels)
    (line,) = axes[0].plot(steps, quotient, "o-", markersize=3, label=label)
    axes[0].set(xlabel="step", ylabel="quotient, or share explained")
    if panels == 2:
        best = np.flatnonzero(score == score[judged].max())[0]
        axes[1].plot(steps, score, "o-", markersize=3, color=line.get_color(), label=label)
        mark = {"markersize": 13, "color": line.get_color(), "mec": "k", "mew": 0.6}
        name = f"best: step {steps[best]:.0f}" if label is None else None
        axes[1].plot(steps[best], score[best], "*", label=name, **mark)
        axes[1].set(xlabel="step", ylabel="held-out score")
    return _finished(axes, panels)


def spectrum(
    found: Mapping[str, ArrayLike], *, label: str | None = None, ax: Sequence[Axes] | None = None
) -> list[Axes]:
    """Draw what each component adds, and mark the number from which on the held-out score is flat.

    The mark is at the smallest number of components whose held-out score is within one standard error of the best.

    Parameters
    ----------
    found : dict of arrays
        ``SparLow.spectrum_``. Without a held-out part there is one panel only.
    label : str, optional
        A name, to tell the curves of several models on the same axes apart.
    ax : sequence of two Axes, optional
        Where to draw; as this function returned them, to add the curves of another model.

    Returns
    -------
    axes : list of Axes
        For the quotient of each component, and for the held-out score of the first ones.

    """
    names = ("n_components", "quotient", "held_out", "error")
    counts, quotient, score, error = (np.asarray(found[name], float) for name in names)
    tried = np.isfinite(score)
    panels = 2 if tried.any() else 1
    axes = _side_by_side(ax, panels)
    (line,) = axes[0].plot(counts, quotient, "o-", markersize=3, label=label)
    axes[0].set(xlabel="component", ylabel="its quotient, training samples", ylim=(0, None))
    if panels == 2:
        colour, margin = line.get_color(), np.nan_to_num(error)
        best = int(np.flatnonzero(tried)[np.argmax(score[tried])])
        flat = int(np.flatnonzero(tried & (np.nan_to_num(score, nan=-np.inf) >= score[best] - margin[best]))[0])
        axes[1].plot(counts[tried], score[tried], "o-", markersize=3, color=colour, label=label)
        axes[1].fill_between(counts[tried], (score - margin)[tried], (score + margin)[tried], color=colour, alpha=0.2)
        name = f"flat from {counts[flat]:.0f} on" if label is None else None
        axes[1].axvline(counts[flat], color=colour, ls="--", lw=1, label=name)
        axes[1].set(xlabel="number of components", ylabel="held-out score")
    return _finished(axes, panels)
