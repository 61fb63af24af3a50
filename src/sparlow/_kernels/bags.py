"""Descriptors of an image, against the words of a codebook, and their pooling over cells."""

import math

import numpy as np

from .algebra import dot
from .compilation import kernel, part

ORIENTATIONS = 8


@kernel
def smooth(image, taps):
    """Convolve columns and rows with symmetric taps; pixels beyond the border equal those on it."""
    height, width = image.shape
    reach = taps.shape[0] // 2
    columns, out = np.empty((height, width), np.float32), np.empty((height, width), np.float32)
    padded = np.empty(width + 2 * reach, np.float32)
    for y in range(height):
        row = columns[y]
        row[:] = np.float32(0)
        for t in range(taps.shape[0]):
            source, tap = image[min(max(y + t - reach, 0), height - 1)], taps[t]
            for x in range(width):
                row[x] += tap * np.float32(source[x])
    for y in range(height):
        row, source = out[y], columns[y]
        padded[:reach] = source[0]
        padded[reach : reach + width] = source
        padded[reach + width :] = source[width - 1]
        row[:] = np.float32(0)
        for t in range(taps.shape[0]):
            shifted, tap = padded[t : t + width], taps[t]
            for x in range(width):
                row[x] += tap * shifted[x]
    return out


@part
def slant(ax, ay):
    """Return the angle of (ax, ay) ≥ 0 from its nearest axis, in units of π/4; atan by a polynomial, to 1e-5."""
    z = min(ax, ay) / (max(ax, ay) + np.float32(1e-30))
    s = z * z
    p = np.float32(-0.0149236) * s + np.float32(0.0670406)
    p = p * s + np.float32(-0.1482467)
    p = p * s + np.float32(0.2464287)
    p = p * s + np.float32(-0.4235095)
    return (p * s + np.float32(1.2732106)) * z


@part
def share_out(above, below, left, right, shares):
    """Share the gradient of each pixel x between the two orientations o next to it: shares[o, x].

    One of the two is an axis (o even), the other a diagonal (o odd). With g the length of the gradient and q its angle
    from the axis in units of π/4, the diagonal gets g·q and the axis g − g·q; signs tell which axis and diagonal.
    """
    half, zero = np.float32(0.5), np.float32(0)
    for x in range(shares.shape[1]):
        dx, dy = half * (right[x] - left[x]), half * (above[x] - below[x])
        ax, ay = abs(dx), abs(dy)
        length = math.sqrt(dx * dx + dy * dy)
        diagonal = length * slant(ax, ay)
        axis = length - diagonal
        level = zero if ay > ax else axis
        steep = axis - level
        ahead = diagonal if dx > 0 else zero
        behind = diagonal - ahead
        shares[0, x] = level if dx > 0 else zero
        shares[1, x] = ahead if dy > 0 else zero
        shares[2, x] = steep if dy > 0 else zero
        shares[3, x] = behind if dy > 0 else zero
        shares[4, x] = zero if dx > 0 else level
        shares[5, x] = zero if dy > 0 else behind
        shares[6, x] = zero if dy > 0 else steep
        shares[7, x] = zero if dy > 0 else ahead


@part
def pad(row, padded):
    """Extend a row: one pixel before it and all after it equal those on its ends."""
    width = row.shape[0]
    inner = padded[1 : width + 1]
    for x in range(width):
        inner[x] = row[x]
    padded[0] = row[0]
    padded[width + 1 :] = row[width - 1]


@part
def share_rows(image, first, last, padded, ring):
    """Put the shares of row y in ring[y % n], for y from ``first`` to ``last``; pixels off the image are as its border.

    padded[y % 3] is row y, padded; the row before ``first`` and that row are there already.
    """
    width = ring.shape[2]
    for y in range(first, last):
        pad(image[min(y + 1, image.shape[0] - 1)], padded[(y + 1) % 3])
        above, row, below = padded[(y - 1) % 3], padded[y % 3], padded[(y + 1) % 3]
        share_out(above[1:], below[1:], row[:width], row[2:], ring[y % ring.shape[0]])


@part
def add_multiple(total, weight, row):
    """Add a multiple of a row of cells, in place."""
    for s in range(total.shape[0]):
        total[s] += weight * row[s]


@part
def add_two_multiples(total, weight, row, other_weight, other_row):
    """Add multiples of two rows of cells, in place."""
    for s in range(total.shape[0]):
        total[s] += weight * row[s] + other_weight * other_row[s]


@part
def sum_rows(ring, first, weights, strip):
    """Set strip = Σ over y of weights[y] times the shares of row first + y, which are ring[(first + y) % n]."""
    total, rows = strip.reshape(strip.size), ring.reshape(ring.shape[0], strip.size)
    total[:] = np.float32(0)
    count, n = weights.shape[0], ring.shape[0]
    for y in range(0, count - 1, 2):
        add_two_multiples(total, weights[y], rows[(first + y) % n], weights[y + 1], rows[(first + y + 1) % n])
    if count % 2:
        add_multiple(total, weights[count - 1], rows[(first + count - 1) % n])


@part
def turn_over(strip, pixels):
    """Set pixels[x, o] = strip[o, x]."""
    flat = pixels.reshape(pixels.size)
    for x in range(strip.shape[1]):
        for o in range(ORIENTATIONS):
            flat[ORIENTATIONS * x + o] = strip[o, x]


@part
def copy_eight(source, target):
    """Copy eight numbers at once: all are read before any is written, even where arrays overlap."""
    a, b, c, d = source[0], source[1], source[2], source[3]
    e, f, g, h = source[4], source[5], source[6], source[7]
    target[0], target[1], target[2], target[3] = a, b, c, d
    target[4], target[5], target[6], target[7] = e, f, g, h


@part
def fold(pixels, folded):
    """Set folded[r, m] = pixels[m · step + r]: what neighbouring patches have at the same place becomes neighbours."""
    step = folded.shape[0]
    for m in range(folded.shape[1]):
        for r in range(step):
            copy_eight(pixels[m * step + r], folded[r, m])


@part
def sum_columns(folded, width, left, weights, cells):
    """Set cells[p] = Σ over x of weights[x] times the pixel left + x + p · step, of those from 0 to width."""
    step, folds, eight = folded.shape[0], folded.shape[1], ORIENTATIONS
    lanes, total = folded.reshape(step, folds * eight), cells.reshape(cells.size)
    total[:] = np.float32(0)
    m, r, rest = left // step, left % step, width - (folds - 1) * step
    for x in range(weights.shape[0]):
        low, inside = max(-m, 0), folds if r < rest else folds - 1
        high = max(min(inside - m, cells.shape[0]), low)
        add_multiple(total[low * eight : high * eight], weights[x], lanes[r, (m + low) * eight : (m + high) * eight])
        r += 1
        if r == step:
            m, r = m + 1, 0


@part
def sum_strip(strip, pixels, folded, width, left, starts, weights, kinds, cells):
    """Fill cells[i, p], cell i of patch p, for all columns i of cells that are not repeated."""
    turn_over(strip, pixels)
    fold(pixels, folded)
    for i in range(4):
        if kinds[i] == i:
            sum_columns(folded, width, left + starts[i], weights[i], cells[i])


@part
def copy_cells(cells, kinds, shifts, out, q, j):
    """Set out[q, p, j, i] = cells[kinds[i], p + shifts[i]]."""
    for i in range(4):
        shifted = cells[kinds[i], shifts[i] :]
        for p in range(out.shape[1]):
            copy_eight(shifted[p], out[q, p, j, i])


@part
def norm(row):
    """Return the norm of a descriptor."""
    total = np.float32(0)
    for s in range(row.shape[0]):
        total += row[s] * row[s]
    return math.sqrt(total)


@part
def normalise(row, least, clip):
    """Scale to unit norm, cut entries at ``clip``, scale again, in place; zero where the norm is at most ``least``."""
    before = norm(row)
    if before <= least:
        row[:] = np.float32(0)
        return
    scale = np.float32(1) / before
    for s in range(row.shape[0]):
        row[s] = min(scale * row[s], clip)
    scale = np.float32(1) / norm(row)
    for s in range(row.shape[0]):
        row[s] *= scale


@part
def repeats(step, starts, weights):
    """Return kinds and shifts: cell i of a patch is cell kinds[i] ≤ i of the patch shifts[i] steps further."""
    kinds, shifts = np.arange(4), np.zeros(4, np.int64)
    for i in range(1, 4):
        for k in range(i):
            alike = (starts[i] - starts[k]) % step == 0
            for x in range(weights.shape[1]):
                alike = alike and weights[i, x] == weights[k, x]
            if alike and kinds[i] == i:
                kinds[i], shifts[i] = k, (starts[i] - starts[k]) // step
    return kinds, shifts


@kernel
def describe(image, top, left, step, starts, weights, least, clip, descriptors):
    """Compute the descriptors [q, p] of the patches whose first pixels are top + q · step, left + p · step.

    Cell (j, i) of a patch, row j and column i, sums ``weights[j, y] · weights[i, x]`` times the shares of the pixels at
    ``starts[j] + y, starts[i] + x`` from the first one that are in the image; starts ascend. Weights of the two
    directions are apart. So rows of pixels are summed to strips one cell high, and these along x, for all patches of a
    row at once; what patches have in common is summed once. Shares are kept of the rows of one strip only.
    """
    height, width = image.shape
    down, across, _ = descriptors.shape
    reach, folds = weights.shape[1], (width + step - 1) // step
    whole = (folds * step + 15) // 16 * 16  # no rest when vectors of 16 numbers are computed at once
    padded, ring = np.empty((3, whole + 2), np.float32), np.empty((reach, ORIENTATIONS, whole), np.float32)
    strip, pixels = np.empty((ORIENTATIONS, whole), np.float32), np.empty((whole, ORIENTATIONS), np.float32)
    folded = np.empty((step, folds, ORIENTATIONS), np.float32)
    kinds, shifts = repeats(step, starts, weights)
    cells = np.empty((4, across + shifts.max(), ORIENTATIONS), np.float32)
    out = descriptors.reshape(down, across, 4, 4, ORIENTATIONS)
    pad(image[0], padded[2])
    pad(image[0], padded[0])
    shared = 0
    for y in range(top + starts[0], top + (down - 1) * step + starts[3] + 1):
        first, last = max(y, 0), min(y + reach, height)
        summed = -1
        for j in range(4):
            q, rest = (y - top - starts[j]) // step, (y - top - starts[j]) % step
            if rest != 0 or q < 0 or q >= down:
                continue
            if kinds[j] != summed:
                share_rows(image, shared, last, padded, ring)
                sum_rows(ring, first, weights[j, first - y : last - y], strip)
                sum_strip(strip, pixels, folded, width, left, starts, weights, kinds, cells)
                shared, summed = last, kinds[j]
            copy_cells(cells, kinds, shifts, out, q, j)
            if j == 3:
                for p in range(across):
                    normalise(descriptors[q, p], least, clip)


@part
def insert(distance, word, nearest, distances):
    """Keep the smallest distances in rising order."""
    s = nearest.shape[0] - 1
    while s > 0 and distances[s - 1] > distance:
        nearest[s], distances[s] = nearest[s - 1], distances[s - 1]
        s -= 1
    nearest[s], distances[s] = word, distance


@kernel
def nearest_words(products, half_norms, k):
    """Return the k words of least ½‖b‖² − x·b, nearest first, from products x·b (n, r) and half_norms ½‖b‖² (r,)."""
    n, r = products.shape
    nearest = np.zeros((n, k), np.int32)
    distances, line = np.empty(k, np.float32), np.empty(r, np.float32)
    for i in range(n):
        row = products[i]
        for j in range(r):
            line[j] = half_norms[j] - row[j]
        distances[:] = np.float32(np.finfo(np.float32).max)
        for first in range(0, r, 16):  # few blocks hold a near word: most are passed by after one comparison
            last = min(first + 16, r)
            least = line[first]
            for j in range(first + 1, last):
                least = min(least, line[j])
            if least < distances[k - 1]:
                for j in range(first, last):
                    if line[j] < distances[k - 1]:
                        insert(line[j], j, nearest[i], distances)
    return nearest


@part
def factor_and_solve(C, w, least):
    """Solve Cw = 1 for a positive definite C by Cholesky's method, in place; pivots are ``least`` or more."""
    k = w.shape[0]
    for i in range(k):
        for j in range(i + 1):
            entry = C[i, j]
            for t in range(j):
                entry -= C[i, t] * C[j, t]
            C[i, j] = math.sqrt(max(entry, least)) if i == j else entry / C[j, j]
    for i in range(k):
        total = 1.0
        for t in range(i):
            total -= C[i, t] * w[t]
        w[i] = total / C[i, i]
    for i in range(k - 1, -1, -1):
        for t in range(i + 1, k):
            w[i] -= C[t, i] * w[t]
        w[i] /= C[i, i]


@kernel
def local_weights(X, words, nearest, ridge):
    """Return weights (n, k) of sum one that rebuild x from its nearest words: argmin ‖x − wB‖² + ridge·tr(C)‖w‖².

    C = (B − x)(B − x)ᵀ; the minimiser is proportional to the solution of (C + ridge·tr(C) I) w = 1. A descriptor that
    equals all of its words has equal weights.
    """
    n, k = nearest.shape
    m = X.shape[1]
    out, shifted = np.empty((n, k), np.float32), np.empty((k, m), np.float32)
    C, w = np.empty((k, k)), np.empty(k)
    for i in range(n):
        x, trace = X[i], 0.0
        for a in range(k):
            row, word = shifted[a], words[nearest[i, a]]
            for s in range(m):
                row[s] = word[s] - x[s]
            for b in range(a + 1):
                C[a, b] = dot(row, shifted[b])
            trace += C[a, a]
        for a in range(k):
            C[a, a] += ridge * trace if trace > 0 else 1.0
        factor_and_solve(C, w, 1e-7 * trace)  # 1e-7: products in single precision
        total = np.sum(w)
        for a in range(k):
            out[i, a] = w[a] / total
    return out


@kernel
def add_to_words(X, nearest, sums, counts):
    """Add each descriptor to the sum of its nearest word."""
    for i in range(X.shape[0]):
        row, x = sums[nearest[i]], X[i]
        for s in range(x.shape[0]):
            row[s] += x[s]
        counts[nearest[i]] += 1


@kernel
def pool_max(indptr, indices, data, cells, out):
    """Set out[c, j] to the largest of the codes j of the descriptors in cell c, and zero; ``cells`` (n, levels)."""
    for i in range(indptr.shape[0] - 1):
        for level in range(cells.shape[1]):
            row = out[cells[i, level]]
            for s in range(indptr[i], indptr[i + 1]):
                row[indices[s]] = max(row[indices[s]], data[s])


@kernel
def pool_sum(indptr, indices, data, cells, out):
    """Set out[c, j] to the sum of the codes j of the descriptors in cell c; ``cells`` (n, levels)."""
    for i in range(indptr.shape[0] - 1):
        for level in range(cells.shape[1]):
            row = out[cells[i, level]]
            for s in range(indptr[i], indptr[i + 1]):
                row[indices[s]] += data[s]


@kernel
def signed_roots(X, out):
    """Set out to √|x| with the sign of x."""
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            out[i, j] = math.copysign(math.sqrt(abs(X[i, j])), X[i, j])


@kernel
def posteriors(scores, least):
    """Turn rows of log likelihoods into posteriors, in place; those below ``least`` become zero."""
    n, r = scores.shape
    reach = math.log(least)
    for i in range(n):
        row, top, total = scores[i], scores[i, 0], np.float32(0.0)
        for k in range(1, r):
            top = max(top, row[k])
        for k in range(r):
            below = row[k] - top
            row[k] = math.exp(below) if below > reach else 0.0
            total += row[k]
        for k in range(r):
            row[k] = row[k] / total if row[k] >= least * total else 0.0


@kernel
def fisher_sums(Z, shares, centres, scales, roots, cells, out):
    """Add γₖ/√πₖ · u and γₖ/√(2πₖ) · (u² − 1), u = (z − cₖ)/σₖ, to the cells of each descriptor.

    ``shares`` are posteriors γ (n, r), ``scales`` 1/σ, ``roots`` 1/√π, ``cells`` (n, levels). A Gaussian has 2d columns
    of ``out``: d of its centre, d of its variances.
    """
    d = Z.shape[1]
    half, code = np.float32(math.sqrt(0.5)), np.empty(2 * d, np.float32)
    for i in range(Z.shape[0]):
        for k in range(centres.shape[0]):
            share = shares[i, k] * roots[k]
            if share > 0:
                for j in range(d):
                    u = (Z[i, j] - centres[k, j]) * scales[k, j]
                    code[j], code[d + j] = share * u, share * half * (u * u - 1)
                for level in range(cells.shape[1]):
                    row = out[cells[i, level], 2 * d * k : 2 * d * (k + 1)]
                    for j in range(2 * d):
                        row[j] += code[j]


@kernel
def intersections(row, indptr, indices, data, out):
    """Set out[i] = Σⱼ min(rowⱼ, yᵢⱼ) over the stored entries of the sparse yᵢ; both without negative entries."""
    for i in range(indptr.shape[0] - 1):
        total = 0.0
        for s in range(indptr[i], indptr[i + 1]):
            total += min(row[indices[s]], data[s])
        out[i] = total
