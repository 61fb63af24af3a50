"""``sparlow features FOLDER -o FILE``."""

from __future__ import annotations

import argparse
import pathlib
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from ...models import ModelFile, ModelFileError, load_file, save, skops_io
from ..arguments import NETWORK, SEED, thread_count, whole_number
from ..dataset import DataError
from ..outputs import writable, write_npz
from ..photographs import Pictures, Recipe, at_rest, describe, digest_of, learn, least_side, look_at
from ..terminal import INTERRUPTED, OK, InterruptGuard, Terminal, UserError

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
_CHOICES = {field.name: field.default for field in fields(Recipe)}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("folder", metavar="FOLDER", help="pictures, in a sub-folder for each class, or one")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help=".npz")
    parser.add_argument("--save", metavar="FEATURES", help="keep what was learned in a file, for new pictures")
    parser.add_argument("--like", metavar="FEATURES", help="learn nothing: rows as those of the run that saved this")
    parser.add_argument("--network", metavar="ONNX", help=NETWORK)
    parser.add_argument("--descriptor", choices=("sift", "dhog"), help="default: sift")
    parser.add_argument(
        "--patch",
        type=whole_number(4),
        nargs="+",
        metavar="PIXELS",
        help="default: 16 32 64, up to half of the shorter side",
    )
    parser.add_argument("--step", type=whole_number(1), metavar="PIXELS", help="default: 5, or 8 if not fisher")
    parser.add_argument(
        "--words", type=whole_number(2), metavar="N", help="of the codebook; default: 32, or 1024 if not fisher"
    )
    parser.add_argument("--coding", choices=("fisher", "llc", "hard", "sparse", "laplacian"), help="default: fisher")
    parser.add_argument(
        "--components",
        type=whole_number(0),
        metavar="N",
        help="of PCA; 0: none; default: two thirds as many as pictures, at most 1000",
    )
    parser.add_argument("--seed", type=SEED, help="of sampling and k-means; default: 0")
    parser.add_argument("--cache", metavar="DIR", help="keep codebook and rows there: a stopped run goes on")
    parser.add_argument("--skip", action="store_true", help="leave out pictures that cannot be read, with a warning")
    parser.add_argument("--jobs", type=thread_count, default=-1, help="threads; default: all")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Find pictures, compute rows, write."""
    path = writable(arguments.output)
    if path.suffix.lower() != ".npz":
        raise UserError(f"{path.name}: rows are written as .npz.")
    _check_files(arguments)
    known = _known(arguments)
    found = _described(known, arguments, terminal)
    pictures = found.pictures
    features = np.array(found.learned.data["features"])
    arrays: dict[str, Any] = {"X": found.rows, "names": np.array(pictures.names), "features": features}
    if pictures.y is not None:
        arrays["y"] = pictures.y
    with InterruptGuard(terminal) as interrupts:
        interrupts.hold()
        write_npz(path, arrays)
        if arguments.save is not None:
            save(replace(found.learned, model=at_rest(found.learned.model)), arguments.save)
    count, width = found.rows.shape
    payload = {"output": str(path), "n_samples": count, "width": width, "skipped": pictures.skipped}
    left = f", {len(pictures.skipped)} left out" if pictures.skipped else ""
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
        arguments.patch = None if arguments.patch is None else tuple(arguments.patch)
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


@dataclass(frozen=True)
class _Described:
    pictures: Pictures
    rows: Any  # of these
    learned: ModelFile  # what made the rows


def _described(known: ModelFile | None, arguments: argparse.Namespace, terminal: Terminal) -> _Described:
    """Return rows of pictures by what is known, or by what is learned from them."""
    path, jobs = pathlib.Path(arguments.folder), arguments.jobs
    recipe = None if known is not None else Recipe(**{name: getattr(arguments, name) for name in _CHOICES})
    least = least_side(known.model) if known is not None else min(arguments.patch or [0])
    terminal.stage(f"reading the pictures in {path}")
    try:
        pictures = look_at(path, skip=arguments.skip, n_jobs=jobs, least=least)
        taught = recipe is not None and recipe.network is None and recipe.components != 0
        if len(pictures.files) == 1 and taught:
            raise DataError(
                f"{pictures.files[0]}: nothing can be learned from one picture. Name what was learned from others by "
                "--like, give more pictures, or --components 0."
            )
        run: dict[str, Any] = {"memory": arguments.cache, "n_jobs": jobs, "verbose": int(terminal.lively)}
        terminal.stage(f"features of {len(pictures.files)} pictures")
        if recipe is None:
            assert known is not None
            return _Described(pictures, describe(pictures, known.model, **run), known)
        found = learn(pictures, recipe, **run)
        return _Described(pictures, found.X, ModelFile(found.pipeline, data={"features": digest_of(found.pipeline)}))
    except DataError as error:
        raise UserError(str(error)) from error
    except KeyboardInterrupt:
        said = "with --cache DIR a stopped run goes on"
        if arguments.cache is not None:
            kept = any(pathlib.Path(arguments.cache).rglob("*.npz"))
            said = f"the codebook and rows so far are in {arguments.cache}"
            said = said if kept else "nothing is kept yet, the codebook was still being learned"
        raise UserError(f"interrupted; {said}.", INTERRUPTED) from None
