"""Which connection takes a request: bytes to a URL, an answer back.

Knows HTTP and nothing of models, messages or retries. httpx's own pool looks through all it has for every
request, which makes 256 requests at once four times as slow. So the connections are those of `direct.py`, and
httpx's own where those cannot be: through a proxy, or in an event loop that is not asyncio's. Where the
`httpx-aiohttp` library is installed (the extra `[fast]`), its connections are used instead. Proxies (HTTP_PROXY,
NO_PROXY) and certificates (SSL_CERT_FILE) are taken from the environment when a connection is opened.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from importlib.util import find_spec
from typing import cast
from urllib.request import getproxies, proxy_bypass

import httpx

from stage0_gateway.errors import ConfigurationError, RequestTimeout
from stage0_gateway.exchange import Exchange, Timeouts, Waiting

_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "*/*",
    "Accept-Encoding": "identity",  # a packed stream comes in fits and starts
    "User-Agent": "llm-stages",
}
_MOST_AT_ONCE = 1000  # where the caller sets no limit; each is an open file
_KEPT = 5.0  # seconds an idle connection is kept: many servers hang up after that


class QuietRequest(httpx.Request):
    """A request whose repr does not show the query of its URL, which may hold a key."""

    def __repr__(self) -> str:
        return f"<Request({self.method!r}, {str(self.url).partition('?')[0]!r})>"


class Connection:
    """The way to servers: opened when it is first used, closed by `aclose`.

    Args:
        transport: Stands in for the network: a scripted or embedded model, a test server. None is the network.
        timeouts: How long to wait.
        max_concurrency: The most requests that may be under way at once; the others wait their turn.
    """

    def __init__(
        self,
        transport: httpx.AsyncBaseTransport | None,
        timeouts: Timeouts,
        max_concurrency: int | None = None,
    ) -> None:
        self._given, self._timeouts = transport, timeouts
        self._at_once = max_concurrency or _MOST_AT_ONCE
        wait = {"connect": timeouts.connect, "read": timeouts.read, "write": timeouts.read, "pool": None}
        self._extensions = {"timeout": wait}
        self._urls: dict[str, tuple[httpx.URL, str]] = {}
        self._headers: dict[str, tuple[Mapping[str, str], list[tuple[bytes, bytes]]]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Exchange:
        """Send a body of JSON; returns when the server begins to answer.

        Raises:
            GatewayError: ConnectionFailed, RequestTimeout or ConfigurationError; any HTTP status is an answer.
        """
        transport, slots = self._open()
        await self._take(slots)
        try:
            return await self._send(transport, slots, url, headers, body)
        except BaseException:
            slots.release()
            raise

    async def _take(self, slots: asyncio.Semaphore) -> None:
        """Wait for one's turn, as long as for an exchange."""
        if not slots.locked():
            await slots.acquire()
            return
        try:
            async with asyncio.timeout(self._timeouts.total):
                await slots.acquire()
        except TimeoutError:
            raise RequestTimeout(
                f"Other requests took all {self._at_once} places for {self._timeouts.total} s. Is a stream left "
                "open? Close it, or raise max_concurrency."
            ) from None

    async def _send(
        self,
        transport: httpx.AsyncBaseTransport,
        slots: asyncio.Semaphore,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
    ) -> Exchange:
        total = self._timeouts.total
        deadline = None if total is None else asyncio.get_running_loop().time() + total
        waiting = Waiting(self._parsed(url)[1], self._timeouts, deadline)
        with waiting.errors():
            request = self._request(url, headers, body)
            async with asyncio.timeout_at(deadline):
                response = await transport.handle_async_request(request)
        return Exchange(response, waiting, slots.release)

    def _request(self, url: str, headers: Mapping[str, str], body: bytes) -> httpx.Request:
        request = QuietRequest(
            "POST",
            self._parsed(url)[0],
            headers=[*self._named(url, headers), (b"Content-Length", b"%d" % len(body))],
            stream=httpx.ByteStream(body),
            extensions=self._extensions,
        )
        request.read()  # a transport that replaces the network may use its content
        return request

    async def aclose(self) -> None:
        """Close the connections; the next request would open new ones."""
        used, self._loop = self._loop, None
        if self._given is not None:
            await self._given.aclose()
        elif used is not None:
            await self._transport.aclose()

    def _open(self) -> tuple[httpx.AsyncBaseTransport, asyncio.Semaphore]:
        loop = asyncio.get_running_loop()
        # Connections belong to the event loop that opened them: a second asyncio.run gets new ones.
        if self._loop is not loop:
            self._transport = self._given or _network()
            self._slots = asyncio.Semaphore(self._at_once)
            self._loop = loop
        return self._transport, self._slots

    def _named(self, url: str, headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
        """The headers as they are sent; for one URL they are nearly always the same."""
        given, made = self._headers.get(url, (None, []))
        if given is not headers:
            host = self._parsed(url)[0].netloc
            made = [(b"Host", host), *httpx.Headers({**_HEADERS, **headers}).raw]
            self._headers[url] = headers, made
        return made

    def _parsed(self, url: str) -> tuple[httpx.URL, str]:
        """The URL as the library wants it, and its host; there are few, and parsing one takes long."""
        if url not in self._urls:
            with Waiting("", self._timeouts, None).errors():
                place = httpx.URL(url)
                self._urls[url] = place, place.host
        return self._urls[url]


class Pool(httpx.AsyncBaseTransport):
    """As many connections as there are requests at once, each a transport that has one; for one event loop."""

    def __init__(self) -> None:
        self._context = httpx.create_ssl_context()  # takes 20 ms, so one for all
        self._context.set_alpn_protocols(["http/1.1"])
        self._idle: dict[tuple[str, str, int | None], _Idle] = {}
        self._closed = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request over the connection that was used last; closing the response gives it back."""
        idle = self._idle.setdefault(_origin(request.url), deque())
        transport = idle.pop()[1] if idle else self._new(request.url)
        try:
            response = await transport.handle_async_request(request)
        except BaseException:
            await transport.aclose()
            raise
        body = cast("httpx.AsyncByteStream", response.stream)
        response.stream = _Lent(body, self, idle, transport)
        return response

    async def take_back(self, idle: "_Idle", transport: httpx.AsyncBaseTransport) -> None:
        """Keep a connection, and close those that nobody wanted for long."""
        if self._closed:
            await transport.aclose()
            return
        idle.append((time.monotonic(), transport))
        while idle[0][0] < idle[-1][0] - _KEPT:
            await idle.popleft()[1].aclose()

    async def aclose(self) -> None:
        """Close what is idle now; what is lent is closed as it comes back."""
        self._closed = True
        for idle in self._idle.values():
            while idle:
                await idle.pop()[1].aclose()

    def _new(self, url: httpx.URL) -> httpx.AsyncBaseTransport:
        proxy = proxy_for(url)
        asyncios_own = isinstance(asyncio.get_running_loop(), asyncio.BaseEventLoop)
        if proxy is None and asyncios_own and url.scheme in ("http", "https"):
            from stage0_gateway.direct import DirectTransport

            return DirectTransport(self._context, _KEPT)
        one = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=_KEPT)
        try:
            return httpx.AsyncHTTPTransport(verify=self._context, limits=one, proxy=proxy)
        except (ValueError, ImportError, httpx.InvalidURL) as error:
            raise _unusable(error) from None


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


_Idle = deque[tuple[float, httpx.AsyncBaseTransport]]


class _Lent(httpx.AsyncByteStream):
    """The body of a response; closing it gives the connection back."""

    def __init__(
        self, body: httpx.AsyncByteStream, pool: Pool, idle: _Idle, transport: httpx.AsyncBaseTransport
    ) -> None:
        self._body, self._pool, self._idle, self._transport = body, pool, idle, transport

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._body.__aiter__()

    async def aclose(self) -> None:
        try:
            await self._body.aclose()
        except BaseException:
            await self._transport.aclose()
            raise
        await self._pool.take_back(self._idle, self._transport)


def _network() -> httpx.AsyncBaseTransport:
    try:
        if find_spec("httpx_aiohttp") and not getproxies():  # which it would pass by
            from stage0_gateway.fast import FastTransport

            return FastTransport(_KEPT)
        return Pool()
    except (ImportError, OSError, ValueError) as error:
        raise _unusable(error) from None


def _unusable(error: Exception) -> ConfigurationError:
    """What a proxy's URL looks like is not told: there may be a password in it."""
    why = str(error) if isinstance(error, ImportError | OSError) else type(error).__name__
    return ConfigurationError(
        f"No connection can be made with these settings ({why}). Check HTTP_PROXY and SSL_CERT_FILE."
    )


def proxy_for(url: httpx.URL) -> str | None:
    """The proxy that the environment names for a URL."""
    if proxy_bypass(url.host) or proxy_bypass(f"{url.host}:{url.port}"):
        return None
    proxies = getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all") or None
    return proxy if proxy is None or "://" in proxy else f"http://{proxy}"
