"""The official `openai` SDK with a handwritten loop, as in its guide to function calling."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from job import KEY, QUESTION, SYSTEM, Ask, Work, described, run_all
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

TITLE = "openai SDK"
PACKAGES = ("openai", "httpx2", "httpcore2", "pydantic", "jiter", "anyio", "sniffio")
IMPORT = "import openai"
SPEAKS = ("calls",)
_LIMITS = httpx2.Limits(max_connections=1000, max_keepalive_connections=1000)
_SAY: Any = [{"role": "user", "content": QUESTION}]
# The helper parses the arguments of strict tools only.
_STORE: Any = {
    "type": "function",
    "function": {
        "name": "store",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"items": {"type": "array"}},
            "required": ["items"],
        },
    },
}


def client(url: str) -> AsyncOpenAI:
    """Return the shared client."""
    return AsyncOpenAI(
        base_url=url, api_key=KEY, http_client=DefaultAsyncHttpxClient(limits=_LIMITS)
    )


@asynccontextmanager
async def asking(work: Work) -> AsyncIterator[Ask]:
    """Run OpenAI's tool calls."""
    tools: Any = [{"type": "function", "function": each} for each in described(work.functions)]
    async with client(work.base) as openai:

        async def ask() -> str:
            messages: list[Any] = [
                {"role": "system", "content": SYSTEM},
                {"role": "user", "content": QUESTION},
            ]
            while True:
                answer = await openai.chat.completions.create(
                    model=work.model, messages=messages, tools=tools
                )
                message = answer.choices[0].message
                messages.append(message)
                if not message.tool_calls:
                    return str(message.content)
                functions = [each.function for each in message.tool_calls]
                results = await run_all(
                    work, [(each.name, json.loads(each.arguments)) for each in functions]
                )
                for call, result in zip(message.tool_calls, results, strict=True):
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": result})

        yield ask


@asynccontextmanager
async def reading(url: str) -> AsyncIterator[Callable[[], Awaitable[tuple[int, str]]]]:
    """Read its plain stream: a typed object for each event."""
    async with client(url) as openai:

        async def read() -> tuple[int, str]:
            characters, arguments = 0, []
            stream = await openai.chat.completions.create(
                model="gpt-4o", messages=_SAY, stream=True
            )
            async for chunk in stream:
                for choice in chunk.choices:
                    characters += len(choice.delta.content or "")
                    arguments += [each.function.arguments for each in choice.delta.tool_calls or ()]
            return characters, "".join(arguments)

        yield read


@asynccontextmanager
async def snapshots(url: str) -> AsyncIterator[Callable[[], Awaitable[tuple[int, object]]]]:
    """Read its helper `.stream()`, whose events have the parsed arguments so far."""
    async with client(url) as openai:

        async def read() -> tuple[int, object]:
            seen, value = 0, None
            async with openai.chat.completions.stream(
                model="gpt-4o", messages=_SAY, tools=[_STORE]
            ) as stream:
                async for event in stream:
                    if event.type == "tool_calls.function.arguments.delta":
                        value = event.parsed_arguments
                        seen += len(value or ())
            return seen, value

        yield read
