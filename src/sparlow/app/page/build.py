"""The page of a model: its embedding of samples to explore, atoms, factors, curves, accuracies."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from string import Template
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ... import explanations
from ...estimators.base import features_of
from ...evaluation import Judgement, in_order
from ...labels import known_rows
from ...models import ModelFile
from ...views import Patches, views_named
from ..confidence import likeness_of, n_distinct, nearest_rows
from ..dataset import Dataset
from ..judgements import lines_of
from . import packing
from .document import Section, confusion, curve, document, resource, table

Array = NDArray[Any]

# the markers of plots.embedding, brightened where they would drown in a dark page
COLOURS = ["#2f7ed8", "#f28e2b", "#2ca02c", "#e03c3c", "#9467bd", "#a0674a", "#e377c2", "#b5b51d", "#17becf", "#6b7f99"]

_NEAREST = 5  # samples that are shown beside a chosen one
_FEW = 100  # samples judged below which numbers are shown, not shares
_FOR_FACTORS = 500  # samples that the patterns of factors are measured on
_SURE, _LIKE, _DOUBTFUL = 0.9, 0.05, 24


def report(
    held: ModelFile,
    dataset: Dataset,
    *,
    judgements: Sequence[Judgement] = (),
    protocol: str = "",
    seen: bool = False,
    max_points: int = 10_000,
) -> str:
    """Return the page of a fitted model: a file that opens without a network.

    ``judgements`` are of the model first, of its rivals after it, all on the same samples; ``protocol`` says how they
    came about, ``seen`` whether the model was learned from these. Of more than ``max_points`` samples some are drawn.
    """
    n = len(dataset.X)
    rows = np.arange(n) if n <= max_points else np.sort(np.random.default_rng(0).permutation(n)[:max_points])
    shown, shape = dataset.take(rows), dataset.shape or held.image_shape
    model = held.model
    numbers, classes = _classes(shown.y, held)
    Z = np.asarray(model.transform(shown.X), float)
    guesses = _guesses(held, shown, Z, classes)
    data = _payload(held, shown, rows, Z, numbers, classes, guesses, shape)
    name = f"{type(model.criterion_).__name__}-SparLow"
    sections = [
        Section("Embedding", _explore(data), _said_of_samples(held, dataset, len(rows)) + _said_of_collapse(Z)),
        *_doubtful(guesses, data),
        *(
            [_atoms(data, views_named(model.views)), _factors(data, model)]
            if _has_codes(model) and not dataset.described
            else []
        ),
        _course(model),
        *_accuracy(judgements, protocol),
        Section("Model", _parameters(held)),
    ]
    return document(
        f"{name} on {_short_name(dataset.source)}",
        sections,
        facts=_facts(held, dataset, classes) | _accuracies(judgements, seen),
        data=data,
        scripts=[resource("explore.js")],
        footer=f"Made by sparlow {held.version}. This file holds everything it shows; nothing is fetched.",
    )


def _short_name(source: str) -> str:
    """Return the name of a file without its folders."""
    return source.rstrip("/").split("/")[-1] or "samples"


def _classes(y: Array | None, held: ModelFile) -> tuple[Array, list[str]]:
    """Return a number for each sample, 65535 where it has no class, and the names of the classes.

    Those that the model knows come first, in its order, so that colours do not depend on the samples shown.
    """
    labels = held.training_labels()
    learned = _names_in(labels)
    if y is None or y.ndim > 1 or y.dtype.kind == "f":
        return np.full(0 if y is None else len(y), packing.NONE), learned
    found = _names_in(y)
    names = [*learned, *(name for name in found if name not in learned)]
    place = {label: number for number, label in enumerate(names)}
    known = known_rows(y, semi=not {"-1", "-1.0"} & {*learned})
    return np.array([place[str(label)] if ok else packing.NONE for label, ok in zip(y, known, strict=True)]), names


def _names_in(y: Array | None) -> list[str]:
    """Return the classes of labels in order; none of targets."""
    if y is None or y.ndim > 1 or y.dtype.kind == "f":
        return []
    return in_order(y[known_rows(y)])


@dataclass(frozen=True)
class _Guesses:
    """What the model says of the samples shown."""

    first: Array  # the most probable class and the next, as numbers
    second: Array
    pairs: Array  # (n, 2) the same in the order of the model's classes
    probability: Array
    likeness: Array
    own: bool  # whether the samples are those learned from: each is then judged by the others
    seen: Array  # which samples were learned from
    measured: bool  # whether likeness was measured on held-out samples


def _guesses(held: ModelFile, shown: Dataset, Z: Array, classes: list[str]) -> _Guesses | None:
    """Return what the model says of the samples; None if it knows no classes."""
    model = held.model
    if getattr(model._training, "y", None) is None or len(getattr(model, "classes_", ())) < 2:
        return None
    seen = shown.seen_by(held)
    own = bool(seen.all()) and len(Z) == len(model._voters.points)
    shares = model._voters.probabilities(Z, own)
    order = np.argsort(-shares, axis=1, kind="stable")[:, :2]
    place = {name: number for number, name in enumerate(classes)}
    names = [_name(label) for label in model.classes_]
    numbers = np.array([place.get(name, packing.NONE) for name in names])
    probability = shares[np.arange(len(Z)), order[:, 0]]
    measured = "unlikeness" in held.data and not own
    likeness = likeness_of(held, Z) if measured else np.ones(len(Z))
    return _Guesses(numbers[order[:, 0]], numbers[order[:, 1]], order, probability, likeness, own, seen, measured)


def _name(label: Any) -> str:
    """Return a class of a model as files name it: 3 for 3.0 and 1 for True."""
    whole = isinstance(label, (bool, np.bool_)) or (isinstance(label, (float, np.floating)) and label == int(label))
    return str(int(label)) if whole else str(label)


def _payload(
    held: ModelFile,
    shown: Dataset,
    rows: Array,
    Z: Array,
    numbers: Array,
    classes: list[str],
    guesses: _Guesses | None,
    shape: tuple[int, ...] | None,
) -> dict[str, Any]:
    """Return everything that the script draws from."""
    model, n = held.model, len(shown.X)
    numbers = numbers if len(numbers) == n else np.full(n, packing.NONE)
    data: dict[str, Any] = {
        "n": n,
        "rows": rows.tolist(),
        "names": None if shown.names is None else list(shown.names),
        "classes": classes,
        "colours": COLOURS,
        "labels": packing.as_base64(numbers, np.uint16),
        "views": packing.embedding_perspectives(Z, numbers),
        "images": None,
        "profiles": None,
        "local": None,
        "atoms": None,
        "factors": None,
        "maps": None,
        "guesses": None,
        "nearest": packing.as_base64(nearest_rows(Z, Z, min(_NEAREST, n - 1), own=True), np.uint32),
        "codes": packing.pack_codes(sp.csr_array((n, 1))),
    }
    if guesses is not None:
        data["guesses"] = {
            "first": packing.as_base64(guesses.first, np.uint16),
            "second": packing.as_base64(guesses.second, np.uint16),
            "probability": packing.as_base64(np.round(1000 * guesses.probability), np.uint16),
            "likeness": packing.as_base64(np.round(1000 * guesses.likeness), np.uint16),
        }
    if shown.pictures is not None and shown.described:
        return {**data, "images": packing.sprite_of_pictures(shown.pictures)}
    data["images"] = None if shape is None else packing.sprite_of_rows(shown.X, shape)
    data["profiles"] = packing.pack_profiles(shown.X) if shape is None else None
    if isinstance(views_named(model.views), Patches):
        found = explanations.factors(model, shown.X[np.linspace(0, n - 1, min(n, _FOR_FACTORS)).astype(int)])
        pictures, maps = found.pictures(), found.maps
        patch = found.layout.patch
        atoms = np.asarray(model.dictionary_).reshape(len(model.dictionary_), *patch)
        atoms = (atoms if len(patch) == 2 else atoms.mean(axis=3)).reshape(len(atoms), -1)
        data["factors"] = packing.pack_vectors(pictures.reshape(len(pictures), -1), pictures.shape[1:])
        data["maps"] = packing.pack_vectors(maps.reshape(len(maps), -1), maps.shape[1:])
        data["atoms"] = packing.pack_vectors(atoms, (patch[0], patch[1]))
        if guesses is not None:
            data["local"], matrix = packing.local_parts(model, shown.X, guesses.pairs)
        else:
            matrix = packing.atom_amounts(model, shown.X)
    elif not _has_codes(model):
        return data
    else:
        matrix = model.encode(shown.X)
        data["codes"] = packing.pack_codes(matrix)
        flat = None if shape is None or len(shape) > 2 else (shape[0], shape[1])
        data["factors"] = packing.pack_vectors(model.components_, flat)
        data["atoms"] = packing.pack_vectors(model.dictionary_, flat)
    if data["atoms"] is not None:
        data["atoms"] |= packing.atom_usage(matrix, numbers, len(classes))
    return data


def _has_codes(model: Any) -> bool:
    """Return whether the embedding makes use of codes."""
    return bool(model.weights_[0])


def _said_of_collapse(Z: Array) -> str:
    """Return a warning where the embedding has hardly any distinct points, or an empty text."""
    count = n_distinct(Z)
    if count > 2 or len(Z) < 10:
        return ""
    many = "one point" if count == 1 else "two distinct points"
    return f" Beware: the model has collapsed. All these samples lie at {many}, so it tells hardly anything apart."


def _doubtful(guesses: _Guesses | None, data: dict[str, Any]) -> list[Section]:
    """Return the section of samples that the model is least sure of."""
    if guesses is None:
        return []
    kept = np.arange(data["n"]) if guesses.own else np.flatnonzero(~guesses.seen)
    unsure = kept[guesses.probability[kept] < _SURE]
    unsure = unsure[np.argsort(guesses.probability[unsure], kind="stable")][:_DOUBTFUL]
    unlike = kept[(guesses.likeness[kept] < _LIKE) & ~np.isin(kept, unsure)]
    unlike = unlike[np.argsort(guesses.likeness[unlike], kind="stable")][:_DOUBTFUL]
    data["doubtful"] = {"unsure": unsure.tolist(), "unlike": unlike.tolist()}
    if not len(kept):
        return []
    which = "these samples" if len(unsure) + len(unlike) else "no sample"
    lead = f"The model gives the class of {which} less than {100 * _SURE:.0f} % of the probability"
    if guesses.measured:
        lead += f", or they are less like the training samples than {100 - 100 * _LIKE:.0f} % of held-out ones"
    lead += ". All were learned from: each is judged by the others." if guesses.own else f". {len(kept):,} are new."
    if len(unsure) + len(unlike):
        lead += " Those in a red frame are wrong. Click one to see what explains it."
    titles = {"unsure": "Between classes", "unlike": "Unlike the training samples"}
    body = "".join(
        (f"<h3>{title}</h3>" if data["doubtful"][name] else "") + f'<div id="{name}" class="doubts"></div>'
        for name, title in titles.items()
    )
    return [Section("Doubtful", body, lead)]


def _said_of_samples(held: ModelFile, dataset: Dataset, shown: int) -> str:
    """Say on the page which samples are shown."""
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
    """Return the section of the page with the embedding."""
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
    """Return the section of the page with the atoms."""
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
    if isinstance(views, Patches):
        lead = lead.replace("atoms of the dictionary", "atoms, patches of the pictures")
    elif views is not None:
        lead += (
            f" Codes are means over moved copies, {views}: more atoms have a part, and what they rebuild is blurred."
        )
    return Section("Atoms", '<div id="atomsheet" class="sheet"></div>', lead)


def _factors(data: dict[str, Any], model: Any) -> Section:
    """Return the section of the page with the factors."""
    what = "red adds, blue takes away" if data["images"] else "as lines over the features"
    count = model.n_components_
    which = f"each of the {count} coordinates" if count > 1 else "the one coordinate"
    lead = f"What {which} looks for: the projection of the atoms, UᵀD; {what}."
    if isinstance(views_named(model.views), Patches):
        lead = (
            f"What {which} looks for, and where. Left: a tile for each cell of the picture, the sum of the atoms that "
            "a unit of the coordinate adds there; red is brighter, blue darker. Right: how much it looks at each "
            "place, from least to most."
        )
    return Section("Factors", '<div id="factorsheet" class="sheet"></div>', lead)


def _course(model: Any) -> Section:
    """Return the section of the page with the course of learning."""
    history = model.history_
    steps, held = history["step_number"], np.asarray(history["held_out"], float)
    lead = f"{model.n_iter_} steps; learning ended because: {model.stop_reason_}."
    if len(steps) < 2:
        return Section("Course of learning", "", "No steps were made: the best projection for the first dictionary.")
    parts = [curve(steps, history["quotient"], "trace quotient, training samples")]
    if np.isfinite(held).any():
        best = int(model.best_iter_)
        parts.append(curve(steps, held, "score, held-out samples", marked=best, words=f"best: step {best}"))
    parts.append(curve(steps, history["nonzeros"], "codes per sample that are not zero"))
    return Section("Course of learning", f'<div class="charts">{"".join(parts)}</div>', lead)


def _accuracy(judgements: Sequence[Judgement], protocol: str) -> list[Section]:
    """Return the section of the page with accuracies and confusions."""
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
            "</figcaption></figure></div>"
        )
    body = f'<div class="tools" role="tablist" aria-label="classifier">{"".join(tabs)}</div>{"".join(panels)}'
    rows, head = lines_of(list(judgements), seconds=True)
    explained = (
        "Classifiers and rivals learned from the same samples and are judged on the same others, in one run. predict "
        "is what a method answers itself, 1NN the nearest neighbour; C and γ of the Gaussian SVM come from "
        "cross-validation on training samples. balanced is the mean over classes. In bold: this model."
    )
    found = [Section("Accuracy", body, protocol)]
    return [*found, Section("Rivals", table(rows, head, strong=[0]), explained)] if len(rows) > 1 else found


def _facts(held: ModelFile, dataset: Dataset, classes: list[str]) -> dict[str, Any]:
    """Return the numbers at the top of the page."""
    model = held.model
    shape = dataset.shape or held.image_shape
    what = "numbers" if not dataset.described else "features of a photograph"
    facts: dict[str, Any] = {
        "criterion": type(model.criterion_).__name__,
        "samples": f"{len(dataset.X):,}",
        "each": f"{' × '.join(map(str, shape[:2]))} pixels{' in colour' * (len(shape) > 2)}"
        if shape
        else f"{dataset.X.shape[1]} {what}",
        "reduced to": f"{model.n_components_} number{'s' if model.n_components_ > 1 else ''}",
    }
    if _has_codes(model):
        facts["atoms"] = model.n_atoms_
    if classes:
        facts["classes"] = len(classes)
    return facts


def _accuracies(judgements: Sequence[Judgement], seen: bool) -> dict[str, str]:
    """Return the accuracies of the model, and which samples they are of."""
    where = "on samples it learned from" if seen else "held out"
    if not judgements:
        return {}
    n, found = len(judgements[0].truth), judgements[0].accuracies()
    if n < _FEW:  # a share of so few would say more than it can
        return {f"{which}, {where}": f"{round(n * share)} of {n}" for which, share in found.items()}
    return {f"{which}, {where}": f"{100 * share:.2f} %" for which, share in found.items()}


def _rounded(value: Any) -> str:
    """Return text in which long numbers are cut to four digits."""
    return re.sub(r"\d+\.\d{5,}(e-?\d+)?", lambda found: f"{float(found[0]):.4g}", str(value))


def _parameters(held: ModelFile) -> str:
    """Return the table of parameters of the page."""
    model = held.model
    used = {"embedding": f"of {features_of(model)}"}
    rows = []
    for name, value in model.get_params(deep=False).items():
        asked = f"array {value.shape}" if isinstance(value, np.ndarray) else value
        rows.append([name, asked, _rounded(used.get(name, getattr(model, f"{name}_", "")))])
    rows = [[name, asked, "" if name == "dictionary" else found] for name, asked, found in rows]
    return table(
        rows, ["parameter", "asked for", "in use"], caption=f"Learned from {held.data.get('source', 'samples')}"
    )
