"""Labels and targets as the criteria want them, with errors that say what is missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_consistent_length

from ..criteria import Criterion
from ..dictionaries import UNLABELLED, labelled
from ..messages import warn

Array = NDArray[Any]


@dataclass(frozen=True)
class Labels:
    """What a criterion binds to: ``y`` encoded 0 … c−1 (−1 unlabelled) with ``classes``, or real ``targets``."""

    y: Array | None = None
    classes: Array | None = None
    targets: Array | None = None

    @property
    def bound(self) -> Array | None:
        """The argument of ``Criterion.bind``."""
        return self.y if self.targets is None else self.targets

    @property
    def known(self) -> Array | None:
        """Which samples are labelled; None where there are no labels at all."""
        if self.targets is not None:
            return np.all(np.isfinite(self.targets), axis=1)
        return None if self.y is None else self.y >= 0

    def held_out(self, n: int, fraction: float, rng: np.random.RandomState) -> Array:
        """Rows of a part of the labelled samples, some of each class; of all n where there are no labels."""
        if self.y is not None and np.bincount(self.y[self.y >= 0]).min() < 2:
            raise ValueError("validation_fraction holds out samples of each class, but there is a class of one sample.")
        usable = np.arange(n) if self.known is None else np.flatnonzero(self.known)
        stratify = None if self.y is None else self.y[usable]
        splitter = ShuffleSplit if stratify is None else StratifiedShuffleSplit
        count = max(round(fraction * len(usable)), 1 if stratify is None else len(np.unique(stratify)))
        _, held = next(splitter(1, test_size=count, random_state=rng).split(usable, stratify))
        return np.asarray(np.sort(usable[held]))

    def take(self, rows: Array) -> Labels:
        """Those of some samples."""
        y, targets = (None if part is None else part[rows] for part in (self.y, self.targets))
        return Labels(y, self.classes, targets)


def check_labels(criterion: Criterion, X: Any, y: Any, name: str) -> Labels:
    """Labels for a criterion; an unsupervised one ignores them."""
    if criterion.supervision == "none":
        return Labels()
    if y is None:
        raise ValueError(
            f"{name} requires y to be passed, but the target y is None. Criteria without labels are pca, lle and lap."
        )
    kind = type(criterion).__name__
    if criterion.targets and criterion.supervision == "semi":
        y = _gaps_marked(y)
    if criterion.targets and _is_targets(y):
        return Labels(targets=_check_targets(criterion, X, y))
    y = column_or_1d(y, warn=True)
    check_consistent_length(X, y)
    semi = criterion.supervision == "semi"
    _refuse_nothing(y)
    if semi and y.dtype.kind in "UO" and np.any(y == "-1"):
        y = np.where(y == "-1", UNLABELLED, y.astype(object))  # what numpy makes of −1 in a list of words
    if not semi and _has_words(y) and not labelled(y).all():
        bare = np.flatnonzero(~labelled(y))
        raise ValueError(
            f"{len(bare)} sample(s) have no label (-1 among words, first: row {bare[0]}), but {kind} needs one for "
            "each: leave them out, or use sda, slap or smvr."
        )
    check_classification_targets(y[labelled(y)].astype(str) if semi and y.dtype == object else y)
    known = labelled(y) if semi else np.ones(len(y), bool)
    classes, codes = np.unique(y[known], return_inverse=True)
    if not semi and len(classes) > 2 and not (labelled(y) & (y.astype(str) != "-1")).all():
        warn(f"{kind} takes the label -1 as a class of its own. If it marks unlabelled samples use sda, slap or smvr.")
    if len(classes) < 2:
        raise ValueError(
            f"{kind} needs labelled samples of at least two classes, but y has {len(classes)} class(es)"
            + (f", {classes[0]}" if len(classes) else " and is all unlabelled (-1)")
            + (" beside the unlabelled ones (-1)" if semi and len(classes) and not known.all() else "")
            + ". For one class or none use an unsupervised criterion: pca, lle or lap."
        )
    encoded = np.full(len(y), UNLABELLED)
    encoded[known] = codes
    _check_sizes(criterion, classes, np.bincount(codes))
    return Labels(encoded, classes)


def _refuse_nothing(y: Array) -> None:
    """Say how to mark unlabelled samples where None, NaN or empty texts are meant to."""
    if y.dtype.kind not in "OU":
        nothing = np.isnan(y) if y.dtype.kind == "f" else np.zeros(len(y), bool)
    else:
        nothing = np.array([label is None or label == "" or label != label for label in y], bool)
    if nothing.any():
        first = int(np.flatnonzero(nothing)[0])
        raise ValueError(
            f"Input y contains NaN, None or an empty text ({int(nothing.sum())} of {len(y)}, first: row {first}). If "
            "these samples have no label, mark them by -1 and use sda, slap or smvr, or leave them out."
        )


def _check_sizes(criterion: Criterion, classes: Array, counts: Array) -> None:
    fewest = criterion.fewest_per_class
    if counts.min() < fewest:
        alone = ", ".join(str(label) for label in classes[counts < fewest][:5])
        raise ValueError(
            f"{type(criterion).__name__} compares samples of the same class, so it needs at least {fewest} of each; "
            f"{counts.min()} sample has the label {alone}. Leave it out, give more samples, or use lda."
        )
    smooth = any(getattr(criterion, weight, 0) for weight in ("alpha", "near", "rho"))  # neighbours without labels
    if counts.max() < 2 and not smooth:
        raise ValueError("Every class has one sample only: there is no scatter within classes to compare with.")


def _has_words(y: Array) -> bool:
    return y.dtype == object and any(isinstance(label, str) for label in y.flat)


def _gaps_marked(y: Any) -> Any:
    """Class numbers with NaN where some are missing, as tables have them, with −1 there; other targets as they are.

    They are classes if they are whole, none of them is −1, and most are there more than once.
    """
    values = np.asarray(y)
    known = np.isfinite(values) if values.dtype.kind == "f" else np.ones(values.shape, bool)
    if known.all() or not known.any() or np.isinf(values).any() or values.size > len(values):
        return y
    numbers = values[known]
    if np.any(numbers != np.round(numbers)) or np.any(numbers == UNLABELLED) or _is_targets(numbers):
        return y
    few = len(np.unique(numbers)) <= len(numbers) // 2
    return np.where(known, values, UNLABELLED).ravel() if few else y


def _is_targets(y: Any) -> bool:
    values = np.asarray(y)
    if _has_words(values):
        return False  # also with −1 among them, which no order holds
    if values.dtype.kind == "f" and not np.all(np.isfinite(values)):
        return True  # rows of NaN are unlabelled
    if values.dtype.kind == "f" and values.size == len(values) and len(np.unique(values)) > max(20, len(values) // 10):
        return True  # whole numbers as floats, such as ages: too many to be classes
    kinds = ("continuous", "continuous-multioutput", "multilabel-indicator", "multiclass-multioutput")
    return type_of_target(values) in kinds


def check_targets(y: Any, missing: bool = True) -> Array:
    """Targets (n, d), rows of NaN where they are unknown."""
    if not missing and np.any(np.isnan(np.asarray(y, float))):
        raise ValueError("Input y contains NaN: samples without a target are left out here, smvr can learn from them.")
    targets = check_array(
        y, dtype=float, copy=True, ensure_2d=False, ensure_all_finite="allow-nan" if missing else True, input_name="y"
    )
    targets = targets.reshape(len(targets), -1)
    if missing and targets.shape[1] > 1 and set(np.unique(targets[np.isfinite(targets)])) <= {-1.0, 0.0, 1.0}:
        targets[np.all(targets == UNLABELLED, axis=1)] = np.nan  # indicators of which none is known
    return targets


def _check_targets(criterion: Criterion, X: Any, y: Any) -> Array:
    targets = check_targets(y, criterion.supervision == "semi")
    check_consistent_length(X, targets)
    known = np.all(np.isfinite(targets), axis=1)
    if not known.any() or np.ptp(targets[known], axis=0).max() == 0:
        raise ValueError("The targets y are constant or all missing: there is nothing to regress on.")
    marked = int(np.sum(np.all(targets == UNLABELLED, axis=1)))
    if known.all() and marked > max(1, len(targets) // 20):
        semi = criterion.supervision == "semi"
        warn(
            f"{marked} rows of y are -1, which {type(criterion).__name__} takes as a value of the target. If they mark "
            f"samples without one, {'write NaN' if semi else 'leave them out, or write NaN and use smvr'}."
        )
    return targets
