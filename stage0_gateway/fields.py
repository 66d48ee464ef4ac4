"""Fields of a body that came over the wire, each of the type it must have, or a ValueError that
names it.

Knows types and no format. Used by the wire formats, for what servers send, and by `serve/`, for
what clients send.
"""

import json
from collections.abc import Mapping
from typing import Any

_decode = (
    json.JSONDecoder().decode
)  # what `json.loads` calls after its checks; the events of a stream are many


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text; None for any other text."""
    try:
        return _decode(text) if isinstance(text, str) else json.loads(text)
    except (ValueError, RecursionError):
        return None


def a_mapping(value: Any, where: str) -> Mapping[str, Any]:
    """The value as a JSON object."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{where} must be a JSON object, not {type(value).__name__}.")
    return value


def a_list(value: Any, where: str) -> list[Any]:
    """The value as a list; null is an empty one."""
    if not isinstance(value, list | None):
        raise ValueError(f"{where} must be a list, not {type(value).__name__}.")
    return value or []


def a_text(value: Any, where: str) -> str:
    """The value as text; null is an empty one."""
    if not isinstance(value, str | None):
        raise ValueError(f"{where} must be text, not {type(value).__name__}.")
    return value or ""


def needed_text(plain: Mapping[str, Any], name: str, where: str) -> str:
    """The text of a field that must not be empty."""
    value = a_text(plain.get(name), f"{where}.{name}")
    if not value:
        raise ValueError(f"{where} needs a {name!r}.")
    return value


def a_number(value: Any, where: str) -> float | None:
    """The value as a number; null stays None."""
    if value is not None and type(value) not in (int, float):
        raise ValueError(f"{where} must be a number, not {type(value).__name__}.")
    return value  # type: ignore[no-any-return]  # None, int or float: checked above


def a_count(value: Any) -> int | None:
    """The value as a count; whatever is no whole number is no count."""
    if type(value) is float and value.is_integer():
        return int(value)
    return value if type(value) is int else None


def a_name(value: Any) -> str | None:
    """The value as a name somebody gave; a number will do, and anything else is none."""
    return (value if isinstance(value, str) else str(value) if type(value) is int else "") or None
