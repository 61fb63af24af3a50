"""Pictures: each file is read once, before the work begins, and becomes pixels or features."""

from __future__ import annotations

import collections
import hashlib
import inspect
import pathlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from ..checks import warn
from ..images import Network, pyramid_features
from ..images.pipelines import PATCHES
from ..images.reading import SUFFIXES, UnreadableImageError, decoded, find_pictures, is_picture, resized
from ..parallel import Threads
from .dataset import DataError, Dataset, Picture, ReadOptions, readable

Array = NDArray[Any]
Size = tuple[int, int]

SMALLEST, LARGEST = 8, 128  # pixels a side of pictures whose patches have codes by default
_SIDE = 300  # pixels of the longer side of a photograph as it is used
_THUMBNAIL = 96
_KEPT = 1 << 28  # bytes of pixels in memory; beyond them files are read again
_SMALL = 0.05  # share of the pictures that may be too small for a patch
_ENOUGH = 5000  # pictures that the principal components are learned from
_SQUEEZE = 0.02  # a change of proportions up to this share is not reported
_PARTS = {"train", "training", "test", "testing", "val", "valid", "validation", "new"}
_ENDINGS = ", ".join(sorted(SUFFIXES))
_FEATURES = "photographs of things and places are better described by --pictures photographs"
# what --set gives to sparlow features
CHOICES = ("n_components", "descriptor", "patch", "step", "n_words", "coding", "random_state")


@dataclass(frozen=True)
class Pictures:
    """Picture files that can be used, and the names of those that were left out."""

    files: tuple[Picture, ...]
    skipped: tuple[str, ...]
    source: str

    def __len__(self) -> int:
        return len(self.files)

    def take(self, rows: Array) -> Pictures:
        """Return some of the pictures."""
        return replace(self, files=tuple(self.files[row] for row in rows))

    @property
    def sizes(self) -> list[Size]:
        """Return height and width of the files."""
        return [picture.size for picture in self.files]

    @property
    def images(self) -> list[Any]:
        """Return grey values in memory, or paths."""
        return [picture.file if picture.pixels is None else _grey(picture.pixels) for picture in self.files]

    @property
    def paths(self) -> list[pathlib.Path]:
        """Return the files."""
        return [picture.file for picture in self.files]

    @property
    def coloured(self) -> bool:
        """Return whether some have colours."""
        return any(picture.coloured for picture in self.files)

    def pixels(self, how: ReadOptions) -> Array:
        """Return the pixels of pictures of one size (n, height, width), with a fourth axis where colours count."""
        height, width = self.files[0].used
        odd = next((picture for picture in self.files if picture.used != (height, width)), None)
        if odd is not None:
            sides, first = (f"{size[0]}x{size[1]}" for size in (odd.size, self.files[0].size))
            raise DataError(
                f"{odd.file} is {sides}, the first picture {first}: name a common size, for instance --size 32x32; "
                f"{_FEATURES}."
            )
        squeezed = sum(abs(h * width / (w * height) - 1) > _SQUEEZE for h, w in self.sizes)
        if squeezed:
            warn(
                f"{self.source}: {squeezed} of {len(self)} pictures have other proportions than {height}x{width}, to "
                f"which they were squeezed; {_FEATURES}."
            )
        if height * width > LARGEST**2:
            warn(
                f"{self.source}: pictures of {height}x{width} are {height * width} numbers each, which takes time: "
                f"--size 64x64 is less; {_FEATURES}."
            )
        kind = _channels if how.colours and self.coloured else _grey
        parts = [kind(picture.pixels) for picture in self.files]
        return np.array([part / 255.0 if part.dtype == np.uint8 else part.astype(float) for part in parts])

    def dataset(self, X: Array, how: ReadOptions, described: bool = False) -> Dataset:
        """Return pixels or features of these pictures as samples; equal files are equal samples."""
        folders = [picture.folders for picture in self.files]
        if how.groups == "folders" and not all(len(names) > 1 for names in folders):
            raise DataError(f"{self.source}: --groups folders is for pictures in folders below those of classes.")
        used = how.colours if described else X.ndim == 4
        return Dataset(
            np.ascontiguousarray(X.reshape(len(X), -1)),
            np.array([(*names, "")[0] for names in folders]) if any(folders) and how.labels is None else None,
            None if described else tuple(int(side) for side in X.shape[1:]),
            names=tuple(picture.name for picture in self.files),
            source=self.source,
            rows=np.array([picture.digest for picture in self.files]),
            pictures=self.files,
            described=described,
            coloured=self.coloured and not used,
            groups=np.array(["/".join(names) for names in folders]) if how.groups == "folders" else None,
        )


def _grey(pixels: Any) -> Array:
    """Return grey values of pixels."""
    import PIL.Image

    return pixels if pixels.ndim == 2 else np.asarray(PIL.Image.fromarray(pixels).convert("L"))


def _channels(pixels: Any) -> Array:
    """Return three channels of pixels; grey ones have them equal."""
    return pixels if pixels.ndim == 3 else np.repeat(pixels[:, :, None], 3, axis=2)


def holds_pictures(path: pathlib.Path) -> bool:
    """Return whether a path is a folder, or a single picture."""
    return path.is_dir() or is_picture(path, path.parent)


def _found(path: pathlib.Path) -> list[tuple[pathlib.Path, tuple[str, ...]]]:
    """Return the pictures of a folder, or one picture, with their paths within it."""
    if not path.exists():
        raise DataError(f"There is no folder or picture {path}.")
    files = find_pictures(path)
    if not files and path.is_dir():
        raise DataError(
            f"{path} holds no pictures ({_ENDINGS}), nor do its sub-folders: expected a sub-folder for each class."
        )
    if not files:
        raise DataError(f"{path} is neither a folder nor a picture ({_ENDINGS}).")
    home = path if path.is_dir() else path.parent
    return [(file, tuple(map(readable, file.relative_to(home).parts))) for file in files]


def look_at(paths: Iterable[pathlib.Path], how: ReadOptions, least: int = 0, classes: bool = False) -> Pictures:
    """Read every picture of a folder, or pictures, so that those that cannot be used are named before the work begins.

    The shorter side must have ``least`` pixels. Where only ``classes`` count, pictures beside sub-folders are left out.
    """
    paths = list(paths)
    found = [entry for path in paths for entry in _found(path)]
    source = readable(str(paths[0])) + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
    if len(paths) == 1 and paths[0].is_dir():
        _check_depth([parts[:-1] for _, parts in found], paths[0], how)
    beside = [parts[0] for _, parts in found if len(parts) == 1]
    if classes and len(beside) < len(found):
        if beside:
            many = "1 picture" if len(beside) == 1 else f"{len(beside)} pictures"
            warn(f"{many} beside the sub-folders left out (first: {beside[0]}).")
        found = [entry for entry in found if len(entry[1]) > 1]
    keep = len(found) * _SIDE**2 <= _KEPT or how.whole or how.size is not None

    def look(entry: tuple[pathlib.Path, tuple[str, ...]]) -> Picture | str:
        try:
            picture = _picture(*entry, how, keep)
        except (UnreadableImageError, OSError) as error:
            return str(error)
        if min(picture.used) >= least:
            return picture
        (height, width), scaled = picture.size, f" when scaled to {_SIDE}" * (picture.used != picture.size)
        return (
            f"Cannot use the image {picture.file}: it is {width} × {height} pixels, too small for a patch of "
            f"{least}{scaled}. Enlarge it, or learn with a smaller patch."
        )

    with Threads(how.n_jobs) as threads:
        looked = list(threads.map(look, found))
    broken = {str(entry[0]): reason for entry, reason in zip(found, looked, strict=True) if isinstance(reason, str)}
    if broken and not how.skip:
        raise DataError(_said_of_unreadable(broken))
    for reason in broken.values():
        warn(f"left out: {reason}")
    good = tuple(picture for picture in looked if not isinstance(picture, str))
    if not good:
        raise DataError(f"None of the {len(found)} pictures in {source} can be read.")
    return Pictures(good, tuple(broken), source)


class _Content:
    """The content of a file, under its name."""

    def __init__(self, file: pathlib.Path) -> None:
        self.file, self.content = file, file.read_bytes()
        if not self.content:
            raise UnreadableImageError(f"Cannot use the image {file}: the file is empty.")

    def __str__(self) -> str:
        return str(self.file)

    def read_bytes(self) -> bytes:
        """Return the content."""
        return self.content


def _picture(file: pathlib.Path, parts: tuple[str, ...], how: ReadOptions, keep: bool) -> Picture:
    """Return a picture, decoded once."""
    import PIL.Image

    content = _Content(file)
    sized = how.whole or how.size is not None
    one = decoded(content, None if sized else _SIDE)
    pixels = one.levels
    if one.colours is not None and how.colours and (sized or max(one.size) <= LARGEST):
        pixels = one.colours
    height, width = how.size[:2] if how.size is not None else one.levels.shape
    used = height, width
    if pixels.shape[:2] != used:
        channels = [resized(channel, used) for channel in np.atleast_3d(pixels).transpose(2, 0, 1)]
        pixels = np.stack(channels, axis=2) if pixels.ndim == 3 else channels[0]
    seen = one.levels if one.colours is None else one.colours
    small = PIL.Image.fromarray(seen if seen.dtype == np.uint8 else np.rint(255 * seen).astype(np.uint8))
    small.thumbnail((_THUMBNAIL, _THUMBNAIL))
    digest = np.frombuffer(hashlib.blake2b(content.content, digest_size=16).digest(), np.uint8)
    held = pixels if keep or max(used) <= LARGEST else None
    thumbnail = np.asarray(small.convert("RGB"))
    return Picture(file, "/".join(parts), parts[:-1], one.size, used, digest, one.colours is not None, held, thumbnail)


def _said_of_unreadable(broken: dict[str, str]) -> str:
    """Return one message about pictures that cannot be read: why of the first, and the names of the others."""
    first, *others = broken
    more = f" and {len(others) - 20} more" if len(others) > 20 else ""
    told = f" Nor can {', '.join(others[:20])}{more} be read." * bool(others)
    return f"{broken[first].rstrip('.')}.{told} With --skip such pictures are left out."


def _check_depth(folders: list[tuple[str, ...]], home: pathlib.Path, how: ReadOptions) -> None:
    """Refuse parts of a set (train, test) in place of its classes; warn where all pictures lie two folders deep."""
    if not all(len(names) > 1 for names in folders):
        return
    first = sorted({names[0] for names in folders}, key=lambda name: (not name.lower().startswith("train"), name))
    if len(first) > 1 and all(name.lower() in _PARTS for name in first):
        raise DataError(
            f"{home} holds parts of a set ({', '.join(first)}), not its classes: name one, {home / first[0]}."
        )
    if how.groups is None:
        warn(
            f"{home}: pictures lie in folders of {' and '.join(first[:2])}{' and others' * (len(first) > 2)}, which "
            f"are taken to be the classes. If these are parts of the set, name one of them: {home / first[0]}. If the "
            "inner folders are groups, such as persons, say --groups folders."
        )


def unlike(pictures: Pictures) -> str:
    """Return how pictures differ from those of one small size: the first that does where most have one size."""
    (usual, count), *others = collections.Counter(pictures.sizes).most_common()
    if not others:
        return f"have more than {LARGEST} pixels a side" if max(usual) > LARGEST else ""
    if 2 * count <= len(pictures):
        return "differ in size"
    first = next(picture for picture in pictures.files if picture.size != usual)
    height, width = first.size
    return f"differ in size ({first.name} has {width} × {height} pixels, most have {usual[1]} × {usual[0]})"


# ── features ────────────────────────────────────────────────────────────────────────────────────────────────────────


def takes_pictures(steps: Pipeline | None) -> bool:
    """Return whether a pipeline begins with pictures, not with rows."""
    return steps is not None and len(steps) > 0 and not get_tags(steps[0]).input_tags.two_d_array


def least_side(steps: Pipeline) -> int:
    """Return the shortest side that a picture may have for a pipeline."""
    return int(np.min(getattr(steps[0], "patch", 1)))


def recipe(pictures: Pictures, settings: dict[str, Any], network: str | None = None, **run: Any) -> Pipeline:
    """Return steps that learn features of pictures, or those of a network; patches are no larger than half of them."""
    if network is not None:
        return Pipeline([("network", Network(network, **run))])
    settings = {"coding": "fisher", "random_state": 0, **settings}
    if settings.get("patch") is None:
        usual = PATCHES["fisher" if settings["coding"] == "fisher" else settings.get("descriptor", "sift")]
        shortest = np.quantile([min(picture.used) for picture in pictures.files], _SMALL)
        settings["patch"] = [side for side in usual if 2 * side <= shortest] or usual[:1]
    return pyramid_features(**settings, **run)


@dataclass(frozen=True)
class Features:
    """Features learned from pictures: the fitted steps, the rows, and the rows before they were reduced."""

    pipeline: Pipeline
    X: Array
    pyramids: Any
    asked: int | None = None  # components

    @property
    def anew(self) -> Callable[[Array, Array], tuple[Array, Array]] | None:
        """Return what gives rows of two parts, by components of the first alone; None where there are none."""
        steps = self.pipeline[_before(self.pipeline) :]
        return self._parts if len(steps) else None

    def _parts(self, rest: Array, held: Array) -> tuple[Array, Array]:
        steps = _fitted(clone(self.pipeline[_before(self.pipeline) :]), self.pyramids[rest], self.asked)
        return _dense(steps.transform(self.pyramids[rest])), _dense(steps.transform(self.pyramids[held]))


def _before(steps: Pipeline) -> int:
    """Return the place of the first step that reduces features."""
    return list(steps.named_steps).index("components") if "components" in steps.named_steps else len(steps)


def _fitted(reduction: Pipeline, rows: Any, asked: int | None) -> Pipeline:
    """Return principal components of at most 5000 rows: two thirds as many as rows, at most 1000, unless asked for."""
    if len(reduction):
        n, width = rows.shape
        count = min(asked or max(min(2 * n // 3, 1000), 1), n - 1, width)
        reduction[0].set_params(n_components=count)
        part = np.random.RandomState(0).permutation(n)[: max(_ENOUGH, count + 1)]
        reduction.fit(rows[np.sort(part)])
    return reduction


def _dense(rows: Any) -> Array:
    """Return rows as an array in single precision."""
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, np.float32)


def learn(pictures: Pictures, steps: Pipeline) -> Features:
    """Learn features from pictures, or compute the vectors of a network, which learns nothing."""
    place = _before(steps)
    if len(pictures) < 2 and place < len(steps):
        raise DataError(
            f"{pictures.files[0].file}: nothing can be learned from one picture. Give more, --like what was learned "
            "from others, or --set n_components=0."
        )
    rows = steps[:place].fit_transform(pictures.paths if "network" in steps.named_steps else pictures.images)
    rows = rows.tocsr() if hasattr(rows, "tocsr") else rows
    asked = steps[place].n_components if place < len(steps) else None
    reduction = _fitted(steps[place:], rows, asked)
    return Features(steps, _dense(reduction.transform(rows) if len(reduction) else rows), rows, asked)


def describe(pictures: Pictures, learned: Pipeline, **run: Any) -> Array:
    """Return the rows of pictures by what was learned from others."""
    _set(learned, run)
    reduced = getattr(learned[0], "max_side", None) == _SIDE
    return _dense(learned.transform(pictures.images if reduced else pictures.paths))


def _set(steps: Pipeline, values: dict[str, Any]) -> None:
    """Set parameters of all steps that have them."""
    for _, step in steps.steps:
        known = inspect.signature(type(step)).parameters
        step.set_params(**{name: value for name, value in values.items() if name in known})


def at_rest(learned: Pipeline) -> Pipeline:
    """Return what was learned without what belongs to this run: threads, progress, caches."""
    _set(learned, {"n_jobs": None, "verbose": 0, "memory": None})
    return learned


def digest_of(learned: Pipeline) -> str:
    """Return a digest of what was learned."""
    steps = [vars(step) for _, step in at_rest(learned).steps]
    state = [{name: value for name, value in step.items() if name[0] != "_"} for step in steps]
    return str(joblib.hash(state))[:16]
