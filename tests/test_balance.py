"""What learning makes of a criterion: balanced pairs, propagated labels; against dense algebra."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from sparlow import SparLow, graphs
from sparlow.criteria import LDA, MFA, MVR, PCA, SDA, SLAP, SMVR, following
from sparlow.criteria.following import most_certain
from sparlow.estimators import OnStep, choosing, learning
from sparlow.labels import Labels
from sparlow.models import load, save
from sparlow.problem import Together
from sparlow.rows import Rows
from sparlow.voting import Memberships
from tests.digits import X, Y, plain, small
from tests.test_criteria import N, R, either, heat, sample
from tests.test_graphs import degree_minus, nearest

# ── balance ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def refreshed(quotient, codes, U):
    """What an objective makes of its criterion before every second step."""
    coded = Rows(codes)
    D = np.eye(2)
    objective = Together(None, quotient, quotient, D, U.shape[1], 1.0)
    now = SimpleNamespace(coded=coded, projection=U, quotient=quotient.value(coded, U), point=(D, U), dictionary=D)
    return objective.refreshed(now)[0].quotient


@pytest.fixture
def projection():
    return np.linalg.qr(np.random.default_rng(5).standard_normal((R, 3)))[0]


@pytest.mark.parametrize("criterion", [LDA(), SDA(k=4, propagate=0), LDA(balance=0.5)], ids=str)
def test_balanced_classes_are_weighted_by_their_distances(criterion, projection):
    """Pairs of classes count n_c n_d d^(2 − 2·balance), the weight of the closest at most 10 times the farthest's."""
    X, y, codes = sample(hidden=criterion.supervision == "semi")
    quotient = criterion.bind(X, y)
    before = quotient.value(Rows(codes), projection)
    balanced = refreshed(quotient, codes, projection)
    after = balanced.value(Rows(codes), projection)
    assert after.quotient == pytest.approx(before.quotient, rel=1e-12)
    assert after.bottom == pytest.approx(before.bottom, rel=1e-12)
    Y = codes @ projection
    Phi = codes.toarray()
    sizes = np.bincount(y[y >= 0])
    expected = np.zeros((R, R))
    pairs = [(c, d) for c in range(4) for d in range(c)]
    gaps = np.array([np.linalg.norm(Y[y == c].mean(axis=0) - Y[y == d].mean(axis=0)) for c, d in pairs])
    weights = np.minimum((gaps.max() / gaps) ** (2 * criterion.balance), 10)
    if criterion == LDA():
        assert weights.max() == 10  # the bound is at work
        assert weights.min() < 10
    for (c, d), weight in zip(pairs, weights, strict=True):
        wide = Phi[y == c].mean(axis=0) - Phi[y == d].mean(axis=0)
        expected += sizes[c] * sizes[d] * weight * np.outer(wide, wide)
    A = balanced.matrices(Rows(codes))[0]
    np.testing.assert_allclose(A / np.trace(A), expected / np.trace(expected), atol=1e-10)


def test_balanced_edges_are_weighted_by_the_mean_distance_of_their_pair_of_classes(projection):
    X, y, codes = sample(hidden=False)
    quotient = MFA(k_within=3, k_between=4).bind(X, y)
    before = quotient.value(Rows(codes), projection)
    balanced = refreshed(quotient, codes, projection)
    assert balanced.value(Rows(codes), projection).quotient == pytest.approx(before.quotient, rel=1e-12)
    edges = either(nearest(X, 4, y[:, None] != y)).astype(bool)
    squares = cdist(codes @ projection, codes @ projection) ** 2
    weights = np.zeros((N, N))
    for c in range(4):
        for d in range(4):
            block = edges & np.outer(y == c, y == d)
            if block.any():
                weights[block] = 1 / squares[block].mean()
    expected = codes.T @ degree_minus(weights) @ codes.toarray()
    A = balanced.matrices(Rows(codes))[0]
    np.testing.assert_allclose(A / np.trace(A), expected / np.trace(expected), atol=1e-10)


def test_balancing_a_balanced_quotient_changes_nothing(projection):
    X, y, codes = sample(hidden=False)
    once = refreshed(LDA().bind(X, y), codes, projection)
    twice = refreshed(once, codes, projection)
    np.testing.assert_allclose(twice.matrices(Rows(codes))[0], once.matrices(Rows(codes))[0], atol=1e-12)


@pytest.mark.parametrize(
    "criterion", [LDA(balance=0), MFA(balance=0), SDA(balance=0), PCA(), SLAP(), MVR(balance=0)], ids=str
)
def test_without_balance_the_quotient_stays(criterion, projection):
    X, y, codes = sample(hidden=False)
    quotient = criterion.bind(X, y)
    assert refreshed(quotient, codes, projection) is quotient


def test_equal_class_means_do_not_break_the_balance(projection):
    X, y, codes = sample(hidden=False)
    nothing = sp.csr_array(codes.shape)
    quotient = LDA().bind(X, y)
    assert quotient.balanced(quotient.value(Rows(nothing), projection)) is quotient
    same = codes.toarray()
    for c in (1, 2):  # two classes on one another
        same[y == c] -= same[y == c].mean(axis=0)
    A = refreshed(LDA().bind(X, y), same, projection).matrices(Rows(same))[0]
    assert np.all(np.isfinite(A))


# ── propagated labels ───────────────────────────────────────────────────────────────────────────────────────────────

SEMI = [SDA(k=4), SLAP(k=4, k_within=2, k_between=3), SMVR(k=4)]


def spread_by_inverse(W, y):
    """Memberships (I − 0.9 S)⁻¹T, columns of equal mass, rows of sum 1, by dense algebra."""
    scale = 1 / np.sqrt(W.sum(axis=1))
    T = np.array([[(label == c) / np.sum(y == c) for c in range(y.max() + 1)] for label in y], float)
    F = np.linalg.solve(np.eye(len(y)) - 0.9 * scale[:, None] * W * scale, T)
    F = F / F.sum(axis=0)
    return F / F.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("criterion", SEMI, ids=str)
def test_the_first_quotient_is_that_of_the_labels_given(criterion):
    X, y, codes = sample(hidden=True)
    plain = dataclasses.replace(criterion, propagate=0).bind(X, y)
    for M, expected in zip(criterion.bind(X, y).matrices(Rows(codes)), plain.matrices(Rows(codes)), strict=True):
        np.testing.assert_array_equal(M, expected)


@pytest.mark.parametrize("criterion", SEMI, ids=str)
def test_learning_believes_the_surest_of_the_labels_that_spread(criterion, projection):
    """The renewed quotient is that of given and propagated labels, per labelled sample, its value unchanged."""
    X, y, codes = sample(hidden=True)
    criterion = dataclasses.replace(criterion, propagate=0.5)
    quotient = dataclasses.replace(criterion.bind(X, y), ridge=0.1)
    renewed = refreshed(quotient, codes, projection)
    assert renewed.changes
    assert renewed.ridge == 0.1
    F = quotient.value(Rows(codes), projection).quotient
    assert renewed.value(Rows(codes), projection).quotient == pytest.approx(F, rel=1e-10)
    Y = codes @ projection - (codes @ projection).mean(axis=0)
    Y /= np.linalg.norm(Y, axis=1, keepdims=True)
    memberships = spread_by_inverse(heat(X, 4) + heat(Y, 4), y)
    labels = y.copy()
    for c in range(4):
        rows = [i for i in np.argsort(-memberships.max(axis=1)) if y[i] < 0 and memberships[i].argmax() == c]
        labels[rows[: round(0.5 * len(rows))]] = c
    assert np.sum(labels >= 0) > np.sum(y >= 0)
    expected = (
        dataclasses.replace(criterion, propagate=0, **balance_off(criterion)).bind(X, labels).matrices(Rows(codes))[1]
    )
    unbalanced = dataclasses.replace(criterion, **balance_off(criterion)).bind(X, y)
    below = unbalanced.renew(codes @ projection).matrices(Rows(codes))[1]
    np.testing.assert_allclose(below, expected * np.sum(y >= 0) / np.sum(labels >= 0), atol=1e-8)


@pytest.mark.parametrize("criterion", SEMI, ids=str)
def test_without_an_embedding_labels_spread_over_the_first_graph(criterion):
    X, y, codes = sample(hidden=True)
    criterion = dataclasses.replace(criterion, propagate=1, **balance_off(criterion))
    labels = np.where(y >= 0, y, spread_by_inverse(heat(X, 4), y).argmax(axis=1))
    expected = dataclasses.replace(criterion, propagate=0).bind(X, labels).matrices(Rows(codes))[1]
    below = criterion.bind(X, y).renew(None).matrices(Rows(codes))[1]
    np.testing.assert_allclose(below, expected * np.mean(y >= 0), atol=1e-8)


def balance_off(criterion):
    return {"balance": 0} if hasattr(criterion, "balance") else {}


def test_nothing_is_propagated_where_all_samples_have_labels_or_targets_are_numbers():
    X, y, _ = sample(hidden=False)
    for criterion in SEMI:
        assert criterion.bind(X, y).renew is None
    targets = np.where(y[:, None] > 1, np.nan, np.random.default_rng(0).standard_normal((N, 2)))
    assert SMVR(k=4).bind(X, targets).renew is None


def test_a_sample_that_no_label_reaches_stays_unlabelled():
    graph = sp.csr_array(scipy.linalg.block_diag(np.ones((3, 3)), np.ones((2, 2))))
    F = graphs.spread_labels(sp.csr_array(graph), np.array([0, 1, -1, -1, -1]))
    np.testing.assert_allclose(F[2], [0.5, 0.5], atol=1e-6)
    np.testing.assert_array_equal(F[3:], 0)
    np.testing.assert_array_equal(most_certain(F, np.array([0, 1, -1, -1, -1]), 1.0)[3:], -1)


def test_edges_are_weighed_the_same_in_any_batches(monkeypatch):
    rng = np.random.default_rng(0)
    Y, labels = rng.standard_normal((60, 3)), np.arange(60) % 4
    _, between = graphs.class_neighbours(Y, labels, 3, 5)
    whole = following.balanced_edges(Y, labels, between, 1.0)
    monkeypatch.setattr(following, "_EDGES", 7)
    parts = following.balanced_edges(Y, labels, between, 1.0)
    np.testing.assert_allclose((whole @ Y), (parts @ Y), rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("criterion", [SDA(), SLAP(), SMVR(), SDA(propagate=0)], ids=str)
def test_missing_labels_of_the_training_samples_are_filled_in(criterion):
    """Given labels stay, nearly all others are right, and words are words; without missing ones there is nothing."""
    names = np.array([f"digit {c}" for c in range(10)], object)
    hidden = np.where(np.arange(len(Y)) % 2 == 0, names[Y], -1)
    model = small(criterion, max_iter=2).fit(X, hidden)
    assert model.transduction_.shape == Y.shape
    np.testing.assert_array_equal(model.transduction_[::2], names[Y[::2]])
    assert np.mean(model.transduction_[1::2] == names[Y[1::2]]) > 0.85
    np.testing.assert_array_equal(small(criterion, max_iter=2).fit(X, Y).transduction_, Y)
    assert not hasattr(model.set_params(criterion="lda").fit(X, Y), "transduction_")


def test_missing_labels_of_two_classes_of_unlike_size_are_filled_in():
    """One dimension: signs alone would put the mean, and the border, within the larger class."""
    images, digits = load_digits(return_X_y=True)
    rows = np.concatenate([np.flatnonzero(digits == 4)[:170], np.flatnonzero(digits == 9)[:20]])
    hidden = np.full(190, -1)
    hidden[[0, 40, 80, 120]], hidden[[170, 175, 180, 185]] = 4, 9
    model = SparLow("sda", n_atoms=60, max_iter=2, random_state=0).fit(images[rows], hidden)
    assert model.embedding_.shape[1] == 1
    left = hidden < 0
    assert np.mean(model.transduction_[left] == digits[rows][left]) > 0.8


def test_a_model_that_a_callback_sees_has_nothing_of_an_earlier_fit():
    seen = []
    model = plain("sda", max_iter=1).fit(X, np.where(np.arange(len(Y)) % 2 == 0, Y, -1))
    assert hasattr(model, "transduction_")
    follow = OnStep(lambda row, now: seen.append((hasattr(now, "transduction_"), now.score(X, Y))))
    model.set_callbacks(follow).set_params(criterion="lda").fit(X, Y)
    assert seen == [(False, model.score(X, Y))]


@pytest.mark.parametrize("classes", [np.array([3, 7]), np.array(["a", "b"], object)], ids=["numbers", "words"])
def test_samples_that_no_label_reaches_stay_unlabelled(classes):
    shares = np.array([[0.0, 1.0], [0.0, 0.0], [0.2, 0.8]])
    filled = transduced(lambda embedding: shares, classes)
    assert filled["transduction_"].tolist() == [classes[0], -1, classes[1]]
    rise = 0.8**1.5 / (0.2**1.5 + 0.8**1.5)
    np.testing.assert_allclose(filled["memberships_"], [[1, 0], [0, 0], [1 - rise, rise]], rtol=1e-6)


def test_new_samples_have_the_mean_shares_of_the_ten_nearest_by_angle():
    rng = np.random.default_rng(3)
    Y, new, shares = rng.normal(size=(30, 4)), rng.normal(size=(5, 4)), rng.dirichlet(np.ones(3), 30)
    shares[:4] = 0  # reached by no label
    found = (Memberships.among(Y, shares).probabilities(new) - 0.01 / shares.shape[1]) / 0.99
    for row, point in zip(found, new, strict=True):
        cosines = Y[4:] @ point / np.linalg.norm(Y[4:], axis=1) / np.linalg.norm(point)
        near = np.argsort(-cosines)[:10]
        squares = 2 - 2 * cosines[near]
        weights = np.exp(-squares / squares.mean())
        np.testing.assert_allclose(row, weights @ shares[4:][near] / weights.sum(), rtol=1e-9)


def test_predictions_use_labels_that_were_spread_and_are_kept_in_a_file(tmp_path):
    images, truth = load_digits(return_X_y=True)
    images, truth = images[:400], truth[:400]
    hidden = np.full(400, -1)
    first = [int(np.flatnonzero(truth == c)[0]) for c in range(10)]
    hidden[first] = truth[first]
    model = SparLow("sda", n_atoms=40, random_state=0).fit(images, hidden)
    nearest = truth[first][cdist(model.embedding_, model.embedding_[first], "cosine").argmin(axis=1)]
    assert model.score(images, truth) > np.mean(nearest == truth) + 0.02
    assert "no step" in model.stop_reason_
    np.testing.assert_array_equal(model.memberships_[first], np.eye(10))
    save(model, tmp_path / "digits.sparlow")
    again = load(tmp_path / "digits.sparlow")
    np.testing.assert_allclose(again.predict_proba(images), model.predict_proba(images), atol=1e-5)


def test_an_interrupt_while_labels_are_filled_in_leaves_the_model(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(choosing, "transduced", interrupted)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = plain("sda", max_iter=1).fit(X, np.where(np.arange(len(Y)) % 2 == 0, Y, -1))
    assert model.stop_reason_ == "interrupted"
    assert not hasattr(model, "transduction_")
    assert model.predict(X).shape == Y.shape


def transduced(memberships, classes):
    labels, quotient = Labels(np.array([0, -1, -1]), classes), SimpleNamespace(memberships=memberships)
    return learning.transduced(SDA(), quotient, labels, np.zeros((3, 1)))
