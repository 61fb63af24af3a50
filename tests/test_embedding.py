"""The embedding: ratio trace of codes beside samples, by other means."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from scipy.linalg import subspace_angles
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import KNeighborsClassifier

from sparlow import SparLow, constants
from sparlow.constants import USUAL, WIDE
from sparlow.criteria import LDA
from sparlow.embedding import (
    PAIRS,
    Embedding,
    Ratio,
    Served,
    block_weights,
    nearest_right,
    surely,
    whitened,
)
from sparlow.estimators import choosing
from sparlow.labels import Labels
from sparlow.priors import ElasticNet
from sparlow.rows import Rows, Samples
from sparlow.views import Shifts
from tests import cases
from tests.digits import UNIT, X_NEW, Y_NEW, X, Y, features_of, labels_for, plain, small

N, M, R = 90, 12, 20
SUPERVISED = [name for name in cases.CRITERIA if cases.CRITERIA[name].supervision != "none"]


def coded(seed=0, n=N):
    """Samples of four classes, coded; their labels; as dense arrays codes and samples."""
    samples, y, D = cases.labelled(n, M, R, seed)
    found = Samples(samples, ElasticNet(0.05, 0.1)).coded(D)
    return found, y, found.features.toarray(), samples


def labels_of(name, y):
    return cases.hide_labels(y) if cases.CRITERIA[name].supervision == "semi" else y


def within(Z, y):
    """The scatter within classes over n, from its definition."""
    return sum((Z[y == c] - Z[y == c].mean(axis=0)).T @ (Z[y == c] - Z[y == c].mean(axis=0)) for c in set(y)) / len(y)


def denominator(quotient, Z):
    """S_B of the ratio trace, dense: what is not in the numerator."""
    S = quotient.below if quotient.rest is None else quotient.rest
    return Z.T @ (S @ Z) / len(Z)


def dense_ratio(quotient, Z, ridge, count):
    """W by scipy's generalised eigenproblem; signs are open."""
    A = Z.T @ (quotient.above @ Z) / len(Z)
    B = denominator(quotient, Z) + np.diag(np.broadcast_to(ridge, Z.shape[1]))
    return scipy.linalg.eigh((A + A.T) / 2, (B + B.T) / 2)[1][:, ::-1][:, :count]


def assert_same_columns(W, expected, atol):
    signs = np.sign(np.sum(W * expected, axis=0))
    np.testing.assert_allclose(W, signs * expected, atol=atol * np.abs(expected).max())


@pytest.mark.parametrize("part", ["codes", "samples"])
def test_without_ridge_it_is_the_discriminant_analysis_of_scikit_learn(part):
    _, y, Phi, samples = coded(n=200)
    Z = Phi if part == "codes" else samples
    W = whitened(LDA().bind(Z, y), Rows(Z), 1e-12, 3)
    reference = LinearDiscriminantAnalysis(solver="eigen").fit(Z, y).scalings_[:, :3]
    assert subspace_angles(W, reference).max() < 1e-5
    np.testing.assert_allclose(W.T @ within(Z, y) @ W, np.eye(3), atol=1e-6)


@pytest.mark.parametrize("name", SUPERVISED)
@pytest.mark.parametrize("wide", [False, True])
def test_it_solves_the_generalised_eigenproblem_in_features_or_in_samples(name, wide):
    """With more features than samples the solution is found in the span of the samples: it is the same."""
    _, y, Phi, samples = coded()
    Z = np.hstack([Phi, samples, np.random.default_rng(2).standard_normal((N, 90))]) if wide else Phi
    quotient = cases.CRITERIA[name].bind(samples, labels_of(name, y))
    count = 3 if name not in ("mfa", "slap") else 4
    W = whitened(quotient, Rows(Z), 0.05, count)
    assert_same_columns(W, dense_ratio(quotient, Z, 0.05, count), 1e-5)
    B = denominator(quotient, Z) + 0.05 * np.eye(Z.shape[1])
    np.testing.assert_allclose(W.T @ B @ W, np.eye(count), atol=1e-6)
    assert np.all(W[np.argmax(np.abs(W), axis=0), np.arange(count)] > 0)


@pytest.mark.parametrize("name", SUPERVISED)
@pytest.mark.parametrize("n", [N, 30])
def test_weights_of_the_parts_mean_a_ridge_for_each(name, n):
    """[φ, γx] with one ridge has the embedding of [φ, x] with two."""
    found, y, Phi, samples = coded(n=n)
    quotient = cases.CRITERIA[name].bind(samples, labels_of(name, y))
    both = np.hstack([Phi, samples])
    own, beside = (np.var(part, axis=0).sum() / n for part in (Phi, samples))  # of one sample
    ridges = np.repeat([0.3 * own, 0.1 * beside], [R, M])
    ratio = Ratio(quotient, found)
    weighted, W = ratio.solve((0.3, 0.1), 3)
    ours = Embedding.of(W, weighted)(weighted)
    theirs = both @ dense_ratio(quotient, both, ridges, 3)
    assert_same_columns(ours, theirs - theirs.mean(axis=0), 1e-5)
    (alpha, gamma), ridge = block_weights(found, (0.3, 0.1))
    assert (alpha, ridge) == (1, pytest.approx(0.3 * own))
    assert gamma == pytest.approx(np.sqrt(0.3 * own / (0.1 * beside)))


@pytest.mark.parametrize("n", [N, 24])
def test_an_infinite_ridge_leaves_a_part_out(n):
    """On the codes, it is the classical method on the samples; on the samples, the method on codes alone."""
    found, y, Phi, samples = coded(n=n)
    quotient = LDA().bind(samples, y)
    for ridges, weights, Z in (((np.inf, 0.1), (0, 1), samples), ((0.3, np.inf), (1, 0), Phi)):
        weighted, W = Ratio(quotient, found).solve(ridges, 3)
        assert weighted.samples.weights == weights
        ridge = min(ridges) * np.var(Z, axis=0).sum() / n
        assert_same_columns(W, dense_ratio(quotient, Z, ridge, 3), 1e-5)
        assert W.shape == (Z.shape[1], 3)


@pytest.mark.parametrize("name", SUPERVISED)
def test_the_model_keeps_what_it_says(name):
    """W of a fitted model is orthonormal in its denominator, for the features and the ridge that it reports."""
    model = small(name, 4, max_iter=1, prior=ElasticNet(0.1, 0.1)).fit(X, labels_for(name))
    Z = features_of(model)
    assert Z.shape[1] == len(model.projection_)
    W = model.projection_
    np.testing.assert_allclose(model.embedding_, (Z - Z.mean(axis=0)) @ W, atol=1e-6 * np.abs(model.embedding_).max())
    quotient = model.criterion_.bind(UNIT, model._training.bound)
    if quotient.renew is None:
        B = denominator(quotient, Z) + model.ridge_ * np.eye(len(W))
        np.testing.assert_allclose(W.T @ B @ W, np.eye(4), atol=1e-4)


def test_weights_tell_which_parts_an_embedding_has():
    assert plain(max_iter=0).fit(X, Y).weights_ == (1, 0)
    assert small(max_iter=0, views=Shifts(1)).fit(X, Y).weights_ == (1, 0)
    model = small(max_iter=0).fit(X, Y)
    assert model.weights_[0] in (0, 1)
    assert max(model.weights_) > 0


def spread(Z):
    """The deviation of all columns together."""
    return np.sqrt(np.var(Z, axis=0).sum())


@pytest.mark.parametrize("name", [name for name in cases.CRITERIA if name not in SUPERVISED])
def test_without_labels_samples_deviate_twice_as_much_as_codes(name):
    """The features are [φ, γx] with an orthonormal U; the paper's form has the codes alone."""
    model = small(name, max_iter=0).fit(X)
    codes, (alpha, gamma), U = model.encode(X).toarray(), model.weights_, model.projection_
    assert alpha == 1
    assert gamma * spread(UNIT) == pytest.approx(2 * spread(codes))
    Z = features_of(model)
    np.testing.assert_allclose(U.T @ U, np.eye(model.n_components_), atol=1e-8)
    np.testing.assert_allclose(model.embedding_, (Z - Z.mean(axis=0)) @ U, atol=1e-8)
    assert model.n_components_ == (len(model.dictionary_) + X.shape[1]) // 4
    moved = small(name, max_iter=1).fit(X)  # the weights are those of the first dictionary
    assert moved.weights_ == model.weights_
    np.testing.assert_allclose(moved.transform(X), moved.embedding_, atol=1e-8)
    assert plain(name, max_iter=1).fit(X).weights_ == (1, 0)
    assert small(name, max_iter=0, views=Shifts(1)).fit(X).weights_ == (1, 0)
    few = small(name, max_iter=0, normalize=False).fit(X[:, 20:24] + 0.1)
    assert few.n_components_ == 4  # no more than a sample has features


def test_weights_of_a_stream_are_those_of_a_fit():
    model = small("pca", 5, max_iter=0).fit(X)
    stream = small("pca", 5, dictionary=model.dictionary_).partial_fit(X)
    codes = stream.encode(X).toarray()
    assert stream.weights_[1] * spread(UNIT) == pytest.approx(2 * spread(codes), rel=0.05)  # codes of the first step
    assert subspace_angles(stream.projection_, model.projection_).max() < 0.2


def test_few_labels_have_ridges_of_their_own():
    """Where nothing can be held out, ridges are the usual ones; that of codes is larger if most labels are missing."""
    some = np.concatenate([np.flatnonzero(label == Y)[:2] for label in range(10)])
    few = np.full(len(Y), -1)
    few[some] = Y[some]
    assert small("sda", max_iter=0).fit(X, few).ridges_ == constants.FEW
    assert small("sda", max_iter=0, n_atoms=15).fit(X[some], Y[some]).ridges_ == USUAL
    assert small("lda", max_iter=0, n_atoms=15).fit(X[some], Y[some]).ridges_ == USUAL


def test_rare_classes_are_among_the_samples_that_choices_are_tried_on(monkeypatch):
    """A class of two or three among so many that a draw by shares would miss it."""
    monkeypatch.setattr(choosing, "TRIED", 60)
    rare = np.r_[np.flatnonzero(Y < 9), np.flatnonzero(Y == 9)[:3]]
    for rows in (rare, rare[:-1]):
        model = small("lda", max_iter=0).fit(X[rows], Y[rows])
        assert len(model.classes_) == 10
        assert model.n_components_ >= 9
    labels = Labels(np.r_[np.zeros(50, int), 1, 1, 1, 2])
    more = labels.lacking(np.arange(51), 3, np.random.RandomState(0))
    assert sorted(more) == [51, 52, 53]
    hidden = Labels(np.r_[np.full(50, -1), 0, 0, 1, 1])
    assert sorted(hidden.lacking(np.arange(51), 2, np.random.RandomState(0))) == [51, 52, 53]


@pytest.mark.parametrize("name", SUPERVISED)
@pytest.mark.parametrize("n", [N, 30])
def test_a_wide_embedding_has_the_criterions_columns_and_then_those_of_most_variance(name, n):
    """All columns are orthonormal in the denominator; the further ones leave no direction of more total variance."""
    found, y, _, samples = coded(n=n)
    quotient = cases.CRITERIA[name].bind(samples, labels_of(name, y))
    for ridges in ((0.5, 0.3), (np.inf, 0.1)):
        narrow, W1 = Ratio(quotient, found).solve(ridges, 2)
        weighted, W = Ratio(quotient, found).solve(ridges, 2, wide=True)
        Z = np.hstack([block.toarray() if sp.issparse(block) else block for block in weighted.in_memory().blocks])
        assert W.shape[1] == min(WIDE, n - 1, Z.shape[1])
        assert_same_columns(Embedding.of(W[:, :2], weighted)(weighted), Embedding.of(W1, narrow)(narrow), 1e-6)
        B = denominator(quotient, Z) + block_weights(found, ridges)[1] * np.eye(Z.shape[1])
        np.testing.assert_allclose(W.T @ B @ W, np.eye(W.shape[1]), atol=1e-5)
        T = np.cov(Z.T, bias=True) if quotient.rest is None else Z.T @ (quotient.below @ Z) / n
        variances = np.diag(W.T @ T @ W)[2:]
        assert np.all(np.diff(variances) < 1e-6)
        # the rest of the whitened space, in which the criterion's columns are left out
        root = np.linalg.inv(np.linalg.cholesky(B)).T
        Q = np.linalg.qr(np.linalg.solve(root, W[:, :2]))[0]
        left = np.eye(len(B)) - Q @ Q.T
        expected = np.linalg.eigvalsh(left @ root.T @ T @ root @ left)[::-1]
        np.testing.assert_allclose(variances, expected[: len(variances)], atol=1e-6)


@pytest.mark.parametrize("spread", [0.14, 0.22])
def test_further_columns_are_taken_where_they_are_better_by_more_than_chance(spread):
    """Eight groups on a circle, by turns of two classes: no single direction tells these apart, neighbours do."""
    rng = np.random.default_rng(0)
    place = np.arange(320) % 8
    turn = 2 * np.pi * place / 8
    Z = np.column_stack([np.cos(turn), np.sin(turn)]) + spread * rng.standard_normal((320, 2))
    Z = np.hstack([Z, 0.1 * rng.standard_normal((320, 8))])
    scores = []
    for count in (None, 1):
        model = SparLow("lda", count, max_iter=0, random_state=0).fit(Z[:160], place[:160] % 2)
        assert (model.n_components_ == 1) == (count == 1)  # the user's number wins
        scores.append(model.score(Z[160:], place[160:] % 2))
    assert scores[0] > 0.7 > 0.6 > scores[1]
    Z[:, 2] = place % 2 + 0.2 * rng.standard_normal(320)  # a direction that tells the classes apart
    assert SparLow("lda", max_iter=0, random_state=0).fit(Z, place % 2).n_components_ == 1


def test_the_classical_method_with_any_shrinkage_is_reached():
    """(∞, b) is scikit-learn's LDA with the covariance of the classes shrunk by as much."""
    _, y, _, samples = coded(n=200)
    found = coded(n=200)[0]
    n, m = samples.shape
    for b in constants.RIDGES_BESIDE[:-1]:
        W = Ratio(LDA().bind(samples, y), found).solve((np.inf, b), 3)[1]
        ridge = b * np.var(samples, axis=0).sum() / n
        mean = np.trace(within(samples, y)) / m
        share = ridge / (ridge + mean)  # (1 − s) S + s tr(S)/m I has the directions of S + ridge I
        coef = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=share).fit(samples, y).coef_
        assert subspace_angles(W, (coef[1:] - coef[0]).T).max() < 1e-5


def test_gains_are_sure_where_their_sum_exceeds_its_standard_error():
    assert surely(np.array([1.0, 1.0, 0.0]))  # 2 > √2
    assert not surely(np.array([1.0, 0.0]))
    assert not surely(np.array([1.0, 1.0, -1.0]))
    assert not surely(np.zeros(5))


def test_nearest_right_is_the_mean_over_distance_and_angle():
    train, y, _ = cases.labelled(60, 3, 4)
    test, truth, _ = cases.labelled(60, 3, 4, seed=1)
    train = train * np.random.default_rng(0).uniform(0.5, 2, (60, 1))
    near = KNeighborsClassifier(1).fit(train, y).predict(test) == truth
    angle = KNeighborsClassifier(1).fit(cases.unit(train), y).predict(cases.unit(test)) == truth
    np.testing.assert_array_equal(nearest_right(train, y, test, truth), (near.astype(float) + angle) / 2)
    near = KNeighborsClassifier(1).fit(train[:, :1], y).predict(test[:, :1]) == truth  # angles would be two only
    np.testing.assert_array_equal(nearest_right(train[:, :1], y, test[:, :1], truth), near.astype(float))


def test_new_samples_are_judged_by_their_own_neighbours(fitted):
    """Whitened or not, a sample that the model has seen is itself its nearest neighbour."""
    assert fitted.score(X, Y) > 0.99
    assert fitted.score(X_NEW, Y_NEW) < 0.99


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_samples_with_a_large_mean_and_repeated_ones_are_fine(dtype):
    """Their Gram matrix is centred before it is formed, so that rounding does not make it indefinite."""
    rng = np.random.default_rng(0)
    y = np.arange(30) % 2
    samples = (1000 + rng.standard_normal((30, 50)) + 3 * y[:, None])[np.r_[:30, :10]].astype(dtype)
    y = y[np.r_[:30, :10]]
    W = whitened(LDA().bind(samples, y), Rows(samples), 0.1, 1)
    Z = samples.astype(float) @ W
    assert abs(Z[y == 0].mean() - Z[y == 1].mean()) > 3 * Z[y == 0].std()


def test_the_best_ridges_on_held_out_samples_are_taken():
    """Means of classes that noise of many dimensions hides want more shrinkage than the usual ridges give."""
    rng = np.random.RandomState(1)
    y = np.arange(400) % 8
    X = (0.15 * rng.standard_normal((8, 300)))[y] + rng.standard_normal((400, 300))
    model = SparLow("lda", max_iter=0, random_state=0).fit(X, y)
    assert model.ridges_ in PAIRS
    assert model.ridges_[1] > USUAL[1]


class Told:
    """A trial whose outcomes are known: held-out samples in another order than in the set."""

    may_be_wide = False

    def __init__(self, right):
        self.right, self.rows = right, np.random.default_rng(0).permutation(400)
        self.truth, self.choice, self.setup = Labels(np.zeros(400, int)), None, None

    def has_room(self, ridges):
        return ridges != constants.FLAT

    def outcomes(self, choice):
        return self.right(choice)[self.rows] * 1.0


def test_ties_of_ridges_go_to_the_pair_nearest_to_the_usual_one():
    setup = SimpleNamespace(whiten=True, views=SimpleNamespace(whole=True))
    some = np.arange(400)
    usual = choosing.Choice(USUAL)
    level = choosing.best_choice(setup, [Told(lambda choice: some % 2)], usual)[0]
    assert level.ridges == USUAL
    better = choosing.best_choice(
        setup, [Told(lambda choice: some < (300 if choice.ridges == (2.0, 0.1) else 200))], usual
    )[0]
    assert better.ridges == (2.0, 0.1)


@pytest.mark.interpreted
@pytest.mark.parametrize("weights", [(1.0, 0.7), (2.0, 0.0), (0.0, 1.0)])
def test_a_service_embeds_each_row_as_the_product_does(weights):
    """Rows of sparse codes and dense samples, at once and one by one, with and without forms."""
    rng = np.random.default_rng(0)
    codes, X = sp.csr_array(rng.random((6, 9)) * (rng.random((6, 9)) < 0.4)), rng.random((6, 5))
    width = (9 if weights[0] else 0) + (5 if weights[1] else 0)
    W, forms = rng.random((width, 4)), rng.random((3, 4, 4))
    Z = np.hstack([weight * part for weight, part in zip(weights, (codes.toarray(), X), strict=True) if weight])
    served = Served(W, weights, np.ones(4), None)
    np.testing.assert_allclose(served(codes, X), Z @ W - 1, atol=1e-12)
    for i in range(6):
        np.testing.assert_array_equal(served(codes[[i]], X[[i]]), served(codes, X)[[i]])
    P = Z @ W
    expected = np.einsum("ip,lpq,iq->il", P, forms, P)
    np.testing.assert_allclose(Served(W, weights, np.zeros(3), forms)(codes, X), expected, atol=1e-9)
