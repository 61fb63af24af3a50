"""The joint estimator: what it computes, tells and scores."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import subspace_angles
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import normalize

from sparlow import SparLow, TraceQuotient, encode, trace_ratio
from sparlow.criteria import LDA, PCA, SLAP
from sparlow.dictionaries import unit_samples
from sparlow.priors import ElasticNet
from sparlow.problem import METHODS
from sparlow.rows import Rows
from sparlow.solvers import Solver
from tests import cases
from tests.digits import N_ATOMS, SEMI, UNIT, X_NEW, Y_NEW, X, Y, features_of, labels_for, plain, small
from tests.test_graphs import scatters


def test_no_steps_give_the_best_projection_of_the_first_dictionary():
    D, prior = X[:40] + 0.1, ElasticNet(0.05, 0.1)
    model = plain(LDA(shrinkage=0.2), max_iter=0, dictionary=D, prior=prior).fit(X, Y)
    D = cases.unit(D)
    np.testing.assert_allclose(model.dictionary_, D)
    codes = encode(UNIT, D, prior).toarray()
    between, within, _ = scatters(codes, Y)
    within = within + 0.2 * np.trace(within) / 40 * np.eye(40)
    U, value, _ = trace_ratio(between, within, 9)
    np.testing.assert_allclose(model.projection_, U, atol=1e-6)
    np.testing.assert_allclose(model.components_, U.T @ D, atol=1e-6)
    assert (model.n_iter_, len(model.history_["cost"])) == (0, 1)
    assert model.weights_ == (1, 0)
    assert model.history_["quotient"][0] == pytest.approx(value, rel=1e-9)
    new = encode(cases.unit(X_NEW), D, prior).toarray()
    np.testing.assert_allclose(model.transform(X_NEW), (new - codes.mean(axis=0)) @ U, atol=1e-6)
    np.testing.assert_allclose(model.encode(X_NEW).toarray(), new)


@pytest.mark.parametrize("dictionary", ["ksvd", "online", "rls", "samples"])
def test_first_dictionaries(dictionary):
    model = small(dictionary=dictionary, max_iter=1).fit(X, Y)
    assert model.dictionary_.shape == (N_ATOMS, 64)
    np.testing.assert_allclose(np.linalg.norm(model.dictionary_, axis=1), 1)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", cases.CRITERIA)
def test_history_tells_each_step_and_the_cost_never_falls(name, method):
    solver = Solver(method, mu_coherence=0.05, mu_proximity=0.1)
    model = plain(name, 4, max_iter=4, solver=solver).fit(X, labels_for(name))
    history = model.history_
    columns = "step_number cost quotient coherence proximity step gradient_norm nonzeros seconds held_out evaluations"
    assert set(history) == {*columns.split(), "restarted"}
    assert {len(column) for column in history.values()} == {model.n_iter_ + 1}
    assert 1 <= model.n_iter_ == model.best_iter_ <= 4
    assert np.all(np.diff(history["cost"]) >= 0)
    assert history["cost"][-1] > history["cost"][0]
    weights = abs(history["quotient"][0]) * (0.05 * history["coherence"] + 0.1 * history["proximity"])
    changes = {"balance", "propagate"} & set(vars(model.criterion_))  # f is as written, J of what learning makes of it
    same = slice(1) if changes else slice(None)
    np.testing.assert_allclose(history["cost"][same], (history["quotient"] - weights)[same], rtol=1e-10)
    codes = model.encode(X)
    A, B = model.criterion_.bind(UNIT, model._training.bound).matrices(Rows(codes))
    U = model.projection_
    expected = np.trace(U.T @ A @ U) / (np.trace(U.T @ B @ U) + model.ridge_ * U.shape[1])
    assert history["quotient"][-1] == pytest.approx(expected, rel=1e-6)
    assert history["proximity"][0] == 0
    np.testing.assert_array_equal(history["step_number"], np.arange(model.n_iter_ + 1))
    assert np.all(np.diff(history["seconds"]) > 0)
    assert np.all(np.isnan(history["held_out"]))
    assert history["nonzeros"][-1] == pytest.approx(codes.nnz / 150, rel=0.02)
    np.testing.assert_allclose(model.projection_.T @ model.projection_, np.eye(4), atol=1e-8)
    np.testing.assert_allclose(model.components_, model.projection_.T @ model.dictionary_, atol=1e-8)
    early = {"value converged", "no step raises the value", "gradient vanished"}
    assert model.stop_reason_ in ({"max_iter reached", "value converged"} if model.n_iter_ == 4 else early)


def test_the_last_quotient_is_that_of_the_fitted_model():
    model = small(PCA(shrinkage=0), 5, max_iter=3).fit(X)
    assert model.quotient(X) == pytest.approx(model.history_["quotient"][-1], rel=1e-6)
    features = features_of(model)
    U = model.projection_
    centred = features - features.mean(axis=0)
    assert model.quotient(X) == pytest.approx(np.sum((centred @ U) ** 2) / np.sum(centred**2) / 5, rel=1e-9)


@pytest.mark.parametrize("name", ["pca", "lle", "lap"])
def test_quotient_is_without_shrinkage(name):
    """The quotient that was maximised has the ridge in its denominator, that on new samples has not."""
    criterion = type(cases.CRITERIA[name])(shrinkage=0.5)
    for model in (small(criterion, 4), TraceQuotient(criterion, 4)):
        model.fit(X)
        joint = isinstance(model, SparLow)
        samples, features = (UNIT, features_of(model)) if joint else (X, X - X.mean(axis=0))
        A, B = model.criterion_.bind(samples).matrices(Rows(features))
        U = model.projection_
        top, bottom = np.trace(U.T @ A @ U), np.trace(U.T @ B @ U)
        assert model.quotient(X) == pytest.approx(top / bottom, rel=1e-9)
        ridge = model.ridge_ if joint else 0.5 * np.trace(B) / len(B)
        fitted = model.history_["quotient"][-1] if joint else model.quotient_
        assert fitted == pytest.approx(top / (bottom + 4 * ridge), rel=1e-6)


def test_projection_is_canonical():
    model = small("pca", 5, max_iter=2).fit(X)
    U = model.projection_
    centred = features_of(model)
    centred = centred - centred.mean(axis=0)
    core = U.T @ centred.T @ centred @ U
    np.testing.assert_allclose(core, np.diag(np.diag(core)), atol=1e-8 * core[0, 0])
    assert np.all(np.diff(np.diag(core)) < 0)
    assert np.all(U[np.argmax(np.abs(U), axis=0), np.arange(5)] > 0)


@pytest.mark.parametrize("name", ["pca", "lle", "lap"])
def test_unsupervised_criteria_learn_nothing_from_labels_but_predict_them(name):
    for build in (small, TraceQuotient):
        with_labels, without = (build(name, 4).fit(X, y) for y in (Y, None))
        np.testing.assert_array_equal(with_labels.projection_, without.projection_)
        assert with_labels.quotient(X_NEW) == without.quotient(X_NEW)
        assert not hasattr(without, "classes_")
        assert not hasattr(without, "predict")
        assert not hasattr(build(name, 4).fit(X, np.zeros(150)), "classes_")
        np.testing.assert_array_equal(with_labels.classes_, np.arange(10))
        assert with_labels.score(X_NEW, Y_NEW) == np.mean(with_labels.predict(X_NEW) == Y_NEW) > 0.5
        with pytest.raises(ValueError, match="score needs the labels"):
            without.score(X_NEW, None)


@pytest.mark.slow
def test_labels_may_be_words_or_any_numbers():
    words = np.array([f"digit {y}" for y in Y])
    plain = small().fit(X, Y)
    for y in (words, Y + 100, Y.astype(float), list(Y), Y - 100):
        model = small().fit(X, y)
        np.testing.assert_array_equal(model.projection_, plain.projection_)
        np.testing.assert_array_equal(model.classes_, np.unique(y))
    assert small().fit(X, words).score(X_NEW, [f"digit {y}" for y in Y_NEW]) == plain.score(X_NEW, Y_NEW)


def test_score_is_the_accuracy_of_predict_which_is_that_of_the_nearest_neighbours(fitted):
    nearest = KNeighborsClassifier(1).fit(fitted.transform(X), Y).score(fitted.transform(X_NEW), Y_NEW)
    assert fitted.score(X_NEW, Y_NEW) == np.mean(fitted.predict(X_NEW) == Y_NEW) > nearest - 0.02
    assert nearest > 0.75
    with pytest.raises(ValueError, match="score needs the labels"):
        fitted.score(X_NEW, None)
    with pytest.raises(ValueError, match=r"without labels.*use score"):
        fitted.quotient(X_NEW)


@pytest.mark.parametrize("build", [small, TraceQuotient], ids=["SparLow", "TraceQuotient"])
def test_predictions_of_semi_supervised_models_are_votes_of_labelled_samples(build):
    """A sample without a label has no vote: where the model is fitted anew with its labels hidden, it is gone."""
    model = build("sda").fit(X, SEMI)
    known = SEMI >= 0
    assert model.predict_proba(X_NEW).shape == (200, 10)
    nearest = KNeighborsClassifier(1).fit(model.embedding_[known], Y[known])
    assert model.score(X_NEW, Y_NEW) > nearest.score(model.transform(X_NEW), Y_NEW) - 0.02


def test_images_come_back():
    """With all components the embedding loses nothing of the codes, so images come back as well as codes can tell."""
    options = {"n_atoms": 60, "prior": ElasticNet(0.01, 0.001)}
    model = plain("pca", 60, **options).fit(X)
    codes = model.encode(X_NEW)
    back = model.inverse_transform(model.transform(X_NEW))
    np.testing.assert_allclose(back, codes @ model.dictionary_, atol=1e-8)
    error = np.linalg.norm(back - cases.unit(X_NEW)) / np.sqrt(200)
    assert error < 0.4
    few = plain("pca", 5, **options).fit(X)
    assert np.linalg.norm(few.inverse_transform(few.transform(X_NEW)) - cases.unit(X_NEW)) / np.sqrt(200) > error
    with pytest.raises(ValueError, match="Z has 3 columns, but the embedding has 60"):
        model.inverse_transform(np.zeros((2, 3)))


def test_images_come_back_better_with_samples_beside_the_codes():
    errors = {}
    for build in (small, plain):
        model = build("pca", 30, n_atoms=30).fit(X)
        back = model.inverse_transform(model.transform(X_NEW))
        errors[build] = np.linalg.norm(back - cases.unit(X_NEW))
    assert errors[small] < errors[plain]


def test_the_mean_image_and_its_factors_come_back_from_whitened_embeddings(fitted):
    """Nothing but the mean is at the origin, and a unit of a component adds its factor image."""
    count = fitted.n_components_
    origin = fitted.inverse_transform(np.zeros((1, count)))
    np.testing.assert_allclose(origin[0], UNIT.mean(axis=0), atol=0.1)
    np.testing.assert_allclose(fitted.inverse_transform(np.eye(count)) - origin, fitted.components_, atol=1e-12)


def test_one_component_keeps_more_than_a_sign():
    model = small("lda").fit(X[Y < 2], Y[Y < 2])
    assert model.embedding_.shape[1] == 1
    assert len(np.unique(np.round(model.embedding_, 6))) > 10
    np.testing.assert_allclose(model.transform(X[Y < 2]), model.embedding_, atol=1e-8)


def test_score_leaves_unlabelled_samples_out():
    y = cases.hide_labels(Y)
    model = small("sda").fit(X, y)
    known = y >= 0
    assert model.score(X, y) == model.score(X[known], Y[known])
    with pytest.raises(ValueError, match="all samples in y are unlabelled"):
        model.score(X, np.full(len(X), -1))


def test_unlabelled_samples_among_names_and_indicators():
    names = np.array([f"digit {label}" for label in Y], dtype=object)
    names[::3] = -1
    model = small("sda").fit(X, names)
    assert list(model.classes_) == sorted({str(name) for name in names[1::3]} | {str(name) for name in names[2::3]})
    indicators = np.eye(10)[Y]
    indicators[::3] = -1
    model = small("smvr").fit(X, indicators)
    assert np.array_equal(model._training.known, np.arange(len(X)) % 3 != 0)
    with pytest.raises(ValueError, match="unlabelled"):
        small("sda").fit(X, np.where(Y == 1, 1, -1))


def test_options_of_criteria_reach_the_model():
    loose, tight = plain(SLAP(far=0.0), 3).fit(X, SEMI), plain(SLAP(far=1.0), 3).fit(X, SEMI)
    assert subspace_angles(loose.projection_, tight.projection_).max() > 1e-3
    written, balanced = (plain(LDA(balance=share)).fit(X, Y) for share in (0, 1))
    np.testing.assert_array_equal(written.history_["cost"][0], balanced.history_["cost"][0])
    assert written.history_["quotient"][-1] > balanced.history_["quotient"][-1]


@pytest.mark.slow
def test_duplicate_samples_are_fine():
    for name in cases.CRITERIA:
        y = labels_for(name)
        model = small(name, 4, max_iter=1).fit(np.repeat(X[:60], 3, axis=0), np.repeat(y[:60], 3))
        assert np.all(np.isfinite(model.transform(X)))
        assert np.all(
            np.isfinite(TraceQuotient(name, 4).fit(np.repeat(X[:60], 3, axis=0), np.repeat(y[:60], 3)).embedding_)
        )


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "scale"), [(np.float32, 2.0**80), (np.float32, 2.0**-90), (float, 2.0**600)])
def test_the_scale_of_samples_does_not_matter(dtype, scale):
    """Also where the squares of their entries would overflow or vanish; the scale is a power of two, so bits agree."""
    given = X.astype(dtype)
    plain, scaled = small(max_iter=1).fit(given, Y), small(max_iter=1).fit(given * dtype(scale), Y)
    np.testing.assert_array_equal(scaled.dictionary_, plain.dictionary_)
    np.testing.assert_array_equal(scaled.transform(given * dtype(scale)), plain.transform(given))
    sparse = sp.csr_array(given * dtype(scale))
    np.testing.assert_allclose(scaled.transform(sparse), plain.transform(sp.csr_array(given)), atol=1e-5)
    if scale > 1:
        with pytest.raises(ValueError, match="divide it by its scale"):
            small(normalize=False).fit(given * dtype(scale), Y)


@pytest.mark.slow
def test_samples_of_zeros_are_fine():
    samples = X.copy()
    samples[::10] = 0
    for name in cases.CRITERIA:
        model = small(name, 4, max_iter=1).fit(samples, labels_for(name))
        assert np.all(np.isfinite(model.transform(samples)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_samples_of_unit_norm_are_not_copied(dtype):
    X = normalize(load_digits().data[:50]).astype(dtype)
    X[3] = 0
    assert unit_samples(X) is X
    np.testing.assert_allclose(unit_samples(3 * X), X, atol=1e-6)


def test_two_samples_of_each_class_are_enough():
    two = np.concatenate([np.flatnonzero(label == Y)[:2] for label in range(10)])
    model = SparLow("lda", random_state=0).fit(X[two], Y[two])
    assert model.score(X_NEW, Y_NEW) > 0.6
