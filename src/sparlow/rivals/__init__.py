"""Methods that SparLow is measured against and that scikit-learn does not have.

SDA, SDE, OLPP and ONPP are :class:`sparlow.TraceQuotient` with the criteria "sda", "slap", "lap" and "lle"; local and
global consistency (LGC) is scikit-learn's LabelSpreading.
"""

from .eigenmaps import LaplacianEigenmaps
from .laprls import LapRLS

__all__ = ["LapRLS", "LaplacianEigenmaps"]
