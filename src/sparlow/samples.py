"""Samples from the user's own files: tables, arrays, folders of images -> rows, labels, shape."""

from __future__ import annotations

import csv
import functools
import hashlib
import os
import pathlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .messages import warn

Array = NDArray[Any]

UNLABELLED = -1
_SQUEEZE = 0.02  # change of proportions that is not worth a word
_LARGE = 128 * 128  # pixels
LABEL_COLUMNS = ("label", "labels", "class", "target", "y")
_SAMPLE_KEYS = ("X", "images", "data", "x")
_LABEL_KEYS = ("y", "labels", "label", "target", "targets")
IMAGE_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm", ".pnm"}


class SamplesError(ValueError):
    """A file or folder that cannot be read as samples."""


@dataclass(frozen=True)
class Samples:
    """Samples as rows.

    Parameters
    ----------
    X : array of shape (n, m)
        Samples; images row by row, grey values from 0 to 1 if they were bytes.
    y : array of shape (n,), optional
        Labels, −1 where a sample has none; or real targets, NaN where they are missing.
    shape : (int, int), optional
        Height and width, if the samples are images.
    feature_names : tuple of str, optional
        Column names of a table.
    names : tuple of str, optional
        What to call the samples: paths of images within their folder.
    source : str
        The file or folder.
    bare : array of bool of shape (n,), optional
        Which samples have no label, −1 in ``y`` as it is for those whose label is −1.
    features : str
        What made rows of pictures, if ``sparlow features`` did.

    """

    X: Array
    y: Array | None = None
    shape: tuple[int, int] | None = None
    feature_names: tuple[str, ...] | None = None
    names: tuple[str, ...] | None = None
    source: str = ""
    bare: Array | None = None
    features: str = ""

    @functools.cached_property
    def fingerprint(self) -> str:
        """A number that tells these samples from others."""
        return hashlib.sha256(np.ascontiguousarray(self.X).tobytes()).hexdigest()[:16]

    def take(self, rows: Array) -> Samples:
        """Some of them."""
        y, bare = (None if part is None else part[rows] for part in (self.y, self.bare))
        names = None if self.names is None else tuple(self.names[row] for row in rows)
        return replace(self, X=self.X[rows], y=y, bare=bare, names=names)


@dataclass(frozen=True)
class Reading:
    """How to read samples.

    Parameters
    ----------
    label_column : str, optional
        Name or position (from 0, or from −1 at the end) of the column of labels; by default one called label, class,
        target or y, or the only column that is not numeric.
    labels : path, optional
        A file of labels: .npy, or text with one on each line.
    size : (int, int), optional
        Height and width: what images are scaled to, or the shape of rows that are images.
    part : {"train", "test", "all"}, optional
        Which part of a file that has both.
    header : bool, optional
        Whether the first line of a .csv names the columns; by default it does if none of its cells is a
        number, one is a usual name of labels, or one is a word above a column of numbers.
    unlabelled : str, optional
        The label of samples that have none; empty cells of a table are unlabelled in any case.

    """

    label_column: str | None = None
    labels: str | os.PathLike[str] | None = None
    size: tuple[int, int] | None = None
    part: str | None = None
    header: bool | None = None
    unlabelled: str | None = None
    columns: tuple[str, ...] | None = field(default=None, repr=False)  # those of a model, in its order


def read(path: str | os.PathLike[str], how: Reading | None = None) -> Samples:
    """Read samples from a file (.npz, .npy, .csv, .tsv, .txt, .parquet, an image) or a folder of images by class.

    Parameters
    ----------
    path : path
        The file or folder.
    how : Reading, optional
        What cannot be seen from the file.

    Returns
    -------
    Samples

    """
    path, how = pathlib.Path(path), how or Reading()
    if holds_images(path):
        found = _read_pictures(path, how)
    elif not path.exists():
        raise SamplesError(f"There is no file or folder {path}.")
    elif path.suffix.lower() not in READERS:
        raise SamplesError(f"{path}: samples are read from {', '.join(READERS)} files, an image or a folder of images.")
    else:
        found = _guarded(READERS[path.suffix.lower()], path, how)
    if how.labels is not None:
        found = replace(found, y=_read_labels(pathlib.Path(how.labels)))
    return replace(_checked(found, path, how), source=str(path))


def _guarded(reader: Callable[[pathlib.Path, Reading], Samples], path: pathlib.Path, how: Reading) -> Samples:
    try:
        return reader(path, how)
    except (SamplesError, ImportError):
        raise
    except Exception as error:  # whatever a damaged file provokes
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise SamplesError(f"{path} cannot be read as a {path.suffix} file: {reason}") from error


def _checked(found: Samples, path: pathlib.Path, how: Reading) -> Samples:
    X, y = found.X, found.y
    if X.size == 0:
        raise SamplesError(f"{path} holds no samples (its shape is {X.shape}).")
    if y is not None and len(y) != len(X):
        raise SamplesError(f"{len(y)} labels for {len(X)} samples in {path}: each sample needs one.")
    if not np.isfinite(X).all():
        row, column = np.argwhere(~np.isfinite(X))[0]
        named = f"{column} (from 0)" if found.feature_names is None else repr(found.feature_names[column])
        raise SamplesError(f"{path}: sample {row} (from 0) has a missing or infinite value in column {named}.")
    if found.shape is not None and found.shape[0] * found.shape[1] != X.shape[1]:
        raise SamplesError(
            f"{path}: samples have {X.shape[1]} numbers, which is no image of {found.shape[0]}x{found.shape[1]}."
        )
    if y is None:
        return found
    labels, bare = told_labels(y, how.unlabelled)
    return replace(found, y=labels, bare=bare)


def tidy_labels(y: Array, unlabelled: str | None = None) -> Array:
    """Whole numbers as integers and words as strings, −1 without a label; real targets as floats, NaN where missing."""
    return told_labels(y, unlabelled)[0]


def told_labels(y: Array, unlabelled: str | None = None) -> tuple[Array, Array]:
    """:func:`tidy_labels`, and which of them are missing: empty, None, NaN or the word for it; none of many columns."""
    if y.ndim > 1 and y.shape[1:] != (1,):
        return y, np.zeros(len(y), bool)
    y = y.ravel()
    if y.dtype.kind in "OUS":
        empty = [value is None or (isinstance(value, float) and np.isnan(value)) for value in y]
        words = np.where(empty, "", np.array([str(value).strip() for value in y]))
        bare = (words == "") | (words == (unlabelled or ""))
        y = np.array([float(word) if _is_number(word) else np.nan for word in np.where(bare, "nan", words)])
        if not bare.all() and (not np.isfinite(y).any() or not all(map(_is_number, words[~bare]))):
            return np.where(bare, UNLABELLED, words.astype(object)) if bare.any() else words, bare
    elif unlabelled is not None and y.dtype.kind in "iuf" and _is_number(unlabelled):
        y = np.where(y == float(unlabelled), np.nan, y.astype(float))
    bare = np.isnan(y) if y.dtype.kind == "f" else np.zeros(len(y), bool)
    if y.dtype.kind == "f" and not np.isinf(y).any() and np.all((y == np.round(y)) | bare):
        return np.where(bare, UNLABELLED, y).astype(int), bare
    return y.astype(int) if y.dtype.kind == "b" else y, bare


# ── arrays ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _as_rows(values: Array, path: pathlib.Path, size: tuple[int, int] | None) -> tuple[Array, tuple[int, int] | None]:
    """(n, m), (n, h, w) or (n, h, w, 3) -> rows and the shape of the images; bytes become grey values in [0, 1]."""
    if values.dtype.kind not in "buif":
        raise SamplesError(f"{path}: samples must be numbers, got an array of {values.dtype}.")
    X = (
        values / 255.0
        if values.dtype == np.uint8
        else values.astype(values.dtype if values.dtype.kind == "f" else float)
    )
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(float)
    if X.ndim == 4 and X.shape[-1] in (1, 3, 4):
        X = X[..., 0] if X.shape[-1] == 1 else X[..., :3] @ np.array([0.299, 0.587, 0.114], X.dtype)
    if X.ndim == 2:
        return np.ascontiguousarray(X), size
    if X.ndim != 3:
        raise SamplesError(
            f"{path}: expected an array (samples, numbers), (samples, height, width) or (samples, height, width, "
            f"3), got {values.shape}."
        )
    shape = (int(X.shape[1]), int(X.shape[2]))
    if size is not None and size != shape:
        raise SamplesError(f"{path}: the images are {shape[0]}x{shape[1]}, not {size[0]}x{size[1]}: leave --size out.")
    return np.ascontiguousarray(X.reshape(len(X), -1)), shape


def _read_npy(path: pathlib.Path, how: Reading) -> Samples:
    X, shape = _as_rows(np.load(path, allow_pickle=False), path, how.size)
    return Samples(X, shape=shape)


def _read_npz(path: pathlib.Path, how: Reading) -> Samples:
    with np.load(path, allow_pickle=False) as arrays:
        keys = list(arrays)
        size = how.size
        if size is None and "shape" in keys and np.size(arrays["shape"]) == 2:
            size = tuple(int(side) for side in np.ravel(arrays["shape"]))  # type: ignore[assignment]
        values, y = _npz_arrays(arrays, keys, path, how.part)
        names, features = _npz_words(arrays, "names", keys), _npz_words(arrays, "features", keys)
    X, shape = _as_rows(values, path, size)
    named = tuple(names.tolist()) if names.shape == (len(X),) else None
    return Samples(X, y, shape, names=named, features=str(features) if features.ndim == 0 else "")


def _npz_words(arrays: Any, key: str, keys: list[str]) -> Array:
    """An array of strings, or an empty one where there is none of that name; names of two parts are nobody's."""
    if key not in keys or any(name.endswith("_train") for name in keys):
        return np.empty(0, str)
    try:
        return np.asarray(arrays[key].astype(str)) if arrays[key].dtype.kind in "US" else np.empty(0, str)
    except ValueError:  # objects, which are not read
        return np.empty(0, str)


def _npz_arrays(arrays: Any, keys: list[str], path: pathlib.Path, part: str | None) -> tuple[Array, Array | None]:
    plain = next((key for key in _SAMPLE_KEYS if key in keys), None)
    if plain is not None:
        label = next((key for key in _LABEL_KEYS if key in keys), None)
        return arrays[plain], None if label is None else arrays[label]
    stem = next((key for key in _SAMPLE_KEYS if f"{key}_train" in keys and f"{key}_test" in keys), None)
    if stem is None:
        raise SamplesError(
            f"{path} holds the arrays {', '.join(keys) or '(none)'}: samples are expected under X or images, labels "
            "under y or labels, or both parts as X_train, y_train, X_test, y_test."
        )
    if part is None:
        raise SamplesError(f"{path} has a training and a test part: choose one with --part train, test or all.")
    parts = ("train", "test") if part == "all" else (part,)
    label = next((key for key in _LABEL_KEYS if all(f"{key}_{which}" in keys for which in parts)), None)
    values = np.concatenate([arrays[f"{stem}_{which}"] for which in parts])
    return values, None if label is None else np.concatenate([arrays[f"{label}_{which}"] for which in parts])


def _read_labels(path: pathlib.Path) -> Array:
    if not path.is_file():
        raise SamplesError(f"There is no file of labels {path}.")
    try:
        if path.suffix.lower() == ".npy":
            return np.load(path, allow_pickle=False)
        return np.array([line.strip().strip('"') for line in path.read_text().splitlines()])
    except (ValueError, OSError, UnicodeDecodeError) as error:
        raise SamplesError(f"{path} cannot be read as labels: {error}") from error


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _is_missing(cell: Any) -> bool:
    return cell is None or not str(cell).strip()


def _read_csv(path: pathlib.Path, how: Reading) -> Samples:
    with path.open(newline="", encoding="utf-8-sig") as file:
        first = file.readline()
        delimiter = max(",;\t", key=first.count) if any(mark in first for mark in ",;\t") else ","
        file.seek(0)
        reader = csv.reader(file, delimiter=delimiter)
        numbered = [(reader.line_num, row) for row in reader if row]
    lines, rows = [line for line, _ in numbered], [row for _, row in numbered]
    if not rows:
        raise SamplesError(f"{path} is empty.")
    header = how.header
    if header is None:
        header = _is_header(rows, how)
    names = [cell.strip() for cell in rows[0]] if header else None
    body = rows[1:] if header else rows
    if not body:
        raise SamplesError(f"{path} has a header and no samples.")
    widths = {len(row) for row in body}
    if len(widths) > 1 or len(body[0]) != len(rows[0]):
        line, odd = next((line, row) for line, row in numbered if len(row) != len(rows[0]))
        raise SamplesError(f"{path}: line {line} has {len(odd)} cells, the first line {len(rows[0])}.")
    columns = [np.array(column) for column in zip(*body, strict=True)]
    if names is not None and len(names) > 1 and _is_indexed(rows):
        names, columns = names[1:], columns[1:]
    return _table(columns, names, path, how, lines[-len(body) :])


def _is_indexed(rows: list[list[str]]) -> bool:
    """Whether a column without a name counts the lines below from 0, as pandas writes it."""
    return not rows[0][0].strip() and [row[0] for row in rows[1:]] == [*map(str, range(len(rows) - 1))]


def _is_header(rows: list[list[str]], how: Reading) -> bool:
    """Names of columns: no number among them, a name of labels, a word above numbers, or an index."""
    first = [cell.strip() for cell in rows[0]]
    if not any(map(_is_number, first)) or _is_named(how.label_column, first):
        return True
    if {*map(str.lower, first)} & {*LABEL_COLUMNS}:
        return True
    words = [place for place, cell in enumerate(first) if cell and not _is_number(cell)]
    body = [row for row in rows[1:] if len(row) == len(first)]
    return _is_indexed(rows) or any(body and all(_is_number(row[place]) for row in body) for place in words)


def _is_named(asked: str | None, first: list[str]) -> bool:
    """Whether the first line names the column of labels; a number among numbers that repeat is asked as a position."""
    return asked in first and not (_is_number(asked) and len({*first}) < len(first))


def _read_parquet(path: pathlib.Path, how: Reading) -> Samples:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow: pip install 'sparlow[parquet]'") from error
    table = pyarrow.parquet.read_table(path)
    columns = [column.to_numpy() for column in table.columns]
    return _table(columns, [str(name) for name in table.column_names], path, how)


def _table(
    columns: list[Array], names: list[str] | None, path: pathlib.Path, how: Reading, lines: list[int] | None = None
) -> Samples:
    """Columns of numbers, and one of labels, as samples; ``lines`` are those of the file, if it has any."""
    _refuse_repeated(names or [], path)
    at = _label_position(columns, names, path, how)
    y = None if at is None else columns[at]
    rest = [place for place in range(len(columns)) if place != at]
    if names is not None and how.columns is not None:
        missing = [name for name in how.columns if name not in names]
        if missing:
            raise SamplesError(f"{path} lacks columns that the model was learned from: {', '.join(missing[:5])}.")
        rest = [names.index(name) for name in how.columns]
    labelled = at is not None or how.labels is not None
    X = np.column_stack(
        [_numbers(columns[place], names[place] if names else place, path, lines, labelled) for place in rest]
    )
    return Samples(X, y, how.size, None if names is None else tuple(names[place] for place in rest))


def _refuse_repeated(names: list[str], path: pathlib.Path) -> None:
    """Columns are found by their names, so each needs one of its own."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        words = ", ".join(f"{name!r}{'' if name else ' (no name)'}" for name in repeated[:5])
        raise SamplesError(
            f"{path}: the header has {words}{' …' if len(repeated) > 5 else ''} more than once, but each column needs "
            "a name of its own: rename or remove some. If the first line of a .csv is a sample say --no-header."
        )


def _numbers(column: Array, name: Any, path: pathlib.Path, lines: list[int] | None, labelled: bool) -> Array:
    """A column as numbers, or the first cell that is none; ``labelled`` says that the labels are known."""
    try:
        return column.astype(float)
    except (ValueError, TypeError):
        bad = next((row for row, cell in enumerate(column) if not _is_number(str(cell))), 0)
    where = f"row {bad} (from 0)" if lines is None else f"line {lines[bad]}"
    if _is_missing(column[bad]):
        said = f"{where}: the value in column {name!r} is missing. Fill it in, or leave the line or the column out."
    else:
        said = f"{where}: column {name!r} has {str(column[bad])!r}, which is not a number."
    advice = "" if labelled else f" If it is the column of labels say --label-column {name}."
    raise SamplesError(f"{path}, {said}{advice}")


def _label_position(columns: Sequence[Array], names: list[str] | None, path: pathlib.Path, how: Reading) -> int | None:
    asked = how.label_column
    if asked is not None:
        if names is not None and asked in names:
            return names.index(asked)
        if asked.lstrip("-").isdigit() and -len(columns) <= int(asked) < len(columns):
            return int(asked) % len(columns)
        there = f"it has {', '.join(names[:8])}{' …' if len(names) > 8 else ''}" if names else "it has no header"
        raise SamplesError(f"{path} has no column {asked!r}: {there}, {len(columns)} columns in all.")
    if names is not None:
        usual = [place for place, name in enumerate(names) if name.lower() in LABEL_COLUMNS]
        if usual:
            return usual[0]
    words = [
        place
        for place, column in enumerate(columns)
        if column.dtype.kind in "OUS" and any(not (_is_missing(c) or _is_number(str(c))) for c in column[:50])
    ]
    return words[0] if len(words) == 1 else None


# ── images ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _read_pictures(path: pathlib.Path, how: Reading) -> Samples:
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
                "for instance --size 32x32."
            )
        rows.append(np.asarray(image, dtype=np.uint8).ravel())
    _say_sizes(path, size, squeezed, len(files))
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
            f"{path}: {squeezed} of {count} images have other proportions than {named}, to which they were squeezed.",
        )
    if size[0] * size[1] > _LARGE:
        warn(
            f"{path}: images of {named} are {size[0] * size[1]} numbers each, which takes time: --size 64x64 is "
            "less; photographs of things and places are better described by sparlow features first.",
        )


def holds_images(path: pathlib.Path) -> bool:
    """Whether a path is a folder, or a single image."""
    return path.is_dir() or is_image(path, path.parent)


def is_image(file: pathlib.Path, folder: pathlib.Path) -> bool:
    """Whether a file below a folder is an image by its name, and not hidden."""
    hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
    return file.suffix.lower() in IMAGE_SUFFIXES and not hidden and file.is_file()


READERS: dict[str, Callable[[pathlib.Path, Reading], Samples]] = {
    ".npz": _read_npz,
    ".npy": _read_npy,
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".txt": _read_csv,
    ".parquet": _read_parquet,
}
