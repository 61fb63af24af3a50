"""Pictures of what was computed: arrays in, matplotlib axes out; nothing is computed here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Pictures need matplotlib: pip install 'sparlow[plots]'") from error
    return plt


def images(
    vectors: ArrayLike, shape: tuple[int, int], *, columns: int = 20, signed: bool = False, ax: Axes | None = None
) -> Axes:
    """Vectors as a grid of images, each scaled to its own range.

    Parameters
    ----------
    vectors : array of shape (count, height × width)
        Atoms, samples or factors.
    shape : (height, width)
        Of one image.
    columns : int, default=20
        Images in a row of the grid.
    signed : bool, default=False
        Show zero as white, positive red and negative blue, for vectors whose sign tells something.
    ax : Axes, optional
        Where to draw.

    """
    vectors = np.asarray(vectors, dtype=float)
    if vectors.ndim != 2 or vectors.shape[1] != shape[0] * shape[1]:
        raise ValueError(
            f"vectors must have shape (count, {shape[0] * shape[1]}) for {shape} images, got {vectors.shape}."
        )
    ax = ax or _pyplot().subplots(figsize=(columns * 0.5, -(-len(vectors) // columns) * 0.5))[1]
    height, width = shape
    rows = -(-len(vectors) // columns)
    sheet = np.full((rows * (height + 1) + 1, columns * (width + 1) + 1), np.nan)
    for place, vector in enumerate(vectors):
        top, left = (place // columns) * (height + 1) + 1, (place % columns) * (width + 1) + 1
        low, high = (0.0, np.abs(vector).max()) if signed else (vector.min(), vector.max())
        sheet[top : top + height, left : left + width] = ((vector - low) / ((high - low) or 1.0)).reshape(shape)
    ax.imshow(sheet, cmap="RdBu_r" if signed else "gray", vmin=-1 if signed else 0, vmax=1, interpolation="nearest")
    ax.set_axis_off()
    return ax


def explanation(
    image: ArrayLike, dictionary: ArrayLike, code: ArrayLike, shape: tuple[int, int], *, n_atoms: int = 6
) -> list[Axes]:
    """An image, its reconstruction φD, and the atoms that explain it most, with their codes.

    Parameters
    ----------
    image : array of shape (m,)
        One sample.
    dictionary : array of shape (r, m)
        The atoms.
    code : array of shape (r,)
        The codes of the sample.
    shape : (height, width)
        Of one image.
    n_atoms : int, default=6
        How many atoms to show.

    """
    code, dictionary = np.asarray(code, dtype=float), np.asarray(dictionary, dtype=float)
    chosen = np.argsort(-np.abs(code))[: min(n_atoms, np.count_nonzero(code))]
    _, axes = _pyplot().subplots(1, n_atoms + 2, figsize=(1.3 * (n_atoms + 2), 1.7), squeeze=False)
    panels = [(np.asarray(image, dtype=float), "image"), (code @ dictionary, f"from {np.count_nonzero(code)} atoms")]
    panels += [(dictionary[j], f"{code[j]:+.2f}") for j in chosen]
    for ax, (vector, title) in zip(axes[0], panels, strict=False):
        ax.imshow(vector.reshape(shape), cmap="gray", interpolation="nearest")
        ax.set_title(title, fontsize=10)
    for ax in axes[0]:
        ax.set_axis_off()
    return list(axes[0])
