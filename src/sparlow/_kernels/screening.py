"""Which atoms belong to the working set of a sample: those that violate optimality, or might; see coding."""

from .algebra import subtract_multiple
from .compilation import ZERO, part

FAR = 1e300
"""Stands for an infinite end of a subdifferential interval; so does its counterpart in single precision."""
FAR_SINGLE = 1e30


@part
def subtract_rows(table, rows, factors, k, z, w):
    """Subtract Σ factors[s] · table[rows[s]] from z over the first ``w`` columns, in the precision of z."""
    number = z.dtype.type
    while k >= 4:  # four rows at a time: z is read and written once for all four
        k -= 4
        g0, g1, g2, g3 = table[rows[k]], table[rows[k + 1]], table[rows[k + 2]], table[rows[k + 3]]
        v0, v1, v2, v3 = number(factors[k]), number(factors[k + 1]), number(factors[k + 2]), number(factors[k + 3])
        for j in range(w):
            z[j] -= v0 * g0[j] + v1 * g1[j] + v2 * g2[j] + v3 * g3[j]
    while k > 0:
        k -= 1
        subtract_multiple(z, number(factors[k]), table[rows[k]], w)


@part
def screen(c, gram, atoms, codes, w, low, high, margin, support, values, z, bits):
    """Compute the violations of atoms outside the working set, in the precision of ``c`` and ``gram``, and the largest.

    From z = c − φG, in place of z: the distance to the interval, negative inside it, plus ``margin``, its rounding
    error. Members of the set get −1. ``bits`` are those of z as whole numbers: above zero they compare as the numbers
    do, many at a time, so they tell the largest. Returns −1 if all are negative.
    """
    r = z.shape[0]
    for j in range(r):
        z[j] = c[j]
    k = ZERO
    for a in range(w):
        if codes[a] != 0:
            support[k], values[k] = atoms[a], codes[a]
            k += 1
    subtract_rows(gram, support, values, k, z, r)
    for j in range(r):
        above, below = z[j] - high[j], low[j] - z[j]
        z[j] = (above if above > below else below) + margin
    for a in range(w):
        z[atoms[a]] = -1
    worst = bits[0]
    for j in range(r):
        worst = max(worst, bits[j])
    if worst < 0:
        return z.dtype.type(-1)
    j = 0
    while bits[j] != worst:
        j += 1
    return z[j]


@part
def select(z, worst, margin, limit, candidates, violations):
    """Select the atoms of largest violation, about ``limit``; both it and z are with the ``margin`` for rounding."""
    # atoms join when they violate optimality by 0.3 of the largest violation
    cut = margin + z.dtype.type(0.3) * (worst - margin) if worst > margin else worst * 0
    n = 0
    for j in range(z.shape[0]):
        candidates[n], violations[n] = j, z[j]
        n += z[j] >= cut
    for _ in range(64):  # more than any finite cut needs to reach the largest violation
        if n <= limit or not cut < worst:
            break
        cut = (cut + worst) / 2
        if worst - cut < 1e-3 * abs(worst):
            cut = worst
        kept = 0
        for s in range(n):
            if violations[s] >= cut:
                candidates[kept] = candidates[s]
                violations[kept] = violations[s]
                kept += 1
        n = kept
    return n
