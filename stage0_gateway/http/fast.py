"""`FastTransport`: connections of the `aiohttp` library, with a parser in C (the extra `[fast]`).

`httpx-aiohttp` adapts aiohttp to httpx's transport interface. This module corrects its differences
from httpx's connections. The adapter reports refused and broken connections as timeouts, passes
some errors of aiohttp unconverted, returns cookies, allows 100 connections and has no time limit
for sending. Error texts never show a URL, which may contain a key. `client.py` uses this transport
if the adapter is installed.

A connection is closed if the server sent more than its reply; see `pool.py`. Not detected: surplus
that arrives after the next request was sent.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import aiohttp
import httpx
from aiohttp.client_proto import ResponseHandler
from httpx_aiohttp import AiohttpTransport

from stage0_gateway.http.pool import KEEP_ALIVE

_MAX_HEADER_BYTES = 65536  # of one header line
_MAX_UNSTREAMED = 2**20  # bytes of a body; aiohttp warns about larger ones


class FastTransport(httpx.AsyncBaseTransport):
    """A pool of aiohttp connections, for one event loop."""

    def __init__(self) -> None:
        self._ssl_context = httpx.create_ssl_context()
        self._transport = AiohttpTransport(verify=self._ssl_context, client=self._new_session)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; closing the response returns its connection to the pool."""
        if len(request.content) > _MAX_UNSTREAMED:
            request = _with_unread_body(request)
        with _httpx_errors():
            response = cast("httpx.Response", await self._transport.handle_async_request(request))
        response.stream = _Body(cast("httpx.AsyncByteStream", response.stream))
        return response

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    def _new_session(self) -> aiohttp.ClientSession:
        context = self._ssl_context
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE, ssl=context)
        connector._factory = partial(_Protocol, loop=asyncio.get_running_loop())  # see _Protocol
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            max_field_size=_MAX_HEADER_BYTES,
            max_line_size=_MAX_HEADER_BYTES,
        )


class _Protocol(ResponseHandler):
    """A connection of aiohttp with stricter rules for its end and its reuse.

    aiohttp has no option for the class of its connections, so `_new_session` sets a private
    attribute of the connector. If aiohttp renames that, it uses its own class again, without these
    rules. The tests of transports detect it.
    """

    _body: aiohttp.StreamReader | None = None
    """The body of the final reply to the last request, as soon as its head has been read."""

    def set_response_params(self, **options: Any) -> None:
        """Start a request."""
        self._body = None
        super().set_response_params(**options)

    def feed_data(self, data: Any, size: int = 0) -> None:
        """Receive the head of a reply, and its body."""
        self._body = data[1] if data[0].code >= 200 else None
        super().feed_data(data, size)

    def data_received(self, data: bytes) -> None:
        """Parse bytes of a reply; close the connection if the reply was complete before."""
        if data and self._body is not None and self._body.is_eof():
            self.abort()
        else:
            super().data_received(data)

    def pause_writing(self) -> None:
        """Limit the time for sending; aiohttp has no such limit."""
        super().pause_writing()
        self.start_timeout()

    def resume_writing(self) -> None:
        """Restart the time limit."""
        super().resume_writing()
        self.start_timeout()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Report a reset to the reader of a body; aiohttp treats it as the end of the body."""
        if exc is not None and self._body is not None and not self._body.is_eof():
            self._body.set_exception(aiohttp.ClientPayloadError(str(exc)), exc)
        super().connection_lost(exc)

    def close(self) -> None:
        """Close the connection without waiting for the server to accept the written data."""
        self.abort()


class _Body(httpx.AsyncByteStream):
    """The body of a response, with httpx's errors."""

    def __init__(self, body: httpx.AsyncByteStream) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _httpx_errors():
            async for chunk in self._body:
                yield chunk

    async def aclose(self) -> None:
        with _httpx_errors():
            await self._body.aclose()


def _with_unread_body(request: httpx.Request) -> httpx.Request:
    """Return a request of which the adapter sends the stream, because its content was not read."""
    return type(request)(
        request.method,
        request.url,
        headers=request.headers,
        stream=request.stream,
        extensions=request.extensions,
    )


@contextmanager
def _httpx_errors() -> Iterator[None]:
    """Raise the errors that httpx's own connections would raise."""
    try:
        yield
    except aiohttp.ClientError as error:
        raise _converted(error) from None  # the original text may contain the URL
    except httpx.TransportError as error:
        raise _converted(error.__cause__) from None


def _converted(error: BaseException | None) -> httpx.TransportError:
    match error:
        case aiohttp.ConnectionTimeoutError():
            return httpx.ConnectTimeout("")
        case aiohttp.SocketTimeoutError():
            return httpx.ReadTimeout("")
        case aiohttp.ClientConnectorError():
            return httpx.ConnectError(str(error))
        case aiohttp.ServerDisconnectedError():
            return httpx.RemoteProtocolError("Server disconnected without sending a response.")
        case aiohttp.ClientResponseError():
            return httpx.RemoteProtocolError(_shortened(error.message))
        case aiohttp.ClientPayloadError():
            return httpx.RemoteProtocolError(_shortened(str(error)))
    return httpx.ReadError("Connection lost.")


def _shortened(text: str) -> str:
    return text.partition("\n")[0][:200]
