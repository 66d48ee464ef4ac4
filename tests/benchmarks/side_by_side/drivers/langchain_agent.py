"""`langchain`: `create_agent`, a graph of `langgraph`, with `ChatOpenAI`."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from job import KEY, QUESTION, SYSTEM, Ask, Work

os.environ["LANGSMITH_TRACING"] = "false"

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI

TITLE = "langchain"
PACKAGES = (
    "langchain",
    "langchain-core",
    "langgraph",
    "langchain-openai",
    "openai",
    "httpx2",
    "pydantic",
)
IMPORT = "from langchain.agents import create_agent; from langchain_openai import ChatOpenAI"
SPEAKS = ("calls",)
FOLLOWED = ("langchain", "langchain_core", "langchain_openai", "langgraph", "openai")


@asynccontextmanager
async def asking(work: Work) -> AsyncIterator[Ask]:
    """Yield one agent, called with a new list of messages for each question."""
    model = ChatOpenAI(model=work.model, base_url=work.base, api_key=KEY)
    agent = create_agent(model, tools=work.functions, system_prompt=SYSTEM)
    config = {"recursion_limit": 2 * work.rounds + 10}  # a round is two steps of the graph

    async def ask() -> str:
        state = await agent.ainvoke({"messages": [{"role": "user", "content": QUESTION}]}, config)
        return str(state["messages"][-1].content)

    yield ask


@asynccontextmanager
async def reading(url: str) -> AsyncIterator[Callable[[], Awaitable[tuple[int, str]]]]:
    """Read the chunks of the model's stream."""
    model = ChatOpenAI(model="gpt-4o", base_url=url, api_key=KEY)

    async def read() -> tuple[int, str]:
        characters, arguments = 0, []
        async for chunk in model.astream(QUESTION):
            characters += len(chunk.content)
            arguments += [each["args"] or "" for each in chunk.tool_call_chunks]
        return characters, "".join(arguments)

    yield read


@asynccontextmanager
async def snapshots(url: str) -> AsyncIterator[Callable[[], Awaitable[tuple[int, object]]]]:
    """Add up the chunks, whose `tool_calls` are parsed, as in its guide to streamed calls."""
    model = ChatOpenAI(model="gpt-4o", base_url=url, api_key=KEY)

    async def read() -> tuple[int, object]:
        seen, value, gathered = 0, None, None
        async for chunk in model.astream(QUESTION):
            gathered = chunk if gathered is None else gathered + chunk
            for call in gathered.tool_calls:
                value = call["args"]
                seen += len(value)
        return seen, value

    yield read
