"""Read a whole reply, and the errors of a server.

This module connects the wire format and the HTTP client. It knows no retries and no other models.
`streaming_response.py` reads streamed replies, with the same errors.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from stage0_gateway.errors import GatewayError, MalformedResponse
from stage0_gateway.http.client import HttpClient
from stage0_gateway.http.encode import EncodedRequest
from stage0_gateway.http.endpoint import PROVIDERS
from stage0_gateway.http.redaction import redact_response
from stage0_gateway.json_fields import parse_json
from stage0_gateway.response import ChatResponse
from stage0_gateway.wire.error_body import error_for_body, error_message

_WRONG_URL = (301, 302, 303, 307, 308, 404, 405)
"""Statuses that a wrong base URL causes; their errors name the requested URL."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to get a reply to a request.

    Attributes:
        number: The number of the attempt, starting at 1.
        complete: Adds the cost to the complete reply, and reports it.
    """

    number: int
    complete: Callable[[ChatResponse], ChatResponse]


async def receive(client: HttpClient, encoded: EncodedRequest, attempt: Attempt) -> ChatResponse:
    """Send a request and return the whole reply; like `open_stream`, with the same errors."""
    endpoint = encoded.endpoint
    response = await client.post(encoded.url, endpoint.headers, encoded.body)
    try:
        content = await response.read()
    finally:
        await response.aclose()
    if response.status != 200:
        raise response_error(response.status, response.headers, content, encoded)
    body = parse_json(content)
    if not isinstance(body, dict):
        text = error_message(_json_or_text(content))
        raise MalformedResponse(
            f"{encoded.public_url} answered, but not with a JSON object: {text}", status=200
        )
    reader = endpoint.wire.reader(encoded.names)
    reader.builder.request_id = response.headers.get("x-request-id")
    return attempt.complete(redact_response(reader.decode_whole(body), endpoint.secrets))


def response_error(
    status: int, headers: Mapping[str, str], content: bytes, encoded: EncodedRequest
) -> GatewayError:
    """Return the error for a response with a status other than 200."""
    error = error_for_body(status, _json_or_text(content), retry_after(headers))
    if (advice := headers.get("x-should-retry")) in ("true", "false"):
        error.retryable = advice == "true"
    if status in _WRONG_URL:
        error.args = (f"{error} {_requested_url(encoded)}",)
    return error


def _requested_url(encoded: EncodedRequest) -> str:
    """Return a sentence with the URL of a request, and advice if its base URL has no path."""
    endpoint, parts = encoded.endpoint, urlsplit(encoded.public_url)
    text = f"The requested URL was {encoded.public_url}."
    paths = (endpoint.wire.path(endpoint.model, stream=stream) for stream in (False, True))
    if parts.path in {path.partition("?")[0] for path in paths}:
        version = PROVIDERS[endpoint.provider].base_url.rpartition("/")[2]
        server = f"{parts.scheme}://{parts.netloc}"
        text += f" The base URL has no path; most servers need one, such as {server}/{version}."
    return text


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait according to the headers, or None.

    Servers send seconds or a date.
    """
    value = headers.get("retry-after", "")
    with suppress(ValueError):
        return seconds if 0 <= (seconds := float(value)) < float("inf") else None
    with suppress(ValueError, OverflowError):
        date = parsedate_to_datetime(value)
        return max(0.0, (date.astimezone(UTC) - datetime.now(UTC)).total_seconds())
    return None


def _json_or_text(content: bytes) -> Any:
    """Return the JSON of a body, also as an event (LiteLLM: "data: {…}"); or its text."""
    start, _, rest = content.lstrip().partition(b":")
    value = parse_json(rest.partition(b"\n")[0] if start == b"data" else content)
    return content.decode(errors="replace") if value is None else value
