"""`HttpResponse`: one response of a server, read within its time and size limits.

This module converts every error of the HTTP library to a `GatewayError`, so the modules that use it
do not depend on that library. It knows no models and no messages, and opens no connections.
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import cast
from urllib.parse import urlsplit

import httpx

from stage0_gateway.errors import (
    ConfigurationError,
    ConnectionFailed,
    GatewayError,
    MalformedResponse,
    RequestTimeout,
)

LIBRARY_ERRORS = (
    *(TimeoutError, UnicodeError, ssl.SSLError),  # httpx does not convert all of them
    *(httpx.HTTPError, httpx.InvalidURL, httpx.StreamError),
)
"""The errors that a transport may raise."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Time limits of one request, in seconds; None is no limit.

    Attributes:
        connect: To open a connection.
        read: To send the request, and for each wait for more of the reply.
        total: For the request and its reply.
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


class HttpResponse:
    """A server's response: status, headers (names in lower case) and a body that is read once.

    It must be closed. The connection is reused only if the body was read to its end.

    Args:
        response: The HTTP library's response; its body was not read.
        url: The requested URL; error messages name its host and port.
        timeouts: The time limits of the request.
        deadline: The end of `timeouts.total` on the event loop's clock; None is never.
        max_bytes: The maximum size of the body.
        on_close: Called once when the response is closed.
    """

    def __init__(
        self,
        response: httpx.Response,
        url: str,
        timeouts: Timeouts,
        deadline: float | None,
        max_bytes: int,
        on_close: Callable[[], None],
    ) -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self._response, self._url, self._timeouts = response, url, timeouts
        self._deadline, self._max_bytes, self._on_close = deadline, max_bytes, on_close
        # From this time on, a wait of `timeouts.read` may exceed the deadline.
        self._timer_from = inf if deadline is None else deadline - (timeouts.read or inf)
        self._loop = asyncio.get_running_loop()
        self._encoding = response.headers.get("content-encoding", "").strip() or "identity"
        self._body = aiter(cast("httpx.AsyncByteStream", response.stream))
        self._size = 0
        self._open = True

    async def chunk(self) -> bytes:
        """Return the next bytes of the body, empty at its end, or raise a `GatewayError`."""
        if self._encoding.lower() != "identity":
            raise MalformedResponse(self._unreadable(), status=self.status)
        try:
            # A timer for each chunk would take a fifth of a stream's time.
            if self._loop.time() < self._timer_from:
                return await self._next_chunk()
            async with asyncio.timeout_at(self._deadline):
                return await self._next_chunk()
        except LIBRARY_ERRORS as error:
            raise gateway_error(error, self._url, self._timeouts) from error

    async def _next_chunk(self) -> bytes:
        async for chunk in self._body:
            if chunk:  # an empty chunk is not the end
                self._size += len(chunk)
                if self._size > self._max_bytes:
                    raise self._too_large()
                return chunk
        return b""

    async def read(self) -> bytes:
        """Return the whole body, or a sentence about the unreadable body of an error response."""
        if self._encoding.lower() != "identity" and self.status != 200:
            return self._unreadable().encode()
        pieces = []
        while piece := await self.chunk():
            pieces.append(piece)
        return b"".join(pieces)

    def _too_large(self) -> MalformedResponse:
        return MalformedResponse(
            f"{_server(self._url)} sent a reply of more than {self._max_bytes:,} bytes. "
            "To accept it, pass a larger max_reply_bytes=… to Gateway.",
            status=self.status,
        )

    def _unreadable(self) -> str:
        return (
            f"The body of this reply from {_server(self._url)} has the content encoding "
            f"{self._encoding!r}, which was not requested."
        )

    async def aclose(self) -> None:
        """Return the connection to its pool if the whole body was read; otherwise close it."""
        if not self._open:
            return
        self._open = False
        try:
            with suppress(*LIBRARY_ERRORS):  # the reply was read or dropped already
                await self._response.aclose()
        finally:
            self._on_close()

    def __del__(self) -> None:
        if getattr(self, "_open", False):  # a dropped stream must not hold its slot
            self._on_close()


def gateway_error(error: Exception, url: str, timeouts: Timeouts) -> GatewayError:
    """Convert one of `LIBRARY_ERRORS` to a `GatewayError` that names the server."""
    reason = str(error) or type(error).__name__
    if isinstance(error, (httpx.InvalidURL, httpx.UnsupportedProtocol, UnicodeError)):
        return ConfigurationError(f"The base URL cannot be used: {reason}.")
    server = _server(url)
    match error:
        case TimeoutError():
            text = f"No complete reply from {server} within {timeouts.total} s."
        case httpx.ConnectTimeout():
            text = f"{_address(url)} did not accept the connection in time. Is it up?"
        case httpx.TimeoutException():
            text = f"{server} stopped responding before the reply was complete."
        case httpx.ConnectError():
            return ConnectionFailed(
                f"Could not connect to {_address(url)} ({reason}). "
                "Check the base URL, and that the server is up."
            )
        case _:
            return ConnectionFailed(f"The connection to {server} broke ({reason}).")
    return RequestTimeout(f"{text} Raise timeout=…")


def _server(url: str) -> str:
    """Return the host of a URL, and its port if the URL contains one."""
    return urlsplit(url).netloc.rpartition("@")[2].rstrip(":")


def _address(url: str) -> str:
    """Return the host and the port of a URL."""
    parts = urlsplit(url)
    default_port = 443 if parts.scheme == "https" else 80
    return _server(url) if parts.port else f"{_server(url)}:{default_port}"
