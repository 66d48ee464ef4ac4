"""Track the markup around JSON: code fences, thinking tags and tool tags.

`MarkupScanner` consumes the marks of a text in order and returns the location of a bracket. It does
not know JSON. Callers skip JSON values, so that marks inside strings do not count. Used by
`candidates.py` and `partial.py`.
"""

import re
from bisect import bisect_left

from stage2_output.extraction.thinking import TAG, blocks_of, thinking_tags
from stage2_output.parsing.whitespace import match_end
from stage2_output.result import Source

BLANK = " \t\r\n\ufeff"
"""White space around a text, and the byte order mark of some editors."""

# The first character of a mark. Searching for it is ten times as fast as searching for a mark.
_FIRST_CHARACTER = re.compile(r"[`<{\[｛［◁]")
# A tag contains no bracket: in a stream, the text behind the bracket may not have arrived yet.
_MARK = re.compile(
    rf"(?P<fence>`{{3,}}+)|(?P<thinking>{TAG})"
    r"|(?P<tag><(?:[a-z_][\w:.-]{0,60}+(?:[ \t=][^<>\n{}\[\]｛［]{0,200}+)?|\|\w{1,60}+\|)>)"
    r"|(?P<bracket>[{\[｛［])",
    re.IGNORECASE,
)
_BLANKS = re.compile(rf"[{BLANK}]*+")
_VISIBLE = re.compile(r"\S")
# The label of a fence is short, because one line may contain many fences.
_LABEL = re.compile(r"[ \t]*+([\w+#.-]++)[^\n{\[]{0,200}+\n")
_JSON_LABELS = ("json", "json5", "jsonc", "jsonl", "ndjson")
_FENCE_OPENS = re.compile(r"```(?:json)?[ \t]*+\n")


def next_mark(text: str, position: int) -> re.Match[str] | None:
    """Return the next fence, tag or opening bracket; the groups of the match name its kind."""
    while first := _FIRST_CHARACTER.search(text, position):
        position = first.start()
        if mark := _MARK.match(text, position):
            return mark
        position += 1
    return None


def skip_blank(text: str, start: int) -> int:
    """Return the index of the first character that is not blank."""
    return match_end(_BLANKS, text, start, len(text))


class MarkupScanner:
    """The markup that is open at the current position of a scan.

    Args:
        text: The complete text.

    Attributes:
        answer_start: Index of the first character that is not blank behind the last thinking block.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._fenced = self._thinking = False
        self._label, self._fence_start = "", 0
        self._tagged = -1  # index of the first visible character behind the last tag
        self.answer_start = skip_blank(text, 0)
        tags = thinking_tags(text)
        self._thinking_tags = {tag.start: tag for tag in tags}
        self._closing_tags = [tag for tag in tags if tag.closing]
        self._closing_starts = [tag.start for tag in self._closing_tags]
        blocks = blocks_of(text, tags)
        self._unclosed = blocks[-1].start if blocks and blocks[-1].closing is None else None
        self._next_fence_line = -1

    def consume(self, mark: re.Match[str]) -> bool:
        """Update the state with a mark.

        Returns:
            True if the mark ends a thinking block whose opening tag is in the prompt.
        """
        if mark["fence"]:
            self._fenced = not self._fenced
            label = _LABEL.match(self._text, mark.end())
            self._label = label[1].lower() if label else ""
            self._fence_start = label.end() if label else mark.end()
        elif (tag := self._thinking_tags.get(mark.start())) is None:
            visible = _VISIBLE.search(self._text, mark.end())
            self._tagged = visible.start() if visible else -1
        elif tag.closing:
            self.answer_start = skip_blank(self._text, tag.end)
            was_thinking, self._thinking = self._thinking, False
            return not was_thinking
        else:
            is_closed = self._thinking_end(tag.start) < len(self._text)
            self._thinking = is_closed or tag.start == self._unclosed  # else it is a mention
        return False

    def begins_thinking(self, mark: re.Match[str]) -> bool:
        """Whether a mark is the opening tag of a thinking block."""
        tag = self._thinking_tags.get(mark.start())
        return tag is not None and not tag.closing

    def source(self, start: int) -> Source:
        """Return the location of a bracket that is not the only content of the text."""
        if self._thinking:
            return "thinking"
        if self._fenced:
            return "code" if self._is_code(start) else "fenced"
        return "tagged" if start == self._tagged else "prose"

    def _is_code(self, start: int) -> bool:
        """Whether a bracket in a fence is part of other code, neither its first word nor JSON."""
        before = self._text[max(self._fence_start, start - 200) : start]
        if self._label in _JSON_LABELS or (not before.strip() and len(before) < 200):
            return False
        return bool(self._label or before.rpartition("\n")[2].rpartition(">")[2].strip())

    def end(self, start: int) -> int:
        """Return the limit for a value at an index: the end of its thinking block or the text."""
        return self._thinking_end(start) if self._thinking else len(self._text)

    def code_end(self, start: int) -> int | None:
        """Return the end of the code around a bracket; None outside code and in JSON fences."""
        is_code = self._fenced and self._label not in _JSON_LABELS
        if not is_code or not (self._label or self._is_code(start)):
            return None
        if self._next_fence_line < start:
            found = self._text.find("\n```", start)
            self._next_fence_line = found if found >= 0 else len(self._text)
        return self._next_fence_line

    def _thinking_end(self, start: int) -> int:
        """Return the index of the next tag that ends a thinking block, or the text's length."""
        following = bisect_left(self._closing_starts, start)
        starts = self._closing_starts[following : following + 1]
        return starts[0] if starts else len(self._text)

    def scalar_range(self) -> tuple[int, int, Source]:
        """Return start, end and location of the text behind the thinking and inside one fence."""
        answer = self._closing_tags[-1].end if self._closing_tags else 0
        start, end = skip_blank(self._text, answer), len(self._text.rstrip(BLANK))
        fence = _FENCE_OPENS.match(self._text, start)
        is_closed = fence and self._text.endswith("```", fence.end(), end)
        if fence and is_closed and self._text.count("```", start, end) == 2:
            content = self._text[: end - 3].rstrip(BLANK)
            return skip_blank(self._text, fence.end()), len(content), "fenced"
        return start, end, "prose" if answer else "bare"
