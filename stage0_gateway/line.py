"""One open line to a server: bytes out, bytes in, each in time.

Knows nothing of HTTP, of names or certificates, and waits for one thing at a time, as HTTP/1.1 does. Errors are
httpcore's, which httpx's are made of. Made by `direct.py`, for the event loop that runs then; used by `talk.py`.
"""

import asyncio
import select
import sys
from collections import deque
from typing import Any, cast

import httpcore

_PIECE = 65536  # bytes handed over at once, so that a large body is not held twice
_ENOUGH = 131072  # bytes that came and nobody has read; with more the server has to wait
_NAMES = {"client_addr": "sockname", "server_addr": "peername"}


class Line(asyncio.Protocol):
    """A socket, and what came through it.

    Args:
        tls: Whether what passes is encrypted, which the event loop does.
    """

    def __init__(self, *, tls: bool) -> None:
        self._tls, self._loop = tls, asyncio.get_running_loop()
        self._came: deque[bytes] = deque()
        self._unread = 0
        self._at_end = self._lost = self._full = False
        self._broken_by: Exception | None = None
        self._head, self._begins = b"", True
        self._waiter: asyncio.Future[None] | None = None

    async def read(self, max_bytes: int, within: float | None = None) -> bytes:
        """The next bytes; none at the end.

        Raises:
            httpcore.ReadError: The line broke.
            httpcore.ReadTimeout: Nothing came in time.
        """
        self._begins = True
        if not self._came and not self._at_end:
            await self._change(self._until(within), httpcore.ReadTimeout)
        if not self._came:
            if self._broken_by is not None:
                raise httpcore.ReadError from self._broken_by
            return b""
        piece = self._came.popleft()
        if len(piece) > max_bytes:
            self._came.appendleft(piece[max_bytes:])
            piece = piece[:max_bytes]
        self._unread -= len(piece)
        if self._unread <= _ENOUGH:
            self._transport.resume_reading()
        return piece

    async def write(self, buffer: bytes, within: float | None = None) -> None:
        """Send bytes. The head is written first and then the body, which may be empty: both leave together.

        Raises:
            httpcore.WriteError: The line broke.
            httpcore.WriteTimeout: The server did not take them in time.
        """
        if self._begins:
            self._head, self._begins = buffer, False
            return
        head, self._head = self._head, b""
        until, rest = self._until(within), memoryview(buffer)
        await self._send(head + buffer[:_PIECE], until)
        for start in range(_PIECE, len(buffer), _PIECE):
            await asyncio.sleep(0)  # others have their turn, and a line that broke is told
            await self._send(rest[start : start + _PIECE], until)

    async def aclose(self) -> None:
        """Hang up at once; what was not sent is not sent."""
        self._transport.abort()
        await asyncio.sleep(0)  # then the loop closes the socket

    def get_extra_info(self, info: str) -> Any:
        """Answer by name; `is_readable`, while nothing is asked, means that it is over or soon will be."""
        if info == "is_readable":
            came = self._at_end or bool(self._came)
            return came or _is_readable(self._transport.get_extra_info("socket").fileno())
        return self._transport.get_extra_info(_NAMES.get(info, info))

    async def _send(self, piece: bytes | memoryview, until: float | None) -> None:
        if self._lost:
            raise httpcore.WriteError from self._broken_by
        self._transport.write(piece)
        while self._full:
            await self._change(until, httpcore.WriteTimeout)

    def _until(self, within: float | None) -> float | None:
        return None if within is None else self._loop.time() + within

    async def _change(self, until: float | None, too_late: type[Exception]) -> None:
        """Wait until something came, went out or broke; a third of what `asyncio.timeout` costs."""
        self._waiter = waiter = self._loop.create_future()
        timer = None if until is None else self._loop.call_at(until, self._wake, too_late)
        try:
            await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()

    def _wake(self, too_late: type[Exception] | None = None) -> None:
        if self._waiter is None or self._waiter.done():
            return
        if too_late is None:
            self._waiter.set_result(None)
        else:
            self._waiter.set_exception(too_late())

    # ---- what the event loop calls ----

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It stands."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        self._came.append(bytes(data))  # on Windows it may be a bytearray
        self._unread += len(data)
        if self._unread > _ENOUGH:
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        """Nothing more will come; what is still to be sent can be, but with TLS, which has no halves."""
        self._at_end = True
        self._wake()
        return not self._tls

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._at_end, self._lost, self._full, self._broken_by = True, True, False, exc
        self._wake()

    def pause_writing(self) -> None:
        """The server does not take what was written."""
        self._full = True

    def resume_writing(self) -> None:
        """It does again."""
        self._full = False
        self._wake()


def _is_readable(number: int) -> bool:
    if number < 0 or sys.platform == "win32":
        return number < 0 or bool(select.select([number], [], [], 0)[0])
    poll = select.poll()  # `select.select` knows no number above 1023
    poll.register(number, select.POLLIN)
    return bool(poll.poll(0))
