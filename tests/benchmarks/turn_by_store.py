"""Cost of a turn of the loop for each session store: memory, a SQLite file, PostgreSQL.

    python tests/benchmarks/turn_by_store.py [rounds]

Each question has ten turns in its own session: nine call an async tool that does nothing, and the
last one replies. The model's replies are prepared. PostgreSQL is a separate server with default
settings. It runs on the same cores: its CPU time is not counted, but the turn waits for it. Without
PostgreSQL or asyncpg, only the other stores are measured. There are no bars.
"""

import asyncio
import json
import multiprocessing
import os
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, cast

from loopback import Cost, Way, cpu, rounds_asked_for, table, take_turns, wall
from stores import Place, places

from stage0_gateway import ChatResponse, Message
from stage1_context import ContextEngine, SessionStore
from stage1_context.stores.postgres import PostgresStore
from stage2_output import OutputController
from stage3_tools import Tool, ToolLoopDeps, ToolRegistry, run_tool_loop

_TURNS = 10
_QUESTIONS = 50  # number of questions for the counts
_AT_ONCE = 32
_WORKERS = (1, 2, 4)
_WARM_UP, _SECONDS = 1.0, 2.5
_NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
_CALLS: list[dict[str, Any]] = [{"tool": "count", "arguments": {"n": n}} for n in range(1, _TURNS)]
_REPLIES = [json.dumps(each) for each in (*_CALLS, {"tool": None, "reply": "Counted."})]


class Model:
    """A model with prepared replies for any number of conversations; it counts them."""

    def __init__(self) -> None:
        self.turns = 0
        self._replies = [ChatResponse(Message.assistant(each), "stop") for each in _REPLIES]

    async def chat(self, messages: Sequence[Message], **settings: object) -> ChatResponse:
        """Return the next reply: a request has the system message, the question, and two messages per
        call."""
        self.turns += 1
        return self._replies[(len(messages) - 2) // 2]


class Counting:
    """A store that counts its operations.

    Args:
        store: The store that does the work.
    """

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self.operations: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        """Return a method of the store."""
        self.operations[name] += 1
        return getattr(self._store, name)


async def nothing(arguments: object) -> str:
    """A tool that does nothing."""
    return "done"


def question(store: SessionStore, model: Model) -> Way:
    """Return a question with all its turns in its own session."""
    engine, tools = (
        ContextEngine(store=store),
        ToolRegistry(Tool("count", "Count.", _NUMBER, nothing)),
    )
    deps = ToolLoopDeps(model.chat, engine, OutputController(), tools)

    async def ask() -> None:
        result = await run_tool_loop(deps, await engine.create_session(), "Count to nine.")
        assert (result.reply, result.stats.turns) == ("Counted.", _TURNS)

    return ask


async def one_by_one(found: dict[str, Place], rounds: int) -> dict[str, list[Cost]]:
    """Return the costs of a question in each store."""
    stores = {name: place.store() for name, place in found.items()}
    try:
        return await take_turns(
            {name: question(each, Model()) for name, each in stores.items()}, rounds
        )
    finally:
        for store in stores.values():
            await store.aclose()


async def operations_of(store: SessionStore) -> Counter[str]:
    """Count the calls of each operation."""
    counting = Counting(store)
    ask = question(cast(SessionStore, counting), Model())
    for _ in range(_QUESTIONS):
        await ask()
    await store.aclose()
    return counting.operations


def counted(place: Place) -> tuple[str, ...]:
    """Return the operations, transactions and stored bytes of a turn."""
    size, commits = place.size(), place.commits() if place.commits else 0
    operations = asyncio.run(operations_of(place.store()))
    figures = [
        operations.total(),
        operations["append"],
        operations["info"],
        operations["read"],
        place.size() - size,
    ]
    shown = [f"{each / _QUESTIONS / _TURNS:,.1f}" for each in figures]
    done = f"{(place.commits() - commits) / _QUESTIONS / _TURNS:.1f}" if place.commits else "-"
    return *shown[:-1], done, shown[-1]


async def at_once(store: SessionStore) -> tuple[float, float]:
    """Return the turns per second of concurrent conversations, and this process's CPU seconds per
    turn."""
    model, going_on = Model(), True
    ask = question(store, model)

    async def converse() -> None:
        while going_on:
            await ask()

    tasks = [asyncio.create_task(converse()) for _ in range(_AT_ONCE)]
    await asyncio.sleep(_WARM_UP)
    turns, clock, used = model.turns, time.perf_counter(), time.process_time()
    await asyncio.sleep(_SECONDS)
    turns, clock, used = (
        model.turns - turns,
        time.perf_counter() - clock,
        time.process_time() - used,
    )
    going_on = False
    await asyncio.gather(*tasks)
    await store.aclose()
    return turns / clock, used / turns


def worker(dsn: str, ready: Any) -> tuple[float, float]:
    """Measure the same on a database, after all workers are ready."""
    ready.wait(60)
    return asyncio.run(at_once(PostgresStore(dsn)))


def workers(dsn: str, number: int) -> tuple[float, float]:
    """Measure the same in several processes together."""
    context = multiprocessing.get_context("spawn")
    with context.Manager() as shared, ProcessPoolExecutor(number, mp_context=context) as pool:
        ready = shared.Barrier(number)
        found = [each.result() for each in [pool.submit(worker, dsn, ready) for _ in range(number)]]
    turns = sum(each for each, _ in found)
    return turns, sum(each * used for each, used in found) / turns


def crowds(name: str, place: Place) -> dict[str, tuple[float, float]]:
    """Measure the same in one process; on a database also in several."""
    if not place.dsn:
        return {name: asyncio.run(at_once(place.store()))}
    return {f"{name}, processes: {number}": workers(place.dsn, number) for number in _WORKERS}


def main(rounds: int) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder, places(Path(folder)) as found:
        costs = asyncio.run(one_by_one(found, rounds))
        operations = {name: counted(place) for name, place in found.items()}
        many = [each for name, place in found.items() for each in crowds(name, place).items()]
    lines = [
        (name, *(f"{of(each) / _TURNS * 1e6:.0f}" for of in (cpu, wall)))
        for name, each in costs.items()
    ]
    title = f"One turn of {_TURNS}, one conversation after the other, medians of {rounds} rounds"
    table(title, ("", "us of our CPU", "us on the clock"), *lines)
    columns = "", "operations", "append", "info", "read", "transactions", "bytes on disk"
    table(
        "What one turn asks of its store",
        columns,
        *((name, *each) for name, each in operations.items()),
    )
    print("  In SQLite each operation is a transaction. PostgreSQL counts its own.")
    shown = [(name, f"{turns:,.0f}", f"{used * 1e6:.0f}") for name, (turns, used) in many]
    title = f"{_AT_ONCE} conversations at once in each process"
    table(title, ("", "turns a second in all", "us of our CPU a turn"), *shown)
    print(
        f"  This machine has {os.cpu_count()} cores. PostgreSQL shares them with the processes that ask it."
    )


if __name__ == "__main__":
    main(rounds_asked_for(25))
