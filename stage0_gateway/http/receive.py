"""Read a whole reply, and the errors of a server.

This module connects the wire format and the HTTP client. It knows no retries and no other models.
`streaming_response.py` reads streamed replies, with the same errors.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from stage0_gateway.errors import GatewayError, MalformedResponse
from stage0_gateway.http.client import HttpClient
from stage0_gateway.http.encode import EncodedRequest
from stage0_gateway.http.redaction import redact_response
from stage0_gateway.json_fields import parse_json
from stage0_gateway.response import ChatResponse
from stage0_gateway.wire.error_body import error_for_body, error_message

Complete = Callable[[ChatResponse], ChatResponse]
"""Adds the cost to a complete reply, and reports it."""


async def receive(
    client: HttpClient, encoded: EncodedRequest, attempt: int, complete: Complete
) -> ChatResponse:
    """Send a request and return the whole reply; like `open_stream`, with the same errors."""
    endpoint = encoded.endpoint
    response = await client.post(encoded.url, endpoint.headers, encoded.body)
    try:
        content = await response.read()
    finally:
        await response.aclose()
    if response.status != 200:
        raise response_error(response.status, response.headers, content)
    body = parse_json(content)
    if not isinstance(body, dict):
        text = error_message(_json_or_text(content))
        raise MalformedResponse(
            f"{encoded.public_url} answered, but not with a JSON object: {text}", status=200
        )
    reader = endpoint.wire.reader(encoded.names)
    reader.builder.request_id = response.headers.get("x-request-id")
    return complete(redact_response(reader.decode_whole(body), endpoint.secrets))


def response_error(status: int, headers: Mapping[str, str], content: bytes) -> GatewayError:
    """Return the error for a response with a status other than 200."""
    error = error_for_body(status, _json_or_text(content), retry_after(headers))
    if (advice := headers.get("x-should-retry")) in ("true", "false"):
        error.retryable = advice == "true"
    return error


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
    value = parse_json(content)
    return content.decode(errors="replace") if value is None else value
