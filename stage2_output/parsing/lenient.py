"""Read invalid JSON with a tolerant parser that names every error it repairs.

The parser reads one part after another and keeps a stack of open objects and arrays, at most
`MOST_DEPTH` deep. A value with an added closing bracket or quote is incomplete, because a part may
be missing. The parser rejects errors that could be repaired in two ways, NaN, and duplicate keys
with different values: a wrong value is worse than an error.

It knows neither schemas nor the text around the JSON. `extraction/candidates.py` uses it for values
that strict parsing rejects.
"""

import re

from stage2_output.parsing.bare_values import AMBIGUOUS_TEXT, read_bare_value
from stage2_output.parsing.errors import Repaired, Unrepairable
from stage2_output.parsing.nesting import Frame, Nesting
from stage2_output.parsing.quotes import CLOSING_QUOTES, Role
from stage2_output.parsing.strict import IntactParts
from stage2_output.parsing.strings import UnclosedRanges, read_string
from stage2_output.parsing.whitespace import is_closing_markup, match_end, skip_whitespace
from stage2_output.result import Repair, RepairName

# Full-width punctuation of Chinese and Japanese keyboards.
_FULLWIDTH = {"｛": "{", "｝": "}", "［": "[", "］": "]", "，": ",", "：": ":"}
_BARE_KEY = re.compile(r"(?:[^\W\d]|\$)[\w$.-]*+|-?[0-9]++(?:\.[0-9]++)?+")
_ELLIPSIS = re.compile(r"\.\.\.++|…++")
_VALUE_BEGINS = re.compile(r"[\"'“‘\[{]|-?[0-9]|(?:true|false|null|True|False|None)\b")


class LenientReader:
    """Reads the invalid object or array at an index, once.

    Args:
        text: The text.
        start: Index of the opening bracket.
        end: Index at which the text is considered to end.
        intact: Reader for the valid parts of the same text.
        unclosed: Ranges of the text without a closing quote, shared by all readers of the same
            text.
    """

    def __init__(
        self, text: str, start: int, end: int, intact: IntactParts, unclosed: UnclosedRanges
    ) -> None:
        self._text, self._at, self._end = text, start, end
        self._intact, self._unclosed = intact, unclosed
        self._repairs: list[Repair] = []
        self._complete = True
        self._fragile = False
        self._nesting = Nesting()

    def read(self) -> Repaired:
        """Return the repaired value.

        Raises:
            Unrepairable: The value cannot be repaired, or can be repaired in more than one way.
            TooDeep: The value is nested too deeply.
        """
        root = self._open().value
        while self._nesting.frames:
            self._skip_whitespace()
            frame = self._nesting.frames[-1]
            if self._at_end():
                self._close_at_end()
            elif self._text[self._at] in ".…" and _ELLIPSIS.match(self._text, self._at, self._end):
                self._read_ellipsis(frame)
            elif (mark := self._mark()) in "}]" or (mark == ")" and mark in self._nesting.closers):
                self._read_closer(frame, mark)
            elif mark == ",":
                self._read_comma(frame)
            elif frame.closer == "}":
                self._read_member(frame, mark)
            else:
                self._read_item(frame, mark)
        self._repairs.sort(key=lambda repair: repair.position)
        return Repaired(root, self._at, tuple(self._repairs), self._complete, self._fragile)

    # ---- position and repairs ----

    def _skip_whitespace(self) -> None:
        self._at = skip_whitespace(self._text, self._at, self._end, self._repairs)

    def _at_end(self) -> bool:
        """Whether the text ends here, or the markup around the JSON does."""
        if self._at >= self._end:
            return True
        is_mark = self._text[self._at] in "`<"  # saves a call in the usual case
        return is_mark and is_closing_markup(self._text, self._at, self._end)

    def _mark(self) -> str:
        """Return the current character; full-width punctuation becomes ASCII."""
        mark = self._text[self._at]
        if mark in _FULLWIDTH:
            self._repair("fullwidth_punctuation")
            return _FULLWIDTH[mark]
        return mark

    def _repair(self, name: RepairName) -> None:
        """Record a repair at the current position, once."""
        repair = Repair(name, self._at)
        if self._repairs[-1:] != [repair]:
            self._repairs.append(repair)

    # ---- parts of an object or array ----

    def _read_comma(self, frame: Frame) -> None:
        if frame.state == "value":
            frame.state, frame.comma = "comma", self._at
        elif frame.state == "first":
            frame.state = "leading"
            self._repair("leading_comma")
        else:
            raise Unrepairable("has two commas in a row", self._at)
        self._at += 1

    def _insert_comma(self) -> None:
        # Python concatenates adjacent strings in round brackets, and calls a value before them.
        if self._nesting.frames[-1].closer == ")" or self._text[self._at] == "(":
            raise Unrepairable("lacks a comma at round brackets", self._at)
        last = self._repairs[-1] if self._repairs else None
        before = self._text[last.position : self._at].rstrip() if last else ""
        if last and last.name == "comment" and before.endswith((",", '"', "'")):
            raise Unrepairable("has a comment that may be text", last.position)
        self._repair("missing_comma")

    def _read_ellipsis(self, frame: Frame) -> None:
        if frame.state == "value":
            self._repair("missing_comma")
        self._repair("ellipsis")
        self._complete = False  # the model left something out
        frame.state, frame.bare_text = "value", False
        self._at = match_end(_ELLIPSIS, self._text, self._at, self._end)

    def _read_closer(self, frame: Frame, mark: str) -> None:
        if mark == frame.closer:
            if mark == ")" and frame.state == "value" and not frame.comma:
                raise Unrepairable("has round brackets around one value", self._at)
            if mark != ")" and frame.state == "comma":
                self._repairs.append(Repair("trailing_comma", frame.comma))
            self._at += 1
            if frame.double_braces and not self._text.startswith("}", self._at, self._end):
                raise Unrepairable("has two opening braces and one closing brace", self._at)
            self._at += frame.double_braces
            self._nesting.close()
        elif mark in self._nesting.closers:
            self._close_early()
        else:
            raise Unrepairable(f"has an unexpected {mark}", self._at)

    def _read_member(self, frame: Frame, mark: str) -> None:
        if mark == "{":
            self._read_brace_for_key(frame)
            return
        follows_value = frame.state == "value"
        if follows_value:
            self._insert_comma()
        start, key = self._at, self._key()
        if key is None:
            return
        if key in frame.value:
            frame.add_duplicate(key, start)
            self._repairs.append(Repair("duplicate_key", start))
        frame.key = key
        is_quoted = self._text[start] in CLOSING_QUOTES and "\n" not in key
        if self._read_colon(optional=is_quoted and not follows_value):
            self._read_value(frame)

    def _read_item(self, frame: Frame, mark: str) -> None:
        if mark == ":":
            raise Unrepairable("has an unexpected colon", self._at)
        follows_value = frame.state == "value"
        if follows_value:
            self._insert_comma()
        bare_text = frame.bare_text
        self._read_value(frame)
        if follows_value and (bare_text or frame.bare_text):
            raise Unrepairable(AMBIGUOUS_TEXT, self._at)

    # ---- parts of a member ----

    def _read_brace_for_key(self, frame: Frame) -> None:
        """Read `{{`, a brace of a template, or close the object before the next item of a list."""
        frames = self._nesting.frames
        if frame.state == "first" and not frame.double_braces:
            self._repair("doubled_braces")
            frame.double_braces = True
            self._at += 1
        elif frame.state == "comma" and len(frames) > 1 and frames[-2].closer == "]":
            self._close_early()
            frames[-1].state, frames[-1].comma = "comma", frame.comma
        else:
            raise Unrepairable("has an object in place of a key", self._at)

    def _key(self) -> str | None:
        """Read a key; return None if the end of the text cuts it off."""
        if self._text[self._at] in CLOSING_QUOTES:
            return self._read_string("key")
        found = _BARE_KEY.match(self._text, self._at, self._end)
        if found is None:
            raise Unrepairable("has an invalid key", self._at)
        self._repair("unquoted_key")
        self._at = found.end()
        if self._at < self._end and self._text[self._at] == '"':
            self._repair("missing_quote")
            self._at += 1
        return found[0]

    def _read_colon(self, *, optional: bool) -> bool:
        """Move behind the colon; return False if the text ends before the value."""
        self._skip_whitespace()
        if not self._at_end():
            if self._text.startswith("=>", self._at, self._end):
                self._repair("missing_colon")
                self._at += 2
            elif self._mark() == ":":
                self._at += 1
            elif optional and _VALUE_BEGINS.match(self._text, self._at, self._end):
                self._repair("missing_colon")
            else:
                raise Unrepairable("lacks a colon behind a key", self._at)
            self._skip_whitespace()
        if self._at_end():
            self._close_at_end()
            return False
        return True

    def _read_value(self, frame: Frame) -> None:
        mark = self._text[self._at]
        if mark in "{[" and (intact := self._intact.read(self._at, self._end)) is not None:
            value, self._at = intact
            frame.add(value)
        elif mark == "(":
            self._repair("tuple")
            self._open()
        elif _FULLWIDTH.get(mark, mark) in "{[":
            self._open()
        elif mark in CLOSING_QUOTES:
            role: Role = "member" if frame.closer == "}" else "item"
            text = self._read_string(role)
            if text is not None:
                frame.add(self._concatenated(text, role))
        else:
            self._read_bare_value(frame)

    def _read_bare_value(self, frame: Frame) -> None:
        in_tuple = frame.closer == ")"
        found = read_bare_value(self._text, self._at, self._end, in_tuple=in_tuple)
        self._repairs += found.repairs
        self._at = found.end
        if found.kind != "cut":
            frame.add(found.value)
        if found.kind == "text":
            if in_tuple:
                raise Unrepairable(AMBIGUOUS_TEXT, found.end)
            if self._text.startswith('"', self._at, self._end):
                raise Unrepairable("has text that lost one of its quotes", self._at)
            frame.bare_text = True

    def _concatenated(self, text: str, role: Role) -> str:
        """Append the strings that follow with `+`, as in JavaScript."""
        while True:
            self._skip_whitespace()
            if self._at_end() or self._text[self._at] != "+":
                return text
            self._repair("joined_strings")
            self._at += 1
            self._skip_whitespace()
            if self._at_end() or self._text[self._at] not in CLOSING_QUOTES:
                raise Unrepairable("has a + without a string behind it", self._at)
            text += self._read_string(role) or ""

    def _read_string(self, role: Role) -> str | None:
        """Read a string; return None for a key that the end of the text cuts off."""
        closers = self._nesting.closers
        found = read_string(self._text, self._at, self._end, role, closers, self._unclosed)
        self._repairs += found.repairs
        self._fragile |= bool(found.inner_quotes) or found.missing_quote
        self._complete &= not found.missing_quote
        self._at = found.end
        if role == "key" and found.inner_quotes:
            raise Unrepairable("has a key with a quote in it", found.end)
        if not found.truncated:
            return found.value
        if role == "key":
            self._close_at_end()
            return None
        return self._without_closers(found.value)

    def _without_closers(self, text: str) -> str:
        """Remove the last brackets from an unclosed string if only its quote is missing."""
        self._repair("missing_quote")
        content = text.rstrip(" \t\r\n}]")
        if "".join(text[len(content) :].split()) != self._nesting.closers:
            return text
        self._complete = False
        self._nesting.close_all()
        return content

    # ---- brackets ----

    def _open(self) -> Frame:
        frame = self._nesting.open(self._mark())
        self._at += 1
        return frame

    def _close_early(self) -> None:
        self._repair("missing_closer")
        self._complete = False
        self._nesting.close()

    def _close_at_end(self) -> None:
        """Close everything that is open at the end of the text."""
        self._complete = False
        self._repair("missing_closer")
        self._nesting.close_all()
