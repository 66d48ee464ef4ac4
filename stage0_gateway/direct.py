"""Connections with nothing between the server and asyncio but httpcore: half of what httpx's own cost.

The same HTTP as in httpx's own connections (httpcore and h11), without the pool and the locks that httpx puts
around each, and with the bytes taken from asyncio by `line.py`. Addresses are tried in turn as asyncio does it.

Knows no proxies, no HTTP/2 and no event loop but asyncio's; `connection.py`, which uses it, takes httpx's own
connections there. Loaded with the first connection, since httpcore takes as long to import as httpx.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any, cast

import httpcore
import httpx

from stage0_gateway.line import Line

_NEXT_ADDRESS = 0.25  # seconds until the next of a host's addresses is tried as well
_FOREVER = 1e9  # seconds for the handshake alone: the time to connect is for all of it
_Address = tuple[Any, Any, int, str, Any]  # as `getaddrinfo` gives them


class DirectTransport(httpx.AsyncBaseTransport):
    """One connection to one server, opened when it is needed, and anew when the server has hung up.

    Args:
        context: How to encrypt, and whom to trust.
        kept: Seconds it is kept while idle.
    """

    def __init__(self, context: ssl.SSLContext, kept: float) -> None:
        self._context, self._kept = context, kept
        self._connection: httpcore.AsyncHTTP11Connection | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; the next must wait until the response is closed."""
        url = request.url
        asked = httpcore.Request(
            request.method,
            httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=cast("httpx.AsyncByteStream", request.stream),
            extensions=request.extensions,
        )
        with _as_httpx():
            connection = await self._ready(asked)
            answer = await connection.handle_async_request(asked)
        body = _Body(cast("httpx.AsyncByteStream", answer.stream))
        return httpx.Response(
            answer.status, headers=answer.headers, stream=body, extensions=answer.extensions
        )

    async def aclose(self) -> None:
        """Hang up."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.aclose()

    async def _ready(self, asked: httpcore.Request) -> httpcore.AsyncHTTP11Connection:
        if self._connection is not None:
            if self._connection.is_idle() and not self._connection.has_expired():
                return self._connection
            await self.aclose()
        to = asked.url.origin
        context = self._context if to.scheme == b"https" else None
        line = await _open(asked, to.host.decode("ascii"), to.port, context)
        self._connection = httpcore.AsyncHTTP11Connection(to, line, self._kept)
        return self._connection


class _Body(httpx.AsyncByteStream):
    def __init__(self, body: httpx.AsyncByteStream) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _as_httpx():
            async for chunk in self._body:
                yield chunk

    async def aclose(self) -> None:
        await self._body.aclose()


async def _open(asked: httpcore.Request, host: str, port: int, context: ssl.SSLContext | None) -> Line:
    try:
        async with asyncio.timeout(asked.extensions.get("timeout", {}).get("connect")):
            sock = await _reached(host, port)
            _, line = await asyncio.get_running_loop().create_connection(
                lambda: Line(tls=context is not None),
                sock=sock,
                ssl=context,
                server_hostname=(asked.extensions.get("sni_hostname") or host) if context else None,
                ssl_handshake_timeout=_FOREVER if context else None,
            )
            return line
    except TimeoutError as error:
        raise httpcore.ConnectTimeout from error
    except OSError as error:
        why = str(error) if isinstance(error, ssl.SSLError | socket.gaierror) else ""
        raise httpcore.ConnectError(why) from error


async def _reached(host: str, port: int) -> socket.socket:
    """A socket to the first of a host's addresses that answers; each is tried a little after the one before.

    asyncio can do that too, but leaves a socket open where it is cancelled at the wrong moment.
    """
    tries: list[asyncio.Task[socket.socket]] = []
    waiting: set[asyncio.Task[socket.socket]] = set()
    try:
        addresses = await _addresses(host, port)
        for number, address in enumerate(addresses, 1):
            tries.append(asyncio.create_task(_connected(address)))
            waiting.add(tries[-1])
            while waiting:
                delay = _NEXT_ADDRESS if number < len(addresses) else None
                done, waiting = await asyncio.wait(waiting, timeout=delay, return_when="FIRST_COMPLETED")
                for each in done:
                    if each.exception() is None:
                        tries.remove(each)
                        return each.result()
                if delay is not None:
                    break
        raise httpcore.ConnectError("All connection attempts failed") from tries[0].exception()
    finally:
        for each in tries:
            if not each.cancel() and not each.cancelled() and each.exception() is None:
                each.result().close()


async def _addresses(host: str, port: int) -> list[_Address]:
    """Where a host can be reached, the two kinds of addresses in turn."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    kinds = dict.fromkeys(each[0] for each in found)
    in_turn = zip_longest(*([each for each in found if each[0] == kind] for kind in kinds))
    return [each for row in in_turn for each in row if each is not None]


async def _connected(address: _Address) -> socket.socket:
    family, kind, protocol, _, place = address
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, place)
    except BaseException:
        sock.close()
        raise
    return sock


@contextmanager
def _as_httpx() -> Iterator[None]:
    """Errors of httpcore as httpx's, which bear the same names."""
    try:
        yield
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
        raise getattr(httpx, type(error).__name__)(str(error)) from error
