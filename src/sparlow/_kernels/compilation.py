"""How kernels are compiled."""

from numba import njit

# Inputs are validated to be finite, hence "nnan"; infinite interval ends are replaced by ±FAR before they get here.
FAST = {"reassoc", "contract", "nsz", "arcp", "nnan"}
kernel = njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
# Called from kernels only: no wrappers for Python and no files of their own, which halves the time to compile.
part = njit(nogil=True, fastmath=FAST, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
