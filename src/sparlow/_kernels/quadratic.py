"""Sparse codes where the prior is quadratic on either side of zero, as the elastic net is.

There g′(φ) = edge + g″·φ with a constant g″, where edge is the end of ∂g(0) on the side of φ; the notation is that of
``coding``. Let S be a support with signs, and let codes with those signs be stationary on it: z = edge + g″φ. An atom j
that violates optimality enters. Along

    φ_S ← φ_S − t u,  φⱼ ← φⱼ + t,  u = (G_SS + diag g″)⁻¹ G_Sj

S stays stationary, and the violation of j falls by s = Gⱼⱼ + g″ⱼ − G_jS u for each unit of t. Either t ends the
violation and j belongs to S, or a code of S reaches zero before that, leaves S, and the direction is computed anew.
The objective falls with each step. No system is solved on the way: the inverse takes a correction of rank one per step.

A start is often right but for a few atoms. So those that violate optimality join it at once at first, and codes whose
sign turns out wrong leave it; no inverse is needed for that.

The path may take any course, as nothing of it but the support and its signs is kept. The codes are computed once more
from these, x and D alone (``_stationary``), and tested against every atom. Hence they depend neither on the start nor
on the other samples of a chunk, bit for bit. Where optimal supports are not unique, since atoms are exactly on the edge
of ∂g(0) or equal to others, the path is repeated from zero on the atoms that are on the edge: the correlations of
the residual, and so these atoms, are the same for all optimal codes.
"""

import threading
from typing import Any

import numpy as np

from .algebra import FAR, FAR_SINGLE, euclidean
from .compilation import ZERO, borrowed, kernel, part
from .lanes import (
    add_multiple,
    aligned,
    dot,
    lanes,
    largest_violation,
    load,
    padded,
    places,
    row,
    store,
    subtract_rows,
    zeros,
)
from .path import (
    CODE,
    COLUMN,
    CROSS,
    CURV,
    DEPENDENT,
    DIRECTION,
    EDGE,
    HIGH,
    LOW,
    MEMBER,
    ORDER,
    ROW,
    SIGN,
    TARGET,
    Z,
    gather,
    invert,
    take_place,
    walk,
)  # fmt: skip

LONG = 126  # supports of more atoms are left to the general method
_PIVOT = 1e-10  # a support with a smaller pivot is left to the general method


# ── the codes of a support ──────────────────────────────────────────────────────────────────────────────────────────


@part
def _sort_places(ints, k):
    """Sort the places of the support by atom, by insertion: after a warm start they are sorted."""
    member, order = row(ints, MEMBER), row(ints, ORDER)
    for s in range(k):
        t = s
        while t > 0 and member[order[t - 1]] > member[s]:
            order[t] = order[t - 1]
            t -= 1
        order[t] = s


@part
def _stationary(work, ints, G, A, k, floor):
    """Solve (G_SS + diag g″) φ = d·x − edge by elimination in the order of atoms; returns whether it is regular.

    It is where all pivots are above ``floor``. The second half of each row of A takes the factors that the row was
    eliminated by.
    """
    member, order, sorted_members = row(ints, MEMBER), row(ints, ORDER), row(ints, COLUMN)
    codes, edge, curv, target = row(work, CODE), row(work, EDGE), row(work, CURV), row(work, TARGET)
    inverse, values = row(work, CROSS), row(work, DIRECTION)
    block, back = lanes(codes), A.shape[1] // 2
    for i in range(k):
        sorted_members[i] = member[order[i]]
    for i in range(k):
        s = order[i]
        source, entries = row(G, sorted_members[i]), row(A, i)
        store(entries, (i >> 3) << 3, zeros(entries))
        store(entries, (k >> 3) << 3, zeros(entries))
        entries[i] = source[sorted_members[i]] + curv[s]
        for j in range(i + 1, k):
            entries[j] = source[sorted_members[j]]
        entries[k] = target[s] - edge[s]
    for j in range(0, k - 1, 2):  # two pivots at a time: each later row is read and written once for both
        upper, lower = row(A, j), row(A, j + 1)
        pivot, cross = upper[j], upper[j + 1]
        minor = pivot * lower[j + 1] - cross * cross
        if pivot <= floor or minor <= floor * pivot or pivot * minor > FAR:
            return False
        both = 1.0 / (pivot * minor)  # a single division for two pivots
        first, second = minor * both, pivot * pivot * both
        factor = -cross * first
        inverse[j], inverse[j + 1], lower[back + j] = first, second, factor
        at = ((j + 1) >> 3) << 3
        while at <= k:
            store(lower, at, add_multiple(load(lower, at), factor, load(upper, at)))
            at += block
        for i in range(j + 2, k):
            entries, factor_u, factor_l = row(A, i), -upper[i] * first, -lower[i] * second
            entries[back + j], entries[back + j + 1] = factor_u, factor_l
            at = (i >> 3) << 3
            while at <= k:
                half = add_multiple(load(entries, at), factor_u, load(upper, at))
                store(entries, at, add_multiple(half, factor_l, load(lower, at)))
                at += block
    if k & 1:
        if A[k - 1, k - 1] <= floor:
            return False
        inverse[k - 1] = 1.0 / A[k - 1, k - 1]
    for i in range(k):
        values[i] = A[i, k] * inverse[i]
    for i in range(k - 1, -1, -1):
        entries, code, at = row(A, i), values[i], 0
        while at < i:
            store(values, at, add_multiple(load(values, at), code, load(entries, back + at)))
            at += block
        codes[order[i]] = code
    return True


@part
def _exact_violation(j, work, ints, D, G, x, low, high, k):
    """Return how far z of one atom is outside ∂g(0), in double precision, by the entries of G of ``_stationary``."""
    member, order = row(ints, MEMBER), row(ints, ORDER)
    z = float(dot(row(D, j), x, D.shape[1]))
    for t in range(k):
        atom = member[order[t]]
        z -= work[CODE, order[t]] * (G[atom, j] if atom < j else G[j, atom])
    return max(z - high[j], low[j] - z)


@part
def _drop_wrong_signs(work, ints, k):
    """Remove codes that left the side they were on; returns how many are left."""
    left = ZERO
    for s in range(k):
        if work[CODE, s] * work[SIGN, s] > 0:
            if left < s:
                take_place(work, ints, s, left)
            left += 1
    return left


# ── atoms at hand ───────────────────────────────────────────────────────────────────────────────────────────────────


@part
def _mark(z, ints, k, far):
    """Give the support intervals without end, so that it does not count as violating."""
    for s in range(k):
        z[LOW, ints[MEMBER, s]], z[HIGH, ints[MEMBER, s]] = -far, far


@part
def _unmark(z, ints, low, high, k, far):
    """Give the support its intervals back."""
    for s in range(k):
        member = ints[MEMBER, s]
        z[LOW, member], z[HIGH, member] = max(low[member], -far), min(high[member], far)


@part
def _set_at_hand(ints, near, rows, atoms, G, found, n_found, z, low, high, k, far):
    """Put the support and what was found at hand, and return the number of columns."""
    w = k + n_found
    for s in range(k):
        atoms[s] = ints[MEMBER, s]
        near[Z, s], near[LOW, s], near[HIGH, s] = 0, -far, far
        ints[COLUMN, s] = ints[ROW, s] = s
    for s in range(k, w):
        j = found[s - k]
        atoms[s], near[Z, s] = j, z[Z, j]
        near[LOW, s], near[HIGH, s] = max(low[j], -far), min(high[j], far)
    s = w
    while s % lanes(near) != 0:
        near[Z, s], near[LOW, s], near[HIGH, s] = 0, -far, far
        s += 1
    for s in range(k):
        gather(row(G, atoms[s]), atoms, w, row(rows, s))
    for s in range(k, ints.shape[1]):
        ints[ROW, s] = s
    return w


# ── samples ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@part
def _load_start(work, ints, D, x, low, high, curv, start_indices, start_data, first, last):
    """Take atoms and signs of a start as the support; returns its size."""
    for s in range(first, last):
        j, above, place = start_indices[s], start_data[s] > 0, s - first
        ints[MEMBER, place] = j
        work[CODE, place], work[SIGN, place] = start_data[s], 1.0 if above else -1.0
        work[EDGE, place], work[CURV, place] = high[j] if above else low[j], curv[j]
        work[TARGET, place] = dot(row(D, j), x, D.shape[1])
    return last - first


@part
def _enter(work, ints, D, x, low, high, curv, z, found, n_found, k):
    """Add atoms that violate optimality to the support, on the side they violate it; returns its size."""
    for s in range(n_found):
        j, place = found[s], k + s
        above = z[Z, j] > z[HIGH, j]
        ints[MEMBER, place] = j
        work[SIGN, place], work[EDGE, place] = (1.0, high[j]) if above else (-1.0, low[j])
        work[CURV, place], work[TARGET, place] = curv[j], dot(row(D, j), x, D.shape[1])
    return k + n_found


@part
def _find(z, r, margin, largest, share, found, limit):
    """Find the atoms that violate optimality by this share of the largest or more, fewer if they are too many."""
    n = 0
    for _ in range(30):  # shares tried to have few enough atoms at hand
        n, cut = 0, z.dtype.type(share * largest)
        for j in range(r):
            above, below = z[Z, j] - z[HIGH, j], z[LOW, j] - z[Z, j]
            found[n] = j
            n += (above if above > below else below) + margin >= cut
        if n <= limit:
            break
        share = 0.5 * (1 + share)
    return n


@part
def _look_closely(found, n_found, z, margin, tie, work, ints, D, G, x, low, high, k):
    """Keep the found atoms that violate optimality in double precision; behind them those on the edge.

    Returns how many violate it, and how many are on the edge. In single precision the former need not violate it; they
    get a correlation that does.
    """
    kept = n_tied = 0
    for s in range(n_found):
        j = found[s]
        violation = _exact_violation(j, work, ints, D, G, x, low, high, k)
        if violation > tie:
            above = float(z[Z, j]) - high[j] > low[j] - float(z[Z, j])
            z[Z, j] = high[j] + 3 * margin if above else low[j] - 3 * margin
            found[s], found[kept + n_tied] = found[kept + n_tied], j
            found[kept], found[kept + n_tied] = found[kept + n_tied], found[kept]
            kept += 1
        elif violation >= -tie:
            found[s], found[kept + n_tied] = found[kept + n_tied], j
            n_tied += 1
    return kept, n_tied


@part
def _join_tied(found, n_tied, ints, k):
    """Join the support and the atoms on the edge, sorted, in ``found``, and return how many there are."""
    for s in range(k):
        found[n_tied + s] = ints[MEMBER, s]
    for s in range(1, n_tied + k):
        j, t = found[s], s
        while t > 0 and found[t - 1] > j:
            found[t] = found[t - 1]
            t -= 1
        found[t] = j
    return n_tied + k


@kernel
def encode_samples(
    X, C, D, G, G_screen, low, high, curv, start_indptr, start_indices, start_data, rows, table, longest,
    z, near, work, ints, found, atoms, inverse, A, sample, counts, indices, data, gaps,
):  # fmt: skip
    """Compute the codes of a few samples, as far as this method reaches; see :func:`encode_quadratic`."""
    X, C, D, G, G_screen = borrowed(X), borrowed(C), borrowed(D), borrowed(G), borrowed(G_screen)
    low, high, curv = borrowed(low), borrowed(high), borrowed(curv)
    start_indptr, start_indices, start_data = borrowed(start_indptr), borrowed(start_indices), borrowed(start_data)
    rows, table, z, near, work, ints = (
        borrowed(rows), borrowed(table), borrowed(z), borrowed(near), borrowed(work), borrowed(ints)
    )  # fmt: skip
    found, atoms, inverse, A = borrowed(found), borrowed(atoms), borrowed(inverse), borrowed(A)
    sample, counts, indices = borrowed(sample), borrowed(counts), borrowed(indices)
    data, gaps = borrowed(data), borrowed(gaps)
    n, m = X.shape
    r, width = D.shape[0], z.shape[1]
    far = FAR_SINGLE if C.itemsize == 4 else FAR
    unit = 6e-8 if C.itemsize == 4 else 1.2e-16
    rounding = 6e-8 if X.itemsize == 4 else 1.2e-16
    room = rows.shape[0]
    whole = r <= 256  # of few atoms all are at hand
    number, mask = C.dtype.type, places(width)
    for j in range(width):
        z[LOW, j], z[HIGH, j] = (max(low[j], -far), min(high[j], far)) if j < r else (-far, far)
    nnz = n_left = 0
    futile = False
    codes, member, order = row(work, CODE), row(ints, MEMBER), row(ints, ORDER)
    for i in range(n):
        norm, c = euclidean(row(X, i)), row(C, i)
        for t in range(m):
            sample[t] = X[i, t]
        tie = 1e-13 * norm  # smaller violations are rounding error: the atom is on the edge of ∂g(0)
        first, last = start_indptr[i], start_indptr[i + 1]
        skipped = futile or last - first > longest
        k = (
            0
            if skipped
            else _load_start(work, ints, D, sample, low, high, curv, start_indices, start_data, first, last)
        )
        solved = inverted = repeated = False
        # violating atoms join a start at once thrice, before a path leads to them
        restarts, guesses = 0, 0 if skipped or k == 0 else 3
        mass, floor = 0.0, _PIVOT
        for _ in range(0 if skipped else 30):  # screenings of all atoms, beyond which the sample is left
            regular, left = True, -1
            while k > 0 and regular and left != k:
                k, inverted = left if left >= 0 else k, inverted and left < 0
                _sort_places(ints, k)
                regular = _stationary(work, ints, G, A, k, floor)
                left = _drop_wrong_signs(work, ints, k)
            mass, smallest = 0.0, FAR
            for s in range(k):
                mass += abs(codes[s])
                smallest = min(smallest, abs(codes[s]))
            if not regular and restarts < 1:  # a start, or a guess, with atoms that depend on one another
                k, inverted, restarts, mass, smallest = 0, False, 1, 0.0, FAR
                guesses, floor = 0, _PIVOT
            elif not (regular and mass < far):
                break
            margin = unit * ((m + k + 5) * norm + (k + 3) * mass)
            at = 0
            while at < width:
                store(row(z, Z), at, load(c, at))
                at += lanes(z)
            subtract_rows(G_screen, member, codes, k, row(z, Z), width)
            _mark(z, ints, k, far)
            worst = largest_violation(row(z, Z), row(z, LOW), row(z, HIGH), number(margin), width, mask)
            largest = max(z[Z, worst] - z[HIGH, worst], z[LOW, worst] - z[Z, worst]) + margin
            solved, clear, n_found, n_tied = worst < 0, largest > 3 * margin, 0, 0
            guess = clear and guesses > 0 and not solved
            if not (solved or (clear and whole and not guess)):
                # atoms are at hand when they violate optimality by a fifth of the largest violation
                n_found = _find(z, r, number(margin), largest, 0.2 if clear else 0.0, found, room - k - 1)
                if n_found >= room - k:
                    _unmark(z, ints, low, high, k, far)
                    break
            if not (solved or clear):
                n_found, n_tied = _look_closely(found, n_found, z, margin, tie, work, ints, D, G, sample, low, high, k)
                solved = n_found == 0
            if guess and k + n_found <= longest:
                _unmark(z, ints, low, high, k, far)
                k = _enter(work, ints, D, sample, low, high, curv, z, found, n_found, k)
                guesses, inverted, floor = guesses - 1, False, DEPENDENT
                continue
            all_at_hand = whole and not solved
            if not all_at_hand:
                _unmark(z, ints, low, high, k, far)
            if solved:
                solved = repeated or (n_tied == 0 and smallest > tie) or k + n_tied >= room
                if solved:
                    break
                n_found = _join_tied(found, n_tied, ints, k)
                for s in range(n_found):
                    z[Z, found[s]] = dot(row(D, found[s]), sample, m)
                k, inverted, repeated = 0, True, True
            w = width
            if all_at_hand:
                for s in range(k):
                    ints[COLUMN, s] = ints[ROW, s] = member[s]
            else:
                w = _set_at_hand(ints, near, rows, atoms, G, found, n_found, z, low, high, k, far)
            at_hand, near_hand = (G_screen, z) if all_at_hand else (table, near)
            if not inverted:
                inverted = invert(work, ints, at_hand, inverse, k)
            if inverted:
                k, inverted = walk(
                    work, ints, near_hand, at_hand, rows, atoms, all_at_hand, inverse, G, D, sample, low, high, curv, k,
                    w, 2 * margin, far, longest,
                )  # fmt: skip
            if all_at_hand:
                _unmark(z, ints, low, high, k, far)
            if not inverted:
                break
        counts[i] = last - first if skipped else k
        if skipped:
            for s in range(first, last):
                indices[nnz + s - first], data[nnz + s - first] = start_indices[s], start_data[s]
        else:
            _sort_places(ints, k)
            for t in range(k):
                indices[nnz + t], data[nnz + t] = member[order[t]], codes[order[t]]
        nnz += counts[i]
        gaps[i] = rounding * (1 + mass / norm if norm > 0 else 1) if solved else np.inf
        n_left += not solved
        futile = n_left > 16 and 3 * n_left > i + 1  # more than a third is left: the rest of the chunk is left, too
    return nnz


def encode_quadratic(X, C, D, G, G_screen, low, high, curv, start_indptr, start_indices, start_data):
    """Compute the codes of a few samples, as far as this method reaches.

    All atoms are screened by ``C = X Dᵀ`` and ``G_screen``, which may be of lower precision: an atom that rounding
    could hide is looked at in double precision. Supports of more than ``LONG`` atoms are left, and so is the rest of a
    chunk of which most samples are. Rows of C and ``G_screen`` end with zeros that make their blocks whole.

    Returns the number of codes per sample, their atoms and values, and the optimality gap per sample, which is
    infinite where the sample is left to the general method; what is stored for it is a start.
    """
    room = min(len(D), 128) + 1  # of atoms at hand, more than LONG
    shapes = len(D), C.shape[1], X.shape[1], C.dtype, X.dtype
    if _own.shapes != shapes:
        _own.shapes, _own.arrays = shapes, _work_arrays(room, *shapes)
    rows, *arrays = _own.arrays
    table = rows.view()
    table.flags.writeable = False
    most = len(X) * min(LONG, room) + len(start_data)
    counts, indices = np.empty(len(X), np.int64), np.empty(most, np.int32)
    data, gaps = np.empty(most, X.dtype), np.empty(len(X))
    nnz = encode_samples(
        X, C, D, G, G_screen, low, high, curv, start_indptr, start_indices, start_data, rows, table,
        min(LONG, room - 1), *arrays, counts, indices, data, gaps,
    )  # fmt: skip
    return counts, indices[:nnz].copy(), data[:nnz].copy(), gaps


class _Own(threading.local):
    """Work arrays of a thread, kept from one call to the next: to make them takes longer than to code a sample."""

    shapes: Any = None
    arrays: Any = ()


_own = _Own()


def _work_arrays(room, r, width, m, number, own_number):
    """Return the arrays that :func:`encode_samples` works in, for r atoms of m features."""
    long = padded(room + 1)
    return (
        aligned((room, long), number), aligned((3, width), number), aligned((3, long), number), aligned((7, long)),
        aligned((4, long), np.uint32), np.zeros(r + 1, np.uint32), np.zeros(long, np.uint32), aligned((room, long)),
        aligned((room, 2 * long)), aligned(padded(m), own_number),
    )  # fmt: skip
