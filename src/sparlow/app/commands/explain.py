"""``sparlow explain MODEL PICTURE``."""

from __future__ import annotations

import argparse
import io
from typing import Any

import numpy as np

from ... import explanations, plots
from ...estimators.base import features_of
from ...views import Patches, views_named
from ..confidence import answer
from ..dataset import Dataset
from ..outputs import writable, write
from ..saved import SavedModel, read_data, read_model
from ..terminal import OK, Terminal, UserError, table


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Read one picture, explain it, draw it."""
    path = None if arguments.output is None else writable(arguments.output, arguments.model, arguments.data)
    if path is not None and path.suffix.lower() != ".png":
        raise UserError(f"{path.name}: explanations are drawn as .png.")
    held = read_model(arguments.model)
    if held.of_photographs:
        raise UserError(
            f"{arguments.model} is a model of features of photographs, whose atoms are no pictures. sparlow predict "
            "names the training pictures that are nearest."
        )
    dataset = read_data(arguments, arguments.data, held, terminal)
    if arguments.sample >= len(dataset.X):
        raise UserError(f"--sample {arguments.sample}: {arguments.data} has {len(dataset.X)} samples, counted from 0.")
    local = isinstance(views_named(held.model.views), Patches)
    payload, text, axes = (_local if local else _whole)(held, dataset.take(np.array([arguments.sample])), arguments)
    if path is not None:
        file = io.BytesIO()
        axes()[0].figure.savefig(file, format="png", dpi=150)
        write(path, file.getvalue())
        payload, text = {"output": str(path), **payload}, f"{text}\n\n{path}"
    terminal.result(payload, text)
    return OK


def _local(held: SavedModel, one: Dataset, arguments: argparse.Namespace) -> tuple[dict[str, Any], str, Any]:
    """Explain by parts of the picture."""
    model, x = held.model, one.X[0]
    if not hasattr(model, "classes_") or len(model.classes_) < 2:
        raise UserError("The model was learned without classes, so there is none that a picture speaks for.")
    label, against = (_class(model, name, option) for name, option in
                      ((arguments.label, "--class"), (arguments.against, "--against")))  # fmt: skip
    try:
        found = explanations.explain(model, x, label, against)
    except ValueError as error:
        raise UserError(str(error)) from error
    parts = found.largest(arguments.parts)
    where = [found.layout.where(cell) for _, _, cell, _ in parts]
    rows = [
        {"atom": atom, "sign": sign, "where": words, "share": value}
        for (atom, sign, _, value), words in zip(parts, where, strict=True)
    ]
    payload = {"label": found.label, "against": found.against, "probability": found.probability, "parts": rows}
    lines = [
        [f"{100 * value:+.1f} %", words, f"{'-' if sign < 0 else ''}atom {atom}"]
        for (atom, sign, _, value), words in zip(parts, where, strict=True)
    ]
    title = f"{_name(one)}: {found.label} ({100 * found.probability:.0f} %), rather than {found.against}"
    text = f"{title}\n\n{table(lines, ['share', 'where', 'what'])}"
    return (
        payload,
        text,
        lambda: plots.local_explanation(model, x, label=found.label, against=found.against, n_atoms=arguments.parts),
    )


def _whole(held: SavedModel, one: Dataset, arguments: argparse.Namespace) -> tuple[dict[str, Any], str, Any]:
    """Explain by the atoms that the sample is made of."""
    if arguments.label is not None or arguments.against is not None:
        raise UserError("--class and --against are for models of local codes (sparlow fit --pictures patches).")
    model = held.model
    code = model.encode(one.X).toarray()[0]
    chosen = np.argsort(-np.abs(code))[: min(arguments.parts, np.count_nonzero(code))]
    rows = [{"atom": int(atom), "code": float(code[atom])} for atom in chosen]
    lines = [[f"{code[atom]:+.3f}", f"atom {atom}"] for atom in chosen]
    payload: dict[str, Any] = {"atoms": rows, "n_atoms": int(np.count_nonzero(code))}
    title = f"{_name(one)}: made of {payload['n_atoms']} atoms"
    if held.training_labels() is not None and hasattr(model, "classes_"):
        said = answer(held, one.X)
        payload["label"] = said.labels[0]
        title = f"{_name(one)}: {said.labels[0]}, made of {payload['n_atoms']} atoms"
    text = f"{title}\n\n{table(lines, ['code', 'what'])}"
    payload["embedding_of"] = features_of(model)
    if not model.weights_[0]:
        text += f"\n\nThe model uses {features_of(model)}: atoms say what is in the picture, not why it has its class."
    shape = one.shape or held.image_shape

    def draw() -> Any:
        if shape is None:
            raise UserError("-o draws pictures; learn the model with --size HEIGHTxWIDTH, if rows are pictures.")
        return plots.explanation(one.X[0], model.dictionary_, code, (shape[0], shape[1]), n_atoms=arguments.parts)

    return payload, text, draw


def _class(model: Any, name: str | None, option: str) -> Any:
    """Return the class of a model that a word names."""
    if name is None:
        return None
    found = [label for label in model.classes_ if str(label) == name]
    if not found:
        there = ", ".join(map(str, model.classes_[:10]))
        raise UserError(f"{option} {name}: the model has no such class. It has {there}.")
    return found[0]


def _name(one: Dataset) -> str:
    """Return the name of the picture to explain."""
    return "sample" if one.names is None else one.names[0]
