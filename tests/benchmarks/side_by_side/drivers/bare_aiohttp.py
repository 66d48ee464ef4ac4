"""The same loop over aiohttp, whose parser is written in C: the speed limit of Python."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from job import KEY, QUESTION, SYSTEM, Ask, Work, described, run_all

TITLE = "bare aiohttp"
PACKAGES = ("aiohttp",)
IMPORT = "import aiohttp"
SPEAKS = ("calls",)


def client() -> aiohttp.ClientSession:
    """Return the shared client."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=1000), headers={"Authorization": f"Bearer {KEY}"}
    )


@asynccontextmanager
async def asking(work: Work) -> AsyncIterator[Ask]:
    """OpenAI's tool calls."""
    url = f"{work.base}/chat/completions"
    tools = [{"type": "function", "function": each} for each in described(work.functions)]
    async with client() as http:

        async def ask() -> str:
            messages: list[Any] = [
                {"role": "system", "content": SYSTEM},
                {"role": "user", "content": QUESTION},
            ]
            while True:
                body = {"model": work.model, "messages": messages, "tools": tools}
                async with http.post(url, json=body) as answer:
                    answer.raise_for_status()
                    message = json.loads(await answer.read())["choices"][0]["message"]
                messages.append(message)
                if not message.get("tool_calls"):
                    return str(message["content"])
                functions = [each["function"] for each in message["tool_calls"]]
                results = await run_all(
                    work, [(each["name"], json.loads(each["arguments"])) for each in functions]
                )
                for call, result in zip(message["tool_calls"], results, strict=True):
                    messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})

        yield ask


@asynccontextmanager
async def reading(url: str) -> AsyncIterator[Callable[[], Awaitable[tuple[int, str]]]]:
    """A stream in OpenAI's format, each event with `json.loads`."""
    async with client() as http:

        async def read() -> tuple[int, str]:
            characters, arguments = 0, []
            body = {"model": "gpt-4o", "messages": [], "stream": True}
            async with http.post(f"{url}/chat/completions", json=body) as response:
                async for line in response.content:
                    if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                        continue
                    for choice in json.loads(line[6:])["choices"]:
                        delta = choice["delta"]
                        characters += len(delta.get("content") or "")
                        arguments += [
                            each["function"]["arguments"] for each in delta.get("tool_calls") or ()
                        ]
            return characters, "".join(arguments)

        yield read
