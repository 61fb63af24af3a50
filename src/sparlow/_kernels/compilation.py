"""How kernels are compiled."""

from numba import njit

# Inputs are validated to be finite, hence "nnan"; infinite interval ends are replaced by ±FAR before they get here.
FAST = {"reassoc", "contract", "nsz", "arcp", "nnan"}
kernel = njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
# Called from kernels only: no wrappers for Python and no files of their own, which halves the time to compile. Always
# inlined: which of several compiled copies a linker takes would depend on whether kernels come from the cache, and
# copies may differ in the last bit.
part = njit(
    nogil=True, fastmath=FAST, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True
)
