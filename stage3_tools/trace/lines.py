"""Encode values as JSON bytes, without secrets.

A line is written once and read by any JSON parser. Values of tools may be of any type, so what has
no JSON form is replaced by the name of its type: tracing never ends a run. Used by `recorder`.
"""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from pydantic_core import to_json, to_jsonable_python

from stage0_gateway import redact
from stage3_tools.result import plain_data

_SHORTEST = 8
"""Keys of local servers are words such as "none", which may occur in any message."""

_PREFIX = 8
_UNCHANGED = re.compile(r"[\w.~-]+", re.ASCII)
"""Characters that JSON, URLs and HTML leave as they are."""

Encode = Callable[[Any], bytes]


def encoder(secrets: Iterable[str]) -> Encode:
    """Return a function that encodes a value as JSON in UTF-8, without these secrets."""
    hidden = tuple(dict.fromkeys(secret for secret in secrets if len(secret) >= _SHORTEST))
    beginnings = tuple(secret[:_PREFIX].encode(errors="replace") for secret in hidden)
    may_be_escaped = not all(map(_UNCHANGED.fullmatch, hidden))

    def encode(value: Any) -> bytes:
        try:
            text = to_json(value, inf_nan_mode="strings", bytes_mode="base64", fallback=_type_name)
        except (ValueError, RecursionError):
            text = _unusual(value)
        for beginning in beginnings:
            if beginning in text or may_be_escaped:
                return _unusual(_redacted(json.loads(text), hidden))
        return text

    return encode


def _unusual(value: Any) -> bytes:
    """Encode values with half a surrogate pair, which becomes an escape, or with deep nesting."""
    try:
        plain = to_jsonable_python(value, bytes_mode="base64", fallback=_type_name)
        return json.dumps(plain, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError):
        return json.dumps(plain_data(value), separators=(",", ":")).encode()


def _type_name(value: object) -> str:
    return type(value).__name__


def _redacted(value: Any, secrets: tuple[str, ...]) -> Any:
    if isinstance(value, str):
        return redact(value, secrets)
    if isinstance(value, list):
        return [_redacted(each, secrets) for each in value]
    if isinstance(value, dict):
        return {redact(key, secrets): _redacted(each, secrets) for key, each in value.items()}
    return value
