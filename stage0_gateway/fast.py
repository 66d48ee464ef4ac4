"""Connections of the `aiohttp` library, whose parser is written in C: the extra `[fast]`.

A long stream costs a quarter less over them; a request in one piece costs what it does over our own.

`httpx-aiohttp` makes them look like httpx's; this makes them behave like our own: no cookies, no limit but
the gateway's, large headers, and errors that say what happened and never show a URL, which may hold a key.
Used by `connection.py` where the library is installed.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import cast

import aiohttp
import httpx
from aiohttp.client_proto import ResponseHandler
from httpx_aiohttp import AiohttpTransport

_MOST_HEADER = 65536  # bytes of one header line


class FastTransport(httpx.AsyncBaseTransport):
    """A pool of aiohttp's connections, for one event loop.

    Args:
        kept: Seconds an idle connection is kept.
    """

    def __init__(self, kept: float) -> None:
        self._context = httpx.create_ssl_context()
        self._kept = kept
        self._transport = AiohttpTransport(verify=self._context, client=self._session)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; closing the response gives the connection back."""
        with _said_plainly():
            response = cast("httpx.Response", await self._transport.handle_async_request(request))
        response.stream = _Body(cast("httpx.AsyncByteStream", response.stream))
        return response

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    def _session(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=self._kept, ssl=self._context)
        connector._factory = partial(_Protocol, loop=asyncio.get_running_loop())
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            max_field_size=_MOST_HEADER,
            max_line_size=_MOST_HEADER,
        )


class _Protocol(ResponseHandler):
    """A connection whose reset is an error of the body it interrupts.

    aiohttp ends a body without a length at a reset as at a proper close.
    """

    def connection_lost(self, exc: BaseException | None) -> None:
        """Pass the error to the body that is being read."""
        if exc is not None and self._payload is not None and not self._payload.is_eof():
            self._payload.set_exception(aiohttp.ClientPayloadError(str(exc)), exc)
        super().connection_lost(exc)


class _Body(httpx.AsyncByteStream):
    def __init__(self, body: httpx.AsyncByteStream) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _said_plainly():
            async for chunk in self._body:
                yield chunk

    async def aclose(self) -> None:
        with _said_plainly():
            await self._body.aclose()


@contextmanager
def _said_plainly() -> Iterator[None]:
    """Errors as httpx's own connections raise them; the adapter calls most of them a timeout."""
    try:
        yield
    except aiohttp.ClientResponseError as error:
        # Its own text holds the whole URL, and what the server sent.
        raise httpx.RemoteProtocolError(error.message.partition("\n")[0][:200]) from None
    except httpx.ConnectTimeout as error:
        why = error.__cause__
        if why is None or isinstance(why, TimeoutError):
            raise
        if isinstance(why, aiohttp.ClientConnectorError):
            raise httpx.ConnectError(str(why)) from why
        if isinstance(why, aiohttp.ServerDisconnectedError):
            raise httpx.RemoteProtocolError("Server disconnected without sending a response.") from why
        raise httpx.ReadError(str(why)) from why
