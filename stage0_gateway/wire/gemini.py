"""Google's generateContent, the format of Gemini.

Pure: `encode` a request, and what else a wire format offers; `gemini_reply.py` reads the replies.
The model stands in the URL, and thought signatures must go back on the very parts they came with.
The other direction is `serve/gemini.py`. Used by the gateway.
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
from stage0_gateway.wire.opaque import arguments_object, laid_over, own_data, place_of
from stage0_gateway.wire.reading import read_whole

SPOKEN = "contents"
_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}


def path(model: str, *, stream: bool = False) -> str:
    """The model and the method; a stream is asked for as server-sent events."""
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return f"/models/{quote(model)}:{method}"


def headers(api_key: str | None) -> dict[str, str]:
    """The key; in a header, because URLs end up in logs."""
    return {"x-goog-api-key": api_key} if api_key else {}


# ---- the request
# ----------------------------------------------------------------------------------------


def encode(request: ChatRequest, *, stream: bool = False) -> dict[str, Any]:
    """The JSON body of a generateContent request; what the caller left open is left out."""
    system = [
        part for message in request.messages if message.role == "system" for part in _parts(message)
    ]
    body: dict[str, Any] = {"systemInstruction": {"parts": system}} if system else {}
    body[SPOKEN] = spoken(request.messages)
    if request.tools:
        body["tools"] = described(request.tools)
    if (choice := request.tool_choice) is not None:
        named = {"mode": "ANY", "allowedFunctionNames": [sent_name(choice)]}
        calling = {"mode": _MODES[choice]} if choice in _MODES else named
        body["toolConfig"] = {"functionCallingConfig": calling}
    if generation := _generation(request):
        body["generationConfig"] = generation
    return laid_over(body, request.provider_options)


def _generation(request: ChatRequest) -> dict[str, Any]:
    schema = dict(request.response_schema) if request.response_schema is not None else None
    wishes = {
        "temperature": request.temperature,
        "maxOutputTokens": request.max_tokens,
        "stopSequences": list(request.stop) or None,
        "responseMimeType": None if schema is None else "application/json",
        "responseJsonSchema": schema,
    }
    return {name: value for name, value in wishes.items() if value is not None}


def spoken(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The conversation as this format has it, without the system prompt."""
    here = [message for message in messages if message.role != "system"]
    return [content for content in _contents(here) if content["parts"]]


def described(tools: Iterable[ToolSpec]) -> list[dict[str, Any]]:
    """The tools as this format has them."""
    return [{"functionDeclarations": [_tool(spec) for spec in tools]}]


def _contents(messages: Iterable[Message]) -> Iterable[dict[str, Any]]:
    """Messages as contents; the results of one turn's calls go into one content of the user."""
    calls: dict[str, ToolCall] = {}
    for is_result, group in groupby(messages, key=lambda message: message.role == "tool"):
        if is_result:
            results = [part for message in group for part in _result(message, calls)]
            yield {"role": "user", "parts": results}
        else:
            for message in group:
                calls |= {call.id: call for call in message.tool_calls}
                yield {
                    "role": "model" if message.role == "assistant" else "user",
                    "parts": _said(message),
                }


def _said(message: Message) -> list[dict[str, Any]]:
    parts: list[dict[str, Any] | None] = [_part(part) for part in _content(message)]
    end = len(parts)
    for done, call in enumerate(message.tool_calls):
        parts.insert(place_of(call, NAME, end) + done, _call(call))
    return [part for part in parts if part]


def _content(message: Message) -> tuple[Part, ...]:
    return (TextPart(message.content),) if isinstance(message.content, str) else message.content


def _parts(message: Message) -> list[dict[str, Any]]:
    return [plain for part in _content(message) if (plain := _part(part)) is not None]


def _part(part: Part) -> dict[str, Any] | None:
    match part:
        case TextPart(text):  # a signature may come on an empty text, and must go back on one
            kept = own_data(part, NAME)
            return laid_over({"text": text}, kept) if text or kept else None
        case JsonPart(value):
            return {"text": json.dumps(value, ensure_ascii=False)}
        case ImagePart(data, media_type, url) | DocumentPart(data, media_type, _, url):
            inline = {"inlineData": {"mimeType": media_type, "data": data or ""}}
            where = {"fileData": {"mimeType": media_type, "fileUri": url}} if url else inline
            return laid_over(where, own_data(part, NAME))
        case ThinkingPart(text):  # another provider's thinking is not Gemini's
            own = own_data(part, NAME)
            return {"text": text, **own} if own else None
        case ProviderPart(wire, data):
            return dict(data) if wire == NAME else None


def _call(call: ToolCall) -> dict[str, Any]:
    plain = {"functionCall": {"name": sent_name(call.name), "args": arguments_object(call)}}
    return laid_over(plain, own_data(call, NAME))


def _result(message: Message, calls: Mapping[str, ToolCall]) -> list[dict[str, Any]]:
    """A result, under the name of its call; pictures a tool returned stand beside it."""
    call = calls.get(message.tool_call_id or "")
    name = call.name if call else message.name or "unknown"
    answer: dict[str, Any] = {"name": sent_name(name)}
    if call and (
        given := own_data(call, NAME).get("functionCall")
    ):  # the server's id, where it gave one
        answer |= given
    texts = [part["text"] for part in _parts(message) if "text" in part]
    answer["response"] = {"error" if message.is_error else "output": "".join(texts)}
    return [{"functionResponse": answer}, *(part for part in _parts(message) if "text" not in part)]


def _tool(spec: ToolSpec) -> dict[str, Any]:
    plain = {"name": sent_name(spec.name), "description": spec.description}
    return {**plain, "parametersJsonSchema": dict(spec.parameters)}


# ---- the reply
# ------------------------------------------------------------------------------------------


def decode(body: Mapping[str, Any], request_id: str | None = None) -> ChatResponse:
    """Read a whole reply.

    Raises:
        MalformedResponse: There is none in it. A body that holds an error instead raises that
            error.
    """
    return read_whole(reader(), body, request_id)


def reader(names: Mapping[str, str] | None = None) -> GeminiReader:
    """Something that reads one reply, whole or streamed."""
    return GeminiReader(names)
