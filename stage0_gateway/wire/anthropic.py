"""Anthropic's messages, the format of Claude.

Pure: `encode` a request, and what else a wire format offers; `anthropic_reply.py` reads the
replies. System messages stand apart from the conversation, results are the user's, and what only
this provider understands (searches and code that its server runs, encrypted thinking) goes back as
it came. The other direction is `serve/anthropic.py`. Used by the gateway.
"""

import json
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from stage0_gateway.messages import Message
from stage0_gateway.parts import (
    DocumentPart,
    ImagePart,
    JsonPart,
    Part,
    ProviderPart,
    TextPart,
    ThinkingPart,
    ToolCall,
)
from stage0_gateway.request import ChatRequest, ToolSpec
from stage0_gateway.response import ChatResponse
from stage0_gateway.wire.anthropic_reply import NAME as NAME
from stage0_gateway.wire.anthropic_reply import AnthropicReader
from stage0_gateway.wire.names import sent_id, sent_name
from stage0_gateway.wire.opaque import arguments_object, laid_over, own_data, place_of
from stage0_gateway.wire.reading import read_whole

SPOKEN = "messages"
VERSION = "2023-06-01"
MOST_TOKENS = 4096
"""Sent where the caller left it open, because this format wants a number; every model can write as
many."""

_CHOICES = {"auto": "auto", "none": "none", "required": "any"}


def path(model: str, *, stream: bool = False) -> str:
    """The same path for every model; the body names it."""
    return "/messages"


def headers(api_key: str | None) -> dict[str, str]:
    """The key, and the version of the format."""
    return {"anthropic-version": VERSION, **({"x-api-key": api_key} if api_key else {})}


# ---- the request
# ----------------------------------------------------------------------------------------


def encode(request: ChatRequest, *, stream: bool = False) -> dict[str, Any]:
    """The JSON body of a messages request; what the caller left open is left out."""
    body: dict[str, Any] = {"model": request.model, "max_tokens": request.max_tokens or MOST_TOKENS}
    if system := _system(request.messages):
        body["system"] = system
    body[SPOKEN] = spoken(request.messages)
    if request.tools:
        body["tools"] = described(request.tools)
    if (choice := request.tool_choice) is not None:
        named = {"type": "tool", "name": sent_name(choice)}
        body["tool_choice"] = {"type": _CHOICES[choice]} if choice in _CHOICES else named
    if request.response_schema is not None:
        schema = {"type": "json_schema", "schema": dict(request.response_schema)}
        body["output_config"] = {"format": schema}
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.stop:
        body["stop_sequences"] = list(request.stop)
    if stream:
        body["stream"] = True
    return laid_over(body, request.provider_options)


def _system(messages: Iterable[Message]) -> str | list[dict[str, Any]]:
    """All system messages, which this format keeps apart from the conversation."""
    blocks = [block for message in messages if _is_apart(message) for block in _blocks(message)]
    if any(block.keys() != {"type", "text"} for block in blocks):
        return blocks
    return "\n\n".join(block["text"] for block in blocks)


def _is_apart(message: Message) -> bool:
    """Whether it belongs to the system prompt; what only this provider understands stays in its
    place.
    """
    parts = () if isinstance(message.content, str) else message.content
    return message.role == "system" and not any(
        isinstance(part, ProviderPart) and part.wire == NAME for part in parts
    )


def spoken(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The conversation as this format has it, without the system prompt."""
    here = [message for message in messages if not _is_apart(message)]
    return [plain for plain in _messages(here) if plain["content"]]


def described(tools: Iterable[ToolSpec]) -> list[dict[str, Any]]:
    """The tools as this format has them."""
    return [_tool(spec) for spec in tools]


def _messages(messages: Iterable[Message]) -> Iterable[dict[str, Any]]:
    """Messages as blocks; the results of one turn's calls go into one message of the user."""
    for is_result, group in groupby(messages, key=lambda message: message.role == "tool"):
        if is_result:
            yield {"role": "user", "content": [_result(message) for message in group]}
        else:
            for message in group:
                yield {"role": message.role, "content": _said(message)}


def _said(message: Message) -> str | list[dict[str, Any]]:
    if isinstance(message.content, str) and not message.tool_calls:
        return message.content
    blocks = _blocks(message, keep_empty=True)
    end = len(blocks)
    for done, call in enumerate(message.tool_calls):
        blocks.insert(place_of(call, NAME, end) + done, _call(call))
    return [block for block in blocks if block]


def _blocks(message: Message, *, keep_empty: bool = False) -> list[dict[str, Any]]:
    """The parts as blocks; what is not to be sent is an empty one, where places are counted."""
    content = (TextPart(message.content),) if isinstance(message.content, str) else message.content
    blocks = [_block(part) or {} for part in content]
    return blocks if keep_empty else [block for block in blocks if block]


def _block(part: Part) -> dict[str, Any] | None:
    """A part as a block; None where it is not to be sent: unsigned thinking and empty texts are
    refused.
    """
    match part:
        case JsonPart(value):
            return {"type": "text", "text": json.dumps(value, ensure_ascii=False)}
        case ProviderPart(wire, data):
            return dict(data) if wire == NAME else None
        case ThinkingPart(text):
            signed = own_data(part, NAME)
            return {"type": "thinking", "thinking": text, **signed} if signed else None
        case TextPart(text, citations):
            block: dict[str, Any] = {"type": "text", "text": text}
            if cited := [kept for one in citations if (kept := own_data(one, NAME))]:
                block["citations"] = cited
            return laid_over(block, own_data(part, NAME)) if text.strip() else None
        case ImagePart(data, media_type, url):
            block = {"type": "image", "source": _source(data, media_type, url)}
        case DocumentPart(data, media_type, name, url):
            block = {"type": "document", "title": name, "source": _source(data, media_type, url)}
    return laid_over(block, own_data(part, NAME))


def _source(data: str | None, media_type: str, url: str | None) -> dict[str, Any]:
    if url:
        return {"type": "url", "url": url}
    if media_type == "text/plain":
        return {
            "type": "text",
            "media_type": media_type,
            "data": b64decode(data or "").decode(errors="replace"),
        }
    return {"type": "base64", "media_type": media_type, "data": data or ""}


def _call(call: ToolCall) -> dict[str, Any]:
    block = {"type": "tool_use", "id": sent_id(call.id), "name": sent_name(call.name)}
    return laid_over({**block, "input": arguments_object(call)}, own_data(call, NAME))


def _result(message: Message) -> dict[str, Any]:
    content = message.content if isinstance(message.content, str) else _blocks(message)
    block = {
        "type": "tool_result",
        "tool_use_id": sent_id(message.tool_call_id or ""),
        "content": content,
    }
    return {**block, "is_error": True} if message.is_error else block


def _tool(spec: ToolSpec) -> dict[str, Any]:
    plain = {"name": sent_name(spec.name), "description": spec.description}
    return {**plain, "input_schema": {"type": "object", **spec.parameters}}


# ---- the reply
# ------------------------------------------------------------------------------------------


def decode(body: Mapping[str, Any], request_id: str | None = None) -> ChatResponse:
    """Read a whole reply.

    Raises:
        MalformedResponse: There is none in it. A body that holds an error instead raises that
            error.
    """
    return read_whole(reader(), body, request_id)


def reader(names: Mapping[str, str] | None = None) -> AnthropicReader:
    """Something that reads one reply, whole or streamed."""
    return AnthropicReader(names)
