"""Find pictures in folders and turn them into grey values, whatever format they come in."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import pathlib
import threading
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..checks import Array, refuse_unsound, warn
from ..parallel import Threads

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm", ".pnm"})

_LUMA = np.array([0.299, 0.587, 0.114], np.float32)  # ITU-R 601, as Pillow's convert("L")
_WAYS = {"P": "RGBA", "PA": "RGBA", "La": "LA", "LAB": "RGB"}  # modes without a direct conversion to grey
_GRAY = ("1", "L", "LA", "La", "I", "F")  # modes without colours
_loading = threading.Lock()  # Pillow loads an image in place, which two threads must not do to the same one


class UnreadableImageError(ValueError):
    """A picture that cannot be read, or not be used; the message names it."""


def find_pictures(path: str | os.PathLike[str]) -> list[pathlib.Path]:
    """Return the pictures in a folder and its sub-folders, in order, or the one picture that a path names.

    Pictures are told by the endings of their names (``SUFFIXES``). Hidden files and folders are left out.
    """
    path = pathlib.Path(path)
    if not path.is_dir():
        return [path] if is_picture(path, path.parent) else []
    return sorted(file for file in path.rglob("*") if is_picture(file, path))


def is_picture(file: pathlib.Path, folder: pathlib.Path) -> bool:
    """Return whether a file below a folder is a picture by its name, and not hidden."""
    hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
    return file.suffix.lower() in SUFFIXES and not hidden and file.is_file()


def class_of(file: pathlib.Path, folder: pathlib.Path) -> str:
    """Return the class of a picture in a folder: the first sub-folder on its way, or "" where there is none."""
    return "" if file.parent == folder or file == folder else file.relative_to(folder).parts[0]


def read_gray(image: Any, max_side: int | None = None) -> Array:
    """Return grey values from 0 to 1, upright, the longer side at most ``max_side``.

    Parameters
    ----------
    image : path, bytes, array or PIL image
        A path may be anything with ``read_bytes``, such as a member of a zip file; bytes are those of a file. The
        orientation that a file states (EXIF) is respected. Arrays are (height, width), (height, width, 3) or
        (height, width, 4): uint8 and uint16 are divided by the largest value of their type, floats must be from 0 to
        1, other integers are refused. Alpha is ignored. Pictures of more than eight bits are read like such arrays:
        16 bits as uint16, floats as floats, integers of 32 bits from 0 to 65535 as uint16.
    max_side : int, optional
        Larger pictures are reduced (Lanczos), the aspect kept.

    Returns
    -------
    gray : float32 array of shape (height, width)

    """
    levels, white = read_levels(image, max_side)
    return levels if white == 1 else np.divide(levels, np.float32(white), dtype=np.float32)


def read_levels(image: Any, max_side: int | None = None) -> tuple[Array, int]:
    """Return what :func:`read_gray` gives times the value of white, and that value: 255 for bytes, 1 for floats."""
    with _named(image):
        if isinstance(image, np.ndarray):  # needs no Pillow
            refuse_unsound(image, "the picture")
            return _array_levels(image, max_side, name_of(image))
        pil = _pillow()
        if isinstance(image, pil.Image):
            _load(image)
            return _picture_levels(image, max_side, pil, name_of(image))
        with pil.open(io.BytesIO(file_bytes(image))) as opened:
            if max_side is not None and opened.format == "JPEG":
                # decode large files at a fraction of their size, no smaller than asked
                opened.draft("L", (max_side, max_side))
            return _picture_levels(opened, max_side, pil, name_of(image))


def read_colours(image: Any, least: int | None = None) -> Array:
    """Return red, green and blue of a picture as bytes, upright, from what :func:`read_gray` takes.

    Grey pictures have three equal channels. Large JPEG files are decoded at a fraction of their size, their shorter
    side at least ``least``.
    """
    with _named(image):
        if isinstance(image, np.ndarray):
            refuse_unsound(image, "the picture")
            return _bytes_of(_unit_values(_checked_array(image), name_of(image)))
        pil = _pillow()
        if isinstance(image, pil.Image):
            _load(image)
            return _picture_colours(image, name_of(image))
        with pil.open(io.BytesIO(file_bytes(image))) as opened:
            if least is not None and opened.format == "JPEG":
                opened.draft("RGB", (least, least))
            return _picture_colours(opened, name_of(image))


class Decoded(NamedTuple):
    """A picture, decoded once: grey levels, the value of white, colours if they can be seen, and the size of the file.

    ``colours`` are bytes (height, width, 3); ``size`` is height and width, upright.
    """

    levels: Array
    white: int
    colours: Array | None
    size: tuple[int, int]


def decoded(image: Any, max_side: int | None = None) -> Decoded:
    """Return grey levels, as :func:`read_levels` gives them, and the colours of a picture file."""
    pil = _pillow()
    with _named(image), pil.open(io.BytesIO(file_bytes(image))) as opened:
        width, height = opened.size
        if max_side is not None and opened.format == "JPEG":
            opened.draft("RGB", (max_side, max_side))
        turned = _orientation(opened) in (5, 6, 7, 8)  # a quarter off
        grey = opened.mode in _GRAY or _is_wide(opened)
        picture = _upright(opened)
        size = (width, height) if turned else (height, width)
        levels, white = _picture_levels(picture, max_side, pil, name_of(image))
        if grey:
            return Decoded(levels, white, None, size)
        colours = picture.convert("RGB")
        if colours.size != levels.shape[::-1]:
            colours = colours.resize(levels.shape[::-1], pil.Resampling.LANCZOS, reducing_gap=3.0)
        glance = colours.copy()
        glance.thumbnail((64, 64))
        # smaller differences of the channels are noise of compression
        seen = np.ptp(np.asarray(glance).astype(int), axis=2).max() > 16
        return Decoded(levels, white, np.asarray(colours) if seen else None, size)


def resized(levels: Array, shape: tuple[int, int]) -> Array:
    """Return grey values scaled to a height and a width (Lanczos): bytes stay bytes, floats stay from 0 to 1."""
    if levels.dtype == np.uint8:
        pil = _pillow()
        return np.asarray(pil.fromarray(levels).resize((shape[1], shape[0]), pil.Resampling.LANCZOS))
    return _lanczos(levels, shape)


def unreadable(X: Any, *, n_jobs: int | None = None) -> list[tuple[int, str, str]]:
    """Return the pictures of a set that cannot be read: number, name and reason, as ``skipped_`` has them.

    Parameters
    ----------
    X : sequence of paths, bytes, arrays or PIL images
        Pictures.
    n_jobs : int, optional
        Threads.

    Returns
    -------
    listed : list of (int, str, str)

    Examples
    --------
    >>> from sparlow.images import unreadable
    >>> unreadable([b"no picture"])
    [(0, '(10 bytes)', 'Cannot use the image (10 bytes): it is not a picture in a format that Pillow knows.')]

    """
    X = pictures_in(X)

    def reason(place: int) -> str:
        try:
            read_levels(X[place])
        except UnreadableImageError as error:
            return str(error)
        return ""

    with Threads(n_jobs) as threads:
        reasons = list(threads.map(reason, range(len(X))))
    return [(place, name_of(X[place]), told) for place, told in enumerate(reasons) if told]


def pictures_in(X: Any) -> Any:
    """Return the pictures of a set by their place; refuse one picture instead of a set."""
    shape = getattr(X, "shape", None)
    single = shape is not None and (len(shape) in (0, 2) or (len(shape) == 3 and shape[2] in (3, 4)))
    single = single or isinstance(X, (str, bytes, bytearray, memoryview, Mapping))
    if single or not (hasattr(X, "__len__") and hasattr(X, "__getitem__")):
        got = type(X).__name__ + (f" of shape {shape}" if shape else "")
        advice = "For one image give a list of one, [X]."
        if hasattr(X, "iloc"):
            advice = "Give one column of the table."
        elif hasattr(X, "__next__"):
            advice = "Give list(X)."
        raise ValueError(f"X must be a sequence of images, for instance a list of paths, got {got}. {advice}")
    return list(X) if hasattr(X, "iloc") else X  # the index of a Series is by label


def file_bytes(image: Any) -> bytes:
    """Return the bytes of a file, given by its path, by an object with ``read_bytes``, or as bytes."""
    if isinstance(image, (bytes, bytearray, memoryview)):
        return bytes(image)
    if hasattr(image, "read_bytes"):
        return bytes(image.read_bytes())
    if isinstance(image, (str, os.PathLike)):
        return pathlib.Path(image).read_bytes()
    raise ValueError(
        f"expected a path, bytes of a file, a numpy array or a PIL image, got {type(image).__name__}. "
        "Samples are a sequence of pictures."
    )


def name_of(image: Any) -> str:
    """Return what to call a picture in a message."""
    if isinstance(image, np.ndarray):
        return f"(array of shape {image.shape}, {image.dtype})"
    if isinstance(image, (bytes, bytearray, memoryview)):
        return f"({len(image)} bytes)"
    if isinstance(image, (str, os.PathLike)) or hasattr(image, "read_bytes"):
        return str(image)
    return str(getattr(image, "filename", "") or f"({type(image).__name__})")


def content_key(image: Any) -> str:
    """Return a digest of the content of a picture: of the bytes of its file, or of its pixels."""
    digest = hashlib.blake2b(digest_size=20)
    with _named(image):
        if isinstance(image, np.ndarray):
            digest.update(f"array {image.shape} {image.dtype.str}".encode())
            digest.update(np.ascontiguousarray(image).tobytes())
        elif hasattr(image, "tobytes") and hasattr(image, "getbands"):
            _load(image)
            digest.update(f"picture {image.size} {image.mode} {_orientation(image)}".encode())
            digest.update(repr(image.getpalette() if image.mode in ("P", "PA") else None).encode())
            digest.update(image.tobytes())
        else:
            digest.update(b"file ")
            digest.update(file_bytes(image))
    return digest.hexdigest()


@contextlib.contextmanager
def _named(image: Any) -> Iterator[None]:
    """Turn whatever a damaged picture provokes into an error that names it."""
    try:
        yield
    except (ImportError, MemoryError, Warning):
        raise
    except Exception as error:
        foreign = type(error).__name__ == "UnidentifiedImageError"  # it names an object in memory
        reason = "it is not a picture in a format that Pillow knows." if foreign else str(error)
        if foreign and isinstance(image, (str, os.PathLike)) and not pathlib.Path(image).stat().st_size:
            reason = "the file is empty."
        raise UnreadableImageError(
            f"Cannot use the image {name_of(image)}: {reason or type(error).__name__}"
        ) from error


def _pillow() -> Any:
    """Import Pillow, or say which extra has it."""
    try:
        import PIL.Image
    except ImportError as error:
        raise ImportError('Pictures are read with Pillow: pip install "sparlow[images]".') from error
    return PIL.Image


def _load(picture: Any) -> None:
    """Decode a user's image, which may be in several places of a list, and read its EXIF data."""
    with _loading:
        picture.getexif()
        picture.load()


def _orientation(picture: Any) -> Any:
    """Return the EXIF orientation of a picture."""
    return picture.getexif().get(0x0112, 1)  # the EXIF tag


def _upright(picture: Any) -> Any:
    """Return an opened picture turned as its EXIF data say, in a mode that converts to grey and to RGB."""
    if _orientation(picture) != 1:
        from PIL import ImageOps

        picture = ImageOps.exif_transpose(picture)
    return picture.convert(_WAYS[picture.mode]) if picture.mode in _WAYS else picture


def _is_wide(picture: Any) -> bool:
    """Return whether a picture has more than eight bits."""
    return picture.mode in ("F", "I") or picture.mode.startswith("I;16")


def _picture_colours(picture: Any, name: str) -> Array:
    """Return red, green and blue of an opened picture as bytes."""
    picture = _upright(picture)
    if _is_wide(picture):
        return _bytes_of(_unit_values(_wide_values(picture), name))
    return np.asarray(picture.convert("RGB"))


def _bytes_of(values: Array) -> Array:
    """Return values from 0 to 1 as bytes (height, width, 3); one channel becomes three."""
    levels = np.rint(255 * np.atleast_3d(values)[:, :, :3]).astype(np.uint8)
    return levels if levels.shape[2] == 3 else np.repeat(levels[:, :, :1], 3, axis=2)


def _picture_levels(picture: Any, max_side: int | None, pil: Any, name: str) -> tuple[Array, int]:
    """Return the grey levels of an opened picture, and the value of white."""
    picture = _upright(picture)
    if _is_wide(picture):
        return _array_levels(_wide_values(picture), max_side, name)
    gray = picture.convert("L") if picture.mode != "L" else picture
    size = _reduced_size(gray.size, max_side)
    if size != gray.size:
        gray = gray.resize(size, pil.Resampling.LANCZOS, reducing_gap=3.0)
    return np.asarray(gray), 255


def _wide_values(picture: Any) -> Array:
    """Return values of modes of more than eight bits: floats as they are, integers as those of 16 bits."""
    values = np.asarray(picture)
    if picture.mode == "F":
        return values
    if np.min(values) < 0 or np.max(values) > 65535:
        raise ValueError(
            f"values of mode {picture.mode} must be from 0 to 65535, got {np.min(values)} to {np.max(values)}."
        )
    return values.astype(np.uint16)


def _array_levels(image: Array, max_side: int | None, name: str) -> tuple[Array, int]:
    """Return the grey levels of a picture given as an array, and the value of white."""
    _checked_array(image)
    size = image.shape[1], image.shape[0]
    reduced = _reduced_size(size, max_side)
    if image.dtype == np.uint8 and image.ndim == 2 and reduced == size:
        return image, 255
    gray = _gray_array(image, name)
    if reduced == size:
        return gray, 1
    return _lanczos(gray, (reduced[1], reduced[0])), 1


def _checked_array(image: Array) -> Array:
    """Return an array that has the shape of a picture."""
    if image.ndim not in (2, 3) or (image.ndim == 3 and image.shape[2] not in (1, 3, 4)) or 0 in image.shape:
        raise ValueError("expected an array of shape (height, width), (height, width, 3) or (height, width, 4).")
    return image


def _lanczos(gray: Array, shape: tuple[int, int]) -> Array:
    """Return grey values from 0 to 1 in another size, as Pillow scales pictures of floats."""
    down, across = (_weights(old, new) for old, new in zip(gray.shape, shape, strict=True))
    return np.clip(down @ (across @ gray.T.astype(float)).T, 0, 1).astype(np.float32)


def _weights(old: int, new: int) -> sp.csr_array:
    """Return the matrix (new, old) that scales a line: row i weighs the pixels about (i + ½) old/new."""
    scale = max(old / new, 1.0)  # reduced pictures are smoothed over as many pixels as become one
    centres = (np.arange(new) + 0.5) * old / new
    first = np.maximum((centres - 3 * scale + 0.5).astype(int), 0)
    last = np.minimum((centres + 3 * scale + 0.5).astype(int), old)
    columns = [np.arange(a, b) for a, b in zip(first, last, strict=True)]
    rows = np.repeat(np.arange(new), [len(part) for part in columns])
    indices = np.concatenate(columns)
    x = (indices + 0.5 - centres[rows]) / scale
    values = np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0.0)  # Lanczos' kernel of three lobes
    values /= np.bincount(rows, values)[rows]
    return sp.csr_array((values, (rows, indices)), shape=(new, old))


def _gray_array(image: Array, name: str) -> Array:
    """Return a picture given as an array as grey values from 0 to 1."""
    values = _unit_values(image, name)
    if values.ndim == 2:
        return values
    return values[:, :, 0].copy() if values.shape[2] == 1 else values[:, :, :3] @ _LUMA


def _unit_values(image: Array, name: str) -> Array:
    """Return a picture given as an array as floats from 0 to 1."""
    kind = image.dtype.kind
    if kind == "b":
        return image.astype(np.float32)
    if kind in "iu":
        return np.divide(image, np.float32(_white(image, name)), dtype=np.float32)
    if kind != "f":
        raise ValueError(f"expected integers or floats, got {image.dtype}.")
    if not (np.min(image) >= 0 and np.max(image) <= 1):  # false for NaN as well
        raise ValueError("floats must be from 0 to 1: divide by the largest value (255 for eight bits).")
    return image.astype(np.float32)


def _white(image: Array, name: str) -> int:
    """Return the value of white: the largest of the type, if that is one that pictures have."""
    if image.dtype.kind != "u" or image.dtype.itemsize > 2:
        raise ValueError(
            f"values of type {image.dtype} do not tell what is white: convert them to uint8 or uint16, where the "
            "largest value of the type is, or to floats from 0 to 1."
        )
    if image.dtype.itemsize == 2 and 0 < np.max(image) <= 4095:  # twelve bits
        warn(
            f"The image {name} of 16 bits has no value above 4095 and is nearly black, for white is 65535. If its "
            "white is less, such as 255 or 4095, divide by that, to floats from 0 to 1."
        )
    return (1 << 8 * image.dtype.itemsize) - 1


def _reduced_size(size: tuple[int, int], max_side: int | None) -> tuple[int, int]:
    """Return the size of a picture whose longer side is at most ``max_side``."""
    longest = max(size)
    if max_side is None or longest <= max_side:
        return size
    width, height = (max(1, round(side * max_side / longest)) for side in size)
    return width, height
