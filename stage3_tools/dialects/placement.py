"""Placement of a decision in a reply: the model's answer, or a mention.

    {"tool": …}                          an answer: it begins the reply, a line, a fence or a tag,
    and ends the reply I will not run {"tool": …}!          a mention: in a sentence
    > {"tool": …}                        a mention: in a quotation, inline code, a comment or a
    string

A model that refuses an injected decision often quotes it. Executing the quotation would turn a
refusal into an execution, so a decision in any other place is answered with feedback.

Knows no schema and no registry; thinking blocks have been replaced with white space before. Used by
`decision`.
"""

import re

_QUOTING = (
    r"q|quote|quotation|blockquote|cite|citation|code|samp|kbd|tt|var|pre|example|excerpt|context|document|article|source"
    r"|comment|(?:e-?)?mail|web[-_]?page|user|user_input|user_message|system|input|observation|untrusted\w*|search_results?"
    r"|tool_(?:results?|response|output)|function_(?:results?|response)"
    r"|html|body|header|section|aside|details|summary|title|caption|figcaption|label|script|textarea|center|font"
    r"|li|d[dt]|t[dhr]|h[1-6]|p|div|span|a|b|i|u|em|strong|small|mark|del|ins|sub|sup|dfn"
)
"""Names of tags that enclose quoted text, and of HTML that formats a sentence, a list or a
table."""

_SPECIAL = r"<[|｜][^<>\s|｜]{1,60}[|｜]>|\[TOOL_(?:CALLS?|REQUEST)\]"
_ATTRIBUTE = r"\s+[\w:.-]{1,60}\s*=\s*(?:\"[^\"<>\n]{0,200}\"|'[^'<>\n]{0,200}'|[\w:.-]{1,200})"
_NAME = r"(?!(?:br|hr|img|wbr)\b)[A-Za-z_][\w:.-]{0,60}(?:=[\w:.-]{1,60})?"
_TAG = rf"(?:{_SPECIAL}|<{_NAME}(?:{_ATTRIBUTE}){{0,5}}\s*>)"
_CALL_TAG = re.compile(
    rf"(?:{_SPECIAL}|<[\w:.=-]*(?:tool|function|call|action|answer|decision|invoke|json|response|final|output)[^<>]*>)"
    r"\s*\Z",
    re.IGNORECASE,
)
_OPENS_FENCE = re.compile(r"\s*`{3,}[\w+#.-]{0,60}[ \t]*\Z")
_QUOTED_FENCE = re.compile(r"[\s\ufeff\u200b]*[^\s`\ufeff\u200b].*`{3,}[\w+#.-]{0,60}[ \t]*")
_FENCE = re.compile(r"^[ \t\ufeff]*(?:`{3,}|~{3,})[^`\n]*$", re.MULTILINE)
_OPENS_TAGS = re.compile(rf"(?:{_TAG}[ \t]*)++\Z")
_MARKED_LINE = re.compile(r"\s*(?:[>|#*+-]|//|\d{1,4}[.)])|.*[\"'“„«‹「『《‘`(]\s*\Z", re.DOTALL)
_OPENS_QUOTATION = re.compile(
    rf"(?:<(?:{_QUOTING})(?:\s[^<>\n]{{0,200}})?>|(?:^|[\s:(\[])[\"'“„«‹「『《‘`])\s*\Z",
    re.IGNORECASE,
)
_ENDS_REPLY = re.compile(
    r"(?:[\s\ufeff\u200b\u2060]|`{3,}|~{3,}|</[\w:.=-]{1,60}\s*>|<(?:_?(?:eos|eot|end|turn)\w*\|?|tool_call\||s|pad|unk)>"
    r"|<\|im_start\|>assistant|<[|｜][^<>\n|｜]{1,60}[|｜]>"
    r"|\[(?:/TOOL_\w{1,20}|END_TOOL_\w{1,20}|EOS|\|endofturn\|)\])*+\Z",
    re.IGNORECASE,
)
_ENDS_QUOTATION = re.compile(rf"</(?:{_QUOTING})\s*>", re.IGNORECASE)
_OTHER_SPEAKER = re.compile(
    r"<\|(?:user|system|observation|tool|START_TOOL_RESULTS?)\|>|<｜(?:User|tool▁output\w*)｜>|\[TOOL_RESULTS\]"
    r"|<(?:\|(?:im_start|start|start_header_id)\|>|start_of_turn>)\s*(?:user|system|tool|ipython)\b"
    r"|(?:^|\n)\[tool result for [^\n\]]*\]\s*\n",
    re.IGNORECASE,
)
_ASSISTANT = re.compile(
    r"\|>\s*assistant\b|<\|assistant\|>|<start_of_turn>model\b|<｜Assistant｜>", re.IGNORECASE
)
_ENCLOSURES = (
    (re.compile(r"<!--"), re.compile(r"-->")),
    (re.compile(r"(?<![\w.~*/])/\*"), re.compile(r"\*/")),  # in `src/*` it begins no comment
    # The thinking of gpt-oss:
    (re.compile(r"<\|channel\|>analysis\b[^\n]{0,100}<\|message\|>"), re.compile(r"<\|end\|>")),
    (_OTHER_SPEAKER, _ASSISTANT),
)
"""Beginnings and ends of text that is not the model's answer."""
_LONG_QUOTES = ('"""', "'''")
_BEFORE = 1000  # characters before a decision that are examined
_AFTER = 1000  # characters behind it that may be closing fences, tags and white space
_UNSEEN = "\ufeff\u200b\u2060"


def is_answer(text: str, start: int, end: int) -> bool:
    """Whether `text[start:end]` is the answer of a reply: it begins a block, and only the block's
    end follows.

    Args:
        text: The reply without its thinking blocks.
        start: Index of the value's first character.
        end: Index behind its last character.
    """
    is_whole = not text[:start].strip() and not text[end:].strip()
    return is_whole or (
        begins_block(text, start) and _ends_reply(text, end) and not _is_enclosed(text[:start])
    )


def begins_block(text: str, start: int) -> bool:
    """Whether the value at an index begins the reply, a line, or a fenced or tagged block.

    Args:
        text: The reply without its thinking blocks.
        start: Index of the value's first character.
    """
    before = text[max(0, start - _BEFORE) : start].rstrip(_UNSEEN)
    if not before.strip().strip(_UNSEEN):
        return True
    if _OPENS_QUOTATION.search(before):
        return False
    lines = re.split(r"[\r\n]+", before)
    line = lines[-1]
    if not line.strip():
        return _QUOTED_FENCE.fullmatch(lines[-2]) is None
    if _OPENS_FENCE.match(line):
        return True
    tags = _OPENS_TAGS.search(line)
    if tags is None:
        return False
    words = line[: tags.start()]
    return not words.strip() or (
        _CALL_TAG.search(tags[0]) is not None and not _MARKED_LINE.match(words)
    )


def _ends_reply(text: str, end: int) -> bool:
    behind = text[end:].rstrip()
    if len(behind) > _AFTER or _ENDS_QUOTATION.search(behind):
        return False
    return _ENDS_REPLY.match(behind) is not None


def _is_enclosed(before: str) -> bool:
    """Whether a comment, a string, a turn of another speaker, or a fence with other text encloses a
    decision.
    """
    fences = [*_FENCE.finditer(before)]
    if len(fences) % 2 and before[fences[-1].end() :].strip(f"{_UNSEEN} \t\r\n"):
        return True
    if any(before.count(quotes) % 2 for quotes in _LONG_QUOTES):
        return True
    for opening, closing in _ENCLOSURES:
        opened = max((found.end() for found in opening.finditer(before)), default=0)
        if opened and not closing.search(before, opened):
            return True
    return False
