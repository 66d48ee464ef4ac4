"""`litellm.acompletion` with a handwritten loop, as in its guide to function calling."""

import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from job import KEY, QUESTION, SYSTEM, Ask, Work, described, run_all

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # prevents a download of prices at import

import litellm

TITLE = "litellm"
PACKAGES = ("litellm", "openai", "aiohttp", "httpx", "pydantic")
IMPORT = "import os; os.environ['LITELLM_LOCAL_MODEL_COST_MAP'] = 'True'; import litellm"
SPEAKS = ("calls",)

litellm.telemetry = False
litellm.suppress_debug_info = True


@asynccontextmanager
async def asking(work: Work) -> AsyncIterator[Ask]:
    """Run OpenAI's tool calls; the library manages its clients itself."""
    tools = [{"type": "function", "function": each} for each in described(work.functions)]
    to: dict[str, Any] = {"model": f"openai/{work.model}", "api_base": work.base, "api_key": KEY}

    async def ask() -> str:
        messages: list[Any] = [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": QUESTION},
        ]
        while True:
            answer = await litellm.acompletion(**to, messages=messages, tools=tools)
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
    """Read its stream: a typed object for each event."""
    to: dict[str, Any] = {"model": "openai/gpt-4o", "api_base": url, "api_key": KEY}

    async def read() -> tuple[int, str]:
        characters, arguments = 0, []
        stream = await litellm.acompletion(
            **to, messages=[{"role": "user", "content": QUESTION}], stream=True
        )
        async for chunk in stream:
            for choice in chunk.choices:
                characters += len(choice.delta.content or "")
                arguments += [
                    each.function.arguments or "" for each in choice.delta.tool_calls or ()
                ]
        return characters, "".join(arguments)

    yield read
