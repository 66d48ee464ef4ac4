"""Stage 3: run a chain of tool calls without a session, and store it as one message.

    .venv/bin/python examples/stage3_chain.py

Key points:
  1. A chain starts with a reply that contains tool calls, and ends with a reply without them.
  2. A long result is stored as a variable. The model sees its beginning and can read the rest.
  3. Stored as one message, the chain is short, and a later question can still read every result.
"""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # import the packages of this checkout

from stage0_gateway import Gateway, Message, ScriptedModel, ToolCall
from stage1_context import ContextEngine
from stage3_tools import (
    NativeDialect,
    ToolChainOptions,
    ToolLoopDeps,
    ToolRegistry,
    execute_tool_chain,
    run_tool_loop,
    tool,
)


@tool(effect="read")
def read_chapter(number: int) -> str:
    """Read a chapter of a book (invented)."""
    return f"{number}. " + "It rains in Rome. " * 400 + f"On day {number} the sun comes out."


def call(name: str, arguments: str) -> Message:
    """A scripted reply with one tool call."""
    return Message.assistant("I look.", [ToolCall("", name, arguments)])


MODEL = ScriptedModel(
    [
        call("read_chapter", '{"number": 1}'),
        call("read_chapter", '{"number": 2}'),
        "It rains in both.",
        call("read_variable", '{"id": "var_2", "start": 7203}'),
        "With the sun.",
    ]
)


async def main() -> None:
    """Store a chain of two calls as one message, then ask a question about its results."""
    book, context = ToolRegistry(read_chapter), ContextEngine()
    session = await context.create_session("ada")
    question = Message.user("How is the book?")
    await context.add_message(session, question)
    async with Gateway("openai:any", api_key="none", transport=MODEL) as gateway:
        first_reply = await gateway.chat([question], tools=book.specs())  # your own request
        options = ToolChainOptions(gateway, [question], variables=context.transcript(session))
        chain = await execute_tool_chain(book, first_reply, options)
        await context.add_message(session, chain.as_message())  # one message for the whole chain
        print("-- The whole chain as one message; its first block explains the log to the model:")
        print(chain.as_message().text)
        print("-- Variable of chapter 1:", chain.tool_call_history[0].variable)

        deps = ToolLoopDeps(gateway, context, tool_registry=book)
        result = await run_tool_loop(
            deps, session, "How does chapter 1 end?", dialect=NativeDialect()
        )
    print("-- Result of read_variable:", result.history[0].result.output)
    print("-- Reply:", result.reply)


if __name__ == "__main__":
    asyncio.run(main())
