"""Small dense algebra that several kernels share."""

import math

from .compilation import part

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
