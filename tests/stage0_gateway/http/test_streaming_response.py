import json
import tracemalloc

import httpx
import pytest

from stage0_gateway import (
    ConnectionFailed,
    Gateway,
    GatewayError,
    InvalidRequest,
    MalformedResponse,
    RequestTimeout,
    ServerFailed,
    StreamInterrupted,
    Timeouts,
    ToolSpec,
)
from tests.stage0_gateway.replies import DONE, STOP, chunk, completion, event, failure, split, text
from tests.stage0_gateway.requests import QUESTION
from tests.stage0_gateway.servers import Answers, Body
from tests.tables import for_each


def streaming(*chunks, body=None, **options):
    """Return the stream of a reply whose body consists of these chunks."""
    transport = Answers(body or Body(chunks))
    return Gateway("openai:m", transport=transport, max_retries=0, **options).stream(QUESTION)


async def content(*chunks, **options):
    """Return the text of such a reply."""
    return (await streaming(*chunks, **options).final_message()).content


# ---- the end of a reply


@for_each(
    "chunks",
    [
        (text("yes"), STOP, DONE),
        (text("yes"), STOP),
        (text("yes"), DONE),
        (text("yes"), STOP, b"data: [DONE]"),
        (text("yes"), b"data:[DONE] \r\n\r\n"),
        (b"".join((text("yes"), STOP, DONE)),),
        (text("yes"), STOP, DONE, text("no")),
        (b"".join((text("yes"), STOP, DONE, text("no"), b"data: {")),),
        (text("yes"), STOP, DONE, b'data: {"choi'),
        (text("yes"), STOP, DONE, httpx.RemoteProtocolError("peer closed")),
        (text("yes"), STOP, DONE, httpx.ReadTimeout("")),
        (text("yes"), DONE, httpx.ReadError("reset")),
        (b": a comment\n\n", b"data:\n\n", b"event: ping\n\n", text("yes"), b"data: \n\n", STOP),
        (b" \r\n\n", text("yes"), STOP),
    ],
)
async def test_a_reply_is_complete_after_a_finish_reason_or_an_end_marker(chunks):
    assert await content(*chunks) == "yes"


@for_each(
    "chunks",
    [
        (text("ye"),),
        (text("ye"), b'data: {"choi'),
        (text("ye"), b"data: [DO"),
        (text("ye")[:-1],),
        (b'data: {"choi',),
        (text("ye"), STOP, text("s")[:-9]),
        (text("ye"), STOP, b"data: [DO"),
        (text("ye"), STOP, b"data: "),
        (text("ye"), STOP, b"dat"),
    ],
)
async def test_a_stream_that_ends_without_a_marker_is_interrupted(chunks):
    with pytest.raises(StreamInterrupted, match="ended before the reply was complete") as caught:
        await content(*chunks)
    assert caught.value.retryable is True


@for_each("chunks", [(), (b"\n\n",), (b": comment\n\n", b": another\n\n")])
async def test_a_stream_without_any_event_is_interrupted_before_it_began(chunks):
    stream = streaming(*chunks)
    with pytest.raises(StreamInterrupted, match="before it sent anything"):
        await stream.emitted("connect")


async def test_a_connection_that_breaks_in_the_middle_interrupts_the_stream():
    with pytest.raises(
        StreamInterrupted, match=r"broke \(reset\)\. The reply was not complete"
    ) as caught:
        await content(text("ye"), httpx.ReadError("reset"))
    assert isinstance(caught.value.__cause__, ConnectionFailed)


async def test_a_connection_that_breaks_before_the_first_event_interrupts_the_stream():
    with pytest.raises(GatewayError) as caught:
        await content(httpx.ReadError("reset"))
    assert (type(caught.value), caught.value.retryable) == (ConnectionFailed, True)


async def test_a_server_that_stops_sending_is_a_timeout():
    with pytest.raises(RequestTimeout, match="stopped responding"):
        await content(text("ye"), httpx.ReadTimeout(""))


async def test_the_total_timeout_ends_a_stream():
    with pytest.raises(
        RequestTimeout, match=r"No complete reply from api\.openai\.com within 0\.01 s"
    ):
        await content(text("ye"), None, timeout=Timeouts(total=0.01))


async def test_a_server_that_keeps_the_connection_open_does_not_delay_the_reply(monkeypatch):
    monkeypatch.setattr("stage0_gateway.http.streaming_response._GRACE", 0.01)
    assert await content(text("yes"), STOP, DONE, None) == "yes"


async def test_the_connection_to_a_server_that_never_stops_sending_is_closed():
    def endless():
        yield from (text("yes"), STOP, DONE)
        while True:
            yield b": and another thing\n\n"

    body = Body(endless())
    assert await content(body=body) == "yes"
    assert body.sent < 1000


async def test_an_error_while_closing_does_not_affect_the_reply():
    assert await content(text("yes"), STOP, DONE, httpx.ReadError("reset")) == "yes"
    broken = Body([text("yes"), STOP, DONE], at_close=httpx.ReadError("reset"))
    names = [event.name async for event in streaming(body=broken)]
    assert names[-3:] == ["message", "final_message", "end"]


# ---- bodies that are not a stream


@for_each("reason", ["stop", None])
async def test_a_whole_body_instead_of_a_stream_is_decoded(reason):
    body = json.dumps(completion(finish_reason=reason)).encode()
    chunks = b"\n " + body[:9], body[9:]
    names = [event.name async for event in streaming(*chunks)]
    assert await content(*chunks) == "yes"
    assert names[:2] == ["connect", "stream_event"]
    assert names[-4:] == ["content_block_stop", "message", "final_message", "end"]


@for_each(
    "body, kind, message",
    [
        (b'{"error": {"message": "no such model", "code": 404}}', InvalidRequest, "no such model"),
        (b'[{"choices": []}]', MalformedResponse, "It is a list"),
        (b'{"object": "list", "data": []}', MalformedResponse, "not a reply in the openai format"),
        (b"<!doctype html><p>Please log in</p>", MalformedResponse, "Please log in"),
        (b'{"choices": [{"mess', MalformedResponse, "not a JSON object"),
        (b'data: {"choices": 7}\n\n', MalformedResponse, "not a reply in the openai format"),
        (
            b"data: upstream error\n\n" + DONE,
            MalformedResponse,
            "not a JSON object: 'upstream error'",
        ),
        (b"data: [1]\n\n", MalformedResponse, "not a reply in the openai format"),
        (b"data: null\n\n", MalformedResponse, "not a JSON object: 'null'"),
        (b"data: " + b"[" * 100_000 + b"\n\n", MalformedResponse, "not a JSON object"),
        (b'data: {"error": {"message": "broken", "code": 500}}\n\n', ServerFailed, "broken"),
    ],
)
async def test_an_invalid_body_raises_an_error_with_the_servers_text(body, kind, message):
    with pytest.raises(kind) as caught:
        await content(body)
    assert message in str(caught.value)


async def test_an_error_in_a_stream_is_raised_after_the_text_before_it():
    stream = streaming(text("ye") + event(failure(code=500)) + text("s"))
    assert (await stream.emitted("text")).delta == "ye"
    with pytest.raises(ServerFailed, match="broken"):
        await stream.final_message()
    assert stream.current_message.text == "ye"


async def test_original_tool_names_are_restored_in_a_stream():
    tool = ToolSpec("weather.get", "")

    def answer(request):
        sent = json.loads(request.content)["tools"][0]["function"]["name"]
        call = {"index": 0, "id": "1", "function": {"name": sent, "arguments": "{}"}}
        return httpx.Response(200, content=event(chunk(tool_calls=[call])) + STOP)

    gateway = Gateway("openai:m", transport=httpx.MockTransport(answer))
    stream = gateway.stream(QUESTION, tools=[tool])
    events = [each async for each in stream.events("content_block_start", "tool_call")]
    assert (events[0].tool, events[1].tool_call.name) == ("weather.get", "weather.get")
    assert (await stream.final_message()).tool_calls[0].name == "weather.get"


# ---- long streams


@pytest.mark.parametrize("events", [30, pytest.param(3_000, marks=pytest.mark.long)])
async def test_events_that_arrive_byte_by_byte_are_read(events):
    long = text("x" * 60 * events) + text("y") * events + STOP
    body = Body(split(long, 1))
    assert len(await content(body=body)) == 61 * events
    assert body.sent == len(long)


@pytest.mark.parametrize("chunks", [60, pytest.param(1_000, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "names", [(), ("text",), None], ids=["no consumer", "text only", "everything"]
)
async def test_empty_events_of_a_long_stream_use_no_memory(names, chunks):
    empty = (b": ping\n\n" + text("")) * 20
    stream = streaming(body=Body([text("yes"), *[empty] * chunks, STOP, DONE]))
    tracemalloc.start()
    if names != ():
        async for _ in stream.events(*names or ()):
            pass
    assert (await stream.final_message()).content == "yes"
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50_000 < chunks * len(empty)
