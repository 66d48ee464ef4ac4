"""Answer one question with two functions as tools, in the agent loop.

.venv/bin/python examples/programs/question.py

Without a key, the embedded model answers:
get_weather says for Paris: 22 degrees in Paris. add says for 15, 7: 22. completed 2
"""

import asyncio

from stage3_tools import NativeDialect, ask, tool


@tool(effect="read")
def get_weather(location: str) -> str:
    """Get the weather in a location (invented data)."""
    return f"22 degrees in {location}"


@tool(effect="read")
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


async def main() -> None:
    question = "Get the weather in Paris, and add 15 and 7."
    result = await ask(question, tools=[get_weather, add], dialect=NativeDialect())
    print(result.reply, result.status, result.tool_rounds)


asyncio.run(main())
