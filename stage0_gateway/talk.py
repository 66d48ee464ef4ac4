"""HTTP/1.1 over one line, as h11 has it: a request and its answer, then the next.

h11 says which bytes to send and what those that came mean; this moves them. Knows no addresses, no certificates and
no second request at the same time. Used by `direct.py`.
"""

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from typing import Any, cast

import h11
import httpcore
import httpx

from stage0_gateway.line import Line

_LARGEST_HEAD = 100 * 1024  # bytes of an answer's status and headers
_PIECE = 65536  # bytes read at once


class Talk:
    """Requests and answers over one line, one after the other.

    Args:
        line: The line.
        kept: Seconds it may be used again after an answer.
    """

    def __init__(self, line: Line, kept: float) -> None:
        self._line, self._kept = line, kept
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_LARGEST_HEAD)
        self._idle_until: float | None = None  # None while an answer is read

    @property
    def may_go_on(self) -> bool:
        """Whether another request may be sent: the last answer is read, and the server has not hung up."""
        idle = self._idle_until is not None and time.monotonic() <= self._idle_until
        return idle and not self._line.get_extra_info("is_readable")

    async def ask(self, request: httpx.Request) -> httpx.Response:
        """Send a request; returns when the head of the answer is there."""
        self._idle_until = None
        timeouts = request.extensions.get("timeout", {})
        try:
            with suppress(httpcore.WriteError):  # a server may refuse a large body before it has read it
                await self._send(request, timeouts.get("write"))
            read = timeouts.get("read")
            event = await self._next(read)
            while isinstance(event, h11.InformationalResponse) and event.status_code != 101:
                event = await self._next(read)
        except BaseException:
            await self.aclose()
            raise
        assert isinstance(event, h11.Response | h11.InformationalResponse)  # the first thing a server may say
        told = {"http_version": b"HTTP/" + event.http_version, "reason_phrase": event.reason}
        return httpx.Response(
            event.status_code,
            headers=event.headers.raw_items(),
            stream=_Body(self, read),
            extensions={**told, "network_stream": self._line},
        )

    async def _send(self, request: httpx.Request, within: float | None) -> None:
        try:
            head = self._http.send(
                h11.Request(method=request.method, target=request.url.raw_path, headers=request.headers.raw)
            )
            await self._line.write(head or b"", within)
            async for chunk in cast("httpx.AsyncByteStream", request.stream):
                await self._line.write(self._http.send(h11.Data(data=chunk)) or b"", within)
            await self._line.write(self._http.send(h11.EndOfMessage()) or b"", within)
        except h11.LocalProtocolError as error:
            raise httpcore.LocalProtocolError(str(error)) from error

    async def _next(self, within: float | None) -> Any:
        """What the server says next."""
        while (event := self._heard()) is h11.NEED_DATA:
            came = await self._line.read(_PIECE, within)
            if not came and self._http.their_state is h11.SEND_RESPONSE:
                raise httpcore.RemoteProtocolError("Server disconnected without sending a response.")
            self._http.receive_data(came)
        return event

    def _heard(self) -> Any:
        """What follows from the bytes that came; NEED_DATA if they say no more."""
        try:
            return self._http.next_event()
        except h11.RemoteProtocolError as error:
            raise httpcore.RemoteProtocolError(str(error)) from error

    async def body(self, within: float | None) -> AsyncIterator[bytes]:
        """The body of the answer: in one piece what came at once, in however many chunks the server wrote it."""
        while isinstance(event := await self._next(within), h11.Data):
            pieces = [event.data]
            try:
                while isinstance(event := self._heard(), h11.Data):
                    pieces.append(event.data)
            finally:
                yield b"".join(pieces)
            if event is not h11.NEED_DATA:
                return

    async def answered(self) -> None:
        """The answer is closed: if it was read to its end, another request may follow."""
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            self._idle_until = time.monotonic() + self._kept
        else:
            await self.aclose()

    async def aclose(self) -> None:
        """Hang up."""
        self._idle_until = None
        await self._line.aclose()


class _Body(httpx.AsyncByteStream):
    """The body of an answer, with httpx's errors."""

    def __init__(self, talk: Talk, within: float | None) -> None:
        self._talk, self._within, self._open = talk, within, True

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with as_httpx():
            try:
                async for piece in self._talk.body(self._within):
                    yield piece
            except BaseException:
                await self.aclose()
                raise

    async def aclose(self) -> None:
        if self._open:
            self._open = False
            await self._talk.answered()


@contextmanager
def as_httpx() -> Iterator[None]:
    """Errors of httpcore as httpx's, which bear the same names."""
    try:
        yield
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
        raise getattr(httpx, type(error).__name__)(str(error)) from error
