"""List the paper's tables and figures, with the values that it prints."""

from dataclasses import replace

from ..specification import Experiment
from .categories import CATEGORIES
from .digits_and_faces import DIGITS_AND_FACES
from .printed import BESIDE, PRINTED

EXPERIMENTS: tuple[Experiment, ...] = (
    *PRINTED,
    *(replace(e, entries=(*e.entries, *BESIDE.get(e.name, ()))) for e in (*DIGITS_AND_FACES, *CATEGORIES)),
)


def named(name: str, among: tuple[Experiment, ...] = EXPERIMENTS) -> tuple[Experiment, ...]:
    """Return the experiment of a name, or all parts of a figure: ``fig6`` is fig6a to fig6d."""
    found = tuple(e for e in among if e.name == name or (e.name[:-1] == name and e.name[-1].isalpha()))
    if not found:
        known = ", ".join(e.name for e in EXPERIMENTS)
        raise ValueError(f"There is no experiment {name!r}; there are {known}.")
    return found
