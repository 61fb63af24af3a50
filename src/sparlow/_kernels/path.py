"""The path to a support, for priors that are quadratic on either side of zero; see ``quadratic``.

All arrays have rows of whole blocks (see ``lanes``). Of the inverse, the work array and the atoms at hand what lies
between the end of a row in use and that of its block does no harm: zeros, and intervals without end.
"""

import numpy as np

from .compilation import part
from .lanes import add_multiple, dot, lanes, largest_violation, load, places, row, store, subtract_rows, total, zeros

# Rows of the work array, by place in the support: code, its sign, the end of ∂g(0) on its side, g″ and d·x; steps.
CODE, SIGN, EDGE, CURV, TARGET, CROSS, DIRECTION = range(7)
# Rows of the integer work array, by place in the support: atom, column at hand, row of the table; places by atom.
MEMBER, COLUMN, ROW, ORDER = range(4)
# Rows of the array of the atoms at hand, by column: correlation of the residual, ends of ∂g(0), or ±FAR in the support.
Z, LOW, HIGH = range(3)

DEPENDENT = 1e-5  # an atom that others explain but for a smaller share is left to the general method


@part
def take_place(work, ints, source, target):
    """Move an atom of the support to another place."""
    ints[MEMBER, target], ints[COLUMN, target] = ints[MEMBER, source], ints[COLUMN, source]
    for kind in range(CODE, TARGET + 1):
        work[kind, target] = work[kind, source]


@part
def _set_direction(work, ints, inverse, gram, k):
    """Compute u = (G_SS + diag g″)⁻¹ G_Sj, with Gⱼ in ``gram``, and return G_jS u."""
    cross, direction, column = row(work, CROSS), row(work, DIRECTION), row(ints, COLUMN)
    sums = zeros(cross)
    block = lanes(cross)
    for s in range(k):
        cross[s] = gram[column[s]]
    s = k
    while s % block != 0:
        cross[s] = 0.0
        s += 1
    at = 0
    while at < k:
        part = zeros(cross)
        for s in range(k):
            part = add_multiple(part, cross[s], load(row(inverse, s), at))
        store(direction, at, part)
        sums = add_multiple(sums, part, load(cross, at))
        at += block
    return total(sums)


@part
def _extend_inverse(inverse, direction, k, own):
    """Extend the inverse by a row and column; ``own`` is what the others do not explain of its diagonal entry."""
    last, scale, block = row(inverse, k), 1.0 / own, lanes(direction)
    if k % block == 0:
        for s in range(k + 1):
            store(row(inverse, s), k, zeros(direction))
    at = 0
    while at < k:
        part = load(direction, at)
        for s in range(k):
            target = row(inverse, s)
            store(target, at, add_multiple(load(target, at), scale * direction[s], part))
        store(last, at, add_multiple(zeros(direction), -scale, part))
        at += block
    for s in range(k):
        inverse[s, k] = -scale * direction[s]
    last[k] = scale


@part
def _shrink_inverse(inverse, i, k):
    """Remove row and column i from the inverse; the last one takes its place."""
    gone, last, own, block = row(inverse, i), row(inverse, k - 1), 1.0 / inverse[i, i], lanes(inverse)
    for s in range(k):
        if s != i:
            target, factor, at = row(inverse, s), -gone[s] * own, 0
            while at < k:
                store(target, at, add_multiple(load(target, at), factor, load(gone, at)))
                at += block
    at = 0
    while at < k:
        store(gone, at, load(last, at))
        at += block
    for s in range(k):
        inverse[s, i] = last[s]
    gone[i] = last[k - 1]
    for s in range(k):
        inverse[s, k - 1] = 0.0


@part
def invert(work, ints, table, inverse, k):
    """Invert the system of a support that came from elsewhere, and return whether it is regular."""
    for s in range(k):
        gram = row(table, ints[ROW, s])
        diagonal = gram[ints[COLUMN, s]] + work[CURV, s]
        own = diagonal - _set_direction(work, ints, inverse, gram, s)
        if own < DEPENDENT * diagonal:
            return False
        _extend_inverse(inverse, row(work, DIRECTION), s, own)
    return True


@part
def _first_to_vanish(work, k, length):
    """Return the place of the code that a step of this length makes vanish first, or −1, and the length until then."""
    codes, sign, direction = row(work, CODE), row(work, SIGN), row(work, DIRECTION)
    least, gone = 1.0, -1
    for s in range(k):
        least = min(least, (codes[s] - length * direction[s]) * sign[s])
    if least > 0:
        return gone, length
    for s in range(k):
        if (codes[s] - length * direction[s]) * sign[s] <= 0:
            length, gone = codes[s] / direction[s], s
    return gone, length


@part
def _move(work, length, k):
    """Move the codes of the support along the direction; the row of crosses tells what was added."""
    codes, cross, direction = row(work, CODE), row(work, CROSS), row(work, DIRECTION)
    at = 0
    while at < k:
        change = add_multiple(zeros(codes), -length, load(direction, at))
        store(cross, at, change)
        store(codes, at, add_multiple(load(codes, at), 1.0, change))
        at += lanes(codes)
    cross[k] = length


@part
def gather(source, atoms, w, target):
    """Copy the entries of some atoms."""
    for c in range(w):
        target[c] = source[atoms[c]]


@part
def walk(
    work, ints, near, table, rows, atoms, whole, inverse, G, D, x, low, high, curv, k, w, stop, far, longest,
):  # fmt: skip
    """Let atoms at hand enter and leave until none violates optimality by more than ``stop``.

    ``table`` holds rows of G at the columns at hand. These are all atoms, and it is G itself, if ``whole``; otherwise
    they are those of ``atoms``, and it is a view of ``rows``, which are filled here. Returns the size of the support,
    and whether it got so far.
    """
    z, codes, row_of = row(near, Z), row(work, CODE), row(ints, ROW)
    none, mask = z.dtype.type(0), places(w)
    for _ in range(6 * (w + 10)):  # beyond so many steps the sample is left to the general method
        place = largest_violation(z, row(near, LOW), row(near, HIGH), none, w, mask)
        if place < 0:
            return k, True
        entering = np.uint32(place)
        above = z[entering] > near[HIGH, entering]
        if (z[entering] - near[HIGH, entering] if above else near[LOW, entering] - z[entering]) <= stop:
            return k, True
        if k >= longest:
            return k, False
        if not whole:
            atom = atoms[entering]
            gather(row(G, atom), atoms, w, row(rows, row_of[k]))
        else:
            atom = entering
            row_of[k] = atom
        gram = row(table, row_of[k])
        edge = high[atom] if above else low[atom]
        code, left, diagonal = 0.0, z[entering] - edge, gram[entering] + curv[atom]
        while True:  # ends when all other codes have vanished, at the latest
            own = diagonal - _set_direction(work, ints, inverse, gram, k)
            if own < DEPENDENT * diagonal:
                return k, False
            gone, length = _first_to_vanish(work, k, left / own)
            code += length
            left -= length * own
            _move(work, length, k)
            subtract_rows(table, row_of, row(work, CROSS), k + 1, z, w)
            if gone < 0:
                break
            column, member = ints[COLUMN, gone], ints[MEMBER, gone]
            z[column] = work[EDGE, gone]
            near[LOW, column], near[HIGH, column] = max(low[member], -far), min(high[member], far)
            _shrink_inverse(inverse, gone, k)
            k -= 1
            take_place(work, ints, k, gone)
            free = row_of[gone]
            row_of[gone], row_of[k], row_of[k + 1] = row_of[k], row_of[k + 1], free
        _extend_inverse(inverse, row(work, DIRECTION), k, own)
        ints[COLUMN, k], ints[MEMBER, k] = entering, atom
        near[LOW, entering], near[HIGH, entering] = -far, far
        codes[k], work[EDGE, k], work[CURV, k] = code, edge, curv[atom]
        work[SIGN, k] = 1.0 if above else -1.0
        work[TARGET, k] = dot(row(D, atom), x, D.shape[1])
        k += 1
    return k, False
