"""Errors in a server's body: the message, the class of the error, and the delay before a retry.

Servers put errors into `error`, `detail`, `message` or a list of these, or send an HTML page. A
prompt that is too long has a different name on each server. All functions are pure. Error responses
and errors inside a stream use them for all wire formats.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from stage0_gateway.errors import GatewayError, StreamInterrupted, error_for_status

_MAX_MESSAGE = 4000  # characters of a server's message
_TOO_LONG = re.compile(
    r"(?i)context.{0,20}(?:length|window|size|limit)|context_length"
    r"|too many (?:prompt |input )?tokens"
    r"|(?:prompt|input|tokens|total length of all messages|length of the messages).{0,60}"
    r"too (?:long|large|many)"
    r"|token count.{0,40}(?:exceeds|but)|exceed\w*.{0,60}\btokens?\b.{0,30}\b(?:limit|max)"
    r"|(?:maximum|longer than the) .{0,10}(?:prompt|input|context|model) length"
    r"|maximum (?:prompt|input|context)"
    r"|range of input length|`inputs` tokens|request too large|reduce the length"
)
_NOT_TOO_LONG = re.compile(
    r"(?i)string too long|output tokens|max_tokens\W* is too|too many images|image dimensions"
)
_TOO_LONG_CODES = {
    "context_length_exceeded",
    "too_many_prompt_tokens",
    "request_too_large",
    "exceed_context_size_error",
}
_PERMANENT_CODES = {"insufficient_quota", "billing_hard_limit_reached", "billing_error"}
_INVALID = re.compile(r"(?i)\binvalid|validation error")
_STATUS_OF = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "api_error": 500,
    "server_error": 500,
    "internal_server_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_DELAY = re.compile(r"(?i)\b(?:retry|try again)\b.{0,20}?\bin ((?:\d+(?:\.\d+)?(?:ms|h|m|s)\s*)+)")
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def error_for_body(status: int, body: Any, retry_after: float | None = None) -> GatewayError:
    """Return the error for a response with this status and body.

    Args:
        status: The HTTP status.
        body: The decoded JSON of the body, or its text.
        retry_after: Seconds to wait according to the headers. They override those of the body.
    """
    error = _error_in(body)
    message, codes = _full_message(error, body), _codes(error) | _codes(body)
    too_long = bool(codes & _TOO_LONG_CODES) or (
        _TOO_LONG.search(message) and not _NOT_TOO_LONG.search(message)
    )
    # Larger than the quota of a minute: waiting does not help.
    too_large = status == 429 and "request too large" in message.lower()
    invalid = status >= 500 and (_INVALID.search(message) or "invalid_request_error" in codes)
    return error_for_status(
        status,
        _truncate(message),
        retry_after=retry_after if retry_after is not None else _delay(error, message),
        overflow=bool(too_long) and (status in (400, 413, 422) or too_large),
        retryable=False if invalid or too_large or codes & _PERMANENT_CODES else None,
    )


def error_in_event(data: Mapping[str, Any]) -> GatewayError:
    """Return the error for an event inside a stream."""
    if _status_in(data) is None:
        text = error_message(_error_in(data))
        return StreamInterrupted(f"{text} (reported inside the stream)", status=200)
    return error_in_reply(data)


def error_in_reply(body: Mapping[str, Any]) -> GatewayError:
    """Return the error for a body with the HTTP status 200.

    The class follows from the status inside the body; `status` is 200.
    """
    inner_status = _status_in(body)
    if inner_status is None:
        return error_for_body(200, body)
    error = error_for_body(inner_status, body)
    error.status = 200
    text = str(error).replace(f"(HTTP {inner_status})", f"(HTTP 200, but {inner_status} inside)")
    error.args = (text,)
    return error


def _status_in(data: Mapping[str, Any]) -> int | None:
    """Return the HTTP status that an error's code or type corresponds to."""
    codes = _codes(_error_in(data)) | _codes(data)
    numbers = [int(code) for code in codes if re.fullmatch("[0-9]{3}", code)]
    statuses = (*numbers, *map(_STATUS_OF.get, sorted(codes)))
    return next((status for status in statuses if status and status >= 400), None)


def error_message(error: Any) -> str:
    """Return the server's message in an error, truncated if it is very long."""
    return _truncate(_full_message(error, error))


def _truncate(text: str) -> str:
    """Truncate a long text at a space: half a secret could not be recognized."""
    if len(text) <= _MAX_MESSAGE:
        return text
    start = text[:_MAX_MESSAGE]
    return (start.rpartition(" ")[0] if " " in start[-200:] else start) + " …"


def _full_message(error: Any, body: Any) -> str:
    """Return the message of an error, with the message of the server behind a proxy."""
    texts = [_message_of(error)]
    if isinstance(body, Mapping) and isinstance(error, str):
        texts.append(body["message"] if isinstance(body.get("message"), str) else "")
    metadata = error.get("metadata") if isinstance(error, Mapping) else None
    if isinstance(metadata, Mapping) and metadata.get("raw"):
        texts.append(_message_of(metadata["raw"]))
    return ": ".join(dict.fromkeys(filter(None, texts)))


def _message_of(error: Any) -> str:
    for _ in range(3):
        if isinstance(error, Mapping):
            names = ("message", "detail", "msg", "error", "Message", "errors")
            error = next((value for name in names if (value := error.get(name))), error)
        if isinstance(error, list) and len(error) == 1:
            error = error[0]
    if isinstance(error, str):
        return error.strip()
    return json.dumps(error, ensure_ascii=False)


def _error_in(body: Any) -> Any:
    if isinstance(body, list) and len(body) == 1:  # Gemini sends an error in a list in streams
        body = body[0]
    if isinstance(body, Mapping):
        values = (body.get(name) for name in ("error", "detail", "message", "errors"))
        return next((value for value in values if value and value is not True), body)
    return body


def _codes(error: Any) -> set[str]:
    if not isinstance(error, Mapping):
        return set()
    values = (error.get(name) for name in ("code", "type", "status"))
    return {str(code) for code in values if isinstance(code, str | int)}


def _delay(error: Any, message: str) -> float | None:
    """Return the delay of Google's RetryInfo, or of "retry in 1m30s" in the text, in seconds."""
    details = error.get("details") if isinstance(error, Mapping) else None
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, Mapping) and isinstance(delay := detail.get("retryDelay"), str):
            return _seconds(delay)
    found = _DELAY.search(message)
    return _seconds(found[1]) if found else None


def _seconds(text: str) -> float | None:
    amounts = _AMOUNT.findall(text[:40])
    return sum(float(number) * _SECONDS[unit] for number, unit in amounts) if amounts else None
