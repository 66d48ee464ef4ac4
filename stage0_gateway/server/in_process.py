"""Convert an `Answer` to a response of httpx, without a network.

The response behaves like one from a network: chunks arrive one at a time, other tasks run between
them, and a broken connection raises the same error. The offline model, the scripted model and the
replayer are transports that use it.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable

import httpx

from stage0_gateway.server.answer import Answer

_CUT = "peer closed connection without sending complete message body (incomplete chunked read)"


def as_response(answer: Answer) -> httpx.Response:
    """Return the response that httpx would receive."""
    body = ChunkedBody(answer.chunks, httpx.RemoteProtocolError(_CUT) if answer.is_cut else None)
    return httpx.Response(answer.status, headers={"Content-Type": answer.content_type}, stream=body)


class ChunkedBody(httpx.AsyncByteStream):
    """A body that arrives in chunks.

    Args:
        chunks: The chunks.
        error: Raised after the last chunk; None for a complete body.
    """

    def __init__(self, chunks: Iterable[bytes], error: Exception | None) -> None:
        self._chunks = chunks
        self._error = error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            await asyncio.sleep(0)  # other tasks and timeouts run, as with a network
            yield chunk
        if self._error is not None:
            raise self._error
