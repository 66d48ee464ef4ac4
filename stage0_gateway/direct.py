"""Connections with nothing between the server and asyncio but h11: half of what httpx's own cost.

h11 is what httpx speaks HTTP/1.1 with, too (`talk.py`); here are neither the pool nor the locks that stand around it
there, for a connection is lent to one request at a time. Addresses are tried in turn as asyncio does it.

Knows no proxies, no HTTP/2 and no event loop but asyncio's; `connection.py`, which uses it, takes httpx's own
connections there. Loaded with the first connection, since httpcore, whose errors are used, takes long to import.
"""

import asyncio
import socket
import ssl
from itertools import zip_longest
from typing import Any

import httpcore
import httpx

from stage0_gateway.line import Line
from stage0_gateway.talk import Talk, as_httpx

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
        self._talk: Talk | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; the next must wait until the response is closed."""
        with as_httpx():
            talk = await self._ready(request)
            return await talk.ask(request)

    async def aclose(self) -> None:
        """Hang up."""
        talk, self._talk = self._talk, None
        if talk is not None:
            await talk.aclose()

    async def _ready(self, request: httpx.Request) -> Talk:
        if self._talk is not None:
            if self._talk.may_go_on:
                return self._talk
            await self.aclose()
        self._talk = Talk(await _open(request, self._context), self._kept)
        return self._talk


async def _open(request: httpx.Request, trust: ssl.SSLContext) -> Line:
    url, asked = request.url, request.extensions
    host, encrypted = url.raw_host.decode("ascii"), url.scheme == "https"
    context = trust if encrypted else None
    port = url.port or (443 if encrypted else 80)
    try:
        async with asyncio.timeout(asked.get("timeout", {}).get("connect")):
            sock = await _reached(host, port)
            _, line = await asyncio.get_running_loop().create_connection(
                lambda: Line(tls=context is not None),
                sock=sock,
                ssl=context,
                server_hostname=(asked.get("sni_hostname") or host) if context else None,
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
