"""A server says no: its words, its reason, and how long it asks us to wait, out of any shape of
body.

Servers put errors into `error`, `detail`, `message`, a list of these, or send a page of HTML; a
prompt that is too long has as many names as there are servers. Pure; used by all wire formats for
refused requests and for errors that arrive inside a stream.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from stage0_gateway.errors import GatewayError, StreamInterrupted, error_for_status

_MOST_WORDS = 4000  # characters of a server's own words that go into an error
_TOO_LONG = re.compile(
    r"(?i)context.{0,20}(?:length|window|size|limit)|context_length|too many (?:prompt |input )?tokens"
    r"|(?:prompt|input|tokens|total length of all messages|length of the messages).{0,60}too (?:long|large|many)"
    r"|token count.{0,40}(?:exceeds|but)|exceed\w*.{0,60}\btokens?\b.{0,30}\b(?:limit|max)"
    r"|(?:maximum|longer than the) .{0,10}(?:prompt|input|context|model) length|maximum (?:prompt|input|context)"
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
_CANNOT_PASS = {"insufficient_quota", "billing_hard_limit_reached", "billing_error"}
_INVALID = re.compile(r"(?i)\binvalid|validation error")
_REPLIES = {"choices", "candidates", "content", "type", "usage", "usageMetadata", "promptFeedback"}
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
    said, codes = _all_words(error, body), _codes(error) | _codes(body)
    too_long = bool(codes & _TOO_LONG_CODES) or (
        _TOO_LONG.search(said) and not _NOT_TOO_LONG.search(said)
    )
    too_large = status == 429 and "request too large" in said.lower()  # for any minute, so for ever
    invalid = status >= 500 and (_INVALID.search(said) or "invalid_request_error" in codes)
    return error_for_status(
        status,
        _beginning(said),
        retry_after=retry_after if retry_after is not None else _delay(error, said),
        overflow=bool(too_long) and (status in (400, 413, 422) or too_large),
        retryable=False if invalid or too_large or codes & _CANNOT_PASS else None,
    )


def says_no(data: Mapping[str, Any]) -> bool:
    """Whether a body that came as if all were well is an error, in any of the shapes servers have
    for that.
    """
    if data.get("error") or "error" in (data.get("object"), data.get("type")):
        return True
    if _REPLIES & data.keys():
        return False
    return any(
        isinstance(data.get(name), str | list) and data[name]
        for name in ("message", "detail", "errors")
    )


def refused_in_stream(data: Mapping[str, Any]) -> GatewayError:
    """The error that an event inside a stream stands for."""
    if _status_in(data) is None:
        return StreamInterrupted(
            f"{words(_error_in(data))} (said in the middle of the stream)", status=200
        )
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
    codes = _codes(_error_in(data)) | _codes(data)
    numbers = [
        int(code) for code in codes if code.isdecimal() and code.isascii() and len(code) == 3
    ]
    known = (
        code for code in (*numbers, *map(_STATUS_OF.get, sorted(codes))) if code and code >= 400
    )
    return next(known, None)


def words(error: Any) -> str:
    """What a server says went wrong; of a very long text, the beginning."""
    return _beginning(_all_words(error, error))


def _beginning(text: str) -> str:
    """A long text up to a space near the limit: half a secret would not be known for one."""
    if len(text) <= _MOST_WORDS:
        return text
    begun = text[:_MOST_WORDS]
    return (begun.rpartition(" ")[0] if " " in begun[-200:] else begun) + " …"


def _all_words(error: Any, body: Any) -> str:
    """The words of an error, and what a server in between passes on from the one behind it."""
    said = [_words_of(error)]
    if (
        isinstance(body, Mapping)
        and isinstance(error, str)
        and isinstance(body.get("message"), str)
    ):
        said.append(body["message"])
    metadata = error.get("metadata") if isinstance(error, Mapping) else None
    if isinstance(metadata, Mapping) and metadata.get("raw"):
        said.append(_words_of(metadata["raw"]))
    return ": ".join(dict.fromkeys(each for each in said if each))


def _words_of(error: Any) -> str:
    for _ in range(3):
        if isinstance(error, Mapping):
            named = (
                error.get(name)
                for name in ("message", "detail", "msg", "error", "Message", "errors")
            )
            error = next((each for each in named if each), error)
        if isinstance(error, list) and len(error) == 1:
            error = error[0]
    if isinstance(error, str):
        return error.strip()
    try:
        return json.dumps(error, default=str, ensure_ascii=False)
    except RecursionError:
        return "an error nested too deep to be shown"


def _error_in(body: Any) -> Any:
    if (
        isinstance(body, list) and len(body) == 1
    ):  # Gemini wraps an error into a list where it streams
        body = body[0]
    if isinstance(body, Mapping):
        named = (body.get(name) for name in ("error", "detail", "message", "errors"))
        return next((each for each in named if each and each is not True), body)
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
