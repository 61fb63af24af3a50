"""SparLow: small, telling image representations from sparse codes and a trace quotient."""

from . import plots
from .coding import encode, objective, optimality_gap, pullback
from .criteria import LAP, LDA, LLE, MFA, MVR, PCA, SDA, SLAP, SMVR, Criterion
from .estimators import DictionaryLearner, SparLow, TraceQuotient
from .models import load, save
from .priors import ElasticNet, KLDivergence, Prior
from .tracequotient import trace_ratio
from .views import Shifts, Views

__version__ = "0.1.0"

__all__ = [
    "LAP",
    "LDA",
    "LLE",
    "MFA",
    "MVR",
    "PCA",
    "SDA",
    "SLAP",
    "SMVR",
    "Criterion",
    "DictionaryLearner",
    "ElasticNet",
    "KLDivergence",
    "Prior",
    "Shifts",
    "SparLow",
    "TraceQuotient",
    "Views",
    "encode",
    "load",
    "objective",
    "optimality_gap",
    "plots",
    "pullback",
    "save",
    "trace_ratio",
]
