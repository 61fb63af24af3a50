"""Wavelet scattering of one image after another, by Fourier transforms of many columns at once.

Numbers at the points of a grid are stored as ``array[row, column · lanes + lane]``. The lanes are wavelets of several
angles: they lie next to each other, so that every loop runs over many equal operations. Spectra are transposed:
``array[column frequency, row frequency · lanes + lane]``.

A Fourier transform of length n works in place on n rows of a *buffer*. Row i begins at ``buffer[i · PITCH]``. It has up
to ``WIDTH`` real parts, and the imaginary parts begin ``WIDTH`` numbers further on. As these are constants, the
compiler can check quickly that rows do not overlap. Rows end up in another order, which the plan of the transform
tells. All transforms are forward; the inverse has frequency −f in the place of f.
"""

import math

import numpy as np

from .compilation import kernel, part

LANES = 8
WIDTH = 12 * LANES
PITCH = 2 * WIDTH


@part
def butterfly_2(a, b, turns, width):
    """Transform two rows, and multiply result k ≥ 1 by the complex number turns[k − 1], as in all butterflies."""
    c, s = turns[0, 0], turns[0, 1]
    for x in range(width):
        pr, pi = a[x] - b[x], a[x + WIDTH] - b[x + WIDTH]
        a[x], a[x + WIDTH] = a[x] + b[x], a[x + WIDTH] + b[x + WIDTH]
        b[x], b[x + WIDTH] = pr * c - pi * s, pr * s + pi * c


@part
def butterfly_3(a, b, c, roots, turns, width):
    """Transform three rows; roots[1] is the first root of unity."""
    cosine, sine = roots[1, 0], roots[1, 1]
    c1, s1, c2, s2 = turns[0, 0], turns[0, 1], turns[1, 0], turns[1, 1]
    for x in range(width):
        tr, ti = b[x] + c[x], b[x + WIDTH] + c[x + WIDTH]
        ur, ui = sine * (b[x] - c[x]), sine * (b[x + WIDTH] - c[x + WIDTH])
        mr, mi = a[x] + cosine * tr, a[x + WIDTH] + cosine * ti
        a[x], a[x + WIDTH] = a[x] + tr, a[x + WIDTH] + ti
        pr, pi, qr, qi = mr + ui, mi - ur, mr - ui, mi + ur
        b[x], b[x + WIDTH] = pr * c1 - pi * s1, pr * s1 + pi * c1
        c[x], c[x + WIDTH] = qr * c2 - qi * s2, qr * s2 + qi * c2


@part
def butterfly_4(a, b, c, d, turns, width):
    """Transform four rows."""
    c1, s1, c2, s2, c3, s3 = turns[0, 0], turns[0, 1], turns[1, 0], turns[1, 1], turns[2, 0], turns[2, 1]
    for x in range(width):
        er, ei, fr, fi = a[x] + c[x], a[x + WIDTH] + c[x + WIDTH], a[x] - c[x], a[x + WIDTH] - c[x + WIDTH]
        gr, gi, hr, hi = b[x] + d[x], b[x + WIDTH] + d[x + WIDTH], b[x] - d[x], b[x + WIDTH] - d[x + WIDTH]
        a[x], a[x + WIDTH] = er + gr, ei + gi
        pr, pi, qr, qi, rr, ri = fr + hi, fi - hr, er - gr, ei - gi, fr - hi, fi + hr
        b[x], b[x + WIDTH] = pr * c1 - pi * s1, pr * s1 + pi * c1
        c[x], c[x + WIDTH] = qr * c2 - qi * s2, qr * s2 + qi * c2
        d[x], d[x + WIDTH] = rr * c3 - ri * s3, rr * s3 + ri * c3


@part
def sum_and_difference(a, b, target, width):
    """Store the sum and the difference of two complex rows."""
    for x in range(width):
        target[x], target[x + WIDTH] = a[x] + b[x], a[x + WIDTH] + b[x + WIDTH]
        target[x + PITCH], target[x + PITCH + WIDTH] = a[x] - b[x], a[x + WIDTH] - b[x + WIDTH]


@part
def begin_pair(first, a, b, spare, root, other_root, width):
    """Set a = first + Σ Re(root) · sum and b = Σ Im(root) · difference, over two of the pairs in ``spare``."""
    c, s, e, t = root[0], root[1], other_root[0], other_root[1]
    for x in range(width):
        a[x] = first[x] + c * spare[x] + e * spare[x + 2 * PITCH]
        a[x + WIDTH] = first[x + WIDTH] + c * spare[x + WIDTH] + e * spare[x + 2 * PITCH + WIDTH]
        b[x] = s * spare[x + PITCH] + t * spare[x + 3 * PITCH]
        b[x + WIDTH] = s * spare[x + PITCH + WIDTH] + t * spare[x + 3 * PITCH + WIDTH]


@part
def add_to_pair(a, b, spare, root, other_root, width):
    """Add two more pairs."""
    c, s, e, t = root[0], root[1], other_root[0], other_root[1]
    for x in range(width):
        a[x] += c * spare[x] + e * spare[x + 2 * PITCH]
        a[x + WIDTH] += c * spare[x + WIDTH] + e * spare[x + 2 * PITCH + WIDTH]
        b[x] += s * spare[x + PITCH] + t * spare[x + 3 * PITCH]
        b[x + WIDTH] += s * spare[x + PITCH + WIDTH] + t * spare[x + 3 * PITCH + WIDTH]


@part
def finish_pair(a, b, turn, other_turn, width):
    """Compute the results k and r − k, which are a − ib and a + ib, and multiply each by its turn."""
    c1, s1, c2, s2 = turn[0], turn[1], other_turn[0], other_turn[1]
    for x in range(width):
        pr, pi, qr, qi = a[x] + b[x + WIDTH], a[x + WIDTH] - b[x], a[x] - b[x + WIDTH], a[x + WIDTH] + b[x]
        a[x], a[x + WIDTH] = pr * c1 - pi * s1, pr * s1 + pi * c1
        b[x], b[x + WIDTH] = qr * c2 - qi * s2, qr * s2 + qi * c2


@part
def add_sums(a, spare, width):
    """Add the sums of two pairs."""
    for x in range(width):
        a[x] += spare[x] + spare[x + 2 * PITCH]
        a[x + WIDTH] += spare[x + WIDTH] + spare[x + 2 * PITCH + WIDTH]


@part
def butterfly_odd(buffer, start, step, radix, roots, turns, spare, width):
    """Transform an odd number r ≥ 5 of rows, the first being ``start``, the others ``step`` rows apart.

    Rows j and r − j occur in results k and r − k as their sum and their difference, which halves the products. Pairs
    are taken two at a time; a pair of zeros makes their number even.
    """
    half = radix // 2
    first = buffer[start * PITCH :]
    spare[2 * half * PITCH : 2 * (half + 1) * PITCH] = 0
    for j in range(1, half + 1):
        a, b = buffer[(start + j * step) * PITCH :], buffer[(start + (radix - j) * step) * PITCH :]
        sum_and_difference(a, b, spare[2 * (j - 1) * PITCH :], width)
    for k in range(1, half + 1):
        a, b = buffer[(start + k * step) * PITCH :], buffer[(start + (radix - k) * step) * PITCH :]
        begin_pair(first, a, b, spare, roots[k], roots[2 * k % radix], width)
        for j in range(3, half + 1, 2):
            pairs = spare[2 * (j - 1) * PITCH :]
            add_to_pair(a, b, pairs, roots[j * k % radix], roots[(j + 1) * k % radix], width)
        finish_pair(a, b, turns[k - 1], turns[radix - k - 1], width)
    for j in range(0, half, 2):
        add_sums(first, spare[2 * j * PITCH :], width)


@part
def transform(buffer, spare, n, width, radices, turns):
    """Transform the n rows of a buffer in place, radix by radix, by decimation in frequency."""
    length, at = n, 0
    for stage in range(radices.shape[0]):
        radix = radices[stage]
        if radix == 0:
            break
        step = length // radix
        roots = turns[at:]
        at += radix
        for p in range(step):
            for start in range(p, n, length):
                a, b = buffer[start * PITCH :], buffer[(start + step) * PITCH :]
                if radix == 4:
                    c, d = buffer[(start + 2 * step) * PITCH :], buffer[(start + 3 * step) * PITCH :]
                    butterfly_4(a, b, c, d, turns[at:], width)
                elif radix == 3:
                    butterfly_3(a, b, buffer[(start + 2 * step) * PITCH :], roots, turns[at:], width)
                elif radix == 2:
                    butterfly_2(a, b, turns[at:], width)
                else:
                    butterfly_odd(buffer, start, step, radix, roots, turns[at:], spare, width)
            at += radix - 1
        length = step


@part
def move(source, i, target, k):
    """Copy the lanes of one point. All are read before any is written, so that they move at once."""
    a, b, c, d = source[i, 0], source[i, 1], source[i, 2], source[i, 3]
    e, f, g, h = source[i, 4], source[i, 5], source[i, 6], source[i, 7]
    target[k, 0], target[k, 1], target[k, 2], target[k, 3] = a, b, c, d
    target[k, 4], target[k, 5], target[k, 6], target[k, 7] = e, f, g, h


@part
def fill(value, target, k):
    """Set eight entries of a row to one value."""
    target[k, 0], target[k, 1], target[k, 2], target[k, 3] = value, value, value, value
    target[k, 4], target[k, 5], target[k, 6], target[k, 7] = value, value, value, value


@part
def points(array):
    """Return a view with one row for the lanes of each point."""
    return array.reshape(array.size // LANES, LANES)


@part
def copy_row(source, target, width):
    """Copy the first entries of a row."""
    for x in range(width):
        target[x] = source[x]


@part
def evenly(count):
    """Return how many of ``count`` points to take at a time, so that their lanes fit in a row of the buffer."""
    blocks = (count * LANES + WIDTH - 1) // WIDTH
    return (count + blocks - 1) // blocks


@part
def separate(a, b, real, imaginary, other_real, other_imaginary, width):
    """Compute the spectra of two real signals at frequency f, from that of signal + i · other at f (a) and −f (b)."""
    for x in range(width):
        real[x], imaginary[x] = (a[x] + b[x]) / 2, (a[x + WIDTH] - b[x + WIDTH]) / 2
        other_real[x], other_imaginary[x] = (a[x + WIDTH] + b[x + WIDTH]) / 2, (b[x] - a[x]) / 2


@part
def negate(row):
    """Change the sign of a row, in place."""
    for x in range(row.shape[0]):
        row[x] = -row[x]


@part
def turn_over(half, length, first, last, buffer):
    """Put points (z, i, k) of ``half``, i from first to last and k < length, in row k of the buffer."""
    source, target = points(half), points(buffer)
    pitch, width, row = PITCH // LANES, WIDTH // LANES, half.shape[2] // LANES
    for z in range(2):
        for i in range(first, last):
            start, to = (z * half.shape[1] + i) * row, z * width + i - first
            for k in range(length):
                move(source, start + k, target, k * pitch + to)


@part
def spectrum(values, n, m, down, across, half, out, buffer, spare):
    """Compute the Fourier transform ``out`` (real, imaginary) of n × m real numbers; n and m are even.

    The left and the right half of a row are transformed along the columns as the real and imaginary parts of one row.
    Of the row frequencies 0 … n/2 are computed, the others are conjugate to them. ``down`` and ``across`` are the plans
    of transforms of length n and m; ``half`` is work space.
    """
    middle, count = m // 2 * LANES, n // 2 + 1
    for axis in range(2):
        total, length, plan = (m // 2, n, down) if axis == 0 else (count, m, across)
        block = evenly(total)
        for first in range(0, total, block):
            last = min(first + block, total)
            left, right, width = first * LANES, first * LANES + middle, (last - first) * LANES
            if axis == 0:
                for r in range(n):
                    copy_row(values[r, left:], buffer[r * PITCH :], width)
                    copy_row(values[r, right:], buffer[r * PITCH + WIDTH :], width)
            else:
                turn_over(half, m, first, last, buffer)
            transform(buffer, spare, length, width, plan[0], plan[1])
            if axis == 0:
                for k in range(count):
                    a, b = buffer[plan[2][1, k] * PITCH :], buffer[plan[2][1, (n - k) % n] * PITCH :]
                    real, imaginary = half[0, k], half[1, k]
                    separate(a, b, real[left:], imaginary[left:], real[right:], imaginary[right:], width)
            else:
                for c in range(m):
                    copy_row(buffer[c * PITCH :], out[0, plan[2][0, c], left:], width)
                    copy_row(buffer[c * PITCH + WIDTH :], out[1, plan[2][0, c], left:], width)
    lined, row = points(out), out.shape[2] // LANES
    for z in range(2):
        for f in range(m):
            start, to = (z * out.shape[1] + f) * row, (z * out.shape[1] + (m - f) % m) * row + n
            for k in range(1, n // 2):
                move(lined, start + k, lined, to - k)
    for f in range(m):
        negate(out[1, f, count * LANES : n * LANES])


@part
def product(real, imaginary, wavelet, row, width):
    """Multiply a complex row by a real wavelet."""
    for x in range(width):
        row[x], row[x + WIDTH] = real[x] * wavelet[x], imaginary[x] * wavelet[x]


@part
def add_products(real, imaginary, wavelet, f, g, left, right, row, width):
    """Add the products at two column frequencies and from two places on in their rows."""
    a, b, c, d = real[f, left:], real[f, right:], real[g, left:], real[g, right:]
    p, q, r, s = imaginary[f, left:], imaginary[f, right:], imaginary[g, left:], imaginary[g, right:]
    t, u, v, w = wavelet[f, left:], wavelet[f, right:], wavelet[g, left:], wavelet[g, right:]
    for x in range(width):
        row[x] += a[x] * t[x] + b[x] * u[x] + c[x] * v[x] + d[x] * w[x]
        row[x + WIDTH] += p[x] * t[x] + q[x] * u[x] + r[x] * v[x] + s[x] * w[x]


@part
def multiply(real, imaginary, wavelet, n, m, factor, left, width, buffer):
    """Multiply a spectrum by a wavelet and add up its factor² parts of n × m frequencies, from column ``left`` on."""
    for f in range(m):
        row = buffer[f * PITCH :]
        if factor == 1:
            product(real[f, left:], imaginary[f, left:], wavelet[f, left:], row, width)
        else:
            row[:PITCH] = 0
            for g in range(f, factor * m, 2 * m):
                for x in range(left, factor * n, 2 * n):
                    add_products(real, imaginary, wavelet, g, g + m, x, x + n, row, width)


@part
def modulus(row, target, width):
    """Store the modulus of a complex row."""
    for x in range(width):
        target[x] = math.sqrt(row[x] * row[x] + row[x + WIDTH] * row[x + WIDTH])


@part
def filter_and_rectify(source, wavelet, n, m, factor, down, across, half, values, buffer, spare):
    """Compute |x ⋆ ψ| at every ``factor``-th point along both axes: n × m real numbers.

    Keeping every k-th point of a signal means adding up the k parts of its spectrum. ``down`` and ``across`` are the
    plans of transforms of length n and m. The wavelet includes the constants of the inverse transform.
    """
    for axis in range(2):
        total, length, plan = (n, m, across) if axis == 0 else (m, n, down)
        block = evenly(total)
        for first in range(0, total, block):
            last = min(first + block, total)
            left, width = first * LANES, (last - first) * LANES
            if axis == 0:
                multiply(source[0], source[1], wavelet, n * LANES, m, factor, left, width, buffer)
            else:
                turn_over(half, n, first, last, buffer)
            transform(buffer, spare, length, width, plan[0], plan[1])
            for f in range(length):
                row, place = buffer[f * PITCH :], (length - plan[2][0, f]) % length
                if axis == 0:
                    copy_row(row, half[0, place, left:], width)
                    copy_row(row[WIDTH:], half[1, place, left:], width)
                else:
                    modulus(row, values[place, left:], width)


@part
def add_four(total, weights, a, b, c, d, width):
    """Add multiples of four rows, in place."""
    e, f, g, h = weights[0], weights[1], weights[2], weights[3]
    for x in range(width):
        total[x] += e * a[x] + f * b[x] + g * c[x] + h * d[x]


@part
def add_one(total, weight, a, width):
    """Add a multiple of one row, in place."""
    for x in range(width):
        total[x] += weight * a[x]


@part
def weighted_sum(rows, first, last, weights, total, width):
    """Compute Σ over i from first to last of weights[i] · rows[i]."""
    total[:width] = 0
    rest = (last - first) % 4
    for i in range(first, last - rest, 4):
        add_four(total, weights[i:], rows[i], rows[i + 1], rows[i + 2], rows[i + 3], width)
    for i in range(last - rest, last):
        add_one(total, weights[i], rows[i], width)


@part
def blur(values, m, down, across, strip, columns, out):
    """Average with the low-pass filter, along columns and then along rows: out[column, row · LANES + lane].

    ``down`` and ``across`` hold the weights for each coefficient and the range of those that count.
    """
    tall, wide = out.shape[1] // LANES, out.shape[0]
    source, target = points(strip), points(columns)
    for o in range(tall):
        weighted_sum(values, down[1][o, 0], down[1][o, 1], down[0][o], strip, m * LANES)
        for c in range(m):
            move(source, c, target, c * tall + o)
    for p in range(wide):
        weighted_sum(columns, across[1][p, 0], across[1][p, 1], across[0][p], out[p], tall * LANES)


@part
def store(blurred, lane, out):
    """Write the coefficients of one lane."""
    for p in range(out.shape[1]):
        for o in range(out.shape[0]):
            out[o, p] = blurred[p, o * LANES + lane]


@part
def spread(source, stride, lane, m, n, out):
    """Put source[f, k · stride + lane] in every lane of out."""
    target, row = points(out), out.shape[1] // LANES
    for f in range(m):
        for k in range(n):
            fill(source[f, k * stride + lane], target, f * row + k)


@part
def load(images, rows, columns, values):
    """Pad up to eight images, one in each lane; the last one fills the lanes that are left."""
    count = images.shape[0]
    for r in range(rows.shape[0]):
        for c in range(columns.shape[0]):
            for i in range(LANES):
                values[r, c * LANES + i] = images[min(i, count - 1), rows[r], columns[c]]


@part
def plan_at(plans, axis, j):
    """Return the tables of the Fourier transform of one axis and scale."""
    return plans[0][axis, j], plans[1][axis, j], plans[2][axis, j]


@part
def weights_at(low_pass, axis, j):
    """Return the low-pass weights of one axis and scale."""
    return low_pass[0][axis, j], low_pass[1][axis, j]


@kernel
def scatter(images, pixels, order, n_angles, plans, low_pass, first_bank, second_bank, starts, copies, out):
    """Compute the scattering coefficients out[i, path, row, column] of images[i].

    Parameters
    ----------
    images : (n_images, height, width)
        Real numbers.
    pixels : (n,), (m,)
        Row and column of the pixel at each point of the padded image.
    order, n_angles : int
        The highest order, and L.
    plans : (2, J, ·), (2, J, ·, 2), (2, J, 2, ·)
        Plans of the transforms of length n / 2^j and m / 2^j. Factors of the length, followed by zeros. For each factor
        its roots of unity and the turns of its results. The frequency of each row, and the row of each frequency.
    low_pass : (2, J, ·, ·), (2, J, ·, 2)
        Low-pass filter at resolution 2^−j along columns and rows. The weight of each point in each coefficient, and the
        range of the points that count.
    first_bank : (J, groups, m, n · LANES)
        Wavelets of the first order, eight angles in each group.
    second_bank, starts, copies : flat, (J, J), int
        Wavelets of scale k at resolution 2^−j. They are an array (L, m / 2^j, n / 2^j · copies) that begins at
        starts[j, k]. Each number stands in all lanes, or once.
    out : (n_images, n_paths, tall, wide)
        The result.

    """
    n, m, J, tall, wide = pixels[0].shape[0], pixels[1].shape[0], plans[0].shape[1], out.shape[2], out.shape[3]
    kind, longest = out.dtype, max(n, m)
    buffer, spare = np.empty(longest * PITCH, kind), np.empty((longest + 2) * PITCH, kind)
    values, half = np.empty((n, m * LANES), kind), np.empty((2, longest, longest * LANES), kind)
    inputs, repeated = np.empty((2, m, n * LANES), kind), np.empty((2, m, n * LANES), kind)
    spectra, expanded = np.empty((2, m, n * LANES), kind), np.empty((m if copies == 1 else 0, n * LANES), kind)
    strip, narrow = np.empty(longest * LANES, kind), np.empty((longest, tall * LANES), kind)
    blurred = np.empty((wide, tall * LANES), kind)
    for start in range(0, images.shape[0], LANES):
        stop = min(start + LANES, images.shape[0])
        down, across = plan_at(plans, 0, 0), plan_at(plans, 1, 0)
        load(images[start:stop], pixels[0], pixels[1], values)
        blur(values, m, weights_at(low_pass, 0, 0), weights_at(low_pass, 1, 0), strip, narrow, blurred)
        for image in range(start, stop):
            store(blurred, image - start, out[image, 0])
        if order == 0:
            continue
        spectrum(values, n, m, down, across, half, inputs, buffer, spare)
        for image in range(start, stop):
            for z in range(2):
                spread(inputs[z], LANES, image - start, m, n, repeated[z])
            before = 1 + J * n_angles  # paths before those of scale j and another one
            for j in range(J):
                scales = (J - 1 - j) * (order - 1)
                nj, mj, further = n >> j, m >> j, scales * n_angles
                for angle in range(0, n_angles, LANES):
                    for path in range(1 + further):
                        if path == 0:
                            k, source, wavelet = j, repeated, first_bank[j, angle // LANES]
                            factor, at, step = 1 << j, 1 + j * n_angles + angle, 1
                        else:
                            k, source, size = j + 1 + (path - 1) // n_angles, spectra, nj * mj * copies
                            begin = starts[j, k] + (path - 1) % n_angles * size
                            wavelet = second_bank[begin : begin + size].reshape(mj, nj * copies)
                            factor, at, step = 1 << (k - j), before + angle * further + path - 1, further
                            if copies == 1:
                                spread(wavelet, 1, 0, mj, nj, expanded)
                                wavelet = expanded
                        nk, mk, down, across = n >> k, m >> k, plan_at(plans, 0, k), plan_at(plans, 1, k)
                        tall_k, wide_k = weights_at(low_pass, 0, k), weights_at(low_pass, 1, k)
                        filter_and_rectify(source, wavelet, nk, mk, factor, down, across, half, values, buffer, spare)
                        blur(values, mk, tall_k, wide_k, strip, narrow, blurred)
                        for i in range(min(LANES, n_angles - angle)):
                            store(blurred, i, out[image, at + i * step])
                        if path == 0 and further > 0:
                            spectrum(values, nj, mj, down, across, half, spectra, buffer, spare)
                before += n_angles * further
