"""Codes of one sample that are optimal on a working set, for any prior; the notation is that of ``general``.

Coordinate steps bring codes in, Newton steps on the support solve for them. The objective falls with each step.
"""

import math

from .algebra import (
    DEPENDENT,
    DEPENDENT_SINGLE,
    FAR,
    PIVOT,
    extend_factor,
    shrink_factor,
    solve_factored,
    subtract_multiple,
)
from .compilation import ZERO, part
from .lanes import row

# Rows of the work array of one sample; the index is the position in the working set (or in the support).
CODE, CORR, RESID, SLOPE, TRIAL, TRIAL_RESID, TRIAL_SLOPE, STEP, CURV, KEPT_CURV, STIFFNESS = range(11)
REST, SCALED, WAY, SUM = range(11, 15)  # of conjugate directions
# Rows of the integer work array: working set, the one that is loaded, support, factored support, candidates, marks.
ATOM, LOADED, SUPPORT, KEPT, CANDIDATE, MARK = range(6)

_STIFF = 10.0  # curvature g″ from which an atom is not factored: K is nearly diagonal there

_MINIMISED, _SIGN_CHANGED, _REFUSED = range(3)  # outcomes of a Newton step


@part
def residual_correlations(codes, corr, gram, w, out):
    """Compute z = c − φG on the working set."""
    for a in range(w):
        out[a] = corr[a]
    for a in range(w):
        if codes[a] != 0:
            subtract_multiple(out, codes[a], row(gram, a), w)


@part
def _violation(code, resid, slope, atom, low, high):
    """Return how far a coordinate is from optimal: |z − g′(φ)| on the support, the distance of z to ∂g(0) off it."""
    if code != 0:
        return abs(resid - slope)
    return max(0.0, resid - high[atom], low[atom] - resid)


@part
def _set_slopes(codes, atoms, w, derivative, parameters, slopes):
    for a in range(w):
        if codes[a] != 0:
            slopes[a] = derivative(codes[a], atoms[a], parameters)


@part
def _sweep(work, atoms, gram, w, low, high, minimiser, parameters, stiff, everything):
    """Make one pass of exact coordinate minimisation over codes at zero that want to leave it.

    If ``stiff``, also over those so stiff that K is nearly diagonal for them; or over ``everything``. Returns whether a
    code changed.
    """
    changed = False
    codes, resid = work[CODE], work[RESID]
    for a in range(w):
        old = codes[a]
        if not everything:
            if old == 0:
                if low[atoms[a]] <= resid[a] <= high[atoms[a]]:
                    continue
            elif not stiff or work[STIFFNESS, a] <= _STIFF:
                continue
        codes[a] = minimiser(resid[a] + old, atoms[a], parameters)
        if codes[a] != old:
            changed = True
            subtract_multiple(resid, codes[a] - old, row(gram, a), w)
    return changed


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
def _trial_point(work, ints, gram, k, w, length, low, high, minimiser, parameters):
    """Set φ + length · step on the support, and z there; returns whether a code would change sign.

    Such a code stops at 0 or, if 0 is no kink, where it would be optimal if the others stayed.
    """
    atoms, support = ints[ATOM], ints[SUPPORT]
    codes, trial, resid, step = work[CODE], work[TRIAL], work[TRIAL_RESID], work[STEP]
    for a in range(w):
        trial[a], resid[a] = codes[a], work[RESID, a]
    crossed = False
    for s in range(k):
        a = support[s]
        target = codes[a] + length * step[s]
        if target * codes[a] <= 0:
            crossed = True
            kink = low[atoms[a]] <= 0 <= high[atoms[a]]
            target = 0.0 if kink else minimiser(work[RESID, a] + codes[a], atoms[a], parameters)
        trial[a] = target
        subtract_multiple(resid, target - codes[a], row(gram, a), w)
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
        work[CODE, a] = work[TRIAL, a]
        work[RESID, a] = work[TRIAL_RESID, a]
        work[SLOPE, a] = work[TRIAL_SLOPE, a]


@part
def _order_support(work, ints, factor, n_kept, w, curvature, parameters):
    """Order the support, first what is factored already; return its size and how many rows of the factor are kept.

    The third result tells whether their curvatures are those that were factored, or have changed a little since.

    Codes so stiff that they are not factored do not belong to it.
    """
    atoms, support, kept, stays, marks = ints[ATOM], ints[SUPPORT], ints[KEPT], ints[CANDIDATE], ints[MARK]
    codes, stiffness, kept_curv = work[CODE], work[STIFFNESS], work[KEPT_CURV]
    for a in range(w):
        marks[a] = 0
        if codes[a] != 0:
            stiffness[a] = curvature(codes[a], atoms[a], parameters)
            marks[a] = stiffness[a] <= _STIFF
    gone, same = 0, True
    for s in range(n_kept):
        a = kept[s]
        # a factor bears curvatures that changed by a fifth
        stays[s] = marks[a] != 0 and abs(stiffness[a] - kept_curv[s]) <= 0.2 * kept_curv[s]
        gone += 1 - stays[s]
        same = same and stiffness[a] == kept_curv[s]
    if gone > 0:
        n_kept = shrink_factor(factor, kept, kept_curv, n_kept, stays, work[TRIAL], work[TRIAL_RESID])
    for s in range(n_kept):
        support[s] = kept[s]
        work[CURV, s] = kept_curv[s]
        marks[kept[s]] = 0
    k = n_kept
    for a in range(w):
        if marks[a] != 0:
            support[k] = a
            work[CURV, k] = stiffness[a]
            k += 1
    return k, n_kept, same


@part
def _append_stiff(work, ints, w, k):
    """Append the codes that are not factored to the support, and return its size."""
    for a in range(w):
        if work[CODE, a] != 0 and work[STIFFNESS, a] > _STIFF:
            ints[SUPPORT, k] = a
            k += 1
    return k


@part
def _precondition(work, ints, gram, factor, k, last):
    """Solve for the factored atoms by their factor, for each of the others by itself; returns the product with REST."""
    rest, scaled, product = work[REST], work[SCALED], 0.0
    for s in range(last):
        a = ints[SUPPORT, s]
        scaled[s] = rest[s] if s < k else rest[s] / (gram[a, a] + work[STIFFNESS, a])
    solve_factored(factor, scaled, k)
    for s in range(last):
        product += rest[s] * scaled[s]
    return product


@part
def _solve_conjugate(work, ints, gram, factor, k, last, w, accuracy):
    """Solve (G_SS + diag g″) x = STEP in its place by conjugate gradients, on ``last`` atoms, of which k are factored.

    What is not factored is stiff, and what is has changed little since, so few directions suffice. Any number of them
    makes a step of descent.
    """
    support, step, curv = ints[SUPPORT], work[STEP], work[STIFFNESS]
    rest, scaled, way, sums = work[REST], work[SCALED], work[WAY], work[SUM]
    spread, image = work[TRIAL], work[TRIAL_RESID]
    for a in range(spread.shape[0]):
        spread[a] = 0.0
    for s in range(last):
        rest[s], way[s], sums[s] = step[s], 0.0, 0.0
    size = first = _precondition(work, ints, gram, factor, k, last)
    ratio = 0.0
    for _ in range(60):  # conjugate directions
        for s in range(last):
            way[s] = scaled[s] + ratio * way[s]
            spread[support[s]] = way[s]
        curved = 0.0
        for s in range(last):
            source, total = row(gram, support[s]), curv[support[s]] * way[s]
            for a in range(w):
                total += source[a] * spread[a]
            image[s] = total
            curved += total * way[s]
        if not curved > 0:
            break
        length = size / curved
        for s in range(last):
            sums[s] += length * way[s]
            rest[s] -= length * image[s]
        ratio = size
        size = _precondition(work, ints, gram, factor, k, last)
        if not size > accuracy * accuracy * first:
            break
        ratio = size / ratio
    for s in range(last):
        step[s] = sums[s]


@part
def _exchange(work, support, s, t):
    """Exchange two places of the support."""
    curv = work[CURV]
    support[s], support[t] = support[t], support[s]
    curv[s], curv[t] = curv[t], curv[s]


@part
def _factor_independent(work, ints, gram, factor, n_kept, whole, floor):
    """Factor what is linearly independent of the support, and move it to the front; returns its size."""
    support, dependent = ints[SUPPORT], DEPENDENT if floor == PIVOT else DEPENDENT_SINGLE
    last = whole
    while True:
        k = extend_factor(
            gram, support, work[CURV], last, factor, ints[KEPT], work[KEPT_CURV], n_kept, floor, dependent
        )
        if k == 0 or factor[k - 1, k - 1] * factor[k - 1, k - 1] * dependent <= 1:
            return k
        last -= 1
        _exchange(work, support, k - 1, last)
        n_kept = k - 1


@part
def _largest_violation(resid, slopes, support, first, last):
    """Return the largest |z − g′(φ)| on a part of the support, and where it is."""
    largest, place = 0.0, first
    for s in range(first, last):
        violation = abs(resid[support[s]] - slopes[support[s]])
        if violation > largest:
            largest, place = violation, s
    return largest, place


@part
def _newton_step(
    work, ints, gram, factor, n_kept, w, low, high, value, derivative, curvature, minimiser, parameters, tol, floor,
    energy,
):  # fmt: skip
    """Make one guarded Newton step on the support.

    Return its outcome and the length of the kept factor.

    Between sign changes the elastic net's objective is quadratic, so the full step is its exact minimiser there.
    A step that changes signs is first tried with those codes at zero, then cut at the first of them, then halved.
    Codes of atoms that depend on others stay as they are. Once the others are minimised, one of them moves too, along a
    direction in which the residual does not change, until a code of the support reaches zero.
    """
    atoms, support = ints[ATOM], ints[SUPPORT]
    codes, corr, resid, step = work[CODE], work[CORR], work[RESID], work[STEP]
    whole, n_kept, same = _order_support(work, ints, factor, n_kept, w, curvature, parameters)
    k = n_kept = _factor_independent(work, ints, gram, factor, n_kept, whole, floor)
    independent = k == whole
    if independent:
        k = whole = _append_stiff(work, ints, w, k)
    before = _largest_violation(resid, work[SLOPE], support, ZERO, k)[0]
    among, place = _largest_violation(resid, work[SLOPE], support, k, whole)
    if among > tol and before <= 0.1 * among:  # the independent ones are minimised; this row is not kept
        _exchange(work, support, k, place)
        k = extend_factor(gram, support, work[CURV], k + 1, factor, ints[KEPT], work[KEPT_CURV], k, floor, -FAR)
        before = among
    for s in range(k):
        a = support[s]
        step[s] = resid[a] - work[SLOPE, a]
    if before == 0:
        return _MINIMISED, n_kept
    if independent and (k > n_kept or not same):
        accuracy = max(min(0.1, before / math.sqrt(energy) if energy > 0 else 0.0), 0.01 * tol / before, 1e-14)
        _solve_conjugate(work, ints, gram, factor, n_kept, k, w, accuracy)
    else:
        solve_factored(factor, step, k)
    for s in range(k):
        if not abs(step[s]) < 1e250:  # a singular system in disguise
            return _REFUSED, n_kept

    trial, trial_resid = work[TRIAL], work[TRIAL_RESID]
    length = 1.0
    crossed = _trial_point(work, ints, gram, k, w, length, low, high, minimiser, parameters)
    if not crossed:
        _set_slopes(trial, atoms, w, derivative, parameters, work[TRIAL_SLOPE])
        after = _largest_violation(trial_resid, work[TRIAL_SLOPE], support, ZERO, k)[0]
        among = _largest_violation(trial_resid, work[TRIAL_SLOPE], support, k, whole)[0]
        if after <= max(tol, 0.5 * before):
            _accept(work, w)
            if among > tol:
                return _SIGN_CHANGED, n_kept
            return _MINIMISED, n_kept
    start, mass = _objective(codes, corr, resid, atoms, w, value, parameters)
    most = 1e6 * (energy + mass)  # an objective of larger terms than that is rounding error
    for attempt in range(12):
        reached, mass = _objective(trial, corr, trial_resid, atoms, w, value, parameters)
        if reached < start and mass <= most:
            _set_slopes(trial, atoms, w, derivative, parameters, work[TRIAL_SLOPE])
            _accept(work, w)
            return _SIGN_CHANGED if crossed or k < whole else _MINIMISED, n_kept
        length *= _first_crossing(codes, support, step, k) * (1 + 1e-12) if attempt == 0 and crossed else 0.5
        _trial_point(work, ints, gram, k, w, length, low, high, minimiser, parameters)
    return _REFUSED, n_kept


@part
def _gap(work, atoms, w, low, high):
    """Return the largest violation of a coordinate."""
    gap = 0.0
    for a in range(w):
        gap = max(gap, _violation(work[CODE, a], work[RESID, a], work[SLOPE, a], atoms[a], low, high))
    return gap


@part
def solve_working_set(
    work, ints, gram, factor, n_kept, w, low, high, value, derivative, curvature, minimiser, parameters, goal, tol,
    floor, energy,
):  # fmt: skip
    """Solve on the working set: coordinate steps bring codes in, Newton steps solve for them, until ``tol`` is met.

    After a few rounds the larger ``goal`` will do. A refused Newton step is followed by a sweep over everything, which
    always descends, and by a new factor: pivots that were raised stay in the rows that are kept.
    """
    atoms, codes, resid = ints[ATOM], work[CODE], work[RESID]
    residual_correlations(codes, work[CORR], gram, w, resid)
    gap, outcome = 0.0, _MINIMISED
    left_over = 4 * (w + 10)  # Newton steps, beyond which the sample is given up, as it is
    for turn in range(100):  # rounds within a working set
        everything = outcome == _REFUSED
        changed = _sweep(work, atoms, gram, w, low, high, minimiser, parameters, outcome != _MINIMISED, everything)
        if turn == 0 and changed:
            _sweep(work, atoms, gram, w, low, high, minimiser, parameters, changed, changed)
        if changed or turn == 0:
            _set_slopes(codes, atoms, w, derivative, parameters, work[SLOPE])
        outcome = _SIGN_CHANGED
        for _ in range(w + 10):
            if outcome != _SIGN_CHANGED:
                break
            left_over -= 1
            outcome, n_kept = _newton_step(
                work, ints, gram, factor, n_kept, w, low, high, value, derivative, curvature, minimiser, parameters,
                tol, floor, energy,
            )  # fmt: skip
        if outcome == _REFUSED:
            n_kept = ZERO
        gap = _gap(work, atoms, w, low, high)
        enough = goal if turn >= 5 else tol  # a coarser tolerance will do in the end
        if gap <= enough or left_over <= 0:  # once more without what steps have added to the rounding errors of z
            residual_correlations(codes, work[CORR], gram, w, resid)
            gap = _gap(work, atoms, w, low, high)
            if gap <= enough or left_over <= 0:
                break
    return gap, n_kept
