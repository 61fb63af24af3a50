"""Whoever follows a fit: scikit-learn's callbacks (since 1.9), a plain function, or a printed line per step."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

from .projector import OF_SOME_CRITERIA

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn 1.8 has no callbacks

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in for scikit-learn's, whose ``set_callbacks`` comes with version 1.9."""

    def with_callbacks(method: Any) -> Any:
        """Leave the method as it is."""
        return method


__all__ = ["Audience", "CallbackSupportMixin", "with_callbacks"]


class Audience:
    """Tells each step of a fit to those who listen; ``step`` answers whether one of them wants to stop."""

    def __init__(
        self, model: Any, X: Any, y: Any, max_iter: int, callback: Callable[..., Any] | None, verbose: int
    ) -> None:
        self._model, self._callback, self._verbose = model, callback, verbose
        self._shows_model = callback is not None and _takes_two(callback)
        self._data = {"estimator": model, "X": X, "y": y}
        self._context = None
        if hasattr(model, "_init_callback_context"):
            self._context = model._init_callback_context(max_subtasks=max_iter)
            self._context.call_on_fit_task_begin(**self._data)

    def step(self, row: dict[str, float], state: Callable[[], dict[str, Any]]) -> bool:
        """One accepted step: its row of the history, and a function that gives the fitted attributes."""
        if self._verbose:
            print(self._line(row), flush=True)
        stop = self._called(dict(row), state)
        if self._context is not None and hasattr(self._model, "_skl_callbacks"):
            task = self._context.subcontext(task_name="step").call_on_fit_task_begin(**self._data)
            stop |= bool(task.call_on_fit_task_end(**self._data, reconstruction_attributes=state()))
        return stop

    def _called(self, row: dict[str, float], state: Callable[[], dict[str, Any]]) -> bool:
        if self._callback is None:
            return False
        if not self._shows_model:
            return bool(self._callback(row))
        now = copy.copy(self._model)
        for of_last_fit in OF_SOME_CRITERIA:
            now.__dict__.pop(of_last_fit, None)
        now.__dict__.update(state())
        return bool(self._callback(row, now))

    def close(self, fitted: dict[str, Any]) -> None:
        """The fit is over, with these fitted attributes."""
        if self._context is not None:
            self._context.call_on_fit_task_end(**self._data, reconstruction_attributes=fitted)

    def _line(self, row: dict[str, float]) -> str:
        held_out = "" if row["held_out"] != row["held_out"] else f"  held out {row['held_out']:.4f}"
        return (
            f"[{type(self._model).__name__}] step {row['step_number']:3.0f}  J {row['cost']:.5g}"
            f"  f {row['quotient']:.5g}  nonzeros {row['nonzeros']:.1f}{held_out}  {row['seconds']:.1f} s"
        )


def _takes_two(callback: Callable[..., Any]) -> bool:
    """Whether a function wants the model beside the row: whether it has a second positional parameter of no default."""
    try:
        parameters = inspect.signature(callback).parameters.values()
    except ValueError:  # functions written in C tell nothing
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in kinds and p.default is p.empty for p in parameters) == 2
