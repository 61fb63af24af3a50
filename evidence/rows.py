"""Specifications become rows: what is not measured yet is measured, and each row is kept as soon as it is known."""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import platform
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import joblib
import numpy as np
import scipy
import sklearn
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ..evaluation import nearest_neighbour, share_right, share_right_by_class, support_vectors
from ..models import VERSION
from .methods import METHODS, WITHOUT_CHANCE, Answer, NotApplicable, Problem
from .plan import Entry, Experiment, Size
from .rows import Row, RowFile, packed
from .splits import Samples, draw

Array = NDArray[Any]

DONE = ("done", "not applicable")
# Which rule a row goes by, the first if it does not say. SVM, 2: see support_vectors. Folds, 2: see splits.
RULES = {"svm": 2, "folds": 2}


@dataclass(frozen=True)
class Task:
    """One row to measure."""

    experiment: Experiment
    entry: Entry
    seed: int
    threads: int | None = None
    folder: str | None = None

    @property
    def key(self) -> str:
        """What the row is looked up by."""
        return self.entry.key(self.seed)


def tasks(
    experiment: Experiment, size: Size, *, on: str | None = None, threads: int | None = None, folder: str | None = None
) -> list[Task]:
    """All rows of an experiment at a size, seed by seed, each measured once.

    Where neither the split nor the method has chance in it, one seed is enough.
    """
    found: dict[str, Task] = {}
    for seed in range(size.seeds):
        for entry in experiment.at(size, on):
            if seed == 0 or entry.setting.by_chance or entry.method not in WITHOUT_CHANCE:
                task = Task(experiment, entry, seed, threads, folder)
                found.setdefault(task.key, task)
    return list(found.values())


def run(
    work: Sequence[Task],
    output: str | os.PathLike[str],
    *,
    jobs: int = 1,
    again: bool = False,
    report: Callable[[Row, Task], None] | None = None,
) -> int:
    """Measure the tasks that have no row yet, and return how many failed.

    Parameters
    ----------
    work : sequence of Task
        What to measure.
    output : path
        Folder of the row files, one for each experiment.
    jobs : int
        Rows measured at the same time, each in a process of its own.
    again : bool
        Measure also what has a row.
    report : callable, optional
        Called with each new row and its task.

    """
    open_ = [task for task in work if again or task.key not in done(task.experiment, output)]
    failed = 0
    for place, row in _measured(open_, jobs):
        task = open_[place]
        row_file(task.experiment, output).append(row)
        failed += row["status"] == "failed"
        if report is not None:
            report(row, task)
    return failed


def row_file(experiment: Experiment, output: str | os.PathLike[str]) -> RowFile:
    """Where the rows of an experiment are."""
    return RowFile(pathlib.Path(output) / f"{experiment.name}.jsonl")


def done(experiment: Experiment, output: str | os.PathLike[str]) -> set[str]:
    """Keys of the rows that need no second run; those that failed do."""
    return {row["key"] for row in row_file(experiment, output).read() if row["status"] in DONE}


def _measured(work: Sequence[Task], jobs: int) -> Iterator[tuple[int, Row]]:
    """Rows as they come, with the place of their task; ``jobs`` as joblib counts them, −1 for all cores."""
    jobs = joblib.effective_n_jobs(jobs)
    if jobs == 1:
        for place, task in enumerate(work):
            yield place, measure(task)
        return
    calls = (joblib.delayed(_numbered)(place, task) for place, task in enumerate(work))
    yield from joblib.Parallel(jobs, return_as="generator_unordered", pre_dispatch=jobs)(calls)


def _numbered(place: int, task: Task) -> tuple[int, Row]:
    return place, measure(task)


def measure(task: Task) -> Row:
    """One row: a method in a setting with a seed. What goes wrong is a row too, with its reason."""
    entry = task.entry
    began = time.perf_counter()
    row: Row = {
        "key": task.key,
        "experiment": task.experiment.name,
        "method": entry.method,
        "seed": task.seed,
        "setting": {name: value for name, value in asdict(entry.setting).items() if value},
        "options": plain(entry.options),
    }
    peak = Peak()
    with warnings.catch_warnings(), threadpool_limits(task.threads):
        warnings.simplefilter("ignore")
        try:
            row |= {"status": "done", **_outcome(task, draw(entry.setting, task.seed, task.folder))}
        except NotApplicable as reason:
            row |= {"status": "not applicable", "reason": str(reason)}
        except Exception as error:  # the other rows are still worth having
            where = traceback.extract_tb(error.__traceback__)[-1]
            said = f"{type(error).__name__}: {error} ({pathlib.Path(where.filename).name}, line {where.lineno})"
            row |= {"status": "failed", "reason": said}
    row["total_seconds"] = round(time.perf_counter() - began, 2)
    row["peak_memory_mb"] = peak.megabytes()
    row["versions"] = versions()
    return row


def _outcome(task: Task, samples: Samples) -> dict[str, Any]:
    trace: list[float] = []
    arrays: dict[str, Array] = {}

    def watch(Z: Array, y: Array, Z_test: Array) -> None:
        trace.append(round(100 * share_right(nearest_neighbour(Z, y, Z_test), samples.y_test), 3))

    entry, kind = task.entry, task.experiment.kind
    options = dict(entry.options)
    problem = Problem(
        samples.X,
        samples.y,
        samples.X_test,
        samples.shape,
        task.seed,
        task.threads,
        options,
        watch if kind == "traces" else None,
        samples.folds,
    )
    answer = METHODS[entry.method](problem)
    outcome: dict[str, Any] = {
        "n_train": len(samples.y if answer.labels is None else answer.labels),
        "n_test": len(samples.y_test),
        "parameters": plain(answer.parameters),
        "seconds": {name: round(value, 2) for name, value in answer.seconds.items()},
        "rules": RULES,
    }
    if answer.note:
        outcome["note"] = answer.note
    for measure_, predicted in _predictions(task, samples, answer):
        classes = share_right_by_class(predicted, samples.y_test)
        outcome.setdefault("accuracy", {})[measure_] = round(100 * share_right(predicted, samples.y_test), 3)
        outcome.setdefault("per_class", {})[measure_] = [round(100 * share, 2) for share in classes.values()]
    if answer.test is not None:
        outcome["dimension"] = int(answer.test.shape[1])
    if trace:
        outcome["trace"] = trace
    arrays |= KEPT.get(kind, _nothing)(samples, answer)
    if arrays:
        outcome["arrays"] = {name: packed(array) for name, array in arrays.items()}
    return outcome


def _predictions(task: Task, samples: Samples, answer: Answer) -> Iterator[tuple[str, Array]]:
    """Labels of the test samples by each measure of the experiment."""
    if answer.predicted is not None:
        yield "own", answer.predicted
        return
    assert answer.train is not None
    assert answer.test is not None
    y = samples.y if answer.labels is None else answer.labels
    if "1nn" in task.experiment.measures:
        yield "1nn", nearest_neighbour(answer.train, y, answer.test)
    if "svm" in task.experiment.measures:
        yield "svm", support_vectors(answer.train, y, answer.test, seed=task.seed, n_jobs=task.threads)


def _nothing(samples: Samples, answer: Answer) -> dict[str, Array]:
    return {}


def _faces(samples: Samples, answer: Answer) -> dict[str, Array]:
    return {"images": answer.arrays["components"][:10].reshape(-1, *(samples.shape or (1, -1)))}


def _cloud(samples: Samples, answer: Answer) -> dict[str, Array]:
    assert answer.train is not None
    assert answer.test is not None
    y = samples.y if answer.labels is None else answer.labels
    return {"train": answer.train, "y": y, "test": answer.test, "y_test": samples.y_test}


def _thumbnails(samples: Samples, answer: Answer) -> dict[str, Array]:
    assert answer.train is not None
    grey = (255 * samples.X / samples.X.max()).astype(np.uint8)
    return {"train": answer.train, "images": grey.reshape(-1, *(samples.shape or (1, -1)))}


# What a row keeps for its figure beside accuracies, by the kind of experiment.
KEPT: dict[str, Callable[[Samples, Answer], dict[str, Array]]] = {
    "faces": _faces,
    "clouds": _cloud,
    "thumbnails": _thumbnails,
}


def plain(parameters: Any) -> dict[str, Any]:
    """Parameters as JSON takes them."""
    return {name: _word(value) for name, value in parameters.items() if value is not None}


def _word(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, (list, tuple)):
        return [_word(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _word(item) for key, item in value.items()}
    return repr(value)


@functools.cache
def versions() -> dict[str, str]:
    """Of what the numbers depend on."""
    return {
        "sparlow": VERSION,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "python": platform.python_version(),
    }


class Peak:
    """The largest memory of this process since it was made, in MB; on systems without /proc since its start."""

    def __init__(self) -> None:
        with contextlib.suppress(OSError):
            pathlib.Path("/proc/self/clear_refs").write_text("5")

    def megabytes(self) -> int:
        """The peak so far."""
        try:
            lines = pathlib.Path("/proc/self/status").read_text().splitlines()
            return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) // 1024
        except (OSError, StopIteration):
            import resource

            unit = 1024**2 if platform.system() == "Darwin" else 1024
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // unit
