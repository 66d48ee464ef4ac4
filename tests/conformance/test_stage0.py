"""What the cases of stage 0 need: a server whose answers break in defined ways, and free ids."""

import httpx
import pytest

from tests.conformance.case import failures_of, load_cases
from tests.conformance.surroundings import Server, prepared


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


@pytest.mark.parametrize(
    ("calls", "differ"),
    [
        ([{"id": "a"}, {"id": "b"}], True),
        ([{"id": "a"}, {"id": "a"}], False),
        ([{"id": "a"}, {}], False),
        (None, False),
    ],
)
def test_ids_may_be_free_but_different(calls, differ):
    assert (not list(failures_of({"at": "/calls", "distinct": "/id"}, {"calls": calls}))) is differ


async def test_the_method_the_path_and_the_body_of_a_request_are_recorded():
    server = Server([{"json": {}}])
    async with server.running() as url, httpx.AsyncClient() as client:
        await client.post(f"{url}/chat/completions", json={"a": 1})
    assert server.requests == [{"method": "POST", "path": "/v1/chat/completions", "body": {"a": 1}}]


async def test_the_tools_of_a_gateway_are_descriptions():
    tool = {"name": "f", "description": "", "parameters": {}}
    async with prepared({"tools": [tool]}, set()) as (arguments, seen):
        assert (arguments, seen) == ({"tools": [tool]}, {})


def test_the_cases_cover_three_wire_formats_in_both_directions():
    found = {(case.input.get("format", "openai"), case.operation) for case in load_cases("stage0")}
    formats, operations = ("openai", "anthropic", "gemini"), ("encode", "decode", "chat", "stream")
    assert found == {(format, operation) for format in formats for operation in operations}
