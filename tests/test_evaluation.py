"""Judging representations: classifiers, parameters by training folds, accuracies, confusion, splits."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import FitFailedWarning
from sklearn.metrics import accuracy_score, confusion_matrix
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from sparlow import SparLow
from sparlow.evaluation import (
    compare,
    divided,
    folds,
    in_order,
    judge,
    labels_of,
    learn_and_judge,
    n_folds,
    part,
    pooled,
    rivals,
    said_of_commonest,
    searched,
    split,
    support_vectors,
    training_folds,
    widest_kernel,
)
from sparlow.labels import known_rows

X, Y = load_digits(return_X_y=True)
X, Y = X[:300], Y[:300]


def test_judgement_agrees_with_scikit_learn():
    row = judge("raw", X[:200], Y[:200], X[200:], Y[200:])
    assert row.classes == [str(k) for k in range(10)]
    for which, predicted in row.predicted.items():
        truth = Y[200:].astype(str)
        assert row.accuracy(which) == accuracy_score(truth, predicted)
        np.testing.assert_array_equal(row.confusion(which), confusion_matrix(truth, predicted, labels=row.classes))
        shares = np.diag(row.confusion(which)) / row.confusion(which).sum(axis=1)
        np.testing.assert_allclose(list(row.per_class(which).values()), shares)
        assert row.accuracy(which) > 0.85
    assert row.predicted["1NN"].tolist() == [str(Y[np.argmin(np.sum((X[:200] - x) ** 2, axis=1))]) for x in X[200:]]


def test_samples_without_a_label_count_nowhere():
    hidden, new = Y[:200].copy(), Y[200:].copy()
    hidden[::4] = -1
    new[::5] = -1
    rows = np.arange(200) % 4 != 0
    found = judge("raw", X[:200], hidden, X[200:], new, classifiers=["1NN"])
    expected = judge("raw", X[:200][rows], Y[:200][rows], X[200:][new >= 0], new[new >= 0], classifiers=["1NN"])
    assert found.accuracies() == expected.accuracies()
    own = judge("raw", X[:200], hidden, X[200:], new, classifiers=[], own={"predict": Y[200:]})
    assert (own.accuracies(), len(own.truth)) == ({"predict": 1.0}, len(expected.truth))
    assert known_rows([-1, 1, 1]).all()  # two classes
    assert known_rows([-1, 1, 1], semi=True).tolist() == [False, True, True]
    assert known_rows([-1, 1, 2]).tolist() == [False, True, True]


def test_training_labels_decide_what_minus_one_is_among_new_ones():
    few = np.isin(Y, (0, 1))
    Z, y = X[few], Y[few]
    hidden = y[40:].copy()
    hidden[:3] = -1
    for new in (hidden, np.where(y[40:] == 0, -1, 1)):  # three distinct labels, and two
        found = judge("raw", Z[:40], y[:40], Z[40:], new, classifiers=["1NN"])
        assert found.truth.tolist() == new[new != -1].astype(str).tolist()
        assert found.accuracy("1NN") == 1
    signs = np.where(y == 0, -1, 1)
    for labels in (signs, signs.astype(float)):
        found = judge("raw", Z[:40], labels[:40], Z[40:], labels[40:], classifiers=["1NN"])
        assert (len(found.truth), found.accuracy("1NN")) == (len(y) - 40, 1)
    with pytest.raises(ValueError, match=r"None of the .* has a label"):
        judge("raw", Z[:40], y[:40], Z[40:], np.full(len(y) - 40, -1), classifiers=["1NN"])


def test_labels_of_training_and_new_samples():
    assert labels_of([0, 1, 2, -1], [10, 2, -1]) == (["0", "1", "2"], ["2", "10"])
    assert labels_of([-1, 1, 1], [-1, 3]) == (["-1", "1"], ["-1", "3"])  # of two, −1 is a class, among the new, too
    assert labels_of(np.array(["a", "b", -1], object), np.array(["b", -1], object)) == (["a", "b"], ["b"])
    assert labels_of([0, 1], [-1, -1]) == (["0", "1"], [])


@pytest.mark.slow
def test_models_and_rivals_on_the_same_split():
    model = SparLow("lda", n_components=9, n_atoms=30, max_iter=1, random_state=0)
    rows = list(compare({"ours": model}, X[:200], Y[:200], X[200:], Y[200:], ["1NN"]))
    assert [row.name for row in rows] == ["ours", *rivals()]
    assert (rows[0].dimension, rows[-1].dimension) == (9, 64)
    assert all(row.accuracy("1NN") > 0.8 for row in rows if "1NN" in row.predicted)
    assert all(row.fit_seconds >= 0 for row in rows)
    answers = {row.name: row.accuracy("predict") for row in rows if "predict" in row.predicted}
    assert answers["commonest class"] < 0.2 < 0.8 < min(answers["LDA, shrinkage"], answers["logistic regression"])
    assert rows[1].balanced("predict") == pytest.approx(0.1)
    assert said_of_commonest(rows[0]) == ""
    assert not hasattr(model, "dictionary_")
    fitted = model.fit(X[:200], Y[:200])
    nearest = KNeighborsClassifier(1).fit(fitted.embedding_, Y[:200])
    assert rows[0].accuracy("1NN") == pytest.approx(nearest.score(fitted.transform(X[200:]), Y[200:]))
    assert rows[0].accuracy("predict") == fitted.score(X[200:], Y[200:])


@pytest.mark.parametrize("y", [[0, 0, 1, 1, 1], [0, 1, 1, 1, 1]])
def test_few_samples_of_a_class_still_get_a_machine(y):
    Z = 4.0 * np.array(y)[:, None] + 0.1 * np.arange(len(y))[:, None]
    row = judge("raw", Z, y, np.array([[-0.1], [4.6]]), [0, 1])
    assert row.accuracies() == {"1NN": 1.0, "SVM": 1.0}


def test_machine_learns_what_is_not_linear_from_labelled_samples():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((300, 2))
    y = (np.linalg.norm(Z, axis=1) > 1.1).astype(int)
    y[:30] = np.where(np.arange(30) % 2, y[:30], -1)
    found = support_vectors(Z[:200], y[:200], Z[200:])
    assert np.mean(found == y[200:]) > 0.9
    assert set(found) == {0, 1}


@pytest.mark.parametrize("narrow", [False, True])
def test_machine_is_the_best_of_the_grid_on_training_folds_and_of_equals_the_smoothest(narrow):
    rng = np.random.default_rng(0)
    Z, y, Z_new = X[:150], Y[:150], X[150:]
    if narrow:  # classes of two blobs each, in turn along a line: a wide kernel cannot tell them apart
        y = rng.integers(0, 2, 200)
        Z = (2 * rng.integers(0, 8, 200) + y)[:, None] + rng.normal(0, 0.2, (200, 1))
        Z_new = np.linspace(0, 15, 50)[:, None]
    best = {}  # of each width the machine and its score, the widest kernel first
    for width in (0.25, 1, 4):
        machines = [SVC(C=cost, gamma=width / Z.var(axis=0).sum()) for cost in (1, 10, 100)]
        scores = [np.mean([m.fit(Z[a], y[a]).score(Z[b], y[b]) for a, b in folds(y, 3)]) for m in machines]
        best[machines[int(np.argmax(scores))]] = max(scores)
    good = [machine for machine, score in best.items() if score >= max(best.values()) - 1.5 / len(y)]
    assert len(good) < 3
    np.testing.assert_array_equal(support_vectors(Z, y, Z_new), good[0].fit(Z, y).predict(Z_new))


def test_a_single_sample_does_not_choose_the_machine():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 40)
    Z = 10.0 * np.eye(3)[y] + rng.normal(0, 0.3, (120, 3))
    usual = SVC(C=1.0, gamma=0.25 / Z.var(axis=0).sum()).fit(Z, y)
    new = rng.normal(0, 8, (200, 3))
    np.testing.assert_array_equal(support_vectors(Z, y, new), usual.predict(new))
    results = {
        "mean_test_score": np.array([0.5, 0.999, 0.9995, 1.0, 0.99]),
        "params": [{"C": c, "gamma": g} for c, g in ((1, 1), (10, 1), (100, 1), (1, 4), (1, 0.25))],
    }
    assert results["params"][widest_kernel(results, 1000)] == {"C": 100, "gamma": 1}


def digit_folds():
    return divided(X, Y, 0)


def test_search_finds_what_serves_the_nearest_neighbour():
    assert searched(PCA(random_state=0), {"n_components": [1, 20]}, digit_folds).n_components == 20
    # what decides by itself is judged by its decisions
    assert searched(KNeighborsClassifier(), {"n_neighbors": [150, 1]}, digit_folds).n_neighbors == 1


def test_candidates_that_cannot_be_fitted_are_excluded_with_the_reason():
    said = r"1 of 2 candidates for PCA .* \{'n_components': 1000\}: n_components=1000 must be between"
    with pytest.warns(FitFailedWarning, match=said):
        assert searched(PCA(random_state=0), {"n_components": [1000, 2]}, digit_folds).n_components == 2
    with pytest.warns(FitFailedWarning, match="2 of 2 candidates"):  # the parameters stay as they are
        assert searched(PCA(3, random_state=0), {"n_components": [1000, 2000]}, digit_folds).n_components == 3


class Fickle(PCA):
    """Fails on the second fold where it would have won."""

    fits = 0

    def fit(self, X, y=None):
        Fickle.fits += self.n_components == 20
        if self.n_components == 20 and Fickle.fits == 2:
            raise ValueError("no luck")
        return super().fit(X, y)


def test_one_failing_fold_excludes_a_candidate():
    with pytest.warns(FitFailedWarning, match="no luck"):
        assert searched(Fickle(), {"n_components": [1, 20]}, digit_folds).n_components == 1


def test_machines_of_many_samples_are_chosen_on_a_part_and_learn_from_all(monkeypatch):
    monkeypatch.setattr(part, "__defaults__", (100,))
    few, _ = part(X, Y, 0)
    assert len(few) == 100
    seen = []
    fit = SVC.fit
    monkeypatch.setattr(SVC, "fit", lambda self, Z, y, **more: seen.append(len(Z)) or fit(self, Z, y, **more))
    found = support_vectors(X, Y, X)
    assert seen[-1] == 300
    assert max(seen[:-1]) == 100
    assert np.mean(found == Y) > 0.95


class Sided(LinearDiscriminantAnalysis):
    """Decides well where ``n_components`` is 1, embeds well where it is 9."""

    def predict(self, X):
        return super().predict(X) if self.n_components == 1 else np.zeros(len(X))


def test_search_judges_by_the_embedding_what_has_one():
    chosen = searched(Sided(), {"n_components": [1, 9]}, digit_folds)
    assert chosen.n_components == 9


def test_search_with_few_labels_uses_them_alone():
    y = np.repeat([0, 1, -1], [4, 4, 40])
    rows = list(training_folds(y))
    assert len(rows) == 3
    for learned, held in rows:
        assert (y[held] != -1).all()
        assert set(np.arange(8, 48)) <= set(learned)
        assert not np.intersect1d(learned, held).size
    single = np.array([0, 1, -1, -1])
    assert n_folds(single) == 1
    assert searched(PCA(3), {"n_components": [1, 2]}, lambda: divided(np.eye(4), single, 0)).n_components == 3


def test_parts_keep_labelled_samples_or_the_shares_of_classes():
    rows = np.arange(100)[:, None]
    for y, expected in (
        (np.repeat([0, 1, -1], [2, 2, 96]), {0: 2, 1: 2, -1: 16}),
        (np.repeat([0, 1], [75, 25]), {0: 15, 1: 5}),
    ):
        few, labels = part(rows, y, 0, 20)
        assert np.array_equal(y[few.ravel()], labels)
        assert dict(zip(*np.unique(labels, return_counts=True), strict=True)) == expected
    # a class of one, more classes than samples asked for, fewer left over than classes: any samples
    for y, most in ((np.repeat([0, 1], [99, 1]), 20), (np.arange(100) // 2, 20), (np.arange(100) // 2, 90)):
        few, labels = part(rows, y, 0, most)
        assert len(np.unique(few)) == most
        assert np.array_equal(y[few.ravel()], labels)


def test_splits_hold_out_a_share_of_each_class():
    train, test = split(Y, 0.3)
    assert np.array_equal(np.union1d(train, test), np.arange(300))
    assert len(test) == 90
    assert np.ptp(np.bincount(Y[test]) / np.bincount(Y)) < 0.05
    assert len(folds(Y, 3)) == 3
    with pytest.raises(ValueError, match="there is one of 2"):
        split(np.array([0, 0, 1, 1, 2]), 0.3)
    with pytest.raises(ValueError, match="class of one"):
        folds(np.array([0, 0, 1]), 2)
    with pytest.raises(ValueError, match="smallest has 2"):
        folds(np.array([0, 0, 1, 1]), 3)


@pytest.mark.slow
def test_folds_are_pooled():
    model = SparLow("lda", n_atoms=30, max_iter=0, random_state=0)
    parts = [learn_and_judge("m", model, X[a], Y[a], X[b], Y[b], ["1NN"]) for a, b in folds(Y, 3)]
    whole = pooled(parts)
    assert len(whole.truth) == 300
    shares = np.average([p.accuracy("1NN") for p in parts], weights=[len(p.truth) for p in parts])
    assert whole.accuracy("1NN") == pytest.approx(shares)


def test_labels_in_order():
    assert in_order(["10", "9", "b", "a", "-1"]) == ["-1", "9", "10", "a", "b"]
