"""Thinking blocks: the text that a model writes before its answer, such as `<think>…</think>`.

A closing tag without an opening one also ends a block, because some chat templates put the opening tag into the
prompt. A tag inside a JSON string is text that the model quotes: it neither begins nor ends a block. Otherwise a
quoted `</think>` would turn the quotation behind it into the answer.

The scan reads each character once. It does not know which JSON value is the answer. Used by `wrapping` and,
through `without_thinking`, by stage 3.
"""

import re
from typing import NamedTuple

from stage2_output.clues import begins

_TAG = r"<(?P<slash>/?)(?:think(?:ing)?|thoughts?|reasoning)>"
_STRING = r'"(?:[^"\\]++|\\.)*+(?:"|\Z)' + r"|(?<=[\s{\[,:])'(?:[^'\\]++|\\.)*+(?:'|\Z)"
_STRING_IN_LINE = r'"(?:[^"\\\n]++|\\.)*+(?:"|\Z|\n)' + r"|(?<=[\s{\[,:])'(?:[^'\\\n]++|\\.)*+(?:'|\Z|\n)"
_BRACKETS = r"(?P<opens>[{\[｛［])|(?P<closes>[}\]｝］])"

_OUTSIDE_JSON = re.compile(rf"{_TAG}|(?P<opens>[{{\[｛［])", re.IGNORECASE)
_INSIDE_JSON = re.compile(rf"{_TAG}|{_BRACKETS}|{_STRING}", re.IGNORECASE | re.DOTALL)
# Notes are less careful than answers: a quote that is not closed in its line does not open a string.
_INSIDE_NOTES = re.compile(rf"{_TAG}|{_BRACKETS}|{_STRING_IN_LINE}", re.IGNORECASE | re.DOTALL)
_ANY_TAG = re.compile(_TAG, re.IGNORECASE)
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
    """Find the tags that begin and end thinking blocks, in order; tags inside JSON strings are left out.

    A JSON value that begins a line outside a block is an answer. No tag within it ends a block, even if the value is
    damaged, so that the ends of its strings are uncertain.
    """
    if "<" not in text or not _ANY_TAG.search(text):
        return []
    return list(_Scan(text).tags())


def without_thinking(text: str) -> str:
    """Replace each thinking block with white space of the same length, so that positions stay valid.

    A block that is never closed reaches to the end of the text if its tag begins a line; elsewhere the tag is only
    mentioned. Whatever follows a block begins a line.
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
    if opened is not None and _begins_line(text, opened, answer_begins):
        blocks.append((opened, len(text)))
    return blocks


def _begins_line(text: str, start: int, least: int) -> bool:
    """Whether only white space precedes this index, in its line or since the last thinking block."""
    least = max(least, start - _LONGEST_INDENT)
    line = max(least, text.rfind("\n", least, start) + 1)
    return not text[line:start].strip(" \t\r\ufeff")


class _Scan:
    """One pass over a text that keeps track of blocks, brackets and strings."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._thinking = False
        self._depth = 0  # open brackets of the JSON value that the scan is inside of
        self._is_answer = False  # whether that value begins a line outside thinking blocks
        self._answer_begins = 0

    def tags(self) -> "list[ThinkingTag]":
        tags, position = list[ThinkingTag](), 0
        while token := self._pattern().search(self._text, position):
            position = token.end()
            if token["slash"] is None:
                self._count(token)
            elif self._is_tag(closing=bool(token["slash"])):
                tags.append(ThinkingTag(*token.span(), bool(token["slash"])))
                self._thinking, self._depth, self._answer_begins = not token["slash"], 0, position
        return tags

    def _pattern(self) -> re.Pattern[str]:
        if not self._depth:
            return _OUTSIDE_JSON
        return _INSIDE_NOTES if self._thinking else _INSIDE_JSON

    def _count(self, token: re.Match[str]) -> None:
        if token["opens"] and self._depth:
            self._depth += 1
        elif token["opens"] and begins(self._text, token.start()):
            self._depth = 1
            self._is_answer = not self._thinking and _begins_line(
                self._text, token.start(), self._answer_begins
            )
        elif self._depth and token["closes"]:
            self._depth -= 1

    def _is_tag(self, *, closing: bool) -> bool:
        """Whether a tag outside of strings begins or ends a block here."""
        return not self._depth or (closing and not self._is_answer)
