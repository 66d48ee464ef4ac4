"""`smolagents`: a `ToolCallingAgent`. It is synchronous, so it runs in a thread.

The library ends a run with a call of its tool `final_answer`. A text of the model is converted to
such a call.
"""

import asyncio
import json
from typing import Any, ClassVar

from smolagents import LogLevel, OpenAIModel, Tool, ToolCallingAgent

from tests.conformance.case import Case
from tests.conformance.peers.claims import checks_messages, outside_of_loops
from tests.conformance.peers.errors import error_fields, failed_request
from tests.conformance.peers.functions import function_of
from tests.conformance.peers.model_server import Ask, model_server


def outside(case: Case) -> str:
    """The demand that is outside of the claims of the library."""
    if reason := outside_of_loops(case, has_history=False):
        return reason
    if checks_messages(case):
        return "calls and results as messages of their own"
    if any(tool.get("async") for tool in case.input["tools"]):
        return "async functions"
    return ""


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


async def answer(question: str, ask: Ask, tools: Any, run: Any, dialect: str) -> Any:
    """Answer a question with an agent, in at most 20 steps."""

    async def asked(messages: Any, tools: Any) -> dict[str, Any]:
        reply = await ask(messages=messages, tools=tools)
        return final_answer(reply) if tools and is_answer(reply) else reply

    async with model_server(asked) as (url, sent):
        model = OpenAIModel("gpt-4o", api_base=f"{url}/v1", api_key="none")
        agent = ToolCallingAgent(
            [tool_of(tool, run) for tool in tools],
            model,
            verbosity_level=LogLevel.OFF,
            return_full_result=True,
        )
        try:
            result = await asyncio.to_thread(agent.run, question)
        except Exception as error:
            return failed_request(error, sent)
        text = str(result.output)
        if result.state == "max_steps_error":
            return error_fields("limit", result.state, sent)
        return {"answer": text, "messages": [*sent, {"role": "assistant", "content": text}]}


def is_answer(reply: dict[str, Any]) -> bool:
    """Whether a reply is a text, without calls, that the model completed."""
    message = reply["message"]
    return (
        bool(message["content"])
        and not message.get("tool_calls")
        and reply["finish_reason"] == "stop"
    )


def final_answer(reply: dict[str, Any]) -> dict[str, Any]:
    """A reply as the library expects it: the answer is the argument of a tool."""
    arguments = json.dumps({"answer": reply["message"]["content"]})
    function = {"name": "final_answer", "arguments": arguments}
    call = {"id": "final", "type": "function", "function": function}
    message = {"role": "assistant", "content": "", "tool_calls": [call]}
    return {"message": message, "finish_reason": reply["finish_reason"]}


OPERATIONS = {"answer": answer}
