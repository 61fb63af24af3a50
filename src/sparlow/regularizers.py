"""What keeps the dictionary sound while it is learned: incoherent atoms, near the first dictionary.

Both are means, over pairs of atoms and over atoms, so that their weights mean the same for any number of atoms.
"""

from __future__ import annotations

import numpy as np

from .checks import Array

_EQUAL = 1e-6  # 1 − cos² at which two atoms count as equal: keeps the logarithm of duplicates finite


def coherence(D: Array) -> float:
    """Return g_c = −½ times the mean of log(1 − (dᵢ·dⱼ)²) over pairs of atoms (the paper's sum over their number)."""
    _, gaps, pairs = _angles(D)
    return -0.25 * float(np.sum(np.log(gaps)) - len(D) * np.log1p(_EQUAL)) / pairs


def coherence_gradient(D: Array) -> Array:
    """Return ∇g_c = W D, Wᵢⱼ = Gᵢⱼ/(1 − Gᵢⱼ²) off the diagonal, divided by the number of pairs (errata 4)."""
    G, gaps, pairs = _angles(D)
    return (G / gaps / pairs) @ D


def _angles(D: Array) -> tuple[Array, Array, float]:
    """Return the cosines G with zero diagonal, 1 − G² kept off zero, and the number of pairs."""
    G = np.asarray(D @ D.T, float)
    np.fill_diagonal(G, 0)
    return G, np.maximum(1 - G**2, 0) + _EQUAL, max(1.0, len(D) * (len(D) - 1) / 2)


def proximity(D: Array, anchor: Array) -> float:
    """Return g_d = ½ times the mean over atoms of ‖d − d*‖², d* the atom of the first dictionary."""
    difference = D - anchor
    return 0.5 * float(np.vdot(difference, difference)) / len(D)


def proximity_gradient(D: Array, anchor: Array) -> Array:
    """Return ∇g_d = (D − D*)/r."""
    return (D - anchor) / len(D)
