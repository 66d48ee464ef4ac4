"""A request as it is sent to one model: its URL, and its body in that model's wire format.

The body is joined from parts: the settings of this request, and the conversation and the tools,
whose encodings are kept. Knows no HTTP. Used by `sending.py`, `incoming.py` and the gateway.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from stage0_gateway.encoding import encoded_groups
from stage0_gateway.http.endpoint import Target
from stage0_gateway.messages import Message
from stage0_gateway.request import ChatRequest, ToolSpec
from stage0_gateway.wire import WireFormat
from stage0_gateway.wire.names import own_names

_NOT_JSON = (TypeError, ValueError, RecursionError)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request as it is sent to one model.

    Attributes:
        target: The model, and where it is.
        request: The request before encoding.
        body: The request as JSON.
        url: The URL to which it is posted.
        names: The tools' own names by the names under which they are sent, where these differ.
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
        ValueError: The request contains a value that JSON cannot hold.
    """
    try:
        body = _join(target, request, stream=stream)
    except _NOT_JSON:
        body = to_json(target.encode(request, stream=stream))
    url = target.stream_url if stream else target.url
    return Outgoing(target, request, body, url, own_names(request.tools))


def to_json(body: dict[str, Any]) -> bytes:
    """Encode a body as compact UTF-8.

    Raises:
        ValueError: The body contains a value that JSON cannot hold.
    """
    try:
        return _encode(body)
    except (TypeError, RecursionError) as error:
        raise ValueError(f"The request holds what JSON cannot: {error}.") from error
    except UnicodeEncodeError:  # half a surrogate pair: legal in Python text, not in UTF-8
        return json.dumps(body, allow_nan=False, separators=(",", ":")).encode()


def _encode(value: Any) -> bytes:
    return _COMPACT.encode(value).encode()


_COMPACT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


# ---- conversation and tools
# -----------------------------------------------------------------------------


def _join(target: Target, request: ChatRequest, *, stream: bool) -> bytes:
    """Join the body from the settings, the conversation and the tools.

    Raises:
        TypeError, ValueError, RecursionError: The whole request must be encoded at once, which may
        fail as well.
    """
    wire, options = target.wire, request.provider_options or {}
    system = tuple([message for message in request.messages if message.role == "system"])
    fields = target.encode(replace(request, messages=system, tools=()), stream=stream)
    members = []
    if wire.SPOKEN not in options:
        del fields[wire.SPOKEN]
        members.append(b'"%b":[%b]' % (wire.SPOKEN.encode(), _conversation(wire, request.messages)))
    if request.tools and "tools" not in options:
        (tools,) = encoded_groups(wire.NAME, partial(_tools, wire), [[*request.tools]])
        members.append(b'"tools":' + tools)
    if fields:
        members.insert(0, _encode(fields)[1:-1])
    return b"{%b}" % b",".join(members)


def _conversation(wire: WireFormat, messages: tuple[Message, ...]) -> bytes:
    """The JSON of a conversation without brackets, joined from the JSON of its exchanges."""
    exchanges: list[list[Message]] = []
    for message in messages:
        if message.role in ("user", "assistant") or not exchanges:
            exchanges.append([message])
        else:
            exchanges[-1].append(message)
    encode = partial(_exchange, wire)
    encoded = encoded_groups(wire.NAME, encode, exchanges)
    return b",".join(filter(None, encoded))  # nothing is sent of some messages


def _exchange(wire: WireFormat, *messages: Message) -> bytes:
    """The JSON of an assistant message with its results, or of any other message, without
    brackets.
    """
    calls = {call.id for message in messages for call in message.tool_calls}
    if any(message.tool_call_id not in calls for message in messages if message.role == "tool"):
        raise ValueError("A result depends on a call of another exchange.")
    return _encode(wire.spoken(messages))[1:-1]


def _tools(wire: WireFormat, *tools: ToolSpec) -> bytes:
    return _encode(wire.described(tools))
