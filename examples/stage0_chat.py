"""Stage 0: messages go out, a reply comes back, and what goes wrong has a name.

    python examples/stage0_chat.py

Key points:
  1. Every call carries the whole conversation: the gateway remembers nothing.
  2. A busy server (429) is asked again; the log says so. A refused request is not.
  3. What cannot succeed is an error of one tree, and its text says what to do.
"""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the packages, before examples of the same name

from stage0_gateway import Gateway, GatewayError, GatewayEvent, Message, ScriptedModel


def log(event: GatewayEvent) -> None:
    """The name of each event, and what went wrong where something did."""
    print("  log:", event.name, getattr(event, "error", ""))


async def main() -> None:
    """Three talks: one that remembers, one with a busy server, one that fails."""
    print("1. The conversation is what you send")
    async with Gateway.from_env() as gateway:
        first = Message.user("My name is Ada.")
        question = Message.user("What is my name?")
        reply = await gateway.chat([first, question])
        print("  sent 2 messages:", reply.content)
        reply = await gateway.chat([question])
        print("  sent 1 message: ", reply.content)

    print("2. A busy server is asked again (a scripted model plays it)")
    async with Gateway(
        "openai:any", transport=ScriptedModel([429, "Here I am."]), on_event=log
    ) as gateway:
        print("  reply:", (await gateway.chat([question])).content)

    print("3. What cannot succeed is not repeated")
    async with Gateway("openai:any", transport=ScriptedModel([401]), on_event=log) as gateway:
        try:
            await gateway.chat([question])
        except GatewayError as error:
            print(f"  {type(error).__name__}, retryable={error.retryable}: {error}")


if __name__ == "__main__":
    asyncio.run(main())
