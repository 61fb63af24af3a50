"""Embeddings for other programs: what is written is read back by others' readers."""

import io

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from sparlow import SparLow, export
from sparlow.export import to_parquet, to_projector
from sparlow.views import Shifts
from tests import cases

rng = np.random.default_rng(0)
Z = rng.normal(size=(5, 3))
Y = np.array([0, 1, 0, 2, 1])
PICTURES = rng.random((5, 12))


def test_parquet_holds_vectors_labels_names_and_pictures(tmp_path):
    path = tmp_path / "map.parquet"
    to_parquet(path, Z, Y, names=list("abcde"), images=PICTURES, shape=(3, 4))
    rows = pq.read_table(path).to_pylist()
    np.testing.assert_allclose([row["vector"] for row in rows], Z, rtol=1e-6)
    np.testing.assert_allclose([(row["x"], row["y"]) for row in rows], Z[:, :2], rtol=1e-6)
    assert [row["label"] for row in rows] == ["0", "1", "0", "2", "1"]
    assert [row["image"]["path"] for row in rows] == list("abcde")
    picture = np.asarray(Image.open(io.BytesIO(rows[3]["image"]["bytes"])))
    assert picture.shape == (3, 4)
    assert (picture.argmin(), picture.argmax()) == (PICTURES[3].argmin(), PICTURES[3].argmax())
    assert (picture.min(), picture.max()) == (0, 255)


def test_parquet_of_one_component_and_nothing_else(tmp_path):
    to_parquet(tmp_path / "map.parquet", Z[:, :1])
    assert pq.read_table(tmp_path / "map.parquet").column_names == ["vector", "x", "y"]


def test_projector_files_belong_together(tmp_path):
    to_projector(tmp_path / "logs", Z, Y, names=["a", "b\tc", "d", "e", "f"], images=PICTURES.reshape(5, 3, 4))
    files = {path.name: path for path in (tmp_path / "logs").iterdir()}
    np.testing.assert_allclose(np.loadtxt(files["tensors.tsv"], delimiter="\t"), Z, rtol=1e-6)
    metadata = files["metadata.tsv"].read_text().splitlines()
    assert metadata[:3] == ["label\tname", "0\ta", "1\tb c"]
    sprite = np.asarray(Image.open(files["sprite.png"]))
    assert sprite.shape == (3 * 3, 3 * 4)  # a square of thumbnails
    assert sprite[:3, 4:8].argmax() == PICTURES[1].argmax()
    config = files["projector_config.pbtxt"].read_text()
    assert all(name in config for name in ("tensors.tsv", "metadata.tsv", "sprite.png", "[4, 3]"))


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        ((Z[0],), {}, "Z must have shape"),
        ((Z, Y[:3]), {}, "y must have one entry for each of the 5 rows"),
        ((Z,), {"images": PICTURES}, "images must be 5 rows of height × width"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, options, said, tmp_path):
    with pytest.raises(ValueError, match=said):
        to_projector(tmp_path, *arguments, **options)
    assert not list(tmp_path.iterdir())


def test_arrays_are_those_of_the_path_and_of_models_that_have_one():
    X, y, _ = cases.labelled(60, 12, 20)
    model = SparLow("lda", n_atoms=20, max_iter=0, random_state=0).fit(X, y)
    found = export.arrays(model)
    assert all(isinstance(array, np.ndarray) for array in found.values())
    np.testing.assert_array_equal(found["dictionary"], model.dictionary_)
    features = np.hstack([model.encode(X).toarray() * found["weights"][0], cases.unit(X) * found["weights"][1]])
    kept = np.repeat(found["weights"] > 0, (20, 12))
    np.testing.assert_allclose(features[:, kept] @ found["projection"] - found["centre"], model.transform(X), atol=1e-9)
    with pytest.raises(ValueError, match="without views"):
        export.arrays(SparLow("lda", n_atoms=20, max_iter=0, views=Shifts(1, (3, 4))).fit(X, y))
