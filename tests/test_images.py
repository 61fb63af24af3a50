"""Pictures to rows: descriptors against OpenCV and plain loops, codes against their definitions, pooling, caches."""

import io
import math
import pathlib
import pickle
import sys
import tracemalloc
import warnings
import zipfile

import cv2
import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from PIL import Image
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_sample_image
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.svm import LinearSVC

from sparlow import ElasticNet, SparLow, optimality_gap
from sparlow.images import (
    DHOG,
    Bag,
    Bags,
    Codebook,
    DenseSIFT,
    HistogramIntersection,
    SpatialPyramid,
    UnreadableImageError,
    histogram_intersection,
    kspm,
    llc,
    read_gray,
    scspm,
)
from sparlow.images import bags as bags_module
from sparlow.images.coders import LaplacianCoding, LocalityConstrained, SparseCoding, Templates, nearest
from sparlow.images.progress import track
from sparlow.images.words import kmeans
from tests.cases import stripes

OPENCV_BLUR = math.sqrt(1.6**2 - 0.5**2)  # OpenCV smooths to a deviation of 1.6 and takes 0.5 as given


def photograph(name="china.jpg"):
    return np.asarray(Image.fromarray(load_sample_image(name)).convert("L"))


def stripes_set(n_each=6):
    pictures = [stripes(kind, 10 * seed + kind) for kind in range(3) for seed in range(n_each)]
    return pictures, np.repeat(np.arange(3), n_each)


def encoded(picture, form="PNG", **options):
    stream = io.BytesIO()
    (picture if isinstance(picture, Image.Image) else Image.fromarray(picture)).save(stream, form, **options)
    return stream.getvalue()


# ── descriptors ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["china.jpg", "flower.jpg"])
@pytest.mark.parametrize("patch", [17, 25, 31])
def test_dense_sift_correlates_with_opencv(name, patch):
    """OpenCV rounds centres to whole pixels, so the patch is odd: then both describe the same window."""
    picture = photograph(name)
    bag = DenseSIFT(patch, 8, smooth=OPENCV_BLUR, max_side=None).transform([picture])[0]
    points = [cv2.KeyPoint(float(x), float(y), patch / 6, 0.0, 0.0, 0) for x, y in bag.positions]
    _, reference = cv2.SIFT_create().compute(picture, points)
    inner = np.all((bag.positions > patch) & (bag.positions < np.array(bag.size) - patch), axis=1)
    both = inner & np.any(bag.values, axis=1)
    assert both.sum() > 1000
    correlations = [np.corrcoef(a, b)[0, 1] for a, b in zip(bag.values[both], reference[both], strict=True)]
    assert np.median(correlations) > 0.9999
    assert np.quantile(correlations, 0.01) > 0.999
    assert np.min(correlations) > 0.96  # OpenCV rounds to 256 values, which tells in patches of little contrast


def plain_descriptor(gray, left, top, patch, weigh):
    """One raw descriptor by loops over pixels; ``weigh(offset, cell)`` is the weight along one direction."""
    padded = np.pad(gray.astype(float), 1, mode="edge")
    out = np.zeros((4, 4, 8))
    for y in range(gray.shape[0]):
        for x in range(gray.shape[1]):
            dx = (padded[y + 1, x + 2] - padded[y + 1, x]) / 2
            dy = (padded[y, x + 1] - padded[y + 2, x + 1]) / 2
            turn = (math.atan2(dy, dx) % (2 * math.pi)) / (math.pi / 4)
            lower, length = int(turn), math.hypot(dx, dy)
            for j in range(4):
                for i in range(4):
                    weight = weigh(y - top, j) * weigh(x - left, i) * length
                    out[j, i, lower % 8] += weight * (1 - (turn - lower))
                    out[j, i, (lower + 1) % 8] += weight * (turn - lower)
    return out.ravel()


def finished(raw):
    raw = np.minimum(raw / np.linalg.norm(raw), 0.2)
    return raw / np.linalg.norm(raw)


def gaussian_weight(patch):
    middle, cell = (patch - 1) / 2, patch / 4
    centre = lambda j: middle + (j - 1.5) * cell  # noqa: E731
    return lambda u, j: max(0, 1 - abs(u - centre(j)) / cell) * math.exp(-0.5 * ((u - middle) / (patch / 2)) ** 2)


def box_weight(patch):
    cell = patch / 4
    return lambda u, j: max(0.0, min(u + 1, (j + 1) * cell) - max(u, j * cell))


@pytest.mark.interpreted
@pytest.mark.parametrize(("kind", "weight"), [(DenseSIFT, gaussian_weight), (DHOG, box_weight)])
@pytest.mark.parametrize("patch", [8, 9])
def test_descriptors_are_their_definition(kind, weight, patch):
    gray = np.random.default_rng(0).random((12, 15))
    bag = kind(patch, 3, smooth=0.0).transform([gray])[0]
    lefts, tops = (sorted(set((axis - (patch - 1) / 2).astype(int).tolist())) for axis in bag.positions.T)
    expected = [finished(plain_descriptor(gray, x, y, patch, weight(patch))) for y in tops for x in lefts]
    np.testing.assert_allclose(bag.values, expected, atol=3e-5)


@pytest.mark.interpreted
def test_smoothing_is_a_gaussian_and_keeps_flat_pictures():
    from scipy.ndimage import gaussian_filter

    gray = np.random.default_rng(1).random((14, 17))
    smoothed = np.round(gaussian_filter(gray, 0.8, mode="nearest", truncate=3.75), 12)
    rough, fine = DenseSIFT(8, 3, smooth=0.8).transform([gray])[0], DenseSIFT(8, 3, smooth=0.0).transform([smoothed])[0]
    np.testing.assert_allclose(rough.values, fine.values, atol=1e-4)
    assert not DenseSIFT(8, 3).transform([np.full((12, 12), 0.7)])[0].values.any()


@pytest.mark.parametrize("kind", [DenseSIFT, DHOG])
def test_descriptors_have_unit_norm_bounded_entries_or_are_zero(kind):
    values = kind().transform([photograph()])[0].values
    norms = np.linalg.norm(values, axis=1)
    assert values.dtype == np.float32
    assert np.all((norms == 0) | (abs(norms - 1) < 1e-5))
    assert 0 < np.mean(norms == 0) < 0.5  # the sky
    assert values.min() == 0


@pytest.mark.parametrize("kind", [DenseSIFT, DHOG])
def test_descriptors_follow_a_shift_by_one_step_and_ignore_brightness_and_contrast(kind):
    gray = photograph()[100:260, 200:400] / 255
    describe = kind(16, 8, contrast=0.0).transform
    grid = describe([gray])[0].values.reshape(19, 24, 128)
    shifted = describe([gray[8:, 8:]])[0].values.reshape(18, 23, 128)
    np.testing.assert_allclose(shifted[1:-1, 1:-1], grid[2:-1, 2:-1], atol=1e-5)
    duller = describe([0.25 + 0.5 * gray])[0].values
    np.testing.assert_allclose(duller, grid.reshape(-1, 128), atol=2e-4)


def test_grid_is_centred_inside_and_has_all_sizes():
    bag = DenseSIFT((16, 25), 8).transform([photograph()[:99, :131]])[0]
    small, large = bag.positions[: 11 * 15], bag.positions[11 * 15 :]
    assert len(large) == 10 * 14
    np.testing.assert_allclose(small.min(axis=0) - 7.5, [1, 1])
    np.testing.assert_allclose(small.max(axis=0) + 8.5, [129, 97])
    assert np.all(large - 12 >= 0)
    assert np.all(large + 12 < [131, 99])
    assert bag.size == (131, 99)


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_kind_of_input_gives_the_same_descriptors(tmp_path):
    gray = stripes(2, 0)
    color = np.repeat(gray[:, :, None], 3, axis=2)
    alpha = np.dstack([color, np.full_like(gray, 9)])
    path = tmp_path / "a.png"
    path.write_bytes(encoded(gray))
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(path, "folder/a.png")
    inputs = [
        str(path),
        path,
        zipfile.Path(tmp_path / "a.zip", "folder/a.png"),
        path.read_bytes(),
        gray,
        gray[:, :, None],
        gray / 255,
        gray.astype(np.uint16) * 257,
        color,
        alpha,
        (color / 255).astype(np.float32),
        Image.fromarray(gray),
        Image.fromarray(alpha),
        Image.fromarray(gray).convert("P"),
        Image.fromarray(gray.astype(np.uint16) * 257),
        Image.fromarray(gray.astype(np.float32) / 255),
        encoded(Image.fromarray(gray).convert("P"), "PNG", transparency=3),
        np.asfortranarray(gray),
    ]
    first, *others = DenseSIFT(8, 8).transform(inputs)
    for other in others:
        np.testing.assert_allclose(other.values, first.values, atol=1e-4)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_respected(orientation):
    upright = stripes(2, 0)
    stored = {
        1: upright, 2: upright[:, ::-1], 3: upright[::-1, ::-1], 4: upright[::-1],
        5: upright.T, 6: np.rot90(upright), 7: upright[::-1, ::-1].T, 8: np.rot90(upright, -1),
    }[orientation]  # fmt: skip
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(np.ascontiguousarray(stored), "PNG", exif=exif)
    np.testing.assert_allclose(read_gray(data), upright / 255, atol=1e-6)


def test_large_pictures_are_reduced_and_small_ones_left():
    data = encoded(Image.fromarray(load_sample_image("china.jpg")).resize((1280, 854)), "JPEG", quality=95)
    gray = read_gray(data, 300)
    assert gray.shape == (200, 300)
    reference = Image.open(io.BytesIO(data)).convert("L").resize((300, 200), Image.Resampling.LANCZOS)
    assert np.mean(abs(gray - np.asarray(reference) / 255)) < 0.01
    array = read_gray(np.asarray(Image.open(io.BytesIO(data))) / 255, 300)
    assert np.mean(abs(array - np.asarray(reference) / 255)) < 0.01
    assert read_gray(photograph(), None).shape == (427, 640)
    assert read_gray(np.eye(7), 300).shape == (7, 7)


def test_broken_pictures_are_named(tmp_path):
    whole = encoded(stripes(0, 0), "JPEG")
    cut = tmp_path / "cut.jpg"
    cut.write_bytes(whole[: len(whole) // 2])
    for bad, words in [
        (cut, "cut.jpg"),
        (tmp_path / "nowhere.jpg", "nowhere.jpg"),
        (b"no picture", "10 bytes"),
        (np.zeros((9, 20)), "too small for a patch of 16"),
        (np.full((20, 20), 255.0), "from 0 to 1"),
        (np.full((20, 20), np.nan), "from 0 to 1"),
        (np.full((20, 20), -1), "negative"),
        (np.zeros(20), "height, width"),
        (np.full((20, 20), "a"), "integers or floats"),
        (17, "got int"),
    ]:
        with pytest.raises(UnreadableImageError, match=words):
            DenseSIFT().transform([bad])[0]


def test_skipped_pictures_keep_their_rows_and_are_listed(tmp_path):
    pictures, _ = stripes_set(3)
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"not a picture")
    mixed = [*pictures[:2], broken, *pictures[2:]]
    chain = make_pipeline(DenseSIFT(8, 8, on_error="skip"), Codebook(16, random_state=0), SpatialPyramid())
    with pytest.warns(UserWarning, match=r"1 of 10 images could not be used .* number 2: .*broken\.jpg") as caught:
        rows = chain.fit_transform(mixed)
    assert len(caught) == 2  # the codebook learns without it, the pyramid makes its row
    assert caught[0].filename.endswith((".py",))
    assert rows.shape == (10, 21 * 16)
    assert rows[[2]].nnz == 0
    for stage in chain[1:]:
        assert [(row, name) for row, name, _ in stage.skipped_] == [(2, str(broken))]
    others = np.delete(np.arange(10), 2)
    np.testing.assert_array_equal(chain.transform(pictures).toarray(), rows[others].toarray())
    assert chain[-1].skipped_ == []
    with pytest.raises(UnreadableImageError, match=r"broken\.jpg"):
        chain.set_params(densesift__on_error="raise").transform(mixed)


def test_a_single_picture_is_not_a_set():
    for wrong in ("a.jpg", b"bytes", pathlib.Path("a.jpg"), iter([])):
        with pytest.raises(ValueError, match="sequence of images"):
            DenseSIFT().transform(wrong)


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


def test_llc_of_a_photograph_is_its_plain_form():
    bag = DenseSIFT().transform([photograph()])[0]
    words = bag.values[np.any(bag.values, axis=1)][::7].copy()
    X = bag.values[np.any(bag.values, axis=1)][1::5]  # those of the sky are as near to all words
    np.testing.assert_allclose(
        LocalityConstrained(words, 5, 1e-4)(X).toarray(), plain_llc(X, words, 5, 1e-4), atol=5e-3
    )


@pytest.mark.interpreted
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
    with pytest.raises(ValueError, match="negative"):
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


# ── the chain ───────────────────────────────────────────────────────────────────────────────────────────────────────


def chain(**options):
    return make_pipeline(DenseSIFT(8, 4), Codebook(16, random_state=0, n_samples=2000), SpatialPyramid(**options))


def test_rows_do_not_depend_on_threads_and_pickle_and_clone_work():
    pictures, _ = stripes_set()
    rows = chain().fit_transform(pictures)
    assert isinstance(rows, sp.csr_array)
    assert rows.dtype == np.float32
    threaded = clone(chain(n_jobs=2)).set_params(codebook__n_jobs=2).fit(pictures)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(threaded)).transform(pictures).toarray(), rows.toarray())


def test_frames_and_names_where_output_is_dense():
    pictures, _ = stripes_set(1)
    frame = chain(sparse_output=False).set_output(transform="pandas").fit_transform(pictures)
    assert frame.shape == (3, 21 * 16)
    assert list(frame.columns[[0, 16, -1]]) == [
        "grid1_row0_column0_word0",
        "grid2_row0_column0_word0",
        "grid4_row3_column3_word15",
    ]


def test_grid_search_over_the_stages():
    pictures, labels = stripes_set()
    model = make_pipeline(DenseSIFT(8, 4), Codebook(8, random_state=0), SpatialPyramid((1, 2)), LinearSVC())
    search = GridSearchCV(model, {"codebook__n_words": [8, 12], "densesift__patch": [8, (8, 12)]}, cv=2)
    search.fit(pictures, labels)
    assert search.best_score_ > 0.9


@pytest.mark.parametrize("recipe", [kspm, scspm, llc])
def test_recipes_tell_textures_apart(recipe):
    pictures, labels = stripes_set(8)
    model = recipe(24, step=4, random_state=0, n_jobs=2).set_params(descriptors__patch=8)
    model.fit(pictures[::2], labels[::2])
    assert model.score(pictures[1::2], labels[1::2]) == 1


def test_chain_feeds_joint_learning():
    pictures, labels = stripes_set(10)
    features = make_pipeline(*[step for _, step in chain().steps], PCA(10, random_state=0), Normalizer())
    model = make_pipeline(features, SparLow("mfa", n_components=2, n_atoms=12, max_iter=2, random_state=0))
    assert model.fit(pictures, labels).score(pictures, labels) > 0.9


class Counted:
    """A picture that counts how often it is read, and can refuse."""

    def __init__(self, picture):
        self.data, self.reads, self.refuse = encoded(picture), 0, False

    def read_bytes(self):
        if self.refuse:
            raise KeyboardInterrupt
        self.reads += 1
        return self.data


def test_nothing_is_computed_before_it_is_asked_for():
    pictures = [Counted(stripes(0, seed)) for seed in range(4)]
    bags = DenseSIFT(8, 4).fit_transform(pictures)
    assert len(bags) == 4
    assert isinstance(bags[1:], Bags)
    assert len(bags[np.array([True, False, True, False])]) == 2
    assert "4 bags" in repr(bags)
    assert sum(picture.reads for picture in pictures) == 0
    assert len(bags[[3, 1]][0]) == len(bags[3]) > 0
    assert [picture.reads for picture in pictures] == [0, 0, 0, 2]


def test_memory_does_not_grow_with_the_set():
    coarse = stripes(2, 0, (160, 160))
    model = chain().fit([coarse])
    peaks = []
    for n in (4, 40):
        tracemalloc.start()
        model.transform([coarse] * n)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    one = DenseSIFT(8, 4).transform([coarse])[0].values.nbytes
    assert peaks[1] - peaks[0] < one  # descriptors of 36 further images would be 36 of these


def computed(monkeypatch):
    """The rows that are computed from here on."""
    seen, plain = [], bags_module.Bags.__getitem__
    monkeypatch.setattr(bags_module.Bags, "__getitem__", lambda self, i: seen.append(i) or plain(self, i))
    return seen


def test_a_stopped_run_goes_on(tmp_path, monkeypatch):
    pictures = [Counted(picture) for picture in stripes_set(2)[0]]
    model = chain(memory=tmp_path).fit(pictures)
    pictures[4].refuse = True
    with pytest.raises(KeyboardInterrupt):
        model.transform(pictures)
    pictures[4].refuse = False
    seen = computed(monkeypatch)
    rows = model.transform(pictures)
    assert seen == [4, 5]
    np.testing.assert_array_equal(rows.toarray(), chain().fit_transform(pictures).toarray())


def test_cache_knows_content_and_parameters(tmp_path, monkeypatch):
    pictures, _ = stripes_set(1)
    model = chain(memory=joblib.Memory(tmp_path, verbose=0)).fit(pictures)
    model.transform(pictures)
    seen = computed(monkeypatch)
    model.transform(pictures[::-1])
    model.fit(pictures)
    seen.clear()
    model.transform([picture.copy() for picture in pictures])
    assert seen == []
    for change in (
        {"spatialpyramid__pooling": "mean"},
        {"spatialpyramid__levels": (1, 2)},
        {"densesift__smooth": 0.5},
        {"densesift__patch": 12},
        {"codebook__n_neighbors": 3},
        {"codebook__random_state": 1},
    ):
        other = clone(model).set_params(**change).fit(pictures)
        seen.clear()
        other.transform(pictures)
        assert seen == [0, 1, 2], change
    pictures[1] = 255 - pictures[1]
    seen.clear()
    model.transform(pictures)
    assert seen == [1]


def test_cached_bags_and_pil_images_are_known_by_content(tmp_path, monkeypatch):
    seen_before = SpatialPyramid(memory=str(tmp_path)).fit_transform([random_codes(0), random_codes(1)])
    images = [Image.fromarray(stripes(kind, 0)) for kind in (0, 1)]
    model = chain(memory=str(tmp_path)).fit(images)
    model.transform(images)
    seen = computed(monkeypatch)
    again = SpatialPyramid(memory=str(tmp_path)).fit_transform([random_codes(1), random_codes(0)])
    model.transform(images[::-1])
    assert seen == []
    np.testing.assert_array_equal(again.toarray(), seen_before.toarray()[::-1])


def test_a_damaged_cache_file_is_computed_again(tmp_path):
    pictures, _ = stripes_set(1)
    model = chain(memory=tmp_path).fit(pictures)
    rows = model.transform(pictures)
    files = sorted(tmp_path.rglob("*.npz"))
    assert len(files) == 3
    files[0].write_bytes(files[0].read_bytes()[:40])
    files[1].write_bytes(b"")
    np.testing.assert_array_equal(model.transform(pictures).toarray(), rows.toarray())
    assert not list(tmp_path.rglob("*.part"))


def test_progress_is_shown_on_a_terminal_only(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for stream, verbose, expected in ((Terminal(), 1, True), (Terminal(), 0, False), (io.StringIO(), 1, False)):
        monkeypatch.setattr(sys, "stderr", stream)
        assert list(track(range(3), 3, "images", verbose)) == [0, 1, 2]
        assert bool(stream.getvalue()) == expected


def test_missing_pillow_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ImportError, match=r"sparlow\[images\]"):
        read_gray(np.eye(20))


def test_no_warning_of_codes_that_did_not_converge():
    bags = DenseSIFT().transform([photograph()])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        coded = Codebook(128, "sparse", random_state=0, n_samples=800, n_jobs=2).fit_transform(bags)
        assert 1 < coded[0].values.nnz / len(coded[0]) < 64
