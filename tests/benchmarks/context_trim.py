"""Cost of windowing 1,000 messages, compared with `trim_messages` of langchain-core with the same
token counter.

    python tests/benchmarks/context_trim.py [rounds]

A turn adds a message and selects the messages of the next request, as an agent does before each
model call. Each side uses its own message type, created before. The bar is the CPU time of all
threads. `trim_messages` (strategy "last", with the system message) receives the whole list and
counts it in each turn; a second variant has a counter with a cache. "The first request" counts the
1,000 messages for the first time. langchain-core is in the extra `bench`; without it nothing is
compared.
"""

import asyncio
import gc
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import conversation
from loopback import Cost, at_least, cpu, ratio, rounds_asked_for, table, wall

from stage0_gateway import Message
from stage1_context import (
    ApproximateCounter,
    ContextEngine,
    KeepSystemAndRecent,
    MemoryStore,
    SessionStore,
    SqliteStore,
)
from stage1_context.journal import MessageRecord
from stage1_context.tokens import MESSAGE_OVERHEAD

_SIZE, _MAX_TOKENS, _TURNS = 1000, 4000, 10
_BAR = 20.0
_COUNTER = ApproximateCounter()
_THEIRS, _REMEMBERING = "trim_messages", "trim_messages, counts remembered"

_NEW = list(islice(conversation.conversation(), 1 + _TURNS))

Turn = Callable[[Message], Awaitable[int]]
"""Adds a message and builds the next request; returns its number of messages."""


async def ours(store: SessionStore) -> Turn:
    """Return a turn of a session of this package."""
    engine = ContextEngine(store=store, window=KeepSystemAndRecent(max_tokens=_MAX_TOKENS))
    session = await engine.create_session()
    await store.append(session, *map(MessageRecord, conversation.messages(_SIZE - 1)))

    async def turn(message: Message) -> int:
        await engine.add_message(session, message)
        return len(await engine.messages_for_request(session))

    return turn


async def theirs(remembering: bool) -> Turn:
    """Return a turn of a list of langchain-core's messages."""
    from langchain_core.messages import trim_messages

    history = [_as_theirs(message) for message in conversation.messages(_SIZE - 1)]
    made = {id(message): _as_theirs(message) for message in _NEW}
    counter = _remembering(_count) if remembering else _count

    async def turn(message: Message) -> int:
        history.append(made[id(message)])
        return len(
            trim_messages(
                history,
                max_tokens=_MAX_TOKENS,
                token_counter=lambda messages: sum(map(counter, messages)),
                strategy="last",
                include_system=True,
            )
        )

    return turn


def _as_theirs(message: Message) -> Any:
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

    match message.role:
        case "system":
            return SystemMessage(message.text)
        case "user":
            return HumanMessage(message.text)
        case "tool":
            return ToolMessage(message.text, tool_call_id=message.tool_call_id)
    calls = [
        {"id": call.id, "name": call.name, "args": json.loads(call.arguments)}
        for call in message.tool_calls
    ]
    return AIMessage(message.text, tool_calls=calls)


def _count(message: Any) -> int:
    """Return the tokens of one of their messages, counted like `message_tokens` counts ours."""
    calls = getattr(message, "tool_calls", ())
    texts = [message.content, *(call["name"] + json.dumps(call["args"]) for call in calls)]
    return MESSAGE_OVERHEAD + sum(map(_COUNTER.count, texts)) + 4 * len(calls)


def _remembering(count: Callable[[Any], int]) -> Callable[[Any], int]:
    known: dict[int, int] = {}  # keyed by object, which is fastest; trim_messages may pass copies

    def remembered(message: Any) -> int:
        key = id(message)
        if key not in known:
            known[key] = count(message)
        return known[key]

    return remembered


@dataclass(frozen=True)
class Measured:
    """One round of one variant.

    Attributes:
        first: The first request.
        later: The mean of the turns after it.
        messages: The number of messages in the last request.
    """

    first: Cost
    later: Cost
    messages: int


async def one_round(turn: Turn) -> Measured:
    """Measure the first request, then some turns."""
    first, _ = await cost(turn, _NEW[:1])
    later, messages = await cost(turn, _NEW[1:])
    return Measured(first, Cost(later.cpu / _TURNS, later.wall / _TURNS), messages)


async def cost(turn: Turn, added: list[Message]) -> tuple[Cost, int]:
    """Return the cost of some turns together, and the number of messages in the last request."""
    gc.collect()
    messages, wall, cpu = 0, time.perf_counter(), time.process_time()
    for message in added:
        messages = await turn(message)
    return Cost(time.process_time() - cpu, time.perf_counter() - wall), messages


async def measure(rounds: int, folder: Path) -> dict[str, list[Measured]]:
    """Run all rounds of all variants, which alternate, after a warm-up round."""
    store = SqliteStore(folder / "sessions.sqlite")
    ways: dict[str, Callable[[], Awaitable[Turn]]] = {
        "ContextEngine, memory": lambda: ours(MemoryStore()),
        "ContextEngine, SQLite": lambda: ours(store),
    }
    if find_spec("langchain_core"):
        ways |= {_THEIRS: lambda: theirs(False), _REMEMBERING: lambda: theirs(True)}
    measured: dict[str, list[Measured]] = {name: [] for name in ways}
    for _ in range(rounds + 1):
        for name, make in ways.items():
            measured[name].append(await one_round(await make()))
    await store.aclose()
    return {name: each[1:] for name, each in measured.items()}


def rows(measured: dict[str, list[Measured]]) -> list[tuple[str, ...]]:
    """Return the rows of the table."""
    later = {name: [each.later for each in rounds] for name, rounds in measured.items()}
    first = {name: [each.first for each in rounds] for name, rounds in measured.items()}
    lines = []
    for name in measured:
        times = (
            f"{cpu(first[name]) * 1e6:.0f}",
            f"{cpu(later[name]) * 1e6:.0f}",
            f"{wall(later[name]) * 1e6:.0f}",
        )
        faster = ["", "", ""]
        if _THEIRS in measured and name not in (_THEIRS, _REMEMBERING):
            faster = [
                at_least(_BAR, _faster(later[name], later[_THEIRS])),
                f"{_faster(first[name], first[_THEIRS]):.1f}",
                f"{_faster(later[name], later[_REMEMBERING]):.1f}",
            ]
        lines.append((name, *times, str(measured[name][-1].messages), *faster))
    return lines


def _faster(costs: list[Cost], base: list[Cost]) -> float:
    return 1 / ratio(costs, base, lambda each: each.cpu)


def main(rounds: int) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        lines = rows(asyncio.run(measure(rounds, Path(folder))))
    title = f"{_SIZE:,} messages, a window of {_MAX_TOKENS:,} tokens, medians of {rounds} rounds of {_TURNS} turns"
    costs = "us CPU, the first", "us CPU, a turn", "us, a turn"
    faster = "times faster", "the first", "counts remembered"
    table(title, ("", *costs, "messages", *faster), *lines)
    if not find_spec("langchain_core"):
        print(
            "  Nothing to compare with: langchain-core is not installed. pip install -e '.[bench]'"
        )


if __name__ == "__main__":
    main(rounds_asked_for(11))
