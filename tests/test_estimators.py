"""The estimators: scikit-learn's manners, what they compute, and errors that help."""

import pickle
import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.linalg import subspace_angles
from sklearn import decomposition
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from sparlow import LAP, LDA, MFA, SLAP, ElasticNet, KLDivergence, SparLow, TraceQuotient, encode, problem, trace_ratio
from sparlow.criteria import criterion_named
from tests import cases
from tests.test_graphs import scatters

N_ATOMS = 30
X, Y = load_digits(return_X_y=True)
X_NEW, Y_NEW = X[300:500], Y[300:500]
X, Y = X[:150], Y[:150]
SEMI = cases.hide_labels(Y)
UNIT = cases.unit(X)


def labels_for(name):
    return SEMI if cases.CRITERIA[name].supervision == "semi" else Y


def small(criterion="lda", n_components=None, **options):
    """A model that is learned in a moment."""
    usual = {"max_iter": 2, "random_state": 0}
    if isinstance(options.get("dictionary", ""), str):
        usual["n_atoms"] = N_ATOMS
    return SparLow(criterion, n_components, **usual | options)


@pytest.fixture(scope="module")
def fitted():
    return small().fit(X, Y)


# ── manners ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("model", [SparLow, TraceQuotient])
@pytest.mark.parametrize("name", cases.CRITERIA)
def test_every_check_of_scikit_learn_passes(name, model):
    options = {"max_iter": 2} if model is SparLow else {}
    outcomes = check_estimator(model(name, **options), on_skip=None)
    skipped = {outcome["check_name"] for outcome in outcomes if outcome["status"] != "passed"}
    assert skipped <= {"check_array_api_input"}
    assert len(outcomes) > 40


@pytest.mark.parametrize("name", cases.CRITERIA)
def test_every_criterion_by_name_and_as_an_object(name):
    y = labels_for(name)
    for criterion in (name, cases.CRITERIA[name]):
        model = small(criterion, max_iter=1).fit(X, y)
        assert model.transform(X_NEW).shape == (200, model.n_components_)
        assert model.score(X_NEW, Y_NEW) > (0 if criterion_named(name).supervision == "none" else 0.6)
        np.testing.assert_allclose(model.embedding_, model.transform(X), atol=1e-8)


def test_column_names_and_data_frames(fitted):
    frame = pd.DataFrame(X, columns=[f"pixel{i}" for i in range(64)])
    for model in (clone(fitted), TraceQuotient("lda", 9)):
        out = model.set_output(transform="pandas").fit(frame, Y).transform(frame)
        assert isinstance(out, pd.DataFrame)
        name = type(model).__name__.lower()
        assert list(out.columns) == list(model.get_feature_names_out()) == [f"{name}{i}" for i in range(9)]
        assert list(model.feature_names_in_) == list(frame.columns)
        np.testing.assert_allclose(out.to_numpy(), model.set_output(transform="default").transform(frame))
        with pytest.raises(ValueError, match="feature names"):
            model.transform(frame[frame.columns[::-1]])
    regression = TraceQuotient("mvr").set_output(transform="pandas").fit(frame, Y)
    assert isinstance(regression.predict(frame), np.ndarray)


@pytest.mark.parametrize("name", cases.CRITERIA)
def test_single_precision_is_kept_and_near_double(name):
    y = labels_for(name)
    for model in (small(name, max_iter=0), TraceQuotient(name, shrinkage=0.1)):
        single, double = clone(model).fit(X.astype(np.float32), y), clone(model).fit(X, y)
        for out in (single.transform(X_NEW.astype(np.float32)), single.projection_, single.components_):
            assert out.dtype == np.float32
        assert double.transform(X_NEW).dtype == np.float64
        same = KNeighborsClassifier(1).fit(single.transform(X.astype(np.float32)), Y).predict(single.transform(X_NEW))
        other = KNeighborsClassifier(1).fit(double.transform(X), Y).predict(double.transform(X_NEW))
        assert np.mean(same == other) > 0.9


def test_sparse_samples_give_the_same_model():
    for model in (small(), small("pca"), TraceQuotient("lda"), TraceQuotient("mfa"), TraceQuotient("lle")):
        dense, sparse = clone(model).fit(X, Y), clone(model).fit(sp.csr_array(X), Y)
        np.testing.assert_allclose(sparse.transform(sp.csr_array(X_NEW)), dense.transform(X_NEW), atol=1e-5)
        assert sparse.score(sp.csr_array(X_NEW), Y_NEW) == pytest.approx(dense.score(X_NEW, Y_NEW), rel=1e-3)


def test_clone_pickle_and_representations(fitted):
    assert not hasattr(clone(fitted), "dictionary_")
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.transform(X_NEW), fitted.transform(X_NEW))
    own = small(MFA(k_within=5), prior=KLDivergence(0.05, mean=0.01))
    assert clone(own).get_params() == own.get_params()
    assert "MFA(k_within=5" in repr(own)
    assert "<div" in fitted._repr_html_()
    assert "SparLow" in fitted._repr_html_()
    assert "TraceQuotient" in TraceQuotient("pca")._repr_html_()
    for model in (SparLow(), TraceQuotient()):
        with pytest.raises(NotFittedError):
            model.transform(X)


def test_search_over_criteria_priors_and_numbers():
    grid = [
        {"criterion": ["lda", MFA(k_within=5, k_between=5)], "prior": [ElasticNet(0.2, 0.1), ElasticNet(0.1, 0.1)]},
        {"criterion": ["pca"], "n_components": [2, 8]},
    ]
    search = GridSearchCV(small(max_iter=0, dictionary="samples"), grid, cv=2, error_score="raise").fit(X, Y)
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))
    assert search.best_estimator_.transform(X_NEW).shape[0] == 200
    pipeline = make_pipeline(small(max_iter=0), KNeighborsClassifier(1))
    steps = {"sparlow__n_atoms": [20, 30], "sparlow__max_iter": [0, 1]}
    assert GridSearchCV(pipeline, steps, cv=2).fit(X, Y).score(X_NEW, Y_NEW) > 0.7


@pytest.mark.parametrize("name", cases.CRITERIA)
def test_the_same_seed_gives_the_same_bits_for_any_number_of_threads(name):
    models = [small(name, max_iter=3, n_jobs=jobs).fit(X, labels_for(name)) for jobs in (1, 2, None)]
    for attribute in ("dictionary_", "projection_", "embedding_"):
        first = getattr(models[0], attribute)
        for model in models[1:]:
            assert np.array_equal(first, getattr(model, attribute)), attribute


def test_arguments_are_left_as_they_are():
    D = 3 * X[:20] + 1.0
    kept = X.copy(), Y.copy(), D.copy()
    small(dictionary=D).fit(X, Y).transform(X)
    TraceQuotient().fit(X, Y).transform(X)
    for one, two in zip(kept, (X, Y, D), strict=True):
        np.testing.assert_array_equal(one, two)


# ── what is computed ────────────────────────────────────────────────────────────────────────────────────────────────


def test_classical_pca_is_pca():
    model = TraceQuotient("pca", 5).fit(X)
    reference = decomposition.PCA(5).fit(X)
    assert subspace_angles(model.projection_, reference.components_.T).max() < 1e-6
    signs = np.sign(np.sum(model.components_ * reference.components_, axis=1))
    np.testing.assert_allclose(model.components_, signs[:, None] * reference.components_, atol=1e-6)
    np.testing.assert_allclose(model.transform(X_NEW), signs * reference.transform(X_NEW), atol=1e-5)
    np.testing.assert_allclose(model.mean_, reference.mean_)
    assert 2 * model.quotient_ == pytest.approx(reference.explained_variance_ratio_.sum() / 5)  # halved by shrinkage
    restored = reference.inverse_transform(reference.transform(X_NEW))
    np.testing.assert_allclose(model.inverse_transform(model.transform(X_NEW)), restored, atol=1e-5)


def test_classical_lda_of_whitened_samples_is_lda():
    samples = np.random.default_rng(0).standard_normal((150, 10)) @ np.diag(np.arange(1, 11)) + np.eye(10)[Y] * 9
    _, within, _ = scatters(samples, Y)
    values, vectors = np.linalg.eigh(within / 150)
    white = samples @ vectors / np.sqrt(values)
    model = TraceQuotient("lda", 4, shrinkage=0).fit(white, Y)
    reference = LinearDiscriminantAnalysis(solver="eigen").fit(white, Y).scalings_[:, :4]
    assert subspace_angles(model.projection_, reference).max() < 1e-6


@pytest.mark.parametrize("name", cases.CRITERIA)
def test_no_component_of_classical_models_is_empty(name):
    """Pixels that are always black add nothing to either trace, and must not take the place of components that do."""
    assert np.any(np.ptp(X, axis=0) == 0)
    model = TraceQuotient(name, 9).fit(X, labels_for(name))
    assert np.all(np.std(model.embedding_, axis=0) > 1e-6)
    np.testing.assert_allclose(model.projection_[np.ptp(X, axis=0) == 0], 0, atol=1e-6)
    np.testing.assert_allclose(model.projection_.T @ model.projection_, np.eye(9), atol=1e-10)


@pytest.mark.parametrize("shrinkage", [0.0, 0.5])
def test_classical_lda_is_the_best_quotient_of_scatters(shrinkage):
    samples = X[:, 10:30] + np.random.default_rng(0).standard_normal((150, 20))
    between, within, _ = scatters(samples, Y)
    within = within + shrinkage * np.trace(within) / 20 * np.eye(20)
    U, value, _ = trace_ratio(between, within, 3)
    model = TraceQuotient("lda", 3, shrinkage=shrinkage).fit(samples, Y)
    assert model.quotient_ == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(model.projection_, U, atol=1e-6)


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
    same = slice(None) if not hasattr(model.criterion_, "balance") else slice(1)  # f is as written, J of balanced pairs
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


# ── regression ──────────────────────────────────────────────────────────────────────────────────────────────────────


def linear_data(seed=0):
    """Samples in ten dimensions and two targets that are linear in them."""
    rng = np.random.default_rng(seed)
    samples = rng.standard_normal((300, 10))
    return samples, samples @ rng.standard_normal((10, 2)) + [3, -1]


@pytest.mark.parametrize("name", ["mvr", "smvr"])
def test_regression_of_real_targets(name):
    samples, targets = linear_data()
    if name == "smvr":
        rows = np.arange(300) % 3 == 0
        given = np.where(rows[:, None], np.nan, targets)
        given[::6, 0] = 1e6  # one number missing is enough: the row is unlabelled
    else:
        given = targets
    model = TraceQuotient(name, shrinkage=1e-4).fit(samples[:200], given[:200])
    reference = LinearRegression().fit(samples[:200], targets[:200])
    assert r2_score(targets[200:], reference.predict(samples[200:])) == pytest.approx(1)
    assert r2_score(targets[200:], model.predict(samples[200:])) > 0.95
    assert model.score(samples[200:], targets[200:]) > 0.95
    one = TraceQuotient(name, shrinkage=1e-4).fit(samples[:200], given[:200, 1])
    assert one.predict(samples[200:]).shape == (100,)
    assert one.score(samples[200:], targets[200:, 1]) > 0.95


@pytest.mark.parametrize("name", ["mvr", "smvr"])
def test_joint_regression_of_real_targets(name):
    samples, targets = linear_data()
    D = np.eye(10)
    model = SparLow(
        name, dictionary=D, prior=ElasticNet(0.01, 0.01), max_iter=2, shrinkage=1e-3, normalize=False,
        normalize_embedding=False,
    )  # fmt: skip
    given = targets.copy()
    if name == "smvr":
        given[::4] = np.nan
    model.fit(samples[:200], given[:200])
    assert model.predict(samples[200:]).shape == (100, 2)
    assert model.score(samples[200:], targets[200:]) > 0.9


def test_regression_of_indicators_and_classes():
    indicators = np.stack([Y % 2 == 0, Y > 4, Y == 3], axis=1).astype(int)
    expected = np.stack([Y_NEW % 2 == 0, Y_NEW > 4, Y_NEW == 3], axis=1)
    for model in (small("mvr"), TraceQuotient("mvr"), small("smvr"), TraceQuotient("smvr")):
        predicted = clone(model).fit(X, indicators).predict(X_NEW)
        assert predicted.shape == (200, 3)
        assert np.mean((predicted > 0.5) == expected) > 0.8
        classes = clone(model).fit(X, Y)
        assert np.mean(classes.predict(X_NEW) == Y_NEW) > 0.65
        words = clone(model).fit(X, np.array(list("abcdefghij"))[Y])
        assert set(words.predict(X_NEW)) <= set("abcdefghij")
    half = TraceQuotient("smvr").fit(X, SEMI)
    assert np.mean(half.predict(X_NEW) == Y_NEW) > 0.65
    assert -1 not in half.predict(X_NEW)


def test_whole_numbers_are_targets_too():
    """Counts in two columns are no classes."""
    counts = np.stack([Y, (X > 8).sum(axis=1)], axis=1)
    predicted = TraceQuotient("mvr").fit(X, counts).predict(X)
    assert predicted.shape == (150, 2)
    assert r2_score(counts[:, 1], predicted[:, 1]) > 0.5


def test_another_fit_leaves_nothing_of_the_last_one():
    for model in (small("mvr"), TraceQuotient("mvr")):
        assert hasattr(model.fit(X, Y), "classes_")
        model.set_params(criterion="pca").fit(X)
        assert not hasattr(model, "classes_")
        assert not hasattr(model, "regression_")


def test_only_regressions_predict(fitted):
    assert not hasattr(fitted, "predict")
    assert hasattr(SparLow("mvr"), "predict")
    with pytest.raises(NotFittedError):
        TraceQuotient("smvr").predict(X)


# ── following and stopping ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_callback_sees_each_step_and_can_stop():
    rows = []

    def stop_at_two(row):
        rows.append(row)
        return row["step_number"] == 2

    model = small(max_iter=9, callback=stop_at_two).fit(X, Y)
    assert (model.n_iter_, model.stop_reason_) == (2, "stopped by callback")
    assert [row["step_number"] for row in rows] == [1, 2]
    assert rows[1]["cost"] == model.history_["cost"][2]
    np.testing.assert_array_equal(small(max_iter=2).fit(X, Y).dictionary_, model.dictionary_)


def test_verbose_prints_a_line_for_each_step(capsys):
    small(max_iter=2, verbose=1).fit(X, Y)
    lines = capsys.readouterr().out.splitlines()
    assert [re.match(r"\[SparLow\] step +(\d+)  J [\d.]+  f [\d.]+  nonzeros", line)[1] for line in lines] == ["1", "2"]
    small(max_iter=1, verbose=1, validation_fraction=0.2).fit(X, Y)
    assert re.search(r"held out 0\.\d{4}", capsys.readouterr().out)
    small(max_iter=1).fit(X, Y)
    assert not capsys.readouterr().out


def test_progress_bar_of_scikit_learn(capsys):
    callback = pytest.importorskip("sklearn.callback")
    model = small(max_iter=2).set_callbacks(callback.ProgressBar()).fit(X, Y)
    assert "SparLow" in capsys.readouterr().out
    np.testing.assert_array_equal(model.dictionary_, small(max_iter=2).fit(X, Y).dictionary_)


@pytest.mark.parametrize("name", ["lda", "mvr", "pca"])
def test_scoring_monitor_of_scikit_learn(name):
    callback = pytest.importorskip("sklearn.callback")

    def as_good_as(estimator, samples, y):
        return float(estimator.score(samples, y))

    monitor = callback.ScoringMonitor(scoring={"own": as_good_as})
    model = small(name, max_iter=2, random_state=1).set_callbacks(monitor).fit(X, Y)
    scores = [row["own"] for row in monitor.get_logs().data if row["task_name"] == "step"]
    assert len(scores) == 2
    assert scores[-1] == pytest.approx(model.score(X, Y))


def test_warm_start_goes_on():
    model = small("pca", 4, warm_start=True).fit(X)
    first = model.history_
    D = model.dictionary_
    model.fit(X)
    assert model.history_["quotient"][0] == pytest.approx(first["quotient"][-1], rel=1e-2)
    assert model.history_["cost"][-1] > first["cost"][-1]
    np.testing.assert_array_equal(model.set_params(max_iter=0).fit(X).dictionary_.shape, D.shape)
    cold = small("pca", 4).fit(X).fit(X)
    np.testing.assert_array_equal(cold.dictionary_, D)


def test_warm_start_with_other_features_says_so():
    model = small("pca", 4, warm_start=True).fit(X)
    with pytest.raises(ValueError, match="features"):
        model.fit(X[:, :40])


def test_an_interrupt_leaves_the_best_model_so_far():
    def interrupt(row):
        if row["step_number"] == 2:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="interrupted after 2 steps"):
        model = small(max_iter=9, callback=interrupt).fit(X, Y)
    assert (model.n_iter_, model.stop_reason_) == (2, "interrupted")
    np.testing.assert_array_equal(model.dictionary_, small(max_iter=2).fit(X, Y).dictionary_)
    assert model.score(X_NEW, Y_NEW) > 0.7


@pytest.mark.parametrize("validation_fraction", [None, 0.3])
def test_an_interrupt_while_coding(monkeypatch, validation_fraction):
    """Ctrl-C comes at any time; here within the line search."""
    true, count = problem.encode, []

    def interrupted(*args, **options):
        count.append(1)
        if len(count) == 4:
            raise KeyboardInterrupt
        return true(*args, **options)

    monkeypatch.setattr(problem, "encode", interrupted)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = small(max_iter=9, validation_fraction=validation_fraction).fit(X, Y)
    assert model.stop_reason_ == "interrupted"
    assert model.transform(X_NEW).shape == (200, 9)
    assert len(model.history_["cost"]) == model.n_iter_ + 1


# ── a held-out part ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", cases.CRITERIA)
def test_the_best_held_out_step_is_chosen(name):
    y = labels_for(name)
    model = small(name, 4, max_iter=4, validation_fraction=0.25, n_iter_no_change=9).fit(X, y)
    scores = model.history_["held_out"]
    assert np.all(np.isfinite(scores))
    assert model.best_iter_ == np.argmax(scores)
    assert model.embedding_.shape == (150, 4)
    np.testing.assert_allclose(model.embedding_, model.transform(X), atol=1e-8)


@pytest.mark.parametrize("name", ["mvr", "smvr"])
def test_real_targets_are_held_out_too(name):
    samples, targets = linear_data()
    if name == "smvr":
        targets[::5] = np.nan
    options = {"dictionary": np.eye(10), "prior": ElasticNet(0.01, 0.01), "normalize": False}
    model = small(name, max_iter=3, validation_fraction=0.25, normalize_embedding=False, **options)
    model.fit(samples, targets)
    scores = model.history_["held_out"]
    assert model.best_iter_ == np.argmax(scores)
    assert np.all((scores > 0.5) & (scores <= 1))


def test_steps_are_chosen_without_the_held_out_samples_and_the_model_is_made_of_all(monkeypatch):
    seen = []
    true = problem.encode
    monkeypatch.setattr(problem, "encode", lambda samples, *a, **o: seen.append(samples) or true(samples, *a, **o))
    model = small(max_iter=2, validation_fraction=0.2, dictionary="samples").fit(X, Y)
    sizes = [len(samples) for samples in seen]
    change = sizes.index(150)
    assert set(sizes[:change]) == {120}
    assert set(sizes[change:]) == {150}
    found = np.isclose(seen[0] @ UNIT.T, 1, atol=1e-12).any(axis=0)
    assert found.sum() == 120
    assert model.history_["nonzeros"].shape == (model.n_iter_ + 1,)
    assert small(max_iter=0, dictionary="samples", validation_fraction=0.2).fit(X, Y).best_iter_ == 0


def test_learning_stops_when_the_held_out_score_no_longer_rises():
    model = small(max_iter=40, validation_fraction=0.3, n_iter_no_change=2).fit(X, Y)
    assert model.stop_reason_ == "held-out score no longer rises"
    assert model.n_iter_ == model.best_iter_ + 2
    twin = small(max_iter=40, validation_fraction=0.3, n_iter_no_change=2).fit(X, Y)
    np.testing.assert_array_equal(model.dictionary_, twin.dictionary_)


# ── errors that help ────────────────────────────────────────────────────────────────────────────────────────────────

BOTH = pytest.mark.parametrize("build", [small, TraceQuotient], ids=["SparLow", "TraceQuotient"])


@BOTH
@pytest.mark.parametrize("name", ["lda", "mfa", "mvr", "sda", "slap", "smvr"])
def test_one_class_only(build, name):
    with pytest.raises(ValueError, match=r"at least two classes, but y has 1 class.*3.*pca, lle or lap"):
        build(name).fit(X, np.full(150, 3))
    with pytest.raises(ValueError, match="requires y to be passed"):
        build(name).fit(X)


@BOTH
@pytest.mark.parametrize("name", ["sda", "slap", "smvr"])
def test_no_labels_at_all(build, name):
    with pytest.raises(ValueError, match="all unlabelled"):
        build(name).fit(X, np.full(150, -1))


@BOTH
@pytest.mark.parametrize("name", ["mfa", "slap"])
def test_a_class_with_one_sample(build, name):
    y = np.where(Y == 7, 6, Y)
    y[0] = 7
    with pytest.raises(ValueError, match=r"at least 2 of each; 1 sample has the label 7.*use lda"):
        build(name).fit(X, y)
    build("lda").fit(X, y)


@BOTH
def test_every_class_with_one_sample(build):
    with pytest.raises(ValueError, match="one sample only"):
        build("lda").fit(X[:10], np.arange(10))


@BOTH
@pytest.mark.parametrize("name", ["lda", "sda"])
def test_more_components_than_discriminants(build, name):
    with pytest.raises(
        ValueError, match=r"n_components=10 is more than .* can give here, which is 9 \(classes - 1 = 9\)"
    ):
        build(name, 10).fit(X, Y)
    assert build(name, 9).fit(X, Y).transform(X).shape == (150, 9)


def test_more_components_than_atoms_or_features():
    with pytest.raises(ValueError, match=r"n_components=31 .* which is 30 \(the 30 atoms\)"):
        small("pca", 31).fit(X)
    with pytest.raises(ValueError, match=r"n_components=65 .* which is 64 \(the 64 features\)"):
        TraceQuotient("pca", 65).fit(X)


@pytest.mark.parametrize("name", ["pca", "lda", "sda"])
def test_more_atoms_than_samples(name):
    with pytest.raises(ValueError, match=r"n_atoms=151.*150"):
        small(name, n_atoms=151).fit(X, labels_for(name))


@pytest.mark.parametrize("scale", [1.0, 16.0])
def test_all_codes_zero_names_a_weight_that_works(scale):
    samples = X if scale == 1 else scale * X
    model = small(prior=ElasticNet(1e4), normalize=scale == 1)
    with pytest.raises(ValueError, match=r"All codes are zero: l1=1e\+04 is too large") as caught:
        model.fit(samples, Y)
    below, example = re.search(r"l1 below (\S+), for instance ElasticNet\((\S+)\)", str(caught.value)).groups()
    fitted = clone(model).set_params(prior=ElasticNet(float(example))).fit(samples, Y)
    assert fitted.score(samples, Y) > 0.9
    assert encode(fitted._scaled(samples), fitted.dictionary_, ElasticNet(0.9 * float(below))).nnz
    with pytest.raises(ValueError, match="All codes are zero"):
        clone(model).set_params(prior=ElasticNet(1.01 * float(below))).fit(samples, Y)


@BOTH
@pytest.mark.parametrize("name", ["pca", "lda", "mfa", "mvr"])
def test_constant_samples(build, name):
    with pytest.raises(ValueError, match=r"All samples are zero or multiples of the same one|no scatter"):
        build(name).fit(np.ones((20, 5)), np.arange(20) % 2)


def test_duplicate_samples_are_fine():
    for name in cases.CRITERIA:
        y = labels_for(name)
        model = small(name, 4, max_iter=1).fit(np.repeat(X[:60], 3, axis=0), np.repeat(y[:60], 3))
        assert np.all(np.isfinite(model.transform(X)))
        assert np.all(
            np.isfinite(TraceQuotient(name, 4).fit(np.repeat(X[:60], 3, axis=0), np.repeat(y[:60], 3)).embedding_)
        )


def test_samples_of_zeros_are_fine():
    samples = X.copy()
    samples[::10] = 0
    for name in cases.CRITERIA:
        model = small(name, 4, max_iter=1).fit(samples, labels_for(name))
        assert np.all(np.isfinite(model.transform(samples)))


def test_constant_targets():
    for build in (small, TraceQuotient):
        with pytest.raises(ValueError, match="constant or all missing"):
            build("mvr").fit(X, np.full(150, 0.5))
        with pytest.raises(ValueError, match="constant or all missing"):
            build("smvr").fit(X, np.full((150, 2), np.nan))
        with pytest.raises(ValueError, match="NaN"):
            build("mvr").fit(X, np.where(Y > 4, np.nan, 0.5))


@pytest.mark.parametrize(
    ("dictionary", "message"),
    [
        (np.ones((5, 63)), "atoms of 63 features, but X has 64"),
        (np.zeros((5, 64)), "atoms of norm zero"),
        ("svd", "dictionary"),
    ],
)
def test_errors_of_an_own_dictionary(dictionary, message):
    with pytest.raises(ValueError, match=message):
        small(dictionary=dictionary).fit(X, Y)


def test_unknown_criterion():
    for model in (SparLow, TraceQuotient):
        with pytest.raises(ValueError, match="criterion"):
            model("ica").fit(X, Y)
        assert not hasattr(model("ica"), "predict")


def test_an_own_graph_and_samples_it_does_not_know():
    graph = sp.csr_array(np.ones((150, 150)) - np.eye(150))
    model = TraceQuotient(LAP(graph=graph), 2).fit(X)
    with pytest.raises(ValueError, match="graph must have shape"):
        model.score(X_NEW)


def test_options_of_criteria_reach_the_model():
    loose, tight = small(SLAP(far=0.0), 3).fit(X, SEMI), small(SLAP(far=1.0), 3).fit(X, SEMI)
    assert subspace_angles(loose.projection_, tight.projection_).max() > 1e-3
    assert small(LDA(balance=0)).fit(X, Y).history_["cost"][-1] > 0


# ── one component, few labels, second fits ──────────────────────────────────────────────────────────────────────────


def test_one_component_keeps_more_than_a_sign():
    model = SparLow("lda", n_atoms=30, max_iter=2, random_state=0).fit(X[Y < 2], Y[Y < 2])
    assert model.embedding_.shape[1] == 1
    assert len(np.unique(np.round(model.embedding_, 6))) > 10
    np.testing.assert_allclose(model.transform(X[Y < 2]), model.embedding_, atol=1e-8)


def test_regression_of_one_target_at_the_defaults_has_more_than_two_values():
    samples, targets = linear_data()
    model = SparLow("mvr", n_atoms=40, max_iter=2, random_state=0).fit(samples, targets[:, 0])
    assert len(np.unique(np.round(model.predict(samples), 6))) > 20
    assert model.score(samples, targets[:, 0]) > 0.5


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


def test_what_contradicts_an_own_dictionary_is_refused():
    D = UNIT[:20]
    with pytest.raises(ValueError, match="n_atoms=7, but dictionary has 20 atoms"):
        SparLow("lda", dictionary=D, n_atoms=7).fit(X, Y)
    model = small(warm_start=True).fit(X, Y)
    with pytest.raises(ValueError, match="warm_start"):
        model.set_params(n_atoms=12).fit(X, Y)
    graph = sp.eye_array(len(X), format="csr")
    with pytest.raises(ValueError, match="one of your own"):
        small(LAP(graph=graph), validation_fraction=0.2).fit(X)


def test_an_interrupt_while_learning_from_all_keeps_the_model_of_the_part(monkeypatch):
    true = SparLow._first_dictionary
    calls = []

    def second_is_interrupted(self, *arguments):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return true(self, *arguments)

    monkeypatch.setattr(SparLow, "_first_dictionary", second_is_interrupted)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = small(max_iter=2, validation_fraction=0.3).fit(X, Y)
    assert model.transform(X_NEW).shape == (200, 9)
    calls.clear()
    model = small(max_iter=2, validation_fraction=0.3, callback=lambda row: True).fit(X, Y)
    assert (len(calls), model.stop_reason_) == (1, "stopped by callback")


def test_whole_numbers_as_floats_are_targets_where_there_are_too_many_for_classes():
    samples, targets = linear_data()
    ages = np.round(40 + 10 * targets[:, 0])
    model = SparLow("mvr", n_atoms=40, max_iter=0, random_state=0).fit(samples, ages)
    assert not hasattr(model, "classes_")
    assert model.n_components_ == 1
    assert hasattr(small("mvr").fit(X, Y.astype(float)), "classes_")


def test_minus_one_as_a_class_is_pointed_out():
    with pytest.warns(UserWarning, match="-1 as a class of its own"):
        small().fit(X, cases.hide_labels(Y))


@pytest.mark.parametrize("model", [SparLow(), TraceQuotient()], ids=str)
def test_stacks_of_pictures_are_told_to_become_rows(model):
    with pytest.raises(ValueError, match=r"reshape\(len\(X\), -1\)"):
        model.fit(X.reshape(-1, 8, 8), Y)
