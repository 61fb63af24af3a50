"""The classical estimator: PCA, LDA and the best quotient, by other means."""

import numpy as np
import pytest
from scipy.linalg import subspace_angles
from sklearn import decomposition
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from sparlow import TraceQuotient, trace_ratio
from sparlow.criteria import LDA
from tests import cases
from tests.digits import X_NEW, X, Y, labels_for
from tests.test_graphs import scatters


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
    model = TraceQuotient(LDA(shrinkage=0), 4).fit(white, Y)
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
    model = TraceQuotient(LDA(shrinkage=shrinkage), 3).fit(samples, Y)
    assert model.quotient_ == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(model.projection_, U, atol=1e-6)
