"""Pictures: each file is read once, before the work begins, and becomes pixels or features."""

from __future__ import annotations

import collections
import hashlib
import pathlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from ..images.pipelines import PATCHES
from ..images.reading import (
    SUFFIXES,
    UnreadableImageError,
    decoded,
    find_pictures,
    is_picture,
    resized,
)
from ..messages import warn
from ..parallel import Threads
from .dataset import DataError, Dataset, Picture, ReadOptions, readable

Array = NDArray[Any]
Size = tuple[int, int]

STAGES = ("descriptors", "codebook", "pyramid")
SMALLEST, LARGEST = 8, 128  # pixels a side of pictures whose patches have codes by default
_SIDE = 300  # pixels of the longer side of a photograph as it is used
_THUMBNAIL = 96
_KEPT = 1 << 28  # bytes of pixels in memory; beyond them files are read again
_OF_A_RUN = ("on_error", "n_jobs", "verbose", "memory", "model", "batch_size")
_ENOUGH = 5000  # pictures that the principal components are learned from
_SMALL = 0.05  # share of the pictures that may be too small for a patch
_SQUEEZE = 0.02  # a change of proportions up to this share is not reported
_PARTS = {"train", "training", "test", "testing", "val", "valid", "validation", "new"}
_FEATURES = "photographs of things and places are better described by --pictures photographs"


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
    def used(self) -> list[Size]:
        """Return height and width as pictures are used."""
        return [picture.used for picture in self.files]

    @property
    def images(self) -> list[Any]:
        """Return what steps of ``sparlow.images`` take: pixels in memory, or paths."""
        return [picture.file if picture.pixels is None else _grey(picture.pixels) for picture in self.files]

    @property
    def paths(self) -> list[pathlib.Path]:
        """Return the files."""
        return [picture.file for picture in self.files]

    @property
    def are_small(self) -> bool:
        """Return whether all have one size whose patches have codes by default."""
        return len({*self.sizes}) == 1 and max(self.sizes[0]) <= LARGEST

    @property
    def coloured(self) -> bool:
        """Return whether some have colours."""
        return any(picture.coloured for picture in self.files)

    def pixels(self, how: ReadOptions) -> Array:
        """Return the pixels (n, height, width) of pictures of one size, or (n, height, width, 3) where colours count."""
        first = self.files[0]
        for picture in self.files:
            if picture.used != first.used:
                raise DataError(
                    f"{picture.file} is {_sides(picture.size)}, the first picture {_sides(first.size)}: name a common "
                    f"size, for instance --size 32x32; {_FEATURES}."
                )
        height, width = first.used
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
        if how.colours and self.coloured:
            return np.array([_scaled(_channels(picture.pixels)) for picture in self.files])
        return np.array([_scaled(_grey(picture.pixels)) for picture in self.files])

    def dataset(self, X: Array, how: ReadOptions, described: bool = False) -> Dataset:
        """Return pixels or features of these pictures as samples; equal files are equal samples."""
        labels = [picture.folders[0] if picture.folders else "" for picture in self.files]
        groups = None
        if how.groups == "folders":
            groups = np.array(["/".join(picture.folders) for picture in self.files])
            how = replace(how, groups=None)
        used = how.colours if described else X.ndim == 4
        return Dataset(
            np.ascontiguousarray(X.reshape(len(X), -1)),
            np.array(labels) if any(labels) and how.labels is None else None,
            None if described else tuple(int(side) for side in X.shape[1:]),
            names=tuple(picture.name for picture in self.files),
            source=self.source,
            rows=np.array([picture.digest for picture in self.files]),
            pictures=self.files,
            described=described,
            coloured=self.coloured and not used,
            groups=groups,
        )


def _sides(size: Size) -> str:
    """Return height and width as text."""
    return f"{size[0]}x{size[1]}"


def _grey(pixels: Any) -> Array:
    """Return grey values of pixels: of colours as Pillow does."""
    import PIL.Image

    return pixels if pixels.ndim == 2 else np.asarray(PIL.Image.fromarray(pixels).convert("L"))


def _channels(pixels: Any) -> Array:
    """Return three channels of pixels; grey ones have them equal."""
    return pixels if pixels.ndim == 3 else np.repeat(pixels[:, :, None], 3, axis=2)


def _scaled(pixels: Array) -> Array:
    """Return values from 0 to 1."""
    return pixels / 255.0 if pixels.dtype == np.uint8 else pixels.astype(float)


def holds_pictures(path: pathlib.Path) -> bool:
    """Return whether a path is a folder, or a single picture."""
    return path.is_dir() or is_picture(path, path.parent)


def _found(path: pathlib.Path) -> list[tuple[pathlib.Path, str, tuple[str, ...]]]:
    """Return the pictures of a folder, or one picture, with their names and the folders that they lie in."""
    if not path.exists():
        raise DataError(f"There is no folder or picture {path}.")
    files = find_pictures(path)
    if not files:
        raise DataError(
            f"{path} holds no pictures ({', '.join(sorted(SUFFIXES))}), nor do its sub-folders: expected a sub-folder "
            "for each class."
            if path.is_dir()
            else f"{path} is neither a folder nor a picture ({', '.join(sorted(SUFFIXES))})."
        )
    home = path if path.is_dir() else path.parent
    parts = [tuple(readable(part) for part in file.relative_to(home).parts) for file in files]
    return [(file, "/".join(part), part[:-1]) for file, part in zip(files, parts, strict=True)]


def look_at(paths: Iterable[pathlib.Path], how: ReadOptions, least: int = 0, classes: bool = False) -> Pictures:
    """Read every picture once, so that those that cannot be used are all named before the work begins.

    Parameters
    ----------
    paths : paths
        A folder, or pictures.
    how : ReadOptions
        Size, colours, what to do with pictures that cannot be read, threads.
    least : int, default=0
        Pixels that the shorter side must have.
    classes : bool, default=False
        Leave out pictures beside sub-folders, with a warning.

    """
    paths = list(paths)
    found = [entry for path in paths for entry in _found(path)]
    source = readable(str(paths[0])) + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
    if len(paths) == 1 and paths[0].is_dir():
        _check_depth([folders for _, _, folders in found], paths[0], how)
    if classes and any(folders for *_, folders in found):
        beside = [name for _, name, folders in found if not folders]
        if beside:
            many = "1 picture" if len(beside) == 1 else f"{len(beside)} pictures"
            warn(f"{many} beside the sub-folders left out (first: {beside[0]}).")
        found = [entry for entry in found if entry[2]]
    kept = len(found) * _SIDE**2 <= _KEPT or how.whole or how.size is not None

    def look(entry: tuple[pathlib.Path, str, tuple[str, ...]]) -> Picture | str:
        try:
            picture = _picture(*entry, how, kept)
        except (UnreadableImageError, OSError) as error:
            return str(error)
        if min(picture.used) < least:
            height, width = picture.size
            return (
                f"Cannot use the image {picture.file}: it is {width} × {height} pixels, too small for a patch of "
                f"{least}{'' if picture.used == picture.size else f' when scaled to {_SIDE}'}. Enlarge it, or learn "
                "with a smaller patch."
            )
        return picture

    with Threads(how.n_jobs) as threads:
        looked = list(threads.map(look, found))
    broken = [picture for picture in looked if isinstance(picture, str)]
    if broken and not how.skip:
        raise DataError(_said_of_unreadable(broken))
    for reason in broken:
        warn(f"left out: {reason}")
    good = tuple(picture for picture in looked if not isinstance(picture, str))
    if not good:
        raise DataError(f"None of the {len(found)} pictures in {source} can be read.")
    skipped = tuple(str(entry[0]) for entry, picture in zip(found, looked, strict=True) if isinstance(picture, str))
    return Pictures(good, skipped, source)


def _picture(file: pathlib.Path, name: str, folders: tuple[str, ...], how: ReadOptions, kept: bool) -> Picture:
    """Return a picture, decoded."""
    content = _Content(str(file), file.read_bytes())
    if not content.read_bytes():
        raise UnreadableImageError(f"Cannot use the image {file}: the file is empty.")
    one = decoded(content, None if how.whole or how.size is not None else _SIDE)
    coloured = one.colours is not None
    sized = how.whole or how.size is not None or max(one.size) <= LARGEST
    pixels = one.colours if one.colours is not None and how.colours and sized else one.levels
    used = how.size[:2] if how.size is not None else one.levels.shape
    if pixels.shape[:2] != used:
        channels = [resized(channel, used) for channel in np.atleast_3d(pixels).transpose(2, 0, 1)]
        pixels = np.stack(channels, axis=2) if pixels.ndim == 3 else channels[0]
    digest = np.frombuffer(hashlib.blake2b(content.read_bytes(), digest_size=16).digest(), np.uint8)
    seen = one.levels if one.colours is None else one.colours
    held = pixels if kept or max(used) <= LARGEST else None
    return Picture(file, name, folders, one.size, used, digest, coloured, held, _thumbnail(seen))


@dataclass(frozen=True)
class _Content:
    """The content of a file, under its name."""

    name: str
    content: bytes

    def __str__(self) -> str:
        return self.name

    def read_bytes(self) -> bytes:
        """Return the content."""
        return self.content


def _thumbnail(pixels: Array) -> Array:
    """Return colours of a picture, its longer side at most 96 pixels."""
    import PIL.Image

    levels = pixels if pixels.dtype == np.uint8 else np.rint(255 * pixels).astype(np.uint8)
    small = PIL.Image.fromarray(levels)
    small.thumbnail((_THUMBNAIL, _THUMBNAIL))
    return np.asarray(small.convert("RGB"))


def _said_of_unreadable(reasons: Sequence[str]) -> str:
    """Return one message about pictures that cannot be read: why of the first, and the names of the others."""
    others = [reason.removeprefix("Cannot use the image ").split(": ")[0] for reason in reasons[1:]]
    told = f" Nor can {', '.join(others[:20])}{f' and {len(others) - 20} more' if len(others) > 20 else ''} be read."
    return f"{reasons[0].rstrip('.')}.{told if others else ''} With --skip such pictures are left out."


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
    """Return that pictures differ in size, with the first that does where most have one size."""
    (usual, count), *_ = collections.Counter(pictures.sizes).most_common()
    if 2 * count <= len(pictures):
        return "differ in size"
    first = next(picture for picture in pictures.files if picture.size != usual)
    height, width = first.size
    return f"differ in size ({first.name} has {width} × {height} pixels, most have {usual[1]} × {usual[0]})"


# ── features ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Recipe:
    """How features of pictures are learned.

    Parameters
    ----------
    descriptor : {"sift", "dhog"}
        Kind of local descriptors.
    patch : int or tuple of int, optional
        Sides of the patches in pixels; by default three, of which those above half of the shorter side are left out.
    step : int, optional
        Distance of neighbouring patches in pixels; by default 5 for "fisher" and 8 for the others.
    words : int, optional
        Size of the codebook, by default 32 for "fisher" and 1024 for the others.
    coding : {"fisher", "llc", "hard", "sparse", "laplacian"}
        How descriptors are coded.
    components : int, optional
        Number of principal components; 0 for none, by default two thirds as many as pictures, at most 1000.
    seed : int
        Of sampling, k-means and components.
    network : str, optional
        An ONNX file: vectors of a pretrained network, in place of all above.

    """

    descriptor: str = "sift"
    patch: int | tuple[int, ...] | None = None
    step: int | None = None
    words: int | None = None
    coding: str = "fisher"
    components: int | None = None
    seed: int = 0
    network: str | None = None

    def __post_init__(self) -> None:
        whole = {"step": 1, "words": 2, "components": 0, "seed": 0}
        for name, least in whole.items():
            value = getattr(self, name)
            if value is not None and not (type(value) is int and value >= least):
                raise DataError(f"{name} must be a whole number of at least {least}, got {value!r}.")
        sides = self.patch if isinstance(self.patch, (tuple, list)) else (self.patch,) * (self.patch is not None)
        if not all(type(side) is int and side >= 4 for side in sides):
            raise DataError(f"patch must be whole numbers of at least 4, got {self.patch!r}.")
        object.__setattr__(self, "patch", tuple(sides) or None)

    def patches(self, sizes: Sequence[Size]) -> tuple[int, ...]:
        """Return the sides of the patches for photographs of these sizes, as they are used."""
        if self.patch is not None:
            return tuple(self.patch)  # type: ignore[arg-type]
        usual = PATCHES["fisher" if self.coding == "fisher" else self.descriptor]
        shortest = np.quantile([min(size) for size in sizes], _SMALL) if sizes else usual[-1]
        return tuple(side for side in usual if 2 * side <= shortest) or usual[:1]


def takes_pictures(steps: Pipeline | None) -> bool:
    """Return whether a pipeline begins with pictures, not with rows."""
    return steps is not None and len(steps) > 0 and not get_tags(steps[0]).input_tags.two_d_array


def least_side(steps: Pipeline) -> int:
    """Return the shortest side that a picture may have for a pipeline."""
    return int(np.min(getattr(steps[0], "patch", 1)))


@dataclass(frozen=True)
class Features:
    """Features learned from pictures.

    Parameters
    ----------
    pipeline : Pipeline
        Fitted.
    X : array of shape (n, width)
        The rows of these pictures.
    pyramids : csr_array or array
        The rows before they were reduced to principal components.
    recipe : Recipe

    """

    pipeline: Pipeline
    X: Array
    pyramids: Any
    recipe: Recipe

    def without(self, rest: Array, held: Array) -> tuple[Array, Array]:
        """Return rows of two parts, by components that are learned from the first alone."""
        reduction = _reduction(self.pyramids[rest], self.recipe)
        return _reduced(reduction, self.pyramids[rest]), _reduced(reduction, self.pyramids[held])


def learn(pictures: Pictures, recipe: Recipe, **run: Any) -> Features:
    """Learn features from pictures, or compute the vectors of a network, which learns nothing."""
    from ..images import Network, pyramid_features

    if recipe.network is not None:
        whole = Pipeline([("network", Network(recipe.network, **run))])
        rows = whole.fit_transform(pictures.paths)
        return Features(whole, rows, rows, replace(recipe, components=0))
    stages = pyramid_features(
        0,
        descriptor=recipe.descriptor,
        patch=recipe.patches(pictures.used),
        step=recipe.step,
        n_words=recipe.words,
        coding=recipe.coding,
        random_state=recipe.seed,
        **run,
    )
    rows = stages.fit_transform(pictures.images)
    rows = rows.tocsr() if hasattr(rows, "tocsr") else rows
    reduction = _reduction(rows, recipe)
    return Features(Pipeline([*stages.steps, *reduction]), _reduced(reduction, rows), rows, recipe)


def describe(pictures: Pictures, learned: Pipeline, **run: Any) -> Array:
    """Return the rows of pictures by what was learned from others."""
    reduced = getattr(learned[0], "max_side", None) == _SIDE
    value: Any = pictures.images if reduced else pictures.paths
    for _, step in learned.steps:
        known = step.get_params()
        step.set_params(**{name: setting for name, setting in run.items() if name in known})
        value = step.transform(value)
    return np.asarray(value.toarray() if hasattr(value, "toarray") else value, np.float32)


def _reduced(reduction: list[tuple[str, Any]], rows: Any) -> Array:
    """Return features of pictures after the steps that reduce them."""
    for _, step in reduction:
        rows = step.transform(rows)
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, np.float32)


def _reduction(rows: Any, recipe: Recipe) -> list[tuple[str, Any]]:
    """Return principal components of the rows, scaled to unit norm; nothing if none are asked for."""
    from sklearn.preprocessing import Normalizer

    from ..images import PrincipalComponents

    n, width = rows.shape
    if recipe.components == 0:
        return []
    if n < 2:
        raise DataError("One picture that can be read has no principal components: give more, or components=0.")
    count = min(recipe.components or max(min(2 * n // 3, 1000), 1), n - 1, width)
    part = np.sort(np.random.RandomState(recipe.seed).permutation(n)[: max(_ENOUGH, count + 1)])
    return [("components", PrincipalComponents(count).fit(rows[part])), ("norm", Normalizer())]


def digest_of(learned: Pipeline) -> str:
    """Return a digest of descriptors, codebook and components."""
    stages, digest = learned.named_steps, hashlib.sha256()
    for stage in (stage for name, stage in stages.items() if name in (*STAGES, "network")):
        choices = {name: value for name, value in stage.get_params().items() if name not in _OF_A_RUN}
        digest.update(f"{type(stage).__name__} {sorted(choices.items())}".encode())
    axes = stages.get("components")
    first = stages["network"].model_ if "network" in stages else stages["codebook"].words_
    for array in (first, *(() if axes is None else (axes.mean_, axes.components_))):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def at_rest(learned: Pipeline) -> Pipeline:
    """Return what was learned without what belongs to this run: threads, progress, caches."""
    rest = {"n_jobs": None, "verbose": 0, "memory": None}
    for _, step in learned.steps:
        known = step.get_params()
        step.set_params(**{name: value for name, value in rest.items() if name in known})
    return learned
