"""How samples are scaled before they are coded: rows to unit norm, or columns standardised where that is better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.utils.extmath import row_norms

from ..constants import FOLDS, STANDARDISED, TABLE, TRIED, WORTH
from ..defaults import unlike_columns
from ..dictionaries import check_samples, unit_samples
from ..embedding import nearest_right, surely
from ..labels import Labels, class_folds
from ..parallel import one_blas_thread

Array = NDArray[Any]


@dataclass(frozen=True)
class Scaling:
    """Columns standardised or not, rows scaled or not.

    Rows are scaled to unit norm. Rows of p standardised columns are divided by √(p + ‖x‖²). Their norms stay below one
    and stay apart, as the distance from the mean may tell classes apart.
    """

    unit: bool
    means: Array | None = None
    scales: Array | None = None

    def __call__(self, X: Any) -> Any:
        """Return the samples scaled."""
        if self.means is None:
            return unit_samples(X) if self.unit else check_samples(X)
        Z = np.asarray((X - self.means) / self.scales)
        largest = np.maximum(np.max(np.abs(Z), axis=1, keepdims=True), 1.0)  # keeps squares from overflow
        Z /= largest
        Z /= np.hypot(np.sqrt(Z.shape[1]) / largest, np.linalg.norm(Z, axis=1, keepdims=True))
        return check_samples(Z.astype(X.dtype))


def standardised(X: Array, weights: Array | None = None) -> Scaling:
    """Return the scaling that standardises the columns of samples (of weights), and holds rows below unit norm."""
    means, deviations = _moments(X, weights)
    return Scaling(True, means, np.where(deviations > 0, deviations, 1.0))


def _moments(X: Array, weights: Array | None = None) -> tuple[Array, Array]:
    """Return the means of the columns, and their deviations, 0 where these are rounding alone."""
    largest = float(np.max(np.abs(X))) or 1.0  # squares of what is divided by it do not overflow
    if weights is None:
        means, spread = np.mean(X, axis=0, dtype=float), np.std(X / largest, axis=0, dtype=float)
    else:
        means = np.average(X, axis=0, weights=weights)
        spread = np.sqrt(np.average(((X - means) / largest) ** 2, axis=0, weights=weights))
    # smaller deviations are rounding alone
    varies = largest * spread > 10 * np.finfo(X.dtype).eps * np.max(np.abs(X), axis=0)
    return means, np.where(varies, largest * spread, 0.0)


def choose_scaling(X: Any, labels: Labels) -> Scaling:
    """Return the scaling of samples where the user has chosen none.

    Rows have unit norm. Columns are standardised instead where few of them hold the variance, or where they come with
    mean 0 and equal deviations. They are standardised, too, in tables of at most 100 columns where the norm of a row
    tells the classes apart: where LDA of held-out samples, judged by its decisions and by nearest neighbours, is better
    that way by more than a point and more than its standard error. Few labels among many samples do not tell that.
    """
    if unlike_columns(X) or _come_standardised(X, labels.weights) or _norms_tell_classes(X, labels):
        return standardised(X, labels.weights)
    return Scaling(True)


def _come_standardised(X: Any, weights: Array | None) -> bool:
    """Return whether columns have mean 0 and equal deviations, up to chance, as those that a user has standardised.

    Their zero is the mean of the samples. Unit norm would lose how far from it a sample is. Rows that come with equal
    norms have none to lose.
    """
    if sp.issparse(X) or X.shape[1] < 2:
        return False
    rows = _spread(np.arange(X.shape[0]))
    X, weights = np.asarray(X[rows], float), None if weights is None else weights[rows]
    X = X / (float(np.max(np.abs(X))) or 1.0)
    norms = row_norms(X)
    if np.ptp(norms) <= 1e-3 * np.max(norms):  # such differences of norms are rounding
        return False
    means, deviations = _moments(X, weights)
    varies = deviations > 0
    if not varies.any():
        return False
    offsets = means[varies] / deviations[varies]
    alike = np.std(deviations[varies]) < STANDARDISED * np.mean(deviations[varies])
    return bool(alike and np.sqrt(np.mean(offsets**2)) < STANDARDISED)


def _spread(rows: Array) -> Array:
    """Return at most 3000 of some rows, evenly spaced."""
    return rows[np.unique(np.linspace(0, len(rows) - 1, TRIED).astype(int))]


@one_blas_thread()
def _norms_tell_classes(X: Any, labels: Labels) -> bool:
    """Return whether rows of unit norm lose what tells classes apart."""
    if labels.y is None or labels.few or sp.issparse(X) or X.shape[1] > TABLE:
        return False
    rows = _spread(np.flatnonzero(labels.y >= 0))
    X, y = np.asarray(X[rows], float), labels.y[rows]
    X = X / (float(np.max(np.abs(X))) or 1.0)
    counts = np.bincount(y)
    counts = counts[counts > 0]
    if len(counts) < 2 or np.min(counts) < FOLDS or not np.all(np.linalg.norm(X, axis=1) > 0):
        return False
    gains = np.zeros(len(y))
    for train, held in class_folds(y, FOLDS, None if labels.groups is None else labels.groups[rows]):
        for scaling, sign in ((standardised(X[train]), 1), (Scaling(True), -1)):
            rest, others = scaling(X[train]), scaling(X[held])
            try:
                with np.errstate(invalid="ignore"):  # rows of one positive column are all the same once they are scaled
                    lda = LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.01).fit(rest, y[train])
            except np.linalg.LinAlgError:  # classes without any scatter
                return False
            near = nearest_right(lda.transform(rest), y[train], lda.transform(others), y[held])
            gains[held] += sign * (near + (lda.predict(others) == y[held])) / 2
    return surely(gains) and float(gains.mean()) > WORTH
