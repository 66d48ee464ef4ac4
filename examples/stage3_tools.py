"""Stage 3: whatever a model asks for, every call gets one honest result.

    python examples/stage3_tools.py

Key points:
  1. A tool is a function; its signature and docstring are what the model is told.
  2. A wrong name or wrong arguments go back to the model, with the nearest name; nothing is run.
  3. The loop ends always: with a reply, or with a status that says why there is none.
"""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the packages, before examples of the same name

from stage0_gateway import Gateway, ScriptedModel
from stage1_context import ContextEngine
from stage2_output import OutputController
from stage3_tools import ToolLoopDeps, ToolRegistry, run_tool_loop, tool


@tool(effect="read")
def divide(dividend: float, divisor: float) -> float:
    """Divide two numbers.

    Args:
        dividend: The number to be divided.
        divisor: What it is divided by.
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
    """A scripted model makes every mistake once, and is led to the answer."""
    print("The model is told:", divide.description, divide.parameters)
    model = ScriptedModel(REPLIES)
    async with Gateway("openai:any", transport=model) as gateway:
        context = ContextEngine()
        session = await context.create_session()
        deps = ToolLoopDeps(gateway.chat, context, OutputController(), ToolRegistry(divide))
        result = await run_tool_loop(deps, session, "What is 1 divided by 2?")
        for message in list(await context.history(session))[1:]:
            calls = [f"{call.name}({call.arguments})" for call in message.tool_calls]
            print(f"{message.role}:", *calls or [message.text.replace("\n", "\n    ")])
    print(
        "Status:",
        result.status,
        "| tool rounds:",
        result.tool_rounds,
        "| turns:",
        result.stats.turns,
    )


if __name__ == "__main__":
    asyncio.run(main())
