"""The discriminative dictionary classifiers against their definitions."""

import sys
import types

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import ElasticNet
from sklearn.preprocessing import normalize
from sklearn.utils.estimator_checks import check_estimator

import sparlow
from benchmarks import classifiers
from sparlow import graphs
from sparlow.classifiers import BMDDL, DKSVD, FDDL, LCKSVD, SRC, TDDL, LapRLS
from sparlow.classifiers.base import class_means, first_dictionary, one_hot, ridge
from sparlow.classifiers.bmddl import Bilevel
from sparlow.classifiers.fddl import Fisher
from sparlow.classifiers.tddl import LOSSES, Linear, best_linear, gradient
from sparlow.dictionaries import ksvd
from sparlow.views import Shifts
from tests import cases

X, Y = load_digits(return_X_y=True)
X = normalize(X)
RNG = np.random.default_rng(0)


QUICK = {
    "SRC": SRC(),
    "SRC of some": SRC(150, random_state=0),
    "D-KSVD": DKSVD(100, n_nonzero=8, max_iter=4, random_state=0),
    "LC-KSVD": LCKSVD(100, n_nonzero=8, max_iter=4, random_state=0),
    "FDDL": FDDL(100, max_iter=2, random_state=0),
    "FDDL, local": FDDL(100, max_iter=2, scheme="local", random_state=0),
    "TDDL": TDDL(60, max_iter=4, random_state=0),
    "TDDL, one-vs-all": TDDL(60, loss="logistic", max_iter=4, random_state=0),
    "TDDL, dictionaries": TDDL(20, loss="logistic", shared=False, max_iter=2, random_state=0),
    "BMDDL": BMDDL(60, max_iter=2, random_state=0),
    "LapRLS": LapRLS(),
}
each = pytest.mark.parametrize("model", QUICK.values(), ids=QUICK)


@pytest.mark.slow
@each
def test_check_estimator_without_expected_failures(model):
    small = {name: None for name in ("n_atoms",) if name in model.get_params()}
    results = check_estimator(clone(model).set_params(**small), on_skip=None)
    assert {result["status"] for result in results} <= {"passed", "skipped"}


@each
def test_accuracy_on_digits(model):
    fitted = clone(model).fit(X[:900], Y[:900])
    scores = fitted.decision_function(X[900:])
    assert scores.shape == (897, 10)
    assert np.array_equal(fitted.classes_[np.argmax(scores, axis=1)], fitted.predict(X[900:]))
    assert fitted.score(X[900:], Y[900:]) > 0.85


@each
@pytest.mark.filterwarnings("ignore:All labels but -1:UserWarning")
def test_minus_one_is_a_class_like_any_other(model):
    two = Y[:500] < 2
    samples, y = X[:500][two], Y[:500][two]
    options = {"n_atoms": 20} if model.get_params().get("n_atoms") else {}
    plain, signed = (clone(model).set_params(**options).fit(samples, labels) for labels in (y, 2 * y - 1))
    assert signed.classes_.tolist() == [-1, 1]
    np.testing.assert_array_equal(signed.decision_function(samples), plain.decision_function(samples))
    assert signed.score(samples, 2 * y - 1) > 0.95
    assert signed.decision_function(samples).shape == y.shape


@each
@pytest.mark.slow
def test_float32_is_kept_and_threads_change_nothing(model):
    wide = clone(model).fit(X[:200], Y[:200])
    narrow = clone(model).fit(X[:200].astype(np.float32), Y[:200])
    new = X[200:260]
    assert narrow.decision_function(new.astype(np.float32)).dtype == np.float32
    assert np.mean(narrow.predict(new.astype(np.float32)) == wide.predict(new)) > 0.9
    if hasattr(narrow, "dictionary_"):
        assert narrow.dictionary_.dtype == np.float32
    threaded = clone(model).set_params(n_jobs=2).fit(X[:200], Y[:200])
    assert np.array_equal(threaded.decision_function(new), wide.decision_function(new))


@each
def test_verbose_tells_of_progress(model, capsys):
    clone(model).set_params(verbose=1).fit(X[:150], Y[:150])
    assert f"[{type(model).__name__}] " in capsys.readouterr().out


@each
def test_samples_of_one_class_are_refused(model):
    with pytest.raises(ValueError, match="at least two classes, got 1 class"):
        clone(model).fit(X[:20], np.zeros(20, int))


def test_laprls_warns_where_minus_one_is_a_class():
    with pytest.warns(UserWarning, match="takes -1 for a class"):
        LapRLS().fit(X[:30], np.where(Y[:30] < 5, -1, 1))


def test_laprls_refuses_numbers_whose_squares_overflow():
    with pytest.raises(ValueError, match="divide it by its scale"):
        LapRLS().fit(X[:100] * 1e160, Y[:100])


def semi(n, labels):
    y = Y[:n].copy()
    y[labels:] = -1
    return X[:n], y


def test_laprls_minimises_its_cost():
    samples, y = semi(60, 20)
    model = LapRLS(gamma_A=1e-2, gamma_I=0.5, k=5).fit(samples, y)
    K = np.exp(-model.gamma_ * np.sum((samples[:, None] - samples) ** 2, axis=-1))
    W = graphs.affinities(samples, 5).toarray()
    L = (np.diag(W.sum(axis=1)) - W) / W.sum(axis=1).mean()
    T = (y[:20, None] == np.unique(y[:20])).astype(float)
    T -= T.mean(axis=0)

    def cost(alpha):
        H = K @ alpha
        return np.sum((T - H[:20]) ** 2) / 20 + 1e-2 * np.sum(alpha * H) + 0.5 * np.trace(H.T @ L @ H) / 60

    best = cost(model.coef_)
    for _ in range(20):
        away = 1e-3 * RNG.standard_normal(model.coef_.shape)
        assert cost(model.coef_ + away) > best
        assert abs(cost(model.coef_ + away) - cost(model.coef_ - away)) < 1e-6 * best


def test_linear_laprls_is_ridge_regression_without_the_graph():
    samples, y = semi(80, 50)
    model = LapRLS("linear", gamma_A=1e-2, gamma_I=0.0).fit(samples, y)
    known = samples[:50]
    T = (y[:50, None] == np.unique(y[:50])).astype(float)
    weights = np.linalg.solve(known.T @ known + 0.01 * 50 * np.eye(64), known.T @ (T - T.mean(axis=0)))
    np.testing.assert_allclose(model.decision_function(X[100:120]), X[100:120] @ weights + T.mean(axis=0), atol=1e-8)


def test_laprls_gains_by_samples_without_labels():
    samples, y = semi(600, 30)
    with_graph, without = (LapRLS(gamma_I=g, k=7).fit(samples, y).score(X[600:1000], Y[600:1000]) for g in (10, 0))
    assert with_graph > without + 0.03
    with pytest.raises(ValueError, match="two classes, got 1 class"):
        LapRLS().fit(samples[:3], [1, 1, 1])


def test_src_residuals_from_scikit_learns_codes():
    model = SRC(l1=0.05, l2=0.01).fit(X[:60], Y[:60])
    reference = ElasticNet(
        alpha=(0.05 + 0.02) / 64, l1_ratio=0.05 / 0.07, fit_intercept=False, tol=1e-12, max_iter=10**6
    )
    new = X[100:103]
    codes = np.array([reference.fit(X[:60].T, x).coef_ for x in new])
    for place, label in enumerate(model.classes_):
        own = Y[:60] == label
        expected = np.linalg.norm(new - codes[:, own] @ X[:60][own], axis=1)
        np.testing.assert_allclose(model.residuals(new)[:, place], expected, atol=1e-5)


def test_src_with_so_many_atoms_of_each_class():
    model = SRC(50, random_state=0).fit(X[:900], Y[:900])
    assert np.all(np.unique(model.atom_classes_, return_counts=True)[1] == 5)
    assert all((np.abs(X[:900] - atom).max(axis=1) < 1e-12).any() for atom in model.dictionary_)
    more = SRC(300, random_state=0).fit(X[:900], Y[:900])
    assert 0.5 < model.score(X[900:], Y[900:]) < more.score(X[900:], Y[900:])


def subspaces(n):
    """Two classes, each in five coordinates of its own, not negative as images are."""
    samples = np.zeros((2 * n, 10))
    samples[:n, :5], samples[n:, 5:] = RNG.uniform(size=(n, 5)), RNG.uniform(size=(n, 5))
    return normalize(samples), np.repeat([3, 7], n)


def test_lcksvd_gives_atoms_to_classes():
    samples, y = subspaces(60)
    model = LCKSVD(12, n_nonzero=4, max_iter=5, random_state=0).fit(samples, y)
    first = np.linalg.norm(model.dictionary_[:, :5], axis=1)
    np.testing.assert_allclose(np.minimum(first, 1 - first), 0, atol=1e-8)
    assert np.array_equal(np.argmax(np.abs(model.classifier_), axis=1), (first < 0.5).astype(int))
    new, truth = subspaces(30)
    assert model.score(new, truth) == 1


def test_lcksvd_learns_the_dictionary_of_its_stacked_rows():
    samples, y = X[:300], Y[:300]
    model = LCKSVD(40, n_nonzero=5, alpha=0.3, beta=0.1, max_iter=4, random_state=0).fit(samples, y)
    first, of_class = first_dictionary(samples, y, 40, np.random.RandomState(0), None)
    Q, H = normalize((y[:, None] == of_class).astype(float)), one_hot(y, 10, float)
    targets = np.hstack([np.sqrt(0.3) * Q, np.sqrt(0.1) * H])
    codes = sparlow.dictionaries.omp(samples, first, 5)
    start = np.hstack([first, ridge(codes, targets, 1.0)])
    stacked = ksvd(np.hstack([samples, targets]), 40, n_nonzero=5, n_iter=4, start=start)
    np.testing.assert_allclose(model.dictionary_, unit(stacked[:, :64]), atol=1e-8)


def fddl_cost(model, D, codes, samples, y):
    """The cost as it is written, sample by sample."""
    total = 0.0
    for x, phi, label in zip(samples, codes, y, strict=True):
        total += np.sum((x - phi @ D) ** 2)
        for other in model.classes_:
            block = model.atom_classes_ == other
            total += np.sum((x * (other == label) - phi[block] @ D[block]) ** 2)
    mean = codes.mean(axis=0)
    for label in model.classes_:
        own = codes[y == label]
        centre = own.mean(axis=0)
        total += model.lambda2 * (np.sum((own - centre) ** 2) - len(own) * np.sum((centre - mean) ** 2))
    return 0.5 * (total + model.lambda2 * np.sum(codes**2)) + model.lambda1 * np.abs(codes).sum()


def test_fddl_codes_are_optimal_and_its_cost_falls():
    samples, y = X[:80], Y[:80]
    model = FDDL(20, lambda1=0.02, lambda2=0.1, max_iter=6, random_state=0).fit(samples, y)
    assert np.all(np.diff(model.costs_) < 0)
    D, labels = model.dictionary_, np.unique(y, return_inverse=True)[1]
    problem = Fisher(samples, labels, np.searchsorted(model.classes_, model.atom_classes_), 0.02, 0.1)
    codes = problem.updated_codes(D, np.zeros((80, 20)), steps=2000)
    best = fddl_cost(model, D, codes, samples, y)
    np.testing.assert_allclose(problem.cost(D, codes), best)
    for _ in range(20):
        away = RNG.standard_normal(codes.shape) * 10.0 ** RNG.uniform(-4, -1)
        assert fddl_cost(model, D, codes + away, samples, y) > best
    # each atom is the best unit vector while the others are held
    moved = problem.updated_atoms(D, codes)
    assert fddl_cost(model, moved, codes, samples, y) < best


def test_fddl_tells_classes_apart():
    samples, y = subspaces(60)
    new, truth = subspaces(30)
    assert FDDL(12, random_state=0).fit(samples, y).score(new, truth) == 1


# ── K-SVD with labels ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("model", [DKSVD(80, n_nonzero=6, random_state=0), LCKSVD(80, n_nonzero=6, random_state=0)])
def test_cost_of_stacked_ksvd_falls(model):
    costs = model.fit(X[:500], Y[:500]).costs_
    assert len(costs) == model.n_iter_ == 10
    assert costs[-1] < 0.97 * costs[0]
    assert np.sum(np.diff(costs) < 0) >= 7  # matching pursuit is greedy, so single rises are possible


def test_dksvd_solves_the_stacked_problem():
    model = DKSVD(40, n_nonzero=5, gamma=0.5, max_iter=6, random_state=0).fit(X[:300], Y[:300])
    np.testing.assert_allclose(np.linalg.norm(model.dictionary_, axis=1), 1)
    # atoms and their rows of W were divided by the same number: stacked, they are those of K-SVD again
    stacked = np.hstack([model.dictionary_, np.sqrt(0.5) * model.classifier_])
    atoms = stacked / np.linalg.norm(stacked, axis=1, keepdims=True)
    rows = np.hstack([X[:300], np.sqrt(0.5) * one_hot(Y[:300], 10, float)])
    codes = sparlow.dictionaries.omp(rows, atoms, 5)
    cost = np.sum((rows - codes @ atoms) ** 2) / 300
    assert cost < 1.02 * model.costs_[-1]


def test_a_step_of_stacked_ksvd_is_that_of_dictlearn():
    dictlearn = pytest.importorskip("dictlearn")
    rows = np.hstack([X[:300], one_hot(Y[:300], 10, float)])
    start = normalize(rows[np.random.default_rng(0).choice(300, 20, replace=False)])
    ours = ksvd(rows, 20, n_nonzero=4, n_iter=1, start=start)
    theirs = dictlearn.DictionaryLearning(
        n_components=20, fit_algorithm="aksvd", n_nonzero_coefs=4, max_iter=1, dict_init=start
    ).fit(rows)
    same = np.abs(ours - theirs.components_).max(axis=1) < 1e-10
    assert same.sum() >= 15  # ours replaces atoms of little use


@pytest.mark.slow
def test_dksvd_is_as_accurate_as_that_of_dictlearn():
    classification = pytest.importorskip("dictlearn.classification")
    theirs = classification.DDLClassifier(
        n_components=100, n_nonzero_coefs=8, init_method="trained", random_state=0
    ).fit(X[:900], Y[:900])
    ours = DKSVD(100, n_nonzero=8, random_state=0).fit(X[:900], Y[:900])
    assert ours.score(X[900:], Y[900:]) > theirs.score(X[900:], Y[900:]) - 0.01


# ── SRC and FDDL beside dictol ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def dictol(monkeypatch):
    """The package, with what newer versions of numpy and setuptools took from it."""
    monkeypatch.setitem(sys.modules, "pkg_resources", types.ModuleType("pkg_resources"))
    utils = pytest.importorskip("dictol.utils")
    monkeypatch.setattr(utils, "vec", lambda A: A.flatten("F"))
    return pytest.importorskip("dictol")


def by_class(n):
    order = np.argsort(Y[:n], kind="stable")
    return X[:n][order], Y[:n][order]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::SyntaxWarning", "ignore::DeprecationWarning")
def test_src_decides_as_that_of_dictol(dictol):
    from dictol.SRC import SRC as Theirs  # noqa: N811

    samples, y = by_class(200)
    theirs = Theirs(lamb=0.05)
    theirs.fit(samples.T, y + 1)
    predicted = theirs.predict(X[900:1100].T) - 1
    assert (
        np.mean(SRC(l1=0.05, l2=0.0).fit(samples, y).predict(X[900:1100]) == predicted) > 0.95
    )  # whose codes are rough


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::SyntaxWarning", "ignore::DeprecationWarning")
def test_fddl_has_the_cost_of_dictol_and_makes_it_smaller(dictol):
    from dictol.LRSDL import LRSDL

    samples, y = by_class(200)
    theirs = LRSDL(lambd=0.005, lambd2=0.01, k=5, k0=0)
    theirs.fit(samples.T, list(y + 1), iterations=5)
    ours = FDDL(50, lambda1=0.005, lambda2=0.01, max_iter=15, random_state=0).fit(samples, y)
    D, codes = np.ascontiguousarray(theirs.D.T), np.ascontiguousarray(theirs.X.T)
    problem = Fisher(samples, y, ours.atom_classes_, 0.005, 0.01)
    np.testing.assert_allclose(problem.cost(D, codes), theirs.loss(), rtol=1e-9)
    assert ours.costs_[-1] < theirs.loss()


# ── TDDL ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def tangent(D, rng):
    Z = rng.standard_normal(D.shape)
    return Z - np.sum(Z * D, axis=1, keepdims=True) * D


@pytest.mark.parametrize(("name", "columns"), [("softmax", 3), ("logistic", 3), ("logistic", 1)])
def test_gradients_of_tddl_against_central_differences_through_the_solver(name, columns):
    rng = np.random.default_rng(columns)
    samples, D = unit(rng.uniform(size=(30, 12))), unit(rng.uniform(size=(9, 12)) - 0.2)
    T = one_hot(rng.integers(0, 3, 30), 3, float)[:, :columns]
    linear = Linear(rng.standard_normal((9, columns)), rng.standard_normal(columns))
    prior, h = sparlow.priors.ElasticNet(0.05, 0.005), 1e-6

    def cost(D, W, b):
        coder = sparlow.Coder(unit(D), prior, tol=1e-13)
        return gradient(samples, T, coder, Linear(W, b), LOSSES[name], 0.1)

    value, to_D, to_W, to_b = cost(D, *linear)
    codes = sparlow.encode(samples, D, prior)
    np.testing.assert_allclose(
        value, LOSSES[name].values(linear.scores(codes), T).mean() + 0.05 * np.sum(linear.W**2), rtol=1e-7
    )
    Z, V, v = tangent(D, rng), rng.standard_normal(linear.W.shape), rng.standard_normal(columns)
    W, b = linear
    moves = [((h * Z, 0, 0), np.sum(to_D * Z)), ((0, h * V, 0), np.sum(to_W * V)), ((0, 0, h * v), to_b @ v)]
    for (dD, dW, db), slope in moves:
        difference = cost(D + dD, W + dW, b + db)[0] - cost(D - dD, W - dW, b - db)[0]
        np.testing.assert_allclose(difference / (2 * h), slope, rtol=1e-5)


@pytest.mark.parametrize("name", LOSSES)
def test_losses_and_probabilities_belong_together(name):
    rng = np.random.default_rng(0)
    S, T, V = rng.standard_normal((5, 3)), one_hot(rng.integers(0, 3, 5), 3, float), rng.standard_normal((5, 3))
    values, probabilities = LOSSES[name]
    difference = np.sum(values(S + 1e-6 * V, T) - values(S - 1e-6 * V, T)) / 2e-6
    np.testing.assert_allclose(difference, np.sum((probabilities(S) - T) * V), rtol=1e-7)


def test_first_classifier_of_tddl_is_the_best_one():
    codes = sparlow.encode(X[:200], X[300:340], sparlow.priors.ElasticNet(0.1))
    T = one_hot(Y[:200], 10, float)
    best = best_linear(codes, T, LOSSES["softmax"], 1e-2)
    slope = codes.T @ (LOSSES["softmax"].probabilities(best.scores(codes)) - T) / 200 + 1e-2 * best.W
    assert np.abs(slope).max() < 1e-4


@pytest.mark.parametrize(("solver", "rho"), [("adam", None), ("sgd", 2.0)])
def test_tddl_learns_dictionaries_for_its_task(solver, rho):
    options = {"n_atoms": 50, "nu": 1e-5, "solver": solver, "rho": rho, "random_state": 0}
    first, later = (TDDL(max_iter=n, **options).fit(X[:700], Y[:700]) for n in (1, 15))
    assert np.all(np.diff(later.costs_[1:]) < 0.02 * later.costs_[0])
    assert later.costs_[-1] < 0.8 * later.costs_[0]
    np.testing.assert_allclose(np.linalg.norm(later.dictionary_, axis=1), 1)
    assert later.score(X[700:], Y[700:]) > first.score(X[700:], Y[700:])
    probabilities = later.predict_proba(X[700:])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert np.array_equal(np.argmax(probabilities, axis=1), later.predict(X[700:]))


def test_tddl_learns_from_moved_copies():
    options = {"n_atoms": 60, "max_iter": 10, "random_state": 0}
    moved = Shifts(1).maps(64)[1]  # up by one pixel
    plain, moving = (TDDL(views=views, **options).fit(X[:700], Y[:700]) for views in (None, Shifts(1)))
    assert moving.score(X[700:] @ moved, Y[700:]) > plain.score(X[700:] @ moved, Y[700:]) + 0.05


def test_tddl_with_dictionaries_is_one_problem_for_each_class():
    model = TDDL(15, loss="logistic", shared=False, max_iter=2, random_state=0).fit(X[:300], Y[:300])
    assert model.dictionary_.shape == (10, 15, 64)
    codes = sparlow.encode(X[300:310], model.dictionary_[4], sparlow.priors.ElasticNet(0.15, 5e-4))
    expected = codes @ model.coef_[:, 4] + model.intercept_[4]
    np.testing.assert_allclose(model.decision_function(X[300:310])[:, 4], expected)
    with pytest.raises(ValueError, match="needs loss='logistic'"):
        TDDL(15, shared=False).fit(X[:300], Y[:300])


@pytest.mark.parametrize("test", [False, True])
@pytest.mark.parametrize("name", classifiers.HELD_OUT)
def test_tables_of_tddl_on_the_page_are_those_of_the_rows(name, test):
    page = (cases.ROOT / "docs" / "evidence" / "classifiers.md").read_text()
    assert classifiers.tddl_table(name, test) in page, "python benchmarks/classifiers.py --table"


# ── BMDDL ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def lower_level(model, samples, labels, D, codes):
    """The objective of the lower level with the Laplacian as it is written."""
    same = (labels[:, None] == labels).astype(float)
    L = np.diag(same.sum(axis=1)) - same
    smooth = np.trace(codes.T @ L @ codes)
    return 0.5 * np.sum((samples - codes @ D) ** 2) + model.alpha * np.abs(codes).sum() + model.beta / 2 * smooth


def small_classes(seed=1):
    rng = np.random.default_rng(seed)
    samples, D = unit(rng.uniform(size=(24, 10))), unit(rng.uniform(size=(7, 10)) - 0.2)
    labels = np.repeat([0, 0, 1, 2], 6)  # classes of different size
    return rng, samples, labels, one_hot(labels, 3, float), D


def test_codes_of_bmddl_minimise_the_lower_level():
    rng, samples, labels, H, D = small_classes()
    model = Bilevel(samples, labels, H, alpha=0.05, beta=0.02, ridge=1.0, n_means=100)
    at = model.level(D)
    codes = at.codes.toarray()
    best = lower_level(model, samples, labels, D, codes)
    for _ in range(40):
        away = rng.standard_normal(codes.shape) * 10.0 ** rng.uniform(-5, -1)
        assert lower_level(model, samples, labels, D, codes + away) > best
        kept = codes + away * (codes != 0)
        assert lower_level(model, samples, labels, D, kept) > best
    np.testing.assert_allclose(class_means(at.codes, labels), at.means, atol=1e-8)
    np.testing.assert_allclose(class_means(codes, labels), at.means, atol=1e-8)


def test_gradient_of_bmddl_against_central_differences_through_both_levels():
    rng, samples, labels, H, D = small_classes()
    model, h = Bilevel(samples, labels, H, alpha=0.05, beta=0.01, ridge=0.1, n_means=60), 1e-5
    at = model.level(D)
    slope = model.gradient(at)
    for _ in range(3):
        Z = tangent(D, rng)
        up, down = (len(samples) * model.level(unit(D + s * h * Z), at).cost for s in (1, -1))
        np.testing.assert_allclose((up - down) / (2 * h), np.sum(slope * Z), rtol=1e-5)


def test_cost_of_bmddl_falls_and_prediction_is_drawn_to_neighbours():
    model = BMDDL(60, max_iter=5, random_state=0).fit(X[:300], Y[:300])
    assert model.n_iter_ == 5
    assert np.all(np.diff(model.costs_) < 0)
    H = one_hot(Y[:300], 10, float)
    cost = np.sum((H - model.codes_ @ model.classifier_) ** 2) + model.ridge * np.sum(model.classifier_**2)
    np.testing.assert_allclose(cost / 300, model.costs_[-1])
    # of one new sample: the code that minimises the objective as it is written
    new = X[[500]]
    near = model.codes_[graphs.neighbours(X[:300], 5, new)[1][0]].toarray()
    D, scale = model.dictionary_, np.sqrt(model.beta)
    rows = np.concatenate([new[0], *(scale * code for code in near)])
    atoms = np.hstack([D, *[scale * np.eye(60)] * 5])
    reference = ElasticNet(
        alpha=model.alpha / len(rows), l1_ratio=1.0, fit_intercept=False, tol=1e-12, max_iter=10**6
    ).fit(atoms.T, rows)
    np.testing.assert_allclose(model.decision_function(new)[0], reference.coef_ @ model.classifier_, atol=1e-4)
