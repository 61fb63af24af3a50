"""``sparlow fit DATA -o MODEL``."""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from ...estimators import OnStep, SparLow
from ...models import ModelFile, save, skops_io
from ...views import Patches, views_named
from ..confidence import held_out_unlikeness
from ..dataset import Dataset
from ..large import is_large, on_cluster, within_memory
from ..learning import Prepared, describe_samples, prepared, read_source, read_start
from ..outputs import writable
from ..saved import read_model
from ..settings import build_model
from ..terminal import INTERRUPTED, OK, WORK_FAILED, InterruptGuard, Terminal, UserError


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Read, learn, save."""
    with within_memory(arguments):
        return _run(arguments, terminal)


def _run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    path = writable(arguments.output, arguments.data)
    skops_io()  # said before learning where it is missing
    model = build_model(arguments.criterion, arguments.set, arguments.jobs)
    began = time.perf_counter()  # features of photographs are learned, too
    if arguments.start is not None:
        found = read_start(arguments, model, read_model(arguments.start), terminal)
    else:
        found = prepared(read_source(arguments, model, terminal), terminal)
    dataset = found.dataset
    terminal.note(describe_samples(dataset))
    with InterruptGuard(terminal) as interrupts:
        with on_cluster(arguments.scheduler, dataset, arguments.data) as samples:
            learn_with_progress(model, samples, terminal, interrupts)
        seconds = time.perf_counter() - began
        data = _summary(dataset, arguments)
        if not is_large(arguments) and not interrupts.came and model.stop_reason_ != "interrupted":
            data |= _likeness(model, found, terminal)
        whole = Pipeline([*found.before, ("sparlow", model)]) if found.before else model
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
    views = views_named(model.views)
    if isinstance(views, Patches):
        side = views.grid(model.n_features_in_).size
        colours = " in colour" if dataset.shape is not None and len(dataset.shape) > 2 else ""
        steps = f"patches of {side} x {side} pixels{colours}" + (f", {steps}" if model.n_iter_ else "")
    text = (
        f"{path}: {payload['criterion']}, {model.n_components_} number{plural} per sample from {model.n_atoms_} atoms, "
        f"{steps}, {seconds:.1f} s"
    )
    terminal.result(payload, text)
    return INTERRUPTED if interrupted else OK


def learn_with_progress(model: SparLow, dataset: Dataset, terminal: Terminal, interrupts: InterruptGuard) -> None:
    """Fit with a bar on the terminal; afterwards no interrupt comes between the model and its file."""
    terminal.stage("first dictionary (the first fit after installation also compiles for some seconds)")
    with terminal.progress("learning", model.max_iter) as step:

        def tell(row: dict[str, float], now: SparLow) -> None:
            held = "" if np.isnan(row["held_out"]) else f"  held out {row['held_out']:.4f}"
            step(f"quotient {row['quotient']:.4g}{held}")

        model.set_callbacks(OnStep(tell))
        try:
            model.fit(dataset.X, dataset.y, **({} if dataset.groups is None else {"groups": dataset.groups}))
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


def _likeness(model: SparLow, found: Prepared, terminal: Terminal) -> dict[str, Any]:
    """Return how like the training samples held-out ones are, if that can be measured."""
    terminal.stage("measuring how like the training samples held-out ones are")
    with warnings.catch_warnings(action="ignore"):  # the fit has said what there is
        measured = held_out_unlikeness(model, found.dataset, found.anew)
    return {} if measured is None else {"unlikeness": measured}


def _summary(dataset: Dataset, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what a model file keeps of the samples."""
    known = {
        "source": dataset.source,
        "n_samples": len(dataset.X),
        "n_features": int(dataset.X.shape[1]),
        "fingerprint": dataset.fingerprint,
        "marks": dataset.marks,
        "features": dataset.features or None,
        "names": None if dataset.names is None else list(dataset.names),
        "labels_from": dataset.labels_from,
        "unlabelled": arguments.unlabelled,
    }
    return {name: value for name, value in known.items() if value is not None}
