"""Messages and tools keep their encoding, so a request encodes only what is new.

Every request carries the whole conversation and all tools. Encoding them again for each turn would
make the cost of a turn grow with the history. Messages and tools are frozen, so an encoding stays
valid.

Knows no format. Used by `messages.py`, `request.py` and `outgoing.py`, and by the prompt dialect of
stage 3.
"""

from collections.abc import Callable
from operator import is_
from typing import Any, Self, TypeVar

_Encoding = TypeVar("_Encoding")


class KeepsEncoding:
    """A frozen value with a slot for its encodings. The slot is not a field: copies and comparisons
    ignore it.
    """

    __slots__ = ("_encodings",)
    _encodings: dict[str, Any]

    def encoded(self, form: str, encode: Callable[[Self], _Encoding]) -> _Encoding:
        """Return `encode(self)`, computed once.

        Args:
            form: The name of the encoding.
            encode: Returns the encoding, which must depend on this value alone. If it raises,
                nothing is kept.
        """
        try:
            return self._encodings[form]  # type: ignore[no-any-return]
        except (AttributeError, KeyError):
            encoding = encode(self)
            _keep(self, form, encoding)
            return encoding


def encoded_groups(
    form: str, encode: Callable[..., _Encoding], groups: list[list[Any]]
) -> list[_Encoding]:
    """Return `encode(*group)` for each group of values, computed once for the same objects.

    Some formats merge neighbors, such as the results of one turn. They are encoded together, and
    the first one keeps the encoding. One loop without further calls, because each exchange of a
    conversation is a group.
    """
    encodings = []
    for first, *following in groups:
        try:
            known, encoding = first._encodings[form]
        except (AttributeError, KeyError):
            known = encoding = None
        # Equality is not enough: True equals 1, but its JSON differs.
        if known != following or (following and not all(map(is_, known, following))):
            encoding = encode(first, *following)
            _keep(first, form, (following, encoding))
        encodings.append(encoding)
    return encodings


def _keep(value: KeepsEncoding, form: str, encoding: Any) -> None:
    if not hasattr(value, "_encodings"):
        object.__setattr__(
            value, "_encodings", {}
        )  # the value is frozen, and this is not a part of it
    value._encodings[form] = encoding
