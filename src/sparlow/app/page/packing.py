"""Samples, atoms and codes in the compact form that the page's script reads."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import eigh
from sklearn.decomposition import PCA
from sklearn.utils import gen_batches

from ... import explanations
from ..dataset import Picture
from .document import data_uri

Array = NDArray[Any]
Shape = tuple[int, int]

_SPRITE_PIXELS = 12_000_000  # of all thumbnails together
_LARGEST_THUMBNAIL = 64
_PHOTOGRAPH = 96
_LARGEST_ATOM = 40
_MAP = 16  # places down and across in a map of what speaks for a class
_PARTS = 24  # parts of one sample that speak for a class
_ROWS = 500  # samples whose pooled codes are held at once
_MOST_NUMBERS = 3_000_000  # of atoms, or of samples that are no images, in one page
MOST_CODES = 64  # of one sample
NONE = 65535
_FULL = 32000  # of the range of 16-bit numbers
_SHRINKAGE = 0.01  # of the scatter within classes, which single samples leave without full rank


def as_base64(values: Array, kind: Any) -> str:
    """Return numbers as base64 of their little-endian bytes."""
    return base64.b64encode(np.ascontiguousarray(values, np.dtype(kind).newbyteorder("<")).tobytes()).decode()


def _image() -> Any:
    """Import Pillow, or say which extra has it."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("Pictures in a page need pillow: pip install 'sparlow[cli]'") from error
    return Image


def shape_within(shape: Shape, side: int) -> Shape:
    """Return the shape scaled so that its longer side is at most ``side``."""
    scale = min(1.0, side / max(shape))
    return max(1, round(shape[0] * scale)), max(1, round(shape[1] * scale))


def resized_vectors(vectors: Array, shape: Shape, target: Shape) -> Array:
    """Return images (n, h · w) in another size, by a linear map, so that sums of images stay sums."""
    if target == shape:
        return np.asarray(vectors, np.float32)
    Image = _image()
    out = np.empty((len(vectors), target[0] * target[1]), np.float32)
    for row, vector in zip(out, vectors, strict=True):
        picture = Image.fromarray(np.asarray(vector, np.float32).reshape(shape))
        row[:] = np.asarray(picture.resize((target[1], target[0]), Image.Resampling.BOX)).ravel()
    return out


def sprite(tiles: Array) -> dict[str, Any]:
    """Draw thumbnails (n, height, width) or (n, height, width, 3) of bytes on one sheet."""
    n, height, width, *colours = tiles.shape
    columns = max(1, min(16000 // width, math.ceil(math.sqrt(n * height / width))))
    rows = math.ceil(n / columns)
    full = np.zeros((rows * columns, height, width, *colours), np.uint8)
    full[:n] = tiles
    sheet = full.reshape(rows, columns, height, width, *colours).swapaxes(1, 2)
    file = io.BytesIO()
    _image().fromarray(sheet.reshape(rows * height, columns * width, *colours)).save(file, "WEBP", quality=80, method=4)
    return {"sprite": data_uri(file.getvalue(), "image/webp"), "columns": columns, "shape": (height, width)}


def sprite_of_rows(X: Array, shape: tuple[int, ...]) -> dict[str, Any]:
    """Draw samples as thumbnails, each over its own range; of colours all channels over one."""
    channels = shape[2] if len(shape) > 2 else 1
    side = max(8, min(_LARGEST_THUMBNAIL, math.isqrt(_SPRITE_PIXELS // len(X))))
    height, width = small = shape_within((shape[0], shape[1]), side)
    parts = [resized_vectors(X[:, k::channels], (shape[0], shape[1]), small) for k in range(channels)]
    values = np.stack(parts, axis=2).reshape(len(X), -1)
    low = values.min(axis=1, keepdims=True)
    values = 255 * (values - low) / np.maximum(values.max(axis=1, keepdims=True) - low, 1e-12)
    tiles = np.round(values).astype(np.uint8).reshape(len(X), height, width, channels)
    return sprite(tiles[..., 0] if channels == 1 else tiles)


def sprite_of_pictures(pictures: Sequence[Picture]) -> dict[str, Any]:
    """Draw photographs as colour thumbnails, each whole, in a square."""
    Image = _image()
    side = max(8, min(_PHOTOGRAPH, math.isqrt(_SPRITE_PIXELS // len(pictures))))
    tiles = np.full((len(pictures), side, side, 3), 127, np.uint8)
    for tile, picture in zip(tiles, pictures, strict=True):
        small = Image.fromarray(picture.thumbnail)
        small.thumbnail((side, side))
        left, top = (side - small.width) // 2, (side - small.height) // 2
        tile[top : top + small.height, left : left + small.width] = np.asarray(small)
    return sprite(tiles)


def pack_vectors(rows: Array, shape: Shape | None) -> dict[str, Any] | None:
    """Return atoms or factors as bytes with a scale for each; None where they would be too many."""
    small = None if shape is None else shape_within(shape, _LARGEST_ATOM)
    values = np.asarray(rows, np.float32) if shape is None or small is None else resized_vectors(rows, shape, small)
    if values.size > _MOST_NUMBERS:
        return None
    scale = np.maximum(np.abs(values).max(axis=1), 1e-12) / 127
    return {
        "pixels": as_base64(np.round(values / scale[:, None]), np.int8),
        "scale": [float(f"{value:.5g}") for value in scale],
        "length": int(values.shape[1]),
        "count": len(values),
        "shape": small,
    }


def pack_profiles(X: Array) -> dict[str, Any] | None:
    """Return samples that are no images, each over its own range; None where they would be too many."""
    if X.size > _MOST_NUMBERS:
        return None
    scale = np.maximum(np.abs(X).max(axis=1, keepdims=True), 1e-12) / 127
    return {"pixels": as_base64(np.round(X / scale), np.int8), "length": int(X.shape[1])}


def pack_codes(matrix: Any) -> dict[str, Any]:
    """Return the 64 largest codes of each sample, the largest first, and how many it has in all."""
    matrix = matrix.tocsr()
    counts = np.diff(matrix.indptr)
    row = np.repeat(np.arange(len(counts)), counts)
    order = np.lexsort((-np.abs(matrix.data), row))
    rank = np.arange(len(order)) - matrix.indptr[row[order]]
    order = order[rank < MOST_CODES]
    starts = np.concatenate([[0], np.cumsum(np.minimum(counts, MOST_CODES))])
    scale = float(np.abs(matrix.data).max(initial=0)) / 32767 or 1.0
    return {
        "start": as_base64(starts, np.uint32),
        "atom": as_base64(matrix.indices[order], np.uint16),
        "value": as_base64(np.round(matrix.data[order] / scale), np.int16),
        "scale": scale,
        "all": as_base64(counts, np.uint32),
        "cut": bool(counts.max(initial=0) > MOST_CODES),
    }


def atom_usage(matrix: Any, classes: Array, n_classes: int) -> dict[str, Any]:
    """Return how many samples use each atom, and the class that uses it most (−1 without classes)."""
    amounts = abs(matrix)
    total = np.asarray(amounts.sum(axis=0)).ravel()
    share = np.asarray((amounts > 0).sum(axis=0)).ravel() / matrix.shape[0]
    owner = np.full(matrix.shape[1], -1)
    if n_classes:
        counts = np.bincount(classes[classes != NONE], minlength=n_classes)
        means = [np.asarray(amounts[classes == c].sum(axis=0)).ravel() / max(counts[c], 1) for c in range(n_classes)]
        owner = np.where(total > 0, np.argmax(means, axis=0), -1)
    return {
        "order": np.argsort(-total, kind="stable").tolist(),
        "share": [round(float(value), 4) for value in share],
        "owner": owner.tolist(),
    }


def local_parts(model: Any, X: Array, pairs: Array) -> tuple[dict[str, Any], Any]:
    """Return the parts of local models that speak most for a class, and how much of each atom each sample has (n, r).

    ``pairs`` (n, 2) are two classes of each picture: what speaks for the first and against the second is shown.
    """
    layout = explanations.Layout.of(model)
    small = shape_within(layout.places, _MAP)
    parts, maps, amounts = [], [], []
    for rows in gen_batches(len(X), _ROWS):
        features = np.asarray(model.encode(X[rows]).toarray(), float)
        found = explanations.contributions(model, features, pairs[rows])
        order = np.argpartition(-np.abs(found), min(_PARTS, found.shape[1]) - 1, axis=1)[:, :_PARTS]
        values = np.take_along_axis(found, order, 1)
        sizes = np.argsort(-np.abs(values), axis=1, kind="stable")
        parts.append((np.take_along_axis(order, sizes, 1), np.take_along_axis(values, sizes, 1)))
        cells = layout.shaped(found).sum(axis=(2, 3))
        maps.append(resized_vectors(layout.at_patches(cells).reshape(len(cells), -1), layout.places, small))
        amounts.append(sp.csr_array(layout.shaped(features).sum(axis=(1, 2))))
    places = np.concatenate([order for order, _ in parts])
    values = np.concatenate([value for _, value in parts])
    where = np.concatenate(maps)
    where /= np.maximum(np.abs(where).max(axis=1, keepdims=True), 1e-12)
    scale = float(np.abs(values).max(initial=0)) / 32767 or 1.0
    centres, cell_sizes = layout.centres(), layout.cell_size()
    shape = (layout.grid.height, layout.grid.width)
    frames = np.column_stack([centres - (cell_sizes - 1) / 2, cell_sizes]) / np.array([*shape, *shape])
    return {
        "count": places.shape[1],
        "place": as_base64(places, np.uint32),
        "value": as_base64(np.round(values / scale), np.int16),
        "scale": scale,
        "signs": layout.signs,
        "frames": np.round(frames, 4).tolist(),  # top, left, height, width in shares of the picture
        "map": as_base64(np.round(127 * where), np.int8),
        "shape": small,
        "pairs": as_base64(pairs, np.uint16),
    }, sp.csr_array(sp.vstack(amounts))


def atom_amounts(model: Any, X: Array) -> Any:
    """Return how much of each atom of a local model each sample has (n, r)."""
    layout = explanations.Layout.of(model)
    parts = [
        layout.shaped(np.asarray(model.encode(X[rows]).toarray(), float)).sum(axis=(1, 2))
        for rows in gen_batches(len(X), _ROWS)
    ]
    return sp.csr_array(np.concatenate(parts))


def embedding_perspectives(Z: Array, classes: Array) -> list[dict[str, Any]]:
    """Return ways to look at an embedding (n, l); ``classes`` are numbers, 65535 where a sample has none."""
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
    """Return the view of the embedding that keeps classes apart."""
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
    """Return coordinates as 16-bit numbers around the middle of their box, with its half sides and radius."""
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
        "coords": as_base64(np.round(full), np.int16),
    }
