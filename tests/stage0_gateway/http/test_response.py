import asyncio

import httpx
import pytest

from stage0_gateway import (
    ConfigurationError,
    ConnectionFailed,
    MalformedResponse,
    RequestTimeout,
    Timeouts,
)
from stage0_gateway.http.client import HttpClient
from stage0_gateway.http.response import HttpResponse


class Body(httpx.AsyncByteStream):
    """Sends its chunks one by one; an exception among them is raised, and None waits forever."""

    def __init__(self, chunks, breaks=None):
        self.chunks, self.breaks, self.closed = chunks, breaks, 0

    async def __aiter__(self):
        for chunk in self.chunks:
            if isinstance(chunk, Exception):
                raise chunk
            if chunk is None:
                await asyncio.Event().wait()
            yield chunk

    async def aclose(self):
        self.closed += 1
        if self.breaks:
            raise self.breaks


async def exchange(body, timeouts=None, max_concurrency=None, **answer):
    transport = httpx.MockTransport(lambda request: httpx.Response(200, stream=body, **answer))
    connection = HttpClient(transport, timeouts or Timeouts(), max_concurrency)
    return await connection.post("http://host.test/v1", {}, b"{}")


async def chunks(opened):
    return [chunk async for chunk in _until_empty(opened)]


async def _until_empty(opened):
    while chunk := await opened.chunk():
        yield chunk


async def test_chunks_are_returned_as_they_arrive_and_the_end_is_an_empty_chunk():
    opened = await exchange(Body([b"a", b"bc"]), headers={"X-Request-Id": "7"})
    assert (opened.status, opened.headers["x-request-id"]) == (200, "7")
    assert [await opened.chunk() for _ in range(4)] == [b"a", b"bc", b"", b""]


async def test_the_body_can_be_read_at_once():
    assert await (await exchange(Body([b"a", b"", b"bc"]))).read() == b"abc"


@pytest.mark.parametrize(
    "timeouts", [Timeouts(), Timeouts(total=5.0)], ids=["by default", "with a total timeout"]
)
async def test_an_empty_chunk_is_not_the_end(timeouts):
    opened = await exchange(Body([b"", b"a", b"", b"b", b""]), timeouts)
    assert await chunks(opened) == [b"a", b"b"]


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (
            httpx.ReadError("reset"),
            ConnectionFailed,
            r"The connection to host\.test broke \(reset\)",
        ),
        (
            httpx.ReadTimeout(""),
            RequestTimeout,
            r"host\.test stopped responding before the reply was complete",
        ),
        (httpx.StreamClosed(), ConnectionFailed, r"The connection to host\.test broke"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
async def test_a_truncated_body_is_a_gateway_error(error, kind, message):
    opened = await exchange(Body([b"a", error]))
    assert await opened.chunk() == b"a"
    with pytest.raises(kind, match=message):
        await opened.chunk()
    whole = await exchange(Body([b"a", error]))
    with pytest.raises(kind, match=message):
        await whole.read()


@pytest.mark.parametrize("method", ["chunk", "read"])
async def test_the_total_timeout_applies_while_the_body_is_read(method):
    opened = await exchange(Body([None]), Timeouts(total=0.01))
    with pytest.raises(RequestTimeout, match=r"No complete reply from host\.test within 0\.01 s"):
        await getattr(opened, method)()


@pytest.mark.parametrize("method", [chunks, HttpResponse.read])
async def test_a_body_above_its_size_limit_is_malformed_over_any_transport(method):
    transport = httpx.MockTransport(
        lambda request: httpx.Response(200, stream=Body([b"abc", b"d"]))
    )
    short = await HttpClient(transport, Timeouts(), max_reply_bytes=4).post(
        "http://host.test/v1", {}, b"{}"
    )
    await method(short)
    long = await HttpClient(transport, Timeouts(), max_reply_bytes=3).post(
        "http://host.test/v1", {}, b"{}"
    )
    with pytest.raises(MalformedResponse, match=r"host\.test sent a reply of more than 3 bytes"):
        await method(long)


async def test_closing_twice_closes_the_connection_once_and_releases_one_slot():
    body = Body([b"a", None])
    transport = httpx.MockTransport(lambda request: httpx.Response(200, stream=body))
    connection = HttpClient(transport, Timeouts(), max_concurrency=1)
    first = await connection.post("http://host.test/v1", {}, b"{}")
    await first.aclose()
    await first.aclose()
    assert body.closed == 1
    second = await connection.post("http://host.test/v1", {}, b"{}")
    third = asyncio.create_task(connection.post("http://host.test/v1", {}, b"{}"))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not third.done()
    del second  # an unclosed response does not block the others
    assert (await third).status == 200


async def test_an_error_while_closing_is_ignored():
    body = Body([b"a", None], breaks=httpx.ReadError("reset"))
    opened = await exchange(body)
    await opened.aclose()
    assert body.closed == 1


@pytest.mark.parametrize("seconds", [0, -1.0])
@pytest.mark.parametrize("which", ["connect", "read", "total"])
def test_a_timeout_that_is_not_positive_is_rejected(which, seconds):
    with pytest.raises(
        ConfigurationError, match=r"must be more than 0 s, not .*; None is no limit"
    ):
        Timeouts(**{which: seconds})
