"""A server says no: its words, its reason, and how long it asks us to wait, out of any shape of body.

Servers put errors into `error`, `detail`, `message`, a list of these, or send a page of HTML; a prompt that
is too long has as many names as there are servers. Pure; used by all wire formats for refused requests and
for errors that arrive inside a stream.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from stage0_gateway.errors import GatewayError, StreamInterrupted, error_for_status

_MOST_WORDS = 500  # characters of a server's own words that go into an error
_TOO_LONG = re.compile(
    r"(?i)context.{0,20}(?:length|window|size)|(?:prompt|input|total length|messages?).{0,60}too (?:long|large|many)"
    r"|too many (?:prompt |input )?tokens|token count.{0,40}exceeds|exceed\w*.{0,60}\btokens?\b.{0,30}\b(?:limit|max)"
    r"|maximum (?:prompt|input|context)|reduce the length"
)
_TOO_LONG_CODES = {
    "context_length_exceeded",
    "too_many_prompt_tokens",
    "request_too_large",
    "exceed_context_size_error",
}
_CANNOT_PASS = {"insufficient_quota", "billing_hard_limit_reached", "billing_error"}
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


def refused(status: int, body: Any, retry_after: float | None = None) -> GatewayError:
    """The error that an answer with this status and body stands for.

    Args:
        status: The HTTP status.
        body: The JSON of the body, or its text where it was no JSON.
        retry_after: Seconds to wait by the headers, which count before those in the body.
    """
    error = _error_in(body)
    said, codes = words(error), _codes(error)
    too_long = bool(codes & _TOO_LONG_CODES) or _TOO_LONG.search(said) is not None
    invalid = status >= 500 and (_INVALID.search(said) or "invalid_request_error" in codes)
    return error_for_status(
        status,
        said,
        retry_after=retry_after if retry_after is not None else _delay(error, said),
        overflow=too_long and status in (400, 413, 422),
        retryable=False if invalid or codes & _CANNOT_PASS else None,
    )


def refused_in_stream(data: Mapping[str, Any]) -> GatewayError:
    """The error that an event inside a stream stands for."""
    if _status_in(data) is None:
        return StreamInterrupted(f"{words(_error_in(data))} (said in the middle of the stream)", status=200)
    return refused_in_reply(data)


def refused_in_reply(body: Mapping[str, Any]) -> GatewayError:
    """The error that a body stands for which came as if all were well, with a status of 200.

    Its kind is that of the status it should have had; its `status` is the one that it had.
    """
    meant = _status_in(body)
    if meant is None:
        return refused(200, body)
    error = refused(meant, body)
    error.status = 200
    error.args = (str(error).replace(f"(HTTP {meant})", f"(HTTP 200, but {meant} inside)"),)
    return error


def _status_in(data: Mapping[str, Any]) -> int | None:
    """The HTTP status an error would have had, by its code or type."""
    codes = _codes(_error_in(data))
    numbers = [int(code) for code in codes if code.isdecimal() and code.isascii() and len(code) == 3]
    known = (code for code in (*numbers, *map(_STATUS_OF.get, sorted(codes))) if code and code >= 400)
    return next(known, None)


def words(error: Any) -> str:
    """What a server says went wrong; the beginning of a long text, cut between two words.

    Half a secret would not be known for one, and could not be hidden.
    """
    if isinstance(error, Mapping):
        error = error.get("message") or error.get("detail") or error.get("msg") or error
    text = (error if isinstance(error, str) else _as_text(error)).strip()
    return text if len(text) <= _MOST_WORDS else text[:_MOST_WORDS].rpartition(" ")[0] + " …"


def _as_text(error: Any) -> str:
    try:
        return json.dumps(error, default=str, ensure_ascii=False)
    except RecursionError:  # reading JSON takes less of the stack than writing it
        return "an error that is nested too deeply to be shown"


def _error_in(body: Any) -> Any:
    if isinstance(body, list) and len(body) == 1:  # Gemini wraps an error into a list where it streams
        body = body[0]
    if isinstance(body, Mapping):
        return body.get("error") or body.get("detail") or body.get("message") or body
    return body


def _codes(error: Any) -> set[str]:
    if not isinstance(error, Mapping):
        return set()
    named = (error.get(name) for name in ("code", "type", "status"))
    return {str(code) for code in named if isinstance(code, str | int)}


def _delay(error: Any, said: str) -> float | None:
    """Seconds to wait as the body says: Google's RetryInfo, or "retry in 1m30s" in the text."""
    details = error.get("details") if isinstance(error, Mapping) else None
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, Mapping) and isinstance(delay := detail.get("retryDelay"), str):
            return _seconds(delay)
    found = _DELAY.search(said)
    return _seconds(found[1]) if found else None


def _seconds(text: str) -> float | None:
    amounts = _AMOUNT.findall(text[:40])
    return sum(float(number) * _SECONDS[unit] for number, unit in amounts) if amounts else None
