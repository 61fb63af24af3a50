"""``sparlow features FOLDER -o FILE``."""

from __future__ import annotations

import argparse
import pathlib
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from ..models import ModelFileError, load_model, save
from ..samples import IMAGE_SUFFIXES, is_image
from .arguments import SEED, threads, whole, writable
from .terminal import INTERRUPTED, OK, Terminal, UserError

SUMMARY = "turn a folder of pictures into rows: dense descriptors, codebook, spatial pyramid"
EXAMPLES = """\
  sparlow features scenes/ -o scenes.npz --save scenes.features
  sparlow fit scenes.npz -o scenes.sparlow
  sparlow features new/ --like scenes.features -o new.npz
  sparlow predict scenes.sparlow new.npz -o labels.csv

FOLDER has a sub-folder for each class, or pictures alone, or is one picture. FILE is a .npz with X (rows), names
(files) and y (classes, where there are sub-folders). Codebook and components are learned from the pictures given, so
rows of two runs cannot be mixed, unless the second is made --like what the first has saved. The array features is a
digest of codebook and components: rows with the same one go together."""

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
    """Of this command."""
    parser.add_argument("folder", metavar="FOLDER", help="pictures, in a sub-folder for each class")
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
    parser.add_argument("--cache", metavar="DIR", help="keep each picture's row there: a stopped run goes on")
    parser.add_argument("--skip", action="store_true", help="leave out pictures that cannot be read, with a warning")
    parser.add_argument("--jobs", type=threads, default=-1, help="threads; default: all")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Find pictures, compute rows, write."""
    path = writable(arguments.output)
    if path.suffix.lower() != ".npz":
        raise UserError(f"{path.name}: rows are written as .npz.")
    keep = None if arguments.save is None else writable(arguments.save)
    known = _known(arguments)
    files, labels = _pictures(pathlib.Path(arguments.folder), terminal)
    rows, kept, learned = _rows(files, known, arguments, terminal)
    names = np.array([str(files[place]) for place in kept])
    arrays: dict[str, Any] = {"X": rows, "names": names, "features": np.array(_digest(learned))}
    if labels:
        arrays["y"] = np.array(labels)[kept]
    np.savez(path, **arrays)
    if keep is not None:
        save(_at_rest(learned), keep)
    skipped = len(files) - len(kept)
    payload = {"output": str(path), "n_samples": len(kept), "width": rows.shape[1], "skipped": skipped}
    left = f", {skipped} left out" if skipped else ""
    also = "" if keep is None else f"; for new pictures: --like {keep}"
    terminal.result(payload, f"{path}: {len(kept)} pictures, {rows.shape[1]} numbers each{left}{also}")
    return OK


def _known(arguments: argparse.Namespace) -> Pipeline | None:
    """What --like names; without it the choices that were left out get their defaults."""
    if arguments.like is None:
        for name, value in _CHOICES.items():
            if getattr(arguments, name) is None:
                setattr(arguments, name, value)
        return None
    given = [f"--{name}" for name in (*_CHOICES, "save") if getattr(arguments, name) is not None]
    if given:
        raise UserError(f"{', '.join(given)}: what --like names is already learned and saved, leave this out.")
    try:
        known = load_model(arguments.like)
    except (ModelFileError, OSError) as error:
        raise UserError(str(error)) from error
    if not (isinstance(known, Pipeline) and [name for name, _ in known.steps][:3] == _STAGES):
        raise UserError(f"{arguments.like} was not written by sparlow features --save: it holds something else.")
    return known


def _pictures(folder: pathlib.Path, terminal: Terminal) -> tuple[list[pathlib.Path], list[str]]:
    """Files and their classes; no classes where pictures lie in the folder itself."""
    if folder.is_file() and is_image(folder, folder.parent):
        return [folder], []
    if not folder.is_dir():
        raise UserError(f"There is no folder {folder}.")
    classes = sorted(child for child in folder.iterdir() if child.is_dir())
    found = [(file, home.name) for home in classes for file in sorted(home.rglob("*")) if is_image(file, folder)]
    files = [file for file in sorted(folder.iterdir()) if is_image(file, folder)]
    if found and files:
        terminal.warn(f"{len(files)} pictures beside the sub-folders are left out (first: {files[0].name}).")
    if found:
        return [file for file, _ in found], [label for _, label in found]
    if not files:
        raise UserError(f"{folder} has no pictures ({', '.join(sorted(IMAGE_SUFFIXES))}), nor have its sub-folders.")
    return files, []


_STAGES = ["descriptors", "codebook", "pyramid"]


def _stages(known: Pipeline | None, arguments: argparse.Namespace, verbose: int) -> tuple[Any, Any, Any]:
    """Descriptors, codebook and pyramid: those already learned, or new ones."""
    from ..images import DHOG, Codebook, DenseSIFT, SpatialPyramid

    if known is None:
        patch: dict[str, Any] = {} if arguments.patch is None else {"patch": tuple(arguments.patch)}
        descriptors = (DHOG if arguments.descriptor == "dhog" else DenseSIFT)(step=arguments.step, **patch)
        words = Codebook(arguments.words, arguments.coding, random_state=arguments.seed)
        pyramid = SpatialPyramid(pooling="mean" if arguments.coding == "hard" else "max")
    else:
        descriptors, words, pyramid = (known[name] for name in _STAGES)
    descriptors.set_params(on_error="skip" if arguments.skip else "raise")
    words.set_params(n_jobs=arguments.jobs, verbose=verbose)
    pyramid.set_params(memory=arguments.cache, n_jobs=arguments.jobs, verbose=verbose)
    return descriptors, words, pyramid


def _rows(
    files: list[pathlib.Path], known: Pipeline | None, arguments: argparse.Namespace, terminal: Terminal
) -> tuple[Any, Any, Pipeline]:
    """Rows of the pictures that can be read, which these are, and what made them."""
    descriptors, words, pyramid = _stages(known, arguments, int(terminal.lively))
    try:
        bags = descriptors.fit(files).transform(files)
        codes = (words.fit(bags) if known is None else words).transform(bags)
        rows = (pyramid.fit(codes) if known is None else pyramid).transform(codes)
    except KeyboardInterrupt:
        said = f"rows so far are in {arguments.cache}" if arguments.cache else "with --cache DIR a stopped run goes on"
        raise UserError(f"interrupted; {said}.", INTERRUPTED) from None
    kept = np.setdiff1d(np.arange(len(files)), [place for place, *_ in pyramid.skipped_])
    if not len(kept):
        raise UserError(f"None of the {len(files)} pictures in {arguments.folder} can be read.")
    rows = rows.tocsr()[kept]
    if known is None:
        known = Pipeline([*zip(_STAGES, (descriptors, words, pyramid), strict=True), *_reduction(rows, arguments)])
    after = known[len(_STAGES) :]
    if not len(after):
        return rows.toarray(), kept, known
    return after.transform(rows).astype(np.float32), kept, known


def _reduction(rows: Any, arguments: argparse.Namespace) -> list[tuple[str, Any]]:
    """Principal components of the rows, scaled to unit norm; nothing if none are asked for."""
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import Normalizer

    n, width = rows.shape
    if arguments.components == 0:
        return []
    if n < 2:
        raise UserError("One picture has no principal components: give more, or --components 0.")
    count = min(arguments.components or max(min(n // 2, 1000), 1), n - 1, width)
    few = 2 * count > min(n, width)  # then the dense rows are small; many pictures stay sparse
    axes = PCA(count, svd_solver="full" if few else "arpack", random_state=arguments.seed)
    return [("components", axes.fit(rows.toarray() if few else rows)), ("norm", Normalizer())]


def _digest(learned: Pipeline) -> str:
    """A number that tells codebook and components from others."""
    import joblib

    words, axes = learned["codebook"].words_, learned.named_steps.get("components")
    return str(joblib.hash(words if axes is None else (words, axes.mean_, axes.components_)))


def _at_rest(learned: Pipeline) -> Pipeline:
    """Without what belongs to this run alone: folders, threads, progress."""
    learned["codebook"].set_params(n_jobs=None, verbose=0)
    learned["pyramid"].set_params(memory=None, n_jobs=None, verbose=0)
    return learned
