"""Sparse codes under any prior, sample by sample.

Notation as everywhere: ``D`` (r, m) unit-norm atoms, ``G = D Dᵀ``, ``x`` one sample, ``c = D x``, and for codes φ the
correlations of the residual, ``z = D (x − φD) = c − φG``. A code is optimal when zⱼ = g′(φⱼ) where φⱼ ≠ 0, and
zⱼ ∈ [lowⱼ, highⱼ] = ∂g(0) where φⱼ = 0.
"""

import math
from typing import Any

import numpy as np

from .algebra import FAR, FAR_SINGLE, PIVOT, PIVOT_SINGLE, dot, euclidean, extend_factor, screen, select, solve_factored
from .compilation import ZERO, borrowed, kernel, part
from .lanes import aligned, padded
from .newton import (
    ATOM,
    CANDIDATE,
    CODE,
    CORR,
    CURV,
    KEPT,
    KEPT_CURV,
    LOADED,
    STEP,
    STIFFNESS,
    SUPPORT,
    TRIAL,
    solve_working_set,
)  # fmt: skip
from .quadratic import LONG, encode_quadratic

# ── the working set ─────────────────────────────────────────────────────────────────────────────────────────────────


@part
def _load(ints, work, w, n_new, x, D, G, gram):
    """Fetch the Gram entries and correlations of the atoms that joined; entries left by the last sample are reused."""
    atoms, loaded = ints[ATOM], ints[LOADED]
    same = 0
    while same < w + n_new and atoms[same] == loaded[same]:
        same += 1
    for a in range(w, w + n_new):
        work[CORR, a] = dot(D[atoms[a]], x)
        work[STIFFNESS, a] = 0
        if a >= same:
            source, row = G[atoms[a]], gram[a]
            for b in range(a + 1):  # below the diagonal, for G need not be symmetric to the last bit
                row[b] = source[atoms[b]] if atoms[b] <= atoms[a] else G[atoms[b], atoms[a]]
                gram[b, a] = row[b]
            loaded[a] = atoms[a]
    if same < w + n_new and w + n_new < loaded.shape[0]:
        loaded[w + n_new] = -1


# ── codes that do not depend on the way to them ─────────────────────────────────────────────────────────────────────


@part
def _rounded(code):
    """Round a code to few digits, so that nearly equal ones become equal."""
    mantissa, exponent = math.frexp(code)
    return math.ldexp(round(mantissa * 256) / 256, exponent)


@part
def _sort_support(ints, codes, w):
    """Sort the support by its atoms and return its size."""
    atoms, support = ints[ATOM], ints[SUPPORT]
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
def _start_anew(work, ints, w):
    """Make the support, in the order of its atoms, the working set, with rounded codes; returns its size.

    Two ways to the optimum end at codes that differ by rounding errors. With few digits they are equal, and all that
    follows from there is the same, bit for bit.
    """
    atoms, codes, support = ints[ATOM], work[CODE], ints[SUPPORT]
    k = _sort_support(ints, codes, w)
    for s in range(k):
        ints[CANDIDATE, s], work[TRIAL, s] = atoms[support[s]], _rounded(codes[support[s]])
    for s in range(k):
        atoms[s], codes[s] = ints[CANDIDATE, s], work[TRIAL, s]
    return k


@part
def _settle(work, ints, gram, factor, w, low, high, curvature, parameters, floor):
    """Compute the codes from their signs, where the prior is quadratic on either side of zero, by one system.

    It leaves the codes as they are if one of them would change its sign.
    """
    atoms, codes, support, step, curv = ints[ATOM], work[CODE], ints[SUPPORT], work[STEP], work[CURV]
    k = _sort_support(ints, codes, w)
    for s in range(k):
        a = support[s]
        curv[s] = curvature(codes[a], atoms[a], parameters)
        step[s] = work[CORR, a] - (high[atoms[a]] if codes[a] > 0 else low[atoms[a]])
    extend_factor(gram, support, curv, k, factor, ints[KEPT], work[KEPT_CURV], ZERO, floor, -FAR)
    solve_factored(factor, step, k)
    for s in range(k):
        if not step[s] * codes[support[s]] > 0:
            return
    for s in range(k):
        codes[support[s]] = step[s]


# ── samples ─────────────────────────────────────────────────────────────────────────────────────────────────────────


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
def encode_samples_generally(
    first, X, C, D, G, G_screen, low, high, value, derivative, curvature, minimiser, parameters,
    start_indptr, start_indices, start_data, tol, add_limit, quadratic, bits, gram, factor, work, ints, violations,
    ends, counts, indices, data, gaps, nnz,
):  # fmt: skip
    """Compute codes from sample ``first`` on, as far as the square arrays suffice; see :func:`encode_general`.

    Returns the sample that they are too small for, and the number of nonzeros so far.
    """
    X, C, D, G, G_screen = borrowed(X), borrowed(C), borrowed(D), borrowed(G), borrowed(G_screen)
    low, high, bits = borrowed(low), borrowed(high), borrowed(bits)
    violations, ends = borrowed(violations), borrowed(ends)
    start_indptr, start_indices, start_data = borrowed(start_indptr), borrowed(start_indices), borrowed(start_data)
    gram, factor, work, ints = borrowed(gram), borrowed(factor), borrowed(work), borrowed(ints)
    counts, indices, data, gaps = borrowed(counts), borrowed(indices), borrowed(data), borrowed(gaps)
    n, m = X.shape
    r = D.shape[0]
    for a in range(r):
        ints[LOADED, a] = -1
    z = bits.view(C.dtype)
    far = FAR_SINGLE if C.itemsize == 4 else FAR
    low_screen, high_screen = ends[0], ends[1]
    for a in range(r):
        low_screen[a], high_screen[a] = max(low[a], -far), min(high[a], far)
    unit = 6e-8 if C.itemsize == 4 else 1.2e-16
    rounding = 6e-8 if X.itemsize == 4 else 1.2e-16
    floor = PIVOT_SINGLE if G.itemsize == 4 else PIVOT
    atoms, codes, candidates = ints[ATOM], work[CODE], ints[CANDIDATE]
    for i in range(first, n):
        x = X[i]
        norm = euclidean(x)
        goal = tol * norm if norm > 0 else tol
        # fine enough that supports do not depend on the way, nor rounded codes on rounding
        fine = min(goal, max(min(1e-3 * goal, 1e-12 * norm), 0.1 * 1e-12 * norm))
        w = n_kept = n_new = ZERO
        for s in range(start_indptr[i], start_indptr[i + 1]):
            atoms[n_new] = start_indices[s]
            codes[n_new] = start_data[s]
            n_new += 1
        gap = 0.0
        complete, settled, failures, enough = False, False, 0, fine
        for turn in range(1000):  # beyond them the sample is given up, as it is
            if turn > 0 or n_new == 0:
                mass, k = 0.0, 0
                for a in range(w):
                    mass += abs(codes[a])
                    k += codes[a] != 0
                if settled or not mass < far:  # if not, it is singular to working precision: the codes run away
                    break
                margin = C.dtype.type(unit * ((m + k + 5) * norm + (k + 3) * mass))
                worst = screen(
                    C[i], G_screen, atoms, codes, w, low_screen, high_screen, margin, ints[SUPPORT], work[TRIAL], z,
                    bits,
                )  # fmt: skip
                complete = (worst < 0 or w == r) and enough == fine
                if complete and (quadratic or gap > goal or k == 0):
                    break
                enough, n_new = fine, 0
                if complete:
                    n_new, w, n_kept, settled = _start_anew(work, ints, w), ZERO, ZERO, True
                elif worst >= 0 and w < r:
                    limit = max(add_limit, k // 2)
                    n_new = min(r - w, select(z, worst, margin, limit, candidates, violations))
                    if w + n_new < r:
                        enough = max(fine, 0.03 * (worst - margin))  # working sets are solved roughly while atoms join
                    for s in range(n_new):
                        atoms[w + s] = candidates[s]
                        codes[w + s] = 0
            if w + n_new > gram.shape[0]:
                return i, nnz
            _load(ints, work, w, n_new, x, D, G, gram)
            w += n_new
            gap, n_kept = solve_working_set(
                work, ints, gram, factor, n_kept, w, low, high,
                value, derivative, curvature, minimiser, parameters, max(goal, enough), enough, floor, norm * norm,
            )  # fmt: skip
            failures += gap > max(goal, enough)
            if failures == 10:
                break
        if complete and gap <= goal and quadratic:
            _settle(work, ints, gram, factor, w, low, high, curvature, parameters, floor)
        mass = 0.0
        for a in range(w):  # what rounding to their own precision does to the codes, to their slopes and to z
            if codes[a] != 0:
                mass += abs(codes[a])
                gap = max(gap, rounding * abs(codes[a]) * curvature(codes[a], atoms[a], parameters))
        gap = max(gap, 2 * rounding * mass)
        gaps[i] = np.inf if not complete else max(rounding, gap / norm if norm > 0 else gap)
        counts[i] = _store_sorted(atoms, codes, w, indices, data, nnz)
        nnz += counts[i]
    return n, nnz


def encode_general(
    X, C, D, G, G_screen, low, high, value, derivative, curvature, minimiser, parameters,
    start_indptr, start_indices, start_data, tol, add_limit, quadratic=False,
):  # fmt: skip
    """Compute the codes of a few samples for any prior, exact to ``tol`` · ‖x‖.

    An active-set method. The working set is small and solved exactly, in double precision; all other atoms are
    screened by ``C = X Dᵀ`` and ``G_screen``, which may be of lower precision: an atom joins the working set as soon
    as rounding could hide a violation, so the result is exact all the same. ``add_limit`` atoms may join at a time,
    more where supports are large. At the end the codes are computed once more, so that they do not depend on the start,
    bit for bit; but supports may depend on it where an atom violates optimality by less than a thousandth of the
    tolerance. Where the prior is ``quadratic`` on either side of zero, that takes a single step.

    Returns the number of codes per sample, their atoms and values, and the optimality gap per sample.
    """
    n, r = len(X), len(D)
    bits = np.empty(r, np.int32 if C.itemsize == 4 else np.int64)
    work, ints, ends = aligned((15, padded(r))), np.empty((6, r + 1), np.int64), np.empty((2, r), C.dtype)
    counts, gaps = np.empty(n, np.int64), np.empty(n)
    indices, data = np.empty(n * r, np.int32), np.empty(n * r, X.dtype)
    size, reached, nnz = 32, 0, 0
    while reached < n:
        size = min(r, 2 * size)
        width = 8 * (size // 8 + 1 | 1)  # rows an odd number of cache lines apart, which do not displace one another
        reached, nnz = encode_samples_generally(
            reached, X, C, D, G, G_screen, low, high, value, derivative, curvature, minimiser, parameters,
            start_indptr, start_indices, start_data, tol, add_limit, quadratic, bits,
            aligned((size, width)), aligned((size, width)), work, ints, np.empty(r + 1, C.dtype), ends,
            counts, indices, data, gaps, nnz,
        )  # fmt: skip
    return counts, indices[:nnz].copy(), data[:nnz].copy(), gaps


def encode_chunk(X, C, D, G, G_screen, low, high, *prior_and_start):
    """Compute the codes of a few samples, exact to ``tol`` · ‖x‖; arguments and results as of :func:`encode_general`.

    After ``parameters`` comes ``constant``. Where the prior is quadratic on either side of zero it holds the curvatures
    g″ per atom, and :func:`encode_quadratic` finds the codes. What it leaves is found by the general method, and handed
    back to it where supports are short, so that which of the two computes the codes depends on nothing but their
    number. Otherwise ``constant`` is None.
    """
    *functions, constant, start_indptr, start_indices, start_data, tol, add_limit = prior_and_start
    dictionary: Any = (D, G, G_screen, low, high)
    start: Any = (start_indptr, start_indices, start_data)
    rest: Any = (*dictionary, *functions, *start, tol, add_limit)
    if constant is None:
        return encode_general(X, C, *rest)
    rest = (*dictionary, constant, *start)
    coded = encode_quadratic(X, C, *rest)
    left = np.flatnonzero(np.isinf(coded[3]))
    if len(left) == 0:
        return coded
    X, C = _frozen(X[left], C[left])
    rest = (*dictionary, *functions, *_as_start(_rows(coded, left)), tol, add_limit, True)
    general = encode_general(X, C, *rest)
    short = np.flatnonzero(general[0] <= LONG)
    X, C = _frozen(X[short], C[short])
    rest = (*dictionary, constant, *_as_start(_rows(general, short)))
    again = encode_quadratic(X, C, *rest)
    better = np.isfinite(again[3])
    return _replaced(coded, left, _replaced(general, short[better], _rows(again, np.flatnonzero(better))))


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
