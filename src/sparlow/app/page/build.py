"""The page of a model: its embedding of samples to explore, atoms, factors, curves, accuracies."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...evaluation import Judgement, in_order, known_rows
from ...models import ModelFile
from ..dataset import Dataset
from . import packing
from .document import Section, confusion, curve, document, resource, table

Array = NDArray[Any]

# the markers of plots.embedding, brightened where they would drown in a dark page
COLOURS = ["#2f7ed8", "#f28e2b", "#2ca02c", "#e03c3c", "#9467bd", "#a0674a", "#e377c2", "#b5b51d", "#17becf", "#6b7f99"]


def report(
    held: ModelFile,
    dataset: Dataset,
    *,
    judgements: Sequence[Judgement] = (),
    protocol: str = "",
    seen: bool = False,
    max_points: int = 10_000,
    title: str | None = None,
) -> str:
    """Return the page of a fitted model.

    Parameters
    ----------
    held : ModelFile
        A fitted :class:`SparLow` and what is known beside it.
    dataset : Dataset
        To be shown, with labels if there are any.
    judgements : sequence of Judgement
        The model first, its rivals after it, all on the same split.
    protocol : str
        How the judgements came about.
    seen : bool, default=False
        Whether some are of samples that the model was learned from, not all of samples held out.
    max_points : int, default=10000
        More samples than this are drawn from at random.
    title : str, optional
        By default the criterion and the source of the samples.

    Returns
    -------
    html : str
        A file that opens without a network.

    """
    n = len(dataset.X)
    rows = np.arange(n) if n <= max_points else np.sort(np.random.default_rng(0).permutation(n)[:max_points])
    shown, shape = dataset.take(rows), dataset.shape or held.image_shape
    model = held.model
    numbers, classes = _classes(shown.y)
    matrix = model.encode(shown.X)
    data = _payload(held, shown, rows, matrix, numbers, classes, shape)
    name = f"{type(model.criterion_).__name__}-SparLow"
    sections = [
        Section("Embedding", _explore(data), _said_of_samples(held, dataset, len(rows))),
        _atoms(data, model.views),
        _factors(data, model),
        _course(model),
        *_accuracy(judgements, protocol),
        Section("Model", _parameters(held)),
    ]
    return document(
        title or f"{name} on {_short_name(dataset.source)}",
        sections,
        facts=_facts(held, dataset, classes) | _accuracies(judgements, seen),
        data=data,
        scripts=[resource("explore.js")],
        footer=f"Made by sparlow {held.version}. This file holds everything it shows; nothing is fetched.",
    )


def _short_name(source: str) -> str:
    return source.rstrip("/").split("/")[-1] or "samples"


def _classes(y: Array | None) -> tuple[Array, list[str]]:
    """Return a number for each sample, 65535 where it has no class, and the names of the classes."""
    if y is None or y.ndim > 1 or y.dtype.kind == "f":
        return np.full(0 if y is None else len(y), packing.NONE), []
    known = known_rows(y)
    names = in_order(y[known])
    place = {label: number for number, label in enumerate(names)}
    return np.array([place[str(label)] if ok else packing.NONE for label, ok in zip(y, known, strict=True)]), names


def _payload(
    held: ModelFile,
    shown: Dataset,
    rows: Array,
    matrix: Any,
    numbers: Array,
    classes: list[str],
    shape: tuple[int, int] | None,
) -> dict[str, Any]:
    """Return everything that the script draws from."""
    model, n = held.model, len(shown.X)
    numbers = numbers if len(numbers) == n else np.full(n, packing.NONE)
    atoms = packing.vectors(model.dictionary_, shape)
    if atoms is not None:
        atoms |= packing.usage(matrix, numbers, len(classes))
    return {
        "n": n,
        "rows": rows.tolist(),
        "names": None if shown.names is None else list(shown.names),
        "classes": classes,
        "colours": COLOURS,
        "labels": packing.packed(numbers, np.uint16),
        "views": packing.perspectives(np.asarray(model.transform(shown.X), float), numbers),
        "images": None if shape is None else packing.sprite(shown.X, shape),
        "profiles": packing.profiles(shown.X) if shape is None else None,
        "codes": packing.codes(matrix),
        "atoms": atoms,
        "factors": packing.vectors(model.components_, shape),
    }


def _said_of_samples(held: ModelFile, dataset: Dataset, shown: int) -> str:
    n = len(dataset.X)
    parts = [
        f"{shown:,} of {n:,} samples, drawn at random."
        if shown < n
        else f"All {n:,} samples of {_short_name(dataset.source)}."
    ]
    seen = int(dataset.seen_by(held).sum())
    if seen:
        which = "these very samples" if seen == n else f"{seen:,} of them"
        parts.append(f"The model was learned from {which}: new ones lie less tidily.")
    return " ".join(parts)


def _explore(data: dict[str, Any]) -> str:
    options = "".join(
        f'<option value="{k}">{html.escape(view["name"])}</option>' for k, view in enumerate(data["views"])
    )
    cut = (
        f"Only the {packing.MOST_CODES} largest codes of a sample are kept in this page."
        if data["codes"]["cut"]
        else ""
    )
    return Template(resource("explore.html")).substitute(
        options=options, first=data["rows"][0], last=data["rows"][-1], cut=cut
    )


def _atoms(data: dict[str, Any], views: Any) -> Section:
    if data["atoms"] is None:
        body = '<p class="soft">They are too many and too long to be drawn in a page.</p><div id="atomsheet"></div>'
        return Section("Atoms", body)
    owners = ", the line below has the colour of the class that uses it most" if data["classes"] else ""
    lead = (
        f"The {data['atoms']['count']} atoms of the dictionary, the most used first{owners}. "
        "Click one to see in the embedding which samples use it."
    )
    if data["images"] is None:
        lead += " The samples are rows of numbers, not images of one size, so atoms are lines over these numbers."
    if views is not None:
        lead += (
            f" Codes are means over moved copies, {views}: more atoms have a part, and what they rebuild is blurred."
        )
    return Section("Atoms", '<div id="atomsheet" class="sheet"></div>', lead)


def _factors(data: dict[str, Any], model: Any) -> Section:
    what = "red adds, blue takes away" if data["images"] else "as lines over the features"
    count = model.n_components_
    which = f"each of the {count} coordinates" if count > 1 else "the one coordinate"
    lead = f"What {which} looks for: the projection of the atoms, UᵀD; {what}."
    return Section("Factors", '<div id="factorsheet" class="sheet"></div>', lead)


def _course(model: Any) -> Section:
    history = model.history_
    steps, held = history["step_number"], np.asarray(history["held_out"], float)
    lead = f"{model.n_iter_} steps; learning ended because: {model.stop_reason_}."
    if len(steps) < 2:
        return Section(
            "Course of learning", "", "No steps of joint learning: the best projection for the first dictionary."
        )
    parts = [curve(steps, history["quotient"], "trace quotient, training samples")]
    if np.isfinite(held).any():
        best = int(model.best_iter_)
        parts.append(curve(steps, held, "score, held-out samples", marked=best, words=f"best: step {best}"))
    else:
        lead += (
            " No part was held out: fit with --validation-fraction 0.3 to see that curve and choose the steps by it."
        )
    parts.append(curve(steps, history["nonzeros"], "codes per sample that are not zero"))
    return Section("Course of learning", f'<div class="charts">{"".join(parts)}</div>', lead)


def _accuracy(judgements: Sequence[Judgement], protocol: str) -> list[Section]:
    if not judgements:
        return []
    ours = judgements[0]
    tabs, panels = [], []
    for place, which in enumerate(ours.predicted):
        chart = confusion(ours.confusion(which), ours.classes, f"confusion matrix, {which}")
        words = f"{which} · {100 * ours.accuracy(which):.2f} %"
        tabs.append(
            f'<button role="tab" type="button" id="tab-{which}" aria-controls="confusion-{which}" '
            f'aria-selected="{str(place == 0).lower()}" tabindex="{0 if place == 0 else -1}">{words}</button>'
        )
        panels.append(
            f'<div role="tabpanel" id="confusion-{which}" aria-labelledby="tab-{which}"{" hidden" if place else ""}>'
            f'<figure class="scroll">{chart}<figcaption>True classes down, labels given across; hover for the share.'
            f"</figcaption></figure>{_weakest(ours, which)}</div>"
        )
    body = f'<div class="tools" role="tablist" aria-label="classifier">{"".join(tabs)}</div>{"".join(panels)}'
    rows = [
        [
            row.name,
            row.dimension,
            *(f"{100 * row.accuracy(which):.2f}" for which in ours.predicted),
            "" if np.isnan(row.fit_seconds) else f"{row.fit_seconds:.2f}",
        ]
        for row in judgements
    ]
    head = ["method", "numbers per sample", *(f"{which} %" for which in ours.predicted), "fit (s)"]
    explained = (
        "Classifiers and rivals learned from the same samples and are judged on the same others, in one run. 1NN is "
        "the nearest neighbour; C and γ of the Gaussian SVM come from cross-validation on training samples. In bold: "
        "this model."
    )
    found = [Section("Accuracy", body, protocol)]
    return [*found, Section("Rivals", table(rows, head, strong=[0]), explained)] if len(rows) > 1 else found


def _weakest(row: Judgement, which: str) -> str:
    weakest = sorted((item for item in row.per_class(which).items() if item[1] < 1), key=lambda item: item[1])[:5]
    if not weakest:
        return '<p class="soft">Every class is always right.</p>'
    words = ", ".join(f"{label} ({100 * share:.1f} %)" for label, share in weakest)
    return f'<p class="soft">Classes least often right: {html.escape(words)}.</p>'


def _facts(held: ModelFile, dataset: Dataset, classes: list[str]) -> dict[str, Any]:
    model = held.model
    shape = dataset.shape or held.image_shape
    facts: dict[str, Any] = {
        "criterion": type(model.criterion_).__name__,
        "samples": f"{len(dataset.X):,}",
        "each": f"{shape[0]} × {shape[1]} pixels" if shape else f"{dataset.X.shape[1]} numbers",
        "reduced to": f"{model.n_components_} number{'s' if model.n_components_ > 1 else ''}",
        "atoms": model.n_atoms_,
    }
    if classes:
        facts["classes"] = len(classes)
    return facts


def _accuracies(judgements: Sequence[Judgement], seen: bool) -> dict[str, str]:
    """Return the accuracies of the model, and which samples they are of."""
    where = "on samples it learned from" if seen else "held out"
    found = judgements[0].accuracies() if judgements else {}
    return {f"{which}, {where}": f"{100 * share:.2f} %" for which, share in found.items()}


def _rounded(value: Any) -> str:
    """Return text in which long numbers are cut to four digits."""
    return re.sub(r"\d+\.\d{5,}(e-?\d+)?", lambda found: f"{float(found[0]):.4g}", str(value))


def _parameters(held: ModelFile) -> str:
    model = held.model
    asked = {
        name: f"array {value.shape}" if isinstance(value, np.ndarray) else value
        for name, value in model.get_params(deep=False).items()
        if name not in ("callback", "verbose")
    }
    chosen = {
        "criterion": model.criterion_,
        "prior": model.prior_,
        "n_components": model.n_components_,
        "n_atoms": model.n_atoms_,
        **{name: getattr(model, f"{name}_") for name in ("shrinkage", "mu_proximity") if hasattr(model, f"{name}_")},
    }
    rows = [[name, value, _rounded(chosen.get(name, ""))] for name, value in asked.items()]
    return table(
        rows, ["parameter", "asked for", "in use"], caption=f"Learned from {held.data.get('source', 'samples')}"
    )
