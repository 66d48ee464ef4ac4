"""Shared parts of the gateway benchmarks: a server on loopback, rounds, ratios and tables.

It is independent of what is measured. Times are compared as ratios of variants that alternate in one
run, because machines differ and the speed of one machine varies. The server is a separate process,
so that only the client's CPU time is counted.
"""

import gc
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import httpx

from stage0_gateway.http.pool import Pool

Way = Callable[[], Awaitable[object]]
"""One variant of the measured operation; a call runs it once."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Duration of one round of a variant, in seconds.

    Attributes:
        cpu: CPU time of this process.
        wall: Elapsed time.
    """

    cpu: float
    wall: float


@contextmanager
def model_server() -> Iterator[str]:
    """Run a server and yield its URL; proxies of the environment are bypassed."""
    for name in [*os.environ]:
        if name.lower().endswith("_proxy"):
            del os.environ[name]
    script = Path(__file__).with_name("model_server.py")
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.terminate()


def connections() -> dict[str, httpx.AsyncBaseTransport | None]:
    """The available connections of a gateway, by name suffix: our own, and httpx-aiohttp's if installed."""
    found: dict[str, httpx.AsyncBaseTransport | None] = {"": Pool()}
    return found | ({" with [fast]": None} if find_spec("httpx_aiohttp") else {})


async def take_turns(ways: Mapping[str, Way], rounds: int) -> dict[str, list[Cost]]:
    """Return the costs of each variant in each round, after a warm-up round."""
    costs: dict[str, list[Cost]] = {name: [] for name in ways}
    for way in ways.values():
        await way()
    for _ in range(rounds):
        for name, way in ways.items():
            gc.collect()
            wall, cpu = time.perf_counter(), time.process_time()
            await way()
            costs[name].append(Cost(time.process_time() - cpu, time.perf_counter() - wall))
    return costs


def cpu(costs: Sequence[Cost]) -> float:
    """Return the median CPU time in seconds."""
    return statistics.median(cost.cpu for cost in costs)


def wall(costs: Sequence[Cost]) -> float:
    """Return the median elapsed time in seconds."""
    return statistics.median(cost.wall for cost in costs)


def ratio(costs: Sequence[Cost], base: Sequence[Cost], seconds: Callable[[Cost], float]) -> float:
    """Return the median of the ratios to another variant, round by round."""
    return statistics.median(seconds(a) / seconds(b) for a, b in zip(costs, base, strict=True))


def at_most(bar: float, figure: float) -> str:
    """Format a figure with its upper bar."""
    return f"{figure:.2f} (bar: at most {bar}{'' if figure <= bar else '; MISSED'})"


def at_least(bar: float, figure: float) -> str:
    """Format a figure with its lower bar."""
    return f"{figure:.2f} (bar: at least {bar}{'' if figure >= bar else '; MISSED'})"


def table(title: str, *rows: Sequence[str]) -> None:
    """Print rows in columns; the first row is the heading."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    print(f"\n{title}")
    for row in rows:
        cells = zip(row, widths, strict=True)
        print("  " + "  ".join(cell.ljust(width) for cell, width in cells).rstrip())


def rounds_asked_for(default: int) -> int:
    """Return the number of rounds from the command line."""
    return int(sys.argv[1]) if len(sys.argv) > 1 else default
