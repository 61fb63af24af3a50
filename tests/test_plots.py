"""Pictures show what they are given."""

import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from sparlow import SparLow, plots
from sparlow.views import Patches


@pytest.mark.interpreted
def test_images_show_each_vector_upright():
    ax = plots.images(np.array([[0, 1, 2, 3, 4, 5.0]] * 3), (2, 3), columns=2)
    sheet = ax.images[0].get_array()
    np.testing.assert_allclose(sheet[1:3, 1:4], np.arange(6).reshape(2, 3) / 5)
    np.testing.assert_allclose(sheet[4:6, 1:4], np.arange(6).reshape(2, 3) / 5)
    assert np.all(np.isnan(sheet.filled(np.nan)[4:6, 5:8]))
    signed = plots.images(np.array([[-2.0, 1.0]]), (1, 2), columns=1, signed=True)
    np.testing.assert_allclose(signed.images[0].get_array()[1, 1:3], [-1, 0.5])
    with pytest.raises(ValueError, match="vectors must have shape"):
        plots.images(np.zeros((2, 5)), (2, 3))
    for shape in (6, (2, 3, 2), (6,)):
        with pytest.raises(ValueError, match=r"shape must be \(height, width\)"):
            plots.images(np.zeros((2, 6)), shape)


def test_colours_are_drawn_as_such():
    picture = np.arange(18.0).reshape(1, 2, 3, 3)
    for ax in (plots.images(picture, columns=1), plots.images(picture.reshape(1, 18), (2, 3, 3), columns=1)):
        np.testing.assert_allclose(ax.images[0].get_array()[1:3, 1:4], picture[0] / 17)
    signed = plots.images(picture, columns=1, signed=True).images[0].get_array()
    np.testing.assert_allclose(signed[1:3, 1:4], picture[0].mean(axis=2) / 16)
    rng = np.random.default_rng(0)
    rows, y = rng.random((60, 8 * 10 * 3)), np.arange(60) % 2
    rows[y == 1, ::3] += 1
    model = SparLow("lda", n_atoms=8, views=Patches(shape=(8, 10, 3)), random_state=0).fit(rows, y)
    sheet = plots.local_atoms(model).images[0].get_array()
    assert sheet.shape[2] == 3
    for axes in (plots.local_factors(model, rows, n_atoms=2)[0], plots.local_explanation(model, rows[0], n_atoms=2)):
        drawn = axes[-1].images[0].get_array()
        assert drawn.shape[2] == 3
        assert drawn.min() == 0
        assert drawn.max() == 1


@pytest.mark.interpreted
def test_explanation_shows_the_largest_codes_first():
    code = np.array([0.1, 0.0, -0.7])
    axes = plots.explanation(np.zeros(4), np.eye(4)[:3], code, (2, 2), n_atoms=3)
    assert [ax.get_title() for ax in axes] == ["image", "from 2 atoms", "-0.70", "+0.10", ""]
    np.testing.assert_allclose(axes[1].images[0].get_array(), [[0.1, 0], [-0.7, 0]])


def test_missing_matplotlib_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"sparlow\[plots\]"):
        plots.images(np.zeros((1, 4)), (2, 2))


def drawn(ax):
    """Label -> coordinates of each group of points."""
    return {str(c.get_label()): np.column_stack(getattr(c, "_offsets3d", c.get_offsets().T)) for c in ax.collections}


@pytest.mark.interpreted
@pytest.mark.parametrize("width", [2, 3])
def test_embedding_groups_points_by_class(width):
    Z = np.random.default_rng(0).standard_normal((9, width))
    y = np.array([3, 1, -1] * 3)
    ax = plots.embedding(Z, y, names=["one", "three"])
    groups = drawn(ax)
    assert list(groups) == ["unlabelled", "one", "three"]
    for label, name in [(-1, "unlabelled"), (1, "one"), (3, "three")]:
        np.testing.assert_allclose(groups[name], Z[y == label])
    legend = ax.get_legend() or ax.figure.legends[0]  # beside axes of three dimensions there would be no room
    assert [text.get_text() for text in legend.get_texts()] == ["unlabelled", "one", "three"]
    assert plots.embedding(Z, ax=ax) is ax


@pytest.mark.interpreted
def test_embedding_tells_seventy_classes_apart():
    y = np.arange(70)
    ax = plots.embedding(np.column_stack([y, y]), y)
    looks = {(tuple(c.get_facecolor()[0]), len(c.get_paths()[0].vertices), c.get_paths()[0].vertices.tobytes())
             for c in ax.collections}  # fmt: skip
    assert len(looks) == 70
    assert ax.get_legend() is None
    assert [text.get_text() for text in ax.texts] == [str(label) for label in y]
    assert len(plots.embedding(np.column_stack([y, y]), y, legend=True).get_legend().get_texts()) == 70


@pytest.mark.interpreted
def test_embedding_refuses_what_it_cannot_draw():
    with pytest.raises(ValueError, match="choose columns"):
        plots.embedding(np.zeros((3, 4)))
    with pytest.raises(ValueError, match="one label for each of the 3 samples"):
        plots.embedding(np.zeros((3, 2)), [0, 1])
    with pytest.raises(ValueError, match="1 names for 2 classes"):
        plots.embedding(np.zeros((2, 2)), ["a", "b"], names=["a"])
    with pytest.raises(ValueError, match="projection='3d'"):
        plots.embedding(np.zeros((2, 3)), ax=plt.figure().add_subplot())


def history(held_out):
    return {"step_number": np.arange(4), "quotient": np.array([1.0, 2, 3, 4]), "held_out": np.array(held_out)}


@pytest.mark.interpreted
def test_curves_mark_the_best_held_out_step():
    axes = plots.curves(history([0.7, 0.9, 0.9, 0.8]))
    np.testing.assert_allclose(axes[0].lines[0].get_xydata(), [[0, 1], [1, 2], [2, 3], [3, 4]])
    np.testing.assert_allclose(axes[1].lines[0].get_ydata(), [0.7, 0.9, 0.9, 0.8])
    np.testing.assert_allclose(axes[1].lines[1].get_xydata(), [[1, 0.9]])
    assert axes[1].get_legend().get_texts()[0].get_text() == "best: step 1"
    assert axes[0].get_legend() is None
    again = plots.curves(history([0.1, 0.2, 0.3, 0.4]), label="other", ax=axes)
    assert again == axes
    assert len(axes[1].lines) == 4
    assert axes[0].get_legend().get_texts()[0].get_text() == "other"


@pytest.mark.interpreted
def test_curves_without_a_held_out_part_have_one_panel():
    assert len(plots.curves(history([np.nan] * 4))) == 1


@pytest.mark.parametrize("width", [2, 3])
def test_real_targets_have_a_scale_of_colours(width):
    Z, targets = np.random.default_rng(0).standard_normal((2, 50, width))
    y = np.where(np.arange(50) < 10, np.nan, targets[:, 0])
    ax = plots.embedding(Z, y)
    hidden, shown = ax.collections
    assert len(hidden.get_offsets()) == 10
    np.testing.assert_array_equal(shown.get_array(), y[10:])
    assert len(ax.figure.axes) == 2  # the picture and its bar
    with pytest.raises(ValueError, match="names are of classes"):
        plots.embedding(Z, y, names=["low", "high"])
    assert ax.get_legend() is None


@pytest.mark.parametrize(
    "y",
    [
        np.array([1, 2, -1, np.nan, 2]),
        np.array(["a", "b", -1, -1, "b"], object),
        ["a", "b", None, float("nan"), "b"],
        pd.Series(["a", "b", None, None, "b"], dtype="string"),
        pd.Series([1, 2, None, -1, 2], dtype="Int64"),
    ],
)
def test_gaps_among_classes_are_unlabelled(y):
    groups = drawn(plots.embedding(np.arange(10.0).reshape(5, 2), y))
    assert [len(points) for points in groups.values()] == [2, 1, 2]
    assert next(iter(groups)) == "unlabelled"


@pytest.mark.parametrize("width", [2, 3])
def test_legend_lies_within_the_figure(width):
    Z = np.random.default_rng(0).standard_normal((60, width))
    ax = plots.embedding(Z, np.array([f"a long name {c % 3}" for c in range(60)]))
    ax.figure.canvas.draw()
    legend = ax.get_legend() or ax.figure.legends[0]
    place = legend.get_window_extent()
    assert place.x1 <= ax.figure.bbox.x1 + 1
    assert place.x0 >= ax.get_window_extent().x1 - 1


def test_stacks_are_images_and_one_image_is_explained():
    stack = np.random.default_rng(0).random((4, 3, 5))
    np.testing.assert_array_equal(
        plots.images(stack, [3, 5]).images[0].get_array(),
        plots.images(stack.reshape(4, 15), (3, 5)).images[0].get_array(),
    )
    with pytest.raises(ValueError, match="height and width"):
        plots.images(stack.reshape(4, 15))
    with pytest.raises(ValueError, match=r"of one image, of 15 pixels, and its 4 codes, got 30 and 8"):
        plots.explanation(stack[:2].reshape(2, 15), stack.reshape(4, 15), np.ones((2, 4)), (3, 5))


def test_spectrum_marks_where_the_held_out_score_is_flat():
    found = {"n_components": [1, 2, 3, 4], "quotient": [9.0, 5.0, 1.0, 0.9], "held_out": [0.5, 0.9, np.nan, 0.91],
             "error": [0.05, 0.02, np.nan, 0.02]}  # fmt: skip
    quotient, score = plots.spectrum(found)
    assert quotient.lines[0].get_ydata().tolist() == found["quotient"]
    assert score.lines[0].get_xdata().tolist() == [1, 2, 4]
    assert score.lines[1].get_xdata()[0] == 2
    assert score.get_legend().get_texts()[0].get_text() == "flat from 2 on"
    assert len(plots.spectrum({**found, "held_out": [np.nan] * 4})) == 1
