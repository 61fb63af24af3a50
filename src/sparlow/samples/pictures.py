"""Samples from images: those of a folder, or one."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import numpy as np

from ..messages import warn
from .kinds import Reading, Samples, SamplesError

_SQUEEZE = 0.02  # change of proportions that is not worth a word
_LARGE = 128 * 128  # pixels
_FEATURES = "photographs of things and places are better described by sparlow features first"
_PARTS = {"train", "training", "test", "testing", "val", "valid", "validation", "new"}
IMAGE_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm", ".pnm"}


def read_pictures(path: pathlib.Path, how: Reading) -> Samples:
    """A class for each sub-folder; images directly in the folder, or a single image, have no label."""
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise ImportError("Folders of images need pillow: pip install 'sparlow[cli]'") from error
    folder = path if path.is_dir() else path.parent
    files = [path] if folder != path else sorted(file for file in path.rglob("*") if is_image(file, path))
    if not files:
        raise SamplesError(
            f"{path} holds no images ({', '.join(sorted(IMAGE_SUFFIXES))}): expected a sub-folder for each class."
        )
    size, rows, squeezed = how.size, [], 0
    for file in files:
        try:
            with Image.open(file) as opened:
                image = ImageOps.exif_transpose(opened)
                image = (
                    image.point(lambda level: level / 257).convert("L") if image.mode == "I;16" else image.convert("L")
                )
        except (OSError, ValueError, Image.DecompressionBombError) as error:
            raise SamplesError(f"{file} is not an image that can be read: {error}") from error
        if how.size is not None and (image.height, image.width) != how.size:
            squeezed += abs(image.height * how.size[1] / (image.width * how.size[0]) - 1) > _SQUEEZE
            image = image.resize((how.size[1], how.size[0]), Image.Resampling.LANCZOS)
        size = size or (image.height, image.width)
        if (image.height, image.width) != size:
            raise SamplesError(
                f"{file} is {image.height}x{image.width}, the first image {size[0]}x{size[1]}: name a common size, "
                f"for instance --size 32x32; {_FEATURES}."
            )
        rows.append(np.asarray(image, dtype=np.uint8).ravel())
    _say_sizes(path, size, squeezed, len(files))
    say_depth(files, folder)
    labels = [file.relative_to(folder).parts[0] if file.parent != folder else "" for file in files]
    y = np.array(labels) if any(labels) else None
    names = tuple(file.relative_to(folder).as_posix() for file in files)
    return Samples(np.array(rows) / 255.0, y, size, names=names)


def _say_sizes(path: pathlib.Path, size: tuple[int, int] | None, squeezed: int, count: int) -> None:
    """Warn of images that were squeezed to the size asked for, and of very large ones."""
    assert size is not None
    named = f"{size[0]}x{size[1]}"
    if squeezed:
        warn(
            f"{path}: {squeezed} of {count} images have other proportions than {named}, to which they were squeezed; "
            f"{_FEATURES}.",
        )
    if size[0] * size[1] > _LARGE:
        warn(
            f"{path}: images of {named} are {size[0] * size[1]} numbers each, which takes time: --size 64x64 is "
            f"less; {_FEATURES}.",
        )


def say_depth(files: Sequence[pathlib.Path], folder: pathlib.Path) -> None:
    """Refuse parts of a set (train, test) in place of its classes; warn where sub-folders hold but further folders."""
    parts = [file.relative_to(folder).parts for file in files]
    if parts and all(len(names) > 2 for names in parts):
        first = sorted({names[0] for names in parts}, key=lambda name: (not name.lower().startswith("train"), name))
        if len(first) > 1 and all(name.lower() in _PARTS for name in first):
            raise SamplesError(
                f"{folder} holds parts of a set ({', '.join(first)}), not its classes: name one, {folder / first[0]}."
            )
        warn(
            f"{folder}: images lie in folders of {' and '.join(first[:2])}{' and others' * (len(first) > 2)}, which "
            f"are taken to be the classes. If these are parts of the set, name one of them: {folder / first[0]}."
        )


def holds_images(path: pathlib.Path) -> bool:
    """Whether a path is a folder, or a single image."""
    return path.is_dir() or is_image(path, path.parent)


def is_image(file: pathlib.Path, folder: pathlib.Path) -> bool:
    """Whether a file below a folder is an image by its name, and not hidden."""
    hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
    return file.suffix.lower() in IMAGE_SUFFIXES and not hidden and file.is_file()
