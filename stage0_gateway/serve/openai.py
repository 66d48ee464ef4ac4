"""OpenAI's chat completions seen from the server: bodies become requests, replies bodies or streams.

Pure functions, the mirror of `wire/openai.py`. Knows no HTTP and no model. How requests are read is told in
`serve/openai_request.py`. Used by the embedded and the scripted model.

This format has one place for thoughts and one for text, in this order, and none for parts that only a
provider knows: a reply's parts of one kind are joined, and such parts are left out.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from stage0_gateway.finish_reasons import FinishReason
from stage0_gateway.parts import Citation, Part, TextPart, ThinkingPart, ToolCall
from stage0_gateway.response import ChatResponse
from stage0_gateway.serve.openai_request import decode_request as decode_request
from stage0_gateway.serve.said import cut, event, in_order
from stage0_gateway.usage import Usage
from stage0_gateway.wire.opaque import laid_over, own_data
from stage0_gateway.wire.openai import NAME as NAME

_REASONS: dict[FinishReason, str] = {"length": "length", "refusal": "content_filter", "error": "error"}


def is_path(path: str) -> bool:
    """Whether this is where chat completions are asked for, under whatever base."""
    return path.partition("?")[0].rstrip("/").endswith("/chat/completions")


def wants_stream(path: str, body: Mapping[str, Any]) -> bool:
    """Whether the body asks for a stream."""
    return bool(body.get("stream"))


def encode_reply(reply: ChatResponse, *, created: int = 0) -> dict[str, Any]:
    """A whole `chat.completion` object; `created` is in seconds since 1970, 0 keeps replies comparable."""
    reason = _finish_reason(reply)
    choice = {"index": 0, "message": _message(reply), "finish_reason": reason, "logprobs": None}
    return {**_head(reply, "chat.completion", created), "choices": [choice], **_usage(reply.usage)}


def encode_stream(reply: ChatResponse, *, piece: int = 8) -> Iterator[str]:
    """The same reply as `chat.completion.chunk` events, then its token counts, then the end marker."""
    head = _head(reply, "chat.completion.chunk", 0)
    for delta in _deltas(_message(reply), piece):
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
        yield event({**head, "choices": [choice]})
    choice = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": _finish_reason(reply)}
    yield event({**head, "choices": [choice]})
    if usage := _usage(reply.usage):
        yield event({**head, "choices": [], **usage})
    yield "data: [DONE]\n\n"


def encode_error(status: int, message: str, *, kind: str = "") -> dict[str, Any]:
    """An error body; without a `kind` the status decides whose fault it is."""
    kind = kind or ("server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def _head(reply: ChatResponse, kind: str, created: int) -> dict[str, Any]:
    name = {"id": reply.request_id or "chatcmpl-0", "object": kind}
    return {**name, "created": created, "model": reply.model or ""}


# ---- the message, whole ---------------------------------------------------------------------------------


def _message(reply: ChatResponse) -> dict[str, Any]:
    items = list(in_order(reply.message, NAME))
    texts = [item for item in items if isinstance(item, TextPart)]
    text = "".join(part.text for part in texts)
    calls = [_call(item) for item in items if isinstance(item, ToolCall)]
    message: dict[str, Any] = {"role": "assistant", "content": text or None if calls else text}
    message |= {"refusal": reply.refusal, **_thinking(items, text)}
    if notes := [_annotation(citation) for part in texts for citation in part.citations]:
        message["annotations"] = notes
    for part in texts:
        if extra := own_data(part, NAME).get("extra_content"):
            message["extra_content"] = extra
    return message | ({"tool_calls": calls} if calls else {})


def _thinking(items: Iterable[Part | ToolCall], text: str) -> dict[str, Any]:
    """The thoughts under the name they have; Mistral's stand in the content, before the text."""
    parts = [item for item in items if isinstance(item, ThinkingPart)]
    if not parts:
        return {}
    kept, thought = own_data(parts[0], NAME), "".join(part.text for part in parts)
    if kept.get("field") == "thinking":
        inside = {"type": "thinking", "thinking": [{"type": "text", "text": thought}]}
        return {"content": [inside, *([{"type": "text", "text": text}] if text else [])]}
    field = "reasoning" if kept.get("field") == "reasoning" else "reasoning_content"
    details = kept.get("reasoning_details")
    return {field: thought, **({"reasoning_details": details} if details else {})}


def _annotation(citation: Citation) -> dict[str, Any]:
    cited = {"url": citation.url, "title": citation.title, "content": citation.quote}
    note = {"type": "url_citation", "url_citation": {k: v for k, v in cited.items() if v is not None}}
    return own_data(citation, NAME) or note


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return laid_over({"id": call.id, "type": "function", "function": function}, own_data(call, NAME))


def _finish_reason(reply: ChatResponse) -> str:
    usual = "tool_calls" if reply.tool_calls else "stop"
    return reply.raw_finish_reason or _REASONS.get(reply.finish_reason, usual)


def _usage(usage: Usage | None) -> dict[str, Any]:
    # The format has no word for "not reported" but to leave all of it out.
    if usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return {}
    total = usage.input_tokens + usage.output_tokens
    numbers: dict[str, Any] = {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": total,
    }
    if usage.cached_input_tokens is not None:
        numbers["prompt_tokens_details"] = {"cached_tokens": usage.cached_input_tokens}
    if usage.reasoning_tokens is not None:
        numbers["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return {"usage": numbers}


# ---- the message, in pieces -----------------------------------------------------------------------------


def _deltas(message: Mapping[str, Any], most: int) -> Iterator[dict[str, Any]]:
    """A whole message as deltas of at most so many letters."""
    yield {"role": "assistant", "content": "", "refusal": None}
    yield from _thought_deltas(message, most)
    content = message["content"]
    for part in content if isinstance(content, list) else [{"type": "text", "text": content or ""}]:
        yield from _content_deltas(part, most)
    for text in cut(message["refusal"] or "", most):
        yield {"refusal": text}
    yield from ({name: message[name]} for name in ("annotations", "extra_content") if name in message)
    for index, call in enumerate(message.get("tool_calls", ())):
        yield from _call_deltas(index, call, most)


def _thought_deltas(message: Mapping[str, Any], most: int) -> Iterator[dict[str, Any]]:
    """Signed details come with the last of the thoughts they sign."""
    field = next((name for name in ("reasoning_content", "reasoning") if name in message), "")
    deltas: list[dict[str, Any]] = [{field: text} for text in cut(message.get(field, ""), most)]
    if details := message.get("reasoning_details"):
        deltas = [*deltas[:-1], {**(deltas[-1] if deltas else {}), "reasoning_details": details}]
    yield from deltas


def _content_deltas(part: Mapping[str, Any], most: int) -> Iterator[dict[str, Any]]:
    if part["type"] == "text":
        yield from ({"content": text} for text in cut(part["text"], most))
    else:
        for text in cut(part["thinking"][0]["text"], most):
            yield {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]}


def _call_deltas(index: int, call: Mapping[str, Any], most: int) -> Iterator[dict[str, Any]]:
    """First whose call it is, then its arguments."""
    function = call["function"]
    yield {"tool_calls": [{"index": index, **call, "function": {**function, "arguments": ""}}]}
    for text in cut(function["arguments"], most):
        yield {"tool_calls": [{"index": index, "function": {"arguments": text}}]}
