"""What the server formats share when they decode requests.

A request is decoded, encoded again without its messages, and compared with the body that came. The
difference is kept for the provider, so a format need not list the fields that it does not know.
Parts and tool calls keep their unknown fields in the same way. `wire/opaque.py` is the inverse.
Knows no format.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from stage0_gateway.parts import Part, ProviderData, TextPart
from stage0_gateway.request import ChatRequest


def deep_diff(whole: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `whole` that `written` lacks; null counts as absent."""
    rest: dict[str, Any] = {}
    for name, value in whole.items():
        below = written.get(name)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            if inner := {key: one for key, one in value.items() if one != below.get(key)}:
                rest[name] = inner
        elif value != below:
            rest[name] = value
    return rest


def kept(wire: str, whole: Mapping[str, Any], written: Mapping[str, Any]) -> ProviderData | None:
    """Return the fields of a part or tool call that only its provider understands, as
    `provider_data`.
    """
    rest = deep_diff(whole, written)
    return {wire: rest} if rest else None


def with_options(
    request: ChatRequest,
    body: Mapping[str, Any],
    encode: Callable[[ChatRequest], Mapping[str, Any]],
    apart: Collection[str],
) -> ChatRequest:
    """Add the fields of the body that the request has no attribute for, as `provider_options`.

    A list is kept whole: with a tool that the provider runs itself, the options hold all tools as
    they came.

    Args:
        request: The decoded request.
        body: The body it was decoded from.
        encode: Encodes the request again.
        apart: Fields that are not compared: the messages, and fields that are decoded completely.
    """
    written = encode(replace(request, messages=()))
    rest = deep_diff({name: value for name, value in body.items() if name not in apart}, written)
    return replace(request, provider_options=rest or None)


def whole_number(value: Any, where: str) -> int | None:
    """Return the value as a whole number; null stays None."""
    if value is not None and type(value) is not int:
        raise ValueError(f"{where} must be a whole number, not {type(value).__name__}.")
    return value


def as_content(parts: Iterable[Part]) -> str | tuple[Part, ...]:
    """Return parts as the content of a message; a single plain text becomes a string."""
    content = tuple(parts)
    match content:
        case ():
            return ""
        case (TextPart(text, citations, data),) if not (citations or data):
            return text
    return content
