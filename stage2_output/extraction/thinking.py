"""Find thinking blocks: text that a model writes before its answer, as in `<think>…</think>`.

The vocabulary contains the tags of the common models, and the analysis message of the harmony form,
`<|channel|>analysis<|message|>…<|end|>`. A closing tag without an opening one ends the first block,
because some chat templates put the opening tag into the prompt. Quoted tags are ignored: in JSON
values, in fences and in lines that are marked as quotations. Without this rule, a quoted `</think>`
would turn the text behind it into the answer.

The scan reads each character once and does not choose between JSON values. Used by `markup.py` and
by stage 3.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from stage2_output.extraction.lookaround import begins_json

_WORDS = (
    r"(?:seed:|longcat_)?(?:think(?:ing)?|(?:inner_)?thoughts?|reasoning|reflection|scratch_?pad)"
)
_HARMONY = r"(?:<\|start\|>assistant)?<\|channel\|>analysis(?: to=[\w.]{1,60})?<\|message\|>"
_HARMONY_END = "<|end|>"
_SQUARE = r"\[/?THINK\]"
TAG = (
    rf"</?{_WORDS}\s?>|{_SQUARE}|◁/?think▷|<\|(?:START|END)_THINKING\|>"
    rf"|<\|(?:begin|end)_of_thought\|>|<\|channel>(?:thought\b)?|<channel\|>"
    rf"|{_HARMONY}|{re.escape(_HARMONY_END)}"
)
"""A pattern of all tags, for matching without regard to case."""

_NOT_IN_FORM = re.compile(r"(?<=<\|)(?:START|END|begin|end)_|[/\s]", re.IGNORECASE)
_CLOSING = re.compile(r"</|\[/|◁/|<\|end|<channel", re.IGNORECASE)
_STRING = r'"(?:[^"\\]++|\\.)*+(?:"|\Z)' + r"|(?<=[\s{\[,:])'(?:[^'\\]++|\\.)*+(?:'|\Z)"
_STRING_IN_LINE = (
    r'"(?:[^"\\\n]++|\\.)*+(?:"|\Z|\n)' + r"|(?<=[\s{\[,:])'(?:[^'\\\n]++|\\.)*+(?:'|\Z|\n)"
)
_BRACKETS = r"(?P<opens>[{\[｛［])|(?P<closes>[}\]｝］])"

_OUTSIDE_JSON = re.compile(
    rf"(?P<tag>{TAG})|(?P<fence>(?:^|\n)[ \t]*+`{{3,}})|(?P<opens>[{{\[｛［])", re.IGNORECASE
)
_IN_ANSWER = re.compile(rf"(?P<tag>{TAG})|{_BRACKETS}|{_STRING}", re.IGNORECASE | re.DOTALL)
# Thoughts are less exact than answers: a quote without a counterpart in its line opens no string.
_IN_THOUGHTS = re.compile(
    rf"(?P<tag>{TAG})|{_BRACKETS}|{_STRING_IN_LINE}", re.IGNORECASE | re.DOTALL
)
_ANY_TAG = re.compile(TAG, re.IGNORECASE)
_SQUARE_TAG = re.compile(_SQUARE, re.IGNORECASE)
_QUOTATION = re.compile(r"[ \t]*+(?:[>|#]|<!--|//|/\*)")
_LONGEST_INDENT = 1000  # characters, so that the scan of a line with many values stays linear


class ThinkingTag(NamedTuple):
    """A tag that begins or ends a thinking block.

    Attributes:
        start: Index of its first character.
        end: Index behind its last character.
        closing: Whether it ends a block.
        form: The name that its opening and its closing form share, such as "think".
    """

    start: int
    end: int
    closing: bool
    form: str


class ThinkingBlock(NamedTuple):
    """A thinking block with its tags.

    Attributes:
        start: Index of its first character; 0 without an opening tag.
        end: Index behind its last character; the length of the text without a closing tag.
        opening: The tag that begins it; None if it began in the prompt.
        closing: The tag that ends it; None if it is not closed.
    """

    start: int
    end: int
    opening: ThinkingTag | None
    closing: ThinkingTag | None

    @property
    def is_closed(self) -> bool:
        """Whether both of its tags are in the text, and have the same form."""
        opening, closing = self.opening, self.closing
        return opening is not None and closing is not None and opening.form == closing.form


def thinking_tags(text: str, *, opened: bool = False) -> list[ThinkingTag]:
    """Find the tags that begin and end thinking blocks, in order, except for quoted tags.

    If the text is `opened`, it begins inside of a block, which the first closing tag ends.

    A JSON value outside a block is an answer. No tag inside it ends a block, even if the value is
    invalid and the ends of its strings are uncertain. Behind a block, a closing tag without an
    opening one is ordinary text.
    """
    may_have_tag = "<" in text or "◁" in text or _SQUARE_TAG.search(text)  # faster than all tags
    if not (may_have_tag and _ANY_TAG.search(text)):
        return []
    first = _first_closing_tag(text) if opened else None
    return _Scanner(text).tags() if first is None else [first, *_Scanner(text, first.end).tags()]


def _first_closing_tag(text: str) -> ThinkingTag | None:
    for tag in _ANY_TAG.finditer(text):
        if _CLOSING.match(tag[0]) and tag[0].lower() != _HARMONY_END:
            return ThinkingTag(*tag.span(), True, _form(tag[0]))
    return None


def _form(tag: str) -> str:
    if tag.lower() == _HARMONY_END or tag.lower().endswith("<|message|>"):
        return "harmony"
    if "channel" in tag.lower():
        return "channel"  # Gemma's form: <|channel>thought … <channel|>
    return _NOT_IN_FORM.sub("", tag).lower()


def thinking_blocks(text: str, *, opened: bool = False) -> list[ThinkingBlock]:
    """Find the thinking blocks of a text, in order.

    An unclosed block extends to the end of the text if its tag begins or ends a line. In other
    positions the tag is a mention.

    Args:
        text: The text.
        opened: Whether the text begins inside of a block, so that the first closing tag ends it.
    """
    return blocks_of(text, thinking_tags(text, opened=opened))


def blocks_of(text: str, tags: Iterable[ThinkingTag]) -> list[ThinkingBlock]:
    """Return the thinking blocks that the tags of a text form, in order."""
    blocks, opening = list[ThinkingBlock](), None
    for tag in tags:
        if not tag.closing:
            opening = opening or tag
            continue
        blocks.append(ThinkingBlock(opening.start if opening else 0, tag.end, opening, tag))
        opening = None
    if opening is not None and _is_at_line_edge(text, opening, blocks[-1].end if blocks else 0):
        blocks.append(ThinkingBlock(opening.start, len(text), opening, None))
    return blocks


def without_thinking(text: str, blocks: Iterable[ThinkingBlock] | None = None) -> str:
    """Replace thinking blocks with white space of the same length, so indexes stay valid.

    The text behind a block begins a new line.

    Args:
        text: The text.
        blocks: Blocks of the text, in order; None replaces all of them.
    """
    parts, position = list[str](), 0
    for block in thinking_blocks(text) if blocks is None else blocks:
        parts += [text[position : block.start], " " * (block.end - block.start - 1), "\n"]
        position = block.end
    return "".join(parts) + text[position:] if parts else text


def _is_at_line_edge(text: str, tag: ThinkingTag, answer: int) -> bool:
    """Whether a tag begins or ends a line of the text behind the last thinking block."""
    earliest = max(answer, tag.start - _LONGEST_INDENT)
    line = max(earliest, text.rfind("\n", earliest, tag.start) + 1)
    if not text[line : tag.start].strip(" \t\r\ufeff"):
        return True
    return not text[tag.end : tag.end + _LONGEST_INDENT].partition("\n")[0].strip()


class _Scanner:
    """One pass over a text that tracks blocks, fences, brackets and strings."""

    def __init__(self, text: str, start: int = 0) -> None:
        self._text, self._start = text, start
        self._thinking = self._fenced = False
        self._opened = self._closed = int(start > 0)  # number of tags so far
        self._depth = 0  # open brackets of the current JSON value
        self._is_harmony = False  # whether the open block is an analysis message

    def tags(self) -> list[ThinkingTag]:
        tags, position = list[ThinkingTag](), self._start
        while token := self._pattern().search(self._text, position):
            position = token.end()
            if not (tag := token["tag"]):
                self._count(token)
                continue
            closing = _CLOSING.match(tag) is not None
            if closing and (tag.lower() == _HARMONY_END) != self._is_harmony:
                continue  # a block ends with the tag of its own form
            if self._ends_block(token.start()) if closing else self._begins_block(token.start()):
                form = _form(tag)
                if not self._thinking or closing:
                    self._is_harmony = form == "harmony" and not closing
                tags.append(ThinkingTag(*token.span(), closing, form))
                self._thinking, self._depth = not closing, 0
                self._opened, self._closed = self._opened + (not closing), self._closed + closing
        return tags

    def _pattern(self) -> re.Pattern[str]:
        if not self._depth:
            return _OUTSIDE_JSON
        return _IN_THOUGHTS if self._thinking else _IN_ANSWER

    def _count(self, token: re.Match[str]) -> None:
        if token["opens"] and self._depth:
            self._depth += 1
        elif token["opens"]:
            self._depth = int(begins_json(self._text, token.start()))
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
        return _QUOTATION.match(self._text, line) is None
