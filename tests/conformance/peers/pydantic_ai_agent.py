"""`pydantic-ai`: an `Agent` with function tools over OpenAI's chat format."""

from typing import Any

from openai import AsyncOpenAI
from pydantic_ai import Agent, Tool
from pydantic_ai.exceptions import (
    ContentFilterError,
    UnexpectedModelBehavior,
    UsageLimitExceeded,
    UserError,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.conformance.case import Case
from tests.conformance.peers.claims import outside_of_loops
from tests.conformance.peers.errors import error_fields, failed_request
from tests.conformance.peers.functions import function_of
from tests.conformance.peers.model_server import Ask, model_server


def outside(case: Case) -> str:
    """The demand that is outside of the claims of the library."""
    return outside_of_loops(case, has_timeout=True)


def tool_of(spec: dict[str, Any], run: Any) -> Tool:
    """Return a tool of the library."""
    return Tool(function_of(spec, run), timeout=spec.get("timeout"))


async def answer(
    question: str, ask: Ask, tools: Any, run: Any, dialect: str, history: Any = ()
) -> Any:
    """Answer a question with an agent."""
    async with model_server(ask) as (url, sent):
        client = AsyncOpenAI(base_url=f"{url}/v1", api_key="none")
        model = OpenAIChatModel("gpt-4o", provider=OpenAIProvider(openai_client=client))
        agent = Agent(model, tools=[tool_of(tool, run) for tool in tools])
        earlier = [message_of(message) for message in history]
        try:
            result = await agent.run(question, message_history=earlier)
        except UsageLimitExceeded as error:
            return error_fields("limit", error, sent)
        except ContentFilterError as error:
            return error_fields("refused", error, sent)
        except UnexpectedModelBehavior as error:
            return error_fields("limit" if "retries" in str(error) else "invalid", error, sent)
        except Exception as error:
            return failed_request(error, sent)
        if result.response.finish_reason == "content_filter":
            return error_fields("refused", result.output, sent)
        final = {"role": "assistant", "content": result.output}
        return {"answer": result.output, "messages": [*sent, final]}


def message_of(message: dict[str, Any]) -> ModelMessage:
    """A message of a history as one of the library."""
    if message["role"] == "system":
        return ModelRequest(parts=[SystemPromptPart(message["content"])])
    if message["role"] == "user":
        return ModelRequest(parts=[UserPromptPart(message["content"])])
    calls = [
        ToolCallPart(call["function"]["name"], call["function"]["arguments"], call["id"])
        for call in message.get("tool_calls", [])
    ]
    texts = [TextPart(message["content"])] if message["content"] else []
    return ModelResponse(parts=[*texts, *calls])


def registry(tools: Any, run: Any) -> Any:
    """The names of the tools of an agent."""
    try:
        agent = Agent(tools=[function_of(tool, run) for tool in tools])
    except UserError as error:
        return error_fields("duplicate", error)
    return {"names": [name for each in agent.toolsets for name in getattr(each, "tools", ())]}


OPERATIONS = {"answer": answer, "registry": registry}
