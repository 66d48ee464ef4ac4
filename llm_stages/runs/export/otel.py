"""A run as spans of OpenTelemetry, with its conventions for generative AI.

The root span is the run ("invoke_agent"). Its children are the requests ("chat") and the calls
("execute_tool"). The result is OTLP JSON, which collectors read from files and over HTTP. Messages
are attributes as JSON text, because OTLP has no nested attributes in all programs.
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from llm_stages.runs.values import Run, RunCall, RunEnd, RunReply, RunRequest, RunTurn
from stage0_gateway import Message, TextPart, ThinkingPart, Usage

_PROVIDERS = {"gemini": "gcp.gemini", "mistral": "mistral_ai", "openai-responses": "openai"}
_REASONS = {"tool_calls": "tool_call", "refusal": "content_filter"}
_INTERNAL, _CLIENT, _ERROR = 1, 3, 2


def to_otel(run: Run) -> dict[str, Any]:
    """Return a run as one OTLP JSON document."""
    spans = [_run_span(run)]
    for turn in run.turns:
        if turn.request is not None:
            spans.append(_chat_span(run, turn, turn.request))
        spans += [_call_span(run, call) for call in turn.calls]
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
    newest = max((turn.reply.at for turn in run.turns if turn.reply), default=0.0)
    end = run.end or RunEnd(at=newest, status="unfinished", usage=Usage())
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "llm-stages",
        "gen_ai.conversation.id": run.session_id or None,
        **_model(run),
        **_usage(end),
    }
    error = end.error.type if end.error else None
    failed = error or (end.status if end.status != "completed" else None)
    span = _span(run, "run", "invoke_agent llm-stages", (0.0, end.at), attributes, failed)
    del span["parentSpanId"]
    return span


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
        "gen_ai.tool.definitions": _json(
            [{"type": "function", **tool.function} for tool in request.tools]
        ),
    }
    name = f"chat {model['gen_ai.request.model'] or ''}".rstrip()
    error = reply.error.type if reply.error else None
    span = _span(run, f"chat {turn.number}", name, (request.at, reply.at), attributes, error)
    return span | {"kind": _CLIENT}


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
    key, name = f"call {call.id} {call.at}", f"execute_tool {call.name}"
    return _span(run, key, name, (call.at, end), attributes, failed)


def _span(
    run: Run,
    key: str,
    name: str,
    times: tuple[float, float],
    attributes: Mapping[str, Any],
    error: str | None,
) -> dict[str, Any]:
    """A span inside of the run; `times` are its start and its end."""
    start, end = (str(int((run.time + at) * 1_000_000_000)) for at in times)
    return {
        "traceId": _id(run, "trace", 32),
        "spanId": _id(run, key, 16),
        "parentSpanId": _id(run, "run", 16),
        "name": name,
        "kind": _INTERNAL,
        "startTimeUnixNano": start,
        "endTimeUnixNano": end,
        "attributes": _attributes({**attributes, "error.type": error}),
        "status": {"code": _ERROR, "message": error} if error else {},
    }


def _id(run: Run, key: str, length: int) -> str:
    """An id that is the same in each export of a run."""
    return sha256(f"{run.id} {run.time} {key}".encode()).hexdigest()[:length]


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


# ---- messages


def input_message(message: Message) -> dict[str, Any]:
    """Return a message of a request in the form of the conventions."""
    if message.role == "tool":
        result = {"id": message.tool_call_id, "response": message.text}
        return {"role": "tool", "parts": [{"type": "tool_call_response", **result}]}
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
        fields = {"id": call.id, "name": call.name, "arguments": call.arguments}
        found.append({"type": "tool_call", **fields})
    return found


def _output(reply: RunReply) -> str | None:
    if reply.message is None:
        return None
    reasons = _reasons(reply)
    message = {"role": "assistant", "parts": _parts(reply.message)}
    return json.dumps([{**message, "finish_reason": reasons[0] if reasons else "stop"}])
