"""The discriminative dictionary classifiers against their definitions."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import ElasticNet
from sklearn.preprocessing import normalize

from sparlow import graphs
from sparlow.classifiers import FDDL, LCKSVD, SRC, LapRLS

X, Y = load_digits(return_X_y=True)
X = normalize(X)
RNG = np.random.default_rng(0)


def semi(n, labels):
    y = Y[:n].copy()
    y[labels:] = -1
    return X[:n], y


def test_laprls_minimises_its_cost():
    samples, y = semi(60, 20)
    model = LapRLS(ambient=1e-2, intrinsic=0.5, k=5).fit(samples, y)
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
    model = LapRLS("linear", ambient=1e-2, intrinsic=0.0).fit(samples, y)
    known = samples[:50]
    T = (y[:50, None] == np.unique(y[:50])).astype(float)
    weights = np.linalg.solve(known.T @ known + 0.01 * 50 * np.eye(64), known.T @ (T - T.mean(axis=0)))
    np.testing.assert_allclose(model.decision_function(X[100:120]), X[100:120] @ weights + T.mean(axis=0), atol=1e-8)


def test_laprls_gains_by_samples_without_labels():
    samples, y = semi(600, 30)
    with_graph, without = (LapRLS(intrinsic=g, k=7).fit(samples, y).score(X[600:1000], Y[600:1000]) for g in (10, 0))
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


def test_lcksvd_on_digits_beats_its_first_iteration():
    first, later = (
        LCKSVD(100, n_nonzero=8, alpha=0.5, max_iter=n, random_state=0).fit(X[:900], Y[:900]) for n in (1, 6)
    )
    assert later.score(X[900:], Y[900:]) > first.score(X[900:], Y[900:]) - 0.01
    assert later.score(X[900:], Y[900:]) > 0.9


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
        total += model.fisher * (np.sum((own - centre) ** 2) - len(own) * np.sum((centre - mean) ** 2))
    return 0.5 * (total + model.fisher * np.sum(codes**2)) + model.l1 * np.abs(codes).sum()


def test_fddl_codes_are_optimal_and_its_cost_falls():
    samples, y = X[:80], Y[:80]
    model = FDDL(20, l1=0.02, fisher=0.1, max_iter=6, random_state=0).fit(samples, y)
    assert np.all(np.diff(model.costs_) < 0)
    D, labels = model.dictionary_, np.unique(y, return_inverse=True)[1]
    own = y[:, None] == model.atom_classes_
    codes = model._coded(samples, D, np.zeros((80, 20)), own, labels, steps=2000)
    best = fddl_cost(model, D, codes, samples, y)
    np.testing.assert_allclose(model._cost(samples, D, codes, own, labels), best)
    for _ in range(20):
        away = RNG.standard_normal(codes.shape) * 10.0 ** RNG.uniform(-4, -1)
        assert fddl_cost(model, D, codes + away, samples, y) > best
    # each atom is the best unit vector while the others are held
    moved = model._atoms(samples, D, codes, own)
    assert fddl_cost(model, moved, codes, samples, y) < best


def test_fddl_tells_classes_apart():
    samples, y = subspaces(60)
    new, truth = subspaces(30)
    assert FDDL(12, random_state=0).fit(samples, y).score(new, truth) == 1
