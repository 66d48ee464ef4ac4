"""The official `anthropic` SDK with its own loop, `client.beta.messages.tool_runner`.

The async runner accepts only async functions. A plain function runs in a thread, as an async
program would do it.
"""

import asyncio
import json
from typing import Any

from anthropic import AsyncAnthropic, beta_async_tool

from tests.conformance.case import Case
from tests.conformance.peers.claims import OWN_REPLIES, has_own_ids, outside_of_loops
from tests.conformance.peers.errors import error_fields, failed_request
from tests.conformance.peers.functions import described, function_of
from tests.conformance.peers.model_server import Ask, model_server, text_of, to_anthropic_messages

STOPPED = {"refusal": "refused", "max_tokens": "limit"}
"""Stop reasons that the runner reports instead of an answer."""


def outside(case: Case) -> str:
    """The demand that is outside of the claims: also replies that the API cannot send."""
    if not has_own_ids(case):
        return OWN_REPLIES
    for reply in case.input.get("replies", []):
        calls = reply.get("tool_calls", []) if isinstance(reply, dict) else []
        if calls and reply.get("finish_reason") == "stop":
            return OWN_REPLIES
        if not all(is_object(call.get("arguments", {})) for call in calls):
            return "arguments that are not JSON, which the format cannot represent"
    return outside_of_loops(case)


def is_object(arguments: Any) -> bool:
    """Whether the arguments of a call are an object, or its JSON."""
    try:
        return isinstance(json.loads(arguments) if isinstance(arguments, str) else arguments, dict)
    except ValueError:
        return False


async def answer(
    question: str, ask: Ask, tools: Any, run: Any, dialect: str, history: Any = ()
) -> Any:
    """Answer a question with the runner."""
    system, messages = to_anthropic_messages([*history, {"role": "user", "content": question}])
    async with model_server(ask) as (url, sent):
        client = AsyncAnthropic(base_url=url, api_key="none")
        runner = client.beta.messages.tool_runner(
            model="claude-haiku-4-5",
            max_tokens=1024,
            tools=[beta_async_tool(async_function_of(tool, run)) for tool in tools],
            messages=messages,
            thread=False,  # a thread would keep the conversation on the server
            **({"system": system} if system else {}),
        )
        try:
            message = await runner.until_done()
        except Exception as error:
            return failed_request(error, sent)
        text = text_of(block.to_dict() for block in message.content)
        if message.stop_reason in STOPPED:
            return error_fields(STOPPED[message.stop_reason], message.stop_reason, sent)
        return {"answer": text, "messages": [*sent, {"role": "assistant", "content": text}]}


def async_function_of(spec: dict[str, Any], run: Any) -> Any:
    """Return the function of a tool; a plain one runs in a thread."""
    function = function_of(spec, run)
    if spec.get("async"):
        return function

    async def in_thread(**arguments: Any) -> Any:
        return await asyncio.to_thread(function, **arguments)

    return described(in_thread, spec)


OPERATIONS = {"answer": answer}
