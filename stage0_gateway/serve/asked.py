"""What the rooms read requests with: what a client said beyond our words, and parts and calls in one order.

`wire/opaque.py` lays what a provider alone understands over what a format writes; `left_over` is the inverse
and finds it. So nothing has to be listed that a room does not know: a request is read into our words, encoded
again, and the difference is kept. Knows no format. Used by the rooms of `serve/`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from stage0_gateway.messages import Message
from stage0_gateway.parts import Part, ProviderData, TextPart, ToolCall
from stage0_gateway.request import ChatRequest
from stage0_gateway.wire.opaque import PLACE, own_data


def left_over(whole: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    """The data that, laid over what was written, give the whole; null is as good as absent."""
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
    """What a part or a call keeps for its provider: all that our words would not bring back."""
    rest = left_over(whole, written)
    return {wire: rest} if rest else None


def with_options(
    request: ChatRequest,
    body: Mapping[str, Any],
    encode: Callable[[ChatRequest], Mapping[str, Any]],
    apart: Collection[str],
) -> ChatRequest:
    """The request with `provider_options` that hold what its words do not bring back.

    A list is kept whole: tools among which one is the provider's own stand in the options as they came, and
    `tools` holds those of them that are ours to read.

    Args:
        request: What was read.
        body: What it was read from.
        encode: Writes it again.
        apart: Fields that are not compared: the messages, and what only says how to answer.
    """
    written = encode(replace(request, messages=()))
    rest = left_over({name: value for name, value in body.items() if name not in apart}, written)
    return replace(request, provider_options=rest or None)


def whole_number(value: Any, where: str) -> int | None:
    """The value as a whole number; null stays None."""
    if value is not None and type(value) is not int:
        raise ValueError(f"{where} must be a whole number, not {type(value).__name__}.")
    return value


def as_content(parts: Iterable[Part]) -> str | tuple[Part, ...]:
    """Parts as the content of a message: plain text alone as a plain text."""
    content = tuple(parts)
    match content:
        case ():
            return ""
        case (TextPart(text, citations, data),) if not (citations or data):
            return text
    return content


def from_order(items: Iterable[Part | ToolCall], wire: str) -> Message:
    """An assistant's message from parts and calls as they stood; calls not at the end keep their place."""
    parts: list[Part] = []
    calls: list[tuple[ToolCall, int]] = []
    for item in items:
        if isinstance(item, ToolCall):
            calls.append((item, len(parts)))
        else:
            parts.append(item)
    placed = (call if at == len(parts) else _placed(call, wire, at) for call, at in calls)
    return Message.assistant(as_content(parts), placed)


def _placed(call: ToolCall, wire: str, at: int) -> ToolCall:
    return replace(call, provider_data={wire: {**own_data(call, wire), PLACE: at}})
