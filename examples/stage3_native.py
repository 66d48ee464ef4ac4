"""Stage 3: compare decisions in the prompt with function calling of three providers.

    .venv/bin/python examples/stage3_native.py

Key points:
  1. The dialect is one option. The tools, the question and the loop do not change.
  2. Requests differ between dialects and providers. The stored history is the same.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import httpx

sys.path.insert(0, str(Path(__file__).parents[1]))  # import the packages of this checkout

from stage0_gateway import Gateway, Message, ScriptedModel, ToolCall
from stage3_tools import (
    Dialect,
    NativeDialect,
    PromptDialect,
    ToolLoopDeps,
    run_tool_loop,
    tool,
)


@tool(effect="read")
def get_weather(city: str) -> str:
    """Get the weather in a city (invented data)."""
    return f"22 degrees in {city}"


class PrintingModel(ScriptedModel):
    """A scripted model that prints the tools and the tool result of its second request."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Print a part of the request body, then return the next reply of the script."""
        body = json.loads(await request.aread())
        if self.requests:  # the first request contains the question only
            newest = (body.get("messages") or body["contents"])[-1]
            print("  tools:  ", json.dumps(body.get("tools"))[:58])
            print("  result: ", json.dumps(newest))
        return await super().handle_async_request(request)


DECISIONS = [
    '{"tool": "get_weather", "arguments": {"city": "Rome"}}',
    '{"tool": null, "reply": "It is warm."}',
]
TOOL_CALLS: Sequence[str | Message] = [
    Message.assistant("", [ToolCall("call_1", "get_weather", '{"city": "Rome"}')]),
    "It is warm.",
]


async def answer(provider: str, dialect: Dialect, script: Sequence[str | Message]) -> None:
    """Ask the question in one format, and print the stored history."""
    model = PrintingModel(script)
    async with Gateway(f"{provider}:any", api_key="none", transport=model) as gateway:
        deps = ToolLoopDeps(gateway, tool_registry=[get_weather])
        session = await deps.context_engine.create_session()
        await run_tool_loop(deps, session, "How is Rome?", dialect=dialect)
        history = await deps.context_engine.history(session)
    stored = [message.text or message.tool_calls[0].name for message in history]
    print("  history:", " | ".join(stored))


async def main() -> None:
    """Ask the same question in the prompt dialect and in three native formats."""
    print("Prompt dialect, format of openai")
    await answer("openai", PromptDialect(), DECISIONS)
    for provider in ("openai", "anthropic", "gemini"):
        print("Native dialect, format of", provider)
        await answer(provider, NativeDialect(), TOOL_CALLS)


if __name__ == "__main__":
    asyncio.run(main())
