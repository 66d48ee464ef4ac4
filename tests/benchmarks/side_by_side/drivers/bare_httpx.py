"""A minimal handwritten loop: one `httpx.AsyncClient`, a list of dicts, and no checks.

All ratios refer to this driver.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
from job import KEY, QUESTION, SYSTEM, Ask, Work, described, run_all

TITLE = "bare httpx"
PACKAGES = ("httpx", "httpcore", "anyio", "sniffio")
IMPORT = "import httpx"
SPEAKS = ("calls", "decisions", "messages")
_LIMITS = httpx.Limits(max_connections=1000, max_keepalive_connections=1000)
_PROMPT = """{system}

Answer with one JSON object and nothing else. To call a tool: {{"tool": "<name>", "arguments": {{...}}}}
To answer the user: {{"tool": null, "reply": "<your answer>"}}
Results come back in a message that begins with [Tool result for <name>]. The tools:
{tools}"""


def client() -> httpx.AsyncClient:
    """Return the shared client; it is bound to loopback, so that no proxy of the environment is
    used."""
    headers = {
        "Authorization": f"Bearer {KEY}",
        "x-api-key": KEY,
        "anthropic-version": "2023-06-01",
    }
    return httpx.AsyncClient(timeout=120, limits=_LIMITS, headers=headers, trust_env=False)


@asynccontextmanager
async def asking(work: Work) -> AsyncIterator[Ask]:
    """Yield the loop of a dialect."""
    loop = {"calls": calls, "decisions": decisions, "messages": anthropic_calls}[work.dialect]
    async with client() as http:
        yield lambda: loop(http, work)


async def calls(http: httpx.AsyncClient, work: Work) -> str:
    """Run OpenAI's tool calls."""
    url = f"{work.base}/chat/completions"
    tools = [{"type": "function", "function": each} for each in described(work.functions)]
    messages: list[Any] = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": QUESTION},
    ]
    while True:
        answer = await http.post(
            url, json={"model": work.model, "messages": messages, "tools": tools}
        )
        answer.raise_for_status()
        message = answer.json()["choices"][0]["message"]
        messages.append(message)
        if not message.get("tool_calls"):
            return str(message["content"])
        calls_made = [
            (each["function"]["name"], each["function"]["arguments"])
            for each in message["tool_calls"]
        ]
        results = await run_all(
            work, [(name, json.loads(arguments)) for name, arguments in calls_made]
        )
        for call, result in zip(message["tool_calls"], results, strict=True):
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


async def anthropic_calls(http: httpx.AsyncClient, work: Work) -> str:
    """Run Anthropic's tool calls."""
    url = f"{work.base}/v1/messages"
    tools = [
        {
            "name": each["name"],
            "description": each["description"],
            "input_schema": each["parameters"],
        }
        for each in described(work.functions)
    ]
    head = {"model": work.model, "max_tokens": 4096, "system": SYSTEM, "tools": tools}
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    while True:
        answer = await http.post(url, json=head | {"messages": messages})
        answer.raise_for_status()
        content = answer.json()["content"]
        messages.append({"role": "assistant", "content": content})
        calls_made = [block for block in content if block["type"] == "tool_use"]
        if not calls_made:
            return str(content[0]["text"])
        results = await run_all(work, [(block["name"], block["input"]) for block in calls_made])
        blocks = [
            {"type": "tool_result", "tool_use_id": block["id"], "content": result}
            for block, result in zip(calls_made, results, strict=True)
        ]
        messages.append({"role": "user", "content": blocks})


async def decisions(http: httpx.AsyncClient, work: Work) -> str:
    """Run decisions as JSON in the text."""
    url = f"{work.base}/chat/completions"
    system = _PROMPT.format(
        system=SYSTEM, tools="\n".join(map(json.dumps, described(work.functions)))
    )
    messages = [{"role": "system", "content": system}, {"role": "user", "content": QUESTION}]
    while True:
        answer = await http.post(url, json={"model": work.model, "messages": messages})
        answer.raise_for_status()
        text = answer.json()["choices"][0]["message"]["content"]
        messages.append({"role": "assistant", "content": text})
        decision = json.loads(text)
        if decision["tool"] is None:
            return str(decision["reply"])
        [result] = await run_all(work, [(decision["tool"], decision["arguments"])])
        messages.append(
            {"role": "user", "content": f"[Tool result for {decision['tool']}]\n{result}"}
        )


@asynccontextmanager
async def reading(url: str) -> AsyncIterator[Callable[[], Awaitable[tuple[int, str]]]]:
    """A stream in OpenAI's format, each event with `json.loads`."""
    async with client() as http:

        async def read() -> tuple[int, str]:
            characters, arguments = 0, []
            body = {"model": "gpt-4o", "messages": [], "stream": True}
            async with http.stream("POST", f"{url}/chat/completions", json=body) as response:
                async for line in response.aiter_lines():
                    if not line.startswith("data: ") or line == "data: [DONE]":
                        continue
                    for choice in json.loads(line[6:])["choices"]:
                        delta = choice["delta"]
                        characters += len(delta.get("content") or "")
                        arguments += [
                            each["function"]["arguments"] for each in delta.get("tool_calls") or ()
                        ]
            return characters, "".join(arguments)

        yield read
