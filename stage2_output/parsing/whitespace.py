"""What stands between the parts of JSON: white space, and the comments that JSON does not know."""

import re

from stage2_output.parsing.errors import Repair

_SPACE = re.compile(r"[ \t\r\n]*+")
# White space that is none for JSON, and marks that cannot be seen.
_SPECIAL = "\u00a0\u1680\u180e\u2000-\u200f\u2028\u2029\u202f\u205f\u2060\u3000\ufeff\v\f\x85"
_COMMENT = r"(?://|\#)[^\r\n]*+|/\*(?:[^*]++|\*(?!/))*+(?:\*/)?"
_PIECE = re.compile(rf"[ \t\r\n]++|(?P<special>[{_SPECIAL}]++)|(?P<comment>{_COMMENT})")
_WHOLE = re.compile(rf"(?:[ \t\r\n{_SPECIAL}]++|{_COMMENT})*+")
NO_GAP = frozenset("{}[]\"':,") | frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
)
"""Characters that no gap begins with: most places are asked about in vain."""
# Only a language may follow a fence, and nothing that continues the JSON may follow a closing tag.
# A fence begins at the first backtick of a run: the pattern is tried at each of them.
_WRAPPING = re.compile(
    r"""(?<!`)`{3,}+[ \t]*+\w*+[ \t]*+(?:[\r\n]|\Z)|</[a-zA-Z][\w:.-]*+(?:>(?!\s*+["'“”‘’,}\]])|\Z)"""
)
_FAR = 1000  # characters that a look ahead reads; a longer comment there is no comment


def skip_gap(text: str, at: int, end: int, repairs: list[Repair]) -> int:
    """Where the gap that begins at a place ends; what JSON does not know in it is noted in
    `repairs`.
    """
    if text[at : at + 1] in NO_GAP:
        return at
    at = _match_end(_SPACE, text, at, end)
    while at < end and (found := _PIECE.match(text, at, end)):
        if found["special"]:
            repairs.append(Repair("special_space", at))
        elif found["comment"]:
            repairs.append(Repair("comment", at))
        at = found.end()
    return at


def gap_end(text: str, at: int, end: int) -> int:
    """Return where the gap that begins at a place ends, for a look ahead."""
    if text[at : at + 1] in NO_GAP:
        return at
    at = _match_end(_SPACE, text, at, end)
    return _match_end(_WHOLE, text, at, min(end, at + _FAR))


def wrapping_ends(text: str, at: int, end: int) -> bool:
    """Whether what is wrapped around the JSON ends at a place, so that the JSON must end there
    too.
    """
    return text[at : at + 1] in ("`", "<") and _WRAPPING.match(text, at, end) is not None


def _match_end(pattern: re.Pattern[str], text: str, at: int, end: int) -> int:
    found = pattern.match(text, at, end)
    assert found  # it fits everywhere, if only nothing
    return found.end()
