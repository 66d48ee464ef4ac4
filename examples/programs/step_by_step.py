"""Run the agent loop step by step, and print each reply before its tools run.

.venv/bin/python examples/programs/step_by_step.py

Without a key, the embedded model answers:
tool_calls  ToolCall(id='call_1', name='get_weather', arguments='{"location": "Paris"}')
tool_calls  ToolCall(id='call_2', name='add', arguments='{"a": 15, "b": 7}')
stop get_weather says for Paris: 22 degrees in Paris. add says for 15, 7: 22.
completed
"""

import asyncio

from stage0_gateway import Gateway, Message
from stage3_tools import NativeDialect, RunnerParams, ToolLoopDeps, ToolRunner, tool


@tool(effect="read")
async def get_weather(location: str) -> str:
    """Get the weather in a location (invented data).

    Args:
        location: The city.
    """
    return f"22 degrees in {location}"


@tool(effect="read")
async def add(a: int, b: int) -> str:
    """Add two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return str(a + b)


async def main() -> None:
    question = Message.user("Get the weather in Paris, and add 15 and 7.")
    params = RunnerParams(messages=[question], dialect=NativeDialect(), max_tokens=1024)
    async with Gateway.from_env() as gateway:
        runner = ToolRunner(ToolLoopDeps(gateway, tool_registry=[get_weather, add]), params)
        async for message in runner:
            print(message.finish_reason, message.content, *message.tool_calls)
        print(runner.result and runner.result.status)


asyncio.run(main())
