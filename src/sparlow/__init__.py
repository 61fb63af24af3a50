"""SparLow learns low-dimensional representations from sparse codes and a trace quotient."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .coding import Coder, encode, objective, optimality_gap, pullback
    from .copies import Copies
    from .dictionaries import omp
    from .estimators import DictionaryLearner, SparLow, TraceQuotient
    from .models import load, save
    from .printed import as_printed
    from .tracequotient import trace_ratio

__version__ = "0.3.0"

_HOMES = {
    "Coder": "coding",
    "Copies": "copies",
    "DictionaryLearner": "estimators",
    "SparLow": "estimators",
    "TraceQuotient": "estimators",
    "as_printed": "printed",
    "encode": "coding",
    "load": "models",
    "objective": "coding",
    "omp": "dictionaries",
    "optimality_gap": "coding",
    "pullback": "coding",
    "save": "models",
    "trace_ratio": "tracequotient",
}
_ROOMS = (
    "classifiers",
    "coders",
    "criteria",
    "explanations",
    "export",
    "images",
    "plots",
    "priors",
    "solvers",
    "views",
)

__all__ = [
    "Coder",
    "Copies",
    "DictionaryLearner",
    "SparLow",
    "TraceQuotient",
    "as_printed",
    "encode",
    "load",
    "objective",
    "omp",
    "optimality_gap",
    "pullback",
    "save",
    "trace_ratio",
    *_ROOMS,
]


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is first asked for."""
    if name in _ROOMS:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _HOMES:
        value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
