"""One request sent, and its reply read in one piece.

Here the wire format and the connection meet. Knows nothing of retries or of other models. What a server says
goes into errors only after its secrets are taken out. `incoming.py` does the same for streams, with the same
refusals.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any

from stage0_gateway.connection import Connection
from stage0_gateway.errors import GatewayError, MalformedResponse
from stage0_gateway.exchange import Exchange
from stage0_gateway.models import Target
from stage0_gateway.outgoing import Outgoing
from stage0_gateway.redact import redact
from stage0_gateway.response import ChatResponse
from stage0_gateway.wire.reading import read_whole
from stage0_gateway.wire.refusal import words


async def receive(connection: Connection, out: Outgoing) -> ChatResponse:
    """Send a request and read the whole reply.

    Raises:
        GatewayError: One of the tree.
    """
    target = out.target
    with hiding(target.secrets):
        exchange = await connection.post(out.url, target.headers, out.body)
        try:
            content = await exchange.read()
        finally:
            await exchange.aclose()
        refuse(target, exchange, content)
        if not isinstance(body := _json_or_text(content), dict):
            text = f"{target.public_url} answered, but not with a JSON object: {words(body)}"
            raise MalformedResponse(text, status=200)
        reader = target.wire.reader(out.names)
        reply = read_whole(reader, body, exchange.headers.get("x-request-id"))
        return without_secrets(reply, target.secrets)


def read_json(text: str | bytes) -> Any:
    """JSON to a value; pydantic's parser takes half the time, Python's takes what that will not.

    Raises:
        ValueError: It is no JSON.
    """
    try:
        return _fast_parser()(text)
    except ValueError:
        return json.loads(text)


@cache
def _fast_parser() -> Callable[[str | bytes], Any]:
    from pydantic_core import from_json  # takes a tenth of our own import

    return from_json


def _json_or_text(body: bytes) -> Any:
    try:
        return read_json(body)
    except (ValueError, RecursionError):
        return body.decode(errors="replace")


def refuse(target: Target, exchange: Exchange, content: bytes) -> None:
    """Raise the error that an answer stands for, unless all is well.

    Raises:
        GatewayError: The status is not 200.
    """
    if exchange.status == 200:
        return
    wait = retry_after(exchange.headers)
    error = target.wire.decode_error(exchange.status, _json_or_text(content), wait)
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


@contextmanager
def hiding(secrets: tuple[str, ...]) -> Iterator[None]:
    """Take secrets out of whatever error passes; servers repeat keys."""
    try:
        yield
    except GatewayError as error:
        hide(error, secrets)
        raise


def hide(error: GatewayError, secrets: tuple[str, ...]) -> None:
    """Take secrets out of an error's text, and out of what led to it, which is printed with it."""
    error.args = (redact(str(error), secrets),)
    later: BaseException = error
    while (earlier := later.__cause__ or later.__context__) is not None:
        said = f"{earlier!r} {earlier}"
        if isinstance(earlier, GatewayError):
            earlier.args = (redact(str(earlier), secrets),)
        elif redact(said, secrets) != said:  # a library's: its text is not ours to change
            later.__cause__ = later.__context__ = None
            return
        later = earlier


def without_secrets(reply: ChatResponse, secrets: tuple[str, ...]) -> ChatResponse:
    """A reply whose names, which go into logs, repeat no secret; what the model said stays as it is."""
    model = redact(reply.model or "", secrets) or None
    request_id = redact(reply.request_id or "", secrets) or None
    if (model, request_id) == (reply.model, reply.request_id):
        return reply
    return replace(reply, model=model, request_id=request_id)
