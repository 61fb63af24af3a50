"""Views of samples: what is moved or cut where, pooled codes, and models that learn from them."""

import dataclasses
import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from sparlow import SparLow, encode, load, models, save
from sparlow.app import main
from sparlow.app.dataset import Dataset
from sparlow.app.page import report
from sparlow.checks import likely_sides
from sparlow.defaults import default_prior
from sparlow.estimators import learning
from sparlow.priors import ElasticNet
from sparlow.rows import Samples
from sparlow.solvers import EarlyStopping, Solver
from sparlow.views import Bound, Patches, Shifts, Views
from tests import cases
from tests.digits import X_NEW, Y_NEW, X, Y, plain

PRIOR = ElasticNet(0.1, 0.1)

WAYS = [(0, 0), *((a, b) for a in (-1, 0, 1) for b in (-1, 0, 1) if (a, b) != (0, 0))]
QUICK = {"n_atoms": 60, "max_iter": 2, "random_state": 0}


class Mirrored(Views):
    """A family of one's own: a sample, and its numbers in reverse."""

    def maps(self, n_features):
        return sp.eye_array(n_features, format="csr"), sp.csr_array(np.eye(n_features)[::-1])


def moved(images, down, right):
    """The slow way: pixel by pixel."""
    out = np.zeros_like(images)
    height, width = images.shape[1:]
    for i in range(height):
        for j in range(width):
            if 0 <= i - down < height and 0 <= j - right < width:
                out[:, i, j] = images[:, i - down, j - right]
    return out


def pictures_of(height, width):
    """Digits in other proportions, as rows."""
    down, across = (np.arange(side) * 8 // side for side in (height, width))
    return X.reshape(-1, 8, 8)[:, down][:, :, across].reshape(len(X), -1)


@pytest.mark.parametrize("sides", [(8, 32), (32, 8), (4, 16), (16, 4), (12, 48)])
@pytest.mark.parametrize("views", [Patches(), Shifts(1)])
def test_a_square_that_pixels_speak_against_is_warned_of(views, sides):
    rows, name = pictures_of(*sides), type(views).__name__
    side = int(np.sqrt(rows.shape[1]))
    look = f"{sides[0]} x {sides[1]}"
    said = f"{name} reads rows of {side**2} numbers as {side} x {side} pixels, but they look like {look}"
    for samples in (rows, sp.csr_array(rows), rows.astype(np.float32)):
        with pytest.warns(UserWarning, match=re.escape(f"{said}: give {name}(shape={sides}), or")):
            views.bind(samples)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dataclasses.replace(views, shape=sides).bind(rows)
        dataclasses.replace(views, shape=(side, side)).bind(rows)


def test_a_square_that_nothing_speaks_against_is_taken_in_silence():
    rng = np.random.default_rng(0)
    time = np.linspace(0, 1, 256)
    signals = np.sin(2 * np.pi * (rng.uniform(0.5, 5, (200, 1)) * time + rng.random((200, 1))))
    stripes = np.repeat(rng.standard_normal((200, 16, 1)), 16, axis=2)
    noise = [rng.standard_normal((n, m)) for n in (5, 300) for m in (1, 4, 9, 16, 64, 144)]
    for rows in (X, pictures_of(16, 16), signals, stripes.reshape(200, -1), stripes.mT.reshape(200, -1), *noise):
        assert likely_sides(rows) is None


def test_the_sides_of_pictures_are_shown():
    model = SparLow("lda", n_atoms=8, views=Patches(), random_state=0).fit(X[:100], Y[:100])
    assert "100 of 64 numbers, read as 8 × 8 pixels<" in model._repr_html_()


@pytest.mark.filterwarnings("ignore:Shifts by 2 pixels")
@pytest.mark.parametrize("pixels", [1, 2])
def test_shifts_move_pictures_in_eight_directions_and_zeros_move_in(pixels):
    images = np.random.default_rng(0).random((4, 5, 3))
    maps = Shifts(pixels, (5, 3)).maps(15)
    ways = [(a * by, b * by) for by in range(1, pixels + 1) for a in (-1, 0, 1) for b in (-1, 0, 1) if (a, b) != (0, 0)]
    assert len(maps) == 1 + 8 * pixels
    for T, way in zip(maps, [(0, 0), *ways], strict=True):
        np.testing.assert_array_equal((images.reshape(4, -1) @ T).reshape(4, 5, 3), moved(images, *way))


def test_pictures_are_square_unless_a_shape_is_given():
    for a, b in zip(Shifts(1).maps(9), Shifts(1, (3, 3)).maps(9), strict=True):
        assert (a != b).nnz == 0


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Shifts(0), "positive whole number"),
        (lambda: Shifts(1.5), "positive whole number"),
        (lambda: Shifts(1, (3,)), r"\(height, width\)"),
        (lambda: Shifts(1, 8), r"\(height, width\)"),
        (lambda: Shifts(1, (3, -3)), r"\(height, width\)"),
        (lambda: Shifts(1).maps(10), r"not a square number.*shape=\(height, width\)"),
        (lambda: Shifts(1, (4, 4)).maps(10), "16 numbers, but samples have 10"),
        (lambda: Shifts(3, (3, 5)).maps(15), "out of sight"),
        (lambda: SparLow("pca", views=Shifts(1)).fit(X[:50, :60]), "not a square number"),
        (lambda: SparLow("pca", views=1).fit(X[:50]), "views"),
        (lambda: SparLow("pca", views="patch").fit(X[:50]), "patches"),
        (lambda: SparLow("PCA", views="patches").fit(X[:50]), r"write 'pca', or an object such as PCA\(\)"),
        (lambda: SparLow().set_params(views__pixels=2), r"views is None.*object first"),
        (lambda: SparLow(views=Shifts(1)).set_params(views__pixel=2), r"Invalid parameter 'pixel'.*'pixels', 'shape'"),
        (lambda: Patches(0), "size must be a positive whole number"),
        (lambda: Patches(stride=0.5), "stride must be a positive whole number"),
        (lambda: Patches(cells=(2, 0)), "cells must be a positive whole number"),
        (lambda: Patches(padding="mirror"), "padding"),
        (lambda: Patches(contrast=0), "contrast must be a positive number"),
        (lambda: Patches(whitening=-1), "whitening must be a positive number"),
        (lambda: Patches().bound(64, True, 0.1, np.eye(3)), "wrong shape"),
        (lambda: Patches(signs=False), "root needs signs"),
        (lambda: Patches(9).maps(64), "do not fit in images of 8 x 8"),
        (lambda: Patches(shape=(8, 9)).maps(64), "72 numbers, but samples have 64"),
        (
            lambda: Patches(stride=1).maps(300**2),
            "90000 patches of 7 x 7 pixels from each image of 300 x 300.*raise stride",
        ),
        (lambda: Patches(stride=2, cells=99).maps(200**2), "10000 patches.*9801 cells, which is too much"),
        (lambda: Patches(3, 10**9).maps(10**20), "100 patches of 3 x 3 pixels.*too much"),
        (lambda: Patches().bound(64, True, float("nan")), "not finite or has the wrong shape: nan"),
        (lambda: Patches().bound(64, True, -1.0), "not finite or has the wrong shape: -1.0"),
        (lambda: Patches().bind(np.ones((20, 64))[:, :60]), "not a square number"),
        (lambda: Patches().grid(3072), r"shape=\(height, width\)\) or, for colours, \(32, 32, 3\)\."),
        (lambda: Patches(padding="none").bind(np.ones((20, 64))), "all views of the samples are flat"),
    ],
)
def test_what_cannot_be_is_refused_with_a_reason(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_shifts_over_much_of_the_picture_are_warned_of():
    with pytest.warns(UserWarning, match="3 pixels move more than a quarter of pictures of 8 x 8"):
        Shifts(3).maps(64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Shifts(2).maps(64)


def test_patches_by_name_are_the_usual_ones():
    named, given = (SparLow("lda", n_atoms=8, views=views, random_state=0) for views in ("patches", Patches()))
    np.testing.assert_array_equal(
        named.fit(X[:100], Y[:100]).transform(X[100:]), given.fit(X[:100], Y[:100]).transform(X[100:])
    )
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(named)).transform(X[100:]), named.transform(X[100:]))
    assert named.set_params(views__size=3).views == Patches(size=3)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("sparse", [False, True])
def test_codes_are_means_over_the_views(dtype, sparse):
    samples = cases.unit(X[:20].astype(dtype))
    D = cases.unit(X[20:60].astype(dtype))
    given = sp.csr_array(samples) if sparse else samples
    found = Samples(given, PRIOR, Shifts(1).bind(given)).coded(D)
    images = samples.reshape(-1, 8, 8)
    expected = [encode(cases.unit(moved(images, *way).reshape(20, -1)), D, PRIOR).toarray() for way in WAYS]
    tol = 1e-10 if dtype is np.float64 else 1e-4
    assert found.features.dtype == dtype
    assert found.shape == (20, 40)
    np.testing.assert_allclose(dense(found.features), np.mean(expected, axis=0), atol=tol)
    each = found.chunk.codes.toarray().reshape(20, 9, 40)
    np.testing.assert_allclose(each.transpose(1, 0, 2), expected, atol=tol)


def dense(features):
    return features.toarray() if sp.issparse(features) else features


def test_without_views_codes_are_those_of_the_samples_and_nothing_is_copied():
    D = cases.unit(X[20:60])
    found = Samples(X[:20], PRIOR).coded(D)
    assert found.features is found.chunk.codes
    assert Bound().cut(X) is X
    np.testing.assert_array_equal(found.features.toarray(), encode(X[:20], D, PRIOR).toarray())


# ── patches, the slow way ───────────────────────────────────────────────────────────────────────────────────────────


def patches_of(images, size, stride, padding):
    """All patches (n, rows, columns, size² · channels), one after the other."""
    margin = 0 if padding == "none" else size // 2
    n, height, width, channels = images.shape

    def pixel(i, j):
        if padding == "edge":
            i, j = min(max(i, 0), height - 1), min(max(j, 0), width - 1)
        inside = 0 <= i < height and 0 <= j < width
        return images[:, i, j] if inside else np.zeros((n, channels))

    def places(side):
        last = side + 2 * margin - size
        return [first - margin for first in range((last % stride) // 2, last + 1, stride)]

    cut = [
        [
            np.concatenate([pixel(top + i, left + j) for i in range(size) for j in range(size)], axis=1)
            for left in places(width)
        ]
        for top in places(height)
    ]
    return np.array(cut).transpose(2, 0, 1, 3)


def share(place, n_places, cell, cells):
    """How much of a patch belongs to a cell along one axis: one at the cell's centre, none at the next one's."""
    centre = min(max((place + 0.5) * cells / n_places - 0.5, 0), cells - 1)
    return max(0.0, 1 - abs(centre - cell))


def pooled(cut, D, levels, epsilon, prior=PRIOR):
    """The features of images from their definition, with loops over cells and patches."""
    n, rows, columns, _ = cut.shape
    vectors = cut - cut.mean(axis=3, keepdims=True)
    vectors = (vectors / (np.linalg.norm(vectors, axis=3, keepdims=True) + epsilon)).reshape(n * rows * columns, -1)
    codes = encode(vectors, D, prior).toarray().reshape(n, rows, columns, -1)
    parts = np.concatenate([np.maximum(codes, 0), np.maximum(-codes, 0)], axis=3)
    z = []
    for cells in levels:
        for down in range(cells):
            for right in range(cells):
                total = np.zeros((n, parts.shape[3]))
                for i in range(rows):
                    for j in range(columns):
                        total += share(i, rows, down, cells) * share(j, columns, right, cells) * parts[:, i, j]
                z.append(total * cells**2 / (rows * columns))
    roots = np.sqrt(np.concatenate(z, axis=1) + Bound.OFFSET) - np.sqrt(Bound.OFFSET)
    return roots / np.linalg.norm(roots, axis=1, keepdims=True)


SHAPES = {
    "grey": ((8, 8, 1), Patches(3, cells=2)),
    "zeros around": ((8, 8, 1), Patches(4, 3, cells=3, padding="zero")),
    "nothing around": ((9, 7, 1), Patches(3, 2, cells=2, padding="none", shape=(9, 7))),
    "colour": ((6, 9, 3), Patches(3, 2, cells=2, shape=(6, 9, 3))),
    "pyramid": ((8, 8, 1), Patches(3, 1, cells=(1, 2))),
    "defaults": ((10, 8, 1), Patches(shape=(10, 8))),
}


@pytest.mark.interpreted
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", SHAPES)
def test_patches_are_cut_coded_and_pooled_as_they_are_defined(name, sparse):
    shape, views = SHAPES[name]
    rng = np.random.default_rng(0)
    images = rng.random((7, *shape)) * (rng.random((7, *shape)) > 0.3)
    rows = images.reshape(7, -1)
    given = sp.csr_array(rows) if sparse else rows
    bound = views.bind(given)
    grid = views.grid(rows.shape[1])
    D = rng.standard_normal((12, grid.size**2 * shape[2]))
    D = cases.unit(D - D.mean(axis=1, keepdims=True))
    cut = patches_of(images, grid.size, views.stride or 1, views.padding)
    raw = cut - cut.mean(axis=3, keepdims=True)
    assert bound.epsilon == pytest.approx(0.1 * np.sqrt(np.mean(np.sum(raw**2, axis=3))))
    maps = views.maps(rows.shape[1])
    assert len(maps) == cut.shape[1] * cut.shape[2] == bound.n_views
    np.testing.assert_array_equal(np.stack([rows @ T for T in maps], axis=1), cut.reshape(7, len(maps), -1))
    expected = pooled(cut, D, grid.cells, bound.epsilon)
    found = Samples(given, PRIOR, bound).coded(D)
    assert found.shape == expected.shape == (7, bound.width(12))
    np.testing.assert_allclose(dense(found.features), expected, atol=1e-9)


@pytest.mark.interpreted
@pytest.mark.parametrize("root", [True, False])
def test_the_derivative_of_pooling_meets_central_differences(root):
    rng = np.random.default_rng(0)
    images = rng.random((3, 20))
    bound = Patches(size=2, stride=1, cells=2, signs=True, root=root, shape=(4, 5)).bind(images)
    codes = sp.random_array((3 * bound.n_views, 6), density=0.4, rng=rng, format="csr")
    codes.data = rng.choice([-1, 1], codes.nnz) * rng.uniform(0.2, 1, codes.nnz)
    codes.sort_indices()
    weights = rng.standard_normal((3, bound.width(6)))
    found = bound.pull(codes, weights.copy())
    for place in rng.choice(codes.nnz, 12, replace=False):
        ends = []
        for step in (1e-6, -1e-6):
            moved = codes.copy()
            moved.data[place] += step
            ends.append(float(np.sum(weights * bound.pool(moved)[0])))
        assert found[place] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-7)


def test_every_patch_counts_the_same():
    for _, views in SHAPES.values():
        weights = views.weights(np.prod(views.shape) if views.shape else 64)
        sums = np.asarray(weights.sum(axis=0)).ravel()
        np.testing.assert_allclose(sums, sums[0])


def test_patches_are_chosen_by_the_size_of_the_image():
    """A quarter of the shorter side, odd, from 3 to 7; at most 2500 places; more cells from 24 pixels on."""
    grids = {side: Patches().grid(side * side) for side in (8, 16, 20, 28, 64, 120)}
    assert {side: grid.size for side, grid in grids.items()} == {8: 3, 16: 5, 20: 5, 28: 7, 64: 7, 120: 7}
    assert [grid.cells for grid in grids.values()] == [(4,), (4,), (4,), (6,), (6,), (6,)]
    assert [len(grid.tops) for grid in grids.values()] == [8, 16, 20, 28, 32, 40]
    wide = Patches(shape=(10, 40)).grid(400)
    assert (wide.size, len(wide.tops), len(wide.lefts)) == (3, 10, 40)
    assert Patches(8, cells=4, padding="none").grid(64).cells == (1,)  # one patch fills one cell


@pytest.fixture(scope="module")
def of_patches():
    return SparLow("lda", n_atoms=16, views=Patches(), max_iter=1, random_state=0).fit(X, Y)


def test_models_of_patches_are_models_like_any_other(of_patches, tmp_path):
    model = of_patches
    expected = model.transform(X_NEW)
    assert model.dictionary_.shape == (16, 9)
    assert model.encode(X_NEW).shape == (200, 2 * 16 * 16)
    assert model.projection_.shape[0] == 512
    assert model.components_.shape == (9, 512)
    np.testing.assert_allclose(model.embedding_, model.transform(X), atol=1e-5)
    np.testing.assert_allclose(model.transform(sp.csr_array(X_NEW)), expected, atol=1e-8)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).transform(X_NEW), expected)
    save(model, tmp_path / "m.sparlow")
    again = load(tmp_path / "m.sparlow")
    assert again.views == Patches()
    np.testing.assert_allclose(again.transform(X_NEW), expected, atol=1e-5)
    np.testing.assert_allclose(again.predict_proba(X_NEW), model.predict_proba(X_NEW), atol=1e-5)
    frame = clone(model).set_output(transform="pandas").fit(X, Y).transform(X_NEW)
    assert list(frame.columns) == [f"sparlow{i}" for i in range(9)]
    np.testing.assert_array_equal(frame.to_numpy(), expected)
    with pytest.raises(ValueError, match="no way back from pooled codes"):
        model.inverse_transform(expected)


FEW = Patches(3, 2, cells=2)  # few places, so that laws over all criteria and priors take no time


@pytest.mark.parametrize("solver", ["eliminate", "joint"])
@pytest.mark.parametrize("name", cases.CRITERIA)
def test_every_criterion_learns_from_patches_in_single_precision(name, solver, tmp_path):
    """As from whole images: the cost rises, files keep every bit, new and sparse samples are embedded alike."""
    criterion = cases.CRITERIA[name]
    y = {"semi": cases.hide_labels(Y[:120]), "none": None}.get(criterion.supervision, Y[:120])
    samples, new = X[:120].astype(np.float32), X_NEW[:40].astype(np.float32)
    options = {"n_components": 3, "n_atoms": 8, "max_iter": 2, "early_stopping": False, "random_state": 0}
    model = SparLow(criterion, views=FEW, solver=solver, **options).fit(samples, y)
    assert model.n_iter_ == 2
    assert np.diff(model.history_["cost"])[0] > 0
    assert model.dictionary_.dtype == model.encode(new).dtype == model.transform(new).dtype == np.float32
    np.testing.assert_allclose(model.transform(samples), model.embedding_, atol=1e-4 * np.abs(model.embedding_).max())
    np.testing.assert_allclose(model.transform(sp.csr_array(new)), model.transform(new), atol=1e-4)
    save(model, tmp_path / "m.sparlow")
    np.testing.assert_array_equal(load(tmp_path / "m.sparlow").transform(new), model.transform(new))


@pytest.mark.parametrize("name", cases.PRIORS)
def test_patches_take_every_prior(name):
    prior = cases.priors(8)[name]
    model = SparLow("lda", 2, n_atoms=8, prior=prior, views=FEW, max_iter=1, early_stopping=False, random_state=0)
    model.fit(X[:90], Y[:90])
    assert model.n_iter_ == 1
    cut = patches_of(cases.unit(X_NEW[:6]).reshape(6, 8, 8, 1), 3, 2, "edge")
    epsilon = FEW.bind(cases.unit(X[:90])).epsilon
    expected = pooled(cut, model.dictionary_, FEW.grid(64).cells, epsilon, prior)
    np.testing.assert_allclose(dense(model.encode(X_NEW[:6])), expected, atol=1e-6)


@pytest.mark.parametrize("criterion", ["mvr", "smvr"])
def test_patches_predict_targets(criterion):
    """The mean row of the ink, which the places of patches tell."""
    rows = np.repeat(np.arange(8), 8)

    def heights(pictures):
        return (pictures @ rows / pictures.sum(axis=1))[:, None]

    targets = heights(X)
    if criterion == "smvr":
        targets[::3] = np.nan
    model = SparLow(criterion, 1, n_atoms=16, views=Patches(), random_state=0).fit(X, targets)
    assert model.score(X_NEW, heights(X_NEW)) > 0.8


def test_models_of_patches_go_on_from_where_they_were_and_stop_by_held_out_samples():
    options = {"n_atoms": 8, "views": FEW, "max_iter": 2, "random_state": 0}
    model = SparLow("lda", warm_start=True, early_stopping=False, **options).fit(X[:120], Y[:120])
    first = model.dictionary_
    model.set_params(max_iter=0).fit(X[:120], Y[:120])
    np.testing.assert_allclose(model.dictionary_, first, atol=1e-14)
    stopped = SparLow("lda", early_stopping=EarlyStopping(0.3), **options).fit(X[:120], Y[:120])
    assert set(stopped.held_out_) == {"start", "end"}
    assert (stopped.n_iter_ == 2) == (stopped.held_out_["end"] > stopped.held_out_["start"])


def test_patches_of_colour_see_what_grey_ones_do_not():
    """Two classes that differ in hue alone: red left of green, or green left of red."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    pictures = 0.05 * rng.random((60, 6, 10, 3)).astype(np.float32)
    pictures[y == 0, :, :5, 0] += 1
    pictures[y == 0, :, 5:, 1] += 1
    pictures[y == 1, :, :5, 1] += 1
    pictures[y == 1, :, 5:, 0] += 1
    rows = pictures.reshape(60, -1)
    model = SparLow("lda", n_atoms=12, views=Patches(shape=(6, 10, 3)), random_state=0).fit(rows[:30], y[:30])
    assert model.dictionary_.shape == (12, 27)
    assert model.score(rows[30:], y[30:]) == 1
    assert model.transform(rows).dtype == np.float32
    with pytest.raises(ValueError, match="channels come last"):
        Patches(shape=(3, 12, 12)).maps(432)
    with pytest.raises(ValueError, match="height, width, channels"):
        Patches(shape=(1, 8, 8, 1)).maps(64)


def test_neighbours_are_searched_in_pooled_codes(monkeypatch):
    """What the criterion looks at has the products of the features, where these have few directions."""
    looked_at = []
    real = learning.bind_checked
    monkeypatch.setattr(
        learning, "bind_checked", lambda how, rows, *rest: looked_at.append(rows) or real(how, rows, *rest)
    )
    model = SparLow("sda", n_atoms=8, views=FEW, random_state=0).fit(X, cases.hide_labels(Y))
    features = dense(model.encode(X))
    np.testing.assert_allclose(looked_at[-1] @ looked_at[-1].T, features @ features.T, atol=1e-6)


def test_one_picture_is_embedded_as_in_a_batch(of_patches):
    rows = [of_patches.transform(X_NEW[i : i + 1])[0] for i in range(5)]
    np.testing.assert_allclose(rows, of_patches.transform(X_NEW)[:5], atol=1e-6)


# ── models with views ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["pca", "lle", "lda", "mfa", "mvr", "sda"])
def test_embeddings_change_less_with_the_place(criterion):
    """The cosine of a picture's embedding and that of its copy a pixel aside is larger with views than without."""
    aside = moved(X_NEW.reshape(-1, 8, 8), 1, 0).reshape(-1, 64)

    def steadiness(views):
        # without labels, samples would stand beside the codes of whole pictures only
        form = "orthonormal" if criterion in ("pca", "lle") else "auto"
        model = SparLow(criterion, n_components=8, views=views, embedding=form, **QUICK).fit(X, Y)
        return np.mean(np.sum(cases.unit(model.transform(X_NEW)) * cases.unit(model.transform(aside)), axis=1))

    assert steadiness(Shifts(1)) > steadiness(None) + 0.1


@pytest.mark.slow
def test_a_model_with_views_is_a_model_like_any_other(tmp_path):
    model = SparLow("lda", views=Shifts(1), early_stopping=EarlyStopping(0.3), **QUICK)
    assert clone(model).views == Shifts(1)
    model.fit(X.astype(np.float32), Y)
    assert model.transform(X_NEW.astype(np.float32)).dtype == np.float32
    assert np.isfinite(list(model.held_out_.values())).all()
    np.testing.assert_allclose(model.embedding_, model.transform(X.astype(np.float32)), atol=1e-4)
    save(model, tmp_path / "m.sparlow")
    again = load(tmp_path / "m.sparlow")
    assert again.views == Shifts(1)
    np.testing.assert_allclose(again.transform(X_NEW), model.transform(X_NEW), atol=1e-5)


def test_the_model_does_not_depend_on_the_number_of_threads():
    one, two = (SparLow("lda", views=Shifts(1), n_jobs=jobs, **QUICK).fit(X, Y).embedding_ for jobs in (1, 2))
    np.testing.assert_array_equal(one, two)


def means(model, samples):
    """Mean codes the slow way."""
    images = cases.unit(samples).reshape(-1, 8, 8)
    views = [cases.unit(moved(images, *way).reshape(len(images), -1)) for way in WAYS]
    return np.mean([encode(view, model.dictionary_, model.prior_).toarray() for view in views], axis=0)


def test_quotient_and_cost_are_those_of_the_means():
    model = SparLow("pca", n_components=8, views=Shifts(1), solver=Solver(mu_proximity=0), **QUICK).fit(X)
    codes = means(model, X)
    share = np.var(codes @ model.projection_, axis=0).sum() / (8 * np.var(codes, axis=0).sum())
    assert model.quotient(X) == pytest.approx(share, rel=1e-6)
    ridged = np.var(codes @ model.projection_, axis=0).sum() / (8 * (np.var(codes, axis=0).sum() + model.ridge_))
    assert model.history_["cost"][-1] == pytest.approx(ridged, rel=1e-6)


def test_shrinkage_is_on_the_scale_of_the_means():
    first = plain("lda", max_iter=0).fit(X, Y)
    pooled = plain("lda", views=Shifts(1), max_iter=0, dictionary=first.dictionary_, prior=first.prior_).fit(X, Y)
    codes = means(first, X)
    within = sum(np.sum((codes[c == Y] - codes[c == Y].mean(axis=0)) ** 2) for c in np.unique(Y))
    assert pooled.ridge_ == pytest.approx(0.1 * within / len(X) / codes.shape[1], rel=1e-6)


def test_nonzeros_are_counted_for_each_view():
    model = SparLow("pca", n_components=8, views=Shifts(1), **QUICK).fit(X)
    images = cases.unit(X).reshape(-1, 8, 8)
    views = [cases.unit(moved(images, *way).reshape(len(X), -1)) for way in WAYS]
    counts = [np.count_nonzero(encode(view, model.dictionary_, model.prior_).toarray()) for view in views]
    assert model.history_["nonzeros"][-1] == pytest.approx(np.mean(counts) / len(X), rel=1e-3)


@pytest.mark.parametrize("maps", [lambda m: [np.ones((m + 1, m))], lambda m: [np.full((m, m), np.nan)]])
def test_matrices_of_a_family_are_checked_before_the_work(maps, monkeypatch):
    monkeypatch.setattr(Mirrored, "maps", lambda self, m: maps(m))
    monkeypatch.setattr(learning, "learn_dictionary", lambda *_, **__: pytest.fail("a dictionary was learned first"))
    with pytest.raises(ValueError, match=r"matrices of 64 rows.*\(65, 64\)|matrix of views contains NaN"):
        SparLow("lda", views=Mirrored(), **QUICK).fit(X, Y)


def test_scores_of_tables_warn_of_nothing(recwarn):
    table = pd.DataFrame(X, columns=[f"pixel {i}" for i in range(64)])
    SparLow("pca", n_components=8, views=Shifts(1), **QUICK).fit(table).quotient(table)
    assert not recwarn.list


def test_default_prior_of_moved_pictures_is_that_of_pictures():
    unit, views = cases.unit(X), Shifts(1).bind(X)
    assert default_prior(unit, views=views) == default_prior(unit)
    assert SparLow("lda", views=Shifts(1), **QUICK).fit(X, Y).prior_ == default_prior(unit)


def test_default_prior_of_patches_is_that_of_vectors_of_unit_norm(of_patches):
    assert of_patches.prior_ == default_prior(X, views=Patches().bind(X)) == ElasticNet(0.1, 0.1)


def test_views_of_ones_own():
    model = SparLow("lda", views=Mirrored(), **QUICK).fit(X, Y)
    np.testing.assert_allclose(model.transform(X_NEW[:, ::-1]), model.transform(X_NEW), atol=1e-6)


class _Rooted(Views):
    signs, root = True, True

    def __init__(self, weight=1.0, **attributes):
        self.weight = weight
        vars(self).update(attributes)

    def maps(self, n_features):
        return (sp.eye_array(n_features, format="csr"),)

    def weights(self, n_features):
        return np.array([[self.weight]])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"signs": False}, "root needs signs"),
        ({"weight": -1.0}, "must not be negative where root is on"),
        ({"contrast": -0.1}, "contrast must be zero or a positive number"),
    ],
)
def test_own_views_that_have_no_root_are_refused(options, said):
    assert _Rooted().bind(X).n_views == 1
    with pytest.raises(ValueError, match=said):
        _Rooted(**options).bind(X)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_check_estimator_with_views():
    expected = {
        "check_sample_weights_not_overwritten": "pca refuses weights",
        "check_sample_weight_equivalence_on_dense_data": "pca refuses weights",
        "check_sample_weight_equivalence_on_sparse_data": "pca refuses weights",
    }
    model = SparLow("pca", 1, views=Mirrored(), max_iter=1)
    check_estimator(model, expected_failed_checks=expected, on_fail="raise")


def test_command_line_learns_with_views_and_refuses_rows_that_are_no_pictures(tmp_path, capsys):
    np.savez(tmp_path / "digits.npz", images=X.reshape(-1, 8, 8), labels=Y)
    out = str(tmp_path / "m.sparlow")
    words = ["fit", str(tmp_path / "digits.npz"), "--set", "views=Shifts(1)", "n_atoms=60", "max_iter=1", "-o", out]
    assert main(words) == 0
    assert load(out).views == Shifts(1, (8, 8))
    np.savez(tmp_path / "rows.npz", X=X[:, :60], y=Y)
    assert main(["fit", str(tmp_path / "rows.npz"), *words[2:]]) == 2
    assert "Shifts are views of pictures" in capsys.readouterr().err
    assert main([*words[:3], "views=Shifts(8)", *words[4:]]) == 2
    assert "out of sight" in capsys.readouterr().err
    table = "a,b,label\n" + "\n".join(f"{i},{i % 3},{i % 2}" for i in range(20))
    (tmp_path / "table.csv").write_text(table)
    assert main(["fit", str(tmp_path / "table.csv"), *words[2:]]) == 2
    assert "--size" in capsys.readouterr().err
    again = [
        "fit",
        str(tmp_path / "digits.npz"),
        "--from",
        out,
        "-o",
        str(tmp_path / "n.sparlow"),
        "--set",
        "max_iter=1",
    ]
    assert main(again) == 0
    assert load(tmp_path / "n.sparlow").views == Shifts(1, (8, 8))  # of the model it starts from


def test_the_page_says_that_codes_are_means(tmp_path):
    model = SparLow("lda", views=Shifts(1), **QUICK).fit(X, Y)
    page = report(models.ModelFile(model, (8, 8), Y), Dataset(X, Y, (8, 8)))
    assert "Codes are means over moved copies, Shifts(pixels=1, shape=None)" in page


# ── whitening ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_whitened_patches_have_a_known_covariance_and_no_whitening_is_as_before():
    """Each variance v becomes v m / (v + s m), m the mean variance and s the share."""
    rng = np.random.default_rng(0)
    X = rng.random((30, 10 * 10 * 3)).cumsum(axis=1)
    plain = Patches(3, shape=(10, 10, 3), padding="none").bind(X)
    assert plain.whitener is None
    white = Patches(3, shape=(10, 10, 3), padding="none", whitening=0.1).bind(X)
    P, Q = plain.cut(X), white.cut(X)
    before, axes = np.linalg.eigh(P.T @ P / len(P))
    mean = before.mean()
    expected = np.diag(before * mean / (before + 0.1 * mean))
    np.testing.assert_allclose(axes.T @ (Q.T @ Q / len(Q)) @ axes, expected, atol=1e-10)


def test_a_model_of_whitened_patches_is_kept_in_a_file(tmp_path):
    model = SparLow(views=Patches(3, cells=2, whitening=0.1), n_atoms=16, random_state=0).fit(X, Y)
    assert model.score(X_NEW, Y_NEW) > 0.75
    save(model, tmp_path / "white.sparlow")
    np.testing.assert_allclose(load(tmp_path / "white.sparlow").transform(X_NEW), model.transform(X_NEW), atol=1e-5)
    other = SparLow(views=Patches(3, cells=2), n_atoms=16, random_state=0).fit(X, Y)
    assert np.abs(other.transform(X_NEW) - model.transform(X_NEW)).max() > 1e-3
