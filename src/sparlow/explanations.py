"""What a local model looks at: where in the picture its factors look, and what in a picture speaks for a class.

A picture has the features Φ (cells × signs × atoms), its pooled codes of patches, and the embedding y(Φ). Two questions
are answered here:

* What does a unit of component k add? The pattern cov(Φ, y_k)/var(y_k) over some pictures, for every cell, sign and
  atom: the analogue of a factor image, whatever the form of the embedding.
* What in this picture speaks for class c rather than d? With v the difference of the means of both classes in the
  embedding, y·v is up to a constant Σⱼ Φⱼgⱼ. For the linear embedding g = Wv, and for the quadratic one g = VM_vVᵀΦ
  with M_v = Σₖ vₖM_k. Each product Φⱼgⱼ is the part of one atom in one cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .checks import Array
from .estimators import SparLow
from .views import Grid, Patches, views_named


@dataclass(frozen=True)
class Layout:
    """Where the features of a local model lie in a picture.

    Parameters
    ----------
    grid : Grid
        Where patches lie.
    weights : array of shape (cells, patches)
        How much of each cell a patch is.
    signs : int
        2 where positive and negative parts of codes are pooled apart, otherwise 1.

    """

    grid: Grid
    weights: Array
    signs: int

    @classmethod
    def of(cls, model: SparLow) -> Layout:
        """Return the layout of a fitted local model."""
        check_is_fitted(model)
        views = views_named(model.views)
        if not isinstance(views, Patches):
            raise ValueError(
                f"Only local models look at places of a picture: this one has views={views!r}. Use views=Patches()."
            )
        m = model.n_features_in_
        weights = np.asarray(views.weights(m).toarray())
        return cls(views.grid(m), weights, 2 if views.signs else 1)

    @property
    def patch(self) -> tuple[int, ...]:
        """Return the shape of an atom as a picture."""
        side, channels = self.grid.size, self.grid.channels
        return (side, side) if channels == 1 else (side, side, channels)

    @property
    def places(self) -> tuple[int, int]:
        """Return how many patches there are down and across."""
        return len(self.grid.tops), len(self.grid.lefts)

    def shaped(self, features: Array) -> Array:
        """Return features (…, width) as (…, cells, signs, atoms)."""
        return features.reshape(*features.shape[:-1], len(self.weights), self.signs, -1)

    def at_patches(self, cells: Array) -> Array:
        """Return values of cells (…, cells) as values at the places of patches (…, down, across)."""
        return (cells @ self.weights).reshape(*cells.shape[:-1], *self.places)

    def centres(self) -> Array:
        """Return the centres y, x of the cells in pixels of the picture."""
        half = (self.grid.size - 1) / 2 - self.grid.margin
        down, across = np.meshgrid(self.grid.tops, self.grid.lefts, indexing="ij")
        points = np.column_stack([down.ravel(), across.ravel()]) + half
        return np.asarray(self.weights @ points / self.weights.sum(axis=1, keepdims=True))

    def where(self, cell: int) -> str:
        """Return where a cell lies, in words such as "top left"."""
        y, x = self.centres()[cell]
        down, right = int(3 * (y + 0.5) // self.grid.height), int(3 * (x + 0.5) // self.grid.width)
        return f"{('top', 'middle', 'bottom')[down]} {('left', 'centre', 'right')[right]}"

    def cell_size(self) -> Array:
        """Return the height and width of each cell in pixels."""
        sides = np.concatenate([np.full(side**2, side) for side in self.grid.cells])
        return np.column_stack([self.grid.height / sides, self.grid.width / sides])


@dataclass(frozen=True)
class Factors:
    """What the components of a local model look for, and where.

    Parameters
    ----------
    patterns : array of shape (n_components, cells, signs, n_atoms)
        What a unit of each component adds to the pooled codes, in multiples of its deviation.
    layout : Layout
    dictionary : array of shape (n_atoms, q)

    """

    patterns: Array
    layout: Layout
    dictionary: Array

    @property
    def maps(self) -> Array:
        """Return how much each component looks at each place (n_components, down, across)."""
        return self.layout.at_patches(np.sqrt(np.sum(self.patterns**2, axis=(2, 3))))

    @property
    def atoms(self) -> Array:
        """Return how much of each atom a component has over all cells (n_components, n_atoms)."""
        return np.asarray(np.sqrt(np.sum(self.patterns**2, axis=(1, 2))))

    def pictures(self) -> Array:
        """Return a picture of each component: a tile for each cell of the finest grid, the sum of its atoms.

        Positive parts add the atom and negative parts subtract it. The pictures (n_components, height, width) have
        cells² tiles of the size of a patch; channels are averaged.
        """
        side = max(self.layout.grid.cells)
        first = int(np.sum([cells**2 for cells in self.layout.grid.cells[: self.layout.grid.cells.index(side)]]))
        fine = self.patterns[:, first : first + side**2]
        amounts = fine[:, :, 0] - fine[:, :, 1] if self.layout.signs == 2 else fine[:, :, 0]
        size, channels = self.layout.grid.size, self.layout.grid.channels
        atoms = self.dictionary.reshape(len(self.dictionary), size, size, channels).mean(axis=3)
        tiles = np.tensordot(amounts, atoms, axes=1).reshape(-1, side, side, size, size)
        return np.asarray(tiles.transpose(0, 1, 3, 2, 4).reshape(len(tiles), side * size, side * size))


def factors(model: SparLow, X: Any) -> Factors:
    """Return what the components of a local model look for, and where.

    Parameters
    ----------
    model : SparLow
        Fitted, with ``views=Patches(...)``.
    X : array of shape (n_samples, n_features)
        Pictures, a few hundred of all classes.

    Returns
    -------
    factors : Factors

    """
    layout = Layout.of(model)
    features = np.asarray(model.encode(X).toarray(), float)
    Y = np.asarray(model.transform(X), float)
    Y -= Y.mean(axis=0)
    scale = np.maximum(np.linalg.norm(Y, axis=0) * np.sqrt(len(Y)), np.finfo(float).tiny)
    patterns = (Y / scale).T @ (features - features.mean(axis=0))
    return Factors(layout.shaped(patterns), layout, np.asarray(model.dictionary_, float))


@dataclass(frozen=True)
class Explanation:
    """What in a picture speaks for one class rather than another.

    Parameters
    ----------
    label, against : object
        The two classes.
    probability : float
        The probability of the first.
    parts : array of shape (cells, signs, n_atoms)
        What each atom in each cell adds, positive for ``label``, in shares of all that speaks for either class.
    layout : Layout

    """

    label: Any
    against: Any
    probability: float
    parts: Array
    layout: Layout

    @property
    def map(self) -> Array:
        """Return how much each place (down, across) speaks for ``label``; negative for the other class."""
        return self.layout.at_patches(self.parts.sum(axis=(1, 2)))

    def largest(self, count: int) -> list[tuple[int, int, int, float]]:
        """Return the parts that count most, as atom, sign (1 or −1), cell and value."""
        order = np.argsort(-np.abs(self.parts), axis=None, kind="stable")[:count]
        found = []
        for place in order:
            cell, sign, atom = np.unravel_index(place, self.parts.shape)
            found.append((int(atom), -1 if sign else 1, int(cell), float(self.parts.flat[place])))
        return found


def explain(model: SparLow, x: Any, label: Any = None, against: Any = None) -> Explanation:
    """Return what in a picture speaks for one class rather than another.

    Parameters
    ----------
    model : SparLow
        Fitted with classes and ``views=Patches(...)``.
    x : array of shape (n_features,)
        One picture.
    label, against : object, optional
        Two of ``model.classes_``; by default the most probable one and the next.

    Returns
    -------
    explanation : Explanation

    """
    layout = Layout.of(model)
    row = np.asarray(x).reshape(1, -1)
    shares = model.predict_proba(row)[0]
    classes = list(model.classes_)
    order = [classes[place] for place in np.argsort(-shares, kind="stable")]
    label = order[0] if label is None else label
    against = next(other for other in order if other != label) if against is None else against
    for name in (label, against):
        if name not in classes:
            raise ValueError(f"{name!r} is not a class of the model, which has {classes[:10]}.")
    if label == against:
        raise ValueError(f"label and against are the same class, {label!r}: name two.")
    both = [classes.index(label), classes.index(against)]
    features = np.asarray(model.encode(row).toarray(), float)
    parts = contributions(model, features, np.array([both]))[0]
    return Explanation(label, against, float(shares[both[0]]), layout.shaped(parts), layout)


def contributions(model: SparLow, features: Array, pairs: Array) -> Array:
    """Return the parts Φⱼgⱼ (n, width) for pairs (n, 2) of classes, in shares of the sum of their magnitudes."""
    y, Z = model._training.y, np.asarray(model.embedding_, float)
    means = np.array([Z[y == c].mean(axis=0) for c in range(len(model.classes_))])
    W = np.asarray(model.projection_, float)
    slopes = np.empty_like(features)
    for pair in np.unique(pairs, axis=0):  # one form for all samples of a pair
        rows = np.flatnonzero((pairs == pair).all(axis=1))
        v = means[pair[0]] - means[pair[1]]
        if model.forms_ is None:
            slopes[rows] = W @ v
        else:
            slopes[rows] = (features[rows] @ W @ np.tensordot(v, model.forms_, axes=1)) @ W.T
    parts = features * slopes
    return np.asarray(parts / np.maximum(np.abs(parts).sum(axis=1, keepdims=True), np.finfo(float).tiny))
