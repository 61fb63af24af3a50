"""Discriminative dictionary classifiers that scikit-learn does not have.

Local and global consistency (LGC) is scikit-learn's LabelSpreading.
"""

from .dksvd import DKSVD
from .fddl import FDDL
from .laprls import LapRLS
from .lcksvd import LCKSVD
from .src import SRC
from .tddl import TDDL

__all__ = ["DKSVD", "FDDL", "LCKSVD", "SRC", "TDDL", "LapRLS"]
