"""Words and codes against their definitions, pooling against a loop over cells."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture

from sparlow import Coder, optimality_gap
from sparlow.images import (
    Bag,
    Codebook,
    DenseSIFT,
    HistogramIntersection,
    SpatialPyramid,
    histogram_intersection,
)
from sparlow.images.codebook import kmeans, mixture
from sparlow.images.coders import LaplacianCoding, LocalityConstrained, SparseCoding, Templates, nearest
from sparlow.priors import ElasticNet
from tests.cases import stripes
from tests.pictures import photograph

# ── words and codes ─────────────────────────────────────────────────────────────────────────────────────────────────


def clusters(n=60, m=5, r=7, seed=0):
    rng = np.random.default_rng(seed)
    words = rng.random((r, m)).astype(np.float32)
    return (words[rng.integers(r, size=n)] + 0.1 * rng.standard_normal((n, m))).astype(np.float32), words


@pytest.mark.interpreted
def test_nearest_words_are_those_of_all_distances():
    X, words = clusters(r=37)
    distances = np.linalg.norm(X[:, None].astype(float) - words, axis=2)
    np.testing.assert_array_equal(nearest(X, words, 4), np.argsort(distances, axis=1)[:, :4])


def plain_llc(X, words, k, ridge):
    out = np.zeros((len(X), len(words)))
    for row, x in zip(out, X.astype(float), strict=True):
        near = np.argsort(np.linalg.norm(words - x, axis=1))[:k]
        shifted = words[near] - x
        C = shifted @ shifted.T
        C += ridge * np.trace(C) * np.eye(k)
        w = np.linalg.solve(C, np.ones(k))
        row[near] = w / w.sum()
    return out


@pytest.mark.interpreted
def test_llc_is_its_plain_form():
    X, words = clusters(m=12, r=20)
    codes = LocalityConstrained(words, 5, 1e-3)(X)
    np.testing.assert_allclose(codes.toarray(), plain_llc(X, words, 5, 1e-3), atol=2e-4)
    np.testing.assert_allclose(codes.sum(axis=1), 1, rtol=1e-5)


@pytest.mark.slow
def test_llc_of_a_photograph_is_its_plain_form():
    bag = DenseSIFT().transform([photograph()])[0]
    words = bag.values[np.any(bag.values, axis=1)][::7].copy()
    X = bag.values[np.any(bag.values, axis=1)][1::5]  # those of the sky are as near to all words
    np.testing.assert_allclose(
        LocalityConstrained(words, 5, 1e-4)(X).toarray(), plain_llc(X, words, 5, 1e-4), atol=5e-3
    )


@pytest.mark.interpreted
@pytest.mark.parametrize("ridge", [1e-300, 1e-30, 1e-15])
def test_llc_with_a_tiny_ridge_is_finite(ridge):
    rng = np.random.default_rng(0)
    words = np.repeat(rng.random((4, 8), dtype=np.float32), 2, axis=0)  # pairs of equal words
    X = np.vstack([words, rng.random((20, 8), dtype=np.float32), np.zeros((1, 8), np.float32)])
    codes = LocalityConstrained(words, 5, ridge)(X)
    assert np.all(np.isfinite(codes.data))
    np.testing.assert_allclose(codes.sum(axis=1), 1, rtol=1e-4)


def test_llc_of_a_descriptor_that_equals_its_words_has_equal_weights():
    words = np.ones((3, 4), np.float32)
    np.testing.assert_allclose(LocalityConstrained(words, 3, 1e-4)(words[:1]).toarray(), [[1 / 3] * 3], rtol=1e-5)


@pytest.mark.interpreted
def test_kmeans_is_as_good_as_that_of_scikit_learn_and_the_same_for_any_number_of_threads():
    X, _ = clusters(n=150, r=5, seed=1)
    words = kmeans(X, 5, 30, 0)
    inertia = np.sum(np.min(np.linalg.norm(X[:, None] - words, axis=2), axis=1) ** 2)
    assert inertia < 1.02 * KMeans(5, n_init=5, random_state=0).fit(X).inertia_
    np.testing.assert_array_equal(words, kmeans(X, 5, 30, 0, n_jobs=2))


@pytest.mark.interpreted
def test_a_word_without_descriptors_gets_another():
    X = np.repeat(np.eye(2, dtype=np.float32), 20, axis=0)
    words = kmeans(X, 3, 3, 0)
    assert np.all(np.isfinite(words))
    np.testing.assert_allclose(words.sum(axis=1), 1)


def test_sparse_coding_is_optimal():
    X = DenseSIFT(8, 4).transform([stripes(2, 0)])[0].values
    codebook = Codebook(32, "sparse", random_state=0).fit([Bag(X, np.zeros((len(X), 2)), (1, 1))])
    codes = codebook.transform([Bag(X, np.zeros((len(X), 2)), (1, 1))])[0].values
    assert optimality_gap(X, codebook.words_, ElasticNet(0.15), codes).max() < 2e-4
    np.testing.assert_allclose(np.linalg.norm(codebook.words_, axis=1), 1, rtol=1e-5)


def test_laplacian_codes_satisfy_their_optimality_conditions():
    rng = np.random.default_rng(0)
    D = rng.standard_normal((12, 8)).astype(np.float32)
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    X = rng.random((20, 8)).astype(np.float32)
    prior, pull = ElasticNet(0.1, 0.05), 0.3
    T = rng.random((15, 8)).astype(np.float32)
    coder = LaplacianCoding.with_templates(D, prior, pull, T, 3, None)
    codes = coder(X).toarray()

    near = np.argsort(np.linalg.norm(X[:, None] - T, axis=2), axis=1)[:, :3]
    similar = np.array([[np.minimum(x, T[t]).sum() for t in row] for x, row in zip(X, near, strict=True)])
    shares = similar / similar.sum(axis=1, keepdims=True)
    means = np.einsum("ik,ikj->ij", shares, coder.templates.codes.toarray()[near])
    slope = (codes @ D - X) @ D.T + 2 * prior.l2 * codes + pull * (codes - means)
    on = codes != 0
    assert on.any()
    np.testing.assert_allclose(slope[on], -prior.l1 * np.sign(codes[on]), atol=1e-3)
    assert np.all(abs(slope[~on]) <= prior.l1 + 1e-3)


def test_laplacian_coding_makes_one_gram_matrix_and_does_not_pass_it_on(monkeypatch):
    rng = np.random.default_rng(0)
    D = np.eye(6, dtype=np.float32)
    T, X = (rng.random((n, 6)).astype(np.float32) for n in (15, 20))
    coder = LaplacianCoding.with_templates(D, ElasticNet(0.1), 0.3, T, 3, None)
    made = []
    monkeypatch.setattr("sparlow.images.coders.Coder", lambda *a, **k: made.append(1) or Coder(*a, **k))
    fresh = pickle.dumps(coder)
    together = coder(X).toarray()
    apart = np.vstack([coder(X[:7]).toarray(), coder(X[7:]).toarray()])
    np.testing.assert_array_equal(apart, together)
    assert made == [1]
    assert pickle.dumps(coder) == fresh
    np.testing.assert_array_equal(pickle.loads(fresh)(X).toarray(), together)


def test_laplacian_without_pull_is_sparse_coding_and_pull_brings_codes_of_neighbours_together():
    X = DenseSIFT(8, 4).transform([stripes(2, 0)])[0].values
    bags = [Bag(X, np.zeros((len(X), 2)), (1, 1))]
    fitted = {pull: Codebook(24, "laplacian", pull=pull, random_state=0).fit(bags) for pull in (0.0, 1.0)}
    codes = {pull: codebook.transform(bags)[0].values for pull, codebook in fitted.items()}
    plain = SparseCoding(fitted[0.0].words_, ElasticNet(0.15))(X)
    np.testing.assert_allclose(codes[0.0].toarray(), plain.toarray(), atol=1e-3)
    neighbour = nearest(X, X, 2)[:, 1]
    apart = {pull: np.linalg.norm((c - c[neighbour]).toarray(), axis=1).mean() for pull, c in codes.items()}
    assert apart[1.0] < 0.8 * apart[0.0]


def test_templates_are_not_averaged_with_themselves():
    X, _ = clusters(n=12, m=4)
    X = abs(np.vstack([X, X[:1]]))
    templates = Templates(X, sp.csr_array(np.eye(13, dtype=np.float32)), 3)
    weights = templates.mean_codes(X, own=True).toarray()
    assert not np.diag(weights).any()
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-5)
    assert np.all((weights > 0).sum(axis=1) == 3)


def mixture_of_three(n=900):
    """Draw nonnegative descriptors whose roots have three clusters of different widths."""
    rng = np.random.default_rng(0)
    centres, widths = np.array([[3, 1, 2, 2], [1, 3, 2, 1], [2, 2, 0.5, 3.0]]), (0.2, 0.3, 0.4)
    kind = rng.choice(3, n, p=(0.2, 0.3, 0.5))
    roots = centres[kind] + np.take(widths, kind)[:, None] * rng.standard_normal((n, 4))
    return (np.maximum(roots, 0) ** 2).astype(np.float32)


@pytest.mark.interpreted
def test_the_mixture_is_as_likely_as_that_of_scikit_learn():
    X = mixture_of_three()
    coder = mixture(X, 3, 3, 20, 0)
    Z = coder.projected(X)
    np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-4)
    shared = np.cov(Z, rowvar=False)
    np.testing.assert_allclose(shared, np.diag(np.diag(shared)), atol=1e-4)  # principal components
    rival = GaussianMixture(3, covariance_type="diag", random_state=0).fit(Z)
    constant = 0.5 * Z.shape[1] * np.log(2 * np.pi)
    ours = np.mean(np.logaddexp.reduce(coder.log_likelihoods(Z).astype(float), axis=1)) - constant
    assert ours > rival.score(Z) - 1e-3
    np.testing.assert_allclose(np.sort(coder.shares), np.sort(rival.weights_), atol=2e-3)
    again = mixture(X, 3, 3, 20, 0, n_jobs=2)
    np.testing.assert_array_equal(coder.centres, again.centres)


@pytest.mark.interpreted
def test_fisher_codes_are_gradients_of_the_log_likelihood():
    X = mixture_of_three(40)
    X[7] = 0  # without contrast
    coder = mixture(mixture_of_three(), 3, 2, 10, 0)
    codes = coder(X).toarray().reshape(len(X), 3, 2, 2)
    assert not codes[7].any()
    part = np.delete(np.arange(len(X)), 7)
    Z = coder.projected(X[part]).astype(float)

    def likelihood(centres, deviations):
        u = (Z[:, None] - centres) / deviations
        return np.logaddexp.reduce(np.log(coder.shares) - np.sum(0.5 * u * u + np.log(deviations), axis=2), axis=1)

    known, h = (coder.centres.astype(float), np.sqrt(coder.variances.astype(float))), 1e-5
    for which, factor in ((0, 1.0), (1, np.sqrt(0.5))):  # centres, deviations
        for k in range(3):
            for j in range(2):
                sides = []
                for sign in (1, -1):
                    moved = [array.copy() for array in known]
                    moved[which][k, j] += sign * h
                    sides.append(likelihood(*moved))
                slope = (sides[0] - sides[1]) / (2 * h) * known[1][k, j] * factor / np.sqrt(coder.shares[k])
                np.testing.assert_allclose(codes[part, k, which, j], slope, atol=6e-3)


def test_power_norm_takes_roots_and_gives_levels_and_their_cells_the_same_norm():
    codes = sp.csr_array(np.array([[4.0, 0], [0, -9.0], [16.0, 0]], np.float32))
    bag = Bag(codes, np.array([[0, 0], [0, 3], [3, 3.0]], np.float32), (4, 4))
    row = SpatialPyramid((1, 2), "mean", norm="power", sparse_output=False).fit_transform([bag]).reshape(5, 2)
    whole = np.array([np.sqrt(20), -3.0])
    cells = [whole / np.linalg.norm(whole), (1, 0), (0, 0), (0, -1), (1, 0)]
    np.testing.assert_allclose(row, np.array(cells) * np.sqrt([[0.5], *[[0.125]] * 4]), rtol=1e-5)


def test_intra_norm_gives_gaussians_cells_and_weighted_levels_their_norms():
    coder = mixture(mixture_of_three(), 3, 2, 10, 0)
    positions = np.random.default_rng(1).random((40, 2)) * 9
    bag = Bag(coder(mixture_of_three(40)), positions, (10, 10))
    plain, weighted = (
        SpatialPyramid((1, 2), "mean", norm="intra", level_weights=weights, sparse_output=False)
        .fit_transform([bag])
        .reshape(5, 3, 4)
        for weights in (None, "match")
    )
    sums = SpatialPyramid((1, 2), "mean", sparse_output=False).fit_transform([bag]).reshape(5, 3, 4)
    roots = np.sign(sums) * np.sqrt(np.abs(sums))
    norms = np.linalg.norm(roots, axis=2, keepdims=True)
    expected = roots / np.maximum(norms, 1e-30)
    expected /= np.sqrt(np.sum(norms > 0, axis=1, keepdims=True))
    np.testing.assert_allclose(plain, expected * np.sqrt([0.5, *[0.125] * 4])[:, None, None], atol=1e-5)
    np.testing.assert_allclose(weighted, plain, atol=1e-6)  # two levels: a half each
    three = SpatialPyramid((1, 2, 4), "mean", norm="intra", level_weights="match", sparse_output=False)
    cells = np.sum(three.fit_transform([bag]).reshape(21, -1) ** 2, axis=1)
    np.testing.assert_allclose(cells, np.repeat([1 / 4, 1 / 16, 1 / 32], [1, 4, 16]) * (cells > 0), rtol=1e-5)
    assert np.all(cells[:5] > 0)
    with pytest.raises(ValueError, match='coding="fisher"'):
        SpatialPyramid(norm="intra").fit_transform([random_codes()])


def test_fisher_scores_are_summed_over_cells():
    X = mixture_of_three(40)
    positions = np.random.default_rng(1).random((40, 2)) * 9
    coder = mixture(mixture_of_three(), 3, 2, 10, 0)
    codes = coder(X)
    bag = Bag(codes, positions, (10, 10))
    row = SpatialPyramid((1, 2), "mean", sparse_output=False).fit_transform([bag]).reshape(5, -1)
    np.testing.assert_allclose(row[0], codes.toarray().mean(axis=0), atol=1e-5)
    corner = np.all(positions + 0.5 < 5, axis=1)
    np.testing.assert_allclose(row[1], codes.toarray()[corner].sum(axis=0) / 40, atol=1e-5)
    with pytest.raises(ValueError, match="pooled by their mean"):
        SpatialPyramid().fit_transform([bag])


def test_codebook_says_what_is_wrong():
    bags = DenseSIFT(8, 8).transform([stripes(0, 0)])
    with pytest.raises(ValueError, match="too few for 1024 words"):
        Codebook().fit(bags)
    with pytest.raises(ValueError, match="more than there are words"):
        Codebook(3).fit(bags)
    with pytest.raises(ValueError, match="Expected bags"):
        Codebook(3).fit(np.zeros((3, 4)))
    with pytest.raises(ValueError, match="learned from 128 numbers"):
        Codebook(6).fit(bags).transform([Bag(np.zeros((2, 5), np.float32), np.zeros((2, 2)), (1, 1))])


# ── pooling ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def random_codes(seed=0, n=40, n_words=6, size=(50, 30)):
    rng = np.random.default_rng(seed)
    codes = sp.random_array((n, n_words), density=0.3, rng=rng, format="csr", dtype=np.float32)
    codes.data -= np.float32(0.4)
    return Bag(codes, (rng.random((n, 2)) * (np.array(size) - 1)).astype(np.float32), size)


def plain_pool(bag, levels, pooling):
    """Cells by comparison of coordinates with the edges of each."""
    dense, out = bag.values.toarray(), []
    x, y = bag.positions.T + 0.5
    for level in levels:
        for row in range(level):
            for column in range(level):
                inside = (x >= column * bag.size[0] / level) & (x < (column + 1) * bag.size[0] / level)
                inside &= (y >= row * bag.size[1] / level) & (y < (row + 1) * bag.size[1] / level)
                cell = dense[inside]
                if pooling == "max":
                    out.append(np.max(abs(cell), axis=0, initial=0))
                else:
                    out.append(cell.sum(axis=0) / len(dense))
    return np.concatenate(out)


@pytest.mark.interpreted
@pytest.mark.parametrize("pooling", ["max", "mean"])
@pytest.mark.parametrize("levels", [(1, 2, 4), (3,), (1, 3)])
def test_pooling_is_a_loop_over_cells(pooling, levels):
    bags = [random_codes(seed) for seed in range(3)]
    rows = SpatialPyramid(levels, pooling, norm=None).fit_transform(bags)
    expected = np.array([plain_pool(bag, levels, pooling) for bag in bags])
    np.testing.assert_allclose(rows.toarray(), expected, rtol=1e-5, atol=1e-7)
    norms = {"l1": 1, "l2": 2}
    for name, order in norms.items():
        scaled = SpatialPyramid(levels, pooling, norm=name).fit_transform(bags).toarray()
        unit = expected / np.linalg.norm(expected, order, axis=1, keepdims=True)
        np.testing.assert_allclose(scaled, unit, rtol=1e-5, atol=1e-7)


@pytest.mark.interpreted
def test_intersection_of_weighted_pyramids_is_the_pyramid_match():
    bags = [random_codes(seed) for seed in range(4)]
    bags = [bag.with_values(abs(bag.values)) for bag in bags]
    rows = SpatialPyramid(pooling="mean", level_weights="match").fit_transform(bags)
    K = histogram_intersection(rows)
    for i, a in enumerate(bags):
        for j, b in enumerate(bags):
            matches = [np.minimum(plain_pool(a, [g], "mean"), plain_pool(b, [g], "mean")).sum() for g in (1, 2, 4)]
            new = [matches[0] - matches[1], matches[1] - matches[2], matches[2]]  # matched first at this level
            np.testing.assert_allclose(K[i, j], new[2] + new[1] / 2 + new[0] / 4, rtol=1e-4)
    kernel = HistogramIntersection().fit(rows[:2])
    np.testing.assert_allclose(kernel.transform(rows), K[:, :2], rtol=1e-6)
    with pytest.raises(ValueError, match="Negative"):
        histogram_intersection(-rows)
    with pytest.raises(ValueError, match="features"):
        histogram_intersection(rows, rows[:, :3])


def test_pyramid_says_what_is_wrong():
    bags = [random_codes()]
    for levels in ((), (0,), (1.5,)):
        with pytest.raises(ValueError, match="levels must be whole numbers"):
            SpatialPyramid(levels).fit(bags)
    with pytest.raises(ValueError, match="codes of 6 words, got 5"):
        SpatialPyramid().fit(bags).transform([random_codes(n_words=5)])
    with pytest.raises(ValueError, match="Expected bags"):
        SpatialPyramid().fit(["a.jpg"])
