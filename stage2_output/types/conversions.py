"""Convert one value to another type, where the conversion is exact and unambiguous.

    expected                "5"     "5.0"    5     "true"   "[1]"    "None"
    integer                  5       5       -      -        -        -
    string                   -       -      "5"     -        -        -
    boolean, array, null     -       -       -     True     [1]      None

A string becomes the number (in JSON's format, without "1,000" or "007"), literal, object or array
that it contains. A whole number becomes a string. A string that differs from a known value only in
case becomes that value. Never converted: "yes" or 1 to true, "" to null, 5.5 to 5, 1.10 to "1.1".
This module knows one part of a schema. Used by `coercion.py`.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from stage2_output.parsing.encoded import read_encoded
from stage2_output.validation.json_values import frozen, has_type, json_type

_SPACES = " \t\r\n"
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(\.[0-9]++)?([eE][-+]?[0-9]{1,3})?")
_LONGEST_NUMBER = 300
_LARGEST = Decimal(sys.float_info.max)
_LITERALS = {"true": True, "false": False, "null": None, "none": None}


class ExpectedType:
    """The types and known values that a schema allows, from its `type`, `enum` and `const`.

    Args:
        schema: A JSON Schema; its other keywords are ignored.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        types = schema.get("type")
        self._types = [types] if isinstance(types, str) else types
        known = [schema["const"]] if "const" in schema else schema.get("enum")
        self._known = None if known is None else frozenset(map(frozen, known))
        self._by_case: dict[str, list[str]] = {}
        for value in known or ():
            if isinstance(value, str):
                self._by_case.setdefault(value.casefold(), []).append(value)

    def allows(self, value: Any) -> bool:
        """Whether a value has an allowed type and is one of the known values, if there are any."""
        if self._types is not None and not any(has_type(value, name) for name in self._types):
            return False
        return self._known is None or frozen(value) in self._known

    def convert(self, value: Any) -> tuple[Any, str] | None:
        """Convert a value.

        Returns:
            The converted value and a description of the change; None if the value is allowed
            already, or not exactly one conversion makes it allowed.
        """
        if self.allows(value):
            return None
        found = [pair for pair in self._conversions(value) if self.allows(pair[0])]
        return found[0] if len(found) == 1 else None

    def _conversions(self, value: Any) -> Iterator[tuple[Any, str]]:
        """Yield every conversion of a value and its description."""
        if isinstance(value, str):
            text = value.strip(_SPACES)
            for known in self._by_case.get(text.casefold(), ()):
                yield known, "string to the known value"
            integers_only = self._types is not None and "number" not in self._types
            content = _content(text, integers_only=integers_only)
            if content is not None:
                yield content[0], f"string to {json_type(content[0])}"
        elif type(value) is int:
            yield str(value), "integer to string"


def _content(text: str, *, integers_only: bool) -> tuple[Any] | None:
    """Return the value that a string contains as JSON, in a tuple; None for other strings."""
    if encoded := read_encoded(text, 0, len(text)):
        return (encoded.value,)
    if len(text) <= _LONGEST_NUMBER and _NUMBER.fullmatch(text):
        number = Decimal(text)
        if abs(number) > _LARGEST:
            return None
        is_integer = number == number.to_integral_value()
        if is_integer and (integers_only or text.lstrip("-").isdecimal()):
            return (int(number),)
        return (float(text),)
    return (_LITERALS[text.lower()],) if text.lower() in _LITERALS else None
