"""Sparse codes, sample by sample.

Notation as everywhere: ``D`` (r, m) unit-norm atoms, ``G = D Dᵀ``, ``x`` one sample, ``c = D x``, and for codes φ the
correlations of the residual, ``z = D (x − φD) = c − φG``. A code is optimal when zⱼ = g′(φⱼ) where φⱼ ≠ 0, and
zⱼ ∈ [lowⱼ, highⱼ] = ∂g(0) where φⱼ = 0.
"""

import math

import numpy as np

from .algebra import (
    DEPENDENT,
    DEPENDENT_SINGLE,
    PIVOT,
    PIVOT_SINGLE,
    dot,
    euclidean,
    extend_factor,
    lengthened,
    shrink_factor,
    solve_factored,
    subtract_multiple,
)
from .compilation import kernel, part
from .quadratic import LONG, encode_quadratic
from .screening import FAR, FAR_SINGLE, screen, select

# Rows of the work array of one sample; the index is the position in the working set (or in the support).
_CODE, _CORR, _RESID, _TRIAL, _TRIAL_RESID, _STEP, _CURV, _KEPT_CURV, _STIFFNESS = range(9)
# Rows of the integer work array: working set, the one that is loaded, support, factored support, candidates, marks.
_ATOM, _LOADED, _SUPPORT, _KEPT, _CANDIDATE, _MARK = range(6)

ADD_LIMIT = 8  # at most max(ADD_LIMIT, support / 2) atoms join the working set at a time
_STIFF = 30.0  # curvature g″ from which a coordinate is left to coordinate steps: K is nearly diagonal there
_ROUNDS = 1000  # additions to the working set, and …
_NEWTON = 100  # … rounds within it, and …
_STEPS = 4  # … so many Newton steps for each of its atoms, before a sample is given up, as it is …
_FAILURES = 10  # … when so many working sets were not solved
_FINE = 1e-3  # share of the tolerance that working sets are solved to, so that supports do not depend on the way …
_PATIENCE = 5  # … unless it takes more rounds than this
_DIGITS, _CHORDS = 4096, 6  # what a code is rounded to, and steps from there that reach all digits
_TRUSTED = 1e6  # an objective whose terms are larger than ‖x‖² by this is rounding error

_MINIMISED, _SIGN_CHANGED, _REFUSED = range(3)  # outcomes of a Newton step


# ── one sample: optimality on a working set ─────────────────────────────────────────────────────────────────────────


@part
def _residual_correlations(codes, corr, gram, w, out):
    """Compute z = c − φG on the working set."""
    for a in range(w):
        out[a] = corr[a]
    for a in range(w):
        if codes[a] != 0:
            subtract_multiple(out, codes[a], gram[a], w)


@part
def _violation(code, resid, atom, low, high, derivative, parameters):
    """Return how far a coordinate is from optimal: |z − g′(φ)| on the support, the distance of z to ∂g(0) off it."""
    if code != 0:
        return abs(resid - derivative(code, atom, parameters))
    return max(0.0, resid - high[atom], low[atom] - resid)


@part
def _sweep(work, atoms, gram, w, low, high, minimiser, parameters, everything):
    """Make one pass of exact coordinate minimisation over what Newton steps leave out, or over ``everything``.

    Left out are the codes at zero that want to leave it and those so stiff that K is nearly diagonal for them.
    """
    codes, resid = work[_CODE], work[_RESID]
    for a in range(w):
        old = codes[a]
        if not everything:
            if old == 0:
                if low[atoms[a]] <= resid[a] <= high[atoms[a]]:
                    continue
            elif work[_STIFFNESS, a] <= _STIFF:
                continue
        codes[a] = minimiser(resid[a] + old, atoms[a], parameters)
        if codes[a] != old:
            subtract_multiple(resid, codes[a] - old, gram[a], w)


@part
def _objective(codes, corr, resid, atoms, w, value, parameters):
    """Return ½‖x − φD‖² + Σ g(φⱼ) − ½‖x‖² = −½ φ·(c + z) + Σ g(φⱼ), and ½ Σ|φⱼ (cⱼ + zⱼ)|."""
    total = mass = 0.0
    for a in range(w):
        if codes[a] != 0:
            explained = 0.5 * codes[a] * (corr[a] + resid[a])
            total += value(codes[a], atoms[a], parameters) - explained
            mass += abs(explained)
    return total, mass


@part
def _trial_point(work, support, k, w, length, atoms, low, high):
    """Set φ + length · step on the support; a code that would change sign stops at 0, or before it if 0 is no kink."""
    codes, trial, step = work[_CODE], work[_TRIAL], work[_STEP]
    for a in range(w):
        trial[a] = codes[a]
    crossed = False
    for s in range(k):
        a = support[s]
        target = codes[a] + length * step[s]
        if target * codes[a] <= 0:
            crossed = True
            kink = low[atoms[a]] <= 0 <= high[atoms[a]]
            trial[a] = 0 if kink else 0.1 * codes[a]
        else:
            trial[a] = target
    return crossed


@part
def _first_crossing(codes, support, step, k):
    """Return the share of the step after which the first code reaches zero."""
    length = 1.0
    for s in range(k):
        a = support[s]
        if (codes[a] + step[s]) * codes[a] <= 0:
            length = min(length, -codes[a] / step[s])
    return length


@part
def _accept(work, w):
    """Accept the trial point of a sample as its code."""
    for a in range(w):
        work[_CODE, a] = work[_TRIAL, a]
        work[_RESID, a] = work[_TRIAL_RESID, a]


@part
def _order_support(work, ints, factor, n_kept, w, curvature, parameters):
    """Order the support, first what is factored already; return its size and how many rows of the factor are kept.

    Codes so stiff that they are left to coordinate steps do not belong to it.
    """
    atoms, support, kept, stays, marks = ints[_ATOM], ints[_SUPPORT], ints[_KEPT], ints[_CANDIDATE], ints[_MARK]
    codes, stiffness, kept_curv = work[_CODE], work[_STIFFNESS], work[_KEPT_CURV]
    for a in range(w):
        marks[a] = 0
        if codes[a] != 0:
            stiffness[a] = curvature(codes[a], atoms[a], parameters)
            marks[a] = stiffness[a] <= _STIFF
    gone = 0
    for s in range(n_kept):
        a = kept[s]
        stays[s] = marks[a] != 0 and stiffness[a] == kept_curv[s]
        gone += 1 - stays[s]
    if gone > 0:
        n_kept = shrink_factor(factor, kept, kept_curv, n_kept, stays, work[_TRIAL], work[_TRIAL_RESID])
    for s in range(n_kept):
        support[s] = kept[s]
        work[_CURV, s] = kept_curv[s]
        marks[kept[s]] = 0
    k = n_kept
    for a in range(w):
        if marks[a] != 0:
            support[k] = a
            work[_CURV, k] = stiffness[a]
            k += 1
    return k, n_kept


@part
def _exchange(work, support, s, t):
    """Exchange two places of the support."""
    curv = work[_CURV]
    support[s], support[t] = support[t], support[s]
    curv[s], curv[t] = curv[t], curv[s]


@part
def _factor_independent(work, ints, gram, factor, n_kept, whole, floor):
    """Factor what is linearly independent of the support, and move it to the front; returns its size."""
    support, dependent = ints[_SUPPORT], DEPENDENT if floor == PIVOT else DEPENDENT_SINGLE
    last = whole
    while True:
        k = extend_factor(
            gram, support, work[_CURV], last, factor, ints[_KEPT], work[_KEPT_CURV], n_kept, floor, dependent
        )
        if k == 0 or factor[k - 1, k - 1] * factor[k - 1, k - 1] * dependent <= 1:
            return k
        last -= 1
        _exchange(work, support, k - 1, last)
        n_kept = k - 1


@part
def _largest_violation(codes, resid, support, first, last, atoms, derivative, parameters):
    """Return the largest |z − g′(φ)| on a part of the support, and where it is."""
    largest, place = 0.0, first
    for s in range(first, last):
        a = support[s]
        violation = abs(resid[a] - derivative(codes[a], atoms[a], parameters))
        if violation > largest:
            largest, place = violation, s
    return largest, place


@part
def _newton_step(
    work, ints, gram, factor, n_kept, w, low, high, value, derivative, curvature, parameters, tol, floor, energy
):
    """Make one guarded Newton step on the support.

    Return its outcome, the largest violation left on the support (FAR if unknown), and the length of the kept factor.

    Between sign changes the elastic net's objective is quadratic, so the full step is its exact minimiser there.
    A step that changes signs is first tried with those codes at zero, then cut at the first of them, then halved.
    Codes of atoms that depend on others stay as they are. Once the others are minimised, one of them moves too, along a
    direction in which the residual does not change, until a code of the support reaches zero.
    """
    atoms, support = ints[_ATOM], ints[_SUPPORT]
    codes, corr, resid, step = work[_CODE], work[_CORR], work[_RESID], work[_STEP]
    whole, n_kept = _order_support(work, ints, factor, n_kept, w, curvature, parameters)
    k = n_kept = _factor_independent(work, ints, gram, factor, n_kept, whole, floor)
    before = _largest_violation(codes, resid, support, 0, k, atoms, derivative, parameters)[0]
    among, place = _largest_violation(codes, resid, support, k, whole, atoms, derivative, parameters)
    if among > tol and before <= 0.1 * among:  # the independent ones are minimised; this row is not kept
        _exchange(work, support, k, place)
        k = extend_factor(gram, support, work[_CURV], k + 1, factor, ints[_KEPT], work[_KEPT_CURV], k, floor, -FAR)
        before = among
    for s in range(k):
        a = support[s]
        step[s] = resid[a] - derivative(codes[a], atoms[a], parameters)
    solve_factored(factor, step, k)
    for s in range(k):
        if not abs(step[s]) < 1e250:  # a singular system in disguise
            return _REFUSED, FAR, n_kept

    trial, trial_resid = work[_TRIAL], work[_TRIAL_RESID]
    length = 1.0
    crossed = _trial_point(work, support, k, w, length, atoms, low, high)
    _residual_correlations(trial, corr, gram, w, trial_resid)
    if not crossed:
        after = _largest_violation(trial, trial_resid, support, 0, k, atoms, derivative, parameters)[0]
        among = _largest_violation(trial, trial_resid, support, k, whole, atoms, derivative, parameters)[0]
        if after <= max(tol, 0.5 * before):
            _accept(work, w)
            if among > tol:
                return _SIGN_CHANGED, FAR, n_kept
            return _MINIMISED, max(after, among), n_kept
    start, mass = _objective(codes, corr, resid, atoms, w, value, parameters)
    most = _TRUSTED * (energy + mass)
    for attempt in range(12):
        reached, mass = _objective(trial, corr, trial_resid, atoms, w, value, parameters)
        if reached < start and mass <= most:
            _accept(work, w)
            return _SIGN_CHANGED if crossed or k < whole else _MINIMISED, FAR, n_kept
        length *= _first_crossing(codes, support, step, k) * (1 + 1e-12) if attempt == 0 and crossed else 0.5
        _trial_point(work, support, k, w, length, atoms, low, high)
        _residual_correlations(trial, corr, gram, w, trial_resid)
    return _REFUSED, FAR, n_kept


@part
def _solve_working_set(
    work, ints, gram, factor, n_kept, w, low, high, value, derivative, curvature, minimiser, parameters, goal, tol,
    floor, energy,
):  # fmt: skip
    """Solve on the working set: coordinate steps bring codes in, Newton steps solve for them, until ``tol`` is met.

    After a few rounds the larger ``goal`` will do. A refused Newton step is followed by a sweep over everything, which
    always descends, and by a new factor: pivots that were raised stay in the rows that are kept.
    """
    atoms, codes, resid = ints[_ATOM], work[_CODE], work[_RESID]
    _residual_correlations(codes, work[_CORR], gram, w, resid)
    gap = 0.0
    outcome = _MINIMISED
    left_over = _STEPS * (w + 10)
    for turn in range(_NEWTON):
        _sweep(work, atoms, gram, w, low, high, minimiser, parameters, outcome == _REFUSED)
        outcome, left = _SIGN_CHANGED, FAR
        for _ in range(w + 10):
            if outcome != _SIGN_CHANGED:
                break
            left_over -= 1
            outcome, left, n_kept = _newton_step(
                work, ints, gram, factor, n_kept, w, low, high, value, derivative, curvature, parameters, tol, floor,
                energy,
            )  # fmt: skip
        if outcome == _REFUSED:
            n_kept = 0
        gap = left if left < FAR else 0.0
        for a in range(w):
            if codes[a] == 0 or work[_STIFFNESS, a] > _STIFF or left == FAR:
                gap = max(gap, _violation(codes[a], resid[a], atoms[a], low, high, derivative, parameters))
        if gap <= tol or (gap <= goal and turn >= _PATIENCE) or left_over <= 0:
            break
    return gap, n_kept


# ── one sample: codes that do not depend on the way to them ─────────────────────────────────────────────────────────


@part
def _rounded(code):
    """Round a code to few digits, so that nearly equal ones become equal."""
    mantissa, exponent = math.frexp(code)
    return math.ldexp(round(mantissa * _DIGITS) / _DIGITS, exponent)


@part
def _sort_support(ints, codes, w):
    """Sort the support by its atoms and return its size."""
    atoms, support = ints[_ATOM], ints[_SUPPORT]
    k = 0
    for a in range(w):
        if codes[a] != 0:
            t = k
            while t > 0 and atoms[support[t - 1]] > atoms[a]:
                support[t] = support[t - 1]
                t -= 1
            support[t] = a
            k += 1
    return k


@part
def _settle(work, ints, gram, factor, w, low, high, derivative, curvature, parameters, floor, quadratic):
    """Compute the codes once more, so that they depend on their support and the data alone, not on the start.

    Two ways to the optimum end at codes that differ by rounding errors. With few digits they are equal, and from there
    Newton steps in the order of the atoms take the same way. All of these use the matrix of the first: it is nearly
    that of the optimum, so each step gains about as many digits as were kept. First, the codes are made as exact as
    rounding allows, or they might differ in the digits that are kept. Where the prior is ``quadratic`` on either side
    of zero, one system gives the codes from their signs.

    Returns the largest violation on the support, and FAR if a code changed its sign on the way, which leaves the codes
    as they were.
    """
    atoms, support = ints[_ATOM], ints[_SUPPORT]
    codes, resid, step, curv = work[_TRIAL], work[_TRIAL_RESID], work[_STEP], work[_CURV]
    k = _sort_support(ints, work[_CODE], w)
    for s in range(k):
        codes[s] = work[_CODE, support[s]]
    largest = 0.0
    for stage in range(1 if quadratic else 2):
        for s in range(k):
            if stage == 1:
                codes[s] = _rounded(codes[s])
            curv[s] = curvature(codes[s], atoms[support[s]], parameters)
        extend_factor(gram, support, curv, k, factor, ints[_KEPT], work[_KEPT_CURV], 0, floor, -FAR)
        if quadratic:
            for s in range(k):
                atom = atoms[support[s]]
                step[s] = work[_CORR, support[s]] - (high[atom] if codes[s] > 0 else low[atom])
            solve_factored(factor, step, k)
            for s in range(k):
                if not step[s] * codes[s] > 0:
                    return FAR
            for s in range(k):
                work[_CODE, support[s]] = step[s]
            return 0.0
        last = _CHORDS if stage == 1 else 2
        for turn in range(last + 1):
            for a in range(w):
                resid[a] = work[_CORR, a]
            for s in range(k):
                subtract_multiple(resid, codes[s], gram[support[s]], w)
            largest = 0.0
            for s in range(k):
                step[s] = resid[support[s]] - derivative(codes[s], atoms[support[s]], parameters)
                largest = max(largest, abs(step[s]))
            if turn == last:
                break
            solve_factored(factor, step, k)
            for s in range(k):
                changed = codes[s] + step[s]
                if not changed * codes[s] > 0:
                    return FAR
                codes[s] = changed
    for s in range(k):
        work[_CODE, support[s]] = codes[s]
    return largest


# ── one sample: which atoms belong to the working set ───────────────────────────────────────────────────────────────


@part
def _load(ints, work, w, n_new, x, D, G, gram):
    """Fetch the Gram entries and correlations of the atoms that joined; entries left by the last sample are reused."""
    atoms, loaded = ints[_ATOM], ints[_LOADED]
    same = 0
    while same < w + n_new and atoms[same] == loaded[same]:
        same += 1
    for a in range(w, w + n_new):
        work[_CORR, a] = dot(D[atoms[a]], x)
        work[_STIFFNESS, a] = 0
        if a >= same:
            source, row = G[atoms[a]], gram[a]
            for b in range(a + 1):  # below the diagonal, for G need not be symmetric to the last bit
                row[b] = source[atoms[b]] if atoms[b] <= atoms[a] else G[atoms[b], atoms[a]]
                gram[b, a] = row[b]
            loaded[a] = atoms[a]
    if same < w + n_new and w + n_new < loaded.shape[0]:
        loaded[w + n_new] = -1


@part
def _square(size):
    """Return an array of ``size`` rows, a little wider: rows a power of two apart would share cache lines."""
    return np.empty((size, size + 8))


@part
def _grown(array, size, w):
    """Return a larger square array that starts with ``w`` rows and columns of this one; slices compile slowly."""
    larger = _square(size)
    for a in range(w):
        for b in range(w):
            larger[a, b] = array[a, b]
    return larger


@part
def _store_sorted(atoms, codes, w, indices, data, first):
    """Append the codes that are not zero, by insertion: after a warm start they are nearly sorted."""
    last = first
    for a in range(w):
        if codes[a] != 0:
            s = last
            while s > first and indices[s - 1] > atoms[a]:
                indices[s], data[s] = indices[s - 1], data[s - 1]
                s -= 1
            indices[s], data[s] = atoms[a], codes[a]
            last += 1
    return last - first


@kernel
def encode_general(
    X, C, D, G, G_screen, low, high, value, derivative, curvature, minimiser, parameters,
    start_indptr, start_indices, start_data, tol, add_limit, quadratic, bits,
):  # fmt: skip
    """Compute the codes of a few samples for any prior, exact to ``tol`` · ‖x‖.

    An active-set method. The working set is small and solved exactly, in double precision; all other atoms are
    screened by ``C = X Dᵀ`` and ``G_screen``, which may be of lower precision: an atom joins the working set as soon
    as rounding could hide a violation, so the result is exact all the same. ``add_limit`` atoms may join at a time,
    more where supports are large. At the end the codes settle on what does not depend on the start, bit for bit; but
    supports may depend on it where an atom violates optimality by less than a thousandth of the tolerance. Where the
    prior is ``quadratic`` on either side of zero, that takes a single step. ``bits`` is room for r whole numbers as
    long as those of C.

    Returns the number of codes per sample, their atoms and values, and the optimality gap per sample.
    """
    n, m = X.shape
    r = D.shape[0]
    work = np.empty((9, r))
    ints = np.empty((6, r + 1), np.int64)
    for a in range(r):
        ints[_LOADED, a] = -1
    z = bits.view(C.dtype)
    violations = np.empty(r + 1, C.dtype)
    far = FAR_SINGLE if C.itemsize == 4 else FAR
    low_screen, high_screen = np.empty(r, C.dtype), np.empty(r, C.dtype)
    for a in range(r):
        low_screen[a], high_screen[a] = max(low[a], -far), min(high[a], far)
    unit = 6e-8 if C.itemsize == 4 else 1.2e-16
    rounding = 6e-8 if X.itemsize == 4 else 1.2e-16
    floor = PIVOT_SINGLE if G.itemsize == 4 else PIVOT
    size = min(r, 64)
    gram, factor = _square(size), _square(size)
    counts, gaps = np.zeros(n, np.int64), np.zeros(n)
    indices, data = np.empty(16 * n, np.int32), np.empty(16 * n, X.dtype)
    nnz = 0
    atoms, codes, candidates = ints[_ATOM], work[_CODE], ints[_CANDIDATE]
    for i in range(n):
        x = X[i]
        norm = euclidean(x)
        goal = tol * norm if norm > 0 else tol
        fine = min(goal, max(_FINE * goal, 1e-13 * norm))
        w = n_kept = n_new = 0
        for s in range(start_indptr[i], start_indptr[i + 1]):
            atoms[n_new] = start_indices[s]
            codes[n_new] = start_data[s]
            n_new += 1
        gap = 0.0
        complete, failures = False, 0
        for turn in range(_ROUNDS):
            if turn > 0 or n_new == 0:
                mass, k = 0.0, 0
                for a in range(w):
                    mass += abs(codes[a])
                    k += codes[a] != 0
                if not mass < far:  # singular to working precision: the codes run away
                    break
                margin = C.dtype.type(unit * ((m + k + 5) * norm + (k + 3) * mass))
                worst = screen(
                    C[i], G_screen, atoms, codes, w, low_screen, high_screen, margin, ints[_SUPPORT], work[_TRIAL], z,
                    bits,
                )  # fmt: skip
                complete = worst < 0 or w == r
                if complete:
                    break
                limit = max(add_limit, k // 2)
                n_new = min(r - w, select(z, worst, margin, limit, candidates, violations))
                for s in range(n_new):
                    atoms[w + s] = candidates[s]
                    codes[w + s] = 0
            if w + n_new > size:
                size = min(r, max(2 * size, w + n_new))
                gram, factor = _grown(gram, size, w), _grown(factor, size, w)
                ints[_LOADED, w] = -1  # what the last sample left beyond w was not copied
            _load(ints, work, w, n_new, x, D, G, gram)
            w += n_new
            gap, n_kept = _solve_working_set(
                work, ints, gram, factor, n_kept, w, low, high,
                value, derivative, curvature, minimiser, parameters, goal, fine, floor, norm * norm,
            )  # fmt: skip
            failures += gap > goal
            if failures == _FAILURES:
                break
        if complete and gap <= goal:
            settled = _settle(
                work, ints, gram, factor, w, low, high, derivative, curvature, parameters, floor, quadratic
            )
            gap = max(gap, settled) if settled < FAR else gap
        mass = 0.0
        for a in range(w):  # what rounding to their own precision does to the codes, to their slopes and to z
            if codes[a] != 0:
                mass += abs(codes[a])
                gap = max(gap, rounding * abs(codes[a]) * curvature(codes[a], atoms[a], parameters))
        gap = max(gap, 2 * rounding * mass)
        gaps[i] = np.inf if not complete else max(rounding, gap / norm if norm > 0 else gap)
        if nnz + w > data.shape[0]:
            room = max(2 * data.shape[0], nnz + w)
            indices, data = lengthened(indices, nnz, room), lengthened(data, nnz, room)
        counts[i] = _store_sorted(atoms, codes, w, indices, data, nnz)
        nnz += counts[i]
    return counts, indices[:nnz], data[:nnz], gaps


# ── samples under any prior ─────────────────────────────────────────────────────────────────────────────────────────


def encode_chunk(X, C, D, G, G_screen, low, high, *prior_and_start):
    """Compute the codes of a few samples, exact to ``tol`` · ‖x‖; arguments and results as of :func:`encode_general`.

    After ``parameters`` comes ``constant``. Where the prior is quadratic on either side of zero it holds the curvatures
    g″ per atom, and :func:`encode_quadratic` finds the codes. What it leaves is found by the general method, and handed
    back to it where supports are short, so that which of the two computes the codes depends on nothing but their
    number. Otherwise ``constant`` is None.
    """
    *functions, constant, start_indptr, start_indices, start_data, tol, add_limit = prior_and_start
    dictionary, start = (D, G, G_screen, low, high), (start_indptr, start_indices, start_data)
    bits = _bits(C, len(D))
    if constant is None:
        return encode_general(X, C, *dictionary, *functions, *start, tol, add_limit, False, bits)
    coded = encode_quadratic(X, C, *dictionary, constant, *start)
    left = np.flatnonzero(np.isinf(coded[3]))
    if len(left) == 0:
        return coded
    X, C = _frozen(X[left], C[left])
    start = _as_start(_rows(coded, left))
    general = encode_general(X, C, *dictionary, *functions, *start, tol, add_limit, True, bits)
    short = np.flatnonzero(general[0] <= LONG)
    X, C = _frozen(X[short], C[short])
    again = encode_quadratic(X, C, *dictionary, constant, *_as_start(_rows(general, short)))
    better = np.isfinite(again[3])
    return _replaced(coded, left, _replaced(general, short[better], _rows(again, np.flatnonzero(better))))


def _bits(C, shape):
    """Return room for the bits of numbers like those of C."""
    return np.empty(shape, np.int32 if C.itemsize == 4 else np.int64)


def _frozen(*arrays):
    """Return new arrays, read-only as those are that kernels are compiled for."""
    for array in arrays:
        array.flags.writeable = False
    return arrays


def _as_start(coded):
    """Return what a kernel returned as codes to start another from."""
    counts, indices, data, _ = coded
    return _frozen(np.concatenate([[0], np.cumsum(counts)]), indices, data)


def _rows(coded, rows):
    """Return some samples of what a kernel returned."""
    counts, indices, data, gaps = coded
    ends = np.cumsum(counts)
    lengths = counts[rows]
    entries = np.repeat(ends[rows] - np.cumsum(lengths), lengths) + np.arange(lengths.sum())
    return lengths, indices[entries], data[entries], gaps[rows]


def _replaced(coded, rows, others):
    """Replace some samples of what a kernel returned by those of another call."""
    source = np.arange(len(coded[0]))
    source[rows] = len(source) + np.arange(len(rows))
    return _rows(tuple(np.concatenate(pair) for pair in zip(coded, others, strict=True)), source)
