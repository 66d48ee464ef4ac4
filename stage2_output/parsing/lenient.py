"""Read damaged JSON: our own tolerant parser, which names every damage that it mends.

It goes from part to part with a stack of open objects and arrays, never deeper than `MOST_DEPTH`.
What had to be closed makes the value incomplete: something may be missing. What could be mended in
two ways is refused, and so are NaN and a key that appears twice with different values: a wrong
value is worse than none.

Knows neither schemas nor what surrounds the JSON. Used by `candidates.py` for what strict reading
refused.
"""

import re

from stage2_output.parsing.bare_values import read_word
from stage2_output.parsing.cursor import FULLWIDTH, Cursor
from stage2_output.parsing.errors import Damaged, Mended, Repair
from stage2_output.parsing.nesting import Frame, Nesting
from stage2_output.parsing.quotes import CLOSING_QUOTES, Role
from stage2_output.parsing.strict import IntactParts
from stage2_output.parsing.strings import Unclosed, read_string

_BARE_KEY = re.compile(r"(?:[^\W\d]|\$)[\w$.-]*+|-?[0-9]++(?:\.[0-9]++)?+")
_ELLIPSIS = re.compile(r"\.\.\.++|…++")
_VALUE_BEGINS = re.compile(r"[\"'“‘\[{]|-?[0-9]|(?:true|false|null|True|False|None)\b")


def read_leniently(
    text: str, start: int, end: int, intact: IntactParts, unclosed: Unclosed
) -> Mended:
    """Read the damaged object or array that begins at a place.

    Args:
        text: The text.
        start: Index of the opening bracket.
        end: Where the text is taken to end.
        intact: Reads the undamaged parts of the same text.
        unclosed: What is known of strings that are never closed; shared by all readings of the same
            text.

    Raises:
        Damaged: It cannot be mended, or in more ways than one.
        TooDeep: It is nested too deeply.
    """
    return _Reader(text, start, end, intact, unclosed).read()


class _Reader(Cursor):
    def __init__(
        self, text: str, start: int, end: int, intact: IntactParts, unclosed: Unclosed
    ) -> None:
        super().__init__(text, start, end)
        self._intact, self._unclosed = intact, unclosed
        self._complete = True
        self._quotes = 0
        self._open = Nesting()

    def read(self) -> Mended:
        root = self._begin().value
        while self._open.frames:
            self.gap()
            frame = self._open.frames[-1]
            if self.at_end():
                self._cut()
            elif self.text[self.at] in ".…" and _ELLIPSIS.match(self.text, self.at, self.end):
                self._ellipsis(frame)
            elif (mark := self.mark()) in "}]" or (mark == ")" and mark in self._open.closers):
                self._closing(frame, mark)
            elif mark == ",":
                self._comma(frame)
            elif frame.closer == "}":
                self._member(frame, mark)
            else:
                self._item(frame, mark)
        self.repairs.sort(key=lambda repair: repair.position)
        return Mended(root, self.at, tuple(self.repairs), self._complete, fragile=self._quotes > 0)

    # ---- one step each ----

    def _comma(self, frame: Frame) -> None:
        if frame.state == "value":
            frame.state, frame.comma = "comma", self.at
        elif frame.state == "first":
            frame.state = "leading"
            self.mended("leading_comma")
        else:
            raise Damaged("has two commas in a row", self.at)
        self.at += 1

    def _comma_missing(self) -> None:
        # Python joins two strings in round brackets, and calls what stands before them.
        if self._open.frames[-1].closer == ")" or self.text[self.at] == "(":
            raise Damaged("lacks a comma at round brackets", self.at)
        last = self.repairs[-1] if self.repairs else None
        before = self.text[last.position : self.at].rstrip() if last else ""
        if last and last.name == "comment" and before.endswith((",", '"', "'")):
            raise Damaged("has a comment that may be text", last.position)
        self.mended("missing_comma")

    def _ellipsis(self, frame: Frame) -> None:
        if frame.state == "value":
            self.mended("missing_comma")
        found = _ELLIPSIS.match(self.text, self.at, self.end)
        assert found
        self.mended("ellipsis")
        self._complete = False  # the model left something out
        frame.state, frame.bare_text, self.at = "value", False, found.end()

    def _closing(self, frame: Frame, mark: str) -> None:
        if mark == frame.closer:
            if mark == ")" and frame.state == "value" and not frame.comma:
                raise Damaged("has round brackets around one value", self.at)
            if mark != ")" and frame.state == "comma":
                self.repairs.append(Repair("trailing_comma", frame.comma))
            self.at += 1
            if frame.doubled and not self.text.startswith("}", self.at, self.end):
                raise Damaged("has two opening braces and one closing brace", self.at)
            self.at += frame.doubled
            self._open.close()
            if self._open.frames and self.text.startswith(",", self.at, self.end):
                self._comma(self._open.frames[-1])  # at once: it nearly always follows
        elif mark in self._open.closers:
            self._close_early()
        elif len(self._open.frames) == 1 and not self.text[self.at + 1 : self.at + 200].strip(
            "]} \t\r\n"
        ):
            self.mended("wrong_closer")
            self._complete = False
            self.at += 1
            self._open.close()
        else:
            raise Damaged(f"has a {mark} that closes nothing", self.at)

    def _member(self, frame: Frame, mark: str) -> None:
        if mark == "{":
            self._brace_for_key(frame)
            return
        follows = frame.state == "value"
        if follows:
            self._comma_missing()
        place, key = self.at, self._key()
        if key is None:
            return
        if key in frame.value:
            frame.repeat(key, place)
            self.repairs.append(Repair("duplicate_key", place))
        frame.key = key
        can_miss = not follows and self.text[place] in CLOSING_QUOTES and "\n" not in key
        if self._colon(can_miss=can_miss):
            self._value(frame)

    def _item(self, frame: Frame, mark: str) -> None:
        if mark == ":":
            raise Damaged("has a colon where no key stands", self.at)
        follows = frame.state == "value"
        if follows:
            self._comma_missing()
        bare_text = frame.bare_text
        self._value(frame)
        if follows and (bare_text or frame.bare_text):
            raise Damaged("has text without quotes that can be read in more ways than one", self.at)

    # ---- what a member is made of ----

    def _brace_for_key(self, frame: Frame) -> None:
        """`{{` is how templates write a brace; after a comma the closing brace of the last object
        is missing.
        """
        if frame.state == "first" and not frame.doubled:
            self.mended("doubled_braces")
            frame.doubled = True
            self.at += 1
        elif (
            frame.state == "comma"
            and len(self._open.frames) > 1
            and self._open.frames[-2].closer == "]"
        ):
            self._close_early()
            self._open.frames[-1].state, self._open.frames[-1].comma = "comma", frame.comma
        else:
            raise Damaged("has an object where a key should stand", self.at)

    def _key(self) -> str | None:
        """The key that stands here; None if the end of the text cut it off."""
        if self.text[self.at] in CLOSING_QUOTES:
            return self._string("key")
        found = _BARE_KEY.match(self.text, self.at, self.end)
        if found is None:
            raise Damaged("has something that is no key", self.at)
        self.mended("unquoted_key")
        self.at = found.end()
        if self.at < self.end and self.text[self.at] == '"':
            self.mended("missing_quote")
            self.at += 1
        return found[0]

    def _colon(self, *, can_miss: bool) -> bool:
        """Go on behind the colon, to the value; False if the text ends before there is one."""
        self.gap()
        if not self.at_end():
            if self.text.startswith("=>", self.at, self.end):
                self.mended("missing_colon")
                self.at += 2
            elif self.mark() == ":":
                self.at += 1
            elif can_miss and _VALUE_BEGINS.match(self.text, self.at, self.end):
                self.mended("missing_colon")
            else:
                raise Damaged("lacks a colon behind a key", self.at)
            self.gap()
        if self.at_end():
            self._cut()
            return False
        return True

    def _value(self, frame: Frame) -> None:
        mark = self.text[self.at]
        if mark in "{[" and (intact := self._intact.read(self.at, self.end)) is not None:
            value, self.at = intact
            frame.add(value)
        elif mark == "(":
            self.mended("tuple")
            self._begin()
        elif FULLWIDTH.get(mark, mark) in "{[":
            self._begin()
        elif mark in CLOSING_QUOTES:
            role: Role = "member" if frame.closer == "}" else "item"
            text = self._string(role)
            if text is not None:
                frame.add(self._joined(text, role))
        else:
            self._word(frame)

    def _word(self, frame: Frame) -> None:
        in_tuple = frame.closer == ")"
        word = read_word(self.text, self.at, self.end, in_tuple=in_tuple)
        self.repairs += word.repairs
        self.at = word.end
        if word.kind != "cut":
            frame.add(word.value)
        if word.kind == "text":
            if in_tuple:
                raise Damaged(
                    "has text without quotes that can be read in more ways than one", word.end
                )
            if self.text.startswith('"', self.at, self.end):
                raise Damaged("has text that lost one of its quotes", self.at)
            frame.bare_text = True

    def _joined(self, text: str, role: Role) -> str:
        """Strings that are joined by `+`, as in JavaScript."""
        while True:
            self.gap()
            if self.at_end() or self.text[self.at] != "+":
                return text
            self.mended("joined_strings")
            self.at += 1
            self.gap()
            if self.at_end() or self.text[self.at] not in CLOSING_QUOTES:
                raise Damaged("has a + that joins nothing", self.at)
            text += self._string(role) or ""

    def _string(self, role: Role) -> str | None:
        """The string that stands here; None for a key that the end of the text cut off."""
        found = read_string(self.text, self.at, self.end, role, self._open.closers, self._unclosed)
        self.repairs += found.repairs
        self._quotes += bool(found.unescaped or found.lost)
        self._complete &= not found.lost
        self.at = found.end
        if role == "key" and found.unescaped:
            raise Damaged("has a key with a quote in it", found.end)
        if not found.cut:
            return found.value
        if role == "key":
            self._cut()
            return None
        return self._without_closers(found.value)

    def _without_closers(self, text: str) -> str:
        """A string that the end cut off, or whose quote alone is missing, so that it holds the last
        brackets.
        """
        self.mended("missing_quote")
        bare = text.rstrip(" \t\r\n}]")
        if "".join(text[len(bare) :].split()) != self._open.closers:
            return text
        self._complete = False
        self._open.close_all()
        return bare

    # ---- the brackets ----

    def _begin(self) -> Frame:
        frame = self._open.open(self.mark())
        self.at += 1
        return frame

    def _close_early(self) -> None:
        self.mended("missing_closer")
        self._complete = False
        self._open.close()

    def _cut(self) -> None:
        """The text ends here: close everything that is open."""
        self._complete = False
        self.mended("missing_closer")
        self._open.close_all()
