"""`Connection`: posts bytes to a URL and returns the server's reply.

Limits how many requests run at once, and selects the transport: the caller's own; the extra
`[fast]` (`fast.py`) where it is installed and the environment configures no proxy; otherwise
`pool.py`. Knows HTTP and nothing of models, messages or retries.
"""

import asyncio
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from urllib.request import getproxies

import httpx

from stage0_gateway.errors import RequestTimeout
from stage0_gateway.http.pool import Pool, invalid_environment
from stage0_gateway.http.response import LIBRARY_ERRORS, Exchange, Limits, Timeouts, gateway_error

MAX_REPLY_BYTES = 64_000_000
_MAX_CONCURRENCY = 1000  # where the caller sets no limit; each connection is an open file
_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "*/*",
    "Accept-Encoding": "identity",  # a compressed stream arrives in bursts
    "User-Agent": "llm-stages",
}


class QuietRequest(httpx.Request):
    """A request whose repr does not show the query of its URL, which may hold a key."""

    def __repr__(self) -> str:
        return f"<Request({self.method!r}, {str(self.url).partition('?')[0]!r})>"


class Connection:
    """Sends requests; opens its transport with the first one.

    Args:
        transport: Replaces the network: a scripted or embedded model, a test server. None is the
            network.
        timeouts: The time limits of each exchange.
        max_concurrency: The maximum number of exchanges that are open at once; further requests
            wait.
        max_reply_bytes: The maximum size of a reply's body.
    """

    def __init__(
        self,
        transport: httpx.AsyncBaseTransport | None,
        timeouts: Timeouts,
        max_concurrency: int | None = None,
        max_reply_bytes: int = MAX_REPLY_BYTES,
    ) -> None:
        self._given, self._timeouts = transport, timeouts
        self._max_concurrency = max_concurrency or _MAX_CONCURRENCY
        self._max_reply_bytes = max_reply_bytes
        # Parsed once. No local variable holds one, because a traceback would show its key.
        self._prepared: dict[tuple[str, ...], tuple[httpx.URL, httpx.Headers]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Exchange:
        """Send a body of JSON; returns when the head of the reply has arrived.

        Raises:
            GatewayError: ConnectionFailed, RequestTimeout or ConfigurationError; any HTTP status is
                a reply.
        """
        transport, slots = self._open()
        await self._acquire(slots)
        try:
            return await self._send(transport, url, headers, body, slots.release)
        except BaseException:
            slots.release()
            raise

    async def _acquire(self, slots: asyncio.Semaphore) -> None:
        """Wait for a free slot, at most as long as for an exchange."""
        if not slots.locked():
            await slots.acquire()
            return
        try:
            async with asyncio.timeout(self._timeouts.total):
                await slots.acquire()
        except TimeoutError:
            raise RequestTimeout(
                f"All {self._max_concurrency} slots were in use for {self._timeouts.total} s. Is a stream left "
                "open? Close it, or raise max_concurrency."
            ) from None

    async def _send(
        self,
        transport: httpx.AsyncBaseTransport,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        on_close: Callable[[], None],
    ) -> Exchange:
        timeouts = self._timeouts
        deadline = (
            None if timeouts.total is None else asyncio.get_running_loop().time() + timeouts.total
        )
        waits = {
            "connect": timeouts.connect,
            "read": timeouts.read,
            "write": timeouts.read,
            "pool": None,
        }
        host = ""
        try:
            request = self._request(url, headers, body)
            host = request.url.host
            request.extensions["timeout"] = waits
            async with asyncio.timeout_at(deadline):
                response = await transport.handle_async_request(request)
        except LIBRARY_ERRORS as error:
            raise gateway_error(error, host, timeouts) from error
        return Exchange(response, host, Limits(timeouts, deadline, self._max_reply_bytes), on_close)

    def _request(self, url: str, headers: Mapping[str, str], body: bytes) -> httpx.Request:
        """A request as httpx makes it from `content=body`, with a URL and headers that were parsed once."""
        key = url, *headers.values()
        if key not in self._prepared:
            example = httpx.Request("POST", url, headers={**_HEADERS, **headers})
            self._prepared[key] = example.url, example.headers
        parsed, prepared = self._prepared[key]
        request = QuietRequest("POST", parsed, headers=prepared, stream=httpx.ByteStream(body))
        request.headers["Content-Length"] = str(len(body))
        request.read()
        return request

    def _open(self) -> tuple[httpx.AsyncBaseTransport, asyncio.Semaphore]:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # connections belong to the event loop that opened them
            self._transport = self._given or _network_transport()
            self._slots = asyncio.Semaphore(self._max_concurrency)
            self._loop = loop
        return self._transport, self._slots

    async def aclose(self) -> None:
        """Close the transport; the next request opens a new one."""
        opened = self._loop is not None
        self._loop = None
        if self._given is not None:
            await self._given.aclose()
        elif opened:
            await self._transport.aclose()


def _network_transport() -> httpx.AsyncBaseTransport:
    try:
        if find_spec("httpx_aiohttp") and not getproxies():  # it does not support proxies
            from stage0_gateway.http.fast import FastTransport

            return FastTransport()
        return Pool()
    except (ImportError, OSError, ValueError) as error:
        raise invalid_environment(error) from None
