"""Equality of JSON values: 1 equals 1.0, true differs from 1, the order of keys is ignored.

In Python `True == 1`, and lists and dicts cannot be members of a set. This module knows no schemas.
Used for the keyword `uniqueItems`, and by `types/conversions.py` for known values.
"""

from collections.abc import Hashable
from typing import Any


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
