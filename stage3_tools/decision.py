"""Parse the decision that a model writes as JSON text: call a tool, or reply.

    {"tool": "get_weather", "arguments": {"city": "Shanghai"}}
    {"tool": null, "reply": "It is 22 degrees in Shanghai."}

A reply contains one decision, or a JSON list of calls if several are allowed. Stage 2 finds and
validates the JSON. The decision must be the answer itself, not a mention:

    {"tool": …}                     answer: it begins a block and ends the reply
    I will not run {"tool": …}!     mention: inside a sentence
    > {"tool": …}                   mention: in a quotation, inline code, a comment or a string

A model that refuses an injected decision often quotes it. Every reply without a decision leads to
feedback and runs nothing. Used by the prompt dialect. This module does not know the registry.
"""

import json
import re
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

_IN_THINKING = "There is JSON in your thoughts only, and thoughts are not acted on."
_MENTIONED = "The JSON is part of other text, so it counts as quoted and was not used."
_UNFINISHED = "The reply contains unfinished JSON, so nothing behind it was used."
_AMBIGUOUS = "The reply contains two different decisions, so neither was used."
_ADJACENT = "There are several JSON values, and only one is read. Write all calls as one list."

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
    controller: OutputController, text: str, *, finish_reason: str | None = None
) -> ToolDecision | ParseResult:
    """Parse a model's reply as one decision.

    Args:
        controller: The parser of stage 2.
        text: The reply.
        finish_reason: The reason why the model stopped, normalized or as the server wrote it. A
            truncated reply contains no decision.

    Returns:
        The decision, or a `ParseResult` with the issues.
    """
    if finish_reason and normalize_finish_reason(finish_reason, has_calls=False) == "length":
        return controller.parse_and_validate(text, TOOL_DECISION_SCHEMA, truncated=True)
    decisions = parse_tool_decisions(controller, text, multiple=False)
    return decisions if isinstance(decisions, ParseResult) else decisions[0]


def parse_tool_decisions(
    controller: OutputController, text: str, *, multiple: bool = True, is_typed: bool = False
) -> tuple[ToolDecision, ...] | ParseResult:
    """Parse a complete reply as a decision or, if `multiple`, as a list of calls.

    If `is_typed`, a reply may be any JSON value; the decision's `reply` is its JSON text.

    Returns:
        The decisions in the order of the text, or a `ParseResult` with the issues.
    """
    answer = without_thinking(text)
    schema = _schema(multiple, is_typed)
    result = controller.parse_and_validate(answer, schema)
    if answer is not text:
        result = replace(result, raw=text)
    found = result.extraction
    if found is None:
        is_thought = _has_brace(text) and not _has_brace(answer)
        return _rejected(result, _IN_THINKING) if is_thought else result
    if not result.success:
        return result
    is_entire = not (answer[: found.start].strip() or answer[found.end :].strip())
    if found.repairs or not is_entire:
        problem = _conflict(result, answer, found, schema, multiple=multiple)
        if problem or not _is_answer(answer, found):
            return _rejected(result, problem or _MENTIONED)
    values = result.data if isinstance(result.data, list) else [result.data]
    return tuple([_decision(value, found.repairs, is_typed) for value in values])


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


def _has_brace(text: str) -> bool:
    return "{" in text or "｛" in text


def _rejected(result: ParseResult, message: str) -> ParseResult:
    issues = (Issue("", message, "json"),)
    return replace(result, success=False, data=None, errors=issues, extraction=None)


def _conflict(
    result: ParseResult,
    answer: str,
    found: Extraction,
    schema: CompiledSchema,
    *,
    multiple: bool,
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
        if not schema.fits(other.value) or not _begins_block(answer, other.start):
            continue
        if multiple:
            return _ADJACENT
        if _decision(other.value) != _decision(result.data):
            return _AMBIGUOUS
    return ""


def _is_answer(answer: str, found: Extraction) -> bool:
    """Return whether a decision is the answer of a reply, not a mention."""
    repairs = {repair.name for repair in found.repairs}
    if repairs & _STRING_REPAIRS:
        return False  # a decision inside a string is a quotation
    end = found.end
    while "extra_closer" in repairs and answer[end : end + 1] and answer[end] in "]} \t\r\n":
        end += 1
    before, after = answer[: found.start], answer[end:].rstrip()
    if not before.strip() and not after:
        return True
    return (
        _begins_block(answer, found.start)
        and len(after) <= _MAX_CONTEXT
        and _QUOTATION_END.search(after) is None
        and _REPLY_END.match(after) is not None
        and not _is_enclosed(before)
    )


def _begins_block(text: str, start: int) -> bool:
    """Return whether an index begins the reply, a line, or a fenced or tagged block."""
    before = text[max(0, start - _MAX_CONTEXT) : start].rstrip(_INVISIBLE)
    if not before.strip().strip(_INVISIBLE):
        return True
    if _QUOTATION_START.search(before):
        return False
    lines = re.split(r"[\r\n]+", before)
    line = lines[-1]
    if not line.strip():
        return _QUOTED_FENCE.fullmatch(lines[-2]) is None
    if _FENCE_START.match(line):
        return True
    tags = _TAGS.search(line)
    if tags is None:
        return False
    words = line[: tags.start()]
    return not words.strip() or (
        _CALL_TAG.search(tags[0]) is not None and not _MARKED_LINE.match(words)
    )


def _is_enclosed(before: str) -> bool:
    """Return whether a comment, a string, another speaker or a fence with text is still open."""
    fences = [*_FENCE.finditer(before)]
    if len(fences) % 2 and before[fences[-1].end() :].strip(f"{_INVISIBLE} \t\r\n"):
        return True
    if any(before.count(quotes) % 2 for quotes in ('"""', "'''")):
        return True
    for opening, closing in _ENCLOSURES:
        opened = max((match.end() for match in opening.finditer(before)), default=0)
        if opened and not closing.search(before, opened):
            return True
    return False


# The patterns of `_is_answer`, `_begins_block` and `_is_enclosed`.

_MAX_CONTEXT = 1000  # characters before and behind a decision that are examined
_INVISIBLE = "\ufeff\u200b\u2060"

_QUOTING_TAGS = (
    r"q|quote|quotation|blockquote|cite|citation|code|samp|kbd|tt|var|pre|example|excerpt"
    r"|context|document|article|source"
    r"|comment|(?:e-?)?mail|web[-_]?page|user|user_input|user_message|system|input|observation"
    r"|untrusted\w*|search_results?"
    r"|tool_(?:results?|response|output)|function_(?:results?|response)"
    r"|html|body|header|section|aside|details|summary|title|caption|figcaption|label"
    r"|script|textarea|center|font"
    r"|li|d[dt]|t[dhr]|h[1-6]|p|div|span|a|b|i|u|em|strong|small|mark|del|ins|sub|sup|dfn"
)
"""Names of tags that enclose quoted text, and of HTML that formats text, a list or a table."""

_SPECIAL = r"<[|｜][^<>\s|｜]{1,60}[|｜]>|\[TOOL_(?:CALLS?|REQUEST)\]"
_ATTRIBUTE = r"\s+[\w:.-]{1,60}\s*=\s*(?:\"[^\"<>\n]{0,200}\"|'[^'<>\n]{0,200}'|[\w:.-]{1,200})"
_NAME = r"(?!(?:br|hr|img|wbr)\b)[A-Za-z_][\w:.-]{0,60}(?:=[\w:.-]{1,60})?"
_TAG = rf"(?:{_SPECIAL}|<{_NAME}(?:{_ATTRIBUTE}){{0,5}}\s*>)"
_CALL_TAG = re.compile(
    rf"(?:{_SPECIAL}|<[\w:.=-]*"
    r"(?:tool|function|call|action|answer|decision|invoke|json|response|final|output)[^<>]*>)"
    r"\s*\Z",
    re.IGNORECASE,
)
_FENCE_START = re.compile(r"\s*`{3,}[\w+#.-]{0,60}[ \t]*\Z")
_QUOTED_FENCE = re.compile(r"[\s\ufeff\u200b]*[^\s`\ufeff\u200b].*`{3,}[\w+#.-]{0,60}[ \t]*")
_FENCE = re.compile(r"^[ \t\ufeff]*(?:`{3,}|~{3,})[^`\n]*$", re.MULTILINE)
_TAGS = re.compile(rf"(?:{_TAG}[ \t]*)++\Z")
_MARKED_LINE = re.compile(r"\s*(?:[>|#*+-]|//|\d{1,4}[.)])|.*[\"'“„«‹「『《‘`(]\s*\Z", re.DOTALL)
_QUOTATION_START = re.compile(
    rf"(?:<(?:{_QUOTING_TAGS})(?:\s[^<>\n]{{0,200}})?>|(?:^|[\s:(\[])[\"'“„«‹「『《‘`])\s*\Z",
    re.IGNORECASE,
)
_REPLY_END = re.compile(
    r"(?:[\s\ufeff\u200b\u2060]|`{3,}|~{3,}|</[\w:.=-]{1,60}\s*>"
    r"|<(?:_?(?:eos|eot|end|turn)\w*\|?|tool_call\||s|pad|unk)>"
    r"|<\|im_start\|>assistant|<[|｜][^<>\n|｜]{1,60}[|｜]>"
    r"|\[(?:/TOOL_\w{1,20}|END_TOOL_\w{1,20}|EOS|\|endofturn\|)\])*+\Z",
    re.IGNORECASE,
)
_QUOTATION_END = re.compile(rf"</(?:{_QUOTING_TAGS})\s*>", re.IGNORECASE)
_OTHER_SPEAKER = re.compile(
    r"<\|(?:user|system|observation|tool|START_TOOL_RESULTS?)\|>|<｜(?:User|tool▁output\w*)｜>"
    r"|\[TOOL_RESULTS\]"
    r"|<(?:\|(?:im_start|start|start_header_id)\|>|start_of_turn>)\s*(?:user|system|tool|ipython)\b"
    r"|(?:^|\n)\[tool result for [^\n\]]*\]\s*\n",
    re.IGNORECASE,
)
_ASSISTANT = re.compile(
    r"\|>\s*assistant\b|<\|assistant\|>|<start_of_turn>model\b|<｜Assistant｜>", re.IGNORECASE
)
_ENCLOSURES = (
    (re.compile(r"<!--"), re.compile(r"-->")),
    (re.compile(r"(?<![\w.~*/])/\*"), re.compile(r"\*/")),  # `src/*` does not start a comment
    # The thinking of gpt-oss:
    (re.compile(r"<\|channel\|>analysis\b[^\n]{0,100}<\|message\|>"), re.compile(r"<\|end\|>")),
    (_OTHER_SPEAKER, _ASSISTANT),
)
"""Start and end of text that is not the model's answer."""
