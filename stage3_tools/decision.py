"""Parse the decision that a model writes as JSON text: call a tool, or reply.

    {"tool": "get_weather", "arguments": {"city": "Shanghai"}}
    {"tool": null, "reply": "It is 22 degrees in Shanghai."}

A reply contains one decision, or a JSON list of calls if several are allowed. Stage 2 finds and
validates the JSON. Then three rules decide whether it is used:

    position    the decision must be the answer itself, not a mention
    write       a call that may change something must be the whole reply
    arguments   they must be under the key "arguments"

A model that refuses an injected decision often quotes it. Every reply without a decision leads to
feedback and runs nothing. `reading/` contains the rules. Used by the prompt dialect.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal

from stage0_gateway import normalize_finish_reason
from stage2_output import (
    CompiledSchema,
    Extraction,
    Issue,
    OutputController,
    ParseResult,
    Repair,
    find_json,
    thinking_blocks,
    without_thinking,
)
from stage3_tools.reading.keys import misplaced_arguments
from stage3_tools.reading.position import begins_block, is_answer, is_whole
from stage3_tools.registry import ToolRegistry
from stage3_tools.tool import Tool

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
"""The JSON Schema of a decision. Missing arguments mean `{}`; the tool's own schema validates
them."""

_TYPED_DECISION: Mapping[str, Any] = {
    **TOOL_DECISION_SCHEMA,
    "properties": {**TOOL_DECISION_SCHEMA["properties"], "reply": {}},
    "then": {"required": ["reply"]},
    "else": {"properties": {"reply": TOOL_DECISION_SCHEMA["properties"]["reply"]}},
}
"""The schema of a decision whose reply is any JSON value; the output type validates it."""

_CALL = {
    "type": "object",
    "properties": {**TOOL_DECISION_SCHEMA["properties"], "tool": {"type": "string"}},
    "required": ["tool"],
}
_LIST = {"type": ["object", "array"], "minItems": 1, "items": _CALL}

Strict = Literal["writes", "always", "never"]
"""Which calls must be the whole reply."""

WHOLE_REPLY = "whole_reply"
"""The rule of the issue about a call that must be the whole reply, but is not."""

_IN_THINKING = "There is JSON in your thoughts only, and thoughts are not acted on."
_MENTIONED = "The JSON is part of other text, so it counts as quoted and was not used."
_IN_STRING = "The decision is in a string, so it counts as quoted. Write the object itself."
_UNFINISHED = "The reply contains unfinished JSON, so nothing behind it was used."
_AMBIGUOUS = "The reply contains two different decisions, so neither was used."
_ADJACENT = "There are several JSON values, and only one is read. Write all calls as one list."
_NOT_WHOLE = (
    "{tools} was not run. It may change something, so its call must be the whole reply, without "
    "words beside it."
)
_NOT_INTENDED = 'If you do not want to call it: {"tool": null, "reply": "<your answer>"}'
_LONGEST_REPETITION = 500  # characters

_KEYS = TOOL_DECISION_SCHEMA["properties"].keys()
_CLOSING_REPAIRS = {"missing_closer", "missing_quote"}
_STRING_REPAIRS = {"double_encoded", "escaped_json"}


@dataclass(frozen=True, slots=True)
class ToolDecision:
    """A decision of the model: call a tool, or reply.

    Attributes:
        tool: The tool to call, or None for a reply.
        arguments: The arguments; the tool's schema has not validated them yet.
        reply: The reply; with a call, the text that accompanies it; or None.
        repairs: The repairs that the JSON needed.
    """

    tool: str | None
    arguments: dict[str, Any] = field(default_factory=dict)
    reply: str | None = None
    repairs: tuple[Repair, ...] = field(default=(), repr=False, compare=False)


def parse_tool_decision(
    controller: OutputController,
    text: str,
    *,
    finish_reason: str | None = None,
    whole: bool = False,
) -> ToolDecision | ParseResult:
    """Parse a model's reply as one decision.

    Args:
        controller: The parser of stage 2.
        text: The reply.
        finish_reason: The reason why the model stopped, normalized or as the server wrote it. A
            truncated reply contains no decision.
        whole: Whether a call must be the whole reply, as a call of a tool with the effect "write"
            must be.

    Returns:
        The decision, or a `ParseResult` with the issues.
    """
    if finish_reason and normalize_finish_reason(finish_reason, has_calls=False) == "length":
        return controller.parse_and_validate(text, TOOL_DECISION_SCHEMA, truncated=True)
    rules = DecisionRules(multiple=False, strict="always" if whole else "never")
    decisions = parse_tool_decisions(controller, text, rules=rules)
    return decisions if isinstance(decisions, ParseResult) else decisions[0]


@dataclass(frozen=True, slots=True)
class DecisionRules:
    """What counts as a decision.

    Attributes:
        multiple: Whether a list of calls is allowed.
        strict: Which calls must be the whole reply: those of tools with the effect "write"
            ("writes"), all ("always"), or none ("never").
        thinking_opened: Whether the chat template opens the thinking, so that the first closing tag
            ends it.
        output: The JSON Schema of replies; the decision's `reply` is the JSON text of the value. A
            valid value that is not inside of a decision is a reply, too. None: replies are texts.
    """

    multiple: bool = True
    strict: Strict = "writes"
    thinking_opened: bool = False
    output: Any = None


def parse_tool_decisions(
    controller: OutputController,
    text: str,
    registry: ToolRegistry | None = None,
    rules: DecisionRules | None = None,
) -> tuple[ToolDecision, ...] | ParseResult:
    """Parse a complete reply as a decision or as a list of calls.

    Args:
        controller: The parser of stage 2.
        text: The reply.
        registry: The tools, whose effects and parameters the rules use; None is an empty one.
        rules: What counts as a decision; None is `DecisionRules()`.

    Returns:
        The decisions in the order of the text, or a `ParseResult` with the issues.
    """
    rules = rules or DecisionRules()
    reply, is_typed = _Reply(text, rules.thinking_opened), rules.output is not None
    schema = _schema(rules.multiple, is_typed)
    result = controller.parse_and_validate(reply.answer, schema)
    if reply.answer is not text:
        result = replace(result, raw=text)
    found = result.extraction
    if is_typed and not result.success and (value := _bare_value(controller, reply, rules.output)):
        return (value,)
    if found is None:
        is_thought = _has_brace(text) and not _has_brace(reply.answer)
        return _rejected(result, Issue("", _IN_THINKING, "json")) if is_thought else result
    if not result.success:
        return result
    values = result.data if isinstance(result.data, list) else [result.data]
    tools = _tools(values, ToolRegistry() if registry is None else registry)
    # A reply that is one JSON value, and nothing else, has no position to judge.
    is_bare = (found.start, found.end) == (0, len(text)) and not found.repairs
    if not is_bare and (problem := _position_problem(result, reply, schema, tools, rules)):
        return _rejected(result, problem)
    if issues := tuple(_misplaced(result.data, tools)):
        return replace(result, success=False, data=None, errors=issues)
    return tuple([_decision(value, found.repairs, is_typed) for value in values])


class _Reply:
    """A reply, as the rules of the position see it.

    Attributes:
        visible: The text without closed thinking blocks.
        answer: The text without all thinking blocks, but for those whose opening tag is missing.
    """

    def __init__(self, text: str, thinking_opened: bool) -> None:
        blocks = thinking_blocks(text, opened=thinking_opened)
        self._unopened = [
            block for block in blocks if block.opening is None and not thinking_opened
        ]
        opened = [block for block in blocks if block not in self._unopened]
        self.answer = without_thinking(text, opened)
        closed = [block for block in opened if block.is_closed or block.opening is None]
        self.visible = self.answer if closed == opened else without_thinking(text, closed)

    def answer_of(self, found: Extraction, schema: CompiledSchema, *, is_call: bool) -> str:
        """Return the text in which the position of a decision is judged.

        A closing tag without an opening one ends thoughts if they contain no complete decision. For
        a call, the tag must also end its line: an injected text may contain such a tag.
        """
        for block in self._unopened:
            line = self.answer[block.end : block.end + 1000].partition("\n")[0]
            if block.end > found.start or (is_call and line.strip()):
                continue
            thoughts = self.answer[: block.end]
            if not any(schema.fits(value.value) for value in find_json(thoughts)[0]):
                return without_thinking(self.answer, [block])
        return self.answer


@cache
def _schema(multiple: bool, is_typed: bool) -> CompiledSchema:
    decision = _TYPED_DECISION if is_typed else TOOL_DECISION_SCHEMA
    return CompiledSchema({**decision, **_LIST} if multiple else decision)


def _decision(
    value: Mapping[str, Any], repairs: tuple[Repair, ...] = (), is_typed: bool = False
) -> ToolDecision:
    if value["tool"] is None:
        reply = value["reply"]
        text = json.dumps(reply, ensure_ascii=False) if is_typed else reply
        return ToolDecision(None, reply=text, repairs=repairs)
    return ToolDecision(value["tool"], value.get("arguments") or {}, value.get("reply"), repairs)


def _bare_value(controller: OutputController, reply: _Reply, output: Any) -> ToolDecision | None:
    """Return the reply of a model that wrote its typed answer without a decision around it."""
    result = controller.parse_and_validate(reply.answer, output)
    found = result.extraction
    if found is None or not result.success or not is_answer(reply.answer, found.start, found.end):
        return None
    values = found.value if isinstance(found.value, list) else [found.value]
    if any(isinstance(value, dict) and "tool" in value for value in values):
        return None  # an invalid decision
    return _decision({"tool": None, "reply": found.value}, found.repairs, is_typed=True)


def _has_brace(text: str) -> bool:
    return "{" in text or "｛" in text


def _rejected(result: ParseResult, issue: Issue) -> ParseResult:
    return replace(result, success=False, data=None, errors=(issue,), extraction=None)


def _tools(values: Sequence[Mapping[str, Any]], registry: ToolRegistry) -> dict[str, Tool | None]:
    """Return the tools that decisions call, by name; None for an unknown tool."""
    names = [value["tool"] for value in values if value["tool"] is not None]
    return {name: registry.get(name) if name in registry else None for name in names}


def _misplaced(data: Any, tools: Mapping[str, Tool | None]) -> Iterator[Issue]:
    """Yield the issues about arguments under another key."""
    is_list = isinstance(data, list)
    for index, value in enumerate(data if is_list else [data]):
        if value["tool"] is not None and not value.keys() <= _KEYS:
            tool = tools[value["tool"]]
            schema = tool.parameters if tool and tool.parameters else {}
            path = f"/{index}" if is_list else ""
            yield from misplaced_arguments(value, schema.get("properties", {}), path)


def _position_problem(
    result: ParseResult,
    reply: _Reply,
    schema: CompiledSchema,
    tools: Mapping[str, Tool | None],
    rules: DecisionRules,
) -> Issue | None:
    """Return why a decision is not used at its position; None if it is."""
    found = result.extraction
    assert found is not None
    repairs, end = {repair.name for repair in found.repairs}, found.end
    while "extra_closer" in repairs and reply.answer[end : end + 1] in [*"]} \t\r\n"]:
        end += 1
    is_string = bool(repairs & _STRING_REPAIRS)  # a decision inside a string is a quotation
    is_alone = not is_string and is_whole(reply.visible, found.start, end)
    answer = reply.answer_of(found, schema, is_call=bool(tools))
    if not is_alone and (problem := _conflict(result, answer, found, schema, rules)):
        return Issue("", problem, "json")
    if is_string:
        return Issue("", _IN_STRING, "json")
    strict_tools = [name for name, tool in tools.items() if _must_be_whole(tool, rules.strict)]
    if strict_tools and (not is_alone or "comment" in repairs):
        return _not_whole(result.data, strict_tools)
    if not is_alone and not is_answer(answer, found.start, end):
        return Issue("", _MENTIONED, "json")
    return None


def _must_be_whole(tool: Tool | None, strict: Strict) -> bool:
    return strict == "always" or (
        strict == "writes" and tool is not None and tool.effect == "write"
    )


def _not_whole(data: Any, tools: Sequence[str]) -> Issue:
    """The issue about a call that must be the whole reply; its hint repeats the call."""
    text = json.dumps(data, ensure_ascii=False)
    if len(text) > _LONGEST_REPETITION:
        text = text[: _LONGEST_REPETITION - 1] + "…"
    return Issue(
        "", _NOT_WHOLE.format(tools=", ".join(tools)), WHOLE_REPLY, hint=f"{text}\n{_NOT_INTENDED}"
    )


def _conflict(
    result: ParseResult,
    answer: str,
    found: Extraction,
    schema: CompiledSchema,
    rules: DecisionRules,
) -> str:
    """Return the conflict of a decision with the text before it, or "".

    An unfinished value may be an answer that quotes the decision. A different decision that begins
    a line, fence or tag makes the reply ambiguous. If a list of calls is allowed, two equal calls
    are two calls.
    """
    if not _has_brace(answer[: found.start]):
        return ""
    for other in find_json(answer)[0]:
        if other.start >= found.start:
            break
        if any(repair.name in _CLOSING_REPAIRS for repair in other.repairs):
            return _UNFINISHED
        if not schema.fits(other.value) or not begins_block(answer, other.start):
            continue
        if rules.multiple:
            return _ADJACENT
        if _decision(other.value) != _decision(result.data):
            return _AMBIGUOUS
    return ""
