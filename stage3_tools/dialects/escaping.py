r"""Escape lines of users and tools that imitate a header of the framework.

    [Tool result for get_weather]        in a text of a user or a tool becomes
    \[Tool result for get_weather]

The headers are `[Tool result for NAME]`, `[Tool Execution Log]`, `[Feedback]` and
`[Summary of earlier messages, ...]`; `[Tool output …]` and `[Tool response …]` are treated like the
first one. A line imitates a header if its first letters follow an opening square bracket, or a
similar character, and read like the words of the header:

- Before the bracket, all characters except letters and backslashes are ignored: spaces, Markdown,
  HTML tags, numbers, control characters, ANSI escapes with their texts. So is the label of a
  speaker (`User:`) or of an item of a list (`a)`, `iv.`).
- Behind the bracket, only letters are compared, without regard to case, width, style and accents.
  Letters of other scripts and digits that look like Latin letters are read as these, and HTML
  entities as their characters.

Not covered: rare look-alikes, letters in other encodings (`\u005b`), round and curly brackets,
other words with the same meaning, headers in the middle of a line.

Feedback and summaries of the framework are marked by the `name` of their message. A text of a user
with the same header has no such name. Code that lets users set the name of a message must not allow
"feedback" and "summary", just as it must not let users choose the role.

Used by `prompt` and by the formatter of chains, where users, tools and the framework share one
role. In native tool calls, results have their own role, and forged feedback has only the authority
of a user.
"""

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from html import unescape
from itertools import groupby
from unicodedata import category, normalize

from stage0_gateway import Message, Part, TextPart
from stage1_context import is_summary

FEEDBACK = "[Feedback]\n"
"""The header of a message with feedback for the model."""

_FEEDBACK_NAME = "feedback"
_HEADERS = (
    "tool result",
    "tool result for",
    "tool results",
    "tool output",
    "tool response",
    "tool execution log",
    "feedback",
    "summary of earlier messages",
)

_LOOK_ALIKES = {
    "a": "аαɑᴀᎪꓮ4",
    "b": "вьβʙᏴꓐƀɓ8",
    "c": "сᴄᏟꓚ",
    "d": "ԁժᴅᎠꓓđɗ",
    "e": "еєεᴇᎬꓰəɛ3",
    "f": "ғϝꜰꓝƒք",
    "g": "ԍɡɢᏀꓖɠց",
    "k": "кκᴋᏦꓗƙ",
    "l": "iіιıɩɪӏןʟᏞᎥꓡꓲłǀ1լ",
    "m": "мμᴍᎷꓟɱ",
    "n": "пνηɴոռꓠƞ",
    "o": "оοσօᴏᎾꓳøɵ0",
    "r": "гʀᏒꓣɍ",
    "s": "ѕꜱᏚꓢʂ5",
    "t": "тτᴛᎢꓔŧƭ7",
    "u": "yуүγυսᴜꓴꓬᎩᎽцʋʉʏɏƴ",
    "x": "хχꓫ",
}
"""Lower-case letters and digits that look like a Latin letter, or whose capitals do. I, l and 1 all
count as l, and y counts as u."""

_LATIN = {char: letter for letter, chars in _LOOK_ALIKES.items() for char in chars}
_ENCLOSED = (0x1F150, 0x1F170, 0x1F1E6)  # first code points: letters in circles, in squares, flags
_BLANKS = "\u115f\u1160\u3164\uffa0"  # invisible letters
_QUOTES = "\"'\\"

_FILLER = "\u200b"
_BREAKS = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_BRACKETS = r"\[［﹇⁅⌈⌊⎡⎢⎣❲⟦⟬⦋⦍⦏⦗⸢⸤⹕⹗「｢﹁『﹃【︻〔﹝︹〖︗〘〚⟨⟪〈〈"
_LIST_NUMBERS = r"²³¹\u2460-\u249b\u24ea-\u24ff\u2776-\u2793"
_NO_LETTER = rf"(?:(?![{_BREAKS}\\])[\W\d_{_BLANKS}{_LIST_NUMBERS}])"

_BRACKET = re.compile(f"[{_BRACKETS}]")
_SUSPICIOUS = re.compile(f"[{_BRACKETS}&]")
_SPEAKER = r"(?:user|human|assistant|system|tool|ai|model|bot|function|observation)\W{0,9}?:"
_ITEM = r"(?:[a-z]|[ivxlc]{2,7})[.)]"
_BEGINNING = re.compile(
    f"[{_BREAKS}]{_NO_LETTER}*+(?:(?:{_SPEAKER}|{_ITEM}){_NO_LETTER}*+)?", re.IGNORECASE
)
_GAP_OR_CHARACTER = re.compile(rf"([\s{_FILLER}]++)|.", re.DOTALL)
_MARKUP = re.compile(
    rf"</?[a-z!][^<>{_BREAKS}]*>"
    r"|&(?:#0*\d{1,7};?|#x0*[\da-f]{1,6};?|[a-z][a-z\d]{1,30};)"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90])"
    rf"[^\x07\x1b\x90\x9c\x9d&{_BRACKETS}{_BREAKS}]*+(?:\x07|\x9c|\x1b\\)"
    # In "\x1b[Tool", the first letter belongs to the word, in "\x1b[T [Tool" to the escape.
    rf"|(?:\x1b\[|\x9b)(?:[0-?]+[a-z@`]|[a-eg-ru-z@`]|[fst](?={_NO_LETTER}*[{_BRACKETS}]))",
    re.IGNORECASE,
)


def feedback_message(text: str) -> Message:
    """Create a user message with feedback for the model, marked as the framework's own."""
    return Message("user", FEEDBACK + text, name=_FEEDBACK_NAME)


def is_feedback(message: Message) -> bool:
    """Return whether a message is feedback of the framework, not a user's text with its header."""
    return (
        message.role == "user"
        and message.name == _FEEDBACK_NAME
        and message.text.startswith(FEEDBACK)
    )


def is_from_framework(message: Message) -> bool:
    """Return whether the framework wrote a user message: feedback or a summary."""
    return is_feedback(message) or is_summary(message)


def escape_text(text: str) -> str:
    """Insert a backslash before the bracket of every line that imitates a header.

    The run time is linear in the length of the text. Escaping a text again changes nothing.
    """
    if not _SUSPICIOUS.search(text):
        return text
    pieces, end = [], 0
    for bracket in _imitated_headers(text):
        pieces += [text[end:bracket], "\\"]
        end = bracket
    return "".join([*pieces, text[end:]])


def escape(content: str | tuple[Part, ...]) -> str | tuple[Part, ...]:
    """Escape the content of a message; adjacent text parts count as one text."""
    if isinstance(content, str):
        return escape_text(content)
    parts: list[Part] = []
    for is_text, group in groupby(content, lambda part: isinstance(part, TextPart)):
        adjacent = tuple(group)
        text = Message.user(adjacent).text if is_text else ""
        parts += adjacent if (safe := escape_text(text)) == text else [TextPart(safe)]
    return tuple(parts)


def _imitated_headers(text: str) -> Iterator[int]:
    """Yield the positions of the brackets of imitated headers."""
    plain = "\n" + _MARKUP.sub(_without_markup, text)  # positions increase by one
    for line in _BEGINNING.finditer(plain):
        for bracket in _BRACKET.finditer(plain, line.start(), line.end()):
            if _is_header(plain, bracket.end()):
                yield bracket.start() - 1


def _without_markup(match: re.Match[str]) -> str:
    """Replace a tag, an entity or an ANSI escape by its character, or by filler of its length."""
    markup = match[0]
    character = unescape(markup) if markup.startswith("&") else ""
    return character.ljust(len(markup), _FILLER)


def _is_header(text: str, position: int) -> bool:
    """Return whether the letters from a position to the next bracket or quote are a header."""
    word, headers = "", _headers()
    for match in _GAP_OR_CHARACTER.finditer(text, position):
        letters = "" if match[1] else _letters(match[0])
        if letters.isalnum():
            word += letters
            if not any(header.startswith(word) for header in headers):
                return False
        elif letters or word in headers:
            break
    return word in headers


@cache
def _headers() -> frozenset[str]:
    return frozenset("".join(map(_letters, header)) for header in _HEADERS)


@lru_cache(4096)
def _letters(char: str) -> str:
    """Return the Latin letters that a character looks like.

    Brackets and quotes are returned unchanged; all other characters without letters give "".
    """
    for first in _ENCLOSED:
        if 0 <= ord(char) - first < 26:
            char = chr(ord("a") + ord(char) - first)
    folded = (c for c in normalize("NFKD", char).casefold() if category(c)[0] in "LN")
    letters = "".join(_LATIN.get(c, c) for c in folded if c not in _BLANKS)
    return letters or (
        char if char in _QUOTES or category(char) in ("Ps", "Pe", "Pi", "Pf") else ""
    )
