"""The methods of the paper as it prints them, by :func:`sparlow.as_printed`."""

from __future__ import annotations

import time
from typing import Any

from sklearn.base import clone

from sparlow import SparLow, as_printed
from sparlow.estimators import OnStep

from .contract import Method, MethodInput, MethodOutput, found_of


def printed(criterion: str) -> Method:
    """Return the method as the paper prints it; ``start`` names the criterion whose dictionary it starts from."""

    def method(given: MethodInput) -> MethodOutput:
        options, began = dict(given.options), time.perf_counter()
        start, _ = options.pop("start", None), options.pop("tune", None)  # nothing is tuned
        seeds: dict[str, Any] = {"random_state": given.seed, "n_jobs": given.threads}
        shown = dict(options)
        if start is not None:
            own = {name: options[name] for name in ("setting", "n_atoms", "max_iter") if name in options}
            options["dictionary"] = as_printed(start, **own, **seeds).fit(given.X).dictionary_
        estimator = as_printed(criterion, **options, **seeds)
        labels = None if estimator.criterion.supervision == "none" else given.y
        listener = given.on_step
        if listener is not None:

            def show(row: Any, now: SparLow) -> None:
                listener(now.embedding_, given.y, now.transform(given.X_test))

            first = clone(estimator).set_params(max_iter=0).fit(given.X, labels)
            show(None, first)
            estimator.set_params(dictionary=first.dictionary_).set_callbacks(OnStep(show))
        estimator.fit(given.X, labels)
        seconds = {"tuning": 0.0, "fit": time.perf_counter() - began}
        parameters = {**shown, **found_of(estimator)}
        test = estimator.transform(given.X_test)
        return MethodOutput(estimator.embedding_, test, labels=given.y, parameters=parameters, seconds=seconds)

    return method
