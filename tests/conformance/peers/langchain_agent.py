"""`langchain`: `create_agent`, a graph of langgraph, with `ChatOpenAI`."""

import os
from typing import Any

os.environ["LANGSMITH_TRACING"] = "false"

from langchain.agents import create_agent
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.errors import GraphRecursionError

from tests.conformance.peers.functions import function_of
from tests.conformance.peers.model_server import Ask, model_server
from tests.conformance.surroundings import Failure

TITLE = "langchain"
PACKAGES = ("langchain", "langgraph", "langchain-openai", "openai")


async def answer(
    question: str, ask: Ask, tools: Any, run: Any, dialect: str = "prompt", history: Any = ()
) -> Any:
    """Answer a question with an agent."""
    if dialect != "native":
        raise Failure("unsupported", "The agent has no prompt dialect.")
    async with model_server(ask) as (url, sent):
        model = ChatOpenAI(model="gpt-4o", base_url=f"{url}/v1", api_key="none")
        functions = [StructuredTool.from_function(function_of(tool, run)) for tool in tools]
        agent = create_agent(model, tools=functions)
        messages = [*history, {"role": "user", "content": question}]
        try:
            state = await agent.ainvoke({"messages": messages}, {"recursion_limit": 25})
        except GraphRecursionError as error:
            return {"error": {"kind": "limit", "message": str(error)}, "messages": sent}
        text = str(state["messages"][-1].content)
        return {"answer": text, "messages": [*sent, {"role": "assistant", "content": text}]}


OPERATIONS = {"answer": answer}
