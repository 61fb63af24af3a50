"""What each component adds: quotients against dense scatter, scores on held-out samples, and the model's own table."""

import tracemalloc

import numpy as np
import pytest

from sparlow.criteria import LDA
from sparlow.embedding import component_quotients, spectrum_of, tried_counts
from sparlow.rows import Rows
from tests.digits import X, Y, plain, small


def test_counts_are_few_and_end_with_all():
    assert tried_counts(1) == [1]
    assert tried_counts(9) == list(range(1, 10))
    many = tried_counts(300)
    assert many[:4] == [1, 2, 3, 4]
    assert many[-1] == 300
    assert len(many) <= 16


def test_quotients_are_those_of_the_components():
    model = plain(max_iter=0, early_stopping=False).fit(X, Y)
    Z, overall = model.embedding_, model.embedding_.mean(axis=0)
    between, within = np.zeros(Z.shape[1]), np.zeros(Z.shape[1])
    for label in np.unique(Y):
        own = Z[label == Y]
        between += len(own) * (own.mean(axis=0) - overall) ** 2
        within += ((own - own.mean(axis=0)) ** 2).sum(axis=0)
    np.testing.assert_allclose(model.spectrum_["quotient"], between / within, rtol=1e-6)
    assert np.isnan(model.spectrum_["held_out"]).all()


def test_quotients_of_pca_are_shares_of_variance():
    model = small("pca", 5, max_iter=0, embedding="orthonormal").fit(X)
    codes = model.encode(X).toarray()
    shares = model.embedding_.var(axis=0) / codes.var(axis=0).sum()
    np.testing.assert_allclose(model.spectrum_["quotient"], shares, rtol=1e-6)
    assert (np.diff(shares) < 0).all()


def test_quotients_take_little_memory_beside_a_wide_embedding():
    rng = np.random.RandomState(0)
    y, wide = rng.randint(5, size=4000), rng.standard_normal((4000, 48))
    quotient = LDA().bind(wide, y)
    tracemalloc.start()
    component_quotients(quotient, Rows(wide), wide)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < wide.nbytes / 2


def test_held_out_score_rises_with_the_components_and_ends_at_that_of_the_model():
    model = small("lda", 9, early_stopping=True).fit(X, Y)
    held = model.spectrum_["held_out"]
    assert len(held) == model.n_components_ == 9
    assert held[-1] > held[0] + 0.2
    assert held[-1] == pytest.approx(model.history_["held_out"][model.best_iter_])


def test_numbers_of_components_that_were_not_tried_are_nan():
    found = spectrum_of(np.arange(3.0), {1: np.array([1.0, 0.0]), 3: np.array([1.0, 1.0]), 4: np.ones(2)})
    assert found["held_out"].tolist()[::2] == [0.5, 1.0]
    assert np.isnan(found["held_out"][1])
    assert found["error"][0] == pytest.approx(0.5 / np.sqrt(2))


def test_html_of_a_fitted_model_shows_its_numbers():
    model = small("lda", 9, max_iter=0)
    assert "sparlow-numbers" not in model._repr_html_()
    said = model.fit(X, Y)._repr_mimebundle_()["text/html"]
    for text in ("150 of 64 numbers", "<th>atoms</th><td>30</td>", "<th>components</th><td>9</td>", "ElasticNet("):
        assert text in said


def test_html_of_a_stream_shows_its_numbers_too():
    said = small().partial_fit(X, Y)._repr_html_()
    assert "<th>components</th><td>9</td>" in said
    assert "<th>held-out score</th><td>no part held out</td>" in said


def test_classes_of_equal_samples_have_a_large_but_finite_quotient():
    rows = np.repeat(np.eye(3), 4, axis=0)
    found = component_quotients(LDA().bind(rows, np.repeat([0, 1, 2], 4)), Rows(rows), rows[:, :2])
    assert np.all((found > 1e12) & np.isfinite(found))
