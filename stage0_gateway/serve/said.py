"""What the rooms write replies with: parts and calls in one order, texts in pieces, events as lines.

A stream is the whole reply, cut: each room writes the whole first. Knows no format. Used by the rooms of
`serve/`.
"""

import json
from collections import deque
from collections.abc import Iterator
from typing import Any

from stage0_gateway.messages import Message
from stage0_gateway.parts import JsonPart, Part, TextPart, ToolCall
from stage0_gateway.wire.opaque import place_of


def in_order(message: Message, wire: str) -> Iterator[Part | ToolCall]:
    """The parts and calls of a message as they stood; a JSON value is the text of it."""
    content = message.content
    parts = content if not isinstance(content, str) else (TextPart(content),) if content else ()
    calls = deque(message.tool_calls)
    for at, part in enumerate(parts):
        while calls and place_of(calls[0], wire, len(parts)) <= at:
            yield calls.popleft()
        yield _as_text(part) if isinstance(part, JsonPart) else part
    yield from calls


def _as_text(part: JsonPart) -> TextPart:
    return TextPart(json.dumps(part.value, ensure_ascii=False))


def arguments_value(text: str) -> dict[str, Any] | str:
    """The arguments for formats that want an object; what is none stays the text the model wrote.

    A real server has such a text too, when a model fails; it repairs or hides it. This one has to show it.
    """
    try:
        value = json.loads(text or "{}")
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


def cut(text: str, most: int) -> list[str]:
    """The text in pieces of at most so many letters; none of an empty one."""
    return [text[start : start + most] for start in range(0, len(text), most)]


def event(data: Any, name: str = "") -> str:
    """A server-sent event with this JSON, and its name where the format has names."""
    line = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return f"event: {name}\ndata: {line}\n\n" if name else f"data: {line}\n\n"
