"""`openai-agents`: an `Agent` with function tools over OpenAI's chat format, run by `Runner`."""

from typing import Any

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from agents.exceptions import MaxTurnsExceeded, ModelRefusalError
from openai import AsyncOpenAI

from tests.conformance.case import Case
from tests.conformance.peers.claims import outside_of_loops
from tests.conformance.peers.errors import error_fields, failed_request
from tests.conformance.peers.functions import function_of
from tests.conformance.peers.model_server import Ask, model_server

set_tracing_disabled(True)


def outside(case: Case) -> str:
    """The demand that is outside of the claims: it has time limits for async functions only."""
    return outside_of_loops(case)


async def answer(
    question: str, ask: Ask, tools: Any, run: Any, dialect: str, history: Any = ()
) -> Any:
    """Answer a question with an agent."""
    messages = [item for message in history for item in items_of(message)]
    async with model_server(ask) as (url, sent):
        client = AsyncOpenAI(base_url=f"{url}/v1", api_key="none")
        agent = Agent(
            name="assistant",
            model=OpenAIChatCompletionsModel(model="gpt-4o", openai_client=client),
            tools=[function_tool(function_of(tool, run)) for tool in tools],
        )
        try:
            result = await Runner.run(agent, [*messages, {"role": "user", "content": question}])
        except MaxTurnsExceeded as error:
            return error_fields("limit", error, sent)
        except ModelRefusalError as error:
            return error_fields("refused", error, sent)
        except Exception as error:
            return failed_request(error, sent)
        text = str(result.final_output)
        return {"answer": text, "messages": [*sent, {"role": "assistant", "content": text}]}


def items_of(message: dict[str, Any]) -> list[Any]:
    """The input items of a message: the library keeps calls apart from their message."""
    if message["role"] == "tool":
        call_id, text = message["tool_call_id"], message["content"]
        return [{"type": "function_call_output", "call_id": call_id, "output": text}]
    items: list[Any] = []
    if message["content"]:
        items.append({"role": message["role"], "content": message["content"]})
    for call in message.get("tool_calls", []):
        items.append({"type": "function_call", "call_id": call["id"], **call["function"]})
    return items


OPERATIONS = {"answer": answer}
