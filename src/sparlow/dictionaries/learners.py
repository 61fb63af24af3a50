"""The learners by name, each given what it takes, and a dictionary for each class, one below the other."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d

from ..checks import Array, check_count
from ..labels import is_labelled
from ..parallel import Threads
from ..priors import Prior
from .atoms import check_samples, distinct_rows, samples
from .pursuit import ksvd
from .streams import online, rls_dla

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


def class_union(
    X: ArrayLike | sp.sparray | sp.spmatrix,
    y: ArrayLike,
    n_atoms: int,
    learner: Callable[..., Array],
    *,
    random_state: Any = None,
    n_jobs: int | None = None,
    **options: Any,
) -> tuple[Array, Array]:
    """Learn a dictionary for each class and stack them.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, m)
        Samples.
    y : array of shape (n,)
        Their classes. Samples of label −1 are unlabelled and left out.
    n_atoms : int
        How many atoms in all. Classes get equal shares, the first ones one more where the division leaves a rest; a
        class with fewer samples of distinct direction than its share gives what it cannot use to the others.
    learner : callable
        For instance :func:`ksvd`: ``learner(X, n_atoms, random_state=…, **options)`` gives the atoms of one class.
    random_state : int or RandomState, optional
        Each class gets a seed of its own from it.
    n_jobs : int, optional
        Threads over the classes. The result does not depend on it.
    **options
        Further arguments of the learner, for instance ``prior`` or ``n_iter``.

    Returns
    -------
    dictionary : array of shape (n_atoms, m)
    classes : array of shape (n_atoms,)
        The class of each atom.

    Examples
    --------
    >>> import numpy as np
    >>> from sparlow.dictionaries import class_union, ksvd
    >>> X = np.random.default_rng(0).standard_normal((60, 4))
    >>> D, classes = class_union(X, np.repeat([0, 1, -1], 20), 5, ksvd, n_nonzero=2)
    >>> D.shape, classes.tolist()
    ((5, 4), [0, 0, 0, 1, 1])

    """
    X = check_samples(X)
    labels: Array = column_or_1d(y)
    check_consistent_length(X, labels)
    n_atoms = check_count(n_atoms, "n_atoms")
    classes = np.unique(labels[is_labelled(labels)])
    if not len(classes):
        raise ValueError("All labels in y are -1, which means unlabelled: a dictionary per class needs labels.")
    members = [np.flatnonzero(labels == label) for label in classes]
    shares = _shares(n_atoms, np.array([len(distinct_rows(X[rows])) for rows in members]))
    seeds = check_random_state(random_state).randint(np.iinfo(np.int32).max, size=len(classes))

    def learn(c: int) -> Array:
        return learner(X[members[c]], int(shares[c]), random_state=int(seeds[c]), **options)

    with Threads(n_jobs) as threads:
        parts = list(threads.map(learn, range(len(classes))))
    return np.vstack(parts), np.repeat(classes, shares)


def suits_classes(X: Any, y: Array, n_atoms: int) -> bool:
    """Return whether each class of the labels y, −1 for none, is to get atoms of its own.

    If all samples are labelled, or as many distinct ones as there are to be atoms; and if each class can get one.
    """
    known = y >= 0
    enough = known.all() or n_atoms <= len(distinct_rows(X[known]))
    return bool(enough and n_atoms >= len(np.unique(y[known])))


def _shares(n_atoms: int, room: Array) -> Array:
    """Split ``n_atoms`` among classes as equally as their ``room`` allows."""
    if n_atoms < len(room):
        raise ValueError(f"n_atoms={n_atoms} is less than the {len(room)} classes: ask for at least one atom each.")
    if n_atoms > room.sum():
        raise ValueError(
            f"n_atoms={n_atoms} atoms cannot be learned from {room.sum()} labelled samples of distinct direction: ask "
            f"for at most {room.sum()} atoms, or give more samples."
        )
    if not np.all(room):
        raise ValueError("A class has no sample that is not zero: leave it out.")
    shares = np.zeros(len(room), np.int64)
    for _ in range(len(room) + 1):  # each round fills a class or ends
        left = n_atoms - shares.sum()
        open_ = np.flatnonzero(shares < room)
        if not left:
            break
        extra = np.full(len(open_), left // len(open_))
        extra[: left % len(open_)] += 1
        shares[open_] = np.minimum(shares[open_] + extra, room[open_])
    return shares
