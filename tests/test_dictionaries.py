"""Laws of dictionary learners, and the manners of their estimator."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import orthogonal_mp
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import normalize
from sklearn.utils.estimator_checks import check_estimator

from sparlow import encode, objective
from sparlow.defaults import default_n_atoms, default_prior
from sparlow.dictionaries import LEARNERS, class_union, ksvd, learn_dictionary, omp, online, rls_dla, samples
from sparlow.dictionaries.atoms import renew
from sparlow.dictionaries.memory import Recursion, Sums
from sparlow.dictionaries.pursuit import _residual, _update, pursue
from sparlow.estimators import DictionaryLearner
from sparlow.parallel import Threads
from sparlow.priors import ElasticNet, KLDivergence
from tests import cases

learners = pytest.mark.parametrize("learner", cases.LEARNERS.values(), ids=cases.LEARNERS)
all_learners = pytest.mark.parametrize("learner", cases.ALL_LEARNERS.values(), ids=cases.ALL_LEARNERS)


def likeness(D, E):
    """How well each atom of D is met by one of E: the largest cosine, sign aside."""
    return np.abs(D @ E.T).max(axis=1)


# ── laws of every learner ───────────────────────────────────────────────────────────────────────────────────────────


@all_learners
@pytest.mark.interpreted
def test_atoms_have_unit_norm_and_inputs_stay_as_they_are(learner):
    X, _ = cases.planted(60, 6, 8, 2)
    X[3] = 0
    X.flags.writeable = False
    D = learner(X, 9, random_state=0)
    assert D.shape == (9, 6)
    np.testing.assert_allclose(np.linalg.norm(D, axis=1), 1, rtol=1e-14)


@learners
def test_held_out_objective_is_lower_than_that_of_the_start(learner):
    X = normalize(load_digits(return_X_y=True)[0])
    train, test = X[:1200], X[1200:]
    start = samples(train, 60, random_state=1)
    D = learner(train, 60, start=start, random_state=0, n_iter=5)
    prior = ElasticNet(0.1)
    before, after = (objective(test, atoms, prior, encode(test, atoms, prior)).mean() for atoms in (start, D))
    assert after < 0.96 * before


@pytest.mark.slow
@learners
def test_a_planted_dictionary_is_found(learner):
    X, D = cases.planted(1500, 20, 30, 3)
    found = np.mean([likeness(D, learner(X, 30, n_iter=40, random_state=seed)) > 0.99 for seed in range(2)])
    assert found >= 0.8


@all_learners
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.slow
def test_same_bits_for_any_number_of_threads_and_precision_kept(learner, dtype):
    X = cases.planted(1300, 12, 20, 3)[0].astype(dtype)
    options = [{}] if learner is samples else [{"n_jobs": 1}, {"n_jobs": 2}]
    first, *others = (learner(X, 20, random_state=3, **more) for more in [*options, options[-1]])
    assert first.dtype == dtype
    for other in others:
        np.testing.assert_array_equal(first, other)
    assert not np.array_equal(first, learner(X, 20, random_state=4))


@all_learners
def test_sparse_samples_give_the_atoms_of_dense_ones(learner):
    X = cases.planted(200, 10, 15, 2)[0]
    X[np.abs(X) < 0.2] = 0
    dense, sparse = (learner(data, 12, random_state=0) for data in (X, sp.csr_array(X)))
    np.testing.assert_allclose(dense, sparse, atol=1e-8)


@learners
@pytest.mark.interpreted
def test_dead_and_duplicate_atoms_are_replaced(learner):
    X, _ = cases.planted(60, 6, 8, 2)
    X[:, 5] = 0
    start = np.vstack([samples(X, 6, random_state=0), np.eye(6)[5:], np.zeros((1, 6))])
    start[7] = start[0]
    D = learner(X, 8, start=start, random_state=0, n_iter=4)
    assert np.abs(D[:, 5]).max() < 0.5
    assert np.max(np.abs(D @ D.T) - np.eye(8)) < 0.99


@learners
@pytest.mark.interpreted
def test_callback_hears_falling_costs_and_can_stop(learner):
    X, _ = cases.planted(90, 6, 8, 2)
    heard = []
    D = learner(X, 8, random_state=0, callback=lambda *words: heard.append(words) or len(heard) == 3)
    assert [iteration for iteration, _, _ in heard] == [1, 2, 3]
    assert heard[2][2] < heard[0][2]
    np.testing.assert_array_equal(D, heard[2][1])


@pytest.mark.interpreted
def test_ksvd_of_positive_codes_rebuilds_samples_by_adding_atoms():
    """Its atoms serve a prior of positive codes better than those learned with codes of either sign."""
    rng = np.random.default_rng(0)
    D = cases.unit(rng.standard_normal((9, 6)))
    codes = np.where(rng.random((150, 9)) < 0.25, rng.uniform(0.5, 1.5, (150, 9)), 0)
    X = codes @ D
    prior = ElasticNet(0.02, 1e-3, positive=True)
    costs = []
    options = {"n_nonzero": 3, "random_state": 0}
    heard = []
    for positive in (True, False):
        found = ksvd(X, 9, positive=positive, callback=lambda *words: heard.append(words[2]), **options)
        costs.append(objective(X, found, prior, encode(X, found, prior)).mean())
    assert costs[0] < 0.8 * costs[1]
    assert heard[9] < heard[0]
    by_name, _ = learn_dictionary("ksvd", X, 9, prior=prior, **options)
    np.testing.assert_array_equal(by_name, ksvd(X, 9, positive=True, **options))


@all_learners
@pytest.mark.interpreted
def test_errors_say_what_to_do(learner):
    X, _ = cases.planted(20, 6, 8, 2)
    X[3], X[5] = 0, 2 * X[4]
    with pytest.raises(ValueError, match=r"n_atoms=19 .* 18 samples .*20 rows.* at most 18 atoms"):
        learner(X, 19)
    for wrong in (0, 2.5, True, "8"):
        with pytest.raises(ValueError, match="n_atoms must be a positive whole number"):
            learner(X, wrong)
    with pytest.raises(ValueError, match="divide it by its scale"):
        learner(1e150 * X, 3)
    X[0, 0] = np.nan
    with pytest.raises(ValueError, match="X contains NaN"):
        learner(X, 3)


@learners
@pytest.mark.interpreted
def test_wrong_options_are_refused(learner):
    X, _ = cases.planted(20, 6, 8, 2)
    with pytest.raises(ValueError, match=r"start must have shape \(3, 6\)"):
        learner(X, 3, start=np.eye(6))
    with pytest.raises(ValueError, match="start has atoms of zero norm"):
        learner(X, 3, start=np.zeros((3, 6)))
    with pytest.raises(ValueError, match="n_iter must be a positive whole number"):
        learner(X, 3, n_iter=0)


@pytest.mark.parametrize(
    ("learner", "options", "message"),
    [
        (online, {"forgetting": -1}, "zero or a positive number"),
        (online, {"batch_size": 0}, "batch_size must be"),
        (online, {"prior": 0.1}, "prior must be an object"),
        (rls_dla, {"forgetting": 0}, "above 0 and at most 1"),
        (rls_dla, {"horizon": 2}, "horizon must be"),
    ],
)
@pytest.mark.interpreted
def test_wrong_options_of_streams_are_refused(learner, options, message):
    with pytest.raises(ValueError, match=message):
        learner(np.eye(4), 2, **{"prior": ElasticNet(0.1), **options})


@learners
@pytest.mark.interpreted
def test_as_many_atoms_as_samples(learner):
    X, _ = cases.gaussian(12, 5, 1)
    D = learner(X, 12, random_state=0, n_iter=3)
    assert np.all(np.isfinite(D))


@pytest.mark.parametrize("learner", [online, rls_dla])
@pytest.mark.parametrize("prior", [KLDivergence(0.05), KLDivergence(0.05, threshold=0.05), ElasticNet(5.0)])
def test_streams_take_any_prior_also_one_that_leaves_no_code(learner, prior):
    X = np.abs(cases.gaussian(80, 6, 1)[0])
    D = learner(X, 8, prior, random_state=0, n_iter=2)
    np.testing.assert_allclose(np.linalg.norm(D, axis=1), 1, rtol=1e-12)


# ── orthogonal matching pursuit and K-SVD ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.interpreted
def test_omp_agrees_with_scikit_learn(dtype):
    X, D = (array.astype(dtype) for array in cases.gaussian(15, 10, 25))
    codes = omp(X, D, 4)
    assert codes.dtype == dtype
    assert codes.has_sorted_indices
    expected = orthogonal_mp(D.T.astype(float), X.T.astype(float), n_nonzero_coefs=4).T
    np.testing.assert_allclose(codes.toarray(), expected, atol=1e-10 if dtype == np.float64 else 1e-4)


@pytest.mark.interpreted
def test_omp_stops_when_a_sample_is_explained():
    D = cases.gaussian(1, 8, 12)[1]
    X = np.vstack([np.zeros(8), 2 * D[3], D[1] - 3 * D[7]])
    codes = omp(X, D, 5)
    np.testing.assert_array_equal(np.diff(codes.indptr), [0, 1, 2])
    np.testing.assert_allclose(codes @ D, X, atol=1e-12)
    duplicates = omp(cases.gaussian(5, 8, 1)[0], np.vstack([D[:2], D[:2]]), 4)
    assert np.all(np.diff(duplicates.indptr) <= 2)


@pytest.mark.interpreted
def test_omp_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match="X has 3 features, but the atoms of the dictionary have 2"):
        omp(np.eye(3), np.eye(2))
    with pytest.raises(ValueError, match="unit norm"):
        omp(np.eye(3), 2 * np.eye(3))
    with pytest.raises(ValueError, match="n_nonzero must be"):
        omp(np.eye(3), np.eye(3), 0)


@pytest.mark.interpreted
def test_error_never_rises_over_an_atom_update():
    X, _ = cases.planted(60, 6, 12, 3, noise=0.3)
    D = samples(X, 12, random_state=0)
    with Threads(1) as threads:
        codes = pursue(X, D, 3, threads)
        residual = _residual(X, D, codes, threads)
    errors = [np.sum(residual**2)]
    for j in range(12):
        _update(D, codes, residual, np.array([j]))
        np.testing.assert_allclose(residual, X - codes @ D, atol=1e-12)
        errors.append(np.sum(residual**2))
    assert np.all(np.diff(errors) <= 1e-12)
    assert errors[-1] < 0.9 * errors[0]


# ── the parts of the streams, against their definitions ─────────────────────────────────────────────────────────────


@pytest.mark.interpreted
def test_online_step_is_coordinate_descent_on_the_spheres():
    X, D = cases.gaussian(20, 5, 40)
    codes = encode(X, D, ElasticNet(0.05))
    sums = Sums.zero(D, 1.0)
    stepped = D.copy()
    sums.update(stepped, X, codes)
    A, B = (codes.T @ codes).toarray(), codes.T @ X
    np.testing.assert_allclose(sums.A, A, atol=1e-12)
    np.testing.assert_allclose(sums.B, B, atol=1e-12)
    for j in np.flatnonzero(np.diag(A)):
        u = B[j] - A[j] @ D + A[j, j] * D[j]
        D[j] = u / np.linalg.norm(u)
    np.testing.assert_allclose(stepped, D, atol=1e-12)


@pytest.mark.interpreted
def test_recursion_keeps_the_inverse_of_the_weighted_gram_matrix():
    X, D = cases.gaussian(30, 5, 6)
    memory = Recursion.start(D, 0.5, 4.0)
    A = None
    for t, rows in enumerate((slice(0, 10), slice(10, 20), slice(20, 30)), 1):
        codes = encode(X[rows], D, ElasticNet(0.05))
        A = np.eye(6) * np.sum(codes.data**2) / 6 if A is None else A
        weight = 1 - 0.5 * (1 - t / 4) ** 3
        A = weight * A + (codes.T @ codes).toarray()
        pull = codes.T @ (X[rows] - codes @ D)
        pull -= np.sum(pull * D, axis=1, keepdims=True) * D
        long = D + np.linalg.solve(A, pull)
        norms = np.linalg.norm(long, axis=1)
        memory.update(D, X[rows], codes)
        np.testing.assert_allclose(D, long / norms[:, None], atol=1e-10)
        A *= norms[:, None] * norms
        np.testing.assert_allclose(memory.C @ A, np.eye(6), atol=1e-8)


@pytest.mark.interpreted
def test_recursion_survives_what_rounding_may_do():
    X, D = cases.gaussian(30, 5, 6)
    codes = encode(X, D, ElasticNet(0.05))
    for C in (-np.eye(6), 1e300 * np.eye(6)):
        memory = Recursion(C.copy(), 0.5, 4.0, t=1)
        stepped = D.copy()
        memory.update(stepped, X, codes)
        np.testing.assert_allclose(np.linalg.norm(stepped, axis=1), 1)
        assert np.all(np.diag(memory.C) <= 1e6)


@pytest.mark.interpreted
def test_renewal_takes_distinct_samples_explained_worst():
    D = np.eye(4)
    X = np.array([[1.0, 1, 0, 0], [2, 2, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0], [3, 0, 0, 0]])
    new = renew(D, X, np.array([5, 0, 7, 0]), 0, np.array([4, 3, 1, 0, 2]))
    np.testing.assert_array_equal(new, [1, 3])
    np.testing.assert_allclose(D[[1, 3]], cases.unit(X[[1, 2]]))
    np.testing.assert_array_equal(D[[0, 2]], np.eye(4)[[0, 2]])
    opposite = np.vstack([np.eye(4)[:2], -np.eye(4)[:2]])
    assert not len(renew(opposite, X, np.arange(1, 5), 0, np.arange(5), positive=True))
    np.testing.assert_array_equal(renew(opposite, X, np.arange(1, 5), 0, np.array([2, 3])), [0])
    assert not len(renew(D, X[4:], np.array([5, 0, 7, 9]), 0, np.array([0])))  # no sample that would be new


# ── a dictionary per class ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.interpreted
def test_classes_share_atoms_and_span_their_own_samples():
    rng = np.random.default_rng(0)
    y = np.repeat([2, 0, -1, 1], [30, 30, 30, 3])
    X = np.zeros((93, 8))
    for label, start in ((2, 0), (0, 2), (-1, 4), (1, 6)):
        X[y == label, start : start + 2] = rng.standard_normal((np.sum(y == label), 2))
    D, classes = class_union(X, y, 12, ksvd, n_nonzero=1, n_iter=3, random_state=0)
    np.testing.assert_array_equal(classes, np.repeat([0, 1, 2], [5, 3, 4]))
    for label, start in ((2, 0), (0, 2), (1, 6)):
        np.testing.assert_allclose(np.linalg.norm(D[classes == label, start : start + 2], axis=1), 1)


def test_classes_are_learned_alike_by_any_number_of_threads():
    X, y = load_digits(return_X_y=True)
    first, second = (class_union(X, y, 53, online, prior=ElasticNet(5.0), n_iter=2, random_state=0, n_jobs=k)
                     for k in (1, 2))  # fmt: skip
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(np.bincount(first[1]), [6, 6, 6, 5, 5, 5, 5, 5, 5, 5])


@pytest.mark.interpreted
def test_classes_need_labels_and_samples():
    X, _ = cases.planted(20, 6, 8, 2)
    for y, r, message in (
        (-np.ones(20), 4, "needs labels"),
        (np.arange(20), 4, "n_atoms=4 is less than the 20 classes"),
        (np.repeat(["a", "b"], 10), 21, "20 labelled samples of distinct direction"),
        (np.ones(19), 4, "inconsistent numbers of samples"),
    ):
        with pytest.raises(ValueError, match=message):
            class_union(X, y, r, samples)
    X[:10] = 0
    with pytest.raises(ValueError, match="not zero"):
        class_union(X, np.repeat([0, 1], 10), 4, samples)


# ── the estimator ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [*({"method": method} for method in LEARNERS), {"class_wise": True}, {"method": "online", "class_wise": True}],
    ids=str,
)
def test_estimator_has_the_manners_of_scikit_learn(options):
    results = check_estimator(DictionaryLearner(max_iter=3, **options), on_skip=None)
    assert {result["check_name"] for result in results if result["status"] != "passed"} <= {"check_array_api_input"}


@pytest.mark.interpreted
def test_estimator_is_its_functions(capsys):
    X, _ = cases.planted(64, 6, 8, 2)
    learner = DictionaryLearner(8, method="online", random_state=0, max_iter=2, verbose=1).fit(X)
    assert "online, pass 2: cost" in capsys.readouterr().out
    assert learner.prior_ == default_prior(X)
    D = online(X, 8, learner.prior_, n_iter=2, random_state=0)
    np.testing.assert_array_equal(learner.dictionary_, D)
    assert learner.components_ is learner.dictionary_
    assert learner.n_iter_ == 2
    codes = learner.transform(X)
    np.testing.assert_array_equal(codes.toarray(), encode(X, D, learner.prior_).toarray())
    for given in (codes, codes.toarray()):
        np.testing.assert_allclose(learner.inverse_transform(given), codes @ D)
    with pytest.raises(ValueError, match="codes have 7 columns, but the dictionary has 8 atoms"):
        learner.inverse_transform(codes[:, :7])
    assert list(learner.get_feature_names_out())[:2] == ["dictionarylearner0", "dictionarylearner1"]


def test_estimator_by_classes_leaves_out_unlabelled_samples():
    X, y = load_digits(return_X_y=True)
    y = np.where(np.arange(len(y)) % 4, -1, y)
    learner = DictionaryLearner(class_wise=True, random_state=0, max_iter=2).fit(X, y)
    assert set(learner.atom_classes_) == set(range(10))
    assert len(learner.dictionary_) == len(learner.atom_classes_) == default_n_atoms(450, 450, 10)
    alone = DictionaryLearner(class_wise=True, random_state=0, max_iter=2).fit(X[::4], y[::4])
    np.testing.assert_array_equal(learner.dictionary_, alone.dictionary_)
    with pytest.raises(ValueError, match="Unknown label type"):
        learner.fit(X, np.linspace(0.1, 1, len(X)))


def test_estimator_survives_cloning_pickling_pipelines_and_scaling():
    X, _ = cases.planted(200, 10, 15, 2)
    learner = DictionaryLearner(15, prior=ElasticNet(0.2), n_nonzero=2, random_state=0).fit(X)
    again = pickle.loads(pickle.dumps(clone(learner).fit(X)))
    np.testing.assert_array_equal(learner.transform(X).toarray(), again.transform(X).toarray())
    both = make_pipeline(DictionaryLearner(15, random_state=0), DictionaryLearner(5, method="rls", random_state=0))
    assert both.fit_transform(X).shape == (200, 5)
    small, large = (DictionaryLearner(15, random_state=0).fit(scale * X) for scale in (1.0, 1024.0))
    np.testing.assert_allclose(large.transform(1024 * X).toarray(), 1024 * small.transform(X).toarray(), atol=1e-3)
