"""Google's generateContent in reverse: decode requests, encode replies.

The mirror of `wire/gemini.py`; pure. The path contains the model. An invalid request raises an
error that names the field. Unknown parts become provider parts. `gemini_spellings` first converts
the spellings that Google accepts to one.

Calls without an id are numbered in their message, as the client numbers them. A result without an
id answers the first open call with its name. A response that is neither `{"output": text}` nor
`{"error": text}` becomes its JSON text. Parts beside results become a user message after them.

Each event of a stream contains a part or a piece of one. A signed text is not split, because the
signature covers all of it. Arguments of a reply that are not a JSON object are sent as text.

Not covered: fields of a request without an attribute in `ChatRequest` and its parts; the citations
and files of a reply; files inside a `functionResponse`; parts after a call, which move before the
calls.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any
from urllib.parse import unquote

from stage0_gateway.json_fields import (
    as_integer,
    as_list,
    as_mapping,
    as_number,
    as_text,
    required_text,
)
from stage0_gateway.messages import Message, as_content
from stage0_gateway.parts import (
    DocumentPart,
    ImagePart,
    Part,
    ProviderPart,
    TextPart,
    ThinkingPart,
    ToolCall,
)
from stage0_gateway.request import NO_PARAMETERS, ChatRequest, Reasoning, ToolSpec
from stage0_gateway.response import ChatResponse, Usage
from stage0_gateway.server.encoding import arguments_value, event, parts_of, split, without_none
from stage0_gateway.server.format import ANY_OBJECT
from stage0_gateway.server.gemini_spellings import with_one_spelling
from stage0_gateway.wire.gemini import NAME as NAME
from stage0_gateway.wire.provider_data import deep_merge, own_data
from stage0_gateway.wire.reasoning import read_reasoning

_PATH = re.compile(r"/models/(.+):(?:generateContent|streamGenerateContent)$")
_CHOICES = {"AUTO": "auto", "NONE": "none", "ANY": "required"}
_REASONS = {"length": "MAX_TOKENS", "refusal": "SAFETY", "error": "MALFORMED_FUNCTION_CALL"}
_STATES = {401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}

Plain = Mapping[str, Any]


def is_path(path: str) -> bool:
    """Return whether this path, under any base, is that of a model's generateContent."""
    return _model(path) is not None


def _model(path: str) -> str | None:
    found = _PATH.search(path.partition("?")[0].rstrip("/"))
    return unquote(found[1]) if found else None


# ---- the request


def decode_request(body: Plain, path: str = "") -> ChatRequest:
    """Decode a generateContent request.

    Raises:
        ValueError: The body is invalid. The text names the field.
    """
    body = with_one_spelling(as_mapping(body, "The body"))
    if body.get("contents") is None:
        raise ValueError("'contents' is missing.")
    messages = list(_messages(_several(body["contents"], "'contents'")))
    if system := body.get("systemInstruction"):
        messages.insert(0, Message.system(as_content(map(_part, _parts(system)))))
    generation = as_mapping(body.get("generationConfig") or {}, "'generationConfig'")
    stop = as_list(generation.get("stopSequences"), "'stopSequences'")
    return ChatRequest(
        model=_model(path) or as_text(body.get("model"), "'model'"),
        messages=tuple(messages),
        tools=tuple(_tools(body.get("tools"))),
        tool_choice=_tool_choice(body.get("toolConfig")),
        temperature=as_number(generation.get("temperature"), "'temperature'"),
        max_tokens=as_integer(generation.get("maxOutputTokens"), "'maxOutputTokens'"),
        response_schema=_response_schema(generation),
        stop=tuple(as_text(text, "'stopSequences'") for text in stop),
        reasoning=_reasoning(generation.get("thinkingConfig")),
    )


def _response_schema(generation: Plain) -> Plain | None:
    """Return the schema of the reply; JSON without a schema is any object."""
    for name in ("responseJsonSchema", "responseSchema"):
        if (schema := generation.get(name)) is not None:
            return as_mapping(schema, f"'{name}'")
    return ANY_OBJECT if generation.get("responseMimeType") == "application/json" else None


def _reasoning(config: Any) -> Reasoning | None:
    match config:
        case {"thinkingLevel": value} | {"thinkingBudget": value}:
            return read_reasoning(value)
    return None


def _several(value: Any, where: str) -> list[Any]:
    """Return the value as a list; Google accepts an object for a list of one."""
    return [value] if isinstance(value, Mapping) else as_list(value, where)


def _parts(content: Any) -> list[Plain]:
    parts = as_mapping(content, "A content").get("parts")
    return [as_mapping(part, "A part") for part in _several(parts, "'parts'")]


def _messages(contents: Iterable[Any]) -> Iterator[Message]:
    open_calls: list[ToolCall] = []
    for content in contents:
        parts, role = _parts(content), content.get("role")
        if role == "model":
            calls = [part for part in parts if "functionCall" in part]
            others = [part for part in parts if "functionCall" not in part]
            message = Message.assistant(as_content(map(_part, others)), map(_call, calls, count()))
            open_calls += message.tool_calls
            yield message
        elif role in (None, "", "user", "function"):
            others = [part for part in parts if "functionResponse" not in part]
            results = [part for part in parts if "functionResponse" in part]
            yield from (_result(part, open_calls) for part in results)
            if others or not results:
                yield Message.user(as_content(map(_part, others)))
        else:
            raise ValueError(f"A content has the role {role!r}; the roles are user and model.")


def _result(part: Plain, open_calls: list[ToolCall]) -> Message:
    plain = as_mapping(part["functionResponse"], "'functionResponse'")
    name = required_text(plain, "name", "'functionResponse'")
    call_id = as_text(plain.get("id"), "'functionResponse.id'")
    key = call_id or name
    call = next((call for call in open_calls if key == (call.id if call_id else call.name)), None)
    if call:
        open_calls.remove(call)
    is_error = False
    match plain.get("response"):
        case {"output": str(text), **others} if not others:
            pass
        case {"error": str(text), **others} if not others:
            is_error = True
        case response:
            text = json.dumps(response, ensure_ascii=False)
    return Message.tool(text, call.id if call else key, is_error=is_error, name=name)


def _part(part: Plain) -> Part:
    """Decode a part; unknown kinds are stored unchanged."""
    match part:
        case {"text": str(text), "thought": True}:
            return ThinkingPart(text)
        case {"text": str(text)}:
            return TextPart(text)
        case {"inlineData": {"mimeType": str(kind), "data": str(data)}}:
            return _file_type(kind)(data=data, media_type=kind)
        case {"fileData": {"mimeType": str(kind), "fileUri": str(url)}}:
            return _file_type(kind)(media_type=kind, url=url)
    return ProviderPart(NAME, part)


def _file_type(media_type: str) -> type[ImagePart | DocumentPart]:
    return ImagePart if media_type.startswith("image/") else DocumentPart


def _call(part: Plain, number: int) -> ToolCall:
    call = as_mapping(part["functionCall"], "'functionCall'")
    name = required_text(call, "name", "'functionCall'")
    arguments = as_mapping(call.get("args") or {}, "'functionCall.args'")
    call_id = as_text(call.get("id"), "'functionCall.id'")
    data = {NAME: {"functionCall": {"id": call_id}}} if call_id else None
    text = json.dumps(arguments, ensure_ascii=False)
    return ToolCall(call_id or f"call_{number}", name, text, data)


def _tools(tools: Any) -> Iterator[ToolSpec]:
    """Yield the functions; tools of the server are ignored."""
    for tool in _several(tools, "'tools'"):
        functions = as_mapping(tool, "A tool").get("functionDeclarations")
        for function in _several(functions, "'functionDeclarations'"):
            function = as_mapping(function, "A function declaration")
            name = required_text(function, "name", "A function declaration")
            parameters = function.get("parametersJsonSchema")
            if parameters is None:
                parameters = function.get("parameters") or NO_PARAMETERS
            description = as_text(function.get("description"), f"The 'description' of {name}")
            yield ToolSpec(name, description, as_mapping(parameters, f"'parameters' of {name}"))


def _tool_choice(config: Any) -> str | None:
    """Return the choice; other kinds are ignored."""
    match config:
        case {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": [str(name)]}}:
            return name
        case {"functionCallingConfig": {"mode": str(mode)}}:
            return _CHOICES.get(mode)
    return None


# ---- the reply


def encode_reply(reply: ChatResponse) -> dict[str, Any]:
    """Encode a reply; the reply to a blocked prompt has no candidates."""
    if reply.block_reason:
        body: dict[str, Any] = {"promptFeedback": {"blockReason": reply.block_reason}}
    else:
        reason = reply.raw_finish_reason or _REASONS.get(reply.finish_reason, "STOP")
        body = {"candidates": [{**_candidate(_reply_parts(reply)), "finishReason": reason}]}
    return {**body, **_usage(reply.usage), **_identity(reply)}


def encode_stream(reply: ChatResponse, *, piece: int = 8) -> Iterator[str]:
    """Encode a reply as events with one part each; the last one ends the reply."""
    parts = [fragment for part in _reply_parts(reply) for fragment in _in_pieces(part, piece)]
    for part in parts[:-1]:
        yield event({"candidates": [_candidate([part])], **_identity(reply)})
    last = encode_reply(reply)
    if "candidates" in last:
        last["candidates"][0] |= _candidate(parts[-1:])
    yield event(last)


def encode_error(status: int, message: str) -> dict[str, Any]:
    """Encode an error."""
    state = _STATES.get(status) or ("INTERNAL" if status >= 500 else "INVALID_ARGUMENT")
    return {"error": {"code": status, "message": message, "status": state}}


def _candidate(parts: list[Plain]) -> dict[str, Any]:
    return {"content": {"parts": parts, "role": "model"}, "index": 0}


def _identity(reply: ChatResponse) -> dict[str, Any]:
    return without_none({"modelVersion": reply.model, "responseId": reply.request_id})


def _reply_parts(reply: ChatResponse) -> list[Plain]:
    parts = map(_reply_part, parts_of(reply.message))
    return [*filter(None, parts), *map(_reply_call, reply.tool_calls, count())]


def _reply_part(part: Part) -> Plain | None:
    """Encode a part; None for files and for parts of another provider."""
    match part:
        case TextPart(text):
            return {"text": text, **own_data(part, NAME)}
        case ThinkingPart(text):
            return {"text": text, "thought": True, **own_data(part, NAME)}
        case ProviderPart(wire, data) if wire == NAME:
            return data
    return None


def _reply_call(call: ToolCall, number: int) -> dict[str, Any]:
    """Encode a call; an id that the client would generate is omitted."""
    function: dict[str, Any] = {"name": call.name, "args": arguments_value(call.arguments)}
    if call.id != f"call_{number}":
        function["id"] = call.id
    return deep_merge({"functionCall": function}, own_data(call, NAME))


def _usage(usage: Usage | None) -> dict[str, Any]:
    if usage is None:
        return {}
    counts = {
        "promptTokenCount": usage.input_tokens,
        "candidatesTokenCount": usage.output_tokens,
        "thoughtsTokenCount": usage.reasoning_tokens,
    }
    counts["totalTokenCount"] = sum(count or 0 for count in counts.values())
    counts["cachedContentTokenCount"] = usage.cached_input_tokens
    return {"usageMetadata": without_none(counts)}


def _in_pieces(part: Plain, piece: int) -> list[Plain]:
    """Split an unsigned text into pieces; other parts are not split."""
    if "text" not in part or "thoughtSignature" in part:
        return [part]
    return [{**part, "text": text} for text in split(part["text"], piece)] or [part]
