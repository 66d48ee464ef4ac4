"""Stage 0: a reply while it arrives, first as text, then as the arguments of a tool call.

    python examples/stage0_stream.py

Key points:
  1. A stream is the same reply told piece by piece; `final_message` is what `chat` would have
  returned. 2. The arguments of a tool call can be read while they grow, but only a complete call is
  one. 3. A stream that breaks off is an error, and what had arrived until then is still there.
"""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the packages, before examples of the same name

from stage0_gateway import Gateway, GatewayError, Message, OfflineModel, ToolSpec

HELLO = [Message.user("Hello! Who are you?")]
QUESTION = [Message.user("What is the weather in Shanghai?")]
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = ToolSpec("get_weather", "The weather in a city.", CITY)


async def main() -> None:
    """Three streams: one of text, one of a tool call, and one that a fault on purpose cuts off."""
    async with Gateway.from_env() as gateway:
        print("1. Text, as it arrives (a bar after each piece)")
        stream = gateway.stream(HELLO)
        print("  ", end="")
        async for event in stream:
            if event.name == "text":
                print(event.delta, end="|", flush=True)
        reply = await stream.final_message()
        print(f"\n  whole: {len(reply.content)} letters, finish_reason={reply.finish_reason}")

        print("2. A tool call, while its arguments grow")
        async for event in gateway.stream(QUESTION, tools=[WEATHER]):
            if event.name == "input_json":
                print("  so far:  ", event.snapshot)
            elif event.name == "tool_call":
                print("  complete:", event.tool_call.name, event.tool_call.arguments)
            elif event.name == "final_message":
                print("  finish_reason:", event.response.finish_reason)

    print("3. A stream that breaks off (the embedded model plays the fault)")
    async with Gateway(
        "offline:teacher", transport=OfflineModel(["disconnect_mid_stream"])
    ) as gateway:
        stream = gateway.stream(HELLO)
        try:
            await stream.final_message()
        except GatewayError as error:
            print(f"  {type(error).__name__}, retryable={error.retryable}: {error}")
        print(f"  arrived until then: {stream.current_message.text!r}")


if __name__ == "__main__":
    asyncio.run(main())
