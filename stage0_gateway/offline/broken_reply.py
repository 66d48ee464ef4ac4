"""Replies that a model gets wrong: the text, the call, the end, or the counts are not what they should be.

Pure: the request and the teacher's reply go in, a spoiled reply comes out. What the prompt dialect writes as
JSON text, what native calls carry as arguments, and a reply by schema are spoiled alike; where a reply has
nothing of the kind, it stays as it was. Knows no format and no HTTP. Used by `faults.py`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from stage0_gateway.messages import Message
from stage0_gateway.offline import broken_text
from stage0_gateway.offline.broken_text import json_object, to_json
from stage0_gateway.offline.filling import complete, fill
from stage0_gateway.offline.outcomes import outcomes_in
from stage0_gateway.offline.reading import Reading, read
from stage0_gateway.offline.teacher import call
from stage0_gateway.parts import ToolCall
from stage0_gateway.request import ChatRequest
from stage0_gateway.response import ChatResponse
from stage0_gateway.usage import Usage

ReplyFault = Callable[[ChatRequest, ChatResponse], ChatResponse]
_Arguments = dict[str, Any]

# ---- the text -------------------------------------------------------------------------------------------


def in_json(change: Callable[[str], str]) -> ReplyFault:
    """A fault in the JSON text of a decision, or in the arguments of native calls."""

    def spoil(request: ChatRequest, reply: ChatResponse) -> ChatResponse:
        message = reply.message
        if message.tool_calls:
            calls = tuple(replace(one, arguments=change(one.arguments)) for one in message.tool_calls)
            return replace(reply, message=replace(message, tool_calls=calls))
        return _saying(reply, change(message.text)) if json_object(message.text) is not None else reply

    return spoil


def around_json(change: Callable[[str], str], beside: Callable[[str], str]) -> ReplyFault:
    """A fault that stands around a decision's text, or beside native calls as the text of their message."""

    def spoil(request: ChatRequest, reply: ChatResponse) -> ChatResponse:
        if reply.tool_calls:
            return _saying(reply, beside(reply.tool_calls[0].arguments))
        return _saying(reply, change(reply.content)) if json_object(reply.content) is not None else reply

    return spoil


def cut_in_the_middle(request: ChatRequest, reply: ChatResponse) -> ChatResponse:
    """Half of what was to be said, as at a limit of tokens."""
    message = reply.message
    calls = tuple(replace(one, arguments=broken_text.cut(one.arguments)) for one in message.tool_calls)
    half = Message.assistant(broken_text.cut(message.text), calls)
    return replace(reply, message=half, finish_reason="length", raw_finish_reason=None)


def empty(request: ChatRequest, reply: ChatResponse) -> ChatResponse:
    """Nothing at all, and content with it."""
    return replace(reply, message=Message.assistant(""), finish_reason="stop", raw_finish_reason=None)


def _saying(reply: ChatResponse, text: str) -> ChatResponse:
    return replace(reply, message=replace(reply.message, content=text))


# ---- the call -------------------------------------------------------------------------------------------


def in_arguments(change: Callable[[_Arguments, str], _Arguments]) -> ReplyFault:
    """A fault in one argument of each call, or one field of a reply by schema: the first required, else the first."""

    def spoil(request: ChatRequest, reply: ChatResponse) -> ChatResponse:
        reading = read(request)
        forms = {tool.name: tool.parameters for tool in reading.tools}

        def spoiled(arguments: _Arguments, form: Mapping[str, Any]) -> _Arguments:
            argument = _first_required(arguments, form)
            return change(arguments, argument) if argument else arguments

        fields = None if reading.schema is None or reply.tool_calls else json_object(reply.content)
        if reading.schema is not None and fields:
            return _saying(reply, to_json(spoiled(fields, reading.schema)))
        return _with_calls(reply, lambda name, given: (name, spoiled(given, forms.get(name, {}))))

    return spoil


def unknown_tool(request: ChatRequest, reply: ChatResponse) -> ChatResponse:
    """A call of a tool that is not there, although one like it is."""
    return _with_calls(reply, lambda name, arguments: (f"{name}_v2", arguments))


def two_calls(request: ChatRequest, reply: ChatResponse) -> ChatResponse:
    """The same call twice in one reply."""
    if calls := reply.tool_calls:
        again = tuple(replace(one, id=_next_id(one.id, len(calls))) for one in calls)
        return replace(reply, message=replace(reply.message, tool_calls=calls + again))
    decision = json_object(reply.content) or {}
    return _saying(reply, broken_text.twice(reply.content)) if decision.get("tool") else reply


def call_again(request: ChatRequest, reply: ChatResponse) -> ChatResponse:
    """A call, whatever there is to say: the last one once more, or the first tool in sight."""
    if reply.tool_calls or (json_object(reply.content) or {}).get("tool"):
        return reply
    reading = read(request)
    if (chosen := _any_call(reading)) is None:
        return reply
    if any(message.tool_calls for message in request.messages):
        reading = replace(reading, way="native")  # also when the tools were taken away
    return replace(reply, message=call(reading, *chosen), finish_reason="unknown", raw_finish_reason=None)


def _any_call(reading: Reading) -> tuple[str, Mapping[str, Any]] | None:
    if made := outcomes_in(reading.messages):
        return made[-1].tool, made[-1].arguments
    if not reading.tools:
        return None
    tool = reading.tools[0]
    return tool.name, complete(tool.parameters, fill(tool.parameters, reading.question))


def _with_calls(
    reply: ChatResponse, change: Callable[[str, _Arguments], tuple[str, _Arguments]]
) -> ChatResponse:
    """The reply with each call changed, in whichever way it is written down."""
    calls = []
    for one in reply.tool_calls:
        name, arguments = change(one.name, json_object(one.arguments) or {})
        calls.append(ToolCall(one.id, name, to_json(arguments)))
    if calls:
        return replace(reply, message=replace(reply.message, tool_calls=tuple(calls)))
    decision = json_object(reply.content) or {}
    tool, given = decision.get("tool"), decision.get("arguments")
    if not isinstance(tool, str) or not isinstance(given, dict):
        return reply
    tool, given = change(tool, given)
    return _saying(reply, to_json({**decision, "tool": tool, "arguments": given}))


def _first_required(arguments: _Arguments, form: Mapping[str, Any]) -> str | None:
    required = form.get("required")
    names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    return next((name for name in (*names, *arguments) if name in arguments), None)


def _next_id(call_id: str, step: int) -> str:
    found = re.search(r"\d{1,9}$", call_id)
    return f"{call_id[: found.start()]}{int(found[0]) + step}" if found else f"{call_id}_again"


# ---- the counts -----------------------------------------------------------------------------------------


def without_usage(request: ChatRequest, reply: ChatResponse) -> ChatResponse:
    """No token counts."""
    return replace(reply, usage=None)


def read_too_little(request: ChatRequest, reply: ChatResponse) -> ChatResponse:
    """The counts of a server that dropped nine tenths of the prompt before the model saw it."""
    usage = reply.usage or Usage()
    return replace(reply, usage=replace(usage, input_tokens=max(1, (usage.input_tokens or 0) // 10)))
