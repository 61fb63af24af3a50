"""Methods that only the paper's experiments use, against their definitions."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import eigh
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA, KernelPCA, SparsePCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.preprocessing import normalize

from evidence.adapted import GaussianKernelPCA, LabelledLDA, ReducedNCA, ScaledSparsePCA
from evidence.eigenmaps import LaplacianEigenmaps
from sparlow import graphs

X, Y = load_digits(return_X_y=True)
X = normalize(X)


def test_eigenmaps_solve_the_generalised_eigenproblem_and_extend_it():
    samples = X[:150]
    model = LaplacianEigenmaps(4, k=8).fit(samples)
    W = graphs.affinities(samples, 8).toarray()
    V = np.diag(W.sum(axis=1))
    values, vectors = eigh(V - W, V)
    np.testing.assert_allclose(1 - model.eigenvalues_, values[1:5], atol=1e-8)
    for ours, theirs in zip(model.embedding_.T, vectors[:, 1:5].T, strict=True):
        assert abs(np.corrcoef(ours, theirs)[0, 1]) > 1 - 1e-8
    # what the extension averages at a training sample is what its own row of the graph averages
    distances, indices = graphs.neighbours(samples, 8, X[200:203])
    weights = np.exp(-(distances**2) / model._bandwidth)
    mean = (weights[:, :, None] * model.embedding_[indices]).sum(axis=1) / weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.transform(X[200:203]), mean / model.eigenvalues_, rtol=1e-10)
    assert np.array_equal(model.fit_transform(samples), model.embedding_)
    assert model.get_feature_names_out().tolist() == [f"laplacianeigenmaps{j}" for j in range(4)]


def test_lda_of_labelled_samples_leaves_the_others_out():
    samples, y = X[:120], np.where(np.arange(120) < 80, Y[:120], -1)
    ours = LabelledLDA(solver="eigen", shrinkage=0.1).fit(samples, y)
    theirs = LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.1).fit(samples[:80], y[:80])
    np.testing.assert_allclose(ours.transform(X[200:210]), theirs.transform(X[200:210]))


def test_parameters_on_the_scale_of_the_samples():
    samples = X[:60]
    squares = np.sum((samples[:, None] - samples) ** 2, axis=-1)
    kernel = GaussianKernelPCA(5, width=2.0).fit(samples)
    reference = KernelPCA(5, kernel="rbf", gamma=1 / (2.0 * squares.mean())).fit(samples)
    np.testing.assert_allclose(np.abs(kernel.transform(X[90:95])), np.abs(reference.transform(X[90:95])), atol=1e-8)
    sparse = ScaledSparsePCA(3, sparsity=0.05).fit(samples)
    reference = SparsePCA(3, alpha=0.05 * np.sqrt(60), method="cd", max_iter=20, random_state=0).fit(samples)
    np.testing.assert_allclose(sparse.components_, reference.components_)
    assert 0 < np.count_nonzero(sparse.components_) < sparse.components_.size


def test_nca_is_that_of_scikit_learn_on_scaled_principal_components():
    ours = ReducedNCA(9, init="lda", max_iter=10, random_state=0).fit(X[:300], Y[:300])
    reduce = PCA(50, random_state=0).fit(X[:300])
    theirs = NeighborhoodComponentsAnalysis(9, init="lda", max_iter=10, random_state=0)
    theirs.fit(10 * reduce.transform(X[:300]), Y[:300])
    expected = theirs.transform(10 * reduce.transform(X[300:310]))
    np.testing.assert_allclose(ours.transform(X[300:310]), expected)


ADAPTED = [LabelledLDA(), ReducedNCA(2), GaussianKernelPCA(2), ScaledSparsePCA(2), LaplacianEigenmaps(2)]


@pytest.mark.parametrize("model", ADAPTED, ids=lambda model: type(model).__name__)
def test_input_that_says_nothing_is_refused_in_plain_words(model):
    y = Y[:30]
    for samples in (np.full((30, 6), 0.1), np.ones((30, 6))):
        with pytest.raises(ValueError, match="All 30 samples are the same"):
            model.fit(samples, y)
    with pytest.raises(ValueError, match="1D array"):
        model.fit(X[0], y)
    with pytest.raises(TypeError, match="Sparse data"):
        model.fit(sp.csr_array(X[:30]), y)


@pytest.mark.parametrize("model", ADAPTED[:2], ids=lambda model: type(model).__name__)
def test_labels_that_do_not_fit_are_refused_in_plain_words(model):
    with pytest.raises(ValueError, match="inconsistent numbers"):
        model.fit(X[:30], Y[:20])
