"""OpenAI's chat completions, the format that most model servers speak.

Pure: `encode` a request, and what else a wire format offers; `openai_reply.py` reads the replies.
The other direction is `serve/openai.py`. Used by the gateway.
"""

import json
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
from stage0_gateway.wire.names import sent_name
from stage0_gateway.wire.opaque import laid_over, own_data
from stage0_gateway.wire.openai_reply import NAME as NAME
from stage0_gateway.wire.openai_reply import THINKING, OpenAIReader
from stage0_gateway.wire.reading import read_whole

SPOKEN = "messages"


def path(model: str, *, stream: bool = False) -> str:
    """The same path for every model; the body names it."""
    return "/chat/completions"


def headers(api_key: str | None) -> dict[str, str]:
    """A bearer token; local servers ask for none."""
    return {"Authorization": f"Bearer {api_key}"} if api_key else {}


# ---- the request
# ----------------------------------------------------------------------------------------


def encode(request: ChatRequest, *, stream: bool = False) -> dict[str, Any]:
    """The JSON body of a chat completion request; what the caller left open is left out."""
    body: dict[str, Any] = {
        "model": request.model,
        SPOKEN: spoken(request.messages),
    }
    if request.tools:
        body["tools"] = described(request.tools)
    if request.tool_choice is not None:
        body["tool_choice"] = _tool_choice(request.tool_choice)
    if request.response_schema is not None:
        schema = {"name": "reply", "schema": dict(request.response_schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    settings = {
        "temperature": request.temperature,
        "max_tokens": request.max_tokens,
        "stop": list(request.stop),
    }
    body.update((name, value) for name, value in settings.items() if value not in (None, []))
    return laid_over(body, request.provider_options)


def spoken(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The conversation as this format has it."""
    return list(_messages(messages))


def described(tools: Iterable[ToolSpec]) -> list[dict[str, Any]]:
    """The tools as this format has them."""
    return [_tool(spec) for spec in tools]


def _messages(messages: Iterable[Message]) -> Iterable[dict[str, Any]]:
    """Pictures that tools returned follow the last result as the user's: a tool may only say
    text.
    """
    for is_result, group in groupby(messages, key=lambda message: message.role == "tool"):
        seen: list[dict[str, Any]] = []
        for message in group:
            yield _message(message)
            seen += [part for part in _parts(message) if is_result and part["type"] != "text"]
        if seen:
            yield {"role": "user", "content": seen}


def _message(message: Message) -> dict[str, Any]:
    plain: dict[str, Any] = {"role": message.role, "content": _content(message)}
    if message.tool_calls:
        plain["tool_calls"] = [_call(call) for call in message.tool_calls]
    if message.tool_call_id:
        plain["tool_call_id"] = message.tool_call_id
    if message.role == "assistant" and not isinstance(message.content, str):
        plain |= _thinking(message)
    return plain


def _content(message: Message) -> str | list[dict[str, Any]]:
    if isinstance(message.content, str):
        return message.content
    parts = _parts(message)
    if message.role in ("tool", "system"):
        parts = [part for part in parts if part["type"] == "text"]
    # One plain text is what the simplest servers understand.
    return (
        "".join(part["text"] for part in parts)
        if all(part.keys() == _PLAIN for part in parts)
        else parts
    )


_PLAIN = {"type", "text"}


def _parts(message: Message) -> list[dict[str, Any]]:
    if isinstance(message.content, str):
        return []
    return [plain for part in message.content if (plain := _part(part)) is not None]


def _part(part: Part) -> dict[str, Any] | None:
    match part:
        case TextPart(text):
            kept = {
                name: data for name, data in own_data(part, NAME).items() if name != "extra_content"
            }
            return laid_over({"type": "text", "text": text}, kept)
        case JsonPart(value):
            return {"type": "text", "text": json.dumps(value, ensure_ascii=False)}
        case ImagePart(data, media_type, url):
            image = {"url": url or f"data:{media_type};base64,{data}"}
            return laid_over({"type": "image_url", "image_url": image}, own_data(part, NAME))
        case DocumentPart(data, media_type, name, url):
            file = {"filename": name, "file_data": url or f"data:{media_type};base64,{data}"}
            return laid_over({"type": "file", "file": file}, own_data(part, NAME))
        case ThinkingPart(
            text
        ):  # most servers take it beside the content; Mistral's want it inside
            inside = own_data(part, NAME).get("field") == "thinking"
            return (
                {"type": "thinking", "thinking": [{"type": "text", "text": text}]}
                if inside
                else None
            )
        case ProviderPart(wire, data):
            return dict(data) if wire == NAME else None


def _thinking(message: Message) -> dict[str, Any]:
    """Thinking under the names it came by: signed always, unsigned only while its calls are being
    answered.

    Some servers want the thoughts behind a call back and refuse others.
    """
    plain: dict[str, Any] = {}
    for part in message.content:
        if isinstance(part, ThinkingPart):
            kept = own_data(part, NAME)
            if details := kept.get("reasoning_details"):
                plain["reasoning_details"] = details
            if message.tool_calls and (field := kept.get("field")) in THINKING:
                plain[field] = part.text
        elif isinstance(part, TextPart) and (extra := own_data(part, NAME).get("extra_content")):
            plain["extra_content"] = extra
    return plain


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": sent_name(call.name), "arguments": call.arguments}
    return laid_over(
        {"id": call.id, "type": "function", "function": function}, own_data(call, NAME)
    )


def _tool(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": sent_name(spec.name), "description": spec.description}
    return {"type": "function", "function": {**function, "parameters": dict(spec.parameters)}}


def _tool_choice(choice: str) -> str | dict[str, Any]:
    if choice in ("auto", "none", "required"):
        return choice
    return {"type": "function", "function": {"name": sent_name(choice)}}


# ---- the reply
# ------------------------------------------------------------------------------------------


def decode(body: Mapping[str, Any], request_id: str | None = None) -> ChatResponse:
    """Read a whole reply.

    Raises:
        MalformedResponse: There is none in it. A body that holds an error instead raises that
            error.
    """
    return read_whole(reader(), body, request_id)


def reader(names: Mapping[str, str] | None = None) -> OpenAIReader:
    """Something that reads one reply, whole or streamed."""
    return OpenAIReader(names)
