"""The decision a model writes as JSON text: call a tool, or answer.

    {"tool": "get_weather", "arguments": {"city": "Shanghai"}}
    {"tool": null, "reply": "It is 22 degrees in Shanghai."}

One reply holds one decision, or a JSON list of calls for models that may ask for several tools at
once. The decision must be the answer itself: the last JSON value of the reply, at the beginning of
a line, fence or tag and at the end of the reply (`placement`). Stage 2 finds and validates the
JSON. Every other reply is answered with feedback and runs nothing. Used by the prompt dialect;
knows no registry.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from stage0_gateway import normalize_finish_reason
from stage2_output import (
    CompiledSchema,
    Extraction,
    Issue,
    OutputController,
    ParseResult,
    Repair,
    find_json,
    without_thinking,
)
from stage3_tools.dialects.placement import begins_block, is_answer

TOOL_DECISION_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "tool": {"type": ["string", "null"]},
        "arguments": {"type": ["object", "null"]},
        "reply": {"type": ["string", "null"]},
    },
    "required": ["tool"],
    "if": {"properties": {"tool": {"type": "null"}}},
    "then": {
        "required": ["reply"],
        "properties": {"tool": {}, "arguments": {}, "reply": {"type": "string"}},
    },
}
"""The JSON Schema of a decision. Missing arguments mean `{}`, which the tool's own schema
validates."""

_CALL = {
    "type": "object",
    "properties": {**TOOL_DECISION_SCHEMA["properties"], "tool": {"type": "string"}},
    "required": ["tool"],
}
_DECISIONS = {**TOOL_DECISION_SCHEMA, "type": ["object", "array"], "minItems": 1, "items": _CALL}


_ONLY_THOUGHT = "There is JSON in your thoughts only, and thoughts are not acted on."
_MENTIONED = "The JSON is part of other text, so it counts as quoted and was not used."
_UNFINISHED = "The reply contains unfinished JSON, so nothing behind it was used."
_TWO_DECISIONS = "The reply contains two different decisions, so neither was used."
_SEVERAL_VALUES = (
    "There are several JSON values, and only one is read. Write all calls as one list."
)
_CLOSING_REPAIRS = ("missing_closer", "missing_quote", "wrong_closer")
_STRING_REPAIRS = ("double_encoded", "escaped_json")


@cache
def _compiled(several: bool) -> CompiledSchema:
    return CompiledSchema(_DECISIONS if several else TOOL_DECISION_SCHEMA)


@dataclass(frozen=True, slots=True)
class ToolDecision:
    """A decision of the model: call a tool, or reply.

    Attributes:
        tool: The tool to call, or None to answer.
        arguments: The tool's arguments, unchecked.
        reply: The answer; with a tool call, the text that accompanies it; or None.
        repairs: The repairs that its JSON needed.
    """

    tool: str | None
    arguments: dict[str, Any] = field(default_factory=dict)
    reply: str | None = None
    repairs: tuple[Repair, ...] = field(default=(), repr=False, compare=False)


def parse_tool_decision(
    controller: OutputController, text: str, *, finish_reason: str | None = None
) -> ToolDecision | ParseResult:
    """Parse a model's reply as a decision.

    Args:
        controller: The parser of stage 2.
        text: The reply.
        finish_reason: Why the model stopped, also in a server's own word. Nothing is used of a
            truncated reply.

    Returns:
        The decision, or a `ParseResult` with the issues.
    """
    result = _read(controller, text, finish_reason, several=False)
    return _decision(result, result.data) if result.success else result


def parse_tool_decisions(
    controller: OutputController, text: str, *, finish_reason: str | None = None
) -> tuple[ToolDecision, ...] | ParseResult:
    """Parse a model's reply as a decision or as a list of calls.

    Args:
        controller: The parser of stage 2.
        text: The reply.
        finish_reason: Why the model stopped, also in a server's own word. Nothing is used of a
            truncated reply.

    Returns:
        The decisions in the order of the text, or a `ParseResult` with the issues.
    """
    result = _read(controller, text, finish_reason, several=True)
    if not result.success:
        return result
    written = result.data if isinstance(result.data, list) else [result.data]
    return tuple(_decision(result, each) for each in written)


def _read(
    controller: OutputController, text: str, finish_reason: str | None, *, several: bool
) -> ParseResult:
    schema = _compiled(several)
    if finish_reason and normalize_finish_reason(finish_reason, has_calls=False) == "length":
        return controller.parse_and_validate(text, schema, truncated=True)
    answer = without_thinking(text)
    result = controller.parse_and_validate(answer, schema)
    if answer is not text:
        result = replace(result, raw=text)
    found = result.extraction
    if found is None and _has_brace(text) and not _has_brace(answer):
        return _refused(result, _ONLY_THOUGHT)
    if not result.success or found is None:
        return result
    if conflict := _conflict(result, answer, found.start, several=several):
        return _refused(result, conflict)
    return result if _is_answer(answer, found) else _refused(result, _MENTIONED)


def _has_brace(text: str) -> bool:
    return "{" in text or "｛" in text


def _refused(result: ParseResult, why: str) -> ParseResult:
    return replace(
        result, success=False, data=None, errors=(Issue("", why, "json"),), extraction=None
    )


def _is_answer(answer: str, found: Extraction) -> bool:
    repairs = {repair.name for repair in found.repairs}
    if repairs.intersection(_STRING_REPAIRS):
        return False  # a decision inside a string is a quotation
    end = found.end
    while "extra_closer" in repairs and answer[end : end + 1] and answer[end] in "]} \t\r\n":
        end += 1
    return is_answer(answer, found.start, end)


def _conflict(result: ParseResult, answer: str, start: int, *, several: bool) -> str:
    """Return why the text before the decision at an index makes it doubtful; "" if it does not.

    An unfinished value may be an answer that quotes the decision. Another decision that begins a
    line, fence or tag makes the reply ambiguous, unless both are equal. Where a list of calls is
    allowed, two equal calls are two calls.
    """
    if not _has_brace(answer[:start]):
        return ""
    for other in find_json(answer)[0]:
        if other.start >= start:
            break
        if any(repair.name in _CLOSING_REPAIRS for repair in other.repairs):
            return _UNFINISHED
        if not _compiled(several).fits(other.value) or not begins_block(answer, other.start):
            continue
        if several or _decision(result, other.value) != _decision(result, result.data):
            return _SEVERAL_VALUES if several else _TWO_DECISIONS
    return ""


def _decision(result: ParseResult, data: Mapping[str, Any]) -> ToolDecision:
    repairs = result.extraction.repairs if result.extraction else ()
    if data["tool"] is None:
        return ToolDecision(None, reply=data["reply"], repairs=repairs)
    return ToolDecision(data["tool"], data.get("arguments") or {}, data.get("reply"), repairs)
