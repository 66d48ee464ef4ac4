"""An `Answer` as the HTTP library's response: how a model inside this process is heard.

Nothing is opened and nothing leaves the process, but whoever reads cannot tell: chunks come one at a time,
others get their turn between them, and a line that breaks raises what a broken network raises. Used by the
embedded and the scripted model, which are transports.
"""

import asyncio
from collections.abc import AsyncIterator

import httpx

from stage0_gateway.serve.answer import Answer


def as_response(answer: Answer) -> httpx.Response:
    """What the HTTP library would have received.

    Raises:
        httpx.RemoteProtocolError: The line breaks before anything is said.
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
            await asyncio.sleep(0)  # as with a network: a timeout can end it, and others are not kept waiting
            yield chunk
        if self._answer.is_cut:
            text = "peer closed connection without sending complete message body (incomplete chunked read)"
            raise httpx.RemoteProtocolError(text)
