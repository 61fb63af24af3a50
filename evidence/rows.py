"""Measure rows and keep them: one JSON line each in the file of its experiment, appended as soon as it is measured.

A run that was stopped goes on where it ended. Two runs at the same time share the work: each claims a row by a lock
before it is measured. The system releases the locks of a process that is killed; half a line that it leaves is dropped
by the next writer.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import os
import pathlib
import platform
import time
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO

import joblib
import numpy as np
import scipy
import sklearn
from filelock import FileLock, Timeout
from numpy.typing import NDArray
from sklearn.exceptions import FitFailedWarning
from threadpoolctl import threadpool_limits

import sparlow
from sparlow.evaluation import nearest_neighbour, share_right, share_right_by_class, support_vectors

from .contract import MethodInput, MethodOutput, NotApplicable, StepListener
from .methods import METHODS, WITHOUT_CHANCE
from .specification import Entry, Experiment, Size
from .splits import Split, draw

Array = NDArray[Any]
Row = dict[str, Any]
PathLike = str | os.PathLike[str]

DONE = ("done", "not applicable")
# The version of a rule that a row was measured by, 1 if it does not say. SVM, 2: see support_vectors. Folds, 2: see
# splits. Fisher, 2: Gaussians of a cell have equal norms, sixteenths half of the squared norm, patches up to 64 pixels.
RULES = {"svm": 2, "folds": 2, "fisher": 2}


# ── files ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class RowFile:
    """Read and write the rows of one experiment; of two with the same key the last one counts."""

    def __init__(self, path: PathLike) -> None:
        self.path = pathlib.Path(path)

    def read(self) -> list[Row]:
        """Return all complete rows."""
        if not self.path.exists():
            return []
        rows: dict[str, Row] = {}
        for number, line in enumerate(self.path.read_bytes().split(b"\n")[:-1], start=1):
            try:
                row = json.loads(line)
                rows[row["key"]] = row
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(
                    f"Line {number} of {self.path} is no row: take the line out, or move the file away to start anew."
                ) from error
        return list(rows.values())

    def done(self) -> set[str]:
        """Return the keys of rows that need no second run; those that failed do."""
        return {row["key"] for row in self.read() if row["status"] in DONE}

    def append(self, row: Row) -> None:
        """Write a row and make sure that it is on disk."""
        with self._lock(""), open(self.path, "ab+") as file:
            _drop_half_line(file)
            file.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    @contextlib.contextmanager
    def claim(self, key: str) -> Iterator[bool]:
        """Claim a row for this process; the value is False if another run has claimed it."""
        lock = self._lock(f"-{key}")
        try:
            lock.acquire(blocking=False)
        except Timeout:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    def _lock(self, name: str) -> FileLock:
        folder = self.path.parent / ".locks"
        folder.mkdir(parents=True, exist_ok=True)
        return FileLock(folder / f"{self.path.stem}{name}.lock")


def _drop_half_line(file: BinaryIO) -> None:
    file.seek(0)
    content = file.read()
    if content and not content.endswith(b"\n"):
        file.truncate(content.rfind(b"\n") + 1)


def row_file(experiment: Experiment, output: PathLike) -> RowFile:
    """Return the file with the rows of an experiment."""
    return RowFile(pathlib.Path(output) / f"{experiment.name}.jsonl")


def packed(array: Array) -> dict[str, Any]:
    """Return an array as compressed text: whole numbers as they are, others in 16 bits between their extremes."""
    array = np.asarray(array)
    if array.dtype.kind in "iub":
        low, step = 0.0, 1.0
        whole = array if array.dtype == np.uint8 else array.astype(np.int32)
    else:
        low, high = float(array.min()), float(array.max())
        step = (high - low) / 65535 or 1.0
        whole = np.round((array - low) / step).astype(np.uint16)
    data = base64.b64encode(zlib.compress(whole.tobytes(), 9)).decode()
    return {"shape": list(array.shape), "type": whole.dtype.str, "low": low, "step": step, "data": data}


def unpacked(pack: dict[str, Any]) -> Array:
    """Return the array of :func:`packed`."""
    whole = np.frombuffer(zlib.decompress(base64.b64decode(pack["data"])), pack["type"]).reshape(pack["shape"])
    return whole if pack["step"] == 1.0 and pack["low"] == 0.0 else whole * pack["step"] + pack["low"]


# ── runs ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Task:
    """Name one row to measure."""

    experiment: Experiment
    entry: Entry
    seed: int
    threads: int | None = None
    folder: str | None = None

    @property
    def key(self) -> str:
        """Return what the row is looked up by."""
        return self.entry.key(self.seed)


def tasks(
    experiment: Experiment, size: Size, *, on: str | None = None, threads: int | None = None, folder: str | None = None
) -> list[Task]:
    """Return all rows of an experiment at a size, seed by seed, each once.

    Where neither the split nor the method depends on chance, there is one seed.
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
    output: PathLike,
    *,
    jobs: int = 1,
    again: bool = False,
    report: Callable[[Row | None, Task], None] | None = None,
) -> int:
    """Measure the tasks that have no row yet, and return how many failed.

    Parameters
    ----------
    work : sequence of Task
        What to measure.
    output : path
        Folder of the row files, one for each experiment.
    jobs : int
        Number of rows measured at the same time, each in a process of its own; −1 for all cores.
    again : bool
        Whether tasks that have a row are measured again.
    report : callable, optional
        Called with each new row and its task. In place of a row that another run has claimed or measured meanwhile it
        gets None.

    """
    done = functools.cache(lambda experiment_name: RowFile(pathlib.Path(output) / f"{experiment_name}.jsonl").done())
    work = [task for task in work if again or task.key not in done(task.experiment.name)]
    jobs = joblib.effective_n_jobs(jobs)
    calls = (joblib.delayed(_measure_and_keep)(place, task, output, again) for place, task in enumerate(work))
    if jobs == 1:
        rows: Iterator[tuple[int, Row | None]] = (function(*arguments) for function, arguments, _ in calls)
    else:
        rows = joblib.Parallel(jobs, return_as="generator_unordered", pre_dispatch=jobs)(calls)
    failed = 0
    for place, row in rows:
        failed += row is not None and row["status"] == "failed"
        if report is not None:
            report(row, work[place])
    return failed


def _measure_and_keep(place: int, task: Task, output: PathLike, again: bool) -> tuple[int, Row | None]:
    """Return the place of a task and its new row, or None where another run has the row."""
    file = row_file(task.experiment, output)
    with file.claim(task.key) as mine:
        if not mine or (not again and task.key in file.done()):
            return place, None
        row = measure(task)
        file.append(row)
        return place, row


# ── one row ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def measure(task: Task) -> Row:
    """Measure a method in a setting with a seed. A failure is a row too, with its reason."""
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
    peak = PeakMemory()
    with warnings.catch_warnings(record=True) as heard, threadpool_limits(task.threads):
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", FitFailedWarning)
        try:
            row |= {"status": "done", **_measured(task, draw(entry.setting, task.seed, task.folder))}
        except NotApplicable as reason:
            row |= {"status": "not applicable", "reason": str(reason)}
        except Exception as error:  # the other rows are still worth having
            where = traceback.extract_tb(error.__traceback__)[-1]
            said = f"{type(error).__name__}: {error} ({pathlib.Path(where.filename).name}, line {where.lineno})"
            row |= {"status": "failed", "reason": said}
    if heard:
        row["warnings"] = sorted({str(one.message) for one in heard})
    row["total_seconds"] = round(time.perf_counter() - began, 2)
    row["peak_memory_mb"] = peak.megabytes()
    row["versions"] = versions()
    return row


def _measured(task: Task, split: Split) -> dict[str, Any]:
    trace: list[float] = []

    def note_accuracy(Z: Array, y: Array, Z_test: Array) -> None:
        trace.append(round(100 * share_right(nearest_neighbour(Z, y, Z_test), split.y_test), 3))

    kind = task.experiment.kind
    found = apply_method(task, split, note_accuracy if kind == "traces" else None)
    content: dict[str, Any] = {
        "n_train": len(split.y if found.labels is None else found.labels),
        "n_test": len(split.y_test),
        "parameters": plain(found.parameters),
        "seconds": {name: round(value, 2) for name, value in found.seconds.items()},
        "rules": RULES,
    }
    if found.note:
        content["note"] = found.note
    for measure_, predicted in predictions(task, split, found).items():
        classes = share_right_by_class(predicted, split.y_test)
        content.setdefault("accuracy", {})[measure_] = round(100 * share_right(predicted, split.y_test), 3)
        content.setdefault("per_class", {})[measure_] = [round(100 * share, 2) for share in classes.values()]
    if found.test is not None:
        content["dimension"] = int(found.test.shape[1])
    if trace:
        content["trace"] = trace
    if kind in KEPT:
        content["arrays"] = {name: packed(array) for name, array in KEPT[kind](split, found).items()}
    return content


def apply_method(task: Task, split: Split, on_step: StepListener | None = None) -> MethodOutput:
    """Return what the method of a task makes of a split, whose test labels it is not given."""
    options = dict(task.entry.options)
    known = (split.X, split.y, split.X_test, split.shape)
    return METHODS[task.entry.method](MethodInput(*known, task.seed, task.threads, options, on_step, split.folds))


def predictions(task: Task, split: Split, found: MethodOutput) -> dict[str, Array]:
    """Return the labels of the test samples by each measure of the experiment."""
    if found.predicted is not None:
        return {"own": found.predicted}
    train, test, y = _embeddings(split, found)
    labels = {}
    if "1nn" in task.experiment.measures:
        labels["1nn"] = nearest_neighbour(train, y, test)
    if "svm" in task.experiment.measures:
        labels["svm"] = support_vectors(train, y, test, seed=task.seed, n_jobs=task.threads)
    return labels


def _embeddings(split: Split, found: MethodOutput) -> tuple[Array, Array, Array]:
    """Return the embeddings of both parts, and the labels of the first."""
    assert found.train is not None
    assert found.test is not None
    return found.train, found.test, split.y if found.labels is None else found.labels


def _faces(split: Split, found: MethodOutput) -> dict[str, Array]:
    return {"images": found.arrays["components"][:10].reshape(-1, *(split.shape or (1, -1)))}


def _clouds(split: Split, found: MethodOutput) -> dict[str, Array]:
    train, test, y = _embeddings(split, found)
    return {"train": train, "y": y, "test": test, "y_test": split.y_test}


def _thumbnails(split: Split, found: MethodOutput) -> dict[str, Array]:
    grey = (255 * split.X / split.X.max()).astype(np.uint8)
    return {"train": _embeddings(split, found)[0], "images": grey.reshape(-1, *(split.shape or (1, -1)))}


# What a row keeps for its figure beside accuracies, by the kind of experiment.
KEPT: dict[str, Callable[[Split, MethodOutput], dict[str, Array]]] = {
    "faces": _faces,
    "clouds": _clouds,
    "thumbnails": _thumbnails,
}


def plain(parameters: Any) -> dict[str, Any]:
    """Return parameters as JSON takes them."""
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
    """Return the versions that the numbers depend on."""
    return {
        "sparlow": sparlow.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "python": platform.python_version(),
    }


class PeakMemory:
    """Find the largest memory of this process since this object was made; without /proc since the process started.

    Windows tells neither: 0.
    """

    def __init__(self) -> None:
        with contextlib.suppress(OSError):
            pathlib.Path("/proc/self/clear_refs").write_text("5")

    def megabytes(self) -> int:
        """Return the peak so far in MB."""
        try:
            lines = pathlib.Path("/proc/self/status").read_text().splitlines()
            return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) // 1024
        except (OSError, StopIteration):
            try:
                import resource
            except ImportError:  # Windows
                return 0
            unit = 1024**2 if platform.system() == "Darwin" else 1024
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // unit
