"""Stage 3: run the agent loop step by step, and inspect each reply before its tools run.

    .venv/bin/python examples/stage3_runner.py

Key points:
  1. `async for` yields each reply of the model before its tools run.
  2. Each tool call runs once. A pushed message follows the results of the current reply.
  3. At the limit of requests, a call whose result cannot be sent is not run. The history is valid.
"""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # import the packages of this checkout

from stage0_gateway import Gateway, Message, ScriptedModel, ToolCall
from stage3_tools import NativeDialect, RunnerParams, ToolLoopDeps, ToolResult, ToolRunner, tool


@tool(effect="read")
async def get_weather(city: str) -> str:
    """Get the weather in a city (invented data)."""
    print("  tool runs for", city)
    return f"22 degrees in {city}"


def calls(*cities: str) -> Message:
    """A scripted reply with one call per city."""
    tool_calls = [ToolCall(f"in_{city}", "get_weather", f'{{"city": "{city}"}}') for city in cities]
    return Message.assistant("I look.", tool_calls)


async def push_a_message(deps: ToolLoopDeps, params: RunnerParams) -> None:
    """Run the tools of the first reply, then add a message."""
    runner = ToolRunner(deps, params)
    async for reply in runner:
        print(f"Reply {runner.iteration_count}:", reply.content, *reply.tool_calls)
        if reply.tool_calls:
            await runner.generate_tool_response()  # optional: the runner does it at the next step
            runner.push_messages(Message.user("In one line, please."))
    conversation = runner.params.conversation
    print(*(message.role for message in conversation), sep=" > ")


async def stop_at_a_limit(deps: ToolLoopDeps, params: RunnerParams) -> None:
    """Stop after two requests; the calls of the second reply are not run."""

    def print_result(result: ToolResult) -> None:
        print("  result:", result.output)

    runner = ToolRunner(deps, params, max_iterations=2, on_tool_result=print_result)
    last_reply = await runner
    print("Last reply:", *last_reply.tool_calls)
    print(runner.result and runner.result.status_reason)


async def main() -> None:
    """Run both parts with a scripted model."""
    model = ScriptedModel(
        [calls("Rome", "Oslo"), "22 degrees, in both.", calls("Rome"), calls("Oslo")]
    )
    params = RunnerParams(messages=[Message.user("How warm is it?")], dialect=NativeDialect())
    async with Gateway("openai:any", api_key="none", transport=model) as gateway:
        deps = ToolLoopDeps(gateway, tool_registry=[get_weather])
        await push_a_message(deps, params)
        print("Another runner, with at most two requests:")
        await stop_at_a_limit(deps, params)


if __name__ == "__main__":
    asyncio.run(main())
