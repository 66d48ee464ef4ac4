"""JSON as the standard has it, read at a place in a text; nothing is forgiven.

The C scanner of the `json` module does the work. This module also refuses what the scanner accepts
and JSON does not: a key that appears twice in one object, NaN, infinity, a number that is too
large. `repair.py` reads what is refused here once more, and says what is wrong with it.
"""

import json
import re
from typing import Any, NoReturn

MOST_DEPTH = 200
"""Objects and arrays within each other; no program should have to walk deeper into what a model
wrote."""

_FIRST_SLICE = 2048
_MISSES = 4
_PROMISING = re.compile(r'\{[ \t\r\n]*+["}]|\[[ \t\r\n]*+[\[{"\]0-9tfn-]')


class TooDeep(Exception):
    """A value is nested deeper than `MOST_DEPTH`."""


def read_strictly(text: str, start: int) -> tuple[Any, int] | None:
    """The JSON value that begins at a place, and where it ends; None if it is not valid.

    Raises:
        TooDeep: Its objects and arrays are nested too deeply.
    """
    try:
        return _read(text, start)
    except ValueError:
        return None


def are_identical(one: Any, other: Any) -> bool:
    """Whether two values are equal and of the same types: 1 is not 1.0. The order of keys does not
    matter.
    """
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


class IntactParts:
    """Reads the undamaged objects and arrays inside of a damaged one with the fast scanner.

    An attempt that fails was for nothing, and the same stretch of text is tried again one level
    further in. So attempts have a budget, in characters; when it is spent, the slow reader does the
    rest alone.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._budget = 8 * len(text)
        self._misses = self._asked = 0

    def read(self, start: int, end: int) -> tuple[Any, int] | None:
        """The value that begins at a place, and where it ends; None if it is damaged, or the budget
        is spent.

        Args:
            start: Index of its opening bracket.
            end: Where the text is taken to end.

        Raises:
            TooDeep: Its objects and arrays are nested too deeply.
        """
        if not _PROMISING.match(self._text, start, end) or self._is_hopeless():
            return None
        size = _FIRST_SLICE
        # Small pieces first: an error of the scanner counts the lines before it, from the beginning
        # of its text.
        while self._budget > 0:
            piece = self._text[start : min(start + size, end)]
            try:
                value, length = _read(piece, 0)
                self._misses = 0
                return value, start + length
            except json.JSONDecodeError as error:
                cut = error.pos >= len(piece) - 12 or error.msg.startswith("Unterminated string")
            except ValueError:
                cut = False
            self._budget -= len(piece)
            if not cut or start + size >= end:
                break
            size *= 8
        self._misses += 1
        return None

    def _is_hopeless(self) -> bool:
        """Where damage is everywhere only every fourth part is tried, in case that it ends
        somewhere.
        """
        self._asked += 1
        return self._misses >= _MISSES and self._asked % _MISSES != 0


def _read(text: str, start: int) -> tuple[Any, int]:
    try:
        value, end = _SCANNER.raw_decode(text, start)
    except RecursionError:
        raise TooDeep from None
    if text.count("{", start, end) + text.count("[", start, end) > MOST_DEPTH and _is_deep(value):
        raise TooDeep
    return value, end


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key stands twice")
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def _finite(digits: str) -> float:
    number = float(digits)
    if number - number != 0:
        raise ValueError("a number is too large")
    return number


_SCANNER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite
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
