"""What a turn costs after 10,000 messages, beside what it costs after 100: `ContextEngine`, in
memory and in SQLite.

    python tests/benchmarks/context_growth.py [rounds]

A turn adds a message and asks for the next request. In each round both sessions are made anew,
opened, and take a few turns that do not count; of those that do, in turns, the median is a round's
figure. Opening a session is counted apart: a new engine's first request.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import talk
from loopback import at_most, rounds_asked_for, table

from stage0_gateway import Message
from stage1_context import (
    ContextEngine,
    KeepSystemAndRecent,
    MemoryStore,
    SessionStore,
    SqliteStore,
)
from stage1_context.journal import MessageRecord

_SIZES = (100, 10_000)
_WINDOW = KeepSystemAndRecent(max_tokens=4000)
_TURNS = 40
_UNCOUNTED = 5
_BAR = 1.5


@dataclass
class Session:
    """A session of some length, and what was measured on it, in seconds."""

    engine: ContextEngine
    id: str
    opening: float = 0.0
    add_message: list[float] = field(default_factory=list)
    messages_for_request: list[float] = field(default_factory=list)

    async def turn(self, message: Message) -> None:
        """Add a message, ask for the next request."""
        begun = time.perf_counter()
        await self.engine.add_message(self.id, message)
        added = time.perf_counter()
        await self.engine.messages_for_request(self.id)
        done = time.perf_counter()
        self.add_message.append(added - begun)
        self.messages_for_request.append(done - added)


async def opened(store: SessionStore, size: int) -> Session:
    """A session of this length, after its first request."""
    maker = ContextEngine(store=store)
    session = Session(ContextEngine(store=store, window=_WINDOW), await maker.create_session())
    await store.append(session.id, *map(MessageRecord, talk.messages(size)))
    await store.info(
        session.id
    )  # what so large an append leaves to be done is done before the clock runs
    begun = time.perf_counter()
    await session.engine.messages_for_request(session.id)
    session.opening = time.perf_counter() - begun
    return session


async def one_round(store: SessionStore) -> dict[str, list[float]]:
    """What each thing took at each size."""
    sessions = [await opened(store, size) for size in _SIZES]
    for message in islice(talk.talk(), _TURNS + _UNCOUNTED):
        for session in sessions:
            await session.turn(message)
    counted = slice(_UNCOUNTED, None)
    return {
        "add_message": [statistics.median(each.add_message[counted]) for each in sessions],
        "messages_for_request": [
            statistics.median(each.messages_for_request[counted]) for each in sessions
        ],
        "opening": [each.opening for each in sessions],
    }


async def measure(make: Callable[[], SessionStore], rounds: int) -> list[dict[str, list[float]]]:
    """All rounds with one kind of store, after one that does not count."""
    store = make()
    try:
        return [await one_round(store) for _ in range(rounds + 1)][1:]
    finally:
        await store.aclose()


def rows(store: str, measured: list[dict[str, list[float]]]) -> list[tuple[str, ...]]:
    """A line of the table for each thing."""
    lines: list[tuple[str, ...]] = []
    for name in measured[0]:
        few, many = (statistics.median(each[name][size] for each in measured) for size in (0, 1))
        times = statistics.median(each[name][1] / each[name][0] for each in measured)
        judged = f"{times:.2f}" if name == "opening" else at_most(_BAR, times)
        lines.append((f"{store}: {name}", f"{few * 1e6:.0f}", f"{many * 1e6:.0f}", judged))
    return lines


def main(rounds: int) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        stores: dict[str, Callable[[], SessionStore]] = {
            "memory": MemoryStore,
            "SQLite": lambda: SqliteStore(Path(folder) / "sessions.sqlite"),
        }
        found = {name: asyncio.run(measure(make, rounds)) for name, make in stores.items()}
    lines = [line for name, measured in found.items() for line in rows(name, measured)]
    few, many = (f"us at {size:,}" for size in _SIZES)
    table(
        f"A turn in a long session, medians of {rounds} rounds",
        ("", few, many, "times as much"),
        *lines,
    )


if __name__ == "__main__":
    main(rounds_asked_for(25))
