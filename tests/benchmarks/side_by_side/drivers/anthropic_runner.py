"""The official `anthropic` SDK with its own loop: `client.beta.messages.tool_runner` with tools from
functions."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any

import httpx2
from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient, beta_async_tool
from job import KEY, QUESTION, SYSTEM, Ask, Work

TITLE = "anthropic SDK, tool_runner"
PACKAGES = ("anthropic", "httpx2", "httpcore2", "pydantic", "jiter", "anyio", "sniffio")
IMPORT = "import anthropic"
SPEAKS = ("messages",)
FOLLOWED = ("anthropic",)
_LIMITS = httpx2.Limits(max_connections=1000, max_keepalive_connections=1000)
_SAY: Any = {
    "model": "claude-haiku-4-5",
    "max_tokens": 4096,
    "messages": [{"role": "user", "content": QUESTION}],
}


def client(url: str) -> AsyncAnthropic:
    """Return the shared client; its spans are disabled."""
    return AsyncAnthropic(
        base_url=url,
        api_key=KEY,
        http_client=DefaultAsyncHttpxClient(limits=_LIMITS),
        open_telemetry={"traces": {"enabled": False}},
    )


def coroutine(function: Callable[..., Any]) -> Callable[..., Any]:
    """Run a blocking function in a thread, because the runner accepts only coroutine functions."""
    if inspect.iscoroutinefunction(function):
        return function

    @wraps(function)
    async def threaded(**given: Any) -> Any:
        return await asyncio.to_thread(function, **given)

    return threaded


@asynccontextmanager
async def asking(work: Work) -> AsyncIterator[Ask]:
    """Yield a function that uses a new runner for each question."""
    tools = [beta_async_tool(coroutine(function)) for function in work.functions]
    async with client(work.base) as anthropic:

        async def ask() -> str:
            runner = anthropic.beta.messages.tool_runner(
                model=work.model,
                max_tokens=4096,
                system=SYSTEM,
                tools=tools,
                messages=[{"role": "user", "content": QUESTION}],
                thread=False,  # a thread would keep the conversation on the server
            )
            message = await runner.until_done()
            return "".join(block.text for block in message.content if block.type == "text")

        yield ask


@asynccontextmanager
async def reading(url: str) -> AsyncIterator[Callable[[], Awaitable[tuple[int, str]]]]:
    """Read its plain stream: a typed object for each event."""
    async with client(url) as anthropic:

        async def read() -> tuple[int, str]:
            characters, arguments = 0, []
            async for event in await anthropic.messages.create(**_SAY, stream=True):
                if event.type == "content_block_delta" and event.delta.type == "text_delta":
                    characters += len(event.delta.text)
                elif event.type == "content_block_delta" and event.delta.type == "input_json_delta":
                    arguments.append(event.delta.partial_json)
            return characters, "".join(arguments)

        yield read


@asynccontextmanager
async def snapshots(url: str) -> AsyncIterator[Callable[[], Awaitable[tuple[int, object]]]]:
    """Read its helper `.stream()`, whose events have the parsed arguments so far."""
    async with client(url) as anthropic:

        async def read() -> tuple[int, object]:
            seen, value = 0, None
            async with anthropic.messages.stream(**_SAY) as stream:
                async for event in stream:
                    if event.type == "input_json":
                        value = event.snapshot
                        seen += len(value)
            return seen, value

        yield read
