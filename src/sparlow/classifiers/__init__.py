"""Discriminative dictionary classifiers that scikit-learn does not have.

Local and global consistency (LGC) is scikit-learn's LabelSpreading.
"""

from .bmddl import BMDDL
from .fddl import FDDL
from .ksvd import DKSVD, LCKSVD
from .laprls import LapRLS
from .src import SRC
from .tddl import TDDL

__all__ = ["BMDDL", "DKSVD", "FDDL", "LCKSVD", "SRC", "TDDL", "LapRLS"]
