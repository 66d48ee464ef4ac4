"""Has drivers take turns, each beside the bare loop right before it: figures and ratios.

One machine differs from minute to minute, so what counts is the ratio of two measurements made one
after the other; the median of several. Each driver is a process of its own that lives as long as
the run, on one core; the model server has another. Knows nothing of what the figures mean.
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
LONGEST = 300  # seconds a task may take
_LONG = 30.0  # seconds after which what was measured is enough


def cores() -> tuple[list[str], list[str]]:
    """A core for the server and one for the drivers; none are named where that cannot be said."""
    ours = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return ([str(ours[0])], [str(ours[-1])]) if len(ours) > 1 else ([], [])


@contextmanager
def model_server() -> Iterator[str]:
    """The URL of a model server that runs meanwhile."""
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
        python: The Python that has what it drives.

    Attributes:
        about: What the worker says of it.
        can: What it can do; "" is what all can.

    Raises:
        RuntimeError: It does not start; the text says why.
    """

    def __init__(self, name: str, python: str = sys.executable) -> None:
        self.name, self.python = name, python
        self._start()
        self.can: list[str] = ["", *self.about["can"]]

    def _start(self) -> None:
        command = [self.python, str(_HERE / "worker.py"), self.name, *cores()[1]]
        # Not a pipe: one that nobody reads would fill up. Closed with the process.
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
        )
        self.about = self._answer()
        if "error" in self.about:
            self.close()
            raise RuntimeError(self.about["error"])

    def do(self, task: str, **given: Any) -> dict[str, Any]:
        """Have it measured once. A process that failed may go on with something, so another one
        takes its place.

        Raises:
            RuntimeError: It failed; the text says why.
        """
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # the answer says so
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
        self._complaints.close()

    def _answer(self) -> dict[str, Any]:
        """What it says next; if it is silent for too long it is ended, which is an answer, too."""
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
        self._complaints.seek(0)
        said = self._complaints.read().strip().splitlines() or ["it said nothing"]
        return {"error": f"the process ended, at the latest after {LONGEST} s: {said[-1]}"}


@dataclass(frozen=True, slots=True)
class Measured:
    """What several measurements of one thing came to, as medians by the name of the figure.

    Attributes:
        figures: Themselves.
        ratios: To the base's, right before each of them.
        above: How much more than the base's.
        base: The base's.
        runs: How many measurements there were.
    """

    figures: dict[str, float]
    ratios: dict[str, float]
    above: dict[str, float]
    base: dict[str, float]
    runs: int


def beside(
    base: Callable[[], dict[str, float]], measure: Callable[[], dict[str, float]], runs: int
) -> Measured:
    """Measure so often, and the base right before each time; less often what takes long."""
    figures: list[dict[str, float]] = []
    before: list[dict[str, float]] = []
    started = time.monotonic()
    for run in range(runs + 1):
        bare, now = base(), measure()
        enough = time.monotonic() - started > _LONG
        if run or enough:  # the first finds cold caches
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
    """The median of each figure."""
    return {name: median(row[name] for row in rows) for name in rows[0]} if rows else {}
