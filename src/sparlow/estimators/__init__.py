"""The estimators of the library, with the manners of scikit-learn."""

from .dictionary_learner import DictionaryLearner
from .epochs import OnStep
from .sparlow import SparLow
from .trace_quotient import TraceQuotient

__all__ = ["DictionaryLearner", "OnStep", "SparLow", "TraceQuotient"]
