"""Which quote ends a string, where quotes of the text were not escaped or closing ones were left
out.

That is seen from what follows: a comma and the next member, a closing bracket, a colon. A quote
that is followed by anything else belongs to the text, as one of a pair or within a word. Where more
than one reading is possible the string is given up: a clear error is better than a wrong value.

Knows only where the string stands, not what it says. Used by `strings.py`.
"""

import re
from typing import Literal

from stage2_output.parsing.errors import Damaged
from stage2_output.parsing.whitespace import gap_end, wrapping_ends

Role = Literal["key", "member", "item"]
"""A string is a key of an object, the value of one of its members, or an item of an array."""

# A quote that opens a string, and those that may close it.
CLOSING_QUOTES = {
    '"': '"',
    "'": "'",
    "`": "`´",
    "´": "´`",
    "＂": '＂"',
    "“": '”“„‟"',
    "”": '”“"',
    "„": '“”"',
    "‟": '”"',
    "‘": "’‘'",
    "’": "’'",
    "‚": "‘’'",
    "‛": "’'",
}
_ENDINGS = frozenset("}]｝］")
_COMMAS = frozenset(",，")

# A key and its colon; or one that the end of the text cuts off.
_KEY = r"""
    "(?:[^"\\\n]++|\\.)*+{0}
  | '(?:[^'\\\n]++|\\.)*+{1}
  | [“”„‟＂](?:[^“”"＂\\\n]++|\\.)*+{2}
  | [‘’](?:[^‘’'\\\n]++|\\.)*+{3}
"""
_SPACE = r"[\s\u180e\u200b-\u200f\u2060\ufeff]"  # the last ones are no space for Python
_SKIP = rf"(?:{_SPACE}++|/\*(?:[^*]|\*(?!/)){{0,300}}+\*/|(?://|\#)[^\r\n]{{0,300}}+)*+"
_QUOTES = ('"', "'", '[“”"＂]', "[‘’']")
_MEMBER_AHEAD = re.compile(
    _KEY.format(*(rf"{each}{_SKIP}(?:[:：]|=>)" for each in _QUOTES)), re.VERBOSE
)
_CUT_KEY_AHEAD = re.compile(
    _KEY.format(*(rf"(?:{each}{_SKIP}|\\?)\Z" for each in _QUOTES)), re.VERBOSE
)
_BARE_KEY_AHEAD = re.compile(
    r"(?:(?:[^\W\d]|\$)[\w$-]*+|-?[0-9]++(?:\.[0-9]++)?+)[ \t]*+(?:[:：](?!//)|=>|\Z)"
)
_ITEM_AHEAD = re.compile(rf"""(?:"[^"\\\n]*+"|'[^'\\\n]*+'){_SPACE}*+[,\]]""")
_SCALAR_AHEAD = re.compile(
    rf"(?:-?[0-9.][-+.eE_0-9]*+|(?:true|false|null|True|False|None)\b){_SPACE}*+(?:[,，\]}})］｝]|\Z)"
)
_TUPLE_AHEAD = re.compile(
    rf"""(?:\({_SPACE}*+)++
    (?:["'“‘\[{{)]|(?:-?[0-9][0-9._]*+|true|false|null|True|False|None){_SPACE}*+,)""",
    re.VERBOSE,
)
_MOST_UNESCAPED = 1000  # in one string: each is examined together with the text around it
_TWO_READINGS = "has quotes that can be read in more ways than one"


class Quotes:
    """The quotes of one string.

    Args:
        text: The text.
        start: Index of the opening quote.
        end: Where the text is taken to end.
        role: Where the string stands.
        closers: The brackets that are still to come, the innermost first.

    Attributes:
        unescaped: How many quotes were found to belong to the text of the string.
    """

    def __init__(self, text: str, start: int, end: int, role: Role, closers: str) -> None:
        self._text, self._start, self._end, self._role, self._closers = (
            text,
            start,
            end,
            role,
            closers,
        )
        self.unescaped = 0
        self._paired = False  # one of them waits for its other half
        self._opens = self._closes = (
            False  # one of them looks like the beginning, or the end, of a string
        )

    def belong_to_text(self, at: int) -> None:
        """Take the quote at a place for one of the text: within a word, or one of a pair.

        Raises:
            Damaged: It could be something else.
        """
        text = self._text
        before, after = text[at - 1], text[at + 1 : at + 2]
        if not (before.isdigit() or (before.isalpha() and after.isalpha())):
            begins = at - 1 == self._start or before.isspace() or before in "([{<=,:;-–—"
            ends = not after or after.isspace() or after in ".,;:!?)]}\"'<"
            if (begins and (ends or self._paired)) or (ends and not self._paired):
                raise Damaged(_TWO_READINGS, at)
            self._paired = not self._paired
        self._opens |= text[max(self._start + 1, at - 20) : at].rstrip()[-1:] in (*":：,，{[",)
        self._closes |= text[at + 1 : min(at + 20, self._end)].lstrip()[:1] in (*":：,，}]",)
        self.unescaped += 1
        if (self._opens and self._closes) or self.unescaped > _MOST_UNESCAPED:
            raise Damaged(_TWO_READINGS, at)  # there may be more than one string here

    def settle(self, at: int, *, lines: bool) -> None:
        """The string ends at a place; whether all the quotes in it make sense.

        Args:
            at: Index of the closing quote.
            lines: Whether the string goes over several lines, in which quotes tell less.

        Raises:
            Damaged: One of a pair is missing, or too much was mended to be sure.
        """
        if self._paired or (self.unescaped and lines):
            raise Damaged(_TWO_READINGS, at)

    def triple(self) -> int | None:
        """Where the text of a string in three quotes ends, Python's way to write several lines;
        None for others.

        Raises:
            Damaged: It may just as well be quotes in quotes.
        """
        text, quote = self._text, self._text[self._start]
        if quote not in "\"'" or not text.startswith(quote * 3, self._start, self._end):
            return None
        close = text.find(quote * 3, self._start + 3, self._end)
        after = gap_end(text, close + 3, self._end)
        ends = close >= 0 and (after >= self._end or text[after] in ",}]")
        inside = text[self._start + 3 : close]
        if not ends or "\n" not in inside or inside.lstrip()[:1] in (quote, *",:]}"):
            raise Damaged(_TWO_READINGS, self._start)
        return close

    def ends(self, at: int) -> bool:
        """Whether the quote at a place ends the string: what follows can only follow a string.

        Raises:
            Damaged: It may be that, or one of the text.
        """
        text = self._text
        if text.startswith(("//", "#"), at + 1):
            return False  # a comment begins behind a space
        after = gap_end(text, at + 1, self._end)
        if after >= self._end or wrapping_ends(text, after, self._end):
            return True
        mark = text[after]
        if self._role == "key":
            return True
        if mark in _ENDINGS:
            at_the_end = not text[after : after + 200].strip(
                "]} \t\r\n"
            )  # whatever it should have been
            return ("}" if mark in "}｝" else "]") in self._closers or at_the_end
        if mark == ")":
            return mark in self._closers
        if mark in _COMMAS:
            return self._goes_on(gap_end(text, after + 1, self._end))
        if mark in CLOSING_QUOTES:
            return self._comma_missing(at, after)
        if mark == "+":
            beyond = gap_end(text, after + 1, self._end)
            return text[beyond : beyond + 1] in CLOSING_QUOTES
        on_a_new_line = self._role == "member" and "\n" in text[at:after]
        return on_a_new_line and _BARE_KEY_AHEAD.match(text, after, self._end) is not None

    def _goes_on(self, after: int) -> bool:
        """Whether what follows a comma is the next member or item."""
        text = self._text
        if after >= self._end or text.startswith(("...", "…"), after):
            return True
        if text[after] in _ENDINGS or text[after] in self._closers:
            return True
        if self._role == "member":
            if text[after] in "{｛":
                return "]" in self._closers  # the object's own closing bracket is missing
            patterns = (
                _MEMBER_AHEAD,
                _CUT_KEY_AHEAD,
                *([] if self.unescaped else [_BARE_KEY_AHEAD]),
            )
            return any(pattern.match(text, after, self._end) for pattern in patterns)
        if text[after] in "{[｛［" or text[after] in CLOSING_QUOTES:
            return True
        return any(
            pattern.match(text, after, self._end) for pattern in (_SCALAR_AHEAD, _TUPLE_AHEAD)
        )

    def _comma_missing(self, at: int, after: int) -> bool:
        """Whether a string follows this one, with nothing but the comma missing."""
        text = self._text
        if self._role == "member":
            return _MEMBER_AHEAD.match(text, after, self._end) is not None
        if after > at + 1:
            within = (
                at - 1 == self._start
                or text[at - 1] in " \t"
                or text[after + 1 : after + 2] in (*" \t", text[after])
            )
            if within and "\n" not in text[at:after]:
                raise Damaged(
                    _TWO_READINGS, at
                )  # spaces are rather between words than at the end of a text
            return True
        beyond = gap_end(text, after + 1, self._end)
        if beyond >= self._end or text[beyond] in ",]}":
            return False  # the second of the two is the one that closes
        raise Damaged("has two quotes in a row, which can be read in more ways than one", at)

    def lost_before(self, at: int) -> int | None:
        """Where this string should have ended, if the quote at a place begins the next one.

        Raises:
            Damaged: It may begin the next one, or be one of the text.
        """
        text, behind = self._text, at
        while behind > self._start + 1 and text[behind - 1] in " \t\r\n":
            behind -= 1
        comma = text[behind - 1] in _COMMAS and behind - 1 > self._start
        if self._role == "key" or not (comma or "\n" in text[behind:at]):
            return None
        ahead = _MEMBER_AHEAD if self._role == "member" else _ITEM_AHEAD
        if not ahead.match(text, at, self._end):
            return None
        if self.unescaped:
            raise Damaged(_TWO_READINGS, at)
        return behind - 1 if comma else behind
