"""Data that is stored for one provider and sent back to it, and arguments as text or object.

Signatures, cache marks and unknown fields follow one rule: the `provider_data` of a format is
merged into the block that the format encodes. All wire formats and their server side use this
module.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from stage0_gateway.json_fields import parse_json
from stage0_gateway.parts import ProviderData, ToolCall

_POSITION = "at"
"""The key for the position of a call that other parts follow. It is stored, but never sent."""


class _HasProviderData(Protocol):
    @property
    def provider_data(self) -> ProviderData | None: ...


def own_data(part: _HasProviderData, wire: str) -> dict[str, Any]:
    """Return the data of a part that this format sends."""
    data = (part.provider_data or {}).get(wire) or {}
    return {name: value for name, value in data.items() if name != _POSITION}


def call_position(call: ToolCall, wire: str, end: int) -> int:
    """Return the index of the part before which a call belongs; `end` is after all parts."""
    position = ((call.provider_data or {}).get(wire) or {}).get(_POSITION)
    return position if isinstance(position, int) and 0 <= position <= end else end


def with_calls(
    parts: Iterable[dict[str, Any] | None],
    calls: Iterable[ToolCall],
    wire: str,
    encode: Callable[[ToolCall], dict[str, Any]],
) -> list[dict[str, Any]]:
    """Return encoded parts, with each call encoded at its position; empty parts are left out."""
    blocks = list(parts)
    end = len(blocks)
    for inserted, call in enumerate(calls):
        blocks.insert(call_position(call, wire, end) + inserted, encode(call))
    return [block for block in blocks if block]


def deep_merge(block: dict[str, Any], data: Mapping[str, Any] | None) -> dict[str, Any]:
    """Merge data into a block; two objects under the same name are joined."""
    for name, value in (data or {}).items():
        current = block.get(name)
        if isinstance(current, dict) and isinstance(value, Mapping):
            value = {**current, **value}
        block[name] = value
    return block


def as_object(arguments: str) -> dict[str, Any] | None:
    """Return arguments as a JSON object, or None if they are not one that JSON can represent."""
    value = parse_json(arguments or "{}")
    try:
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def arguments_object(call: ToolCall) -> dict[str, Any]:
    """Return arguments for formats that require an object; other text is wrapped in one."""
    value = as_object(call.arguments)
    return {"not_a_json_object": call.arguments} if value is None else value


def arguments_text(arguments: Any) -> str:
    """Return arguments as text; missing, null and empty become `{}`, an object its JSON."""
    if isinstance(arguments, str):
        return arguments or "{}"
    return "{}" if arguments is None else json.dumps(arguments, ensure_ascii=False)
