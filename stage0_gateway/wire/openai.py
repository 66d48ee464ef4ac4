"""OpenAI's chat completions, the format of most model servers.

This module encodes requests; `openai_reply.py` decodes replies, and `server/openai.py` is the other
direction. All functions are pure.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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
from stage0_gateway.wire.names import sent_name, shortened
from stage0_gateway.wire.openai_reply import NAME as NAME
from stage0_gateway.wire.openai_reply import THINKING, OpenAIReader
from stage0_gateway.wire.provider_data import deep_merge, own_data
from stage0_gateway.wire.reasoning import level_of
from stage0_gateway.wire.surrogates import with_whole_escapes

MESSAGES = "messages"
reader = OpenAIReader
"""Creates a reader for one reply, whole or streamed."""


def path(model: str, *, stream: bool = False) -> str:
    """Return the path, which is the same for every model."""
    return "/chat/completions"


def headers(api_key: str | None) -> dict[str, str]:
    """Return the bearer token; local servers need none."""
    return {"Authorization": f"Bearer {api_key}"} if api_key else {}


def decode(body: Mapping[str, Any]) -> ChatResponse:
    """Decode a whole reply.

    Raises:
        MalformedResponse: The body contains no reply.
        GatewayError: The body contains an error.
    """
    return reader().decode_whole(body)


def encode(request: ChatRequest, *, stream: bool = False) -> dict[str, Any]:
    """Encode a request as the body of a chat completion request."""
    body: dict[str, Any] = {"model": request.model, MESSAGES: encode_messages(request.messages)}
    if request.tools:
        body["tools"] = encode_tools(request.tools)
    if (choice := request.tool_choice) is not None:
        named = {"type": "function", "function": {"name": sent_name(choice)}}
        body["tool_choice"] = choice if choice in ("auto", "none", "required") else named
    if request.response_schema is not None:
        schema = {"name": "reply", "schema": dict(request.response_schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.max_tokens is not None:
        body["max_tokens"] = request.max_tokens
    if request.stop:
        body["stop"] = list(request.stop)
    if request.reasoning is not None:
        body |= encode_reasoning(request)
    return deep_merge(body, request.provider_options) if request.provider_options else body


def encode_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Encode a conversation; the files of tool results follow them, labeled, as a user message."""
    encoded: list[dict[str, Any]] = []
    files: list[dict[str, Any]] = []
    for message in messages:
        if files and message.role != "tool":
            encoded.append({"role": "user", "content": files})
            files = []
        encoded.append(_message(message, files))
    if files:
        encoded.append({"role": "user", "content": files})
    return encoded


def encode_tools(tools: Iterable[ToolSpec]) -> list[dict[str, Any]]:
    """Encode tools."""
    encoded = []
    for tool in tools:
        plain = {"name": sent_name(tool.name), "description": tool.description}
        function = {**plain, "parameters": dict(tool.parameters)}
        encoded.append({"type": "function", "function": function})
    return encoded


def encode_reasoning(request: ChatRequest) -> dict[str, Any]:
    """Encode the setting `reasoning`.

    Raises:
        ConfigurationError: The model does not accept the setting.
    """
    return {"reasoning_effort": level_of(request)}


def _message(message: Message, files: list[dict[str, Any]]) -> dict[str, Any]:
    content = message.content
    encoded: dict[str, Any] = {"role": message.role, "content": content}
    if not isinstance(content, str):
        parts = [plain for part in content if (plain := _part(part)) is not None]
        if message.role == "system":
            parts = [part for part in parts if part["type"] == "text"]
        elif message.role == "tool":
            parts = _move_files(message, parts, files)
        # The simplest servers accept only a plain text.
        is_plain = all(part.keys() == _PLAIN for part in parts)
        encoded["content"] = "".join(part["text"] for part in parts) if is_plain else parts
        if message.role == "assistant":
            encoded |= _thinking(content, is_with_calls=bool(message.tool_calls))
    if message.tool_calls:
        encoded["tool_calls"] = [_call(call) for call in message.tool_calls]
    if message.tool_call_id:
        encoded["tool_call_id"] = shortened(message.tool_call_id, _ID_LENGTH)
    return encoded


_ID_LENGTH = 40  # OpenAI rejects longer ids
_PLAIN = {"type", "text"}
_FILE_KINDS = {"image_url": "Image", "file": "Document"}


def _move_files(
    result: Message, parts: list[dict[str, Any]], files: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Add the files of a result to `files`, and return its texts with references to them.

    Tool messages hold text only. All results of an exchange must be adjacent, so the files follow
    them in one user message. A label in front of each file names its call.
    """
    call = f"{sent_name(result.name or 'tool')} ({result.tool_call_id})"
    numbers = Counter[str]()
    texts: list[dict[str, Any]] = []
    for part in parts:
        if part["type"] != "text":
            kind = _FILE_KINDS.get(part["type"], "File")
            numbers[kind] += 1
            label = f"{kind} {numbers[kind]}"
            files += [_text(f"{label} of the result of {call}:"), part]
            line_break = "\n" if texts else ""
            part = _text(f"{line_break}[{label} follows in the next user message.]")
        texts.append(part)
    return texts


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _part(part: Part) -> dict[str, Any] | None:
    match part:
        case TextPart(text):
            data = own_data(part, NAME)
            data.pop("extra_content", None)
            return deep_merge(_text(text), data)
        case JsonPart(value):
            return _text(json.dumps(value, ensure_ascii=False))
        case ImagePart(data, media_type, url):
            image = {"url": url or f"data:{media_type};base64,{data}"}
            return deep_merge({"type": "image_url", "image_url": image}, own_data(part, NAME))
        case DocumentPart(data, media_type, name, url):
            file = {"filename": name, "file_data": url or f"data:{media_type};base64,{data}"}
            return deep_merge({"type": "file", "file": file}, own_data(part, NAME))
        case ThinkingPart(text) if own_data(part, NAME).get("field") == "thinking":  # Mistral's
            return {"type": "thinking", "thinking": [_text(text)]}
        case ProviderPart(wire, data) if wire == NAME:
            return dict(data)
    return None


def _thinking(parts: Iterable[Part], *, is_with_calls: bool) -> dict[str, Any]:
    """Return the fields for thinking beside the content.

    Signed thinking is always sent. Unsigned thinking is sent only with the calls that followed it:
    some servers require it there and reject it elsewhere.
    """
    fields: dict[str, Any] = {}
    for part in parts:
        if isinstance(part, ThinkingPart):
            data = own_data(part, NAME)
            if details := data.get("reasoning_details"):
                fields["reasoning_details"] = details
            if is_with_calls and (field := data.get("field")) in THINKING:
                fields[field] = part.text
        elif isinstance(part, TextPart) and (extra := own_data(part, NAME).get("extra_content")):
            fields["extra_content"] = extra
    return fields


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": sent_name(call.name), "arguments": with_whole_escapes(call.arguments)}
    encoded = {"id": shortened(call.id, _ID_LENGTH), "type": "function", "function": function}
    return deep_merge(encoded, own_data(call, NAME)) if call.provider_data else encoded
