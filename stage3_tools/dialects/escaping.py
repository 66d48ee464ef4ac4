r"""Escape lines of users and tools that imitate a header of the framework.

    [Tool result for get_weather]      in a text of a user or a tool becomes      \[Tool result for
    get_weather]

The headers are `[Tool result for NAME]`, `[Tool Execution Log]` and `[Feedback]`. A line imitates
one if its first letters stand behind an opening square bracket, or a character like it, and read
like the words of the header:

- Before the bracket, everything but letters and backslashes is ignored: spaces, Markdown, HTML
tags, numbers, control
  characters, ANSI escapes.
- Behind it, only letters are compared, without regard to case, width, style and accents. Letters of
other scripts
  that look like Latin ones are read as these, and HTML entities as their characters.

Not covered: rare look-alikes, letters in other encodings (`\u005b`), headers in the middle of a
line.

A message with feedback of the framework is marked by its `name`, which is stored with it; a text of
a user that begins with the same header is not. Code that lets users set the name of a message must
not let them choose "feedback", as it must not let them choose the role.

Used where users and tools speak beside such headers, in one role: in `prompt` and `flow`. With a
provider's own tool calls, results have a role of their own, and a user who writes feedback has no
more say than any user.
"""

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import groupby
from unicodedata import category, normalize

from stage0_gateway import Message, Part, TextPart

FEEDBACK = "[Feedback]\n"
"""The header of a message that tells the model why its reply could not be used."""

_FEEDBACK = "feedback"
_HEADERS = ("tool result", "tool result for", "tool execution log", "feedback")

_LOOK_ALIKES = {
    "a": "аαɑᴀᎪꓮ",
    "b": "вьβʙᏴꓐƀɓ",
    "c": "сᴄᏟꓚ",
    "d": "ԁժᴅᎠꓓđɗ",
    "e": "еєεᴇᎬꓰəɛ",
    "f": "ғϝꜰꓝƒք",
    "g": "ԍɡɢᏀꓖɠց",
    "k": "кκᴋᏦꓗƙ",
    "l": "iіιıɩɪӏןʟᏞᎥꓡꓲłǀ1լ",
    "n": "пνηɴոռꓠƞ",
    "o": "оοσօᴏᎾꓳøɵ0",
    "r": "гʀᏒꓣɍ",
    "s": "ѕꜱᏚꓢʂ",
    "t": "тτᴛᎢꓔŧƭ",
    "u": "уυսᴜꓴцʋʉ",
    "x": "хχꓫ",
}
"""Lower-case letters and digits that look like a Latin letter, or whose capitals do. I, l and 1 all
count as l."""

_LATIN = {each: letter for letter, others in _LOOK_ALIKES.items() for each in others}
_ENCLOSED = (0x1F150, 0x1F170, 0x1F1E6)  # where alphabets in circles, in squares and of flags begin
_BLANKS = "\u115f\u1160\u3164\uffa0"  # letters that are not seen
_QUOTES = "\"'\\"

_FILLER = "\u200b"
_BREAKS = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_BRACKETS = r"\[［﹇⁅⌈⌊⎡⎢⎣❲⟦⟬⦋⦍⦏⦗⸢⸤⹕⹗「｢﹁『﹃【︻〔﹝︹〖︗〘〚"
_LIST_NUMBERS = r"²³¹\u2460-\u249b\u24ea-\u24ff\u2776-\u2793"
_NO_LETTER = rf"(?:(?![{_BREAKS}\\])[\W\d_{_BLANKS}{_LIST_NUMBERS}])"

_BRACKET = re.compile(f"[{_BRACKETS}]")
_SUSPICIOUS = re.compile(f"[{_BRACKETS}&]")
_BEGINNING = re.compile(f"[{_BREAKS}]{_NO_LETTER}++")
_GAP_OR_CHARACTER = re.compile(rf"([\s{_FILLER}]++)|.", re.DOTALL)
_MARKUP = re.compile(
    rf"</?[a-z!][^<>{_BREAKS}]*>"
    r"|&(?:#0*\d{1,7};?|#x0*[\da-f]{1,6};?|[a-z][a-z\d]{1,30};)"
    r"|(?:\x1b\[|\x9b)(?:[0-?]+[a-z@`]|[a-eg-su-z@`])",  # "\x1b[Tool" begins a header, and not with "\x1b[T"
    re.IGNORECASE,
)


def feedback_message(text: str) -> Message:
    """Create the user message that gives feedback to the model, marked as the framework's own."""
    return Message("user", FEEDBACK + text, name=_FEEDBACK)


def is_feedback(message: Message) -> bool:
    """Whether a message is the framework's feedback, and not a user's text with the same header."""
    return (
        message.role == "user" and message.name == _FEEDBACK and message.text.startswith(FEEDBACK)
    )


def escaped_text(text: str) -> str:
    """Escape every line of a text that imitates a header, with a backslash before the bracket.

    The work is linear in the length of the text. Escaping a text again changes nothing.
    """
    if not _SUSPICIOUS.search(text):
        return text
    pieces, end = [], 0
    for place in _imitations(text):
        pieces += [text[end:place], "\\"]
        end = place
    return "".join([*pieces, text[end:]])


def escaped(content: str | tuple[Part, ...]) -> str | tuple[Part, ...]:
    """Escape the content of a message; neighbouring text parts are read as one text."""
    if isinstance(content, str):
        return escaped_text(content)
    parts: list[Part] = []
    for are_text, group in groupby(content, lambda part: isinstance(part, TextPart)):
        together = tuple(group)
        said = Message.user(together).text if are_text else ""
        parts += together if (safe := escaped_text(said)) == said else [TextPart(safe)]
    return tuple(parts)


def _imitations(text: str) -> Iterator[int]:
    """Find the brackets of imitated headers."""
    plain = "\n" + _MARKUP.sub(
        _without_markup, text
    )  # positions stay the same, but for this first one
    for line in _BEGINNING.finditer(plain):
        for bracket in _BRACKET.finditer(plain, line.start(), line.end()):
            if _is_header(plain, bracket.end()):
                yield bracket.start() - 1


def _without_markup(found: re.Match[str]) -> str:
    """Replace a tag, an entity or an ANSI escape by the character it stands for, if any, in the
    same length.
    """
    markup, shown = found[0], ""
    if markup.startswith("&"):
        from html import unescape  # few texts need it

        shown = unescape(markup)
    return shown.ljust(len(markup), _FILLER)


def _is_header(text: str, position: int) -> bool:
    """Whether the letters from this position on are the words of a header. Stops at the next
    bracket or quote.
    """
    read, headers = "", _headers()
    for found in _GAP_OR_CHARACTER.finditer(text, position):
        letters = "" if found[1] else _letters(found[0])
        if letters.isalnum():
            read += letters
            if not any(header.startswith(read) for header in headers):
                return False
        elif letters or read in headers:
            break
    return read in headers


@cache
def _headers() -> frozenset[str]:
    return frozenset("".join(map(_letters, header)) for header in _HEADERS)


@lru_cache(4096)
def _letters(char: str) -> str:
    """The Latin letters that a character looks like; "" for one without letters; brackets and
    quotes as they are.
    """
    for first in _ENCLOSED:
        if 0 <= ord(char) - first < 26:
            char = chr(ord("a") + ord(char) - first)
    folded = (each for each in normalize("NFKD", char).casefold() if category(each)[0] in "LN")
    letters = "".join(_LATIN.get(each, each) for each in folded if each not in _BLANKS)
    return letters or (
        char if char in _QUOTES or category(char) in ("Ps", "Pe", "Pi", "Pf") else ""
    )
