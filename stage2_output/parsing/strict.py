"""Read standard JSON at a position of a text.

The C scanner of the `json` module reads the value. This module also rejects input that the scanner
accepts and JSON does not: duplicate keys, NaN, Infinity and numbers that are too large. The lenient
parser reads rejected values again and describes the error.
"""

import json
import re
from typing import Any, NoReturn

MOST_DEPTH = 200
"""Maximum nesting depth of objects and arrays, so that later code can recurse safely."""

_FIRST_SLICE = 2048
# A string that continues behind the slice: the scanner's error has the index of its first quote.
_OPEN_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+\\?+\Z')
_LIKELY_VALID = re.compile(r'\{[ \t\r\n]*+["}]|\[[ \t\r\n]*+[\[{"\]0-9tfn-]')


class TooDeep(Exception):
    """A value is nested deeper than `MOST_DEPTH`."""


def read_strictly(text: str, start: int) -> tuple[Any, int] | None:
    """Read the JSON value at an index.

    Returns:
        The value and the index behind it, or None if it is invalid.

    Raises:
        TooDeep: The value is nested too deeply.
    """
    try:
        return _scan(text, start)
    except ValueError:
        return None


class IntactParts:
    """Read valid objects and arrays inside an invalid one with the fast scanner.

    A failed attempt is wasted work, and the same text is tried again one level deeper. The number
    of characters in failed attempts is therefore limited. When the limit is reached, the lenient
    parser reads the remaining parts alone.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._budget = 8 * len(text)

    def read(self, start: int, end: int) -> tuple[Any, int] | None:
        """Read the object or array at an index.

        Args:
            start: Index of its opening bracket.
            end: Index at which the text is considered to end.

        Returns:
            The value and the index behind it, or None if it is invalid or was not tried.

        Raises:
            TooDeep: The value is nested too deeply.
        """
        if not _LIKELY_VALID.match(self._text, start, end):
            return None
        size = _FIRST_SLICE
        # Small slices first: an error of the scanner counts the lines of its whole input.
        while self._budget > 0:
            part = self._text[start : min(start + size, end)]
            try:
                value, length = _scan(part, 0)
                return value, start + length
            except json.JSONDecodeError as error:
                is_cut = error.pos >= len(part) - 12 or bool(_OPEN_STRING.match(part, error.pos))
            except ValueError:
                is_cut = False
            self._budget -= len(part)
            if not is_cut or start + size >= end:
                break
            size *= 8
        return None


def _scan(text: str, start: int) -> tuple[Any, int]:
    try:
        value, end = _SCANNER.raw_decode(text, start)
    except RecursionError:
        raise TooDeep from None
    if text.count("{", start, end) + text.count("[", start, end) > MOST_DEPTH and _is_deep(value):
        raise TooDeep
    return value, end


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("duplicate key")
    return value


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def _finite(digits: str) -> float:
    number = float(digits)
    if number - number != 0:
        raise ValueError("number too large")
    return number


_SCANNER = json.JSONDecoder(
    object_pairs_hook=_unique_keys, parse_constant=_reject_constant, parse_float=_finite
)


def _is_deep(value: Any) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MOST_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) is dict or type(inner) is list
        ]
        if not level:
            return False
    return True
