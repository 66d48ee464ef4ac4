"""Shared functions to encode replies. A stream is the whole reply, split into pieces."""

import json
from typing import Any

from stage0_gateway.messages import Message
from stage0_gateway.parts import JsonPart, Part, TextPart
from stage0_gateway.wire.provider_data import as_object


def parts_of(message: Message) -> list[Part]:
    """Return the parts of a message; a JSON part becomes text, and empty text is omitted."""
    return [
        TextPart(json.dumps(part.value, ensure_ascii=False)) if isinstance(part, JsonPart) else part
        for part in message.parts
        if message.content
    ]


def arguments_value(text: str) -> dict[str, Any] | str:
    """Return arguments as a JSON object for formats that require one; other text stays unchanged.

    A real server repairs or hides such arguments. This one shows the text of the model.
    """
    value = as_object(text)
    return text if value is None else value


def without_none(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def split(text: str, piece: int) -> list[str]:
    """Split a text into pieces of at most `piece` characters; an empty text has no pieces."""
    return [text[start : start + piece] for start in range(0, len(text), piece)]


def event(data: Any, name: str = "") -> str:
    """Return a server-sent event with JSON data and an optional name."""
    line = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return f"event: {name}\ndata: {line}\n\n" if name else f"data: {line}\n\n"
