"""Shared functions to decode requests.

A request is decoded, encoded again without its messages, and compared with the received body. The
difference is stored for the provider, so a format need not list unknown fields. Parts and tool
calls store their unknown fields in the same way. `wire/provider_data.py` is the inverse.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from stage0_gateway.parts import ProviderData
from stage0_gateway.request import ChatRequest


def deep_diff(received: Mapping[str, Any], decoded: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `received` that `decoded` lacks; null counts as absent."""
    rest: dict[str, Any] = {}
    for name, value in received.items():
        known = decoded.get(name)
        if isinstance(value, Mapping) and isinstance(known, Mapping):
            if inner := {key: one for key, one in value.items() if one != known.get(key)}:
                rest[name] = inner
        elif value != known:
            rest[name] = value
    return rest


def extra_data(
    wire: str, received: Mapping[str, Any], decoded: Mapping[str, Any]
) -> ProviderData | None:
    """Return the unknown fields of a part or tool call as `provider_data`."""
    rest = deep_diff(received, decoded)
    return {wire: rest} if rest else None


def with_options(
    request: ChatRequest,
    body: Mapping[str, Any],
    encode: Callable[[ChatRequest], Mapping[str, Any]],
    ignored: Collection[str],
) -> ChatRequest:
    """Add the fields without an attribute in `ChatRequest` as `provider_options`.

    Lists are not split: with a tool that the provider runs itself, the options contain all tools.

    Args:
        request: The decoded request.
        body: The body it was decoded from.
        encode: Encodes the request again.
        ignored: Fields that are not compared: the messages, and completely decoded fields.
    """
    decoded = encode(replace(request, messages=()))
    rest = deep_diff({name: value for name, value in body.items() if name not in ignored}, decoded)
    return replace(request, provider_options=rest or None)


def as_integer(value: Any, field: str) -> int | None:
    """Return the value as a whole number; null stays None."""
    if value is not None and type(value) is not int:
        raise ValueError(f"{field} must be a whole number, not {type(value).__name__}.")
    return value
