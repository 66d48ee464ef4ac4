"""`EncodedRequest`: a request in the wire format of one model, with its body as bytes.

The body is joined from the settings, the conversation and the tools. The encodings of messages and
tools are cached, so a request encodes only new messages, and those that depend on the rest of the
request. This module sends nothing.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from operator import is_
from typing import Any

from stage0_gateway.http.endpoint import ModelEndpoint
from stage0_gateway.messages import Message
from stage0_gateway.request import ChatRequest
from stage0_gateway.wire import cache_marks
from stage0_gateway.wire.format import WireFormat
from stage0_gateway.wire.names import own_names, shortened
from stage0_gateway.wire.surrogates import with_whole_characters

_CACHE_KEY_LENGTH = 64  # OpenAI rejects longer keys
_COMPACT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class EncodedRequest:
    """A request in the wire format of one model.

    Attributes:
        endpoint: The model and its server.
        request: The request before encoding.
        body: The request as JSON.
        url: The URL to post to. Its query may contain a key.
        public_url: The URL without its query, for events and errors.
        names: The tools' own names by their sent names, where they differ.
    """

    endpoint: ModelEndpoint
    request: ChatRequest
    body: bytes = field(repr=False)
    url: str = field(repr=False)
    public_url: str
    names: Mapping[str, str]


def encode_request(
    endpoint: ModelEndpoint, request: ChatRequest, *, stream: bool
) -> EncodedRequest:
    """Encode a request for a model; a value that JSON cannot represent raises a ValueError."""
    wire, options = endpoint.wire, request.provider_options or {}
    system, exchanges = list[Message](), list[list[Message]]()
    for message in request.messages:
        if message.role == "system":
            system.append(message)
        if message.role in ("user", "assistant") or not exchanges:
            exchanges.append([message])
        else:
            exchanges[-1].append(message)
    is_marked = request.cache_prompt and wire.NAME == cache_marks.FORMAT
    rest = request if is_marked else replace(request, messages=tuple(system), tools=())
    encodings = list[bytes | None]()
    if wire.MESSAGES not in options:
        if is_marked:
            encodings, rest = _encode_before_marks(wire, request, exchanges)
        else:
            encodings = encode_groups(wire.NAME, partial(_encode_exchange, wire), exchanges)
    if None in encodings:  # the exchanges depend on each other
        encodings, rest = [], request
    fields = encode_fields(endpoint, rest, stream=stream)
    members = []
    if encodings:
        last_messages = fields.pop(wire.MESSAGES)
        if is_marked:
            encodings.append(to_json(last_messages)[1:-1])
        conversation = b",".join(filter(None, encodings))  # some messages are not sent
        members.append(b'"%b":[%b]' % (wire.MESSAGES.encode(), conversation))
    if request.tools and not rest.tools and "tools" not in options:
        encodings = encode_groups(wire.NAME, wire.encode_tools, [[*request.tools]])
        members.append(b'"tools":[%b]' % b",".join(filter(None, encodings)))
    members.insert(0, to_json(fields)[1:-1])
    body = b"{%b}" % b",".join(filter(None, members))
    names = own_names(request.tools) if request.tools else {}
    url = endpoint.stream_url if stream else endpoint.url
    return EncodedRequest(endpoint, request, body, url, str(url).partition("?")[0], names)


def to_json(value: dict[str, Any] | list[Any]) -> bytes:
    """Encode a body or a part of it as compact UTF-8; an invalid value raises a ValueError."""
    try:
        return _COMPACT.encode(value).encode()
    except UnicodeEncodeError:
        return with_whole_characters(_COMPACT.encode(value)).encode()
    except (TypeError, RecursionError) as error:
        text = f"The request contains a value that JSON cannot represent: {error}."
        raise ValueError(text) from error


def encode_fields(endpoint: ModelEndpoint, request: ChatRequest, *, stream: bool) -> dict[str, Any]:
    """Encode a request with the field names of its server; the caller's own fields stay."""
    body = endpoint.wire.encode(request, stream=stream)
    # OpenAI's own server has fields that most compatible servers do not have.
    if endpoint.is_openai and "max_tokens" in body.keys() - (request.provider_options or {}):
        body["max_completion_tokens"] = body.pop("max_tokens")
    if endpoint.is_openai and request.cache_key:
        body.setdefault("prompt_cache_key", shortened(request.cache_key, _CACHE_KEY_LENGTH))
    return body


def encode_groups(
    form: str, encode: Callable[[list[Any]], list[Any] | None], groups: Iterable[list[Any]]
) -> list[bytes | None]:
    """Return `encode(group)` as JSON without brackets for each group; its first value caches it."""
    encodings = []
    for group in groups:
        first, *others = group
        try:
            known, encoding = first.encodings[form]
        except (AttributeError, KeyError):
            known = encoding = None
        # Equality is not sufficient: True equals 1, but its JSON differs.
        if known != others or (others and not all(map(is_, known, others))):
            encoded = encode(group)
            encoding = None if encoded is None else to_json(encoded)[1:-1]
            first.store_encoding(form, (others, encoding))
        encodings.append(encoding)
    return encodings


def _encode_exchange(wire: WireFormat, messages: list[Message]) -> list[dict[str, Any]] | None:
    """Encode an exchange; None if a result answers a call of another one."""
    calls = messages[0].tool_calls
    ids = {call.id for call in calls} if calls else ()
    for message in messages:
        if message.role == "tool" and message.tool_call_id not in ids:
            return None  # some formats send the name of the call
    return wire.encode_messages(messages)


def _encode_before_marks(
    wire: WireFormat, request: ChatRequest, exchanges: list[list[Message]]
) -> tuple[list[bytes | None], ChatRequest]:
    """Encode the exchanges before the last question, which a mark changes.

    Returns:
        Their encodings, None for one on which the marks depend; and the request without them.
    """

    def encode(messages: list[Message]) -> list[dict[str, Any]] | None:
        encoded = _encode_exchange(wire, messages)
        return None if encoded is None else cache_marks.before_marks(encoded)

    while exchanges:
        if cache_marks.has_question(wire.encode_messages(exchanges.pop())):
            break
    encodings = encode_groups(f"{wire.NAME} before marks", encode, exchanges)
    count = sum(map(len, exchanges))
    system = (message for message in request.messages[:count] if message.role == "system")
    return encodings, replace(request, messages=(*system, *request.messages[count:]))
