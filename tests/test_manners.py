"""The estimators have the manners of scikit-learn: checks, clones, searches, types, threads."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from sparlow import DictionaryLearner, SparLow, TraceQuotient
from sparlow.criteria import LDA, MFA
from sparlow.parallel import chunks
from sparlow.priors import ElasticNet, KLDivergence
from sparlow.solvers import EarlyStopping, Solver
from sparlow.views import Shifts
from tests import cases
from tests.digits import N_ATOMS, X_NEW, Y_NEW, X, Y, labels_for, plain, small


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The samples are nearly equal")  # one check adds 100 to all of them
@pytest.mark.parametrize(
    ("name", "model"),
    [*((name, SparLow) for name in ("lda", "mvr", "sda", "pca")), *((name, TraceQuotient) for name in cases.CRITERIA)],
)
def test_every_check_of_scikit_learn_passes(name, model):
    options = {"max_iter": 2} if model is SparLow else {}
    expected = {
        f"check_sample_weight_equivalence_on_{kind}_data": "neighbours vote once" for kind in ("dense", "sparse")
    }
    if not cases.CRITERIA[name].weighted:
        for check in ("check_sample_weights_not_overwritten", "check_classifiers_one_label_sample_weights"):
            expected[check] = "the criterion refuses weights"
    if cases.CRITERIA[name].supervision != "none" and model is SparLow:
        for kind in ("transformer", "non_transformer_estimators"):
            expected[f"check_{kind}_n_iter"] = "steps that do not help on held-out samples are dropped"
    if cases.CRITERIA[name].supervision == "semi":
        expected["check_classifiers_classes"] = "its labels are -1 and 1, and -1 marks unlabelled samples"
    outcomes = check_estimator(model(name, **options), expected_failed_checks=expected, on_skip=None)
    others = {outcome["check_name"] for outcome in outcomes if outcome["status"] != "passed"}
    assert others <= {"check_array_api_input", *expected}
    assert len(outcomes) > 40


@pytest.mark.parametrize("model", [SparLow, TraceQuotient])
@pytest.mark.parametrize("name", cases.CRITERIA)
def test_models_of_classes_are_classifiers(name, model):
    assert is_classifier(model(name)) == (name in ("lda", "mfa"))
    assert not is_regressor(model(name))
    assert is_classifier(make_pipeline(StandardScaler(), model(cases.CRITERIA[name]))) == is_classifier(model(name))


def test_folds_keep_classes_and_scorers_rank_them():
    rows = np.argsort(Y, kind="stable")  # sorted by class, where folds in order would hold out whole classes
    model = SparLow("lda", n_atoms=20, max_iter=0, random_state=0)
    assert cross_val_score(model, X[rows], Y[rows], cv=3).min() > 0.8
    for scoring in ("roc_auc", "average_precision", "neg_log_loss"):
        assert cross_val_score(model, X, Y > 4, cv=3, scoring=scoring).min() > (-0.5 if "loss" in scoring else 0.9)


@pytest.mark.slow
@pytest.mark.parametrize("name", cases.CRITERIA)
def test_every_criterion_by_name_and_as_an_object(name):
    y = labels_for(name)
    for criterion in (name, cases.CRITERIA[name]):
        model = small(criterion, max_iter=1).fit(X, y)
        assert model.transform(X_NEW).shape == (200, model.n_components_)
        assert model.score(X_NEW, Y_NEW) > 0.6
        np.testing.assert_allclose(model.embedding_, model.transform(X), atol=1e-8)


def test_column_names_and_data_frames(fitted):
    frame = pd.DataFrame(X, columns=[f"pixel{i}" for i in range(64)])
    for model in (clone(fitted), TraceQuotient("lda", 9)):
        out = model.set_output(transform="pandas").fit(frame, Y).transform(frame)
        assert isinstance(out, pd.DataFrame)
        name = type(model).__name__.lower()
        assert list(out.columns) == list(model.get_feature_names_out()) == [f"{name}{i}" for i in range(out.shape[1])]
        assert list(model.feature_names_in_) == list(frame.columns)
        np.testing.assert_allclose(out.to_numpy(), model.set_output(transform="default").transform(frame))
        with pytest.raises(ValueError, match="feature names"):
            model.transform(frame[frame.columns[::-1]])
    regression = TraceQuotient("mvr").set_output(transform="pandas").fit(frame, Y)
    assert isinstance(regression.predict(frame), np.ndarray)


@pytest.mark.slow
@pytest.mark.parametrize("name", cases.CRITERIA)
def test_single_precision_is_kept_and_near_double(name):
    y = labels_for(name)
    for model in (small(name, max_iter=0), TraceQuotient(type(cases.CRITERIA[name])(shrinkage=0.1))):
        single, double = clone(model).fit(X.astype(np.float32), y), clone(model).fit(X, y)
        for out in (single.transform(X_NEW.astype(np.float32)), single.projection_, single.components_):
            assert out.dtype == np.float32
        assert double.transform(X_NEW).dtype == np.float64
        same = KNeighborsClassifier(1).fit(single.transform(X.astype(np.float32)), Y).predict(single.transform(X_NEW))
        other = KNeighborsClassifier(1).fit(double.transform(X), Y).predict(double.transform(X_NEW))
        assert np.mean(same == other) > 0.9


@pytest.mark.slow
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
    assert "criterion=MFA(" in repr(own)
    assert "k_within=5" in repr(own)
    assert "<div" in fitted._repr_html_()
    assert "SparLow" in fitted._repr_html_()
    assert "TraceQuotient" in TraceQuotient("pca")._repr_html_()
    for model in (SparLow(), TraceQuotient()):
        with pytest.raises(NotFittedError):
            model.transform(X)


@pytest.mark.slow
def test_search_over_criteria_priors_and_numbers():
    """Criteria with and without labels are judged alike: by the accuracy of their predictions."""
    grid = [
        {"criterion": ["lda", MFA(k_within=5, k_between=5)], "prior": [ElasticNet(0.2, 0.1), ElasticNet(0.1, 0.1)]},
        {"criterion": ["pca"], "n_components": [2, 8]},
    ]
    search = GridSearchCV(small(max_iter=0, dictionary="samples"), grid, cv=2, error_score="raise").fit(X, Y)
    scores = search.cv_results_["mean_test_score"]
    assert np.all((scores > 0.3) & (scores <= 1))
    assert scores[-1] > scores[-2]  # eight components against two
    assert search.score(X_NEW, Y_NEW) == np.mean(search.predict(X_NEW) == Y_NEW)
    pipeline = make_pipeline(small(max_iter=0), KNeighborsClassifier(1))
    steps = {"sparlow__n_atoms": [20, 30], "sparlow__max_iter": [0, 1]}
    assert GridSearchCV(pipeline, steps, cv=2).fit(X, Y).score(X_NEW, Y_NEW) > 0.7


# ── nested parameters ───────────────────────────────────────────────────────────────────────────────────────────────


def test_fields_of_parts_are_parameters():
    model = SparLow(MFA(k_within=5), prior=ElasticNet(0.1), views=Shifts(2), early_stopping=EarlyStopping(0.3))
    params = model.get_params()
    expected = {"criterion__k_within": 5, "criterion__shrinkage": None, "prior__l1": 0.1, "prior__l2": 1e-3}
    expected |= {"views__pixels": 2, "early_stopping__fraction": 0.3}
    assert expected.items() <= params.items()
    assert not any("__" in name for name in model.get_params(deep=False))
    assert not any("__" in name for name in SparLow().get_params())  # nothing is an object yet
    assert TraceQuotient(MFA(k_between=7)).get_params()["criterion__k_between"] == 7
    assert DictionaryLearner(prior=KLDivergence(0.1)).get_params()["prior__strength"] == 0.1


def test_setting_a_field_replaces_the_part_and_leaves_the_old_one_alone():
    prior = ElasticNet(0.1, 0.2)
    model = SparLow(prior=prior)
    other = clone(model).set_params(prior__l1=0.3)
    assert (other.prior, model.prior, prior) == (ElasticNet(0.3, 0.2), ElasticNet(0.1, 0.2), ElasticNet(0.1, 0.2))
    assert clone(other).prior == other.prior
    model.set_params(prior__l2=0.5, prior=ElasticNet(0.4))  # the whole first, whatever the order
    assert model.prior == ElasticNet(0.4, 0.5)
    model.set_params(**other.get_params())
    assert model.get_params() == other.get_params()


def test_names_become_objects_where_a_field_is_set():
    model = SparLow("mfa").set_params(criterion__k_within=3, solver__tol=1e-3, early_stopping__fraction=0.4)
    assert (model.criterion, model.solver) == (MFA(k_within=3), Solver(tol=1e-3))
    assert model.early_stopping == EarlyStopping(0.4)
    assert SparLow(solver="joint").set_params(solver__mu_coherence=0.1).solver == Solver("joint", mu_coherence=0.1)
    assert TraceQuotient("lda").set_params(criterion__shrinkage=0.3).criterion == LDA(shrinkage=0.3)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"prior__l1": 0.1}, r"prior__l1 cannot be set: prior is None"),
        ({"criterion__k_within": 3}, r"Invalid parameter 'k_within' of criterion=LDA.*shrinkage"),
        ({"solver__steps": 3}, r"Invalid parameter 'steps' of solver"),
        ({"solver__tol": -1}, "tol of Solver must be a number, not negative"),
        ({"criterion__shrinkage": -1}, "shrinkage of LDA must be"),
        ({"ridge": 1}, "Invalid parameter 'ridge'"),
    ],
)
def test_fields_that_cannot_be_set_are_named(params, said):
    with pytest.raises(ValueError, match=said):
        SparLow().set_params(**params)


@pytest.mark.slow
def test_fields_can_be_searched():
    model = small(MFA(), max_iter=0, dictionary="samples", prior=ElasticNet(0.2, 0.1))
    grid = {"criterion__k_within": [2, 4], "prior__l1": [0.1, 0.3], "solver__refresh_every": [1]}
    search = GridSearchCV(model, grid, cv=2, error_score="raise").fit(X, Y)
    best = search.best_params_
    assert search.best_estimator_.prior_ == ElasticNet(best["prior__l1"], 0.1)
    assert search.best_estimator_.criterion_.k_within == best["criterion__k_within"]
    pipeline = make_pipeline(model, KNeighborsClassifier(1)).set_params(sparlow__prior__l1=0.15)
    assert pipeline["sparlow"].prior == ElasticNet(0.15, 0.1)
    views = GridSearchCV(small(views=Shifts(1), max_iter=0), {"views__pixels": [1, 2]}, cv=2, error_score="raise")
    assert views.fit(X, Y).best_estimator_.views in (Shifts(1), Shifts(2))


def test_a_fit_leaves_parameters_and_a_transform_leaves_everything_as_it_is():
    for model in (small("mfa"), TraceQuotient("sda"), DictionaryLearner(20, random_state=0)):
        before = model.get_params()
        model.fit(X, Y)
        assert model.get_params() == before
        state = dict(vars(model))
        model.transform(X_NEW)
        if hasattr(model, "predict"):
            model.predict_proba(X_NEW)
            model.score(X_NEW, Y_NEW)
        assert vars(model).keys() == state.keys()
        assert all(vars(model)[name] is value for name, value in state.items())


@pytest.mark.slow
@pytest.mark.parametrize("build", [small, plain], ids=["whitened", "orthonormal"])
@pytest.mark.parametrize("name", cases.CRITERIA)
def test_the_same_seed_gives_the_same_bits_for_any_number_of_threads(name, build):
    models = [build(name, max_iter=3, n_jobs=jobs).fit(X, labels_for(name)) for jobs in (1, 2, None)]
    filled = ("transduction_",) if cases.CRITERIA[name].supervision == "semi" else ()
    for attribute in ("dictionary_", "projection_", "embedding_", *filled):
        first = getattr(models[0], attribute)
        for model in models[1:]:
            assert np.array_equal(first, getattr(model, attribute)), attribute


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pca", "lda", "slap"])
def test_the_same_bits_for_any_number_of_threads_over_several_chunks(name):
    many, y = load_digits(return_X_y=True)
    many, y = many[:1100], y[:1100]
    y = cases.hide_labels(y) if name == "slap" else y
    assert len(chunks(len(many), N_ATOMS)) > 2
    one, two = (small(name, max_iter=1, n_jobs=jobs).fit(many, y) for jobs in (1, 2))
    for attribute in ("dictionary_", "projection_", "embedding_"):
        np.testing.assert_array_equal(getattr(one, attribute), getattr(two, attribute))


def test_arguments_are_left_as_they_are():
    D = 3 * X[:20] + 1.0
    kept = X.copy(), Y.copy(), D.copy()
    small(dictionary=D).fit(X, Y).transform(X)
    TraceQuotient().fit(X, Y).transform(X)
    for one, two in zip(kept, (X, Y, D), strict=True):
        np.testing.assert_array_equal(one, two)
