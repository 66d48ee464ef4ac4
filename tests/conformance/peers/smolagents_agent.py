"""`smolagents`: a `ToolCallingAgent`. It is synchronous, so it runs in a thread."""

import asyncio
import json
from typing import Any, ClassVar

from smolagents import LogLevel, OpenAIModel, Tool, ToolCallingAgent

from tests.conformance.case import Case
from tests.conformance.peers.functions import function_of
from tests.conformance.peers.model_server import Ask, model_server
from tests.conformance.surroundings import Failure

TITLE = "smolagents"
PACKAGES = ("smolagents", "openai")


def claims(case: Case) -> bool:
    """The library writes calls and results as text, so their form is no claim of it."""
    return not any("/tool_call" in check.get("at", "") for check in case.expect)


def tool_of(spec: dict[str, Any], run: Any) -> Tool:
    """Return a tool of the library."""
    function = function_of(spec, run)
    required = spec["parameters"].get("required", [])

    class CaseTool(Tool):  # type: ignore[misc]
        name = spec["name"]
        description = spec.get("description") or spec["name"]
        inputs: ClassVar[dict[str, Any]] = {
            name: {
                "type": each["type"],
                "description": each.get("description", name),
                "nullable": name not in required,
            }
            for name, each in spec["parameters"].get("properties", {}).items()
        }
        output_type = "string"
        skip_forward_signature_validation = True

        def forward(self, **arguments: Any) -> str:
            return str(function(**arguments))

    return CaseTool()


async def answer(
    question: str, ask: Ask, tools: Any, run: Any, dialect: str = "prompt", history: Any = ()
) -> Any:
    """Answer a question with an agent, in at most 20 steps."""
    if dialect != "native" or history:
        raise Failure("unsupported", "The agent has no prompt dialect and no foreign history.")

    async def asked(messages: Any, tools: Any) -> dict[str, Any]:
        reply = await ask(messages=messages, tools=tools)
        return reply if reply["message"].get("tool_calls") else final_answer(reply)

    async with model_server(asked) as (url, sent):
        model = OpenAIModel("gpt-4o", api_base=f"{url}/v1", api_key="none")
        agent = ToolCallingAgent(
            [tool_of(tool, run) for tool in tools], model, verbosity_level=LogLevel.OFF
        )
        text = str(await asyncio.to_thread(agent.run, question))
        return {"answer": text, "messages": [*sent, {"role": "assistant", "content": text}]}


def final_answer(reply: dict[str, Any]) -> dict[str, Any]:
    """A reply as the library expects it: the answer is the argument of a tool."""
    arguments = json.dumps({"answer": reply["message"]["content"]})
    function = {"name": "final_answer", "arguments": arguments}
    call = {"id": "final", "type": "function", "function": function}
    message = {"role": "assistant", "content": "", "tool_calls": [call]}
    return {"message": message, "finish_reason": reply["finish_reason"]}


OPERATIONS = {"answer": answer}
