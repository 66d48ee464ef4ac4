"""Anthropic's messages, the format of Claude.

This module encodes requests; `anthropic_reply.py` decodes replies, and `server/anthropic.py` is the
other direction. System messages are a separate field, and tool results are user messages. Blocks
that only this provider understands are sent back unchanged. All functions are pure.
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
from stage0_gateway.wire.cache_marks import add_marks
from stage0_gateway.wire.names import sent_id, sent_name
from stage0_gateway.wire.provider_data import arguments_object, deep_merge, own_data, with_calls
from stage0_gateway.wire.reasoning import anthropic_fields

MESSAGES = "messages"
VERSION = "2023-06-01"
DEFAULT_MAX_TOKENS = 4096
"""This format requires a number. Every model supports this one."""
_CHOICES = {"auto": "auto", "none": "none", "required": "any"}
reader = AnthropicReader
"""Creates a reader for one reply, whole or streamed."""


def path(model: str, *, stream: bool = False) -> str:
    """Return the path, which is the same for every model."""
    return "/messages"


def headers(api_key: str | None) -> dict[str, str]:
    """Return the key and the version of the format."""
    return {"anthropic-version": VERSION, **({"x-api-key": api_key} if api_key else {})}


def decode(body: Mapping[str, Any]) -> ChatResponse:
    """Decode a whole reply.

    Raises:
        MalformedResponse: The body contains no reply.
        GatewayError: The body contains an error.
    """
    return reader().decode_whole(body)


def encode(request: ChatRequest, *, stream: bool = False) -> dict[str, Any]:
    """Encode a request as the body of a messages request."""
    max_tokens = request.max_tokens or DEFAULT_MAX_TOKENS
    body: dict[str, Any] = {"model": request.model, "max_tokens": max_tokens}
    if system := _system(request.messages):
        body["system"] = system
    body[MESSAGES] = encode_messages(request.messages)
    if request.tools:
        body["tools"] = encode_tools(request.tools)
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
    if request.reasoning is not None:
        deep_merge(body, encode_reasoning(request))
    if request.cache_prompt:
        add_marks(body)
    return deep_merge(body, request.provider_options)


def encode_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Encode a conversation without the system prompt.

    The results of one turn's calls become one user message.
    """
    encoded: list[dict[str, Any]] = []
    conversation = (message for message in messages if not _is_system_prompt(message))
    for is_result, group in groupby(conversation, key=lambda message: message.role == "tool"):
        if is_result:
            encoded.append({"role": "user", "content": [_result(message) for message in group]})
        else:
            encoded += [{"role": message.role, "content": _content(message)} for message in group]
    return [message for message in encoded if message["content"]]


def encode_tools(tools: Iterable[ToolSpec]) -> list[dict[str, Any]]:
    """Encode tools."""
    encoded = []
    for tool in tools:
        schema = {"type": "object", **tool.parameters}
        plain = {"name": sent_name(tool.name), "description": tool.description}
        encoded.append({**plain, "input_schema": schema})
    return encoded


def encode_reasoning(request: ChatRequest) -> dict[str, Any]:
    """Encode the setting `reasoning`.

    Raises:
        ConfigurationError: The model does not accept the setting.
    """
    return anthropic_fields(request, DEFAULT_MAX_TOKENS)


def _system(messages: Iterable[Message]) -> str | list[dict[str, Any]]:
    """Return the system prompt: one text if possible."""
    prompts = filter(_is_system_prompt, messages)
    blocks = [block for message in prompts for block in _blocks(message)]
    if any(block.keys() != {"type", "text"} for block in blocks):
        return blocks
    return "\n\n".join(block["text"] for block in blocks)


def _is_system_prompt(message: Message) -> bool:
    """Return whether a message belongs to the system prompt; provider parts keep their position."""
    return message.role == "system" and not any(
        isinstance(part, ProviderPart) and part.wire == NAME for part in message.parts
    )


def _content(message: Message) -> str | list[dict[str, Any]]:
    if isinstance(message.content, str) and not message.tool_calls:
        return message.content
    return with_calls(map(_block, message.parts), message.tool_calls, NAME, _call)


def _blocks(message: Message) -> list[dict[str, Any]]:
    return [block for part in message.parts if (block := _block(part))]


def _block(part: Part) -> dict[str, Any] | None:
    """Encode a part; None if it is not sent: servers reject unsigned thinking and empty texts."""
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
            if cited := [data for citation in citations if (data := own_data(citation, NAME))]:
                block["citations"] = cited
            return deep_merge(block, own_data(part, NAME)) if text.strip() else None
        case ImagePart(data, media_type, url):
            block = {"type": "image", "source": _source(data, media_type, url)}
        case DocumentPart(data, media_type, name, url):
            block = {"type": "document", "title": name, "source": _source(data, media_type, url)}
    return deep_merge(block, own_data(part, NAME))


def _source(data: str | None, media_type: str, url: str | None) -> dict[str, Any]:
    if url:
        return {"type": "url", "url": url}
    if media_type == "text/plain":
        text = b64decode(data or "").decode(errors="replace")
        return {"type": "text", "media_type": media_type, "data": text}
    return {"type": "base64", "media_type": media_type, "data": data or ""}


def _call(call: ToolCall) -> dict[str, Any]:
    block = {"type": "tool_use", "id": sent_id(call.id), "name": sent_name(call.name)}
    return deep_merge({**block, "input": arguments_object(call)}, own_data(call, NAME))


def _result(message: Message) -> dict[str, Any]:
    content = message.content if isinstance(message.content, str) else _blocks(message)
    call_id = sent_id(message.tool_call_id or "")
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content}
    return {**block, "is_error": True} if message.is_error else block
