"""OpenAI's Responses format, in which reasoning returns to the model in later turns.

This module encodes requests; `openai_responses_reply.py` decodes replies, and
`server/openai_responses.py` is the other direction. A conversation is a list of items. The server
stores nothing (`store` is false): every request contains the whole conversation, and reasoning
returns as encrypted items. All functions are pure.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from stage0_gateway.errors import ConfigurationError
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
from stage0_gateway.wire.names import sent_name, shortened
from stage0_gateway.wire.openai import headers as headers
from stage0_gateway.wire.openai_responses_reply import NAME as NAME
from stage0_gateway.wire.openai_responses_reply import OpenAIResponsesReader
from stage0_gateway.wire.provider_data import deep_merge, own_data, with_calls
from stage0_gateway.wire.reasoning import level_of
from stage0_gateway.wire.surrogates import with_whole_escapes

MESSAGES = "input"
_ID_LENGTH = 64  # the server rejects longer call ids
_ENCRYPTED = "reasoning.encrypted_content"
_WITHOUT_REASONING = re.compile("gpt-[34]|-chat")
"""Models of OpenAI that reject a request for encrypted reasoning."""
_INPUT = ("input_text", "input_image", "input_file", "input_audio")
reader = OpenAIResponsesReader
"""Creates a reader for one reply, whole or streamed."""


def path(model: str, *, stream: bool = False) -> str:
    """Return the path, which is the same for every model."""
    return "/responses"


def decode(body: Mapping[str, Any]) -> ChatResponse:
    """Decode a whole reply.

    Raises:
        MalformedResponse: The body contains no reply.
        GatewayError: The body contains an error.
    """
    return reader().decode_whole(body)


def encode(request: ChatRequest, *, stream: bool = False) -> dict[str, Any]:
    """Encode a request as the body of a responses request.

    Raises:
        ConfigurationError: The request has `stop` texts, which this format does not have.
    """
    if request.stop:
        raise ConfigurationError(
            "OpenAI's Responses format has no stop texts. Omit stop=…, or use chat completions: "
            f"'openai:{request.model}'."
        )
    body: dict[str, Any] = {"model": request.model, MESSAGES: encode_messages(request.messages)}
    body["store"] = False
    if not _WITHOUT_REASONING.search(request.model):
        body["include"] = [_ENCRYPTED]
    if request.tools:
        body["tools"] = encode_tools(request.tools)
    if (choice := request.tool_choice) is not None:
        named = {"type": "function", "name": sent_name(choice)}
        body["tool_choice"] = choice if choice in ("auto", "none", "required") else named
    if request.response_schema is not None:
        schema = {"name": "reply", "schema": dict(request.response_schema)}
        body["text"] = {"format": {"type": "json_schema", **schema}}
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.max_tokens is not None:
        body["max_output_tokens"] = request.max_tokens
    if request.reasoning is not None:
        body |= encode_reasoning(request)
    if stream:
        body["stream"] = True
    return deep_merge(body, request.provider_options)


def encode_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Encode a conversation; a message of the model becomes several items."""
    return [item for message in messages for item in _items(message)]


def encode_tools(tools: Iterable[ToolSpec]) -> list[dict[str, Any]]:
    """Encode tools. `strict` is false because servers would otherwise change the schemas."""
    encoded = []
    for tool in tools:
        plain = {"name": sent_name(tool.name), "description": tool.description}
        schema = {"parameters": dict(tool.parameters), "strict": False}
        encoded.append({"type": "function", **plain, **schema})
    return encoded


def encode_reasoning(request: ChatRequest) -> dict[str, Any]:
    """Encode the setting `reasoning`.

    Raises:
        ConfigurationError: The model does not accept the setting.
    """
    return {"reasoning": {"effort": level_of(request)}}


def _items(message: Message) -> list[dict[str, Any]]:
    """Encode a message: contents that follow each other are one item, others are items alone."""
    if message.role == "tool":
        output = _content([*filter(None, map(_part, message.parts))])
        call_id = shortened(message.tool_call_id or "", _ID_LENGTH)
        return [{"type": "function_call_output", "call_id": call_id, "output": output}]
    encode_part = _reply_part if message.role == "assistant" else _part
    parts = with_calls(map(encode_part, message.parts), message.tool_calls, NAME, _call)
    items: list[dict[str, Any]] = []
    for is_content, group in groupby(parts, key=_is_content):
        if is_content:
            items.append({"role": message.role, "content": _content([*group])})
        else:
            items += group
    return items


def _is_content(part: Mapping[str, Any]) -> bool:
    return part.get("type") in _INPUT


def _content(contents: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """Return plain texts as one text: the simplest servers accept no list."""
    if any(content.keys() != {"type", "text"} for content in contents):
        return contents
    return "".join(content["text"] for content in contents)


def _part(part: Part) -> dict[str, Any] | None:
    match part:
        case TextPart(text):
            return deep_merge({"type": "input_text", "text": text}, own_data(part, NAME))
        case JsonPart(value):
            return {"type": "input_text", "text": json.dumps(value, ensure_ascii=False)}
        case ImagePart(data, media_type, url):
            image = {"image_url": url or f"data:{media_type};base64,{data}", "detail": "auto"}
            return deep_merge({"type": "input_image", **image}, own_data(part, NAME))
        case DocumentPart(data, media_type, name, url):
            content = {"filename": name, "file_data": f"data:{media_type};base64,{data}"}
            file = {"file_url": url} if url else content
            return deep_merge({"type": "input_file", **file}, own_data(part, NAME))
        case ThinkingPart():
            own = own_data(part, NAME)
            if own.get("encrypted_content") or own.get("content"):
                return {"type": "reasoning", "summary": [], **own}
        case ProviderPart(wire, data) if wire == NAME:
            return dict(data)
    return None  # reasoning of another provider; the server does not know it by its id


def _reply_part(part: Part) -> dict[str, Any] | None:
    """Encode a part of a message of the model, where a text is an item."""
    match part:
        case TextPart(text):
            item = {"role": "assistant", "content": text, **own_data(part, NAME)}
            return item if text else None
        case JsonPart(value):
            return {"role": "assistant", "content": json.dumps(value, ensure_ascii=False)}
    return _part(part)


def _call(call: ToolCall) -> dict[str, Any]:
    named = {"call_id": shortened(call.id, _ID_LENGTH), "name": sent_name(call.name)}
    function = {**named, "arguments": with_whole_escapes(call.arguments)}
    return deep_merge({"type": "function_call", **function}, own_data(call, NAME))
