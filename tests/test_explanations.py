"""What a local model looks at: exact parts, patterns that add up, and pictures of both."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from sparlow import SparLow, plots
from sparlow.explanations import Layout, contributions, explain, factors
from sparlow.views import Patches

X, Y = load_digits(n_class=4, return_X_y=True)
X, Y = X[:160], Y[:160]


@pytest.fixture(scope="module", params=["whitened", "quadratic"])
def model(request):
    return SparLow("lda", n_atoms=10, views=Patches(), embedding=request.param, random_state=0).fit(X, Y)


def test_parts_add_up_to_what_tells_two_classes_apart(model):
    """Up to a constant and the scale of each sample, they sum to y·v."""
    features = model.encode(X[:5]).toarray()
    y, Z = model._training.y, model.embedding_.astype(float)
    v = Z[y == 1].mean(axis=0) - Z[y == 3].mean(axis=0)
    parts = contributions(model, features, np.tile([1, 3], (5, 1)))
    np.testing.assert_allclose(np.abs(parts).sum(axis=1), 1)
    W = model.projection_.astype(float)
    raw = features * (v @ W.T if model.forms_ is None else (features @ W @ np.tensordot(v, model.forms_, 1)) @ W.T)
    np.testing.assert_allclose(parts, raw / np.abs(raw).sum(axis=1, keepdims=True), atol=1e-12)
    np.testing.assert_allclose(raw.sum(axis=1) - v @ model._centre, model.transform(X[:5]) @ v, rtol=1e-4, atol=1e-4)


def test_an_explanation_names_atoms_and_places(model):
    found = explain(model, X[0])
    assert found.label == Y[0]
    assert found.map.shape == found.layout.places == (8, 8)
    (atom, sign, cell, value), *_ = found.largest(3)
    assert abs(value) == np.abs(found.parts).max()
    assert found.parts[cell, 0 if sign > 0 else 1, atom] == value
    np.testing.assert_allclose(explain(model, X[0], 2, 1).parts, -explain(model, X[0], 1, 2).parts, atol=1e-12)
    centres = found.layout.centres()
    assert np.all(np.diff(centres[:4, 1]) > 0)
    np.testing.assert_allclose(centres.mean(axis=0), 3.5, atol=1e-9)
    for wrong, said in (((9, 1), "9 is not a class"), ((1, 1), "the same class")):
        with pytest.raises(ValueError, match=said):
            explain(model, X[0], *wrong)


def test_factors_say_what_a_component_adds_and_where(model):
    found = factors(model, X)
    assert found.patterns.shape == (3, 16, 2, 10)
    codes, Z = model.encode(X).toarray(), model.transform(X)
    expected = np.corrcoef(Z[:, 1], codes[:, 7])[0, 1] * codes[:, 7].std()
    np.testing.assert_allclose(found.patterns.reshape(3, -1)[1, 7], expected, atol=1e-9)
    assert found.maps.shape == (3, 8, 8)
    assert found.pictures().shape == (3, 12, 12)
    # the tile of a cell is the sum of its atoms
    amounts = found.patterns[0, 5, 0] - found.patterns[0, 5, 1]
    np.testing.assert_allclose(found.pictures()[0, 3:6, 3:6].ravel(), amounts @ model.dictionary_, atol=1e-9)


def test_pictures_of_local_models(model):
    assert plots.local_atoms(model).images
    axes = plots.local_factors(model, X, n_components=2, n_atoms=3)
    assert axes.shape == (2, 5)
    assert all(ax.images for ax in axes.ravel())
    row = plots.local_explanation(model, X[0], n_atoms=4)
    assert len(row) == 6
    assert len(row[0].patches) == 4
    assert row[0].get_title().startswith(f"{Y[0]}: ")


def test_colour_and_pyramids_have_a_layout_too():
    colour = np.random.default_rng(0).random((30, 10, 12, 3))
    views = Patches(size=3, cells=(1, 2), shape=(10, 12, 3))
    model = SparLow("lda", n_atoms=5, views=views, random_state=0).fit(colour.reshape(30, -1), np.arange(30) % 2)
    layout = Layout.of(model)
    assert layout.patch == (3, 3, 3)
    assert layout.centres().shape == layout.cell_size().shape == (5, 2)
    assert factors(model, colour.reshape(30, -1)).pictures().shape == (1, 6, 6)
    plots.local_explanation(model, colour[0].ravel(), n_atoms=2)
    whole = SparLow("lda", n_atoms=5, max_iter=0, random_state=0).fit(X[:40], Y[:40])
    with pytest.raises(ValueError, match="Only local models look at places"):
        factors(whole, X)
