"""Vectors of pretrained networks: a network of a few weights, made here, against what its layers compute by hand."""

import builtins
import io
import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import sparlow
from sparlow import SparLow
from sparlow.images import Network, UnreadableImageError, network
from sparlow.images.network import before_last, wire_fields, with_output
from tests.test_cli import run

SIDE, WIDTH, CLASSES = 8, 6, 4


def write_network(
    path, *, side=SIDE, batch="n", last=True, channels=3, kind=TensorProto.FLOAT, metadata=None, matmul=False
):
    """Write a network: the mean colour of a picture, times a matrix, ReLU, a second layer."""
    rng = np.random.default_rng(0)
    first = rng.normal(size=(channels, WIDTH)).astype(np.float32)
    second = rng.normal(size=(WIDTH, CLASSES)).astype(np.float32)
    nodes = [
        helper.make_node("Cast", ["pictures"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("GlobalAveragePool", ["floats"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("MatMul", ["flat", "first"], ["hidden"]),
        helper.make_node("Relu", ["hidden"], ["vector"]),
    ]
    out = "vector"
    if last:
        nodes += [helper.make_node("MatMul" if matmul else "Gemm", ["vector", "second"], ["scores"])]
        nodes += [helper.make_node("Softmax", ["scores"], ["shares"])]
        out = "shares"
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("pictures", kind, [batch, channels, side, side])],
        [helper.make_tensor_value_info(out, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(first, "first"), numpy_helper.from_array(second, "second")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    helper.set_model_props(model, metadata or {})
    onnx.save(model, path)
    return first


def by_hand(pixels, first, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)):
    """Return the vectors of pictures of the network's own size."""
    values = (pixels / 255 - np.array(mean)) / np.array(std)
    return np.maximum(values.mean(axis=(1, 2)) @ first, 0)


@pytest.fixture
def pixels():
    return np.random.default_rng(1).integers(0, 256, (5, SIDE, SIDE, 3)).astype(np.uint8)


def whole(path, **options):
    return Network(path, crop=1.0, **options).fit()


@pytest.mark.parametrize("matmul", [False, True])
@pytest.mark.parametrize("batch", ["n", 1, 3])
def test_vectors_are_the_input_of_the_last_layer(tmp_path, pixels, batch, matmul):
    first = write_network(tmp_path / "tiny.onnx", batch=batch, matmul=matmul)
    found = whole(tmp_path / "tiny.onnx", batch_size=2)
    assert found.output_ == "vector"
    rows = found.transform(pixels)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, by_hand(pixels, first), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(rows, found.set_params(n_jobs=2).transform(pixels))
    assert list(found.get_feature_names_out()) == [f"network{place}" for place in range(WIDTH)]


def test_files_arrays_and_pictures_give_the_same_and_grey_has_three_equal_channels(tmp_path, pixels):
    write_network(tmp_path / "tiny.onnx")
    found = whole(tmp_path / "tiny.onnx")
    picture = Image.fromarray(pixels[0])
    picture.save(tmp_path / "one.png")
    file = io.BytesIO()
    picture.save(file, "png")
    floats = pixels[0] / 255.0
    rows = found.transform(
        [tmp_path / "one.png", str(tmp_path / "one.png"), file.getvalue(), picture, pixels[0], floats]
    )
    np.testing.assert_array_equal(rows, np.repeat(rows[:1], 6, axis=0))
    grey = pixels[0, :, :, 0]
    np.testing.assert_array_equal(*found.transform([grey, np.repeat(grey[:, :, None], 3, 2)]))
    wide = grey.astype(np.uint16) * 257
    Image.fromarray(wide).save(tmp_path / "wide.png")
    np.testing.assert_array_equal(*found.transform([grey, tmp_path / "wide.png"]))


def test_pictures_are_upright_scaled_and_cut_to_the_middle(tmp_path):
    first = write_network(tmp_path / "tiny.onnx")
    tall = np.zeros((4 * SIDE, 2 * SIDE, 3), np.uint8)
    tall[SIDE - 4 : 3 * SIDE + 4] = 200  # the middle square, and what the filter reaches
    expected = by_hand(np.full((1, SIDE, SIDE, 3), 200), first)
    found = whole(tmp_path / "tiny.onnx").transform([tall, np.swapaxes(tall, 0, 1)])
    np.testing.assert_allclose(found, np.repeat(expected, 2, 0), rtol=1e-5, atol=1e-6)
    inner = np.zeros((4 * SIDE, 4 * SIDE, 3), np.uint8)
    inner[SIDE - 4 : 4 - SIDE, SIDE - 4 : 4 - SIDE] = 200
    found = Network(tmp_path / "tiny.onnx", crop=0.5).fit().transform([inner])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    turned = Image.fromarray(np.swapaxes(tall, 0, 1))
    turned.getexif()[0x0112] = 6
    turned.save(tmp_path / "turned.jpg", exif=turned.getexif(), quality=100)
    np.testing.assert_allclose(whole(tmp_path / "tiny.onnx").transform([tmp_path / "turned.jpg"]), expected, rtol=0.02)


def test_what_is_done_follows_parameters_then_the_description_then_imagenet(tmp_path, pixels):
    told = {"mean": json.dumps([0.1, 0.2, 0.3]), "std": json.dumps([0.5, 0.6, 0.7]), "crop": "1.0"}
    first = write_network(tmp_path / "tiny.onnx", metadata=told)
    expected = by_hand(pixels, first, (0.1, 0.2, 0.3), (0.5, 0.6, 0.7))
    np.testing.assert_allclose(Network(tmp_path / "tiny.onnx").fit_transform(pixels), expected, rtol=1e-4, atol=1e-5)
    given = Network(tmp_path / "tiny.onnx", mean=[0] * 3, std=[1] * 3).fit_transform(pixels)
    np.testing.assert_allclose(given, by_hand(pixels, first, (0,) * 3, (1,) * 3), rtol=1e-4, atol=1e-5)
    told = {"Image.NominalPixelRange": "Normalized_1_1", "Image.BitmapPixelFormat": "Bgr8", "size": "12"}
    first = write_network(tmp_path / "tiny.onnx", metadata=told, side="s")
    found = whole(tmp_path / "tiny.onnx")
    assert found._blank().shape == (1, 12, 12, 3)
    expected = by_hand(pixels[..., ::-1], first, (0.5,) * 3, (0.5,) * 3)
    np.testing.assert_allclose(found.set_params(size=SIDE).transform(pixels), expected, rtol=1e-4, atol=1e-5)


def test_networks_of_bytes_and_of_one_channel(tmp_path, pixels):
    first = write_network(tmp_path / "bytes.onnx", kind=TensorProto.UINT8)
    expected = by_hand(pixels, first, (0,) * 3, (1 / 255,) * 3)
    np.testing.assert_allclose(whole(tmp_path / "bytes.onnx").transform(pixels), expected, rtol=1e-4)
    first = write_network(tmp_path / "grey.onnx", channels=1)
    found = whole(tmp_path / "grey.onnx", mean=0.5, std=0.5).transform(pixels[..., 0])
    np.testing.assert_allclose(found, by_hand(pixels[..., :1], first, (0.5,), (0.5,)), rtol=1e-4, atol=1e-5)


def test_another_output_can_be_named(tmp_path, pixels):
    first = write_network(tmp_path / "tiny.onnx")
    values = (pixels / 255 - np.array([0.485, 0.456, 0.406])) / np.array([0.229, 0.224, 0.225])
    found = whole(tmp_path / "tiny.onnx", output="hidden").transform(pixels)
    np.testing.assert_allclose(found, values.mean(axis=(1, 2)) @ first, rtol=1e-4, atol=1e-5)
    assert whole(tmp_path / "tiny.onnx", output="shares").n_features_out_ == CLASSES
    with pytest.raises(ValueError, match=r"nothing in it is called 'nowhere'; its own outputs are shares"):
        whole(tmp_path / "tiny.onnx", output="nowhere")
    with pytest.raises(ValueError, match="no vector for each: name another"):
        whole(tmp_path / "tiny.onnx", output="floats")


def test_the_edit_of_the_file_is_what_the_onnx_package_writes(tmp_path):
    write_network(tmp_path / "tiny.onnx")
    content = (tmp_path / "tiny.onnx").read_bytes()
    model = onnx.load_from_string(with_output(content, "vector"))
    assert [place.name for place in model.graph.output] == ["shares", "vector"]
    assert len(model.graph.node) == 7
    assert before_last(content) == "vector"
    assert {number for number, _ in wire_fields(memoryview(content))} >= {1, 7, 8}


def test_networks_that_do_not_fit_are_refused_with_what_they_are(tmp_path):
    path = tmp_path / "tiny.onnx"
    with pytest.raises(FileNotFoundError, match="There is no network"):
        Network(path).fit()
    for content in (b"", b"no network", b"\x3a\xff\xff\xff"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"The network .*tiny.onnx cannot be used: "):
            Network(path).fit()
    write_network(path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match=r"cannot be used: "):
        Network(path).fit()
    write_network(path, kind=TensorProto.INT64)
    with pytest.raises(ValueError, match=r"it takes pictures: tensor\(int64\) .* one input of pictures was expected"):
        Network(path).fit()
    write_network(path, channels=5)
    with pytest.raises(ValueError, match="one input of pictures was expected"):
        Network(path).fit()
    write_network(path)
    with pytest.raises(ValueError, match="it takes pictures of 8 × 8 pixels, not of 9 × 9"):
        Network(path, size=9).fit()
    with pytest.raises(ValueError, match="std must be positive"):
        Network(path, std=[1, 0, 1]).fit()


def test_weights_in_other_files_and_large_files_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "tiny.onnx"
    write_network(path)
    model = onnx.load(path)
    onnx.save(model, tmp_path / "apart.onnx", save_as_external_data=True, location="weights", size_threshold=0)
    with pytest.raises(ValueError, match="its weights lie in other files"):
        Network(tmp_path / "apart.onnx").fit()
    monkeypatch.setenv("SPARLOW_MAX_BYTES", "100")
    with pytest.raises(ValueError, match="more than the limit of 100"):
        Network(path).fit()


def test_a_network_without_a_last_layer_names_its_output(tmp_path, pixels):
    write_network(tmp_path / "tiny.onnx", last=False)
    assert whole(tmp_path / "tiny.onnx").output_ == "flat"  # MatMul by constants is a layer of weights
    assert whole(tmp_path / "tiny.onnx", output="vector").n_features_out_ == WIDTH
    model = onnx.load(tmp_path / "tiny.onnx")
    del model.graph.node[3:]
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("flat", TensorProto.FLOAT, None))
    onnx.save(model, tmp_path / "bare.onnx")
    with pytest.raises(ValueError, match=r"no last layer of weights .* such as .flat."):
        Network(tmp_path / "bare.onnx").fit()


def test_pictures_that_cannot_be_read_are_named_or_skipped(tmp_path, pixels):
    write_network(tmp_path / "tiny.onnx")
    (tmp_path / "broken.png").write_bytes(b"none")
    X = [pixels[0], tmp_path / "broken.png", pixels[1]]
    with pytest.raises(UnreadableImageError, match=r"broken\.png"):
        whole(tmp_path / "tiny.onnx").transform(X)
    found = whole(tmp_path / "tiny.onnx", on_error="skip")
    with pytest.warns(UserWarning, match=r"1 of 3 images could not be read"):
        rows = found.transform(X)
    assert not rows[1].any()
    assert [entry[0] for entry in found.skipped_] == [1]
    np.testing.assert_array_equal(rows[[0, 2]], found.transform([pixels[0], pixels[1]]))
    assert found.transform([]).shape == (0, WIDTH)


def test_vectors_are_kept_by_content_and_damaged_entries_computed_again(tmp_path, pixels, monkeypatch):
    write_network(tmp_path / "tiny.onnx")
    found = whole(tmp_path / "tiny.onnx", memory=tmp_path / "cache")
    rows = found.transform(pixels)
    files = sorted((tmp_path / "cache").rglob("*.npz"))
    assert len(files) == len(pixels)
    calls = []
    run = network.Loaded.__call__
    monkeypatch.setattr(network.Loaded, "__call__", lambda self, batch: calls.append(len(batch)) or run(self, batch))
    np.testing.assert_array_equal(found.transform(pixels), rows)
    assert calls == []
    files[0].write_bytes(files[0].read_bytes()[:-1] + b"x")
    np.testing.assert_array_equal(found.transform(pixels), rows)
    assert calls == [1]
    found.set_params(mean=0.5).transform(pixels)  # other numbers have other names
    assert calls == [1, 5]


def test_a_pipeline_is_saved_with_its_network(tmp_path, pixels):
    write_network(tmp_path / "tiny.onnx")
    y = np.array([0, 1, 0, 1, 0])
    model = make_pipeline(Network(tmp_path / "tiny.onnx"), SparLow("lda", max_iter=0, random_state=0)).fit(pixels, y)
    sparlow.save(model, tmp_path / "model.sparlow")
    (tmp_path / "tiny.onnx").unlink()
    loaded = sparlow.load(tmp_path / "model.sparlow")
    np.testing.assert_array_equal(loaded.predict(pixels), model.predict(pixels))
    np.testing.assert_array_equal(loaded[0].transform(pixels), model[0].transform(pixels))
    assert clone(loaded[0]).model == str(tmp_path / "tiny.onnx")


def test_a_missing_runtime_names_the_extra(tmp_path, monkeypatch):
    write_network(tmp_path / "tiny.onnx")
    network.load_network.cache_clear()
    imports = builtins.__import__

    def without(name, *rest, **options):
        if name.startswith("onnxruntime"):
            raise ImportError(name)
        return imports(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"sparlow\[networks\]"):
        Network(tmp_path / "tiny.onnx").fit()


# ── the command ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def folder(tmp_path):
    """Pictures of two classes that differ in colour alone, of several sizes, and a network."""
    rng = np.random.default_rng(0)
    for place in range(24):
        kind = place % 2
        shape = (20 + place, 30, 3)
        pixels = rng.integers(0, 80, shape) + np.array([[150, 0, 0], [0, 0, 150]])[kind]
        (tmp_path / "old" / "rb"[kind]).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / "old" / "rb"[kind] / f"{place}.png")
    write_network(tmp_path / "tiny.onnx")
    return tmp_path


def test_the_command_learns_from_vectors_and_predicts_without_the_network(folder, capsys):
    model, network_file = folder / "m.sparlow", folder / "tiny.onnx"
    words = ("--network", network_file, "--set", "max_iter=0", "n_atoms=6")
    code, told, said = run(capsys, "fit", folder / "old", "-o", model, *words)
    assert (code, told["n_features"]) == (0, WIDTH)
    assert "left out" not in said  # colours are used
    code, told, _ = run(capsys, "evaluate", folder / "old", "--folds", 3, "--classifiers", "1NN", *words)
    assert (code, told["methods"][0]["accuracy"]["1NN"]) == (0, 1.0)
    network_file.unlink()
    code, told, _ = run(capsys, "predict", model, folder / "old")
    assert (code, told["counts"]) == (0, {"b": 12, "r": 12})
    code, _, said = run(capsys, "fit", folder / "old", "-o", model, *words)
    assert code == 1
    assert "There is no network" in said


def test_rows_of_a_network_are_kept_and_made_again_by_what_was_saved(folder, capsys):
    words = ("--network", folder / "tiny.onnx", "--save", folder / "tiny.features", "--set", "n_components=0")
    code, told, _ = run(capsys, "features", folder / "old", "-o", folder / "rows.npz", *words)
    assert (code, told["width"]) == (0, WIDTH)
    (folder / "tiny.onnx").unlink()
    words = ("--like", folder / "tiny.features")
    assert run(capsys, "features", folder / "old", "-o", folder / "again.npz", *words)[0] == 0
    first, second = (np.load(folder / name) for name in ("rows.npz", "again.npz"))
    np.testing.assert_array_equal(first["X"], second["X"])
    assert first["features"] == second["features"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--size", "8x8"], "--network takes pictures as they are"),
        (["--pictures", "patches"], "not allowed with argument"),
        (["--from", "m.sparlow"], "There is no model file"),
    ],
)
def test_options_that_a_network_excludes(folder, capsys, words, message):
    code, _, said = run(capsys, "fit", folder / "old", "-o", folder / "m", "--network", folder / "tiny.onnx", *words)
    assert code != 0
    assert message in said
