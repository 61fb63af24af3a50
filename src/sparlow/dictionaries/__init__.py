"""Dictionary learners: functions X -> D, samples to atoms of unit norm.

Each takes the samples X (n, m) as they are and a number of atoms r, and returns D (r, m). With the same
``random_state`` the result has the same bits for any ``n_jobs``. ``LEARNERS`` has them by name.
"""

from collections.abc import Callable
from typing import Any

from .atoms import distinct_rows, samples
from .pursuit import ksvd, omp
from .streams import online, rls_dla
from .union import class_union, labelled

LEARNERS: dict[str, Callable[..., Any]] = {
    "ksvd": ksvd,
    "online": online,
    "odl": online,
    "rls": rls_dla,
    "samples": samples,
}

__all__ = ["LEARNERS", "class_union", "distinct_rows", "ksvd", "labelled", "omp", "online", "rls_dla", "samples"]
