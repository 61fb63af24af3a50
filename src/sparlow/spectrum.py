"""What each component of an embedding adds: to the quotient on training samples, to the score on held-out ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .constants import COUNTS
from .criteria import Quotient
from .graphs import Structure
from .rows import Features

Array = NDArray[Any]


def tried_counts(n_components: int) -> list[int]:
    """Return at most sixteen numbers of components from 1 to all, dense where they are small."""
    spread = np.geomspace(1, n_components, min(COUNTS, n_components))
    return [int(count) for count in np.unique(np.maximum(np.round(spread), np.arange(1, len(spread) + 1)))]


def component_quotients(quotient: Quotient, coded: Features, Y: Array) -> Array:
    """Return the quotient of each component by itself, yᵀS_A y / yᵀS_B y, from the embedding Y (n, l)."""
    above = _forms(quotient.above, Y)
    if quotient.below is None:  # the trace form: the share of all variance
        return above / max(quotient.variance(coded), np.finfo(float).tiny)
    below = _forms(quotient.below, Y)
    return above / np.maximum(below, np.finfo(float).eps * above + np.finfo(float).tiny)  # classes of equal samples


def _forms(S: Structure, Y: Array) -> Array:
    """Return yᵀSy of each column, a few columns at a time: Y may be the largest array of a fit."""
    return np.concatenate([np.einsum("nl,nl->l", y, S @ y) for y in np.split(Y, range(4, Y.shape[1], 4), 1)])


def spectrum_of(quotients: Array, held_out: Mapping[int, Array]) -> dict[str, Array]:
    """Return the fitted attribute ``spectrum_``; ``held_out`` has the outcomes of the first k components by k."""
    count = len(quotients)
    score, error = np.full(count, np.nan), np.full(count, np.nan)
    for k, outcomes in held_out.items():
        if k <= count:
            score[k - 1] = outcomes.mean()
            error[k - 1] = outcomes.std() / np.sqrt(len(outcomes)) if len(outcomes) > 1 else np.nan
    return {"n_components": np.arange(1, count + 1), "quotient": quotients, "held_out": score, "error": error}
