"""Google's generateContent seen from the server: bodies become requests, replies bodies or streams.

Pure functions, the mirror of `wire/gemini.py`. Knows no HTTP and no model. How requests are read is told in
`serve/gemini_request.py`. Used by the embedded and the scripted model.

A stream is the whole reply with a few of its parts in each event; it has no end marker, and is always sent as
events, also where `alt=sse` was not asked for. A signed text is not cut, because the signature belongs to
all of it. Sources that texts cite are told once, at the end. Arguments that are no JSON object go out as the
text they are; a real server would report a malformed call.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any

from stage0_gateway.finish_reasons import FinishReason
from stage0_gateway.parts import (
    Citation,
    DocumentPart,
    ImagePart,
    Part,
    ProviderPart,
    TextPart,
    ThinkingPart,
    ToolCall,
)
from stage0_gateway.response import ChatResponse
from stage0_gateway.serve.gemini_request import decode_request as decode_request
from stage0_gateway.serve.gemini_request import in_path
from stage0_gateway.serve.said import arguments_value, cut, event, in_order
from stage0_gateway.usage import Usage
from stage0_gateway.wire.gemini import NAME as NAME
from stage0_gateway.wire.opaque import laid_over, own_data

_REASONS: dict[FinishReason, str] = {
    "length": "MAX_TOKENS",
    "refusal": "SAFETY",
    "error": "MALFORMED_FUNCTION_CALL",
}
_STATES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def is_path(path: str) -> bool:
    """Whether this is where content is generated, by whatever model, under whatever base."""
    return in_path(path) is not None


def wants_stream(path: str, body: Mapping[str, Any]) -> bool:
    """Whether the path asks for a stream."""
    named = in_path(path)
    return named is not None and named[1] == "streamGenerateContent"


def encode_reply(reply: ChatResponse) -> dict[str, Any]:
    """A whole reply; one to a blocked prompt has no candidates."""
    if reply.block_reason:
        body: dict[str, Any] = {"promptFeedback": {"blockReason": reply.block_reason}}
    else:
        body = {"candidates": [_candidate(_parts(reply)) | _end(reply)]}
    return {**body, **_usage(reply.usage), **_identity(reply)}


def encode_stream(reply: ChatResponse, *, piece: int = 8) -> Iterator[str]:
    """The same reply as events: a part and the counts so far in each, and why it ended in the last."""
    if reply.block_reason:
        yield event(encode_reply(reply))
        return
    parts = [cut_part for part in _parts(reply) for cut_part in _in_pieces(part, piece)]
    for number, part in enumerate(parts[:-1], start=1):
        counts = _usage(_so_far(reply.usage, number, len(parts)))
        yield event({"candidates": [_candidate([part])], **counts, **_identity(reply)})
    yield event({**encode_reply(reply), "candidates": [_candidate(parts[-1:]) | _end(reply)]})


def encode_error(status: int, message: str) -> dict[str, Any]:
    """An error body."""
    state = _STATES.get(status) or ("INTERNAL" if status >= 500 else "INVALID_ARGUMENT")
    return {"error": {"code": status, "message": message, "status": state}}


# ---- the reply, whole -----------------------------------------------------------------------------------


def _candidate(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {"content": {"parts": list(parts), "role": "model"}, "index": 0}


def _end(reply: ChatResponse) -> dict[str, Any]:
    """Why it ended, and what its texts cite."""
    reason = reply.raw_finish_reason or _REASONS.get(reply.finish_reason, "STOP")
    texts = (item for item in in_order(reply.message, NAME) if isinstance(item, TextPart))
    sources = [_source(citation) for text in texts for citation in text.citations]
    grounded = {"groundingMetadata": {"groundingChunks": sources}} if sources else {}
    return {"finishReason": reason, **grounded}


def _source(citation: Citation) -> dict[str, Any]:
    told = {"uri": citation.url, "title": citation.title, "text": citation.quote}
    kind = "web" if citation.quote is None else "retrievedContext"
    return {kind: {name: value for name, value in told.items() if value is not None}}


def _identity(reply: ChatResponse) -> dict[str, str]:
    named = {"modelVersion": reply.model, "responseId": reply.request_id}
    return {name: value for name, value in named.items() if value}


def _parts(reply: ChatResponse) -> list[dict[str, Any]]:
    number = count()
    items = in_order(reply.message, NAME)
    parts = (_call(item, next(number)) if isinstance(item, ToolCall) else _part(item) for item in items)
    return [part for part in parts if part]


def _part(part: Part) -> dict[str, Any] | None:
    """A part; None for what belongs to another provider."""
    match part:
        case TextPart(text):
            return {"text": text, **own_data(part, NAME)}
        case ThinkingPart(text):
            return {"text": text, "thought": True, **own_data(part, NAME)}
        case ImagePart(data, media_type, url) | DocumentPart(data, media_type, _, url):
            inline = {"inlineData": {"mimeType": media_type, "data": data or ""}}
            return {"fileData": {"mimeType": media_type, "fileUri": url}} if url else inline
        case ProviderPart(wire, data):
            return dict(data) if wire == NAME else None
    return None


def _call(call: ToolCall, number: int) -> dict[str, Any]:
    """A call; an id that the other side makes up for the call at this place is not sent."""
    function: dict[str, Any] = {"name": call.name, "args": arguments_value(call.arguments)}
    if call.id != f"call_{number}":
        function["id"] = call.id
    return laid_over({"functionCall": function}, own_data(call, NAME))


def _usage(usage: Usage | None) -> dict[str, Any]:
    if usage is None:
        return {}
    counts = {
        "promptTokenCount": usage.input_tokens,
        "candidatesTokenCount": usage.output_tokens,
        "cachedContentTokenCount": usage.cached_input_tokens,
        "thoughtsTokenCount": usage.reasoning_tokens,
    }
    total = sum(count or 0 for name, count in counts.items() if name != "cachedContentTokenCount")
    told = {name: count for name, count in counts.items() if count is not None}
    return {"usageMetadata": {**told, **({"totalTokenCount": total} if told else {})}}


# ---- the reply, in pieces -------------------------------------------------------------------------------


def _in_pieces(part: Mapping[str, Any], most: int) -> list[Mapping[str, Any]]:
    """An unsigned text in pieces, each with what else stands on it; any other part whole."""
    if "text" not in part or "thoughtSignature" in part:
        return [part]
    return [{**part, "text": text} for text in cut(part["text"], most)] or [part]


def _so_far(usage: Usage | None, done: int, of: int) -> Usage | None:
    """The counts after some of the parts: all of the prompt's, and a share of the reply's."""
    if usage is None or usage.output_tokens is None:
        return usage
    return Usage(usage.input_tokens, usage.output_tokens * done // of, usage.cached_input_tokens)
