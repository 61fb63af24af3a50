"""Views of samples: what is moved where, means of codes, and models that learn from them."""

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
from sparlow.defaults import default_prior
from sparlow.estimators import start
from sparlow.priors import ElasticNet
from sparlow.views import Pooling, Shifts, Views
from tests import cases
from tests.digits import X_NEW, X, Y, small

PRIOR = ElasticNet(0.1, 0.1)

WAYS = [(0, 0), *((a, b) for a in (-1, 0, 1) for b in (-1, 0, 1) if (a, b) != (0, 0))]
QUICK = {"n_atoms": 60, "max_iter": 2, "random_state": 0}


class Mirrored(Views):
    """A family of one's own: the numbers of a sample in reverse."""

    def maps(self, n_features):
        return (sp.csr_array(np.eye(n_features)[::-1]),)


def moved(images, down, right):
    """The slow way: pixel by pixel."""
    out = np.zeros_like(images)
    height, width = images.shape[1:]
    for i in range(height):
        for j in range(width):
            if 0 <= i - down < height and 0 <= j - right < width:
                out[:, i, j] = images[:, i - down, j - right]
    return out


@pytest.mark.filterwarnings("ignore:Shifts by 2 pixels")
@pytest.mark.parametrize("pixels", [1, 2])
def test_shifts_move_pictures_in_eight_directions_and_zeros_move_in(pixels):
    images = np.random.default_rng(0).random((4, 5, 3))
    maps = Shifts(pixels, (5, 3)).maps(15)
    ways = [(a * by, b * by) for by in range(1, pixels + 1) for a in (-1, 0, 1) for b in (-1, 0, 1) if (a, b) != (0, 0)]
    assert len(maps) == 8 * pixels == len(ways)
    for T, way in zip(maps, ways, strict=True):
        np.testing.assert_array_equal((images.reshape(4, -1) @ T).reshape(4, 5, 3), moved(images, *way))


def test_pictures_are_square_unless_a_shape_is_given():
    for a, b in zip(Shifts(1).maps(9), Shifts(1, (3, 3)).maps(9), strict=True):
        assert (a != b).nnz == 0


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Shifts(0), "positive whole number"),
        (lambda: Shifts(1.5), "positive whole number"),
        (lambda: Shifts(1, (3,)), "height and width"),
        (lambda: Shifts(1, 8), "height and width"),
        (lambda: Shifts(1, (3, -3)), "height and width"),
        (lambda: Shifts(1).maps(10), r"no square.*shape=\(height, width\)"),
        (lambda: Shifts(1, (4, 4)).maps(10), "16 pixels, but samples have 10"),
        (lambda: Shifts(3, (3, 5)).maps(15), "out of sight"),
        (lambda: SparLow("pca", views=Shifts(1)).fit(X[:50, :60]), "no square"),
        (lambda: SparLow("pca", views=1).fit(X[:50]), "views"),
        (lambda: SparLow(views=Shifts(1)).set_params(views__pixels=2), r"views is set or searched as a whole.*Shifts"),
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


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("sparse", [False, True])
def test_codes_are_means_over_the_views(dtype, sparse):
    samples = cases.unit(X[:20].astype(dtype))
    D = cases.unit(X[20:60].astype(dtype))
    pooling = Pooling(Shifts(1).maps(64), unit=True)
    given = sp.csr_array(samples) if sparse else samples
    found = pooling.encode(given, D, PRIOR)
    images = samples.reshape(-1, 8, 8)
    expected = [encode(cases.unit(moved(images, *way).reshape(20, -1)), D, PRIOR).toarray() for way in WAYS]
    tol = 1e-10 if dtype is np.float64 else 1e-4
    assert found.mean.dtype == dtype
    np.testing.assert_allclose(found.mean.toarray(), np.mean(expected, axis=0), atol=tol)
    np.testing.assert_allclose(pooling.mean_codes(given, D, PRIOR).toarray(), found.mean.toarray(), atol=tol)
    for one, other in zip(found.views, expected, strict=True):
        np.testing.assert_allclose(one.toarray(), other, atol=tol)


def test_without_maps_codes_are_those_of_the_samples_and_nothing_is_copied():
    D = cases.unit(X[20:60])
    found = Pooling().encode(X[:20], D, PRIOR)
    assert found.mean is found.views[0]
    np.testing.assert_array_equal(found.mean.toarray(), encode(X[:20], D, PRIOR).toarray())


@pytest.mark.parametrize("criterion", ["pca", "lap", "lda", "mfa", "mvr", "sda"])
def test_embeddings_change_less_with_the_place(criterion):
    """The cosine of a picture's embedding and that of its copy a pixel aside is larger with views than without."""
    aside = moved(X_NEW.reshape(-1, 8, 8), 1, 0).reshape(-1, 64)

    def steadiness(views):
        model = SparLow(criterion, n_components=8, views=views, **QUICK).fit(X, Y)
        return np.mean(np.sum(model.transform(X_NEW) * model.transform(aside), axis=1))

    assert steadiness(Shifts(1)) > steadiness(None) + 0.02


def test_a_model_with_views_is_a_model_like_any_other(tmp_path):
    model = SparLow("lda", views=Shifts(1), validation_fraction=0.3, **QUICK)
    assert clone(model).views == Shifts(1)
    model.fit(X.astype(np.float32), Y)
    assert model.transform(X_NEW.astype(np.float32)).dtype == np.float32
    assert np.isfinite(model.history_["held_out"]).all()
    np.testing.assert_allclose(model.embedding_, model.transform(X.astype(np.float32)), atol=1e-4)
    save(model, tmp_path / "m.sparlow")
    again = load(tmp_path / "m.sparlow")
    assert again.views == Shifts(1)
    np.testing.assert_array_equal(again.transform(X_NEW), model.transform(X_NEW))


def test_the_model_does_not_depend_on_the_number_of_threads():
    one, two = (SparLow("lda", views=Shifts(1), n_jobs=jobs, **QUICK).fit(X, Y).embedding_ for jobs in (1, 2))
    np.testing.assert_array_equal(one, two)


def means(model, samples):
    """Mean codes the slow way."""
    images = cases.unit(samples).reshape(-1, 8, 8)
    views = [cases.unit(moved(images, *way).reshape(len(images), -1)) for way in WAYS]
    return np.mean([encode(view, model.dictionary_, model.prior_).toarray() for view in views], axis=0)


def test_quotient_and_cost_are_those_of_the_means():
    model = SparLow("pca", n_components=8, views=Shifts(1), mu_proximity=0, **QUICK).fit(X)
    codes = means(model, X)
    share = np.var(codes @ model.projection_, axis=0).sum() / (8 * np.var(codes, axis=0).sum())
    assert model.score(X) == pytest.approx(share, rel=1e-6)
    ridged = np.var(codes @ model.projection_, axis=0).sum() / (8 * (np.var(codes, axis=0).sum() + model.ridge_))
    assert model.history_["cost"][-1] == pytest.approx(ridged, rel=1e-6)


def test_shrinkage_is_on_the_scale_of_the_samples_as_they_are():
    """Means scatter less, but what keeps directions without scatter from looking good must not shrink with them."""
    first = small("lda", max_iter=0).fit(X, Y)
    pooled = SparLow("lda", views=Shifts(1), max_iter=0, dictionary=first.dictionary_, prior=first.prior_).fit(X, Y)
    codes = encode(cases.unit(X), first.dictionary_, first.prior_).toarray()
    within = sum(np.sum((codes[c == Y] - codes[c == Y].mean(axis=0)) ** 2) for c in np.unique(Y))
    assert pooled.ridge_ == pytest.approx(0.1 * within / len(X) / codes.shape[1], rel=1e-6)
    assert pooled.ridge_ == pytest.approx(first.ridge_, rel=1e-6)


def test_nonzeros_are_counted_for_each_view():
    model = SparLow("pca", n_components=8, views=Shifts(1), **QUICK).fit(X)
    images = cases.unit(X).reshape(-1, 8, 8)
    views = [cases.unit(moved(images, *way).reshape(len(X), -1)) for way in WAYS]
    counts = [np.count_nonzero(encode(view, model.dictionary_, model.prior_).toarray()) for view in views]
    assert model.history_["nonzeros"][-1] == pytest.approx(np.mean(counts) / len(X), rel=1e-3)


@pytest.mark.parametrize("maps", [lambda m: [np.ones((m, m + 1))], lambda m: [np.full((m, m), np.nan)]])
def test_matrices_of_a_family_are_checked_before_the_work(maps, monkeypatch):
    monkeypatch.setattr(Mirrored, "maps", lambda self, m: maps(m))
    monkeypatch.setattr(start, "learn_dictionary", lambda *_, **__: pytest.fail("a dictionary was learned first"))
    with pytest.raises(ValueError, match=r"shape \(64, 64\), got one of shape \(64, 65\)|matrix of views contains NaN"):
        SparLow("lda", views=Mirrored(), **QUICK).fit(X, Y)


def test_scores_of_tables_warn_of_nothing(recwarn):
    table = pd.DataFrame(X, columns=[f"pixel {i}" for i in range(64)])
    SparLow("pca", n_components=8, views=Shifts(1), **QUICK).fit(table).score(table)
    assert not recwarn.list


def test_default_prior_with_views_is_stronger_where_codes_are_to_be_faithful():
    plain, pooled = default_prior(X, faithful=True), default_prior(X, faithful=True, views=True)
    assert pooled.l1 == pytest.approx(2 * plain.l1)
    assert pooled.l2 == plain.l2
    assert default_prior(X, views=True) == default_prior(X)
    assert SparLow("pca", views=Shifts(1), **QUICK).fit(X).prior_.l1 == pytest.approx(
        default_prior(cases.unit(X), faithful=True, views=True).l1
    )


def test_views_of_ones_own():
    model = SparLow("lda", views=Mirrored(), **QUICK).fit(X, Y)
    np.testing.assert_allclose(model.transform(X_NEW[:, ::-1]), model.transform(X_NEW), atol=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_check_estimator_with_views():
    check_estimator(SparLow("pca", 1, views=Mirrored(), max_iter=1), on_fail="raise")


def test_command_line_learns_with_views_and_refuses_rows_that_are_no_pictures(tmp_path, capsys):
    np.savez(tmp_path / "digits.npz", images=X.reshape(-1, 8, 8), labels=Y)
    out = str(tmp_path / "m.sparlow")
    words = ["fit", str(tmp_path / "digits.npz"), "--shifts", "1", "--n-atoms", "60", "--max-iter", "1", "-o", out]
    assert main(words) == 0
    assert load(out).views == Shifts(1, (8, 8))
    np.savez(tmp_path / "rows.npz", X=X[:, :60], y=Y)
    assert main(["fit", str(tmp_path / "rows.npz"), *words[2:]]) == 2
    assert "--shifts moves pictures" in capsys.readouterr().err
    assert main([*words[:3], "8", *words[4:]]) == 2
    assert "out of sight" in capsys.readouterr().err
    table = "a,b,label\n" + "\n".join(f"{i},{i % 3},{i % 2}" for i in range(20))
    (tmp_path / "table.csv").write_text(table)
    assert main(["fit", str(tmp_path / "table.csv"), *words[2:]]) == 2
    assert "--size" in capsys.readouterr().err


def test_command_line_says_where_views_of_a_saved_model_are_left_or_asked_for_anew(tmp_path, capsys):
    data, out = str(tmp_path / "digits.npz"), str(tmp_path / "m.sparlow")
    np.savez(data, images=X.reshape(-1, 8, 8), labels=Y)
    few = ["--n-atoms", "60", "--max-iter", "1"]
    assert main(["fit", data, "--shifts", "1", *few, "-o", out]) == 0
    assert main(["evaluate", out, data, "--shifts", "1"]) == 2
    assert "--shifts goes without MODEL" in capsys.readouterr().err
    again = ["fit", data, "--from", out, "--max-iter", "1", "-o", str(tmp_path / "n.sparlow")]
    assert main(again) == 0
    assert "views=None (--shifts)" in capsys.readouterr().err
    assert main([*again, "--shifts", "1"]) == 0
    assert "views=" not in capsys.readouterr().err


def test_the_page_says_that_codes_are_means(tmp_path):
    model = SparLow("lda", views=Shifts(1), **QUICK).fit(X, Y)
    page = report(models.ModelFile(model, (8, 8), Y), Dataset(X, Y, (8, 8)))
    assert "Codes are means over moved copies, Shifts(pixels=1, shape=None)" in page
