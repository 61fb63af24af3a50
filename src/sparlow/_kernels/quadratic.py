"""Sparse codes where the prior is quadratic on either side of zero, as the elastic net is.

There g′(φ) = edge + g″·φ with a constant g″, where edge is the end of ∂g(0) on the side of φ; the notation is that of
``coding``. Let S be a support with signs, and let codes with those signs be stationary on it: z = edge + g″φ. An atom j
that violates optimality enters. Along

    φ_S ← φ_S − t u,  φⱼ ← φⱼ + t,  u = (G_SS + diag g″)⁻¹ G_Sj

S stays stationary, and the violation of j falls by s = Gⱼⱼ + g″ⱼ − G_jS u for each unit of t. Either t ends the
violation and j belongs to S, or a code of S reaches zero before that, leaves S, and the direction is computed anew.
The objective falls with each step. No system is solved on the way: the inverse takes a correction of rank one per step.

The path may take any course, as nothing of it but the support and its signs is kept. The codes are computed once more
from these, x and D alone (``_stationary``), and tested against every atom. Hence they depend neither on the start nor
on the other samples of a chunk, bit for bit. Where optimal supports are not unique, since atoms are exactly on the edge
of ∂g(0) or equal to others, the path is repeated from zero on the atoms that are on the edge: the correlations of
the residual, and so these atoms, are the same for all optimal codes.
"""

import numpy as np

from .algebra import dot, euclidean, lengthened, subtract_multiple
from .compilation import kernel, part
from .screening import FAR, FAR_SINGLE, subtract_rows

_DEPENDENT = 1e-5  # an atom that others explain but for a smaller share is left to the general method, and …
_PIVOT = 1e-10  # … so is a support with a smaller pivot
_TIE = 1e-13  # violations below this share of ‖x‖ are rounding error: the atom is on the edge of ∂g(0)
_ROUNDS = 30  # screenings of all atoms, and …
_HALVINGS = 30  # shares tried to have few enough atoms at hand, and …
_FUTILE = 16  # samples left, and more than a third of all: the rest of a chunk is left, too
_STEPS = 6  # … steps for each atom at hand, before a sample is left to the general method
_WHOLE = 256  # of so many atoms all are at hand
_SHARE = 0.2  # atoms are at hand when they violate optimality by this share of the largest violation

# Rows of the work array, by place in the support: code, its sign, the end of ∂g(0) on its side, g″ and d·x; steps.
_CODE, _SIGN, _EDGE, _CURV, _TARGET, _CROSS, _DIRECTION = range(7)
# Rows of the integer work array, by place in the support: atom, column at hand, row of the table; places by atom.
_MEMBER, _COLUMN, _ROW, _ORDER = range(4)
# Rows of the array of the atoms at hand, by column: correlation of the residual, ends of ∂g(0), or ±FAR in the support.
_Z, _LOW, _HIGH = range(3)


# ── the codes of a support ──────────────────────────────────────────────────────────────────────────────────────────


@part
def _sort_places(ints, k):
    """Sort the places of the support by atom, by insertion: after a warm start they are sorted."""
    member, order = ints[_MEMBER], ints[_ORDER]
    for s in range(k):
        t = s
        while t > 0 and member[order[t - 1]] > member[s]:
            order[t] = order[t - 1]
            t -= 1
        order[t] = s


@part
def _stationary(work, ints, G, A, k):
    """Solve (G_SS + diag g″) φ = d·x − edge by elimination in the order of atoms; returns whether it is regular."""
    member, order = ints[_MEMBER], ints[_ORDER]
    codes, edge, curv, target, inverse = work[_CODE], work[_EDGE], work[_CURV], work[_TARGET], work[_CROSS]
    for i in range(k):
        s = order[i]
        source, row = G[member[s]], A[i]
        for j in range((i >> 3) << 3, i):
            row[j] = 0.0
        row[i] = source[member[s]] + curv[s]
        for j in range(i + 1, k):
            row[j] = source[member[order[j]]]
        row[k] = target[s] - edge[s]
    for j in range(0, k - 1, 2):  # two pivots at a time: each later row is read and written once for both
        upper, lower = A[j], A[j + 1]
        if upper[j] <= _PIVOT:
            return False
        inverse[j] = 1.0 / upper[j]
        factor = upper[j + 1] * inverse[j]
        for t in range(j + 1, k + 1):
            lower[t] -= factor * upper[t]
        if lower[j + 1] <= _PIVOT:
            return False
        inverse[j + 1] = 1.0 / lower[j + 1]
        for i in range(j + 2, k):
            row, factor_u, factor_l = A[i], upper[i] * inverse[j], lower[i] * inverse[j + 1]
            for t in range((i >> 3) << 3, k + 1):
                row[t] -= factor_u * upper[t] + factor_l * lower[t]
    if k & 1:
        if A[k - 1, k - 1] <= _PIVOT:
            return False
        inverse[k - 1] = 1.0 / A[k - 1, k - 1]
    for j in range(k - 1, -1, -1):
        row, total = A[j], A[j, k]
        for t in range(j + 1, k):
            total -= row[t] * codes[order[t]]
        codes[order[j]] = total * inverse[j]
    return True


@part
def _exact_violation(j, work, ints, D, G, x, low, high, k):
    """Return how far z of one atom is outside ∂g(0), in double precision, by the entries of G of ``_stationary``."""
    member, order = ints[_MEMBER], ints[_ORDER]
    z = float(dot(D[j], x))
    for t in range(k):
        atom = member[order[t]]
        z -= work[_CODE, order[t]] * (G[atom, j] if atom < j else G[j, atom])
    return max(z - high[j], low[j] - z)


@part
def _take_place(work, ints, source, target):
    """Move an atom of the support to another place."""
    ints[_MEMBER, target], ints[_COLUMN, target] = ints[_MEMBER, source], ints[_COLUMN, source]
    for row in range(_CODE, _TARGET + 1):
        work[row, target] = work[row, source]


@part
def _drop_wrong_signs(work, ints, k):
    """Remove codes that left the side they were on; returns how many are left."""
    left = 0
    for s in range(k):
        if work[_CODE, s] * work[_SIGN, s] > 0:
            if left < s:
                _take_place(work, ints, s, left)
            left += 1
    return left


# ── the path to a support ───────────────────────────────────────────────────────────────────────────────────────────


@part
def _largest_violation(near, violation, bits, w, mask):
    """Return the column of the atom at hand that violates most, −1 if there is none.

    Numbers above zero compare as their bits do, of which the last hold the column: so largest and place are found
    many numbers at a time.
    """
    z, low, high = near[_Z], near[_LOW], near[_HIGH]
    for c in range(w):
        above, below = z[c] - high[c], low[c] - z[c]
        violation[c] = above if above > below else below
    largest = bits[0] & ~mask
    for c in range(w):
        largest = max(largest, (bits[c] & ~mask) | c)
    return largest & mask if largest > 0 else -1


@part
def _set_direction(work, ints, inverse, row, k):
    """Compute u = (G_SS + diag g″)⁻¹ G_Sj, with Gⱼ in ``row``, and return G_jS u."""
    cross, direction, column = work[_CROSS], work[_DIRECTION], ints[_COLUMN]
    for s in range(k):
        cross[s] = row[column[s]]
        direction[s] = 0.0
    for s in range(k):
        subtract_multiple(direction, -cross[s], inverse[s], k)
    explained = 0.0
    for s in range(k):
        explained += cross[s] * direction[s]
    return explained


@part
def _extend_inverse(inverse, direction, k, own):
    """Extend the inverse by a row and column; ``own`` is what the others do not explain of its diagonal entry."""
    last, scale = inverse[k], 1.0 / own
    for s in range(k):
        last[s] = -scale * direction[s]
    for s in range(k):
        subtract_multiple(inverse[s], last[s], direction, k)
        inverse[s, k] = last[s]
    last[k] = scale


@part
def _shrink_inverse(inverse, i, k):
    """Remove row and column i from the inverse; the last one takes its place."""
    gone, last, own = inverse[i], inverse[k - 1], 1.0 / inverse[i, i]
    for s in range(k):
        if s != i:
            subtract_multiple(inverse[s], gone[s] * own, gone, k)
    for s in range(k):
        gone[s] = last[s]
    for s in range(k):
        inverse[s, i] = last[s]
    gone[i] = last[k - 1]


@part
def _invert(work, ints, table, inverse, k):
    """Invert the system of a support that came from elsewhere, and return whether it is regular."""
    for s in range(k):
        row = table[ints[_ROW, s]]
        diagonal = row[ints[_COLUMN, s]] + work[_CURV, s]
        own = diagonal - _set_direction(work, ints, inverse, row, s)
        if own < _DEPENDENT * diagonal:
            return False
        _extend_inverse(inverse, work[_DIRECTION], s, own)
    return True


@part
def _first_to_vanish(work, k, length):
    """Return the place of the code that a step of this length makes vanish first, or −1, and the length until then."""
    codes, sign, direction = work[_CODE], work[_SIGN], work[_DIRECTION]
    gone = -1
    for s in range(k):
        if (codes[s] - length * direction[s]) * sign[s] <= 0:
            length, gone = codes[s] / direction[s], s
    return gone, length


@part
def _gather(source, atoms, w, target):
    for c in range(w):
        target[c] = source[atoms[c]]


@part
def _walk(
    work, ints, near, violation, bits, table, rows, atoms, whole, inverse, G, D, x, low, high, curv, k, w, stop, far,
    longest,
):  # fmt: skip
    """Let atoms at hand enter and leave until none violates optimality by more than ``stop``.

    ``table`` holds rows of G at the columns at hand. These are all atoms, and it is G itself, if ``whole``; otherwise
    they are those of ``atoms``, and it is a view of ``rows``, which are filled here. Returns the size of the support,
    and whether it got so far.
    """
    z, codes, row_of = near[_Z], work[_CODE], ints[_ROW]
    mask = 1
    while mask < w:
        mask *= 2
    mask -= 1
    for _ in range(_STEPS * (w + 10)):
        entering = _largest_violation(near, violation, bits, w, mask)
        if entering < 0 or violation[entering] <= stop:
            return k, True
        if k >= longest:
            return k, False
        if not whole:
            atom = atoms[entering]
            _gather(G[atom], atoms, w, rows[row_of[k]])
        else:
            atom = np.uint32(entering)
            row_of[k] = atom
        row = table[row_of[k]]
        above = z[entering] > near[_HIGH, entering]
        edge = high[atom] if above else low[atom]
        code, left, diagonal = 0.0, z[entering] - edge, row[entering] + curv[atom]
        while True:  # ends when all other codes have vanished, at the latest
            own = diagonal - _set_direction(work, ints, inverse, row, k)
            if own < _DEPENDENT * diagonal:
                return k, False
            gone, length = _first_to_vanish(work, k, left / own)
            code += length
            left -= length * own
            for s in range(k):
                work[_CROSS, s] = -length * work[_DIRECTION, s]
                codes[s] += work[_CROSS, s]
            work[_CROSS, k] = length
            subtract_rows(table, row_of, work[_CROSS], k + 1, z, w)
            if gone < 0:
                break
            column, member = ints[_COLUMN, gone], ints[_MEMBER, gone]
            z[column] = work[_EDGE, gone]
            near[_LOW, column], near[_HIGH, column] = max(low[member], -far), min(high[member], far)
            _shrink_inverse(inverse, gone, k)
            k -= 1
            _take_place(work, ints, k, gone)
            free = row_of[gone]
            row_of[gone], row_of[k], row_of[k + 1] = row_of[k], row_of[k + 1], free
        _extend_inverse(inverse, work[_DIRECTION], k, own)
        ints[_COLUMN, k], ints[_MEMBER, k] = entering, atom
        near[_LOW, entering], near[_HIGH, entering] = -far, far
        codes[k], work[_EDGE, k], work[_CURV, k] = code, edge, curv[atom]
        work[_SIGN, k] = 1.0 if above else -1.0
        work[_TARGET, k] = dot(D[atom], x)
        k += 1
    return k, False


@part
def _set_at_hand(work, ints, near, rows, atoms, whole, G, found, n_found, z, low, high, k, far):
    """Put the support and what was found at hand, or the whole dictionary, and return the number of columns."""
    for s in range(k):
        member = ints[_MEMBER, s]
        column = member if whole else np.uint32(s)
        ints[_COLUMN, s] = ints[_ROW, s] = column
        near[_LOW, column], near[_HIGH, column] = -far, far
    if whole:
        for j in range(z.shape[0]):
            near[_Z, j] = z[j]
        return z.shape[0]
    w = k + n_found
    for s in range(k):
        atoms[s] = ints[_MEMBER, s]
        near[_Z, s] = 0
    for s in range(k, w):
        j = found[s - k]
        atoms[s], near[_Z, s] = j, z[j]
        near[_LOW, s], near[_HIGH, s] = max(low[j], -far), min(high[j], far)
    for s in range(k):
        _gather(G[atoms[s]], atoms, w, rows[s])
    for s in range(k, ints.shape[1]):
        ints[_ROW, s] = s
    return w


# ── samples ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@part
def _load_start(work, ints, D, x, low, high, curv, start_indices, start_data, first, last):
    """Take atoms and signs of a start as the support; returns its size."""
    for s in range(first, last):
        j, above, place = start_indices[s], start_data[s] > 0, s - first
        ints[_MEMBER, place] = j
        work[_CODE, place], work[_SIGN, place] = start_data[s], 1.0 if above else -1.0
        work[_EDGE, place], work[_CURV, place] = high[j] if above else low[j], curv[j]
        work[_TARGET, place] = dot(D[j], x)
    return last - first


@part
def _screened(z, low, high, margin, member, k, violation, bits):
    """Compute the violations of atoms off the support, plus the margin for rounding; return the largest's bits."""
    for j in range(z.shape[0]):
        above, below = z[j] - high[j], low[j] - z[j]
        violation[j] = (above if above > below else below) + margin
    for s in range(k):
        violation[member[s]] = -1
    worst = bits[0]
    for j in range(z.shape[0]):
        worst = max(worst, bits[j])
    return worst


@part
def _find(violation, largest, share, found, limit):
    """Find the atoms that violate optimality by this share of the largest or more, fewer if they are too many."""
    n = 0
    for _ in range(_HALVINGS):
        n, cut = 0, violation.dtype.type(share * largest)
        for j in range(violation.shape[0]):
            found[n] = j
            n += violation[j] >= cut
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
            above = float(z[j]) - high[j] > low[j] - float(z[j])
            z[j] = high[j] + 3 * margin if above else low[j] - 3 * margin
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
        found[n_tied + s] = ints[_MEMBER, s]
    for s in range(1, n_tied + k):
        j, t = found[s], s
        while t > 0 and found[t - 1] > j:
            found[t] = found[t - 1]
            t -= 1
        found[t] = j
    return n_tied + k


@kernel
def encode_quadratic(
    X, C, D, G, G_screen, low, high, curv, start_indptr, start_indices, start_data, bits, rows, table, longest
):  # fmt: skip
    """Compute the codes of a few samples, as far as this method reaches.

    All atoms are screened by ``C = X Dᵀ`` and ``G_screen``, which may be of lower precision: an atom that rounding
    could hide is looked at in double precision. There is room to work in ``bits``, two rows of r or more whole numbers
    as long as those of C, and in ``rows``, of the type of C, with one row for each atom that may be at hand; ``table``
    is a read-only view of it. Supports of more than ``longest`` atoms are left, and so is the
    rest of a chunk of which most samples are.

    Returns the number of codes per sample, their atoms and values, and the optimality gap per sample, which is
    infinite where the sample is left to the general method; what is stored for it is a start.
    """
    n, m = X.shape
    r = D.shape[0]
    far = FAR_SINGLE if C.itemsize == 4 else FAR
    unit = 6e-8 if C.itemsize == 4 else 1.2e-16
    rounding = 6e-8 if X.itemsize == 4 else 1.2e-16
    room = rows.shape[0]
    whole = r <= _WHOLE
    violation, near_violation = bits[0, :r].view(C.dtype), bits[1].view(C.dtype)
    z, low_screen, high_screen = np.empty(r, C.dtype), np.empty(r, C.dtype), np.empty(r, C.dtype)
    near = np.zeros((3, bits.shape[1]), C.dtype)
    for j in range(r):
        low_screen[j], high_screen[j] = max(low[j], -far), min(high[j], far)
        if whole:
            near[_LOW, j], near[_HIGH, j] = low_screen[j], high_screen[j]
    work, ints, found = np.zeros((7, room + 8)), np.zeros((4, room + 8), np.uint32), np.zeros(r + 1, np.uint32)
    atoms, inverse, A = np.zeros(room + 8, np.uint32), np.zeros((room, room + 8)), np.zeros((room, room + 8))
    counts, gaps = np.zeros(n, np.int64), np.zeros(n)
    indices, data = np.empty(16 * n, np.int32), np.empty(16 * n, X.dtype)
    nnz = n_left = 0
    futile = False
    codes, member, order = work[_CODE], ints[_MEMBER], ints[_ORDER]
    for i in range(n):
        x, c = X[i], C[i]
        norm = euclidean(x)
        tie = _TIE * norm
        first, last = start_indptr[i], start_indptr[i + 1]
        skipped = futile or last - first > longest
        k = 0 if skipped else _load_start(work, ints, D, x, low, high, curv, start_indices, start_data, first, last)
        solved = inverted = repeated = False
        restarts = 0
        mass = 0.0
        for _ in range(0 if skipped else _ROUNDS):
            regular, left = True, -1
            while k > 0 and regular and left != k:
                k, inverted = left if left >= 0 else k, inverted and left < 0
                _sort_places(ints, k)
                regular = _stationary(work, ints, G, A, k)
                left = _drop_wrong_signs(work, ints, k)
            mass, smallest = 0.0, FAR
            for s in range(k):
                mass += abs(codes[s])
                smallest = min(smallest, abs(codes[s]))
            if not regular and restarts < 1:  # a start with atoms that depend on one another
                k, inverted, restarts, mass, smallest = 0, False, 1, 0.0, FAR
            elif not (regular and mass < far):
                break
            margin = unit * ((m + k + 5) * norm + (k + 3) * mass)
            for j in range(r):
                z[j] = c[j]
            subtract_rows(G_screen, member, codes, k, z, r)
            worst = _screened(z, low_screen, high_screen, C.dtype.type(margin), member, k, violation, bits[0])
            bits[1, 0] = worst
            largest = float(near_violation[0])
            solved, clear, n_found = worst < 0, largest > 3 * margin, 0
            if not (solved or (clear and whole)):
                n_found = _find(violation, largest, _SHARE if clear else 0.0, found, room - k - 1)
                if n_found >= room - k:
                    break
            n_tied = 0
            if not (solved or clear):
                n_found, n_tied = _look_closely(found, n_found, z, margin, tie, work, ints, D, G, x, low, high, k)
                solved = n_found == 0
            all_at_hand = whole
            if solved:
                solved = repeated or (n_tied == 0 and smallest > tie) or k + n_tied >= room
                if solved:
                    break
                n_found = _join_tied(found, n_tied, ints, k)
                for s in range(n_found):
                    z[found[s]] = dot(D[found[s]], x)
                k, inverted, repeated, all_at_hand = 0, True, True, False
            w = _set_at_hand(work, ints, near, rows, atoms, all_at_hand, G, found, n_found, z, low, high, k, far)
            at_hand = G_screen if all_at_hand else table
            if not inverted:
                inverted = _invert(work, ints, at_hand, inverse, k)
            if inverted:
                k, inverted = _walk(
                    work, ints, near, near_violation, bits[1], at_hand, rows, atoms, all_at_hand, inverse, G, D, x,
                    low, high, curv, k, w, 2 * margin, far, longest,
                )  # fmt: skip
            if whole:
                for s in range(k if all_at_hand else r):
                    column = member[s] if all_at_hand else np.uint32(s)
                    near[_LOW, column], near[_HIGH, column] = low_screen[column], high_screen[column]
            if not inverted:
                break
        counts[i] = last - first if skipped else k
        if nnz + counts[i] > data.shape[0]:
            larger = max(2 * data.shape[0], nnz + counts[i])
            indices, data = lengthened(indices, nnz, larger), lengthened(data, nnz, larger)
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
        futile = n_left > _FUTILE and 3 * n_left > i + 1
    return counts, indices[:nnz], data[:nnz], gaps
