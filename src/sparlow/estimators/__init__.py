"""The faces of the library: estimators with the manners of scikit-learn."""

from .dictionary_learner import DictionaryLearner
from .sparlow import SparLow
from .trace_quotient import TraceQuotient

__all__ = ["DictionaryLearner", "SparLow", "TraceQuotient"]
