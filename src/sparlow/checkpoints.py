"""Checkpoints: a file from which a fit that was ended goes on, to the same bits.

After each step the file is replaced by one with the dictionary, the projection, what the optimiser remembers, where the
weights of pairs were computed last, and the history. Codes and structures are not kept: they follow from these.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .checks import Array, evenly
from .files import check_zip, replacing
from .optimize import LastStep, State
from .problem import Objective, Refresh

_FORMAT = "sparlow checkpoint 1"
_OF_STATE = [field.name for field in dataclasses.fields(State) if field.name not in ("evaluation", "memory")]


@dataclass
class Checkpoint:
    """What a fit has done so far, and the file that keeps it.

    Parameters
    ----------
    path : path
    key : mapping
        Digests by name, of the data, the labels and the settings: a file of another fit is refused.
    chosen : dict, optional
        What was chosen on held-out samples.
    anchor : array, optional
        The first dictionary.
    arrays, numbers : dict
        The state after the last step.

    """

    path: pathlib.Path
    key: Mapping[str, str]
    chosen: dict[str, Any] | None = None
    anchor: Array | None = None
    arrays: dict[str, Array] | None = None
    numbers: dict[str, Any] | None = None

    @classmethod
    def at(cls, path: str | pathlib.Path, key: Mapping[str, str]) -> Checkpoint:
        """Return the checkpoint in a file, or an empty one if there is no file yet.

        A file that was damaged or made by somebody else runs no code.
        """
        path = pathlib.Path(path)
        if not path.exists():
            if not os.access(path.parent, os.W_OK):
                what = "cannot be written to" if path.parent.is_dir() else "is not there"
                raise ValueError(f"The folder of the checkpoint {path} {what}: name a file in another one.")
            return cls(path, key)
        try:
            check_zip(path)
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            about = json.loads(str(arrays.pop("about")))
            if about["format"] != _FORMAT:
                raise ValueError(f"its format is {about['format']!r}")
            strange = [name for name, array in arrays.items() if name != "counts" and not _is_sound(array)]
            if strange:
                raise ValueError(f"its {strange[0]} must be an array of finite numbers")
            others = [name for name in key if about["key"].get(name) != key[name]]
            found = cls(path, key, about["chosen"], arrays.pop("anchor", None), arrays or None, about["numbers"])
        except Exception as error:  # whatever a file of another kind provokes
            raise ValueError(
                f"{path} is no checkpoint of this version: {error}. Remove it, or name another."
            ) from error
        if others:
            raise ValueError(
                f"{path} is the checkpoint of another fit: the {' and the '.join(others)} differ. Remove the file to "
                "begin anew, or name another one."
            )
        return found

    def save(self) -> None:
        """Write the file, whole or not at all."""
        about = {"format": _FORMAT, "key": dict(self.key), "chosen": self.chosen, "numbers": self.numbers}
        arrays = {} if self.anchor is None else {"anchor": self.anchor}
        with replacing(self.path) as unfinished, unfinished.open("wb") as file:
            np.savez(file, **arrays, **(self.arrays or {}), about=np.array(json.dumps(about)))  # type: ignore[arg-type]

    def keep(self, state: State, refresh: Refresh | None, rows: list[dict[str, float]]) -> None:
        """Write the state after a step."""
        now, memory = state.evaluation, state.memory
        arrays = {"dictionary": now.dictionary, "projection": now.projection}
        if memory is not None:
            arrays |= _packed("gradient", memory.gradient) | _packed("search", memory.search)
        if refresh is not None:
            arrays |= {"refresh_dictionary": refresh.dictionary, "refresh_projection": refresh.projection}
        self._keep(
            arrays,
            rows,
            state={name: getattr(state, name) for name in _OF_STATE},
            slope=None if memory is None else memory.slope,
            refresh=None if refresh is None else [refresh.quotient, refresh.top],
        )

    def keep_pass(self, arrays: dict[str, Array], rows: list[dict[str, float]], done: int) -> None:
        """Write the state after a pass of stochastic steps; ``done`` counts the batches."""
        self._keep(arrays, rows, done=done)

    def _keep(self, arrays: dict[str, Array], rows: list[dict[str, float]], **numbers: Any) -> None:
        """Write arrays and numbers, and the history so far."""
        history = [{name: float(value) for name, value in row.items()} for row in rows]
        self.arrays, self.numbers = arrays, {**numbers, "rows": history}
        self.save()

    def restored(self, objective: Objective) -> tuple[Objective, list[State], Refresh | None]:
        """Return the objective, the state (in a list, to be handed over) and the last refresh as they were kept."""
        assert self.arrays is not None
        assert self.numbers is not None
        arrays, numbers = self.arrays, self.numbers
        refresh, memory = None, None
        if numbers["refresh"] is not None:
            refresh = Refresh(arrays["refresh_dictionary"], arrays["refresh_projection"], *numbers["refresh"])
            objective = refresh.applied(objective)
        if numbers["slope"] is not None:
            memory = LastStep(_unpacked("gradient", arrays), _unpacked("search", arrays), numbers["slope"])
        evaluation = objective.at(arrays["dictionary"], arrays["projection"])
        return objective, [State(evaluation, memory=memory, **numbers["state"])], refresh


def _is_sound(array: Array) -> bool:
    """Return whether an array holds finite numbers."""
    return array.dtype.kind == "f" and bool(np.isfinite(array).all())


def _packed(name: str, point: Any) -> dict[str, Array]:
    """Return a point of a manifold, an array or a pair of them, as named arrays."""
    parts = point if isinstance(point, tuple) else (point,)
    return {f"{name}_{i}": part for i, part in enumerate(parts)}


def _unpacked(name: str, arrays: Mapping[str, Array]) -> Any:
    """Return an array, or two of them, from the arrays of a checkpoint."""
    parts = tuple(arrays[f"{name}_{i}"] for i in range(2) if f"{name}_{i}" in arrays)
    return parts if len(parts) > 1 else parts[0]


def digest(*things: Any) -> str:
    """Return a digest of arrays and of anything else by its representation."""
    found = hashlib.blake2b(digest_size=16)
    for thing in things:
        if isinstance(thing, np.ndarray):
            found.update(f"{thing.dtype}{thing.shape}".encode())
            found.update(np.ascontiguousarray(thing).tobytes())
        else:
            found.update(repr(thing).encode())
    return found.hexdigest()


def digest_of_samples(samples: Any) -> str:
    """Return a digest of the number of samples and of 1000 of them, evenly spaced."""
    some = samples.take(evenly(np.arange(len(samples)), 1000)).X
    chunks = samples.store.bounds  # sums over other chunks have other bits
    return digest(samples.shape, chunks, some.toarray() if hasattr(some, "toarray") else some)
