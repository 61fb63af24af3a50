"""The trace quotient and its nine criteria.

    f(Φ, U) = tr(UᵀAU) / tr(UᵀBU),  A = ΦᵀS_AΦ / n,  B = ΦᵀS_BΦ / n + ridge · I

A criterion is a small object with parameters. ``bind(X, y)`` builds its structure matrices once, from samples and
labels, and returns a :class:`Quotient`, which knows values and derivatives. The same quotient serves the classical
method (Φ = X), the sequential one (codes of a fixed dictionary) and the joint one.

| name | S_A | S_B | classical method |
|---|---|---|---|
| pca | Π | tr(ΦᵀΠΦ) I | PCA |
| lle | Π | (I − W)ᵀ(I − W) | ONPP |
| lap | affinities, centred | their degrees, centred | OLPP |
| lda | between classes | within classes | LDA |
| mfa | L⁻ of neighbours of other classes | L⁺ of neighbours of the same class | MFA |
| mvr | targets T Tᵀ | I (centred) | ridge regression |
| sda | between classes | all labelled + αL | SDA |
| slap | L⁻ + α₁Lᴺ | L⁺ + α₂L | SDE |
| smvr | targets | I on labelled samples + ρL | LapRLS |
"""

import functools

from .base import Criterion, Quotient, Value
from .semisupervised import SDA, SLAP, SMVR
from .supervised import LDA, MFA, MVR
from .unsupervised import LAP, LLE, PCA

__all__ = [
    "CRITERIA",
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
    "Quotient",
    "Value",
    "criterion_named",
]

CRITERIA: dict[str, type[Criterion]] = {
    "pca": PCA,
    "lle": LLE,
    "lap": LAP,
    "lda": LDA,
    "mfa": MFA,
    "mvr": MVR,
    "sda": SDA,
    "slap": SLAP,
    "smfa": SLAP,
    "smvr": SMVR,
}


def criterion_named(criterion: str | Criterion) -> Criterion:
    """Return the criterion of that name with its usual parameters, or the object itself."""
    if isinstance(criterion, Criterion):
        return criterion
    if criterion in CRITERIA:
        return _usual(CRITERIA[criterion])
    raise ValueError(
        f"criterion must be one of {', '.join(CRITERIA)}, or a Criterion such as MFA(), got {criterion!r}."
    )


@functools.cache
def _usual(kind: type[Criterion]) -> Criterion:
    """Return a criterion with its usual parameters, made once."""
    return kind()
