"""What a wire format keeps for its provider, and how it goes back.

There is one rule for signatures, cache marks and whatever else only a provider understands: what
stands in `provider_data` under a format's name is laid over what the format itself writes. Used by
all wire formats.
"""

import json
from collections.abc import Mapping
from typing import Any, Protocol

from stage0_gateway.fields import parse_json
from stage0_gateway.parts import ProviderData, ToolCall

PLACE = "at"
"""Where in the content a call stood that was not at its end; kept with the call, sent to nobody."""


class _Keeps(Protocol):
    @property
    def provider_data(self) -> ProviderData | None: ...


def own_data(part: _Keeps, wire: str) -> dict[str, Any]:
    """What a part keeps for this format to send."""
    return {name: value for name, value in _kept(part, wire).items() if name != PLACE}


def _kept(part: _Keeps, wire: str) -> Mapping[str, Any]:
    return (part.provider_data or {}).get(wire) or {}


def laid_over(block: dict[str, Any], data: Mapping[str, Any] | None) -> dict[str, Any]:
    """The block with the data laid over it; two objects under one name are joined."""
    for name, value in (data or {}).items():
        below = block.get(name)
        if isinstance(below, dict) and isinstance(value, Mapping):
            value = {**below, **value}
        block[name] = value
    return block


def place_of(call: ToolCall, wire: str, end: int) -> int:
    """Before which part of the content a call belongs."""
    at = _kept(call, wire).get(PLACE)
    return at if isinstance(at, int) and 0 <= at <= end else end


def as_object(arguments: str) -> dict[str, Any] | None:
    """The arguments as a JSON object; None if they are not one, or contain a number that JSON
    cannot hold.
    """
    value = parse_json(arguments or "{}")
    try:
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def arguments_object(call: ToolCall) -> dict[str, Any]:
    """The arguments for formats that want an object; text that is none is shown as what it is."""
    value = as_object(call.arguments)
    return {"not_a_json_object": call.arguments} if value is None else value


def arguments_text(arguments: Any) -> str:
    """Arguments as text; missing, null and empty mean none. A server that sends an object meant its
    JSON.
    """
    if isinstance(arguments, str):
        return arguments or "{}"
    return "{}" if arguments is None else json.dumps(arguments, ensure_ascii=False)
