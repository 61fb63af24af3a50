"""The joint estimator: what it computes, tells and scores."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import subspace_angles
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import normalize

from sparlow import SparLow, TraceQuotient, encode, problem, trace_ratio
from sparlow.criteria import LDA, SLAP
from sparlow.dictionaries import unit_samples
from sparlow.priors import ElasticNet
from tests import cases
from tests.digits import N_ATOMS, SEMI, UNIT, X_NEW, Y_NEW, X, Y, labels_for, small
from tests.test_graphs import scatters


@pytest.mark.parametrize("normalize_embedding", [False, True])
def test_no_steps_give_the_best_projection_of_the_first_dictionary(normalize_embedding):
    D, prior = X[:40] + 0.1, ElasticNet(0.05, 0.1)
    model = small(max_iter=0, dictionary=D, prior=prior, shrinkage=0.2, normalize_embedding=normalize_embedding)
    model.fit(X, Y)
    D = cases.unit(D)
    np.testing.assert_allclose(model.dictionary_, D)
    codes = encode(UNIT, D, prior).toarray()
    between, within, _ = scatters(codes, Y)
    within = within + 0.2 * np.trace(within) / 40 * np.eye(40)
    U, value, _ = trace_ratio(between, within, 9)
    np.testing.assert_allclose(model.projection_, U, atol=1e-6)
    np.testing.assert_allclose(model.components_, U.T @ D, atol=1e-6)
    assert (model.n_iter_, len(model.history_["cost"])) == (0, 1)
    assert model.history_["quotient"][0] == pytest.approx(value, rel=1e-9)
    embedding = encode(cases.unit(X_NEW), D, prior).toarray() @ U
    if normalize_embedding:
        embedding = cases.unit(embedding - codes.mean(axis=0) @ U)
    np.testing.assert_allclose(model.transform(X_NEW), embedding, atol=1e-6)
    np.testing.assert_allclose(model.encode(X_NEW).toarray(), encode(cases.unit(X_NEW), D, prior).toarray())


@pytest.mark.parametrize("dictionary", ["ksvd", "online", "rls", "samples"])
def test_first_dictionaries(dictionary):
    model = small(dictionary=dictionary, max_iter=1).fit(X, Y)
    assert model.dictionary_.shape == (N_ATOMS, 64)
    np.testing.assert_allclose(np.linalg.norm(model.dictionary_, axis=1), 1)


@pytest.mark.parametrize("solver", problem.SOLVERS)
@pytest.mark.parametrize("name", cases.CRITERIA)
def test_history_tells_each_step_and_the_cost_never_falls(name, solver):
    model = small(name, 4, max_iter=4, solver=solver, mu_coherence=0.05, mu_proximity=0.1).fit(X, labels_for(name))
    history = model.history_
    columns = "step_number cost quotient coherence proximity step gradient_norm nonzeros seconds held_out evaluations"
    assert set(history) == {*columns.split(), "restarted"}
    assert {len(column) for column in history.values()} == {model.n_iter_ + 1}
    assert model.n_iter_ >= 1
    assert np.all(np.diff(history["cost"]) >= 0)
    assert history["cost"][-1] > history["cost"][0]
    weights = abs(history["quotient"][0]) * (0.05 * history["coherence"] + 0.1 * history["proximity"])
    changes = {"balance", "propagate"} & set(vars(model.criterion_))  # f is as written, J of what learning makes of it
    same = slice(1) if changes else slice(None)
    np.testing.assert_allclose(history["cost"][same], (history["quotient"] - weights)[same], rtol=1e-10)
    A, B = model.criterion_.bind(UNIT, model._training.bound).matrices(model.encode(X))
    U = model.projection_
    expected = np.trace(U.T @ A @ U) / (np.trace(U.T @ B @ U) + model.ridge_ * U.shape[1])
    assert history["quotient"][-1] == pytest.approx(expected, rel=1e-6)
    assert history["proximity"][0] == 0
    assert np.all(np.diff(history["seconds"]) > 0)
    assert np.all(np.isnan(history["held_out"]))
    codes = model.encode(X)
    assert history["nonzeros"][-1] == pytest.approx(codes.nnz / 150, rel=0.02)
    np.testing.assert_allclose(model.projection_.T @ model.projection_, np.eye(4), atol=1e-8)
    np.testing.assert_allclose(model.components_, model.projection_.T @ model.dictionary_, atol=1e-10)
    assert isinstance(model.stop_reason_, str)


def test_the_last_quotient_is_that_of_the_fitted_model():
    model = small("pca", 5, max_iter=3, shrinkage=0).fit(X)
    assert model.score(X) == pytest.approx(model.history_["quotient"][-1], rel=1e-6)
    codes = model.encode(X).toarray()
    U = model.projection_
    centred = codes - codes.mean(axis=0)
    assert model.score(X) == pytest.approx(np.sum((centred @ U) ** 2) / np.sum(centred**2) / 5, rel=1e-9)


@pytest.mark.parametrize("name", ["pca", "lle", "lap"])
def test_score_without_labels_is_the_quotient_without_shrinkage(name):
    """The quotient that was maximised has the ridge in its denominator, the score has not."""
    for model in (small(name, 4, shrinkage=0.5), TraceQuotient(name, 4, shrinkage=0.5)):
        model.fit(X)
        joint = isinstance(model, SparLow)
        samples, codes = (UNIT, model.encode(X).toarray()) if joint else (X, X - X.mean(axis=0))
        A, B = model.criterion_.bind(samples).matrices(codes)
        U = model.projection_
        top, bottom = np.trace(U.T @ A @ U), np.trace(U.T @ B @ U)
        assert model.score(X) == pytest.approx(top / bottom, rel=1e-9)
        ridge = model.ridge_ if joint else 0.5 * np.trace(B) / len(B)
        fitted = model.history_["quotient"][-1] if joint else model.quotient_
        assert fitted == pytest.approx(top / (bottom + 4 * ridge), rel=1e-6)


def test_projection_is_canonical():
    model = small("pca", 5, max_iter=2).fit(X)
    U = model.projection_
    centred = model.encode(X).toarray()
    centred = centred - centred.mean(axis=0)
    core = U.T @ centred.T @ centred @ U
    np.testing.assert_allclose(core, np.diag(np.diag(core)), atol=1e-8 * core[0, 0])
    assert np.all(np.diff(np.diag(core)) < 0)
    assert np.all(U[np.argmax(np.abs(U), axis=0), np.arange(5)] > 0)


def test_unsupervised_criteria_ignore_labels():
    for name in ("pca", "lle", "lap"):
        with_labels, without = (small(name, 4).fit(X, y) for y in (Y, None))
        np.testing.assert_array_equal(with_labels.projection_, without.projection_)
        assert not hasattr(with_labels, "classes_")
        one, two = (TraceQuotient(name, 4).fit(X, y) for y in (Y, None))
        np.testing.assert_array_equal(one.projection_, two.projection_)
        assert small(name, 4).fit(X, np.zeros(150)).score(X_NEW) == with_labels.score(X_NEW, Y_NEW)


def test_labels_may_be_words_or_any_numbers():
    words = np.array([f"digit {y}" for y in Y])
    plain = small().fit(X, Y)
    for y in (words, Y + 100, Y.astype(float), list(Y), Y - 100):
        model = small().fit(X, y)
        np.testing.assert_array_equal(model.projection_, plain.projection_)
        np.testing.assert_array_equal(model.classes_, np.unique(y))
    assert small().fit(X, words).score(X_NEW, [f"digit {y}" for y in Y_NEW]) == plain.score(X_NEW, Y_NEW)


def test_score_is_the_accuracy_of_the_nearest_neighbour(fitted):
    reference = KNeighborsClassifier(1).fit(fitted.transform(X), Y).score(fitted.transform(X_NEW), Y_NEW)
    assert fitted.score(X_NEW, Y_NEW) == reference
    assert reference > 0.7
    with pytest.raises(ValueError, match="score needs the labels"):
        fitted.score(X_NEW)


@pytest.mark.parametrize("model", [SparLow, TraceQuotient])
def test_score_of_semi_supervised_models_compares_with_labelled_samples(model):
    model = (small("sda") if model is SparLow else TraceQuotient("sda")).fit(X, SEMI)
    known = SEMI >= 0
    reference = KNeighborsClassifier(1).fit(model.transform(X)[known], Y[known])
    assert model.score(X_NEW, Y_NEW) == reference.score(model.transform(X_NEW), Y_NEW)


def test_images_come_back():
    """With all components the embedding loses nothing of the codes, so images come back as well as codes can tell."""
    model = small("pca", 60, n_atoms=60, prior=ElasticNet(0.01, 0.001), normalize_embedding=False).fit(X)
    codes = model.encode(X_NEW)
    back = model.inverse_transform(model.transform(X_NEW))
    np.testing.assert_allclose(back, codes @ model.dictionary_, atol=1e-8)
    error = np.linalg.norm(back - cases.unit(X_NEW)) / np.sqrt(200)
    assert error < 0.4
    few = small("pca", 5, n_atoms=60, prior=ElasticNet(0.01, 0.001), normalize_embedding=False).fit(X)
    assert np.linalg.norm(few.inverse_transform(few.transform(X_NEW)) - cases.unit(X_NEW)) / np.sqrt(200) > error
    round_ = small("pca", 60, n_atoms=60, prior=ElasticNet(0.01, 0.001)).fit(X)
    cosines = np.sum(cases.unit(round_.inverse_transform(round_.transform(X_NEW))) * cases.unit(X_NEW), axis=1)
    assert np.median(cosines) > 0.9
    with pytest.raises(ValueError, match="Z has 3 columns, but the embedding has 60"):
        model.inverse_transform(np.zeros((2, 3)))


def test_one_component_keeps_more_than_a_sign():
    model = SparLow("lda", n_atoms=30, max_iter=2, random_state=0).fit(X[Y < 2], Y[Y < 2])
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
    loose, tight = small(SLAP(far=0.0), 3).fit(X, SEMI), small(SLAP(far=1.0), 3).fit(X, SEMI)
    assert subspace_angles(loose.projection_, tight.projection_).max() > 1e-3
    assert small(LDA(balance=0)).fit(X, Y).history_["cost"][-1] > 0


def test_duplicate_samples_are_fine():
    for name in cases.CRITERIA:
        y = labels_for(name)
        model = small(name, 4, max_iter=1).fit(np.repeat(X[:60], 3, axis=0), np.repeat(y[:60], 3))
        assert np.all(np.isfinite(model.transform(X)))
        assert np.all(
            np.isfinite(TraceQuotient(name, 4).fit(np.repeat(X[:60], 3, axis=0), np.repeat(y[:60], 3)).embedding_)
        )


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
