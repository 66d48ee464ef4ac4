"""Converts an `Answer` to a response of httpx, without a network.

It behaves like a response from a network: chunks arrive one at a time, other tasks run between them, and a broken
connection raises the same error. Used by the offline and the scripted model, which are transports.
"""

import asyncio
from collections.abc import AsyncIterator

import httpx

from stage0_gateway.serve.answer import Answer


def as_response(answer: Answer) -> httpx.Response:
    """Return the response that httpx would have received.

    Raises:
        httpx.RemoteProtocolError: The connection breaks before the response begins.
    """
    if answer.status is None:
        raise httpx.RemoteProtocolError("Server disconnected without sending a response.")
    headers = {"Content-Type": answer.content_type, **answer.headers}
    if answer.is_stream or answer.is_cut:
        return httpx.Response(answer.status, headers=headers, stream=_Body(answer))
    return httpx.Response(answer.status, headers=headers, content=answer.body)


class _Body(httpx.AsyncByteStream):
    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._answer.chunks:
            await asyncio.sleep(0)  # as with a network: other tasks run, and a timeout can end it
            yield chunk
        if self._answer.is_cut:
            text = "peer closed connection without sending complete message body (incomplete chunked read)"
            raise httpx.RemoteProtocolError(text)
