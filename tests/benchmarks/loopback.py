"""What the benchmarks of the gateway share: a server on loopback, rounds, ratios and tables.

Knows nothing of what is measured. Times are judged as ratios of ways that took turns in one run:
machines differ, and one machine differs from minute to minute. The server is a process of its own,
so the CPU time counted here is the client's alone.
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
"""One way to do what is measured, once."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds that one round of a way took.

    Attributes:
        cpu: Of this process.
        wall: On the clock.
    """

    cpu: float
    wall: float


@contextmanager
def model_server() -> Iterator[str]:
    """The URL of a server that runs meanwhile; the proxies of the environment are passed by."""
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
    """The connections a gateway may have, by what to add to its name: our own, and httpx-aiohttp's if it is here."""
    found: dict[str, httpx.AsyncBaseTransport | None] = {"": Pool()}
    return found | ({" with [fast]": None} if find_spec("httpx_aiohttp") else {})


async def take_turns(ways: Mapping[str, Way], rounds: int) -> dict[str, list[Cost]]:
    """What each way cost in each round, after one round that does not count."""
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
    """The median of the seconds of CPU."""
    return statistics.median(cost.cpu for cost in costs)


def wall(costs: Sequence[Cost]) -> float:
    """The median of the seconds on the clock."""
    return statistics.median(cost.wall for cost in costs)


def ratio(costs: Sequence[Cost], base: Sequence[Cost], seconds: Callable[[Cost], float]) -> float:
    """How many times as much as another way this one took, round by round; the median."""
    return statistics.median(seconds(a) / seconds(b) for a, b in zip(costs, base, strict=True))


def at_most(bar: float, figure: float) -> str:
    """A figure beside its bar."""
    return f"{figure:.2f} (bar: at most {bar}{'' if figure <= bar else '; MISSED'})"


def at_least(bar: float, figure: float) -> str:
    """A figure beside its bar."""
    return f"{figure:.2f} (bar: at least {bar}{'' if figure >= bar else '; MISSED'})"


def table(title: str, *rows: Sequence[str]) -> None:
    """Print rows in columns; the first row is the heading."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    print(f"\n{title}")
    for row in rows:
        cells = zip(row, widths, strict=True)
        print("  " + "  ".join(cell.ljust(width) for cell, width in cells).rstrip())


def rounds_asked_for(default: int) -> int:
    """The command's one argument: how many rounds."""
    return int(sys.argv[1]) if len(sys.argv) > 1 else default
