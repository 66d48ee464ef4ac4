"""The one file that opens connections: bytes to a URL, status and bytes back.

Knows HTTP and nothing of models, messages or retries. Every failure of the line becomes an error of our
tree here, so that nobody above needs to know which HTTP library is used. Proxies (HTTP_PROXY, NO_PROXY)
and certificates (SSL_CERT_FILE) are taken from the environment when the first connection is opened.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx

from stage0_gateway.errors import ConfigurationError, ConnectionFailed, GatewayError, RequestTimeout


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
class HttpReply:
    """What a server sent back: status, headers (names in lower case) and body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Connection:
    """A pool of connections, opened when it is first used and closed by `aclose`.

    Args:
        transport: Stands in for the network: a scripted or embedded model, a test server. None is the network.
        timeouts: How long to wait.
    """

    def __init__(self, transport: httpx.AsyncBaseTransport | None, timeouts: Timeouts) -> None:
        self._transport = transport
        self._timeouts = timeouts
        self._client: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> HttpReply:
        """Send a body of JSON and wait for the whole answer.

        Raises:
            GatewayError: ConnectionFailed, RequestTimeout or ConfigurationError; any HTTP status is an answer.
        """
        try:
            client = self._open()
        except (httpx.InvalidURL, ImportError, OSError, ValueError) as error:
            # What a proxy's URL looks like is not told: there may be a password in it.
            why = str(error) if isinstance(error, ImportError | OSError) else type(error).__name__
            text = (
                f"No connection can be made with these settings ({why}). Check HTTP_PROXY and SSL_CERT_FILE."
            )
            raise ConfigurationError(text) from None
        try:
            async with asyncio.timeout(self._timeouts.total):
                reply = await client.post(
                    url, content=body, headers={"Content-Type": "application/json", **headers}
                )
        except TimeoutError:
            raise RequestTimeout(
                f"No complete answer within {self._timeouts.total} s. Raise timeout=…"
            ) from None
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            raise _as_ours(error, urlsplit(url).hostname or url) from error
        return HttpReply(reply.status_code, reply.headers, reply.content)

    async def aclose(self) -> None:
        """Close the connections; the next request would open new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()
        elif self._transport is not None:
            await self._transport.aclose()

    def _open(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        # Connections belong to the event loop that opened them: a second asyncio.run gets new ones.
        if self._client is None or self._loop is not loop:
            limit, kept = self._timeouts, httpx.Limits(max_connections=1000, max_keepalive_connections=100)
            timeout = httpx.Timeout(limit.read, connect=limit.connect)
            logging.getLogger("httpx").addFilter(_without_query)
            self._client = httpx.AsyncClient(transport=self._transport, timeout=timeout, limits=kept)
            self._loop = loop
        return self._client


def _without_query(record: logging.LogRecord) -> bool:
    """Keep what a query holds out of the HTTP library's own log; it logs each URL."""
    if isinstance(record.args, tuple):
        record.args = tuple(
            arg.copy_with(query=None) if isinstance(arg, httpx.URL) else arg for arg in record.args
        )
    return True


def _as_ours(error: Exception, host: str) -> GatewayError:
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
        case _:
            return ConnectionFailed(f"The connection to {host} broke ({why}).")
