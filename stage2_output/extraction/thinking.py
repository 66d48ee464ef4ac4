"""Thinking blocks: the text that a model writes before its answer, such as `<think>…</think>`.

A closing tag without an opening one ends the first block, because some chat templates put the
opening tag into the prompt. Tags that the model quotes neither begin nor end a block: those in JSON
values, in fences, in lines that are marked as quotations. Otherwise a quoted `</think>` would turn
the quotation behind it into the answer.

The scan reads each character once. It does not know which JSON value is the answer. Used by
`wrapping` and, through `without_thinking`, by stage 3.
"""

import re
from typing import NamedTuple

from stage2_output.extraction.lookaround import begins

_TAG = (
    r"(?P<tag><(?P<slash>/?)(?:seed:)?(?:think(?:ing)?|thoughts?|reasoning|reflection|scratchpad)>|\[/?THINK\]|◁/?think▷"
    r"|<\|(?:START|END)_THINKING\|>|<\|(?:begin|end)_of_thought\|>)"
)
_CLOSING = re.compile(r"</|\[/|◁/|<\|end", re.IGNORECASE)
_STRING = r'"(?:[^"\\]++|\\.)*+(?:"|\Z)' + r"|(?<=[\s{\[,:])'(?:[^'\\]++|\\.)*+(?:'|\Z)"
_STRING_IN_LINE = (
    r'"(?:[^"\\\n]++|\\.)*+(?:"|\Z|\n)' + r"|(?<=[\s{\[,:])'(?:[^'\\\n]++|\\.)*+(?:'|\Z|\n)"
)
_BRACKETS = r"(?P<opens>[{\[｛［])|(?P<closes>[}\]｝］])"

_OUTSIDE_JSON = re.compile(
    rf"{_TAG}|(?P<fence>(?:^|\n)[ \t]*+`{{3,}})|(?P<opens>[{{\[｛［])", re.IGNORECASE
)
_INSIDE_JSON = re.compile(rf"{_TAG}|{_BRACKETS}|{_STRING}", re.IGNORECASE | re.DOTALL)
# Notes are less careful than answers: a quote that is not closed in its line does not open a
# string.
_INSIDE_NOTES = re.compile(rf"{_TAG}|{_BRACKETS}|{_STRING_IN_LINE}", re.IGNORECASE | re.DOTALL)
_ANY_TAG = re.compile(_TAG, re.IGNORECASE)
_QUOTING_LINE = re.compile(r"[ \t]*+(?:[>|#]|<!--|//|/\*)")
_LONGEST_INDENT = 1000  # characters; the scan of a line with many values stays linear


class ThinkingTag(NamedTuple):
    """A tag that begins or ends a thinking block.

    Attributes:
        start: Index of its first character.
        end: Index behind its last character.
        closing: Whether it ends a block.
    """

    start: int
    end: int
    closing: bool


def thinking_tags(text: str) -> list[ThinkingTag]:
    """Find the tags that begin and end thinking blocks, in order; tags inside JSON strings are left
    out.

    A JSON value outside a block is an answer. No tag within it ends a block, even if the value is
    damaged, so that the ends of its strings are uncertain. After a block, a closing tag without an
    opening one is text.
    """
    if not any(mark in text for mark in "<[◁") or not _ANY_TAG.search(text):
        return []
    return list(_Scan(text).tags())


def without_thinking(text: str) -> str:
    """Replace each thinking block with white space of the same length, so that positions stay
    valid.

    A block that is never closed reaches to the end of the text if its tag begins or ends a line;
    elsewhere the tag is only mentioned. Whatever follows a block begins a line.
    """
    pieces, position = list[str](), 0
    for start, end in _blocks(text):
        pieces += [text[position:start], " " * (end - start - 1), "\n"]
        position = end
    return "".join(pieces) + text[position:] if pieces else text


def _blocks(text: str) -> list[tuple[int, int]]:
    blocks, opened, answer_begins = list[tuple[int, int]](), None, 0
    for tag in thinking_tags(text):
        if not tag.closing:
            opened = tag.start if opened is None else opened
        else:
            blocks.append((answer_begins if opened is None else opened, tag.end))
            opened, answer_begins = None, tag.end
    if opened is not None and (
        _begins_line(text, opened, answer_begins) or _ends_line(text, opened)
    ):
        blocks.append((opened, len(text)))
    return blocks


def _begins_line(text: str, start: int, least: int) -> bool:
    """Whether only white space precedes this index, in its line or since the last thinking
    block.
    """
    least = max(least, start - _LONGEST_INDENT)
    line = max(least, text.rfind("\n", least, start) + 1)
    return not text[line:start].strip(" \t\r\ufeff")


def _ends_line(text: str, start: int) -> bool:
    """Whether only white space follows the tag at this index in its line."""
    tag = _ANY_TAG.match(text, start)
    return (
        tag is not None
        and text[tag.end() : tag.end() + _LONGEST_INDENT].partition("\n")[0].strip() == ""
    )


class _Scan:
    """One pass over a text that keeps track of blocks, fences, brackets and strings."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._thinking = self._fenced = False
        self._opened = self._closed = 0  # tags so far
        self._depth = 0  # open brackets of the JSON value that the scan is inside of

    def tags(self) -> list[ThinkingTag]:
        tags, position = list[ThinkingTag](), 0
        while token := self._pattern().search(self._text, position):
            position = token.end()
            if not token["tag"]:
                self._count(token)
                continue
            closing = _CLOSING.match(token["tag"]) is not None
            if self._ends_block(token.start()) if closing else self._begins_block(token.start()):
                tags.append(ThinkingTag(*token.span(), closing))
                self._thinking, self._depth = not closing, 0
                self._opened, self._closed = self._opened + (not closing), self._closed + closing
        return tags

    def _pattern(self) -> re.Pattern[str]:
        if not self._depth:
            return _OUTSIDE_JSON
        return _INSIDE_NOTES if self._thinking else _INSIDE_JSON

    def _count(self, token: re.Match[str]) -> None:
        if token["opens"] and self._depth:
            self._depth += 1
        elif token["opens"]:
            self._depth = int(begins(self._text, token.start()))
        elif self._depth and token["closes"]:
            self._depth -= 1
        elif not self._depth and token["fence"]:
            self._fenced = not self._fenced and not self._thinking

    def _begins_block(self, start: int) -> bool:
        return not self._depth and self._text[start - 1 : start] != "`"

    def _ends_block(self, start: int) -> bool:
        if self._thinking:
            return True
        if self._depth or self._fenced or self._closed >= max(1, self._opened):
            return False
        line = self._text.rfind("\n", max(0, start - _LONGEST_INDENT), start) + 1
        return _QUOTING_LINE.match(self._text, line) is None
