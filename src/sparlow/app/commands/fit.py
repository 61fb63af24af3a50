"""``sparlow fit DATA -o MODEL``."""

from __future__ import annotations

import argparse
import pathlib
import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from ...criteria import Criterion, criterion_named
from ...estimators import OnStep, SparLow
from ...evaluation import in_order
from ...labels import known_rows
from ...models import ModelFile, save, skops_io
from ...views import Patches, Views
from ..arguments import add_data, add_model, build_model, views_of
from ..confidence import Prepare, held_out_unlikeness
from ..dataset import DataError, Dataset
from ..large import add_memory, is_large, on_cluster, read_large, within_memory
from ..outputs import writable
from ..photographs import Pictures, Recipe, at_rest, photographs_in
from ..photographs import learn as learn_features
from ..readers import read_mixed
from ..saved import SavedModel, check_reading, how_to_read, read_data, read_labels_of, read_model, standardizer
from ..tables import Mixture
from ..terminal import INTERRUPTED, OK, WORK_FAILED, InterruptGuard, Terminal, UserError

SUMMARY = "learn a model from samples and save it"
EXAMPLES = """\
  sparlow fit faces/ -o faces.sparlow
  sparlow fit faces/ --size 32x32 --whole -o faces.sparlow          # pixels, scaled; codes of whole pictures
  sparlow fit photographs/ --skip -o scenes.sparlow                 # any size; learns features and model
  sparlow fit photographs/ --network efficientnet.onnx -o scenes.sparlow    # vectors of a pretrained network
  sparlow fit digits.npz --criterion mfa --set k_within=30 --validation-fraction 0.3 -o digits.sparlow
  sparlow fit table.csv --label-column species --n-components 2 -o flowers.sparlow
  sparlow fit digits.npz --from digits.sparlow -o digits.sparlow    # ten more steps from there
  sparlow fit big.npy --labels y.npy --memory 2GB -o big.sparlow    # a file larger than memory

Pictures of one size from 8 to 128 pixels a side have local codes, those of their patches (--whole: codes of whole
pictures). From a folder of larger pictures, or of different sizes, features are learned first and kept in the same
file (--size HxW: pixels, scaled to one size). Ctrl-C saves the best model so far (exit code 130)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("data", metavar="DATA", help="samples to learn from: .npz, .npy, .csv, .parquet or a folder")
    parser.add_argument("-o", "--output", required=True, metavar="MODEL", help="the file to write, usually *.sparlow")
    parser.add_argument(
        "--likeness",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="measure on held-out samples how like the training samples they are, for sparlow predict --reject; it "
        "takes about half as long again",
    )
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
    began = time.perf_counter()  # features of photographs are learned, too
    dataset, before, anew = prepared(arguments, terminal, start)
    model.set_params(views=_views(arguments, dataset, start, terminal))
    check_labelled(model, dataset)
    tell_of_colours(dataset, terminal)
    terminal.note(describe_samples(dataset))
    with InterruptGuard(terminal) as interrupts:
        with on_cluster(arguments.scheduler, dataset, arguments.data) as samples:
            learn_with_progress(model, samples, terminal, interrupts)
        seconds = time.perf_counter() - began
        whole = Pipeline([*before, ("sparlow", model)]) if before else model
        data = summary(dataset)
        if (
            arguments.likeness
            and not is_large(arguments)
            and not interrupts.came
            and model.stop_reason_ != "interrupted"
        ):
            terminal.stage("measuring how like the training samples held-out ones are")
            with interrupts.allowed(), warnings.catch_warnings(action="ignore"):  # the fit has said what there is
                measured = held_out_unlikeness(model, dataset, anew)
                data |= {} if measured is None else {"unlikeness": measured}
        save(ModelFile(whole, dataset.shape, dataset.y, dataset.feature_names, data), path)
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
    steps = f"{model.best_iter_} step{'' if model.best_iter_ == 1 else 's'} ({model.stop_reason_})"
    if isinstance(model.views, Patches):
        side = model.views.grid(model.n_features_in_).size
        steps = f"patches of {side} x {side} pixels" + (f", {steps}" if model.n_iter_ else "")
    text = (
        f"{path}: {payload['criterion']}, {model.n_components_} number{plural} per sample from {model.n_atoms_} atoms, "
        f"{steps}, {seconds:.1f} s"
    )
    terminal.result(payload, text)
    return INTERRUPTED if interrupted else OK


def photographs(arguments: argparse.Namespace, terminal: Terminal) -> Pictures | None:
    """Return the pictures of DATA if features are to be learned from them."""
    check_reading(arguments, pathlib.Path(arguments.data))
    try:
        return photographs_in(arguments, terminal)
    except DataError as error:
        raise UserError(str(error)) from error


def prepared(
    arguments: argparse.Namespace, terminal: Terminal, start: SavedModel | None = None
) -> tuple[Dataset, list[tuple[str, Any]], Prepare | None]:
    """Return the samples to learn from, the steps that made them of what was read, and how to learn these anew."""
    if start is not None:
        if arguments.network is not None:
            raise UserError("--network goes without --from: pictures are described as those of that model were.")
        if arguments.standardize is not None:
            raise UserError("--standardize goes without --from: samples are scaled as those of that model were.")
        dataset = read_data(arguments, arguments.data, start, terminal)
        return dataset, [] if start.before is None else start.before.steps, None
    if is_large(arguments):
        return read_large(arguments), [], None
    pictures = photographs(arguments, terminal)
    if pictures is not None:
        what = "learning features" if arguments.network is None else "vectors"
        terminal.stage(f"{what} of {len(pictures.files)} pictures")
        recipe = Recipe(seed=arguments.seed, network=arguments.network)
        features = learn_features(pictures, recipe, n_jobs=arguments.jobs, verbose=int(terminal.lively))
        dataset = read_labels_of(arguments, pictures.dataset(features.X, colours=arguments.network is not None))
        return dataset, at_rest(features.pipeline).steps, features.without
    if wants_encoding(arguments):
        mixture, dataset = mixed(arguments, terminal)
        encoder = mixture.encoder(arguments.standardize is not False)
        X = encoder.fit_transform(mixture.frame)
        return replace(dataset, X=X), [("columns", encoder)], None
    dataset = read_data(arguments, arguments.data, terminal=terminal)
    scaler = standardizer(arguments, dataset, terminal)
    if scaler is None:
        return dataset, [], None
    return replace(dataset, X=scaler.fit_transform(dataset.X), rows=dataset.X), [("standardize", scaler)], None


def wants_encoding(arguments: argparse.Namespace) -> bool:
    """Return whether words are to be encoded or gaps to be filled."""
    return arguments.one_hot is not None or arguments.fill


def mixed(arguments: argparse.Namespace, terminal: Terminal) -> tuple[Mixture, Dataset]:
    """Read a table of numbers and words, and say what becomes of it."""
    try:
        mixture, dataset = read_mixed(arguments.data, how_to_read(arguments, arguments.data))
    except (DataError, OSError) as error:
        raise UserError(str(error)) from error
    gaps = int(mixture.frame[list(mixture.numbers)].isna().sum().sum())
    filled = f"{gaps} missing numbers are filled with medians, " * bool(gaps)
    scaled = "" if arguments.standardize is False else "columns of numbers are scaled to mean 0 and variance 1, "
    counts = [f"{name}: {mixture.frame[name].nunique(dropna=False)} numbers" for name in mixture.words]
    coded = f"words are encoded ({', '.join(counts) or 'there are none'})"
    terminal.tell(f"{filled}{scaled}{coded}")
    return mixture, dataset


def _views(
    arguments: argparse.Namespace, dataset: Dataset, start: SavedModel | None, terminal: Terminal
) -> Views | None:
    """Return the views that the arguments ask for, or those of the model to start from."""
    if start is None:
        return views_of(arguments, dataset)
    if arguments.kind is None and arguments.shifts is None:
        return start.model.views
    views = views_of(arguments, dataset)
    if views != start.model.views:
        terminal.warn(f"{arguments.start} has views={start.model.views}, this one will have views={views}.")
    return views


def learn_with_progress(model: SparLow, dataset: Dataset, terminal: Terminal, interrupts: InterruptGuard) -> None:
    """Fit with a bar on the terminal; afterwards no interrupt comes between the model and its file."""
    terminal.stage("first dictionary (the first fit after installation also compiles for some seconds)")
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


def tell_of_colours(dataset: Dataset, terminal: Terminal) -> None:
    """Say that pictures have colours, which are not learned from, and how they can be."""
    if dataset.coloured:
        how = (
            "" if dataset.shape is None else "; in Python, Patches(shape=({}, {}, 3)) keeps them".format(*dataset.shape)
        )
        terminal.tell(f"the colours of the pictures are left out: they are read in grey{how}")


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
        **({"names": list(dataset.names)} if dataset.names is not None else {}),
    }


def describe_samples(dataset: Dataset) -> str:
    """Return one line about samples."""
    form = "{}x{} images".format(*dataset.shape) if dataset.shape else f"samples of {dataset.X.shape[1]} numbers"
    if dataset.y is None or dataset.y.dtype.kind == "f" or dataset.y.ndim > 1:
        return f"{len(dataset.X)} {form}"
    rows = known_rows(dataset.y)
    without = "" if rows.all() else f", {np.sum(~rows)} without a label"
    return f"{len(dataset.X)} {form}, {len(in_order(dataset.y[rows]))} classes{without}"
