"""Weights of samples: a weight of two counts as the sample twice, in every criterion that takes weights."""

import dataclasses

import numpy as np
import pytest
from scipy.linalg import subspace_angles
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparlow import SparLow, TraceQuotient
from sparlow.criteria import LDA, MVR, PCA
from sparlow.criteria.base import bind_checked
from sparlow.embedding import Embedding, whitened
from sparlow.labels import Labels
from sparlow.priors import ElasticNet
from sparlow.rows import Rows
from sparlow.solvers import Solver
from tests import cases, digits

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(40, 6)), np.r_[0:3, RNG.integers(0, 3, 37)]
TARGETS = X[:, :2] + RNG.normal(size=(40, 2))
TIMES = np.r_[1, 1, 1, RNG.integers(0, 4, 37)]  # no class without weight
AGAIN = np.repeat(np.arange(40), TIMES)
BOUND = {
    "lda": (LDA(), Y),
    "lda, class weights": (LDA(class_weight=(1, 3, 2)), Y),
    "lda, balanced": (LDA(class_weight="balanced"), Y),
    "mvr": (MVR(), Y),
    "mvr, targets": (MVR(), TARGETS),
    "pca": (PCA(), None),
}


def labels_of(y):
    if y is None:
        return Labels()
    return Labels(targets=y) if y.ndim == 2 else Labels(y, np.arange(3))


def taken(y, rows):
    return None if y is None else y[rows]


def both(name):
    """Bind a criterion to samples with weights, and to samples repeated so often."""
    criterion, y = BOUND[name]
    ours = bind_checked(criterion, X, dataclasses.replace(labels_of(y), weights=TIMES.astype(float)), None)
    return ours, bind_checked(criterion, X[AGAIN], labels_of(taken(y, AGAIN)), None)


@pytest.mark.parametrize("name", BOUND)
def test_weights_count_like_repeated_samples(name):
    ours, theirs = both(name)
    (A, B), (repeated_A, repeated_B) = ours.matrices(Rows(X)), theirs.matrices(Rows(X[AGAIN]))
    np.testing.assert_allclose(B, repeated_B, atol=1e-12)
    squared = TIMES.mean() if name == "mvr, targets" else 1.0  # ΦᵀTTᵀΦ grows with the square of the samples
    np.testing.assert_allclose(A * squared, repeated_A, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in BOUND if name not in ("mvr, targets", "pca")])
def test_pairs_are_balanced_by_weighted_means(name):
    U = np.eye(6)[:, :2]
    ours, theirs = both(name)
    ours, theirs = ours.balanced(ours.value(Rows(X), U)), theirs.balanced(theirs.value(Rows(X[AGAIN]), U))
    np.testing.assert_allclose(ours.above.form(X) / 40, theirs.above.form(X[AGAIN]) / len(AGAIN), atol=1e-12)


@pytest.mark.parametrize("name", [name for name in BOUND if name != "pca"])
def test_whitened_embedding_is_that_of_repeated_samples(name):
    ours, theirs = both(name)
    W, V = whitened(ours, Rows(X), 0.1, 2), whitened(theirs, Rows(X[AGAIN]), 0.1, 2)
    np.testing.assert_allclose(W, V, atol=1e-10)
    centres = Embedding.of(W, Rows(X), TIMES.astype(float)).centre, Embedding.of(W, Rows(X[AGAIN])).centre
    np.testing.assert_allclose(*centres, atol=1e-12)


@pytest.mark.parametrize("name", BOUND)
def test_classical_methods_with_weights_are_those_of_repeated_samples(name):
    criterion, y = BOUND[name]
    ours = TraceQuotient(criterion).fit(X, y, sample_weight=TIMES)
    theirs, plain = (TraceQuotient(criterion).fit(X[rows], taken(y, rows)) for rows in (AGAIN, np.arange(40)))
    np.testing.assert_allclose(ours.transform(X), theirs.transform(X), atol=1e-9)
    assert subspace_angles(ours.projection_, plain.projection_).max() > 0.01
    if name == "mvr, targets":
        np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-9)
    np.testing.assert_array_equal(TraceQuotient(criterion).fit(X, y, 3 * np.ones(40)).projection_, plain.projection_)


@pytest.mark.parametrize("name", ["lda", "mvr", "mvr, targets", "pca"])
@pytest.mark.parametrize("method", ["eliminate", "joint"])
def test_joint_learning_with_weights_is_that_of_repeated_samples(name, method):
    """Both start from the same atoms; steps, atoms and embedding agree."""
    criterion, y = BOUND[name]
    options = {
        "dictionary": cases.unit(np.random.default_rng(1).normal(size=(9, 6))),
        "prior": ElasticNet(0.05, 0.1),
        "max_iter": 4,
    }
    options |= {"embedding": "orthonormal", "early_stopping": False, "solver": Solver(method)}
    ours = SparLow(criterion, 2, **options).fit(X, y, sample_weight=TIMES / 7)
    theirs, plain = (SparLow(criterion, 2, **options).fit(X[rows], taken(y, rows)) for rows in (AGAIN, np.arange(40)))
    np.testing.assert_allclose(ours.dictionary_, theirs.dictionary_, atol=1e-5)
    np.testing.assert_allclose(ours.transform(X), theirs.transform(X), atol=1e-5)
    np.testing.assert_allclose(ours.inverse_transform(np.eye(2)), theirs.inverse_transform(np.eye(2)), atol=1e-4)
    assert np.abs(ours.dictionary_ - plain.dictionary_).max() > 1e-3


def test_samples_beside_their_codes_deviate_by_their_weights():
    options = {"dictionary": cases.unit(np.random.default_rng(1).normal(size=(9, 6))), "prior": ElasticNet(0.05, 0.1)}
    ours = SparLow("pca", 2, max_iter=2, **options).fit(X, sample_weight=TIMES / 7)
    theirs, plain = (SparLow("pca", 2, max_iter=2, **options).fit(X[rows]) for rows in (AGAIN, np.arange(40)))
    assert ours.weights_ == pytest.approx(theirs.weights_, rel=1e-9)
    assert ours.weights_ != pytest.approx(plain.weights_, rel=1e-4)
    np.testing.assert_allclose(ours.transform(X), theirs.transform(X), atol=1e-5)


def test_weights_reach_a_model_of_defaults_and_its_pipeline():
    heavy = np.where(digits.Y < 5, 10.0, 1.0)
    plain, weighted = digits.small(max_iter=0), digits.small(max_iter=0)
    plain.fit(digits.X, digits.Y)
    weighted.fit(digits.X, digits.Y, sample_weight=heavy)
    assert not np.array_equal(plain.embedding_, weighted.embedding_)
    assert weighted._training.weights is None  # files do not grow by them
    chain = make_pipeline(StandardScaler(with_std=False), TraceQuotient("lda"))
    other = make_pipeline(StandardScaler(with_std=False), TraceQuotient("lda"))
    chain.fit(digits.X, digits.Y, tracequotient__sample_weight=heavy)
    assert not np.allclose(chain[-1].projection_, other.fit(digits.X, digits.Y)[-1].projection_)


@pytest.mark.parametrize("name", [name for name in cases.CRITERIA if not cases.CRITERIA[name].weighted])
@pytest.mark.parametrize("model", [digits.small, TraceQuotient])
def test_other_criteria_say_that_they_take_no_weights(name, model):
    y = digits.labels_for(name)
    with pytest.raises(ValueError, match=r"takes no sample_weight: it counts each .* lda, mvr and pca take it"):
        model(name).fit(digits.X, y, sample_weight=np.arange(150.0))


def test_weights_are_checked():
    model = digits.small(max_iter=0)
    none, nothing = np.ones(150), np.where(digits.Y == 3, 0.0, 1.0)
    none[0] = -1
    for weights, said in (
        (none, "[Nn]egative"),
        (np.zeros(150), "at least one non-zero"),
        (np.ones(7), "expected"),
        (nothing, "class 3 have the weight 0"),
        (np.full(150, np.nan), "NaN"),
    ):
        with pytest.raises(ValueError, match=said):
            model.fit(digits.X, digits.Y, sample_weight=weights)
    some = np.arange(1.0, 151.0)
    with pytest.raises(ValueError, match=r"quadratic.* is for lda without class_weight and sample_weight.*with sample"):
        digits.small(embedding="quadratic").fit(digits.X, digits.Y, sample_weight=some)
