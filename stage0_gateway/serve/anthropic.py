"""Anthropic's messages seen from the server: bodies become requests, replies bodies or streams.

Pure functions, the mirror of `wire/anthropic.py`. Knows no HTTP and no model. How requests are read is told
in `serve/anthropic_request.py`. Used by the embedded and the scripted model.

A stream is the message with its blocks emptied, and then what they hold in pieces. Arguments that are no
JSON object go out as the text they are; a real server would repair or hide them.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from stage0_gateway.finish_reasons import FinishReason
from stage0_gateway.parts import Citation, Part, ProviderPart, TextPart, ThinkingPart, ToolCall
from stage0_gateway.response import ChatResponse
from stage0_gateway.serve.anthropic_request import decode_request as decode_request
from stage0_gateway.serve.said import arguments_value, cut, event, in_order
from stage0_gateway.usage import Usage
from stage0_gateway.wire.anthropic import NAME as NAME
from stage0_gateway.wire.opaque import laid_over, own_data

_REASONS: dict[FinishReason, str] = {"length": "max_tokens", "refusal": "refusal", "pause": "pause_turn"}
_ERRORS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def is_path(path: str) -> bool:
    """Whether this is where messages are asked for, under whatever base."""
    return path.partition("?")[0].rstrip("/").endswith("/messages")


def wants_stream(path: str, body: Mapping[str, Any]) -> bool:
    """Whether the body asks for a stream."""
    return bool(body.get("stream"))


def encode_reply(reply: ChatResponse) -> dict[str, Any]:
    """A whole message."""
    return {**_head(reply), "content": _blocks(reply), **_end(reply), **_usage(reply.usage)}


def encode_stream(reply: ChatResponse, *, piece: int = 8) -> Iterator[str]:
    """The same message as events: its head, each block from start to stop, and why it ended."""
    for data in _events(reply, piece):
        yield event(data, data["type"])


def encode_error(status: int, message: str) -> dict[str, Any]:
    """An error body."""
    kind = _ERRORS.get(status) or ("api_error" if status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": message}}


# ---- the message, whole ---------------------------------------------------------------------------------


def _head(reply: ChatResponse) -> dict[str, Any]:
    name = {"id": reply.request_id or "msg_0", "type": "message", "role": "assistant"}
    return {**name, "model": reply.model or ""}


def _end(reply: ChatResponse) -> dict[str, Any]:
    """Why it ended; where the model refused, in whose words."""
    usual = "refusal" if reply.refusal else "tool_use" if reply.tool_calls else "end_turn"
    reason = reply.raw_finish_reason or _REASONS.get(reply.finish_reason, usual)
    end: dict[str, Any] = {"stop_reason": reason, "stop_sequence": None}
    return end | (
        {"stop_details": {"type": "refusal", "explanation": reply.refusal}} if reply.refusal else {}
    )


def _blocks(reply: ChatResponse) -> list[dict[str, Any]]:
    return [block for item in in_order(reply.message, NAME) if (block := _block(item))]


def _block(item: Part | ToolCall) -> dict[str, Any] | None:
    """A part or a call as a block; None for pictures and what belongs to another provider."""
    match item:
        case TextPart(text, citations):
            cited = {"citations": [_citation(one) for one in citations]} if citations else {}
            return {"type": "text", "text": text, **cited}
        case ThinkingPart(text):
            return {"type": "thinking", "thinking": text, "signature": "", **own_data(item, NAME)}
        case ProviderPart(wire, data):
            return dict(data) if wire == NAME else None
        case ToolCall(call_id, name, arguments):
            block = {"type": "tool_use", "id": call_id, "name": name, "input": arguments_value(arguments)}
            return laid_over(block, own_data(item, NAME))
    return None


def _citation(citation: Citation) -> dict[str, Any]:
    told = {"url": citation.url, "title": citation.title, "cited_text": citation.quote}
    own = {name: value for name, value in told.items() if value is not None}
    return own_data(citation, NAME) or {"type": "web_search_result_location", **own}


def _usage(usage: Usage | None) -> dict[str, Any]:
    if usage is None:
        return {}
    counts: dict[str, Any] = {
        "input_tokens": usage.input_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cached_input_tokens,
        "output_tokens": usage.output_tokens,
    }
    if usage.reasoning_tokens is not None:
        counts["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    return {"usage": {name: count for name, count in counts.items() if count is not None}}


# ---- the message, in pieces -----------------------------------------------------------------------------


def _events(reply: ChatResponse, most: int) -> Iterator[dict[str, Any]]:
    usage = _usage(reply.usage)
    open_end: dict[str, Any] = {"content": [], "stop_reason": None, "stop_sequence": None}
    yield {"type": "message_start", "message": {**_head(reply), **open_end, **_first_counts(usage)}}
    yield {"type": "ping"}
    for index, block in enumerate(_blocks(reply)):
        start, deltas = _taken_apart(block, most)
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {"type": "message_delta", "delta": _end(reply), **usage}
    yield {"type": "message_stop"}


def _first_counts(usage: Mapping[str, Any]) -> dict[str, Any]:
    """As far as they are known before anything is written; the first token is counted already."""
    if not usage:
        return {}
    counts = {name: count for name, count in usage["usage"].items() if name != "output_tokens_details"}
    return {"usage": counts | ({"output_tokens": 1} if counts.get("output_tokens") else {})}


def _taken_apart(block: Mapping[str, Any], most: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A block as it starts, and what it grows by."""
    match block:
        case {"type": "text"}:
            grows = [{"type": "text_delta", "text": text} for text in cut(block["text"], most)]
            cites = [{"type": "citations_delta", "citation": one} for one in block.get("citations", ())]
            return {"type": "text", "text": ""}, [*grows, *cites]
        case {"type": "thinking"}:
            thinks = [{"type": "thinking_delta", "thinking": text} for text in cut(block["thinking"], most)]
            signed = (
                [{"type": "signature_delta", "signature": block["signature"]}] if block["signature"] else []
            )
            return {**block, "thinking": "", "signature": ""}, [*thinks, *signed]
        case {"type": "tool_use", "input": given} | {"input": dict() as given}:
            text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
            fills = [{"type": "input_json_delta", "partial_json": part} for part in ("", *cut(text, most))]
            return {**block, "input": {}}, fills
    return dict(block), []
