"""The fitted attributes of ``SparLow``: shown as a table, and checked where they come from a file."""

from __future__ import annotations

import html
from typing import Any

import numpy as np

from ..checks import image_sides
from ..views import Bound, Patches, Shifts, views_named


def features_of(model: Any) -> str:
    """Return what the embedding of a fitted model is made from, in words."""
    codes, samples = model.weights_
    if not codes:
        return "samples alone, as their codes did not help"
    return "codes and samples" if samples else "codes"


def _sides(model: Any) -> str:
    """Return the sides of pictures that the views of a model take samples for, in words."""
    views = views_named(model.views)
    if not isinstance(views, (Patches, Shifts)):
        return ""
    try:
        height, width, channels = image_sides("", views.shape, model.n_features_in_)
    except ValueError:  # views that were set after the fit
        return ""
    return f", read as {height} × {width} pixels" + " in colours" * (channels > 1)


def table_of_numbers(model: Any) -> str:
    """Return the numbers of a fitted model as an HTML table."""
    held = model.__dict__.get("spectrum_", {"held_out": np.empty(0)})["held_out"]
    numbers = {
        "training samples": f"{len(model.embedding_)} of {model.n_features_in_} numbers{_sides(model)}",
        "atoms": f"{model.n_atoms_}",
        "components": f"{model.n_components_}",
        "prior": f"{model.prior_}",
        "embedding of": features_of(model),
        "joint steps": f"{model.best_iter_} of {model.n_iter_} made",
        "why it ended": model.stop_reason_,
        "held-out score": f"{held[np.isfinite(held)][-1]:.3f}" if np.isfinite(held).any() else "no part held out",
    }
    rows = "".join(f"<tr><th>{name}</th><td>{html.escape(said)}</td></tr>" for name, said in numbers.items())
    return f'<table class="sparlow-numbers"><tbody>{rows}</tbody></table>'


def check_attributes(model: Any) -> None:
    """Refuse fitted attributes that do not fit each other, as a damaged file may have them."""
    m = model.n_features_in_
    asked = views_named(model.views)
    views = Bound() if asked is None else asked.bound(m, True, model._epsilon, model._whitener)
    alpha, gamma = model.weights_
    width = (views.width(len(model.dictionary_)) if alpha else 0) + (m if gamma else 0)
    count, inner = len(model._centre), model.projection_.shape[1]
    shapes = {
        "dictionary_": (len(model.dictionary_), views.n_inputs(m)),
        "projection_": (width, inner),
        "components_": (count, m if views.whole else width),
        "embedding_": (len(model.embedding_), count),
        "_centre": (count,),
    }
    if hasattr(model, "memberships_"):
        shapes["memberships_"] = (len(model.embedding_), len(model.classes_))
    if model.forms_ is not None:
        shapes["forms_"] = (count, inner, inner)
    elif inner != count:
        raise ValueError(f"projection_ has {inner} columns, but the embedding has {count}.")
    for name, shape in shapes.items():
        array = getattr(model, name)
        if not isinstance(array, np.ndarray) or array.dtype.char not in "fd" or array.shape != shape:
            raise ValueError(f"{name} must be an array of floats of shape {shape}, got {np.shape(array)}.")
        if not np.isfinite(array).all():
            raise ValueError(f"{name} holds numbers that are not finite.")
    for name, number in (("n_atoms_", len(model.dictionary_)), ("n_components_", count)):
        if getattr(model, name) != number or isinstance(getattr(model, name), bool):
            raise ValueError(f"{name} must be {number}, got {getattr(model, name)!r}.")
    y, n_classes = model._training.y, len(getattr(model, "classes_", ()))
    if y is not None and (len(y) != len(model.embedding_) or y.min(initial=0) < -1 or y.max(initial=-1) >= n_classes):
        raise ValueError("The labels of the training samples do not fit the embedding or the classes.")
