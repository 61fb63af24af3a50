"""Descriptors against OpenCV and plain loops; what pictures may come as."""

import io
import math
import pathlib
import zipfile
from concurrent.futures import ThreadPoolExecutor

import cv2
import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.datasets import load_sample_image
from sklearn.pipeline import make_pipeline

from sparlow.images import (
    DHOG,
    Codebook,
    DenseSIFT,
    SpatialPyramid,
    UnreadableImageError,
    read_gray,
)
from tests.cases import stripes
from tests.pictures import encoded, photograph, stripes_set

OPENCV_BLUR = math.sqrt(1.6**2 - 0.5**2)  # OpenCV smooths to a deviation of 1.6 and takes 0.5 as given


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
@pytest.mark.parametrize(("kind", "weight"), [(DenseSIFT, gaussian_weight), (DHOG, box_weight)])
@pytest.mark.parametrize(("patch", "step"), [(8, 2), (8, 4), (6, 1), (4, 7), (5, 40)])
def test_descriptors_of_bytes_are_their_definition_whatever_patches_have_in_common(kind, weight, patch, step):
    gray = np.random.default_rng(3).integers(0, 256, (11, 13)).astype(np.uint8)
    bag = kind(patch, step, smooth=0.0).transform([gray])[0]
    corners = (bag.positions - (patch - 1) / 2).astype(int)
    chosen = np.unique(np.linspace(0, len(corners) - 1, 6).astype(int))
    expected = [finished(plain_descriptor(gray, x, y, patch, weight(patch))) for x, y in corners[chosen]]
    np.testing.assert_allclose(bag.values[chosen], expected, atol=3e-5)


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
        (np.full((20, 20), -1), "do not tell what is white"),
        (np.zeros(20), "height, width"),
        (np.full((20, 20), "a"), "integers or floats"),
        (17, "got int"),
    ]:
        with pytest.raises(UnreadableImageError, match=words):
            DenseSIFT().transform([bad])[0]


def test_sets_of_pictures_and_what_is_none():
    pictures, _ = stripes_set(2)
    expected = [bag.values for bag in DenseSIFT(8, 8).transform(pictures)]
    for given in (np.array(pictures), pd.Series(pictures, index=range(9, 9 - len(pictures), -1)), tuple(pictures)):
        for bag, values in zip(DenseSIFT(8, 8).transform(given), expected, strict=True):
            np.testing.assert_array_equal(bag.values, values)
    for given, words in [
        (pictures[0], r"ndarray of shape \(\d+, \d+\)\. For one image give a list of one"),
        (np.zeros((40, 50, 3)), r"of shape \(40, 50, 3\)"),
        ("picture.jpg", "got str"),
        ({"a": pictures[0]}, "got dict"),
        ((picture for picture in pictures), r"got generator\. Give list\(X\)"),
        (pd.DataFrame({"path": ["a.jpg"]}), "Give one column of the table"),
        (Image.fromarray(np.zeros((20, 20), np.uint8)), "got Image"),
    ]:
        with pytest.raises(ValueError, match=f"X must be a sequence of images.*{words}"):
            DenseSIFT().transform(given)


def test_wide_integers_say_what_is_white():
    gray = np.linspace(0, 65535, 400).reshape(20, 20).astype(np.uint16)
    np.testing.assert_allclose(read_gray(gray), gray / 65535, atol=1e-6)
    np.testing.assert_allclose(read_gray(Image.fromarray(gray.astype(np.int32))), gray / 65535, atol=1e-6)
    with pytest.warns(UserWarning, match=r"array of shape \(20, 20\), uint16.*no value above 4095"):
        read_gray(gray // 17)
    with pytest.raises(UnreadableImageError, match="must be from 0 to 65535, got 0 to 65536"):
        read_gray(Image.fromarray(np.array([[0, 65536]], np.int32)))
    for mode in ("P", "LA", "PA", "RGBA"):
        picture = Image.fromarray((gray // 257).astype(np.uint8)).convert("L").convert(mode)
        np.testing.assert_allclose(read_gray(picture), (gray // 257) / 255, atol=1e-6)


def test_one_picture_may_be_read_by_several_threads_at_once():
    data = encoded(Image.fromarray(load_sample_image("china.jpg")), "JPEG")
    expected = read_gray(data, 100)
    for _ in range(5):
        opened = Image.open(io.BytesIO(data))  # not loaded yet
        with ThreadPoolExecutor(4) as threads:
            for gray in threads.map(lambda picture: read_gray(picture, 100), [opened] * 8):
                assert abs(gray - expected).mean() < 0.02


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
    codes = chain[:-1].transform(mixed)
    with pytest.warns(UserWarning, match="1 of 10"):
        np.testing.assert_array_equal(chain[-1].transform(codes).toarray(), rows.toarray())
    for listed in (chain[1].skipped_, codes.skipped):
        assert [(row, name) for row, name, _ in listed] == [(2, str(broken))]
    others = np.delete(np.arange(10), 2)
    np.testing.assert_array_equal(chain.transform(pictures).toarray(), rows[others].toarray())
    with pytest.raises(UnreadableImageError, match=r"broken\.jpg"):
        chain.set_params(densesift__on_error="raise").transform(mixed)


def test_a_single_picture_is_not_a_set():
    for wrong in ("a.jpg", b"bytes", pathlib.Path("a.jpg"), iter([])):
        with pytest.raises(ValueError, match="sequence of images"):
            DenseSIFT().transform(wrong)
