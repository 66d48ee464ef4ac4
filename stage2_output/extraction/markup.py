"""What models wrap around their JSON: code fences, thinking tags, tool tags.

`Surroundings` walks over a text from mark to mark and knows at each bracket what it stands in. It
knows nothing of JSON: whoever asks it passes over the JSON itself, so that marks in its strings do
not count. Used by `candidates.py` and `partial.py`.
"""

import re
from bisect import bisect_left
from typing import Literal

from stage2_output.extraction.thinking import thinking_tags

Source = Literal["bare", "fenced", "tagged", "prose", "code", "thinking"]
"""Where JSON was found: alone in the text, in a fence for it, behind a tag such as <tool_call>,
between words, in a fence of other code, or among thoughts."""

BLANK = " \t\r\n\ufeff"
"""What may stand around a text that is nothing but JSON: white space, and the mark some editors
begin with."""

_FIRST = re.compile(
    r"[`<{\[｛［]"
)  # how a mark begins; looking for this alone is ten times as fast
_MARK = re.compile(
    r"(?P<fence>`{3,}+)|<(?P<closing>/?)(?:think(?:ing)?|thoughts?|reasoning)>"
    r"|(?P<tag><(?:[a-z_][\w:.-]{0,60}+(?:[ \t=][^<>\n]{0,200}+)?|\|\w{1,60}+\|)>)|(?P<bracket>[{\[｛［])",
    re.IGNORECASE,
)


def next_mark(text: str, position: int) -> re.Match[str] | None:
    """The next fence, tag or opening bracket, from a position on; its groups say which of them it
    is.
    """
    while first := _FIRST.search(text, position):
        position = first.start()
        if mark := _MARK.match(text, position):
            return mark
        position += 1
    return None


class Surroundings:
    """What the walk is in the middle of.

    Args:
        text: The whole text.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._fenced = self._thinking = False
        self._language, self._fence_begins = "", 0
        self._tagged = -1  # the first visible character behind the last tag
        self._beginning = len(text) - len(text.lstrip())
        self._closings = [tag.start for tag in thinking_tags(text) if tag.closing]
        self._next_fence_line = -1

    def source(self, start: int) -> Source:
        """Where a bracket stands, if not alone in the text."""
        if self._thinking:
            return "thinking"
        if self._fenced:
            return "code" if self._is_code(start) else "fenced"
        return "tagged" if start == self._tagged else "prose"

    def _is_code(self, start: int) -> bool:
        """Whether a bracket in a fence is a part of code: not the fence's first word, nor in a
        fence for JSON.
        """
        before = self._text[max(self._fence_begins, start - 200) : start]
        if self._language in _FOR_JSON or (not before.strip() and len(before) < 200):
            return False
        return bool(self._language or before.rpartition("\n")[2].rpartition(">")[2].strip())

    def end_of_code(self, start: int) -> int | None:
        """The end of the code that a bracket stands in; None outside of code and in a fence for
        JSON.
        """
        if (
            not self._fenced
            or self._language in _FOR_JSON
            or not (self._language or self._is_code(start))
        ):
            return None
        if self._next_fence_line < start:
            found = self._text.find("\n```", start)
            self._next_fence_line = found if found >= 0 else len(self._text)
        return self._next_fence_line

    def end(self, start: int) -> int:
        """How far what begins at this index may reach: a thinking block ends with its tag."""
        return self._next_closing(start) if self._thinking else len(self._text)

    def _next_closing(self, start: int) -> int:
        """Where the next tag stands that ends a thinking block; the length of the text if there is
        none.
        """
        following = bisect_left(self._closings, start)
        return self._closings[following] if following < len(self._closings) else len(self._text)

    def pass_by(self, mark: re.Match[str]) -> bool:
        """Take note of a mark; returns True for the end of thoughts whose beginning was in the
        prompt.
        """
        if mark["fence"]:
            self._fenced = not self._fenced
            label = _LABEL.match(self._text, mark.end())
            self._language = label[1].lower() if label else ""
            self._fence_begins = label.end() if label else mark.end()
        elif mark["tag"]:
            visible = _VISIBLE.search(self._text, mark.end())
            self._tagged = visible.start() if visible else -1
        elif mark["closing"]:
            if self._next_closing(mark.start()) != mark.start():
                return False
            ended_only, self._thinking = not self._thinking, False
            return ended_only
        else:
            # A tag that is never closed opens thoughts at the beginning only; later on it is talked
            # about.
            is_closed = bool(self._closings) and mark.start() < self._closings[-1]
            self._thinking = is_closed or mark.start() == self._beginning
        return False


_VISIBLE = re.compile(r"\S")
_LABEL = re.compile(
    r"[ \t]*+([\w+#.-]++)[^\n{\[]{0,200}+\n"
)  # a label is short: many fences may stand in one line
_FOR_JSON = ("json", "json5", "jsonc", "jsonl", "ndjson")


_FENCE_OPENS = re.compile(r"```(?:json)?[ \t]*+\n")


def scalar_place(text: str) -> tuple[int, int, Source]:
    """Where a text begins and ends behind its thoughts and within its one fence, and where that
    is.
    """
    start = max((tag.end for tag in thinking_tags(text) if tag.closing), default=0)
    source: Source = "bare" if start == 0 else "prose"
    start, end = _stripped(text, start, len(text))
    fence = _FENCE_OPENS.match(text, start)
    if fence and text.endswith("```", fence.end(), end) and text.count("```", start, end) == 2:
        source = "fenced"
        start, end = _stripped(text, fence.end(), end - 3)
    return start, end, source


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start] in BLANK:
        start += 1
    while end > start and text[end - 1] in BLANK:
        end -= 1
    return start, end
