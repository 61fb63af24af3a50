"""The estimators of the library, with the manners of scikit-learn."""

from .callbacks import OnStep
from .dictionary_learner import DictionaryLearner
from .sparlow import SparLow
from .trace_quotient import TraceQuotient

__all__ = ["DictionaryLearner", "OnStep", "SparLow", "TraceQuotient"]
