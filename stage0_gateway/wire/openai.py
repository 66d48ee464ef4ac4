"""OpenAI's chat completions, the format that most model servers speak.

Pure: `encode` a request, `decode` a reply or an error. What servers send in practice differs from the
documentation (`content` null or absent, calls without id or arguments, errors in several shapes), and
each tolerance below is one of those. Used by the gateway; the other direction is `serve/openai.py`.
"""

import json
from collections.abc import Mapping
from typing import Any

from stage0_gateway.errors import GatewayError, MalformedResponse, error_for_status
from stage0_gateway.fields import a_count, a_list, a_mapping, a_text, needed_text
from stage0_gateway.messages import (
    DocumentPart,
    ImagePart,
    JsonPart,
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
)
from stage0_gateway.request import ChatRequest, ToolSpec
from stage0_gateway.response import ChatResponse, FinishReason
from stage0_gateway.usage import Usage

_FINISH_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "content_filter": "refusal",
    "error": "error",
}
_MOST_WORDS = 500  # characters of a server's own words that go into an error


def path(model: str) -> str:
    """The same path for every model; the body names it."""
    return "/chat/completions"


def headers(api_key: str | None) -> dict[str, str]:
    """A bearer token; local servers ask for none."""
    return {"Authorization": f"Bearer {api_key}"} if api_key else {}


# ---- the request ----------------------------------------------------------------------------------------


def encode(request: ChatRequest) -> dict[str, Any]:
    """The JSON body of a chat completion request; what the caller left open is left out."""
    body: dict[str, Any] = {
        "model": request.model,
        "messages": [_message(message) for message in request.messages],
    }
    if request.tools:
        body["tools"] = [_tool(spec) for spec in request.tools]
    if request.tool_choice is not None:
        body["tool_choice"] = _tool_choice(request.tool_choice)
    if request.response_schema is not None:
        schema = {"name": "reply", "schema": dict(request.response_schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    settings = {
        "temperature": request.temperature,
        "max_tokens": request.max_tokens,
        "stop": list(request.stop),
    }
    body.update((name, value) for name, value in settings.items() if value not in (None, []))
    body.update(request.provider_options or {})
    return body


def _message(message: Message) -> dict[str, Any]:
    plain: dict[str, Any] = {"role": message.role, "content": _content(message)}
    if message.tool_calls:
        plain["tool_calls"] = [_call(call) for call in message.tool_calls]
    if message.tool_call_id:
        plain["tool_call_id"] = message.tool_call_id
    return plain


def _content(message: Message) -> str | list[dict[str, Any]]:
    if isinstance(message.content, str):
        return message.content
    # Thinking is the model's own and is not sent back in this format.
    parts = [_part(part) for part in message.content if not isinstance(part, ThinkingPart)]
    if all(part["type"] == "text" for part in parts):
        return "".join(part["text"] for part in parts)
    return parts


def _part(part: Part) -> dict[str, Any]:
    match part:
        case TextPart(text) | ThinkingPart(text):
            return {"type": "text", "text": text}
        case JsonPart(value):
            return {"type": "text", "text": json.dumps(value, ensure_ascii=False)}
        case ImagePart(data, media_type, url):
            return {"type": "image_url", "image_url": {"url": url or f"data:{media_type};base64,{data}"}}
        case DocumentPart(data, media_type, name):
            file = {"filename": name, "file_data": f"data:{media_type};base64,{data}"}
            return {"type": "file", "file": file}


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": dict(spec.parameters)}
    return {"type": "function", "function": function}


def _tool_choice(choice: str) -> str | dict[str, Any]:
    if choice in ("auto", "none", "required"):
        return choice
    return {"type": "function", "function": {"name": choice}}


# ---- the reply ------------------------------------------------------------------------------------------


def decode(body: Mapping[str, Any], request_id: str | None = None) -> ChatResponse:
    """Read a chat completion.

    Raises:
        MalformedResponse: There is no message in it. A body that holds an error instead raises that error.
    """
    if error := body.get("error"):
        code = error.get("code") if isinstance(error, Mapping) else None
        raise decode_error(code if isinstance(code, int) and 400 <= code < 600 else 200, body)
    try:
        choice = a_mapping(body["choices"][0], "choices[0]")
        return _response(body, choice, a_mapping(choice["message"], "message"), request_id)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        text = (
            f"The answer is not a chat completion ({type(error).__name__}: {error}). It holds {sorted(body)}."
        )
        raise MalformedResponse(text) from error


def _response(
    body: Mapping[str, Any], choice: Mapping[str, Any], message: Mapping[str, Any], request_id: str | None
) -> ChatResponse:
    calls = [_read_call(call, n) for n, call in enumerate(a_list(message.get("tool_calls"), "tool_calls"))]
    raw_reason = a_text(choice.get("finish_reason"), "finish_reason") or None
    refusal = a_text(message.get("refusal"), "refusal") or None
    return ChatResponse(
        message=Message.assistant(_read_content(message), calls),
        finish_reason="refusal" if refusal else _finish_reason(raw_reason, has_calls=bool(calls)),
        raw_finish_reason=raw_reason,
        usage=_read_usage(body.get("usage")),
        model=a_text(body.get("model"), "model") or None,
        request_id=request_id or a_text(body.get("id"), "id") or None,
        refusal=refusal,
        raw=body,
    )


def _finish_reason(raw: str | None, *, has_calls: bool) -> FinishReason:
    reason = _FINISH_REASONS.get(raw or "", "unknown")
    # Servers say "stop", "" or nothing beside tool calls; the calls decide, unless the reply was cut.
    return "tool_calls" if has_calls and reason in ("stop", "unknown") else reason


def _read_content(message: Mapping[str, Any]) -> str | tuple[Part, ...]:
    content = message.get("content")
    if isinstance(content, list):
        texts = [part for part in content if a_mapping(part, "content part").get("type") == "text"]
        content = "".join(a_text(part.get("text"), "content") for part in texts)
    content = a_text(content, "content")
    thinking = a_text(message.get("reasoning_content") or message.get("reasoning"), "reasoning")
    if not thinking:
        return content
    answer = (TextPart(content),) if content else ()
    return (ThinkingPart(thinking), *answer)


def _read_call(call: Any, index: int) -> ToolCall:
    call = a_mapping(call, "tool call")
    function = a_mapping(call["function"], "function")
    call_id = a_text(call.get("id"), "id") or f"call_{index}"
    return ToolCall(
        call_id, needed_text(function, "name", "function"), _argument_text(function.get("arguments"))
    )


def _argument_text(arguments: Any) -> str:
    """Arguments as text; missing, null and empty mean none. A server that sends an object meant its JSON."""
    if isinstance(arguments, str):
        return arguments or "{}"
    return "{}" if arguments is None else json.dumps(arguments, ensure_ascii=False)


def _read_usage(usage: Any) -> Usage | None:
    if not isinstance(usage, Mapping):
        return None
    return Usage(
        input_tokens=a_count(usage.get("prompt_tokens")),
        output_tokens=a_count(usage.get("completion_tokens")),
        cached_input_tokens=_detail(usage, "prompt_tokens_details", "cached_tokens"),
        reasoning_tokens=_detail(usage, "completion_tokens_details", "reasoning_tokens"),
    )


def _detail(usage: Mapping[str, Any], group: str, name: str) -> int | None:
    details = usage.get(group)
    return a_count(details.get(name)) if isinstance(details, Mapping) else None


# ---- an error -------------------------------------------------------------------------------------------


def decode_error(status: int, body: Any, retry_after: float | None = None) -> GatewayError:
    """The error a refusing answer stands for: `{"error": {...}}`, `{"detail": ...}`, or plain text."""
    said, code = _server_words(body)
    overflow = code == "context_length_exceeded" or "maximum context length" in said
    return error_for_status(status, said, retry_after=retry_after, overflow=overflow and 400 <= status < 500)


def _server_words(body: Any) -> tuple[str, str]:
    """What a server says went wrong, and its code for it."""
    error = body
    if isinstance(body, Mapping):
        error = body.get("error") or body.get("detail") or body.get("message") or body
    if isinstance(error, Mapping):
        return _cut(error.get("message") or error), str(error.get("code") or "")
    return _cut(error), ""


def _cut(said: Any) -> str:
    """The beginning of a long text, between two words: half a secret would not be known for one."""
    text = (said if isinstance(said, str) else json.dumps(said, default=str)).strip()
    return text if len(text) <= _MOST_WORDS else text[:_MOST_WORDS].rpartition(" ")[0] + " …"
