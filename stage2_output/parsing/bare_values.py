"""Read a value without quotes: a number, a literal, or a string that lacks its quotes.

Numbers and literals of Python and JavaScript are converted to those of JSON. Values that JSON
cannot represent (NaN, Infinity) are rejected, and so are numbers that languages read differently
(a leading 0). Used by the lenient parser.
"""

import re
from typing import Any, Literal, NamedTuple

from stage2_output.parsing.errors import Unrepairable
from stage2_output.parsing.whitespace import match_end
from stage2_output.result import Repair

AMBIGUOUS_TEXT = "has text without quotes that can be read in more ways than one"

_JSON_LITERALS = {"true": True, "false": False, "null": None}
_LITERALS = {**_JSON_LITERALS, "none": None, "nil": None, "undefined": None}
_NOT_FINITE = re.compile(r"[-+]?(?:nan|inf(?:inity)?)", re.IGNORECASE)
_LONGEST_RUN = 6000  # Python reads integers of up to 4300 digits
_RUN = re.compile(rf'[^,，{{}}\[\]｛｝［］\r\n"“”„‟＂]{{0,{_LONGEST_RUN}}}+')
_TUPLE_RUN = re.compile(rf"[^,，(){{}}\[\]｛｝［］\r\n\"“”„‟＂]{{0,{_LONGEST_RUN}}}+")
# A number or literal before a comment or ellipsis. It ends the run here, because the rest of the
# run must not be read once per value in `1 ... 2 ... 3 ...`.
_BEFORE_COMMENT = re.compile(
    r"(?:[-+]?(?:[0-9]++(?:_[0-9]++)*+(?:\.[0-9]++|\.(?!\.))?|\.[0-9]++)(?:[eE][-+]?[0-9]++)?"
    r"|true|false|null|none|nil|undefined)(?=\s*+(?:\.\.\.|…|//|/\*|\#))",
    re.IGNORECASE,
)
# The end of a string without quotes, inside its run.
_TEXT_ENDS = re.compile(r"\s(?://|\#|\.\.\.|…)|/\*|</|```")
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(\.[0-9]++)?([eE][-+]?[0-9]++)?")
_NUMBER = re.compile(r"[-+]?(?:[0-9]++(\.[0-9]*+)?|(\.)[0-9]++)([eE][-+]?[0-9]++)?")
_SEPARATED = re.compile(r"-?[1-9][0-9]*+(?:_[0-9]++)++(?:\.[0-9]++)?")
_AMBIGUOUS_NUMBER = re.compile(
    r"[-+]?0[0-9]++(?:\.[0-9]*+)?|[-+]?0[xXoObB][0-9a-fA-F]++|[-+]?[0-9]++(?:[ '][0-9]++)++"
    r"|[-+]?[0-9]++_[0-9_.]*+(?:[eE][-+]?[0-9_]++)?"
)
_TEXT_BEGINS = re.compile(r"[\w/@$~+*-]|\.(?!\.)")
# Characters that a string without quotes cannot contain.
_STRUCTURE = re.compile(
    r"\\[nrt](?![a-zA-Z])|`|\s['´‘]|'\s*+:|\s:|:\s|\s[^\W\d]\w*+:(?!//)|;|[:=]\Z|\w\("
)
_ARITHMETIC = re.compile(r"\A[-+]|[*^+]|\s[-/]\s")  # in text without letters
_COMMENT_OR_ELLIPSIS = re.compile(r"//|\#|\.\.\.|…")
# Special spaces that Python's `str.strip` keeps.
_INVISIBLE = "\u180e\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"
_SPACES = re.compile(rf"[\s{_INVISIBLE}]++")
_LONGEST_TEXT = 1000
_CUT_EXPONENTS = (".", "e", "E", "e-", "e+", "E-", "E+")


class BareValue(NamedTuple):
    """A value without quotes.

    Attributes:
        value: The value.
        end: Index behind its last character.
        kind: "plain" for a number or literal, "text" for a string that lacks its quotes, "cut" for
            a prefix at the end of the text, which has no value.
        repairs: Repaired errors.
    """

    value: Any
    end: int
    kind: Literal["plain", "text", "cut"]
    repairs: tuple[Repair, ...] = ()


def read_bare_value(text: str, start: int, end: int, *, in_tuple: bool = False) -> BareValue:
    """Read the value without quotes at an index, up to a bracket, comma, quote or line end.

    Args:
        text: The text.
        start: Index of its first character.
        end: Index at which the text is considered to end.
        in_tuple: Whether a round bracket also ends the value.

    Raises:
        Unrepairable: The value is missing, invalid or ambiguous.
    """
    prefix = _BEFORE_COMMENT.match(text, start, end)
    run_pattern = _TUPLE_RUN if in_tuple else _RUN
    run_end = prefix.end() if prefix else match_end(run_pattern, text, start, end)
    run = text[start:run_end]
    terminator = _TEXT_ENDS.search(run)
    word = (run[: terminator.start()] if terminator else run).rstrip().rstrip(_INVISIBLE).rstrip()
    head = _COMMENT_OR_ELLIPSIS.split(word, maxsplit=1)[0]
    if _NUMBER.fullmatch(head) or _SEPARATED.fullmatch(head) or head.lower() in _LITERALS:
        word = head  # as in `1.5// metres`; in other text it is a part of the text, as in a URL
    stop = start + len(word)
    if not word:
        raise Unrepairable("lacks a value", start)
    if len(run) == _LONGEST_RUN and not terminator:
        raise Unrepairable("has an invalid value", start)
    if stop == end and (cut := _cut_value(word, stop)) is not None:
        return cut
    if (number := _number(word, start)) is not None:
        return number
    if word.lower() in _LITERALS:
        repairs = () if word in _JSON_LITERALS else (Repair("literal", start),)
        return BareValue(_LITERALS[word.lower()], stop, "plain", repairs)
    _check_text(word, start)
    return BareValue(word, stop, "text", (Repair("unquoted_text", start),))


def _check_text(word: str, start: int) -> None:
    """Raise `Unrepairable` if a value may be something other than a string without quotes."""
    if _NOT_FINITE.fullmatch(word):
        raise Unrepairable(f"has {word}, which is not a JSON value", start)
    if len(word) > _LONGEST_TEXT or not _TEXT_BEGINS.match(word) or not any(map(str.isalnum, word)):
        raise Unrepairable("has an invalid value", start)
    if _is_nearly_plain(word):
        raise Unrepairable("has an invalid number or literal", start)
    if _STRUCTURE.search(word) or word.count("(") != word.count(")"):
        raise Unrepairable(AMBIGUOUS_TEXT, start)


def _is_nearly_plain(word: str) -> bool:
    parts = _SPACES.split(_COMMENT_OR_ELLIPSIS.split(word.lower(), maxsplit=1)[0].strip())
    return (
        all(_NUMBER.fullmatch(part) or part in _LITERALS for part in parts)
        or (len(word) > 2 and any(literal.startswith(parts[0]) for literal in _LITERALS))
        or (_ARITHMETIC.search(word) is not None and not any(map(str.isalpha, word)))
    )


def _number(word: str, start: int) -> BareValue | None:
    if _SEPARATED.fullmatch(word):
        number = _number(word.replace("_", ""), start)
        repairs = (Repair("digit_separators", start),)
        return number and number._replace(end=start + len(word), repairs=repairs)
    if _AMBIGUOUS_NUMBER.fullmatch(word):
        raise Unrepairable("has a number in a format that JSON does not allow", start)
    found = _NUMBER.fullmatch(word)
    if found is None:
        return None
    try:
        value = float(word) if found.lastindex else int(word)
    except ValueError:  # thousands of digits
        value = float("inf")
    if value - value != 0:
        raise Unrepairable("has a number that is too large", start)
    repaired = () if _JSON_NUMBER.fullmatch(word) else (Repair("number", start),)
    return BareValue(value, start + len(word), "plain", repaired)


def _cut_value(word: str, stop: int) -> BareValue | None:
    """Return the value that the end of the text may have cut off, or None for other text."""
    literals = ("true", "false", "null", "True", "False", "None")
    if any(literal.startswith(word) for literal in literals):
        return None if word.lower() in _LITERALS else BareValue(None, stop, "cut")
    if word in ("-", "+", "-.", ".") or (word.endswith("_") and _SEPARATED.fullmatch(word + "0")):
        return BareValue(None, stop, "cut")
    found = _JSON_NUMBER.match(word)
    if found is None or word[found.end() :] not in _CUT_EXPONENTS:
        return None
    number = _number(found[0], stop - len(word))
    return number and number._replace(end=stop)
