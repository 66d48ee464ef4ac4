"""When two values of JSON are equal: 1 equals 1.0, true does not equal 1, and the order of keys
does not matter.

In Python `True == 1`, and lists and dicts cannot be members of a set. Knows no schemas; used for
the keyword `uniqueItems`, and by `conversions.py` for known values.
"""

from collections.abc import Hashable
from typing import Any


def frozen(value: Any) -> Hashable:
    """A hashable stand-in; two of them are equal where JSON Schema calls their values equal.

    Raises:
        TypeError: The value holds something that cannot be hashed and is no value of JSON.
    """
    if isinstance(value, bool):
        return (bool, value)  # never equal to the stand-in of a list, which holds values only
    if isinstance(value, list | tuple):
        return tuple(map(frozen, value))
    if isinstance(value, dict):
        return frozenset((name, frozen(each)) for name, each in value.items())
    return value  # type: ignore[no-any-return]
