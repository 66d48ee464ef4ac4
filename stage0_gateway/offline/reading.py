"""What a request shows: the tools, the question, what has been done about it, and how to answer.

A model sees nothing but the messages, so everything is read from them again at every request. Knows the
two ways tools are shown (the provider's own field, and tools described in the system prompt with results
as user messages) and nothing of which tool fits. Used by `teacher.py` and `planning.py`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from stage0_gateway.messages import Message
from stage0_gateway.offline.outcomes import Outcome, feedback_in, is_host_note, outcomes_in, read_json
from stage0_gateway.request import ChatRequest, ToolSpec

SCANNED = 10_000
"""Characters of a question that are read; the rest of a very long one is not looked at."""

Way = Literal["native", "decision", "text"]

_FORMAT = '{"tool": '
_TYPES = ("object", "array", "string", "integer", "number", "boolean")
_PLAIN_SCHEMA = {
    "type",
    "items",
    "enum",
    "title",
    "description",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
}


@dataclass(frozen=True, slots=True)
class Reading:
    """One request as the teacher sees it.

    Attributes:
        way: How to answer: with native tool calls, with a decision in JSON, or with plain text.
        tools: The tools in sight.
        question: The last thing the user said, its first `SCANNED` characters.
        outcomes: The calls for this question, oldest first.
        feedback: The host's complaint about the last reply, or None.
        schema: The JSON Schema the reply is to follow, or None.
        next_id: A number no tool call in sight has.
        choice: The request's `tool_choice`.
        messages: The whole conversation.
        asked_at: Where in it the question stands.
        last_tool: The tool called last before this question, or None.
    """

    way: Way
    tools: tuple[ToolSpec, ...]
    question: str
    outcomes: tuple[Outcome, ...]
    feedback: str | None
    schema: Mapping[str, Any] | None
    next_id: int
    choice: str | None
    messages: tuple[Message, ...]
    asked_at: int
    last_tool: str | None


def read(request: ChatRequest) -> Reading:
    """Read a request; anything that makes no sense in it is passed over."""
    system = "\n".join(message.text for message in request.messages if message.role == "system")
    asked_at = _asked_at(request.messages)
    question = request.messages[asked_at].text if 0 <= asked_at < len(request.messages) else ""
    asked, question = _schema_told(question)
    told, system = _schema_told(system)
    schema = next((one for one in (request.response_schema, asked, told) if one is not None), None)
    decides = _FORMAT in system or _is_decision(schema)
    way: Way = "native" if request.tools else "decision" if decides else "text"
    earlier = outcomes_in(request.messages[:asked_at]) if asked_at > 0 else ()
    return Reading(
        way=way,
        tools=request.tools if way == "native" else tuple(_described_tools(system)) if decides else (),
        question=question[:SCANNED].strip(),
        outcomes=outcomes_in(request.messages[asked_at + 1 :]),
        feedback=feedback_in(request.messages),
        schema=None if decides else schema,
        next_id=_next_id(request.messages),
        choice=request.tool_choice,
        messages=request.messages,
        asked_at=asked_at,
        last_tool=earlier[-1].tool if earlier else None,
    )


def _asked_at(messages: Sequence[Message]) -> int:
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "user" and not is_host_note(messages[index]):
            return index
    return -1


def _next_id(messages: Sequence[Message]) -> int:
    ids = [call.id for message in messages for call in message.tool_calls]
    numbers = [int(found[1]) for one in ids if (found := re.fullmatch(r"call_(\d{1,9})", one))]
    return max([len(ids), *numbers]) + 1


# ---- the tools and the schema in a prompt ---------------------------------------------------------------


def _described_tools(system: str) -> Iterator[ToolSpec]:
    for line in system.split("\n"):
        plain = read_json(line) if line.lstrip().startswith("{") else None
        if isinstance(plain, dict) and isinstance(plain.get("name"), str) and "description" in plain:
            parameters = plain.get("parameters")
            yield ToolSpec(
                plain["name"],
                str(plain["description"])[:SCANNED],
                parameters if isinstance(parameters, dict) else {},
            )


def _schema_told(text: str) -> tuple[Mapping[str, Any] | None, str]:
    """The JSON Schema that a line of a text is, the first of several, and the text without such lines."""
    lines = [(line, _schema_in(line)) for line in text.split("\n")]
    schema = next((plain for _, plain in lines if plain is not None), None)
    return schema, "\n".join(line for line, plain in lines if plain is None)


def _schema_in(line: str) -> Mapping[str, Any] | None:
    plain = read_json(line) if line.lstrip().startswith("{") else None
    if not isinstance(plain, dict):
        return None
    is_form = isinstance(plain.get("properties"), dict) or isinstance(plain.get("$defs"), dict)
    is_plain = plain.get("type") in _TYPES and plain.keys() <= _PLAIN_SCHEMA
    return plain if is_form or is_plain else None


def _is_decision(schema: Mapping[str, Any] | None) -> bool:
    properties = schema.get("properties") if schema else None
    return isinstance(properties, Mapping) and {"tool", "arguments", "reply"} <= set(properties)
