"""Wavelet scattering against kymatio and against its definition; its laws; its manners."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import NotFittedError, SkipTestWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from sparlow import SparLow
from sparlow.images import Scattering, scattering
from sparlow.parallel import chunks
from tests import cases
from tests.pictures import photograph

pytestmark = pytest.mark.slow  # kernels of their own, which compile for long

REFERENCE = cases.ROOT / "tests" / "data" / "scattering_reference.npz"  # see the README beside it


def noise(*shape, seed=0):
    return np.random.default_rng(seed).random(shape)


# ── coefficients ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("case", range(6))
def test_coefficients_are_those_of_kymatio(case, dtype):
    with np.load(REFERENCE) as arrays:
        image, (J, L), expected = (arrays[f"{name}{case}"] for name in ("image", "settings", "coefficients"))
    model = Scattering(int(J), int(L)).fit(image[None])
    assert model.output_shape_ == expected.shape
    found = model.transform(image[None].astype(dtype)).reshape(expected.shape)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    found = model.transform(255 * image[None].astype(dtype)).reshape(expected.shape)
    np.testing.assert_allclose(found, 255 * expected, rtol=1e-5, atol=1e-5)


def plain_filter(shape, deviation, frequency, angle, slant):
    """Gabor filter on a periodic grid, by a sum over its copies in space, and its window."""
    window, wave = np.zeros(shape), np.zeros(shape, complex)
    for top in range(-4, 5):
        for left in range(-4, 5):
            y, x = np.mgrid[: shape[0], : shape[1]] + np.array([top, left])[:, None, None] * np.reshape(
                shape, (2, 1, 1)
            )
            along, across = np.cos(angle) * y + np.sin(angle) * x, np.cos(angle) * x - np.sin(angle) * y
            copy = np.exp(-(along**2 + (slant * across) ** 2) / (2 * deviation**2))
            window += copy
            wave += copy * np.exp(1j * frequency * along)
    scale = slant / (2 * 3.1415 * deviation**2)
    return scale * wave, scale * window


def plain_morlet(shape, j, angle, slant):
    wave, window = plain_filter(shape, 0.8 * 2**j, 0.75 * np.pi / 2**j, angle, slant)
    return np.fft.fft2(wave - wave.sum() / window.sum() * window)


def low_frequencies(spectrum, j):
    """The part of a spectrum that is left at resolution 2^−j."""
    for axis, n in enumerate(spectrum.shape):
        spectrum = np.take(spectrum, np.fft.ifftshift(np.arange(-(n >> j + 1), n >> j + 1)), axis)
    return spectrum


def plain_scattering(image, J, L, order):
    """Coefficients by filters in space and subsampling in space, one path after the other."""
    sides = [((side >> J) + 2) << J for side in image.shape]
    padding = [((size - side) // 2, (size - side + 1) // 2) for size, side in zip(sides, image.shape, strict=True)]
    x = np.pad(image, padding, mode="reflect")
    phi = np.fft.fft2(plain_filter(x.shape, 0.8 * 2 ** (J - 1), 0, 0, 1)[1])
    angles = [(int(L / 2 - 1) - t) * np.pi / L for t in range(L)]
    psi = [(j, plain_morlet(x.shape, j, angle, 4 / L)) for j in range(J) for angle in angles]

    def convolve(values, at, spectrum, to):
        step = 2 ** (to - at)
        return np.fft.ifft2(np.fft.fft2(values) * low_frequencies(spectrum, at))[::step, ::step]

    def average(values, at):
        return convolve(values, at, phi, J).real[1:-1, 1:-1]

    paths, orders = [(x, 0)], [average(x, 0)]
    for number in range(order):
        # a wavelet of the second order is larger than that of the first
        larger = [(u, at, j, f) for u, at in paths for j, f in psi if number == 0 or j > at]
        paths = [(np.abs(convolve(u, at, f, j)), j) for u, at, j, f in larger]
        orders += [average(u, at) for u, at in paths]
    return np.array(orders)


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("shape", "J", "L", "order"),
    [((4, 4), 2, 2, 2), ((6, 11), 1, 1, 2), ((3, 19), 1, 1, 1), ((4, 2), 1, 9, 1), ((5, 4), 2, 2, 0)],
)
def test_small_images_are_transformed_by_definition(shape, J, L, order):
    images = noise(2, *shape)
    expected = [plain_scattering(image, J, L, order) for image in images]
    model = Scattering(J, L, max_order=order).fit(images)
    np.testing.assert_allclose(model.transform(images).reshape(2, *model.output_shape_), expected, atol=1e-10)


@pytest.mark.parametrize(
    ("shape", "J", "L"),
    [
        ((28, 28), 2, 8),
        ((17, 30), 2, 3),
        ((16, 9), 3, 5),
        ((45, 33), 4, 4),
        ((60, 44), 2, 16),
        ((27, 13), 1, 12),
        ((134, 20), 2, 4),
        ((50, 74), 2, 2),
    ],
)
def test_images_of_any_size_are_transformed_by_definition(shape, J, L):
    images = noise(3, *shape)
    expected = np.array([plain_scattering(image, J, L, 2) for image in images])
    model = Scattering(J, L).fit(images)
    assert model.output_shape_ == (1 + J * L + L * L * J * (J - 1) // 2, shape[0] >> J, shape[1] >> J)
    found = model.transform(images).reshape(expected.shape)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    single = model.transform(images.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single.reshape(expected.shape), expected, rtol=0, atol=1e-6)


@pytest.mark.interpreted
def test_wavelets_that_are_stored_once_give_the_same_bits(monkeypatch):
    images = noise(1, 4, 5)
    expected = Scattering(2, 2).fit_transform(images)
    scattering.network_of.cache_clear()
    monkeypatch.setattr(scattering, "_REPEATED", 0)
    assert np.array_equal(Scattering(2, 2).fit_transform(images), expected)
    scattering.network_of.cache_clear()


def test_lower_orders_are_the_first_coefficients():
    images = noise(2, 16, 16)
    rows = [Scattering(3, max_order=order).fit_transform(images) for order in range(3)]
    widths = [row.shape[1] for row in rows]
    assert widths == [4 * paths for paths in (1, 1 + 24, 1 + 24 + 192)]
    for row in rows[:2]:
        assert np.array_equal(row, rows[2][:, : row.shape[1]])


# ── laws ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_constant_image_has_order_zero_only(dtype):
    model = Scattering(3).fit(np.full((1, 24, 40), 7, dtype))
    coefficients = model.transform(np.full((1, 24, 40), 7, dtype)).reshape(model.output_shape_)
    np.testing.assert_allclose(coefficients[0], 7, rtol=1e-4)
    np.testing.assert_allclose(coefficients[1:], 0, atol=40 * np.finfo(dtype).eps)


def placed(patch, top, left, side=64):
    """A patch in the middle of nothing."""
    image = np.zeros((1, side, side))
    image[0, top : top + patch.shape[0], left : left + patch.shape[1]] = patch
    return image


@pytest.mark.parametrize("J", [1, 2, 3])
def test_coefficients_move_with_the_image(J):
    patch, step = photograph()[200:216, 300:316] / 255, 2**J
    model = Scattering(J).fit(np.zeros((1, 64, 64)))
    first, moved = (model.transform(placed(patch, 24 + shift, 24)).reshape(model.output_shape_) for shift in (0, step))
    np.testing.assert_allclose(moved[:, 1:], first[:, :-1], atol=1e-6)


def test_shifts_by_one_pixel_change_coefficients_the_less_the_larger_the_scale():
    patch = photograph()[200:232, 300:332] / 255
    still = placed(patch - patch.mean(), 16, 16)
    for moved in (np.roll(still, 1, axis=1), np.roll(still, 1, axis=2)):
        changes = [np.linalg.norm(moved - still) / np.linalg.norm(still)]
        for J in (1, 2, 3, 4):
            before, after = Scattering(J).fit(still).transform(still), Scattering(J).fit(still).transform(moved)
            changes.append(np.linalg.norm(after - before) / np.linalg.norm(before))
        assert np.all(np.divide(changes[1:], changes[:-1]) < 0.8)


@pytest.mark.parametrize("J", [1, 2, 3, 4])
def test_energy_is_not_increased(J):
    patches = [noise(32, 32) - 0.5, noise(32, 32, seed=1), photograph("flower.jpg")[200:232, 300:332] / 255]
    for patch in patches:
        image = placed(patch, 16, 16)
        energy = 4**J * np.sum(Scattering(J).fit_transform(image) ** 2)
        assert 0.2 * np.sum(image**2) < energy < np.sum(image**2)


@pytest.mark.parametrize("L", [4, 8])
@pytest.mark.parametrize("J", [1, 2, 3, 4])
def test_filters_nearly_keep_to_the_littlewood_paley_bound(J, L):
    """|φ̂(ω)|² + ½ Σ (|ψ̂(ω)|² + |ψ̂(−ω)|²) is at most 1.05, and no frequency is lost; wavelets have mean zero."""
    network = scattering.Network((64, 48), J, L, 2, np.dtype(float))
    bank = network.bank()
    low = [scattering.low_pass(n, J) for n in network.padded]
    mirrored = np.roll(bank[:, :, ::-1, ::-1], 1, axis=(2, 3))
    total = np.outer(low[1], low[0]) ** 2 + 0.5 * np.sum(bank**2 + mirrored**2, axis=(0, 1))
    assert total.max() < 1.05
    assert total.min() > 0.1
    assert np.abs(bank[:, :, 0, 0]).max() < 1e-15


def test_a_transposed_image_has_transposed_coefficients_and_other_angles():
    image = photograph()[200:232, 300:332] / 255
    image = placed(image, 16, 16)
    model = Scattering(2, 8).fit(image)
    straight = model.transform(image).reshape(model.output_shape_)
    turned = model.transform(np.swapaxes(image, 1, 2)).reshape(model.output_shape_)
    angles = (2 - np.arange(8)) % 8  # (3 − t)π/8 becomes π/2 − (3 − t)π/8
    first, second = straight[1:17].reshape(2, 8, 16, 16), straight[17:].reshape(8, 8, 16, 16)
    np.testing.assert_allclose(turned[0], straight[0].T, atol=1e-12)
    np.testing.assert_allclose(turned[1:17].reshape(2, 8, 16, 16), np.swapaxes(first[:, angles], 2, 3), atol=1e-12)
    expected = np.swapaxes(second[angles][:, angles], 2, 3)
    np.testing.assert_allclose(turned[17:].reshape(8, 8, 16, 16), expected, atol=1e-12)


def test_the_logarithm_follows_its_rule():
    images = np.concatenate([noise(4, 16, 16), np.zeros((1, 16, 16))])
    S, r = Scattering().fit_transform(images), np.sqrt(np.mean(images**2, axis=(1, 2)))[:, None]
    r[-1] = 1
    for log, epsilon in ((True, 0.01), (0.3, 0.3), (1, 1)):
        np.testing.assert_allclose(Scattering(log=log).fit_transform(images), np.log(epsilon * r + abs(S)), rtol=1e-12)
    model = Scattering(log=True).fit(images)
    np.testing.assert_allclose(model.transform(255 * images)[:4], model.transform(images)[:4] + np.log(255), rtol=1e-9)
    single = Scattering(log=True).fit_transform(images.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, model.transform(images), atol=1e-3)


# ── manners ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("log", [False, True])
def test_the_same_bits_for_any_number_of_threads(dtype, log):
    images = noise(1100, 9, 12).astype(dtype)
    models = [Scattering(shape=(9, 12), log=log, n_jobs=jobs) for jobs in (1, 2, 3, None)]
    first, *others = (model.fit_transform(images) for model in models)
    assert len(chunks(*first.shape)) > 2
    assert first.dtype == dtype
    for other in others:
        assert np.array_equal(first, other)
    np.testing.assert_allclose(models[0].transform(images[5:6]), first[5:6], rtol=1e-5)


def test_rows_stacks_layouts_and_types_give_the_same():
    stack = np.random.default_rng(0).integers(0, 256, (5, 10, 14)).astype(np.uint8)
    rows = stack.reshape(5, 140)
    expected = Scattering().fit_transform(stack.astype(float))
    fitted = Scattering().fit(stack)
    read_only = rows.astype(float)
    read_only.flags.writeable = False
    for given in (stack, list(stack), rows, rows.tolist(), np.asfortranarray(rows), read_only, pd.DataFrame(rows)):
        assert np.array_equal(Scattering(shape=(10, 14)).fit_transform(given), expected)
    assert np.array_equal(fitted.transform(rows), expected)  # the shape is that of the stack
    assert (fitted.image_shape_, fitted.n_features_in_) == ((10, 14), 140)
    assert np.array_equal(fitted.transform(np.repeat(stack, 2, axis=0)[::2]), expected)
    assert fitted.transform(stack[::-1].astype(np.float16)).dtype == np.float64


def test_square_rows_need_no_shape():
    X = noise(3, 64)
    model = Scattering().fit(X)
    assert model.image_shape_ == (8, 8)
    assert np.array_equal(model.transform(X), Scattering(shape=np.array([8, 8])).fit_transform(X))


def test_feature_names_and_data_frames():
    X = pd.DataFrame(noise(4, 64), columns=[f"pixel{i}" for i in range(64)])
    model = Scattering(2, 3).set_output(transform="pandas").fit(X)
    out = model.transform(X)
    names = list(model.get_feature_names_out())
    assert list(out.columns) == names
    assert len(set(names)) == len(names) == np.prod(model.output_shape_)
    assert names[:2] == ["order0_row0_column0", "order0_row0_column1"]
    path = 1 + 3 + 2  # scale 1, angle 2
    assert names[path * 4 + 2] == "order1_scale1_angle2_row1_column0"
    path = 1 + 6 + 3 + 2  # second angle of the first scale, third of the second
    assert names[path * 4 + 1] == "order2_scale0_angle1_scale1_angle2_row0_column1"
    with pytest.raises(ValueError, match="feature names"):
        model.transform(X[X.columns[::-1]])


@pytest.mark.parametrize(
    ("options", "X", "words"),
    [
        ({}, noise(2, 60), r"Rows of 60 pixels are not square images; give shape=\(height, width\)"),
        ({"J": 4}, noise(2, 8, 20), r"J=4 needs images of at least 16 × 16 pixels, got 8 × 20 .*use J=3 or less"),
        ({}, noise(2, 1), "J=2 needs images of at least 4 × 4 pixels, got 1 × 1 .*too small for scattering"),
        ({"shape": (6, 9)}, noise(2, 60), r"shape=\(6, 9\) needs rows of 54 pixels, got rows of 60 pixels"),
        ({"shape": (6, 10)}, noise(2, 10, 6), r"shape=\(6, 10\) needs .* got images of shape \(10, 6\)"),
        ({"shape": (60,)}, noise(2, 60), r"shape must be \(height, width\) in pixels, got \(60,\)"),
        ({"shape": (6.0, 10.0)}, noise(2, 60), r"shape must be \(height, width\)"),
        ({"shape": (-6, -10)}, noise(2, 60), r"shape must be \(height, width\)"),
        ({}, noise(2, 8, 8, 3), r"one row for each gray image.*got an array of shape \(2, 8, 8, 3\)"),
        ({}, noise(64), "Expected 2D array"),
        ({}, np.full((2, 64), np.nan), "NaN"),
        ({"max_order": 3}, noise(2, 64), "'max_order' parameter"),
        ({"J": 0}, noise(2, 64), "'J' parameter"),
        ({"L": 0}, noise(2, 64), "'L' parameter"),
        ({"log": -1.0}, noise(2, 64), "'log' parameter"),
    ],
)
def test_mistakes_are_explained(options, X, words):
    with pytest.raises(ValueError, match=words):
        Scattering(**options).fit(X)


def test_mistakes_after_fitting_are_explained():
    model = Scattering().fit(noise(2, 8, 12))
    with pytest.raises(ValueError, match=r"fitted for images of shape \(8, 12\), got \(12, 8\)"):
        model.transform(noise(2, 12, 8))
    with pytest.raises(ValueError, match="64 features, but Scattering is expecting 96"):
        model.transform(noise(2, 64))
    with pytest.raises(NotFittedError):
        Scattering().transform(noise(2, 64))
    with pytest.raises(TypeError, match="dense data is required"):
        Scattering().fit(sp.csr_array(noise(2, 64)))


class AnyWidth(Scattering):
    """Rows of any width, which scikit-learn's checks give: zeros make them square images of 8 × 8 pixels or more."""

    def _rows(self, X, reset):
        X, stack = super()._rows(X, reset)
        side = max(8, int(np.ceil(np.sqrt(X.shape[1]))))
        return np.pad(X, ((0, 0), (0, side * side - X.shape[1]))), stack

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        return tags


@pytest.mark.parametrize("options", [{}, {"log": True, "L": 4}])
def test_every_check_of_scikit_learn_passes(options):
    with pytest.warns(SkipTestWarning, match="Can't test estimator"):
        check_estimator(Scattering(**options))
    outcomes = check_estimator(AnyWidth(**options), on_skip=None)
    assert {outcome["check_name"] for outcome in outcomes if outcome["status"] != "passed"} <= {"check_array_api_input"}
    assert len(outcomes) > 40


def test_clones_pickles_and_parameters():
    model = Scattering(1, 4, max_order=1, shape=(4, 16), log=0.1, n_jobs=2)
    assert clone(model).get_params() == model.get_params()
    X = noise(3, 64)
    expected = model.fit_transform(X)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).transform(X), expected)
    assert not hasattr(clone(model), "image_shape_")
    assert len(pickle.dumps(model)) < 2000  # filters are not part of it


def test_pipelines_and_searches():
    X, y = load_digits(return_X_y=True)
    pipeline = make_pipeline(Scattering(), SparLow("lda", n_atoms=60, max_iter=2, random_state=0)).fit(X[:400], y[:400])
    assert pipeline.transform(X[400:]).shape == (1397, 9)
    assert pipeline.score(X[400:], y[400:]) > 0.8
    pipeline = make_pipeline(Scattering(log=True), LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.01))
    search = GridSearchCV(pipeline, {"scattering__J": [1, 2], "scattering__log": [False, True]}, cv=2)
    assert search.fit(X[:400], y[:400]).score(X[400:], y[400:]) > 0.9
