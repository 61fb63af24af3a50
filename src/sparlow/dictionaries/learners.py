"""The learners by name, each given what it takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..priors import Prior
from .atoms import Array, samples
from .pursuit import ksvd
from .streams import online, rls_dla
from .union import class_union

LEARNERS: dict[str, Callable[..., Array]] = {
    "ksvd": ksvd,
    "online": online,
    "odl": online,
    "rls": rls_dla,
    "samples": samples,
}


def learn_dictionary(
    method: str,
    X: Any,
    n_atoms: int,
    y: Array | None = None,
    *,
    prior: Prior,
    random_state: Any = None,
    n_jobs: int | None = None,
    **offered: Any,
) -> tuple[Array, Array | None]:
    """Learn a dictionary, class by class where there are labels ``y``; return it with the classes of its atoms.

    The learner gets those of the ``offered`` options (``n_nonzero``, …) that it has and that are not None. A learner
    that takes no prior is told whether codes must be positive.
    """
    offered |= {"prior": prior, "positive": prior.positive}
    learner = LEARNERS[method]
    has = inspect.signature(learner).parameters
    options = {name: value for name, value in offered.items() if name in has and value is not None}
    if y is not None:
        return class_union(X, y, n_atoms, learner, random_state=random_state, n_jobs=n_jobs, **options)
    if "n_jobs" in has:
        options["n_jobs"] = n_jobs
    return learner(X, n_atoms, random_state=random_state, **options), None
