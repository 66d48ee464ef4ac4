"""The file that `Recorder` writes and `Replayer` reads: one exchange per line, as JSON.

    {"request": {"method": "POST", "url": "https://…", "headers": {…}, "body": {…}},
     "response": {"status": 200, "headers": {…}, "chunks": ["data: …", …]}}

A body is the JSON that was sent, or text; a chunk is text; bytes that are no text are {"base64": "…"}. An
answer that broke off also has "cut": what broke it ("ReadTimeout: …"), or "abandoned" where the caller read
no further. Where no answer came there is "error" in place of "response". Both directions stand here side by
side; nothing in this file knows of sending, and what is written is free of the secrets it is told.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from stage0_gateway.credentials import names_a_credential
from stage0_gateway.fields import a_list, a_mapping, needed_text
from stage0_gateway.redact import HIDDEN, redact, redact_chunks

ABANDONED = "abandoned"
_REQUEST_HEADERS = ("content-type", "accept")
# They describe the line, or bytes before they were decoded and hidden; a replay has neither.
_OF_THE_LINE = {"connection", "content-encoding", "content-length", "keep-alive", "transfer-encoding"}
_OF_THE_ACCOUNT = ("organization", "project")


@dataclass(frozen=True, slots=True)
class Exchange:
    """One line of a recording.

    Attributes:
        line: Its number in the file, 1 for the first.
        request: What was asked, as the file has it.
        status: The HTTP status, or None where no answer came.
        headers: Of the answer.
        chunks: The body as it came.
        broken_by: The error that ended it, `ABANDONED`, or None for an answer that is whole.
    """

    line: int
    request: Mapping[str, Any]
    status: int | None
    headers: Mapping[str, str]
    chunks: tuple[bytes, ...]
    broken_by: str | None


def write_request(request: httpx.Request, secrets: Iterable[str]) -> dict[str, Any]:
    """A request, its body read, as the file has it."""
    url = request.url.copy_with(userinfo=b"", query=None, fragment=None)
    query = "&".join(_field(field) for field in request.url.query.decode("ascii").split("&") if field)
    headers = {name: request.headers[name] for name in _REQUEST_HEADERS if name in request.headers}
    return {
        "method": request.method,
        "url": redact(f"{url}?{query}" if query else str(url), secrets),
        "headers": {name: redact(value, secrets) for name, value in headers.items()},
        "body": _write_body(redact_chunks([request.content], secrets)[0]),
    }


def _field(field: str) -> str:
    name = field.partition("=")[0]
    return f"{name}={HIDDEN}" if names_a_credential(name) else field


def _write_body(content: bytes) -> Any:
    try:
        body = json.loads(content.decode())
        json.dumps(body, allow_nan=False)  # NaN is no JSON, though Python reads it
        if isinstance(body, dict | list):
            return body
    except (ValueError, RecursionError):
        pass
    return _write_bytes(content) if content else None


def write_answer(
    response: httpx.Response, chunks: list[bytes], broken_by: str | None, secrets: Iterable[str]
) -> dict[str, Any]:
    """An answer as the file has it: decoded, because in compressed bytes nobody sees a secret or a word."""
    decoded, undecodable = _decode(response.headers, chunks)
    broken_by = undecodable or broken_by
    return {
        "status": response.status_code,
        "headers": {
            name: redact(value, secrets) for name, value in response.headers.items() if _is_kept(name)
        },
        "chunks": [_write_bytes(chunk) for chunk in redact_chunks(decoded, secrets, cut=bool(broken_by))],
        **({"cut": broken_by} if broken_by else {}),
    }


def _is_kept(header: str) -> bool:
    return not (
        header in _OF_THE_LINE
        or names_a_credential(header)
        or any(word in header for word in _OF_THE_ACCOUNT)
    )


def _decode(headers: httpx.Headers, chunks: list[bytes]) -> tuple[list[bytes], str | None]:
    codings = {coding.strip() for coding in headers.get("content-encoding", "").lower().split(",")}
    codings -= {"", "identity"}
    if not codings:
        return chunks, None
    if not codings <= {"gzip", "deflate"}:  # nobody asked for another one, and httpx may not have it
        return [], f"DecodingError: a body in {', '.join(sorted(codings))} is not recorded"
    decoded: list[bytes] = []
    try:
        response = httpx.Response(
            200, headers={"content-encoding": headers["content-encoding"]}, content=iter(chunks)
        )
        for piece in response.iter_bytes():
            decoded.append(piece)
    except httpx.DecodingError as error:
        return decoded, write_error(error, ())
    return decoded, None


def _write_bytes(chunk: bytes) -> str | dict[str, str]:
    try:
        return chunk.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(chunk).decode("ascii")}


def write_error(error: httpx.RequestError, secrets: Iterable[str]) -> str:
    """The error as "ReadTimeout: why": a class of httpx that a replay can raise again."""
    names = (kind.__name__ for kind in type(error).__mro__ if kind.__module__.partition(".")[0] == "httpx")
    return f"{next(names)}: {redact(str(error), secrets)}"


def read_error(text: str, request: httpx.Request | None = None) -> httpx.RequestError:
    """The error that `write_error` wrote.

    Raises:
        ValueError: It is none.
    """
    name, _, why = text.partition(": ")
    kind = getattr(httpx, name, None)
    if not (isinstance(kind, type) and issubclass(kind, httpx.RequestError)):
        raise ValueError(f"{name!r} is no error of httpx")
    error: httpx.RequestError = kind(why, request=request)
    return error


def write_line(exchange: Mapping[str, Any]) -> bytes:
    """One exchange as a line of the file."""
    try:
        return json.dumps(exchange, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:  # half a surrogate pair: legal in JSON, not in UTF-8
        return json.dumps(exchange).encode() + b"\n"


def read_line(line: bytes, number: int) -> Exchange:
    """The exchange on a line of the file.

    Raises:
        ValueError: It holds none.
    """
    plain = a_mapping(json.loads(line.decode()), "an exchange")
    request = a_mapping(plain.get("request"), "request")
    needed_text(request, "method", "request")
    needed_text(request, "url", "request")
    if "error" in plain:
        return Exchange(number, request, None, {}, (), _an_error(plain["error"]))
    answer = a_mapping(plain.get("response"), "response")
    status, headers = answer.get("status"), a_mapping(answer.get("headers"), "headers")
    if type(status) is not int:
        raise ValueError("status must be a whole number")
    return Exchange(
        number,
        request,
        status,
        {name: needed_text(headers, name, "headers") if headers[name] else "" for name in headers},
        tuple(_read_bytes(chunk) for chunk in a_list(answer.get("chunks"), "chunks")),
        answer.get("cut") if answer.get("cut") in (None, ABANDONED) else _an_error(answer["cut"]),
    )


def _an_error(text: Any) -> str:
    read_error(str(text))
    return str(text)


def _read_bytes(chunk: Any) -> bytes:
    if isinstance(chunk, str):
        return chunk.encode()
    return b64decode(needed_text(a_mapping(chunk, "a chunk"), "base64", "chunk"), validate=True)
