"""`StreamingResponse`: reads a streamed reply, from bytes to events, until it is complete.

It also reads the whole reply of a server that does not stream. This module knows no retries and no
listeners; `streaming/stream.py` delivers the events.
"""

import asyncio
from collections import deque
from contextlib import suppress

from stage0_gateway.errors import (
    ConnectionFailed,
    GatewayError,
    MalformedResponse,
    StreamInterrupted,
)
from stage0_gateway.http.client import HttpClient
from stage0_gateway.http.encode import EncodedRequest
from stage0_gateway.http.receive import Attempt, response_error
from stage0_gateway.http.redaction import redact, redact_error, redact_response
from stage0_gateway.http.response import HttpResponse
from stage0_gateway.json_fields import parse_json
from stage0_gateway.messages import Message
from stage0_gateway.response import ChatResponse
from stage0_gateway.streaming.events import ConnectEvent, RawEvent, StreamEvent
from stage0_gateway.streaming.sse import SseReader
from stage0_gateway.wire.error_body import error_message

_GRACE = 0.5  # seconds for a server to end a body after its last event
_MAX_LAST_CHUNKS = 100  # during these seconds
_EMPTY = (
    "The server ended the stream before it sent anything. Some servers reject a request this way: "
    "chat() may return the reason."
)
_TRUNCATED = "The stream ended before the reply was complete: its last event is cut off."


async def open_stream(
    client: HttpClient, encoded: EncodedRequest, attempt: Attempt
) -> "StreamingResponse":
    """Send a request and wait for the first event of the reply.

    Args:
        client: Sends the request.
        encoded: The request.
        attempt: Its number, and the function that completes the reply.

    Raises:
        GatewayError: The request failed, and no part of the reply was delivered. The caller must
            redact the error.
    """
    response = await client.post(encoded.url, encoded.endpoint.headers, encoded.body)
    try:
        if response.status != 200:
            content = await response.read()
            raise response_error(response.status, response.headers, content, encoded)
        reply = StreamingResponse(response, encoded, attempt)
        await reply.read_start()
    except BaseException:
        await response.aclose()
        raise
    return reply


class StreamingResponse:
    """A reply while it arrives.

    Attributes:
        connected: The first event.
    """

    def __init__(self, response: HttpResponse, encoded: EncodedRequest, attempt: Attempt) -> None:
        self.connected = ConnectEvent(encoded.request.model, encoded.public_url, attempt.number)
        self._complete = attempt.complete
        self._response, self._secrets = response, encoded.endpoint.secrets
        self._reader = encoded.endpoint.wire.reader(encoded.names)
        self._builder = self._reader.builder
        self._builder.request_id = response.headers.get("x-request-id")
        self._sse = SseReader()
        self._waiting: deque[str] = deque()  # the data of complete events, not decoded yet
        self._error: GatewayError | None = None
        self._at_end = False  # of the body

    async def read_start(self) -> None:
        """Read and decode the first event, which may be an error."""
        chunk = b""
        while not (start := chunk.lstrip()):
            if not (chunk := await self._response.chunk()):
                raise StreamInterrupted(_EMPTY, status=200)
        if start[:1] in (b"{", b"[", b"<"):  # a server that does not stream, or an HTML page
            self._read_whole(start + await self._response.read())
            return
        self._waiting.extend(self._sse.feed(start))
        while not self._waiting:
            if self._reader.over:
                raise StreamInterrupted(_EMPTY, status=200)
            await self.read_on()
        self._decode(self._waiting.popleft())

    def take(self) -> list[StreamEvent]:
        """Decode the next event of the server, and return the events that follow from it.

        The list is empty if all received data was decoded, or if the next event is an error, which
        `read_on` raises.
        """
        try:
            while self._waiting and not self._builder.events:
                self._decode(self._waiting.popleft())
        except GatewayError as error:
            self._error = redact_error(error, self._secrets)
            self._waiting.clear()
        events, self._builder.events = self._builder.events, []
        return events

    async def read_on(self) -> bool:
        """Wait for more of the reply; return False at its end.

        The end is the format's end marker, or the regular end of the HTTP body.

        Raises:
            StreamInterrupted: The connection broke, or the body ended inside an event.
            GatewayError: The server reported an error, stopped sending, or sent an invalid event.
        """
        if self._error is not None:
            raise self._error
        if self._reader.over:
            return False
        try:
            chunk = await self._response.chunk()
        except GatewayError as error:
            # Also after a finish reason: text, arguments and token counts may follow it.
            redact_error(error, self._secrets)
            if isinstance(error, ConnectionFailed):
                raise StreamInterrupted(f"{error} The reply was not complete.") from error
            raise
        if chunk:
            self._waiting.extend(self._sse.feed(chunk))
        else:
            self._at_end = self._reader.over = True
            inside_a_line = self._sse.inside_a_line
            self._waiting.extend(self._sse.close())
            if inside_a_line and not any(map(str.strip, self._waiting)):
                raise StreamInterrupted(_TRUNCATED, status=200)
        return True

    def message(self) -> Message:
        """Return the message received so far."""
        return self._builder.message()

    def response(self) -> ChatResponse:
        """Return the complete reply.

        Raises:
            StreamInterrupted: The reply is not complete.
        """
        return self._complete(redact_response(self._reader.end(), self._secrets))

    async def aclose(self) -> None:
        """Close the response. The connection of a complete reply is reused."""
        try:
            if self._reader.over and not self._at_end:
                # Read the rest of the body, which is normally empty.
                with suppress(GatewayError, TimeoutError):
                    async with asyncio.timeout(_GRACE):
                        for _ in range(_MAX_LAST_CHUNKS):
                            if not await self._response.chunk():
                                break
        finally:
            await self._response.aclose()

    def _decode(self, text: str) -> None:
        """Decode the data of one server-sent event."""
        if self._reader.over and not self._at_end:
            return  # after the end marker
        if text.strip() == "[DONE]":
            self._reader.complete = self._reader.over = True
            return
        data = parse_json(text)
        if data is None:
            if not text.strip():
                return
            if self._at_end:
                raise StreamInterrupted(_TRUNCATED, status=200)
            raise _not_json(text)
        redacted = redact(text, self._secrets)
        raw = data if redacted == text else parse_json(redacted)
        self._builder.events.append(RawEvent(raw))
        self._reader.read_event(data)

    def _read_whole(self, content: bytes) -> None:
        """Decode the body of a server that does not stream."""
        text = content.decode(errors="replace")
        self._at_end = self._reader.over = True
        data = parse_json(text)
        if data is None:
            raise _not_json(text)
        self._builder.events.append(RawEvent(parse_json(redact(text, self._secrets))))
        self._reader.decode_whole(data)
        self._reader.complete = True  # a finish reason is optional, as in `chat`


def _not_json(text: str) -> MalformedResponse:
    return MalformedResponse(
        f"The server sent an event that is not a JSON object: {error_message(text)!r}", status=200
    )
