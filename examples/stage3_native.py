"""Stage 3: JSON as text, or a provider's own tool calls: two dialects, one loop, one history.

    python examples/stage3_native.py

Key points:
  1. One option says how a model is told of tools; the tools, the question and the loop stay as they
  are. 2. What travels differs between dialects and between providers; what is kept of it is the
  same.
"""

import asyncio
import json
import sys
from pathlib import Path

import httpx

sys.path.insert(0, str(Path(__file__).parents[1]))  # the packages, before examples of the same name

from stage0_gateway import Gateway, Message, ScriptedModel, ToolCall
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


@tool(effect="read")
def get_weather(city: str) -> str:
    """Tell the weather in a city (invented data)."""
    return f"22 degrees in {city}"


class _Watched(ScriptedModel):
    """A scripted model that shows how a result is sent to it, and the field for tools beside it."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(await request.aread())
        if self.requests:  # the first one holds the question
            newest = (body.get("messages") or body["contents"])[-1]
            print(f"  tools:  {json.dumps(body.get('tools'))[:60]}\n  result: {json.dumps(newest)}")
        return await super().handle_async_request(request)


TEXT = [
    '{"tool": "get_weather", "arguments": {"city": "Rome"}}',
    '{"tool": null, "reply": "It is warm."}',
]
CALL = Message.assistant("", [ToolCall("call_1", "get_weather", '{"city": "Rome"}')])


async def main() -> None:
    """The same question, four times: once as text, three times by tool calls."""
    for native, provider in enumerate(("openai", "openai", "anthropic", "gemini")):
        model = _Watched([CALL, "It is warm."]) if native else _Watched(TEXT)
        options = ToolLoopOptions(
            dialect=NativeDialect() if native else None
        )  # None is PromptDialect()
        print("By calls," if native else "As text,", "in the format of", provider)
        async with Gateway(f"{provider}:any", api_key="none", transport=model) as gateway:
            deps = ToolLoopDeps(
                gateway.chat, ContextEngine(), OutputController(), ToolRegistry(get_weather)
            )
            await run_tool_loop(
                deps, await deps.context_engine.create_session("s"), "How is Rome?", options
            )
            kept = await deps.context_engine.history("s")
            print(
                "  kept:  ",
                *(message.text or message.tool_calls[0].name for message in kept),
                sep=" | ",
            )


if __name__ == "__main__":
    asyncio.run(main())
