"""`openai-agents`: an `Agent` with function tools over chat completions, run by `Runner`."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from job import KEY, QUESTION, SYSTEM, Ask, Work
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

TITLE = "openai-agents"
PACKAGES = ("openai-agents", "openai", "httpx2", "httpcore2", "pydantic", "anyio", "sniffio")
IMPORT = "import agents"
SPEAKS = ("calls",)
FOLLOWED = ("agents", "openai")
_LIMITS = httpx2.Limits(max_connections=1000, max_keepalive_connections=1000)

set_tracing_disabled(True)


def client(url: str) -> AsyncOpenAI:
    """Return the shared client."""
    return AsyncOpenAI(
        base_url=url, api_key=KEY, http_client=DefaultAsyncHttpxClient(limits=_LIMITS)
    )


@asynccontextmanager
async def asking(work: Work) -> AsyncIterator[Ask]:
    """Yield one agent with a run for each question."""
    async with client(work.base) as openai:
        agent = Agent(
            name="calculator",
            instructions=SYSTEM,
            model=OpenAIChatCompletionsModel(model=work.model, openai_client=openai),
            tools=[function_tool(function) for function in work.functions],
        )

        async def ask() -> str:
            result = await Runner.run(agent, QUESTION, max_turns=work.rounds + 2)
            return str(result.final_output)

        yield ask


@asynccontextmanager
async def reading(url: str) -> AsyncIterator[Callable[[], Awaitable[tuple[int, str]]]]:
    """Read the events of a streamed run that ends with the call."""
    async with client(url) as openai:
        agent = Agent(
            name="reader",
            model=OpenAIChatCompletionsModel(model="gpt-4o", openai_client=openai),
            tools=[function_tool(store, strict_mode=False)],
            tool_use_behavior="stop_on_first_tool",
        )

        async def read() -> tuple[int, str]:
            characters, arguments = 0, []
            async for event in Runner.run_streamed(agent, QUESTION).stream_events():
                if event.type != "raw_response_event":
                    continue
                if event.data.type == "response.output_text.delta":
                    characters += len(event.data.delta)
                elif event.data.type == "response.function_call_arguments.delta":
                    arguments.append(event.data.delta)
            return characters, "".join(arguments)

        yield read


async def store(items: list[Any]) -> str:
    """Store items."""
    return str(len(items))
