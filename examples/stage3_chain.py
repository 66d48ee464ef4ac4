"""Stage 3: a chain of tools without a session, kept as one message, and read again later.

    python examples/stage3_chain.py

Key points:
  1. A chain begins with a reply that asks for tools, whoever made it, and ends with one that does
  not. 2. A long result is kept as a variable: the model sees how it begins, and can read on.
  3. Kept as one message a chain takes little room, and the next question can still read all of it.
"""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the packages, before examples of the same name

from stage0_gateway import Gateway, Message, ScriptedModel, ToolCall
from stage1_context import ContextEngine
from stage2_output import OutputController
from stage3_tools import (
    NativeDialect,
    ToolChainOptions,
    ToolLoopDeps,
    ToolLoopOptions,
    ToolRegistry,
    execute_tool_chain,
    run_tool_loop,
    tool,
)


@tool(effect="read")
def read_chapter(number: int) -> str:
    """Read a chapter of a book (invented)."""
    return f"{number}. " + "It rains in Rome. " * 400 + f"On day {number} the sun comes out."


CALLS = [ToolCall("", "read_chapter", f'{{"number": {number}}}') for number in (1, 2)]
CALLS += [
    ToolCall("", "read_variable", '{"id": "var_2", "start": 7203}')
]  # its first record is the question
ONE, TWO, READ_ON = (Message.assistant("I look.", [call]) for call in CALLS)


async def main() -> None:
    """Store a chain of two calls as one message, then ask a question about its results."""
    model = ScriptedModel([ONE, TWO, "It rains in both.", READ_ON, "With the sun."])
    book, context, asked = (
        ToolRegistry(read_chapter),
        ContextEngine(),
        Message.user("How is the book?"),
    )
    await context.add_message(await context.create_session("ada"), asked)
    async with Gateway("openai:any", api_key="none", transport=model) as gateway:
        first = await gateway.chat([asked], tools=book.specs())  # a request of your own
        options = ToolChainOptions(gateway.chat, [asked], variables=context.transcript("ada"))
        chain = await execute_tool_chain(book, first, options)
        await context.add_message("ada", chain.as_message())  # instead of all its messages
        print(f"{chain.as_message().text}\n-- Chapter 1 is in", chain.tool_call_history[0].variable)
        deps = ToolLoopDeps(gateway.chat, context, OutputController(), book)
        last = await run_tool_loop(
            deps, "ada", "How does 1 end?", ToolLoopOptions(dialect=NativeDialect())
        )
    print("-- Read on demand:", last.history[0].result.output, "\n-- Reply:", last.reply)


if __name__ == "__main__":
    asyncio.run(main())
