"""Cost of a turn of the loop with few and with many tools, compared with encoding the requests as
JSON.

    python tests/benchmarks/turn_by_tools.py [rounds]

Measured through the whole gateway, but without a network: with native tool calls and in the prompt
dialect. Each question has ten turns in its own session: nine call a tool, the last one replies. For
comparison, the table shows the time of `json.dumps` for the same requests, which a handwritten loop
needs in every turn. Costs that occur once are listed separately: registering the tools, and the
first question, which describes them. There are no bars.
"""

import asyncio
import gc
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import httpx
from loopback import Way, cpu, rounds_asked_for, table, take_turns
from side_by_side.job import QUESTION, SYSTEM
from side_by_side.server import ANSWER, OpenAIFormat, reply

from stage0_gateway import Gateway
from stage1_context import ContextEngine
from stage2_output import OutputController
from stage3_tools import (
    NativeDialect,
    Tool,
    ToolLoopDeps,
    ToolLoopOptions,
    ToolRegistry,
    run_tool_loop,
    tool,
)

_TURNS = 10
_TOOLS = (1, 10, 100, 1000)
_REGISTERED = 100  # at least, for each figure of registering
_DIALECTS = {
    "calls": ("native calls", NativeDialect),
    "decisions": ("prompt dialect", lambda: None),
}


class Model(httpx.AsyncBaseTransport):
    """Replies of a server without a network; they are prepared, so that no long request is parsed.

    Args:
        way: The dialect of the calls.

    Attributes:
        bodies: The first requests.
    """

    def __init__(self, way: str) -> None:
        replies = [reply(way, _TURNS - 1, b'"tool_call_id"' * done) for done in range(_TURNS)]
        self._replies = cycle([OpenAIFormat().whole(*each, 100) for each in replies])
        self.bodies: list[bytes] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer."""
        if len(self.bodies) < _TURNS:
            self.bodies.append(request.content)
        return httpx.Response(200, content=next(self._replies))


def functions(number: int) -> list[Callable[..., Any]]:
    """Return functions that add, each with its own description; the model calls the first one."""
    return [_adding(f"add_{place}" if place else "add") for place in range(number)]


def _adding(name: str) -> Callable[..., Any]:
    async def add(a: int, b: int, unit: str = "") -> str:
        return str(a + b)

    add.__name__ = name
    add.__doc__ = f"""Add two integers as {name} does, and say what they are together.

    Args:
        a: The first number.
        b: The second number.
        unit: What {name} counts; empty if it is just numbers.
    """
    return add


@dataclass(frozen=True, slots=True)
class Once:
    """One-time costs in CPU seconds.

    Attributes:
        function: Registering a function with `@tool`, which reads its signature and docstring.
        tool: Registering a `Tool` with a given schema.
    """

    function: float
    tool: float


def seconds(work: Callable[[], object], times: int) -> float:
    """Return the mean CPU seconds of one repetition."""
    gc.collect()
    begun = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - begun) / times


def registering(number: int) -> Once:
    """Return the cost of registering one of this number of tools."""
    given = functions(number)
    shapes = [
        (each.name, each.description, each.parameters, each.execute) for each in map(tool, given)
    ]
    each_way: list[Callable[[], object]] = [
        lambda: ToolRegistry(*given),
        lambda: ToolRegistry(*[Tool(*each) for each in shapes]),
    ]
    times = max(1, _REGISTERED // number)
    return Once(*(seconds(way, times) / number for way in each_way))


def question(gateway: Gateway, tools: ToolRegistry, way: str) -> Way:
    """Return a question with all its turns in its own session."""
    engine = ContextEngine()
    deps = ToolLoopDeps(gateway, engine, OutputController(), tools)
    options = ToolLoopOptions(dialect=_DIALECTS[way][1]())

    async def ask() -> None:
        session = await engine.create_session(system_prompt=SYSTEM)
        result = await run_tool_loop(deps, session, QUESTION, options)
        assert (result.reply, result.stats.turns) == (ANSWER, _TURNS)
        await engine.delete_session(session)

    return ask


def dumping(bodies: Sequence[bytes]) -> Way:
    """Return the encoding of the same requests as JSON."""
    plain = [json.loads(each) for each in bodies]

    async def dump() -> None:
        for each in plain:
            json.dumps(each).encode()

    return dump


@dataclass(frozen=True, slots=True)
class Turn:
    """Costs of a turn in CPU seconds.

    Attributes:
        usual: A turn of a question.
        dumps: `json.dumps` of the same requests.
        first: All turns of the first question.
        size: The mean size of a request in bytes.
    """

    usual: float
    dumps: float
    first: float
    size: float


async def turn(way: str, tools: ToolRegistry, rounds: int) -> Turn:
    """Measure a turn with these tools."""
    model = Model(way)
    async with Gateway(
        "openai:m", api_key="k", base_url="http://model/v1", transport=model
    ) as gateway:
        ask = question(gateway, tools, way)
        gc.collect()
        begun = time.process_time()
        await ask()
        first, bodies = time.process_time() - begun, [*model.bodies]
        costs = await take_turns({"ask": ask, "dump": dumping(bodies)}, rounds)
    usual, dumps = (cpu(costs[name]) / _TURNS for name in ("ask", "dump"))
    return Turn(usual, dumps, first, sum(map(len, bodies)) / _TURNS)


def main(rounds: int) -> None:
    """Measure and print."""
    for way in _DIALECTS:  # warm-up: loading and compiling are not counted
        asyncio.run(turn(way, ToolRegistry(*functions(1)), 1))
    costs = [(f"{number:,}", registering(number)) for number in _TOOLS]
    registries = {number: ToolRegistry(*functions(number)) for number in _TOOLS}
    gc.freeze()  # otherwise each round begins with a long traversal of all tools
    for way, (name, _) in _DIALECTS.items():
        rows = []
        for number, tools in registries.items():
            found = asyncio.run(turn(way, tools, rounds))
            more = found.first - found.usual * _TURNS
            figures = (f"{each * 1e6:,.0f}" for each in (found.usual, found.dumps, more))
            rows.append((f"{number:,}", *figures, f"{found.size / 1e3:,.1f}"))
        heading = "tools", "us CPU a turn", "us json.dumps", "us once, at first", "kB of a request"
        table(f"One turn of {_TURNS}, {name}, medians of {rounds} rounds", heading, *rows)
    lines = [
        (name, f"{once.function * 1e6:,.0f}", f"{once.tool * 1e6:,.0f}") for name, once in costs
    ]
    columns = "tools", "us CPU for a function", "us CPU for a Tool, its schema given"
    table("To register one among so many", columns, *lines)


if __name__ == "__main__":
    main(rounds_asked_for(25))
