"""What one turn of the loop costs where the sessions are kept: in memory, in a SQLite file, in
PostgreSQL.

    python tests/benchmarks/turn_by_store.py [rounds]

A turn is one of ten that answer a question in a session of its own: nine call an async tool that
does nothing, the last one replies, and the model has its replies ready. PostgreSQL is a server of
our own, with the settings it comes with. It runs on the same cores: its CPU time is not counted,
but it is waited for. Where it is not installed, or asyncpg is not, the rest is measured. Judges
nothing.
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
_QUESTIONS = 50  # whose operations, transactions and bytes are counted
_AT_ONCE = 32
_WORKERS = (1, 2, 4)
_WARM_UP, _SECONDS = 1.0, 2.5
_NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
_CALLS: list[dict[str, Any]] = [{"tool": "count", "arguments": {"n": n}} for n in range(1, _TURNS)]
_REPLIES = [json.dumps(each) for each in (*_CALLS, {"tool": None, "reply": "Counted."})]


class Model:
    """A model that has its replies ready, for any number of conversations; it counts them."""

    def __init__(self) -> None:
        self.turns = 0
        self._replies = [ChatResponse(Message.assistant(each), "stop") for each in _REPLIES]

    async def chat(self, messages: Sequence[Message], **settings: object) -> ChatResponse:
        """The next reply: a request holds the system message, the question, and two messages for
        each call."""
        self.turns += 1
        return self._replies[(len(messages) - 2) // 2]


class Counting:
    """A store that counts what is asked of it.

    Args:
        store: Does the work.
    """

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self.asked: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        """Any method of the store."""
        self.asked[name] += 1
        return getattr(self._store, name)


async def nothing(arguments: object) -> str:
    """The tool."""
    return "done"


def question(store: SessionStore, model: Model) -> Way:
    """A question in a session of its own, and all its turns."""
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
    """What a question costs in each place."""
    stores = {name: place.store() for name, place in found.items()}
    try:
        return await take_turns(
            {name: question(each, Model()) for name, each in stores.items()}, rounds
        )
    finally:
        for store in stores.values():
            await store.aclose()


async def asked_of(store: SessionStore) -> Counter[str]:
    """How often each operation is asked for."""
    counting = Counting(store)
    ask = question(cast(SessionStore, counting), Model())
    for _ in range(_QUESTIONS):
        await ask()
    await store.aclose()
    return counting.asked


def counted(place: Place) -> tuple[str, ...]:
    """What a turn asks of a store, how many transactions that takes, and the bytes it leaves."""
    size, commits = place.size(), place.commits() if place.commits else 0
    asked = asyncio.run(asked_of(place.store()))
    figures = [asked.total(), asked["append"], asked["info"], asked["read"], place.size() - size]
    shown = [f"{each / _QUESTIONS / _TURNS:,.1f}" for each in figures]
    done = f"{(place.commits() - commits) / _QUESTIONS / _TURNS:.1f}" if place.commits else "-"
    return *shown[:-1], done, shown[-1]


async def at_once(store: SessionStore) -> tuple[float, float]:
    """Turns a second of conversations at once, and the seconds of CPU that each turn took this
    process."""
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
    """The same on a database, once all workers are ready."""
    ready.wait(60)
    return asyncio.run(at_once(PostgresStore(dsn)))


def workers(dsn: str, number: int) -> tuple[float, float]:
    """The same of so many processes together."""
    context = multiprocessing.get_context("spawn")
    with context.Manager() as shared, ProcessPoolExecutor(number, mp_context=context) as pool:
        ready = shared.Barrier(number)
        found = [each.result() for each in [pool.submit(worker, dsn, ready) for _ in range(number)]]
    turns = sum(each for each, _ in found)
    return turns, sum(each * used for each, used in found) / turns


def crowds(name: str, place: Place) -> dict[str, tuple[float, float]]:
    """The same in one process; on a database in several, too."""
    if not place.dsn:
        return {name: asyncio.run(at_once(place.store()))}
    return {f"{name}, processes: {number}": workers(place.dsn, number) for number in _WORKERS}


def main(rounds: int) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder, places(Path(folder)) as found:
        costs = asyncio.run(one_by_one(found, rounds))
        asked = {name: counted(place) for name, place in found.items()}
        many = [each for name, place in found.items() for each in crowds(name, place).items()]
    lines = [
        (name, *(f"{of(each) / _TURNS * 1e6:.0f}" for of in (cpu, wall)))
        for name, each in costs.items()
    ]
    title = f"One turn of {_TURNS}, one conversation after the other, medians of {rounds} rounds"
    table(title, ("", "us of our CPU", "us on the clock"), *lines)
    columns = "", "operations", "append", "info", "read", "transactions", "bytes on disk"
    table(
        "What one turn asks of its store", columns, *((name, *each) for name, each in asked.items())
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
