"""The chain from pictures to rows: lazy, the same for any threads, cached, in scikit-learn's company."""

import importlib
import io
import pathlib
import pickle
import sys
import tracemalloc
import warnings

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from PIL import Image
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.svm import LinearSVC
from sklearn.utils import estimator_checks as checks
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from sparlow import SparLow, images
from sparlow.images import (
    Bags,
    Codebook,
    DenseSIFT,
    PrincipalComponents,
    SpatialPyramid,
    fisher_features,
    kspm,
    llc,
    lsc,
    pyramid_features,
    read_gray,
    scspm,
    unreadable,
)
from sparlow.images import bags as bags_module
from sparlow.images.bags import track
from sparlow.images.reading import resized
from tests.cases import stripes
from tests.pictures import encoded, photograph, stripes_set
from tests.test_codebook import random_codes

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


@pytest.mark.parametrize("recipe", [kspm, scspm, llc, lsc])
def test_recipes_tell_textures_apart(recipe):
    pictures, labels = stripes_set(8)
    model = recipe(24, step=4, random_state=0, n_jobs=2).set_params(descriptors__patch=8)
    model.fit(pictures[::2], labels[::2])
    assert model.score(pictures[1::2], labels[1::2]) == 1


@parametrize_with_checks([PrincipalComponents()])
def test_components_are_an_estimator(estimator, check):
    check(estimator)


@pytest.mark.parametrize("shape", [(12, 40), (40, 12)])
@pytest.mark.parametrize("sparse", [False, True])
def test_components_are_those_of_pca(shape, sparse):
    X = np.random.default_rng(0).standard_normal(shape) * np.linspace(1, 3, shape[1])
    model = PrincipalComponents().fit(sp.csr_array(X) if sparse else X)
    assert model.n_components_ == min(shape[0] // 2, 12)
    expected = PCA(model.n_components_, svd_solver="full").fit(X)
    new = X[:5] + 1
    np.testing.assert_allclose(np.abs(model.transform(new)), np.abs(expected.transform(new)), atol=1e-8)
    assert PrincipalComponents(1000).fit(X).n_components_ == min(shape[0] - 1, shape[1])
    with pytest.raises(ValueError, match="All rows are equal"):
        model.fit(np.zeros((3, 2)))


def test_features_are_half_as_many_components_as_pictures_of_unit_norm():
    pictures, labels = stripes_set(8)
    options = {"patch": 8, "step": 4, "n_words": 24, "random_state": 0}
    model = pyramid_features(**options).fit(pictures[::2])
    assert list(model.named_steps) == ["descriptors", "codebook", "pyramid", "components", "norm"]
    known, new = model.transform(pictures[::2]), model.transform(pictures[1::2])
    assert known.shape == (12, 6)
    np.testing.assert_allclose(np.linalg.norm(known, axis=1), 1, rtol=1e-5)
    nearest = np.argmax(new @ known.T, axis=1)
    assert np.array_equal(np.array(labels[::2])[nearest], np.array(labels[1::2]))
    # the first components do not depend on how many there are
    few = pyramid_features(3, **options).fit_transform(pictures[::2])
    np.testing.assert_allclose(few, known[:, :3] / np.linalg.norm(known[:, :3], axis=1, keepdims=True), atol=1e-5)
    assert pyramid_features(0, **options).fit_transform(pictures[:3]).shape == (3, 21 * 24)


def test_recipe_of_features_takes_other_descriptors_and_codes():
    assert pyramid_features()["descriptors"].patch == (16, 24, 32)
    assert pyramid_features(descriptor="dhog")["descriptors"].patch == (16, 25, 31)
    assert pyramid_features(descriptor="dhog", patch=8)["descriptors"].patch == 8
    assert pyramid_features(coding="hard")["pyramid"].pooling == "mean"
    assert pyramid_features()["codebook"].n_words == 1024
    assert fisher_features()["codebook"].n_words == 32
    assert fisher_features()["descriptors"].patch == (16, 32, 64)
    pyramid = fisher_features()["pyramid"]
    assert (pyramid.norm, pyramid.level_weights, pyramid.pooling) == ("intra", "match", "mean")
    with pytest.raises(ValueError, match="'sift' or 'dhog', got 'surf'"):
        pyramid_features(descriptor="surf")


def test_fisher_features_tell_textures_apart_and_do_not_depend_on_threads():
    pictures, labels = stripes_set(8)
    options = {"patch": 8, "step": 4, "n_words": 4, "random_state": 0}
    model = fisher_features(6, **options).fit(pictures[::2])
    known, new = model.transform(pictures[::2]), model.transform(pictures[1::2])
    nearest = np.argmax(new @ known.T, axis=1)
    assert np.array_equal(np.array(labels[::2])[nearest], np.array(labels[1::2]))
    raw = fisher_features(0, **options)
    rows = raw.fit_transform(pictures[:6])
    assert rows.shape == (6, 21 * 2 * 4 * 64)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)
    threaded = fisher_features(0, n_jobs=2, **options).fit_transform(pictures[:6])
    np.testing.assert_array_equal(threaded, rows)


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


@pytest.mark.parametrize("coding", ["llc", "laplacian"])
def test_words_are_kept_by_what_they_were_learned_from(tmp_path, monkeypatch, coding):
    images, _ = stripes_set(2)
    bags = DenseSIFT(8, 8).fit_transform(images)
    plain = Codebook(12, coding, n_templates=40, random_state=0)
    codes = plain.fit_transform(bags)[0].values
    learned = []
    room = importlib.import_module("sparlow.images.codebook")
    for name in ("kmeans", "online"):
        learn = getattr(room, name)
        monkeypatch.setattr(room, name, lambda *a, learn=learn, **k: learned.append(1) or learn(*a, **k))
    for folder in (str(tmp_path), tmp_path, joblib.Memory(str(tmp_path), verbose=0)):
        kept = clone(plain).set_params(memory=folder, n_jobs=2)
        np.testing.assert_array_equal(kept.fit_transform(bags)[0].values.toarray(), codes.toarray())
        np.testing.assert_array_equal(kept.words_, plain.words_)
    assert len(learned) == 1
    clone(plain).set_params(memory=tmp_path).fit(bags[1:])
    clone(plain).set_params(memory=tmp_path, random_state=1).fit(bags)
    clone(plain).set_params(memory=tmp_path, n_words=11).fit(bags)
    assert len(learned) == 4


def test_pictures_that_cannot_be_read_are_listed(tmp_path):
    (tmp_path / "text.jpg").write_text("no picture")
    good = stripes_set(1)[0]
    listed = unreadable([good[0], tmp_path / "text.jpg", tmp_path / "none.png", *good], n_jobs=2)
    assert [(place, pathlib.Path(name).name) for place, name, _ in listed] == [(1, "text.jpg"), (2, "none.png")]
    assert "not a picture" in listed[0][2]
    assert unreadable(good) == unreadable([]) == []


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
        read_gray(b"")


def test_arrays_need_no_pillow(monkeypatch):
    picture = photograph()
    assert max(picture.shape) > 300  # reduced first
    expected = DenseSIFT().transform([picture])[0].values
    for name in [name for name in sys.modules if name.split(".")[0] == "PIL"] + ["PIL", "PIL.Image"]:
        monkeypatch.setitem(sys.modules, name, None)
    np.testing.assert_array_equal(DenseSIFT().transform([picture])[0].values, expected)


@pytest.mark.parametrize("shape", [(40, 60), (31, 100), (200, 300), (5, 3)])
def test_arrays_are_scaled_as_pillow_scales_floats(shape):
    gray = read_gray(photograph())
    picture = Image.fromarray(gray).resize(shape[::-1], Image.Resampling.LANCZOS)
    np.testing.assert_allclose(resized(gray, shape), np.clip(np.asarray(picture), 0, 1), atol=1e-6)


def test_no_warning_of_codes_that_did_not_converge():
    bags = DenseSIFT().transform([photograph()])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        coded = Codebook(128, "sparse", random_state=0, n_samples=800, n_jobs=2).fit_transform(bags)
        assert 1 < coded[0].values.nnz / len(coded[0]) < 64


OF_PARAMETERS = [
    checks.check_parameters_default_constructible,
    checks.check_no_attributes_set_in_init,
    checks.check_get_params_invariance,
    checks.check_set_params,
    checks.check_estimator_cloneable,
    checks.check_estimator_repr,
    checks.check_estimator_tags_renamed,
    checks.check_valid_tag_types,
    checks.check_mixin_order,
]


@pytest.mark.parametrize("kind", [images.DenseSIFT, images.DHOG, images.Codebook, images.SpatialPyramid])
@pytest.mark.parametrize("check", OF_PARAMETERS, ids=lambda check: check.__name__)
def test_stages_of_pictures_pass_the_checks_that_need_no_rows(check, kind):
    check(kind.__name__, kind())


def test_the_kernel_of_histograms_passes_the_checks():
    outcomes = check_estimator(images.HistogramIntersection(), on_skip=None)
    assert {outcome["check_name"] for outcome in outcomes if outcome["status"] != "passed"} <= {"check_array_api_input"}
