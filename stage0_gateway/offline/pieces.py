"""The pieces of a question that can become arguments: numbers, names, quoted text, dates, addresses.

Finds them and keeps track of which are used up, so that no piece fills two parameters. Knows nothing of
tools or schemas. Every pattern is bounded: hostile text costs time in proportion to its length. Used by
`filling.py` and `strings.py`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from stage0_gateway.offline.words import STOP_WORDS, word_set

Kind = Literal["quoted", "url", "email", "date", "time", "path", "code", "number", "name", "weak_name"]

_DAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sept?|oct|nov|dec)[a-z]{0,6}"
_PATTERNS: tuple[tuple[Kind, str], ...] = (
    ("quoted", r'"([^"\n]{1,2000})"|“([^”]{1,2000})”|「([^」]{1,2000})」|`([^`\n]{1,2000})`'),
    ("quoted", r"(?<!\w)'((?:[^'\n]|'(?=\w)){1,1000})'(?!\w)|‘([^’]{1,2000})’(?!\w)"),
    ("url", r"https?://[^\s<>\"]{1,2000}(?<![.,;:!?)])"),
    ("email", r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}"),
    ("date", r"\b\d{4}-\d\d?-\d\d?(?:T[\d:.]{4,15}(?:Z|[+-]\d\d:?\d\d)?)?\b|\b\d\d?/\d\d?/\d{2,4}\b"),
    ("date", rf"(?i)\b{_MONTH}\.? \d\d?(?:st|nd|rd|th)?(?:,? \d{{4}})?\b|\b\d\d? {_MONTH}(?: \d{{4}})?\b"),
    ("date", rf"(?i)\b\d\d?(?:st|nd|rd|th) (?:of )?{_MONTH}(?:,? \d{{4}})?\b|\b(?:next |this )?{_DAY}\b"),
    ("date", r"(?i)\b(?:today|tonight|tomorrow|yesterday|next (?:week|month|year))\b"),
    ("date", "今天|明天|后天|昨天"),
    ("time", r"(?i)\b\d\d?:\d\d(?::\d\d)?(?: ?[ap]\.?m\b)?|\b\d\d? ?[ap]m\b"),
    ("path", r"(?<![\w./~-])[\w.~-]{0,100}(?:/[\w.~-]{1,100}){1,20}"),
    ("path", r"(?<![\w.])(?=\w{2})\w[\w-]{0,100}\.[a-zA-Z]{1,5}\b"),
    ("code", r"\b(?=[A-Za-z-]{1,20}\d)[A-Za-z][A-Za-z-]{0,20}\d[\w-]{0,40}\b"),
    (
        "number",
        r"(?<![\w.,])-?\d{1,15}(?:,\d{3}){0,5}(?:\.\d{1,15})?(?!\d)(?: (?ai:thousand|million|billion)\b)?",
    ),
    # ASCII only: without it "(?i)" takes the long s of "ſix" for an s.
    ("number", r"\b(?ai:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|fifty)\b"),
)
_COMPILED = tuple((kind, re.compile(pattern)) for kind, pattern in _PATTERNS)
_NUMBER_WORDS = {
    **{"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10},
    **{"eleven": 11, "twelve": 12, "twenty": 20, "thirty": 30, "fifty": 50},
}
_TIMES = {"thousand": 10**3, "million": 10**6, "billion": 10**9}
_CAPITAL = re.compile(r"[^\W\d_][\w'’&-]{0,60}(?:\.(?=[A-Z]))?")
_CITIES = re.compile(
    "北京|上海|广州|深圳|杭州|南京|成都|武汉|西安|重庆|天津|苏州|香港|澳门|台北|厦门|青岛|大连|长沙|郑州|"
    "东京|大阪|首尔|新加坡|曼谷|巴黎|伦敦|纽约|柏林|罗马|莫斯科|悉尼|旧金山|洛杉矶"
)
_BEFORE_DE = re.compile(r"(?:^|(?<=[\s，。？！、；在]))([\u4e00-\u9fff]{2,4}?)(?=的|今天|明天|现在|天气)")
_NOT_PLACES = word_set("今天 明天 昨天 现在 这里 那里 你们 我们 什么 怎么 请问")
NOT_NAMES = STOP_WORDS | word_set(
    "i'm i'd i've what's it's compare convert translate calculate compute add book buy call check "
    "create delete display draw email explain fetch find get hire list look open order play plan read "
    "remind reserve retrieve run say schedule search send set start stop summarize turn update write "
    "yes ok are is does monday tuesday wednesday thursday friday saturday sunday january february march "
    "april june july august september october november december celsius fahrenheit usd identify "
    "determine today tonight tomorrow yesterday now"
)


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of the question; `text` is what it stands for, without quotes."""

    kind: Kind
    text: str
    start: int
    end: int

    @property
    def number(self) -> int | float:
        """The value of a number piece."""
        digits, _, times = self.text.lower().replace(",", "").partition(" ")
        if digits in _NUMBER_WORDS:
            return _NUMBER_WORDS[digits]
        value = float(digits) * _TIMES.get(times, 1)
        return int(value) if value.is_integer() else value


class Sheet:
    """A text with its pieces; each piece can be used once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.pieces = find_pieces(text)
        self._used: set[int] = set()

    def free(self, *kinds: Kind) -> list[Piece]:
        """The unused pieces of these kinds, in the order of the text."""
        return [one for one in self.pieces if one.kind in kinds and one.start not in self._used]

    def use(self, piece: Piece) -> Piece:
        """Mark a piece as used up."""
        self._used.add(piece.start)
        return piece


def find_pieces(text: str) -> tuple[Piece, ...]:
    """All pieces of a text in its order; none overlaps another."""
    found: list[Piece] = []
    for kind, pattern in _COMPILED:
        rest = text
        for match in pattern.finditer(text):
            said = next((group for group in match.groups() if group), match[0])
            found.append(Piece(kind, said.strip(), *match.span()))
            rest = _blank(rest, match.start(), match.end()) if len(found) < 500 else rest
        text = rest  # what one pattern took, the next ones do not see
        if len(found) >= 500:
            break
    found.extend(_names(text))
    return tuple(sorted(found, key=lambda piece: piece.start))


def _blank(text: str, start: int, end: int) -> str:
    return text[:start] + "\0" * (end - start) + text[end:]


def _names(text: str) -> Iterator[Piece]:
    chinese = list(_CITIES.finditer(text))
    for match in chinese or _BEFORE_DE.finditer(text):
        if match[0] not in _NOT_PLACES:
            yield Piece("name", match[0], *match.span())
    group: list[re.Match[str]] = []
    for word in _CAPITAL.finditer(text):
        if not word[0][0].isupper():
            continue
        if group and not _continues(text, group[-1], word):
            yield from _as_name(text, group)
            group = []
        group.append(word)
    yield from _as_name(text, group)


def _continues(text: str, last: re.Match[str], word: re.Match[str]) -> bool:
    between = text[last.end() : word.start()]
    # "New York", "Rio de Janeiro", "Berkeley, CA"
    state = between == ", " and len(word[0]) == 2 and word[0].isupper()
    saint = between == ". " and len(last[0]) <= 3
    return state or saint or between in (" ", " de ", " del ", " of ")


def _as_name(text: str, group: list[re.Match[str]]) -> Iterator[Piece]:
    while group and _bare(group[0][0]) in NOT_NAMES:
        group = group[1:]
    while group and _bare(group[-1][0]) in NOT_NAMES:
        group = group[:-1]
    if group:
        start, end = group[0].start(), group[-1].end()
        first = re.search(r"(?:^|[.?!\n]\s?)[\s\"'(]{0,3}$", text[max(0, start - 5) : start]) is not None
        name = text[start:end].removesuffix("'s").removesuffix("’s")
        yield Piece("weak_name" if first else "name", name, start, end)


def _bare(word: str) -> str:
    return word.lower().replace("’", "'").removesuffix("'s")
