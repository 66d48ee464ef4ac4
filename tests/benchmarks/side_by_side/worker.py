"""Measures one driver in a separate process that waits for tasks, so that two drivers can alternate.

    python worker.py DRIVER [core]

Each line of the input is a task, and is answered with one line; both are JSON. A task names a
function of this file and its arguments. The answer is the function's return value, or `{"error":
…}`. The first line of the output describes the driver. Needs only Python and the driver's library.
"""

import asyncio
import gc
import importlib.metadata
import json
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from itertools import pairwise
from types import ModuleType
from typing import Any

import job
from server import ANSWER, list_in_pieces
from traced import Tracer

_TICK = 0.005  # seconds between two checks whether the event loop is stuck


class Worker:
    """One driver, and the clients that it has opened.

    Args:
        driver: One of `drivers/`.
    """

    def __init__(self, driver: ModuleType) -> None:
        self._driver = driver
        self._stack = AsyncExitStack()
        self._opened: dict[Any, Any] = {}

    async def about(self) -> dict[str, Any]:
        """Describe the driver."""
        driver = self._driver
        versions = {each: importlib.metadata.version(each) for each in driver.PACKAGES}
        can = [each for each in ("reading", "snapshots") if hasattr(driver, each)]
        can += ["path"] if hasattr(driver, "FOLLOWED") else []
        can += [] if getattr(driver, "OPENS_A_CLIENT", False) else ["shared client"]
        return {
            "title": driver.TITLE,
            "import": driver.IMPORT,
            "versions": versions,
            "can": [*driver.SPEAKS, *can],
        }

    async def loop(
        self, server: str, dialect: job.Dialect, rounds: int, times: int
    ) -> dict[str, float]:
        """Measure sequential conversations: CPU and wall seconds of a request."""
        ask = await self._asking(job.Work(server, dialect, rounds))
        each: list[list[float]] = []
        started = _now()
        for _ in range(times):
            job.called.clear()
            await answered(ask)
            if len(job.called) != rounds:
                raise RuntimeError(f"{len(job.called)} calls instead of {rounds}")
            each.append([after - before for before, after in pairwise(job.called)])
        cost = _since(started, times * (rounds + 1))
        if rounds >= 50:
            cost["early"] = statistics.median(statistics.median(one[:5]) for one in each)
            cost["late"] = statistics.median(statistics.median(one[44:49]) for one in each)
            cost["growth"] = cost["late"] / cost["early"]
        return cost

    async def at_once(self, server: str, loops: int, rounds: int) -> dict[str, float]:
        """Measure this number of concurrent conversations with a new client: CPU and wall seconds of a
        request.

        A used client has idle connections, fewer after a longer wait, which would affect the result.
        """
        async with self._driver.asking(job.Work(server, self._own_calls, rounds)) as ask:
            await answered(ask)
            gc.collect()
            started = _now()
            await asyncio.gather(*[answered(ask) for _ in range(loops)])
            return _since(started, loops * (rounds + 1))

    async def three(self, server: str, tools: str) -> dict[str, float]:
        """Measure three tools that take 200 ms: wall time of the conversation, and the longest time that
        the loop was stuck."""
        ask = await self._asking(job.Work(server, self._own_calls, 1, tools))  # type: ignore[arg-type]
        stuck: list[float] = []
        ticking = asyncio.create_task(_ticking(stuck))
        await asyncio.sleep(2 * _TICK)
        started = time.perf_counter()
        await answered(ask)
        wall = time.perf_counter() - started
        await asyncio.sleep(2 * _TICK)  # so that the end of the run is checked, too
        ticking.cancel()
        return {"wall": wall, "stuck": max(stuck)}

    async def stream(self, server: str, pieces: int) -> dict[str, float]:
        """Measure one long stream: CPU and wall seconds of an event."""
        read = await self._open(self._driver.reading, f"{server}/stream/{pieces}" + self._version())
        started = _now()
        characters, arguments = await read()
        cost = _since(started, pieces)
        if characters != sum(len(f"word{number} ") for number in range(pieces // 2)):
            raise RuntimeError(f"{characters} characters of text")
        if arguments != "".join(list_in_pieces(pieces - pieces // 2)):
            raise RuntimeError("these are not the arguments that were sent")
        return cost

    async def snapshots(self, server: str, pieces: int) -> dict[str, float]:
        """Measure the same with the value parsed after each piece of the arguments, half of the pieces."""
        read = await self._open(
            self._driver.snapshots, f"{server}/stream/{2 * pieces}" + self._version()
        )
        started = _now()
        _, value = await read()
        cost = _since(started, 2 * pieces)
        if value != json.loads("".join(list_in_pieces(pieces))):
            raise RuntimeError("the last value is not what was sent")
        return cost

    async def path(self, server: str, dialect: job.Dialect) -> dict[str, Any]:
        """Trace the first conversation of this process, with one tool round."""
        driver, work = self._driver, job.Work(server, dialect, 1)
        tracer = Tracer(driver.FOLLOWED)
        async with getattr(driver, "following", driver.asking)(work) as ask:
            with tracer.tracing():
                await answered(ask)
        if len(job.called) != 1:
            raise RuntimeError(f"{len(job.called)} calls instead of 1")
        return tracer.path()

    async def close(self) -> None:
        """Close all clients."""
        await self._stack.aclose()

    @property
    def _own_calls(self) -> job.Dialect:
        """Return the native dialect of the driver's provider."""
        return "calls" if "calls" in self._driver.SPEAKS else "messages"

    def _version(self) -> str:
        return "" if self._driver.SPEAKS == ("messages",) else "/v1"

    async def _asking(self, work: job.Work) -> job.Ask:
        ask: job.Ask = await self._open(self._driver.asking, work)
        return ask

    async def _open(self, way: Callable[[Any], Any], what: Any) -> Any:
        """Return the opened client for this work, or open it and use it once as a warm-up."""
        key = way.__name__, what
        if key not in self._opened:
            self._opened[key] = used = await self._stack.enter_async_context(way(what))
            await used()
        gc.collect()
        return self._opened[key]


async def answered(ask: job.Ask) -> None:
    """Ask, and check the answer."""
    answer = await ask()
    if ANSWER not in answer:
        raise RuntimeError(f"not the answer: {answer[:200]!r}")


async def _ticking(stuck: list[float]) -> None:
    while True:
        started = time.perf_counter()
        await asyncio.sleep(_TICK)
        stuck.append(time.perf_counter() - started - _TICK)


def _now() -> tuple[float, float]:
    return time.process_time(), time.perf_counter()


def _since(started: tuple[float, float], count: int) -> dict[str, float]:
    cpu, wall = _now()
    return {"cpu": (cpu - started[0]) / count, "wall": (wall - started[1]) / count}


async def serve(driver: ModuleType) -> None:
    """Run each task as it arrives, until the input ends."""
    worker = Worker(driver)
    write_line(await worker.about())
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        task = json.loads(line)
        way: Callable[..., Awaitable[dict[str, Any]]] = getattr(worker, task.pop("task"))
        try:
            write_line(await way(**task))
        except Exception as error:  # any exception of a peer is its result
            write_line({"error": f"{type(error).__name__}: {error}"[:500]})


def write_line(what: dict[str, Any]) -> None:
    """Write one line to the parent process; it is marked, because a library may print, too."""
    print(f"\n@@{json.dumps(what)}", flush=True)


def main(name: str, cores: list[str]) -> None:
    """Serve."""
    if cores:
        os.sched_setaffinity(0, map(int, cores))
    driver = job.driver(name)
    asyncio.run(serve(driver))
    os._exit(0)  # some libraries leave threads behind


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
