"""Overhead of a tool that does nothing: one call, and one turn of the loop.

    python tests/benchmarks/tool_call.py [rounds]

The arguments are an order (25 plain values in objects and lists, against a closed schema with limits
and patterns) or one number. Each question has ten turns: nine call the async tool with one number,
and the last one replies. The model's replies are prepared. Opening the session is included.

The bar is CPU time, which other processes do not affect. On an idle machine the elapsed time is the
same, except for calls that wait for a thread. Ends with 1 if the bar is missed.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Awaitable, Callable
from itertools import cycle
from pathlib import Path
from typing import Any

from loopback import Cost, Way, at_most, cpu, ratio, rounds_asked_for, table, take_turns, wall

from stage0_gateway import ChatResponse, Message, ToolCall
from stage1_context import ContextEngine, MemoryStore, SessionStore, SqliteStore
from stage2_output import OutputController
from stage3_tools import (
    Tool,
    ToolLoopDeps,
    ToolRegistry,
    execute_tool_call,
    execute_tool_calls,
    run_tool_loop,
)


def closed(*optional: str, **properties: Any) -> dict[str, Any]:
    """Return the schema of an object with only these properties."""
    needed = [name for name in properties if name not in optional]
    return {
        "type": "object",
        "properties": properties,
        "required": needed,
        "additionalProperties": False,
    }


_TEXT = {"type": "string", "minLength": 1, "maxLength": 80}
SCHEMA = closed(
    "note",
    id={"type": "integer", "minimum": 1},
    customer=_TEXT,
    email={"type": "string", "pattern": "^[^@ ]+@[^@ ]+$"},
    status={"enum": ["open", "paid", "sent", "returned"]},
    total={"type": "number", "minimum": 0},
    note={"type": ["string", "null"]},
    address=closed(
        "zip", street=_TEXT, city=_TEXT, zip={"type": "string", "pattern": "^[0-9]{5}$"}
    ),
    lines={
        "type": "array",
        "minItems": 1,
        "items": closed(
            "gift",
            article={"type": "string"},
            count={"type": "integer", "minimum": 1, "maximum": 1000},
            price={"type": "number", "exclusiveMinimum": 0},
            gift={"type": "boolean"},
        ),
    },
)
VALUE = {
    "id": 4711,
    "customer": "Ada Lovelace",
    "email": "ada@example.com",
    "status": "paid",
    "total": 86.4,
    "note": None,
    "address": {"street": "12 St James's Square", "city": "London", "zip": "12345"},
    "lines": [
        {"article": name, "count": count, "price": price, "gift": count == 1}
        for name, count, price in [
            ("pen", 2, 3.2),
            ("ink", 1, 8),
            ("paper", 500, 0.14),
            ("chair", 1, 2.5),
        ]
    ],
}


_BAR = 600.0  # µs; most of it is jsonschema's time for an order with nested items
_TIMES = 300
_TURNS = 10
_JUDGED, _THREAD, _TO_THREAD = "async, an order", "sync, one number", "bare asyncio.to_thread"
_NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


async def nothing(arguments: object) -> str:
    """An async tool."""
    return "done"


def nothing_in_a_thread(arguments: object) -> str:
    """A tool that is a plain function."""
    return "done"


_ORDER = Tool("order", "Order.", SCHEMA, nothing)
_COUNT = Tool("count", "Count.", _NUMBER, nothing)
_BLOCK = Tool("block", "Count.", _NUMBER, nothing_in_a_thread)


def registry(*tools: Tool) -> ToolRegistry:
    """Return a registry of these tools."""
    made = ToolRegistry()
    for tool in tools:
        made.register(tool)
    return made


def repeated(way: Way) -> Way:
    """Repeat a variant many times, as one measurement."""

    async def many() -> None:
        for _ in range(_TIMES):
            await way()

    return many


def calls() -> dict[str, Way]:
    """Return the variants of a single call."""
    tools = registry(_ORDER, _COUNT, _BLOCK)
    order, count, block = (
        ToolCall("call_1", name, json.dumps(given))
        for name, given in (("order", VALUE), ("count", {"n": 1}), ("block", {"n": 1}))
    )
    ways: dict[str, Way] = {
        _JUDGED: lambda: execute_tool_call(tools, order),
        "async, one number": lambda: execute_tool_call(tools, count),
        "async, one number, in execute_tool_calls": lambda: execute_tool_calls(tools, [count]),
        _TO_THREAD: lambda: asyncio.to_thread(nothing_in_a_thread, {"n": 1}),
        _THREAD: lambda: execute_tool_call(tools, block),
    }
    return {name: repeated(way) for name, way in ways.items()}


def model() -> Callable[..., Awaitable[ChatResponse]]:
    """Return a model with prepared replies: different calls, then an answer."""
    decisions: list[dict[str, Any]] = [
        {"tool": "count", "arguments": {"n": n}} for n in range(1, _TURNS)
    ]
    decisions.append({"tool": None, "reply": "Counted."})
    replies = cycle(
        [ChatResponse(Message.assistant(json.dumps(each)), "stop") for each in decisions]
    )

    async def chat(messages: object, **settings: object) -> ChatResponse:
        return next(replies)

    return chat


def question(store: SessionStore) -> Way:
    """Return a question with all its turns in its own session."""
    engine = ContextEngine(store=store)
    deps = ToolLoopDeps(model(), engine, OutputController(), registry(_COUNT))

    async def ask() -> None:
        result = await run_tool_loop(deps, await engine.create_session(), "Count to nine.")
        assert (result.reply, result.stats.turns) == ("Counted.", _TURNS)

    return ask


async def measure(rounds: int) -> tuple[dict[str, list[Cost]], dict[str, list[Cost]]]:
    """Return the costs of the calls and of the turns."""
    with tempfile.TemporaryDirectory() as folder:
        stores: dict[str, SessionStore] = {
            "memory": MemoryStore(),
            "SQLite": SqliteStore(Path(folder) / "sessions.sqlite"),
        }
        try:
            called = await take_turns(calls(), rounds)
            return called, await take_turns(
                {name: question(each) for name, each in stores.items()}, rounds
            )
        finally:
            for store in stores.values():
                await store.aclose()


def row(name: str, costs: list[Cost], times: int) -> tuple[str, str, str, str]:
    """Return microseconds per repetition: CPU, elapsed, and elapsed in the best round."""
    seconds = cpu(costs), wall(costs), min(each.wall for each in costs)
    used, took, best = (each / times * 1e6 for each in seconds)
    return (
        name,
        at_most(_BAR, used) if name == _JUDGED else f"{used:.2f}",
        f"{took:.2f}",
        f"{best:.2f}",
    )


def main(rounds: int) -> int:
    """Measure and print; return 1 if the bar is missed."""
    called, turned = asyncio.run(measure(rounds))
    heading = ("", "us CPU", "us on the clock", "in the best round")
    rows = (row(name, costs, _TIMES) for name, costs in called.items())
    table(f"One call, medians of {rounds} rounds of {_TIMES}", heading, *rows)
    times = ratio(called[_THREAD], called[_TO_THREAD], lambda cost: cost.wall)
    print(f"  A sync tool takes {times:.2f} times as long as the bare thread.")
    lines = (row(name, costs, _TURNS) for name, costs in turned.items())
    table(f"One turn of {_TURNS}, medians of {rounds} rounds", heading, *lines)
    return int(cpu(called[_JUDGED]) / _TIMES * 1e6 > _BAR)


if __name__ == "__main__":
    sys.exit(main(rounds_asked_for(25)))
