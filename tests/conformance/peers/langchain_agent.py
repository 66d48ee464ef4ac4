"""`langchain`: `create_agent`, a graph of langgraph, with `ChatOpenAI`."""

import os
from typing import Any

os.environ["LANGSMITH_TRACING"] = "false"

from langchain.agents import create_agent
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.errors import GraphRecursionError

from tests.conformance.case import Case
from tests.conformance.peers.claims import OWN_REPLIES, has_own_ids, outside_of_loops
from tests.conformance.peers.errors import error_fields, failed_request
from tests.conformance.peers.functions import function_of
from tests.conformance.peers.model_server import Ask, model_server


def outside(case: Case) -> str:
    """The demand that is outside of the claims: `ChatOpenAI` is for OpenAI's own API."""
    return outside_of_loops(case) if has_own_ids(case) else OWN_REPLIES


def tool_of(spec: dict[str, Any], run: Any) -> StructuredTool:
    """Return a tool of the library."""
    function = function_of(spec, run)
    if spec.get("async"):
        return StructuredTool.from_function(coroutine=function)
    return StructuredTool.from_function(function)


async def answer(
    question: str, ask: Ask, tools: Any, run: Any, dialect: str, history: Any = ()
) -> Any:
    """Answer a question with an agent."""
    async with model_server(ask) as (url, sent):
        model = ChatOpenAI(model="gpt-4o", base_url=f"{url}/v1", api_key="none")
        agent = create_agent(model, tools=[tool_of(tool, run) for tool in tools])
        messages = [*history, {"role": "user", "content": question}]
        try:
            state = await agent.ainvoke({"messages": messages})
        except GraphRecursionError as error:
            return error_fields("limit", error, sent)
        except Exception as error:
            return failed_request(error, sent)
        last = state["messages"][-1]
        if last.response_metadata.get("finish_reason") == "content_filter":
            return error_fields("refused", last.text, sent)
        return {
            "answer": last.text,
            "messages": [*sent, {"role": "assistant", "content": last.text}],
        }


OPERATIONS = {"answer": answer}
