"""Alternates drivers with the bare loop, and computes figures and ratios.

The speed of a machine varies, so the result is the ratio of two measurements right after each other,
as the median of several. Each driver is a separate process for the whole run, on one core; the model
server has another core.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

_HERE = Path(__file__).parent
LONGEST = 300  # maximum seconds of a task
_LONG = 30.0  # seconds of measurement that are enough


def cores() -> tuple[list[str], list[str]]:
    """Return a core for the server and a core for the drivers, or empty lists if unsupported."""
    ours = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return ([str(ours[0])], [str(ours[-1])]) if len(ours) > 1 else ([], [])


@contextmanager
def model_server() -> Iterator[str]:
    """Run a model server and yield its URL."""
    command = [sys.executable, str(_HERE / "server.py"), *cores()[0]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.terminate()


class Driver:
    """A driver in its own process.

    Args:
        name: One of `drivers/`.
        python: The Python of the environment with the driver's library.

    Attributes:
        about: The worker's description of itself.
        can: The supported features.

    Raises:
        RuntimeError: It does not start; the message has the reason.
    """

    def __init__(self, name: str, python: str = sys.executable) -> None:
        self.name, self.python = name, python
        self._start()
        self.can: list[str] = self.about["can"]

    def _start(self) -> None:
        command = [self.python, str(_HERE / "worker.py"), self.name, *cores()[1]]
        # A file instead of a pipe, which would fill up. It is closed with the process.
        self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
        )
        self.about = self._answer()
        if "error" in self.about:
            self.close()
            raise RuntimeError(self.about["error"])

    def do(self, task: str, **given: Any) -> dict[str, Any]:
        """Run a measurement once. After a failure the process is replaced, because it may continue
        to run.

        Raises:
            RuntimeError: It failed; the message has the reason.
        """
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # the answer reports the failure
            self._process.stdin.write(json.dumps({"task": task, **given}) + "\n")
            self._process.stdin.flush()
        answer = self._answer()
        if "error" in answer:
            self.close()
            self._start()
            raise RuntimeError(answer["error"])
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        with suppress(BrokenPipeError):
            self._process.communicate()
        self._stderr.close()

    def _answer(self) -> dict[str, Any]:
        """Return the next answer; a process that is silent for too long is killed, which is an answer."""
        assert self._process.stdout is not None
        watch = threading.Timer(LONGEST, self._process.kill)
        watch.start()
        try:
            for line in self._process.stdout:
                if line.startswith("@@"):
                    answer: dict[str, Any] = json.loads(line[2:])
                    return answer
        finally:
            watch.cancel()
        self._stderr.seek(0)
        lines = self._stderr.read().strip().splitlines() or ["it printed nothing"]
        return {"error": f"the process ended, at the latest after {LONGEST} s: {lines[-1]}"}


@dataclass(frozen=True, slots=True)
class Measured:
    """Result of several measurements, as medians by the name of the figure.

    Attributes:
        figures: The figures themselves.
        ratios: Their ratios to the base right before them.
        above: Their differences to the base.
        base: The figures of the base.
        runs: The number of measurements.
    """

    figures: dict[str, float]
    ratios: dict[str, float]
    above: dict[str, float]
    base: dict[str, float]
    runs: int


def beside(
    base: Callable[[], dict[str, float]], measure: Callable[[], dict[str, float]], runs: int
) -> Measured:
    """Measure repeatedly, the base before each measurement; slow tasks are measured less often."""
    figures: list[dict[str, float]] = []
    before: list[dict[str, float]] = []
    started = time.monotonic()
    for run in range(runs + 1):
        bare, now = base(), measure()
        enough = time.monotonic() - started > _LONG
        if run or enough:  # the first pair has cold caches
            figures.append(now)
            before.append(bare)
        if enough:
            break
    pairs = list(zip(figures, before, strict=True))
    return Measured(
        medians(figures),
        medians([{name: now[name] / bare[name] for name in bare} for now, bare in pairs]),
        medians([{name: now[name] - bare[name] for name in bare} for now, bare in pairs]),
        medians(before),
        len(figures),
    )


def medians(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the median of each figure."""
    return {name: median(row[name] for row in rows) for name in rows[0]} if rows else {}
