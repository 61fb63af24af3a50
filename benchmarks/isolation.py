"""A worker process that answers lines with lines, and is replaced where it hangs or dies."""

from __future__ import annotations

import json
import os
import pathlib
import select
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

ROOT = pathlib.Path(__file__).parent.parent


class Worker:
    """Run a module of the benchmarks as ``python -m MODULE WORDS`` and give it lines, each within a time limit."""

    def __init__(self, module: str, *words: str) -> None:
        self._words = [sys.executable, "-m", module, *words]
        self._process: Any = None

    def ask(self, line: str, limit: float) -> dict[str, Any] | None:
        """Return the answer to one line, None after a hang or a crash; the process is then replaced.

        ``limit`` is in seconds of the processor where other programs are busy too, and six times as long by the clock.
        """
        if self._process is None:
            self._process = subprocess.Popen(
                self._words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT
            )
            self._process.stdout.readline()  # ready
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()
        began, used = time.monotonic(), processor_time(self._process.pid)
        while not select.select([self._process.stdout], [], [], 0.2)[0]:
            waited, worked = time.monotonic() - began, processor_time(self._process.pid) - used
            if worked > limit or waited > 6 * limit:
                self.close()
                return None
        answer = self._process.stdout.readline()
        if answer:
            found: dict[str, Any] = json.loads(answer)
            return found
        self.close()
        return None

    def answer(self, line: str, limit: float) -> dict[str, Any] | None:
        """Return the answer to one line; what took longer than the limit because it compiled kernels is asked again."""
        found = self.ask(line, limit)
        if found is None and self.ask(line, 6 * limit) is not None:
            found = self.ask(line, limit)
        return found

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def serve(answer: Callable[[str], dict[str, Any]]) -> None:
    """Answer the lines of the standard input, as a worker does."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the library prints is not an answer
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(line.strip())), file=answers, flush=True)


def processor_time(pid: int) -> float:
    """Return the seconds of the processor that a process has used (Linux)."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_memory() -> int:
    """Return the most bytes that this process has ever held in memory (Linux)."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return 1024 * int(line.split()[1])
    return 0
