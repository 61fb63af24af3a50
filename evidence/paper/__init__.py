"""The paper's evidence as data."""

from ..plan import Experiment
from .categories import CATEGORIES
from .faces_and_digits import FACES_AND_DIGITS

EXPERIMENTS: tuple[Experiment, ...] = (*FACES_AND_DIGITS, *CATEGORIES)


def named(name: str) -> tuple[Experiment, ...]:
    """The experiment of a name, or all parts of a figure: ``fig6`` is fig6a to fig6d."""
    found = tuple(e for e in EXPERIMENTS if e.name == name or (e.name[:-1] == name and e.name[-1].isalpha()))
    if not found:
        known = ", ".join(e.name for e in EXPERIMENTS)
        raise ValueError(f"There is no experiment {name!r}; there are {known}.")
    return found
