"""Stage 0: send messages, receive a reply, and handle typed errors.

    .venv/bin/python examples/stage0_chat.py

Key points:
  1. Every request contains the whole conversation: the gateway stores nothing.
  2. A busy server (HTTP 429) is retried, and the log shows the retry.
  3. A permanent failure raises a `GatewayError`. Its message contains the next step.
"""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # import the packages of this checkout

from stage0_gateway import Gateway, GatewayError, GatewayEvent, Message, ScriptedModel


def log(event: GatewayEvent) -> None:
    """Print the name of an event, and its error if it has one."""
    print("  log:", event.name, getattr(event, "error", ""))


async def main() -> None:
    """Run three conversations: with history, with a busy server, with an invalid key."""
    print("1. A request contains the conversation")
    async with Gateway.from_env() as gateway:
        first = Message.user("My name is Ada.")
        question = Message.user("What is my name?")
        reply = await gateway.chat([first, question])
        print("  sent 2 messages:", reply.content)
        reply = await gateway.chat([question])
        print("  sent 1 message: ", reply.content)

    print("2. A busy server is retried (simulated with a scripted model)")
    busy = ScriptedModel([429, "Here I am."])
    async with Gateway("openai:any", transport=busy, on_event=log) as gateway:
        reply = await gateway.chat([question])
        print("  reply:", reply.content)

    print("3. A permanent failure is not retried")
    invalid_key = ScriptedModel([401])
    async with Gateway("openai:any", transport=invalid_key, on_event=log) as gateway:
        try:
            await gateway.chat([question])
        except GatewayError as error:
            print(f"  {type(error).__name__}, retryable={error.retryable}: {error}")


if __name__ == "__main__":
    asyncio.run(main())
