"""Stage 3: the loop, step by step: look at each reply before its tools run, and step in.

    python examples/stage3_runner.py

Key points:
  1. `async for` stops at each reply of the model; no tool of it has run yet.
  2. Tools run once, whoever asks for it first; what is pushed comes behind the reply and its
  results. 3. At the limit of requests nothing is run whose result could not be sent; the history is
  whole.
"""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the packages, before examples of the same name

from stage0_gateway import Gateway, Message, ScriptedModel, ToolCall
from stage1_context import ContextEngine
from stage2_output import OutputController
from stage3_tools import NativeDialect, RunnerParams, ToolLoopDeps, ToolRegistry, ToolRunner, tool


@tool(effect="read")
async def get_weather(city: str) -> str:
    """Tell the weather in a city (invented data)."""
    print("  The tool runs for", city)
    return f"22 degrees in {city}"


def calls(*cities: str) -> Message:
    """A reply that asks for the weather in some cities."""
    asked = [ToolCall(f"in_{city}", "get_weather", f'{{"city": "{city}"}}') for city in cities]
    return Message.assistant("I look.", asked)


async def main() -> None:
    """Step in after the first reply; then stop at a limit."""
    params = RunnerParams(messages=[Message.user("How warm is it?")], dialect=NativeDialect())
    model = ScriptedModel(
        [calls("Rome", "Oslo"), "22 degrees, in both.", calls("Rome"), calls("Oslo")]
    )
    async with Gateway("openai:any", api_key="none", transport=model) as gateway:
        deps = ToolLoopDeps(
            gateway.chat, ContextEngine(), OutputController(), ToolRegistry(get_weather)
        )
        runner = ToolRunner(deps, params)
        async for reply in runner:
            print(f"Reply {runner.iteration_count}:", reply.content, *reply.tool_calls)
            if reply.tool_calls:
                await runner.generate_tool_response()  # now; else they run when the loop goes on
                runner.push_messages(Message.user("In one line, please."))
        said = runner.params.conversation  # its messages, each a `Message`
        print(*(message.role for message in said), sep=" > ")

        print("Another runner, and at most two requests:")
        runner = ToolRunner(
            deps, params, max_iterations=2, on_tool_result=lambda told: print(told.output)
        )
        print("The last reply:", *(await runner).tool_calls)
        print(runner.result and runner.result.status_reason)


if __name__ == "__main__":
    asyncio.run(main())
