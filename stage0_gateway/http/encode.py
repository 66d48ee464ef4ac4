"""`EncodedRequest`: a request in the wire format of one model, with its body as bytes.

The body is joined from the settings, the conversation and the tools. The encodings of messages and
tools are cached, so a request encodes only new messages. This module sends nothing.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import is_
from typing import Any

from stage0_gateway.http.endpoint import ModelEndpoint
from stage0_gateway.messages import Message
from stage0_gateway.request import ChatRequest, ToolSpec
from stage0_gateway.wire.format import WireFormat
from stage0_gateway.wire.names import own_names, shortened
from stage0_gateway.wire.surrogates import with_whole_characters

_NOT_JSON = (TypeError, ValueError, RecursionError)
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
    try:
        body = _join_body(endpoint, request, stream=stream)
    except _NOT_JSON:
        body = to_json(encode_fields(endpoint, request, stream=stream))
    names = own_names(request.tools) if request.tools else {}
    url = endpoint.stream_url if stream else endpoint.url
    return EncodedRequest(endpoint, request, body, url, str(url).partition("?")[0], names)


def to_json(body: dict[str, Any]) -> bytes:
    """Encode a body as compact UTF-8.

    Raises:
        ValueError: The body contains a value that JSON cannot represent.
    """
    try:
        text = _COMPACT.encode(body)
    except (TypeError, RecursionError) as error:
        raise ValueError(
            f"The request contains a value that JSON cannot represent: {error}."
        ) from error
    try:
        return text.encode()
    except UnicodeEncodeError:
        return with_whole_characters(text).encode()


def encode_fields(endpoint: ModelEndpoint, request: ChatRequest, *, stream: bool) -> dict[str, Any]:
    """Encode a request with the field names of its server; the caller's own fields stay."""
    body = endpoint.wire.encode(request, stream=stream)
    if endpoint.is_openai:
        _use_openai_names(body, request)
    return body


def _use_openai_names(body: dict[str, Any], request: ChatRequest) -> None:
    """Set the fields that OpenAI's own server has, and most compatible servers do not have."""
    if "max_tokens" in body.keys() - (request.provider_options or {}):
        body["max_completion_tokens"] = body.pop("max_tokens")
    if request.cache_key:
        body.setdefault("prompt_cache_key", shortened(request.cache_key, _CACHE_KEY_LENGTH))


def _join_body(endpoint: ModelEndpoint, request: ChatRequest, *, stream: bool) -> bytes:
    """Join the body from its parts; raises one of `_NOT_JSON` if only a whole encoding may work."""
    wire, options = endpoint.wire, request.provider_options or {}
    if request.cache_prompt and wire.NAME == "anthropic":
        raise ValueError("The cache marks depend on the whole request.")
    system: list[Message] = []
    exchanges: list[list[Message]] = []
    for message in request.messages:
        if message.role == "system":
            system.append(message)
        if message.role in ("user", "assistant") or not exchanges:
            exchanges.append([message])
        else:
            exchanges[-1].append(message)
    settings = replace(request, messages=tuple(system), tools=())
    fields = encode_fields(endpoint, settings, stream=stream)
    members = []
    if wire.MESSAGES not in options:
        del fields[wire.MESSAGES]
        encodings = encode_groups(wire, _encode_exchange, exchanges)
        conversation = b",".join(filter(None, encodings))  # some messages are not sent
        members.append(b'"%b":[%b]' % (wire.MESSAGES.encode(), conversation))
    if request.tools and "tools" not in options:
        members.append(b'"tools":' + encode_groups(wire, _encode_tools, [[*request.tools]])[0])
    if fields:
        members.insert(0, _COMPACT.encode(fields).encode()[1:-1])
    return b"{%b}" % b",".join(members)


def encode_groups(
    wire: WireFormat, encode: Callable[[WireFormat, Any], bytes], groups: Sequence[Sequence[Any]]
) -> list[bytes]:
    """Return `encode(wire, group)` for each group; its first value caches the encoding."""
    encodings = []
    for group in groups:
        first, *others = group
        try:
            known, encoding = first.encodings[wire.NAME]
        except (AttributeError, KeyError):
            known = encoding = None
        # Equality is not sufficient: True equals 1, but its JSON differs.
        if known != others or (others and not all(map(is_, known, others))):
            encoding = encode(wire, group)
            first.store_encoding(wire.NAME, (others, encoding))
        encodings.append(encoding)
    return encodings


def _encode_exchange(wire: WireFormat, messages: Sequence[Message]) -> bytes:
    """Encode an assistant message with its results, or another message, without brackets."""
    ids = {call.id for call in messages[0].tool_calls}
    for message in messages:
        if message.role == "tool" and message.tool_call_id not in ids:
            raise ValueError("A result depends on a call of another exchange.")
    return _COMPACT.encode(wire.encode_messages(messages)).encode()[1:-1]


def _encode_tools(wire: WireFormat, tools: Sequence[ToolSpec]) -> bytes:
    return _COMPACT.encode(wire.encode_tools(tools)).encode()
