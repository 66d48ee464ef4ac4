"""Read a string whose quotes may be of any kind, and whose text may hold what JSON wants escaped.

Escapes of Python and JavaScript are understood. Where the string ends is for `quotes.py` to say;
what its escapes mean is left to the `json` module in the end. Knows only where the string stands,
not what surrounds it. Used by `repair.py`.
"""

import json
import re
from typing import NamedTuple

from stage2_output.parsing.errors import Damaged, Repair, RepairName
from stage2_output.parsing.quotes import CLOSING_QUOTES, Quotes, Role

# Text that is a string's whatever happens. A '"' is looked at even where it closes nothing: it must
# be escaped.
_TEXT = {
    closing: re.compile(rf'[^{closing}"\\\x00-\x1f]*+') for closing in set(CLOSING_QUOTES.values())
}
_QUOTE_NAMES: dict[str, RepairName] = {
    "'": "single_quotes",
    "`": "single_quotes",
    "´": "single_quotes",
    "＂": "fullwidth_punctuation",
}
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_ESCAPES = json.JSONDecoder(strict=False)
_FOREIGN_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|U([0-9a-fA-F]{8}))"
)  # JavaScript's and Python's
_CUT_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3}|x[0-9a-fA-F]?|U[0-9a-fA-F]{0,7})?")
_HALF_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\Z")
_SHORT_ESCAPE = re.compile(r"\\[bfnrtu]")
_WRAPPING = re.compile(r"\n[ \t]*+```|</[a-zA-Z]")


class String(NamedTuple):
    """A string that was read.

    Attributes:
        value: What it says.
        end: Where reading stopped, behind its closing quote.
        repairs: What was mended.
        cut: The text ended before the string did.
        unescaped: How many quotes stand unescaped in it.
        lost: Its closing quote is missing, though the text goes on.
    """

    value: str
    end: int
    repairs: tuple[Repair, ...] = ()
    cut: bool = False
    unescaped: int = 0
    lost: bool = False


Unclosed = dict[str, tuple[int, int]]
"""For a kind of closing quotes a stretch of the text in which none of them closes a string."""


def read_string(
    text: str, start: int, end: int, role: Role, closers: str, unclosed: Unclosed
) -> String:
    """Read the string whose opening quote stands at a place.

    Args:
        text: The text.
        start: Index of the opening quote.
        end: Where the text is taken to end.
        role: Where the string stands.
        closers: The brackets that are still to come, the innermost first.
        unclosed: What earlier calls for the same text found out; such a stretch is not searched
            again.

    Raises:
        Damaged: There is no way to read it, or more than one.
    """
    closing = CLOSING_QUOTES[text[start]]
    first, last = unclosed.get(closing, (end, start))
    is_known = first <= start and end <= last
    reader = _Reader(
        text, start, _wrapped_end(text, start, end) if is_known else end, role, closers
    )
    if (string := reader.read()) is not None:
        return string
    if is_known or _wrapped_end(text, start, end) == end:
        return reader.cut()
    unclosed[closing] = (start, end)
    return read_string(text, start, end, role, closers, unclosed)


def _wrapped_end(text: str, start: int, end: int) -> int:
    """The end of a string that is never closed: before the next fence or closing tag."""
    wrapping = _WRAPPING.search(text, start, end)
    return start + len(text[start : wrapping.start()].rstrip(" \t\r\n")) if wrapping else end


class _Reader:
    def __init__(self, text: str, start: int, end: int, role: Role, closers: str) -> None:
        self._text, self._start, self._end, self._role, self._closers = (
            text,
            start,
            end,
            role,
            closers,
        )
        self._quotes = Quotes(text, start, end, role, closers)
        self._closing = CLOSING_QUOTES[text[start]]
        self._raw: list[str] = []  # as JSON would have it between its quotes
        self._repairs: list[Repair] = []
        self._lines = self._literal_escape = False
        if text[start] != '"':
            self._repairs.append(Repair(_QUOTE_NAMES.get(text[start], "smart_quotes"), start))

    def read(self) -> String | None:
        """The string; None if it is never closed."""
        if (close := self._quotes.triple()) is not None:
            if (escape := self._text.find("\\", self._start, close)) >= 0:
                raise Damaged("has escapes that can be read in more ways than one", escape)
            self._repairs.append(Repair("triple_quotes", self._start))
            return String(self._text[self._start + 3 : close], close + 3, tuple(self._repairs))
        at, plain = self._start + 1, _TEXT[self._closing]
        while True:
            found = plain.match(self._text, at, self._end)
            assert found  # it fits everywhere, if only nothing
            self._raw.append(found[0])
            at = found.end()
            if at >= self._end:
                if self._quotes.unescaped:
                    raise Damaged("has a string that is never closed", self._start)
                return None
            mark = self._text[at]
            if mark == "\\":
                at = self._escape(at)
            elif mark not in self._closing:
                at = self._special(at, mark)
            elif self._quotes.ends(at):
                self._quotes.settle(at, lines=self._lines)
                return self._string(at + 1, "".join(self._raw))
            elif (lost := self._quotes.lost_before(at)) is not None:
                return self._closed_before(lost, at)
            else:
                at = self._inner_quote(at, mark)

    # ---- what stands in the string ----

    def _special(self, at: int, mark: str) -> int:
        """A '"' in a string of other quotes, or a control character."""
        if mark == '"':
            self._raw.append('\\"')
        else:
            self._raw.append(mark)
            self._repairs.append(
                Repair("unescaped_newline" if mark in "\r\n" else "control_character", at)
            )
            self._lines |= mark in "\r\n"
        return at + 1

    def _inner_quote(self, at: int, mark: str) -> int:
        self._quotes.belong_to_text(at)
        self._repairs.append(Repair("unescaped_quote", at))
        self._raw.append('\\"' if mark == '"' else mark)
        return at + 1

    def _escape(self, at: int) -> int:
        if found := _ESCAPE.match(self._text, at, self._end):
            self._raw.append(found[0])
            return found.end()
        if (cut := _CUT_ESCAPE.match(self._text, at, self._end)) and cut.end() == self._end:
            return self._end
        self._repairs.append(Repair("invalid_escape", at))
        if found := _FOREIGN_ESCAPE.match(self._text, at, self._end):
            self._raw.append(_code_point(int(found[1] or found[2], 16), at))
            return found.end()
        mark = self._text[at + 1]
        if mark in "'`’‘“”":
            self._raw.append(mark)
        elif mark.isascii() and mark.isalnum() and mark not in "xuU":
            self._raw.append("\\\\" + mark)  # as in a pattern: nobody writes \d for d
            self._literal_escape = True
        else:
            raise Damaged("has an escape that JSON does not know", at)
        return at + 2

    # ---- what comes of it ----

    def _closed_before(self, lost: int, at: int) -> String:
        raw = "".join(self._raw)
        raw = raw[
            : len(raw) - (at - lost)
        ]  # white space and a comma: as many characters as in the text
        self._repairs = [each for each in self._repairs if each.position < lost]
        self._repairs.append(Repair("missing_quote", lost))
        return self._string(lost, raw.rstrip(), lost=True)

    def cut(self) -> String:
        """The string as far as it was written, where it is never closed."""
        return self._string(self._end, _HALF_PAIR.sub("", "".join(self._raw)), cut=True)

    def _string(self, end: int, raw: str, *, cut: bool = False, lost: bool = False) -> String:
        if self._literal_escape and _SHORT_ESCAPE.search(raw.replace("\\\\", "")):
            raise Damaged("has escapes that can be read in more ways than one", self._start)
        value = _ESCAPES.raw_decode(f'"{raw}"')[0] if "\\" in raw else raw
        return String(value, end, tuple(self._repairs), cut, self._quotes.unescaped, lost)


def _code_point(number: int, at: int) -> str:
    if number > 0x10FFFF:
        raise Damaged("has an escape that JSON does not know", at)
    return json.dumps(chr(number), ensure_ascii=False)[1:-1]
