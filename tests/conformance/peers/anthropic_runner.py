"""The official `anthropic` SDK with its own loop, `client.beta.messages.tool_runner`."""

from typing import Any

from anthropic import AsyncAnthropic, beta_async_tool

from tests.conformance.peers.functions import function_of
from tests.conformance.peers.model_server import Ask, model_server
from tests.conformance.surroundings import Failure

TITLE = "anthropic SDK, tool_runner"
PACKAGES = ("anthropic",)


async def answer(
    question: str, ask: Ask, tools: Any, run: Any, dialect: str = "prompt", history: Any = ()
) -> Any:
    """Answer a question with the runner."""
    if dialect != "native" or history:
        raise Failure("unsupported", "The runner has no prompt dialect and no foreign history.")
    async with model_server(ask) as (url, sent):
        client = AsyncAnthropic(base_url=url, api_key="none")
        runner = client.beta.messages.tool_runner(
            model="claude-haiku-4-5",
            max_tokens=1024,
            tools=[beta_async_tool(coroutine(function_of(tool, run))) for tool in tools],
            messages=[{"role": "user", "content": question}],
            thread=False,  # a thread would keep the conversation on the server
        )
        message = await runner.until_done()
        text = "".join(block.text for block in message.content if block.type == "text")
        return {"answer": text, "messages": [*sent, {"role": "assistant", "content": text}]}


def coroutine(function: Any) -> Any:
    """The runner accepts only coroutine functions."""

    async def called(**arguments: Any) -> str:
        return str(function(**arguments))

    for name in ("__name__", "__qualname__", "__doc__", "__signature__", "__annotations__"):
        setattr(called, name, getattr(function, name))
    return called


OPERATIONS = {"answer": answer}
