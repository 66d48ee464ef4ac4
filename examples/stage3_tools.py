"""Stage 3: give every tool call exactly one result, whatever the model writes.

    .venv/bin/python examples/stage3_tools.py

Key points:
  1. A tool is a function. Its signature and docstring become the schema that the model receives.
  2. An invalid name or invalid arguments become an error for the model. No function is run.
  3. The loop always ends, with a reply or with a status that explains the missing reply.
"""

import asyncio
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # import the packages of this checkout

from stage0_gateway import Gateway, ScriptedModel
from stage3_tools import ToolLoopDeps, run_tool_loop, tool


@tool(effect="read")
def divide(dividend: float, divisor: float) -> float:
    """Divide two numbers.

    Args:
        dividend: The number above the line.
        divisor: The number below the line.
    """
    return dividend / divisor


REPLIES = [
    '{"tool": "divde", "arguments": {"dividend": 1, "divisor": 2}}',
    '{"tool": "divide", "arguments": {"dividend": "1", "by": 2}}',
    '{"tool": "divide", "arguments": {"dividend": 1, "divisor": 0}}',
    "I think the answer is 0.5.",
    '{"tool": "divide", "arguments": {"dividend": 1, "divisor": 2}}',
    '{"tool": null, "reply": "1 divided by 2 is 0.5."}',
]


async def main() -> None:
    """Run the loop with a scripted model that makes four mistakes."""
    print("Description:", divide.description)
    print("Schema:")
    for name, value in (divide.parameters or {}).items():
        print(f"  {name}: {json.dumps(value)}")
    async with Gateway("openai:any", transport=ScriptedModel(REPLIES)) as gateway:
        deps = ToolLoopDeps(gateway, tool_registry=[divide])
        session = await deps.context_engine.create_session()
        result = await run_tool_loop(deps, session, "What is 1 divided by 2?")
        history = await deps.context_engine.history(session)
    for message in list(history)[1:]:  # after the question
        calls = [f"{call.name}({call.arguments})" for call in message.tool_calls]
        print(f"{message.role}:", *calls or [message.text.replace("\n", "\n    ")])
    print(f"Status: {result.status}", end=" | ")
    print(f"tool rounds: {result.tool_rounds} | turns: {result.stats.turns}")


if __name__ == "__main__":
    asyncio.run(main())
