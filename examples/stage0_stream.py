"""Stage 0: read a reply while it arrives, as text and as the arguments of a tool call.

    .venv/bin/python examples/stage0_stream.py

Key points:
  1. A stream delivers the same reply in pieces; `final_message` is the complete reply.
  2. The arguments of a tool call can be read while they arrive. Only a complete call can be run.
  3. An interrupted stream raises an error, and the text received until then is available.
"""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # import the packages of this checkout

from stage0_gateway import Gateway, GatewayError, Message, OfflineModel, ToolSpec

HELLO = [Message.user("Hello! Who are you?")]
QUESTION = [Message.user("What is the weather in Shanghai?")]
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = ToolSpec("get_weather", "The weather in a city.", CITY)


async def main() -> None:
    """Read a stream of text, a stream of a tool call, and an interrupted stream."""
    async with Gateway.from_env() as gateway:
        print("1. Text while it arrives (a bar after each piece)")
        stream = gateway.stream(HELLO)
        print("  ", end="")
        async for event in stream:
            if event.name == "text":
                print(event.delta, end="|", flush=True)
        reply = await stream.final_message()
        print(f"\n  total: {len(reply.content)} characters, finish_reason={reply.finish_reason}")

        print("2. A tool call while its arguments arrive")
        async for event in gateway.stream(QUESTION, tools=[WEATHER]):
            if event.name == "input_json":
                print("  so far:  ", event.snapshot)
            elif event.name == "tool_call":
                print("  complete:", event.tool_call.name, event.tool_call.arguments)
            elif event.name == "final_message":
                print("  finish_reason:", event.response.finish_reason)

    print("3. An interrupted stream (simulated by the embedded model)")
    model = OfflineModel(["disconnect_mid_stream"])
    async with Gateway("offline:teacher", transport=model) as gateway:
        stream = gateway.stream(HELLO)
        try:
            await stream.final_message()
        except GatewayError as error:
            print(f"  {type(error).__name__}, retryable={error.retryable}: {error}")
        print(f"  received until then: {stream.current_message.text!r}")


if __name__ == "__main__":
    asyncio.run(main())
