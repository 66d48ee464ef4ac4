"""Read a string in any kind of quotes, with characters that JSON requires to be escaped.

Escapes of Python and JavaScript are understood. `quotes.py` decides where the string ends, and the
`json` module decodes the escapes. Used by the lenient parser.
"""

import json
import re
from typing import NamedTuple

from stage2_output.parsing.errors import Unrepairable
from stage2_output.parsing.quotes import CLOSING_QUOTES, Quotes, Role
from stage2_output.parsing.whitespace import match_end
from stage2_output.result import Repair, RepairName

# Plain text of a string, by its closing quotes. It excludes '"', which must always be escaped.
_PLAIN_TEXT = {
    closing: re.compile(rf'[^{closing}"\\\x00-\x1f]*+') for closing in set(CLOSING_QUOTES.values())
}
_QUOTE_REPAIRS: dict[str, RepairName] = {
    "'": "single_quotes",
    "`": "single_quotes",
    "´": "single_quotes",
    "＂": "fullwidth_punctuation",
}
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_ESCAPE_DECODER = json.JSONDecoder(strict=False)
_FOREIGN_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|U([0-9a-fA-F]{8}))")
_CUT_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3}|x[0-9a-fA-F]?|U[0-9a-fA-F]{0,7})?")
_HALF_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\Z")
_SHORT_ESCAPE = re.compile(r"\\[bfnrtu]")
_CLOSING_MARKUP = re.compile(r"\n[ \t]*+```|</[a-zA-Z]")
_UNKNOWN_ESCAPE = "has an escape that JSON does not know"
_AMBIGUOUS_ESCAPES = "has escapes that can be read in more ways than one"


class ParsedString(NamedTuple):
    """A string that was read.

    Attributes:
        value: The value.
        end: Index behind its closing quote.
        repairs: Repaired errors.
        truncated: Whether the text ended before the string.
        inner_quotes: Number of unescaped quotes in it.
        missing_quote: Whether its closing quote is missing and the text continues.
    """

    value: str
    end: int
    repairs: tuple[Repair, ...] = ()
    truncated: bool = False
    inner_quotes: int = 0
    missing_quote: bool = False


UnclosedRanges = dict[str, tuple[int, int]]
"""For a set of closing quotes, a range of the text in which none of them closes a string."""


def read_string(
    text: str, start: int, end: int, role: Role, closers: str, unclosed: UnclosedRanges
) -> ParsedString:
    """Read the string at an index.

    Args:
        text: The text.
        start: Index of the opening quote.
        end: Index at which the text is considered to end.
        role: Role of the string.
        closers: The expected closing brackets, innermost first.
        unclosed: Results of earlier calls for the same text, so that no range is searched twice.

    Raises:
        Unrepairable: The string is invalid or ambiguous.
    """
    closing = CLOSING_QUOTES[text[start]]
    first, last = unclosed.get(closing, (end, start))
    if not (first <= start and end <= last):
        string = _StringReader(text, start, end, role, closers).read()
        if string is not None:
            return string
        unclosed[closing] = (start, end)
    # An unclosed string ends before the next fence or closing tag.
    if markup := _CLOSING_MARKUP.search(text, start, end):
        end = start + len(text[start : markup.start()].rstrip(" \t\r\n"))
    reader = _StringReader(text, start, end, role, closers)
    return reader.read() or reader.truncated()


class _StringReader:
    def __init__(self, text: str, start: int, end: int, role: Role, closers: str) -> None:
        self._text, self._start, self._end = text, start, end
        self._quotes = Quotes(text, start, end, role, closers)
        self._closing = CLOSING_QUOTES[text[start]]
        self._parts: list[str] = []  # the string in JSON's notation
        self._repairs: list[Repair] = []
        self._is_multiline = self._has_literal_escape = False
        if text[start] != '"':
            self._repairs.append(Repair(_QUOTE_REPAIRS.get(text[start], "smart_quotes"), start))

    def read(self) -> ParsedString | None:
        """Return the string, or None if it is never closed."""
        if (close := self._quotes.triple_quote_end()) is not None:
            if (escape := self._text.find("\\", self._start, close)) >= 0:
                raise Unrepairable(_AMBIGUOUS_ESCAPES, escape)
            self._repairs.append(Repair("triple_quotes", self._start))
            value = self._text[self._start + 3 : close]
            return ParsedString(value, close + 3, tuple(self._repairs))
        at, plain_text = self._start + 1, _PLAIN_TEXT[self._closing]
        while True:
            stop = match_end(plain_text, self._text, at, self._end)
            self._parts.append(self._text[at:stop])
            at = stop
            if at >= self._end:
                if self._quotes.inner:
                    raise Unrepairable("has a string that is never closed", self._start)
                return None
            mark = self._text[at]
            if mark == "\\":
                at = self._read_escape(at)
            elif mark not in self._closing:
                at = self._read_special(at, mark)
            elif self._quotes.closes_string(at):
                self._quotes.check_inner_quotes(at, multiline=self._is_multiline)
                return self._string(at + 1, "".join(self._parts))
            elif (end := self._quotes.missing_quote_position(at)) is not None:
                return self._closed_before(end, at)
            else:
                self._quotes.add_inner_quote(at)
                self._repairs.append(Repair("unescaped_quote", at))
                self._parts.append('\\"' if mark == '"' else mark)
                at += 1

    def truncated(self) -> ParsedString:
        """Return the string up to the end of the text."""
        return self._string(self._end, _HALF_PAIR.sub("", "".join(self._parts)), truncated=True)

    def _read_special(self, at: int, mark: str) -> int:
        """Read a '"' in a string with other quotes, or a control character."""
        self._parts.append('\\"' if mark == '"' else mark)
        if mark in "\r\n":
            self._is_multiline = True
            self._repairs.append(Repair("unescaped_newline", at))
        elif mark != '"':
            self._repairs.append(Repair("control_character", at))
        return at + 1

    def _read_escape(self, at: int) -> int:
        if found := _ESCAPE.match(self._text, at, self._end):
            self._parts.append(found[0])
            return found.end()
        if (cut := _CUT_ESCAPE.match(self._text, at, self._end)) and cut.end() == self._end:
            return self._end
        self._repairs.append(Repair("invalid_escape", at))
        if found := _FOREIGN_ESCAPE.match(self._text, at, self._end):
            number = int(found[1] or found[2], 16)
            if number > 0x10FFFF:
                raise Unrepairable(_UNKNOWN_ESCAPE, at)
            self._parts.append(json.dumps(chr(number), ensure_ascii=False)[1:-1])
            return found.end()
        mark = self._text[at + 1]
        if mark in "'`’‘“”":
            self._parts.append(mark)
        elif mark.isascii() and mark.isalnum() and mark not in "xuU":
            self._parts.append("\\\\" + mark)  # as in a regular expression: `\d` is not `d`
            self._has_literal_escape = True
        else:
            raise Unrepairable(_UNKNOWN_ESCAPE, at)
        return at + 2

    def _closed_before(self, end: int, at: int) -> ParsedString:
        raw = "".join(self._parts)
        # White space and a comma are as long in JSON's notation as in the text.
        raw = raw[: len(raw) - (at - end)].rstrip()
        self._repairs = [repair for repair in self._repairs if repair.position < end]
        self._repairs.append(Repair("missing_quote", end))
        return self._string(end, raw, missing_quote=True)

    def _string(
        self, end: int, raw: str, *, truncated: bool = False, missing_quote: bool = False
    ) -> ParsedString:
        if self._has_literal_escape and _SHORT_ESCAPE.search(raw.replace("\\\\", "")):
            raise Unrepairable(_AMBIGUOUS_ESCAPES, self._start)
        value = _ESCAPE_DECODER.raw_decode(f'"{raw}"')[0] if "\\" in raw else raw
        repairs = tuple(self._repairs)
        return ParsedString(value, end, repairs, truncated, self._quotes.inner, missing_quote)
