"""A run as spans of OpenTelemetry, with its conventions for generative AI.

The root span is the run ("invoke_agent"). Its children are the requests ("chat") and the calls
("execute_tool"). The result is OTLP JSON, which collectors read from files and over HTTP. Messages
are attributes as JSON text, because OTLP has no nested attributes in all programs.
"""

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from llm_stages.runs.values import Run, RunCall, RunEnd, RunReply, RunRequest, RunTurn
from stage0_gateway import (
    Message,
    TextPart,
    ThinkingPart,
    Usage,
)

_PROVIDERS = {"gemini": "gcp.gemini", "mistral": "mistral_ai", "openai-responses": "openai"}
_REASONS = {"tool_calls": "tool_call", "refusal": "content_filter"}
_INTERNAL, _CLIENT, _ERROR = 1, 3, 2


def to_otel(run: Run) -> dict[str, Any]:
    """Return a run as one OTLP JSON document."""
    spans = [_run_span(run), *(span for turn in run.turns for span in _turn_spans(run, turn))]
    resource = {"service.name": "llm-stages"}
    scope = {"name": "llm-stages", "version": run.packages.get("llm-stages", "")}
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes(resource)},
                "scopeSpans": [{"scope": scope, "spans": spans}],
            }
        ]
    }


# ---- spans


def _run_span(run: Run) -> dict[str, Any]:
    end = run.end or RunEnd(at=_last_time(run), status="unfinished", usage=Usage())
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "llm-stages",
        "gen_ai.conversation.id": run.session_id or None,
        **_model(run),
        **_usage(end),
    }
    error = end.error.type if end.error else None
    failed = error or (end.status if end.status != "completed" else None)
    name = "invoke_agent llm-stages"
    return _span(run, "run", name, _INTERNAL, 0.0, end.at, attributes, failed)


def _turn_spans(run: Run, turn: RunTurn) -> Iterator[dict[str, Any]]:
    if turn.request is not None:
        yield _chat_span(run, turn, turn.request)
    for call in turn.calls:
        yield _call_span(run, call)


def _chat_span(run: Run, turn: RunTurn, request: RunRequest) -> dict[str, Any]:
    reply = turn.reply or RunReply(at=request.at, duration=0.0, message=None)
    model = _model(run)
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.conversation.id": run.session_id or None,
        **model,
        "gen_ai.request.temperature": request.options.get("temperature"),
        "gen_ai.request.max_tokens": request.options.get("max_tokens"),
        "gen_ai.response.model": reply.model,
        "gen_ai.response.id": reply.request_id,
        "gen_ai.response.finish_reasons": _reasons(reply),
        **_usage(reply),
        "gen_ai.input.messages": _json([input_message(each) for each in request.messages]),
        "gen_ai.output.messages": _output(reply),
        "gen_ai.tool.definitions": _json([_definition(tool) for tool in request.tools]),
    }
    name = f"chat {model['gen_ai.request.model'] or ''}".rstrip()
    error = reply.error.type if reply.error else None
    key = f"chat {turn.number}"
    return _span(run, key, name, _CLIENT, request.at, reply.at, attributes, error)


def _call_span(run: Run, call: RunCall) -> dict[str, Any]:
    result = call.result
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.name,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": call.id,
        "gen_ai.tool.call.arguments": call.arguments,
        "gen_ai.tool.call.result": result.message.text if result else None,
    }
    end = call.at + result.duration if result else call.at
    failed = (result.error_kind or result.status) if result and result.is_error else None
    name = f"execute_tool {call.name}"
    return _span(
        run, f"call {call.id} {call.at}", name, _INTERNAL, call.at, end, attributes, failed
    )


def _span(
    run: Run,
    key: str,
    name: str,
    kind: int,
    start: float,
    end: float,
    attributes: Mapping[str, Any],
    error: str | None,
) -> dict[str, Any]:
    span: dict[str, Any] = {
        "traceId": _id(run, "trace", 32),
        "spanId": _id(run, key, 16),
        "name": name,
        "kind": kind,
        "startTimeUnixNano": _nanoseconds(run, start),
        "endTimeUnixNano": _nanoseconds(run, end),
        "attributes": _attributes({**attributes, "error.type": error}),
        "status": {"code": _ERROR, "message": error} if error else {},
    }
    if key != "run":
        span["parentSpanId"] = _id(run, "run", 16)
    return span


def _id(run: Run, key: str, length: int) -> str:
    """An id that is the same in each export of a run."""
    return sha256(f"{run.id} {run.time} {key}".encode()).hexdigest()[:length]


def _nanoseconds(run: Run, at: float) -> str:
    return str(int((run.time + at) * 1_000_000_000))


# ---- attributes


def _attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"key": name, "value": _value(value)} for name, value in values.items() if value is not None
    ]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(each) for each in value]}}
    return {"stringValue": str(value).encode("utf-8", "replace").decode()}


def _json(value: list[Any]) -> str | None:
    return json.dumps(value) if value else None


def _model(run: Run) -> dict[str, Any]:
    provider, _, model = (run.model or "").partition(":")
    return {
        "gen_ai.provider.name": _PROVIDERS.get(provider, provider) or None,
        "gen_ai.request.model": model or None,
    }


def _usage(part: RunReply | RunEnd) -> dict[str, Any]:
    usage = part.usage
    if usage is None:
        return {}
    return {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_input_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
    }


def _reasons(reply: RunReply) -> list[str] | None:
    reason = reply.finish_reason
    return [_REASONS.get(reason, reason)] if reason else None


def _definition(tool: Any) -> dict[str, Any]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }


# ---- messages


def input_message(message: Message) -> dict[str, Any]:
    """Return a message of a request in the form of the conventions."""
    if message.role == "tool":
        part = {
            "type": "tool_call_response",
            "id": message.tool_call_id,
            "response": message.text,
        }
        return {"role": "tool", "parts": [part]}
    return {"role": message.role, "parts": _parts(message)}


def _parts(message: Message) -> list[dict[str, Any]]:
    content = message.content
    parts = [TextPart(content)] if isinstance(content, str) and content else content
    found: list[dict[str, Any]] = []
    for part in parts or ():
        if isinstance(part, TextPart):
            found.append({"type": "text", "content": part.text})
        elif isinstance(part, ThinkingPart):
            found.append({"type": "reasoning", "content": part.text})
        else:  # images and documents are named, not copied
            found.append({"type": type(part).__name__.removesuffix("Part").lower()})
    for call in message.tool_calls:
        found.append(
            {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}
        )
    return found


def _output(reply: RunReply) -> str | None:
    if reply.message is None:
        return None
    reasons = _reasons(reply)
    message = {"role": "assistant", "parts": _parts(reply.message)}
    return json.dumps([{**message, "finish_reason": reasons[0] if reasons else "stop"}])


def _last_time(run: Run) -> float:
    times = [turn.reply.at for turn in run.turns if turn.reply]
    return max(times, default=0.0)
