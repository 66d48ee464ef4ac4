"""Types and equality of JSON values as JSON Schema defines them.

1 equals 1.0, true differs from 1, 5.0 is an integer, and the order of keys is ignored. In Python
`True == 1`, and lists and dicts cannot be members of a set. This module knows no schemas.
"""

from collections.abc import Hashable
from typing import Any

_TYPE_NAMES = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}


def json_type(value: Any) -> str:
    """Return the JSON Schema type of a value; values other than JSON have their Python type."""
    return _TYPE_NAMES.get(type(value)) or f"Python's {type(value).__name__}"


def has_type(value: Any, name: Any) -> bool:
    """Whether a value has a type of JSON Schema."""
    found = json_type(value)
    if found == "number":
        return name == "number" or (name == "integer" and bool(value.is_integer()))
    return found == name or (found == "integer" and name == "number")


def frozen(value: Any) -> Hashable:
    """Return a hashable form of a value; equal values have equal forms.

    Raises:
        TypeError: The value contains something that is neither hashable nor JSON.
    """
    if isinstance(value, bool):
        return (bool, value)  # never equal to the form of a list, which contains values only
    if isinstance(value, list | tuple):
        return tuple(map(frozen, value))
    if isinstance(value, dict):
        return frozenset((name, frozen(item)) for name, item in value.items())
    return value  # type: ignore[no-any-return]
