"""``sparlow explain MODEL PICTURE``."""

from __future__ import annotations

import argparse
import io
from typing import Any

import numpy as np

from ... import explanations, plots
from ...estimators.attributes import features_of
from ...views import Patches
from ..arguments import add_data, whole_number
from ..confidence import answer
from ..dataset import Dataset
from ..outputs import writable, write_bytes
from ..saved import SavedModel, read_data, read_model
from ..terminal import OK, Terminal, UserError, table

SUMMARY = "what in a picture speaks for its class: which atoms, and where"
EXAMPLES = """\
  sparlow explain digits.sparlow what.png
  sparlow explain digits.sparlow what.png --class 3 --against 5 -o why.png
  sparlow explain digits.sparlow digits.npz --sample 12 -o why.png

For a model of local codes: the parts of the picture that speak most for a class (+) rather than another (-), by default
the most probable one and the next. A part is an atom in a cell of the picture; its share is that of all that speaks for
either class. For codes of whole pictures: the atoms that it is made of, and their codes. -o draws it (.png)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("model", metavar="MODEL", help="a file that sparlow fit wrote, of pictures of one size")
    parser.add_argument("data", metavar="DATA", help="one picture, or several with --sample")
    parser.add_argument("-o", "--output", metavar="FILE", help="the picture to draw, *.png")
    parser.add_argument(
        "--sample", type=whole_number(0), default=0, metavar="N", help="which of DATA, from 0; default: 0"
    )
    parser.add_argument("--class", dest="label", metavar="A", help="the class to speak for; default: the most probable")
    parser.add_argument("--against", metavar="B", help="the other class; default: the next")
    parser.add_argument(
        "--parts", type=whole_number(1), default=6, metavar="K", help="how many parts to name; default: 6"
    )
    add_data(parser)


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
    local = isinstance(held.model.views, Patches)
    payload, text, axes = (_local if local else _whole)(held, dataset.take(np.array([arguments.sample])), arguments)
    if path is not None:
        file = io.BytesIO()
        axes()[0].figure.savefig(file, format="png", dpi=150)
        write_bytes(path, file.getvalue())
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
        raise UserError("--class and --against are for models of local codes (sparlow fit --patches).")
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
            raise UserError("-o draws pictures; rows that are pictures need --size HEIGHTxWIDTH.")
        return plots.explanation(one.X[0], model.dictionary_, code, shape, n_atoms=arguments.parts)

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
