"""How kernels are compiled, and kept on disk for the next process; functions of one number."""

from __future__ import annotations

import functools
import logging
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cfunc, njit, types
from numba.core import cgutils, config, event
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.extending import intrinsic

# Inputs are validated to be finite, hence "nnan"; infinite interval ends are replaced by ±FAR before they get here.
FAST = {"reassoc", "contract", "nsz", "arcp", "nnan"}

ZERO: Any = np.int64(0)  # a part would be compiled once more for a literal 0, which is a type of its own

SECONDS = 23  # that the kernels of a first fit take to compile: benchmarks/compilation.py


class _PartLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Code that is neither optimised nor made executable by itself: both are done in each kernel that inlines it."""

    def _optimize_final_module(self):
        """Leave the code as it is."""

    def _finalize_final_module(self):
        """Keep the code for kernels; the processor gets none."""
        self._finalized = True

    @property
    def codegen(self):
        """Return what numba asks to set the environment of executable code, of which there is none."""
        return self

    def set_env(self, name, env):
        """Do nothing."""


class _PartCompiler(Compiler):  # type: ignore[misc]
    def define_pipelines(self):
        """Return numba's own passes, which put the code into the library that is here."""
        self.state.library = _PartLibrary(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        return super().define_pipelines()


# Called from kernels only: no wrappers for Python and no files of their own, which halves the time to compile. Always
# inlined: which of several compiled copies a linker takes would depend on whether kernels come from the cache, and
# copies may differ in the last bit.
part = njit(
    nogil=True,
    fastmath=FAST,
    error_model="numpy",
    no_cpython_wrapper=True,
    no_cfunc_wrapper=True,
    forceinline=True,
    pipeline_class=_PartCompiler,
)


def kept(decorator, function, **options):
    """Compile ``function`` and keep the result on disk; where no folder can be written, in memory only."""
    try:
        compiled = decorator(cache=True, **options)(function)
    except (RuntimeError, OSError):  # no folder for the cache, as for functions typed at a prompt; or a full disk
        if (function.__module__ or "").startswith(__name__.partition(".")[0] + "."):
            _say_once()
        return decorator(**options)(function)
    cache = getattr(compiled, "_cache", None)
    if cache is not None and hasattr(cache, "save_overload"):
        cache.save_overload = functools.partial(_saved, cache.save_overload)
    return compiled


def kernel(function):
    """Compile a function that the library calls from Python."""
    return kept(njit, function, nogil=True, fastmath=FAST, error_model="numpy")


def borrowed(array):
    """Return an array that does not count its references, for use within a kernel that is handed the array.

    Each row that a loop looks at counts as a reference otherwise, and to count them takes as long as the work on short
    rows. The caller of the kernel keeps the array alive; an array that a kernel makes itself must not be borrowed.
    """
    return array


if not config.DISABLE_JIT:

    @intrinsic
    def borrowed(typing, array):
        def lower(context, builder, signature, arguments):
            view = context.make_array(signature.args[0])(context, builder, value=arguments[0])
            view.meminfo = cgutils.get_null_value(view.meminfo.type)
            view.parent = cgutils.get_null_value(view.parent.type)
            return view._getvalue()

        return array(array), lower


class _Announcer(event.Listener):  # type: ignore[misc]
    """Say once, when the first kernel is compiled, that this takes a while; nothing where kernels come from disk."""

    def on_start(self, event):
        """Log one line for the first kernel of the library."""
        if (event.data["dispatcher"].py_func.__module__ or "").startswith(__package__):
            _announce()

    def on_end(self, event):
        """Do nothing: the end of a fit is seen."""


event.register("numba:compile", _Announcer())


@functools.cache
def _announce() -> None:
    """Say once that kernels are being compiled."""
    logging.getLogger("sparlow").warning("SparLow is compiling, once, about %d s", SECONDS)


def _saved(save, *arguments):
    """Keep a compiled function; a full disk costs the next process its time, not this one its result."""
    try:
        save(*arguments)
    except OSError:
        _say_once()


@functools.cache
def _say_once() -> None:
    """Warn that compiled kernels cannot be kept on disk."""
    warnings.warn(
        "SparLow compiles its functions anew in each process: there is no folder to keep them in, or the disk is full. "
        "Set the environment variable NUMBA_CACHE_DIR to a folder that can be written.",
        RuntimeWarning,
        stacklevel=2,
    )


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
