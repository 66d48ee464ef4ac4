"""Overhead of `execute_tool_calls` for concurrent tools, and stalls of the event loop.

    python tests/benchmarks/tools_parallel.py [rounds]

Three tools of different durations are compared with a bare `asyncio.gather` of the same functions.
Then many short tools under a concurrency limit are compared with their ideal duration. The functions
are async functions that sleep, and plain functions that block a thread.

A stall is the delay of a task that repeatedly sleeps for a millisecond; the longest of each round
counts. A busy machine stalls every task, and lets a hundred threads wait for each other. If the bare
functions come near a bar, their duration plus a margin is the bar. Ends with 1 if a bar is missed.
"""

import asyncio
import statistics
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from loopback import Cost, Way, at_most, rounds_asked_for, table, take_turns, wall

from stage0_gateway import ToolCall
from stage3_tools import Tool, ToolRegistry, execute_tool_calls

_THREE = (0.1, 0.2, 0.15)
_MANY, _EACH, _CAP = 1000, 0.01, 100
_IDEAL = _MANY / _CAP * _EACH
_TICK = 0.001

_MORE_BAR = 5.0
_STALL_BAR = 10.0
_STALL_BESIDE_BARE = 2.0
_IDEAL_BAR = 1.5
_TIMES_BARE = 1.1

_SCHEMA = {"type": "object", "properties": {"seconds": {"type": "number"}}, "required": ["seconds"]}
_KINDS = ("async", "blocking")
_BARE = {"async": "bare gather", "blocking": "bare to_thread"}


async def pause(arguments: Mapping[str, Any]) -> str:
    """Wait without blocking."""
    await asyncio.sleep(arguments["seconds"])
    return "done"


def block(arguments: Mapping[str, Any]) -> str:
    """Wait and block the thread."""
    time.sleep(arguments["seconds"])
    return "done"


@dataclass
class Watched:
    """A variant, and the longest stall of the event loop in each of its rounds, in seconds."""

    way: Way
    stalls: list[float] = field(default_factory=list)
    _seen: float = 0.0

    async def __call__(self) -> None:
        """Run the variant once."""
        self.stalls.append(0.0)
        self._seen = time.perf_counter()
        watching = asyncio.create_task(self._watch())
        await self.way()
        self._look()
        watching.cancel()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            self._look()
            self._seen = time.perf_counter()

    def _look(self) -> None:
        self.stalls[-1] = max(self.stalls[-1], time.perf_counter() - self._seen - _TICK)

    @property
    def longest(self) -> tuple[float, float]:
        """Return milliseconds: the median of the rounds, and the maximum; the warm-up round is omitted."""
        return statistics.median(self.stalls[1:]) * 1e3, max(self.stalls[1:]) * 1e3


def ours(kind: str, seconds: tuple[float, ...], cap: int) -> Way:
    """Return calls as a model would write them."""
    registry = ToolRegistry()
    registry.register(Tool("wait", "Wait.", _SCHEMA, {"async": pause, "blocking": block}[kind]))
    calls = [
        ToolCall(f"call_{n}", "wait", f'{{"seconds": {each}}}') for n, each in enumerate(seconds)
    ]

    async def run() -> None:
        results = await execute_tool_calls(registry, calls, max_parallel=cap)
        assert [result.output for result in results] == ["done"] * len(calls)

    return run


def bare(kind: str, seconds: tuple[float, ...]) -> Way:
    """Return a bare `gather` of the same functions."""
    one = pause if kind == "async" else lambda given: asyncio.to_thread(block, given)

    async def run() -> None:
        await asyncio.gather(*(one({"seconds": each}) for each in seconds))

    return run


def capped(kind: str, pool: ThreadPoolExecutor) -> Way:
    """Return many functions under the limit: a semaphore, or a thread pool."""
    given = {"seconds": _EACH}

    async def one(places: asyncio.Semaphore) -> None:
        async with places:
            if kind == "async":
                await pause(given)
            else:
                await asyncio.get_running_loop().run_in_executor(pool, block, given)

    async def run() -> None:
        places = asyncio.Semaphore(_CAP)
        await asyncio.gather(*(one(places) for _ in range(_MANY)))

    return run


def more_than(costs: list[Cost], base: list[Cost]) -> float:
    """Return the median difference to another variant in milliseconds, round by round."""
    return statistics.median(a.wall - b.wall for a, b in zip(costs, base, strict=True)) * 1e3


def three(rounds: int) -> bool:
    """Compare three tools with the bare functions; return whether all bars hold."""
    held, rows = True, []
    for kind in _KINDS:
        ways = {
            _BARE[kind]: Watched(bare(kind, _THREE)),
            kind: Watched(ours(kind, _THREE, len(_THREE))),
        }
        theirs, costs = asyncio.run(take_turns(ways, rounds)).values()
        (beside, beside_all), (stall, stall_all) = (way.longest for way in ways.values())
        more, bar = more_than(costs, theirs), round(max(_STALL_BAR, beside + _STALL_BESIDE_BARE), 1)
        rows.append(
            (_BARE[kind], f"{wall(theirs) * 1e3:.2f}", "", f"{beside:.2f}", f"{beside_all:.1f}")
        )
        judged = at_most(_MORE_BAR, more), at_most(bar, stall)
        rows.append((f"{kind} tools", f"{wall(costs) * 1e3:.2f}", *judged, f"{stall_all:.1f}"))
        held = held and more <= _MORE_BAR and stall <= bar
    title = f"Three at once, of 100, 200 and 150 ms, medians of {rounds} rounds"
    table(title, ("", "ms", "ms more than bare", "longest stall, ms", "in all rounds"), *rows)
    return held


def many(rounds: int) -> bool:
    """Measure many tools under the limit; return whether all bars hold."""
    held, rows = True, []
    with ThreadPoolExecutor(_CAP) as pool:
        for kind in _KINDS:
            ways = {"bare": capped(kind, pool), "ours": ours(kind, (_EACH,) * _MANY, _CAP)}
            theirs, costs = asyncio.run(take_turns(ways, rounds)).values()
            beside, times = wall(theirs) / _IDEAL, wall(costs) / _IDEAL
            bar = round(max(_IDEAL_BAR, beside * _TIMES_BARE), 2)
            rows.append(
                (f"bare {kind}", f"{wall(theirs) * 1e3:.0f}", f"{beside:.2f}", between(theirs))
            )
            rows.append(
                (f"{kind} tools", f"{wall(costs) * 1e3:.0f}", at_most(bar, times), between(costs))
            )
            held = held and times <= bar
    title = f"{_MANY:,} calls of {_EACH * 1e3:.0f} ms, {_CAP} at once, medians of {rounds} rounds"
    table(title, ("", "ms", f"times the ideal {_IDEAL * 1e3:.0f} ms", "in all rounds"), *rows)
    return held


def between(costs: list[Cost]) -> str:
    """Return the least and the greatest multiple of the ideal duration."""
    times = [cost.wall / _IDEAL for cost in costs]
    return f"{min(times):.2f} to {max(times):.2f}"


def main(rounds: int) -> int:
    """Measure and print; return 1 if a bar is missed."""
    held = [three(rounds), many(rounds)]
    return int(not all(held))


if __name__ == "__main__":
    sys.exit(main(rounds_asked_for(15)))
