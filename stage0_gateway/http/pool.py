"""`Pool`: a transport that opens one httpx connection for each concurrent request.

httpx's own pool compares all its requests with all its connections, which takes quadratic time.
Here each connection is an httpx transport of its own, and the most recently used idle one sends the
next request. `client.py` uses the pool as the default transport. Proxies (HTTP_PROXY, NO_PROXY) and
certificates (SSL_CERT_FILE) are read from the environment.

A connection is closed if the server sent more than its reply. Otherwise the surplus would be read
as the reply to the next request. Not detected: surplus that arrives after the next request was
sent; surplus over an unencrypted connection that arrives together with a reply and begins exactly
at the end of a read of 64 KiB.
"""

import logging
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast
from urllib.request import getproxies, proxy_bypass

import httpx

from stage0_gateway.errors import ConfigurationError

KEEP_ALIVE = 5.0
"""Seconds until an idle connection is closed; many servers close it soon after that."""

_Idle = deque[tuple[float, httpx.AsyncHTTPTransport]]


class Pool(httpx.AsyncBaseTransport):
    """Connections for any number of concurrent requests, in one event loop."""

    def __init__(self) -> None:
        self._ssl_context = httpx.create_ssl_context()  # takes 20 ms, so all connections share it
        self._idle: dict[tuple[str, str, int | None], _Idle] = {}
        self._closed = False
        logging.getLogger("httpcore.http11").addFilter(_keep_event_name)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request over an idle or a new connection.

        Closing the response returns the connection to the pool.
        """
        url = request.url
        idle = self._idle.setdefault((url.scheme, url.host, url.port), deque())
        if idle:
            transport = idle.pop()[1]
        else:
            transport = self._new_transport(url)
            request.extensions = {**request.extensions, "trace": _trace_handshake()}
        try:
            response = await transport.handle_async_request(request)
        except BaseException:
            await transport.aclose()
            raise
        response.stream = _PooledBody(self, idle, transport, response)
        return response

    def _new_transport(self, url: httpx.URL) -> httpx.AsyncHTTPTransport:
        context = self._ssl_context
        one = httpx.Limits(max_connections=1, keepalive_expiry=KEEP_ALIVE)
        try:
            return httpx.AsyncHTTPTransport(verify=context, limits=one, proxy=_proxy_for(url))
        except (ValueError, ImportError, httpx.InvalidURL) as error:
            raise invalid_environment(error) from None

    async def put_back(
        self, idle: _Idle, transport: httpx.AsyncHTTPTransport, network_stream: Any
    ) -> None:
        """Store a connection for the next request, and close those that were idle too long."""
        if self._closed or _has_surplus(transport, network_stream):
            await transport.aclose()
            return
        idle.append((time.monotonic(), transport))
        while idle[0][0] < idle[-1][0] - KEEP_ALIVE:
            await idle.popleft()[1].aclose()

    async def aclose(self) -> None:
        """Close the idle connections now, and the others when their responses are closed."""
        self._closed = True
        for idle in self._idle.values():
            while idle:
                await idle.pop()[1].aclose()


def _keep_event_name(record: logging.LogRecord) -> bool:
    """Shorten a log record of httpcore to its event: the values may contain a key."""
    record.msg = str(record.msg).partition(" ")[0]
    return True


def _trace_handshake() -> Callable[[str, dict[str, Any]], Awaitable[None]]:
    """Return a trace extension that closes the socket if the TLS handshake is cancelled."""
    stream: Any = None

    async def trace(event: str, info: dict[str, Any]) -> None:
        nonlocal stream
        if event == "connection.connect_tcp.complete":
            stream = info["return_value"]
        elif event == "connection.start_tls.failed":
            await stream.aclose()

    return trace


class _PooledBody(httpx.AsyncByteStream):
    """The body of a response; closing it returns the connection to the pool."""

    def __init__(
        self, pool: Pool, idle: _Idle, transport: httpx.AsyncHTTPTransport, response: httpx.Response
    ) -> None:
        self._pool, self._idle, self._transport = pool, idle, transport
        self._body = cast("httpx.AsyncByteStream", response.stream)
        self._network_stream = response.extensions["network_stream"]

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._body.__aiter__()

    async def aclose(self) -> None:
        try:
            await self._body.aclose()
        except BaseException:
            await self._transport.aclose()
            raise
        await self._pool.put_back(self._idle, self._transport, self._network_stream)


def _has_surplus(transport: Any, network_stream: Any) -> bool:
    """Return whether bytes after the reply were received, or may have been."""
    # httpx and httpcore have no public name for the connection of a transport and its HTTP state.
    # If they rename these attributes, the result is True: each connection sends one request only.
    try:
        connection = transport._pool.connections[0]
        while not hasattr(connection, "_h11_state"):  # a proxy adds a level
            connection = connection._connection
        if connection._h11_state.trailing_data[0]:
            return True
    except (AttributeError, IndexError):
        return True
    tls: ssl.SSLObject | None = network_stream.get_extra_info("ssl_object")
    if tls is None:
        return False
    try:
        tls.read(1)  # reads from its buffer without waiting
    except ssl.SSLWantReadError:
        return False
    except ssl.SSLError:
        pass
    return True


def invalid_environment(error: Exception) -> ConfigurationError:
    """Return the error for invalid settings in the environment.

    The text omits a proxy's URL, which may contain a password.
    """
    reason = str(error) if isinstance(error, ImportError | OSError) else type(error).__name__
    return ConfigurationError(
        f"The network settings of the environment are invalid ({reason}). "
        "Check HTTP_PROXY and SSL_CERT_FILE."
    )


def _proxy_for(url: httpx.URL) -> str | None:
    """Return the proxy that the environment configures for a URL."""
    if proxy_bypass(url.host) or proxy_bypass(f"{url.host}:{url.port}"):
        return None
    proxies = getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all") or None
    return proxy if proxy is None or "://" in proxy else f"http://{proxy}"
