"""One request sent, and its reply read in one piece.

Here the wire format and the connection meet. Knows nothing of retries or of other models. What a
server says goes into errors only after its secrets are taken out. `incoming.py` does the same for
streams, with the same refusals.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from stage0_gateway.errors import GatewayError, MalformedResponse
from stage0_gateway.fields import parse_json
from stage0_gateway.http.client import Connection
from stage0_gateway.http.encode import Outgoing
from stage0_gateway.http.response import Exchange
from stage0_gateway.recording.redaction import redact
from stage0_gateway.response import ChatResponse
from stage0_gateway.wire.reading import read_whole
from stage0_gateway.wire.refusal import refused, words


async def receive(connection: Connection, out: Outgoing) -> ChatResponse:
    """Send a request and read the whole reply.

    Raises:
        GatewayError: One of the tree.
    """
    try:
        return without_secrets(await _receive(connection, out), out.target.secrets)
    except GatewayError as error:
        raise hide(error, out.target.secrets)  # noqa: B904 (the same error)


async def _receive(connection: Connection, out: Outgoing) -> ChatResponse:
    target = out.target
    exchange = await connection.post(out.url, target.headers, out.body)
    try:
        content = await exchange.read()
    finally:
        await exchange.aclose()
    refuse(exchange, content)
    if not isinstance(body := _json_or_text(content), dict):
        text = f"{target.public_url} answered, but not with a JSON object: {words(body)}"
        raise MalformedResponse(text, status=200)
    return read_whole(target.wire.reader(out.names), body, exchange.headers.get("x-request-id"))


def _json_or_text(body: bytes) -> Any:
    value = parse_json(body)
    return body.decode(errors="replace") if value is None else value


def refuse(exchange: Exchange, content: bytes) -> None:
    """Raise the error that an answer stands for, unless its status is 200.

    Raises:
        GatewayError: The status is not 200.
    """
    if exchange.status == 200:
        return
    wait = retry_after(exchange.headers)
    error = refused(exchange.status, _json_or_text(content), wait)
    if (advised := exchange.headers.get("x-should-retry")) in ("true", "false"):
        error.retryable = advised == "true"
    raise error


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait as the headers say: in milliseconds, in seconds, or until a date."""
    milliseconds = _a_number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    stated = headers.get("retry-after", "")
    seconds = _a_number(stated)
    return seconds if seconds is not None else _seconds_until(stated)


def _a_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def _seconds_until(date: str) -> float | None:
    try:
        until = parsedate_to_datetime(date)
        return max(0.0, (until.astimezone(UTC) - datetime.now(UTC)).total_seconds())
    except (ValueError, OverflowError):
        return None


def hide(error: GatewayError, secrets: tuple[str, ...]) -> GatewayError:
    """Remove secrets from an error and from the errors that led to it; returns the error.

    The frames are removed as well: their variables hold what the server sent, which may repeat a
    key, and tools that report exceptions show them.
    """
    each: BaseException | None = error
    while each is not None:
        if isinstance(each, GatewayError):
            each.args = (redact(str(each), secrets),)
        each.__traceback__ = None
        earlier = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
        if earlier is not None and not isinstance(earlier, GatewayError):
            text = f"{earlier!r} {earlier}"
            if redact(text, secrets) != text:  # the text of a library's error cannot be changed
                earlier = each.__cause__ = None
        each.__context__ = earlier
        each = earlier
    return error


_METADATA = ("raw_finish_reason", "model", "request_id", "refusal", "block_reason")


def without_secrets(reply: ChatResponse, secrets: tuple[str, ...]) -> ChatResponse:
    """Remove secrets from a reply's metadata, which goes into logs; the message stays as it is."""
    changed: dict[str, Any] = {}
    for name in _METADATA:
        text = getattr(reply, name)
        if text and (hidden := redact(text, secrets)) != text:
            changed[name] = hidden
    return replace(reply, **changed) if changed else reply
