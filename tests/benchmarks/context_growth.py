"""Cost of a turn after 10,000 messages, compared with a turn after 100: `ContextEngine`, in memory
and in SQLite.

    python tests/benchmarks/context_growth.py [rounds]

A turn adds a message and builds the next request. Each round creates and opens both sessions and
runs a few warm-up turns. Measured turns of both alternate, and their median is the round's figure.
Opening a session is measured separately: it is the first request of a new engine.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import conversation
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
    """A session of some length, and its measurements in seconds."""

    engine: ContextEngine
    id: str
    opening: float = 0.0
    add_message: list[float] = field(default_factory=list)
    messages_for_request: list[float] = field(default_factory=list)

    async def turn(self, message: Message) -> None:
        """Add a message and build the next request."""
        begun = time.perf_counter()
        await self.engine.add_message(self.id, message)
        added = time.perf_counter()
        await self.engine.messages_for_request(self.id)
        done = time.perf_counter()
        self.add_message.append(added - begun)
        self.messages_for_request.append(done - added)


async def opened(store: SessionStore, size: int) -> Session:
    """Return a session of this length, after its first request."""
    maker = ContextEngine(store=store)
    session = Session(ContextEngine(store=store, window=_WINDOW), await maker.create_session())
    await store.append(session.id, *map(MessageRecord, conversation.messages(size)))
    await store.info(
        session.id
    )  # follow-up work of the large append is done before the measurement
    begun = time.perf_counter()
    await session.engine.messages_for_request(session.id)
    session.opening = time.perf_counter() - begun
    return session


async def one_round(store: SessionStore) -> dict[str, list[float]]:
    """Return the durations of each operation at each size."""
    sessions = [await opened(store, size) for size in _SIZES]
    for message in islice(conversation.conversation(), _TURNS + _UNCOUNTED):
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
    """Run all rounds with one kind of store, after a warm-up round."""
    store = make()
    try:
        return [await one_round(store) for _ in range(rounds + 1)][1:]
    finally:
        await store.aclose()


def rows(store: str, measured: list[dict[str, list[float]]]) -> list[tuple[str, ...]]:
    """Return one table row per operation."""
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
