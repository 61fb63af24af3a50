"""``sparlow inspect MODEL``."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from ...estimators.base import features_of
from ...evaluation import in_order
from ...labels import known_rows
from ..saved import SavedModel, read_model
from ..terminal import OK, Terminal, table

_LONG = ("marks", "names", "unlikeness")
_COURSE = ("step_number", "cost", "quotient", "held_out", "nonzeros", "seconds")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Read and tell."""
    facts = facts_of(read_model(arguments.model))
    terminal.result({"model": arguments.model, **facts}, _text(facts))
    return OK


def facts_of(held: SavedModel) -> dict[str, Any]:
    """Return the facts about a saved model."""
    model = held.model
    labels = held.training_labels()
    classed = labels is not None and labels.ndim == 1 and labels.dtype.kind != "f"
    classes = in_order(labels[known_rows(labels)]) if labels is not None and classed else []
    return {
        "version": held.version,
        "steps": held.steps,
        "data": {
            **{name: value for name, value in held.data.items() if name not in _LONG},
            "image_shape": held.image_shape,
            "classes": classes,
        },
        "parameters": {name: _short(value) for name, value in model.get_params(deep=False).items()},
        "chosen": {
            "criterion": str(model.criterion_),
            "prior": str(model.prior_),
            "embedding_of": features_of(model),
            "n_components": model.n_components_,
            "n_atoms": model.n_atoms_,
            "shrinkage": model.shrinkage_,
            "ridge": model.ridge_,
            "mu_proximity": model.mu_proximity_,
        },
        "learning": {
            "steps_made": model.n_iter_,
            "steps_of_the_model": model.best_iter_,
            "stop_reason": model.stop_reason_,
        },
        "history": {name: np.asarray(model.history_[name]) for name in _COURSE},
    }


def _short(value: Any) -> Any:
    """Return the shape of an array, other values as they are."""
    return f"array of shape {value.shape}" if isinstance(value, np.ndarray) else value


def _text(facts: dict[str, Any]) -> str:
    """Return what a model file holds as lines for the terminal."""
    data = dict(facts["data"])
    data["classes"] = (
        f"{len(data['classes'])}: {', '.join(data['classes'][:12])}{' …' if len(data['classes']) > 12 else ''}"
    )
    parts = [
        f"written by sparlow {facts['version']}",
        *([f"steps: {' → '.join(facts['steps'])}"] if len(facts["steps"]) > 1 else []),
        *(
            f"{title}\n{table([[f'  {name}', str(value)] for name, value in section.items() if value is not None])}"
            for title, section in (
                ("training samples", data),
                ("chosen", facts["chosen"]),
                ("learning", facts["learning"]),
                ("parameters", facts["parameters"]),
            )
        ),
    ]
    history = facts["history"]
    used = [name for name in _COURSE if np.isfinite(np.asarray(history[name], float)).any()]
    lines = [[f"{float(value):.6g}" for value in row] for row in zip(*(history[name] for name in used), strict=True)]
    return "\n\n".join([*parts, f"course of learning\n{table(lines, ['step', *used[1:]])}"])
