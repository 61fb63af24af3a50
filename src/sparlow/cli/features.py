"""``sparlow features FOLDER -o FILE``."""

from __future__ import annotations

import argparse
import pathlib
from typing import Any

import numpy as np

from ..samples import IMAGE_SUFFIXES, is_image
from .arguments import SEED, threads, whole, writable
from .terminal import INTERRUPTED, OK, Terminal, UserError

SUMMARY = "turn a folder of pictures into rows: dense descriptors, codebook, spatial pyramid"
EXAMPLES = """\
  sparlow features scenes/ -o scenes.npz
  sparlow features scenes/ --coding sparse --words 2048 --components 1000 -o scenes.npz
  sparlow fit scenes.npz -o scenes.sparlow

FOLDER has a sub-folder for each class, or pictures alone. FILE is a .npz with X (rows), names (files) and y (classes,
where there are sub-folders). Codebook and components are learned from the pictures given, so rows of two runs cannot be
mixed: a model learned from one says nothing about the other. New pictures need a pipeline in Python. The array features
is a digest of codebook and components: rows with the same one go together."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of this command."""
    parser.add_argument("folder", metavar="FOLDER", help="pictures, in a sub-folder for each class")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help=".npz")
    parser.add_argument("--descriptor", choices=("sift", "dhog"), default="sift", help="default: sift")
    parser.add_argument("--patch", type=whole(4), nargs="+", metavar="PIXELS", help="default: 16; for dhog 16 25 31")
    parser.add_argument("--step", type=whole(1), default=8, metavar="PIXELS", help="default: 8")
    parser.add_argument("--words", type=whole(2), default=1024, metavar="N", help="size of the codebook; default: 1024")
    parser.add_argument("--coding", choices=("llc", "hard", "sparse", "laplacian"), default="llc", help="default: llc")
    parser.add_argument(
        "--components",
        type=whole(0),
        metavar="N",
        help="of PCA; 0: none; default: half as many as pictures, at most 1000",
    )
    parser.add_argument("--seed", type=SEED, default=0, help="of sampling and k-means; default: 0")
    parser.add_argument("--cache", metavar="DIR", help="keep each picture's row there: a stopped run goes on")
    parser.add_argument("--skip", action="store_true", help="leave out pictures that cannot be read, with a warning")
    parser.add_argument("--jobs", type=threads, default=-1, help="threads; default: all")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Find pictures, compute rows, write."""
    path = writable(arguments.output)
    if path.suffix.lower() != ".npz":
        raise UserError(f"{path.name}: rows are written as .npz.")
    files, labels = _pictures(pathlib.Path(arguments.folder), terminal)
    rows, kept, digest = _rows(files, arguments, terminal)
    names = np.array([str(files[place]) for place in kept])
    arrays: dict[str, Any] = {"X": rows, "names": names, "features": np.array(digest)}
    if labels:
        arrays["y"] = np.array(labels)[kept]
    np.savez(path, **arrays)
    skipped = len(files) - len(kept)
    payload = {"output": str(path), "n_samples": len(kept), "width": rows.shape[1], "skipped": skipped}
    left = f", {skipped} left out" if skipped else ""
    terminal.result(payload, f"{path}: {len(kept)} pictures, {rows.shape[1]} numbers each{left}")
    return OK


def _pictures(folder: pathlib.Path, terminal: Terminal) -> tuple[list[pathlib.Path], list[str]]:
    """Files and their classes; no classes where pictures lie in the folder itself."""
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


def _rows(files: list[pathlib.Path], arguments: argparse.Namespace, terminal: Terminal) -> tuple[Any, Any, str]:
    """Rows of the pictures that can be read, which these are, and a digest of what made them."""
    import joblib
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import normalize

    from ..images import DHOG, Codebook, DenseSIFT, SpatialPyramid

    kind = DHOG if arguments.descriptor == "dhog" else DenseSIFT
    patch: dict[str, Any] = {} if arguments.patch is None else {"patch": tuple(arguments.patch)}
    verbose = int(terminal.lively)
    descriptors = kind(step=arguments.step, on_error="skip" if arguments.skip else "raise", **patch)
    words = Codebook(
        arguments.words, arguments.coding, random_state=arguments.seed, n_jobs=arguments.jobs, verbose=verbose
    )
    pyramid = SpatialPyramid(
        pooling="mean" if arguments.coding == "hard" else "max",
        memory=arguments.cache,
        n_jobs=arguments.jobs,
        verbose=verbose,
    )
    bags = descriptors.fit(files).transform(files)
    try:
        rows = pyramid.fit_transform(words.fit(bags).transform(bags))
    except KeyboardInterrupt:
        said = f"rows so far are in {arguments.cache}" if arguments.cache else "with --cache DIR a stopped run goes on"
        raise UserError(f"interrupted; {said}.", INTERRUPTED) from None
    kept = np.setdiff1d(np.arange(len(files)), [place for place, *_ in pyramid.skipped_])
    if not len(kept):
        raise UserError(f"None of the {len(files)} pictures in {arguments.folder} can be read.")
    rows = rows.tocsr()[kept]
    if arguments.components == 0:
        return rows.toarray(), kept, joblib.hash(words.words_)
    if len(kept) < 2:
        raise UserError("One picture has no principal components: give more, or --components 0.")
    asked = arguments.components or max(min(len(kept) // 2, 1000), 1)
    count = min(asked, len(kept) - 1, rows.shape[1])
    few = 2 * count > min(rows.shape)  # then the dense rows are small; many pictures stay sparse
    axes = PCA(count, svd_solver="full" if few else "arpack", random_state=arguments.seed)
    rows = normalize(axes.fit_transform((rows.toarray() if few else rows).astype(np.float32))).astype(np.float32)
    return rows, kept, joblib.hash((words.words_, axes.mean_, axes.components_))
