"""Read fields of decoded JSON with type checks.

Most functions return the value with the expected type, or raise a ValueError that names the field.
`parse_json`, `as_count` and `as_name` return None instead. This module knows no format. The wire
formats use it for replies, `server/` for requests, and messages for saved sessions.
"""

import json
from collections.abc import Mapping
from typing import Any

# The method behind `json.loads`, without its checks: a stream has many events.
_raw_decode = json.JSONDecoder().raw_decode


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text, or None for any other text."""
    try:
        if isinstance(text, bytes):
            return json.loads(text)
        text = text.strip(" \t\n\r")
        value, end = _raw_decode(text)
        return value if end == len(text) else None
    except (ValueError, RecursionError):
        return None


def as_mapping(value: Any, field: str) -> Mapping[str, Any]:
    """Return the value as a JSON object."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{field} must be a JSON object, not {type(value).__name__}.")
    return value


def as_list(value: Any, field: str) -> list[Any]:
    """Return the value as a list; null becomes an empty list."""
    if not isinstance(value, list | None):
        raise ValueError(f"{field} must be a list, not {type(value).__name__}.")
    return value or []


def required_list(fields: Mapping[str, Any], name: str) -> list[Any]:
    """Return a field as a list; a missing or null field is an error."""
    if not isinstance(value := fields.get(name), list):
        raise ValueError(f"{name} must be a list, not {type(value).__name__}.")
    return value


def as_text(value: Any, field: str) -> str:
    """Return the value as text; null becomes an empty text."""
    if not isinstance(value, str | None):
        raise ValueError(f"{field} must be text, not {type(value).__name__}.")
    return value or ""


def required_text(fields: Mapping[str, Any], name: str, owner: str) -> str:
    """Return the text of a field that must not be empty."""
    value = as_text(fields.get(name), f"{owner}.{name}")
    if not value:
        raise ValueError(f"{owner} needs a {name!r}.")
    return value


def as_number(value: Any, field: str) -> float | None:
    """Return the value as a number; null stays None."""
    if value is not None and type(value) not in (int, float):
        raise ValueError(f"{field} must be a number, not {type(value).__name__}.")
    return value  # type: ignore[no-any-return]  # None, int or float: checked above


def as_integer(value: Any, field: str) -> int | None:
    """Return the value as a whole number; null stays None."""
    if value is not None and type(value) is not int:
        raise ValueError(f"{field} must be a whole number, not {type(value).__name__}.")
    return value


def as_count(value: Any) -> int | None:
    """Return the value as a whole number, or None for any other value."""
    if type(value) is float and value.is_integer():
        return int(value)
    return value if type(value) is int else None


def as_name(value: Any) -> str | None:
    """Return a text or a number as a name, or None for any other value."""
    return (value if isinstance(value, str) else str(value) if type(value) is int else "") or None
