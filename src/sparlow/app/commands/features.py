"""``sparlow features FOLDER -o FILE``."""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from ...models import ModelFile, ModelFileError, load_file, save, skops_io
from ..dataset import DataError
from ..outputs import writable, write
from ..pictures import CHOICES, Pictures, at_rest, describe, digest_of, learn, least_side, look_at, recipe
from ..saved import how_to_read
from ..settings import given
from ..terminal import INTERRUPTED, OK, InterruptGuard, Terminal, UserError


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Find pictures, compute rows, write."""
    path = writable(arguments.output)
    if path.suffix.lower() != ".npz":
        raise UserError(f"{path.name}: rows are written as .npz.")
    for name in ("save", "like"):
        other = getattr(arguments, name)
        if other is not None and pathlib.Path(other).resolve() == path.resolve():
            raise UserError(f"-o and --{name} name the same file: rows and what makes them need one each.")
    if arguments.save is not None:
        writable(arguments.save)
        skops_io()
    try:
        known = _known(arguments)
        pictures, rows, learned = _described(known, given(arguments.set, CHOICES), arguments, terminal)
    except DataError as error:
        raise UserError(str(error)) from error
    arrays: dict[str, Any] = {
        "X": rows,
        "names": np.array([picture.name for picture in pictures.files]),
        "features": np.array(learned.data["features"]),
    }
    if any(picture.folders for picture in pictures.files):
        arrays["y"] = np.array([picture.folders[0] for picture in pictures.files])
    with InterruptGuard(terminal) as interrupts:
        interrupts.hold()
        write(path, arrays)
        if arguments.save is not None:
            save(dataclasses.replace(learned, model=at_rest(learned.model)), arguments.save)
    count, width = rows.shape
    payload = {"output": str(path), "n_samples": count, "width": width, "skipped": pictures.skipped}
    left = f", {len(pictures.skipped)} left out" if pictures.skipped else ""
    also = "" if arguments.save is None else f"; for new pictures: --like {arguments.save}"
    told = f"{count} picture{'s' if count > 1 else ''}, {width} numbers each"
    terminal.result(payload, f"{path}: {told}{left}{also}")
    return INTERRUPTED if interrupts.came else OK


def _known(arguments: argparse.Namespace) -> ModelFile | None:
    """Return what --like names."""
    if arguments.like is None:
        return None
    asked = [f"--{name}" for name in ("network", "set", "save") if getattr(arguments, name)]
    if asked:
        raise UserError(f"{', '.join(asked)}: what --like names is already learned and saved, leave this out.")
    if pathlib.Path(arguments.like).is_dir():
        raise UserError(f"{arguments.like} is a folder; --like names a file that sparlow features --save wrote.")
    try:
        known = load_file(arguments.like)
    except (ModelFileError, OSError) as error:
        raise UserError(str(error)) from error
    if "features" not in known.data or not isinstance(known.model, Pipeline):
        raise UserError(f"{arguments.like} was not written by sparlow features --save: it holds something else.")
    return known


def _described(
    known: ModelFile | None, settings: dict[str, Any], arguments: argparse.Namespace, terminal: Terminal
) -> tuple[Pictures, Any, ModelFile]:
    """Return pictures, their rows and what made them: what is known, or what is learned from these."""
    path = pathlib.Path(arguments.data)
    terminal.stage(f"reading the pictures in {path}")
    run: dict[str, Any] = {"memory": arguments.cache, "n_jobs": arguments.jobs, "verbose": int(terminal.lively)}
    least = least_side(known.model) if known is not None else int(np.min(settings.get("patch", 1)))
    try:
        pictures = look_at([path], how_to_read(arguments), least, classes=True)
        terminal.stage(f"features of {len(pictures)} pictures")
        if known is not None:
            return pictures, describe(pictures, known.model, **run), known
        found = learn(pictures, recipe(pictures, settings, arguments.network, **run))
        return pictures, found.X, ModelFile(found.pipeline, data={"features": digest_of(found.pipeline)})
    except KeyboardInterrupt:
        said = "with --cache DIR a stopped run goes on"
        if arguments.cache is not None:
            kept = any(pathlib.Path(arguments.cache).rglob("*.npz"))
            said = f"the codebook and rows so far are in {arguments.cache}"
            said = said if kept else "nothing is kept yet, the codebook was still being learned"
        raise UserError(f"interrupted; {said}.", INTERRUPTED) from None
