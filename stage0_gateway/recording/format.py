"""The file that `Recorder` writes and `Replayer` reads: one exchange per line, as JSON.

    {"request": {"method": "POST", "url": "https://…", "body": {…}},
     "response": {"status": 200, "headers": {…}, "chunks": ["data: …", …]}}

A body is the JSON that was sent, or text. A chunk is text. Bytes that are not text are {"base64":
"…"}. A response that broke off also has "cut": the error ("ReadTimeout: …"), or "abandoned" where
the caller stopped reading. Where no response came, there is "error" in place of "response". Secrets
are hidden when a line is written. Knows nothing of sending.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from stage0_gateway.http.redaction import redact, redact_chunks
from stage0_gateway.json_fields import parse_json
from stage0_gateway.recording.credentials import names_a_credential

ABANDONED = "abandoned"
_CONNECTION_HEADERS = {
    "connection",
    "content-length",
    "keep-alive",
    "transfer-encoding",
}


@dataclass(frozen=True, slots=True)
class RecordedExchange:
    """One line of a recording.

    Attributes:
        line: Its number in the file, 1 for the first.
        request: The request as the file has it.
        status: The HTTP status, or None where no response came.
        headers: The headers of the response.
        chunks: The body of the response.
        cut: The error that ended the response, `ABANDONED`, or None for a whole response.
    """

    line: int
    request: Mapping[str, Any]
    status: int | None
    headers: Mapping[str, str]
    chunks: tuple[bytes, ...]
    cut: str | None


def write_request(request: httpx.Request, secrets: Collection[str]) -> dict[str, Any]:
    """Return a request, whose body was read, as the file has it."""
    content = redact_chunks([request.content], secrets)[0]
    body = parse_json(content)
    return {
        "method": request.method,
        "url": redact(str(request.url.copy_with(userinfo=b"", fragment=None)), secrets),
        "body": _write_bytes(content) if body is None else body,
    }


def write_response(
    response: httpx.Response, chunks: list[bytes], cut: str | None, secrets: Collection[str]
) -> dict[str, Any]:
    """Return a response as the file has it. A compressed body is left out, because it may hide a
    secret.
    """
    if response.headers.get("content-encoding", "identity") != "identity":
        chunks, cut = [], "DecodingError: a compressed body is not recorded"
    written = {
        "status": response.status_code,
        "headers": {
            name: redact(value, secrets)
            for name, value in response.headers.items()
            if _is_recorded(name)
        },
        "chunks": [_write_bytes(chunk) for chunk in redact_chunks(chunks, secrets)],
    }
    return {**written, "cut": redact(cut, secrets)} if cut else written


def _is_recorded(header: str) -> bool:
    """Whether a header is neither the connection's nor a credential, and does not name the
    account.
    """
    is_private = names_a_credential(header) or "organization" in header or "project" in header
    return header not in _CONNECTION_HEADERS and not is_private


def _write_bytes(chunk: bytes) -> str | dict[str, str]:
    try:
        return chunk.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(chunk).decode("ascii")}


def write_error(error: httpx.RequestError) -> str:
    """Return an error as "ReadTimeout: why"."""
    return f"{type(error).__name__}: {error}"


def read_error(text: str, request: httpx.Request) -> httpx.RequestError:
    """Return the error that `write_error` wrote; one of an unknown class is a `TransportError`."""
    name, _, why = text.partition(": ")
    kind = getattr(httpx, name, None)
    if not (isinstance(kind, type) and issubclass(kind, httpx.RequestError)):
        kind = httpx.TransportError
    return kind(why, request=request)


def write_line(exchange: Mapping[str, Any]) -> bytes:
    """Return one exchange as a line of the file."""
    line = json.dumps(exchange, ensure_ascii=False) + "\n"
    return line.encode(
        errors="backslashreplace"
    )  # half a surrogate pair becomes \ud83d, as JSON writes it


def read_line(line: bytes, number: int) -> RecordedExchange:
    """Return the exchange on a line of the file.

    Raises:
        ValueError: The line holds no exchange.
    """
    match json.loads(line.decode()):
        case {"request": {"method": str(), "url": str()} as request, "error": str(error)}:
            return RecordedExchange(number, request, None, {}, (), error)
        case {
            "request": {"method": str(), "url": str()} as request,
            "response": {
                "status": int(status),
                "headers": dict(headers),
                "chunks": list(chunks),
                **rest,
            },
        }:
            cut = None if rest.get("cut") is None else str(rest["cut"])
            return RecordedExchange(
                number, request, status, headers, tuple(map(_read_bytes, chunks)), cut
            )
    raise ValueError("an exchange needs a request, and a response or an error")


def _read_bytes(chunk: Any) -> bytes:
    match chunk:
        case str():
            return chunk.encode()
        case {"base64": str(encoded)}:
            return b64decode(encoded, validate=True)
    raise ValueError('a chunk is text or {"base64": …}')
