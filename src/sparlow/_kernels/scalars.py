"""Functions of one number: those of a prior, compiled, and what priors need."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cfunc, config, njit, types

from .compilation import kept, kernel

_SCALAR = types.float64(types.float64, types.int64, types.float64[::1])


def compile_scalar(function: Callable[..., float]) -> Any:
    """Compile ``function(value, atom, parameters) -> float`` to a C callback, cached on disk where that is possible."""
    if config.DISABLE_JIT:
        return function
    return kept(functools.partial(cfunc, _SCALAR), function)


@kernel
def map_scalar(function, codes, atoms, parameters):
    """Apply ``function`` to each code."""
    out = np.empty(codes.shape[0])
    for s in range(codes.shape[0]):
        out[s] = function(codes[s], atoms[s], parameters)
    return out


def _wright_omega(x):
    """Return the solution ω > 0 of ω + log ω = x, for real x, to full precision.

    A starting value good to a few percent, then three steps of Fritsch, Shafer and Crowley, each of fourth order.
    """
    if x < -50.0:
        return math.exp(x)
    if x > 1e15:
        return x
    if x < -1.0:
        e = math.exp(x)
        omega = e / (1.0 + e)
    elif x < 2.0:
        omega = 0.567143290409784 + 0.361896256634889 * x + 0.0737 * x * x - 0.0013 * x * x * x
    else:
        omega = x - math.log(x) * (1.0 - 1.0 / x)
    for _ in range(3):
        residual = x - omega - math.log(omega)
        plus = 1.0 + omega
        twice = 2.0 * plus * (plus + 2.0 / 3.0 * residual)
        omega *= 1.0 + residual / plus * (twice - residual) / (twice - 2.0 * residual)
    return omega


wright_omega = kept(njit, _wright_omega, nogil=True)
