"""Read a request for the rule-based model: the tools, the question, and the results so far.

Two dialects are read. In the native dialect, tools, calls and results are separate fields. In the
prompt dialect, the system prompt lists the tools as lines of JSON, and calls and results are text.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from stage0_gateway.json_fields import parse_json
from stage0_gateway.messages import Message
from stage0_gateway.request import ChatRequest, ToolSpec
from stage0_gateway.server.format import ANY_OBJECT

MAX_QUESTION = 10_000
"""The maximum number of characters of a question; the rest is ignored."""

_FEEDBACK = "[Feedback]"
_SUMMARY = "[Summary of earlier messages,"
_RESULT = re.compile(r"^\[Tool result for ([^\]\n]{1,200})\]", re.MULTILINE)
_RESULT_FILE = re.compile(r"(Image|Document|File) \d+ of the result of ")  # OpenAI's format
_OPEN_BRACE = re.compile(r"^[ \t]*\{$", re.MULTILINE)
_CALL_ID = re.compile(r"call_(\d{1,9})")


@dataclass(frozen=True, slots=True)
class Outcome:
    """A tool call made for the question, and its result.

    Attributes:
        tool: The name of the tool.
        arguments: Its arguments; empty if they are not a JSON object.
        key: Identifies the call in a result: the call id or, in the prompt dialect, the tool.
        result: The text of the result, or None if there is none yet.
        is_error: Whether the call failed.
    """

    tool: str
    arguments: Mapping[str, Any]
    key: str
    result: str | None = None
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Conversation:
    """The contents of a request.

    Attributes:
        is_prompt_dialect: Whether to answer with decisions in JSON instead of native tool calls.
        tools: The tools that may be called.
        must_call: Whether the request demands a tool call.
        question: The last message of the user.
        earlier: The messages before the question.
        outcomes: The calls made for the question, oldest first.
        feedback: The program's correction of the last reply, or None.
        schema: The JSON Schema of the reply, or None.
        next_call_id: A new id for a tool call.
    """

    is_prompt_dialect: bool
    tools: tuple[ToolSpec, ...]
    must_call: bool
    question: str
    earlier: tuple[Message, ...]
    outcomes: tuple[Outcome, ...]
    feedback: str | None
    schema: Mapping[str, Any] | None
    next_call_id: str


def read(request: ChatRequest) -> Conversation:
    """Read a request. Unknown or malformed content is ignored."""
    messages = request.messages
    system = "\n".join(message.text for message in messages if message.role == "system")
    is_prompt = '{"tool": ' in system and not request.tools
    tools = tuple(_described_tools(system)) if is_prompt else request.tools
    choice = request.tool_choice
    if choice not in (None, "auto", "required"):  # the name of a tool, or "none"
        tools = tuple(tool for tool in tools if tool.name == choice)
    position = max((at for at, message in enumerate(messages) if _is_question(message)), default=-1)
    last = messages[-1].text if messages else ""
    return Conversation(
        is_prompt_dialect=is_prompt,
        tools=tools,
        must_call=choice not in (None, "auto"),
        question=messages[position].text[:MAX_QUESTION].strip() if position >= 0 else "",
        earlier=messages[:position],
        outcomes=_outcomes(messages[position + 1 :]),
        feedback=last.removeprefix(_FEEDBACK).strip() if last.startswith(_FEEDBACK) else None,
        schema=_reply_schema(request, system, is_prompt),
        next_call_id=_next_call_id(messages),
    )


def write_json(value: Any) -> str:
    """Write a value as JSON text."""
    return json.dumps(value, ensure_ascii=False)


def _is_question(message: Message) -> bool:
    text = message.text
    is_marked = text.startswith((_FEEDBACK, _SUMMARY))
    is_from_program = is_marked or _RESULT.match(text) or _RESULT_FILE.match(text)
    return message.role == "user" and bool(text.strip()) and not is_from_program


def _next_call_id(messages: tuple[Message, ...]) -> str:
    ids = [_CALL_ID.fullmatch(call.id) for message in messages for call in message.tool_calls]
    return f"call_{max((int(found[1]) for found in ids if found), default=0) + 1}"


# ---- the system prompt


def _json_lines(text: str) -> Iterator[dict[str, Any]]:
    for line in text.split("\n"):
        value = parse_json(line) if line.startswith("{") else None
        if isinstance(value, dict):
            yield value


def _described_tools(system: str) -> Iterator[ToolSpec]:
    for line in _json_lines(system):
        match line:
            case {"name": str(name), "description": str(text), "parameters": dict(parameters)}:
                yield ToolSpec(name, text, parameters)


def _reply_schema(request: ChatRequest, system: str, is_prompt: bool) -> Mapping[str, Any] | None:
    """Return the schema of the request or, if any object is demanded, that of the system prompt.

    A decision of the prompt dialect is an object, so it needs no schema.
    """
    schema = request.response_schema
    if schema and schema != ANY_OBJECT:
        return schema
    # The first schema in a line, or in several lines from one that is an open brace.
    schemas = (line for line in _json_lines(system) if "type" in line or "properties" in line)
    described = next(schemas, None) or _indented_schema(system)
    return described or (None if is_prompt else schema)


def _indented_schema(system: str) -> Mapping[str, Any] | None:
    if (start := _OPEN_BRACE.search(system)) is None:
        return None
    try:
        value, _ = json.JSONDecoder().raw_decode(system, start.end() - 1)
    except (ValueError, RecursionError):
        return None
    return value if "properties" in value else None


# ---- calls and their results


def _outcomes(messages: tuple[Message, ...]) -> tuple[Outcome, ...]:
    outcomes: list[Outcome] = []
    for message in messages:
        if message.role == "assistant":
            outcomes.extend(_calls(message))
        elif message.role == "tool":
            _add_result(outcomes, message.tool_call_id, message.text, message.is_error)
        else:
            parts = _RESULT.split(message.text)  # text, name, result, name, result, ...
            for name, result in zip(parts[1::2], parts[2::2], strict=True):
                _add_result(outcomes, name, result, is_error=False)
    return tuple(outcomes)


def _calls(message: Message) -> Iterator[Outcome]:
    for call in message.tool_calls:
        yield Outcome(call.name, _as_object(parse_json(call.arguments)), key=call.id)
    value = parse_json(message.text.strip().removeprefix("```json").removesuffix("```"))
    for decision in value if isinstance(value, list) else [value]:
        match decision:
            case {"tool": str(tool)}:
                yield Outcome(tool, _as_object(decision.get("arguments")), key=tool)


def _as_object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _add_result(outcomes: list[Outcome], key: str | None, result: str, is_error: bool) -> None:
    """Store a result with the first call of this key that has none."""
    result = result.strip()
    for at, outcome in enumerate(outcomes):
        if outcome.result is None and outcome.key == key:
            is_error = is_error or result.startswith("Error")
            outcomes[at] = replace(outcome, result=result, is_error=is_error)
            return
