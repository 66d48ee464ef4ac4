"""What a turn of `run_tool_loop` costs beside a loop written by hand, whether it grows, and what a session keeps.

    python tests/benchmarks/loop_turn.py [rounds]

A question is answered after 10 or 50 rounds with one call each, over loopback, by a server in a process of its own; in
the prompt dialect and in the provider's own tool calls. The loop by hand is what one writes in an afternoon: one
`httpx.AsyncClient`, a list of dicts, `json.loads`, and nothing that is checked. Opening a session, and removing it
afterwards, is a part of ours. Judged by CPU time, of which the server and others on the machine take none.

How a turn grows is told by when the tool was called: the 46th to the 50th turn against the 2nd to the 6th.

What a session keeps is traced after a question with one round, through the whole gateway but without a network; the
text of its messages is not counted. Ends with 1 where a bar is missed.
"""

import asyncio
import gc
import json
import statistics
import sys
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from itertools import pairwise, product
from typing import Any

import httpx
from loopback import Cost, Way, at_most, connections, cpu, ratio, rounds_asked_for, table, take_turns, wall
from tool_server import ANSWER, reply, tool_server

from stage0_gateway import Gateway, Message
from stage1_context import ContextEngine
from stage2_output import OutputController
from stage3_tools import ToolLoopDeps, ToolLoopOptions, ToolRegistry, run_tool_loop, tool
from stage3_tools.native import NativeDialect

_TURN_BAR, _GROWTH_BAR, _SESSION_BAR = 1.2, 1.08, 50.0
_ROUNDS = {10: 5, 50: 1}  # of a question, and how often it is asked to be measured once
_EARLY, _LATE = slice(0, 5), slice(44, 49)  # the 2nd turn, which ends with the second call, is the first here
_SESSIONS = (200, 2000)
_KEY = "sk-0123456789abcdef0123456789abcdef"
_DIALECTS = {"decisions": "prompt dialect", "calls": "native calls"}
_BARE, _OURS = "bare httpx", "run_tool_loop"
_SYSTEM = "You are a calculator. Use the tool for each sum, and then say what came out."
_QUESTION = "Please add the numbers, one after the other."
_PARAMETERS = {
    "type": "object",
    "properties": {
        "a": {"type": "integer", "description": "The first number."},
        "b": {"type": "integer", "description": "The second number."},
    },
    "required": ["a", "b"],
    "additionalProperties": False,
}
_FUNCTION = {"name": "add", "description": "Add two integers.", "parameters": _PARAMETERS}
_TOOLS = [{"type": "function", "function": _FUNCTION}]
_PROMPT = f"""{_SYSTEM}

Answer with one JSON object and nothing else. To call a tool: {{"tool": "<name>", "arguments": {{...}}}}
To answer the user: {{"tool": null, "reply": "<your answer>"}}
Results come back in a message that begins with [Tool result for <name>]. The tools:
{json.dumps(_FUNCTION)}"""

_called: list[float] = []
"""The CPU time at each call of the tool."""


async def add(a: int, b: int) -> str:
    """Add two integers.

    Args:
        a: The first number.
        b: The second number.
    """
    _called.append(time.process_time())
    return str(a + b)


# ---- by hand ----------------------------------------------------------------------------------------------

_FUNCTIONS: dict[str, Callable[..., Awaitable[str]]] = {"add": add}
Ask = Callable[[], Awaitable[str | None]]
"""Asks the question and returns the answer."""


async def bare_decisions(client: httpx.AsyncClient, url: str) -> str:
    """The prompt dialect by hand."""
    messages = [{"role": "system", "content": _PROMPT}, {"role": "user", "content": _QUESTION}]
    while True:
        answer = await client.post(url, json={"model": "m", "messages": messages})
        answer.raise_for_status()
        text = answer.json()["choices"][0]["message"]["content"]
        messages.append({"role": "assistant", "content": text})
        decision = json.loads(text)
        if decision["tool"] is None:
            return str(decision["reply"])
        result = await _FUNCTIONS[decision["tool"]](**decision["arguments"])
        messages.append({"role": "user", "content": f"[Tool result for {decision['tool']}]\n{result}"})


async def bare_calls(client: httpx.AsyncClient, url: str) -> str:
    """The provider's tool calls by hand."""
    messages: list[Any] = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": _QUESTION}]
    while True:
        answer = await client.post(url, json={"model": "m", "messages": messages, "tools": _TOOLS})
        answer.raise_for_status()
        message = answer.json()["choices"][0]["message"]
        messages.append(message)
        if not message.get("tool_calls"):
            return str(message["content"])
        for call in message["tool_calls"]:
            function = call["function"]
            result = await _FUNCTIONS[function["name"]](**json.loads(function["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


_BY_HAND = {"decisions": bare_decisions, "calls": bare_calls}

# ---- ours -------------------------------------------------------------------------------------------------


def options(dialect: str, rounds: int) -> ToolLoopOptions:
    """How a run is to go."""
    native = NativeDialect() if dialect == "calls" else None
    return ToolLoopOptions(max_tool_rounds=rounds + 1, dialect=native)


def pieces(gateway: Gateway) -> ToolLoopDeps:
    """A loop's, around this gateway."""
    registry = ToolRegistry()
    registry.register(tool(add))
    return ToolLoopDeps(gateway.chat, ContextEngine(), OutputController(), registry)


def ours(deps: ToolLoopDeps, how: ToolLoopOptions) -> Ask:
    """The question in a session of its own."""
    engine = deps.context_engine

    async def ask() -> str | None:
        session_id = await engine.create_session(system_prompt=_SYSTEM)
        result = await run_tool_loop(deps, session_id, _QUESTION, how)
        await engine.delete_session(session_id)
        return result.reply

    return ask


# ---- time -------------------------------------------------------------------------------------------------


class Measured:
    """A way to have a question answered, and what its turns cost.

    Args:
        ask: Has it answered.
        rounds: How many rounds that takes.
    """

    def __init__(self, ask: Ask, rounds: int) -> None:
        self._ask, self._rounds = ask, rounds
        self._each: list[list[float]] = []

    async def __call__(self) -> None:
        """Ask as often as it takes to be measured."""
        for _ in range(_ROUNDS[self._rounds]):
            _called.clear()
            assert await self._ask() == ANSWER
            assert len(_called) == self._rounds
            self._each.append([after - before for before, after in pairwise(_called)])

    def cost(self, turns: slice) -> float:
        """Seconds of CPU of one of these turns."""
        return statistics.median(statistics.median(each[turns]) for each in self._each)

    @property
    def growth(self) -> float:
        """How many times as much the last turns took as the first, question by question."""
        return statistics.median(
            statistics.median(each[_LATE]) / statistics.median(each[_EARLY]) for each in self._each
        )


async def ways_to_ask(server: str, dialect: str, rounds: int, stack: AsyncExitStack) -> dict[str, Measured]:
    """By hand, and by the loop over each connection of the gateway."""
    base = f"{server}/{dialect}/{rounds}/v1"
    headers = {"Authorization": f"Bearer {_KEY}"}
    client = await stack.enter_async_context(httpx.AsyncClient(timeout=120, headers=headers))
    ways = {_BARE: Measured(lambda: _BY_HAND[dialect](client, f"{base}/chat/completions"), rounds)}
    for added, transport in connections().items():
        gateway = Gateway("openai:m", api_key=_KEY, base_url=base, transport=transport)
        deps = pieces(await stack.enter_async_context(gateway))
        ways[_OURS + added] = Measured(ours(deps, options(dialect, rounds)), rounds)
    return ways


async def times(repeated: int) -> bool:
    """Measure and print what turns cost; whether the bars hold."""
    lines, grown, held = [], [], True
    with tool_server() as server:
        for dialect, rounds in product(_DIALECTS, _ROUNDS):
            async with AsyncExitStack() as stack:
                ways = await ways_to_ask(server, dialect, rounds, stack)
                costs = await take_turns(dict[str, Way](ways), repeated)
            for name, way in ways.items():
                bare, each = costs[_BARE], costs[name]
                lines.append((f"{_DIALECTS[dialect]}, {rounds} rounds: {name}", *turn(each, bare, rounds)))
                if rounds == max(_ROUNDS):
                    grown.append((f"{_DIALECTS[dialect]}: {name}", *growing(way, judged=name != _BARE)))
                if name != _BARE:
                    held = held and over_bare(each, bare) <= _TURN_BAR
                    held = held and (rounds < max(_ROUNDS) or way.growth <= _GROWTH_BAR)
    heading = "", "us CPU", "x bare", "us on the clock", "x bare"
    table(f"A turn of the loop, medians of {repeated} rounds", heading, *lines)
    titles = "", "turns 2 to 6, us CPU", "turns 46 to 50", "times as much"
    table("How turns grow, medians of the same questions", titles, *grown)
    return held


def growing(way: Measured, *, judged: bool) -> tuple[str, str, str]:
    """What the first and the last turns cost, in microseconds, and how many times as much."""
    early, late = (f"{way.cost(turns) * 1e6:.0f}" for turns in (_EARLY, _LATE))
    return early, late, at_most(_GROWTH_BAR, way.growth) if judged else f"{way.growth:.2f}"


def over_bare(costs: list[Cost], base: list[Cost]) -> float:
    """How many times the CPU of the loop by hand."""
    return ratio(costs, base, lambda cost: cost.cpu)


def turn(costs: list[Cost], base: list[Cost], rounds: int) -> tuple[str, str, str, str]:
    """Of one turn: CPU and clock, in microseconds and beside the loop by hand."""
    count = _ROUNDS[rounds] * (rounds + 1)
    used, took = (f"{each / count * 1e6:.0f}" for each in (cpu(costs), wall(costs)))
    if costs is base:
        return used, "1.00", took, "1.00"
    clock = ratio(costs, base, lambda cost: cost.wall)
    return used, at_most(_TURN_BAR, over_bare(costs, base)), took, f"{clock:.2f}"


# ---- memory -----------------------------------------------------------------------------------------------


class Model(httpx.AsyncBaseTransport):
    """The server's replies without a network."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer."""
        return httpx.Response(200, content=reply(request.url.path, request.content))


async def kept(dialect: str, sessions: int) -> tuple[float, float]:
    """How many bytes each of so many sessions keeps, and how many of them are text."""
    gateway = Gateway("openai:m", api_key=_KEY, base_url=f"http://model/{dialect}/1/v1", transport=Model())
    async with gateway:
        deps, how = pieces(gateway), options(dialect, 1)
        assert await ours(deps, how)() == ANSWER  # what is loaded and remembered for all does not count
        gc.collect()
        tracemalloc.start()
        ids = [await deps.context_engine.create_session(system_prompt=_SYSTEM) for _ in range(sessions)]
        for each in ids:
            await run_tool_loop(deps, each, _QUESTION, how)
        gc.collect()
        grown, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        text = sum([sum(map(size, await deps.context_engine.history(each))) for each in ids])
    return grown / sessions, text / sessions


def size(message: Message) -> int:
    """The bytes of a message's text, and of its calls' arguments."""
    texts = message.text, message.raw_text or "", *(call.arguments for call in message.tool_calls)
    return sum(len(each.encode()) for each in texts)


def memory() -> bool:
    """Measure and print what sessions keep; whether the bar holds."""
    rows, held = [], True
    for dialect, name in _DIALECTS.items():
        for sessions in _SESSIONS:
            grown, text = asyncio.run(kept(dialect, sessions))
            besides = (grown - text) / 1e3
            held = held and besides <= _SESSION_BAR
            judged = f"{text / 1e3:.2f}", at_most(_SESSION_BAR, besides)
            rows.append((f"{name}, {sessions:,} sessions", *judged))
    table("What a session keeps after a question with a tool", ("", "kB of text", "kB besides"), *rows)
    return held


def main(rounds: int) -> int:
    """Measure and print; 1 if a bar was missed."""
    held = [asyncio.run(times(rounds)), memory()]
    return int(not all(held))


if __name__ == "__main__":
    sys.exit(main(rounds_asked_for(25)))
