"""Stage 1: a conversation grows, a window does not.

    python examples/stage1_context.py

Key points:
  1. A session keeps every message; what is sent is a window on it.
  2. The system prompt always stays; the oldest exchanges fall out first.
  3. A tool result is never parted from its call.
"""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the packages, before examples of the same name

from stage0_gateway import Gateway, Message, ToolCall
from stage1_context import ContextEngine, KeepSystemAndRecent


async def ask(gateway: Gateway, context: ContextEngine, session: str, question: str) -> None:
    """Add a question, send what the window shows, add the reply."""
    kept = await context.add_message(session, Message.user(question))
    shown = await context.messages_for_request(session)
    reply = await gateway.chat(shown)
    await context.add_message(session, reply.message)
    print(f"  {question:17}{len(shown)} of {kept} messages sent: {reply.content.split('. ')[0]}")


async def main() -> None:
    """Ask for something said earlier, with a large window and with a small one."""
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
    shown = await context.messages_for_request(session)
    print("A call and its result in a window of 2:", [message.role for message in shown])


if __name__ == "__main__":
    asyncio.run(main())
