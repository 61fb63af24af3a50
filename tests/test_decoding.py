"""One decoder for the command line and the library: every mode that Pillow writes, against formulas of our own."""

import colorsys

import numpy as np
import PIL
import pytest
from PIL import Image

from sparlow.app.dataset import DataError, ReadOptions
from sparlow.app.readers import read
from sparlow.images import UnreadableImageError, read_gray
from sparlow.images.reading import class_of, find_pictures

HEIGHT, WIDTH = 24, 32
DOWN, ACROSS = np.mgrid[0:HEIGHT, 0:WIDTH] / [[[HEIGHT - 1]], [[WIDTH - 1]]]
RAMP = (DOWN + ACROSS) / 2  # 0 to 1
RGB = np.stack([255 * ACROSS, 255 * DOWN, 255 * (1 - ACROSS)], axis=2).round().astype(np.uint8)
THREE = np.stack([60 + 140 * DOWN, 116 + 24 * ACROSS, 118 + 20 * DOWN], axis=2).round().astype(np.uint8)
ALPHA = (255 * DOWN).astype(np.uint8)


def luma(rgb):
    """ITU-R 601, the definition."""
    return np.asarray(rgb, float) @ [0.299, 0.587, 0.114]


def of_cmyk(cmyk):
    ink = cmyk / 255
    return luma((1 - ink[..., :3]) * (1 - ink[..., 3:]))


def of_hsv(hsv):
    return luma([[colorsys.hsv_to_rgb(*pixel) for pixel in row] for row in hsv / 255])


def of_lab(stored):
    """CIE L*a*b* under D50 -> XYZ -> linear sRGB (Bradford matrix) -> sRGB."""
    lightness = stored[..., 0] / 255 * 100
    a, b = (stored[..., place].astype(float) - 128 for place in (1, 2))
    fy = (lightness + 16) / 116
    f = np.stack([fy + a / 500, fy, fy - b / 200], axis=2)
    xyz = np.where(f > 6 / 29, f**3, 3 * (6 / 29) ** 2 * (f - 4 / 29)) * [0.9642, 1.0, 0.8249]
    to_rgb = [
        [3.1338561, -1.6168667, -0.4906146],
        [-0.9787684, 1.9161415, 0.0334540],
        [0.0719453, -0.2289914, 1.4052427],
    ]
    linear = np.clip(xyz @ np.transpose(to_rgb), 0, 1)
    return luma(np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055))


def palette_picture(mode):
    colours = RGB[::3, ::4].reshape(-1, 3)
    numbers = np.random.default_rng(0).integers(0, len(colours), (HEIGHT, WIDTH)).astype(np.uint8)
    picture = Image.frombytes("P", (WIDTH, HEIGHT), numbers.tobytes())
    picture.putpalette(colours.tobytes())
    if mode == "PA":
        picture = picture.convert("PA")
    return picture, luma(colours[numbers] / 255)


def wide(mode, values):
    return Image.frombytes(mode, (WIDTH, HEIGHT), values.tobytes())


def of_mode(mode):
    """A picture and the grey values that it shows."""
    if mode in ("P", "PA"):
        return palette_picture(mode)
    grey, sixteen = (255 * RAMP).round().astype(np.uint8), (65535 * RAMP).round().astype(np.uint16)
    return {
        "1": lambda: (Image.fromarray(RAMP > 0.4), RAMP > 0.4),
        "L": lambda: (Image.fromarray(grey), grey / 255),
        "LA": lambda: (Image.fromarray(np.stack([grey, ALPHA], axis=2)), grey / 255),
        "RGB": lambda: (Image.fromarray(RGB), luma(RGB / 255)),
        "RGBX": lambda: (Image.fromarray(RGB).convert("RGBX"), luma(RGB / 255)),
        "RGBA": lambda: (Image.fromarray(np.dstack([RGB, ALPHA])), luma(RGB / 255)),
        "CMYK": lambda: (wide("CMYK", np.dstack([THREE, ALPHA // 4])), of_cmyk(np.dstack([THREE, ALPHA // 4]))),
        "YCbCr": lambda: (wide("YCbCr", THREE), THREE[..., 0] / 255),
        "HSV": lambda: (wide("HSV", THREE), of_hsv(THREE)),
        "LAB": lambda: (lab(THREE), of_lab(THREE)),
        "I": lambda: (Image.fromarray(sixteen.astype(np.int32)), sixteen / 65535),
        "F": lambda: (Image.fromarray(RAMP.astype(np.float32)), RAMP),
        "I;16": lambda: (wide("I;16", sixteen.astype("<u2")), sixteen / 65535),
        "I;16L": lambda: (wide("I;16L", sixteen.astype("<u2")), sixteen / 65535),
        "I;16B": lambda: (wide("I;16B", sixteen.astype(">u2")), sixteen / 65535),
        "I;16N": lambda: (wide("I;16N", sixteen), sixteen / 65535),
    }[mode]()


def lab(stored):
    """As Pillow holds it: a and b are bytes about 128."""
    return Image.merge("LAB", [Image.fromarray(np.ascontiguousarray(stored[..., place])) for place in range(3)])


MODES = [
    "1",
    "L",
    "LA",
    "P",
    "PA",
    "RGB",
    "RGBX",
    "RGBA",
    "CMYK",
    "YCbCr",
    "HSV",
    "LAB",
    "I",
    "F",
    "I;16",
    "I;16L",
    "I;16B",
    "I;16N",
]
# what Pillow writes without changing what is seen
WRITTEN = {
    "png": "1 L LA P RGB RGBA I;16 I;16B",
    "tiff": "1 L LA P PA RGB RGBX RGBA CMYK YCbCr LAB I F I;16 I;16L I;16B",
    "jpeg": "1 L RGB RGBX CMYK YCbCr",
    "bmp": "1 L P RGB",
    "gif": "1 L P",
    "webp": "L P RGB RGBA",
    "ppm": "1 L RGB I I;16",
}
EXACTLY = {"webp": {"lossless": True, "exact": True}, "jpeg": {"quality": 100, "subsampling": 0}}
# what earlier versions cannot write, or cannot read themselves
VERSION = tuple(int(number) for number in PIL.__version__.split(".")[:2])
SINCE = {("I;16L", "tiff"): (11, 3), ("YCbCr", "tiff"): (13, 0)}
FILES = [(mode, ending) for ending, modes in WRITTEN.items() for mode in modes.split()]
FILES = [pair for pair in FILES if SINCE.get(pair, (0,)) <= VERSION]


@pytest.mark.parametrize("mode", MODES)
def test_pictures_in_memory(mode):
    picture, expected = of_mode(mode)
    assert picture.mode == mode
    np.testing.assert_allclose(read_gray(picture), expected, atol=0.02 if mode == "LAB" else 0.008)


@pytest.mark.parametrize(("mode", "ending"), FILES)
def test_files(mode, ending, tmp_path):
    picture, expected = of_mode(mode)
    path = tmp_path / f"x.{ending}"
    picture.save(path, **EXACTLY.get(ending, {}))
    near = 0.02 if ending == "jpeg" or mode == "LAB" else 0.008
    np.testing.assert_allclose(read_gray(path), expected, atol=near)
    # the command line sees the same
    dataset = read(tmp_path)
    assert dataset.shape == (HEIGHT, WIDTH)
    assert dataset.coloured == (mode not in ("1", "L", "LA", "I", "F") and not mode.startswith("I;16"))
    np.testing.assert_allclose(dataset.X[0].reshape(HEIGHT, WIDTH), expected, atol=near)


def test_grey_pictures_stored_with_three_channels_have_no_colours(tmp_path):
    grey = of_mode("L")[0].convert("RGB")
    grey.save(tmp_path / "x.jpg", quality=60)
    grey.save(tmp_path / "y.png")
    assert not read(tmp_path).coloured
    stack = np.repeat(np.asarray(of_mode("L")[0])[None, :, :, None], 3, axis=3)
    for values in (stack, stack[..., :1], stack[..., 0]):
        np.save(tmp_path / "x.npy", values)
        assert not read(tmp_path / "x.npy").coloured
    stack[0, 0, 0] = 1, 2, 3
    np.savez(tmp_path / "x.npz", images=stack)
    assert read(tmp_path / "x.npz").coloured


def test_wide_files_are_scaled_to_a_size(tmp_path):
    picture, _ = of_mode("I;16B")
    picture.save(tmp_path / "x.tiff")
    floats = Image.fromarray(np.asarray(picture).astype(np.float32))
    expected = np.asarray(floats.resize((16, 12), Image.Resampling.LANCZOS)) / 65535
    np.testing.assert_allclose(read(tmp_path, ReadOptions(size=(12, 16))).X[0].reshape(12, 16), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (np.full((8, 8), 70000, np.int32), "must be from 0 to 65535"),
        (np.full((8, 8), -1, np.int32), "must be from 0 to 65535"),
        (np.full((8, 8), 255.0, np.float32), "floats must be from 0 to 1"),
        (np.full((8, 8), np.nan, np.float32), "floats must be from 0 to 1"),
    ],
)
def test_values_without_a_white_are_refused_not_shown_white(values, said, tmp_path):
    Image.fromarray(values).save(tmp_path / "x.tiff")
    with pytest.raises(UnreadableImageError, match=said):
        read_gray(tmp_path / "x.tiff")
    with pytest.raises(DataError, match=rf"x\.tiff.*{said}"):
        read(tmp_path)


def test_one_walk(tmp_path):
    for name in ("b/2.PNG", "b/deep/1.jpg", "a/x.tiff", "z.gif", ".hidden/x.png", "a/.x.png", "a/notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = find_pictures(tmp_path)
    assert [file.relative_to(tmp_path).as_posix() for file in found] == ["a/x.tiff", "b/2.PNG", "b/deep/1.jpg", "z.gif"]
    assert [class_of(file, tmp_path) for file in found] == ["a", "b", "b", ""]
    assert find_pictures(tmp_path / "z.gif") == [tmp_path / "z.gif"]
    assert find_pictures(tmp_path / "a" / "notes.txt") == []


def test_an_empty_file_is_called_empty(tmp_path):
    (tmp_path / "a.png").write_bytes(b"")
    with pytest.raises(UnreadableImageError, match=r"a\.png: the file is empty\."):
        read_gray(tmp_path / "a.png")
