"""`openai-agents`: an `Agent` with function tools over OpenAI's chat format, run by `Runner`."""

from typing import Any

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from agents.exceptions import MaxTurnsExceeded
from openai import AsyncOpenAI

from tests.conformance.peers.functions import function_of
from tests.conformance.peers.model_server import Ask, model_server
from tests.conformance.surroundings import Failure

TITLE = "openai-agents"
PACKAGES = ("openai-agents", "openai")

set_tracing_disabled(True)


async def answer(
    question: str, ask: Ask, tools: Any, run: Any, dialect: str = "prompt", history: Any = ()
) -> Any:
    """Answer a question with an agent."""
    if dialect != "native" or history:
        raise Failure("unsupported", "The agent has no prompt dialect and no foreign history.")
    async with model_server(ask) as (url, sent):
        client = AsyncOpenAI(base_url=f"{url}/v1", api_key="none")
        agent = Agent(
            name="assistant",
            model=OpenAIChatCompletionsModel(model="gpt-4o", openai_client=client),
            tools=[function_tool(function_of(tool, run), strict_mode=False) for tool in tools],
        )
        try:
            text = str((await Runner.run(agent, question)).final_output)
        except MaxTurnsExceeded as error:
            return {"error": {"kind": "limit", "message": str(error)}, "messages": sent}
        return {"answer": text, "messages": [*sent, {"role": "assistant", "content": text}]}


OPERATIONS = {"answer": answer}
