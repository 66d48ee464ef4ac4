"""Stage 3: a chain of tools without a session, kept as one message, and read again later.

    python examples/stage3_chain.py

Key points:
  1. A chain begins with a reply that asks for tools, whoever made it, and ends with one that does not.
  2. A long result is kept as a variable: the model sees how it begins, and can read on.
  3. Kept as one message a chain takes few tokens, and the next question can still read all of it.
"""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the packages, before examples of the same name

from stage0_gateway import Gateway, Message, ScriptedModel, ToolCall
from stage1_context import ApproximateCounter, ContextEngine, message_tokens
from stage2_output import OutputController
from stage3_tools import ToolChainOptions, ToolLoopDeps, ToolRegistry, execute_tool_chain, run_tool_loop, tool


@tool(effect="read")
def read_chapter(number: int) -> str:
    """Read a chapter of a book (invented)."""
    return f"{number}. " + "It rains in Rome. " * 400 + f"On day {number} the sun comes out."


CALLS = [[ToolCall(f"call_{each}", "read_chapter", f'{{"number": {each}}}')] for each in (1, 2)]
READ_ON = '{"tool": "read_variable", "arguments": {"id": "var_2", "start": 7203}}'
REPLY = '{"tool": null, "reply": "With the sun."}'


async def main() -> None:
    """A chain of two calls, kept as one message; then a question that needs what was read."""
    model = ScriptedModel(
        [Message.assistant("Now the second.", CALLS[1]), "It rains in both.", READ_ON, REPLY]
    )
    book, context, asked = ToolRegistry(read_chapter), ContextEngine(), Message.user("How is the book?")
    await context.add_message(await context.create_session("ada"), asked)
    async with Gateway("openai:any", api_key="none", transport=model) as gateway:
        options = ToolChainOptions(
            gateway.chat, [asked], variables=context.variables, session_id="ada", on_llm_response_update=print
        )
        chain = await execute_tool_chain(book, Message.assistant("First the first.", CALLS[0]), options)
        kept = chain.as_message()  # instead of all its messages
        await context.add_message("ada", kept)
        print(f"-- Kept:\n{kept.text}")
        full = {each.id: each.result.as_message() for each in chain.tool_call_history}
        every = [full.get(each.tool_call_id or "", each) for each in chain.messages.tool_chain]
        took = [sum(message_tokens(ApproximateCounter(), one) for one in some) for some in ([kept], every)]
        print(f"-- About {took[0]} tokens, instead of {took[1]} with all results.")
        deps = ToolLoopDeps(gateway.chat, context, OutputController(), book)
        result = await run_tool_loop(deps, "ada", "How does the first chapter end?")
    print("-- Read on demand:", result.history[0].result.output, "\n-- Reply:", result.reply)


if __name__ == "__main__":
    asyncio.run(main())
