"""What keeps the dictionary sound while it is learned: incoherent atoms, near the first dictionary.

Both are means, over pairs of atoms and over atoms, so that their weights mean the same for any number of atoms.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_EQUAL = 1e-6  # 1 − cos² at which two atoms count as equal: keeps the logarithm of duplicates finite


def coherence(D: Array) -> tuple[float, Array]:
    """g_c = −(1/r(r−1)) Σ_{i<j} log(1 − (dᵢ·dⱼ)²) and its gradient, W D with Wᵢⱼ = 2Gᵢⱼ/(r(r−1)(1 − Gᵢⱼ²)) off the diagonal.

    It is ½ of the mean of −log(1 − G²) over the pairs (the paper's sum divided by their number, errata 4).
    """
    r = len(D)
    if r < 2:
        return 0.0, np.zeros_like(D)
    G = np.asarray(D @ D.T, float)
    np.fill_diagonal(G, 0)
    gaps = np.maximum(1 - G**2, 0) + _EQUAL
    pairs = r * (r - 1) / 2
    value = -0.25 * float(np.sum(np.log(gaps))) / pairs + 0.25 * r * float(np.log1p(_EQUAL)) / pairs
    return value, ((G / gaps / pairs) @ D).astype(D.dtype, copy=False)


def proximity(D: Array, anchor: Array) -> tuple[float, Array]:
    """g_d = (1/2r) ‖D − D*‖² and its gradient, D* the first dictionary."""
    difference = D - anchor
    return 0.5 * float(np.vdot(difference, difference)) / len(D), difference / len(D)
