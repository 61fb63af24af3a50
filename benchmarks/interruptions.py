"""Stop commands at random moments, and see that nothing is lost and that the next run goes on.

    python -m benchmarks.interruptions --times 20

``fit`` with its checkpoint, ``features --cache``, ``transform``, ``report``, ``save`` and the evidence are ended by
SIGKILL, by SIGINT, and by a disk that is full (a small file system in memory, which only root can make). An earlier
result stands at the place of the output. Each run is the copy of a process that has imported all it needs, so that it
is stopped at its work. Rows are kept; a run that was stopped goes on. After each stop

- the earlier result is still there, or a new one that is complete;
- no file is half written, and none is left over after SIGINT and a full disk;
- a full disk ends with a message that names the file, or costs no more than the cache;
- the next run ends well, and gives what a run that was never stopped gives.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

import evidence.__main__ as evidence
from sparlow import load, save
from sparlow.app import main as main_command

RESULTS = pathlib.Path(__file__).parent / "results" / "interruptions.jsonl"
SMALL = ["--pictures", "whole", "--set", "n_atoms=60", "max_iter=5", "early_stopping=False", "embedding=orthonormal"]
SMALL += ["--jobs", "1", "--quiet"]
HOWS = ("SIGKILL", "SIGINT", "full disk")
PATIENCE = 300  # seconds until a run counts as one that does not end


def save_often(source: str, target: str) -> int:
    """Save a model again and again; say why it cannot be."""
    model = load(source)
    try:
        for _ in range(10):
            save(model, target)
    except OSError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def call(words: list[str]) -> int:
    """Run a command in this process."""
    what, *rest = words
    if what == "save":
        return save_often(*rest)
    return evidence.main(rest) if what == "evidence" else main_command(rest)


def begun(words: list[str], said: pathlib.Path) -> int:
    """Begin a command in a copy of this process; return its number."""
    number = os.fork()
    if number:
        return number
    code = 99
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with said.open("wb") as file, open(os.devnull, "wb") as nothing:
            os.dup2(file.fileno(), 2)
            os.dup2(nothing.fileno(), 1)
        code = call(words)
        sys.stderr.flush()
    except KeyboardInterrupt:
        code = 130
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)


def ended(number: int, within: float) -> int | None:
    """Wait for a process; return its exit code, minus the signal that ended it, or None if it still runs."""
    until = time.monotonic() + within
    while True:
        done, status = os.waitpid(number, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            return None
        time.sleep(0.005)


def run(words: list[str], how: str | None = None, after: float = 0.0) -> tuple[int, str]:
    """Run a command, to its end or until it is stopped after some seconds; return its exit code and what it said."""
    with tempfile.TemporaryDirectory() as folder:
        said = pathlib.Path(folder) / "said"
        number = begun(words, said)
        code = ended(number, PATIENCE if how is None else after)
        if code is None and how is not None:
            os.kill(number, getattr(signal, how))
            code = ended(number, PATIENCE)
        if code is None:
            os.kill(number, signal.SIGKILL)
            os.waitpid(number, 0)
            return -99, "it did not end"
        return code, said.read_text(errors="replace") if said.exists() else ""


class Place:
    """A folder with samples, pictures and a model, which all runs read."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.data, self.model, self.pictures = folder / "data.npz", folder / "m.sparlow", folder / "pictures"
        digits = load_digits()
        np.savez(self.data, images=digits.images[:400], labels=digits.target[:400])
        rng = np.random.default_rng(0)
        for number in range(24):
            (self.pictures / str(number % 2)).mkdir(parents=True, exist_ok=True)
            picture = rng.integers(256, size=(96, 96)).astype(np.uint8)
            Image.fromarray(picture).save(self.pictures / str(number % 2) / f"{number}.png")
        done(["sparlow", "fit", str(self.data), "-o", str(self.model), *SMALL])


def done(words: list[str]) -> None:
    """Run a command here, which loads what its copies will need."""
    if call(words):
        raise RuntimeError(f"{words} failed")


class Task:
    """One command, what it writes, and how to tell whether that is sound and the same as ever."""

    def __init__(
        self, words: Callable[[Place, pathlib.Path], list[str]], output: str, read: Callable[[Any], Any]
    ) -> None:
        self.words, self.output, self.read = words, output, read


def embedding(path: pathlib.Path) -> Any:
    return load(path).embedding_


def array(path: pathlib.Path) -> Any:
    return np.load(path, allow_pickle=False)


def features(path: pathlib.Path) -> Any:
    with np.load(path, allow_pickle=False) as stored:
        return stored["X"]


def page(path: pathlib.Path) -> Any:
    text = path.read_text()
    if not text.rstrip().endswith("</html>"):
        raise ValueError("the page is cut")
    return np.array([text.count("<h2")])


def rows(path: pathlib.Path) -> Any:
    """Return the accuracies in the rows of the evidence; every line of every file must be whole."""
    found = {}
    for file in sorted(path.rglob("*.jsonl")):
        for line in file.read_text().splitlines():
            row = json.loads(line)
            found[row["key"]] = row.get("accuracy")
    return np.array([json.dumps(found[key]) for key in sorted(found)])


def words(*parts: Any) -> list[str]:
    return list(map(str, parts))


TASKS = {
    "fit": Task(
        lambda place, out: words(
            "sparlow", "fit", place.data, "-o", out, *SMALL, f"checkpoint={out.parent / 'steps.npz'}"
        ),
        "m.sparlow",
        embedding,
    ),
    "transform": Task(
        lambda place, out: words("sparlow", "transform", place.model, place.data, "-o", out, "--quiet"), "z.npy", array
    ),
    "report": Task(
        lambda place, out: words(
            *("sparlow", "report", place.model, place.data, "-o", out, "--classifiers", "1NN", "--quiet")
        ),
        "r.html",
        page,
    ),
    "save": Task(lambda place, out: words("save", place.model, out), "s.sparlow", embedding),
    "features": Task(
        lambda place, out: words(
            *("sparlow", "features", place.pictures, "-o", out, "--set", "n_words=32", "n_components=0", "--jobs", "1"),
            *("--cache", out.parent / "cache", "--quiet"),
        ),
        "f.npz",
        features,
    ),
    "evidence": Task(
        lambda place, out: words(
            *("evidence", "run", "table1", "--on", "digits", "--quick", "--threads", "1", "--output", out),
            *("--methods", "PCA", "raw pixels"),
        ),
        "rows",
        rows,
    ),
}


@contextlib.contextmanager
def small_disk(size: int) -> Iterator[pathlib.Path | None]:
    """Give a file system of so many bytes, or None where none can be made."""
    folder = pathlib.Path(tempfile.mkdtemp())
    words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    mounted = (
        shutil.which("mount") is not None and subprocess.run(words, capture_output=True, check=False).returncode == 0
    )
    try:
        yield folder if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def leftovers(folder: pathlib.Path) -> list[str]:
    return [path.name for path in folder.rglob(".sparlow-*")]


def trial(task: Task, how: str, place: Place, truth: Any, duration: float, rng: np.random.Generator) -> dict[str, Any]:
    """Stop one run; return what became of it, with a list of complaints."""
    with contextlib.ExitStack() as stack:
        folder: pathlib.Path | None = None
        row: dict[str, Any] = {"how": how}
        if how == "full disk":
            row["bytes"] = int(10 ** rng.uniform(3.7, 5.5))
            folder = stack.enter_context(small_disk(row["bytes"]))
            if folder is None:
                return {**row, "complaints": [], "skipped": "no file system could be made"}
        else:
            folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        out, complaints = folder / task.output, []
        earlier = b"earlier"
        if task.output != "rows":
            out.write_bytes(earlier)
        if how == "full disk":
            code, said = run(task.words(place, out))
            if code and ("Traceback" in said or "could not be written" not in said):
                complaints.append(f"a raw error: {said.strip()[-200:]}")
        else:
            row["after"] = round(float(rng.uniform(0.0, 1.0) * duration), 3)
            code, said = run(task.words(place, out), how, row["after"])
        if code == -99:
            complaints.append(said)
        row["code"] = code
        if how != "SIGKILL" and leftovers(folder):
            complaints.append(f"left over: {leftovers(folder)}")
        if task.output != "rows" and not out.exists():
            complaints.append("the earlier file is gone")
        elif task.output != "rows" and out.read_bytes() != earlier:
            row["replaced"] = True
            complaints += sound(task, out, None)
        elif task.output == "rows" and out.exists():
            complaints += sound(task, out, None)
        if how == "full disk":  # make room, and go on
            subprocess.run(["mount", "-o", "remount,size=1g", str(folder)], check=False)
        code, said = run(task.words(place, out))
        if code:
            complaints.append(f"the next run failed: {said.strip()[-200:]}")
        else:
            complaints += sound(task, out, truth)
        return {**row, "complaints": complaints}


def sound(task: Task, path: pathlib.Path, truth: Any) -> list[str]:
    """Return what is wrong with a result: it cannot be read, or it is not what it should be."""
    try:
        found = task.read(path)
    except Exception as error:
        return [f"half a file: {type(error).__name__}: {error}"[:200]]
    if truth is not None and not np.array_equal(found, truth):
        return ["the next run gave another result"]
    return []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no trial after so many")
    parser.add_argument("--output", type=pathlib.Path, default=RESULTS)
    arguments = parser.parse_args()
    lines = arguments.output.read_text().splitlines() if arguments.output.exists() else []
    counts = collections.Counter((row["task"], row["how"]) for row in map(json.loads, lines))
    began, complaints = time.perf_counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        place = Place(pathlib.Path(folder))
        for name in arguments.tasks:
            task = TASKS[name]
            for part in ("warm", "truth"):
                out = pathlib.Path(folder) / f"{part}-{name}" / task.output
                out.parent.mkdir()
                started = time.perf_counter()
                done(task.words(place, out)) if part == "warm" else run(task.words(place, out))
            duration, truth = time.perf_counter() - started, task.read(out)
            for how, number in itertools.product(HOWS, range(arguments.times)):
                if number < counts[name, how] or time.perf_counter() - began > arguments.seconds:
                    continue
                rng = np.random.default_rng([number, HOWS.index(how), list(TASKS).index(name)])
                row = {"task": name, **trial(task, how, place, truth, duration, rng), "duration": round(duration, 2)}
                with arguments.output.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                if row["complaints"]:
                    complaints += 1
                    print(json.dumps(row), flush=True)
            print(f"{name}: {duration:.1f} s each", flush=True)
    return int(complaints > 0)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore::RuntimeWarning")
    sys.exit(main())
