"""One value as another type, where that is exact and nothing else could be meant.

    wanted                  "5"     "5.0"    5     "true"   "[1]"    "None"
    integer                  5       5       -      -        -        -
    string                   -       -      "5"     -        -        -
    boolean, array, null     -       -       -     True     [1]      None

Strings become what they say: a number as JSON writes it (no "1,000", no "007"), true or false,
null, a whole object or array. Whole numbers become strings. A string that differs from a known
value in nothing but case becomes that value. Never: "yes" or 1 to true, "" to null, 5.5 to 5, 1.10
to "1.1". Knows one place of a schema and nothing around it; used by `coercion.py`.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from stage2_output.parsing.strict import TooDeep, read_strictly
from stage2_output.validation.equality import frozen
from stage2_output.validation.messages import type_of

_SPACES = " \t\r\n"
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(\.[0-9]++)?([eE][-+]?[0-9]{1,3})?")
_LONGEST_NUMBER = 300
_LARGEST = Decimal(sys.float_info.max)
_WORDS = {"true": True, "false": False, "null": None, "none": None}


class Wanted:
    """What a place wants: the `type`, `enum` and `const` of a schema.

    Args:
        schema: A JSON Schema; its other keywords do not matter.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        types = schema.get("type")
        self._types = [types] if isinstance(types, str) else types
        known = [schema["const"]] if "const" in schema else schema.get("enum")
        self._known = None if known is None else frozenset(map(frozen, known))
        self._by_case: dict[str, list[str]] = {}
        for each in known or ():
            if isinstance(each, str):
                self._by_case.setdefault(each.casefold(), []).append(each)

    def takes(self, value: Any) -> bool:
        """Whether a value is of a wanted type, and one of those that are known."""
        if self._types is not None and not any(_is(value, kind) for kind in self._types):
            return False
        try:
            return self._known is None or frozen(value) in self._known
        except (TypeError, RecursionError):
            return False

    def convert(self, value: Any) -> tuple[Any, str] | None:
        """A value as what is wanted, and what was changed.

        Returns:
            None if the value is wanted as it is, or no change makes it so, or more than one does.
        """
        if self.takes(value):
            return None
        found = [each for each in self._candidates(value) if self.takes(each[0])]
        return found[0] if len(found) == 1 else None

    def _candidates(self, value: Any) -> Iterator[tuple[Any, str]]:
        """Everything a value could be taken for, and how it came to be that."""
        if isinstance(value, str):
            text = value.strip(_SPACES)
            for known in self._by_case.get(text.casefold(), ()):
                yield known, "string to the known value"
            said = _said(text, whole=self._types is not None and "number" not in self._types)
            if said is not None:
                yield said[0], f"string to {type_of(said[0])}"
        elif type(value) is int:
            yield str(value), "integer to string"


def _said(text: str, *, whole: bool) -> tuple[Any] | None:
    """What a string says if it is read as JSON."""
    if text[:1] in ("{", "["):
        try:
            read = read_strictly(text, 0)
        except TooDeep:
            return None
        return None if read is None or read[1] != len(text) else (read[0],)
    if len(text) <= _LONGEST_NUMBER and _NUMBER.fullmatch(text):
        return _number(text, whole=whole)
    return (_WORDS[text.lower()],) if text.lower() in _WORDS else None


def _number(text: str, *, whole: bool) -> tuple[Any] | None:
    number = Decimal(text)
    if abs(number) > _LARGEST:
        return None
    is_whole = number == number.to_integral_value()
    return (int(number) if is_whole and (whole or text.lstrip("-").isdecimal()) else float(text),)


def _is(value: Any, kind: Any) -> bool:
    if kind in ("integer", "number"):
        if isinstance(value, float):
            return kind == "number" or value.is_integer()
        return isinstance(value, int) and not isinstance(value, bool)
    return bool(type_of(value) == kind)
