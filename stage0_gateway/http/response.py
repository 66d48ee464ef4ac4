"""One reply of a server: status, headers and body, read within its time and size limits.

Converts every error of the HTTP library to an error of the gateway, so that the modules above do
not depend on that library. It knows nothing of models or messages and opens no connections;
`connection.py` creates exchanges.
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import cast

import httpx

from stage0_gateway.errors import (
    ConfigurationError,
    ConnectionFailed,
    GatewayError,
    MalformedResponse,
    RequestTimeout,
)

LIBRARY_ERRORS = (
    *(TimeoutError, UnicodeError, ssl.SSLError),  # httpx does not convert all of these
    *(httpx.HTTPError, httpx.InvalidURL, httpx.StreamError),
)
"""What a transport may raise."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Time limits of one exchange, in seconds; None is no limit.

    Attributes:
        connect: For opening a connection.
        read: For sending the request, and for each wait for more of the reply.
        total: For the whole exchange.
    """

    connect: float | None = 10.0
    read: float | None = 120.0
    total: float | None = 600.0

    def __post_init__(self) -> None:
        for seconds in (self.connect, self.read, self.total):
            if seconds is not None and seconds <= 0:
                raise ConfigurationError(
                    f"A timeout must be more than 0 s, not {seconds}; None is no limit."
                )


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one exchange.

    Attributes:
        timeouts: The time limits that the caller chose.
        deadline: When `timeouts.total` is over, by the event loop's clock; None is never.
        max_reply_bytes: The maximum size of the body.
    """

    timeouts: Timeouts
    deadline: float | None
    max_reply_bytes: int

    @property
    def timer_needed_from(self) -> float:
        """When a wait for more of the reply may last beyond the deadline. Until then the
        transport's limit ends it.
        """
        if self.deadline is None:
            return inf
        return -inf if self.timeouts.read is None else self.deadline - self.timeouts.read


class Exchange:
    """A server's reply to one request: status, headers (names in lower case) and a body that is
    read once.

    Must be closed. Only a body that was read to its end leaves the connection usable.

    Args:
        response: The HTTP library's response; its body has not been read.
        host: The server, for error messages.
        limits: How long and how large the reply may be.
        on_close: Called once when the exchange is closed.
    """

    def __init__(
        self, response: httpx.Response, host: str, limits: Limits, on_close: Callable[[], None]
    ) -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self._response, self._host, self._limits, self._on_close = response, host, limits, on_close
        encoding = response.headers.get("content-encoding", "").strip() or "identity"
        self._unreadable = ""
        if encoding.lower() != "identity":
            self._unreadable = (
                f"The body of this reply from {host} has the content encoding {encoding!r}, which was "
                "not requested."
            )
        self._body = aiter(cast("httpx.AsyncByteStream", response.stream))
        self._now, self._timer_needed_from = (
            asyncio.get_running_loop().time,
            limits.timer_needed_from,
        )
        self._size = 0
        self._open = True

    async def chunk(self) -> bytes:
        """The next bytes of the body; empty at its end.

        Raises:
            GatewayError: ConnectionFailed, RequestTimeout or MalformedResponse.
        """
        if self._unreadable:
            raise MalformedResponse(self._unreadable, status=self.status)
        try:
            if (
                self._now() < self._timer_needed_from
            ):  # a timer for each chunk takes a fifth of a stream's time
                return await self._next_chunk()
            async with asyncio.timeout_at(self._limits.deadline):
                return await self._next_chunk()
        except LIBRARY_ERRORS as error:
            raise gateway_error(error, self._host, self._limits.timeouts) from error

    async def _next_chunk(self) -> bytes:
        async for chunk in self._body:
            if chunk:  # an empty chunk is not the end
                self._count(chunk)
                return chunk
        return b""

    async def read(self) -> bytes:
        """The whole body.

        Of an error with an unreadable body, a sentence that says so: its status still tells what
        failed.

        Raises:
            GatewayError: ConnectionFailed, RequestTimeout or MalformedResponse.
        """
        if self._unreadable and self.status != 200:
            return self._unreadable.encode()
        pieces = []
        while piece := await self.chunk():
            pieces.append(piece)
        return b"".join(pieces)

    def _count(self, chunk: bytes) -> None:
        self._size += len(chunk)
        limit = self._limits.max_reply_bytes
        if self._size > limit:
            raise MalformedResponse(
                f"{self._host} sent a reply of more than {limit:,} bytes. If that is intended, pass a larger "
                "max_reply_bytes=… to Gateway.",
                status=self.status,
            )

    async def aclose(self) -> None:
        """Return the connection to its pool if the whole body was read; otherwise close it."""
        if not self._open:
            return
        self._open = False
        try:
            with suppress(
                *LIBRARY_ERRORS
            ):  # an error while closing changes nothing about the reply
                await self._response.aclose()
        finally:
            self._on_close()

    def __del__(self) -> None:
        if getattr(self, "_open", False):  # a stream that was dropped unread must not hold its slot
            self._on_close()


def gateway_error(error: Exception, host: str, timeouts: Timeouts) -> GatewayError:
    """Convert one of `LIBRARY_ERRORS` to an error of the gateway."""
    reason = str(error) or type(error).__name__
    match error:
        case TimeoutError():
            return RequestTimeout(f"No complete reply within {timeouts.total} s. Raise timeout=…")
        case httpx.InvalidURL() | httpx.UnsupportedProtocol() | UnicodeError():
            return ConfigurationError(f"The base URL cannot be used: {reason}.")
        case httpx.ConnectTimeout():
            return RequestTimeout(
                f"{host} did not accept the connection in time. Is it up? Raise timeout=…"
            )
        case httpx.TimeoutException():
            return RequestTimeout(
                f"{host} stopped responding before the reply was complete. Raise timeout=…"
            )
        case httpx.ConnectError():
            return ConnectionFailed(
                f"Could not connect to {host} ({reason}). Check the base URL, and that it is up."
            )
    return ConnectionFailed(f"The connection to {host} broke ({reason}).")
