"""``sparlow features FOLDER -o FILE``."""

from __future__ import annotations

import argparse
import hashlib
import pathlib
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from ...models import ModelFile, ModelFileError, load_file, save, skops_io
from ..arguments import SEED, threads, whole
from ..dataset import DataError, readable
from ..outputs import writable, write_npz
from ..readers import pictures_with_classes, say_unreadable
from ..terminal import INTERRUPTED, OK, Interrupts, Terminal, UserError

SUMMARY = "turn a folder of pictures into rows: dense descriptors, codebook, spatial pyramid"
EXAMPLES = """\
  sparlow features scenes/ -o scenes.npz --save scenes.features
  sparlow fit scenes.npz -o scenes.sparlow
  sparlow features new/ --like scenes.features -o new.npz
  sparlow predict scenes.sparlow new.npz -o labels.csv

FOLDER has a sub-folder for each class, or pictures alone, or is one picture. FILE is a .npz with X (rows), names
(files) and y (classes, where there are sub-folders). Codebook and components are learned from the pictures given, so
rows of two runs cannot be mixed, unless the second is made --like what the first has saved. The array features is a
digest of what made them: a model refuses rows of another."""

# what is learned and how, with its default; a saved one has it all
_CHOICES = {
    "descriptor": "sift",
    "patch": None,
    "step": 8,
    "words": 1024,
    "coding": "llc",
    "components": None,
    "seed": 0,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("folder", metavar="FOLDER", help="pictures, in a sub-folder for each class, or one")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help=".npz")
    parser.add_argument("--save", metavar="FEATURES", help="keep what was learned in a file, for new pictures")
    parser.add_argument("--like", metavar="FEATURES", help="learn nothing: rows as those of the run that saved this")
    parser.add_argument("--descriptor", choices=("sift", "dhog"), help="default: sift")
    parser.add_argument("--patch", type=whole(4), nargs="+", metavar="PIXELS", help="default: 16; for dhog 16 25 31")
    parser.add_argument("--step", type=whole(1), metavar="PIXELS", help="default: 8")
    parser.add_argument("--words", type=whole(2), metavar="N", help="size of the codebook; default: 1024")
    parser.add_argument("--coding", choices=("llc", "hard", "sparse", "laplacian"), help="default: llc")
    parser.add_argument(
        "--components",
        type=whole(0),
        metavar="N",
        help="of PCA; 0: none; default: half as many as pictures, at most 1000",
    )
    parser.add_argument("--seed", type=SEED, help="of sampling and k-means; default: 0")
    parser.add_argument("--cache", metavar="DIR", help="keep codebook and rows there: a stopped run goes on")
    parser.add_argument("--skip", action="store_true", help="leave out pictures that cannot be read, with a warning")
    parser.add_argument("--jobs", type=threads, default=-1, help="threads; default: all")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Find pictures, compute rows, write."""
    path = writable(arguments.output)
    if path.suffix.lower() != ".npz":
        raise UserError(f"{path.name}: rows are written as .npz.")
    _check_files(arguments)
    known = _known(arguments)
    files, labels = _pictures(pathlib.Path(arguments.folder), terminal)
    if len(files) == 1 and known is None and arguments.components != 0:
        raise UserError(
            f"{files[0]}: nothing can be learned from one picture. Name what was learned from others by --like, give "
            "more pictures, or --components 0."
        )
    found = _described(files, known, arguments, terminal)
    home = files[0].parent if len(files) == 1 and not labels else pathlib.Path(arguments.folder)
    names = np.array([readable(files[place].relative_to(home).as_posix()) for place in found.kept])
    arrays: dict[str, Any] = {"X": found.rows, "names": names, "features": np.array(found.learned.data["features"])}
    if labels:
        arrays["y"] = np.array(labels)[found.kept]
    with Interrupts(terminal) as interrupts:
        interrupts.hold()
        write_npz(path, arrays)
        if arguments.save is not None:
            save(_at_rest(found.learned), arguments.save)
    count, width = found.rows.shape
    payload = {"output": str(path), "n_samples": count, "width": width, "skipped": found.skipped}
    left = f", {len(found.skipped)} left out" if found.skipped else ""
    also = "" if arguments.save is None else f"; for new pictures: --like {arguments.save}"
    told = f"{count} picture{'s' if count > 1 else ''}, {width} numbers each"
    terminal.result(payload, f"{path}: {told}{left}{also}")
    return INTERRUPTED if interrupts.came else OK


def _check_files(arguments: argparse.Namespace) -> None:
    """Refuse files that cannot be written, and one file for two things, before the work begins."""
    for name in ("save", "like"):
        other = getattr(arguments, name)
        if other is not None and pathlib.Path(other).resolve() == pathlib.Path(arguments.output).resolve():
            raise UserError(f"-o and --{name} name the same file: rows and what makes them need one each.")
    if arguments.save is not None:
        writable(arguments.save)
        skops_io()


def _known(arguments: argparse.Namespace) -> ModelFile | None:
    """Return what --like names; without it give the choices that were left out their defaults."""
    if arguments.like is None:
        for name, value in _CHOICES.items():
            if getattr(arguments, name) is None:
                setattr(arguments, name, value)
        return None
    given = [f"--{name}" for name in (*_CHOICES, "save") if getattr(arguments, name) is not None]
    if given:
        raise UserError(f"{', '.join(given)}: what --like names is already learned and saved, leave this out.")
    if pathlib.Path(arguments.like).is_dir():
        raise UserError(f"{arguments.like} is a folder; --like names a file that sparlow features --save wrote.")
    try:
        known = load_file(arguments.like)
    except (ModelFileError, OSError) as error:
        raise UserError(str(error)) from error
    if "features" not in known.data or not isinstance(known.model, Pipeline):
        raise UserError(f"{arguments.like} was not written by sparlow features --save: it holds something else.")
    return known


def _pictures(folder: pathlib.Path, terminal: Terminal) -> tuple[list[pathlib.Path], list[str]]:
    """Return files and their classes; no classes where pictures lie in the folder itself."""
    try:
        files, classes = pictures_with_classes(folder)
    except DataError as error:
        raise UserError(str(error)) from error
    if not any(classes):
        return files, []
    beside = [file for file, label in zip(files, classes, strict=True) if not label]
    if beside:
        many = "1 picture" if len(beside) == 1 else f"{len(beside)} pictures"
        terminal.warn(f"{many} beside the sub-folders left out (first: {beside[0].name}).")
    return [file for file in files if file not in {*beside}], [label for label in classes if label]


_STAGES = ["descriptors", "codebook", "pyramid"]
_OF_A_RUN = ("on_error", "n_jobs", "verbose", "memory")


def _stages(known: ModelFile | None, arguments: argparse.Namespace, verbose: int) -> tuple[Any, Any, Any]:
    """Return descriptors, codebook and pyramid: those already learned, or new ones."""
    from ...images import DHOG, Codebook, DenseSIFT, SpatialPyramid

    if known is None:
        patch: dict[str, Any] = {} if arguments.patch is None else {"patch": tuple(arguments.patch)}
        descriptors = (DHOG if arguments.descriptor == "dhog" else DenseSIFT)(step=arguments.step, **patch)
        near = min(5, arguments.words)
        words = Codebook(arguments.words, arguments.coding, n_neighbors=near, random_state=arguments.seed)
        pyramid = SpatialPyramid(pooling="mean" if arguments.coding == "hard" else "max")
    else:
        descriptors, words, pyramid = (known.model[name] for name in _STAGES)
    descriptors.set_params(on_error="skip" if arguments.skip else "raise")
    words.set_params(memory=arguments.cache, n_jobs=arguments.jobs, verbose=verbose)
    pyramid.set_params(memory=arguments.cache, n_jobs=arguments.jobs, verbose=verbose)
    return descriptors, words, pyramid


@dataclass(frozen=True)
class _Described:
    rows: Any  # of the pictures that can be read
    kept: Any  # which these are
    skipped: list[str]  # the others
    learned: ModelFile  # what made the rows


def _described(
    files: list[pathlib.Path], known: ModelFile | None, arguments: argparse.Namespace, terminal: Terminal
) -> _Described:
    """Return rows of pictures by what is known, or by what is learned from them."""
    from ...images import UnreadableImageError

    descriptors, words, pyramid = _stages(known, arguments, int(terminal.lively))
    try:
        with warnings.catch_warnings():  # pictures left out are named below
            warnings.filterwarnings("ignore", message=r".* could not be used and count as empty")
            bags = descriptors.fit(files).transform(files)
            codes = (words.fit(bags) if known is None else words).transform(bags)
            rows = (pyramid.fit(codes) if known is None else pyramid).transform(codes).tocsr()
    except UnreadableImageError as error:
        raise UserError(_say_unreadable(str(error), files, arguments.jobs)) from error
    except KeyboardInterrupt:
        said = f"the codebook and rows so far are in {arguments.cache}"
        if not hasattr(words, "words_"):
            said = "nothing is kept yet, the codebook was still being learned"
        if arguments.cache is None:
            said = "with --cache DIR a stopped run goes on"
        raise UserError(f"interrupted; {said}.", INTERRUPTED) from None
    for _, _, reason in codes.skipped:
        terminal.warn(f"left out: {reason}")
    kept = np.setdiff1d(np.arange(len(files)), [place for place, *_ in codes.skipped])
    if not len(kept):
        raise UserError(f"None of the {len(files)} pictures in {arguments.folder} can be read.")
    rows = rows[kept]
    if known is None:
        stages = [*zip(_STAGES, (descriptors, words, pyramid), strict=True), *_reduction(rows, arguments)]
        known = ModelFile(Pipeline(stages), data={"features": _digest(dict(stages))})
    after = known.model[len(_STAGES) :]
    rows = after.transform(rows).astype(np.float32) if len(after) else rows.toarray()
    return _Described(rows, kept, [str(name) for _, name, _ in codes.skipped], known)


def _say_unreadable(first: str, files: list[pathlib.Path], jobs: int) -> str:
    """Return why a picture cannot be used, and which others cannot be read."""
    from ...images import unreadable

    others = [reason for _, _, reason in unreadable(files, n_jobs=jobs) if reason != first]
    return say_unreadable([first, *others])


def _reduction(rows: Any, arguments: argparse.Namespace) -> list[tuple[str, Any]]:
    """Return principal components of the rows, scaled to unit norm; nothing if none are asked for."""
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import Normalizer

    n, width = rows.shape
    if arguments.components == 0:
        return []
    if n < 2:
        raise UserError("One picture that can be read has no principal components: give more, or --components 0.")
    count = min(arguments.components or max(min(n // 2, 1000), 1), n - 1, width)
    few = 2 * count > min(n, width)  # then the dense rows are small; many pictures stay sparse
    axes = PCA(count, svd_solver="full" if few else "arpack", random_state=arguments.seed)
    return [("components", axes.fit(rows.toarray() if few else rows)), ("norm", Normalizer())]


def _digest(stages: dict[str, Any]) -> str:
    """Return a digest of descriptors, codebook and components."""
    digest = hashlib.sha256()
    for stage in (stages[name] for name in _STAGES):
        choices = {name: value for name, value in stage.get_params().items() if name not in _OF_A_RUN}
        digest.update(f"{type(stage).__name__} {sorted(choices.items())}".encode())
    axes = stages.get("components")
    for array in (stages["codebook"].words_, *(() if axes is None else (axes.mean_, axes.components_))):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def _at_rest(learned: ModelFile) -> ModelFile:
    """Return what was learned without what belongs to this run: threads, progress, pictures left out."""
    descriptors, words, pyramid = (learned.model[name] for name in _STAGES)
    descriptors.set_params(on_error="raise")
    words.set_params(n_jobs=None, verbose=0)
    pyramid.set_params(n_jobs=None, verbose=0)
    words.skipped_ = []
    return learned
