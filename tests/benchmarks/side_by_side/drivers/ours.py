"""This project without the extra `[fast]`: `run_tool_loop`, with a session for each question."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from job import KEY, QUESTION, SYSTEM, Ask, Work

from stage0_gateway import Gateway
from stage1_context import ContextEngine
from stage2_output import OutputController
from stage3_tools import (
    NativeDialect,
    ToolLoopDeps,
    ToolLoopOptions,
    ToolRegistry,
    run_tool_loop,
    tool,
)

TITLE = "llm-stages"
PACKAGES = ("llm-stages", "httpx", "pydantic", "jsonschema")
IMPORT = "import stage0_gateway, stage1_context, stage2_output, stage3_tools"
SPEAKS = ("calls", "decisions", "messages")
FOLLOWED = ("stage0_gateway", "stage1_context", "stage2_output", "stage3_tools")
HIDDEN = ("httpx_aiohttp", "jsonschema_rs")  # the extra [fast]
Read = Callable[[], Awaitable[tuple[int, str]]]


@asynccontextmanager
async def opened(work: Work) -> AsyncIterator[tuple[ToolLoopDeps, ToolLoopOptions]]:
    """Yield the parts and the options of a loop in the requested dialect."""
    provider, base = (
        ("anthropic", f"{work.base}/v1") if work.dialect == "messages" else ("openai", work.base)
    )
    dialect = None if work.dialect == "decisions" else NativeDialect()
    options = ToolLoopOptions(max_tool_rounds=work.rounds + 1, dialect=dialect)
    registry = ToolRegistry()
    for function in work.functions:
        registry.register(tool(function))
    model = f"{provider}:{work.model}"
    async with Gateway(model, api_key=KEY, base_url=base) as gateway:
        yield ToolLoopDeps(gateway, ContextEngine(), OutputController(), registry), options


@asynccontextmanager
async def asking(work: Work) -> AsyncIterator[Ask]:
    """Yield the loop, with a new session for each question."""
    async with opened(work) as (deps, options):

        async def ask() -> str:
            session_id = await deps.context_engine.create_session(system_prompt=SYSTEM)
            result = await run_tool_loop(deps, session_id, QUESTION, options)
            await deps.context_engine.delete_session(session_id)
            return result.reply or ""

        yield ask


@asynccontextmanager
async def following(work: Work) -> AsyncIterator[Ask]:
    """Yield the loop with a session that exists already: the path begins with the question."""
    async with opened(work) as (deps, options):
        session_id = await deps.context_engine.create_session(system_prompt=SYSTEM)

        async def ask() -> str:
            return (await run_tool_loop(deps, session_id, QUESTION, options)).reply or ""

        yield ask


@asynccontextmanager
async def reading(url: str) -> AsyncIterator[Read]:
    """Read a stream as typed events: its text and its arguments."""
    async with Gateway("openai:gpt-4o", api_key=KEY, base_url=url) as gateway:

        async def read() -> tuple[int, str]:
            characters, arguments = 0, []
            async for event in gateway.stream([{"role": "user", "content": QUESTION}]):
                if event.name == "text":
                    characters += len(event.delta)
                elif event.name == "input_json":
                    arguments.append(event.delta)
            return characters, "".join(arguments)

        yield read


@asynccontextmanager
async def snapshots(url: str) -> AsyncIterator[Callable[[], Awaitable[tuple[int, object]]]]:
    """Read the same stream, and the parsed arguments in each event."""
    async with Gateway("openai:gpt-4o", api_key=KEY, base_url=url) as gateway:

        async def read() -> tuple[int, object]:
            seen, value = 0, None
            async for event in gateway.stream([{"role": "user", "content": QUESTION}]).events(
                "input_json"
            ):
                value = event.snapshot
                seen += len(value)
            return seen, value

        yield read
