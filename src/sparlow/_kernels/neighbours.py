"""Nearest samples of the same class and of other classes, picked from blocks of inner products."""

import numpy as np

from .compilation import kernel, part


@kernel
def keep_nearest(products, first_row, first_column, both, row_terms, terms, row_labels, labels, same, other):
    """Add candidates from a block of products ⟨xᵢ, xⱼ⟩ to the lists of the rows i and, if ``both``, of the columns j.

    ``row_terms`` and ``terms`` are such that row_termᵢ + termⱼ − 2⟨xᵢ, xⱼ⟩ is a lower bound of the squared distance.
    Labels of the columns are sorted. ``same`` and ``other`` hold (values, indices, counts, limits, size) of the lists
    of samples of the same and of other classes: the ``size`` smallest bounds so far and some more. Bounds that were
    left out are at least ``limits``. Blocks on the diagonal, where both ends are the same samples, count pairs once.
    """
    height, width = products.shape
    columns, column_terms = labels[first_column : first_column + width], terms[first_column : first_column + width]
    for i in range(height):
        row, line = first_row + i, products[i]
        start = i + 1 if both and first_row == first_column else 0
        low = max(start, np.searchsorted(columns, row_labels[row], "left"))
        high = max(low, np.searchsorted(columns, row_labels[row], "right"))
        _scan(line, start, low, row, first_column, both, row_terms[row], column_terms, other)
        _scan(line, low, high, row, first_column, both, row_terms[row], column_terms, same)
        _scan(line, high, width, row, first_column, both, row_terms[row], column_terms, other)


@part
def _scan(products, start, stop, row, first_column, both, row_term, terms, lists):
    """Add the candidates from ``start`` to ``stop`` of one row of products."""
    limits, two = lists[3], np.float32(2)
    for low in range(start, stop, 16):  # most strides hold no candidate
        high = min(low + 16, stop)
        own = other = np.float32(np.inf)
        for j in range(low, high):
            bound = row_term + terms[j] - two * products[j]
            own = min(own, bound)
            if both:
                other = min(other, bound - limits[first_column + j])
        if own < limits[row] or (both and other < 0):
            for j in range(low, high):
                bound = row_term + terms[j] - two * products[j]
                if bound < limits[row]:
                    _add(row, first_column + j, bound, lists)
                if both and bound < limits[first_column + j]:
                    _add(first_column + j, row, bound, lists)


@part
def _add(row, column, bound, lists):
    """Add a candidate to the list of a row; a full list is cut to the smallest bounds."""
    values, indices, counts, limits, size = lists
    count = counts[row]
    values[row, count], indices[row, count] = bound, column
    counts[row] = count + 1
    if count + 1 == values.shape[1]:
        limits[row] = _select(values[row], indices[row], count + 1, size)
        counts[row] = size


@part
def _select(values, indices, count, size):
    """Move the ``size`` smallest of the first ``count`` values to the front, and return the largest of these."""
    low, high = 0, count - 1
    while low < high:
        pivot = values[(low + high) // 2]
        left, right = low, high
        while left <= right:
            while values[left] < pivot:
                left += 1
            while values[right] > pivot:
                right -= 1
            if left <= right:
                values[left], values[right] = values[right], values[left]
                indices[left], indices[right] = indices[right], indices[left]
                left += 1
                right -= 1
        if size - 1 <= right:
            high = right
        elif size - 1 >= left:
            low = left
        else:
            break
    return values[size - 1]


@kernel
def judge(values, indices, counts, k, row_errors, errors, verdicts, bounds):
    """Decide which candidates are among the k nearest: 1 yes, 0 no, 2 only their exact distance can tell.

    Squared distances lie between ``values`` and ``values`` + row_errorᵢ + errorⱼ. ``bounds`` becomes an upper bound of
    the k-th smallest squared distance, −inf where there are no more than k candidates.
    """
    room, places = np.empty(values.shape[1], values.dtype), np.empty(values.shape[1], np.int32)
    for i in range(values.shape[0]):
        count = counts[i]
        if count <= k:
            verdicts[i, :count] = 1
            bounds[i] = -np.inf
            continue
        room[:count] = values[i, :count]
        least = _select(room, places, count, k)
        for s in range(count):
            room[s] = values[i, s] + (row_errors[i] + errors[indices[i, s]])
        bounds[i] = _select(room, places, count, k)
        for s in range(count):
            if values[i, s] > bounds[i]:
                verdicts[i, s] = 0
            else:
                verdicts[i, s] = 1 if values[i, s] + (row_errors[i] + errors[indices[i, s]]) < least else 2


@kernel
def squared_distances(X, Y, rows, columns, scale, out):
    """Return squared distances ‖scale (xᵢ − yⱼ)‖² of pairs of samples, in double precision."""
    for p in range(rows.shape[0]):
        x, y = X[rows[p]], Y[columns[p]]
        total = 0.0
        for a in range(x.shape[0]):
            difference = scale * (np.float64(x[a]) - np.float64(y[a]))
            total += difference * difference
        out[p] = total
