"""Stage 1: a session stores every message; a request contains a window of them.

    .venv/bin/python examples/stage1_context.py

Key points:
  1. The session stores every message. The window selects the messages of a request.
  2. The system prompt is always sent; the oldest exchanges are omitted first.
  3. A tool call and its result are sent together or not at all.
"""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # import the packages of this checkout

from stage0_gateway import Gateway, Message, ToolCall
from stage1_context import ContextEngine, KeepSystemAndRecent


async def ask(gateway: Gateway, context: ContextEngine, session: str, question: str) -> None:
    """Append a question, send the messages of the window, append the reply."""
    stored = await context.add_message(session, Message.user(question))
    sent = await context.messages_for_request(session)
    reply = await gateway.chat(sent)
    await context.add_message(session, reply.message)
    sentence = reply.content.split(". ")[0]
    print(f"  {question:17}{len(sent)} of {stored} messages sent: {sentence}")


async def main() -> None:
    """Ask for the user's name with a large window and with a small one."""
    async with Gateway.from_env() as gateway:
        for size in (8, 2):
            print(f"A window of {size} messages")
            context = ContextEngine(window=KeepSystemAndRecent(max_messages=size))
            session = await context.create_session(system_prompt="Be brief.")
            for question in ("My name is Ada.", "I live in Oslo.", "What is my name?"):
                await ask(gateway, context, session, question)

    context = ContextEngine(window=KeepSystemAndRecent(max_messages=2))
    session = await context.create_session()
    call = Message.assistant("", [ToolCall("call_1", "get_time", "{}")])
    for message in (Message.user("What time is it?"), call, Message.tool("12:00", "call_1")):
        await context.add_message(session, message)
    sent = await context.messages_for_request(session)
    print("A call and its result in a window of 2:", [message.role for message in sent])


if __name__ == "__main__":
    asyncio.run(main())
