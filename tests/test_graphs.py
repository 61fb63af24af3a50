"""Structure over the samples, each against an explicit n × n matrix written from its definition."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.manifold._locally_linear import barycenter_kneighbors_graph

from sparlow import graphs
from sparlow.graphs import Structure
from tests import cases

N, M, R = 23, 6, 7


def nearest(X, k, allowed=None):
    """Pairs (i, j) with j among the k nearest to i of those allowed, by sorting all distances."""
    D = cdist(X, X)
    np.fill_diagonal(D, np.inf)
    if allowed is not None:
        D[~allowed] = np.inf
    pairs = np.zeros(D.shape, bool)
    for i, row in enumerate(D):
        order = np.argsort(row)[:k]
        pairs[i, order[np.isfinite(row[order])]] = True
    return pairs


def degree_minus(adjacency):
    return np.diag(adjacency.sum(axis=1)) - adjacency


def mean_degree_one(L):
    return L / np.mean(np.diag(L))


def unequal():
    """Samples and labels of classes of 3, 5, 6 and 9 samples, in no order."""
    rng = np.random.default_rng(3)
    y = rng.permutation(np.repeat(np.arange(4), [3, 5, 6, 9]))
    return rng.standard_normal((N, M)) + y[:, None], y


def scatters(Y, y):
    """Between-class, within-class and total scatter by the textbook's sums over classes, of labelled samples."""
    known = Y[y >= 0]
    mean = known.mean(axis=0)
    between, within = np.zeros((2, Y.shape[1], Y.shape[1]))
    for c in np.unique(y[y >= 0]):
        rows = Y[y == c]
        centre = rows.mean(axis=0)
        between += len(rows) * np.outer(centre - mean, centre - mean)
        within += (rows - centre).T @ (rows - centre)
    return between, within, (known - mean).T @ (known - mean)


def parts(rng):
    """A diagonal, a symmetric sparse graph, factors and a symmetric core."""
    graph = sp.random_array((N, N), density=0.2, rng=rng, format="csr")
    core = rng.standard_normal((3, 3))
    return rng.standard_normal(N), sp.csr_array(graph + graph.T), rng.standard_normal((N, 3)), core + core.T


def structures():
    """Every combination of the parts of a structure, with the dense matrix each stands for."""
    diagonal, graph, factors, core = parts(np.random.default_rng(0))
    tall = sp.csr_array(np.where(np.abs(factors) > 1, factors, 0))
    options = {
        "diagonal": (diagonal, None, None, None),
        "graph": (np.zeros(N), graph, None, None),
        "dense factors": (np.zeros(N), None, factors, core),
        "sparse factors": (diagonal, None, tall, core),
        "all": (diagonal, graph, factors, core),
        "all, sparse": (-diagonal, graph * -0.5, tall, core),
    }
    for name, (d, g, f, k) in options.items():
        dense = np.diag(d)
        if g is not None:
            dense = dense + g.toarray()
        if f is not None:
            F = f.toarray() if sp.issparse(f) else f
            dense = dense + F @ k @ F.T
        yield name, (Structure(d, g, f, k), dense)


STRUCTURES = dict(structures())


@pytest.fixture(params=STRUCTURES)
def structure(request):
    return STRUCTURES[request.param]


@pytest.fixture
def codes():
    return sp.random_array((N, R), density=0.4, rng=np.random.default_rng(1), format="csr")


def dense_of(structure):
    return structure @ np.eye(len(structure.diagonal))


# ── the algebra of structures ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.interpreted
def test_product_and_form_are_those_of_the_dense_matrix(structure, codes):
    S, dense = structure
    Y = np.random.default_rng(2).standard_normal((N, 4))
    before = Y.copy()
    np.testing.assert_allclose(S @ Y, dense @ Y, atol=1e-12)
    np.testing.assert_array_equal(Y, before)
    expected = codes.toarray().T @ dense @ codes.toarray()
    for layout in (codes, codes.toarray(), codes.tocsc(), sp.csr_matrix(codes)):
        np.testing.assert_allclose(S.form(layout), expected, atol=1e-12)
    assert np.array_equal(S.form(codes), S.form(codes).T)
    single = S.form(codes.astype(np.float32))
    assert single.dtype == np.float64
    np.testing.assert_allclose(single, expected, atol=1e-5)


@pytest.mark.parametrize("other", STRUCTURES)
def test_sums_and_multiples(structure, other, codes):
    (S, dense), (T, second) = structure, STRUCTURES[other]
    Y = np.random.default_rng(2).standard_normal((N, 4))
    total, expected = S + T * -2.5, dense - 2.5 * second
    np.testing.assert_allclose(total @ Y, expected @ Y, atol=1e-12)
    np.testing.assert_allclose(total.form(codes), codes.T @ expected @ codes.toarray(), atol=1e-12)
    np.testing.assert_allclose(S @ Y, dense @ Y, atol=1e-12)


def test_form_is_the_same_to_the_last_bit_for_any_number_of_threads():
    codes = sp.random_array((501, 40), density=0.2, rng=np.random.default_rng(0), format="csr")
    graph = sp.random_array((501, 501), density=0.02, rng=np.random.default_rng(1), format="csr")
    S = Structure(np.arange(501.0), sp.csr_array(graph + graph.T))
    first = S.form(codes, n_jobs=1)
    assert np.array_equal(first, S.form(codes, n_jobs=2))
    assert np.array_equal(first, S.form(codes, n_jobs=3))


@pytest.mark.interpreted
@pytest.mark.parametrize("n", [1, 2, 3])
def test_forms_of_fewer_samples_than_blocks(n):
    codes = np.arange(3.0 * n).reshape(n, 3)
    S = Structure(np.arange(1.0, n + 1), sp.csr_array(np.ones((n, n))))
    expected = codes.T @ (np.diag(np.arange(1.0, n + 1)) + 1) @ codes
    np.testing.assert_allclose(S.form(sp.csr_array(codes)), expected)


def test_forms_of_many_batches_are_those_of_the_dense_matrix():
    n, rng = 4 * 256 + 90, np.random.default_rng(0)  # a full batch and the rest in each block
    codes = sp.random_array((n, 30), density=0.2, rng=rng, format="csr")
    graph = sp.random_array((n, n), density=0.01, rng=rng, format="csr")
    for layout in (sp.csr_array, sp.csc_array):
        S = Structure(rng.standard_normal(n), layout(graph + graph.T))
        expected = codes.toarray().T @ (S @ codes.toarray())
        np.testing.assert_allclose(S.form(codes), expected, atol=1e-10)


def test_samples_without_codes_add_nothing():
    S = Structure(np.ones(N), sp.csr_array(np.ones((N, N))))
    assert not S.form(sp.csr_array((N, R))).any()


# ── structures of labels ────────────────────────────────────────────────────────────────────────────────────────────


def test_centring_of_all_samples_and_of_some():
    np.testing.assert_allclose(dense_of(graphs.centring(N)), np.eye(N) - np.ones((N, N)) / N, atol=1e-14)
    mask = np.arange(N) % 3 > 0
    expected = np.zeros((N, N))
    expected[np.ix_(mask, mask)] = np.eye(mask.sum()) - np.ones((mask.sum(), mask.sum())) / mask.sum()
    np.testing.assert_allclose(dense_of(graphs.centring(N, mask)), expected, atol=1e-14)


@pytest.mark.parametrize("hidden", [False, True])
def test_scatters_are_the_textbook_sums_over_classes(hidden):
    Y, y = unequal()
    y = cases.hide_labels(y) if hidden else y
    between, within, total = scatters(Y, y)
    np.testing.assert_allclose(graphs.between_classes(y).form(Y), between, atol=1e-10)
    np.testing.assert_allclose(graphs.within_classes(y).form(Y), within, atol=1e-10)
    np.testing.assert_allclose((graphs.between_classes(y) + graphs.within_classes(y)).form(Y), total, atol=1e-10)
    for S in (graphs.between_classes(y), graphs.within_classes(y)):  # padded with zeros
        dense = dense_of(S)
        assert not dense[y < 0].any()
        assert not dense[:, y < 0].any()


def test_scatter_between_classes_is_the_formula_of_the_errata():
    _, y = unequal()
    one_hot = np.eye(4)[y]
    M = one_hot / np.sqrt(one_hot.sum(axis=0))
    np.testing.assert_allclose(dense_of(graphs.between_classes(y)), M @ M.T - np.ones((N, N)) / N, atol=1e-14)
    np.testing.assert_allclose(dense_of(graphs.within_classes(y)), np.eye(N) - M @ M.T, atol=1e-14)


def test_scatter_between_weighted_pairs_of_classes():
    Y, y = unequal()
    weights = np.random.default_rng(0).uniform(size=(4, 4))
    weights += weights.T
    means, sizes = np.array([Y[y == c].mean(axis=0) for c in range(4)]), np.bincount(y)
    expected = np.zeros((M, M))
    for c in range(4):
        for d in range(c):
            gap = means[c] - means[d]
            expected += sizes[c] * sizes[d] / N * weights[c, d] * np.outer(gap, gap)
    np.testing.assert_allclose(graphs.between_classes(y, weights).form(Y), expected, atol=1e-10)


def test_outer_product_of_targets():
    T = np.random.default_rng(0).standard_normal((N, 2))
    np.testing.assert_allclose(dense_of(graphs.outer(T)), T @ T.T, atol=1e-14)


# ── neighbour graphs ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("sparse", [False, True])
def test_heat_kernel_affinities(sparse):
    X, _ = unequal()
    given = sp.csr_array(X) if sparse else X
    edges, squares = nearest(X, 4), cdist(X, X) ** 2
    t = squares[edges].mean()
    joined = edges | edges.T
    np.testing.assert_allclose(graphs.affinities(given, 4).toarray(), joined * np.exp(-squares / t), atol=1e-10)
    np.testing.assert_allclose(graphs.affinities(given, 4, 2.0).toarray(), joined * np.exp(-squares / 2), atol=1e-10)
    np.testing.assert_array_equal(graphs.affinities(given, 4).toarray() > 0, joined)


def test_a_sample_far_from_all_others_keeps_its_edges():
    X = np.vstack([np.random.default_rng(0).standard_normal((2000, 2)), [[1e4, 0]]])
    assert np.sum(graphs.affinities(X, 5)[[-1]].toarray() > 0) == 5


def test_laplacians_have_mean_degree_one():
    X, _ = unequal()
    W = graphs.affinities(X, 4)
    expected = mean_degree_one(degree_minus(W.toarray()))
    L = dense_of(graphs.laplacian(W))
    np.testing.assert_allclose(L, expected, atol=1e-14)
    np.testing.assert_allclose(L.sum(axis=1), 0, atol=1e-13)
    assert np.linalg.eigvalsh(L).min() > -1e-12
    assert not dense_of(graphs.laplacian(sp.csr_array((N, N)))).any()


def test_a_laplacian_measures_squared_differences_over_edges():
    X, _ = unequal()
    W = graphs.affinities(X, 4)
    Y = np.random.default_rng(0).standard_normal((N, 2))
    expected = np.sum(W.toarray() * cdist(Y, Y) ** 2) / 2 / (W.sum() / N)
    assert np.vdot(Y, graphs.laplacian(W) @ Y) == pytest.approx(expected)


def test_strangers_are_all_pairs_that_are_no_neighbours():
    X, _ = unequal()
    graph = graphs.affinities(X, 4)
    joined = graph.toarray() > 0
    others = ~joined & ~np.eye(N, dtype=bool)
    expected = degree_minus(others.astype(float))
    np.testing.assert_allclose(expected, N * np.eye(N) - 1 - degree_minus(joined.astype(float)))
    np.testing.assert_allclose(dense_of(graphs.non_neighbours(graph)), mean_degree_one(expected), atol=1e-12)
    assert not dense_of(graphs.non_neighbours(sp.csr_array(~np.eye(N, dtype=bool)))).any()


@pytest.mark.parametrize("k", [3, 9])
def test_barycentric_weights_are_those_of_locally_linear_embedding(k):
    """Also for more neighbours than features, where the regularisation decides."""
    X, _ = unequal()
    W = barycenter_kneighbors_graph(X, k, reg=1e-3).toarray()
    residual = np.eye(N) - W
    Z = dense_of(graphs.barycentric_residual(X, k))
    np.testing.assert_allclose(Z, residual.T @ residual, atol=1e-8)
    np.testing.assert_allclose(Z.sum(axis=1), 0, atol=1e-8)
    np.testing.assert_allclose(dense_of(graphs.barycentric_residual(sp.csr_array(X), k)), Z, atol=1e-6)


def test_barycentric_weights_of_equal_samples_are_finite():
    Z = graphs.barycentric_residual(np.ones((6, 2)), 3)
    assert np.all(np.isfinite(dense_of(Z)))


def test_blocks_of_barycentric_weights_join_without_a_seam():
    X = np.random.default_rng(0).standard_normal((300, 3))
    W = barycenter_kneighbors_graph(X, 5, reg=1e-3).toarray()
    residual = np.eye(300) - W
    np.testing.assert_allclose(dense_of(graphs.barycentric_residual(X, 5)), residual.T @ residual, atol=1e-8)


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize(("k_within", "k_between"), [(2, 3), (1, 1), (5, 12), (50, 50)])
def test_class_neighbours_against_sorting_all_distances(k_within, k_between, hidden):
    X, y = unequal()
    y = cases.hide_labels(y) if hidden else y
    known = np.outer(y >= 0, y >= 0)
    same = (y[:, None] == y) & known
    within, between = graphs.class_neighbours(X, y, k_within, k_between)
    expected = nearest(X, k_within, same)
    np.testing.assert_array_equal(within.toarray(), expected | expected.T)
    expected = nearest(X, k_between, known & ~same)
    np.testing.assert_array_equal(between.toarray(), expected | expected.T)


def test_more_neighbours_than_a_byte_counts():
    """Edges take a byte each; sums over them do not."""
    X, y = np.random.default_rng(0).standard_normal((400, 3)), np.arange(400) % 2
    for found in graphs.class_neighbours(X, y, 150, 180):
        degrees = found.toarray().astype(int).sum(axis=1)
        assert degrees.max() > 127
        assert set(np.unique(found.data)) == {1}
        np.testing.assert_allclose(graphs.laplacian(found).diagonal, degrees / degrees.mean())


def test_class_neighbours_where_a_class_has_one_sample():
    X, y = unequal()
    y = np.where(y == 0, 4, y)
    y[np.flatnonzero(y == 4)[0]] = 0
    y[y == 4] = -1
    within, between = graphs.class_neighbours(X, y, 2, 3)
    alone = np.flatnonzero(y == 0)
    assert not within.toarray()[alone].any()
    assert between.toarray()[alone].sum() >= 3


@pytest.mark.parametrize("scale", [0, 1e-300, 1e-160, 1e160, 1e300])
@pytest.mark.parametrize("offset", [0, 1])
def test_graphs_of_equal_tiny_and_huge_samples_are_finite(scale, offset):
    X = scale * (unequal()[0] + offset)
    W = graphs.affinities(X, 3)
    assert np.all(np.isfinite(W.data))
    assert np.sum(W.toarray() > 0, axis=1).min() >= 3
    assert np.all(np.isfinite(dense_of(graphs.barycentric_residual(X, 3))))


@pytest.mark.parametrize("bandwidth", [0, -1, np.inf, np.nan])
def test_bandwidths_that_give_no_weights(bandwidth):
    with pytest.raises(ValueError, match="bandwidth"):
        graphs.affinities(unequal()[0], 3, bandwidth)


def test_samples_without_labels_and_of_one_class_have_no_edges_between():
    X, _ = unequal()
    within, between = graphs.class_neighbours(X, np.full(N, -1), 2, 2)
    assert within.nnz == between.nnz == 0
    within, between = graphs.class_neighbours(X, np.zeros(N, int), 2, 2)
    assert within.nnz > 0
    assert between.nnz == 0


# ── graphs of users ─────────────────────────────────────────────────────────────────────────────────────────────────


def spoiled(index=99, pointer=None):
    """A graph with an index, or a pointer, beyond its shape."""
    graph = graphs.affinities(unequal()[0], 3)
    if pointer is None:
        graph.indices[5] = index
    else:
        graph.indptr[-1] = pointer
    return graph


@pytest.mark.parametrize("options", [{"index": 99}, {"index": -1}, {"pointer": 10_000}])
def test_indices_beyond_the_shape_are_refused(options):
    for layout in (sp.csr_array, sp.csr_matrix, sp.csc_array):
        graph = spoiled(**options)
        damaged = layout((N, N))
        damaged.data, damaged.indices, damaged.indptr = graph.data, graph.indices, graph.indptr
        with pytest.raises(ValueError, match="graph is not a valid sparse matrix"):
            graphs.checked_graph(damaged, N)
        with pytest.raises(ValueError, match="graph is not a valid sparse matrix"):
            Structure(np.zeros(N), damaged).check(N)
    with pytest.raises(ValueError, match="factors is not a valid sparse matrix"):
        Structure(np.zeros(N), None, spoiled(**options), np.eye(N)).check(N)


def test_graphs_of_users_are_checked():
    W = graphs.affinities(unequal()[0], 3)
    for layout in (W, W.toarray(), W.tocoo(), sp.csr_matrix(W), W.tocsc(), sp.lil_array(W)):
        np.testing.assert_array_equal(graphs.checked_graph(layout, N).toarray(), W.toarray())
    for graph, words in (
        (W[:, :-1], "shape"),
        (-W, "negative"),
        (sp.csr_array(np.triu(W.toarray())), "symmetric"),
        (W.toarray() * np.nan, "NaN"),
        (np.ma.masked_greater(W.toarray(), 0.5), "masked"),
    ):
        with pytest.raises(ValueError, match=words):
            graphs.checked_graph(graph, N)


def test_stored_zeros_of_either_sign_are_no_edges():
    W = graphs.affinities(unequal()[0], 3)
    W.data[W.data < np.median(W.data)] = -0.0
    given = W.copy()
    checked = graphs.checked_graph(W, N)
    assert checked.nnz == np.sum(W.data > 0)
    assert not np.any(np.signbit(checked.data))
    assert np.array_equal(W.data, given.data)


def test_structures_of_parts_that_do_not_fit_are_refused():
    for arguments, words in (
        ((np.zeros(3), sp.eye_array(4, format="csr")), "shape"),
        ((np.zeros(3), None, np.ones((4, 1)), np.eye(1)), "shape"),
        ((np.zeros(3), None, np.ones((3, 1)), np.eye(2)), "shape"),
        ((np.zeros(3), None, np.ones((3, 1))), "both"),
    ):
        with pytest.raises(ValueError, match=words):
            Structure(*arguments).check(3)
    with pytest.raises(TypeError, match="sparse"):
        Structure(np.zeros(3), np.eye(3)).check(3)


def test_multiples_leave_the_structure_as_it_was():
    S = STRUCTURES["all"][0]
    before = dense_of(S)
    double = S * 2
    double.diagonal[:] = double.graph.data[:] = double.core[:] = 0
    np.testing.assert_array_equal(dense_of(S), before)


def test_unsorted_and_repeated_entries_count_as_they_should():
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((12, 5)) * (rng.random((12, 5)) < 0.6)
    codes = sp.csr_array(dense)
    columns, values = [], []
    for i in range(12):
        row = slice(codes.indptr[i], codes.indptr[i + 1])
        columns += [*codes.indices[row][::-1], *codes.indices[row]]
        values += [*(codes.data[row][::-1] / 4), *(codes.data[row] * 3 / 4)]
    messy = sp.csr_array((values, columns, 2 * codes.indptr), shape=(12, 5))
    for structure in (graphs.centring(12), graphs.laplacian(graphs.affinities(rng.standard_normal((12, 3)), 3))):
        np.testing.assert_allclose(structure.form(messy), structure.form(dense), atol=1e-12)
    assert messy.nnz == 2 * codes.nnz  # the caller's is left as it was


@pytest.mark.parametrize("two", [2, 2.0, np.float32(2), np.float64(2)])
def test_numbers_times_structures(two):
    S, Y = graphs.centring(5), np.random.default_rng(0).standard_normal((5, 2))
    np.testing.assert_allclose((two * S) @ Y, (S * 2) @ Y)
    for other in (S, Y, sp.eye_array(5)):
        with pytest.raises((TypeError, ValueError)):
            other * S
