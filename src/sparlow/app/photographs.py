"""Pictures of any size: look at them all first, learn features from them, describe them by what was learned."""

from __future__ import annotations

import collections
import hashlib
import pathlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from ..images.pipelines import PATCHES
from ..images.reading import UnreadableImageError, read_levels
from ..messages import warn
from ..parallel import Threads
from .dataset import DataError, Dataset, readable
from .readers import pictures_with_classes, say_unreadable, some_coloured
from .terminal import Terminal

Array = NDArray[Any]
Size = tuple[int, int]

STAGES = ("descriptors", "codebook", "pyramid")
LARGEST = 128  # pixels a side of pictures whose pixels are the samples
_SIDE = 300  # pixels of the longer side of a picture as it is used
_OF_A_RUN = ("on_error", "n_jobs", "verbose", "memory", "model", "batch_size")
_ENOUGH = 5000  # pictures that the principal components are learned from
_SMALL = 0.05  # share of the pictures that may be too small for a patch


@dataclass(frozen=True)
class Recipe:
    """How features of pictures are learned.

    Parameters
    ----------
    descriptor : {"sift", "dhog"}
        Kind of local descriptors.
    patch : tuple of int, optional
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
    patch: tuple[int, ...] | None = None
    step: int | None = None
    words: int | None = None
    coding: str = "fisher"
    components: int | None = None
    seed: int = 0
    network: str | None = None

    def patches(self, sizes: Sequence[Size]) -> tuple[int, ...]:
        """Return the sides of the patches that commands take for photographs of these sizes."""
        if self.patch is not None:
            return self.patch
        usual = PATCHES["fisher" if self.coding == "fisher" else self.descriptor]
        shortest = np.quantile([min(size) for size in sizes], _SMALL) if sizes else usual[-1]
        return tuple(side for side in usual if 2 * side <= shortest) or usual[:1]


@dataclass(frozen=True)
class Pictures:
    """Picture files that can be used.

    Parameters
    ----------
    files : tuple of Path
        Where they are.
    names : tuple of str
        Their paths within the folder.
    y : array of shape (n,), optional
        Their classes: the sub-folders that they lie in.
    sizes : tuple of (int, int)
        Height and width as they are used.
    skipped : tuple of str
        Pictures that were left out.
    source : str
        The folder or file.

    """

    files: tuple[pathlib.Path, ...]
    names: tuple[str, ...]
    y: Array | None
    sizes: tuple[Size, ...]
    skipped: tuple[str, ...]
    source: str

    def take(self, rows: Array) -> Pictures:
        """Return some of the pictures."""
        return Pictures(
            tuple(self.files[row] for row in rows),
            tuple(self.names[row] for row in rows),
            None if self.y is None else self.y[rows],
            tuple(self.sizes[row] for row in rows),
            (),
            self.source,
        )

    def dataset(self, X: Array, colours: bool = False) -> Dataset:
        """Return the rows of these pictures, made with their colours or without; equal files are equal samples."""
        digests = [hashlib.blake2b(file.read_bytes(), digest_size=16).digest() for file in self.files]
        marks = np.array([np.frombuffer(digest, np.uint8) for digest in digests])
        return Dataset(X, self.y, names=self.names, source=self.source, rows=marks, files=self.files,
                       coloured=not colours and some_coloured(self.files))  # fmt: skip


def look_at(path: pathlib.Path, *, skip: bool, n_jobs: int | None, classes: bool = True, least: int = 0) -> Pictures:
    """Decode every picture of a folder once, so that those that cannot be used are all named before the work begins.

    Parameters
    ----------
    path : Path
        A folder, or one picture.
    skip : bool
        Leave out pictures that cannot be used, with a warning for each; otherwise they are an error.
    n_jobs : int, optional
        Threads.
    classes : bool, default=True
        Whether classes matter: then pictures beside sub-folders are left out, with a warning.
    least : int, default=0
        Pixels that the shorter side must have.

    """
    files, labels = pictures_with_classes(path)
    if classes and any(labels):
        beside = [file for file, label in zip(files, labels, strict=True) if not label]
        if beside:
            many = "1 picture" if len(beside) == 1 else f"{len(beside)} pictures"
            warn(f"{many} beside the sub-folders left out (first: {beside[0].name}).")
        files = [file for file, label in zip(files, labels, strict=True) if label]
        labels = [label for label in labels if label]

    def size_of(file: pathlib.Path) -> Size | str:
        try:
            height, width = read_levels(file, _SIDE)[0].shape
        except UnreadableImageError as error:
            return str(error)
        if min(height, width) < least:
            return (
                f"Cannot use the image {file}: it is {width} × {height} pixels as it is used, too small for a patch of "
                f"{least}. Enlarge it, or learn with a smaller patch."
            )
        return height, width

    with Threads(n_jobs) as threads:
        found = list(threads.map(size_of, files))
    home = path if path.is_dir() else path.parent
    kept = [place for place, size in enumerate(found) if not isinstance(size, str)]
    broken = [size for size in found if isinstance(size, str)]
    if broken and not skip:
        raise DataError(say_unreadable(broken))
    for reason in broken:
        warn(f"left out: {reason}")
    if not kept:
        raise DataError(f"None of the {len(files)} pictures in {path} can be read.")
    words = [labels[place] for place in kept]
    return Pictures(
        tuple(files[place] for place in kept),
        tuple(readable(files[place].relative_to(home).as_posix()) for place in kept),
        np.array(words) if any(words) else None,
        tuple(size for size in found if not isinstance(size, str)),
        tuple(str(files[place]) for place, size in enumerate(found) if isinstance(size, str)),
        readable(str(path)),
    )


def photographs_in(arguments: Any, terminal: Terminal) -> Pictures | None:
    """Return the pictures of a folder if features are to be learned from them; None if their pixels are the samples."""
    path = pathlib.Path(arguments.data)
    if arguments.kind != "photographs" and arguments.network is None:
        if arguments.kind is not None or arguments.size is not None or arguments.shifts is not None:
            return None
        if not path.is_dir():
            return None
    elif arguments.size is not None or arguments.shifts is not None or arguments.standardize is not None:
        option = "--photographs" if arguments.network is None else "--network"
        raise DataError(f"{option} takes pictures as they are: --size, --shifts and --standardize do not go with it.")
    terminal.stage(f"reading the pictures in {path}")
    pictures = look_at(path, skip=arguments.skip, n_jobs=arguments.jobs, classes=False)
    sizes = {*pictures.sizes}
    if arguments.network is not None:
        return pictures
    if arguments.kind is None:
        if len(sizes) == 1 and max(pictures.sizes[0]) <= LARGEST:
            return None
        why = _unlike(pictures) if len(sizes) > 1 else f"have more than {LARGEST} pixels a side"
        terminal.tell(f"the pictures {why}: features are learned first (--size HxW: pixels, scaled to one size)")
    least = min(Recipe().patches(pictures.sizes))
    if any(min(size) < least for size in sizes):
        return look_at(path, skip=arguments.skip, n_jobs=arguments.jobs, classes=False, least=least)
    return pictures


def _unlike(pictures: Pictures) -> str:
    """Return that pictures differ in size, with the first that does where most have one size."""
    (usual, count), *_ = collections.Counter(pictures.sizes).most_common()
    if 2 * count <= len(pictures.sizes):
        return "differ in size"
    first = next(place for place, size in enumerate(pictures.sizes) if size != usual)
    height, width = pictures.sizes[first]
    return f"differ in size ({pictures.names[first]} has {width} × {height} pixels, most have {usual[1]} × {usual[0]})"


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
        parts = (self.pyramids[rest], self.pyramids[held])
        return tuple(_reduced(reduction, part) for part in parts)  # type: ignore[return-value]


def learn(pictures: Pictures, recipe: Recipe, **run: Any) -> Features:
    """Learn features from pictures, or compute the vectors of a network, which learns nothing."""
    from ..images import Network, pyramid_features

    if recipe.network is not None:
        whole = Pipeline([("network", Network(recipe.network, **run))])
        rows = whole.fit_transform(pictures.files)
        return Features(whole, rows, rows, replace(recipe, components=0))

    stages = pyramid_features(
        0,
        descriptor=recipe.descriptor,
        patch=recipe.patches(pictures.sizes),
        step=recipe.step,
        n_words=recipe.words,
        coding=recipe.coding,
        random_state=recipe.seed,
        **run,
    )
    rows = stages.fit_transform(pictures.files)
    rows = rows.tocsr() if hasattr(rows, "tocsr") else rows
    reduction = _reduction(rows, recipe)
    return Features(Pipeline([*stages.steps, *reduction]), _reduced(reduction, rows), rows, recipe)


def describe(pictures: Pictures, learned: Pipeline, **run: Any) -> Array:
    """Return the rows of pictures by what was learned from others."""
    value: Any = pictures.files
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
        raise DataError("One picture that can be read has no principal components: give more, or --components 0.")
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
    for _, step in learned.steps:
        known = step.get_params()
        rest = {"n_jobs": None, "verbose": 0, "memory": None}
        step.set_params(**{name: value for name, value in rest.items() if name in known})
    return learned
