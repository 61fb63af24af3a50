"""Histograms of gradient orientations over windows of an image."""

import math

import numpy as np

from .compilation import kernel, part

ORIENTATIONS = 8


@kernel
def smooth(image, taps):
    """Convolve columns and rows with symmetric taps; pixels beyond the border equal those on it."""
    height, width = image.shape
    reach = taps.shape[0] // 2
    padded, columns, out = np.empty(width + 2 * reach, np.float32), np.empty_like(image), np.empty_like(image)
    for y in range(height):
        row = columns[y]
        row[:] = np.float32(0)
        for t in range(taps.shape[0]):
            source, tap = image[min(max(y + t - reach, 0), height - 1)], taps[t]
            for x in range(width):
                row[x] += tap * source[x]
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
def turn(dx, dy):
    """The angle of (dx, dy) in units of π/4, from 0 to 8; atan by a polynomial, to 1e-5."""
    ax, ay = abs(dx), abs(dy)
    z = min(ax, ay) / (max(ax, ay) + np.float32(1e-30))
    s = z * z
    p = np.float32(-0.0149236) * s + np.float32(0.0670406)
    p = p * s + np.float32(-0.1482467)
    p = p * s + np.float32(0.2464287)
    p = p * s + np.float32(-0.4235095)
    p = (p * s + np.float32(1.2732106)) * z
    p = np.float32(2) - p if ay > ax else p
    p = np.float32(4) - p if dx < 0 else p
    return np.float32(8) - p if dy < 0 else p


@kernel
def gradients(image):
    """Length of the gradient, and its angle in units of π/4 from the x axis towards the top; arrays are [x, y]."""
    width, height = image.shape
    length, angle = np.empty_like(image), np.empty_like(image)
    half = np.float32(0.5)
    for x in range(width):
        left, right, column = image[max(x - 1, 0)], image[min(x + 1, width - 1)], image[x]
        lengths, angles = length[x], angle[x]
        for y in range(1, height - 1):
            dx, dy = half * (right[y] - left[y]), half * (column[y - 1] - column[y + 1])
            lengths[y], angles[y] = math.sqrt(dx * dx + dy * dy), turn(dx, dy)
        for y in (0, height - 1):
            dx, dy = half * (right[y] - left[y]), half * (column[max(y - 1, 0)] - column[min(y + 1, height - 1)])
            lengths[y], angles[y] = math.sqrt(dx * dx + dy * dy), turn(dx, dy)
    return length, angle


@kernel
def orientation_maps(length, angle):
    """Maps [x, y, orientation]: the gradient of each pixel, shared between the two orientations next to it."""
    width, height = length.shape
    maps = np.zeros((width, height, ORIENTATIONS), np.float32)
    for x in range(width):
        for y in range(height):
            turned, whole = angle[x, y], length[x, y]
            lower = int(turned)
            share = whole * (turned - np.float32(lower))
            pixel = maps[x, y]
            pixel[lower & 7] = whole - share
            pixel[(lower + 1) & 7] = share
    return maps


@part
def add_multiple(total, weight, row):
    for s in range(total.shape[0]):
        total[s] += weight * row[s]


@part
def sum_columns(maps, left, starts, weights, line, strip):
    """strip[y, i] = Σ over x of weights[i, x] maps[left + starts[i] + x, y]: the four columns of cells of a patch."""
    width, height, _ = maps.shape
    for i in range(4):
        first = left + starts[i]
        line[:] = np.float32(0)
        for x in range(max(first, 0), min(first + weights.shape[1], width)):
            add_multiple(line, weights[i, x - first], maps[x].reshape(height * ORIENTATIONS))
        strip[:, i] = line.reshape(height, ORIENTATIONS)


@kernel
def histograms(maps, lefts, tops, starts, weights, descriptors):
    """Add the raw descriptors (n, 128) of the patches at all ``tops`` and ``lefts``, row by row of the image.

    Cell (j, i) of a patch, row j and column i, sums ``weights[j, y] · weights[i, x]`` times the maps of the pixels at
    ``top + starts[j] + y, left + starts[i] + x`` that are in the image. Weights of the two directions are apart, so
    pixels are summed along x first, once for all patches of a column.
    """
    height = maps.shape[1]
    across, down = lefts.shape[0], tops.shape[0]
    line, strip = np.empty(height * ORIENTATIONS, np.float32), np.empty((height, 4, ORIENTATIONS), np.float32)
    rows = strip.reshape(height, 4 * ORIENTATIONS)
    out = descriptors.reshape(down, across, 4, 4 * ORIENTATIONS)
    for p in range(across):
        sum_columns(maps, lefts[p], starts, weights, line, strip)
        for q in range(down):
            for j in range(4):
                first, cells = tops[q] + starts[j], out[q, p, j]
                for y in range(max(first, 0), min(first + weights.shape[1], height)):
                    add_multiple(cells, weights[j, y - first], rows[y])


@part
def divide(row, norm):
    inverse = np.float32(1) / norm
    for s in range(row.shape[0]):
        row[s] *= inverse


@part
def norm(row):
    total = np.float32(0)
    for s in range(row.shape[0]):
        total += row[s] * row[s]
    return math.sqrt(total)


@kernel
def normalise(descriptors, least, clip):
    """Unit norm, entries cut at ``clip``, unit norm again, in place; zero where the norm is below ``least``."""
    for i in range(descriptors.shape[0]):
        row = descriptors[i]
        before = norm(row)
        if before <= least:
            row[:] = np.float32(0)
            continue
        divide(row, before)
        for s in range(row.shape[0]):
            row[s] = min(row[s], clip)
        divide(row, norm(row))
