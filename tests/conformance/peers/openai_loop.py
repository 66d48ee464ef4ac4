"""A loop of this project around the official `openai` SDK, as programs with function calls have it.

It is not a part of the SDK: it asks, runs the calls of the reply one after the other, and asks
again.
"""

import inspect
import json
from typing import Any

from openai import AsyncOpenAI

from tests.conformance.case import Case
from tests.conformance.peers.claims import outside_of_loops
from tests.conformance.peers.errors import error_fields, failed_request
from tests.conformance.peers.functions import text_of
from tests.conformance.peers.model_server import Ask, model_server


def outside(case: Case) -> str:
    """The demand that is outside of the loop: it keeps no history, and runs one call at a time."""
    if case.expect and any(check.get("at") == "/together" for check in case.expect):
        return "calls that run at the same time"
    if case.id == "L-205":
        return "a history that the program stored without a result"
    return outside_of_loops(case)


async def answer(
    question: str, ask: Ask, tools: Any, run: Any, dialect: str, history: Any = ()
) -> Any:
    """Answer a question: ask until a reply has no calls."""
    messages: list[Any] = [*history, {"role": "user", "content": question}]
    functions: Any = [{"type": "function", "function": parameters_of(tool)} for tool in tools]
    request: dict[str, Any] = {"tools": functions} if functions else {}
    async with model_server(ask) as (url, sent):
        client = AsyncOpenAI(base_url=f"{url}/v1", api_key="none")
        while True:
            try:
                completion = await client.chat.completions.create(
                    model="gpt-4o", messages=messages, **request
                )
            except Exception as error:
                return failed_request(error, sent)
            message = completion.choices[0].message
            messages.append(message)
            if not message.tool_calls:
                if completion.choices[0].finish_reason == "content_filter":
                    return error_fields("refused", message.content, sent)
                final = {"role": "assistant", "content": message.content}
                return {"answer": message.content, "messages": [*sent, final]}
            for call in message.tool_calls:
                value = named(run, tools, call.function.name)(json.loads(call.function.arguments))
                value = await value if inspect.isawaitable(value) else value
                messages.append(
                    {"role": "tool", "tool_call_id": call.id, "content": text_of(value)}
                )


def parameters_of(tool: dict[str, Any]) -> dict[str, Any]:
    """The fields of a tool that belong to a request."""
    return {name: tool[name] for name in ("name", "description", "parameters")}


def named(run: Any, tools: Any, name: str) -> Any:
    """Look up a function by its name.

    Raises:
        KeyError: There is no such function.
    """
    functions = {
        tool["name"]: lambda arguments, name=tool["name"]: run(name, arguments) for tool in tools
    }
    return functions[name]


OPERATIONS = {"answer": answer}
