"""Two or three coordinates of an embedding, to be drawn; each view says what it shows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from sklearn.decomposition import PCA

from .pictures import NONE, packed

Array = NDArray[Any]

_FULL = 32000  # of the range of 16-bit numbers
_SHRINKAGE = 0.01  # of the scatter within classes, which single samples leave without full rank


def views(Z: Array, classes: Array) -> list[dict[str, Any]]:
    """Ways to look at an embedding (n, l); ``classes`` are numbers, 65535 where a sample has none."""
    width = Z.shape[1]
    if width == 1:
        spread = np.random.default_rng(0).uniform(-0.5, 0.5, len(Z)) * (np.ptp(Z) or 1.0)
        note = "The embedding has one coordinate: across. The height is random, to part the points."
        return [_view("the coordinate", np.column_stack([Z[:, 0], spread]), ["1", ""], note)]
    if width <= 3:
        note = f"The embedding has {width} coordinates, and these are they."
        return [_view("coordinates", Z, ["1", "2", "3"][:width], note)]
    found = []
    known = classes != NONE
    if len(np.unique(classes[known])) > 2:
        found.append(_discriminant(Z, classes, known))
    note = f"The first three of the {width} coordinates, in the order of what they add to the criterion."
    found.append(_view("coordinates 1, 2, 3", Z[:, :3], ["1", "2", "3"], note))
    main = PCA(3, random_state=0).fit(Z)
    part = 100 * main.explained_variance_ratio_.sum()
    note = f"The {width} coordinates turned to their principal axes; these three hold {part:.0f} % of the variance."
    found.append(_view("principal axes", main.transform(Z), ["p1", "p2", "p3"], note))
    return found


def _discriminant(Z: Array, classes: Array, known: Array) -> dict[str, Any]:
    labels = np.unique(classes[known], return_inverse=True)[1]
    count = min(3, labels.max())
    member = np.eye(labels.max() + 1)[labels]
    means = (member.T @ Z[known]) / member.sum(axis=0)[:, None]
    rest, apart = Z[known] - means[labels], means[labels] - Z[known].mean(axis=0)
    within = rest.T @ rest + _SHRINKAGE * np.vdot(Z, Z) / Z.shape[1] * np.eye(Z.shape[1])
    turned = Z @ eigh(apart.T @ apart, within)[1][:, ::-1][:, :count]
    note = (
        f"The {Z.shape[1]} coordinates seen along the {count} directions that part the classes most (linear "
        "discriminant analysis of the embedding of these samples). Classes that overlap here may be apart in others."
    )
    return _view("discriminant axes", turned, ["d1", "d2", "d3"][:count], note)


def _view(name: str, coordinates: Array, axes: list[str], note: str) -> dict[str, Any]:
    """Coordinates as 16-bit numbers around the middle of their box, with half its width and height and its radius."""
    dimensions = coordinates.shape[1]
    full = np.zeros((len(coordinates), 3))
    full[:, :dimensions] = coordinates - (coordinates.min(axis=0) + coordinates.max(axis=0)) / 2
    full *= _FULL / (np.abs(full).max() or 1.0)
    half = np.maximum(np.abs(full[:, :2]).max(axis=0), 1.0)
    return {
        "name": name,
        "dimensions": dimensions,
        "axes": [*axes, "", ""][:3],
        "note": note,
        "extent": [*half.tolist(), float(np.linalg.norm(full, axis=1).max()) or 1.0],
        "coords": packed(np.round(full), np.int16),
    }
