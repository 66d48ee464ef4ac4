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
    """Gives its chunks one after the other; an error is raised, and None never comes."""

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


async def test_the_body_comes_as_it_comes_and_ends_with_nothing():
    opened = await exchange(Body([b"a", b"bc"]), headers={"X-Request-Id": "7"})
    assert (opened.status, opened.headers["x-request-id"]) == (200, "7")
    assert [await opened.chunk() for _ in range(4)] == [b"a", b"bc", b"", b""]


async def test_the_body_can_be_read_whole():
    assert await (await exchange(Body([b"a", b"", b"bc"]))).read() == b"abc"


@pytest.mark.parametrize(
    "timeouts", [Timeouts(), Timeouts(total=5.0)], ids=["by default", "in a hurry"]
)
async def test_a_chunk_of_no_bytes_is_not_the_end(timeouts):
    opened = await exchange(Body([b"", b"a", b"", b"b", b""]), timeouts)
    assert await chunks(opened) == [b"a", b"b"]


@pytest.mark.parametrize(
    ("error", "kind", "said"),
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
async def test_a_body_that_breaks_off_is_a_gateway_error(error, kind, said):
    opened = await exchange(Body([b"a", error]))
    assert await opened.chunk() == b"a"
    with pytest.raises(kind, match=said):
        await opened.chunk()
    whole = await exchange(Body([b"a", error]))
    with pytest.raises(kind, match=said):
        await whole.read()


@pytest.mark.parametrize("way", ["chunk", "read"])
async def test_the_time_for_the_whole_ends_while_the_body_is_awaited(way):
    opened = await exchange(Body([None]), Timeouts(total=0.01))
    with pytest.raises(RequestTimeout, match=r"No complete reply from host\.test within 0\.01 s"):
        await getattr(opened, way)()


@pytest.mark.parametrize("way", [chunks, HttpResponse.read])
async def test_a_body_larger_than_its_limit_is_malformed_over_any_transport(way):
    transport = httpx.MockTransport(
        lambda request: httpx.Response(200, stream=Body([b"abc", b"d"]))
    )
    short = await HttpClient(transport, Timeouts(), max_reply_bytes=4).post(
        "http://host.test/v1", {}, b"{}"
    )
    await way(short)
    long = await HttpClient(transport, Timeouts(), max_reply_bytes=3).post(
        "http://host.test/v1", {}, b"{}"
    )
    with pytest.raises(MalformedResponse, match=r"host\.test sent a reply of more than 3 bytes"):
        await way(long)


async def test_closing_twice_hangs_up_once_and_frees_one_slot():
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
    del second  # one that is never closed does not block the others
    assert (await third).status == 200


async def test_an_error_while_closing_is_ignored():
    body = Body([b"a", None], breaks=httpx.ReadError("reset"))
    opened = await exchange(body)
    await opened.aclose()
    assert body.closed == 1


@pytest.mark.parametrize("seconds", [0, -1.0])
@pytest.mark.parametrize("which", ["connect", "read", "total"])
def test_a_timeout_of_no_seconds_is_refused(which, seconds):
    with pytest.raises(
        ConfigurationError, match=r"must be more than 0 s, not .*; None is no limit"
    ):
        Timeouts(**{which: seconds})
