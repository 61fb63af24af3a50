"""Samples, atoms and codes in the compact form that the page's script reads."""

from __future__ import annotations

import base64
import io
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .document import data_uri

Array = NDArray[Any]
Shape = tuple[int, int]

_SPRITE_PIXELS = 12_000_000  # of all thumbnails together
_LARGEST_THUMBNAIL = 64
_LARGEST_ATOM = 40
_MOST_NUMBERS = 3_000_000  # of atoms, or of samples that are no images, in one page
MOST_CODES = 64  # of one sample
NONE = 65535


def packed(values: Array, kind: Any) -> str:
    """Numbers as base64 of their little-endian bytes."""
    return base64.b64encode(np.ascontiguousarray(values, np.dtype(kind).newbyteorder("<")).tobytes()).decode()


def _image() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("Pictures in a page need pillow: pip install 'sparlow[cli]'") from error
    return Image


def fitted(shape: Shape, side: int) -> Shape:
    """The shape scaled so that its longer side is ``side`` at most."""
    scale = min(1.0, side / max(shape))
    return max(1, round(shape[0] * scale)), max(1, round(shape[1] * scale))


def resized(vectors: Array, shape: Shape, target: Shape) -> Array:
    """Images (n, h · w) in another size, by a linear map, so that sums of images stay sums."""
    if target == shape:
        return np.asarray(vectors, np.float32)
    Image = _image()
    out = np.empty((len(vectors), target[0] * target[1]), np.float32)
    for row, vector in zip(out, vectors, strict=True):
        picture = Image.fromarray(np.asarray(vector, np.float32).reshape(shape))
        row[:] = np.asarray(picture.resize((target[1], target[0]), Image.Resampling.BOX)).ravel()
    return out


def sprite(X: Array, shape: Shape) -> dict[str, Any]:
    """All samples as thumbnails on one sheet, each over its own range of grey."""
    n = len(X)
    side = max(8, min(_LARGEST_THUMBNAIL, math.isqrt(_SPRITE_PIXELS // n)))
    height, width = small = fitted(shape, side)
    columns = max(1, min(16000 // width, math.ceil(math.sqrt(n * height / width))))
    rows = math.ceil(n / columns)
    values = resized(X, shape, small)
    low = values.min(axis=1, keepdims=True)
    values = 255 * (values - low) / np.maximum(values.max(axis=1, keepdims=True) - low, 1e-12)
    tiles = np.zeros((rows * columns, height, width), np.uint8)
    tiles[:n] = np.round(values).reshape(n, height, width)
    sheet = tiles.reshape(rows, columns, height, width).transpose(0, 2, 1, 3).reshape(rows * height, columns * width)
    file = io.BytesIO()
    _image().fromarray(sheet).save(file, "WEBP", quality=80, method=4)
    return {"sprite": data_uri(file.getvalue(), "image/webp"), "columns": columns, "shape": small}


def vectors(rows: Array, shape: Shape | None) -> dict[str, Any] | None:
    """Atoms or factors as bytes with a scale for each; None where they would be too many."""
    small = None if shape is None else fitted(shape, _LARGEST_ATOM)
    values = np.asarray(rows, np.float32) if shape is None or small is None else resized(rows, shape, small)
    if values.size > _MOST_NUMBERS:
        return None
    scale = np.maximum(np.abs(values).max(axis=1), 1e-12) / 127
    return {
        "pixels": packed(np.round(values / scale[:, None]), np.int8),
        "scale": [float(f"{value:.5g}") for value in scale],
        "length": int(values.shape[1]),
        "count": len(values),
        "shape": small,
    }


def profiles(X: Array) -> dict[str, Any] | None:
    """Samples that are no images, each over its own range; None where they would be too many."""
    if X.size > _MOST_NUMBERS:
        return None
    scale = np.maximum(np.abs(X).max(axis=1, keepdims=True), 1e-12) / 127
    return {"pixels": packed(np.round(X / scale), np.int8), "length": int(X.shape[1])}


def codes(matrix: Any) -> dict[str, Any]:
    """Sparse codes (n, r), of each sample the largest first, at most 64 of them; and how many it has in all."""
    matrix = matrix.tocsr()
    counts = np.diff(matrix.indptr)
    row = np.repeat(np.arange(len(counts)), counts)
    order = np.lexsort((-np.abs(matrix.data), row))
    rank = np.arange(len(order)) - matrix.indptr[row[order]]
    order = order[rank < MOST_CODES]
    starts = np.concatenate([[0], np.cumsum(np.minimum(counts, MOST_CODES))])
    scale = float(np.abs(matrix.data).max(initial=0)) / 32767 or 1.0
    return {
        "start": packed(starts, np.uint32),
        "atom": packed(matrix.indices[order], np.uint16),
        "value": packed(np.round(matrix.data[order] / scale), np.int16),
        "scale": scale,
        "all": packed(counts, np.uint32),
        "cut": bool(counts.max(initial=0) > MOST_CODES),
    }


def usage(matrix: Any, classes: Array, n_classes: int) -> dict[str, Any]:
    """How many samples use each atom, and the class that uses it most (−1 without classes)."""
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
