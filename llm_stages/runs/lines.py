"""Encode values as JSON bytes, without secrets.

A line is written once and read by any JSON parser. Values of tools may be of any type, so what has
no JSON form is replaced by the name of its type: tracing never ends a run. Used by `writer`.
"""

import json
import re
from collections.abc import Iterable
from typing import Any

from pydantic_core import to_json, to_jsonable_python

from stage0_gateway import (
    KnownSecrets,
    redact,
)
from stage3_tools import (
    plain_data,
)

_SHORTEST_KEY = 8
"""Keys of local servers are words such as "none", which may occur in any message."""

_PREFIX = 8
_NOTHING = b"(?!)"
_UNCHANGED = re.compile(r"[\w.~-]+", re.ASCII)
"""Characters that JSON, URLs and HTML leave as they are."""


class Encoder:
    """Encodes values as JSON in UTF-8, without secrets.

    Args:
        hide: Texts to hide.
        known: The secrets of gateways. Further ones may be added at any time.
    """

    def __init__(self, hide: Iterable[str], known: KnownSecrets) -> None:
        self._hide, self._known = tuple(hide), known
        self._use(known.texts)

    def _use(self, texts: tuple[str, ...]) -> None:
        keys = [key for key in texts if len(key) >= _SHORTEST_KEY]
        self._texts = texts
        self._hidden = tuple(dict.fromkeys((*self._hide, *keys)))
        beginnings = (re.escape(text[:_PREFIX].encode(errors="replace")) for text in self._hidden)
        self._find_beginning = re.compile(b"|".join(beginnings) or _NOTHING).search
        self._may_be_escaped = not all(map(_UNCHANGED.fullmatch, self._hidden))

    def __call__(self, value: Any) -> bytes:
        """Return the JSON of a value."""
        if self._known.texts is not self._texts:
            self._use(self._known.texts)
        try:
            text = to_json(value, inf_nan_mode="strings", bytes_mode="base64", fallback=_type_name)
        except (ValueError, RecursionError):
            text = _unusual(value)
        if self._may_be_escaped or self._find_beginning(text):
            return _unusual(_redacted(json.loads(text), self._hidden))
        return text


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
