"""The connections of the extra `[fast]` behave like our own; skipped where it is not installed."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from stage0_gateway import ConnectionFailed, GatewayError, RequestTimeout, Timeouts
from stage0_gateway.connection import Connection

pytest.importorskip("httpx_aiohttp", reason="the extra [fast] (httpx-aiohttp) is not installed")

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"


@asynccontextmanager
async def answering(*answers, timeouts=None):
    """A connection and the URL of a server that gives these bytes, one answer for each request."""
    from stage0_gateway.fast import FastTransport

    waiting, heads = list(answers), []

    async def serve(reader, writer):
        while waiting:
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            await reader.readexactly(2)
            answer = waiting.pop(0)
            if answer is None:
                await asyncio.sleep(30)
            writer.write(answer)
            await writer.drain()
            if not answer.startswith(OK[:15]) or b"content-length" not in answer:
                break
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    connection = Connection(FastTransport(5.0), timeouts or Timeouts())
    try:
        yield connection, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1?key=sk-secret", heads
    finally:
        await connection.aclose()
        server.close()


async def body_of(connection, url):
    exchange = await connection.post(url, {}, b"{}")
    try:
        return await exchange.read()
    finally:
        await exchange.aclose()


async def test_an_answer_is_read_and_its_connection_used_again():
    async with answering(OK, OK) as (connection, url, heads):
        assert [await body_of(connection, url), await body_of(connection, url)] == [b"hi", b"hi"]
    assert len(heads) == 2


async def test_cookies_are_not_kept():
    cookie = OK.replace(b"\r\n\r\n", b"\r\nset-cookie: session=1\r\n\r\n", 1)
    async with answering(cookie, OK) as (connection, url, heads):
        await body_of(connection, url)
        await body_of(connection, url)
    assert b"cookie" not in heads[1].lower()


@pytest.mark.parametrize(
    "answer",
    [b"", b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\nhi", OK[:20]],
    ids=["nothing", "no HTTP", "a wrong header", "half a head"],
)
async def test_what_is_no_answer_is_a_failed_connection_without_the_url(answer):
    async with answering(answer) as (connection, url, _):
        with pytest.raises(ConnectionFailed, match=r"The connection to 127\.0\.0\.1 broke") as caught:
            await body_of(connection, url)
    assert "sk-secret" not in f"{caught.value} {caught.value.__cause__!r} {caught.value.__context__!r}"


async def test_a_refused_connection_is_no_timeout():
    async with answering() as (connection, _, _):
        with pytest.raises(ConnectionFailed, match=r"Could not connect to 127\.0\.0\.1"):
            await body_of(connection, "http://127.0.0.1:1/v1")


async def test_a_body_that_breaks_off_is_an_error_of_ours():
    async with answering(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhi") as (connection, url, _):
        with pytest.raises(GatewayError):
            await body_of(connection, url)


async def test_a_server_that_says_nothing_is_a_timeout():
    async with answering(None, timeouts=Timeouts(1.0, 0.05, 1.0)) as (connection, url, _):
        with pytest.raises(RequestTimeout):
            await body_of(connection, url)
