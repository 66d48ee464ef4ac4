"""`pydantic-ai`: one `Agent` with function tools over OpenAI's chat completions."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx2
from job import KEY, QUESTION, SYSTEM, Ask, Work
from openai import AsyncOpenAI, DefaultAsyncHttpxClient
from pydantic_ai import Agent, ToolOutput, UsageLimits, messages
from pydantic_ai.direct import model_request_stream
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from typing_extensions import TypedDict

TITLE = "pydantic-ai"
PACKAGES = ("pydantic-ai-slim", "openai", "httpx2", "httpcore2", "pydantic", "anyio", "sniffio")
IMPORT = "import pydantic_ai, pydantic_ai.models.openai"
SPEAKS = ("calls",)
FOLLOWED = ("pydantic_ai", "openai")
_LIMITS = httpx2.Limits(max_connections=1000, max_keepalive_connections=1000)


class Item(TypedDict):
    """One item of the streamed call."""

    k: int
    v: str


class Items(TypedDict):
    """The arguments of the streamed call."""

    items: list[Item]


@asynccontextmanager
async def opened(url: str, name: str) -> AsyncIterator[OpenAIChatModel]:
    """Yield a model with the shared client."""
    http = DefaultAsyncHttpxClient(limits=_LIMITS)
    async with AsyncOpenAI(base_url=url, api_key=KEY, http_client=http) as openai:
        yield OpenAIChatModel(name, provider=OpenAIProvider(openai_client=openai))


@asynccontextmanager
async def asking(work: Work) -> AsyncIterator[Ask]:
    """Yield one agent with a run for each question."""
    async with opened(work.base, work.model) as model:
        agent = Agent(model, instructions=SYSTEM, tools=work.functions)
        limits = UsageLimits(request_limit=None)

        async def ask() -> str:
            return (await agent.run(QUESTION, usage_limits=limits)).output

        yield ask


@asynccontextmanager
async def reading(url: str) -> AsyncIterator[Callable[[], Awaitable[tuple[int, str]]]]:
    """Read the events of one streamed request."""
    async with opened(url, "gpt-4o") as model:

        async def read() -> tuple[int, str]:
            text, arguments = [], []
            say = [messages.ModelRequest.user_text_prompt(QUESTION)]
            async with model_request_stream(model, say) as stream:
                async for event in stream:
                    match event:  # the first event of a part has its first piece
                        case messages.PartStartEvent(part=messages.TextPart(content=new)):
                            text.append(new)
                        case messages.PartDeltaEvent(
                            delta=messages.TextPartDelta(content_delta=new)
                        ):
                            text.append(new)
                        case messages.PartStartEvent(part=messages.ToolCallPart(args=new)):
                            arguments.append(new or "")
                        case messages.PartDeltaEvent(
                            delta=messages.ToolCallPartDelta(args_delta=new)
                        ):
                            arguments.append(new or "")
            return len("".join(text)), "".join(arguments)

        yield read


@asynccontextmanager
async def snapshots(url: str) -> AsyncIterator[Callable[[], Awaitable[tuple[int, object]]]]:
    """Read a streamed run with structured output: the validated value so far after each piece."""
    async with opened(url, "gpt-4o") as model:
        agent = Agent(model, output_type=ToolOutput(Items, name="store"))

        async def read() -> tuple[int, object]:
            seen, value = 0, None
            async with agent.run_stream(QUESTION) as result:
                async for value in result.stream_output(debounce_by=None):
                    seen += len(value)
            return seen, value

        yield read
