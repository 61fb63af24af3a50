"""Labels and targets: which samples have one, how they are numbered, and what a criterion can use.

A sample is unlabelled where its label is −1 (of a signed or floating type, or among objects), None, NaN or the NA of
pandas. In encoded labels, 0 … c − 1, it is −1.
"""

from __future__ import annotations

import dataclasses
import numbers
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from sklearn.model_selection import ShuffleSplit, StratifiedGroupKFold, StratifiedKFold, StratifiedShuffleSplit
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_consistent_length

from .checks import Array, check_array, refuse_unsound, warn

UNLABELLED = -1


def is_labelled(y: Array) -> Array:
    """Return which samples have a label: neither −1 nor None nor NaN.

    Unsigned types cannot hold −1. Where the largest number of such a type stands apart from all others, −1 has been
    stored in it, and a ValueError says so.
    """
    if y.dtype.kind == "u" and y.size:
        most = np.iinfo(y.dtype).max
        if y.max() == most and len(np.unique(y)) > 1 and np.sort(np.unique(y))[-2] < most - 1:
            raise ValueError(
                f"y has the label {most}, which is what -1 becomes in {y.dtype}. Unsigned types cannot mark unlabelled "
                "samples: convert labels to a signed type, such as int64, before -1 is put in."
            )
        return np.ones(len(y), bool)
    if y.dtype == object:
        return np.array([not _is_nothing(label) for label in y], bool)
    if y.dtype.kind == "f":
        return (y != UNLABELLED) & ~np.isnan(y)
    return y != UNLABELLED if y.dtype.kind == "i" else np.ones(len(y), bool)


def known_rows(y: Any, *, semi: bool = False) -> Array:
    """Return which samples have a label.

    −1 marks those without one, unless it is one of two labels and ``semi`` is false: then it is a class.
    """
    y = np.asarray(y)
    if not semi and len({str(label) for label in y}) <= 2:
        return np.ones(len(y), bool)
    return np.asarray(is_labelled(y))


def _is_nothing(label: Any) -> bool:
    """Return whether a label is −1, None or NaN."""
    return label is None or (isinstance(label, numbers.Real) and (label != label or float(label) == UNLABELLED))


def without_na(y: Any) -> Any:
    """Return labels without the NA of pandas, which cannot be compared: NaN among numbers, None among words."""
    values = np.asarray(y)
    absent = [type(label).__name__ == "NAType" for label in values.flat] if values.dtype == object else []
    if not any(absent):
        return y
    gaps = np.reshape(absent, values.shape)
    numeric = all(isinstance(label, numbers.Real) for label in values[~gaps])
    out = values.copy()
    out[gaps] = np.nan if numeric else None
    return out.astype(float) if numeric else out


def refuse_mixture(y: Any) -> None:
    """Refuse labels of which some are words and others numbers, which have no order; −1, None and NaN may be there."""
    values = np.asarray(y)
    if values.dtype != object:
        return
    words = [label for label in values.flat if isinstance(label, str)]
    others = [label for label in values.flat if not isinstance(label, str) and not _is_nothing(label)]
    if words and others:
        raise ValueError(
            f"y mixes words and other labels (first {words[0]!r} and {others[0]!r}): give all labels one type, for "
            "instance by numpy.asarray(y).astype(str)."
        )


def are_classes(y: Array) -> bool:
    """Return whether y holds encoded classes rather than targets."""
    return y.ndim == 1 and y.dtype.kind in "iu"


def are_known(y: Array) -> Array:
    """Return which samples have an encoded label (not −1), or all of their targets (no NaN)."""
    return y >= 0 if are_classes(y) else np.all(np.isfinite(y.reshape(len(y), -1)), axis=1)


def n_classes(y: Array | None) -> int:
    """Return the number of classes of encoded labels."""
    assert y is not None
    return int(y.max()) + 1


class Rule(Protocol):
    """What a criterion says of the labels that it takes."""

    supervision: ClassVar[str]  # labels are ignored ("none"), needed ("full"), or needed for some samples ("semi")
    targets: ClassVar[bool]  # real-valued or multi-label targets are accepted
    fewest_per_class: ClassVar[int]
    weighted: ClassVar[bool]  # weights of samples are taken


@dataclass(frozen=True)
class Labels:
    """What a criterion binds to: ``y`` encoded 0 … c−1 (−1 unlabelled) with ``classes``, or real ``targets``.

    ``weights`` say how often each sample counts; None where all count the same. Samples of one of the ``groups`` are
    held out together.
    """

    y: Array | None = None
    classes: Array | None = None
    targets: Array | None = None
    weights: Array | None = None
    groups: Array | None = None

    @property
    def bound(self) -> Array | None:
        """The argument of ``Criterion.bind``."""
        return self.y if self.targets is None else self.targets

    @property
    def known(self) -> Array | None:
        """Which samples are labelled; None where there are no labels at all."""
        return None if self.bound is None else are_known(self.bound)

    @property
    def few(self) -> bool:
        """Whether most samples have no label, where there are labels."""
        return self.known is not None and bool(np.mean(self.known) < 0.5)

    def held_out(self, n: int, fraction: float, rng: np.random.RandomState) -> Array:
        """Draw the rows of a part of the labelled samples, some of each class; of all n where there are no labels."""
        if self.y is not None and np.bincount(self.y[self.y >= 0]).min() < 2:
            raise ValueError("Early stopping holds out samples of each class, but there is a class of one sample.")
        usable = np.arange(n) if self.known is None else np.flatnonzero(self.known)
        if self.groups is not None:
            classes = np.zeros(len(usable), int) if self.y is None else self.y[usable]
            return np.asarray(usable[_whole_groups(classes, self.groups[usable], fraction, rng)])
        stratify = None if self.y is None else self.y[usable]
        splitter = ShuffleSplit if stratify is None else StratifiedShuffleSplit
        least = 1 if stratify is None else len(np.unique(stratify))  # on either side
        count = min(max(round(fraction * len(usable)), least), len(usable) - least)
        _, validation = next(splitter(1, test_size=count, random_state=rng).split(usable, stratify))
        return np.asarray(np.sort(usable[validation]))

    def lacking(self, rows: Array, count: int, rng: np.random.RandomState) -> Array:
        """Draw further rows, to top up classes that have fewer than ``count``."""
        more = [np.zeros(0, int)]
        if self.y is None:
            return more[0]
        known = self.y[rows]
        found = np.bincount(known[known >= 0], minlength=int(self.y.max()) + 1)
        for c in np.flatnonzero(found < count):
            others = np.setdiff1d(np.flatnonzero(self.y == c), rows)
            more.append(rng.permutation(others)[: count - found[c]])
        return np.concatenate(more)

    def take(self, rows: Array) -> Labels:
        """Return the labels of some samples."""
        own = (self.y, self.targets, self.weights, self.groups)
        y, targets, weights, groups = (None if part is None else part[rows] for part in own)
        return Labels(y, self.classes, targets, weights, groups)


def _whole_groups(classes: Array, groups: Array, fraction: float, rng: np.random.RandomState) -> Array:
    """Draw the rows of whole groups; two samples of each class, of other groups, are left."""
    sizes = np.zeros((int(groups.max()) + 1, int(classes.max()) + 1), int)
    np.add.at(sizes, (groups, classes), 1)
    left = sizes.sum(axis=0)
    held: list[int] = []
    for group in rng.permutation(len(sizes)):
        drawn = int(sizes[held].sum())
        if drawn < fraction * len(classes) and np.all((left - sizes[group] >= 2) | (sizes[group] == 0)):
            held.append(group)
            left = left - sizes[group]
    return np.flatnonzero(np.isin(groups, held))


def class_folds(classes: Array, count: int, groups: Array | None = None) -> list[tuple[Array, Array]]:
    """Return rows to learn from and rows to judge on, of other groups; none if a class would have nothing to learn."""
    if groups is None:
        return list(StratifiedKFold(count, shuffle=True, random_state=0).split(classes, classes))
    count = min(count, len(np.unique(groups)))
    parts = list(StratifiedGroupKFold(count, shuffle=True, random_state=0).split(classes, classes, groups))
    whole = len(np.unique(classes))
    return parts if all(len(np.unique(classes[train])) == whole for train, _ in parts) else []


def with_groups(labels: Labels, groups: Any) -> Labels:
    """Return the labels with a user's groups of the samples."""
    if groups is None:
        return labels
    refuse_unsound(groups, "groups")
    groups = column_or_1d(groups)
    n = None if labels.bound is None else len(labels.bound)
    if n is not None and len(groups) != n:
        raise ValueError(f"groups has {len(groups)} entries, but there are {n} samples.")
    numbers = np.unique(groups.astype(str) if groups.dtype == object else groups, return_inverse=True)[1]
    if numbers.max(initial=0) < 1:
        raise ValueError("All samples are of one group: no part can be held out. Leave groups out.")
    return dataclasses.replace(labels, groups=numbers)


def check_labels(criterion: Rule, X: Any, y: Any, name: str) -> Labels:
    """Return labels for a criterion; an unsupervised one ignores them."""
    if criterion.supervision == "none":
        return Labels()
    if y is None:
        raise ValueError(
            f"{name} requires y to be passed, but the target y is None: the criterion {type(criterion).__name__} "
            "learns from labels. Criteria without labels are pca, lle and lap."
        )
    refuse_unsound(y, "y")
    y = without_na(y)
    refuse_mixture(y)
    kind = type(criterion).__name__
    if criterion.targets and criterion.supervision == "semi":
        y = _gaps_marked(y)
    if criterion.targets and _is_targets(y):
        return Labels(targets=_check_targets(criterion, X, y))
    y = column_or_1d(y, warn=True)
    check_consistent_length(X, y)
    semi = criterion.supervision == "semi"
    if semi and y.dtype.kind in "UO" and np.any(y == "-1"):
        y = np.where(y == "-1", UNLABELLED, y.astype(object))  # what numpy makes of −1 in a list of words
    _refuse_nothing(y, semi)
    if not semi and _has_words(y) and not is_labelled(y).all():
        bare = np.flatnonzero(~is_labelled(y))
        raise ValueError(
            f"{len(bare)} sample(s) have no label (-1 among words, first: row {bare[0]}), but {kind} needs one for "
            "each: leave them out, or use sda, slap or smvr."
        )
    _check_are_classes(kind, y[is_labelled(y)] if semi else y, semi)
    known = is_labelled(y) if semi else np.ones(len(y), bool)
    classes, codes = np.unique(y[known], return_inverse=True)
    if y.dtype.kind == "f" and _are_many(classes, y):
        warn(
            f"{kind} takes the {len(classes)} values of y, which are floats, as classes. If they are numbers, use "
            f"{'smvr' if semi else 'mvr'}; if they are classes, make them integers."
        )
    if not semi and len(classes) > 2 and not (is_labelled(y) & (y.astype(str) != "-1")).all():
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


def check_weights(criterion: Rule, X: Any, labels: Labels, sample_weight: Any) -> Labels:
    """Return the labels with a user's weights of the samples; weights that are all the same say nothing."""
    if sample_weight is None:
        return labels
    refuse_unsound(sample_weight, "sample_weight")
    weights = _check_sample_weight(sample_weight, np.zeros(X.shape[0]), dtype=float, ensure_non_negative=True)
    if np.ptp(weights) == 0:
        return labels
    if not criterion.weighted:
        raise ValueError(
            f"{type(criterion).__name__} takes no sample_weight: it counts each sample once. lda, mvr and pca take "
            "it, as they are made of means and scatters."
        )
    if labels.y is not None and labels.classes is not None:
        masses = np.bincount(labels.y, weights)
        if not masses.all():
            light = labels.classes[np.argmin(masses)]
            raise ValueError(f"All samples of the class {light} have the weight 0: leave them out.")
    return dataclasses.replace(labels, weights=weights)


def labels_of_batch(criterion: Rule, X: Any, y: Any, classes: Any, name: str) -> Labels:
    """Return the labels of one batch of a stream; ``classes`` are all that will come, by default those of this one."""
    if criterion.supervision == "none":
        return Labels()
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    refuse_unsound(y, "y")
    y = without_na(y)
    if classes is None and criterion.targets and _is_targets(y):
        targets = check_targets(y)
        check_consistent_length(X, targets)
        return Labels(targets=targets)
    y = column_or_1d(y, warn=True)
    check_consistent_length(X, y)
    refuse_mixture(y)
    classes = np.unique(y[is_labelled(y)] if classes is None else classes)
    check_classification_targets(np.tile(classes, 2))  # it warns where most of what it sees are different
    if len(classes) < 2:
        raise ValueError(f"A stream needs at least two classes, got {classes.tolist()}: name them all by classes=…")
    known = is_labelled(y) | np.isin(y, classes)
    places = np.searchsorted(classes, y[known])
    strange = (places == len(classes)) | (classes[np.minimum(places, len(classes) - 1)] != y[known])
    if strange.any():
        raise ValueError(
            f"y has the label {y[known][strange][:1].tolist()[0]!r}, which is not among classes, {classes.tolist()}. "
            "Name all labels with the first batch of a stream; samples for validation have those of the training."
        )
    encoded = np.full(len(y), UNLABELLED)
    encoded[known] = places
    return Labels(encoded, classes)


def joined(first: Labels, second: Labels) -> Labels:
    """Return the labels of two batches of a stream, one after the other."""
    if first.targets is not None:
        return Labels(targets=np.concatenate([first.targets, second.targets]))
    return first if first.y is None else Labels(np.concatenate([first.y, second.y]), first.classes)


def _check_are_classes(kind: str, y: Array, semi: bool) -> None:
    """Refuse labels that are no classes, and name the criteria for real targets."""
    try:
        check_classification_targets(y.astype(str) if semi and y.dtype == object else y)
    except ValueError as error:
        if "continuous" not in str(error):
            raise
        raise ValueError(
            f"{error} {kind} needs classes. For real-valued targets use mvr, or smvr where some are missing."
        ) from error


def _refuse_nothing(y: Array, semi: bool) -> None:
    """Refuse infinite labels, empty texts, and None or NaN where every sample needs a label; say how to mark these."""
    if y.dtype.kind == "f" and np.isinf(y).any():
        raise ValueError(f"Input y contains infinity, first in row {int(np.argmax(np.isinf(y)))}.")
    if y.dtype.kind == "f":
        nothing = np.isnan(y) & (not semi)
    elif y.dtype.kind in "OU":
        nothing = np.array([label == "" or (not semi and (label is None or label != label)) for label in y], bool)
    else:
        return
    if nothing.any():
        first = int(np.flatnonzero(nothing)[0])
        raise ValueError(
            f"Input y contains NaN, None or an empty text ({int(nothing.sum())} of {len(y)}, first: row {first}). If "
            "these samples have no label, mark them by -1 and use sda, slap or smvr, or leave them out."
        )


def _check_sizes(criterion: Rule, classes: Array, counts: Array) -> None:
    """Refuse classes with fewer samples than the criterion needs."""
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
    """Return whether some labels are words."""
    return y.dtype == object and any(isinstance(label, str) for label in y.flat)


def _gaps_marked(y: Any) -> Any:
    """Return class numbers with −1 in place of NaN, as tables have gaps; return other targets as they are.

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
    """Return whether y holds real or multi-label targets rather than classes."""
    values = np.asarray(y)
    if _has_words(values):
        return False  # also with −1 among them, which no order holds
    if values.dtype.kind == "f" and not np.all(np.isfinite(values)):
        return True  # rows of NaN are unlabelled
    if values.dtype.kind == "f" and values.size == len(values) and _are_many(np.unique(values), values):
        return True  # whole numbers as floats, such as ages
    kinds = ("continuous", "continuous-multioutput", "multilabel-indicator", "multiclass-multioutput")
    return type_of_target(values) in kinds


def _are_many(values: Array, y: Array) -> bool:
    """Return whether there are too many different values among y to be classes."""
    return len(values) > max(20, len(y) // 10)


def check_targets(y: Any, missing: bool = True) -> Array:
    """Return targets (n, d), with rows of NaN where they are unknown."""
    if not missing and np.any(np.isnan(np.asarray(y, float))):
        raise ValueError("Input y contains NaN: samples without a target are left out here, smvr can learn from them.")
    targets = check_array(
        y, dtype=float, copy=True, ensure_2d=False, ensure_all_finite="allow-nan" if missing else True, input_name="y"
    )
    targets = targets.reshape(len(targets), -1)
    if missing and targets.shape[1] > 1 and set(np.unique(targets[np.isfinite(targets)])) <= {-1.0, 0.0, 1.0}:
        targets[np.all(targets == UNLABELLED, axis=1)] = np.nan  # indicators of which none is known
    return targets


def _check_targets(criterion: Rule, X: Any, y: Any) -> Array:
    """Return targets, checked for the criterion."""
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
