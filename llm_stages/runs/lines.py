"""Encode values as JSON bytes, without secrets.

A line is written once and read by any JSON parser. Values of tools may be of any type, so what has
no JSON form is replaced by the name of its type: tracing never ends a run. Used by `writer`.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_json, to_jsonable_python

from stage0_gateway import KnownSecrets, redact
from stage3_tools import plain_data

_SHORTEST_KEY = 8
"""Keys of local servers are words such as "none", which may occur in any message."""

_PREFIX = 8
_NOTHING = b"(?!)"
_UNCHANGED = re.compile(r"[\w.~-]+", re.ASCII)
"""Characters that JSON, URLs and HTML leave as they are."""


@dataclass(eq=False)
class Encoder:
    """Encodes values as JSON in UTF-8, without secrets.

    Attributes:
        hide: Texts to hide.
        known: The secrets of gateways. Further ones may be added at any time.
    """

    hide: Iterable[str]
    known: KnownSecrets
    _texts: tuple[str, ...] | None = None  # the secrets that are hidden so far

    def _find_secrets(self) -> None:
        """Prepare the search for the secrets that are known by now."""
        self._texts = self.known.texts
        hidden = dict.fromkeys(self.hide)
        for key in self._texts:
            if len(key) >= _SHORTEST_KEY:
                hidden[key] = None
        beginnings = []
        for text in hidden:
            beginnings.append(re.escape(text[:_PREFIX].encode(errors="replace")))
        self._hidden = tuple(hidden)
        self._find_beginning = re.compile(b"|".join(beginnings) or _NOTHING).search
        self._may_be_escaped = not all(map(_UNCHANGED.fullmatch, self._hidden))

    def __call__(self, value: Any) -> bytes:
        """Return the JSON of a value."""
        if self.known.texts is not self._texts:
            self._find_secrets()
        try:
            text = to_json(value, inf_nan_mode="strings", bytes_mode="base64", fallback=_type_name)
        except (ValueError, RecursionError):
            text = _unusual(value)
        if self._hidden and (self._may_be_escaped or self._find_beginning(text)):
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
