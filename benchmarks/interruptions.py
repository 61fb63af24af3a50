"""Stop commands at random moments, and see that nothing is lost and that the next run goes on.

    python -m benchmarks.interruptions --times 20

``fit``, ``features --cache``, ``transform``, ``report``, ``save`` and the evidence are ended by SIGKILL, by SIGINT, and
by a disk that is full (a small file system in memory, which only root can make). An earlier result stands at the place
of the output. After each stop

- the earlier result is still there, or a new one that is complete;
- no file is half written, and none is left over after SIGINT and a full disk;
- a full disk ends with a message that names the file, or costs no more than the cache;
- the next run ends well, and gives what a run that was never stopped gives.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from sparlow import load

RESULTS = pathlib.Path(__file__).parent / "results" / "interruptions.json"
ROOT = pathlib.Path(__file__).parent.parent
SMALL = ["--n-atoms", "100", "--max-iter", "3", "--jobs", "1", "--quiet"]
SAVE = "import sys; from sparlow import load, save; m = load(sys.argv[1]); [save(m, sys.argv[2]) for _ in range(30)]"
HOWS = ("SIGKILL", "SIGINT", "full disk")


def command(*words: Any) -> list[str]:
    return [sys.executable, "-m", "sparlow.app", *map(str, words)]


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
        done(command("fit", self.data, "-o", self.model, *SMALL))


def done(words: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT, **options)
    if ended.returncode:
        raise RuntimeError(f"{words}: {ended.stderr}")
    return ended


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


TASKS = {
    "fit": Task(lambda place, out: command("fit", place.data, "-o", out, *SMALL), "m.sparlow", embedding),
    "transform": Task(
        lambda place, out: command("transform", place.model, place.data, "-o", out, "--quiet"), "z.npy", array
    ),
    "report": Task(
        lambda place, out: command(
            "report", place.model, place.data, "-o", out, "--no-rivals", "--classifiers", "1NN", "--quiet"
        ),
        "r.html",
        page,
    ),
    "save": Task(lambda place, out: [sys.executable, "-c", SAVE, str(place.model), str(out)], "s.sparlow", embedding),
    "features": Task(
        lambda place, out: command(
            *("features", place.pictures, "-o", out, "--words", "32", "--components", "0", "--jobs", "1"),
            *("--cache", out.parent / "cache", "--quiet"),
        ),
        "f.npz",
        features,
    ),
    "evidence": Task(
        lambda place, out: [
            *(sys.executable, "-m", "evidence", "run", "table1", "--on", "digits", "--quick", "--output", str(out)),
            *("--methods", "PCA", "raw pixels"),
        ],
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


def stopped(words: list[str], how: str, after: float) -> tuple[int, str]:
    """Run a command, end it after some seconds, and return its exit code and what it said."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(after)
    if process.poll() is None:
        process.send_signal(getattr(signal, how))
    try:
        said = process.communicate(timeout=120)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        return -99, "it did not end within two minutes"
    return process.returncode, said


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
            ended = subprocess.run(task.words(place, out), capture_output=True, text=True, check=False, cwd=ROOT)
            code, said = ended.returncode, ended.stderr
            if code and "Traceback" in said and "could not be written" not in said:
                complaints.append(f"a raw error: {said.strip().splitlines()[-1][:200]}")
        else:
            row["after"] = round(float(rng.uniform(0.2, 1.0) * duration), 2)
            code, said = stopped(task.words(place, out), how, row["after"])
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
        again = subprocess.run(task.words(place, out), capture_output=True, text=True, check=False, cwd=ROOT)
        if again.returncode:
            complaints.append(f"the next run failed: {again.stderr.strip()[-200:]}")
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
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--output", type=pathlib.Path, default=RESULTS)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    known = json.loads(arguments.output.read_text()) if arguments.output.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        place = Place(pathlib.Path(folder))
        for name in arguments.tasks:
            task = TASKS[name]
            out = pathlib.Path(folder) / f"truth-{name}" / task.output
            out.parent.mkdir()
            began = time.perf_counter()
            done(task.words(place, out))
            duration, truth = time.perf_counter() - began, task.read(out)
            known[name] = []
            for how in HOWS:
                for _ in range(arguments.times):
                    row = trial(task, how, place, truth, duration, rng)
                    known[name].append(row)
                    if row["complaints"]:
                        print(name, json.dumps(row), flush=True)
                print(f"{name}, {how}: {arguments.times} times, {duration:.1f} s each", flush=True)
            arguments.output.write_text(json.dumps(known) + "\n")
    return int(any(row["complaints"] for part in known.values() for row in part))


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore::RuntimeWarning")
    sys.exit(main())
