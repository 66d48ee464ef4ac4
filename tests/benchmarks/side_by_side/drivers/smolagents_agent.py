"""`smolagents`: a `ToolCallingAgent`. It is synchronous, so each conversation runs in a thread.

It calls only plain functions. So it has its own `add`, and always uses the blocking tools.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import httpx2
from job import BLOCKING, KEY, QUESTION, SYSTEM, Ask, Work, called
from openai import DefaultHttpxClient
from smolagents import ChatMessage, LogLevel, MessageRole, OpenAIModel, ToolCallingAgent, tool

TITLE = "smolagents"
PACKAGES = ("smolagents", "openai", "httpx2", "httpcore2", "pydantic")
IMPORT = "import smolagents"
SPEAKS = ("calls",)
FOLLOWED = ("smolagents", "openai")
_LIMITS = httpx2.Limits(max_connections=1000, max_keepalive_connections=1000)
_THREADS = ThreadPoolExecutor(256)


@tool
def add(a: int, b: int) -> str:
    """Add two integers.

    Args:
        a: The first number.
        b: The second number.
    """
    called.append(time.process_time())
    return str(a + b)


def model(url: str, name: str) -> OpenAIModel:
    """Return the shared model client."""
    http = DefaultHttpxClient(limits=_LIMITS)
    return OpenAIModel(name, api_base=url, api_key=KEY, client_kwargs={"http_client": http})


@asynccontextmanager
async def asking(work: Work) -> AsyncIterator[Ask]:
    """Yield a function that uses a new agent for each question, as an agent holds one conversation."""
    shared = model(work.base, work.model)
    tools = [add] if work.tools == "add" else [tool(function) for function in BLOCKING]

    def converse() -> str:
        agent = ToolCallingAgent(
            tools,
            shared,
            instructions=SYSTEM,
            max_steps=work.rounds + 2,
            verbosity_level=LogLevel.OFF,
        )
        return str(agent.run(QUESTION))

    async def ask() -> str:
        return await asyncio.get_running_loop().run_in_executor(_THREADS, converse)

    yield ask


@asynccontextmanager
async def reading(url: str) -> AsyncIterator[Callable[[], Awaitable[tuple[int, str]]]]:
    """Read the model's stream in a thread."""
    shared = model(url, "gpt-4o")

    def read_all() -> tuple[int, str]:
        characters, arguments = 0, []
        say = ChatMessage(role=MessageRole.USER, content=[{"type": "text", "text": QUESTION}])
        for delta in shared.generate_stream([say]):
            characters += len(delta.content or "")
            arguments += [
                call.function.arguments or "" for call in delta.tool_calls or () if call.function
            ]
        return characters, "".join(arguments)

    async def read() -> tuple[int, str]:
        return await asyncio.get_running_loop().run_in_executor(_THREADS, read_all)

    yield read
