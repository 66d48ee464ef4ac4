"""`pydantic-ai`: an `Agent` with function tools over OpenAI's chat format."""

from typing import Any

from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.exceptions import UserError
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.conformance.peers.functions import function_of
from tests.conformance.peers.model_server import Ask, model_server
from tests.conformance.surroundings import Failure

TITLE = "pydantic-ai"
PACKAGES = ("pydantic-ai-slim", "openai")


async def answer(
    question: str, ask: Ask, tools: Any, run: Any, dialect: str = "prompt", history: Any = ()
) -> Any:
    """Answer a question with an agent."""
    if dialect != "native" or history:
        raise Failure("unsupported", "The agent has no prompt dialect and no foreign history.")
    async with model_server(ask) as (url, sent):
        client = AsyncOpenAI(base_url=f"{url}/v1", api_key="none")
        model = OpenAIChatModel("gpt-4o", provider=OpenAIProvider(openai_client=client))
        agent = Agent(model, tools=[function_of(tool, run) for tool in tools])
        text = (await agent.run(question)).output
        return {"answer": text, "messages": [*sent, {"role": "assistant", "content": text}]}


def registry(tools: Any, run: Any) -> Any:
    """The names of the tools of an agent."""
    try:
        Agent(tools=[function_of(tool, run) for tool in tools])
    except UserError as error:
        raise Failure("duplicate", str(error)) from error
    return {"names": [tool["name"] for tool in tools]}


OPERATIONS = {"answer": answer, "registry": registry}
