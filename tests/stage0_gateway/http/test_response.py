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
from tests.stage0_gateway.servers import Answers, Body, run_other_tasks
from tests.tables import for_each

URL = "http://host.test/v1"


async def exchange(body, timeouts=None, **options):
    """Return an open response with this body."""
    client = HttpClient(Answers(body), timeouts or Timeouts(), **options)
    return await client.post(URL, {}, b"{}")


async def chunks(response):
    """Read the body of a response chunk by chunk."""
    found = []
    while chunk := await response.chunk():
        found.append(chunk)
    return found


async def test_chunks_are_returned_as_they_arrive_and_the_end_is_an_empty_chunk():
    headers = {"X-Request-Id": "7"}
    opened = await exchange(httpx.Response(200, headers=headers, stream=Body([b"a", b"bc"])))
    assert (opened.status, opened.headers["x-request-id"]) == (200, "7")
    assert [await opened.chunk() for _ in range(4)] == [b"a", b"bc", b"", b""]


async def test_the_body_can_be_read_at_once():
    assert await (await exchange([b"a", b"", b"bc"])).read() == b"abc"


@for_each("timeouts", [Timeouts(), Timeouts(total=5.0)])
async def test_an_empty_chunk_is_not_the_end(timeouts):
    opened = await exchange([b"", b"a", b"", b"b", b""], timeouts)
    assert await chunks(opened) == [b"a", b"b"]


@for_each(
    "error, kind, message",
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
)
async def test_a_truncated_body_is_a_gateway_error(error, kind, message):
    opened = await exchange([b"a", error])
    assert await opened.chunk() == b"a"
    with pytest.raises(kind, match=message):
        await opened.chunk()
    whole = await exchange([b"a", error])
    with pytest.raises(kind, match=message):
        await whole.read()


@for_each("method", ["chunk", "read"])
async def test_the_total_timeout_applies_while_the_body_is_read(method):
    opened = await exchange([None], Timeouts(total=0.01))
    with pytest.raises(RequestTimeout, match=r"No complete reply from host\.test within 0\.01 s"):
        await getattr(opened, method)()


@for_each("read", [chunks, HttpResponse.read])
async def test_a_body_above_its_size_limit_is_malformed_over_any_transport(read):
    await read(await exchange([b"abc", b"d"], max_reply_bytes=4))
    too_large = await exchange([b"abc", b"d"], max_reply_bytes=3)
    with pytest.raises(MalformedResponse, match=r"host\.test sent a reply of more than 3 bytes"):
        await read(too_large)


async def test_closing_twice_closes_the_connection_once_and_releases_one_slot():
    body = Body([b"a", None])
    client = HttpClient(Answers(body), Timeouts(), max_concurrency=1)
    first = await client.post(URL, {}, b"{}")
    await first.aclose()
    await first.aclose()
    assert body.closed == 1
    second = await client.post(URL, {}, b"{}")
    third = asyncio.create_task(client.post(URL, {}, b"{}"))
    await run_other_tasks()
    assert not third.done()
    del second  # an unclosed response does not block the others
    assert (await third).status == 200


async def test_an_error_while_closing_is_ignored():
    body = Body([b"a", None], at_close=httpx.ReadError("reset"))
    opened = await exchange(body)
    await opened.aclose()
    assert body.closed == 1


@for_each("seconds", [0, -1.0])
@for_each("which", ["connect", "read", "total"])
def test_a_timeout_that_is_not_positive_is_rejected(which, seconds):
    with pytest.raises(
        ConfigurationError, match=r"must be more than 0 s, not .*; None is no limit"
    ):
        Timeouts(**{which: seconds})
