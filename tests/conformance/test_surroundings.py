"""What surrounds a subject: a server whose answers break in defined ways, tools, and long texts."""

import asyncio

import httpx
import pytest

from tests.conformance.surroundings import Server, Tools, prepared

# ---- the server


async def body_of(answer):
    """The parts of the body that a client receives."""
    async with (
        Server([answer]).running() as url,
        httpx.AsyncClient() as client,
        client.stream("POST", url, json={}) as response,
    ):
        return [part async for part in response.aiter_raw()]


async def test_events_are_sent_as_lines_of_data():
    parts = await body_of({"events": [{"a": "ü"}, "[DONE]"]})
    assert b"".join(parts).decode() == 'data: {"a": "ü"}\n\ndata: [DONE]\n\n'


async def test_chunks_arrive_separately():
    assert await body_of({"chunks": [[195], [188], "\n"]}) == [b"\xc3", b"\xbc", b"\n"]


async def test_a_dropped_answer_breaks_the_connection():
    with pytest.raises(httpx.RemoteProtocolError):
        await body_of({"events": [{}], "drop": True})


async def test_the_method_the_path_and_the_body_of_a_request_are_recorded():
    server = Server([{"json": {}}])
    async with server.running() as url, httpx.AsyncClient() as client:
        await client.post(f"{url}/chat/completions", json={"a": 1})
    assert server.requests == [{"method": "POST", "path": "/v1/chat/completions", "body": {"a": 1}}]


async def test_the_tools_of_a_gateway_are_descriptions():
    tool = {"name": "f", "description": "", "parameters": {}}
    async with prepared({"tools": [tool]}, set()) as (arguments, seen):
        assert (arguments, seen) == ({"tools": [tool]}, {})


# ---- tools and texts


async def test_an_async_tool_returns_an_awaitable_and_counts_when_it_runs():
    tools = Tools([{"name": "f", "async": True, "behavior": {"returns": 1, "seconds": 0.01}}])
    first, second, unused = (tools.run("f", {}) for _ in range(3))
    assert tools.ran == []
    assert await asyncio.gather(first, second) == [1, 1]
    assert (len(tools.ran), tools.together) == (2, 2)
    del unused  # without a warning


async def test_an_async_tool_may_raise():
    tools = Tools([{"name": "f", "async": True, "behavior": {"raises": "no"}}])
    with pytest.raises(RuntimeError, match="no"):
        await tools.run("f", {})


async def test_a_long_text_is_described_by_its_parts():
    long = {"$text": [["ab", 2], ["c", 1]]}
    fields = {"text": long, "tools": [{"name": "f", "behavior": {"returns": long}}]}
    async with prepared(fields) as (arguments, _):
        assert arguments["text"] == arguments["run"]("f", {}) == "ababc"
        assert arguments["tools"] == [{"name": "f"}]
