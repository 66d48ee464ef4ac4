"""`HttpClient`: posts a body to a URL and returns the server's response.

The client limits the number of concurrent requests and selects the transport: the caller's own; the
aiohttp connections of `fast.py` if the extra `[fast]` is installed and the environment configures
no proxy; otherwise `pool.py`. It knows no models, messages or retries.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from importlib.util import find_spec
from urllib.request import getproxies

import httpx

from stage0_gateway.errors import ConfigurationError, RequestTimeout
from stage0_gateway.http.pool import Pool, invalid_environment
from stage0_gateway.http.response import LIBRARY_ERRORS, HttpResponse, Timeouts, gateway_error

MAX_REPLY_BYTES = 64_000_000
_MAX_CONCURRENCY = 1000  # the default: each connection is an open file
_CLOSED = (
    "This gateway was closed, by aclose() or at the end of its `async with` block. Use it inside "
    "of the block, or open it again: `async with gateway:`."
)
_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "*/*",
    "Accept-Encoding": "identity",  # a compressed stream arrives in bursts
    "User-Agent": "llm-stages",
}


_Connections = tuple[httpx.AsyncBaseTransport, asyncio.Semaphore, AsyncGenerator[None, None]]
"""Of one event loop: the transport, the slots, and a generator that closes the transport."""


class QuietRequest(httpx.Request):
    """A request whose repr hides the query of its URL, which may contain a key."""

    def __repr__(self) -> str:
        return f"<Request({self.method!r}, {str(self.url).partition('?')[0]!r})>"


class HttpClient:
    """Sends requests. The transport is selected at once, and opened with the first request.

    Args:
        transport: Replaces the network; None is the network.
        timeouts: The time limits of each request.
        max_concurrency: The maximum number of open responses; further requests wait.
        max_reply_bytes: The maximum size of a reply's body.
    """

    def __init__(
        self,
        transport: httpx.AsyncBaseTransport | None,
        timeouts: Timeouts,
        max_concurrency: int | None = None,
        max_reply_bytes: int = MAX_REPLY_BYTES,
    ) -> None:
        self._custom_transport, self._timeouts = transport, timeouts
        self._new_transport = _network_transport() if transport is None else lambda: transport
        limits = httpx.Timeout(timeouts.read, connect=timeouts.connect, pool=None)
        self._phase_timeouts = limits.as_dict()
        self._max_concurrency = max_concurrency or _MAX_CONCURRENCY
        self._max_reply_bytes = max_reply_bytes
        self._heads: dict[tuple[str, ...], QuietRequest] = {}  # parsed URLs and headers
        self._open: dict[asyncio.AbstractEventLoop, _Connections] = {}
        self._entered: set[asyncio.AbstractEventLoop] = set()  # by `async with gateway:`
        self._is_closed = False

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> HttpResponse:
        """Send a JSON body, and return the response, of any status, when its head arrived."""
        loop, timeouts = asyncio.get_running_loop(), self._timeouts
        # Connections belong to the event loop that opened them.
        if self._is_closed or loop not in self._open:
            await self._open_transport(loop)
        transport, slots, _ = self._open[loop]
        if slots.locked():
            await self._wait_for_slot(slots)
        else:
            await slots.acquire()
        try:
            deadline = None if timeouts.total is None else loop.time() + timeouts.total
            key = (url, *headers.values())
            if (head := self._heads.get(key)) is None:  # parsing takes longer than sending
                head = self._heads[key] = QuietRequest("POST", url, headers={**_HEADERS, **headers})
            stream = httpx.ByteStream(body)
            request = QuietRequest("POST", head.url, headers=head.headers, stream=stream)
            request.headers["Content-Length"] = str(len(body))
            request.read()
            request.extensions["timeout"] = self._phase_timeouts
            async with asyncio.timeout_at(deadline):
                response = await transport.handle_async_request(request)
            max_bytes, release = self._max_reply_bytes, slots.release
            return HttpResponse(response, url, timeouts, deadline, max_bytes, release)
        except BaseException as error:
            slots.release()
            if isinstance(error, LIBRARY_ERRORS):
                raise gateway_error(error, url, timeouts) from error
            raise

    async def _open_transport(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._is_closed:
            raise ConfigurationError(_CLOSED)
        for other in [*self._open]:
            if other.is_closed():  # without closing its generators
                self._open.pop(other, None)
        try:
            transport = self._new_transport()
        except (ImportError, OSError, ValueError) as error:
            raise invalid_environment(error) from None
        slots, lifetime = asyncio.Semaphore(self._max_concurrency), self._close_at_end_of(loop)
        self._open[loop] = transport, slots, lifetime
        await anext(lifetime)

    async def _close_at_end_of(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[None, None]:
        """Close the connections when the event loop closes its generators: before its end."""
        try:
            yield
        finally:
            transport, *_ = self._open.pop(loop)
            if self._custom_transport is None:
                await transport.aclose()

    async def _wait_for_slot(self, slots: asyncio.Semaphore) -> None:
        """Wait for a slot, at most as long as for a reply."""
        try:
            async with asyncio.timeout(self._timeouts.total):
                await slots.acquire()
        except TimeoutError:
            raise RequestTimeout(
                f"All {self._max_concurrency} slots were in use for {self._timeouts.total} s. "
                "Is a stream left open? Close it, or raise max_concurrency."
            ) from None

    def enter(self) -> None:
        """Accept requests until `aclose`, also after an earlier one."""
        self._entered.add(asyncio.get_running_loop())
        self._is_closed = False

    async def aclose(self) -> None:
        """Close the transport. A later request raises a ConfigurationError.

        The connections of another event loop are closed when that loop ends. If it has entered the
        client, the client stays open.
        """
        self._entered.discard(asyncio.get_running_loop())
        self._is_closed = not self._entered
        if connections := self._open.get(asyncio.get_running_loop()):
            await connections[2].aclose()
        if self._custom_transport is not None:
            await self._custom_transport.aclose()


def _network_transport() -> Callable[[], httpx.AsyncBaseTransport]:
    """Return the class of the transport to the network."""
    if not find_spec("httpx_aiohttp") or getproxies():  # it does not support proxies
        return Pool
    try:
        from stage0_gateway.http.fast import FastTransport
    except ImportError as error:
        raise invalid_environment(error) from None
    return FastTransport
