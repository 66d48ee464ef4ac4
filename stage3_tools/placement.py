"""Placement of a decision in a reply: the model's answer, or a mention.

    {"tool": …}                          an answer: it begins the reply, a line, a fence or a tag, and ends the reply
    I will not run {"tool": …}!          a mention: in a sentence
    > {"tool": …}                        a mention: in a quotation, inline code, a comment or a string

A model that refuses an injected decision often quotes it. Executing the quotation would turn a refusal into an
execution, so a decision in any other place is answered with feedback.

Knows no schema and no registry; thinking blocks have been replaced with white space before. Used by `decision`.
"""

import re

_QUOTING = (
    r"q|quote|quotation|blockquote|cite|citation|code|samp|kbd|example|excerpt|context|document|page|webpage|article"
    r"|source|e?mail|user|system|input|untrusted\w*|tool_(?:results?|response|output)|function_(?:results?|response)"
    r"|search_results?|li|d[dt]|t[dhr]|h[1-6]|p|div|span|a|b|i|em|strong"
)
"""Names of tags that enclose quoted text, and of HTML that formats a sentence, a list or a table."""

_TAG = r"(?:<[\w|｜][^<>\n]{0,200}>|\[TOOL_[A-Z]{1,20}\])"
_OPENS_BLOCK = re.compile(rf"(?:^\s*`{{3,}}[\w+#.-]{{0,60}}|{_TAG})[ \t]*\Z")
_OPENS_QUOTATION = re.compile(
    rf"(?:<(?:{_QUOTING})(?:\s[^<>\n]{{0,200}})?>|<\|im_start\|>(?:user|system|tool)"
    rf"|\[tool result for [^\n\]]*\]|(?:^|[\s:(\[])[\"'“„«‹「『《‘`])\s*\Z",
    re.IGNORECASE,
)
_ENDS_REPLY = re.compile(
    r"(?:\s|\ufeff|`{3,}|~{3,}|</[\w:.=-]{1,60}\s*>|<(?:eos|end_of_turn|turn)\|?>|<[|｜][^<>\n|｜]{1,60}[|｜]>"
    r"|\[(?:/|END_)TOOL_[A-Z]{1,20}\])*+\Z"
)
_ENDS_QUOTATION = re.compile(rf"</(?:{_QUOTING})\s*>", re.IGNORECASE)
_ENCLOSURES = (
    ("<!--", "-->"),
    ("/*", "*/"),
    ('"""', '"""'),
    ("'''", "'''"),
    ("<|channel|>analysis<|message|>", "<|end|>"),  # thinking, as gpt-oss writes it
)
_BEFORE = 1000  # characters before a decision that are examined
_AFTER = 1000  # characters behind it that may be closing fences, tags and white space


def is_answer(text: str, start: int, end: int) -> bool:
    """Whether `text[start:end]` is the answer of a reply: it begins a block, and only the block's end follows.

    Args:
        text: The reply without its thinking blocks.
        start: Index of the value's first character.
        end: Index behind its last character.
    """
    return begins_block(text, start) and _ends_reply(text, end) and not _is_enclosed(text[:start])


def begins_block(text: str, start: int) -> bool:
    """Whether the value at an index begins the reply, a line, or a fenced or tagged block.

    Args:
        text: The reply without its thinking blocks.
        start: Index of the value's first character.
    """
    before = text[max(0, start - _BEFORE) : start].strip("\ufeff")
    if not before.strip():
        return True
    if _OPENS_QUOTATION.search(before):
        return False
    line = re.split(r"[\r\n]", before)[-1]
    return not line.strip() or _OPENS_BLOCK.search(line) is not None


def _ends_reply(text: str, end: int) -> bool:
    behind = text[end:].rstrip()
    if len(behind) > _AFTER or _ENDS_QUOTATION.search(behind):
        return False
    return _ENDS_REPLY.match(behind) is not None


def _is_enclosed(before: str) -> bool:
    """Whether a comment or a long string was opened before a decision and not closed."""
    for opening, closing in _ENCLOSURES:
        if opening == closing:
            if before.count(opening) % 2:
                return True
        elif _last_opening(before, opening) > before.rfind(closing):
            return True
    return False


def _last_opening(before: str, opening: str) -> int:
    """Index of the last opening; `/*` within a word, as in `src/*`, opens no comment."""
    found = before.rfind(opening)
    is_path = opening == "/*" and found > 0 and not before[found - 1].isspace()
    return -1 if is_path else found
