"""A reply that is streamed, on its way in: bytes to events, until it is complete.

Opens the stream, reads on when it is asked to, and says at the end whether that was all. A server
that does not stream although it was asked to is read as well. Knows nothing of retries, or of who
listens: that is `stream.py`.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from stage0_gateway.errors import (
    ConnectionFailed,
    GatewayError,
    MalformedResponse,
    StreamInterrupted,
)
from stage0_gateway.fields import parse_json
from stage0_gateway.http.client import Connection
from stage0_gateway.http.encode import Outgoing
from stage0_gateway.http.response import Exchange
from stage0_gateway.http.send import hide, refuse, without_secrets
from stage0_gateway.recording.redaction import redact
from stage0_gateway.response import ChatResponse
from stage0_gateway.streaming.events import ConnectEvent, RawEvent, StreamEvent
from stage0_gateway.streaming.sse import SseReader
from stage0_gateway.wire.reading import read_end, read_event
from stage0_gateway.wire.refusal import words

_GRACE = 0.5  # seconds for a server to end a body after its last event
_LAST_CHUNKS = 100  # which it may send meanwhile
_EMPTY = "The server ended the stream before it sent anything. Some refuse a request so: chat() may say why."
_CUT = "The stream ended before the reply was complete: its last event is cut off."


async def open_stream(
    connection: Connection,
    out: Outgoing,
    finish: Callable[[ChatResponse], ChatResponse],
    attempt: int = 1,
) -> "Incoming":
    """Send a request and wait until the reply has begun.

    Args:
        connection: Where to send it.
        out: The request.
        finish: Called with the reply when it is complete; what it returns is the reply.
        attempt: Which try this is; 1 is the first.

    Raises:
        GatewayError: One of the tree; nothing of a reply has been read then.
    """
    try:
        exchange = await connection.post(out.url, out.target.headers, out.body)
        connected = ConnectEvent(out.request.model, out.public_url, attempt)
        incoming = Incoming(exchange, out, connected, finish)
        try:
            if exchange.status != 200:
                refuse(exchange, await exchange.read())
            await incoming.begin()
        except BaseException:
            await exchange.aclose()
            raise
        return incoming
    except GatewayError as error:
        raise hide(error, out.target.secrets)  # noqa: B904 (the same error)


class Incoming:
    """A reply on its way in."""

    def __init__(
        self,
        exchange: Exchange,
        out: Outgoing,
        connected: ConnectEvent,
        finish: Callable[[ChatResponse], ChatResponse],
    ) -> None:
        self.connected, self._finish = connected, finish
        self._exchange, self._target = exchange, out.target
        self._reader = out.target.wire.reader(out.names)
        self._sse = SseReader()
        self._waiting: deque[str] = deque()  # data of events that are complete and not taken in yet
        self._error: GatewayError | None = None
        self._whole = self._at_end = False
        self.draft = self._reader.draft
        self.draft.request_id = exchange.headers.get("x-request-id")

    async def begin(self) -> None:
        """Read until the server has said something, and take in the first of it: it may be an
        error.
        """
        first = await self._first_bytes()
        if first[:1] in (b"{", b"[", b"<"):
            self._waiting.append(
                await self._all_of(first)
            )  # a server that does not stream, or a page of one
        else:
            self._waiting.extend(self._sse.feed(first))
        while not self._waiting:
            if self._reader.over:
                raise StreamInterrupted(_EMPTY, status=200)
            await self.read_on()
        self._take_in(self._waiting.popleft())

    def take(self) -> list[StreamEvent]:
        """What the next of the server's events amounts to; the draft grows by it.

        Nothing, where all that came is taken, or where the next is an error, which `read_on`
        raises.
        """
        try:
            while self._waiting and not self.draft.events:
                self._take_in(self._waiting.popleft())
        except GatewayError as error:
            hide(error, self._target.secrets)
            self._error = error
            self._waiting.clear()
        events, self.draft.events = self.draft.events, []
        return events

    async def read_on(self) -> bool:
        """Wait for more of the reply; return False at its end.

        The end is the format's end marker, or the proper end of the HTTP body.

        Raises:
            StreamInterrupted: The connection broke, or the body ended inside an event.
            GatewayError: The server reported an error, stopped sending, or sent something invalid.
        """
        if self._error is not None:
            raise self._error
        if self._reader.over:
            return False
        try:
            chunk = await self._exchange.chunk()
        except GatewayError as error:
            # Also after a finish reason: text, arguments and token counts may follow it.
            hide(error, self._target.secrets)
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
                raise StreamInterrupted(_CUT, status=200)
        return True

    def response(self) -> ChatResponse:
        """The reply.

        Raises:
            StreamInterrupted: It is not complete.
        """
        return self._finish(without_secrets(read_end(self._reader), self._target.secrets))

    async def aclose(self) -> None:
        """Hang up; the connection of a reply that is over is kept for the next request."""
        try:
            if self._reader.over and not self._at_end:
                await self._read_out()
        finally:
            await self._exchange.aclose()

    def _take_in(self, text: str) -> None:
        if self._reader.over and not self._at_end:
            return  # the server had said that nothing follows
        if text.strip() == "[DONE]":
            self._reader.complete = self._reader.over = True
            return
        data = parse_json(text)
        if data is None:
            self._not_json(text)
            return
        hidden = redact(text, self._target.secrets)
        self.draft.events.append(RawEvent(data if hidden == text else parse_json(hidden)))
        if not self._whole:
            read_event(self._reader, data)
        elif isinstance(data, list):
            for each in data:
                read_event(self._reader, each)
        else:
            read_event(self._reader, data, whole=True)
            self._reader.complete = True  # with or without a reason, as for `chat`

    def _not_json(self, text: str) -> None:
        """Refuse an event that is not JSON, or null; at the end of the body it was cut."""
        if not text.strip():
            return
        if self._at_end and not self._whole:
            raise StreamInterrupted(_CUT, status=200)
        raise MalformedResponse(
            f"The server sent an event that is no JSON object: {words(text)!r}", status=200
        )

    async def _read_out(self) -> None:
        """Read what follows the end marker, normally nothing; a server that keeps on is hung up
        on.
        """
        with suppress(GatewayError, TimeoutError):
            async with asyncio.timeout(_GRACE):
                for _ in range(_LAST_CHUNKS):
                    if not await self._exchange.chunk():
                        break

    async def _first_bytes(self) -> bytes:
        while chunk := await self._exchange.chunk():
            if begun := chunk.lstrip():
                return begun
        raise StreamInterrupted(_EMPTY, status=200)

    async def _all_of(self, text: bytes) -> str:
        pieces = [text]
        while chunk := await self._exchange.chunk():
            pieces.append(chunk)
        self._whole = self._at_end = self._reader.over = True
        return b"".join(pieces).decode(errors="replace")
