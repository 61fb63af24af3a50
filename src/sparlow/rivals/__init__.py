"""Methods that SparLow is measured against and that scikit-learn does not have.

SDA, SDE, OLPP and ONPP are :class:`sparlow.TraceQuotient` with the criteria "sda", "slap", "lap" and "lle"; local and
global consistency (LGC) is scikit-learn's LabelSpreading.
"""

from .adapted import GaussianKernelPCA, LabelledLDA, ReducedNCA, ScaledSparsePCA
from .eigenmaps import LaplacianEigenmaps
from .fddl import FDDL
from .laprls import LapRLS
from .lcksvd import LCKSVD
from .src import SRC

__all__ = [
    "FDDL",
    "LCKSVD",
    "SRC",
    "GaussianKernelPCA",
    "LabelledLDA",
    "LapRLS",
    "LaplacianEigenmaps",
    "ReducedNCA",
    "ScaledSparsePCA",
]
