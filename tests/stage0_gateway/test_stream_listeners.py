import asyncio
import json

import httpx
import pytest

from stage0_gateway import Gateway, StreamInterrupted

ASK = [{"role": "user", "content": "hi"}]


def chunks(*texts):
    pieces = [{"choices": [{"delta": {"content": text}}]} for text in texts]
    pieces.append({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    return [*(f"data: {json.dumps(piece)}\n\n".encode() for piece in pieces), b"data: [DONE]\n\n"]


class Body(httpx.AsyncByteStream):
    """Gives its chunks one after the other, and others their turn before each."""

    def __init__(self, chunks):
        self.chunks = chunks

    async def __aiter__(self):
        for chunk in self.chunks:
            await asyncio.sleep(0)
            yield chunk


def streaming(*texts, at_once=False):
    body = [b"".join(chunks(*texts))] if at_once else chunks(*texts)
    transport = httpx.MockTransport(lambda request: httpx.Response(200, stream=Body(body)))
    return Gateway("openai:m", transport=transport).stream(ASK)


async def deltas(stream):
    return [event.delta async for event in stream.events("text")]


BOTH_WAYS = pytest.mark.parametrize(
    "at_once", [False, True], ids=["chunk by chunk", "in one chunk"]
)


@BOTH_WAYS
async def test_only_the_events_that_are_named_are_given(at_once):
    stream = streaming("a", "b", at_once=at_once)
    names = [event.name async for event in stream.events("content_block_stop", "text", "end")]
    assert names == ["text", "text", "content_block_stop", "end"]


async def test_an_unknown_event_name_is_an_error_that_lists_the_names():
    stream = streaming("a")
    with pytest.raises(
        ValueError, match=r"Unknown event 'txt'\. The events are abort, citation, connect"
    ):
        stream.on("txt", print)
    with pytest.raises(ValueError, match="Unknown event 'txt'"):
        await anext(stream.events("text", "txt"))
    with pytest.raises(ValueError, match="Unknown event 'txt'"):
        await stream.emitted("txt")


@BOTH_WAYS
async def test_watchers_at_the_same_time_each_see_all(at_once):
    stream = streaming(*"abc", at_once=at_once)
    heard = []
    stream.on("text", lambda event: heard.append(event.delta))

    async def everything():
        return [event.name async for event in stream]

    texts, names, more, reply = await asyncio.gather(
        deltas(stream), everything(), deltas(stream), stream.final_message()
    )
    assert (texts, more, heard, reply.content) == (list("abc"), list("abc"), list("abc"), "abc")
    assert names.count("text") == 3
    assert (names[0], names[-2:]) == ("connect", ["final_message", "end"])


@pytest.mark.parametrize("who", ["the first", "the second"])
async def test_a_watcher_that_leaves_takes_nothing_from_the_others(who):
    stream = streaming(*"abc")
    first, second = stream.events("text"), stream.events("text")
    seen = [(await anext(first)).delta, (await anext(second)).delta, (await anext(first)).delta]
    leaves, stays = (first, second) if who == "the first" else (second, first)
    await leaves.aclose()  # at this moment nothing waits for either of them
    assert (seen, [event.delta async for event in stays]) == (list("abb"), ["c"])


async def test_whoever_comes_later_sees_what_is_still_to_come():
    stream = streaming(*"abc")
    assert (await stream.emitted("text")).delta == "a"
    assert await deltas(stream) == ["b", "c"]


async def test_a_watcher_that_is_slow_loses_nothing():
    stream = streaming(*"abc")
    slow = stream.events("text")
    assert (await anext(slow)).delta == "a"
    await stream.final_message()
    assert [event.delta async for event in slow] == ["b", "c"]


@BOTH_WAYS
async def test_a_listener_hears_each_event_of_its_name_until_it_is_taken_away(at_once):
    stream = streaming(*"abc", at_once=at_once)
    heard = []

    def listen(event):
        heard.append(event.delta)
        if event.delta == "b":
            stream.off("text", listen)

    assert stream.on("text", listen) is stream
    await stream.final_message()
    assert heard == ["a", "b"]


async def test_a_listener_may_be_added_while_the_stream_runs():
    stream = streaming(*"abc")
    heard = []
    stream.once(
        "text",
        lambda first: stream.on("text", lambda event: heard.append((first.delta, event.delta))),
    )
    await stream.final_message()
    assert heard == [("a", "b"), ("a", "c")]


async def test_a_listener_that_is_wanted_once_hears_one_event():
    stream = streaming(*"abc")
    heard = []
    stream.once("text", heard.append).once("text", heard.append)
    await stream.final_message()
    assert [event.delta for event in heard] == ["a", "a"]


async def test_off_undoes_one_on_or_once():
    stream = streaming(*"ab")
    heard = []
    stream.on("text", heard.append).once("text", heard.append).on("text", heard.append)
    stream.off("text", heard.append).off("end", heard.append)
    await stream.final_message()
    assert [event.delta for event in heard] == ["a", "a", "b"]
    stream.off("text", print)


async def test_a_listener_that_another_takes_away_at_its_last_event_breaks_nothing():
    stream = streaming(*"ab")
    heard = []
    stream.on("text", lambda event: stream.off("text", heard.append)).once("text", heard.append)
    assert (await stream.final_message()).content == "ab"


async def test_an_event_can_be_waited_for():
    stream = streaming(*"ab")
    assert (await stream.emitted("text")).delta == "a"
    assert (await stream.emitted("final_message")).response == await stream.final_message()
    with pytest.raises(LookupError, match="The stream ended without another 'text' event"):
        await stream.emitted("text")


@BOTH_WAYS
async def test_several_events_can_be_waited_for_at_once(at_once):
    stream = streaming(*"ab", at_once=at_once)
    first, message, end = await asyncio.gather(
        stream.emitted("text"), stream.emitted("message"), stream.emitted("end")
    )
    assert (first.delta, message.message.text, end.name) == ("a", "ab", "end")


async def test_waiting_for_an_event_that_a_failure_prevents_raises_the_failure():
    transport = httpx.MockTransport(
        lambda request: httpx.Response(200, stream=Body(chunks("a")[:1]))
    )
    stream = Gateway("openai:m", transport=transport).stream(ASK)
    with pytest.raises(StreamInterrupted, match="ended before the reply was complete"):
        await stream.emitted("final_message")


async def test_what_a_listener_raises_whoever_reads_gets_and_the_stream_goes_on():
    stream = streaming(*"ab")
    heard = []

    def stumble(event):
        raise ZeroDivisionError(event.delta)

    stream.once("text", stumble).on("text", heard.append)
    with pytest.raises(ZeroDivisionError, match="a"):
        await stream.final_message()
    assert [event.delta for event in heard] == ["a"]
    assert (await stream.final_message()).content == "ab"
    assert [event.delta for event in heard] == ["a", "b"]


@BOTH_WAYS
async def test_what_a_listener_raises_costs_the_others_no_event(at_once):
    stream = streaming(*"ab", at_once=at_once)
    heard = []

    def stumble(event):
        raise ZeroDivisionError

    stream.once("text", stumble).on("text", heard.append)
    watching = asyncio.create_task(deltas(stream))
    with pytest.raises(ZeroDivisionError):
        await stream.emitted("end")
    assert (await stream.final_message()).content == "ab"
    assert await watching == ["a", "b"]
    assert [event.delta for event in heard] == ["a", "b"]
