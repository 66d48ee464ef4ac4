"""One answer of a server, read in time: status, headers, and the body whole or as it comes.

Every failure of the line becomes an error of our tree here, so that nobody above needs to know which HTTP
library is used. Knows nothing of models or messages, and opens nothing: that is `connection.py`, which makes
these.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
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


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long we wait, in seconds; None waits for ever.

    Attributes:
        connect: For the connection to stand.
        read: For the next bytes to come.
        total: For the whole exchange, first byte sent to last byte read.
    """

    connect: float | None = 10.0
    read: float | None = 120.0
    total: float | None = 600.0

    def __post_init__(self) -> None:
        for seconds in (self.connect, self.read, self.total):
            if seconds is not None and seconds <= 0:
                raise ConfigurationError(f"A timeout of {seconds} s cannot be kept; None waits for ever.")


@dataclass(frozen=True, slots=True)
class Waiting:
    """One exchange's host and clock: how long it may still take, and whom an error is about."""

    host: str
    timeouts: Timeouts
    deadline: float | None

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn what the HTTP library raises into errors of our tree."""
        try:
            yield
        except LIBRARY_ERRORS as error:
            raise self.ours(error) from error

    def ours(self, error: Exception) -> GatewayError:
        """The error of our tree for one of the library's."""
        if isinstance(error, TimeoutError):
            return RequestTimeout(f"No complete answer within {self.timeouts.total} s. Raise timeout=…")
        return _translated(error, self.host)

    @property
    def safe_until(self) -> float:
        """Until when the time for the next bytes is over before the time for the whole is."""
        if self.deadline is None:
            return inf
        return -inf if self.timeouts.read is None else self.deadline - self.timeouts.read


class Exchange:
    """A server's answer to one request: status and headers (names in lower case), and the body as it comes.

    Must be closed, read to its end or not; only one that was read to its end leaves the connection usable.

    Args:
        response: The library's, its body not read yet.
        waiting: Its host and clock.
        on_close: Called once when it is closed.
    """

    def __init__(self, response: httpx.Response, waiting: Waiting, on_close: Callable[[], None]) -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self._response, self._waiting, self._on_close = response, waiting, on_close
        self._open = True
        self._time = asyncio.get_running_loop().time
        # What came unpacked is taken as it is; the library's own way there is four iterators long.
        packed = response.headers.get("content-encoding", "identity") != "identity"
        body = response.aiter_bytes() if packed else cast("httpx.AsyncByteStream", response.stream)
        self._safe_until = -inf if packed else waiting.safe_until  # many reads may unpack to nothing
        self._next: Callable[[], Awaitable[bytes]] = aiter(body).__anext__

    async def chunk(self) -> bytes:
        """The next bytes of the body; none at its end.

        Raises:
            GatewayError: ConnectionFailed, RequestTimeout or MalformedResponse.
        """
        try:
            if self._time() < self._safe_until:
                while not (chunk := await self._next()):
                    pass  # a chunk of nothing is not the end
                return chunk
            async with asyncio.timeout_at(self._waiting.deadline):
                while not (chunk := await self._next()):
                    pass
                return chunk
        except StopAsyncIteration:
            return b""
        except LIBRARY_ERRORS as error:
            raise self._waiting.ours(error) from error

    async def read(self) -> bytes:
        """The whole body.

        Raises:
            GatewayError: ConnectionFailed, RequestTimeout or MalformedResponse.
        """
        pieces = []
        while piece := await self.chunk():
            pieces.append(piece)
        return b"".join(pieces)

    async def aclose(self) -> None:
        """Give the connection back if nothing is left to read, else hang up."""
        if not self._open:
            return
        self._open = False
        try:
            with suppress(*LIBRARY_ERRORS):  # a line that breaks now changes nothing about what was said
                await self._response.aclose()
        finally:
            self._on_close()

    def __del__(self) -> None:
        if getattr(self, "_open", False):  # a stream that somebody dropped: its place must not be lost
            self._on_close()


LIBRARY_ERRORS = (TimeoutError, httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, UnicodeError)


def _translated(error: Exception, host: str) -> GatewayError:
    why = str(error) or type(error).__name__
    match error:
        case httpx.InvalidURL() | httpx.UnsupportedProtocol() | UnicodeError():
            return ConfigurationError(f"The base URL cannot be used: {why}.")
        case httpx.ConnectTimeout():
            return RequestTimeout(f"{host} did not take the connection in time. Is it up? Raise timeout=…")
        case httpx.TimeoutException():
            return RequestTimeout(f"{host} stopped sending before the answer was complete. Raise timeout=…")
        case httpx.ConnectError():
            return ConnectionFailed(
                f"Could not connect to {host} ({why}). Check the base URL, and that it is up."
            )
        case httpx.DecodingError():
            return MalformedResponse(f"{host} sent a body that cannot be unpacked ({why}).", status=200)
    return ConnectionFailed(f"The connection to {host} broke ({why}).")
