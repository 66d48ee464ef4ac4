"""Decide which quote closes a string when inner quotes are unescaped or closing quotes missing.

The text behind a quote decides: a comma and the next member, a closing bracket or a colon. Any
other quote belongs to the string, as one of a pair or inside a word. If more than one reading is
possible, the string is rejected: an error is better than a wrong value. Used by `strings.py`.
"""

import re
from typing import Literal

from stage2_output.parsing.errors import Unrepairable
from stage2_output.parsing.whitespace import is_closing_markup, whitespace_end

Role = Literal["key", "member", "item"]
"""Role of a string: a key of an object, the value of a member, or an item of an array."""

# Opening quotes, and the quotes that may close them.
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
_CLOSERS = frozenset("}]｝］")
_COMMAS = frozenset(",，")

# A key and its colon, or a key that the end of the text cuts off.
_KEY = r"""
    "(?:[^"\\\n]++|\\.)*+{0}
  | '(?:[^'\\\n]++|\\.)*+{1}
  | [“”„‟＂](?:[^“”"＂\\\n]++|\\.)*+{2}
  | [‘’](?:[^‘’'\\\n]++|\\.)*+{3}
"""
_SPACE = r"[\s\u180e\u200b-\u200f\u2060\ufeff]"  # Python does not count the last ones as space
_SKIP = rf"(?:{_SPACE}++|/\*(?:[^*]|\*(?!/)){{0,300}}+\*/|(?://|\#)[^\r\n]{{0,300}}+)*+"
_QUOTES = ('"', "'", '[“”"＂]', "[‘’']")
_MEMBER_AHEAD = re.compile(
    _KEY.format(*(rf"{quote}{_SKIP}(?:[:：]|=>)" for quote in _QUOTES)), re.VERBOSE
)
_CUT_KEY_AHEAD = re.compile(
    _KEY.format(*(rf"(?:{quote}{_SKIP}|\\?)\Z" for quote in _QUOTES)), re.VERBOSE
)
_BARE_KEY_AHEAD = re.compile(
    r"(?:(?:[^\W\d]|\$)[\w$-]*+|-?[0-9]++(?:\.[0-9]++)?+)[ \t]*+(?:[:：](?!//)|=>|\Z)"
)
_STRING_ITEM_AHEAD = re.compile(rf"""(?:"[^"\\\n]*+"|'[^'\\\n]*+'){_SPACE}*+[,\]]""")
_ITEM_AHEAD = re.compile(
    rf"""[{{\[｛［]|(?:-?[0-9.][-+.eE_0-9]*+|(?:true|false|null|True|False|None)\b)
        {_SPACE}*+(?:[,，\]}})］｝]|\Z)
    | (?:\({_SPACE}*+)++
        (?:["'“‘\[{{)]|(?:-?[0-9][0-9._]*+|true|false|null|True|False|None){_SPACE}*+,)""",
    re.VERBOSE,
)
_MOST_INNER_QUOTES = 1000  # per string: each is examined together with the text around it
_AMBIGUOUS = "has quotes that can be read in more ways than one"


class Quotes:
    """Classify the quotes of one string.

    Args:
        text: The text.
        start: Index of the opening quote.
        end: Index at which the text is considered to end.
        role: Role of the string.
        closers: The expected closing brackets, innermost first.

    Attributes:
        inner: Number of unescaped quotes that belong to the string.
    """

    def __init__(self, text: str, start: int, end: int, role: Role, closers: str) -> None:
        self._text, self._start, self._end = text, start, end
        self._role, self._closers = role, closers
        self.inner = 0
        self._is_paired = False  # an inner quote waits for its counterpart
        # Whether an inner quote looks like the beginning, or the end, of a string.
        self._opens = self._closes = False

    def add_inner_quote(self, at: int) -> None:
        """Count the quote at an index as a part of the string: inside a word or one of a pair.

        Raises:
            Unrepairable: The quote may have another meaning.
        """
        text = self._text
        before, after = text[at - 1], text[at + 1 : at + 2]
        if not (before.isdigit() or (before.isalpha() and after.isalpha())):
            begins = at - 1 == self._start or before.isspace() or before in "([{<=,:;-–—"
            ends = not after or after.isspace() or after in ".,;:!?)]}\"'<"
            if (begins and (ends or self._is_paired)) or (ends and not self._is_paired):
                raise Unrepairable(_AMBIGUOUS, at)
            self._is_paired = not self._is_paired
        self._opens |= text[max(self._start + 1, at - 20) : at].rstrip()[-1:] in (*":：,，{[",)
        self._closes |= text[at + 1 : min(at + 20, self._end)].lstrip()[:1] in (*":：,，}]",)
        self.inner += 1
        if (self._opens and self._closes) or self.inner > _MOST_INNER_QUOTES:
            raise Unrepairable(_AMBIGUOUS, at)  # the text may be more than one string

    def check_inner_quotes(self, at: int, *, multiline: bool) -> None:
        """Check the inner quotes of a string that ends at an index.

        Args:
            at: Index of the closing quote.
            multiline: Whether the string contains line breaks, which make inner quotes uncertain.

        Raises:
            Unrepairable: A pair is incomplete, or the string contains too many repairs.
        """
        if self._is_paired or (self.inner and multiline):
            raise Unrepairable(_AMBIGUOUS, at)

    def triple_quote_end(self) -> int | None:
        """Return the index of the closing triple quote of a Python string; None for others.

        Raises:
            Unrepairable: The quotes may also be quotes inside quotes.
        """
        text, quote = self._text, self._text[self._start]
        if quote not in "\"'" or not text.startswith(quote * 3, self._start, self._end):
            return None
        close = text.find(quote * 3, self._start + 3, self._end)
        after = whitespace_end(text, close + 3, self._end)
        ends = close >= 0 and (after >= self._end or text[after] in ",}]")
        content = text[self._start + 3 : close]
        if not ends or "\n" not in content or content.lstrip()[:1] in (quote, *",:]}"):
            raise Unrepairable(_AMBIGUOUS, self._start)
        return close

    def closes_string(self, at: int) -> bool:
        """Whether the quote at an index closes the string, judged by the text behind it.

        Raises:
            Unrepairable: The quote may close the string or belong to it.
        """
        text = self._text
        if text.startswith(("//", "#"), at + 1):
            return False  # a comment begins behind a space
        after = whitespace_end(text, at + 1, self._end)
        if after >= self._end or self._role == "key" or is_closing_markup(text, after, self._end):
            return True
        mark = text[after]
        if mark in _CLOSERS:
            at_the_end = not text[after : after + 200].strip("]} \t\r\n")
            return at_the_end or ("}" if mark in "}｝" else "]") in self._closers
        if mark == ")":
            return mark in self._closers
        if mark in _COMMAS:
            return self._continues_at(whitespace_end(text, after + 1, self._end))
        if mark in CLOSING_QUOTES:
            return self._is_comma_missing(at, after)
        if mark == "+":
            operand = whitespace_end(text, after + 1, self._end)
            return text[operand : operand + 1] in CLOSING_QUOTES
        is_on_new_line = self._role == "member" and "\n" in text[at:after]
        return is_on_new_line and _BARE_KEY_AHEAD.match(text, after, self._end) is not None

    def _continues_at(self, after: int) -> bool:
        """Whether the next member or item begins at an index behind a comma."""
        text = self._text
        if after >= self._end or text.startswith(("...", "…"), after):
            return True
        mark = text[after]
        if mark in _CLOSERS or mark in self._closers:
            return True
        if self._role == "item":
            return mark in CLOSING_QUOTES or _ITEM_AHEAD.match(text, after, self._end) is not None
        if mark in "{｛":
            return "]" in self._closers  # the closing bracket of this object is missing
        bare_key = () if self.inner else (_BARE_KEY_AHEAD,)
        keys = (_MEMBER_AHEAD, _CUT_KEY_AHEAD, *bare_key)
        return any(pattern.match(text, after, self._end) for pattern in keys)

    def _is_comma_missing(self, at: int, after: int) -> bool:
        """Whether another string follows this one, and only the comma is missing."""
        text = self._text
        if self._role == "member":
            return _MEMBER_AHEAD.match(text, after, self._end) is not None
        if after > at + 1:
            # Spaces on both sides of a quote are usual between words.
            is_inside_text = (
                at - 1 == self._start
                or text[at - 1] in " \t"
                or text[after + 1 : after + 2] in (*" \t", text[after])
            )
            if is_inside_text and "\n" not in text[at:after]:
                raise Unrepairable(_AMBIGUOUS, at)
            return True
        behind = whitespace_end(text, after + 1, self._end)
        if behind >= self._end or text[behind] in ",]}":
            return False  # the second of the two quotes closes the string
        raise Unrepairable("has two quotes in a row, which can be read in more ways than one", at)

    def missing_quote_position(self, at: int) -> int | None:
        """Return where the string should have ended if the quote at an index begins the next one.

        Raises:
            Unrepairable: The quote may begin the next string or belong to this one.
        """
        text, behind = self._text, at
        while behind > self._start + 1 and text[behind - 1] in " \t\r\n":
            behind -= 1
        is_comma = text[behind - 1] in _COMMAS and behind - 1 > self._start
        if self._role == "key" or not (is_comma or "\n" in text[behind:at]):
            return None
        ahead = _MEMBER_AHEAD if self._role == "member" else _STRING_ITEM_AHEAD
        if not ahead.match(text, at, self._end):
            return None
        if self.inner:
            raise Unrepairable(_AMBIGUOUS, at)
        return behind - 1 if is_comma else behind
