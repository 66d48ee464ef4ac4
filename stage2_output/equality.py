"""When two values of JSON are equal: 1 is 1.0, true is not 1, the order of keys is nothing, and so on inwards.

Python has `True == 1`, and no way to keep a list or a dict in a set; `frozen` mends both. Knows no schemas;
the rules `enum`, `const` and `uniqueItems` rest on it.
"""

from collections.abc import Hashable, Sequence
from types import NoneType
from typing import Any


class CannotTell(Exception):
    """Here is something of which only the `jsonschema` library knows what it means."""


_SCALARS = frozenset({str, int, float, NoneType})
"""Of these types Python's equality is JSON's."""


def frozen(value: Any) -> Hashable:
    """A stand-in that can be kept in a set; two of them are equal where JSON says that their values are.

    Raises:
        CannotTell: The value is none of those that `json.loads` gives.
    """
    kind = type(value)
    if kind in _SCALARS:
        return value  # type: ignore[no-any-return]
    if kind is bool:
        return (bool, value)  # as no list is, which holds values only
    if kind is list:
        return tuple(map(frozen, value))
    if kind is dict:
        return frozenset((name, frozen(each)) for name, each in value.items())
    raise CannotTell(kind)


def are_unique(items: Sequence[Any]) -> bool:
    """Whether no two items are equal; in linear time, where comparing each with each could take minutes.

    Raises:
        CannotTell: An item is none of those that `json.loads` gives.
    """
    plain = _SCALARS.issuperset(map(type, items))
    return len(set(items if plain else map(frozen, items))) == len(items)
