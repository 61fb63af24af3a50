"""``sparlow fit DATA -o MODEL``."""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from ...criteria import Criterion, criterion_named
from ...estimators import OnStep, SparLow
from ...evaluation import in_order, known_rows
from ...models import ModelFile, save, skops_io
from ..arguments import add_data, add_model, build_model, views_of
from ..dataset import Dataset
from ..large import add_memory, is_large, on_cluster, read_large, within_memory
from ..outputs import writable
from ..saved import read_data, read_model, standardizer
from ..terminal import INTERRUPTED, OK, WORK_FAILED, Interrupts, Terminal, UserError

SUMMARY = "learn a model from samples and save it"
EXAMPLES = """\
  sparlow fit faces/ --size 32x32 -o faces.sparlow
  sparlow fit digits.npz --criterion mfa --set k_within=30 --validation-fraction 0.3 -o digits.sparlow
  sparlow fit table.csv --label-column species --n-components 2 -o flowers.sparlow
  sparlow fit digits.npz --from digits.sparlow -o digits.sparlow    # ten more steps from there
  sparlow fit big.npy --labels y.npy --memory 2GB -o big.sparlow    # a file larger than memory

Ctrl-C saves the best model so far (exit code 130)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("data", metavar="DATA", help="samples to learn from: .npz, .npy, .csv, .parquet or a folder")
    parser.add_argument("-o", "--output", required=True, metavar="MODEL", help="the file to write, usually *.sparlow")
    add_model(parser)
    add_data(parser)
    large = add_memory(parser)
    large.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="a Dask scheduler, such as tcp://host:8786, whose workers find DATA under the same path",
    )
    large.add_argument(
        "--checkpoint", metavar="FILE", help="keep each step in this file, and go on from it if it is there"
    )


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Read, learn, save."""
    with within_memory(arguments):
        return _run(arguments, terminal)


def _run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    path = writable(arguments.output, arguments.data)
    skops_io()  # said before learning where it is missing
    start = None if arguments.start is None else read_model(arguments.start)
    model = build_model(arguments, start)
    large = is_large(arguments)
    dataset = read_large(arguments) if large else read_data(arguments, arguments.data, start)
    model.set_params(views=views_of(arguments, dataset))
    before = None if start is None else getattr(start.model, "views", None)
    if start is not None and before != model.views:
        terminal.warn(f"{arguments.start} has views={before}, this one will have views={model.views} (--shifts).")
    check_labelled(model, dataset)
    if start is not None and arguments.standardize is not None:
        raise UserError("--standardize goes without --from: samples are scaled as those of that model were.")
    before = [] if start is None or start.before is None else start.before.steps
    scaler = None if start is not None or large else standardizer(arguments, dataset, terminal)
    if scaler is not None:
        dataset = replace(dataset, X=scaler.fit_transform(dataset.X), rows=dataset.X)
        before = [("standardize", scaler)]
    terminal.note(describe(dataset))
    began = time.perf_counter()
    with Interrupts(terminal) as interrupts:
        with on_cluster(arguments.scheduler, dataset, arguments.data) as samples:
            learn(model, samples, terminal, interrupts)
        seconds = time.perf_counter() - began
        whole = Pipeline([*before, ("sparlow", model)]) if before else model
        save(ModelFile(whole, dataset.shape, dataset.y, dataset.feature_names, summary(dataset)), path)
    interrupted = model.stop_reason_ == "interrupted" or interrupts.came
    payload = {
        "model": str(path),
        "criterion": type(model.criterion_).__name__,
        "n_samples": len(dataset.X),
        "n_features": dataset.X.shape[1],
        "n_components": model.n_components_,
        "n_atoms": model.n_atoms_,
        "steps": model.best_iter_,
        "quotient": model.history_["quotient"][model.best_iter_],
        "held_out": model.history_["held_out"][model.best_iter_],
        "stop_reason": model.stop_reason_,
        "seconds": seconds,
    }
    plural = "" if model.n_components_ == 1 else "s"
    text = (
        f"{path}: {payload['criterion']}, {model.n_components_} number{plural} per sample from {model.n_atoms_} atoms, "
        f"{model.best_iter_} step{'' if model.best_iter_ == 1 else 's'} ({model.stop_reason_}), {seconds:.1f} s"
    )
    terminal.result(payload, text)
    return INTERRUPTED if interrupted else OK


def learn(model: SparLow, dataset: Dataset, terminal: Terminal, interrupts: Interrupts) -> None:
    """Fit with a bar on the terminal; afterwards no interrupt comes between the model and its file."""
    terminal.note("first dictionary … (the first fit after installation also compiles for half a minute)")
    with terminal.progress("learning", model.max_iter) as step:

        def tell(row: dict[str, float], now: SparLow) -> None:
            held = "" if np.isnan(row["held_out"]) else f"  held out {row['held_out']:.4f}"
            step(f"quotient {row['quotient']:.4g}{held}")

        model.set_callbacks(OnStep(tell))
        try:
            model.fit(dataset.X, dataset.y)
            interrupts.hold()
        except KeyboardInterrupt:
            interrupts.hold()
            if not hasattr(model, "stop_reason_"):
                said = "interrupted before the first step: there is no model to save yet."
                raise UserError(said, INTERRUPTED) from None
        except (ValueError, TypeError, RuntimeError) as error:
            raise UserError(str(error), WORK_FAILED) from error
        finally:
            model.set_callbacks()


def check_labelled(model: SparLow, dataset: Dataset) -> None:
    """Refuse a criterion that needs labels where there are none, none for some samples, or no classes."""
    criterion = criterion_named(model.criterion)
    supervision = criterion.supervision
    if dataset.bare is not None and dataset.bare.any() and supervision not in ("none", "semi"):
        first = int(np.argmax(dataset.bare))
        named = f"number {first} from 0" if dataset.names is None else dataset.names[first]
        count = int(dataset.bare.sum())
        lack = "1 sample has" if count == 1 else f"{count} samples have"
        raise UserError(
            f"{dataset.source}: {lack} no label (first: {named}): move them away, or use "
            f"--criterion {'smvr' if criterion.targets else 'sda'}."
        )
    _check_classes(criterion, dataset)
    if dataset.y is None and supervision != "none":
        raise UserError(
            f"{dataset.source} has no labels, which the criterion needs. Name them (--label-column, --labels, a "
            "sub-folder per class), or use --criterion pca, lle or lap."
        )


def _check_classes(criterion: Criterion, dataset: Dataset) -> None:
    """Refuse real targets where the criterion wants classes."""
    y = dataset.y
    if y is None or criterion.supervision == "none" or criterion.targets or not (y.dtype.kind == "f" or y.ndim > 1):
        return
    found = f"real numbers (such as {y[~np.isnan(y)][0]})" if y.ndim == 1 else f"{y.shape[1]} columns"
    raise UserError(
        f"{dataset.source}: the labels are {found}, but {type(criterion).__name__} needs classes. For targets to "
        "regress on use --criterion mvr, or smvr where some are missing; for classes name other labels by "
        "--label-column or --labels."
    )


def summary(dataset: Dataset) -> dict[str, Any]:
    """Return what a model file keeps of the samples."""
    return {
        "source": dataset.source,
        "n_samples": len(dataset.X),
        "n_features": int(dataset.X.shape[1]),
        "fingerprint": dataset.fingerprint,
        "marks": dataset.marks,
        **({"features": dataset.features} if dataset.features else {}),
    }


def describe(dataset: Dataset) -> str:
    """Return one line about samples."""
    form = "{}x{} images".format(*dataset.shape) if dataset.shape else f"samples of {dataset.X.shape[1]} numbers"
    if dataset.y is None or dataset.y.dtype.kind == "f" or dataset.y.ndim > 1:
        return f"{len(dataset.X)} {form}"
    rows = known_rows(dataset.y)
    without = "" if rows.all() else f", {np.sum(~rows)} without a label"
    return f"{len(dataset.X)} {form}, {len(in_order(dataset.y[rows]))} classes{without}"
