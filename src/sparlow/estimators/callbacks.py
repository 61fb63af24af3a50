"""Following a fit: scikit-learn's callbacks, and a printed line per step."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

Row = dict[str, float]


class OnStep:
    """Call a function after each step of a fit, as a callback of scikit-learn.

    Parameters
    ----------
    function : callable
        ``function(row, model)`` gets the row of ``history_`` as a dict, and the model as it is at this step, fitted. A
        true answer ends the fit.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sparlow import SparLow
    >>> from sparlow.estimators import OnStep
    >>> X, y = load_digits(return_X_y=True)
    >>> costs = []
    >>> follow = OnStep(lambda row, model: costs.append(row["cost"]))
    >>> model = SparLow(n_atoms=50, max_iter=2, early_stopping=False, embedding="orthonormal", random_state=0)
    >>> model = model.set_callbacks(follow).fit(X[:200], y[:200])
    >>> len(costs)
    2

    """

    def __init__(self, function: Callable[[Row, Any], Any]) -> None:
        self.function = function

    def setup(self, estimator: Any, context: Any) -> None:
        """Do nothing; part of the protocol."""

    def teardown(self, estimator: Any, context: Any) -> None:
        """Do nothing; part of the protocol."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Do nothing; part of the protocol."""

    def on_fit_task_end(self, estimator: Any, context: Any, *, fitted_estimator: Any = None) -> bool:
        """Call the function after a step."""
        row = getattr(fitted_estimator, "_row", None)
        return row is not None and bool(self.function(dict(row), fitted_estimator))


class Follower:
    """Tell each step of a fit to the callbacks of a model, and print a line where it is verbose.

    ``beside`` are fitted attributes that do not change from step to step.
    """

    def __init__(self, model: Any, X: Any, y: Any, max_iter: int, verbose: int, beside: dict[str, Any]) -> None:
        self._model, self._verbose, self._beside = model, verbose, beside
        self._data = {"estimator": model, "X": X, "y": y}
        self._context = model._init_callback_context(max_subtasks=max_iter)
        self._context.call_on_fit_task_begin(**self._data)

    def step(self, row: Row, state: Callable[[], dict[str, Any]]) -> bool:
        """Tell of one accepted step; return whether someone wants to stop. ``state()`` gives the fitted attributes."""
        if self._verbose:
            print(self._line(row), flush=True)
        if not hasattr(self._model, "_skl_callbacks"):
            return False
        task = self._context.subcontext(task_name="step").call_on_fit_task_begin(**self._data)
        attributes = functools.cache(
            lambda: {**state(), **self._beside, "_row": row}
        )  # computed only if a callback wants the model
        return bool(task.call_on_fit_task_end(**self._data, reconstruction_attributes=attributes))

    def close(self, fitted: dict[str, Any]) -> None:
        """Tell that the fit is over, with these fitted attributes."""
        self._context.call_on_fit_task_end(**self._data, reconstruction_attributes={**fitted, **self._beside})

    def _line(self, row: Row) -> str:
        """Return the printed line of a step."""
        return (
            f"[{type(self._model).__name__}] step {row['step_number']:3.0f}  J {row['cost']:.5g}"
            f"  f {row['quotient']:.5g}  nonzeros {row['nonzeros']:.1f}  {row['seconds']:.1f} s"
        )
