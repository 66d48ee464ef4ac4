"""Google's generateContent, the format of Gemini.

This module encodes requests; `gemini_reply.py` decodes replies, and `server/gemini.py` is the other
direction. The URL contains the model. Thought signatures are sent back on the parts they arrived
with. All functions are pure.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any
from urllib.parse import quote

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
from stage0_gateway.wire.gemini_reply import NAME as NAME
from stage0_gateway.wire.gemini_reply import GeminiReader
from stage0_gateway.wire.names import sent_name
from stage0_gateway.wire.provider_data import arguments_object, deep_merge, own_data, with_calls
from stage0_gateway.wire.reasoning import gemini_fields

MESSAGES = "contents"
_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
reader = GeminiReader
"""Creates a reader for one reply, whole or streamed."""


def path(model: str, *, stream: bool = False) -> str:
    """Return the path with the model and the method; a stream uses server-sent events."""
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return f"/models/{quote(model, safe='')}:{method}"


def headers(api_key: str | None) -> dict[str, str]:
    """Return the key in a header, because URLs appear in logs."""
    return {"x-goog-api-key": api_key} if api_key else {}


def decode(body: Mapping[str, Any]) -> ChatResponse:
    """Decode a whole reply.

    Raises:
        MalformedResponse: The body contains no reply.
        GatewayError: The body contains an error.
    """
    return reader().decode_whole(body)


def encode(request: ChatRequest, *, stream: bool = False) -> dict[str, Any]:
    """Encode a request as the body of a generateContent request."""
    prompts = [message for message in request.messages if message.role == "system"]
    system = [part for message in prompts for part in _parts(message)]
    body: dict[str, Any] = {"systemInstruction": {"parts": system}} if system else {}
    body[MESSAGES] = encode_messages(request.messages)
    if request.tools:
        body["tools"] = encode_tools(request.tools)
    if (choice := request.tool_choice) is not None:
        named = {"mode": "ANY", "allowedFunctionNames": [sent_name(choice)]}
        calling = {"mode": _MODES[choice]} if choice in _MODES else named
        body["toolConfig"] = {"functionCallingConfig": calling}
    if generation := _generation(request):
        body["generationConfig"] = generation
    if request.reasoning is not None:
        deep_merge(body, encode_reasoning(request))
    return deep_merge(body, request.provider_options)


def _generation(request: ChatRequest) -> dict[str, Any]:
    schema = dict(request.response_schema) if request.response_schema is not None else None
    settings = {
        "temperature": request.temperature,
        "maxOutputTokens": request.max_tokens,
        "stopSequences": list(request.stop) or None,
        "responseMimeType": None if schema is None else "application/json",
        "responseJsonSchema": schema,
    }
    return {name: value for name, value in settings.items() if value is not None}


def encode_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Encode a conversation without the system prompt.

    The results of one turn's calls become one user content.
    """
    contents: list[dict[str, Any]] = []
    calls: dict[str, ToolCall] = {}
    conversation = (message for message in messages if message.role != "system")
    for is_result, group in groupby(conversation, key=lambda message: message.role == "tool"):
        if is_result:
            results = [part for message in group for part in _result(message, calls)]
            contents.append({"role": "user", "parts": results})
            continue
        for message in group:
            calls |= {call.id: call for call in message.tool_calls}
            role = "model" if message.role == "assistant" else "user"
            parts = with_calls(map(_part, message.parts), message.tool_calls, NAME, _call)
            contents.append({"role": role, "parts": parts})
    return [content for content in contents if content["parts"]]


def encode_tools(tools: Iterable[ToolSpec]) -> list[dict[str, Any]]:
    """Encode tools."""
    declarations = []
    for tool in tools:
        plain = {"name": sent_name(tool.name), "description": tool.description}
        declarations.append({**plain, "parametersJsonSchema": dict(tool.parameters)})
    return [{"functionDeclarations": declarations}]


def encode_reasoning(request: ChatRequest) -> dict[str, Any]:
    """Encode the setting `reasoning`.

    Raises:
        ConfigurationError: The model does not accept the setting.
    """
    return {"generationConfig": {"thinkingConfig": gemini_fields(request)}}


def _parts(message: Message) -> list[dict[str, Any]]:
    return [encoded for part in message.parts if (encoded := _part(part)) is not None]


def _part(part: Part) -> dict[str, Any] | None:
    match part:
        case TextPart(text):  # an empty text may carry a signature
            own = own_data(part, NAME)
            return deep_merge({"text": text}, own) if text or own else None
        case JsonPart(value):
            return {"text": json.dumps(value, ensure_ascii=False)}
        case ImagePart(data, media_type, url) | DocumentPart(data, media_type, _, url):
            inline = {"inlineData": {"mimeType": media_type, "data": data or ""}}
            file = {"fileData": {"mimeType": media_type, "fileUri": url}} if url else inline
            return deep_merge(file, own_data(part, NAME))
        case ThinkingPart(text):  # thinking of another provider is not sent
            own = own_data(part, NAME)
            return {"text": text, **own} if own else None
        case ProviderPart(wire, data):
            return dict(data) if wire == NAME else None


def _call(call: ToolCall) -> dict[str, Any]:
    plain = {"functionCall": {"name": sent_name(call.name), "args": arguments_object(call)}}
    return deep_merge(plain, own_data(call, NAME))


def _result(message: Message, calls: Mapping[str, ToolCall]) -> list[dict[str, Any]]:
    """Encode a result with the name of its call; files of the result are separate parts."""
    call = calls.get(message.tool_call_id or "")
    name = call.name if call else message.name or "unknown"
    response: dict[str, Any] = {"name": sent_name(name)}
    if call and (server_id := own_data(call, NAME).get("functionCall")):
        response |= server_id
    parts = _parts(message)
    text = "".join(part["text"] for part in parts if "text" in part)
    response["response"] = {"error" if message.is_error else "output": text}
    return [{"functionResponse": response}, *(part for part in parts if "text" not in part)]
