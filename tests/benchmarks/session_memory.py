"""Memory of a session after a question with one tool call, besides the text of its messages.

    python tests/benchmarks/session_memory.py

Traced through the whole gateway, but without a network: in the prompt dialect and in native tool
calls. Ends with 1 if the bar is missed.
"""

import asyncio
import gc
import sys
import tracemalloc

import httpx
from loopback import at_most, table
from side_by_side.job import QUESTION, SYSTEM, add
from side_by_side.server import ANSWER, OpenAIFormat, reply

from stage0_gateway import Gateway, Message
from stage1_context import ContextEngine
from stage2_output import OutputController
from stage3_tools import (
    NativeDialect,
    ToolLoopDeps,
    ToolLoopOptions,
    ToolRegistry,
    run_tool_loop,
    tool,
)

_BAR = 50.0
_SESSIONS = (200, 2000)
_DIALECTS = {"decisions": ("prompt dialect", None), "calls": ("native calls", NativeDialect())}


class Model(httpx.AsyncBaseTransport):
    """Replies of a server without a network.

    Args:
        way: The dialect of the calls.
    """

    def __init__(self, way: str) -> None:
        self._way = way

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer."""
        answer = reply(self._way, 1, request.content)
        return httpx.Response(200, content=OpenAIFormat().whole(*answer, 100))


async def bytes_per_session(way: str, sessions: int) -> tuple[float, float]:
    """Return the bytes that each session keeps, and the bytes of text among them."""
    registry = ToolRegistry()
    registry.register(tool(add))
    options = ToolLoopOptions(dialect=_DIALECTS[way][1])
    async with Gateway(
        "openai:m", api_key="k", base_url="http://model/v1", transport=Model(way)
    ) as gateway:
        engine = ContextEngine()
        deps = ToolLoopDeps(gateway, engine, OutputController(), registry)
        first = await engine.create_session(system_prompt=SYSTEM)
        assert (await run_tool_loop(deps, first, QUESTION, options)).reply == ANSWER
        gc.collect()  # modules and shared caches are not counted
        tracemalloc.start()
        ids = [await engine.create_session(system_prompt=SYSTEM) for _ in range(sessions)]
        for each in ids:
            await run_tool_loop(deps, each, QUESTION, options)
        gc.collect()
        grown, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        text = sum([sum(map(size, await engine.history(each))) for each in ids])
    return grown / sessions, text / sessions


def size(message: Message) -> int:
    """Return the bytes of a message's text and of its calls' arguments."""
    texts = message.text, message.raw_text or "", *(call.arguments for call in message.tool_calls)
    return sum(len(each.encode()) for each in texts)


def main() -> int:
    """Measure and print; return 1 if the bar is missed."""
    rows, held = [], True
    for way, (name, _) in _DIALECTS.items():
        for sessions in _SESSIONS:
            grown, text = asyncio.run(bytes_per_session(way, sessions))
            besides = (grown - text) / 1e3
            held = held and besides <= _BAR
            rows.append(
                (f"{name}, {sessions:,} sessions", f"{text / 1e3:.2f}", at_most(_BAR, besides))
            )
    table(
        "What a session keeps after a question with a tool", ("", "kB of text", "kB besides"), *rows
    )
    return int(not held)


if __name__ == "__main__":
    sys.exit(main())
