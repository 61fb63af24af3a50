"""Dictionary learners: functions X -> D, samples to atoms of unit norm.

Each takes the samples X (n, m) as they are and a number of atoms r, and returns D (r, m). With the same
``random_state`` the result has the same bits for any ``n_jobs``. ``LEARNERS`` has them by name.
"""

from .atoms import check_samples, distinct_rows, samples, unit_atoms, unit_samples, within_range
from .learners import LEARNERS, class_union, learn_dictionary, suits_classes
from .pursuit import OMP, ksvd, omp
from .streams import begin_online, continue_online, online, rls_dla

__all__ = [
    "LEARNERS",
    "OMP",
    "begin_online",
    "check_samples",
    "class_union",
    "continue_online",
    "distinct_rows",
    "ksvd",
    "learn_dictionary",
    "omp",
    "online",
    "rls_dla",
    "samples",
    "suits_classes",
    "unit_atoms",
    "unit_samples",
    "within_range",
]
