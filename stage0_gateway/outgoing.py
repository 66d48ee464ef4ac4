"""A request as it is sent to one model: its URL, and its body in that model's wire format.

A frozen value, made once and sent as often as it takes. What was sent before, of a conversation and of tools, is
not written as JSON again. Knows no HTTP; used by `sending.py`, `incoming.py` and the gateway.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from stage0_gateway.messages import Message
from stage0_gateway.models import Target, Told
from stage0_gateway.once import each_turn, sent_before
from stage0_gateway.request import ChatRequest, ToolSpec
from stage0_gateway.wire import WireFormat
from stage0_gateway.wire.names import own_names


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request as it is sent to one model.

    Attributes:
        target: The model, and where it is.
        request: What is asked.
        body: The same as bytes of JSON.
        url: Where it is posted.
        names: Tool names that had to be sent otherwise, back to what they are.
    """

    target: Target
    request: ChatRequest
    body: bytes = field(repr=False)
    url: str = field(repr=False)  # its query may hold a key
    names: Mapping[str, str]

    @property
    def public_url(self) -> str:
        """The URL without its query, fit to be printed."""
        return str(self.url).partition("?")[0]


def outgoing(target: Target, request: ChatRequest, *, stream: bool) -> Outgoing:
    """Encode a request for a model.

    Raises:
        ValueError: It holds what JSON cannot.
    """
    told = target.told.of(request.tools, partial(_told, target.wire))
    body = _body(target, request, told.written, stream=stream)
    url = target.stream_url if stream else target.url
    return Outgoing(target, request, body, url, told.names)


def to_json(body: dict[str, Any]) -> bytes:
    """A body as compact UTF-8.

    Raises:
        ValueError: It holds what JSON cannot.
    """
    try:
        return _AS_IT_IS.encode(body).encode()
    except (TypeError, RecursionError) as error:
        raise ValueError(f"The request holds what JSON cannot: {error}.") from error
    except UnicodeEncodeError:  # half a surrogate pair: legal in Python text, not in UTF-8
        return json.dumps(body, allow_nan=False, separators=(",", ":")).encode()


_AS_IT_IS = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


# ---- what was sent before is not written again ----------------------------------------------------------


def _told(wire: WireFormat, tools: tuple[ToolSpec, ...]) -> Told:
    written = None
    with suppress(TypeError, ValueError, RecursionError):
        written = _AS_IT_IS.encode(wire.described(tools)).encode() if tools else None
    return Told(written, own_names(tools))


def _body(target: Target, request: ChatRequest, tools: bytes | None, *, stream: bool) -> bytes:
    """What `to_json` makes of the encoded request, with less work where most of it was sent before."""
    wire, own = target.wire, request.provider_options or {}
    tools = None if "tools" in own else tools
    with suppress(TypeError, ValueError, RecursionError):
        turns = None if wire.SPOKEN in own else _turns(wire, request, or_whole=bool(tools))
        if turns is not None:
            apart = tuple([message for message in request.messages if message.role == "system"])
            around = replace(request, messages=apart, tools=() if tools else request.tools)
            return _put_together(target.encode(around, stream=stream), wire.SPOKEN, turns, tools)
    return to_json(target.encode(request, stream=stream))  # with its error, if that is why


def _turns(wire: WireFormat, request: ChatRequest, *, or_whole: bool) -> list[bytes] | None:
    """The conversation as JSON, turn by turn; or in one piece where that will do; else None."""
    if sent_before(request.messages, wire.NAME):  # or it may be sent only once
        turns = each_turn(request.messages, wire.NAME, partial(_turn, wire))
        written = list(filter(None, turns))  # of some turns, nothing is sent
        if len(written) == len(turns) or None not in turns:
            return written
    return [_inside(wire.spoken(request.messages))] if or_whole else None


def _turn(wire: WireFormat, turn: tuple[Message, ...]) -> bytes | None:
    """What is sent of one turn; None where that depends on others, or cannot be written as it is."""
    answered = {message.tool_call_id for message in turn if message.role == "tool"}
    if answered <= {call.id for message in turn for call in message.tool_calls}:
        try:
            return _inside(wire.spoken(turn))
        except (TypeError, ValueError, RecursionError):
            return None
    return None


def _put_together(around: dict[str, Any], field: str, turns: list[bytes], tools: bytes | None) -> bytes:
    """A body with the turns in one of its fields, and the tools behind it."""
    fields = list(around.items())
    place = list(around).index(field)
    before, after = _inside(dict(fields[:place])), _inside(dict(fields[place + 1 :]))
    begin, *rest = turns or [b""]
    texts = [b'{%b"%b":[%b' % (before and before + b",", field.encode(), begin), *rest]
    texts[-1] += b"]%b%b}" % (b',"tools":' + tools if tools else b"", after and b"," + after)
    return b",".join(texts)


def _inside(value: dict[str, Any] | list[dict[str, Any]]) -> bytes:
    """An object or a list as JSON, without its brackets."""
    return _AS_IT_IS.encode(value)[1:-1].encode()
