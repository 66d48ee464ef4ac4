"""What one turn of the loop costs with few tools and with many, beside writing the same request as
JSON.

    python tests/benchmarks/turn_by_tools.py [rounds]

Through the whole gateway, but without a network: in the provider's own tool calls and in the prompt
dialect. A turn is one of ten that answer a question in a session of its own: nine call a tool, the
last one replies. Beside it stands what `json.dumps` takes for the bodies of the same requests: a
loop written by hand does that in every turn. What comes once is counted apart: to register the
tools, and a first question, for which they are described. Judges nothing.
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
_REGISTERED = 100  # at least, in each figure of registering
_DIALECTS = {
    "calls": ("native calls", NativeDialect),
    "decisions": ("prompt dialect", lambda: None),
}


class Model(httpx.AsyncBaseTransport):
    """The server's replies without a network; they are ready, so that nobody looks through a long
    request for them.

    Args:
        way: How calls are written.

    Attributes:
        bodies: The first requests, as they were sent.
    """

    def __init__(self, way: str) -> None:
        said = [reply(way, _TURNS - 1, b'"tool_call_id"' * done) for done in range(_TURNS)]
        self._replies = cycle([OpenAIFormat().whole(*each, 100) for each in said])
        self.bodies: list[bytes] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer."""
        if len(self.bodies) < _TURNS:
            self.bodies.append(request.content)
        return httpx.Response(200, content=next(self._replies))


def functions(number: int) -> list[Callable[..., Any]]:
    """So many that add, each with words of its own; the first is the one that is called."""
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
    """Seconds of CPU that come once.

    Attributes:
        function: To register a function, by `@tool`: its signature and docstring are read.
        tool: To register a `Tool` whose schema is written already.
    """

    function: float
    tool: float


def seconds(work: Callable[[], object], times: int) -> float:
    """Of CPU, for doing it once; the mean."""
    gc.collect()
    begun = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - begun) / times


def registering(number: int) -> Once:
    """What it takes to register a tool among so many."""
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
    """A question in a session of its own, and all its turns."""
    engine = ContextEngine()
    deps = ToolLoopDeps(gateway.chat, engine, OutputController(), tools)
    options = ToolLoopOptions(dialect=_DIALECTS[way][1]())

    async def ask() -> None:
        session = await engine.create_session(system_prompt=SYSTEM)
        result = await run_tool_loop(deps, session, QUESTION, options)
        assert (result.reply, result.stats.turns) == (ANSWER, _TURNS)
        await engine.delete_session(session)

    return ask


def dumping(bodies: Sequence[bytes]) -> Way:
    """The same requests as JSON."""
    plain = [json.loads(each) for each in bodies]

    async def dump() -> None:
        for each in plain:
            json.dumps(each).encode()

    return dump


@dataclass(frozen=True, slots=True)
class Turn:
    """What a turn costs, in seconds of CPU.

    Attributes:
        usual: Of the turns of a question.
        dumps: `json.dumps` of the same requests.
        first: All turns of the first question.
        size: Bytes of a request, the mean.
    """

    usual: float
    dumps: float
    first: float
    size: float


async def turn(way: str, tools: ToolRegistry, rounds: int) -> Turn:
    """A turn with these tools."""
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
    for way in _DIALECTS:  # what is loaded and compiled for all does not count
        asyncio.run(turn(way, ToolRegistry(*functions(1)), 1))
    costs = [(f"{number:,}", registering(number)) for number in _TOOLS]
    registries = {number: ToolRegistry(*functions(number)) for number in _TOOLS}
    gc.freeze()  # to look through so many tools takes longer than all else, and is done before each round
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
