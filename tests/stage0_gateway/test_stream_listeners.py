import asyncio

import pytest

from stage0_gateway import Gateway, StreamInterrupted
from tests.stage0_gateway.replies import DONE, STOP, text
from tests.stage0_gateway.requests import QUESTION
from tests.stage0_gateway.servers import Answers
from tests.tables import for_each


def streaming(*texts, at_once=False):
    """Return the stream of a reply with these texts."""
    chunks = [*map(text, texts), STOP, DONE]
    server = Answers([b"".join(chunks)] if at_once else chunks)
    return Gateway("openai:m", transport=server).stream(QUESTION)


async def deltas(stream):
    return [event.delta async for event in stream.events("text")]


each_arrival = for_each("at_once", [False, True])


@each_arrival
async def test_only_events_with_the_given_names_are_delivered(at_once):
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


@each_arrival
async def test_concurrent_consumers_each_receive_all_events(at_once):
    stream = streaming(*"abc", at_once=at_once)
    received = []
    stream.on("text", lambda event: received.append(event.delta))

    async def everything():
        return [event.name async for event in stream]

    texts, names, more, reply = await asyncio.gather(
        deltas(stream), everything(), deltas(stream), stream.final_message()
    )
    assert (texts, more, received, reply.content) == (list("abc"), list("abc"), list("abc"), "abc")
    assert names.count("text") == 3
    assert (names[0], names[-2:]) == ("connect", ["final_message", "end"])


@for_each("leaving", ["the first", "the second"])
async def test_a_consumer_that_leaves_takes_no_events_from_the_others(leaving):
    stream = streaming(*"abc")
    first, second = stream.events("text"), stream.events("text")
    seen = [(await anext(first)).delta, (await anext(second)).delta, (await anext(first)).delta]
    leaves, stays = (first, second) if leaving == "the first" else (second, first)
    await leaves.aclose()  # neither of them waits at this moment
    assert (seen, [event.delta async for event in stays]) == (list("abb"), ["c"])


async def test_a_late_consumer_receives_the_remaining_events():
    stream = streaming(*"abc")
    assert (await stream.emitted("text")).delta == "a"
    assert await deltas(stream) == ["b", "c"]


async def test_a_slow_consumer_loses_no_event():
    stream = streaming(*"abc")
    slow = stream.events("text")
    assert (await anext(slow)).delta == "a"
    await stream.final_message()
    assert [event.delta async for event in slow] == ["b", "c"]


@each_arrival
async def test_a_listener_receives_each_event_of_its_name_until_it_is_removed(at_once):
    stream = streaming(*"abc", at_once=at_once)
    received = []

    def listen(event):
        received.append(event.delta)
        if event.delta == "b":
            stream.off("text", listen)

    assert stream.on("text", listen) is stream
    await stream.final_message()
    assert received == ["a", "b"]


async def test_a_listener_can_be_added_while_the_stream_runs():
    stream = streaming(*"abc")
    received = []
    stream.once(
        "text",
        lambda first: stream.on("text", lambda event: received.append((first.delta, event.delta))),
    )
    await stream.final_message()
    assert received == [("a", "b"), ("a", "c")]


async def test_a_listener_that_is_added_with_once_receives_one_event():
    stream = streaming(*"abc")
    received = []
    stream.once("text", received.append).once("text", received.append)
    await stream.final_message()
    assert [event.delta for event in received] == ["a", "a"]


async def test_off_removes_one_registration_of_a_listener():
    stream = streaming(*"ab")
    received = []
    stream.on("text", received.append).once("text", received.append).on("text", received.append)
    stream.off("text", received.append).off("end", received.append)
    await stream.final_message()
    assert [event.delta for event in received] == ["a", "a", "b"]
    stream.off("text", print)


async def test_a_listener_can_be_removed_by_another_listener_at_its_last_event():
    stream = streaming(*"ab")
    received = []
    stream.on("text", lambda event: stream.off("text", received.append)).once(
        "text", received.append
    )
    assert (await stream.final_message()).content == "ab"


async def test_emitted_waits_for_an_event():
    stream = streaming(*"ab")
    assert (await stream.emitted("text")).delta == "a"
    assert (await stream.emitted("final_message")).response == await stream.final_message()
    with pytest.raises(LookupError, match="The stream ended without another 'text' event"):
        await stream.emitted("text")


@each_arrival
async def test_several_tasks_can_wait_for_different_events(at_once):
    stream = streaming(*"ab", at_once=at_once)
    first, message, end = await asyncio.gather(
        stream.emitted("text"), stream.emitted("message"), stream.emitted("end")
    )
    assert (first.delta, message.message.text, end.name) == ("a", "ab", "end")


async def test_waiting_for_an_event_raises_the_failure_that_prevents_it():
    stream = Gateway("openai:m", transport=Answers([text("a")])).stream(QUESTION)
    with pytest.raises(StreamInterrupted, match="ended before the reply was complete"):
        await stream.emitted("final_message")


async def test_exceptions_from_a_listener_propagate_to_the_consumer_and_the_stream_continues():
    stream = streaming(*"ab")
    received = []

    def fail(event):
        raise ZeroDivisionError(event.delta)

    stream.once("text", fail).on("text", received.append)
    with pytest.raises(ZeroDivisionError, match="a"):
        await stream.final_message()
    assert [event.delta for event in received] == ["a"]
    assert (await stream.final_message()).content == "ab"
    assert [event.delta for event in received] == ["a", "b"]


@each_arrival
async def test_an_exception_from_a_listener_costs_other_consumers_no_event(at_once):
    stream = streaming(*"ab", at_once=at_once)
    received = []

    def fail(event):
        raise ZeroDivisionError

    stream.once("text", fail).on("text", received.append)
    reading = asyncio.create_task(deltas(stream))
    with pytest.raises(ZeroDivisionError):
        await stream.emitted("end")
    assert (await stream.final_message()).content == "ab"
    assert await reading == ["a", "b"]
    assert [event.delta for event in received] == ["a", "b"]
