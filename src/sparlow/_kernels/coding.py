"""Sparse codes of a few samples: which method finds them."""

from typing import Any

import numpy as np

from . import general as _general
from . import quadratic as _quadratic
from .quadratic import LONG

encode_general: Any = _general.encode_general
encode_quadratic: Any = _quadratic.encode_quadratic


def encode_chunk(X, C, D, G, G_screen, low, high, *prior_and_start):
    """Compute the codes of a few samples, exact to ``tol`` · ‖x‖; arguments and results as of :func:`encode_general`.

    After ``parameters`` comes ``constant``. Where the prior is quadratic on either side of zero it holds the curvatures
    g″ per atom, and :func:`encode_quadratic` finds the codes. What it leaves is found by the general method, and handed
    back to it where supports are short, so that which of the two computes the codes depends on nothing but their
    number. Otherwise ``constant`` is None.
    """
    *functions, constant, start_indptr, start_indices, start_data, tol, add_limit = prior_and_start
    dictionary: Any = (D, G, G_screen, low, high)
    start: Any = (start_indptr, start_indices, start_data)
    if constant is None:
        return encode_general(X, C, *dictionary, *functions, *start, tol, add_limit)
    coded = encode_quadratic(X, C, *dictionary, constant, *start)
    left = np.flatnonzero(np.isinf(coded[3]))
    if len(left) == 0:
        return coded
    X, C = _frozen(X[left], C[left])
    start = _as_start(_rows(coded, left))
    general = encode_general(X, C, *dictionary, *functions, *start, tol, add_limit, quadratic=True)
    short = np.flatnonzero(general[0] <= LONG)
    X, C = _frozen(X[short], C[short])
    again = encode_quadratic(X, C, *dictionary, constant, *_as_start(_rows(general, short)))
    better = np.isfinite(again[3])
    return _replaced(coded, left, _replaced(general, short[better], _rows(again, np.flatnonzero(better))))


def _frozen(*arrays):
    """Return new arrays, read-only as those are that kernels are compiled for."""
    for array in arrays:
        array.flags.writeable = False
    return arrays


def _as_start(coded):
    """Return what a kernel returned as codes to start another from."""
    counts, indices, data, _ = coded
    return _frozen(np.concatenate([[0], np.cumsum(counts)]), indices, data)


def _rows(coded, rows):
    """Return some samples of what a kernel returned."""
    counts, indices, data, gaps = coded
    ends = np.cumsum(counts)
    lengths = counts[rows]
    entries = np.repeat(ends[rows] - np.cumsum(lengths), lengths) + np.arange(lengths.sum())
    return lengths, indices[entries], data[entries], gaps[rows]


def _replaced(coded, rows, others):
    """Replace some samples of what a kernel returned by those of another call."""
    source = np.arange(len(coded[0]))
    source[rows] = len(source) + np.arange(len(rows))
    return _rows(tuple(np.concatenate(pair) for pair in zip(coded, others, strict=True)), source)
