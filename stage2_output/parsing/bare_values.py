"""Read what stands bare where a value should stand: numbers, literals, and text that lost its
quotes.

Numbers and literals of Python and JavaScript are read as JSON would write them. What JSON has no
value for (NaN, infinity) is refused, and so is what two languages read in two ways (a number that
begins with 0). Used by `repair.py`.
"""

import re
from typing import Any, Literal, NamedTuple

from stage2_output.parsing.errors import Damaged, Repair

_LITERALS = {
    "true": True,
    "false": False,
    "null": None,
    "none": None,
    "nil": None,
    "undefined": None,
}
_NO_VALUE = re.compile(r"[-+]?(?:nan|inf(?:inity)?)", re.IGNORECASE)
_LONGEST_RUN = 6000  # Python reads integers of up to 4300 digits
_RUN = re.compile(rf'[^,，{{}}\[\]｛｝［］\r\n"“”„‟＂]{{0,{_LONGEST_RUN}}}+')
_TUPLE_RUN = re.compile(rf"[^,，(){{}}\[\]｛｝［］\r\n\"“”„‟＂]{{0,{_LONGEST_RUN}}}+")
# A plain word before one of these marks. The rest of the run does not matter: it is not read again
# and again in `1 ... 2 ... 3 ...`.
_BEFORE_MARK = re.compile(
    r"(?:[-+]?(?:[0-9]++(?:_[0-9]++)*+(?:\.[0-9]++|\.(?!\.))?|\.[0-9]++)(?:[eE][-+]?[0-9]++)?|true|false|null|none|nil|undefined)"
    r"(?=\s*+(?:\.\.\.|…|//|/\*|\#))",
    re.IGNORECASE,
)
_BEHIND = re.compile(
    r"\s(?://|\#|\.\.\.|…)|/\*|</|```"
)  # what ends a text without quotes, within its run
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(\.[0-9]++)?([eE][-+]?[0-9]++)?")
_NUMBER = re.compile(r"[-+]?(?:[0-9]++(\.[0-9]*+)?|(\.)[0-9]++)([eE][-+]?[0-9]++)?")
_SEPARATED = re.compile(r"-?[1-9][0-9]*+(?:_[0-9]++)++(?:\.[0-9]++)?")
_AMBIGUOUS = re.compile(
    r"[-+]?0[0-9]++(?:\.[0-9]*+)?|[-+]?0[xXoObB][0-9a-fA-F]++|[-+]?[0-9]++(?:[ '][0-9]++)++"
    r"|[-+]?[0-9]++_[0-9_.]*+(?:[eE][-+]?[0-9_]++)?"
)
_TEXT_BEGINS = re.compile(r"[\w/@$~+*-]|\.(?!\.)")
# What a text without quotes cannot hold.
_STRUCTURE = re.compile(
    r"\\[nrt](?![a-zA-Z])|`|\s['´‘]|'\s*+:|\s:|:\s|\s[^\W\d]\w*+:(?!//)|;|[:=]\Z"
)
_CALL = re.compile(r"\w\(")
_ARITHMETIC = re.compile(r"\A[-+]|[*^+]|\s[-/]\s")  # in words that hold no letters
_COMMENT_OR_ELLIPSIS = re.compile(r"//|\#|\.\.\.|…")
_INVISIBLE = (
    "\u180e\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"  # special spaces, though not for Python
)
_BETWEEN_BITS = re.compile(rf"[\s{_INVISIBLE}]++")
_LONGEST_TEXT = 1000  # nobody leaves the quotes off a page of text


class Word(NamedTuple):
    """What stood bare.

    Attributes:
        value: What it says.
        end: Where reading stopped.
        kind: "plain" for what needs no quotes, "text" for a string without quotes, "cut" for the
            beginning of something that the end of the text cut off, which has no value.
        repairs: What was mended.
    """

    value: Any
    end: int
    kind: Literal["plain", "text", "cut"]
    repairs: tuple[Repair, ...] = ()


def read_word(text: str, start: int, end: int, *, in_tuple: bool = False) -> Word:
    """Read the bare word at a place, up to the next bracket, comma, quote or end of line.

    Args:
        text: The text.
        start: Where the word begins.
        end: Where the text is taken to end.
        in_tuple: Whether a round bracket ends the word, too.

    Raises:
        Damaged: There is none, or it can be read in more than one way.
    """
    run = _BEFORE_MARK.match(text, start, end) or (_TUPLE_RUN if in_tuple else _RUN).match(
        text, start, end
    )
    assert run  # it fits everywhere, if only nothing
    behind = _BEHIND.search(run[0])
    word = (run[0][: behind.start()] if behind else run[0]).rstrip().rstrip(_INVISIBLE).rstrip()
    head = _COMMENT_OR_ELLIPSIS.split(word, maxsplit=1)[0]
    if head != word and (
        _NUMBER.fullmatch(head) or _SEPARATED.fullmatch(head) or head.lower() in _LITERALS
    ):
        word = head  # as in `1.5// metres`; in text they are text, as in a URL
    stop = start + len(word)
    if not word:
        raise Damaged("lacks a value", start)
    if len(run[0]) == _LONGEST_RUN and not behind:
        raise Damaged("has something that is no value", start)
    if stop == end and (cut := _cut(word, stop)) is not None:
        return cut
    if (number := _number(word, start)) is not None:
        return number
    return _name(word, start, stop)


def _name(word: str, start: int, stop: int) -> Word:
    if word.lower() in _LITERALS:
        value = _LITERALS[word.lower()]
        return Word(
            value,
            stop,
            "plain",
            () if word in ("true", "false", "null") else (Repair("literal", start),),
        )
    if _NO_VALUE.fullmatch(word):
        raise Damaged(f"has {word}, which is not a JSON value", start)
    if len(word) > _LONGEST_TEXT or not _TEXT_BEGINS.match(word) or not any(map(str.isalnum, word)):
        raise Damaged("has something that is no value", start)
    if _is_nearly_plain(word):
        raise Damaged("has something that is nearly a number or a literal", start)
    if _STRUCTURE.search(word) or _CALL.search(word) or word.count("(") != word.count(")"):
        raise Damaged("has text without quotes that can be read in more ways than one", start)
    return Word(word, stop, "text", (Repair("unquoted_text", start),))


def _is_nearly_plain(word: str) -> bool:
    bits = _BETWEEN_BITS.split(_COMMENT_OR_ELLIPSIS.split(word.lower(), maxsplit=1)[0].strip())
    return (
        all(_NUMBER.fullmatch(bit) or bit in _LITERALS for bit in bits)
        or (len(word) > 2 and any(literal.startswith(bits[0]) for literal in _LITERALS))
        or (_ARITHMETIC.search(word) is not None and not any(map(str.isalpha, word)))
    )


def _number(word: str, start: int) -> Word | None:
    if _SEPARATED.fullmatch(word):
        number = _number(word.replace("_", ""), start)
        return number and number._replace(
            end=start + len(word), repairs=(Repair("digit_separators", start),)
        )
    if _AMBIGUOUS.fullmatch(word):
        raise Damaged("has a number that JSON does not know", start)
    found = _NUMBER.fullmatch(word)
    if found is None:
        return None
    plain = _JSON_NUMBER.fullmatch(word) is not None
    try:
        value = float(word) if found.lastindex else int(word)
    except ValueError:  # thousands of digits
        raise Damaged("has a number that is too large", start) from None
    if value - value != 0:
        raise Damaged("has a number that is too large", start)
    return Word(value, start + len(word), "plain", () if plain else (Repair("number", start),))


def _cut(word: str, stop: int) -> Word | None:
    """What may have been cut off by the end of the text; None for what is whole, or text without
    quotes.
    """
    if any(
        literal.startswith(word) for literal in ("true", "false", "null", "True", "False", "None")
    ):
        return None if word.lower() in _LITERALS else Word(None, stop, "cut")
    if word in ("-", "+", "-.", ".") or (word.endswith("_") and _SEPARATED.fullmatch(word + "0")):
        return Word(None, stop, "cut")
    found = _JSON_NUMBER.match(word)
    if found is None or word[found.end() :] not in (".", "e", "E", "e-", "e+", "E-", "E+"):
        return None
    number = _number(found[0], stop - len(word))
    return number and number._replace(end=stop)
