"""From scratch: answer a question with the four files of this folder, in both dialects.

    python examples/from_scratch/demo.py

Without a key, the embedded model answers. It consists of rules; it is not a language model. With
OPENAI_API_KEY and LLM_MODEL (such as gpt-5-mini), the real server answers; LLM_BASE_URL selects
another server. The weather is invented.
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).parents[2]))  # import the files of this checkout

from examples.from_scratch.context import History, system
from examples.from_scratch.gateway import Gateway, Message, ModelError, Reply
from examples.from_scratch.tools import Tool, answer, registry
from stage0_gateway import OfflineModel

QUESTION = "What is the weather in Shanghai?"


def get_weather(city: str) -> dict[str, Any]:
    """Return invented weather."""
    return {"city": city, "temp": 22, "unit": "celsius"}


CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
SPEC = {"name": "get_weather", "description": "Get the weather in a city.", "parameters": CITY}


async def ask_in(dialect: str, gateway: Gateway) -> None:
    """Answer the question in one dialect, and print each request, its reply and the answer."""

    async def ask(messages: Sequence[Message], tools: Sequence[Any]) -> Reply:
        reply = await gateway.chat(messages, tools)
        print("  input: ", " ".join(messages[-1]["content"].split()))
        calls = [call["function"] for call in reply.message.get("tool_calls", [])]
        print("  reply: ", calls or reply.message["content"])
        return reply

    print("Dialect:", dialect)
    history = History()
    history.add(system("You are a helpful assistant."))
    tools = registry(Tool(SPEC, get_weather))
    print("  answer:", await answer(QUESTION, history, ask, tools, dialect))


async def main() -> int:
    """Ask in both dialects; return 1 if the model could not be asked."""
    key, model = os.environ.get("OPENAI_API_KEY"), os.environ.get("LLM_MODEL")
    is_real = bool(key and model)
    url = os.environ.get("LLM_BASE_URL", "https://api.openai.com/v1")
    client = httpx.AsyncClient(
        base_url=url if is_real else "http://offline/v1",
        headers={"Authorization": f"Bearer {key}"} if is_real else {},
        transport=None if is_real else OfflineModel(),
        timeout=60,
    )
    async with client:
        gateway = Gateway(client, (model or "").removeprefix("openai:") if is_real else "teacher")
        try:
            for dialect in ("prompt", "native"):
                await ask_in(dialect, gateway)
        except ModelError as error:
            print(f"The model could not be asked: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
