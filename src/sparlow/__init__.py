"""SparLow: small, telling image representations from sparse codes and a trace quotient."""

from . import plots
from .coding import encode, objective, optimality_gap, pullback
from .priors import ElasticNet, KLDivergence, Prior

__version__ = "0.1.0"

__all__ = ["ElasticNet", "KLDivergence", "Prior", "encode", "objective", "optimality_gap", "plots", "pullback"]
