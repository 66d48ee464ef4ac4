"""The decision a model writes as JSON text: call a tool, or answer.

    {"tool": "get_weather", "arguments": {"city": "Shanghai"}}
    {"tool": null, "reply": "It is 22 degrees in Shanghai."}

One reply, one decision; or, for models that may ask for several tools at once, a JSON list of calls. The text is
stage 2's to read; a reply that is no decision is answered with feedback and never run. Used by the prompt dialect;
knows no registry.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from stage2_output import CompiledSchema, Issue, OutputController, ParseResult, Repair

TOOL_DECISION_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "tool": {"type": ["string", "null"]},
        "arguments": {"type": ["object", "null"]},
        "reply": {"type": ["string", "null"]},
    },
    "required": ["tool"],
    "if": {"properties": {"tool": {"type": "null"}}},
    "then": {"required": ["reply"], "properties": {"tool": {}, "arguments": {}, "reply": {"type": "string"}}},
}
"""What a decision must be. Missing arguments mean none; the tool's own schema says whether that will do."""

_CALL = {
    "type": "object",
    "properties": {**TOOL_DECISION_SCHEMA["properties"], "tool": {"type": "string"}},
    "required": ["tool"],
}
_DECISIONS: Mapping[str, Any] = {
    "anyOf": [TOOL_DECISION_SCHEMA, {"type": "array", "minItems": 1, "items": _CALL}]
}


_NO_WORDS = re.compile(r"(?:[\s,;]|```\w*)*")
_SEVERAL = Issue(
    "", "There are several JSON values, and only one is read. Write all calls as one list.", "json"
)


@cache
def _compiled(several: bool) -> CompiledSchema:
    return CompiledSchema(_DECISIONS if several else TOOL_DECISION_SCHEMA)


@dataclass(frozen=True, slots=True)
class ToolDecision:
    """What the model decided.

    Attributes:
        tool: The tool to call, or None to answer.
        arguments: The tool's arguments, unchecked.
        reply: The answer; what the model said besides, if a tool is called; or None.
        repairs: What had to be mended in its JSON to read it.
    """

    tool: str | None
    arguments: dict[str, Any] = field(default_factory=dict)
    reply: str | None = None
    repairs: tuple[Repair, ...] = field(default=(), repr=False, compare=False)


def parse_tool_decision(
    controller: OutputController, text: str, *, finish_reason: str | None = None
) -> ToolDecision | ParseResult:
    """Read a model's reply as a decision.

    Args:
        controller: Stage 2's reader.
        text: The reply.
        finish_reason: Why the model stopped; after "length" nothing in the reply is used.

    Returns:
        The decision, or the `ParseResult` that says what is wrong.
    """
    result = _read(controller, text, _compiled(several=False), finish_reason)
    return _decision(result, result.data) if result.success else result


def parse_tool_decisions(
    controller: OutputController, text: str, *, finish_reason: str | None = None
) -> tuple[ToolDecision, ...] | ParseResult:
    """Read a model's reply as a decision, or as a list of calls.

    Args:
        controller: Stage 2's reader.
        text: The reply.
        finish_reason: Why the model stopped; after "length" nothing in the reply is used.

    Returns:
        The decisions in the order they were written, or the `ParseResult` that says what is wrong.
    """
    result = _read(controller, text, _compiled(several=True), finish_reason)
    if not result.success:
        return result
    if _is_not_alone(controller, text, result):
        return replace(result, success=False, data=None, errors=(_SEVERAL,), extraction=None)
    written = result.data if isinstance(result.data, list) else [result.data]
    return tuple(_decision(result, each) for each in written)


def _is_not_alone(controller: OutputController, text: str, result: ParseResult) -> bool:
    """Whether calls stand right before the JSON that was read: whoever writes one after the other means both.

    With words between them the first may be a draft.
    """
    before = text[: result.extraction.start] if result.extraction else ""
    if "{" not in before:
        return False
    other = _read(controller, before, _compiled(several=True), None)
    if not other.success or other.extraction is None or not _NO_WORDS.fullmatch(before, other.extraction.end):
        return False
    return isinstance(other.data, list) or other.data["tool"] is not None


def _read(
    controller: OutputController, text: str, schema: CompiledSchema, finish_reason: str | None
) -> ParseResult:
    result = controller.parse_and_validate(text, schema, truncated=finish_reason == "length")
    if result.success and result.extraction is not None and result.extraction.source == "thinking":
        thought = Issue("", "There is JSON in your thoughts only, and thoughts are not acted on.", "json")
        return replace(result, success=False, data=None, errors=(thought,), extraction=None)
    return result


def _decision(result: ParseResult, data: Mapping[str, Any]) -> ToolDecision:
    repairs = result.extraction.repairs if result.extraction else ()
    if data["tool"] is None:
        return ToolDecision(None, reply=data["reply"], repairs=repairs)
    return ToolDecision(data["tool"], data.get("arguments") or {}, data.get("reply"), repairs)
