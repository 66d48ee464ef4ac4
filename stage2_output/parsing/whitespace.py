"""White space and comments between the parts of JSON, and the markup that ends the JSON."""

import re

from stage2_output.result import Repair

# Characters that begin neither white space nor a comment. Most positions hold one of them.
_NEVER_SKIPPED = frozenset(
    "{}[]\"':,abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
)
_SPACE = re.compile(r"[ \t\r\n]*+")
# White space that JSON does not allow, and invisible characters.
_SPECIAL = "\u00a0\u1680\u180e\u2000-\u200f\u2028\u2029\u202f\u205f\u2060\u3000\ufeff\v\f\x85"
_COMMENT = r"(?://|\#)[^\r\n]*+|/\*(?:[^*]++|\*(?!/))*+(?:\*/)?"
_PART = re.compile(rf"[ \t\r\n]++|(?P<special>[{_SPECIAL}]++)|(?P<comment>{_COMMENT})")
_ALL = re.compile(rf"(?:[ \t\r\n{_SPECIAL}]++|{_COMMENT})*+")
# A fence may be followed by a language only, a closing tag by nothing that continues the JSON.
# A fence begins at the first backtick of a run, since the pattern is tried at each of them.
_CLOSING_MARKUP = re.compile(
    r"(?<!`)`{3,}+[ \t]*+\w*+[ \t]*+(?:[\r\n]|\Z)"
    r"""|</[a-zA-Z][\w:.-]*+(?:>(?!\s*+["'“”‘’,}\]])|\Z)"""
)
_LOOK_AHEAD = 1000  # characters; a longer comment does not count as one


def skip_whitespace(text: str, at: int, end: int, repairs: list[Repair]) -> int:
    """Return the index behind white space and comments; append non-standard ones to `repairs`."""
    if text[at : at + 1] in _NEVER_SKIPPED:
        return at
    at = match_end(_SPACE, text, at, end)
    while at < end and (found := _PART.match(text, at, end)):
        if found["special"]:
            repairs.append(Repair("special_space", at))
        elif found["comment"]:
            repairs.append(Repair("comment", at))
        at = found.end()
    return at


def whitespace_end(text: str, at: int, end: int) -> int:
    """Return the index behind white space and comments of limited length, for a look-ahead."""
    if text[at : at + 1] in _NEVER_SKIPPED:
        return at
    at = match_end(_SPACE, text, at, end)
    return match_end(_ALL, text, at, min(end, at + _LOOK_AHEAD))


def is_closing_markup(text: str, at: int, end: int) -> bool:
    """Whether a code fence or closing tag begins at an index, so that the JSON ends there."""
    return _CLOSING_MARKUP.match(text, at, end) is not None


def match_end(pattern: re.Pattern[str], text: str, at: int, end: int) -> int:
    """Return the end of the match of a pattern that matches everywhere, at least nothing."""
    found = pattern.match(text, at, end)
    assert found
    return found.end()
