"""Classes by votes: from their definition, by loops; cells; the rule of the smallest loss; soundness."""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from sparlow import SparLow, constants
from sparlow.voting import Rule, Voters, best_rule
from tests import cases


def drawn(n=80, classes=3, seed=0, spread=0.6):
    """Points of a few classes."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % classes
    return np.eye(4)[labels] + spread * rng.standard_normal((n, 4)), labels


def loss(shares, truth):
    return -np.mean(np.log(shares[np.arange(len(truth)), truth]))


@pytest.mark.parametrize("angle", [False, True])
def test_shares_are_votes_from_their_definition(angle):
    points, labels = drawn()
    new, _ = drawn(7, seed=1)
    rule = Rule(angle, 0.7, 2.0, 0.3)
    voters = Voters.of(points, labels, rule)
    found = voters.probabilities(new)
    if angle:
        points, new = cases.unit(points), cases.unit(new)
    apart = np.sort(np.sum((points[:, None] - points) ** 2, axis=2), axis=1)[:, 1:6]  # of the five nearest
    assert voters.beta == pytest.approx(0.7 / np.median(apart))
    for row, shares in zip(new, found, strict=True):
        far = np.array([np.sum((row - points[labels == c].mean(axis=0)) ** 2) for c in range(3)])
        q = np.bincount(labels) / 80 * np.exp(-2 * far)
        votes = 0.3 * (0.99 * q / q.sum() + 0.01 * np.bincount(labels) / 80)
        squares = np.sum((points - row) ** 2, axis=1)
        for i in np.argsort(squares)[:50]:
            votes[labels[i]] += np.exp(-voters.beta * (squares[i] - squares.min()))
        np.testing.assert_allclose(shares, votes / votes.sum(), rtol=1e-9)


def test_sharp_votes_are_those_of_the_nearest_neighbour():
    points, labels = drawn()
    new, _ = drawn(50, seed=1)
    found = Voters.of(points, labels, Rule(False, 1e6, 1.0, 1e-4)).probabilities(new).argmax(axis=1)
    np.testing.assert_array_equal(found, KNeighborsClassifier(1).fit(points, labels).predict(new))


def test_a_cell_votes_at_its_mean_as_often_as_it_has_samples():
    points, labels = drawn(4 * constants.VOTERS, 3)
    voters = Voters.of(points, labels, Rule())
    assert len(voters.points) <= constants.VOTERS
    np.testing.assert_allclose(voters.shares, np.bincount(labels) / len(labels))
    for c in range(3):
        own = voters.labels == c
        weights = voters.weights[own] / voters.weights[own].sum()
        np.testing.assert_allclose(weights @ voters.points[own], points[labels == c].mean(axis=0), atol=1e-12)
        np.testing.assert_allclose(voters.weights[own].sum() / voters.weights.sum(), voters.shares[c])


def test_cells_answer_as_all_samples_do():
    points, labels = drawn(4 * constants.VOTERS, 3)
    new, truth = drawn(6000, seed=1)
    few = Voters.of(points, labels, best_rule(points, labels, new, truth)).probabilities(new)
    near = KNeighborsClassifier(50).fit(points, labels).predict_proba(new)
    assert np.mean(few.argmax(axis=1) == truth) >= np.mean(near.argmax(axis=1) == truth) - 0.005
    assert loss(few, truth) <= loss(np.maximum(near, 1e-3), truth) + 0.002


def test_small_classes_have_voters():
    points, labels = drawn(4 * constants.VOTERS, 3)
    labels = np.where(np.arange(len(labels)) < 5, 3, labels)
    voters = Voters.of(points, labels, Rule())
    assert np.bincount(voters.labels).tolist()[3] == 5


@pytest.mark.parametrize("given", [False, True])
def test_the_rule_has_the_smallest_loss(given):
    """Of samples that are given, or of each left out: no rule at hand has a smaller loss."""
    points, labels = drawn(60)
    new, truth = drawn(100, seed=1) if given else (points, labels)
    chosen = best_rule(points, labels, *((new, truth) if given else ()))

    def of(rule):
        if given:
            return loss(Voters.of(points, labels, rule).probabilities(new), truth)
        others = [np.arange(60) != i for i in range(60)]
        shares = [
            Voters.of(points[keep], labels[keep], rule).probabilities(points[i : i + 1])[0]
            for i, keep in enumerate(others)
        ]
        return loss(np.array(shares), labels)

    best = of(chosen)
    assert best < np.log(3)
    for at in (1, 2, 3):
        for factor in (0.01, 100):
            other = list(chosen)
            other[at] *= factor
            assert best <= of(Rule(*other)) + 2e-3  # shares of classes differ by the sample that is left out


def test_angles_count_where_norms_mislead():
    points, labels = drawn(300, spread=0.2)
    rng = np.random.default_rng(0)
    lengths = np.exp(rng.standard_normal((300, 1)))
    assert best_rule(points * lengths, labels).angle
    radii = (1 + labels[:, None] + 0.05 * rng.standard_normal((300, 1))) * cases.unit(rng.standard_normal((300, 4)))
    assert not best_rule(radii, labels).angle


def test_own_samples_are_asked_beside_themselves():
    points, labels = drawn(60)
    voters = Voters.of(points, labels, Rule(False, 5.0, 1e-3, 1e-3))
    found = voters.probabilities(points, own=True)
    squares = np.sum((points[:, None] - points) ** 2, axis=2)
    np.fill_diagonal(squares, np.inf)
    assert np.mean(found.argmax(axis=1) == labels[squares.argmin(axis=1)]) > 0.8
    assert voters.probabilities(points)[np.arange(60), labels].mean() > found[np.arange(60), labels].mean()


def test_models_answer_without_their_training_samples():
    X, y, _ = cases.labelled(60, 12, 20)
    model = SparLow("lda", n_atoms=20, max_iter=0, random_state=0).fit(X, y)
    slim = model.without_training()
    assert len(slim.embedding_) == 0
    assert len(model.embedding_) == 60
    np.testing.assert_array_equal(slim.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(slim.transform(X), model.transform(X))
