"""Small dense algebra that several kernels share, and which atoms belong to the working set of a sample."""

import math

from .compilation import ZERO, part

PIVOT, PIVOT_SINGLE = 1e-13, 1e-5  # pivots below this share of the diagonal are rounding error
DEPENDENT, DEPENDENT_SINGLE = 1e-10, 1e-4  # rows with smaller pivots depend on the others, as far as one can tell


@part
def dot(a, b):
    """Return the inner product of two arrays."""
    total = a[0] * 0
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@part
def euclidean(x):
    """Return the norm of an array, in double precision."""
    total = 0.0
    for i in range(x.shape[0]):
        entry = float(x[i])
        total += entry * entry
    return math.sqrt(total)


@part
def subtract_multiple(y, alpha, x, n):
    """Subtract a multiple of an array from another, in place."""
    for i in range(n):
        y[i] -= alpha * x[i]


@part
def extend_factor(K, support, curv, k, L, kept, kept_curv, n_kept, floor, dependent):
    """Extend the Cholesky factor LLᵀ of ``K[support, support] + diag(curv)``, reusing rows of the last factor.

    ``L[i, i]`` holds the inverse pivot. Pivots below ``floor``, the rounding error of K, are raised to it: the factor
    of a slightly larger, positive definite matrix, so that a step solved with it is still one of descent. The factor
    ends with the first row whose pivot is below ``dependent``, as rounding errors would grow from each such row to the
    next; returns its number of rows.
    """
    i = 0
    while i < k and i < n_kept and kept[i] == support[i] and kept_curv[i] == curv[i]:
        i += 1
    while i + 1 < k:  # two rows at a time: each earlier row is read once for both
        row_a, row_b, L_a, L_b = K[support[i]], K[support[i + 1]], L[i], L[i + 1]
        for j in range(i):
            L_j = L[j]
            entry_a, entry_b = row_a[support[j]], row_b[support[j]]
            for t in range(j):
                entry_a -= L_a[t] * L_j[t]
                entry_b -= L_b[t] * L_j[t]
            L_a[j], L_b[j] = entry_a * L_j[j], entry_b * L_j[j]
        pivot_a, pivot_b = row_a[support[i]] + curv[i], row_b[support[i + 1]] + curv[i + 1]
        least_a, least_b, cross = floor * pivot_a, floor * pivot_b, row_b[support[i]]
        for t in range(i):
            pivot_a -= L_a[t] * L_a[t]
            pivot_b -= L_b[t] * L_b[t]
            cross -= L_a[t] * L_b[t]
        L_a[i] = 1.0 / math.sqrt(max(pivot_a, least_a))
        L_b[i] = cross * L_a[i]
        L_b[i + 1] = 1.0 / math.sqrt(max(pivot_b - L_b[i] * L_b[i], least_b))
        kept[i], kept[i + 1] = support[i], support[i + 1]
        kept_curv[i], kept_curv[i + 1] = curv[i], curv[i + 1]
        i += 2
        if pivot_a < dependent:
            return i - 1
        if pivot_b - L_b[i - 2] * L_b[i - 2] < dependent:
            return i
    while i < k:
        row, L_i = K[support[i]], L[i]
        for j in range(i):
            L_j = L[j]
            entry = row[support[j]]
            for t in range(j):
                entry -= L_i[t] * L_j[t]
            L_i[j] = entry * L_j[j]
        diagonal = row[support[i]] + curv[i]
        pivot = diagonal
        for t in range(i):
            pivot -= L_i[t] * L_i[t]
        L_i[i] = 1.0 / math.sqrt(max(pivot, floor * diagonal))
        kept[i] = support[i]
        kept_curv[i] = curv[i]
        i += 1
        if pivot < dependent:
            return i
    return k


@part
def shrink_factor(L, kept, kept_curv, n_kept, stays, cosines, sines):
    """Remove the rows i of the factor with ``stays[i] == 0``; returns how many are left, all others in their order.

    Rows are rotated out, O(n²) for each. Where to factor anew from the first of them on costs less, the factor ends
    before it.
    """
    first, gone, turned = n_kept, 0.0, 0.0
    for i in range(n_kept - 1, -1, -1):
        if stays[i] == 0:
            first = i
            gone += 1
            turned += float(n_kept - i) ** 2
    # rotating an entry takes as long as 30 thirds of a multiplication within a factorisation
    if 30.0 * turned > (n_kept - gone) ** 3 - float(first) ** 3:
        return first
    for i in range(n_kept - 1, first - 1, -1):
        if stays[i] == 0:
            _rotate_out(L, i, n_kept, cosines, sines)
            for j in range(i + 1, n_kept):
                kept[j - 1] = kept[j]
                kept_curv[j - 1] = kept_curv[j]
            n_kept -= 1
    return n_kept


@part
def _rotate_out(L, i, n, cosines, sines):
    """Remove row i from the factor: later rows move up, and Givens rotations of columns make it triangular again."""
    for j in range(i + 1, n):
        old, new = L[j], L[j - 1]
        for t in range(i):
            new[t] = old[t]
        carry = old[i]
        for t in range(i, j - 1):
            entry = old[t + 1]
            new[t] = cosines[t] * carry + sines[t] * entry
            carry = cosines[t] * entry - sines[t] * carry
        pivot = 1.0 / old[j]
        length = math.sqrt(carry * carry + pivot * pivot)
        cosines[j - 1], sines[j - 1] = carry / length, pivot / length
        new[j - 1] = 1.0 / length


@part
def solve_factored(L, b, k):
    """Solve LLᵀ x = b in place."""
    for i in range(k):
        L_i = L[i]
        total = b[i]
        for t in range(i):
            total -= L_i[t] * b[t]
        b[i] = total * L_i[i]
    for i in range(k - 1, -1, -1):
        L_i = L[i]
        b[i] *= L_i[i]
        for t in range(i):
            b[t] -= b[i] * L_i[t]


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
