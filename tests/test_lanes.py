"""Blocks of numbers: what compiled loops do with them is what numpy does."""

import numpy as np
import pytest
from numba import njit

from sparlow._kernels import lanes
from sparlow._kernels.compilation import borrowed

pytestmark = pytest.mark.interpreted


@njit
def _dot(a, b):
    return lanes.dot(borrowed(a), borrowed(b), len(a))


@njit
def _subtract_rows(table, rows, factors, z, w):
    lanes.subtract_rows(borrowed(table), borrowed(rows), borrowed(factors), len(rows), borrowed(z), w)


@njit
def _largest_violation(z, low, high, margin, w):
    return lanes.largest_violation(borrowed(z), borrowed(low), borrowed(high), margin, w, lanes.places(w))


@njit
def _sum_of_row(matrix, i):
    return lanes.total(lanes.load(lanes.row(borrowed(matrix), i), 0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("length", [1, 7, 16, 25, 64])
def test_products_of_rows(length, dtype):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, lanes.padded(length))).astype(dtype)
    b[length:] = 0
    np.testing.assert_allclose(_dot(a[:length], b), a[:length] @ b[:length], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [16, 48, 64, 208])
def test_multiples_of_rows_are_subtracted_from_the_first_columns_only(width, dtype):
    rng = np.random.default_rng(0)
    table, z = rng.standard_normal((9, 208)).astype(dtype), rng.standard_normal(208).astype(dtype)
    rows, factors = np.array([3, 0, 8], np.uint32), rng.standard_normal(3)
    expected = z.copy()
    expected[:width] -= (factors @ table[rows, :width]).astype(dtype)
    _subtract_rows(table, rows, factors, z, width)
    np.testing.assert_allclose(z, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [16, 64, 1008])
def test_the_largest_violation_is_found_wherever_it_is(width, dtype):
    rng = np.random.default_rng(0)
    low, high = np.full(width, -1, dtype), np.full(width, 2, dtype)
    for place in {0, 5, width // 2, width - 1}:
        for value in (-4.5, 5.5):
            z = rng.uniform(-0.9, 1.9, width).astype(dtype)
            z[place - 3] = 3.0
            z[place] = value
            assert _largest_violation(z, low, high, dtype(0), width) == place
    inside = np.full(width, 1.5, dtype)
    assert _largest_violation(inside, low, high, dtype(0.25), width) == -1
    assert _largest_violation(inside, low, high, dtype(0.75), width) >= 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_a_matrix_by_any_whole_number(dtype):
    matrix = np.arange(96, dtype=dtype).reshape(3, 32)
    count = 64 // matrix.itemsize
    for i in (0, np.uint32(2), np.int64(1)):
        assert _sum_of_row(matrix, i) == matrix[i, :count].sum()
