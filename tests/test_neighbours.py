"""Nearest neighbours against sorting all distances, exact and approximate."""

import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from sparlow import graphs
from sparlow import neighbours as search
from tests.test_graphs import N, nearest, unequal

# ── exact neighbours, whatever the samples ──────────────────────────────────────────────────────────────────────────


def first_of_nearest(X, k, allowed):
    """Pairs (i, j) with j among the k nearest to i of those allowed, the first of equals, from exact differences."""
    pairs = np.zeros((len(X), len(X)), bool)
    for i, row in enumerate(X):
        squares = np.sum((X.astype(float) - row) ** 2, axis=1)
        order = np.lexsort((np.arange(len(X)), squares))
        pairs[i, order[allowed[i, order]][:k]] = True
    return pairs


def kinds_of_samples():
    rng = np.random.default_rng(0)
    plain = rng.standard_normal((90, 5))
    return {
        "plain": plain,
        "float32": plain.astype(np.float32),
        "Fortran order": np.asfortranarray(plain),
        "sparse": sp.csr_array(plain * (rng.random(plain.shape) < 0.5)),
        "whole numbers": rng.integers(0, 2, (90, 4)),
        "far from the origin": rng.integers(0, 3, (90, 4)) + 2.0**30,
        "duplicates": np.repeat(plain[:9], 10, axis=0),
        "one far away": np.vstack([plain[1:], np.full((1, 5), 1e9)]),
        "one too far for single precision": np.vstack([plain[1:], np.full((1, 5), 1e60)]),
        "large": plain * 2.0**500,
        "small": plain * 2.0**-500,
        "constant": np.ones((90, 3)),
        "zero, sparse": sp.csr_array((90, 3)),
        "many features": rng.standard_normal((90, 2049)),
    }


@pytest.mark.interpreted
@pytest.mark.parametrize("kind", kinds_of_samples())
@pytest.mark.parametrize("block", [16, 1024])
def test_neighbours_are_exact_and_the_first_of_equals(kind, block, monkeypatch):
    monkeypatch.setattr(search, "_BLOCK", block)
    monkeypatch.setattr(search, "_ROWS", 50)
    X = kinds_of_samples()[kind]
    dense = (X.toarray() if sp.issparse(X) else X).astype(float)
    if kind in ("large", "small"):
        dense = dense / np.abs(dense).max()
    y = np.random.default_rng(1).integers(-1, 3, 90)
    known = np.outer(y >= 0, y >= 0)
    same = (y[:, None] == y) & known & ~np.eye(90, dtype=bool)
    for k_within, k_between in ((3, 7), (40, 2)):
        within, between = search.class_neighbours(X, y, k_within, k_between)
        for (rows, columns), k, allowed in (
            (within, k_within, same),
            (between, k_between, known & (y[:, None] != y)),
        ):
            found = np.zeros((90, 90), int)
            np.add.at(found, (rows, columns), 1)
            np.testing.assert_array_equal(found, first_of_nearest(dense, k, allowed))
    distances, indices = graphs.neighbours(X, 4)
    found = np.zeros((90, 90), int)
    np.add.at(found, (np.arange(90)[:, None], indices), 1)
    np.testing.assert_array_equal(found, first_of_nearest(dense, 4, ~np.eye(90, dtype=bool)))
    assert np.all(np.diff(distances, axis=1) >= 0)
    if kind not in ("large", "small"):
        np.testing.assert_allclose(distances, np.linalg.norm(dense[:, None] - dense[indices], axis=2), rtol=1e-12)


@pytest.mark.parametrize("sparse", [False, True])
def test_neighbours_of_queries(sparse):
    rng = np.random.default_rng(0)
    X, queries = rng.standard_normal((60, 4)), rng.standard_normal((9, 4))
    given = (sp.csr_array(X), sp.csr_array(queries)) if sparse else (X, queries)
    distances, indices = graphs.neighbours(given[0], 5, given[1])
    expected = cdist(queries, X)
    np.testing.assert_array_equal(indices, np.argsort(expected, axis=1)[:, :5])
    np.testing.assert_allclose(distances, np.sort(expected, axis=1)[:, :5])
    np.testing.assert_array_equal(graphs.neighbours(X, 5, sp.csr_array(queries))[1], indices)
    assert graphs.neighbours(X, 60, X[:2])[1].shape == (2, 60)


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_exact_neighbours_do_not_depend_on_the_number_of_threads(n_jobs, monkeypatch):
    monkeypatch.setattr(search, "_BLOCK", 64)
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 3, (700, 6)).astype(float), rng.integers(0, 4, 700)
    for one, more in zip(graphs.neighbours(X, 8), graphs.neighbours(X, 8, n_jobs=n_jobs), strict=True):
        assert np.array_equal(one, more)
    for one, more in zip(
        graphs.class_neighbours(X, y, 5, 9), graphs.class_neighbours(X, y, 5, 9, n_jobs=n_jobs), strict=True
    ):
        assert (one != more).nnz == 0


def test_progress_is_told_up_to_the_end(monkeypatch):
    monkeypatch.setattr(search, "_BLOCK", 16)
    X, y = unequal()
    for build in (
        lambda told: graphs.neighbours(X, 3, progress=told),
        lambda told: graphs.affinities(X, 3, progress=told),
        lambda told: graphs.barycentric_residual(X, 3, progress=told),
        lambda told: graphs.class_neighbours(X, y, 3, 3, progress=told),
    ):
        shares = []
        build(shares.append)
        assert len(shares) == 3
        assert shares == sorted(shares)
        assert shares[-1] == 1


@pytest.mark.parametrize("k", [0, N])
def test_numbers_of_neighbours_that_cannot_be(k):
    with pytest.raises(ValueError, match=f"from 1 to {N - 1}"):
        graphs.neighbours(unequal()[0], k)


def test_masked_samples_are_refused():
    X = np.ma.masked_greater(unequal()[0], 1)
    for build in (lambda: graphs.affinities(X, 3), lambda: graphs.class_neighbours(X, unequal()[1], 2, 2)):
        with pytest.raises(ValueError, match="masked"):
            build()


# ── large numbers of samples ────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def descent(monkeypatch):
    """Approximate neighbours from 300 samples on, of a compiler that is quiet about what it compiles."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pynndescent
    monkeypatch.setattr(search, "EXACT", 300)
    return pynndescent


def many():
    rng = np.random.default_rng(0)
    return rng.standard_normal((10, 8))[rng.integers(0, 10, 500)] + 0.5 * rng.standard_normal((500, 8))


@pytest.mark.slow
def test_approximate_neighbours_are_nearly_the_exact_ones(descent):
    X, k = many(), 10
    distances, indices = graphs.neighbours(X, k)
    assert indices.shape == distances.shape == (500, k)
    assert not np.any(indices == np.arange(500)[:, None])
    exact = nearest(X, k)
    recall = np.mean(exact[np.arange(500)[:, None], indices])
    assert recall >= 0.9
    np.testing.assert_allclose(distances, np.linalg.norm(X[:, None] - X[indices], axis=2), rtol=1e-4)
    again = graphs.neighbours(X, k)[1]
    assert np.array_equal(indices, again)
    assert np.array_equal(indices, graphs.neighbours(X, k, n_jobs=2)[1])


@pytest.mark.slow
def test_approximate_neighbours_of_duplicates_are_never_oneself(descent):
    X = np.repeat(many()[:60], 6, axis=0)
    _, indices = graphs.neighbours(X, 4)
    assert indices.shape == (360, 4)
    assert not np.any(indices == np.arange(360)[:, None])
    assert np.all(indices >= 0)


def test_approximate_class_neighbours_are_nearly_the_exact_ones(monkeypatch):
    """Cell by cell; a class of few samples and unlabelled ones among them."""
    rng = np.random.default_rng(0)
    y = rng.choice(4, 900, p=[0.5, 0.3, 0.17, 0.03])
    X = rng.standard_normal((4, 8))[y] + rng.standard_normal((900, 8)) * np.arange(8, 0, -1) / 4
    y[::9] = -1
    exact = graphs.class_neighbours(X, y, 8, 16)
    monkeypatch.setattr(search, "EXACT_CLASSES", 300)
    monkeypatch.setattr(search, "CELL", 20)
    monkeypatch.setattr(search, "PROBED", 150)
    compared = []
    products = search.Points.products
    monkeypatch.setattr(search.Points, "products", lambda *args: compared.append(products(*args)) or compared[-1])
    approximate = graphs.class_neighbours(X, y, 8, 16)
    assert sum(block.size for block in compared) < 0.7 * 800**2 / 2
    for found, truth in zip(approximate, exact, strict=True):
        shared = found.multiply(truth).sum()
        assert 0.9 < min(shared / truth.sum(), shared / found.sum()) < 1
        assert (found - found.T).nnz == 0
    for found, again in zip(approximate, graphs.class_neighbours(X, y, 8, 16, n_jobs=2), strict=True):
        assert (found != again).nnz == 0
    within, between = (graph.tocoo() for graph in approximate)
    assert np.all(y[within.row] == y[within.col])
    assert np.all(y[between.row] != y[between.col])
    assert min(y[between.row].min(), y[within.row].min()) == 0


def test_without_pynndescent_neighbours_are_exact_and_a_warning_names_the_extra(monkeypatch):
    monkeypatch.setattr(search, "EXACT", 300)
    monkeypatch.setitem(sys.modules, "pynndescent", None)
    X = many()
    with pytest.warns(UserWarning, match=r"sparlow\[graphs\]"):
        _, indices = graphs.neighbours(X, 3)
    assert np.all(nearest(X, 3)[np.arange(500)[:, None], indices])


def test_small_numbers_of_samples_do_without_pynndescent(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynndescent", None)
    graphs.neighbours(many(), 3)


@pytest.mark.slow
def test_approximate_neighbours_do_not_depend_on_the_number_of_threads(monkeypatch):
    monkeypatch.setattr(search, "EXACT", 100)
    X = np.random.default_rng(0).standard_normal((2000, 8))
    one, two = (graphs.neighbours(X, 8, n_jobs=n_jobs)[1] for n_jobs in (1, 2))
    np.testing.assert_array_equal(one, two)
