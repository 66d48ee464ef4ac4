"""The file of `Recorder` and `Replayer`: one exchange per line, as JSON.

    {"request": {"method": "POST", "url": "https://…", "body": {…}},
     "response": {"status": 200, "headers": {…}, "chunks": ["data: …", …]}}

A body is JSON or text, and a chunk is text. A byte that is not UTF-8 becomes half of a surrogate
pair, as with Python's "surrogateescape". An incomplete response also has "cut": the error
("ReadTimeout: …"), or "abandoned" if the caller stopped reading. Without a response, "error"
replaces "response". Secrets are hidden when a line is written. This module sends nothing.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from stage0_gateway.http.redaction import redact, redact_chunks
from stage0_gateway.json_fields import as_text, parse_json
from stage0_gateway.recording.credentials import names_a_credential

ABANDONED = "abandoned"
_BYTES = "surrogateescape"
_CONNECTION_HEADERS = {"connection", "content-length", "keep-alive", "transfer-encoding"}


@dataclass(frozen=True, slots=True)
class RecordedExchange:
    """One line of a recording.

    Attributes:
        line: Its number in the file, starting at 1.
        request: The request in the format of the file.
        status: The HTTP status, or None without a response.
        headers: The headers of the response.
        chunks: The body of the response.
        cut: The error that ended the response, `ABANDONED`, or None for a complete response.
    """

    line: int
    request: Mapping[str, Any]
    status: int | None
    headers: Mapping[str, str]
    chunks: tuple[bytes, ...]
    cut: str | None


def write_request(request: httpx.Request, secrets: Collection[str]) -> dict[str, Any]:
    """Return a request whose body was read in the format of the file."""
    content = redact(request.content.decode(errors=_BYTES), secrets)
    body = parse_json(content)
    return {
        "method": request.method,
        "url": redact(str(request.url.copy_with(userinfo=b"", fragment=None)), secrets),
        "body": content if body is None else body,
    }


def write_response(
    response: httpx.Response, chunks: list[bytes], cut: str | None, secrets: Collection[str]
) -> dict[str, Any]:
    """Return a response in the format of the file.

    A compressed body is omitted, because it may contain a secret.
    """
    if response.headers.get("content-encoding", "identity") != "identity":
        chunks, cut = [], "DecodingError: a compressed body is not recorded"
    headers = response.headers.items()
    written = {
        "status": response.status_code,
        "headers": {name: redact(text, secrets) for name, text in headers if _is_recorded(name)},
        "chunks": [chunk.decode(errors=_BYTES) for chunk in redact_chunks(chunks, secrets)],
    }
    return {**written, "cut": redact(cut, secrets)} if cut else written


def _is_recorded(header: str) -> bool:
    """Return whether a header is recorded: no credential, account or connection header is."""
    is_private = names_a_credential(header) or "organization" in header or "project" in header
    return header not in _CONNECTION_HEADERS and not is_private


def write_error(error: httpx.RequestError) -> str:
    """Return an error as "ReadTimeout: reason"."""
    return f"{type(error).__name__}: {error}"


def read_error(text: str, request: httpx.Request) -> httpx.RequestError:
    """Return the error that `write_error` wrote; an unknown class becomes `TransportError`."""
    name, _, reason = text.partition(": ")
    kind: type[httpx.RequestError] = getattr(httpx, name, httpx.TransportError)
    return kind(reason, request=request)


def write_line(exchange: Mapping[str, Any]) -> bytes:
    """Return one exchange as a line of the file."""
    line = json.dumps(exchange, ensure_ascii=False) + "\n"
    # Half a surrogate pair becomes \ud83d, as in JSON.
    return line.encode(errors="backslashreplace")


def read_line(line: bytes, number: int) -> RecordedExchange:
    """Return the exchange on a line of the file.

    Raises:
        ValueError: The line contains no exchange.
    """
    match json.loads(line.decode()):
        case {"request": {"method": str(), "url": str()} as request, "error": str(error)}:
            return RecordedExchange(number, request, None, {}, (), error)
        case {"request": {"method": str(), "url": str()} as request, "response": dict(response)}:
            match response:
                case {"status": int(status), "headers": dict(headers), "chunks": list(chunks)}:
                    body = tuple(
                        as_text(chunk, "A chunk").encode(errors=_BYTES) for chunk in chunks
                    )
                    cut = response.get("cut")
                    return RecordedExchange(number, request, status, headers, body, cut)
    raise ValueError("an exchange needs a request, and a response or an error")
