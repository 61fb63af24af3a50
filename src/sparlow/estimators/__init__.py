"""The faces of the library: estimators with the manners of scikit-learn."""

from .dictionary_learner import DictionaryLearner

__all__ = ["DictionaryLearner"]
