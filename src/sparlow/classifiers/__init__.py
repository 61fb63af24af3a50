"""Discriminative dictionary classifiers that scikit-learn does not have.

Local and global consistency (LGC) is scikit-learn's LabelSpreading.
"""

from .fddl import FDDL
from .laprls import LapRLS
from .lcksvd import LCKSVD
from .src import SRC

__all__ = [
    "FDDL",
    "LCKSVD",
    "SRC",
    "LapRLS",
]
